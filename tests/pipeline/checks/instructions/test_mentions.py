import pytest

from toolloom.pipeline.checks.instructions.mentions import Known, is_named, marked, within
from toolloom.schemas import Api, Granularity, Seed, Split, Step

API, TOOL, CATEGORY = Granularity.API, Granularity.TOOL, Granularity.CATEGORY
STEPS = (
    Step(category="Weather", tool="sky_watch", api="search", function="search_for_sky_watch"),
    Step(category="Data", tool="sky_watch", api="hourly_outlook", function="hourly_outlook"),
)
OTHER = Api(
    category="Food",
    tool="Soup Stars",
    name="hourly_outlook_by_city",
    function="hourly_outlook_by_city",
    description="",
    parameters={},
)
KNOWN = Known.of(Seed(id="x", split=Split.TRAIN, hybrid="I'm out.", steps=STEPS, pool=(OTHER,)))


def named(text: str) -> list[tuple[str, bool]]:
    return [(m.tag, m.on_path) for m in KNOWN.mentions(text) if is_named(text, m)]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("Does sky watch see rain?", [("sky_watch", True)]),
        ("I search for my hat.", []),
        ("Please run Search for me.", [("search", True)]),
        ("Ask the search tool.", [("search", True)]),
        ("Look at 'search' first.", [("search", True)]),
        ("The weather is bad.", []),
        ("Weather is bad.", []),
        ("Ask about Weather.", [("Weather", True)]),
        ("Call search_for_sky_watch.", [("search", True)]),
        ("I like soup stars.", [("Soup Stars", False)]),
        ("I like soup. Stars too.", []),
    ],
)
def test_a_name_is_told_from_plain_words(text: str, expected: list[tuple[str, bool]]) -> None:
    """Several words of weight are a name; a single one needs a capital, a quote or its kind."""
    assert named(text) == expected


def test_the_longest_name_counts() -> None:
    """A name that is part of another that is said is not said itself."""
    assert named("Run the hourly outlook.") == [("hourly_outlook", True)]
    assert named("Run the hourly outlook by city.") == [("hourly_outlook_by_city", False)]
    assert KNOWN.named("Run the hourly outlook by city.", API) == {"hourly_outlook_by_city"}


def test_common_words_name_a_tag_only_if_written_so() -> None:
    """«data» is said all the time; the category Data is another thing."""
    assert KNOWN.named("Get me data on rain.", CATEGORY) == frozenset()
    assert KNOWN.named("Get me something from Data.", CATEGORY) == {"Data"}
    assert KNOWN.named("Ask the data category about weather.", CATEGORY) == {"Data", "Weather"}


def test_a_name_within_a_coarser_tag_is_known_already() -> None:
    """Verbs such as get tell nothing of their own."""
    assert within("get_sky_watch", API, ["Sky Watch"]) and within("weather", TOOL, ["Weather"])
    assert not within("hourly_outlook", API, ["Sky Watch"])


@pytest.mark.parametrize(
    ("said", "before", "after", "expected"),
    [
        ("tasty", "Use ", " for soup", True),
        ("tasty", "It is ", " soup", False),
        ("Tasty", "It is ", " soup", True),
        ("Tasty", "Well. ", " soup", False),
        ("tips/list", "It is ", "", True),
        ("a", "", "", False),
    ],
)
def test_marks_of_names(said: str, before: str, after: str, expected: bool) -> None:
    """A capital where none is due, an identifier's letters, or words that announce a name."""
    assert marked(said, before, after) is expected
