"""Walks and promises: a sound world passes, and each fault of a world is found."""

from __future__ import annotations

import copy
from typing import Any

import pytest
from support import lending

from toolloom.pipeline.checks.world.interpreter import Machine
from toolloom.pipeline.worlds import soundness
from toolloom.pipeline.worlds.soundness import examine, score
from toolloom.schemas import WorldError


@pytest.fixture(autouse=True)
def few_calls(monkeypatch: pytest.MonkeyPatch) -> None:
    """The library is small: fewer random calls reach all of it."""
    monkeypatch.setattr(soundness, "WALKS", 30)
    monkeypatch.setattr(soundness, "OF_MUTANTS", (6, 60))


@pytest.fixture
def raw() -> Any:
    return lending.raw_library()


def test_a_sound_world_has_no_finding(raw: Any) -> None:
    """Every operation succeeds, every error fires, every promise is kept; rows that one counts are
    compared with themselves as they were."""
    raw["promises"]["renew"]["after"].append("count(loans as l where l.due != was(l.due)) = 1")
    result = examine(lending.machine_of(raw))
    assert not result.findings
    assert all(result.successes[name] for name in raw["operations"])


RENEW, LISTED = ("operations", "renew"), ("operations", "list_holds")
HOLDS, VIEW = "holds where member_id = me", "[hold_id, book.title as title, status, placed]"
RULE = "count(holds as h where h.book_id = this.book_id and h.status = 'waiting') <= 1"


def put(raw: Any, place: tuple[Any, ...], value: Any) -> Machine:
    """The world with another value at this place."""
    inner = raw
    for step in place[:-1]:
        inner = inner[step]
    inner[place[-1]] = value
    return lending.machine_of(raw)


@pytest.mark.parametrize(
    ("place", "value", "finding"),
    [
        ((*RENEW, "steps", 0, "require"), "loan.renewals < 9", "succeeds although"),
        ((*RENEW, "steps", 0, "require"), "loan.renewals < 0", "renew never succeeds"),
        ((*RENEW, "steps", 0, "require"), "loan.renewals < 1", "its promises do not say so"),
        ((*RENEW, "steps", 2, "require"), "true", "does not hold"),
        ((*RENEW, "steps", 3, "set", "renewals"), "renewals + 2", "After renew"),
        ((*RENEW, "steps", 3, "set", "since"), "today", "promised: ('loans', 'since', 'set')"),
        ((*RENEW, "returns"), "loan[loan_id, since as due]", "show what is promised: due."),
        (
            (*LISTED, "returns"),
            f"{HOLDS} and status = 'ready' {VIEW}",
            "promised: items are missing.",
        ),
        ((*LISTED, "returns"), f"{HOLDS} [hold_id, status]", "promised: of an item title, placed."),
        # A rule of the rows is no substitute for an error that says what to do.
        (("operations", "pay_fines", "steps", 0, "require"), "true", "lacks a `require`"),
        # A hold may not leave a book, whose rule counts holds, with too many.
        (("entities", "books", "rules"), [RULE], f"place_holds breaks `{RULE}` of books that it"),
    ],
)
def test_a_fault_in_an_operation_is_found(
    raw: Any, place: tuple[Any, ...], value: Any, finding: str
) -> None:
    """Promises say what an operation does and refuses; walks hold it to them."""
    findings = examine(put(raw, place, value)).findings
    assert any(finding in found for found in findings)


@pytest.mark.parametrize(
    ("place", "value", "says"),
    [
        (("entities", "members", "rules"), ["fines > 100"], "members keeps `fines > 100`"),
        (("entities", "books", "fields", "last_loan_id"), "-> loans", "in a circle"),
    ],
)
def test_a_world_of_which_no_state_can_be_drawn_ends(
    raw: Any, place: tuple[Any, ...], value: Any, says: str
) -> None:
    """In bounded time: a rule that no row keeps, rows that must each be there before the other."""
    with pytest.raises(WorldError, match=says):
        examine(put(raw, place, value))


def test_keys_and_changes_that_nothing_shows_are_found(raw: Any) -> None:
    """No id that nobody can know, and no effect that nobody can see."""
    raw["operations"]["list_holds"]["returns"] = "count(holds)"
    for name in ("place_holds", "cancel_hold"):
        raw["operations"][name]["returns"] = "true"
        raw["promises"][name].pop("shows")
    raw["promises"].pop("list_holds")
    findings = " ".join(examine(lending.machine_of(raw)).findings)
    assert "nothing shows hold_id" in findings
    assert "nothing shows it" in findings
    assert "list_holds has no promises" in findings


def test_the_mutation_score_counts_what_promises_hold(raw: Any) -> None:
    """With all promises each fault is found; without those of one operation, its faults live."""
    machine = lending.machine_of(raw)
    full = score(machine.world)
    assert full.share >= 0.95
    assert full.told_apart > 50
    world = copy.deepcopy(machine.world)
    world["promises"]["renew"] = {"effects": [], "only_if": [], "after": [], "shows": None}
    world["promises"].pop("renew")
    less = score(world)
    assert less.share < full.share
    assert any("renew" in survivor for survivor in less.survivors)
