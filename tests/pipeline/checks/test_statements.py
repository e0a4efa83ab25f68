from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from toolloom.pipeline.checks.instructions import inspect_level
from toolloom.pipeline.checks.statements import (
    MOST,
    orders,
    stands,
    statements,
)
from toolloom.schemas import Granularity, Seed, Split, Step


@pytest.mark.parametrize(
    "sentence",
    [
        "I own a dog; list the vets",
        "My dog is ill - find a vet",
        "I own a dog and list the vets near me",
        "The bill is mine, so please pay it",
        "Since I am ill, order medicine",
        "For my trip find a room",
        "not: I own a dog, a cat and a book",
        "not: I want to eat out and book a tour",
        "not: In my shop, orders and plans are kept on paper",
        "not: After my last order the shop went bankrupt",
        "not: Since my return, order and peace are back",
    ],
)
def test_orders_are_found_wherever_they_stand(sentence: str) -> None:
    """After a comma, an «and», or what leads to it; the same words with a subject, after «to», or
    as things order nothing."""
    assert orders(sentence.removeprefix("not: ")) is not sentence.startswith("not: ")


@pytest.mark.parametrize(
    ("part", "rest", "whole"),
    [
        ("I would like you", " to look up 12", False),
        ("I need to know how", " to get financial data", False),
        ("My boss wants my team", " to look it up", False),
        ("I have been told", " that it is late", False),
        ("We are a team", " of 12", False),
        ("It is important to me", " that it works", False),
        ("Since I am ill", ", order medicine", False),
        ("I have a friend who lives", " in 12 Main Street", False),
        ("I need to", " go", False),
        ("We want the", " 12 rooms", False),
        ("I was wondering if", " it rains", False),
        ("My blender broke after a week", " and the shop wants it", True),
        ("As a baker, I get up early", " at 3", True),
        ("I have set the limit", " to 12", True),
        ("After two years in Bonn, we moved", " to 12 Main Street", True),
    ],
)
def test_a_beginning_stands_if_it_is_a_sentence(part: str, rest: str, whole: bool) -> None:
    """One that needs what follows it is none; where it says something whole, more may follow."""
    assert stands(part, rest) is whole


STEP = Step(category="Travel", tool="Room Desk", api="Find Rooms", function="find_rooms")


def seed(hybrid: str, *values: str) -> Seed:
    return Seed(id="x", split=Split.TRAIN, hybrid=hybrid, steps=(STEP,), values=values)


@pytest.mark.parametrize(
    ("hybrid", "values", "expected"),
    [
        (
            "We're off to Lyon on 2025-06-03 and need beds for 2 nights. Find some!",
            ("2025-06-03", "2", "Lyon"),
            "We're off to Lyon.",
        ),
        ("Find me a soup. I have leeks and cream at home.", (), "I have leeks and cream at home."),
        ("Hello, my back hurts since Monday. Any clinic?", (), "My back hurts since Monday."),
        ("Ann and I moved in together. Convert 12 EUR.", ("12",), "Ann and I moved in together."),
        ("My flight is late, so please call the hotel.", (), "My flight is late."),
        ("I need the rate from EUR to GBP.", ("EUR", "GBP"), "I need the rate."),
        ("I need to know your times. The day is 7.", ("7",), "I need to know your times."),
        # A sentence ends before it names an API or a tool; of some nothing is left.
        ("I keep a list of beds in Room Desk. Sort it.", (), "I keep a list of beds."),
        ("I want to use Find Rooms today. Open it.", (), None),
        # «I care for their address» alone would leave a reader wondering whose.
        ("A firm. I care for their address. I am new in this town.", (), "I am new in this town."),
        ("I own a dog, list the vets. Go on.", (), "I own a dog."),
        # What only asks, or is in another language, is not trimmed to nonsense.
        ("Can you find a clinic near me? The place is Bonn.", ("Bonn",), None),
        ("Please give us the scores of my team.", (), None),
        ("To plan my trip, find flights.", (), None),
        ("I want you to book the table.", (), None),
        ("Ich plane eine Reise.", (), None),
        ("", (), None),
        ("I need 450.", ("450",), None),
        # A request that is one statement has no coarser level.
        ("I live in a small house.", (), None),
        # What is cut off must stand as a sentence, and order nothing.
        ("I want my account a12 deleted. Go on.", ("a12",), None),
    ],
)
def test_the_situation_is_cut_out(
    hybrid: str, values: tuple[str, ...], expected: str | None
) -> None:
    """A statement is a sentence about the user, or its beginning before anything that is asked
    for or belongs to a call; many requests have none."""
    assert next(iter(statements(seed(hybrid, *values))), None) == expected


def test_facts_come_before_wishes_and_together_first() -> None:
    """What the user does tells more of him than what he wants."""
    text = "I want to be quick. We run a shop in Graz. Is it open? Our stock is low. Tell me more."
    assert statements(seed(text)) == (
        "We run a shop in Graz. Our stock is low.",
        "We run a shop in Graz.",
        "Our stock is low.",
        "I want to be quick.",
    )


@given(st.text(max_size=400), st.lists(st.text(max_size=20), max_size=3))
def test_statements_have_no_faults(text: str, values: list[str]) -> None:
    """What is offered passes the checks that it is judged by, whatever the request."""
    known = seed(f"I am at home now. {text}", *values)
    offered = statements(known)
    assert len(offered) <= MOST
    for each in offered:
        assert inspect_level(known, Granularity.STATEMENT, each, {}) == ()
