"""Whole samples of needs: the form of the simulator, accepted by the certain checks."""

from __future__ import annotations

import datetime as dt
import random
from typing import Any

import pytest
from support import toys
from support.template_files import api

from toolloom.pipeline.checks import inspect
from toolloom.pipeline.sampling.values import NoValue
from toolloom.pipeline.templates.written.sample import (
    LONGEST,
    MOST_FACTS,
    build,
    level_of,
    play,
    respond,
    scenario_of,
    tell,
    told_by,
)
from toolloom.schemas import (
    Ability,
    Api,
    Intention,
    JsonObject,
    Level,
    Need,
    Reference,
    Sample,
)

NOW = dt.datetime(2026, 3, 2, 9, 30)


def fields(**types: Any) -> JsonObject:
    known = {n: {"type": t} if isinstance(t, str) else t for n, t in types.items()}
    return {"type": "object", "properties": known, "required": [*known]}


def need(*calls: tuple[Api, JsonObject], **references: Reference) -> Need:
    """Calls of these APIs; `references` are of the last one."""
    last = len(calls) - 1
    intent = tuple(
        Intention(api=a.id, arguments=given, references=references if i == last else {})
        for i, (a, given) in enumerate(calls)
    )
    return Need(
        id="n1",
        ability=Ability.CALL,
        scenario=scenario_of(intent),
        now=NOW,
        pool=tuple({a.id: a for a, _ in calls}.values()),
        intent=intent,
    )


def played(wanted: Need, text: str, seed: int = 1) -> Sample:
    """The sample, which no certain check objects to."""
    sample = Sample.model_validate(play(wanted, text, seed))
    assert not inspect(sample.dialogue), inspect(sample.dialogue)
    return sample


def reply(sample: Sample) -> str:
    return sample.dialogue.messages[-1].content or ""


ORDER = api("order_book", fields(order_id="string"), title="string")
TRACK = api("track_order", fields(day="string"), order_id="string")
TRACKED = need(
    (ORDER, {"title": "Emma"}), (TRACK, {}), order_id=Reference(call=0, field="order_id")
)


@pytest.mark.parametrize(
    ("returns", "told"),
    [
        (None, "It is done."),
        (fields(success="boolean"), "It is done."),
        (fields(cancelled="boolean"), "It is cancelled."),
        (fields(valid_until={"type": "string", "format": "date"}), "It is valid until "),
        (fields(order_id="string"), "It is done. The order id is "),
        (fields(price={"type": "number", "minimum": 5, "maximum": 9}), "The price is "),
        (fields(status={"enum": ["confirmed"]}), "The status is confirmed."),
        ({"type": "array", "items": fields(city="string", company="string")}, "The city is "),
        (fields(place=fields(city="string", country="string")), "The place city is "),
        (fields(days={"type": "array", "items": {"enum": ["Monday"]}}), "The days is Monday."),
        ({"type": "integer", "minimum": 1}, "The result is "),
        (fields(createdAt={"type": "string", "format": "date"}), "It is created at "),
        (fields(maxPrice="integer", details={"type": "object"}), "The max price is "),
        (fields(city="string", remarks={"type": ["string", "null"]}), "The city is "),
        (fields(url={"type": "string", "format": "uri"}), "The url is "),
    ],
)
def test_whatever_is_returned_is_told_in_plain_words(returns: Any, told: str) -> None:
    """Each kind of response has a reply that the certain checks accept."""
    one = api("do_it", returns, title="string")
    for seed in range(8):
        assert told in reply(played(need((one, {"title": "Emma"})), "Please do it for Emma.", seed))


def test_free_text_is_not_invented() -> None:
    """NoValue names the field; one that need not be there is left out."""
    free = {**fields(copies="integer", haiku="string"), "required": ["copies"]}
    made = respond(api("a", free), {}, random.Random(1), NOW)
    assert "haiku" not in made
    with pytest.raises(NoValue, match="haiku"):
        respond(api("a", {**free, "required": ["haiku"]}), {}, random.Random(1), NOW)


def test_only_calls_of_one_turn_are_built() -> None:
    """What has later turns, withheld values or faults is no template's sample."""
    stock = api("check_stock", None, title="string")
    later = need((stock, {"title": "Emma"})).model_copy(update={"withheld": ("title",)})
    with pytest.raises(ValueError, match="only calls of one turn"):
        build(later, "Hello.", [{}], "Done.")


def test_a_field_that_is_not_there_is_told() -> None:
    """A reference needs an earlier response with its field."""
    with pytest.raises(ValueError, match="no response of call 0 has a order_id"):
        build(TRACKED, "Order it.", [{}, {}], "Done.")


def test_what_feeds_a_later_call_is_not_told() -> None:
    """The reply is about what comes of it."""
    assert tell(TRACKED, [{"order_id": "AB-1"}, {"weight": 7}]) == "The weight is 7."


def test_the_level_tells_where_the_apis_come_from() -> None:
    """One tool, one category, or several."""
    one, other = api("a"), api("b").model_copy(update={"tool": "Other"})
    far = api("c").model_copy(update={"category": "Sea"})
    levels = [level_of(apis) for apis in ([one], [one, other], [one, far])]
    assert levels == [Level.SINGLE_TOOL, Level.CATEGORY, Level.COLLECTION]


def test_a_nested_value_is_named_by_its_path() -> None:
    """A fact's name is the path to it, and its description that of the inner schema."""
    login = {"type": "string", "description": "name of the account"}
    owner = {"type": "object", "properties": {"login": login}}
    returns = {"type": "object", "properties": {"owner": owner}}
    known = toys.api().model_copy(update={"returns": returns})
    (fact,) = told_by(known, {"owner": {"login": "ada"}})
    assert (fact.name, fact.about, fact.value) == ("owner_login", "name of the account", "ada")


TOLD: dict[str, tuple[Any, list[tuple[str, Any]]]] = {
    "of a list of objects the first": (
        [{"title": "Emma"}, {"title": "Dune"}],
        [("title", "Emma")],
    ),
    "a list of scalars is one fact": ({"tags": ["a", "b"]}, [("tags", ["a", "b"])]),
    "a text line by line, without its headings": (
        "Commit history:\nAuthor: Ada\nnothing to commit",
        [("author", "Ada"), ("result", "nothing to commit")],
    ),
    "few": ({f"f{i}": i for i in range(20)}, [(f"f{i}", i) for i in range(MOST_FACTS)]),
    "none longer than a sentence holds": (
        {"long": "x" * (LONGEST + 1), "short": "y"},
        [("short", "y")],
    ),
    "nothing of nothing": ({"a": None, "b": "", "c": []}, []),
    "nothing of null": (None, []),
}


@pytest.mark.parametrize(("response", "expected"), TOLD.values(), ids=TOLD)
def test_what_a_response_tells(response: Any, expected: list[tuple[str, Any]]) -> None:
    """A handful of short facts, each with a name."""
    assert [(f.name, f.value) for f in told_by(toys.api(), response)] == expected
