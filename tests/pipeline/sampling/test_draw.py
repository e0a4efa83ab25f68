from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from support import toys

from toolloom.pipeline.environments.executed import check_executed, find_place
from toolloom.pipeline.sampling.draw import FITS, Group, draw_needs
from toolloom.schemas import (
    Ability,
    Api,
    ApiSource,
    JsonObject,
    Level,
    Need,
    Scenario,
    Source,
    ToolloomError,
)


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
    assert of_call == {s: 6 for s in Scenario if not s.of_worlds}
    assert {n.scenario for n in needs if n.ability is Ability.PLAN_RETRIEVE_CALL} == {
        *FITS[Ability.PLAN_RETRIEVE_CALL]
    }


def test_references_can_be_linked() -> None:
    """A later argument comes from a field that an earlier call's API returns, and is not told: it
    needs no value that could be drawn."""
    one = city("maps", "route", returns=of(zzz_ref=TEXT))
    two = city("maps", "drive", parameters=of(zzz_ref=TEXT))
    told, untold = (draw(apis, scenarios={"sequential": 1}) for apis in (None, [one, two]))
    assert told and untold
    for need in told + untold:
        first, second = need.intent
        for name, reference in second.references.items():
            assert reference.field in need.api(need.intent[reference.call].api).fields
            assert name not in second.arguments
            assert name not in first.arguments
        assert second.references


def test_what_two_calls_must_share_they_share() -> None:
    """A folder that both APIs work on, where there is only one: but no call comes twice."""
    folder: JsonObject = {"type": "string", "enum": ["notes"]}
    pages = {"type": "integer", "enum": [3, 4]}
    apis = [city("git", "log", parameters=of(where=folder, pages=pages)), city("git", "tidy")]
    apis[1] = apis[1].model_copy(update={"parameters": of(where=folder)})
    apis = [a.model_copy(update={"source": Source(kind="mcp", reference="git")}) for a in apis]
    needs = draw(apis, abilities={"call": 1}, scenarios={"multi_turn": 1}, count=9)
    assert len(needs) == 9
    assert all(i.arguments["where"] == "notes" for n in needs for i in n.intent)
    assert draw(apis[1:], abilities={"call": 1}, scenarios={"multi_turn": 1}) == []


def test_scenarios_have_what_they_need() -> None:
    """Something is withheld, fails, or is asked for later, where the scenario says so. The pool
    holds the needed APIs and the distractors, each once; nothing of an irrelevant request."""
    for need in draw():
        assert bool(need.withheld) == (need.scenario is Scenario.CLARIFICATION)
        assert bool(need.fault) == (need.scenario is Scenario.ERROR_RECOVERY)
        assert (need.turns > 1) == (need.scenario is Scenario.MULTI_TURN)
        assert set(need.withheld) <= set(need.needed[0].required)
        ids = [a.id for a in need.pool]
        assert len(ids) == len(set(ids))
        if need.outside:
            assert need.scenario is Scenario.IRRELEVANCE
            assert need.outside.category not in {a.category for a in need.pool}
        else:
            assert {a.id for a in need.needed} <= set(ids)
            assert len(ids) == len(need.needed) + 2


def test_what_the_pool_cannot_serve_is_not_drawn() -> None:
    """Without a link there is nothing sequential; with one API nothing is irrelevant."""
    lone = [pool(1)[0]]
    kinds = {n.scenario for n in draw(lone)}
    assert kinds == {s for s in Scenario if not s.of_worlds} - {
        Scenario.SEQUENTIAL,
        Scenario.IRRELEVANCE,
    }
    assert not any(n.ability is Ability.PLAN_RETRIEVE_CALL for n in draw(lone))
    assert draw([]) == []
    assert not Group(lone).links


def city(tool: str, name: str, category: str = "places", **changes: Any) -> Api:
    """An API that asks for a city and has nothing to do with others."""
    fields = {"tool": tool, "parameters": of(city={"type": "string"}), **changes}
    return toys.api(category, name).model_copy(update=fields)


def groups() -> list[Api]:
    """Two tools of one category, and one of another that shares a collection with the first."""
    return [
        city("maps", "route"),
        city("maps", "distance", collections=("travel",)),
        city("trains", "station"),
        city("inns", "room", "lodging", collections=("travel",)),
    ]


def levels(needs: list[Need]) -> Counter[Level]:
    return Counter(need.level for need in needs)


