from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from support.screen import shown

from toolloom.llm import FakeServer
from toolloom.pipeline.dataset.report import Counts, Summary
from toolloom.pipeline.estimate import (
    NeedShape,
    SampledRecords,
    StageSample,
    Took,
    estimate,
    flows,
    forecast,
)
from toolloom.pipeline.pages.recipes import forecast_sections
from toolloom.pipeline.run import run
from toolloom.pipeline.stage import Stage
from toolloom.pipeline.stages import STAGES
from toolloom.schemas import ApiSource, Brief, BudgetReached, Domain, Recipe, Usage, parse_recipe

PRICES = {"fake": {"prompt": 1.0, "completion": 4.0}}
QUERIES, DIALOGUES = STAGES[3:5]
SINGLES = {"count": 40, "abilities": {"call": 1}, "scenarios": {"single": 1}}
SINGLE = NeedShape("", "call", "single")


def recipe(server: FakeServer | None = None, **changes: Any) -> Recipe:
    model = {"base_url": server.base_url if server else "http://127.0.0.1:1/v1", "model": "fake"}
    fields: dict[str, Any] = {"name": "toy", "seed": 3, "model": model, "prices": PRICES}
    fields |= {"apis": {"domains": 8, "per_domain": 3, "worlds": False}, "queries": {"count": 60}}
    return parse_recipe({**fields, **changes}, "a test")


def took(kind: NeedShape, requests: int, accepted: int = 1, times: int = 4) -> list[Took]:
    use = Usage(requests=requests, prompt_tokens=100 * requests, cost=requests / 100)
    return [Took(kind, accepted, use)] * times


def foretold(recipe: Recipe, stages: list[Stage], sample: Mapping[str, list[Took]]) -> Any:
    empty = Counts(
        stages=(), abilities={}, scenarios={}, categories={}, apis=0, several_turns=0, use=Usage()
    )
    summary = Summary(run="r", path="p", counts=empty)
    return forecast(recipe, stages, StageSample(sample, {}), 8, summary)


async def test_a_forecast_is_near_what_the_run_takes(tmp_path: Path) -> None:
    """Of 60 queries a sample of 12 tells requests within 20 %, cost within 25 %, and a range
    that holds both. What it asked about domains and APIs is not asked again."""
    async with FakeServer() as server:
        chosen = recipe(server)
        told = await estimate(chosen, 12, outputs=tmp_path)
        asked = server.received
        made = await run(chosen, outputs=tmp_path)
    use = made.counts.use
    assert told.sample.asked == asked < use.requests / 2
    assert told.expected.use.requests == pytest.approx(use.requests, rel=0.2)
    assert told.expected.use.cost == pytest.approx(use.cost, rel=0.25)
    assert told.low.use.requests <= use.requests <= told.high.use.requests
    assert told.low.use.cost <= use.cost <= told.high.use.cost
    assert told.low.accepted <= made.counts.accepted <= told.high.accepted
    assert [s.records for s in told.stages[:3]] == [8, 8, 60]
    assert server.repeats == 0


async def test_a_second_forecast_costs_nothing(tmp_path: Path) -> None:
    """Its answers are in the cache, which is all that the first one left, and it says the same."""
    async with FakeServer() as server:
        first = await estimate(recipe(server), 4, outputs=tmp_path)
        again = await estimate(recipe(server), 4, outputs=tmp_path)
    assert {path.name.partition("-")[0] for path in tmp_path.iterdir()} == {"cache.sqlite"}
    assert first.sample.cost > 0
    assert (again.sample.asked, again.sample.tokens, again.sample.cost) == (0, 0, 0)
    assert (again.expected, again.low, again.high) == (first.expected, first.low, first.high)


async def test_batches_are_forecast_without_waiting_for_one(tmp_path: Path) -> None:
    """The sample is asked directly; the forecast is at the price of batches."""
    half = {"fake": {**PRICES["fake"], "batch_prompt": 0.5, "batch_completion": 2.0}}
    async with FakeServer(batches=None) as server:
        plain = await estimate(recipe(server), 4, outputs=tmp_path)
        asked = server.received
        batched = {"base_url": server.base_url, "model": "fake", "mode": "batch"}
        chosen = recipe(server, model=batched, prices=half)
        told = await estimate(chosen, 4, outputs=tmp_path)
    assert (told.sample.asked, server.received) == (0, asked)
    assert told.expected.use.cost == pytest.approx(plain.expected.use.cost / 2)


async def test_a_sample_keeps_to_the_budget(tmp_path: Path) -> None:
    """Where not even the sample is paid for, that is said."""
    async with FakeServer() as server:
        with pytest.raises(BudgetReached, match="The sample alone is too much"):
            await estimate(recipe(server, budget={"max_requests": 5}), outputs=tmp_path)
        assert server.received <= 5


