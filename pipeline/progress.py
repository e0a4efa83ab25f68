"""How far a run is: kept as figures, and shown as bars, as plain lines or as log records."""

from __future__ import annotations

import logging
import time
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from threading import Lock
from typing import TYPE_CHECKING, Any, Self

from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.progress_bar import ProgressBar
from rich.table import Table

from toolloom.llm.log import note
from toolloom.pipeline.report import dollars
from toolloom.pipeline.screen import text

if TYPE_CHECKING:
    from toolloom.llm.gateway import Stats
    from toolloom.pipeline.stage import Outcome, Stage
    from toolloom.pipeline.store import Mark
    from toolloom.schemas import Recipe

SECONDS_BETWEEN_LINES = 20.0
WINDOW = 30.0  # seconds that speeds are taken over
TICK = 0.25  # seconds between two samples of the counters
BAR = 32  # characters


@dataclass
class StageFigures:
    """One stage. `done` counts records that entered it; each may give several, or none."""

    name: str
    expects: Callable[[int], int | None]
    done: int = 0
    accepted: int = 0
    rejected: int = 0
    requests: int = 0  # that the records of this process took
    worked: int = 0  # records of this process
    finished: bool = False
    total: int | None = None
    sure: bool = False  # `total` is known, not forecast

    def forecast(self, before: StageFigures | None) -> None:
        """Set the total from what the stage before accepted, or will if it goes on like this."""
        if self.finished:
            self.total, self.sure = self.done, True
            return
        coming = before.coming() if before else 0
        self.total = None if coming is None else self.expects(coming)
        self.sure = before is None or before.finished or self.expects(0) == self.expects(1)
        if self.total is not None:
            self.total = max(self.total, self.done)

    def coming(self) -> int | None:
        """How many records it will have accepted in the end."""
        if self.finished or self.total is None:
            return self.accepted if self.finished else None
        rate = self.accepted / self.done if self.done else 1.0
        return round(self.accepted + (self.total - self.done) * rate)

    def requests_left(self) -> float | None:
        """None before it is known what a record takes."""
        if self.finished or self.total == self.done:
            return 0.0
        if self.total is None or not self.worked:
            return None
        return (self.total - self.done) * self.requests / self.worked


@dataclass
class Speed:
    """Counters at several moments, for what happens a second now, not on the average."""

    _seen: deque[tuple[float, int, int, int]] = field(default_factory=deque)
    _lock: Lock = field(default_factory=Lock)

    def sample(self, stats: Stats) -> None:
        now, sent = time.monotonic(), stats.asked
        with self._lock:
            if self._seen and now - self._seen[-1][0] < TICK:
                return
            while len(self._seen) > 1 and self._seen[1][0] < now - WINDOW:
                self._seen.popleft()
            self._seen.append((now, sent, sent + stats.cached, stats.completion_tokens))

    def each_second(self) -> tuple[float, float, float]:
        """Requests sent; answers, cached ones among them; tokens received."""
        with self._lock:
            if len(self._seen) < 2:
                return 0.0, 0.0, 0.0
            (began, *first), (now, *last) = self._seen[0], self._seen[-1]
        sent, answers, tokens = ((b - a) / (now - began) for a, b in zip(first, last, strict=True))
        return sent, answers, tokens


