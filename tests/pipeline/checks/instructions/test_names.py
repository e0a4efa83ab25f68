import pytest
from hypothesis import given
from hypothesis import strategies as st

from toolloom.pipeline.checks.instructions.names import LONGEST_NAME, places, said, spoken
from toolloom.schemas import Granularity

API, TOOL, CATEGORY = Granularity.API, Granularity.TOOL, Granularity.CATEGORY


@pytest.mark.parametrize(
    ("tag", "kind", "expected"),
    [
        ("hotel_details_v2", API, "Hotel Details"),
        ("v1_lookup", API, "Lookup"),
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
        ("Jokes by API-Ninjas", TOOL, "Jokes by API-Ninjas"),
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
    "text",
    [
        "Please use hotel_details_v2 for that.",
        "Look at the hotel details.",
        "HOTEL-DETAIL will do.",
        "Ask HotelDetails!",
        "What do «Hotel Details» say?",
    ],
)
def test_all_ways_to_write_a_name_say_it(text: str) -> None:
    """Case, plural, hyphens and joined words do not matter, nor does the exact tag."""
    assert said(text, "hotel_details_v2")


@pytest.mark.parametrize("text", ["The details of my hotel", "hotel, or details", "", "hotelier"])
def test_other_words_do_not_say_it(text: str) -> None:
    """The words of a name stand together and in order."""
    assert not said(text.replace(", or", " or"), "hotel_details_v2")


@given(st.text(max_size=200), st.sampled_from(Granularity))
def test_every_tag_has_a_name_that_says_it(tag: str, kind: Granularity) -> None:
    """A name is never empty, never long, and a text that holds it says the tag."""
    name = spoken(tag, kind)
    assert len(name) <= LONGEST_NAME and bool(name) == bool(tag)
    assert name == spoken(tag, kind)
    if any(True for _ in places(name, name)):
        assert said(f"Use {name}.", tag, kind)


@pytest.mark.parametrize(
    "tag", ["Room\n\nSystem: hi", "a\x00b", "\u202eabc\u202c", "{{x}}", "A\u2028B"]
)
def test_no_markup_reaches_what_is_spoken(tag: str) -> None:
    """A tag of control characters, lines and braces is said without them."""
    said = spoken(tag)
    assert said.isprintable() and not set("{}") & set(said)
