from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from toolloom.schemas import (
    Price,
    Recipe,
    RecipeError,
    Scenario,
    WorldPlan,
    load_recipe,
    overridden,
    parse_recipe,
)


def recipe(**fields: Any) -> Recipe:
    return parse_recipe({"name": "toy", **fields}, "toy.yaml")


def problem(**fields: Any) -> str:
    with pytest.raises(RecipeError) as caught:
        recipe(**fields)
    return str(caught.value)


SHOP = {"worlds": ["shop"]}
ROOT = Path(__file__).parents[2]
PLACE = {"base_url": "http://127.0.0.1:1/v1", "model": "m"}
PRICES = {"m": {"prompt": 2, "completion": 8}}


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"querys": {}}, "querys: unknown field; did you mean `queries`?"),
        ({"model": {"zzz": 1}}, "model.zzz: unknown field; known here: base_url, candidates"),
        ({"agents": {"tester": {"candidates": 0}}}, "agents.tester.candidates: Input should be"),
        (
            {"agents": {"api": {"retry": {"trys": 1}}}},
            "agents.api.retry.trys: unknown field; did you mean `tries`?",
        ),
        (
            {"prices": {"a/b.c": {"promt": 1}}},
            "prices.a/b.c.promt: unknown field; did you mean `prompt`?",
        ),
        ({"prices": {"m": {"completion": 1}}}, "prices.m.prompt: missing; it has no default."),
        ({"queries": {"abilities": {"cal": 1}}}, "queries.abilities.cal: Input should be 'call'"),
        ({"queries": {"scenarios": {"single": -1}}}, "queries.scenarios.single: Input should be"),
        ({"queries": {"abilities": {"call": 0}}}, "one must be above 0"),
        ({"tester": {"votes": 2}}, "tester.votes: must be odd, so that there is a majority, or 0"),
        ({"name": "My Set"}, "name: String should match pattern"),
        (
            {"model": {"base_url": "localhost:8000"}},
            "must be `local`, `scripted`, or begin with http://",
        ),
        ({"model": "none"}, "it wants a list of `worlds`"),
        ({"model": "none", **SHOP, "apis": {"domains": 1}}, "wants `apis.domains: 0`"),
        (
            {"model": "none", **SHOP, "apis": {"sources": [{"path": "a.py"}]}},
            "it wants no `apis.sources`",
        ),
        ({"model": "none", **SHOP, "rewrite": {}}, "it wants no `rewrite`"),
        ({"apis": {"domains": 0}}, "neither `apis.sources` nor `worlds`"),
        ({"worlds": {"rows": 3}}, "`worlds.use` names no world"),
        ({"worlds": ["shop", "shop"]}, "`use` names shop twice"),
        ({"worlds": {"use": ["shop"], "calls": [3, 1]}}, "`calls` must be the least and the most"),
        ({"worlds": {"use": ["shop"], "turns": [3, 1]}}, "`turns` must be the least and the most"),
        ({"worlds": {"use": ["shop"], "scenarios": ["refusl"]}}, "worlds.scenarios.0: Input"),
        ({"apis": {"sources": [{"path": "no.py"}]}, "seed": "x"}, "0.path: no.py does not exist"),
        ({"worlds": 3}, "worlds.use: Input should be a valid list"),
        ({"model": {"base_url": "ftp://me:open-sesame@host/v1"}}, "ftp://host/v1"),
        ({"shard_size": "x" * 10_000}, "shard_size: Input should be a valid integer"),
    ],
)
def test_each_mistake_is_named_with_its_place(fields: dict[str, Any], message: str) -> None:
    """The message says which file, which field, what is wrong, and the nearest known name. A long
    value is shown by its beginning, an address without its password."""
    said = problem(**fields)
    assert said.startswith("toy.yaml is not a valid recipe:\n")
    assert message in said
    assert len(said) < 500
    assert not any(word in said for word in ("Traceback", "pydantic", "open-sesame"))


def test_worlds_are_a_list_or_a_mapping_and_need_no_model() -> None:
    """A list is `use`; with worlds alone there are no APIs and no model, unless the recipe says so."""
    long = recipe(worlds={"use": ["shop"], "turns": [2, 4]})
    assert long.worlds and (long.worlds.use, long.worlds.turns) == (("shop",), (2, 4))
    bare = recipe(**SHOP)
    assert bare.worlds == WorldPlan(use=("shop",))
    assert (bare.apis.domains, bare.model.absent, bare.model.model) == (0, True, "none")
    both = recipe(**SHOP, apis={"domains": 3}, model={"base_url": "http://a/v1"})
    assert (both.apis.domains, both.model.absent) == (3, False)
    assert recipe(**SHOP, model="none") == bare
    assert bare.run_id != recipe(worlds=["clinic"]).run_id


