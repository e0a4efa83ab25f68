"""The interpreter: pure, exact, bounded, and never raising, whatever is called."""

from __future__ import annotations

import ast
import copy
import json
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from toolloom.pipeline.checks.world import interpreter
from toolloom.pipeline.checks.world.interpreter import (
    BROKEN,
    INVALID,
    ITEMS,
    LARGEST,
    TEXT,
    VISITS,
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
from toolloom.pipeline.checks.world.reading import read_world

LIBRARY = Path(__file__).parents[3] / "support" / "library.yaml"
NOW = "2026-01-20T10:00"
X = ["var", "x"]
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=20),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=8), inner),
    max_leaves=12,
)


def test_one_file_needs_the_standard_library_alone() -> None:
    """Trainers replay rows in environments of their own: the file imports nothing that they lack."""
    tree = ast.parse(Path(interpreter.__file__).read_text())
    modules = {n.module for n in ast.walk(tree) if isinstance(n, ast.ImportFrom)}
    modules |= {a.name for n in ast.walk(tree) if isinstance(n, ast.Import) for a in n.names}
    assert {str(name).split(".")[0] for name in modules} <= sys.stdlib_module_names
    names = {n.id for n in ast.walk(tree) if isinstance(n, ast.Name)}
    assert not names & {"eval", "exec", "compile", "__import__", "open", "globals", "getattr"}


def test_a_call_changes_a_copy_and_shows_it(library: Machine, shelf: State) -> None:
    """The state before a call is what it was; the state after it holds what was set."""
    before = copy.deepcopy(shelf)
    after, response, error = library.apply(shelf, "renew", {"loan_id": "LOA-1"}, NOW)
    assert error is None
    assert response == {"loan_id": "LOA-1", "due": "2026-02-06"}
    assert after["tables"]["loans"]["LOA-1"]["renewals"] == 2
    assert shelf == before


