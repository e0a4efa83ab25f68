from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from support.screen import shown

from toolloom import FakeServer
from toolloom.pipeline.dataset.figures import Counts, Summary
from toolloom.pipeline.estimate import Sampled, estimate, forecast
from toolloom.pipeline.pages.sections import forecast_sections
from toolloom.pipeline.run import run
from toolloom.pipeline.stage import Stage
from toolloom.pipeline.stages import STAGES
from toolloom.schemas import BudgetReached, Recipe, Usage, parse_recipe

PRICES = {"fake": {"prompt": 1.0, "completion": 4.0}}
QUERIES, DIALOGUES = STAGES[3:5]


def recipe(server: FakeServer | None = None, **changes: Any) -> Recipe:
    model = {"base_url": server.base_url if server else "http://127.0.0.1:1/v1", "model": "fake"}
    fields: dict[str, Any] = {"name": "toy", "seed": 3, "model": model, "prices": PRICES}
    fields |= {"apis": {"domains": 8, "per_domain": 3, "worlds": False}, "queries": {"count": 60}}
    return parse_recipe({**fields, **changes}, "a test")


def took(requests: list[int], accepted: list[int] | None = None, kept: float = 1.0) -> Sampled:
    """A stage whose records took so many requests each."""
    each = zip(requests, accepted or [1] * len(requests), strict=True)
    uses = [(a, Usage(requests=n, prompt_tokens=100 * n, cost=n / 100)) for n, a in each]
    drawn = [[float(a), *map(float, use.model_dump().values())] for a, use in uses]
    return Sampled(Counter({False: len(requests)}), {True: [], False: drawn}, kept=kept)


def foretold(recipe: Recipe, stages: list[Stage], sample: dict[str, Sampled]) -> Any:
    empty = Counts(
        stages=(), abilities={}, scenarios={}, categories={}, apis=0, several_turns=0, use=Usage()
    )
    summary = Summary(run="r", path="p", counts=empty)
    return forecast(recipe, stages, sample, 8, summary)


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
    async with FakeServer() as server:
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


def test_sources_are_counted_as_they_are() -> None:
    """A sample holds every source; only domains are more in the run."""
    plan = {
        "sources": [{"path": "a.yaml"}, {"path": "b.yaml"}],
        "domains": 30,
        "per_domain": 2,
        "worlds": False,
    }
    apis = took([2, 2, 2], accepted=[2, 2, 2])
    apis.fed[True], apis.took[True] = 2, took([0, 0], accepted=[50, 50]).took[False]
    chosen = recipe(apis=plan)
    sampled = {"domains": took([1] * 3, accepted=[3] * 3), "apis": apis}
    named, designed = foretold(chosen, [STAGES[0], STAGES[2]], sampled).stages
    assert designed.records == 2 + named.accepted
    assert designed.accepted == 100 + 2 * named.accepted
    assert designed.use.requests == 2 * named.accepted


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
    chosen = recipe(queries={"count": 40}, budget={"max_requests": limit})
    made = foretold(chosen, [QUERIES], {"queries": took([1] * 4 + [3] * 4)})
    assert words in shown(forecast_sections(made))


def test_a_stage_that_the_sample_did_not_reach_is_told() -> None:
    """Its share cannot be known, so the numbers are too low."""
    sample = {"queries": took([1] * 4, accepted=[0] * 4), "dialogues": Sampled()}
    made = foretold(recipe(queries={"count": 40}), [QUERIES, DIALOGUES], sample)
    assert made.unseen == ("dialogues",)
    assert "No record of the sample reached dialogues" in shown(forecast_sections(made))
