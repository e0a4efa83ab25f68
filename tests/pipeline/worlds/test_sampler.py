"""What is drawn in worlds: which scripts, in which states, how often."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Sequence
from typing import Any

import pytest
import yaml
from support import lending
from support.toys import ALL_IN_TRAIN

from toolloom.pipeline.checks.world.interpreter import Machine, state_of
from toolloom.pipeline.environments.environment import moment_of
from toolloom.pipeline.worlds import sampler
from toolloom.pipeline.worlds.library import Worlds, apis_of
from toolloom.pipeline.worlds.sampler import PER_STATE, Sampler, draw_world_needs, parted
from toolloom.schemas import Ability, Need, Regeneration, Scenario, Split, World, WorldPlan
from toolloom.schemas.splits import split_of_need, split_of_script

NEVER = "{name: never, find: [{x: books where title = 'Ulysses'}], turns: [{user: Hello}]}"
FITTING = ("renewal", "refused", "both at once", "fines", "no longer wanted")


@pytest.fixture(scope="module")
def world() -> World:
    """The library with the scripts that fit many states."""
    return lending.world(*FITTING)


@pytest.fixture(scope="module")
def drawn(world: World) -> list[Need]:
    return lending.needs(lending.recipe(), [world])


def scripts(needs: Sequence[Need]) -> Counter[str]:
    return Counter(need.setting.script for need in needs if need.setting)


def said(need: Need, world: World) -> tuple[str, ...]:
    worlds = Worlds()
    worlds.add(world)
    return tuple(worlds.play(need).words)


def state_told(need: Need) -> str:
    assert need.setting
    return f"{need.now} {json.dumps(need.setting.start, sort_keys=True)}"


def test_rows_are_those_of_the_seed(world: World, drawn: list[Need]) -> None:
    """Drawn again they are the same, whatever was drawn before; another seed has others."""
    assert lending.needs(lending.recipe(), [world]) == drawn
    other = lending.needs(lending.recipe(seed=7), [world])
    assert not {map(state_told, other)} & {map(state_told, drawn)}
    assert len({need.id for need in (*drawn, *other)}) == len(drawn) + len(other)


def test_a_state_gives_few_rows(world: World) -> None:
    """So that rows differ in people, days and stock."""
    many = lending.needs(lending.recipe(worlds={"per_script": 6}), [world])
    states = Counter(map(state_told, many))
    assert 1 < max(states.values()) <= PER_STATE
    for need in many:
        others = [one for one in many if state_told(one) == state_told(need) and one is not need]
        assert need.setting not in [one.setting for one in others]
        assert not scripts(others) & scripts([need])


def test_no_two_rows_of_a_script_say_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    """However many are wanted: a script without slots gives one row."""
    monkeypatch.setattr(sampler, "STATES", 40)
    monkeypatch.setattr(sampler, "STATES_A_ROW", 10)
    plain = lending.world("no coffee", "refused")
    needs = lending.needs(lending.recipe(worlds={"per_script": 4}), [plain])
    assert scripts(needs) == {"no coffee": 1, "refused": 4}
    assert len({said(need, plain) for need in needs}) == len(needs)


def test_a_script_that_no_state_meets_runs_dry() -> None:
    """It gives no row, and takes none from the others."""
    dry = yaml.load(NEVER, yaml.BaseLoader)
    world = lending.world("renewal")
    world = world.model_copy(update={"scripts": (dry, *world.scripts)})
    needs = lending.needs(lending.recipe(worlds={"per_script": 1}), [world])
    assert scripts(needs) == {"renewal": 1}


def test_a_script_that_few_states_fit_leaves_its_rows(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """To one of which none is wanted, and gives none itself."""
    monkeypatch.setattr(sampler, "RARE", 0)
    for few in range(1, len(FITTING)):  # one of them would fit the first state
        drawer = Sampler(lending.recipe(), world, [*apis_of(world)])
        rows = drawer.rows({few: 1, 0: 0}, "{}-{}".format)
        assert scripts([*rows]) == {world.scripts[0]["name"]: 1}


@pytest.mark.parametrize("rows", [1, 3, 5, 6, 8, 10, 99])
def test_each_script_has_its_turn_before_any_has_its_second(world: World, rows: int) -> None:
    """Of all worlds together, however many scripts each has; no more than there can be."""
    other = lending.world("renewal", "fines first").model_copy(update={"name": "other"})
    plan = WorldPlan(use=("a", "b"), rows=rows, per_script=2)
    wanted = parted(lending.recipe(), plan, (world, other))
    counts = [count for each in wanted for count in each.values()]
    assert sum(counts) == min(rows, 2 * (len(world.scripts) + 2))
    assert max(counts) - min(counts) <= 1
    if rows in (3, 5):
        assert any(wanted[1].values())  # the shorter list is not left to the end


def test_dials_say_how_long_rows_are(
    world: World, drawn: list[Need], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Calls, turns of the user, scenarios: what does not fit is not drawn."""
    own = [*apis_of(world)]
    kinds = {need.setting.script: need for need in drawn if need.setting}
    assert {name: len(need.intent) for name, need in kinds.items()} == {
        "renewal": 2,
        "refused": 2,
        "both at once": 3,
        "fines": 3,
        "no longer wanted": 2,
    }
    cases: list[tuple[dict[str, Any], set[str]]] = [
        ({"calls": [3, 3]}, {"both at once", "fines"}),
        ({"calls": [0, 1]}, set()),
        ({"turns": [2, 9]}, {"fines"}),
        ({"turns": [1, 2], "calls": [3, 9]}, {"both at once"}),
        ({"scenarios": ["multi_turn"]}, {"fines"}),
        ({"scenarios": ["sequential"], "calls": [0, 2]}, {"renewal", "refused", FITTING[-1]}),
    ]
    for dials, names in cases:
        recipe = lending.recipe(worlds={"per_script": 1, **dials})
        monkeypatch.setattr(sampler, "STATES", 60)
        plan = parted(recipe, recipe.worlds or WorldPlan(), [world])
        rows = Sampler(recipe, world, own).rows(plan[0], lambda script, use: f"{script}-{use}")
        assert set(scripts([*rows])) == names, dials
    short = lending.recipe(worlds={"turns": [3, 3]})
    assert set(scripts(lending.needs(short, [lending.world("fines")]))) == {"fines"}


