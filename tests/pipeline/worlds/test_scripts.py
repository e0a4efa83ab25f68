"""Scripts: a row is true in its state, and a state that does not fit is passed over."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml
from support import lending

from toolloom.pipeline.checks.world.interpreter import Machine
from toolloom.pipeline.worlds import scripts as reader
from toolloom.pipeline.worlds.library import load_world
from toolloom.pipeline.worlds.scripts import WorldScript, as_text, proofs, read_scripts
from toolloom.pipeline.worlds.soundness import examine, score
from toolloom.schemas import parse_recipe

ROOT = Path(__file__).parents[3]
RENEWAL = """
- name: renewal
  voice: terse
  find:
    - l: loans where member_id = me and renewals < 2 and due > today
    - need: count(loans where member_id = me and book_id = l.book_id) = 1 and me.fines <= 5
    - need: count(holds where book_id = l.book_id and status = 'waiting') = 0
  turns:
    - user: ["renew {l.book.title}", "Can I keep {l.book.title} longer?"]
    - mine: list_loans(title = l.book.title)
    - need: size(mine) = 1
    - done: renew(loan_id = first(mine).loan_id)
    - assistant: "It is due {done.due|on} now, and not {first(mine).due|on}."
- name: refused
  find:
    - l: loans where member_id = me and renewals = 2
  turns:
    - user: "Renew my loan due {l.due|on}."
    - why: renew(loan_id = l.loan_id) fails twice
    - assistant: "{why}"
- name: two at once
  find:
    - a: books where title = 'Emma'
    - b: books where title = 'Persuasion'
    - need: count(holds where member_id = me) = 0
  turns:
    - user: "Put me down for both."
    - done: place_holds(book_ids = [a.book_id, b.book_id])
    - assistant: "You are down for {done|count}."
"""


@pytest.fixture(scope="module")
def machine() -> Machine:
    return lending.machine_of(lending.raw_library())


def read(text: str, machine: Machine) -> tuple[list[WorldScript], list[str]]:
    faults: list[str] = []
    raw = yaml.load(text, yaml.BaseLoader)
    return read_scripts(raw, machine, lambda place, what: faults.append(what)), faults


def good(machine: Machine) -> list[WorldScript]:
    scripts, faults = read(RENEWAL.replace("{done|count}", "{size(done)|count book}"), machine)
    assert not faults
    return scripts


def test_a_row_says_what_its_calls_returned(machine: Machine) -> None:
    """Called again from the start state, each call gives the same; words repeat it, in time."""
    for script in good(machine):
        (rows,) = proofs([script], machine, 1, 4)
        for row in rows:
            state: Any = row.start
            for call in row.calls:
                state, response, error = machine.apply(state, call.name, call.arguments, row.now)
                assert (response, error) == (call.response, call.error)
            assert state["tables"] == row.end["tables"]
            assert "{" not in "".join(str(text) for form, text in row.messages if form != "call")
        assert len({as_text(row) for row in rows}) == 4


def test_a_call_must_end_as_its_script_says(
    machine: Machine, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An error where none is written, or none where one is: the state does not fit."""
    monkeypatch.setattr(reader, "STATES", 60)
    wrong = RENEWAL.replace("renewals < 2 and due", "renewals = 2 and due")
    scripts, _ = read(wrong, machine)
    assert proofs(scripts[:1], machine, 1, 1) == [[]]


@pytest.mark.parametrize(
    ("old", "new", "says"),
    [
        ("l.book.title}", "l.book.titel}", "title"),
        ("renewals < 2", "renewal < 2", "renewals"),
        ("renew(loan_id", "renew(lone_id", "loan_id can stand here"),
        ("loan_id = first(mine).loan_id", "loan_id = l.book_id", "a key of loans"),
        ("fails twice", "fails thrice", "twice can stand here"),
        ("{done.due|on}", "{done.due}", "say how it is worded"),
        ("{done.due|on}", "{done.until|on}", "due"),
        ("  voice: terse", "  vioce: terse", "unknown in a script"),
        ("{done|count}", "{size(done)|count book} {a}", "a row of books"),
    ],
)
def test_a_mistake_in_a_script_is_told(machine: Machine, old: str, new: str, says: str) -> None:
    """Slots, conditions, arguments and errors are checked against the world as it is read."""
    text = RENEWAL.replace(old, new)
    assert text != RENEWAL
    assert any(says in fault for fault in read(text, machine)[1])


@pytest.mark.parametrize("raw", ["{}", "- x", "- {turns: x}", "- {turns: [{a: b, c: d}]}", "3"])
def test_what_is_no_script_is_told(machine: Machine, raw: str) -> None:
    """Garbage is a mistake, not an error of ours."""
    assert read(raw, machine)[1]


def test_the_examples_of_the_page_are_read_and_hold() -> None:
    """docs/worlds.md: its world is sound, its scripts play in the shop, its recipe is one."""
    page = (ROOT / "docs" / "worlds.md").read_text()
    till, policies, script, recipe = (
        yaml.load(part.split("```")[0], yaml.BaseLoader) for part in page.split("```yaml")[1:]
    )
    assert parse_recipe(recipe, "docs/worlds.md").model.absent
    small = lending.machine_of(till | policies)
    assert not examine(small).findings
    assert score(small.world).share >= 0.9
    shop = Machine(load_world(ROOT / "recipes" / "worlds" / "shop.yaml"))
    (known,) = read_scripts(script, shop, lambda *fault: pytest.fail(str(fault)))
    assert proofs([known], shop, 1, 1)[0]
