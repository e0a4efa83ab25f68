"""Flow runs whose process was killed: found, and scheduled again, so that they end themselves.

Neither Prefect's server nor its workers notice that a worker and its flow run were killed: the
run stays `Running` for ever. The claim on the dataset (claims.py) tells. A run that was still
`Pending`, or `Running` without a claim, had not begun its work; it is known by its age.
"""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime
from typing import TYPE_CHECKING
from uuid import UUID

from prefect.client.schemas.filters import (
    DeploymentFilter,
    DeploymentFilterId,
    FlowRunFilter,
    FlowRunFilterState,
    FlowRunFilterStateType,
)
from prefect.client.schemas.objects import StateType
from prefect.exceptions import ObjectNotFound
from prefect.states import AwaitingRetry, Crashed

from toolloom.llm.cache import address
from toolloom.pipeline.orchestration.claims import Claim, read_claim
from toolloom.pipeline.store.locks import hold_dataset
from toolloom.pipeline.store.outputs import opened
from toolloom.schemas import ToolloomError, overridden

if TYPE_CHECKING:
    from prefect.client.orchestration import PrefectClient
    from prefect.client.schemas.objects import FlowRun

STARTING = 60.0  # seconds in which a flow run that is about to start has claimed its dataset
NOT_BEGUN = "The process that was to start it was killed."
AGAIN = "Its process was killed. It goes on where it stopped, and asks nothing again."


async def find(client: PrefectClient, flow_run: str) -> FlowRun | None:
    """A flow run, if this server knows it."""
    try:
        return await client.read_flow_run(UUID(flow_run))
    except (ObjectNotFound, ValueError):
        return None


async def reschedule(client: PrefectClient, flow_run: UUID, message: str = AGAIN) -> None:
    """The same flow run once more, as soon as its deployment's worker has a place for it."""
    await client.set_flow_run_state(flow_run, AwaitingRetry(message=message), force=True)


async def settle(client: PrefectClient, claim: Claim, mine: FlowRun) -> bool:
    """What becomes of the flow run that a claim names, if it was killed: whether it goes on.

    One of the same deployment is scheduled again, as whoever started this run will start it too;
    if another run has done that just now it is left to begin. Any other is ended, and this run does
    its work.
    """
    killed = await find(client, claim.flow_run)
    if killed is None or killed.state is None or killed.id == mine.id:
        return False
    if killed.deployment_id and killed.deployment_id == mine.deployment_id:
        about_to_start = killed.state.is_scheduled() or killed.state.is_pending()
        if killed.state.is_running() or (about_to_start and _age(killed) >= STARTING):
            await reschedule(client, killed.id)
        if killed.state.is_running() or about_to_start:
            return True
    if not killed.state.is_final():
        told = f"Its process was killed. “{mine.name}” goes on with its work."
        await client.set_flow_run_state(killed.id, Crashed(message=told), force=True)
    return False


async def revive(client: PrefectClient, deployment: UUID, older: float = 0.0) -> list[str]:
    """Schedule the flow runs of a deployment again that a killed process left behind; their names.

    Those that run for less than `older` seconds are left alone: to ask who holds a dataset keeps
    a run that is about to hold it from its work.
    """
    running = await _in_state(client, deployment, StateType.RUNNING)
    killed = [run for run in running if _age(run) >= older and await _was_killed(run)]
    for run in killed:
        await reschedule(client, run.id)
    late = [run for run in await _pending(client, deployment) if _age(run) >= STARTING]
    for run in late:
        await reschedule(client, run.id, NOT_BEGUN)
    return [run.name for run in (*killed, *late)]


async def revive_others(client: PrefectClient, mine: FlowRun) -> None:
    """`revive`, from a flow run of the same deployment.

    Waits until those that may be starting just now have had their time.
    """
    if mine.deployment_id is None:
        return
    while not await revive(client, mine.deployment_id, older=STARTING):
        if not await _pending(client, mine.deployment_id):
            return
        await asyncio.sleep(STARTING / 30)


async def _was_killed(run: FlowRun) -> bool:
    """Whether nobody holds its dataset, though it has claimed it or had the time to."""
    given = run.parameters
    try:
        recipe = overridden(given["recipe"], given.get("overrides") or {})
        # Most are at work, which is told by the lock alone: a store is not asked for that.
        outputs = await asyncio.to_thread(opened, given["outputs"], refresh=False)
        with hold_dataset(outputs, recipe.name, address(outputs)):
            pass
        outputs = await asyncio.to_thread(opened, given["outputs"])
        with hold_dataset(outputs, recipe.name, address(outputs)):
            claim = read_claim(outputs, recipe.name)
    except (KeyError, ToolloomError):  # at work, not one of ours, or nobody can tell
        return False
    return _age(run) >= STARTING or (claim is not None and claim.flow_run == str(run.id))


def _age(run: FlowRun) -> float:
    """Seconds in its state."""
    since = run.state.timestamp if run.state else datetime.now(UTC)
    return (datetime.now(UTC) - since).total_seconds()


async def _pending(client: PrefectClient, deployment: UUID) -> list[FlowRun]:
    return await _in_state(client, deployment, StateType.PENDING)


async def _in_state(client: PrefectClient, deployment: UUID, state: StateType) -> list[FlowRun]:
    return await client.read_flow_runs(
        flow_run_filter=FlowRunFilter(
            state=FlowRunFilterState(type=FlowRunFilterStateType(any_=[state]))
        ),
        deployment_filter=DeploymentFilter(id=DeploymentFilterId(any_=[deployment])),
    )
