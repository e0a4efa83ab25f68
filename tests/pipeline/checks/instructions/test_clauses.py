import pytest
from hypothesis import given
from hypothesis import strategies as st

from toolloom.pipeline.checks.instructions.clauses import ends_open, orders, stands


@pytest.mark.parametrize(
    "sentence",
    [
        "I own a dog, list the vets",
        "I own a dog; list the vets",
        "My dog is ill - find a vet",
        "I own a dog and list the vets near me",
        "The bill is mine, so please pay it",
        "Since I am ill, order medicine",
        "When I arrive, turn on the heating",
        "For my trip find a room",
        "On Monday book a table for my wife",
    ],
)
def test_orders_are_found_wherever_they_stand(sentence: str) -> None:
    """An order after a comma, an «and», or what leads to it is one."""
    assert orders(sentence)


@pytest.mark.parametrize(
    "sentence",
    [
        "I own a dog, a cat and a book",
        "I want to eat out and book a tour",
        "As a baker, I get up at 3",
        "In my shop, orders and plans are kept on paper",
        "After my last order the shop went bankrupt",
        "My wife and I run a shop, and we sell tea",
        "Since my return, order and peace are back",
    ],
)
def test_what_a_person_does_is_no_order(sentence: str) -> None:
    """The same words with a subject, after «to», or as things order nothing."""
    assert not orders(sentence)


@pytest.mark.parametrize(
    ("part", "rest"),
    [
        ("I would like you", " to look up 12"),
        ("I need to know how", " to get financial data"),
        ("My boss wants my team", " to look it up"),
        ("I'd love for my sister", " to come"),
        ("I expect the price", " to be 12"),
        ("I have been told", " that it is late"),
        ("We are a team", " of 12"),
        ("It is important to me", " that it works"),
        ("Since I am ill", ", order medicine"),
        ("I have a friend who lives", " in 12 Main Street"),
        ("I need to", " go"),
        ("We want the", " 12 rooms"),
        ("I was wondering if", " it rains"),
    ],
)
def test_half_a_sentence_does_not_stand(part: str, rest: str) -> None:
    """A beginning that needs what follows it is no sentence."""
    assert not stands(part, rest)


@pytest.mark.parametrize(
    ("part", "rest"),
    [
        ("My blender broke after a week", " and the shop wants it"),
        ("I'm flying to Lisbon", " on 2025-06-03"),
        ("As a baker, I get up early", " at 3"),
        ("I have set the limit", " to 12"),
        ("After two years in Bonn, we moved", " to 12 Main Street"),
        ("It's my birthday", " and I want cake"),
    ],
)
def test_a_beginning_that_is_a_sentence_stands(part: str, rest: str) -> None:
    """What follows may go on where the first part says something whole."""
    assert stands(part, rest)


@pytest.mark.parametrize(
    "sentence", ["I need to.", "We want the", "I was wondering if.", "I like you!"]
)
def test_sentences_that_end_open_are_found(sentence: str) -> None:
    """Whatever marks follow the last word."""
    assert ends_open(sentence)


@given(st.text(max_size=300), st.text(max_size=50))
def test_any_text_is_judged(part: str, rest: str) -> None:
    """No text makes a judgement raise."""
    assert isinstance(orders(part), bool) and isinstance(stands(part, rest), bool)
