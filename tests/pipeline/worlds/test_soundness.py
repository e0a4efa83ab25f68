"""Walks and promises: a sound world passes, and each fault of a world is found."""

from __future__ import annotations

import copy
import json
from pathlib import Path
from typing import Any

import pytest
import yaml

from toolloom.pipeline.checks.world.interpreter import Machine
from toolloom.pipeline.checks.world.reading import read_world
from toolloom.pipeline.worlds import soundness
from toolloom.pipeline.worlds.soundness import examine, score
from toolloom.pipeline.worlds.states import Unsatisfied
from toolloom.schemas import WorldError

LIBRARY = Path(__file__).parents[2] / "support" / "library.yaml"


@pytest.fixture(autouse=True)
def few_calls(monkeypatch: pytest.MonkeyPatch) -> None:
    """The library is small: fewer random calls reach all of it."""
    monkeypatch.setattr(soundness, "WALKS", 30)
    monkeypatch.setattr(soundness, "OF_MUTANTS", (6, 60))


def machine_of(raw: Any) -> Machine:
    faults: list[Any] = []
    world = read_world(raw, lambda place, text: faults.append((place, text)))
    assert not faults
    return Machine(json.loads(json.dumps(world)))


@pytest.fixture
def raw() -> Any:
    return yaml.load(LIBRARY.read_text(), yaml.BaseLoader)


def test_a_sound_world_has_no_finding(raw: Any) -> None:
    """Every operation succeeds, every error fires, every promise is kept."""
    result = examine(machine_of(raw))
    assert not result.findings
    assert all(result.successes[name] for name in raw["operations"])


def test_a_rule_of_a_row_that_a_call_leaves_alone_is_held(raw: Any) -> None:
    """A hold may not leave a book, whose rule counts holds, with too many."""
    rule = "count(holds as h where h.book_id = this.book_id and h.status = 'waiting') <= 1"
    raw["entities"]["books"]["rules"] = [rule]
    findings = examine(machine_of(raw)).findings.kept
    assert f"place_holds breaks `{rule}` of books that it leaves alone." in findings


@pytest.mark.parametrize(
    ("place", "value", "finding"),
    [
        (("steps", 0, "require"), "loan.renewals < 9", "succeeds although"),
        (("steps", 0, "require"), "loan.renewals < 0", "renew never succeeds"),
        (("steps", 0, "require"), "loan.renewals < 1", "its promises do not say so"),
        (("steps", 2, "require"), "true", "does not hold"),
        (("steps", 3, "set", "renewals"), "renewals + 2", "After renew"),
        (("steps", 3, "set", "since"), "today", "not promised: ('loans', 'since', 'set')"),
        (("returns",), "loan[loan_id, since as due]", "does not show what is promised"),
    ],
)
def test_a_fault_in_an_operation_is_found(
    raw: Any, place: tuple[Any, ...], value: str, finding: str
) -> None:
    """Promises say what an operation does and refuses; walks hold it to them."""
    inner = raw["operations"]["renew"]
    for step in place[:-1]:
        inner = inner[step]
    inner[place[-1]] = value
    assert any(finding in found for found in examine(machine_of(raw)).findings.kept)


def test_was_is_the_row_before_the_call_in_a_search_too(raw: Any) -> None:
    """Rows that a promise counts are compared with themselves as they were."""
    raw["promises"]["renew"]["after"].append("count(loans as l where l.due != was(l.due)) = 1")
    assert not examine(machine_of(raw)).findings


def test_a_missing_require_is_found_by_the_rule_it_lets_break(raw: Any) -> None:
    """A rule of the rows is no substitute for an error that says what to do."""
    raw["operations"]["pay_fines"]["steps"].pop(0)
    assert any("lacks a `require`" in found for found in examine(machine_of(raw)).findings.kept)


def test_keys_and_changes_that_nothing_shows_are_found(raw: Any) -> None:
    """No id that nobody can know, and no effect that nobody can see."""
    raw["operations"]["list_holds"]["returns"] = "count(holds)"
    for name in ("place_holds", "cancel_hold"):
        raw["operations"][name]["returns"] = "true"
        raw["promises"][name].pop("shows")
    raw["promises"].pop("list_holds")
    findings = " ".join(examine(machine_of(raw)).findings.kept)
    assert "nothing shows hold_id" in findings
    assert "nothing shows it" in findings
    assert "list_holds has no promises" in findings


def test_rules_that_no_row_keeps_end_the_draw(raw: Any) -> None:
    """With the entity and its rule, in bounded time."""
    raw["entities"]["members"]["rules"] = ["fines > 100"]
    with pytest.raises(Unsatisfied, match="members keeps `fines > 100`"):
        examine(machine_of(raw))


def test_references_that_go_round_end_the_draw(raw: Any) -> None:
    """Neither row can be there before the other."""
    raw["entities"]["books"]["fields"]["last_loan_id"] = "-> loans"
    with pytest.raises(WorldError, match="in a circle"):
        examine(machine_of(raw))


def test_the_mutation_score_counts_what_promises_hold(raw: Any) -> None:
    """With all promises each fault is found; without those of one operation, its faults live."""
    machine = machine_of(raw)
    full = score(machine.world)
    assert full.share >= 0.95
    assert full.told_apart > 50
    world = copy.deepcopy(machine.world)
    world["promises"]["renew"] = {"effects": [], "only_if": [], "after": [], "shows": None}
    world["promises"].pop("renew")
    less = score(world)
    assert less.share < full.share
    assert any("renew" in survivor for survivor in less.survivors)
