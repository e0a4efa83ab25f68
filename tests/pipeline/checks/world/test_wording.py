"""Values as people write them: days beside today, money, lists, plurals, in two dialects."""

from __future__ import annotations

from typing import Any

import pytest

from toolloom.pipeline.checks.world import grammar
from toolloom.pipeline.checks.world.grammar import Mistake, NameScope
from toolloom.pipeline.checks.world.interpreter import Machine, State
from toolloom.pipeline.checks.world.wording import Voice, read_words

NOW = "2026-01-20T10:00"  # a Tuesday
KINDS = {
    "day": grammar.DATE,
    "at": grammar.DATETIME,
    "n": grammar.INTEGER,
    "price": grammar.NUMBER,
    "items": grammar.list_of(grammar.TEXT),
    "name": grammar.TEXT,
}


@pytest.mark.parametrize(
    ("text", "values", "us", "uk"),
    [
        ("{day|on}", {"day": "2026-01-21"}, "Tomorrow", "Tomorrow"),
        ("due {day|on}", {"day": "2026-01-23"}, "due on Friday", "due on Friday"),
        ("due {day|on}", {"day": "2026-01-27"}, "due on January 27", "due on 27 January"),
        ("since {day|date}", {"day": "2025-12-30"}, "since December 30", "since 30 December"),
        ("due {day|date}", {"day": "2027-01-27"}, "due January 27, 2027", "due 27 January 2027"),
        ("{at|when}", {"at": "2026-01-20T15:30"}, "Today at 3:30 pm", "Today at 3.30pm"),
        ("at {at|time}", {"at": "2026-01-20T12:00"}, "at 12 pm", "at 12pm"),
        ("it is {price|money}", {"price": 12.5}, "it is $12.50", "it is $12.50"),
        ("it is {price|money}", {"price": 1200}, "it is $1,200", "it is $1,200"),
        ("{n|count mug}", {"n": 1}, "One mug", "One mug"),
        ("{n|count box} {n|if is/are}", {"n": 12}, "12 boxes are", "12 boxes are"),
        ("{n|count knife/knives}", {"n": 2}, "Two knives", "Two knives"),
        ("{name|first}, {name|a}", {"name": "ann Lee"}, "Ann, an ann Lee", "Ann, an ann Lee"),
    ],
)
def test_values_are_worded(
    library: Machine, shelf: State, text: str, values: dict[str, Any], us: str, uk: str
) -> None:
    """Near days by name, whole amounts without cents, small numbers in words, a capital first."""
    words = read_words(text, NameScope({}, {}, names=KINDS))
    frame = library.frame(shelf, {}, NOW)
    frame.vars.update(values)
    assert words.fill(frame, Voice(NOW)) == us
    assert words.fill(frame, Voice(NOW, british=True)) == uk


def test_a_slot_without_a_value_fills_nothing(library: Machine, shelf: State) -> None:
    """A state in which a word would have to be left out is not one that the text fits."""
    words = read_words("due {day|on}", NameScope({}, {}, names=KINDS))
    assert words.fill(library.frame(shelf, {}, NOW), Voice(NOW)) is None


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("{day}", "say how it is worded"),
        ("{day|money}", "words a integer or number"),
        ("{price|mony}", "money"),
        ("{name|count mug}", "needs a number"),
        ("{nam}", "name"),
        ("{name", "not closed"),
    ],
)
def test_a_slot_that_cannot_be_worded_is_a_mistake(text: str, says: str) -> None:
    """A date as `2026-01-27` in somebody's mouth is found while the script is read."""
    with pytest.raises(Mistake, match=says):
        read_words(text, NameScope({}, {}, names=KINDS))