class Watch:
    """Follows a run. `on_start` is called when its work begins, after what it needs is started."""

    def __init__(self) -> None:
        self.stages: dict[str, StageFigures] = {}
        self.speed = Speed()
        self.on_start: Callable[[], None] = lambda: None
        self._stats: Stats | None = None
        self._priced = False
        self._run = ""
        self._began = time.monotonic()
        self._told = self._began

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None: ...

    def say(self, event: str, message: str, **facts: Any) -> None:
        """Tell something that happens once."""
        raise NotImplementedError

    def tell(self) -> None:
        """Tell how far the run is."""
        raise NotImplementedError

    def planned(self, recipe: Recipe, stages: Sequence[Stage]) -> None:
        self.on_start()
        self._run, self._priced = recipe.run_id, bool(recipe.prices)
        self.stages = {s.name: StageFigures(s.name, _expecting(s, recipe)) for s in stages}

    def opened(self, stats: Stats) -> None:
        self._stats = stats

    def worked(self, stage: str, outcome: Outcome) -> None:
        known = self._of(stage)
        known.done += 1
        known.worked += 1
        known.accepted += len(outcome.accepted)
        known.rejected += len(outcome.rejected)
        known.requests += _requests(stage, outcome)
        self._tell_if_due()

    def shard_done(self, stage: str, shard: int, mark: Mark, records: int, fresh: bool) -> None:
        known = self._of(stage)
        if not fresh:
            known.done += records
            known.accepted += mark.accepted
            known.rejected += mark.rejected
        self._tell_if_due()

    def stage_done(self, stage: str, mark: Mark) -> None:
        known = self._of(stage)
        known.accepted, known.rejected, known.finished = mark.accepted, mark.rejected, True
        known.done = known.done or mark.accepted + mark.rejected
        self._told = time.monotonic()
        self.tell()

    def _of(self, stage: str) -> StageFigures:
        return self.stages.setdefault(stage, StageFigures(stage, lambda coming: None))

    def _tell_if_due(self) -> None:
        if self._stats:
            self.speed.sample(self._stats)
        if time.monotonic() - self._told > SECONDS_BETWEEN_LINES:
            self._told = time.monotonic()
            self.tell()

    def figures(self) -> list[StageFigures]:
        """The stages with their totals as far as they can be told now."""
        before: StageFigures | None = None
        stages = list(self.stages.values())  # the bars are drawn by another thread
        for stage in stages:
            stage.forecast(before)
            before = stage
        if self._stats:
            self.speed.sample(self._stats)
        return stages

    @property
    def seconds(self) -> float:
        return time.monotonic() - self._began

    def seconds_left(self) -> float | None:
        """A forecast from the requests that records took so far and the present speed."""
        stages = self.figures()
        left = [stage.requests_left() for stage in stages]
        known = [requests for requests in left if requests is not None]
        answers = self.speed.each_second()[1]
        if self._stats is None or len(known) < len(left) or not answers:
            return None
        # Answers that no finished record accounts for belong to records under way.
        booked = sum(stage.requests for stage in stages)
        ahead = max(0, self._stats.asked + self._stats.cached - booked)
        return max(0.0, sum(known) - ahead) / answers

    def facts(self) -> dict[str, Any]:
        """The counters, the speeds and the time as JSON values; no cost without prices."""
        if self._stats is None:
            return {"seconds": round(self.seconds, 1)}
        sent, _, tokens = self.speed.each_second()
        left = self.seconds_left()
        counted = self._stats
        cost = {"cost": round(counted.cost, 6)} if self._priced else {}
        return {
            "requests": counted.asked,
            "cached": counted.cached,
            "requests_per_second": round(sent, 1),
            "tokens_per_second": round(tokens, 1),
            "retries": counted.retries,
            **cost,
            "seconds": round(self.seconds, 1),
            **({} if left is None or left < 1 else {"seconds_left": round(left)}),
        }


class Screen(Watch):
    """For people: bars on a terminal, now and then a line elsewhere."""

    def __init__(self, console: Console) -> None:
        super().__init__()
        self._console = console
        self._line = ""
        self._live = Live(
            console=console, get_renderable=self._bars, refresh_per_second=4, transient=True
        )

    def __enter__(self) -> Self:
        if self._console.is_terminal:
            self._live.start()
        return self

    def __exit__(self, *error: object) -> None:
        self._live.stop()

    def say(self, event: str, message: str, **facts: Any) -> None:
        self._console.print(text(message), soft_wrap=True)

    def tell(self) -> None:
        """A plain line, where nobody sees the bars."""
        if self._console.is_terminal:
            return
        shown = [s for s in self.figures() if s.done or s.finished]
        line = "; ".join(map(_plain, shown))
        if line != self._line:
            self._line = line
            self._console.print(text(f"{line}; {in_words(self.facts())}"))

    def _bars(self) -> RenderableType:
        table = Table.grid(padding=(0, 2, 0, 0))
        for stage in self.figures():
            table.add_row(*_bar(stage))
        return Group(table, text(in_words(self.facts()), "dim"))


