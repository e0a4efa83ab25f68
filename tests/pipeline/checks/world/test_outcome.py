"""What came of calls: changes without the keys of new rows, and policies kept or broken."""

from __future__ import annotations

import copy
from typing import Any

import pytest

from toolloom.pipeline.checks.world.interpreter import Machine, State, difference
from toolloom.pipeline.checks.world.outcome import Acted, broken_policies

NOW = "2026-01-20T10:00"


def after(library: Machine, state: State, *calls: tuple[str, Any]) -> State:
    for name, args in calls:
        state, response, error = library.apply(state, name, args, NOW)
        assert error is None, response
    return state


def test_the_order_of_calls_does_not_matter(library: Machine, shelf: State) -> None:
    """Two wishes granted in either order come to the same."""
    one, two = ("place_holds", {"book_ids": ["BOO-1"]}), ("place_holds", {"book_ids": ["BOO-2"]})
    first, second = (after(library, shelf, *calls) for calls in ((one, two), (two, one)))
    assert difference(library, shelf, first) == difference(library, shelf, second)
    assert difference(library, shelf, first) != difference(
        library, shelf, after(library, shelf, one)
    )


def with_policy(library: Machine, **policy: Any) -> Machine:
    world = copy.deepcopy(library.world)
    world["policies"] = [{"says": "So it is.", "calls": ["renew"], **policy}]
    return Machine(world)


LOOK, RENEW = Acted("list_loans", {}), Acted("renew", {"loan_id": "LOA-1"})
MUST = {"renew": [["x", ["<=", ["field", ["var", "me"], "fines"], ["value", 5]]]]}
NEVER = {"renew": [["x", ["<", ["field", ["var", "loan"], "renewals"], ["value", 1]]]]}


@pytest.mark.parametrize(
    ("policy", "calls", "broken"),
    [
        ({"consent": True}, [RENEW], [0]),
        ({"consent": True}, [Acted("renew", {"loan_id": "LOA-1"}, agreed=True)], []),
        ({"must": MUST}, [RENEW], []),
        ({"must": NEVER}, [LOOK, RENEW], [1]),
        ({"first": ["list_loans"]}, [RENEW], [0]),
        ({"first": ["list_loans"]}, [LOOK, RENEW], []),
        ({"first": ["renew"], "same": ["loan_id"]}, [RENEW, RENEW], [0]),
        ({"must": NEVER}, [Acted("renew", {"loan_id": "LOA-2"})], []),
    ],
)
def test_a_policy_is_broken_by_the_call_that_breaks_it(
    library: Machine, shelf: State, policy: dict[str, Any], calls: list[Acted], broken: list[int]
) -> None:
    """Consent, conditions, first looks and limits; a call that fails breaks nothing."""
    machine = with_policy(library, **policy)
    assert [fault.call for fault in broken_policies(machine, shelf, NOW, calls)] == broken
