"""A small library to run: entities, rules, references, a list argument, refusals."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from support import lending

from toolloom.pipeline.checks.world.interpreter import Machine, State, state_of
from toolloom.pipeline.checks.world.reading import Place, read_world

NOW = "2026-01-20T10:00"


@pytest.fixture(scope="session")
def library() -> Machine:
    return lending.machine_of(lending.raw_library())


@pytest.fixture
def mistakes() -> Callable[[Any], list[tuple[Place, str]]]:
    def read(raw: Any) -> list[tuple[Place, str]]:
        faults: list[tuple[Place, str]] = []
        read_world(raw, lambda place, text: faults.append((place, text)))
        return faults

    return read


@pytest.fixture(scope="session")
def shelf() -> State:
    """Ann has Emma, due on Friday, and owes 4.50; Ben waits for Persuasion."""
    members = {
        "MEM-1": {"member_id": "MEM-1", "name": "Ann Lee", "card": "1", "fines": 4.5},
        "MEM-2": {"member_id": "MEM-2", "name": "Ben Ode", "card": "2", "fines": 0},
    }
    books = {
        f"BOO-{n}": {"book_id": f"BOO-{n}", "title": title, "copies": 1}
        for n, title in enumerate(("Emma", "Persuasion"), 1)
    }
    loans = {
        f"LOA-{n}": {
            "loan_id": f"LOA-{n}",
            "member_id": f"MEM-{n}",
            "book_id": f"BOO-{n}",
            "since": "2026-01-02",
            "due": "2026-01-23",
            "renewals": 1,
        }
        for n in (1, 2)
    }
    holds = {
        "HOL-1": {
            "hold_id": "HOL-1",
            "book_id": "BOO-2",
            "member_id": "MEM-2",
            "status": "waiting",
            "placed": "2026-01-10",
        }
    }
    tables = {"members": members, "books": books, "holds": holds, "loans": loans}
    return state_of(tables, "MEM-1", {"members": 3, "books": 3, "holds": 2, "loans": 3})