def test_levels_get_their_shares() -> None:
    """One tool, several of a category, several of a collection: as the recipe weighs them."""
    for scenario in ("parallel", "multi_turn"):
        plan = {"single_tool": 1, "category": 2, "collection": 4}
        needs = draw(groups(), scenarios={scenario: 1}, levels=plan, abilities={"call": 1})
        assert levels(needs) == dict(zip(Level, (12, 24, 48), strict=True))
        for need in needs:
            one, other = need.needed
            assert (one.tool == other.tool) == (need.level is Level.SINGLE_TOOL)
            assert need.level is not Level.CATEGORY or one.category == other.category
            assert need.level is not Level.COLLECTION or {*one.collections} & {*other.collections}


def test_levels_that_are_not_there_give_their_weight_away() -> None:
    """Also all of it, where the recipe asks for none that is there."""
    tools = groups()[1:3]
    calls = {"abilities": {"call": 1}, "scenarios": {"parallel": 1}}
    assert levels(draw(tools, **calls)) == {Level.CATEGORY: 84}
    assert levels(draw(tools, levels={"collection": 1}, **calls)) == {Level.CATEGORY: 84}
    needs = draw(tools[:1], **calls)
    assert levels(needs) == {Level.SINGLE_TOOL: 84}
    assert all(len(n.intent) == 2 and len(n.needed) == 1 for n in needs)


def test_what_has_no_values_stays_out() -> None:
    """An API with required free text that nothing describes is not drawn; each other one has its
    turn, none more often than the others."""
    odd = city("maps", "odd", parameters=of(zzz={"type": "string"}))
    used = Counter(i.api for n in draw([odd, *groups()], scenarios={"single": 1}) for i in n.intent)
    assert set(used) == {api.id for api in groups()}
    assert max(used.values()) - min(used.values()) <= 1
    assert draw([odd]) == []


def test_distractors_are_near_and_far() -> None:
    """Half of them are of the needed APIs' tool, category or collection."""
    far = [city("other", f"far{n}", "elsewhere") for n in range(200)]
    needs = draw([*groups(), *far], distractors=4, scenarios={"single": 1}, count=400)
    mine = [n for n in needs if n.needed[0].category == "places"]
    near = [sum(a.category in ("places", "lodging") for a in n.pool) - 1 for n in mine]
    assert mine
    assert min(near) >= 2
    assert min(sum(a.category == "elsewhere" for a in n.pool) for n in mine) >= 1


SHOP = [city("shop", n) for n in ("listOrders", "get_order", "findCustomer", "customer-drop")]


@pytest.mark.parametrize(
    ("apis", "about"),
    [
        # An imported document is often one category: no API of the needed one's tool is shown.
        ([city(t, n) for t in "xyz" for n in "ab"], lambda api: api.tool),
        # Of a single tool only APIs are shown whose names share no word with the needed one.
        (SHOP, lambda api: "order" in api.name.lower()),
    ],
)
def test_irrelevance_spares_what_is_near(apis: list[Api], about: Callable[[Api], Any]) -> None:
    """What would serve the request is not in the pool, and without anything else none is drawn."""
    needs = draw(apis, scenarios={"irrelevance": 1})
    assert len(needs) == 84
    for need in needs:
        assert need.outside and about(need.outside) not in map(about, need.pool)
    assert draw(SHOP[:2], scenarios={"irrelevance": 1}) == []


WRONG = {"city": ["Atlantis", "Lemuria"]}


