from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from rich.console import Console
from support import toys

from toolloom.llm import FakeServer
from toolloom.pipeline.dataset.report import Counts, StageCount, Summary
from toolloom.pipeline.pages.dialogue import rejected_view
from toolloom.pipeline.pages.plans import recipe_sections
from toolloom.pipeline.pages.sections import counts_sections, summary_sections
from toolloom.pipeline.render.section import dollars
from toolloom.pipeline.render.terminal import view
from toolloom.pipeline.run import run, run_recipe
from toolloom.schemas import Reason, Usage, parse_recipe


def shown(sections: Any) -> str:
    console = Console(width=200)
    with console.capture() as captured:
        console.print(view(sections))
    return captured.get()


def counts(**changes: Any) -> Counts:
    """Of one stage that asked its model ten times."""
    use = Usage(requests=10, prompt_tokens=4000, cached_tokens=1000, completion_tokens=70, cost=0.6)
    stage = StageCount(
        name="tested",
        agent="tester",
        accepted=4,
        rejected=6,
        finished=True,
        reasons={},
        use=use,
    )
    empty: dict[str, Any] = {"abilities": {}, "scenarios": {}, "categories": {}}
    return Counts(stages=(stage,), apis=2, several_turns=0, use=use, **empty, **changes)


def test_what_models_were_asked_is_told_by_stage_and_agent() -> None:
    """Requests, tokens, the cached share of them, and dollars where there are prices."""
    lines = [line.split() for line in shown(counts_sections(counts(priced=True))).splitlines()]
    assert ["tested", "tester", "10", "4,000", "25", "%", "70", "$0.600"] in lines
    assert ["in", "all", "10", "4,000", "25", "%", "70", "$0.600"] in lines


def test_rejected_rows_are_paid_for_by_accepted_ones() -> None:
    """The cost of one row is all that was paid for the rows that came of it."""
    assert counts(priced=True).cost_of_one == pytest.approx(0.15)
    assert "$0.150 for each (API-Bank's agents: $0.1)" in shown(
        counts_sections(counts(priced=True))
    )
    assert counts().cost_of_one is None


def test_without_prices_there_are_no_dollars() -> None:
    """Tokens only, also in what a process says of itself."""
    summary = Summary(run="toy", path="", counts=counts(), asked=10, tokens=4070, cost=0.0)
    assert "10 requests sent, 0 answered by the cache, 4,070 tokens, in" in shown(
        summary_sections(summary)
    )
    assert "$" not in shown(summary_sections(summary))


def test_a_cost_that_lacks_a_model_says_so() -> None:
    """It would be too low."""
    lacking = counts(priced=True, unpriced=("my-judge",))
    assert "Costs lack my-judge, for which `prices` has no price." in shown(
        counts_sections(lacking)
    )


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (0, "$0.00"),
        (1234.5, "$1,234.50"),
        (0.1, "$0.100"),
        (0.00123, "$0.00123"),
        (3e-8, "$0.00000003"),
    ],
)
def test_dollars_keep_three_digits_below_one(value: float, text: str) -> None:
    """A row may cost less than a cent."""
    assert dollars(value).startswith(text)


def test_rows_of_templates_and_instructions_are_told() -> None:
    """Rows count as dialogues, instructions do not; a run that only rewrites made no dialogue."""
    made = counts(expanded=400, templates=21, instructions=95, rewritten=39)
    assert (made.samples, made.accepted, made.made) == (4, 404, 499)
    told = " ".join(shown(counts_sections(made)).split())
    assert "404 dialogues accepted" in told
    assert "400 of them are rows of 21 templates. 95 instructions of 39 requests." in told
    given = made.stages[0].model_copy(update={"given": True})
    adds = made.model_copy(update={"stages": (given,), "expanded": 0})
    assert (adds.samples, adds.accepted, adds.made) == (0, 0, 95)
    told = shown(counts_sections(adds))
    assert "dialogues" not in told
    assert "tested (published)" in told


def test_a_recipe_tells_what_stands_beside() -> None:
    """And the agent that it needs for it, which no other recipe names."""
    plain, fields = toys.recipe(), {"expand": {"rows": 5000}, "rewrite": {"votes": 0}}
    told = shown(recipe_sections(toys.recipe(**fields)))
    assert "Then 5,000 rows of templates, in train." in told
    assert "Then requests at five granularities, each rated by no votes." in told
    assert "rewriter" in told
    assert "rewriter" not in shown(recipe_sections(plain))


def test_a_rejected_instruction_is_shown_beside_its_request() -> None:
    """Not the APIs that were on offer."""
    step = {"category": "c", "tool": "t", "api": "a", "function": "f"}
    seed = {"hybrid": "Book it.", "steps": [step], "pool": [toys.api().model_dump(mode="json")]}
    row = toys.rejected(toys.sample(), "rewritten", Reason.TAG_NOT_NAMED).model_dump(mode="json")
    shown_record = rejected_view({**row, "record": {"seed": seed, "level": "api", "text": "Do."}})
    console = Console(width=200)
    with console.capture() as captured:
        console.print(shown_record)
    told = captured.get()
    assert '"request": "Book it."' in told
    assert '"api": "Do."' in told
    assert "station" not in told


def test_a_recipe_tells_its_budget() -> None:
    """`validate` shows what stops the run; nothing where there is no limit."""
    told = shown(recipe_sections(toys.recipe(budget={"max_cost": 2.5, "max_requests": 4000})))
    assert "The run stops before it passes $2.50 or 4,000 requests." in told
    assert "stops before" not in shown(recipe_sections(toys.recipe()))


def test_passwords_in_addresses_are_not_shown() -> None:
    """What a recipe amounts to names hosts, not who may use them."""
    told = shown(recipe_sections(toys.recipe(model={"base_url": "https://me:pass@host/v1"})))
    assert "at https://host/v1" in told
    assert "pass@" not in told


async def test_a_run_tells_what_it_paid(tmp_path: Path) -> None:
    """Its own cost once, the run's cost always; both at the recipe's prices."""
    async with FakeServer(prefix_cache=True) as server:
        recipe = parse_recipe(
            {
                "name": "toy",
                "model": {"base_url": server.base_url, "model": "fake"},
                "apis": {"domains": 4, "per_domain": 3},
                "queries": {"count": 8},
                "prices": {"fake": {"prompt": 2, "completion": 8, "cached": 1}},
            },
            "a test",
        )
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


def test_toys_are_free(tmp_path: Path) -> None:
    """What asks no endpoint has no price to lack."""
    made = run_recipe(toys.recipe(), tmp_path, stages=toys.STAGES)
    assert (made.summary.counts.priced, made.summary.counts.unpriced) == (False, ())
