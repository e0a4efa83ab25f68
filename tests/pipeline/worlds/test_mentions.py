"""Where texts say values: the longest form, the nearest name, and nothing that only looks alike."""

from __future__ import annotations

import pytest

from toolloom.pipeline.checks.world.grammar import DATE, DATETIME, INTEGER, TEXT, Kind
from toolloom.pipeline.checks.world.wording import Voice
from toolloom.pipeline.worlds.mentions import Sayable, slots

VOICE = Voice("2026-01-20T10:00")  # a Tuesday
MONEY: Kind = {"type": "number", "role": "money"}
KETTLE = [
    Sayable("k.name", TEXT, "glass kettle", "k", "PRD-1"),
    Sayable("k.price", MONEY, 27, "k", "PRD-1"),
]
LAMP = [Sayable("l.name", TEXT, "lamp", "l", "PRD-2"), Sayable("l.price", MONEY, 27, "l", "PRD-2")]
VALUES = [
    *KETTLE,
    Sayable("k.stock", INTEGER, 2, "k"),
    Sayable("o.due", DATE, "2026-01-23", "o"),
    Sayable("a.starts", DATETIME, "2026-01-21T09:30", "a"),
    Sayable("p.name", TEXT, "Anna Rossi", "p"),
]


def slotted(text: str, values: list[Sayable], british: bool = False) -> str:
    pieces, at = [], 0
    for slot in slots(text, values, Voice(VOICE.now, "$", british)):
        pieces += [text[at : slot.start], slot.text]
        at = slot.end
    return "".join([*pieces, text[at:]])


@pytest.mark.parametrize(
    ("text", "script"),
    [
        ("A glass kettle is $27.", "{k.name|a} is {k.price|money}."),
        ("two glass kettles", "{k.stock|number} {k.name}s"),
        ("due on Friday, January 23", "due {o.due|on}, {o.due|date}"),
        ("It is tomorrow at 9:30 am.", "It is {a.starts|when}."),
        ("Wednesday the 21st, 9:30", "{a.starts|weekday} the {a.starts|nth}, {a.starts|clock}"),
        ("Anna is in.", "{p.name|first} is in."),
        ("$270, two-day, kettle, $27.50, 27th, 2.5", "$270, two-day, kettle, $27.50, 27th, 2.5"),
    ],
)
def test_a_value_is_found_in_the_form_that_it_is_said_in(text: str, script: str) -> None:
    """Longer forms before their parts; never inside of another number or word."""
    assert slotted(text, VALUES) == script


def test_days_and_times_are_said_in_one_dialect() -> None:
    """British words are none of an American script."""
    text = "due on 23 January, not at 9.30am"
    both = [VALUES[3], VALUES[4]]
    assert slotted(text, both, british=True) == "due on {o.due|date}, not at {a.starts|time}"
    assert "date" not in slotted(text, both)


def test_the_nearest_name_settles_whose_a_value_is() -> None:
    """Of two that are alike; without a name the others are told, so that they can be held alike."""
    text = "The glass kettle is $27. The lamp is $27 too."
    assert slotted(text, [*LAMP, *KETTLE]) == (
        "The {k.name} is {k.price|money}. The {l.name} is {l.price|money} too."
    )
    (slot,) = slots("That is $27.", [*LAMP, *KETTLE], VOICE)
    assert (slot.source.term, [other.term for other in slot.others]) == ("l.price", ["k.price"])
