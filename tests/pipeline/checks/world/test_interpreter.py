"""The interpreter: pure, exact, bounded, and never raising, whatever is called."""

from __future__ import annotations

import ast
import copy
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml
from support import lending

from toolloom.pipeline.checks.world import interpreter
from toolloom.pipeline.checks.world.interpreter import (
    BROKEN,
    INVALID,
    ITEMS,
    LARGEST,
    TEXT,
    Machine,
    State,
    as_term,
    difference,
    misfit,
    money,
    rounded,
    shifted,
    state_of,
)

TERMS = Path(__file__).with_name("terms.yaml")
NOW = "2026-01-20T10:00"
X = ["var", "x"]
EACH = ["list", ["value", [1]], "y", None, [], None, X]  # a list of one X
PAIR = ["view", [["key", ["var", "k"]], ["value", X]]]


def test_one_file_needs_the_standard_library_alone() -> None:
    """Trainers replay rows in environments of their own: the file imports nothing that they lack."""
    tree = ast.parse(Path(interpreter.__file__).read_text())
    modules = {n.module for n in ast.walk(tree) if isinstance(n, ast.ImportFrom)}
    modules |= {a.name for n in ast.walk(tree) if isinstance(n, ast.Import) for a in n.names}
    assert {str(name).split(".")[0] for name in modules} <= sys.stdlib_module_names
    names = {n.id for n in ast.walk(tree) if isinstance(n, ast.Name)}
    assert not names & {"eval", "exec", "compile", "__import__", "open", "globals", "getattr"}


@pytest.mark.parametrize(
    ("name", "args", "error", "says"),
    [
        ("renew", {"loan_id": "LOA-2"}, "unknown_loan", "There is no loan LOA-2."),
        ("renew", {}, "invalid_arguments", "'loan_id' is missing"),
        ("renew", {"loan_id": 7}, "invalid_arguments", "must be a text"),
        ("renew", {"loan_id": "LOA-1", "x": 1}, "invalid_arguments", "no argument 'x'"),
        ("pay_fines", {"amount": 9}, "too_much", "You owe 4.50."),
        ("pay_fines", {"amount": 0.1}, "invalid_arguments", "from 0.5 to 50"),
        ("pay_fines", {"amount": float("nan")}, "invalid_arguments", "out of bounds"),
        ("place_holds", {"book_ids": ["BOO-1", "BOO-1"]}, "held", "You hold Emma already."),
        ("place_holds", {"book_ids": ["BOO-1", "BOO-9"]}, "unknown_book", "There is no book"),
        ("burn", {}, "invalid_arguments", "no operation 'burn'"),
    ],
)
def test_a_failure_says_why_and_changes_nothing(
    library: Machine, shelf: State, name: str, args: Any, error: str, says: str
) -> None:
    """Another's loan is none that one can name; a list that fails half-way leaves nothing."""
    after, response, code = library.apply(shelf, name, args, NOW)
    assert (code, after) == (error, shelf)
    assert after is shelf
    assert says in response


def test_an_absent_argument_filters_nothing(library: Machine, shelf: State) -> None:
    """A condition that names an optional argument says nothing without it."""
    _, every, _ = library.apply(shelf, "search_books", {}, NOW)
    _, some, _ = library.apply(shelf, "search_books", {"words": "EMM"}, NOW)
    assert [book["title"] for book in every] == ["Emma", "Persuasion"]
    assert [book["title"] for book in some] == ["Emma"]


def altered(operation: str, **parts: Any) -> Machine:
    """The library with other parts of an operation."""
    world = lending.raw_library()
    del world["promises"]
    world["operations"][operation] |= parts
    return lending.machine_of(world)


@pytest.mark.parametrize(("args", "error"), [({}, "row"), ({"book_id": "BOO-2"}, "key")])
def test_a_value_that_asks_whether_an_argument_is_given_has_one_without_it(
    shelf: State, args: Any, error: str
) -> None:
    """What uses it is not passed over, be it a key or a row."""
    steps = [
        {"let": {"wanted": "if($book_id is given, book, loan.book)"}},
        {"let": {"key": "if($book_id is given, $book_id, loan.book_id)"}},
        {"require": "wanted.title != 'Emma'", "else": "row: It is Emma."},
        {"require": "count(holds where book_id = key) = 0", "else": "key: It is held."},
        {"update": "loan", "set": {"book_id": "key"}},
    ]
    takes = {"loan_id": "-> loans", "book_id": "-> books optional"}
    machine = altered("renew", args=takes, steps=steps)
    assert machine.apply(shelf, "renew", {"loan_id": "LOA-1", **args}, NOW)[2] == error


