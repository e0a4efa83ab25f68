"""One scheduled run: what it does about others, the state it ends in, and how a killed one goes on.

A run that finds somebody at work, or nothing to go on with, ends as `Skipped`; one that something
stopped which a user can act on ends as `Failed`, with that as its message. Nothing is tried again
before the next run, which goes on where this one stopped.

Neither Prefect's server nor its workers notice that a worker and its flow run were killed: the run
stays `Running` for ever. What tells is the claim of a run on its dataset, a file beside its
versions,

    <outputs>/datasets/<name>/growing.json

which is written by whoever holds the dataset and removed at every orderly end. So if nobody holds
it and the file names a flow run, the process of that run was killed, and it is scheduled again. A
run that was still `Pending`, or `Running` without a claim, had not begun its work; it is known by
its age. On a busy machine it may only be slow: then two processes have the same flow run, and the
one that comes second waits for the first.
"""

from __future__ import annotations

import asyncio
import signal
import threading
import time
from collections.abc import Awaitable, Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias
from uuid import UUID

from prefect.client.orchestration import get_client
from prefect.client.schemas.filters import (
    DeploymentFilter,
    DeploymentFilterId,
    FlowRunFilter,
    FlowRunFilterState,
    FlowRunFilterStateType,
)
from prefect.client.schemas.objects import State, StateType
from prefect.context import FlowRunContext
from prefect.exceptions import ObjectNotFound
from prefect.states import AwaitingRetry, Completed, Crashed, Failed
from pydantic import Field

from toolloom.pipeline.dataset.publish import publish
from toolloom.pipeline.dataset.report import summarise
from toolloom.pipeline.growth import plan_growth
from toolloom.pipeline.orchestration.artifacts import Live, publish_summary
from toolloom.pipeline.orchestration.secrecy import hidden, hide_in_logs, on_page
from toolloom.pipeline.progress import Progress
from toolloom.pipeline.run import Made
from toolloom.pipeline.store.files import read_records, record_line, write_lines
from toolloom.pipeline.store.locks import hold_dataset
from toolloom.pipeline.store.run_folder import RunFolder
from toolloom.pipeline.store.secrets import SECRETS
from toolloom.pipeline.store.sync import working_folder
from toolloom.pipeline.store.version import find_version
from toolloom.schemas import (
    Busy,
    NothingFound,
    Recipe,
    Record,
    StoreError,
    ToolloomError,
    overridden,
)

if TYPE_CHECKING:
    from prefect.client.orchestration import PrefectClient
    from prefect.client.schemas.objects import FlowRun

Work: TypeAlias = Callable[[Recipe, Progress], Awaitable[Made]]
"""Carries out a plan and publishes it."""

FILE = "growing.json"
SECONDS_BETWEEN_LOOKS = 2.0  # for a server that is away, and a dataset that is held
LOOKING = 30.0  # seconds for which one that only looks after killed runs may hold a dataset
STARTING = 60.0  # seconds in which a flow run that is about to start has claimed its dataset
MOST_REASONS = 3  # that a message names
NOT_BEGUN = "The process that was to start it was killed."
AGAIN = "Its process was killed. It goes on where it stopped, and asks nothing again."


class FlowClaim(Record):
    """A flow run that works, or was killed at work."""

    flow_run: str = Field(description="Its id on Prefect's server.")
    name: str = Field(description="Its name there.")
    run: str = Field(default="", description="The run it carries out, once that is planned.")
    attempt: int | None = Field(
        default=None, description="How often it was begun, with the process that claims."
    )


