"""How far a run is, in figures. `Progress` is told what happens and shows nothing itself; what
shows it is derived from it: a terminal and log lines in pages/screen.py, Prefect's page in
orchestration/artifacts.py.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, Self

if TYPE_CHECKING:
    from toolloom.llm.client import Stats
    from toolloom.pipeline.stage import Stage
    from toolloom.pipeline.store.run_folder import Mark
    from toolloom.schemas import Outcome, Recipe

SECONDS_BETWEEN_LINES = 20.0


@dataclass
class StageFigures:
    """One stage. `done` counts records that entered it; each may give several, or none."""

    name: str
    expects: Callable[[int], int | None]
    asks: bool = True  # a model
    beside: bool = False  # what it makes stands beside the rows
    late: bool = False  # it feeds itself, so that its total is a forecast until it is finished
    done: int = 0
    accepted: int = 0
    rejected: int = 0
    requests: int = 0  # that the records took which were worked on since this start of the run
    worked: int = 0  # how many these are, on any machine
    finished: bool = False
    total: int | None = None
    sure: bool = False  # `total` is known, not forecast

    def forecast(self, before: StageFigures | None) -> None:
        """Set the total from what the stage before accepted, or will if it goes on like this."""
        if self.finished:
            self.total, self.sure = self.done, True
            return
        coming = before.coming() if before else 0
        total = None if coming is None else self.expects(coming)
        self.total = None if total is None else max(total, self.done)
        known = before is None or before.finished or self.expects(0) == self.expects(1)
        self.sure = known and not self.late

    def coming(self) -> int | None:
        """How many records it will have accepted in the end."""
        if self.finished or self.total is None:
            return self.accepted if self.finished else None
        rate = self.accepted / self.done if self.done else 1.0
        return round(self.accepted + (self.total - self.done) * rate)

    def requests_left(self) -> float | None:
        """None before it is known what a record takes."""
        if self.finished or not self.asks or self.total == self.done:
            return 0.0
        if self.total is None or not self.worked:
            return None
        return (self.total - self.done) * self.requests / self.worked


class Progress:
    """Told of what happens in a run, while it happens. `on_start` is called when its work begins,
    after what it needs is started."""

    def __init__(self) -> None:
        self.stages: dict[str, StageFigures] = {}
        self.on_start: Callable[[], None] = lambda: None
        self.run = ""
        self._stats: Stats | None = None
        self._priced = False
        self._began = self._shown = time.monotonic()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None: ...

    def say(self, event: str, message: str, **facts: Any) -> None:
        """Show something that happens once."""

    def show(self) -> None:
        """Show how far the run is."""

    def planned(self, recipe: Recipe, stages: Sequence[Stage]) -> None:
        """The run begins."""
        self.on_start()
        self.run, self._priced = recipe.run_id, bool(recipe.prices)
        self.stages = {
            s.name: StageFigures(
                s.name, _expecting(s, recipe), bool(s.agent), s.beside, s.beside and bool(s.feed)
            )
            for s in stages
        }

    def opened(self, stats: Stats) -> None:
        """The gateway's counters, live."""
        self._stats = stats

    def worked(self, stage: str, outcome: Outcome) -> None:
        """A record's outcome, before its shard is on the disk."""
        records: tuple[Any, ...] = (*outcome.accepted, *outcome.rejected)
        # Records of one outcome may share one provenance, which counts once.
        shares = {p for r in records for p in getattr(r, "provenance", ()) if p.stage == stage}
        requests = sum(share.requests for share in shares)
        self._add(stage, 1, len(outcome.accepted), len(outcome.rejected), requests)

    def returned(self, stage: str, entered: int, mark: Mark) -> None:
        """A shard that so many records entered, from another machine: the outcomes of all."""
        self._add(stage, entered, mark.accepted, mark.rejected, mark.use.requests)

    def _add(
        self, stage: str, done: int, accepted: int, rejected: int, requests: int | None = None
    ) -> None:
        """`requests`: None for records of before this start of the run."""
        figures = self.stages[stage]
        figures.done += done
        figures.accepted += accepted
        figures.rejected += rejected
        if requests is not None:
            figures.worked += done
            figures.requests += requests
        if time.monotonic() - self._shown > SECONDS_BETWEEN_LINES:
            self._shown = time.monotonic()
            self.show()

    def shard_done(self, stage: str, shard: int, mark: Mark, records: int, fresh: bool) -> None:
        """A shard of so many records is finished; not `fresh` if an earlier process did it."""
        if not fresh:
            self._add(stage, records, mark.accepted, mark.rejected)

    def stage_done(self, stage: str, mark: Mark) -> None:
        """A stage is complete. Its mark replaces the counts: settling may have rejected some."""
        known = self.stages[stage]
        known.accepted, known.rejected, known.finished = mark.accepted, mark.rejected, True
        known.done = known.done or mark.accepted + mark.rejected
        self._shown = time.monotonic()
        self.show()

    def figures(self) -> list[StageFigures]:
        """The stages with their totals as far as they can be told now."""
        before: StageFigures | None = None
        stages = list(self.stages.values())  # the bars are drawn by another thread
        for stage in stages:
            stage.forecast(before)
            if not stage.beside:
                before = stage
        return stages

    def seconds_left(self) -> float | None:
        """A forecast from the requests that records took so far and the speed so far."""
        stages = self.figures()
        left = [stage.requests_left() for stage in stages]
        answers = self._stats.asked + self._stats.cached if self._stats else 0
        if None in left or not answers:
            return None
        # Requests that no finished record accounts for belong to records under way.
        ahead = max(0, answers - sum(stage.requests for stage in stages))
        return max(0.0, sum(filter(None, left)) - ahead) * self._seconds() / answers

    def _seconds(self) -> float:
        return max(time.monotonic() - self._began, 1e-3)

    def facts(self) -> dict[str, Any]:
        """The counters, the speeds and the time as JSON values; no cost without prices."""
        seconds, stats, left = self._seconds(), self._stats, self.seconds_left()
        if stats is None:
            return {"seconds": round(seconds, 1)}
        return {
            "requests": stats.asked,
            "cached": stats.cached,
            "requests_per_second": round(stats.asked / seconds, 1),
            "tokens_per_second": round(stats.completion_tokens / seconds, 1),
            "retries": stats.retries,
            **({"cost": round(stats.cost, 6)} if self._priced else {}),
            "seconds": round(seconds, 1),
            **({} if left is None or left < 1 else {"seconds_left": round(left)}),
        }


def _expecting(stage: Stage, recipe: Recipe) -> Callable[[int], int | None]:
    """How many records enter a stage, from how many the stage before accepted."""
    if stage.expects:
        return partial(stage.expects, recipe)
    return lambda coming: None if stage.feed else coming
