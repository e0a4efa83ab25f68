from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support import toys

from toolloom.pipeline.checks.tags import (
    LONGEST_NAME,
    KnownNames,
    choices,
    is_named,
    natural,
    places,
    said,
    says,
    spoken,
    texts_of,
)
from toolloom.schemas import Granularity, Seed, Split, Step

API, TOOL, CATEGORY = Granularity.API, Granularity.TOOL, Granularity.CATEGORY


@pytest.mark.parametrize(
    ("tag", "kind", "expected"),
    [
        ("hotel_details_v2", API, "Hotel Details"),
        ("getHotels", API, "Get Hotels"),
        ("find-user-by-id", API, "Find User by ID"),
        ("weather.forecast", API, "Weather Forecast"),
        ("HTMLReport", API, "HTML Report"),
        ("order_83f2a9c1", API, "Order"),
        ("GET /pets/{id}", API, "Get Pets by ID"),
        ("/v4/leagues/:season/tables", API, "Leagues Tables"),
        ("recipes/auto-complete", API, "Recipes Auto Complete"),
        ("tags/read (Deprecated)", API, "Tags Read"),
        ("16DayForecast", API, "16 Day Forecast"),
        ("1 Hour / Minutely Forecast", API, "1 Hour Minutely Forecast"),
        ("Rate of a pair.", API, "Rate of a Pair"),
        ("mp3_search", API, "Mp3 Search"),
        ("free_nba", TOOL, "Free NBA"),
        ("SoundPond", TOOL, "SoundPond"),
        ("soundPond", TOOL, "Sound Pond"),
        ("Short Interest (IEX)", TOOL, "Short Interest (IEX)"),
        ("health_and_fitness", CATEGORY, "Health and Fitness"),
        ("eCommerce", CATEGORY, "eCommerce"),
        ("天气", CATEGORY, "天气"),
        ("v2", API, "V2"),
    ],
)
def test_names_are_said_as_people_do(tag: str, kind: Granularity, expected: str) -> None:
    """No underscores, versions, ids or remarks; acronyms, brands and numbers that tell stay."""
    assert spoken(tag, kind) == expected


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("Please use hotel_details_v2 for that.", True),
        ("Look at the hotel details.", True),
        ("HOTEL-DETAIL will do.", True),
        ("Ask HotelDetails!", True),
        ("The details of my hotel", False),
        ("hotel or details", False),
        ("", False),
    ],
)
def test_all_ways_to_write_a_name_say_it(text: str, names: bool) -> None:
    """Case, plural, hyphens and joined words do not matter; its words stand together, in order."""
    assert said(text, "hotel_details_v2") is names


@given(st.text(max_size=200), st.sampled_from(Granularity))
def test_every_tag_has_a_name_that_says_it(tag: str, kind: Granularity) -> None:
    """A name is never empty, never long, and a text that holds it says the tag."""
    name = spoken(tag, kind)
    assert len(name) <= LONGEST_NAME and bool(name) == bool(tag)
    if any(True for _ in places(name, name)):
        assert said(f"Use {name}.", tag, kind)


def test_no_markup_reaches_what_is_spoken() -> None:
    """A tag of control characters, lines and braces is said without them."""
    name = spoken("Room\n\nSystem: {{x}} a\x00b \u202eabc\u202c\u2028B")
    assert name.isprintable() and not set("{}") & set(name)


STEPS = (
    Step(category="Weather", tool="sky_watch", api="search", function="search_for_sky_watch"),
    Step(category="Data", tool="sky_watch", api="hourly_outlook", function="hourly_outlook"),
)
BY_CITY = "hourly_outlook_by_city"
OTHER = toys.api("Food", BY_CITY).model_copy(update={"tool": "Soup Stars", "function": BY_CITY})
KNOWN = KnownNames.of(
    Seed(id="x", split=Split.TRAIN, hybrid="I'm out.", steps=STEPS, pool=(OTHER,))
)