@pytest.mark.parametrize("dials", [{"calls": [5, 8]}, {"turns": [3, 4]}])
def test_dials_hold_for_tasks_that_a_model_words(world: World, dials: dict[str, Any]) -> None:
    """Every row is as long as it is wanted."""
    model = {"base_url": "http://127.0.0.1:1/v1", "model": "large"}
    recipe = lending.recipe(model=model, worlds={"rows": 4, "words": "model", **dials})
    needs = lending.needs(recipe, [world])
    assert len(needs) == 4
    assert recipe.worlds
    for need in needs:
        assert need.setting
        turns = len(need.setting.plan)
        assert recipe.worlds.calls[0] <= len(need.intent) <= recipe.worlds.calls[1]
        assert recipe.worlds.turns[0] <= turns <= recipe.worlds.turns[1]


def test_a_row_is_in_the_split_of_its_script(world: World) -> None:
    """Known before anything is drawn, and the same for all rows of a script."""
    recipe = lending.recipe(splits={**ALL_IN_TRAIN, "train": 0.5, "validation": 0.5})
    needs = lending.needs(recipe, [world])
    for need in needs:
        assert need.setting
        expected = split_of_script(recipe.splits, world, need.setting.script)
        assert split_of_need(recipe.splits, need) is expected
    assert {split_of_need(recipe.splits, need) for need in needs} == {*list(Split)[:2]}
    held = lending.recipe(splits={**ALL_IN_TRAIN, "unseen": [world.category]})
    assert split_of_script(held.splits, world, "renewal") is Split.TEST_CATEGORY


@pytest.mark.parametrize("split", [Split.TRAIN, Split.VALIDATION])
def test_a_regeneration_draws_the_scripts_of_its_split(world: World, split: Split) -> None:
    """And no others."""
    splits = {**ALL_IN_TRAIN, "train": 0.5, "validation": 0.5}
    whole = lending.recipe(splits=splits)
    anew = Regeneration(version="lent/1.0.0", content="0", split=split)
    recipe = whole.model_copy(update={"regenerate": anew, "seed": 1})
    names = {spec["name"] for spec in world.scripts}
    own = {name for name in names if split_of_script(whole.splits, world, name) is split}
    assert 0 < len(own) < len(names)
    assert set(scripts(lending.needs(recipe, [world]))) == own


