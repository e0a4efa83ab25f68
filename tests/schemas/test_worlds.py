"""What a recipe says of worlds, and how it does without a model."""

from __future__ import annotations

from typing import Any

import pytest
from support import toys

from toolloom.schemas import Recipe, RecipeError, Scenario, WorldPlan, digest, parse_recipe
from toolloom.schemas.recipe import public_recipe


def recipe(**fields: Any) -> Recipe:
    return parse_recipe({"name": "toy", **fields}, "toy.yaml")


def problem(**fields: Any) -> str:
    with pytest.raises(RecipeError) as caught:
        recipe(**fields)
    return str(caught.value)


def test_worlds_are_a_list_or_a_mapping_with_dials() -> None:
    """A list is `use`; what is not told has its default."""
    short, long = recipe(worlds=["shop"]), recipe(worlds={"use": ["shop"], "turns": [2, 4]})
    assert short.worlds == WorldPlan(use=("shop",))
    assert short.worlds.rows is None
    assert long.worlds and (long.worlds.use, long.worlds.turns) == (("shop",), (2, 4))


def test_worlds_alone_need_neither_apis_nor_a_model() -> None:
    """What a recipe says itself holds all the same."""
    bare = recipe(worlds=["shop"])
    assert (bare.apis.domains, bare.model.absent, bare.model.model) == (0, True, "none")
    both = recipe(worlds=["shop"], apis={"domains": 3}, model={"base_url": "http://a/v1"})
    assert (both.apis.domains, both.model.absent) == (3, False)
    assert recipe(worlds=["shop"], model="none") == bare


@pytest.mark.parametrize(
    ("fields", "says"),
    [
        ({"model": "none"}, "it wants a list of `worlds`"),
        ({"model": "none", "worlds": ["shop"], "apis": {"domains": 1}}, "wants `apis.domains: 0`"),
        (
            {"model": "none", "worlds": ["shop"], "apis": {"sources": [{"path": "a.py"}]}},
            "it wants no `apis.sources`",
        ),
        ({"model": "none", "worlds": ["shop"], "rewrite": {}}, "it wants no `rewrite`"),
        ({"apis": {"domains": 0}}, "neither `apis.sources` nor `worlds`"),
        ({"worlds": []}, "`worlds.use` names no world"),
        ({"worlds": {"rows": 3}}, "`worlds.use` names no world"),
        ({"worlds": ["shop", "shop"]}, "`use` names shop twice"),
        ({"worlds": {"use": ["shop"], "calls": [3, 1]}}, "`calls` must be the least and the most"),
        ({"worlds": {"use": ["shop"], "turns": [3, 1]}}, "`turns` must be the least and the most"),
        ({"worlds": {"use": ["shop"], "rows": 0}}, "worlds.rows: Input should be greater than"),
        ({"worlds": {"use": ["shop"], "per_scrip": 2}}, "did you mean `per_script`?"),
        ({"worlds": {"use": ["shop"], "scenarios": ["refusl"]}}, "worlds.scenarios.0: Input"),
        ({"worlds": "shop"}, "worlds.use: Input should be a valid tuple"),
        ({"worlds": 3}, "worlds.use: Input should be a valid tuple"),
    ],
)
def test_a_mistake_is_told_with_its_field(fields: dict[str, Any], says: str) -> None:
    """One message, without a traceback."""
    said = problem(**fields)
    assert says in said and said.startswith("toy.yaml is not a valid recipe:\n")
    assert "pydantic" not in said


@pytest.mark.parametrize("scenario", [each for each in Scenario if each.of_worlds])
def test_what_worlds_alone_have_is_not_drawn_elsewhere(scenario: Scenario) -> None:
    """Weights of queries refuse it, dials of worlds take it."""
    assert "is drawn in worlds alone" in problem(queries={"scenarios": {scenario.value: 1}})
    plan = recipe(worlds={"use": ["shop"], "scenarios": [scenario.value]}).worlds
    assert plan and plan.scenarios == (scenario,)


def test_a_recipe_without_worlds_is_what_it_was() -> None:
    """Neither its run's id nor what is published of it tells of worlds, nor does a query."""
    old = recipe()
    assert digest(old.identity, 8) == "11735188"  # as before there were worlds
    assert "worlds" not in public_recipe(old) and "worlds" not in old.model_dump_json()
    assert "setting" not in toys.query().model_dump(mode="json")
    assert "setting" not in toys.sample().model_dump_json()
    assert recipe(worlds=["shop"]).run_id != recipe(worlds=["clinic"]).run_id