@pytest.mark.parametrize("scenario", [each for each in Scenario if each.of_worlds])
def test_what_worlds_alone_have_is_not_drawn_elsewhere(scenario: Scenario) -> None:
    """Weights of queries refuse it, dials of worlds take it."""
    assert "is drawn in worlds alone" in problem(queries={"scenarios": {scenario.value: 1}})
    plan = recipe(worlds={"use": ["shop"], "scenarios": [scenario.value]}).worlds
    assert plan and plan.scenarios == (scenario,)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("name: [", "is not valid YAML"),
        ("name: toy\nseed: 2026-13-01", "line 2: seed: Input should be a valid integer"),
        ("name: " + "[" * 3000, "line 1: nested too deeply"),
        ("- name", "a recipe is a mapping of fields"),
        ("name: toy\nseed: 1\nseed: 2", "line 3: seed stands twice"),
        ("modle: none\nqueries:\n  cuont: 3\n", r"line 1: modle(.|\n)*line 3: queries.cuont"),
        ("openapi: 3.1.0\npaths: {}", r"is an OpenAPI document.*path: toy\.yaml.*apis import"),
    ],
)
def test_a_file_that_is_no_recipe_is_named(tmp_path: Path, text: str, message: str) -> None:
    """What cannot be read, also where YAML's grammar allows it, and what is no mapping are told with
    the file's name; all mistakes at once, with their lines."""
    path = tmp_path / "toy.yaml"
    path.write_text(text)
    with pytest.raises(RecipeError, match=message) as caught:
        load_recipe(path)
    assert str(path) in str(caught.value)


FILE = """
name: toy
seed: 2
queries: {count: 40, abilities: {call: 3, retrieve_call: 1}}
languages: [English, German]
agents: {tester: {temperature: 0.2}}
prices: %s
"""


def test_fields_of_a_recipe_can_be_replaced(tmp_path: Path) -> None:
    """Mappings are merged, lists and values replaced, and what is not named stays; a recipe given
    by its fields is like its file, and names of files mean what they mean in it."""
    prices, path = tmp_path / "prices.yaml", tmp_path / "toy.yaml"
    prices.write_text("m: {prompt: 1, completion: 2}")
    path.write_text(FILE % prices)
    over: dict[str, Any] = {
        "seed": 9,
        "queries": {"count": 5, "abilities": {"call": 0}},
        "languages": ["French"],
        "agents": {"tester": {"model": "big"}},
        "prices": {"n": {"prompt": 1, "completion": 1}},
    }
    made = overridden(path, over)
    assert (made.name, made.seed, made.queries.count) == ("toy", 9, 5)
    assert [*made.queries.abilities.values()] == [0, 1]
    assert made.languages == ("French",)
    assert made.agents == {"tester": {"temperature": 0.2, "model": "big"}}
    assert set(made.prices) == {"m", "n"}
    assert overridden(str(path), {}) == load_recipe(path)
    assert overridden(load_recipe(path).model_dump(mode="json"), over) == made


MANY: dict[str, Any] = {"name": "toy", "shard_size": "many"}
THEIRS = "the parameter `recipe` with the overrides is not a valid recipe:\n"


@pytest.mark.parametrize(
    ("given", "over", "message"),
    [
        (MANY, {"queries": {"cuont": 1}}, "queries.cuont (from the overrides): unknown field; did"),
        (MANY, {"queries": 3}, "queries (from the overrides): Input should be"),
        (MANY, {"agents": {"nobody": {}}}, "agents.nobody (from the overrides): Input"),
        (
            MANY,
            {"agents": {"api": {"retry": {"trys": 1}}}, "shard_size": 3},
            "agents.api.retry.trys (from the overrides):",
        ),
        (MANY, {"seed": 1}, "shard_size: Input should be a valid integer"),
        ({"name": "toy"}, ["seed"], "overrides: are a mapping"),
        (["toy"], {"seed": 1}, "the parameter `recipe`: a recipe is a mapping"),
        ("none.yaml", {}, "none.yaml does not exist (looked for in /"),
        ({"name": "toy"}, {"prices": "keys.txt"}, "holds no prices"),
        ({"name": "toy", "prices": "keys.txt"}, {"prices": {}}, "holds no prices"),
    ],
)
def test_a_mistake_in_the_overrides_is_told_to_be_theirs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, given: Any, over: Any, message: str
) -> None:
    """Each mistake is named as in a file, and one that the recipe made is not put down to them.
    Whoever may set `prices` need not be one who may read what a path leads to."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "keys.txt").write_text("open-sesame")
    with pytest.raises(RecipeError) as caught:
        overridden(given, over)
    said = str(caught.value)
    assert message in said and "open-sesame" not in said
    assert given is not MANY or said.startswith(THEIRS)


def test_paths_are_relative_to_the_recipe(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Files beside a recipe are found from any folder; names, addresses and whole paths stay."""
    recipes = tmp_path / "recipes"
    (recipes / "tools").mkdir(parents=True)
    for name in ("serve.py", "holdout.jsonl"):
        (recipes / name).touch()
    sources = [
        {"path": "none.yaml"},
        {"path": "tools"},
        {"path": "package.module"},
        {"path": "/etc/apis.json"},
        {"mcp": "python serve.py --in notes", "name": "s", "prepare": "sh gone.sh"},
        {"mcp": "https://host/mcp", "name": "h"},
    ]
    fields = {
        "name": "toy",
        "model": {"base_url": "http://host/v1"},
        "apis": {"sources": sources},
        "worlds": ["shop", "mine.yaml"],
        "expand": {"templates": ["tools"]},
        "curation": {"against": ["api-bank", "holdout.jsonl"]},
    }
    (recipes / "toy.yaml").write_text(json.dumps(fields))
    monkeypatch.chdir(tmp_path)
    made = load_recipe("recipes/toy.yaml")
    assert [s.path or s.mcp for s in made.apis.sources] == [
        *("recipes/none.yaml", "recipes/tools", "package.module", "/etc/apis.json"),
        *("python recipes/serve.py --in notes", "https://host/mcp"),
    ]
    assert made.worlds and made.worlds.use == ("shop", "recipes/mine.yaml")
    assert made.expand and made.expand.templates == ("recipes/tools",)
    assert made.curation.against == ("api-bank", "recipes/holdout.jsonl")
    monkeypatch.chdir(recipes)
    assert load_recipe("toy.yaml").apis.sources[0].path == "none.yaml"