def test_the_goal_is_what_the_calls_come_to(world: World, drawn: list[Need]) -> None:
    """Changes and facts; a pool of all operations; the state as JSON, the speaker's name told."""
    machine = Machine(world.spec)
    for need in drawn:
        setting = need.setting
        assert setting and setting.hash == world.hash
        state = state_of(setting.start["tables"], setting.start["me"], setting.start["next"])
        failed = []
        for intention in need.intent:
            name = intention.api.rpartition("/")[2]
            state, _, error = machine.apply(state, name, intention.arguments, moment_of(need))
            failed.append(error)
        assert bool(setting.goal.changes) == (setting.script != "refused")
        assert setting.goal.facts and (failed[-1] == "twice") == (setting.script == "refused")
        assert {api.name for api in need.pool} == set(world.spec["operations"])
        assert setting.told[0] == world.about and setting.told[2:] == (
            "Members with fines above 5 renew at the desk.",
        )
        assert setting.told[1].endswith(", who is signed in.")


def test_abilities_are_those_of_the_recipe() -> None:
    """Of rows whose script says what to search for, in vain too; planning takes two operations in a
    turn."""
    weights = {"queries": {"abilities": {"plan_retrieve_call": 1}}}
    world = lending.world("no coffee", "renewal", "refused")
    needs = lending.needs(lending.recipe(worlds={"per_script": 1}, **weights), [world])
    found = {need.setting.script: need.ability for need in needs if need.setting}
    assert found["no coffee"] is Ability.RETRIEVE_CALL
    assert found["renewal"] is found["refused"] is Ability.PLAN_RETRIEVE_CALL
    mixed = {"queries": {"abilities": {"call": 3, "retrieve_call": 1, "plan_retrieve_call": 0}}}
    many = lending.recipe(worlds={"per_script": 20}, **mixed)
    counts = Counter(need.ability for need in lending.needs(many, [lending.world("renewal")]))
    assert counts == {Ability.CALL: 15, Ability.RETRIEVE_CALL: 5}


def test_a_script_that_says_nothing_to_search_for_is_not_played_with_search() -> None:
    """Another row has its turn."""
    weights = {"queries": {"abilities": {"retrieve_call": 1}}}
    world = lending.world("both at once", "refused")
    needs = lending.needs(lending.recipe(worlds={"per_script": 1}, **weights), [world])
    found = {need.setting.script: need.ability for need in needs if need.setting}
    assert found == {"both at once": Ability.CALL, "refused": Ability.RETRIEVE_CALL}


def test_distractors_stand_beside_where_every_turn_calls(world: World) -> None:
    """Where the assistant may say that it has no tool for it, another world's would make it lie."""
    other = world.model_copy(update={"name": "archive", "tool": "archive"})
    recipe = lending.recipe(worlds={"per_script": 1})
    own = [api.model_copy(update={"collections": ("library", "archive")}) for api in apis_of(world)]
    beside = [
        api.model_copy(update={"collections": ("archive",), "function": f"archive_{api.name}"})
        for api in apis_of(other)
    ]
    needs = draw_world_needs(recipe, [world], [*own, *beside])
    for need in needs:
        assert need.setting
        foreign = [api for api in need.pool if api.source.reference == "archive"]
        calling = need.setting.script != "fines"  # there the user is asked before the call
        assert len(foreign) == (recipe.queries.distractors if calling else 0), need.setting.script


def test_scenarios_are_told_by_calls_or_by_their_writer() -> None:
    """What a script says itself comes first."""
    fixing = lending.world("fines first", "no coffee")
    needs = lending.needs(lending.recipe(worlds={"per_script": 1}), [fixing])
    found = {need.setting.script: need.scenario for need in needs if need.setting}
    assert found["fines first"] is Scenario.ERROR_RECOVERY
    assert found["no coffee"] is Scenario.IRRELEVANCE
    (spec,) = lending.world("refused").scripts
    world = fixing.model_copy(update={"scripts": ({**spec, "scenario": "refusal"},)})
    (need,) = lending.needs(lending.recipe(worlds={"per_script": 1}), [world])
    assert need.scenario is Scenario.REFUSAL
