"""Scripts that are made of accepted dialogues: the same dialogue where they come from, true ones in
other states."""

from __future__ import annotations

import copy
import datetime as dt
import random
from collections.abc import Callable
from typing import Any

import pytest
from support import lending

from toolloom.pipeline.checks.world.interpreter import Machine
from toolloom.pipeline.sampling.values import rng_for
from toolloom.pipeline.worlds.conditions import Underivable
from toolloom.pipeline.worlds.derive import Derived, derive
from toolloom.pipeline.worlds.scripts import Play, play_in
from toolloom.pipeline.worlds.states import draw_now, draw_state
from toolloom.schemas import Dialogue, World

STATES = 150
Said = Callable[..., Dialogue]


@pytest.fixture(scope="module")
def world() -> World:
    return lending.world("renewal")


@pytest.fixture(scope="module")
def machine(world: World) -> Machine:
    return Machine(world.spec)


@pytest.fixture
async def worded(world: World, machine: Machine, tmp_path: Any) -> Dialogue:
    """A renewal, as if a model had worded it for a task."""
    (need,) = lending.needs(lending.recipe(worlds={"per_script": 1}), [world])
    (dialogue,) = await lending.played([need], machine, tmp_path)
    return unscripted(dialogue)


def unscripted(dialogue: Dialogue, **texts: str) -> Dialogue:
    """A dialogue that is no row of a script; `texts`: what else its user or assistant says."""
    query = dialogue.query
    assert query.setting
    setting = query.setting.model_copy(update={"script": ""})
    messages = tuple(
        message.model_copy(update={"content": texts[message.role]})
        if message.role in texts and message.content
        else message
        for message in dialogue.messages
    )
    query = query.model_copy(update={"setting": setting, "text": str(messages[1].content)})
    return dialogue.model_copy(update={"query": query, "messages": messages})


def played(made: Derived, machine: Machine) -> list[Play]:
    """Its rows in drawn states."""
    script, rows = made.read(machine), []
    for number in range(STATES):
        rng = rng_for(5, number)
        now = draw_now(rng)
        state = draw_state(machine, rng, now)
        rows.append(play_in(script, machine, state, now, random.Random(number)))
    return [row for row in rows if row]


def texts(made: Derived) -> list[str]:
    turns = [*made.spec["turns"]]
    return [text for turn in turns for who, text in turn.items() if who in ("user", "assistant")]


def needs(made: Derived) -> str:
    entries = [*made.spec.get("find", ()), *made.spec["turns"]]
    return " and ".join(str(value) for entry in entries for value in entry.values())


def test_it_plays_to_the_same_dialogue(worded: Dialogue, machine: Machine) -> None:
    """Where it comes from, word for word and call for call; in other states it says other values,
    and what it says is what its results show."""
    made = derive(worded, machine, "renewal")
    row = made.again(worded, machine)
    said = [m.content for m in worded.messages if m.role in ("user", "assistant") and m.content]
    assert [part for _, part in row.messages if isinstance(part, str)] == said
    assert [c.name for c in row.calls] == [call.function.name for _, call in worded.calls()]
    others = played(made, machine)
    assert len(others) >= 3 and len({str(other.messages[0][1]) for other in others}) > 1
    for other in others:
        title = other.calls[0].response[0]["title"]
        assert title in str(other.messages[0][1]) and not any(c.error for c in other.calls)


def test_values_become_slots_and_what_stays_is_held(worded: Dialogue, machine: Machine) -> None:
    """A name is a slot, and a day of a result; a day that is said as no slot says it is held."""
    first, last = texts(derive(worded, machine))
    assert "{book_1.title}" in first and last.count("due|date}") == 2
    query = worded.query
    assert query.setting
    loans = query.setting.start["tables"]["loans"]
    *_, (_, call) = worded.calls()
    due = loans[call.function.arguments["loan_id"]]["due"]
    days = (dt.date.fromisoformat(due) - query.now.date()).days
    later = unscripted(worded, user=f"{query.text} It is due in {days} days.")
    made = derive(later, machine)
    assert texts(made)[0].endswith(f"It is due in {days} days.")
    assert f"days(today, due) = {days}" in needs(made)


def test_calls_are_terms_over_rows_and_results(worded: Dialogue, machine: Machine) -> None:
    """A key is that of the item which a result showed; a title that of the row."""
    calls = [v for turn in derive(worded, machine).spec["turns"] for v in turn.values()]
    assert "list_loans(title = book_1.title)" in calls
    assert "renew(loan_id = r1_loan.loan_id)" in calls


@pytest.mark.parametrize(
    ("reply", "why"),
    [
        ("It is LOA-0999.", "LOA-0999"),
        ("That costs 77 dollars.", "77"),
        ("Come by at 3:40 pm.", "3:40 pm"),
        ("It is {due}.", "brace"),
        ("She said it was all right.", "She"),
    ],
)
def test_what_nothing_accounts_for_is_refused(
    worded: Dialogue, machine: Machine, reply: str, why: str
) -> None:
    """A key, an amount, a time or a person that no result shows; a brace."""
    with pytest.raises(Underivable, match=why):
        derive(unscripted(worded, assistant=reply), machine)


def test_conditions_of_others_are_tried(worded: Dialogue, machine: Machine) -> None:
    """One that cannot be read, or does not hold where the dialogue comes from, is left out."""
    made = derive(worded, machine)
    given = ["size(r1) = 1", "size(r1) = 7", "r9.title = 'x'", "import os", "__import__('os')"]
    more, left_out = made.needing(given, worded, machine)
    assert left_out == given[1:]
    assert {"need": "size(r1) = 1"} in more.spec["turns"]
    assert more.again(worded, machine).calls == made.again(worded, machine).calls


def test_what_looks_at_too_many_rows_does_not_hold(worded: Dialogue, machine: Machine) -> None:
    """A condition may be of any cost: one that the world refuses is left out as others are."""
    clause = "days(today, due) > -99999"
    for _ in range(5):
        clause = f"count(loans where {clause}) >= 0"
    made = derive(worded, machine)
    assert made.needing([clause], worded, machine) == (made, [clause])


def test_why_there_is_no_script_is_the_same_each_time(worded: Dialogue, machine: Machine) -> None:
    """Of several rows that nothing shows, the first by name is told."""
    start = copy.deepcopy(worded.query.setting.start) if worded.query.setting else {}
    names = ["Walden", "Ulysses", "Kidnapped", "Dracula", "Beloved", "Candide", "Ivanhoe"]
    for number, title in enumerate(names):
        key = f"BOK-9{number}"
        start["tables"]["books"][key] = {"book_id": key, "title": title, "copies": 1}
    dialogue = unscripted(worded, assistant=f"There are {', '.join(names)}.")
    setting = dialogue.query.setting and dialogue.query.setting.model_copy(update={"start": start})
    query = dialogue.query.model_copy(update={"setting": setting})
    with pytest.raises(Underivable, match="it names Beloved,"):
        derive(dialogue.model_copy(update={"query": query}), machine)


def test_what_a_list_is_said_to_lack_is_held(worded: Dialogue, machine: Machine) -> None:
    """Another state in which it has that is none for these words."""
    title = str(worded.messages[3].content)
    other = next(each for each in ("emma", "persuasion") if each not in title.lower())
    made = derive(unscripted(worded, assistant=f"None of your loans is {other}."), machine)
    assert f"count(r1 where title has '{other}') = 0" in needs(made)
