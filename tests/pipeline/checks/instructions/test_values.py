import pytest
from hypothesis import given
from hypothesis import strategies as st

from toolloom.pipeline.checks.instructions.values import choices, natural, says, texts_of
from toolloom.schemas import Api


@pytest.mark.parametrize(
    "value", ["Hamburg", "New York", "O'Neill", "type 2 diabetes", "St. Moritz", "chicken curry"]
)
def test_words_may_be_a_situation(value: str) -> None:
    """Places, people and things are what users talk about."""
    assert natural(value)


@pytest.mark.parametrize(
    "value",
    """
    385 2025-03-14 tomorrow 14:30 AX-20993 us-gaap EUR en a@b.example AccountsPayable 221b
    COMPLETED https://x.example/y
    """.split(),  # noqa: SIM905 - a table of values
)
def test_codes_numbers_and_dates_may_not(value: str) -> None:
    """Only a call needs them letter by letter."""
    assert not natural(value)


def test_addresses_and_numbers_with_spaces_may_not_either() -> None:
    """What begins with a figure is no name of anything."""
    assert not natural("12 Main Street") and not natural("+41 79 555 01 23")


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
    found = texts_of({"a": [1, 2.5, True], "b": {"c": "x", "d": None, "e": " "}})
    assert list(found) == ["1", "2.5", "x"]


def test_choices_are_those_of_arguments_and_of_their_items() -> None:
    """Only text is a choice that could be mistaken for a word."""
    properties = {
        "a": {"enum": ["Low", 3]},
        "b": {"type": "array", "items": {"enum": ["High"]}},
        "c": True,
    }
    api = Api(
        category="a",
        tool="b",
        name="c",
        function="d",
        description="",
        parameters={"properties": properties},
    )
    assert choices((api,)) == {"low", "high"}


@given(st.text(max_size=200), st.text(max_size=60))
def test_no_value_raises(text: str, value: str) -> None:
    """Values are a model's, or a stranger's."""
    says(text, value)
    natural(value)