@pytest.mark.parametrize(
    ("price", "batch", "dollars"),
    [
        ({}, False, 2 * 1.0 + 8 * 0.5),
        ({"cached": 0.5}, False, 2 * 0.6 + 0.5 * 0.4 + 8 * 0.5),
        ({"cached": 0.5}, True, 2 * 0.6 + 0.5 * 0.4 + 8 * 0.5),
        ({"batch_prompt": 1, "batch_completion": 4}, True, 1 * 1.0 + 4 * 0.5),
        ({"batch_prompt": 1, "cached": 0.5}, True, 1 * 0.6 + 0.5 * 0.4 + 8 * 0.5),
        ({"batch_prompt": 1, "batch_cached": 0.1}, True, 1 * 0.6 + 0.1 * 0.4 + 8 * 0.5),
    ],
)
def test_a_price_counts_cached_tokens_and_batches(
    price: dict[str, float], batch: bool, dollars: float
) -> None:
    """Cached tokens are among those sent; what has no price of its own has the nearest one. An
    endpoint that miscounts does not make a cost negative."""
    made = Price(prompt=2, completion=8, **price)
    assert made.cost(1_000_000, 500_000, 400_000, batch=batch) == pytest.approx(dollars)
    assert made.cost(10, 0, 99, batch=batch) >= 0


def test_prices_come_from_the_recipe_or_a_file(tmp_path: Path) -> None:
    """`prices` is a mapping or a path, and both are the same recipe, also written out and read back;
    the file that ships is one. A limit in dollars needs them, but where nothing costs anything."""
    (tmp_path / "prices.yaml").write_text("m: {prompt: 2, completion: 8}")
    named = recipe(model=PLACE, prices=str(tmp_path / "prices.yaml"))
    assert named == recipe(model=PLACE, prices=PRICES)
    assert named.prices["m"].completion == 8
    (tmp_path / "recipe.yaml").write_text(named.model_dump_json())
    assert load_recipe(tmp_path / "recipe.yaml") == named
    with pytest.raises(RecipeError, match=r"budget\.max_cost needs `prices`.*missing: m"):
        recipe(model=PLACE, budget={"max_cost": 1})
    for fields in ({"prices": PRICES}, {"model": {}}):
        assert recipe(**{"model": PLACE, "budget": {"max_cost": 1}, **fields}).budget.max_cost == 1
    example = recipe(model=PLACE, prices=str(ROOT / "recipes" / "examples" / "prices.yaml"))
    assert example.prices["example-large"].cost(0, 1_000_000, batch=True) == 4


def test_a_file_of_prices_that_is_none_is_told(tmp_path: Path) -> None:
    """The message names the file or the field."""
    path = tmp_path / "prices.yaml"
    for name, text, message in (
        (path, "m: [", "is not valid YAML"),
        (path, "m: {prompt: x}", r"prices\.m\.prompt: Input should be a valid number"),
        ("none.yaml", "", r"none\.yaml does not exist \(looked for in /"),
        ("\0", "", "cannot be read .embedded null byte"),
    ):
        path.write_text(text)
        with pytest.raises(RecipeError, match=message):
            recipe(model=PLACE, prices=str(name))


def test_a_budget_and_prices_of_others_make_no_other_run() -> None:
    """What a run may cost is not what it makes; what its models cost stands in its records."""
    plain, priced = recipe(model=PLACE), recipe(model=PLACE, prices=PRICES)
    assert recipe(model=PLACE, budget={"max_requests": 9}).run_id == plain.run_id
    assert recipe(model=PLACE, prices={"other": {"prompt": 1}}).run_id == plain.run_id
    assert priced.run_id != plain.run_id