@pytest.fixture(autouse=True)
def _places(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("places.py").touch()


def executing(apis: list[Api], **source: Any) -> list[Need]:
    """Error recovery with APIs of a Python file of which `route` is executed."""
    place = Source(kind="python", reference="places.py")
    recipe = toys.recipe(
        apis={"sources": [{"path": "places.py", "execute": ["route"], **source}]},
        queries={"count": 20, "scenarios": {"error_recovery": 1}, "abilities": {"call": 1}},
    )
    return list(draw_needs(recipe, [a.model_copy(update={"source": place}) for a in apis]))


def test_a_really_executed_api_fails_on_a_wrong_value() -> None:
    """And then the user corrects it, in a turn of its own; all else stays the same."""
    both = of(city={"type": "string"}, email={"type": "string"})
    needs = executing([city("maps", "route", parameters=both)], wrong_values=WRONG)
    assert len(needs) == 20
    for need in needs:
        assert need.fault and need.fault.real and need.fault.call == 0
        assert (need.fault.error, need.fault.transient) == ("", False)
        bad, good = need.intent
        assert (bad.turn, good.turn) == (0, 1)
        assert bad.arguments["city"] in WRONG["city"]
        assert good.arguments["city"] not in WRONG["city"]
        assert {**bad.arguments, "city": 0} == {**good.arguments, "city": 0}


def test_without_a_right_value_there_is_nothing_to_correct() -> None:
    """The call fails, and that is all."""
    odd = city("maps", "route", parameters=of(zzz={"type": "string"}))
    assert executing([odd], wrong_values={"zzz": ["x"]}) == []  # not even a first value is known
    optional = {**of(zzz={"type": "string"}), "required": []}
    needs = executing(
        [odd.model_copy(update={"parameters": optional})], wrong_values={"zzz": ["x"]}
    )
    assert [i.arguments for i in needs[0].intent] == [{"zzz": "x"}]


def test_without_wrong_values_another_api_fails() -> None:
    """What is executed cannot be made to fail; what is simulated can, as it is told to."""
    needs = executing([city("maps", "route"), city("maps", "distance")])
    assert {i.api for n in needs for i in n.intent} == {"places/maps/distance"}
    assert all(n.fault and not n.fault.real and n.fault.error for n in needs)
    assert executing([city("maps", "route")]) == []
    bad = executing([city("maps", "route")], wrong_values={"city": [3], "town": ["Atlantis"]})
    assert bad == []  # neither a value that the schema refuses nor a parameter that is not there


@pytest.mark.timeout(60)
def test_large_pools_are_drawn_from_quickly() -> None:
    """Nothing is done for every pair of APIs, nor for every API at each need."""
    takes, gives = of(owner=TEXT, user_id=TEXT), of(id=TEXT, sha=TEXT)
    apis = [city("hub", f"get{n}", parameters=takes, returns=gives) for n in range(3000)]
    needs = draw(apis, count=300)
    assert len(needs) == 300
    assert len({need.intent[0].api for need in needs}) == 300


PYTHON: dict[str, Any] = {"kind": "python", "reference": "tools/weather.py"}
MCP: dict[str, Any] = {"kind": "mcp", "reference": "weather"}


@pytest.mark.parametrize(
    ("listed", "made", "runs"),
    [
        ({"path": "tools/weather.py"}, PYTHON, True),
        ({"path": "tools", "format": "python"}, PYTHON, True),
        ({"path": "tools"}, PYTHON, False),
        ({"path": "tools/weather.py", "execute": ["now"]}, {**PYTHON, "operation": "now"}, True),
        ({"path": "tools/weather.py", "execute": ["forecast"]}, PYTHON, False),
        ({"path": "tools/other.py"}, PYTHON, False),
        ({"path": "tools/weather.py"}, {}, False),  # generated
        ({"mcp": "/opt/bin/weather --home x"}, MCP, True),
        ({"mcp": "weather", "name": "sky"}, {**MCP, "reference": "sky"}, True),
        ({"mcp": "weather", "name": "sky"}, MCP, False),
        ({"mcp": "weather"}, {**MCP, "kind": "python"}, False),
    ],
)
def test_only_what_a_source_lists_is_executed(listed: Any, made: Any, runs: bool) -> None:
    """By its name or its operation, from the very source that lists it; a server is known by the
    name that the recipe gives it, else by its program's."""
    Path("tools").mkdir()
    Path("tools/weather.py").touch()
    recipe = toys.recipe(apis={"sources": [{"execute": ["current"], **listed}]})
    api = toys.api().model_copy(update={"source": Source(**made)})
    found = find_place(api, recipe.apis.sources)
    assert (found and found.source) == (recipe.apis.sources[0] if runs else None)


def test_a_source_that_executes_nothing_is_told() -> None:
    """`execute` on a spec or a pool would leave all its APIs to the model without a word."""
    server: dict[str, Any] = {"mcp": "weather", "execute": ["current"]}
    api = toys.api().model_copy(update={"source": Source(kind="mcp", reference="weather")})
    check_executed([ApiSource(**server), ApiSource(path="weather.json")], [api])
    spec = ApiSource(path="weather.json", execute=("current",))
    with pytest.raises(ToolloomError, match=r"weather\.json: `execute` names current, of which"):
        check_executed([ApiSource(**server), spec], [api])
