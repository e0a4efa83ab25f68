"""Where values stand in words, and what is left of them elsewhere."""

from __future__ import annotations

from typing import Any

import pytest
from support import mined_dataset
from support.mined_dataset import NUMBER, TEXT, WHOLE

from toolloom.pipeline.templates.mining.occurrences import (
    TextPlaces,
    in_longer_name,
    left_over,
    parted,
)
from toolloom.pipeline.templates.mining.survey import Role, SampleText, SampleValue
from toolloom.pipeline.templates.mining.variables import Variable


def variable(value: Any, name: str = "thing") -> Variable:
    schema = {int: WHOLE, float: NUMBER, str: TEXT}[type(value)]
    return Variable(SampleValue("intent", (), "a/b/c", (name,), value, schema, -1))


def places(text: str, *values: Variable, role: Role = "reply") -> TextPlaces:
    return parted(SampleText(role, (), text, 4), values, mined_dataset.NOW)


def found(text: str, value: Any, role: Role = "reply") -> list[str]:
    one = variable(value)
    return [text[s.start : s.end] for s in places(text, one, role=role).of(one)]


@pytest.mark.parametrize(
    ("text", "value", "told"),
    [
        ("Red is red.", "red", ["Red", "red"]),
        ("A12 and A12-9 and xA12", "A12", ["A12"]),
        ("IBM's price", "IBM", ["IBM"]),
        ("for 3 nights, 13 or 3.5 or 3rd", 3, ["3"]),
        ("at 3:15 on May 3 for three", 3, ["three"]),
        ("it is 2.5mm or 2.5 °C", 2.5, ["2.5", "2.5"]),
        ("about 0.6 km", 0.64, ["0.6"]),
        ("5 million or 5", 5, ["5"]),
        ("between -5 and 5", 5, ["5"]),
        ("on May 3 at noon", "2026-05-03", ["May 3"]),
        ("at 7:30 pm", "19:30", ["7:30 pm"]),
    ],
)
def test_places_of_a_value(text: str, value: Any, told: list[str]) -> None:
    """Whole words and numbers in any form, no parts of codes, dates and longer numbers."""
    assert found(text, value) == told


def test_rounded_numbers_count_in_replies_alone() -> None:
    """A user who says 0.6 does not mean 0.64."""
    assert not found("about 0.6 km", 0.64, "user")


def test_longer_value_takes_its_place() -> None:
    """The shorter one has what is left."""
    one, other = variable("curry"), variable("chicken curry")
    at = places("chicken curry, then curry", one, other)
    assert [s.start for s in at.of(one)] == [20]
    assert [s.start for s in at.of(other)] == [0]
    assert not one.doubt and not other.doubt


def test_values_that_cross_are_in_doubt() -> None:
    """Where two claim the same letters neither is certain."""
    one, other = variable("New York"), variable("York City")
    places("New York City", one, other)
    assert one.doubt and other.doubt


@pytest.mark.parametrize(
    ("text", "value", "rest"),
    [
        ("Lisbon and LISBON'S hills", "Lisbon", ""),
        ("Three lasagnas", "lasagna", "lasagnas"),
        ("Maria is here", "Maria Silva", "Maria"),
        ("ranked 11th of them", 11, "11th"),
        ("450 m away", 0.45, "450"),
        ("about $40", "USD", "$"),
        ("tomorrow", "2026-03-03", "tomorrow"),
        ("from 2026-05-03 to 2026-05-06", "2026-05-03", "2026-05-06"),
        ("from 19:30 to 20:15", "19:30", "20:15"),
        ("nothing of the kind", "Lisbon", ""),
    ],
)
def test_what_is_left_over(text: str, value: Any, rest: str) -> None:
    """Inflected words, parts of names, aliases, other units, ends that follow from a start."""
    one = variable(value)
    assert rest in left_over(places(text, one), one, mined_dataset.NOW, frozenset())
    assert bool(left_over(places(text, one), one, mined_dataset.NOW, frozenset())) is bool(rest)


def test_words_of_the_apis_are_not_left_over() -> None:
    """«meeting» stands for what the API schedules, not for the title of one."""
    one = variable("team meeting")
    at = places("Schedule a meeting called team meeting.", one)
    assert not left_over(at, one, mined_dataset.NOW, frozenset({"meet", "schedul"}))


@pytest.mark.parametrize(
    ("text", "role", "longer"),
    [
        ("Fly to New Lisbon Bay now", "user", True),
        ("Hotels near Lisbon Palace", "user", True),
        ("Lisbon, please. Find it.", "user", False),
        ("Lisbon, PT", "observed", True),
        ("Lisbon Hills", "observed", False),
    ],
)
def test_longer_names(text: str, role: Role, longer: bool) -> None:
    """A name beside another capital is a part of one, where nobody repeats what was passed."""
    one = variable("Lisbon")
    assert bool(in_longer_name(places(text, one, role=role), one)) is longer
