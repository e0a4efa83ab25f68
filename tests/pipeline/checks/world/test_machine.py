"""The interpreter as a machine: whatever is called in whatever order, what must hold holds."""

from __future__ import annotations

import copy
import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)

from toolloom.pipeline.checks.world.interpreter import (
    BROKEN,
    ITEMS,
    TEXT,
    TOO_LARGE,
    Frame,
    Machine,
    State,
    Table,
    as_term,
)
from toolloom.pipeline.sampling.values import rng_for
from toolloom.pipeline.worlds.library import load_world
from toolloom.pipeline.worlds.operations import ArgumentDrawer
from toolloom.pipeline.worlds.soundness import mutants
from toolloom.pipeline.worlds.states import draw_now, draw_state

SHIPPED = sorted(
    path
    for path in Path(__file__).parents[4].joinpath("recipes/worlds").glob("*.yaml")
    if "." not in path.stem
)
NESTED: Any = "x"
for _ in range(5_000):
    NESTED = [NESTED]
HOSTILE: list[Any] = [
    *(None, True, 0, -1, 0.1, -0.0, 1e-300, 10**12, 10**12 + 1, 10**5_000, 1e308),
    *(float("nan"), float("inf"), float("-inf")),
    *("", " ", "\ud800", "\x00", "٢٠٢٦-٠١-٢٠", "2026-02-30", "0000-01-01", "9999-12-31"),
    *("24:00", "2026-01-20T10:00:00", "2026-01-20 10:00:00\n", "x" * TEXT, "x" * (TEXT + 1)),
    *("x" * 100_000, NESTED, [NESTED] * 3, ["x"] * ITEMS, ["x"] * 5_000, [None], {}, []),
    *({"": 1}, {"x" * 5_000: 1}, {str(number): number for number in range(2_000)}),
]
seeds = st.integers(0, 9_999)
hostile = st.integers(0, len(HOSTILE) - 1)  # which: some are too large to be printed


class Watched(Machine):
    """Keeps the last frame, to see how much a call looked at."""

    last: Frame | None = None

    def frame(self, state: State, args: dict[str, Any], now: str) -> Frame:
        self.last = super().frame(state, args, now)
        return self.last


def canonical(value: Any) -> str:
    return json.dumps(value, sort_keys=True)


class Calls(RuleBasedStateMachine):
    """Calls of a world, one upon the other."""

    machine: Watched
    sound = True  # a world whose operations require what its rules do

    @initialize(seed=st.integers(0, 999))
    def start(self, seed: int) -> None:
        rng = rng_for("machine", seed)
        self.now = draw_now(rng)
        self.state = draw_state(self.machine, rng, self.now)
        self.before: State | None = None
        self.checked: State | None = None

    def call(self, name: str, args: Any) -> None:
        before = canonical(self.state)
        after, response, error = self.machine.apply(self.state, name, args, self.now)
        again = self.machine.apply(self.state, name, args, self.now)
        assert canonical(self.state) == before
        assert (canonical(again[0]), *again[1:]) == (canonical(after), response, error)
        assert json.loads(json.dumps(response, allow_nan=False)) == response
        assert self.machine.last is None or self.machine.last.left >= -1
        if error is None:
            assert name in self.machine.operations
            if not self.machine.operations[name].changes:
                assert after is self.state
        else:
            assert after is self.state and isinstance(response, str)
            assert not self.sound or error not in (BROKEN, TOO_LARGE)
        self.before, self.state = self.state, after

    def plausible(self, name: str, seed: int) -> dict[str, Any]:
        """Arguments as random calls send them: of the state, beside it, or at a bound."""
        rng = rng_for("call", seed)
        drawer = ArgumentDrawer(self.machine, self.state, self.now, rng, loose=True)
        return drawer.draw(name) or {}

    @rule(data=st.data(), seed=seeds)
    def plausible_call(self, data: st.DataObject, seed: int) -> None:
        name = data.draw(st.sampled_from(list(self.machine.operations)))
        args = self.plausible(name, seed)
        given = copy.deepcopy(args)
        self.call(name, args)
        assert args == given

    @rule(data=st.data(), seed=seeds, which=hostile)
    def hostile_call(self, data: st.DataObject, seed: int, which: int) -> None:
        name = data.draw(st.sampled_from(list(self.machine.operations)))
        args = self.plausible(name, seed)
        key = data.draw(st.sampled_from([*self.machine.operations[name].args, "unknown", "\ud800"]))
        value, within = HOSTILE[which], args.get(key)
        if isinstance(within, list) and within and data.draw(st.booleans()):
            value = [*within, {**within[0], "x": value} if isinstance(within[0], dict) else value]
        self.call(name, {**args, key: value})

    @rule(data=st.data(), which=hostile)
    def arguments_of_another_kind(self, data: st.DataObject, which: int) -> None:
        self.call(data.draw(st.sampled_from(list(self.machine.operations))), HOSTILE[which])

    @rule(name=st.text(max_size=9) | st.sampled_from(["\ud800", "x" * 5_000, "__init__"]))
    def unknown_operation(self, name: str) -> None:
        assume(name not in self.machine.operations)
        self.call(name, {})

    @precondition(lambda self: self.checked is not self.state)
    @invariant()
    def rows_keep_what_the_world_says(self) -> None:
        """Of all rows; where an operation has a fault, of those that the last call changed."""
        self.checked = self.state
        frame = self.machine.frame(self.state, {}, self.now)
        for name, table in self.state["tables"].items():
            entity = self.machine.entities[name]
            for key, row in table.items():
                assert row[entity.key] == key and row.keys() == {entity.key, *entity.fields}
                assert entity.fault(row, None) is None
                if self.sound or (self.before and row is not self.before["tables"][name].get(key)):
                    assert self.machine.broken(frame, name, row) is None
                for field, target in entity.references.items():
                    assert row[field] is None or row[field] in self.state["tables"][target]
            for field in entity.unique:
                values = [row[field] for row in table.values() if row[field] is not None]
                assert all(values.count(value) == 1 for value in values)


