"""One scheduled run: what it does about others, and the state it ends in.

A run that finds somebody at work, or nothing to go on with, ends as `Skipped`; one that something
stopped which a user can act on ends as `Failed`, with that as its message. Nothing is tried again
before the next run, which goes on where this one stopped.
"""

from __future__ import annotations

import asyncio
import signal
import threading
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

from prefect.client.orchestration import get_client
from prefect.context import FlowRunContext
from prefect.states import Completed, Failed

from toolloom.llm.cache import address
from toolloom.pipeline.dataset.publish import publish
from toolloom.pipeline.dataset.report import summarise
from toolloom.pipeline.job import Progress
from toolloom.pipeline.orchestration.artifacts import Live, publish_summary
from toolloom.pipeline.orchestration.claims import Claim, claimed, read_claim, write_claim
from toolloom.pipeline.orchestration.revival import revive_others, settle
from toolloom.pipeline.orchestration.secrecy import hidden, hide_in_logs, on_page
from toolloom.pipeline.regenerate import plan_growth
from toolloom.pipeline.runner import Made
from toolloom.pipeline.store.locks import hold_dataset
from toolloom.pipeline.store.mirror import fetch
from toolloom.pipeline.store.run import RunFolder
from toolloom.pipeline.store.secrets import SECRETS
from toolloom.pipeline.store.version import find_version
from toolloom.schemas import Busy, NothingFound, Recipe, StoreError, ToolloomError

if TYPE_CHECKING:
    from prefect.client.orchestration import PrefectClient
    from prefect.client.schemas.objects import FlowRun, State

Work: TypeAlias = Callable[[Recipe, Progress], Awaitable[Made]]
"""Carries out a plan and publishes it."""

SECONDS_BETWEEN_LOOKS = 2.0  # for a server that is away
MOST_REASONS = 3  # that a message names


@dataclass(frozen=True)
class Growth:
    """One run: the dataset that it grows, and what it may do."""

    recipe: Recipe
    outputs: Path
    split: str
    unfinished: bool  # only go on with what a killed run left

    async def run(self, work: Work) -> State[Any]:
        """Grow the dataset by a version, if something is accepted; the state to end in."""
        mine, cache = _flow_run(), address(self.outputs)
        async with get_client() as client:
            try:
                with hold_dataset(self.outputs, self.recipe.name, cache):
                    state = await self._alone(client, mine, work)
            except Busy as error:
                state = skipped(self._busy(error))
            if self.unfinished:
                await revive_others(client, mine)
        return state

    async def _alone(self, client: PrefectClient, mine: FlowRun, work: Work) -> State[Any]:
        """What is done while the dataset is held."""
        left = read_claim(self.outputs, self.recipe.name)
        if left and await settle(client, left, mine):
            return skipped(f"“{left.name}” was killed at its work and goes on with it.")
        if self.unfinished and left is None:
            return skipped(f"No run of {self.recipe.name} was killed: there is nothing to finish.")
        again = left.run if left and left.flow_run == str(mine.id) else ""
        claim = Claim(flow_run=str(mine.id), name=mine.name, run=again)
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
            await _until_reachable(client)  # the claim stays till the state can be told
            await publish_summary(self.recipe.name, message, made)
        return Completed(message=message)

    def _made_before(self, run: str, planned: Recipe) -> Made | None:
        """What this flow run made before it was killed, if that was all but telling it.

        The plan is for the growth after it then, which nobody has asked for.
        """
        if run in ("", planned.run_id):
            return None
        folder = RunFolder(self.outputs / "runs" / run)
        fetch(folder.path)
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
    _end_by_cancelling()
    hide_in_logs()
    try:
        with hidden():
            return await work
    except ToolloomError as error:
        return Failed(message=str(error))


async def _until_reachable(client: PrefectClient) -> None:
    while await client.api_healthcheck():  # noqa: ASYNC110 - what is wrong, if anything
        await asyncio.sleep(SECONDS_BETWEEN_LOOKS)


def _end_by_cancelling() -> None:
    """SIGTERM cancels this task, which lets go of the dataset in order.

    Prefect's handler raises wherever the process just stands. In a callback of the event loop that
    is swallowed, and the run hangs until it is killed half a minute later.
    """
    task = asyncio.current_task()
    if task and threading.current_thread() is threading.main_thread():
        asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, task.cancel)


def _finished(folder: RunFolder) -> bool:
    try:
        stages = [folder.stage(stage.name) for stage in folder.plan]
    except StoreError:  # it was planned, and not begun
        return False
    return bool(stages) and all(stage.mark for stage in stages)


def _flow_run() -> FlowRun:
    context = FlowRunContext.get()
    if context is None or context.flow_run is None:
        raise RuntimeError("this is no flow run of Prefect's")
    return context.flow_run
