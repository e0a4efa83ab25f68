from __future__ import annotations

from collections import Counter
from typing import Any

import pytest
import toys
from hypothesis import given
from hypothesis import strategies as st

from toolloom.pipeline.sampling import FITS, Pool, draw_needs, shares
from toolloom.schemas import Ability, Api, JsonObject, Need, Scenario, canonical


def of(**fields: JsonObject) -> JsonObject:
    return {"type": "object", "properties": fields, "required": [*fields]}


TEXT: JsonObject = {"type": "string"}
CITY: JsonObject = {"type": "string", "examples": ["Basel", "Bern", "Chur", "Genf"]}


def pool(categories: int = 4) -> list[Api]:
    """For each category an API that finds an offer and one that books it."""
    found = []
    for number in range(categories):
        one = toys.api(f"c{number}", "find")
        two = toys.api(f"c{number}", "book")
        seats = {"type": "integer", "minimum": 2, "maximum": 90}
        found += [
            one.model_copy(update={"parameters": of(city=CITY), "returns": of(offer_id=TEXT)}),
            two.model_copy(update={"parameters": of(offer_id=TEXT, seats=seats), "returns": of()}),
        ]
    return found


def draw(apis: list[Api] | None = None, **queries: Any) -> list[Need]:
    recipe = toys.recipe(queries={"count": 84, "distractors": 2, **queries})
    return list(draw_needs(recipe, pool() if apis is None else apis))


def test_proportions_are_exact() -> None:
    """Abilities get their shares to the one, and so do the scenarios of each."""
    needs = draw(abilities={"call": 2, "retrieve_call": 1, "plan_retrieve_call": 1})
    assert Counter(n.ability for n in needs) == dict(zip(Ability, (42, 21, 21), strict=True))
    of_call = Counter(n.scenario for n in needs if n.ability is Ability.CALL)
    assert of_call == dict.fromkeys(Scenario, 6)
    assert {n.scenario for n in needs if n.ability is Ability.PLAN_RETRIEVE_CALL} == {
        *FITS[Ability.PLAN_RETRIEVE_CALL]
    }


def test_the_same_seed_draws_the_same_needs() -> None:
    """Everything drawn comes from the recipe's seed."""
    assert draw() == draw()
    other = draw_needs(toys.recipe(seed=1, queries={"count": 84}), pool())
    assert list(other) != draw()


def test_every_api_has_its_turn() -> None:
    """No API of the pool is left out."""
    used = Counter(i.api for n in draw(scenarios={"single": 1}) for i in n.intent)
    assert set(used) == {a.id for a in pool()}
    assert max(used.values()) - min(used.values()) <= 1


def test_references_can_be_linked() -> None:
    """A later argument comes from a field that an earlier call's API returns, and is not told."""
    needs = draw(scenarios={"sequential": 1})
    assert needs
    for need in needs:
        first, second = need.intent
        for name, reference in second.references.items():
            assert reference.field in need.api(need.intent[reference.call].api).fields
            assert name not in second.arguments
            assert name not in first.arguments
        assert second.references


def test_no_value_stands_twice() -> None:
    """Words could not say which of two equal values is which."""
    for need in draw():
        values = [canonical(v) for i in need.intent for v in i.arguments.values()]
        assert len(values) == len(set(values))


def test_the_pool_holds_the_needed_apis_and_the_distractors() -> None:
    """Each once; of an irrelevant request's category there is none."""
    for need in draw():
        ids = [a.id for a in need.pool]
        assert len(ids) == len(set(ids))
        if need.scenario is Scenario.IRRELEVANCE:
            assert need.outside
            assert need.outside.category not in {a.category for a in need.pool}
        else:
            assert {a.id for a in need.needed} <= set(ids)
            assert len(ids) == len(need.needed) + 2


def test_scenarios_have_what_they_need() -> None:
    """Something is withheld, fails, or is asked for later, where the scenario says so."""
    for need in draw():
        assert bool(need.withheld) == (need.scenario is Scenario.CLARIFICATION)
        assert bool(need.fault) == (need.scenario is Scenario.ERROR_RECOVERY)
        assert (need.turns > 1) == (need.scenario is Scenario.MULTI_TURN)
        assert set(need.withheld) <= set(need.needed[0].required)


def test_what_the_pool_cannot_serve_is_not_drawn() -> None:
    """Without a link there is nothing sequential; with one category nothing is irrelevant."""
    lone = [pool(1)[0]]
    kinds = {n.scenario for n in draw(lone)}
    assert kinds == {*Scenario} - {Scenario.SEQUENTIAL, Scenario.IRRELEVANCE}
    assert not any(n.ability is Ability.PLAN_RETRIEVE_CALL for n in draw(lone))
    assert draw([]) == []
    assert not Pool(lone).links


def test_weights_of_zero_are_left_out() -> None:
    """What has no weight is not drawn."""
    needs = draw(abilities={"call": 1, "retrieve_call": 0})
    assert {n.ability for n in needs} == {Ability.CALL}


@given(
    st.dictionaries(st.integers(0, 9), st.floats(0, 1000), min_size=1, max_size=8),
    st.integers(0, 1000),
)
def test_shares_add_up(weights: dict[int, float], count: int) -> None:
    """Every share is its exact part, rounded down or up, and nothing is left over."""
    parts = shares(weights, count)
    total = sum(weights.values())
    if total <= 0:
        assert parts == {}
        return
    assert sum(parts.values()) == count
    for key, part in parts.items():
        assert part == pytest.approx(count * weights[key] / total, abs=1.0001)
