"""The two printers of a run's progress: bars or lines for people, log records for programs."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from typing import Any, Self

from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.progress_bar import ProgressBar
from rich.table import Table

from toolloom.llm.messages import note
from toolloom.pipeline.render.section import dollars
from toolloom.pipeline.render.terminal import text
from toolloom.pipeline.run import Progress, StageFigures
from toolloom.pipeline.stage import Stage
from toolloom.pipeline.store.run_folder import Mark
from toolloom.schemas import Recipe

BAR = 32  # characters


class Screen(Progress):
    """For people: bars on a terminal, now and then a line elsewhere."""

    def __init__(self, console: Console) -> None:
        super().__init__()
        self._console, self._line = console, ""
        self._live = Live(
            console=console, get_renderable=self.bars, refresh_per_second=4, transient=True
        )

    def __enter__(self) -> Self:
        if self._console.is_terminal:
            self._live.start()
        return self

    def __exit__(self, *error: object) -> None:
        self._live.stop()

    def say(self, event: str, message: str, **facts: Any) -> None:
        self._console.print(text(message), soft_wrap=True)

    def show(self) -> None:
        """A plain line, where nobody sees the bars."""
        line = "; ".join(stage_in_words(s) for s in self.figures() if s.done or s.finished)
        if not self._console.is_terminal and line != self._line:
            self._line = line
            self._console.print(text(f"{line}; {in_words(self.facts())}"))

    def bars(self) -> RenderableType:
        table = Table.grid(padding=(0, 2, 0, 0))
        for stage in self.figures():
            total = max(stage.total or 0, 1)
            unknown = stage.total is None and stage.done > 0  # the bar waves
            bar = ProgressBar(
                None if unknown else total,
                total if stage.finished else stage.done,
                width=BAR,
                style="bright_black",
                complete_style="cyan",
                finished_style="green",
            )
            table.add_row(
                text(stage.name),
                bar,
                text(f"{stage.done:,}" if stage.finished else _of_total(stage)),
                text(f"{stage.accepted:,} accepted", "green"),
                text(f"{stage.rejected:,} rejected", "red" if stage.rejected else "dim"),
            )
        return Group(table, text(in_words(self.facts()), "dim"))


class LogProgress(Progress):
    """For programs: everything as log records."""

    def say(self, event: str, message: str, **facts: Any) -> None:
        note(logging.INFO, event, message, **facts)

    def planned(self, recipe: Recipe, stages: Sequence[Stage]) -> None:
        super().planned(recipe, stages)
        totals = {stage.name: stage.total for stage in self.figures()}
        self.say("planned", "the run begins", run=self.run, expected=totals)

    def shard_done(self, stage: str, shard: int, mark: Mark, records: int, fresh: bool) -> None:
        super().shard_done(stage, shard, mark, records, fresh)
        counts = {"accepted": mark.accepted, "rejected": mark.rejected, "records": records}
        done = {"run": self.run, "stage": stage, "shard": shard, "fresh": fresh}
        note(logging.DEBUG, "shard", f"{stage}: shard {shard} is done", **done, **counts)

    def stage_done(self, stage: str, mark: Mark) -> None:
        super().stage_done(stage, mark)
        counts = {"accepted": mark.accepted, "rejected": mark.rejected}
        self.say("stage", f"{stage} is done", run=self.run, stage=stage, **counts)

    def show(self) -> None:
        figures = self.figures()
        rows = [
            {
                "stage": stage.name,
                "done": stage.done,
                "expected": stage.total,
                "forecast": not stage.sure,
                "accepted": stage.accepted,
                "rejected": stage.rejected,
                "finished": stage.finished,
            }
            for stage in figures
        ]
        words = "; ".join(map(stage_in_words, figures))
        self.say("progress", words, run=self.run, stages=rows, **self.facts())


def stage_in_words(stage: StageFigures) -> str:
    counts = f"{stage.name}: {stage.accepted:,} accepted, {stage.rejected:,} rejected"
    through = stage.finished or stage.done == stage.total
    return counts if through else f"{counts} ({_of_total(stage)})"


def _of_total(stage: StageFigures) -> str:
    if stage.total is None:
        return f"{stage.done:,} done"
    return f"{stage.done:,} of {'' if stage.sure else 'about '}{stage.total:,}"


def in_words(facts: dict[str, Any]) -> str:
    """Counters and speeds as people read them."""
    parts = []
    if "requests" in facts:
        speed = facts["requests_per_second"]
        parts = [
            f"{facts['requests']:,} requests",
            f"{facts['cached']:,} from the cache",
            f"{speed:,.{0 if speed >= 10 else 1}f} requests/s",
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


def lasting(seconds: float) -> str:
    """A time as people say it: `48 s`, `12 min`, `3 h 5 min`."""
    if seconds < 100:
        return f"{seconds:.0f} s"
    minutes = round(seconds / 60)
    return f"{minutes} min" if minutes < 100 else f"{minutes // 60} h {minutes % 60} min"
