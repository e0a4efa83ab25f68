"""The interpreter: pure, exact, bounded, and never raising, whatever is called."""

from __future__ import annotations

import ast
import copy
import sys
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from toolloom.pipeline.checks.world import interpreter
from toolloom.pipeline.checks.world.interpreter import (
    ITEMS,
    Machine,
    State,
    as_term,
    rounded,
    shifted,
)
from toolloom.pipeline.worlds.soundness import walk

NOW = "2026-01-20T10:00"
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


def test_rules_moves_and_references_hold_after_every_call(library: Machine) -> None:
    """What an operation would leave broken is refused, and the walks of a sound world never are."""
    for call in walk(library, 5, 6, 60):
        assert call.error != interpreter.BROKEN
        frame = library.frame(call.after, {}, call.now)
        for name, table in call.after["tables"].items():
            entity = library.entities[name]
            for key, row in table.items():
                assert row[entity.key] == key
                assert library.broken(frame, name, row) is None
                for field, target in entity.references.items():
                    assert row[field] in call.after["tables"][target]


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


@given(
    args=st.fixed_dictionaries(
        {},
        optional={
            "loan_id": JSON | st.sampled_from(["LOA-1", "LOA-2"]),
            "book_ids": st.lists(JSON | st.sampled_from(["BOO-1", "BOO-2"]), max_size=5),
            "amount": JSON | st.floats(0.5, 50),
            "title": JSON,
            "hold_id": JSON | st.just("HOL-1"),
        },
    )
)
def test_nearly_right_arguments_never_raise(library: Machine, shelf: State, args: Any) -> None:
    """Arguments of the right names with any values: every operation takes or refuses them."""
    for name, operation in library.operations.items():
        fitting = {key: value for key, value in args.items() if key in operation.args}
        after, _, error = library.apply(shelf, name, fitting, NOW)
        assert (after is shelf) or error is None


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


def test_a_search_that_looks_at_too_much_is_refused(library: Machine, shelf: State) -> None:
    """Work is bounded by rows looked at, not by the patience of whoever waits."""
    tree = ["count", ["table", "books"], "x", None]
    for depth in range(20):
        tree = ["count", ["table", "books"], f"x{depth}", ["=", tree, ["value", 2]]]
    with pytest.raises(interpreter.CallRefused, match="too many rows"):
        as_term(tree)(library.frame(shelf, {}, NOW))


X = ["var", "x"]


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
    assert machine.entities["e0"].owner == []
    assert machine.entities["e39"].owner == [("e0", "e0")]
    assert machine.entities["last"].owner == [("it", "e7"), ("e0", "e0")]
