"""Start states: drawn by seed, under ranges, rules and what is likely."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from support import lending

from toolloom.pipeline.checks.world.interpreter import Machine, State
from toolloom.pipeline.sampling.values import rng_for
from toolloom.pipeline.worlds.states import draw_now, draw_state


@pytest.fixture(scope="module")
def machine() -> Machine:
    raw = lending.raw_library()
    raw["entities"]["loans"] |= {"rising": "since", "likely": ["renewals <= 1"]}
    raw["entities"]["loans"]["rows"] = "1..3 per member_id"
    return lending.machine_of(raw)


def states(machine: Machine, count: int = 12) -> Iterator[tuple[State, str]]:
    for seed in range(count):
        rng = rng_for(seed)
        now = draw_now(rng)
        yield draw_state(machine, rng, now), now


def test_later_rows_have_higher_numbers(machine: Machine) -> None:
    """As orders and tickets have, wherever they are referred to."""
    for state, _ in states(machine):
        loans = list(state["tables"]["loans"].values())
        assert loans == sorted(loans, key=lambda loan: int(loan["loan_id"][4:]))
        assert loans == sorted(loans, key=lambda loan: loan["since"])


def test_what_is_likely_holds_of_drawn_rows(machine: Machine) -> None:
    """And nothing refuses a call that makes it otherwise: it is no rule."""
    loans = [loan for state, _ in states(machine) for loan in state["tables"]["loans"].values()]
    assert {loan["renewals"] for loan in loans} == {0, 1}


def test_a_written_row_may_be_unlikely() -> None:
    """What is likely binds what is drawn; a row that says otherwise itself is there all the same."""
    raw = lending.raw_library()
    raw["entities"]["members"] |= {"likely": ["fines = 0"], "data": [{"fines": "12"}], "rows": "4"}
    machine = lending.machine_of(raw)
    for state, _ in states(machine, 3):
        fines = [row["fines"] for row in state["tables"]["members"].values()]
        assert fines == [12, 0, 0, 0]
