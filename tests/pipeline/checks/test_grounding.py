"""Does a text say a value: tables of what counts and what does not."""

from __future__ import annotations

import datetime as dt
import re
from typing import Any

import pytest

from toolloom.pipeline.checks.evidence import Evidence
from toolloom.pipeline.checks.grounding import fixed, founded, mentions, same
from toolloom.pipeline.checks.replies import unfounded
from toolloom.pipeline.checks.text.dates import dates

NOW = dt.datetime(2026, 11, 21, 10, 0)  # a Saturday
S: dict[str, Any] = {"type": "string"}
I: dict[str, Any] = {"type": "integer"}
F: dict[str, Any] = {"type": "number"}
D: dict[str, Any] = {"type": "string", "format": "date"}
T: dict[str, Any] = {"type": "string", "format": "time"}
DT: dict[str, Any] = {"type": "string", "format": "date-time"}
MINUTES: dict[str, Any] = {"type": "integer", "title": "duration", "description": "In minutes."}


def one_of(*values: str) -> dict[str, Any]:
    return {"type": "string", "enum": list(values)}


SAID: list[tuple[str, Any, dict[str, Any]]] = [
    # as addresses write them
    ("the weather in Palo Alto", "palo+alto", S),
    ("the weather in Palo Alto", "Palo%20Alto", S),
    # numbers
    ("a table for six people", 6, I),
    ("twenty-five guests", 25, I),
    ("two red mugs and one more for Ann", 3, I),
    ("two mugs, one lamp, and one more mug for Ann", 3, I),
    ("one hundred and five seats", 105, I),
    ("half a dozen eggs", 6, I),
    ("a dozen eggs", 12, I),
    ("two dozen roses", 24, I),
    ("two and a half hours", 2.5, F),
    ("it costs $1,250.50", 1250.5, F),
    ("about 1.5k steps", 1500, I),
    ("3 million users", 3_000_000, I),
    ("a budget of two thousand five hundred dollars", 2500, I),
    ("20% off", 0.2, F),
    ("fifteen percent", 15, I),
    ("the 3rd floor", 3, I),
    ("on the second floor", 2, I),
    ("minus five degrees", -5, I),
    ("it was -12.5 outside", -12.5, F),
    ("1/2 cup", 0.5, F),
    ("run 10km", 10, I),
    ("1 200 euros", 1200, I),
    ("order #4521", 4521, I),
    ("a couple of tickets", 2, I),
    ("two hours", 120, MINUTES),
    ("an hour and a half", 90, MINUTES),
    ("2 hours and 30 minutes", 150, MINUTES),
    ("a movie from the year 1999", 1999, {**I, "title": "year"}),
    ("I want a ticket to the zoo", 1, {**I, "title": "tickets"}),
    # dates, from Saturday 21 November 2026
    ("tomorrow morning", "2026-11-22", D),
    ("the day after tomorrow", "2026-11-23", D),
    ("yesterday", "2026-11-20", D),
    ("three days from now", "2026-11-24", D),
    ("next Friday", "2026-12-04", D),
    ("last Monday", "2026-11-16", D),
    ("Mar. 3rd, 2028", "2028-03-03", D),
    ("the third of March", "2027-03-03", D),
    ("04/03/2026", "2026-03-04", D),
    ("04/03/2026", "2026-04-03", D),
    ("3.12.2026", "2026-12-03", D),
    ("in two weeks", "2026-12-05", D),
    ("ten days ago", "2026-11-11", D),
    ("this weekend", "2026-11-21", D),
    ("this weekend", "2026-11-22", D),
    ("from December 10 to 12", "2026-12-12", D),
    ("from the 10th to the 12th of December", "2026-12-10", D),
    ("on the 25th", "2026-11-25", D),
    ("Please book the first.", "2026-12-01", D),
    ("from the third to the 5th", "2026-12-03", D),
    ("on Christmas Eve", "2026-12-24", D),
    ("three nights from December 10", "2026-12-13", D),
    ("next month", "2026-12-01", D),
    ("Wednesday next week", "2026-11-25", D),
    # times and moments
    ("at 7 p.m.", "19:00:00", T),
    ("a quarter to eight in the evening", "19:45", T),
    ("at noon", "12:00", T),
    ("19h30", "19:30", T),
    ("seven in the evening", "19:00", T),
    ("at 8 o'clock", "20:00", T),
    ("next Friday at half past seven", "2026-11-27T19:30:00Z", DT),
    ("in two hours", "2026-11-21T12:00:00", DT),
    ("at 9:15 pm today", "2026-11-21 21:15", DT),
    ("tomorrow", "2026-11-22T00:00:00", DT),
    # words, names, codes
    ("a lasagna that is vegan", "vegan lasagna", S),
    ("two Lasagnas, please", "lasagna", S),
    ("dinner at Chez Amelie", "Chez Amélie", S),
    ("fly to NYC", "New York City", S),
    ("I live in New York City", "NYC", S),
    ("hotels in the UK", "United Kingdom", S),
    ("mail bob.smith@example.com", "Bob.Smith@example.com", S),
    ("call 555-123-4567 now", "5551234567", S),
    ("order number AB-1234.", "AB-1234", S),
    ("see https://example.com/a?b=1", "https://example.com/a?b=1", S),
    ("sort in descending order", "desc", one_of("asc", "desc")),
    ("in dollars", "USD", S),
    ("jobs in Germany", "DE", S),
    ("translate into French", "fr-FR", S),
    ("a round-trip ticket", "roundTrip", one_of("roundTrip", "oneWay")),
    ("in degrees Celsius", "celsius", one_of("celsius", "fahrenheit")),
    ("5 kilos of rice", "5 kg", S),
    (
        "remind me that I must call the dentist about the invoice",
        "call dentist about the invoice",
        S,
    ),
    ("two pizzas and a salad", ["pizza", "salad"], {"type": "array", "items": S}),
    ("send it to 5 Elm Street, Dublin", {"street": "5 Elm Street", "city": "Dublin"}, {}),
    ("we are bringing our pets", True, {"type": "boolean", "title": "pets_allowed"}),
    ("without breakfast please", False, {"type": "boolean", "title": "include_breakfast"}),
    ("just a room", False, {"type": "boolean", "title": "include_breakfast"}),
    ("我想去東京旅行", "東京", S),
    ("two rooms", "2", S),
]