@pytest.mark.parametrize(("least", "error"), [(3, None), (4, INVALID)])
def test_ranges_of_days_say_what_is_drawn_and_not_what_is_allowed(
    shelf: State, least: int, error: str | None
) -> None:
    """They are told beside today; numbers are held to theirs."""
    returns = "loans where due >= $day and renewals >= $least [loan_id]"
    takes = {"day": "date(0..3)", "least": "integer(0..3)"}
    machine = altered("list_loans", args=takes, returns=returns)
    args = {"day": "2020-01-01", "least": least}
    assert machine.apply(shelf, "list_loans", args, NOW)[2] == error


@pytest.mark.parametrize(("tree", "value"), yaml.safe_load(TERMS.read_text()))
def test_terms_are_exact_and_null_where_they_say_nothing(
    library: Machine, shelf: State, tree: Any, value: Any
) -> None:
    """No tail of a float, no error: what cannot be computed is null, and null is less than nothing."""
    result = as_term(tree)(library.frame(shelf, {}, NOW))
    assert result == value
    assert type(result) is type(value)


@pytest.mark.parametrize(
    ("moment", "amount", "unit", "later"),
    [
        ("2024-02-29", 12, "months", "2025-02-28"),
        ("2026-03-31", -1, "months", "2026-02-28"),
        ("23:30", 45, "minutes", "00:15"),
        ("9999-12-31", 1, "days", None),
        ("2026-01-01", 10**12, "days", None),
        ("2026-13-01", 1, "days", None),
        ("2024-01-31", 1, "months", "2024-02-29"),
        ("2026-01-31T09:30", 1, "months", "2026-02-28T09:30"),
        ("0001-01-01", -1, "months", None),
    ],
)
def test_moments_move_in_their_own_form(
    moment: str, amount: int, unit: str, later: str | None
) -> None:
    """A month ends on its last day; beyond the calendar is nothing."""
    assert shifted(moment, amount, unit) == later


def test_only_round_rounds_and_half_goes_up() -> None:
    """As people round money."""
    assert rounded(2.675, 2) == 2.68
    assert rounded(2.5, 0) == 3
    assert rounded(-2.5, 0) == -3
    assert rounded(2.665, 2) == 2.67 and money(2.665) == "2.67"
    assert rounded(2.4949, 2) == 2.49 and money(3) == "3.00" and money(None) == ""
    assert rounded(LARGEST, 6) == LARGEST


def test_a_search_that_looks_at_too_much_is_refused(library: Machine, shelf: State) -> None:
    """Work is bounded by rows looked at, not by the patience of whoever waits."""
    tree = ["count", ["table", "books"], "x", None]
    for depth in range(20):
        tree = ["count", ["table", "books"], f"x{depth}", ["=", tree, ["value", 2]]]
    with pytest.raises(interpreter.CallRefused, match="too many rows"):
        as_term(tree)(library.frame(shelf, {}, NOW))


@pytest.mark.parametrize(
    "twice",
    [
        ["text", X, X],
        ["view", [["a", X], ["b", X]]],
        ["list", ["table", "books"], "b", None, [], None, X],
        ["zip", ["view", [["a", EACH], ["b", EACH]]]],
        ["keyed", ["list", ["value", [1, 2]], "k", None, [], None, PAIR]],
    ],
)
def test_a_value_that_doubles_for_ever_is_refused(
    library: Machine, shelf: State, twice: list[Any]
) -> None:
    """A foreign world may say so in sixty steps; no text and no response grows without end."""
    world = copy.deepcopy(library.world)
    steps = [["let", "x", ["value", "ab"]], *(["let", "x", twice] for _ in range(60))]
    world["operations"]["list_holds"] |= {"steps": steps, "returns": X}
    state, _, error = Machine(world).apply(shelf, "list_holds", {}, NOW)
    assert error == "too_large" and state is shelf


def test_an_owner_is_found_however_many_ways_lead_to_one() -> None:
    """The shortest way, in time that grows with the references."""
    names = [f"e{n}" for n in range(40)]
    fields = {name: {"type": "ref", "entity": name} for name in names}
    entities = {name: {"key": "id", "prefix": "", "fields": fields} for name in names}
    entities["last"] = {"key": "id", "prefix": "", "fields": {"it": fields["e7"]}}
    machine = Machine({"entities": entities, "operations": {}, "actor": "e0"})
    assert Machine({**machine.world, "actor": None}).entities["e0"].owner is None
    assert machine.entities["e0"].owner == []
    assert machine.entities["e39"].owner == [("e0", "e0")]
    assert machine.entities["last"].owner == [("it", "e7"), ("e0", "e0")]