@dataclass(frozen=True)
class ScheduledRun:
    """One run: the dataset that it grows, and what it may do."""

    recipe: Recipe
    outputs: Path
    split: str
    unfinished: bool  # only go on with what a killed run left

    async def run(self, work: Work) -> State[Any]:
        """Grow the dataset by a version, if something is accepted; the state to end in."""
        async with get_client() as client:
            context = FlowRunContext.get()
            if context is None or context.flow_run is None:
                raise RuntimeError("this is no flow run of Prefect's")
            # As it was counted for this attempt.
            mine = await client.read_flow_run(context.flow_run.id)
            with ExitStack() as holding:
                try:
                    ended = await self._hold(client, mine, holding)
                    state = ended or await self._alone(client, mine, work)
                except Busy as error:
                    state = skipped(self._busy(error))
            if self.unfinished:
                await revive_others(client, mine)
        return state

    async def _hold(
        self, client: PrefectClient, mine: FlowRun, holding: ExitStack
    ) -> State[Any] | None:
        """Hold the dataset for as long as `holding` lasts. Raises Busy if another run is at work.

        Who holds it and claims nothing may only look, and is waited for. If it is claimed by this
        very flow run another process has begun it; when that has ended, so has the flow run, in
        the state that is given back.
        """
        until, twice = time.monotonic() + LOOKING, False
        while True:
            try:
                holding.enter_context(hold_dataset(self.outputs, self.recipe.name))
                break
            except Busy:
                claim = read_claim(self.outputs, self.recipe.name)
                looks = claim is None and not self.unfinished and time.monotonic() < until
                twice = twice or (claim is not None and claim.flow_run == str(mine.id))
                if not (looks or twice):
                    raise
            await asyncio.sleep(SECONDS_BETWEEN_LOOKS / 10)
        ended = (await client.read_flow_run(mine.id)).state if twice else None
        if ended is None or not ended.is_final():
            return None
        # As a new one: Prefect sums up states that are those of runs.
        return State(type=ended.type, name=ended.name, message=ended.message)

    async def _alone(self, client: PrefectClient, mine: FlowRun, work: Work) -> State[Any]:
        """What is done while the dataset is held."""
        left = read_claim(self.outputs, self.recipe.name)
        if left and await settle(client, left, mine):
            return skipped(f"“{left.name}” was killed at its work and goes on with it.")
        if self.unfinished and left is None:
            return skipped(f"No run of {self.recipe.name} was killed: there is nothing to finish.")
        again = left.run if left and left.flow_run == str(mine.id) else ""
        claim = FlowClaim(flow_run=str(mine.id), name=mine.name, run=again, attempt=mine.run_count)
        with claimed(self.outputs, self.recipe.name, claim):
            planned = plan_growth(self.outputs, self.recipe, self.split)
            made = self._made_before(again, planned)
            if made is None:
                claim = claim.model_copy(update={"run": planned.run_id})
                write_claim(self.outputs, self.recipe.name, claim)
                with on_page():
                    async with Live(self.recipe.name) as watch:
                        made = await work(planned, watch)
            message = self._told(made)
            # The claim stays till the state can be told.
            while await client.api_healthcheck():  # noqa: ASYNC110 - what is wrong, if anything
                await asyncio.sleep(SECONDS_BETWEEN_LOOKS)
            await publish_summary(self.recipe.name, message, made)
        return Completed(message=message)

    def _made_before(self, run: str, planned: Recipe) -> Made | None:
        """What this flow run made before it was killed, if that was all but telling it.

        The plan is for the growth after it then, which nobody has asked for.
        """
        if run in ("", planned.run_id):
            return None
        folder = RunFolder(self.outputs / "runs" / run)
        if not _finished(folder):
            return None
        summary = summarise(folder)
        return Made(summary, publish(folder, self.outputs) if summary.counts.made else None)

    def _told(self, made: Made) -> str:
        """What a finished run came to, as one line."""
        counts, run = made.summary.counts, RunFolder(Path(made.summary.path))
        if made.published is None:
            reasons = [f"{n:,} {reason}" for reason, n in counts.reasons.items()][:MOST_REASONS]
            why = f"{counts.rejected:,} records were rejected ({', '.join(reasons)})"
            return f"{self._stays()}: nothing was accepted, {why if reasons else 'none was drawn'}."
        if run.recipe.regenerate is None:
            return f"{made.published.label}: its first {counts.made:,} rows"
        return f"{made.published.label}: {counts.made:,} rows more"

    def _stays(self) -> str:
        try:
            found = find_version(self.outputs, self.recipe.name)
        except NothingFound:
            return f"{self.recipe.name} has no version yet"
        return f"{found.name} stays at {found.number}"

    def _busy(self, error: Busy) -> str:
        """Who holds the dataset: a flow run, or whoever the lock tells of."""
        claim = read_claim(self.outputs, self.recipe.name)
        if claim is None:
            return str(error)
        return f"“{claim.name}” is at work on {self.recipe.name}: it never grows twice at once."


def skipped(message: str) -> State[Any]:
    """No work was done, and nothing is wrong."""
    return Completed(name="Skipped", message=SECRETS.hide(message))


async def told(work: Awaitable[State[Any]]) -> State[Any]:
    """The state of a flow: for what a user can act on a failed one, with that as its message.

    What else is raised is a fault of ours, and is passed on.
    """
    # SIGTERM cancels this task, which lets go of the dataset in order. Prefect's handler raises
    # wherever the process just stands; in a callback of the event loop that is swallowed, and the
    # run hangs until it is killed half a minute later.
    task = asyncio.current_task()
    if task and threading.current_thread() is threading.main_thread():
        asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, task.cancel)
    hide_in_logs()
    try:
        with hidden():
            return await work
    except ToolloomError as error:
        return Failed(message=str(error))


def _finished(folder: RunFolder) -> bool:
    try:
        stages = [folder.stage(stage.name) for stage in folder.plan]
    except StoreError:  # it was planned, and not begun
        return False
    return bool(stages) and all(stage.mark for stage in stages)


def read_claim(outputs: Path, dataset: str) -> FlowClaim | None:
    """The claim on a dataset; None also for one that was half written when the power failed."""
    path = _path(outputs, dataset)
    try:
        return next(read_records(path, FlowClaim), None) if path.exists() else None
    except StoreError:
        return None


def write_claim(outputs: Path, dataset: str, claim: FlowClaim) -> None:
    """Whoever writes it holds the dataset's lock."""
    write_lines(_path(outputs, dataset), [record_line(claim)])


@contextmanager
def claimed(outputs: Path, dataset: str, claim: FlowClaim) -> Iterator[None]:
    """Claim the dataset until the work ends, well or not; a kill leaves the claim."""
    write_claim(outputs, dataset, claim)
    try:
        yield
    finally:
        _path(outputs, dataset).unlink(missing_ok=True)


def _path(outputs: Path, dataset: str) -> Path:
    return outputs / "datasets" / dataset / FILE


async def find(client: PrefectClient, flow_run: str) -> FlowRun | None:
    """A flow run, if this server knows it."""
    try:
        return await client.read_flow_run(UUID(flow_run))
    except (ObjectNotFound, ValueError):
        return None


async def reschedule(client: PrefectClient, flow_run: UUID, message: str = AGAIN) -> None:
    """The same flow run once more, as soon as its deployment's worker has a place for it."""
    await client.set_flow_run_state(flow_run, AwaitingRetry(message=message), force=True)


async def settle(client: PrefectClient, claim: FlowClaim, mine: FlowRun) -> bool:
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
        if killed.state.is_running():  # again, and has not claimed it yet?
            about_to_start = claim.attempt is not None and killed.run_count > claim.attempt
        if about_to_start or killed.state.is_running():
            if not about_to_start or _age(killed) >= STARTING:
                await reschedule(client, killed.id)
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
        outputs = working_folder(given["outputs"])
        with hold_dataset(outputs, recipe.name):
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