NOT_SAID: list[tuple[str, Any, dict[str, Any]]] = [
    ("the weather in Palo Alto", "palo+alta", S),
    ("a table for six people", 7, I),
    ("a table for 16 people", 6, I),
    ("a table for people", 4, I),
    ("INV-2041 is late", 2041, I),
    ("on March 3 please", 3, I),
    ("at 7:30 pm", 30, I),
    ("it costs 1,250", 250, I),
    ("twenty-five guests", 5, I),
    ("20% off", 2, I),
    ("1.5k steps", 1.5, F),
    ("two hours", 2.5, F),
    ("two hours", 90, MINUTES),
    ("version 2.5", 25, I),
    ("tomorrow", "2026-11-23", D),
    ("March 3", "2027-03-04", D),
    ("in two weeks", "2026-12-06", D),
    ("03/04/2026", "2026-05-03", D),
    ("some day", "2026-11-21", D),
    ("in 9999 years", "2026-11-21", D),
    ("Her first name is the first name on the list.", "2026-12-01", D),
    ("It was the third attempt.", "2026-12-03", D),
    ("I may come with 3 friends", "2027-05-03", D),
    ("this weekend", "2026-11-25", D),
    ("at 7pm", "07:00", T),
    ("half past seven", "19:00", T),
    ("for 4 people", "04:00", T),
    ("tomorrow at 7pm", "2026-11-22T20:00:00", DT),
    ("tomorrow at 7pm", "2026-11-22T00:00:00", DT),
    ("tomorrow at 7pm", "2026-11-23T19:00:00", DT),
    ("next Friday at half past seven", "2026-11-28T19:30:00", DT),
    ("a house in Parish Road", "Paris", S),
    ("Anna Lee Smith and John Doe", "John Smith", S),
    ("mail bob@example.com", "rob@example.com", S),
    ("mail mary.bob@example.com", "bob@example.com", S),
    ("order AB-12345", "AB-1234", S),
    ("order AB-1234-9", "AB-1234", S),
    ("come in, it is open", "India", S),
    ("tell us more", "US", S),
    ("it is late", "IT", S),
    ("in dollars", "EUR", S),
    ("into Spanish", "fr", S),
    ("a one-way ticket", "round_trip", one_of("round_trip", "one_way")),
    ("two pizzas", ["pizza", "salad"], {"type": "array", "items": S}),
    ("to 5 Elm Street", {"street": "5 Elm Street", "city": "Dublin"}, {}),
    ("just a room", True, {"type": "boolean", "title": "include_breakfast"}),
    ("without breakfast", True, {"type": "boolean", "title": "include_breakfast"}),
    ("a room with breakfast", False, {"type": "boolean", "title": "include_breakfast"}),
    ("anything", "", S),
    ("in Paris", "Paris, France", S),
    ("call 555-123-4567", "5551234568", S),
    ("Jonathan called", "Jon", S),
]


@pytest.mark.parametrize(("text", "value", "schema"), SAID)
def test_a_value_that_was_said_is_found(text: str, value: Any, schema: dict[str, Any]) -> None:
    """Numbers, dates, units, names and paraphrases are recognised however they are put."""
    assert mentions(text, value, schema, NOW)


@pytest.mark.parametrize(("text", "value", "schema"), NOT_SAID)
def test_a_value_nobody_said_is_not_found(text: str, value: Any, schema: dict[str, Any]) -> None:
    """Numbers, dates, names and ids must be the very ones."""
    assert not mentions(text, value, schema, NOW)


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
    """«10 to 19» may be ten to seven; where no time was told it is two numbers, each of them held
    against what was."""
    evidence = Evidence((), (10, 19), (), NOW)
    assert list(unfounded("It will be 10 to 19 degrees.", evidence)) == []
    wrong = [c.text for c in unfounded("It will be 10 to 20 degrees.", evidence)]
    assert len(wrong) == 1 and wrong[0].startswith("20")


def test_a_text_is_read_anew_on_another_day() -> None:
    """What is kept of a text is what it says, and not what it meant on the day before."""
    friday, monday = dt.date(2026, 3, 13), dt.date(2026, 3, 16)
    for today in (friday, monday, friday):
        assert dates("see you tomorrow", today) == {today + dt.timedelta(days=1)}
        assert dates("2026-03-14T09:30", today) == {dt.date(2026, 3, 14)}