LIST = {"type": "list", "of": {"type": "integer"}}
OBJECT = {
    "type": "object",
    "fields": {"n": {"type": "integer"}, "m": {"type": "integer", "optional": True}},
}


@pytest.mark.parametrize(
    ("kind", "value", "says"),
    [
        ({"type": "text"}, "x" * TEXT, None),
        ({"type": "text"}, "x" * (TEXT + 1), "must be a text"),
        ({"type": "boolean"}, 1, "must be true or false"),
        ({"type": "number"}, LARGEST, None),
        ({"type": "number"}, LARGEST + 1, "is out of bounds"),
        ({"type": "integer"}, 1.5, "must be an integer"),
        ({"type": "integer", "low": 1, "high": 3}, 3, None),
        ({"type": "integer", "low": 1, "high": 3}, 4, "must be from 1 to 3"),
        ({"type": "integer", "low": 1}, 0, "must be 1 or more"),
        ({"type": "choice", "choices": ["a", "b"]}, ["a"], "must be one of a, b"),
        ({"type": "date"}, "2026-02-29", "must be a date like YYYY-MM-DD"),
        ({"type": "time"}, "24:00", "must be a time like HH:MM"),
        ({"type": "datetime"}, "2026-02-28 09:00", "must be a datetime like YYYY-MM-DDTHH:MM"),
        (LIST, [1] * ITEMS, None),
        (LIST, [1] * (ITEMS + 1), f"must be a list of at most {ITEMS}"),
        (LIST, [], "must not be empty"),
        ({**LIST, "empty": True}, [], None),
        (LIST, [1, "x"], "holds an item that must be an integer"),
        (OBJECT, {"n": 1}, None),
        (OBJECT, {"m": 1}, "lacks 'n'"),
        (OBJECT, {"n": "x"}, "holds 'n', which must be an integer"),
        (OBJECT, {"n": 1, "x": 2}, "has no field 'x'"),
        (OBJECT, [1], "must be an object"),
    ],
)
def test_values_fit_their_type_up_to_its_bounds(kind: Any, value: Any, says: str | None) -> None:
    """The bound itself fits, what lies beside it does not."""
    assert misfit(kind, value) == says


@pytest.fixture(scope="module")
def boxes() -> Machine:
    text = lending.LIBRARY.with_name("boxes.yaml").read_text()
    return lending.machine_of(yaml.load(text, yaml.BaseLoader))


@pytest.fixture(scope="module")
def full(boxes: Machine) -> State:
    """Ann has boxes 1 and 2, Ben box 3, nobody box 4; a part lies in box 1."""
    owners = {
        f"OWN-{n}": {"owner_id": f"OWN-{n}", "name": name} for n, name in ((1, "A"), (2, "B"))
    }
    rest = {"tags": None, "at": None, "rank": 0}
    rows = {
        f"BOX-{n}": {"box_id": f"BOX-{n}", "owner_id": owner, "name": f"b{n}", "size": n, **rest}
        | {"state": "new", "twice": 2 * n, "score": n}
        for n, owner in ((1, "OWN-1"), (2, "OWN-1"), (3, "OWN-2"), (4, None))
    }
    parts = {"PAR-1": {"part_id": "PAR-1", "box_id": "BOX-1", "size": 1}}
    tables = {"owners": owners, "boxes": rows, "parts": parts}
    return state_of(tables, "OWN-1", {"owners": 3, "boxes": 5, "parts": 2})