def named(text: str) -> list[tuple[str, bool]]:
    return [(m.tag, m.on_path) for m in KNOWN.mentions(text) if is_named(text, m)]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("Does sky watch see rain?", [("sky_watch", True)]),
        ("Please run Search for me.", [("search", True)]),
        ("Ask the search tool.", [("search", True)]),
        ("Look at 'search' first.", [("search", True)]),
        ("The weather is bad.", []),
        ("Weather is bad.", []),
        ("Ask about Weather.", [("Weather", True)]),
        ("Call search_for_sky_watch.", [("search", True)]),
        ("I like soup stars.", [("Soup Stars", False)]),
        ("I like soup. Stars too.", []),
        ("Run the hourly outlook.", [("hourly_outlook", True)]),
        ("Run the hourly outlook by city.", [("hourly_outlook_by_city", False)]),
    ],
)
def test_a_name_is_told_from_plain_words(text: str, expected: list[tuple[str, bool]]) -> None:
    """Words of weight are a name, a single one with a capital, quote or kind; the longest counts."""
    assert named(text) == expected


@pytest.mark.parametrize(
    ("text", "kind", "expected"),
    [
        ("Run the hourly outlook by city.", API, {"hourly_outlook_by_city"}),
        ("Get me data on rain.", CATEGORY, set()),
        ("Get me something from Data.", CATEGORY, {"Data"}),
        ("Ask the data category about weather.", CATEGORY, {"Data", "Weather"}),
    ],
)
def test_common_words_name_a_tag_only_if_written_so(
    text: str, kind: Granularity, expected: set[str]
) -> None:
    """«data» is said all the time; the category Data is another thing."""
    assert KNOWN.named(text, kind) == expected


SITUATIONS = ["Hamburg", "New York", "O'Neill", "type 2 diabetes", "St. Moritz", "chicken curry"]
CODES = """
    385 2025-03-14 tomorrow 14:30 AX-20993 us-gaap EUR en a@b.example AccountsPayable 221b
    COMPLETED https://x.example/y
""".split()  # noqa: SIM905 - a table of values


@pytest.mark.parametrize("value", [*SITUATIONS, *CODES, "12 Main Street", "+41 79 555 01 23"])
def test_only_words_may_be_a_situation(value: str) -> None:
    """Users talk of places, people and things; codes, numbers and dates are only a call's."""
    assert natural(value) is (value in SITUATIONS)


@pytest.mark.parametrize(
    ("text", "value", "expected"),
    [
        ("It costs 1,500 dollars.", "1500", True),
        ("We are two.", "2", True),
        ("One of my friends is ill.", "1", False),
        ("I leave on May 3.", "2025-05-03", True),
        ("I leave soon.", "2025-05-03", False),
        ("I get up at seven o'clock.", "07:00", True),
        ("I live at 12 Main Street.", "12 Main Street, Springfield", True),
        ("We sail to the hague.", "The Hague", True),
        ("Come to us.", "us", False),
        ("Ask in en.", "en", True),
        ("My order is AX-20993.", "ax-20993", True),
        ("My order is AX-2099.", "AX-20993", False),
        ("Nothing.", "", False),
    ],
)
def test_a_value_is_said_in_its_forms(text: str, value: str, expected: bool) -> None:
    """Numbers in words, dates by any day: no present is known by which to tell which."""
    assert says(text, value) is expected


def test_leaves_of_arguments_become_text() -> None:
    """Flags and nulls are nothing that a text would say."""
    texts = texts_of({"a": [1, 2.5, True], "b": {"c": "x", "d": None, "e": " "}})
    assert list(texts) == ["1", "2.5", "x"]


def test_choices_are_those_of_arguments_and_of_their_items() -> None:
    """Only text is a choice that could be mistaken for a word."""
    properties = {
        "a": {"enum": ["Low", 3]},
        "b": {"type": "array", "items": {"enum": ["High"]}},
        "c": True,
    }
    api = OTHER.model_copy(update={"parameters": {"properties": properties}})
    assert choices((api,)) == {"low", "high"}
