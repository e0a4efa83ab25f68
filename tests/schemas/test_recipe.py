from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from toolloom.schemas import RecipeError, load_recipe, parse_recipe


def problem(**fields: Any) -> str:
    with pytest.raises(RecipeError) as caught:
        parse_recipe({"name": "toy", **fields}, "toy.yaml")
    return str(caught.value)


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"querys": {}}, "querys: unknown field; did you mean `queries`?"),
        ({"queries": {"cuont": 1}}, "queries.cuont: unknown field; did you mean `count`?"),
        ({"model": {"modle": "x"}}, "model.modle: unknown field; did you mean `model`?"),
        ({"model": {"zzz": 1}}, "model.zzz: unknown field; known here: base_url, candidates"),
        (
            {"agents": {"tester": {"temprature": 1}}},
            "agents.tester.temprature: unknown field; did you mean `temperature`?",
        ),
        ({"agents": {"tester": {"candidates": 0}}}, "agents.tester.candidates: Input should be"),
        (
            {"agents": {"api": {"replicas": [{"key": 1}]}}},
            "agents.api.replicas.0.key: unknown field; did you mean `key_env`?",
        ),
        (
            {"agents": {"api": {"retry": {"trys": 1}}}},
            "agents.api.retry.trys: unknown field; did you mean `tries`?",
        ),
        (
            {"prices": {"a/b.c": {"promt": 1}}},
            "prices.a/b.c.promt: unknown field; did you mean `prompt`?",
        ),
        ({"prices": {"m": {"completion": 1}}}, "prices.m.prompt: missing; it has no default."),
        ({"agents": {"testr": {}}}, "agents.testr: Input should be 'domain', 'api'"),
        ({"queries": {"abilities": {"cal": 1}}}, "queries.abilities.cal: Input should be 'call'"),
        ({"queries": {"scenarios": {"single": -1}}}, "weights must not be negative"),
        ({"queries": {"abilities": {"call": 0}}}, "one must be above 0"),
        ({"tester": {"votes": 2}}, "tester.votes: must be odd, so that there is a majority, or 0"),
        ({"name": "My Set"}, "name: String should match pattern"),
        ({"model": {"base_url": "localhost:8000"}}, "must be `local` or begin with http://"),
        ({"shard_size": "many"}, "shard_size: Input should be a valid integer"),
    ],
)
def test_each_mistake_is_named_with_its_place(fields: dict[str, Any], message: str) -> None:
    """The message says which file, which field, what is wrong, and the nearest known name."""
    said = problem(**fields)
    assert said.startswith("toy.yaml is not a valid recipe:\n")
    assert message in said
    assert "Traceback" not in said
    assert "pydantic" not in said


def test_every_mistake_is_told_at_once() -> None:
    """One line for each."""
    said = problem(querys={}, agents={"api": {"modle": "x", "candidates": 0}})
    assert "querys" in said
    said = problem(agents={"api": {"modle": "x", "candidates": 0}})
    assert len(said.splitlines()) == 3


def test_a_missing_field_is_named() -> None:
    """A recipe needs its name."""
    with pytest.raises(RecipeError, match=r"toy\.yaml.*\n  name: missing"):
        parse_recipe({}, "toy.yaml")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("name: [", "is not valid YAML"),
        ("- name", "a recipe is a mapping of fields"),
        ("", "a recipe is a mapping of fields"),
    ],
)
def test_a_file_that_is_no_recipe_is_named(tmp_path: Path, text: str, message: str) -> None:
    """Broken YAML and what is no mapping are told with the file's name."""
    path = tmp_path / "toy.yaml"
    path.write_text(text)
    with pytest.raises(RecipeError, match=message) as caught:
        load_recipe(path)
    assert str(path) in str(caught.value)


def test_agents_change_what_they_name() -> None:
    """An agent's endpoint is the model's, with its own fields in place."""
    recipe = parse_recipe({"name": "toy", "agents": {"tester": {"model": "judge"}}}, "toy.yaml")
    assert recipe.endpoint("tester").model == "judge"
    assert recipe.endpoint("tester").base_url == recipe.endpoint("api").base_url
    assert recipe.endpoint("api") == recipe.model


def test_the_run_id_is_that_of_the_whole_recipe() -> None:
    """The same recipe goes on with the same run; any change makes another."""
    one = parse_recipe({"name": "toy"}, "")
    assert one.run_id == parse_recipe({"name": "toy", "seed": 0}, "").run_id
    assert one.run_id != parse_recipe({"name": "toy", "seed": 1}, "").run_id


@pytest.mark.parametrize("path", sorted(Path(__file__).parents[2].glob("recipes/*.yaml")), ids=str)
def test_the_recipes_that_ship_are_valid(path: Path) -> None:
    """Each is named as its file."""
    assert load_recipe(path).name == path.stem.replace("_", "-")


def test_an_address_is_told_without_its_password() -> None:
    """What is wrong with an address is told without the login in it."""
    with pytest.raises(RecipeError) as error:
        parse_recipe({"name": "toy", "model": {"base_url": "ftp://me:open-sesame@host/v1"}}, "x")
    assert "ftp://host/v1" in str(error.value)
    assert "open-sesame" not in str(error.value)