def test_kinds_are_weighted_as_the_recipe_draws_them() -> None:
    """Not as the sample happened to have them."""
    queries = {**SINGLES, "scenarios": {"single": 1, "parallel": 3}}
    sample = {"queries": took(SINGLE, 1) + took(NeedShape("", "call", "parallel"), 5)}
    (flow,) = flows(recipe(queries=queries), [QUERIES], StageSample(sample, {}))
    assert (flow.entering, flow.use.requests) == (40, 10 * 1 + 30 * 5)


def test_a_kind_that_is_rare_goes_by_those_like_it() -> None:
    """By its scenario in other abilities, if the sample has enough of that."""
    rare = took(SINGLE, 9, times=1)
    like = took(NeedShape("", "retrieve_call", "single"), 3, times=5)
    other = took(NeedShape("", "call", "parallel"), 50)
    sample = StageSample({"queries": rare + like + other}, {})
    (flow,) = flows(recipe(queries={**SINGLES, "count": 10}), [QUERIES], sample)
    assert flow.use.requests == 10 * (9 + 5 * 3) / 6


def test_what_a_stage_rejects_does_not_enter_the_next() -> None:
    """The share that the sample's stage accepted carries on; what settling takes is taken."""
    half = took(SINGLE, 1) + took(SINGLE, 1, accepted=0)
    sample = StageSample({"queries": half, "dialogues": took(SINGLE, 10)}, {"queries": 0.5})
    asked, played = flows(recipe(queries=SINGLES), [QUERIES, DIALOGUES], sample)
    assert (asked.accepted, played.entering, played.use.requests) == (10, 10, 100)


def test_sources_are_counted_as_they_are() -> None:
    """A sample holds every source; only domains are more in the run."""
    plan = {
        "sources": [{"path": "a.yaml"}, {"path": "b.yaml"}],
        "domains": 30,
        "per_domain": 2,
        "worlds": False,
    }
    domains, apis = (STAGES[0], STAGES[2])
    sample = {
        "domains": took(NeedShape(Brief.__name__), 1, times=3),
        "apis": took(NeedShape(ApiSource.__name__), 0, 50, 2)
        + took(NeedShape(Domain.__name__), 2, 2, 3),
    }
    chosen = recipe(apis=plan)
    named, designed = flows(chosen, [domains, apis], StageSample(sample, {}))
    assert designed.entering == 2 + named.accepted
    assert designed.accepted == 100 + 2 * named.accepted
    assert designed.use.requests == 2 * named.accepted


def test_the_range_is_as_wide_as_the_sample_differs() -> None:
    """Equal records leave no doubt; different ones do."""
    sure = foretold(recipe(queries=SINGLES), [QUERIES], {"queries": took(SINGLE, 2)})
    unsure = foretold(
        recipe(queries=SINGLES), [QUERIES], {"queries": took(SINGLE, 1) + took(SINGLE, 3)}
    )
    assert sure.low == sure.expected == sure.high
    assert unsure.expected.use.requests == sure.expected.use.requests == 80
    assert unsure.low.use.requests < 80 < unsure.high.use.requests


@pytest.mark.parametrize(
    ("limit", "words"),
    [
        (20, "budget.max_requests (20) will stop the run, which takes about 80 ("),
        (90, "budget.max_requests (90) may stop the run, which takes"),
        (900, "budget.max_requests (900) has room for the run, which takes"),
    ],
)
def test_a_forecast_says_whether_the_budget_suffices(limit: int, words: str) -> None:
    """By the range, not by the expected number alone."""
    chosen = recipe(queries=SINGLES, budget={"max_requests": limit})
    made = foretold(chosen, [QUERIES], {"queries": took(SINGLE, 1) + took(SINGLE, 3)})
    assert words in shown(forecast_sections(made))


def test_a_stage_that_the_sample_did_not_reach_is_told() -> None:
    """Its share cannot be known, so the numbers are too low."""
    sample = {"queries": took(SINGLE, 1, accepted=0), "dialogues": []}
    made = foretold(recipe(queries=SINGLES), [QUERIES, DIALOGUES], sample)
    assert made.unseen == ("dialogues",)
    assert "No record of the sample reached dialogues" in shown(forecast_sections(made))


def test_what_is_gathered_grows_with_what_it_comes_of() -> None:
    """Templates and seeds with the rows; needs with the APIs that are left; trees not at all."""
    need = NeedShape(ability="call", scenario="single")
    kinds = Counter(
        {NeedShape("Template"): 6, NeedShape("Seed"): 3, need: 8, NeedShape("ToolBench"): 50}
    )
    whole = SampledRecords(rows=6, apis=16, kinds=kinds).whole(rows=60, apis=160)
    assert (whole[NeedShape("Template")], whole[NeedShape("Seed")]) == (60, 30)
    assert whole[NeedShape("ToolBench")] == 50
    assert whole[need] == pytest.approx(80)  # as many rows for each API as in the sample
    more = SampledRecords(rows=6, apis=16, kinds=kinds).whole(rows=120, apis=160)
    assert more[need] == pytest.approx(40)
    none = SampledRecords(rows=0, apis=16, kinds=Counter({need: 16})).whole(rows=0, apis=160)
    assert none[need] == 160