def run(world: Any, examples: int, steps: int) -> None:
    """Over a world as it is, and with one fault in an operation, so that its rules are tried."""
    faulty = [mutant for *_, mutant in mutants(world)]

    class Here(Calls):
        machine = Watched(world)

        @initialize(number=st.none() | st.integers(0, len(faulty) - 1))
        def plant(self, number: int | None) -> None:
            self.sound = number is None
            self.machine = Watched(world if number is None else faulty[number])

    bounds = settings(max_examples=examples, stateful_step_count=steps)
    run_state_machine_as_test(Here, settings=bounds)


def test_calls_upon_calls_keep_a_library_whole(library: Machine) -> None:
    """Never raises, a failure and a read change nothing, rules and references hold, and a call
    made twice says the same."""
    run(library.world, 25, 25)


@pytest.mark.slow
@pytest.mark.parametrize("file", SHIPPED, ids=lambda file: file.stem)
def test_calls_upon_calls_keep_a_shipped_world_whole(file: Path) -> None:
    """The same of the worlds that ship."""
    run(load_world(file), 25, 40)


NOW = "2026-01-20T10:00"
X, Y = ["var", "x"], ["var", "y"]
FIELDS = ["loan_id", "member_id", "book_id", "since", "renewals"]
fields = st.builds(
    lambda of, name: ["field", of, name], st.sampled_from([X, Y]), st.sampled_from(FIELDS)
)
sums = fields.map(lambda field: ["+", ["field", field[1], "renewals"], ["value", 0]])
terms = fields | sums | st.sampled_from([["value", "MEM-2"], ["value", 1], ["value", None]])


@given(left=terms, right=terms, more=terms, shadowed=st.booleans(), shown=st.booleans())
def test_an_index_finds_what_looking_at_each_row_finds(
    library: Machine, shelf: State, left: Any, right: Any, more: Any, shadowed: bool, shown: bool
) -> None:
    """Whatever a search compares, in whatever order; and it leaves names as they were."""
    frame = library.frame(shelf, {}, NOW)
    loans = shelf["tables"]["loans"]
    frame.vars |= {"y": loans["LOA-1"]} | ({"x": loans["LOA-2"]} if shadowed else {})
    names = dict(frame.vars)
    view = ["view", [["key", ["field", X, "loan_id"]]]] if shown else None
    found = []
    for same in (["=", left, right], ["or", ["=", left, right], ["value", False]]):
        clause = ["and", same, ["!=", more, ["value", "BOO-2"]]]
        found.append(as_term(["list", ["table", "loans"], "x", clause, [], None, view])(frame))
        assert frame.vars == names
    assert found[0] == found[1]


@given(st.lists(st.tuples(st.integers(1, 5), st.none() | st.integers(0, 2)), max_size=12))
def test_an_index_stays_what_the_table_says(changes: list[tuple[int, int | None]]) -> None:
    """Rows that are added, changed and deleted; in the order of the table, and in each copy."""
    table = Table({})
    table.by("size")
    for number, size in changes:
        before, table = table, Table(table)
        held = {value: list(rows) for value, rows in before.by("size").items()}
        if size is not None:
            table.put(f"K-{number}", {"key": f"K-{number}", "size": size})
        elif f"K-{number}" in table:
            table.put(f"K-{number}", None)
        assert table.by("size") == Table(dict(table)).by("size")
        assert before.by("size") == held


def test_where_nobody_is_known_to_speak_every_row_is_theirs(library: Machine, shelf: State) -> None:
    """A state without `me` is that of somebody who may see all."""
    frame = library.frame({**shelf, "me": None}, {}, NOW)
    rows = shelf["tables"]["loans"].values()
    assert all(library.owned(frame, "loans", row) for row in rows)
    frame = library.frame(shelf, {}, NOW)
    assert [library.owned(frame, "loans", row) for row in rows] == [True, False]


@given(st.lists(st.integers(-20, 200)))
def test_numbers_are_in_the_order_of_their_size(numbers: list[int]) -> None:
    """Ten comes after nine; a list holds its own items and no others."""
    frame = Frame({"tables": {}, "next": {}, "me": None}, {}, NOW)
    items = ["list", ["value", numbers], "n", None, [[["var", "n"], False]], None, None]
    assert as_term(items)(frame) == sorted(numbers)
    for number in (7, *numbers):
        assert as_term(["has", ["value", numbers], ["value", number]])(frame) is (number in numbers)