@pytest.mark.parametrize(
    ("name", "args", "expected"),
    [
        ("change", {"box_id": "BOX-4", "size": 0}, 0),
        ("change", {"box_id": "BOX-1", "size": -0.5}, BROKEN),
        ("change", {"box_id": "BOX-3", "size": 1}, "unknown_box"),
        ("change", {"box_id": "BOX-1", "name": "b2"}, BROKEN),
        ("change", {"box_id": "BOX-1", "name": "b1"}, "b1"),
        ("change", {"box_id": "BOX-1", "name": "2026-01-20 10:00:00"}, "2026-01-20 10:00:00"),
        ("change", {"box_id": "BOX-1", "state": "shut"}, "shut"),
        ("change", {"box_id": "BOX-1", "state": "new"}, "new"),
        ("change", {"box_id": "BOX-1", "tags": ["x"]}, ["x"]),
        ("change", {"box_id": "BOX-1", "at": "2026-01-20 10:00:00"}, "2026-01-20T10:00"),
        ("change", {"box_id": "BOX-1", "size": 2.0}, 2),
        ("change", {"box_id": "BOX-1", "size": 2.5}, 2.5),
        ("change", {"box_id": "BOX-1", "size": 10.0**13}, INVALID),
        ("add", {"size": 4}, {"box_id": "BOX-5", "size": 4, "twice": 8, "rank": 1, "score": 95}),
        ("drop", {"box_id": "BOX-1"}, BROKEN),
        ("drop", {"box_id": "BOX-2"}, None),
        ("drop_twice", {"box_id": "BOX-2"}, BROKEN),
        ("drop_and_change", {"box_id": "BOX-2"}, BROKEN),
        ("part", {"box_id": "BOX-2"}, BROKEN),
        ("grow", {"more": 2}, [{"size": 5}, {"size": 6}]),
        ("sized", {"size": 2}, 3),
        ("pick", {"size": 1}, {"box_id": "BOX-1", "size": 1}),
        ("pick", {"size": 2}, {"box_id": "BOX-2", "size": 0}),
        ("pick", {"size": 7}, "none"),
        ("spread", {}, [{"size": size} for size in (1, 13, 3, 4)]),
        ("change_none", {}, BROKEN),
        ("like", {}, [{"box_id": f"BOX-{n}"} for n in (4, 3, 2, 1)]),
        ("like", {"size": 2}, [{"box_id": "BOX-2"}]),
        ("many", {"box_ids": ["BOX-1", "BOX-4"]}, 2),
        ("many", {"box_ids": ["BOX-1", "BOX-3"]}, "unknown_box"),
        ("rows", {"rows": [{"box_id": "BOX-1", "n": 2.0}, {"box_id": "BOX-2"}]}, 2),
        ("rows", {"rows": [{"box_id": "BOX-3"}]}, "unknown_box"),
        ("rows", {"rows": [{"box_id": "BOX-1", "x": 1}]}, INVALID),
    ],
)
def test_each_step_does_what_it_says(
    boxes: Machine, full: State, name: str, args: Any, expected: Any
) -> None:
    """And what it would leave broken is refused: owners, moves, unique values, what is referred to."""
    after, response, error = boxes.apply(full, name, args, NOW)
    if name == "change" and error is None:
        (asked,) = args.keys() - {"box_id"}
        response = response[asked]
    assert error or type(response) is type(expected)
    assert (response if error is None else error) == expected
    assert (name == "drop" and error is None) == ("BOX-2" not in after["tables"]["boxes"])
    if isinstance(response, list):  # which a caller may change
        response.clear()
        assert "tags" not in args or after["tables"]["boxes"]["BOX-1"]["tags"] == args["tags"]


def test_a_choice_moves_only_where_it_may(boxes: Machine, full: State) -> None:
    """From shut nothing leads back."""
    shut, _, _ = boxes.apply(full, "change", {"box_id": "BOX-1", "state": "shut"}, NOW)
    after, text, error = boxes.apply(shut, "change", {"box_id": "BOX-1", "state": "open"}, NOW)
    assert (error, after is shut) == (BROKEN, True)
    assert "state cannot go from shut to open" in text
    twice, _, _ = boxes.apply(shut, "change", {"box_id": "BOX-1", "tags": ["a"]}, NOW)
    assert boxes.apply(twice, "change", {"box_id": "BOX-2", "tags": ["a"]}, NOW)[2] == BROKEN


def test_differences_say_what_changed(boxes: Machine, full: State) -> None:
    """Fields of rows, new rows without their keys, rows that are gone."""
    state = full
    size, name = ({"box_id": "BOX-1", "size": 7}, {"box_id": "BOX-2", "name": "BOX-5"})
    for call, args in (("change", size), ("fill", {"box_id": "BOX-2"}), ("change", name)):
        state, _, _ = boxes.apply(state, call, args, NOW)
    state, _, _ = boxes.apply(state, "drop", {"box_id": "BOX-4"}, NOW)
    changes = difference(boxes, full, state)
    assert ["boxes", "BOX-1", "size", 7] in changes and ["boxes", "BOX-4", "deleted"] in changes
    assert ["boxes", "BOX-2", "name", "BOX-5"] in changes and len(changes) == 6
    assert ["parts", "new", {"box_id": "new", "size": 1}] in changes
    assert ["parts", "new", {"box_id": "BOX-2", "size": 2}] in changes
    assert difference(boxes, full, full) == []
