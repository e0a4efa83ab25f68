"""Does a text say a value: tables of what counts and what does not."""

from __future__ import annotations

import datetime as dt
import re
from pathlib import Path
from typing import Any

import pytest
import yaml

from toolloom.pipeline.checks.grounding import fixed, founded, mentions, same
from toolloom.pipeline.checks.replies import Evidence, unfounded
from toolloom.pipeline.checks.text.quantities import dates

NOW = dt.datetime(2026, 11, 21, 10, 0)  # a Saturday
TABLE: dict[str, list[tuple[str, Any, Any]]] = yaml.safe_load(
    (Path(__file__).parent / "said.yaml").read_text()
)
S: dict[str, Any] = {"type": "string"}
I: dict[str, Any] = {"type": "integer"}
SCHEMAS: dict[str, dict[str, Any]] = {
    "text": S,
    "integer": I,
    "number": {"type": "number"},
    "minutes": {"type": "integer", "title": "duration", "description": "In minutes."},
    **{name: {"type": "string", "format": name} for name in ("date", "time", "date-time")},
}


@pytest.mark.parametrize(
    ("text", "value", "schema", "expected"),
    [(*row, said == "said") for said, rows in TABLE.items() for row in rows],
)
def test_a_value_is_found_where_it_was_said(
    text: str, value: Any, schema: Any, expected: bool
) -> None:
    """Numbers, dates, units, names and paraphrases are recognised however they are put, and must be
    the very ones."""
    known = SCHEMAS[schema] if isinstance(schema, str) else schema
    assert mentions(text, value, known, NOW) is expected


def test_a_value_may_come_from_an_observation() -> None:
    """A leaf of an earlier response grounds an argument; other leaves do not."""
    seen = [{"user": {"token": "t-9", "age": 31}, "note": "Call +44 20 7946 0958."}]
    assert founded("t-9", ["hello"], seen, S, NOW)
    assert founded(31, ["hello"], seen, I, NOW)
    assert founded("31", ["hello"], seen, S, NOW)
    assert not founded("t-90", ["hello"], seen, S, NOW)
    assert not founded(3, ["hello"], seen, I, NOW)


@pytest.mark.parametrize(
    ("value", "said", "seen", "expected"),
    [
        ("March 3 at 3 pm", "hello", ["2027-03-03T15:00"], True),
        ("March 3, 3 pm", "hello", ["2027-03-03T15:00"], True),
        ("March 3 at 4 pm", "hello", ["2027-03-03T15:00"], False),
        ("2027-03-03T15:00", "hello", [{"day": "2027-03-03", "at": "15:00"}], True),
        ("2027-03-03T15:00", "hello", [{"day": "2027-03-03"}, {"at": "15:00"}], False),
        ("2027-03-03T15:00", "at 3 pm instead", [{"starts": "2027-03-03T10:00"}], True),
        ("2027-03-04T15:00", "at 3 pm instead", [{"starts": "2027-03-03T10:00"}], False),
        ("2027-03-03T15:00", "on March 3, as early as can be", ["15:00", "16:00"], True),
    ],
)
def test_a_moment_may_be_put_together(
    value: str, said: str, seen: list[Any], expected: bool
) -> None:
    """Of a row's day and its time, or of what was said and what was observed."""
    assert founded(value, [said], seen, S, NOW) is expected


def test_a_weekday_beside_a_date_is_that_of_the_date() -> None:
    """Before it or behind it, with a month or without; another weekday is a fault."""
    evidence = Evidence(("2026-12-03T15:00",), (), (), NOW)  # a Thursday
    true = ("Thu, Dec 3", "Thursday the 3rd", "December 3 (Thursday)", "Thursday, December 3")
    for day in true:
        assert not list(unfounded(f"It is on {day} at 3 pm.", evidence)), day
        wrong = re.sub(r"Thu\w*", "Friday", day)
        assert list(unfounded(f"It is on {wrong} at 3 pm.", evidence)), wrong


def test_the_schema_itself_can_give_the_value() -> None:
    """Defaults, constants and only choices need no words."""
    assert fixed(10, {"default": 10}) and fixed("v1", {"const": "v1"})
    assert fixed("a", {"enum": ["a"]})
    assert not fixed(11, {"default": 10}) and not fixed("a", {"enum": ["a", "b"]})
    assert founded(10, ["hello"], [], {"default": 10}, NOW)


@pytest.mark.parametrize(
    ("a", "b", "expected"),
    [
        ("Chez Amélie", "chez amelie", True),
        ("05", 5, True),
        (5, 5.0, True),
        (True, 1, False),
        ("A-12", "a12", True),
        ("Paris", "Parish", False),
        ([1, 2], [2, 1], False),
        ({"a": "X"}, {"a": "x"}, True),
        (None, "", False),
    ],
)
def test_values_are_the_same_but_for_form(a: Any, b: Any, expected: bool) -> None:
    """Case, accents, punctuation and the form of numbers do not make another value."""
    assert same(a, b) is expected and same(b, a) is expected


def test_code_inside_a_founded_address_is_judged_with_it() -> None:
    """The digits of an observed address are no code of their own; another address is a fault."""
    evidence = Evidence(("james30@example.com",), (), (), NOW)
    assert list(unfounded("The email is james30@example.com.", evidence)) == []
    assert [c.kind for c in unfounded("The email is jane31@example.com.", evidence)] == ["address"]


def test_range_of_numbers_is_no_time_of_day() -> None:
    """«10 to 19» may be a time; where none was told it is two numbers, each held against what was."""
    evidence = Evidence((), (10, 19), (), NOW)
    assert list(unfounded("It will be 10 to 19 degrees.", evidence)) == []
    assert next(unfounded("It will be 10 to 20 degrees.", evidence)).text.startswith("20")
    window = Evidence(("09:00", "11:30", "11:00", "30 minutes"), (), (), NOW)
    told = "Between 9 and 11 a.m., so 11 at the latest; from nine to half past eleven this morning"
    assert not [*unfounded(f"{told}. It takes half an hour.", window)]


def test_a_text_is_read_anew_on_another_day() -> None:
    """What is kept of a text is what it says, and not what it meant on the day before."""
    friday, monday = dt.date(2026, 3, 13), dt.date(2026, 3, 16)
    for today in (friday, monday, friday):
        assert dates("see you tomorrow", today) == {today + dt.timedelta(days=1)}
        assert dates("2026-03-14T09:30", today) == {dt.date(2026, 3, 14)}
