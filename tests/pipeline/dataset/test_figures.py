from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from support import toys
from support.screen import shown

from toolloom import FakeServer
from toolloom.pipeline.dataset.figures import (
    Combinations,
    Counts,
    Coverage,
    StageCount,
    count,
)
from toolloom.pipeline.pages.sections import counts_sections, recipe_sections, too_small
from toolloom.pipeline.run import run
from toolloom.pipeline.store.files import record_line
from toolloom.pipeline.store.run_folder import PlannedStage, RunFolder
from toolloom.schemas import (
    Intention,
    Level,
    Query,
    Reason,
    Scenario,
    Usage,
    parse_recipe,
)


def counts(**changes: Any) -> Counts:
    """Of one stage that asked its model ten times."""
    use = Usage(requests=10, prompt_tokens=4000, cached_tokens=1000, completion_tokens=70, cost=0.6)
    fields = {"name": "tested", "agent": "tester", "accepted": 4, "rejected": 6}
    stage = StageCount(**fields, finished=True, reasons={}, use=use)  # type: ignore[arg-type]
    empty: dict[str, Any] = {"abilities": {}, "scenarios": {}, "categories": {}}
    return Counts(stages=(stage,), apis=2, several_turns=0, use=use, **empty, **changes)


def test_rejected_rows_are_paid_for_by_accepted_ones() -> None:
    """The cost of one row is all that was paid for the rows that came of it; dollars are told where
    there are prices, and that a cost lacks a model, as it would be too low."""
    known = counts(priced=True, unpriced=("my-judge",))
    assert known.cost_of_one == pytest.approx(0.15)
    told = shown(counts_sections(known))
    assert told.count("$0.600") == 2  # the stage and all of them
    assert "$0.150 for each (API-Bank's agents: $0.1)" in told
    assert "Costs lack my-judge, for which `prices` has no price." in told
    assert counts().cost_of_one is None


def test_a_small_model_is_told_what_it_is_for() -> None:
    """`validate` says it once for all agents that write, and not of a small judge or of worlds. It
    tells what stops the run, and names hosts, not who may use them."""
    small = shown(recipe_sections(toys.recipe(model={"model": "tiny", "small": True})))
    assert small.count("as small as tiny writes hardly anything usable by itself") == 1
    judged = toys.recipe(model={"small": False}, agents={"tester": {"small": True}})
    assert "hardly anything" not in shown(recipe_sections(judged))
    assert not too_small(parse_recipe({"name": "a", "worlds": ["shop"], "model": {}}, "a recipe"))
    host = {"base_url": "https://me:pass@host/v1"}
    told = shown(recipe_sections(toys.recipe(model=host, budget={"max_requests": 4000})))
    assert "at https://host/v1" in told and "pass@" not in told
    assert "The run stops before it passes 4,000 requests." in told


class HalfCached(FakeServer):
    """Tells of each prompt that half of its tokens were cached."""

    async def say(self, *asked: Any) -> Any:
        said: Any = await super().say(*asked)
        cached = said["usage"]["prompt_tokens"] // 2
        said["usage"]["prompt_tokens_details"] = {"cached_tokens": cached}
        return said


async def test_a_run_tells_what_it_paid(tmp_path: Path) -> None:
    """Its own cost once, the run's cost always; both at the recipe's prices."""
    async with HalfCached() as server:
        fields = {
            "name": "toy",
            "model": {"base_url": server.base_url, "model": "fake"},
            "apis": {"domains": 4, "per_domain": 3},
            "queries": {"count": 8},
            "prices": {"fake": {"prompt": 2, "completion": 8, "cached": 1}},
        }
        recipe = parse_recipe(fields, "a test")
        first = await run(recipe, outputs=tmp_path)
        again = await run(recipe, outputs=tmp_path)
    use = first.counts.use
    paid = (use.prompt_tokens - use.cached_tokens) * 2 + use.cached_tokens
    assert use.cost == pytest.approx((paid + use.completion_tokens * 8) / 1e6)
    assert 0 < use.cached_share < 1
    assert first.counts.priced
    assert not first.counts.unpriced
    assert first.cost > 0
    assert (again.cost, again.counts) == (0, first.counts)


# -- What of a pool is covered, by dialogues and by templates ----------------------------------------


def asking(number: int, *names: str, **changes: Any) -> Query:
    apis = tuple(toys.api(name=name) for name in names)
    intent = tuple(Intention(api=api.id, arguments={}) for api in apis)
    return toys.query(number, pool=apis, intent=intent, **changes)


def test_coverage_is_counted_from_the_files(tmp_path: Path) -> None:
    """What is drawn counts whether or not it was accepted; what is irrelevant covers nothing."""
    # Five APIs; of four queries one is rejected at once, one later.
    folder = RunFolder(tmp_path / "toy")
    names = ("apis", "queries", "tested")
    folder.open(toys.recipe(), [PlannedStage(name=n, agent="a", writes="w") for n in names])
    apis = map(record_line, [toys.api(name=n) for n in "abcde"])
    folder.stage("apis").write_shard(0, apis, [], Usage())
    good = [
        asking(0, "a"),
        asking(1, "a", "b"),
        asking(2, "b", "a", level=Level.CATEGORY),
        asking(3, "e", scenario=Scenario.IRRELEVANCE),
    ]
    bad = toys.rejected(asking(4, "c", "b"), "queries", Reason.VALUE_NOT_MENTIONED)
    folder.stage("queries").write_shard(0, map(record_line, good), map(record_line, [bad]), Usage())
    folder.stage("tested").write_shard(0, [record_line(toys.sample(good[1]))], [], Usage())
    counted = count(folder)
    assert counted.coverage == Coverage(
        pool=5,
        drawn=3,
        accepted=2,
        combinations={
            "single_tool": Combinations(drawn=2, accepted=1),
            "category": Combinations(drawn=1, accepted=0),
        },
    )
    old = counted.model_dump(mode="json", exclude={"coverage"})
    assert Counts.model_validate(old).coverage is None  # of older versions