@pytest.mark.parametrize(
    ("name", "args", "error", "says"),
    [
        ("renew", {"loan_id": "LOA-2"}, "unknown_loan", "There is no loan LOA-2."),
        ("renew", {}, "invalid_arguments", "'loan_id' is missing"),
        ("renew", {"loan_id": 7}, "invalid_arguments", "must be a text"),
        ("renew", {"loan_id": {"a": 1}}, "invalid_arguments", "must be a text"),
        ("renew", {"loan_id": "LOA-1", "x": 1}, "invalid_arguments", "no argument 'x'"),
        ("pay_fines", {"amount": 9}, "too_much", "You owe 4.50."),
        ("pay_fines", {"amount": 0.1}, "invalid_arguments", "from 0.5 to 50"),
        ("pay_fines", {"amount": float("nan")}, "invalid_arguments", "out of bounds"),
        ("pay_fines", {"amount": True}, "invalid_arguments", "must be a number"),
        ("place_holds", {"book_ids": []}, "invalid_arguments", "must not be empty"),
        ("place_holds", {"book_ids": ["BOO-1"] * (ITEMS + 1)}, "invalid_arguments", "at most"),
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


def test_a_value_that_asks_whether_an_argument_is_given_has_one_without_it(
    library: Machine, shelf: State
) -> None:
    """What uses it is not passed over, be it a key or a row."""
    world = yaml.load(LIBRARY.read_text(), yaml.BaseLoader)
    del world["promises"]
    world["operations"]["renew"] |= {
        "args": {"loan_id": "-> loans", "book_id": "-> books optional"},
        "steps": [
            {"let": {"wanted": "if($book_id is given, book, loan.book)"}},
            {"let": {"key": "if($book_id is given, $book_id, loan.book_id)"}},
            {"require": "wanted.title != 'Emma'", "else": "row: It is Emma."},
            {"require": "count(holds where book_id = key) = 0", "else": "key: It is held."},
            {"update": "loan", "set": {"book_id": "key"}},
        ],
    }
    machine = Machine(read_world(world, lambda *fault: pytest.fail(str(fault))))
    for args, error in (({}, "row"), ({"book_id": "BOO-2"}, "key")):
        assert machine.apply(shelf, "renew", {"loan_id": "LOA-1", **args}, NOW)[2] == error


def test_ranges_of_days_say_what_is_drawn_and_not_what_is_allowed(
    library: Machine, shelf: State
) -> None:
    """They are told beside today; numbers are held to theirs."""
    world = yaml.load(LIBRARY.read_text(), yaml.BaseLoader)
    del world["promises"]
    world["operations"]["list_loans"] |= {
        "args": {"day": "date(0..3)", "least": "integer(0..3)"},
        "returns": "loans where due >= $day and renewals >= $least [loan_id]",
    }
    machine = Machine(read_world(world, lambda *fault: pytest.fail(str(fault))))
    for least, error in ((3, None), (4, INVALID)):
        args = {"day": "2020-01-01", "least": least}
        assert machine.apply(shelf, "list_loans", args, NOW)[2] == error


def test_an_operation_that_lacks_a_require_is_refused_by_the_rule(
    library: Machine, shelf: State
) -> None:
    """Fines below zero break a rule of members, whatever the operation says."""
    world = copy.deepcopy(library.world)
    world["operations"]["pay_fines"]["steps"].pop(0)
    after, text, error = Machine(world).apply(shelf, "pay_fines", {"amount": 9}, NOW)
    assert (error, after) == (interpreter.BROKEN, shelf)
    assert "fines >= 0" in text


@given(name=st.sampled_from(["renew", "place_holds", "list_loans", "pay_fines", "x"]), args=JSON)
def test_hostile_arguments_never_raise(
    library: Machine, shelf: State, name: str, args: Any
) -> None:
    """Whatever is sent, the answer is a response or an error, and a failure changes nothing."""
    before = copy.deepcopy(shelf)
    after, response, error = library.apply(shelf, name, args, NOW)
    assert shelf == before
    assert (after is shelf) or error is None
    assert error is None or isinstance(response, str)


@pytest.mark.parametrize(
    ("tree", "value"),
    [
        (["+", ["value", 0.1], ["value", 0.2]], 0.3),
        (["*", ["value", 19.99], ["value", 3]], 59.97),
        (["-", ["value", 4.5], ["value", 4.5]], 0),
        (["/", ["value", 1], ["value", 0]], None),
        (["*", ["value", 10**12], ["value", 10**12]], None),
        (["+", ["value", None], ["value", 1]], None),
        (["<", ["value", None], ["value", 1]], False),
        (["<", ["value", "2026-01-20"], ["value", "2026-02-01"]], True),
        (["days", ["value", "2026-01-31T09:00"], ["value", "2026-02-01"]], 1),
        (["hours", ["value", "2026-01-31T09:00"], ["value", "2026-01-31T10:30"]], 1.5),
        (["weekday", ["value", "2026-02-02"]], "Monday"),
        (["same", ["value", "emma  Woodhouse"], ["value", "Emma Woodhouse"]], True),
        (["has", ["value", ["a", "b"]], ["value", "b"]], True),
        (["sum", ["value", [1, 2.5]], "x", None, ["var", "x"]], 3.5),
        (["max", ["value", []], "x", None, ["var", "x"]], None),
        (["least", ["value", 3], ["value", None]], None),
        (["text", ["value", 3], ["value", None], ["value", [True, "x"]]], "3yes, x"),
        (["text", ["value", False]], "no"),
        (["-", ["value", 1], ["value", 0.9]], 0.1),
        (["*", ["value", 1.1], ["value", 1.1]], 1.21),
        (["+", ["value", 10**12 - 1], ["value", 1]], 10**12),
        (["+", ["value", 10**12], ["value", 1]], None),
        (["+", ["value", True], ["value", 1]], None),
        (["+", ["value", 0.5], ["value", 0.5]], 1),
        (["<", ["value", "b"], ["value", 1]], False),
        (["<", ["value", 1], ["value", None]], False),
        (["<", ["value", 1], ["value", 1]], False),
        (["<=", ["value", 1], ["value", 1]], True),
        ([">", ["value", 1], ["value", 1]], False),
        ([">=", ["value", 1], ["value", 1]], True),
        (["=", ["value", None], ["value", None]], True),
        (["!=", ["value", 1], ["value", 2]], True),
        (["in", ["value", 1], ["value", [1]]], True),
        (["in", ["value", 1], ["value", None]], False),
        (["not", ["value", False]], True),
        (["same", ["value", 1], ["value", 1]], True),
        (["same", ["value", "1"], ["value", 1]], False),
        (["same", ["value", None], ["value", "a"]], False),
        (["has", ["value", "Emma"], ["value", "EMM"]], True),
        (["has", ["value", "a1"], ["value", 1]], False),
        (["has", ["value", None], ["value", "b"]], False),
        (["days", ["value", "2024-02-28"], ["value", "2024-03-01"]], 2),
        (["days", ["value", "2026-02-01"], ["value", "2026-01-31"]], -1),
        (["days", ["value", None], ["value", "2026-01-31"]], None),
        (["days", ["value", "2026-01-31"], ["value", None]], None),
        (["minutes", ["value", "09:00"], ["value", "10:30"]], 90),
        (["hours", ["value", "10:00"], ["value", "09:15"]], -0.75),
        (["weekday", ["value", None]], None),
        (["hour", ["value", "09:30"]], 9),
        (["date", ["value", "2026-01-31T09:30"]], "2026-01-31"),
        (["date", ["value", None]], None),
        (["time", ["value", "2026-01-31T09:30"]], "09:30"),
        (["time", ["value", None]], None),
        (["at", ["value", "2026-01-31"], ["value", "09:30"]], "2026-01-31T09:30"),
        (["at", ["value", "2026-01-31"], ["value", None]], None),
        (["at", ["value", None], ["value", "09:30"]], None),
        (["shift", ["value", "2026-01-31"], ["value", None], "days"], None),
        (["shift", ["value", "2026-01-31"], ["value", True], "days"], None),
        (["round", ["value", None], 2], None),
        (["size", ["value", None]], 0),
        (["size", ["value", "ab"]], 2),
        (["least", ["value", 3], ["value", 2]], 2),
        (["most", ["value", 3], ["value", 2]], 3),
        (["if", ["value", True], ["value", 1], ["value", 2]], 1),
        (["if", ["value", None], ["value", 1], ["value", 2]], 2),
        (["and", ["value", True], ["value", False]], False),
        (["or", ["value", True], ["value", False]], True),
        (["count", ["value", None], "x", None], 0),
        (["count", ["value", [1, 2]], "x", [">", ["var", "x"], ["value", 1]]], 1),
        (["sum", ["value", [1, None]], "x", None, ["var", "x"]], 1),
        (["min", ["value", [2, None, 1]], "x", None, ["var", "x"]], 1),
        (["max", ["value", ["a", "b"]], "x", None, ["var", "x"]], "b"),
        (["first", ["value", []], "x", None, []], None),
        (["list", ["value", [3, 1, 2]], "x", None, [[X, True]], ["value", 2], None], [3, 2]),
        (["list", ["value", [1, 2]], "x", None, [], ["value", 0], None], []),
        (["list", ["value", [1, 2]], "x", None, [], ["value", -1], None], []),
        (["list", ["value", [2, None, 1]], "x", None, [[X, False]], None, None], [1, 2, None]),
        (["list", ["value", [2, None, 1]], "x", None, [[X, True]], None, None], [None, 2, 1]),
        (["view", [["a", ["value", None]], ["b", ["value", 0]]]], {"b": 0}),
        (["shown", "x", ["value", None], X], None),
        (["field", ["value", None], "a"], None),
        (["hop", ["value", "BOO-9"], "books"], None),
        (["was", ["value", 1], {}], None),
        (["given", "x"], False),
        (["skip", ["x"], ["value", False]], True),
        (["skip", [], ["value", False]], False),
        (["today"], "2026-01-20"),
    ],
)
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
        ("2026-01-31", 1, "months", "2026-02-28"),
        ("2024-02-29", 12, "months", "2025-02-28"),
        ("2026-03-31", -1, "months", "2026-02-28"),
        ("2026-01-31", 1, "weeks", "2026-02-07"),
        ("2026-12-31T23:30", 45, "minutes", "2027-01-01T00:15"),
        ("23:30", 45, "minutes", "00:15"),
        ("9999-12-31", 1, "days", None),
        ("2026-01-01", 10**12, "days", None),
        ("2026-13-01", 1, "days", None),
        ("2024-01-31", 1, "months", "2024-02-29"),
        ("2026-11-30", 1, "months", "2026-12-30"),
        ("2026-12-31", 2, "months", "2027-02-28"),
        ("2026-01-15", -13, "months", "2024-12-15"),
        ("2026-01-31T09:30", 1, "months", "2026-02-28T09:30"),
        ("2026-01-01T00:00", -1, "hours", "2025-12-31T23:00"),
        ("0001-01-01", -1, "months", None),
        ("2026-01-01", 10**12, "months", None),
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
        ({"type": "text"}, " ", "must not be empty"),
        ({"type": "boolean"}, 1, "must be true or false"),
        ({"type": "number"}, LARGEST, None),
        ({"type": "number"}, LARGEST + 1, "is out of bounds"),
        ({"type": "integer"}, 1.5, "must be an integer"),
        ({"type": "integer"}, "1", "must be an integer"),
        ({"type": "integer"}, 2.0, None),
        ({"type": "integer", "low": 1, "high": 3}, 1, None),
        ({"type": "integer", "low": 1, "high": 3}, 3, None),
        ({"type": "integer", "low": 1, "high": 3}, 0, "must be from 1 to 3"),
        ({"type": "integer", "low": 1, "high": 3}, 4, "must be from 1 to 3"),
        ({"type": "integer", "low": 1}, 0, "must be 1 or more"),
        ({"type": "integer", "high": 3}, 4, "must be 3 or less"),
        ({"type": "choice", "choices": ["a", "b"]}, "c", "must be one of a, b"),
        ({"type": "choice", "choices": ["a", "b"]}, ["a"], "must be one of a, b"),
        ({"type": "date"}, "2024-02-29", None),
        ({"type": "date"}, "2026-02-29", "must be a date like YYYY-MM-DD"),
        ({"type": "date"}, 7, "must be a date like YYYY-MM-DD"),
        ({"type": "date"}, "20260228", "must be a date like YYYY-MM-DD"),
        ({"type": "time"}, "23:59", None),
        ({"type": "time"}, "24:00", "must be a time like HH:MM"),
        ({"type": "datetime"}, "2026-02-28 09:00", "must be a datetime like YYYY-MM-DDTHH:MM"),
        (LIST, [1] * ITEMS, None),
        (LIST, [1] * (ITEMS + 1), f"must be a list of at most {ITEMS}"),
        (LIST, [], "must not be empty"),
        ({**LIST, "empty": True}, [], None),
        (LIST, [1, "x"], "holds an item that must be an integer"),
        (LIST, "x", f"must be a list of at most {ITEMS}"),
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


BOXES = """
world: boxes
actor: owners
entities:
  owners: {key: owner_id OWN-, called: "{name}", fields: {name: text label}}
  boxes:
    key: box_id BOX-
    called: "{name}"
    rules: [size >= 0]
    fields:
      owner_id: -> owners optional
      name: text label unique optional
      size: number(0..9)
      tags: list of text unique optional
      state: choice(new > open > shut; new > shut) optional
      at: datetime optional
      twice: number = size * 2
      rank: integer = count(boxes where score = 1)
      score: integer unique = count(boxes) + 90
  parts:
    key: part_id PAR-
    called: "{box.name}"
    fields: {box_id: -> boxes, size: integer(0..9)}
operations:
  change:
    about: x.
    args: {box_id: -> boxes, size: number optional, name: text optional, state: like boxes.state optional, tags: list of text optional, at: datetime optional}
    steps:
      - {update: box, set: {size: $size, name: $name, state: $state, tags: $tags, at: $at}}
    returns: box[box_id, size, name, state, tags, at]
  add: {about: x., args: {size: number}, steps: [{create: boxes, set: {size: $size}, as: it}], returns: "it[box_id, size, twice, rank, score]"}
  drop: {about: x., args: {box_id: -> boxes}, steps: [{delete: box}]}
  drop_twice: {about: x., args: {box_id: -> boxes}, steps: [{delete: box}, {delete: box}]}
  drop_and_change: {about: x., args: {box_id: -> boxes}, steps: [{delete: box}, {update: box, set: {size: "1"}}]}
  part: {about: x., args: {box_id: -> boxes}, steps: [{create: parts, set: {box_id: box, size: "1"}}, {delete: box}]}
  grow: {about: x., args: {more: integer(1..3)}, steps: [{each: boxes where owner_id = me, as: b, do: [{update: b, set: {size: size + $more}}, {update: b, set: {size: size + $more}}]}], returns: "boxes where owner_id = me [size]"}
  sized: {about: x., args: {size: number}, steps: [{let: {before: count(boxes where size = $size)}}, {each: boxes as b where b.size != $size, as: b, do: [{update: b, set: {size: $size}}]}], returns: count(boxes where size = $size) - before}
  pick: {about: x., args: {size: number}, steps: [{find: first(boxes where size = $size), as: it, else: "none: No box."}, {update: it, when: it.size > 1, set: {size: "0"}}], returns: "it[box_id, size]"}
  fill: {about: x., args: {box_id: -> boxes}, steps: [{create: boxes, as: it, set: {size: "1"}}, {each: "[1, 2]", as: n, do: [{create: parts, set: {box_id: "if(n = 1, it.box_id, box.box_id)", size: n}}]}]}
  spread: {about: x., steps: [{each: boxes as b, as: b, do: [{update: first(boxes where name = 'b2'), set: {size: size + b.size}}]}], returns: "boxes [size]"}
  change_none: {about: x., steps: [{update: first(boxes where name = 'x'), set: {size: "1"}}]}
  like: {about: x., args: {size: number optional}, returns: "boxes where size = $size by name desc [box_id]"}
  many: {about: x., args: {box_ids: list of -> boxes}, returns: size($box_ids)}
  rows: {about: x., args: {rows: {list: {box_id: -> boxes, n: integer optional}}}, returns: "max(r.n for $rows as r)"}
"""


@pytest.fixture(scope="module")
def boxes() -> Machine:
    raw = yaml.load(BOXES, yaml.BaseLoader)
    return Machine(json.loads(json.dumps(read_world(raw, lambda *fault: pytest.fail(str(fault))))))


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


def test_the_last_visit_is_allowed(library: Machine, shelf: State) -> None:
    """Exactly so many rows can be looked at."""
    frame = library.frame(shelf, {}, NOW)
    frame.left = 2
    assert as_term(["count", ["table", "books"], "x", None])(frame) == 2
    with pytest.raises(interpreter.CallRefused):
        frame.visit()
    assert library.frame(shelf, {}, NOW).left == VISITS
    assert (VISITS, TEXT, ITEMS, LARGEST) == (200_000, 4_000, 100, 10**12)
