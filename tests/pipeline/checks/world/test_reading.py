"""Worlds as people write them: every mistake is told with its place, all of them at once."""

from __future__ import annotations

import copy
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml

from toolloom.pipeline.checks.world.reading import MOST, Place

LIBRARY = yaml.load(
    (Path(__file__).parents[3] / "support" / "library.yaml").read_text(), yaml.BaseLoader
)
Mistakes = Callable[[Any], list[tuple[Place, str]]]


def changed(place: tuple[str | int, ...], value: Any) -> Any:
    """The library with one value exchanged, or added."""
    inner = raw = copy.deepcopy(LIBRARY)
    for step in place[:-1]:
        inner = inner[step]
    inner[place[-1]] = value
    return raw


RENEW = ("operations", "renew")


@pytest.mark.parametrize(
    ("place", "value", "says"),
    [
        (("worlds",), "x", "`worlds` is unknown here; world can stand here"),
        (("actor",), "member", "members can stand here"),
        (("entities", "loans", "key"), "loan", "`order_id ORD-`"),
        (("entities", "loans", "fields", "book_id"), "-> boks", "books can stand here"),
        (("entities", "loans", "fields", "since"), "dat(1..2)", "date"),
        (("entities", "loans", "fields", "renewals"), "integer(2..0)", "begins after its end"),
        (("entities", "loans", "fields", "renewals"), "integer(many)", "not a range"),
        (("entities", "loans", "fields", "due"), "date = renewals", "a date is needed"),
        (("entities", "loans", "fields", "Due Day"), "date", "cannot be a name"),
        (("entities", "loans", "fields", "book"), "text", "the row of `book_id` already"),
        (("entities", "members", "rules"), ["fine >= 0"], "fines can stand here"),
        (("entities", "members", "called"), "{nam}", "name can stand here"),
        (("entities", "members", "rows"), "1000000", "not a number of rows"),
        (("entities", "books", "data"), [{"titel": "x"}], "title can stand here"),
        (("entities", "books", "data"), [{"copies": "many"}], "not a number"),
        (("entities", "books", "data"), [{"title": "null"}], "`title` is not optional"),
        (("entities", "books", "data"), [{"title": "x"}] * 1000, "at most 200 rows"),
        ((*RENEW, "args", "loan_id"), "text", "Nothing is called `loan`"),
        ((*RENEW, "steps", 0, "require"), "loan.renewal < 2", "renewals can stand here"),
        ((*RENEW, "steps", 0, "else"), "No!", "`else` needs a code and a text"),
        ((*RENEW, "steps", 0, "else"), "too_large: No!", "what any call may end in"),
        ((*RENEW, "steps", 1, "fix"), "pay", "pay_fines, place_holds"),
        ((*RENEW, "steps", 3, "set"), {"renewal": "1"}, "no field `renewal` to set"),
        ((*RENEW, "steps", 3, "set"), {"due": "3"}, "a date is needed"),
        ((*RENEW, "steps", 3, "update"), "renewals", "Nothing is called"),
        ((*RENEW, "steps", 0), {"require": "true", "let": {"x": "1"}}, "here are 2"),
        ((*RENEW, "steps"), [{"let": {"x": "1"}}] * 99, "at most 24 steps"),
        ((*RENEW, "returns"), "loan", "needs the fields that are shown"),
        ((*RENEW, "returns"), "loan[loan_id, loan_id]", "shown twice"),
        (("operations", "place_holds", "steps", 0, "do", 1, "set"), {}, "needs `book_id`"),
        (
            ("operations", "search_books", "returns"),
            "books [title, loans where book_id = this.book_id [due, copies] as loans]",
            "`copies` in 'books [title, loans where book_id = this.book_id [due, copies] as loans]'"
            " is of books, and the row looked at is of loans",
        ),
        (("policies", 0, "calls"), ["renw"], "renew can stand here"),
        (("policies", 0, "must"), "loan.fines < 2", "has no field `fines`"),
        (("policies", 0), {"says": "Be kind.", "calls": []}, "A policy needs what holds it"),
        (("promises", "renew", "effects"), ["loans due moved"], "is not an effect"),
        (
            ("promises", "renew", "after"),
            ["was(lone.due) > today"],
            "loan can stand here",
        ),
        (("promises", "renw"), {}, "`renw` is not an operation"),
        (("operations",), ["x"], "A mapping"),
        (("entities",), {f"e{n}": {} for n in range(99)}, f"at most {MOST['entities']} entities"),
    ],
)
def test_a_mistake_is_told_where_it_is(
    mistakes: Mistakes, place: Place, value: Any, says: str
) -> None:
    """What is wrong, at the place where it stands or in it, and what can stand there."""
    faults = mistakes(changed(place, value))
    told = [text for where, text in faults if where[:2] == place[:2] or where[:1] == place]
    assert any(says in text for text in told), faults


def test_a_promise_knows_nothing_that_a_step_names(mistakes: Mistakes) -> None:
    """It could stand there, and would be nothing in every state."""
    raw = changed(("operations", "renew", "steps", 0), {"let": {"kept": "loan"}})
    raw["promises"]["renew"] = {"after": ["kept.renewals > 0"]}
    assert "Nothing is called `kept`" in mistakes(raw)[0][1]


def test_a_list_may_be_of_choices(mistakes: Mistakes) -> None:
    """As it may be of any other type that is a text."""
    assert not mistakes(changed(("entities", "books", "fields", "kinds"), "list of choice(a, b)"))


def test_all_mistakes_are_told_at_once(mistakes: Mistakes) -> None:
    """Whoever mends a world mends it once."""
    raw = changed(("actor",), "nobody")
    raw["operations"]["renew"]["steps"][0]["require"] = "loan.x"
    raw["operations"]["renew"]["steps"][1]["require"] = "loan.y"
    assert len(mistakes(raw)) >= 3


@pytest.mark.parametrize("raw", [None, [], "x", 3, {"entities": None}, {"entities": {"a": []}}])
def test_what_is_no_world_is_told(mistakes: Mistakes, raw: Any) -> None:
    """Garbage is a mistake and never an error of ours."""
    assert mistakes(raw)


def test_a_part_of_any_other_shape_never_raises(mistakes: Mistakes) -> None:
    """Each part of a world is replaced by a text, a list or a mapping."""

    def places(value: Any, place: Place) -> list[Place]:
        items = (
            value.items() if isinstance(value, dict)
            else enumerate(value) if isinstance(value, list)
            else ()
        )  # fmt: skip
        return [p for key, inner in items for p in [(*place, key), *places(inner, (*place, key))]]

    garbage: tuple[Any, ...] = ("?", ["?"], {"?": "?"})
    for number, place in enumerate(places(LIBRARY, ())):
        mistakes(changed(place, garbage[number % len(garbage)]))


def test_a_world_is_plain_json(library: Any) -> None:
    """So that it can be published in a row, hashed and run by the interpreter alone."""
    assert json.loads(json.dumps(library.world)) == library.world
