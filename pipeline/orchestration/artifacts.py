"""What Prefect's page shows of a run: how far it is while it works, and what it came to."""

from __future__ import annotations

import asyncio
import logging
import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self
from uuid import UUID

from prefect.artifacts import (
    acreate_markdown_artifact,
    acreate_progress_artifact,
    aupdate_progress_artifact,
)

from toolloom.llm.messages import note
from toolloom.pipeline.dataset.run_report import Summary
from toolloom.pipeline.pages.screen import in_words, stage_in_words
from toolloom.pipeline.progress import Progress, StageFigures
from toolloom.pipeline.render.markdown import cell, markdown
from toolloom.pipeline.render.section import Section, dollars
from toolloom.pipeline.run import Made
from toolloom.pipeline.store.run_folder import RunFolder, begun_with
from toolloom.pipeline.store.secrets import SECRETS
from toolloom.pipeline.store.version import find_version
from toolloom.schemas import NothingFound, Recipe

if TYPE_CHECKING:
    from toolloom.pipeline.stage import Stage

SECONDS_BETWEEN_UPDATES = 3.0
MOST_REASONS = 3  # that a message names
MOST_BEFORE_THE_END = 99.0  # percent


def key_of(dataset: str, part: str = "") -> str:
    """An artifact's key: artifacts of one key are shown as versions of each other."""
    return f"toolloom-{dataset}{part}"


class Live(Progress):
    """Follows a run on Prefect's page. Whatever happens to the page, the run goes on."""

    def __init__(self, dataset: str) -> None:
        super().__init__()
        self._key = key_of(dataset, "-progress")
        self._described: tuple[float, str] = (0.0, "")
        self._artifact: UUID | None = None
        self._updating: asyncio.Task[None] | None = None
        self._given: set[str] = set()

    def planned(self, recipe: Recipe, stages: Sequence[Stage]) -> None:
        super().planned(recipe, stages)
        adds = recipe.regenerate is not None
        self._given = set(begun_with(adds, [stage.name for stage in stages]))

    def _own(self) -> list[StageFigures]:
        """The stages that the run does itself."""
        return [stage for stage in self.figures() if stage.name not in self._given]

    def say(self, event: str, message: str, **facts: Any) -> None:
        note(logging.INFO, event, message, **facts)

    async def __aenter__(self) -> Self:
        self._updating = asyncio.create_task(self._update_again_and_again())
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        at: TracebackType | None,
    ) -> None:
        if self._updating:
            self._updating.cancel()
            await asyncio.wait([self._updating])
        await self._update(percent(self._own()) if error else 100.0)

    async def _update_again_and_again(self) -> None:
        while True:
            await self._update(min(MOST_BEFORE_THE_END, percent(self._own())))
            await asyncio.sleep(SECONDS_BETWEEN_UPDATES)

    async def _update(self, done: float) -> None:
        now = (round(done, 1), SECRETS.hide(described(self._own(), self.facts())))
        if now == self._described:
            return
        try:
            if self._artifact is None:
                self._artifact = await acreate_progress_artifact(now[0], self._key, now[1])
            else:
                await aupdate_progress_artifact(self._artifact, now[0], now[1])
            self._described = now
        except Exception as error:  # noqa: BLE001 - of any library on the way to it
            note(logging.WARNING, "page", f"the page cannot be updated: {error!r}")


def percent(stages: list[StageFigures]) -> float:
    """How much is done: the mean of the stages that ask models, as they take the time."""
    asking = [stage for stage in stages if stage.asks] or stages
    shares = [1.0 if s.finished else s.done / s.total if s.total else 0.0 for s in asking]
    return 100 * sum(shares) / len(shares) if shares else 0.0


def described(stages: list[StageFigures], facts: dict[str, Any]) -> str:
    """The counters and the stages, as Markdown. A card shows the first line alone."""
    lines = [f"- {cell(stage_in_words(stage))}" for stage in stages if stage.done or stage.finished]
    return "\n".join([cell(in_words(facts)), "", *(lines or ["- The run begins."])])


def ended(made: Made, outputs: Path) -> str:
    """What a finished run came to, as one line: the message of its flow run's state."""
    counts, run = made.summary.counts, RunFolder(Path(made.summary.path))
    if made.published is not None:
        rows = "rows more" if run.recipe.regenerate else "rows"
        first = "" if run.recipe.regenerate else "its first "
        return f"{made.published.label}: {first}{counts.made:,} {rows}"
    try:
        version = find_version(outputs, run.recipe.name)
        stays = f"{version.name} stays at {version.number}"
    except NothingFound:
        stays = f"{run.recipe.name} has no version yet"
    reasons = [f"{n:,} {reason}" for reason, n in counts.reasons.items()][:MOST_REASONS]
    why = f"{counts.rejected:,} records were rejected ({', '.join(reasons)})"
    return f"{stays}: nothing was accepted, {why if reasons else 'none was drawn'}."


async def publish_summary(dataset: str, message: str, made: Made) -> None:
    """Put the summary of a finished run on its page."""
    try:
        await acreate_markdown_artifact(
            SECRETS.hide(summary(message, made)), key_of(dataset), SECRETS.hide(message)
        )
    except Exception as error:  # noqa: BLE001 - of any library on the way to it
        note(logging.WARNING, "page", f"the summary cannot be put on the page: {error!r}")


def summary(message: str, made: Made) -> str:
    """What a finished run came to, as Markdown."""
    did = made.summary
    stages = [stage for stage in did.counts.stages if not stage.given]  # that it did itself
    models = ", ".join(did.counts.unpriced) if did.counts.priced else ""
    lacking = f"The cost lacks that of {models}: the recipe has no price for it." if models else ""
    sections = [
        Section(
            head=("Stage", "Agent", "Accepted", "Rejected", "Requests"),
            rows=[(s.name, s.agent or "–", s.accepted, s.rejected, s.use.requests) for s in stages],
        ),
        Section(head=("Rejected because", "Records"), rows=[*did.counts.reasons.items()]),
        _took(did),
        Section(note=lacking),
    ]
    head = f"# {cell(message)}"
    parts = [head, *_version(made), markdown(sections), f"Run `{did.run}`"]
    return "\n\n".join(filter(None, parts))


def _version(made: Made) -> Iterator[str]:
    if made.published is None:
        return
    where = str(made.published.path.absolute())
    link = where if "://" in where else Path(where).as_uri()
    yield f"Dataset version [{cell(made.published.label)}](<{link}>). Load it with:"
    text = f"import datasets\n{made.published.load_line}"
    fence = "`" * max(3, 1 + max(map(len, re.findall("`+", text)), default=0))
    yield f"{fence}python\n{text}\n{fence}"


def _took(summary: Summary) -> Section:
    """What this run did, and what its records took in all, earlier runs and the cache included."""
    counts = summary.counts
    cost, whole = [], []
    if counts.priced:
        cost, whole = [dollars(summary.cost)], [dollars(counts.use.cost)]
    tokens = counts.use.prompt_tokens + counts.use.completion_tokens
    time = f"{summary.seconds:,.1f} s"
    return Section(
        head=("", "Requests", "From the cache", "Tokens", *(["Cost"] if cost else []), "Time"),
        rows=[
            ("This run", summary.asked, summary.cached, summary.tokens, *cost, time),
            ("Its records in all", counts.use.requests, "", tokens, *whole, ""),
        ],
    )