class Journal(Watch):
    """For programs: everything as log records."""

    def say(self, event: str, message: str, **facts: Any) -> None:
        note(logging.INFO, event, message, **facts)

    def planned(self, recipe: Recipe, stages: Sequence[Stage]) -> None:
        super().planned(recipe, stages)
        totals = {stage.name: stage.total for stage in self.figures()}
        note(logging.INFO, "planned", "the run begins", run=self._run, expected=totals)

    def shard_done(self, stage: str, shard: int, mark: Mark, records: int, fresh: bool) -> None:
        super().shard_done(stage, shard, mark, records, fresh)
        counts = {"accepted": mark.accepted, "rejected": mark.rejected, "records": records}
        done = {"run": self._run, "stage": stage, "shard": shard, "fresh": fresh}
        note(logging.DEBUG, "shard", f"{stage}: shard {shard} is done", **done, **counts)

    def stage_done(self, stage: str, mark: Mark) -> None:
        super().stage_done(stage, mark)
        counts = {"accepted": mark.accepted, "rejected": mark.rejected}
        note(logging.INFO, "stage", f"{stage} is done", run=self._run, stage=stage, **counts)

    def tell(self) -> None:
        figures = self.figures()
        message = "; ".join(map(_plain, figures))
        rows = [_row(stage) for stage in figures]
        note(logging.INFO, "progress", message, run=self._run, stages=rows, **self.facts())


def _expecting(stage: Stage, recipe: Recipe) -> Callable[[int], int | None]:
    """How many records enter a stage, from how many the stage before accepted."""
    if stage.expects is None:
        return lambda coming: None if stage.draw else coming
    return lambda coming: stage.expects(recipe, coming) if stage.expects else None


def _requests(stage: str, outcome: Outcome) -> int:
    """What the work took; records that one answer made share an equal provenance."""
    records: Iterator[Any] = iter((*outcome.accepted, *outcome.rejected))
    shares = {p for r in records for p in getattr(r, "provenance", ()) if p.stage == stage}
    return sum(share.requests for share in shares)


def _row(stage: StageFigures) -> dict[str, Any]:
    return {
        "stage": stage.name,
        "done": stage.done,
        "expected": stage.total,
        "forecast": not stage.sure,
        "accepted": stage.accepted,
        "rejected": stage.rejected,
        "finished": stage.finished,
    }


def _plain(stage: StageFigures) -> str:
    counts = f"{stage.name}: {stage.accepted:,} accepted, {stage.rejected:,} rejected"
    through = stage.finished or stage.done == stage.total
    return counts if through else f"{counts} ({_of_total(stage)})"


def _of_total(stage: StageFigures) -> str:
    if stage.total is None:
        return f"{stage.done:,} done"
    return f"{stage.done:,} of {'' if stage.sure else 'about '}{stage.total:,}"


def _bar(stage: StageFigures) -> tuple[RenderableType, ...]:
    # A bar without a total waves; before the stage has begun it is empty.
    total: float | None = max(stage.total or 0, 1)
    if stage.total is None and stage.done:
        total = None
    bar = ProgressBar(
        total,
        total or 0 if stage.finished else stage.done,
        width=BAR,
        style="bright_black",
        complete_style="cyan",
        finished_style="green",
    )
    return (
        text(stage.name),
        bar,
        text(f"{stage.done:,}" if stage.finished else _of_total(stage)),
        text(f"{stage.accepted:,} accepted", "green"),
        text(f"{stage.rejected:,} rejected", "red" if stage.rejected else "dim"),
    )


def in_words(facts: dict[str, Any]) -> str:
    """Counters and speeds as people read them."""
    parts = []
    if "requests" in facts:
        parts = [
            f"{facts['requests']:,} requests",
            f"{facts['cached']:,} from the cache",
            f"{_short(facts['requests_per_second'])} requests/s",
            f"{facts['tokens_per_second']:,.0f} tokens/s",
        ]
        if facts["retries"]:
            parts.append(f"{facts['retries']:,} retries")
        if "cost" in facts:
            parts.append(dollars(facts["cost"]))
    parts.append(f"{facts['seconds']:,.0f} s")
    if "seconds_left" in facts:
        parts.append(f"about {lasting(facts['seconds_left'])} left")
    return ", ".join(parts)


def _short(number: float) -> str:
    return f"{number:,.0f}" if number >= 10 else f"{number:.1f}"


def lasting(seconds: float) -> str:
    """A time as people say it: `48 s`, `12 min`, `3 h 5 min`."""
    if seconds < 100:
        return f"{seconds:.0f} s"
    minutes = round(seconds / 60)
    return f"{minutes} min" if minutes < 100 else f"{minutes // 60} h {minutes % 60} min"
