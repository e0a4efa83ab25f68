from __future__ import annotations

from io import StringIO
from pathlib import Path
from typing import Any

from rich.console import Console
from support import toys

from toolloom.pipeline.dataset.figures import Covered
from toolloom.pipeline.dataset.report import Combinations, Counts, Coverage, count
from toolloom.pipeline.pages.sections import counts_sections
from toolloom.pipeline.render.terminal import view
from toolloom.pipeline.store.files import record_line
from toolloom.pipeline.store.run import PlannedStage, RunFolder
from toolloom.schemas import Intention, Level, Query, Reason, Scenario, Usage


def asking(number: int, *names: str, **changes: Any) -> Query:
    apis = tuple(toys.api(name=name) for name in names)
    intent = tuple(Intention(api=api.id, arguments={}) for api in apis)
    return toys.query(number, pool=apis, intent=intent, **changes)


def a_run(path: Path) -> RunFolder:
    """Five APIs; of four queries one is rejected at once, one later."""
    folder = RunFolder(path / "toy")
    names = ("apis", "queries", "tested")
    folder.open(toys.recipe(), [PlannedStage(name=n, agent="a", writes="w") for n in names])
    folder.stage("apis").write_shard(
        0, map(record_line, [toys.api(name=n) for n in "abcde"]), [], Usage()
    )
    good = [
        asking(0, "a"),
        asking(1, "a", "b"),
        asking(2, "b", "a", level=Level.CATEGORY),
        asking(3, "e", scenario=Scenario.IRRELEVANCE),
    ]
    bad = toys.rejected(asking(4, "c", "b"), "queries", Reason.VALUE_NOT_MENTIONED)
    folder.stage("queries").write_shard(0, map(record_line, good), map(record_line, [bad]), Usage())
    folder.stage("tested").write_shard(
        0, map(record_line, [toys.sample(q) for q in good[1:2]]), [], Usage()
    )
    return folder


def test_coverage_is_counted_from_the_files(tmp_path: Path) -> None:
    """What is drawn counts whether or not it was accepted; what is irrelevant covers nothing."""
    found = count(a_run(tmp_path)).coverage
    assert found == Coverage(
        pool=5,
        drawn=3,
        accepted=2,
        combinations={
            "single_tool": Combinations(drawn=2, accepted=1),
            "category": Combinations(drawn=1, accepted=0),
        },
    )


def test_coverage_is_shown(tmp_path: Path) -> None:
    """At the end of a run, in a few lines."""
    console = Console(width=100, record=True, file=StringIO())
    console.print(view(counts_sections(count(a_run(tmp_path)))))
    shown = [line.split() for line in console.export_text().splitlines()]
    assert ["different", "drawn", "accepted"] in shown
    assert ["APIs", "of", "the", "pool's", "5", "3", "2"] in shown
    assert ["combinations:", "single_tool", "2", "1"] in shown


def test_counts_of_older_versions_can_still_be_read(tmp_path: Path) -> None:
    """They know nothing of coverage."""
    old = count(a_run(tmp_path)).model_dump(mode="json")
    del old["coverage"]
    assert Counts.model_validate(old).coverage is None


def test_needs_of_older_versions_count_as_single_tool() -> None:
    """They have no level; what holds no need counts nothing."""
    covered = Covered()
    need = asking(0, "a", "b").model_dump(mode="json")
    del need["level"]
    covered.add(need)
    covered.add({})
    assert {level: len(found) for level, found in covered.combinations.items()} == {
        "single_tool": 1
    }
