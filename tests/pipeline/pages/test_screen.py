from __future__ import annotations

import io
from dataclasses import replace
from typing import Any

import pytest
from rich.console import Console
from support import toys

from toolloom.llm.client import Stats
from toolloom.pipeline import run as watching
from toolloom.pipeline.pages.screen import Screen
from toolloom.pipeline.run import Made, Progress, make_dataset
from toolloom.pipeline.stage import Stage
from toolloom.pipeline.store.run_folder import Mark
from toolloom.schemas import Outcome, Reason, Usage

COUNTED = (
    replace(toys.DOMAINS, expects=lambda recipe, _: recipe.apis.domains),
    replace(toys.QUERIES, expects=lambda recipe, _: recipe.queries.count),
    toys.TESTED,
)


def following(stages: tuple[Stage, ...] = COUNTED, **changes: Any) -> Progress:
    watch = Progress()
    watch.planned(toys.recipe(**changes), stages)
    return watch


def good(number: int) -> Outcome:
    return Outcome((toys.query(number),))


def bad(number: int) -> Outcome:
    return Outcome((), (toys.rejected(toys.query(number), "queries", Reason.NEAR_DUPLICATE),))


def totals(watch: Progress) -> list[tuple[int | None, bool]]:
    return [(stage.total, stage.sure) for stage in watch.figures()]


def plain(console: Console) -> list[str]:
    assert isinstance(console.file, io.StringIO)
    return console.file.getvalue().splitlines()


def test_totals_follow_what_the_stage_before_accepts() -> None:
    """A total is what the recipe says, or a forecast from the share that was accepted so far."""
    watch = following()
    assert totals(watch) == [(6, True), (21, True), (21, False)]
    for number in range(10):
        watch.worked("queries", good(number) if number < 5 else bad(number))
    assert totals(watch)[2] == (10, False)
    watch.stage_done("queries", Mark(accepted=12, rejected=9))
    assert totals(watch)[2] == (12, True)


def test_shards_of_an_earlier_process_count_as_done() -> None:
    """Records count once: when they are worked, or when their finished shard is found."""
    watch = following()
    watch.shard_done("queries", 0, Mark(accepted=3, rejected=1), 4, fresh=False)
    watch.worked("queries", good(4))
    watch.shard_done("queries", 1, Mark(accepted=1, rejected=0), 1, fresh=True)
    stage = watch.figures()[1]
    assert (stage.done, stage.accepted, stage.rejected) == (5, 4, 1)


def test_time_left_is_told_once_every_stage_has_shown_its_need(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Requests still to come, by what a record took so far, at the present speed."""
    clock = iter(range(0, 10_000, 2))
    monkeypatch.setattr(watching.time, "monotonic", lambda: float(next(clock)))
    watch, stats = following(), Stats()
    watch.opened(stats)
    watch.stage_done("domains", Mark(accepted=6, rejected=0))
    for number in range(7):
        stats.asked += 2
        watch.worked("queries", good(number))
    assert watch.seconds_left() is None  # no record has been tested yet
    watch.worked("tested", Outcome((toys.sample(),)))
    left = watch.seconds_left()
    assert left is not None
    assert 10 < left < 1000


async def test_a_log_gets_a_line_when_a_stage_ends(tmp_path: Any) -> None:
    """Without a terminal lines are few, and none says what the last one said; where no prices are
    known, none tells dollars."""
    console = Console(file=io.StringIO(), width=1000)
    with Screen(console) as screen:
        made = await make_dataset(toys.recipe(), outputs=tmp_path, stages=COUNTED, progress=screen)
    assert isinstance(made, Made)
    first, second = plain(console)
    assert first.startswith("domains: 5 accepted, 1 rejected; 0 requests, 0 from the cache, ")
    assert "queries: 19 accepted, 2 rejected; tested: 17 accepted, 2 rejected; 0 req" in second
    assert "$" not in first + second


def test_bars_on_a_terminal() -> None:
    """A bar for each stage with its rows, accepted and rejected, and a line of figures."""
    console = Console(file=io.StringIO(), width=120, force_terminal=True, color_system=None)
    screen = Screen(console)
    screen.planned(toys.recipe(prices={"m": {"prompt": 1}}), COUNTED)
    screen.opened(Stats(asked=7, retries=2, used=Usage(cost=0.5)))
    screen.worked("queries", good(0))
    screen._began -= 70
    console.print(screen.bars())
    _, queries, tested, figures = plain(console)
    assert queries.split()[0] == "queries"
    assert queries.endswith("1 of 21        1 accepted  0 rejected")
    assert "0 of about 21" in tested
    assert figures.startswith("7 requests, 0 from the cache, 0.1 requests/s, 0 tokens/s, 2 retries")
    assert "$0.500" in figures
