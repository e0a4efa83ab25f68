"""Values that stay as they are, each with the reason that people are told."""

from __future__ import annotations

from typing import Any

import pytest
from support import mined_dataset
from support.mined_dataset import DAY, HOTELS, NUMBER, TABLE, TEXT, WHOLE, api, sample

from toolloom.schemas import JsonObject, Reason, Scenario

FOUND = {"hotel": "Casa Azul", "price": 120.5}
LIGHT = api("light", {"room": TEXT, "color": TEXT}, {"done": {"type": "boolean"}})


def search(text: str, arguments: JsonObject, response: Any, reply: str) -> JsonObject:
    return sample(text, (HOTELS, arguments, response), reply)


def doubt(row: JsonObject, name: str) -> tuple[Reason, str]:
    """Reason and words of the finding about an argument or field."""
    found = [f for f in mined_dataset.kept(row) if f" {name} of " in f.detail]
    assert found, [f.detail for f in mined_dataset.kept(row)]
    return found[0].reason, found[0].detail


def test_equal_values_of_two_arguments() -> None:
    """«2» for seats and for nights cannot be told apart; both places are named."""
    both = api("stay", {"guests": WHOLE, "nights": WHOLE}, {"price": NUMBER})
    row = sample(
        "A stay of 2 nights for 2 guests, please.",
        (both, {"guests": 2, "nights": 2}, {"price": 99.5}),
        "It costs 99.50.",
    )
    reason, detail = doubt(row, "guests")
    assert reason is Reason.AMBIGUOUS_VALUE
    assert "`guests` and `nights` have the same value" in detail


def test_number_that_a_response_has_by_chance() -> None:
    """A price that equals the number of nights is no echo of it."""
    row = search(
        "Find me a hotel in Lisbon for 3 nights.",
        {"city": "Lisbon", "nights": 3},
        {"hotel": "Casa Azul", "price": 3},
        "Casa Azul costs 3.",
    )
    assert "need not mean the same" in doubt(row, "nights")[1]


def test_echo_by_name_is_no_chance() -> None:
    """A response that repeats `nights` under that name means the same."""
    echo = api("stay", {"nights": WHOLE}, {"nights": WHOLE, "price": NUMBER})
    row = sample(
        "A stay of 3 nights, please.",
        (echo, {"nights": 3}, {"nights": 3, "price": 99.5}),
        "3 nights cost 99.50.",
    )
    made = mined_dataset.template(row)
    assert made.sample["dialogue"]["messages"][3]["content"].count("nights") == 2


def test_echo_of_a_distinctive_text_inside_another() -> None:
    """«Company Name 00445790» follows the number that was passed."""
    firm = api("firm", {"number": TEXT}, {"title": TEXT})
    row = sample(
        "Who is company 00445790?",
        (firm, {"number": "00445790"}, {"title": "Company Name 00445790"}),
        "It is Company Name 00445790.",
    )
    assert "00445790" not in str(mined_dataset.template(row).sample)


@pytest.mark.parametrize(
    ("reply", "word"),
    [
        ("Three nights in Lisbon cost 120.50, a 3-night stay.", "«3»"),
        ("3 nights, so 3 breakfasts, cost 120.50.", "2 times"),
    ],
)
def test_number_that_stands_twice(reply: str, word: str) -> None:
    """A small number in two places of a text may mean two things."""
    row = search(
        "Find me a hotel in Lisbon for 3 nights.", {"city": "Lisbon", "nights": 3}, FOUND, reply
    )
    assert word in doubt(row, "nights")[1]


def test_number_of_items() -> None:
    """A number that also counts what was found is not known to be the argument."""
    many = api("find", {"stars": WHOLE}, {"hotels": {"type": "array", "items": TEXT}})
    row = sample(
        "Which hotels have 3 stars?",
        (many, {"stars": 3}, {"hotels": ["Azul", "Verde", "Rojo"]}),
        "I found 3: Azul, Verde and Rojo.",
    )
    assert "how many" in doubt(row, "stars")[1]


def test_value_in_the_system_turn() -> None:
    """The present day is told where nothing may change."""
    row = sample(
        "Book a table for four at Chez Nous on 2026-03-02.",
        (TABLE, {"place": "Chez Nous", "seats": 4, "day": "2026-03-02"}, {"code": "T-5511"}),
        "Your table at Chez Nous on 2026-03-02 is booked: T-5511.",
    )
    assert "stays as it is" in doubt(row, "day")[1]


@pytest.mark.parametrize("said", ["next Friday", "on Friday, 6 March", "on 06/03/2026"])
def test_date_in_words_that_no_other_date_fits(said: str) -> None:
    """A day that is told by the present, or with a weekday that would be wrong, stays."""
    row = sample(
        f"Book a table for four at Chez Nous {said}.",
        (TABLE, {"place": "Chez Nous", "seats": 4, "day": "2026-03-06"}, {"code": "T-5511"}),
        "Your table at Chez Nous is booked: T-5511.",
    )
    assert "in a form that is not known" in doubt(row, "day")[1]


def test_value_that_is_said_in_no_form() -> None:
    """An alias stays, and its finding says that nobody says the value."""
    row = sample(
        "Make the lounge light the colour of snow.",
        (LIGHT, {"room": "lounge", "color": "#ffffff"}, {"done": True}),
        "Done, the lounge is as you like it.",
    )
    reason, detail = doubt(row, "color")
    assert reason is Reason.VALUE_NOT_MENTIONED
    assert "no form that is known" in detail


def test_part_of_a_name_that_is_left() -> None:
    """Who is called Maria at the end was Maria Silva at the beginning."""
    room = api("room", {"guest": TEXT}, {"code": TEXT})
    row = sample(
        "Book a room for Maria Silva.",
        (room, {"guest": "Maria Silva"}, {"code": "R-1002"}),
        "Maria has room R-1002.",
    )
    assert "«Maria»" in doubt(row, "guest")[1]


def test_name_inside_a_longer_one() -> None:
    """Lisbon is not Lisbon Palace."""
    row = search(
        "Find me a room at Lisbon Palace for 3 nights.",
        {"city": "Lisbon", "nights": 3},
        FOUND,
        "Casa Azul costs 120.50.",
    )
    assert "longer name" in doubt(row, "city")[1]


def test_word_of_the_description() -> None:
    """A common word with which the API is described may stand for that."""
    find = api("find", {"search": TEXT}, {"name": TEXT}, about="Find a team.")
    row = sample("Find the team for me.", (find, {"search": "team"}, {"name": "Reds"}), "The Reds.")
    assert "description" in doubt(row, "search")[1]


def test_alias_in_the_reply() -> None:
    """«$» follows from USD, and no form tells what would follow from SEK."""
    money = api("budget", {"currency": TEXT, "trip": TEXT}, {"left": NUMBER})
    row = sample(
        "What is left in USD for trip T-7001?",
        (money, {"currency": "USD", "trip": "T-7001"}, {"left": 40.25}),
        "For trip T-7001 $40.25 is left.",
    )
    assert "«$»" in doubt(row, "currency")[1]


def test_what_a_response_follows_from() -> None:
    """A translation is of its text; nothing of the call may vary."""
    lingo = api("lingo", {"text": TEXT, "target": TEXT}, {"translation": TEXT})
    row = sample(
        "Translate «cosy evening» to Danish.",
        (lingo, {"text": "cosy evening", "target": "Danish"}, {"translation": "hyggelig aften"}),
        "It is «hyggelig aften».",
    )
    assert "follows from it" in doubt(row, "text")[1]


def test_arithmetic() -> None:
    """A price that is nights times the rate varies with none of them."""
    stay = api("stay", {"nights": WHOLE}, {"rate": NUMBER, "price": NUMBER})
    row = sample(
        "What do 4 nights cost?",
        (stay, {"nights": 4}, {"rate": 80.5, "price": 322}),
        "4 nights at 80.50 cost 322.",
    )
    for name in ("nights", "rate", "price"):
        assert "worked out" in doubt(row, name)[1]


def test_end_that_is_counted_from_a_day() -> None:
    """The day of departure follows from that of arrival."""
    stay = api("stay", {"arrival": DAY}, {"departure": DAY})
    row = sample(
        "I arrive on 2026-04-01.",
        (stay, {"arrival": "2026-04-01"}, {"departure": "2026-04-09"}),
        "You arrive on 2026-04-01 and leave on 2026-04-09.",
    )
    assert "counted from it" in doubt(row, "arrival")[1]
    assert "counted from" in doubt(row, "departure")[1]


def test_bound_on_what_is_found() -> None:
    """Whoever pays at most 150 finds nothing for 180."""
    find = api("find", {"max_price": WHOLE, "city": TEXT}, {"price": WHOLE})
    row = sample(
        "A hotel in Lisbon for at most 150?",
        (find, {"max_price": 150, "city": "Lisbon"}, {"price": 120}),
        "One in Lisbon costs 120.",
    )
    assert "bounds" in doubt(row, "max_price")[1]


def test_nights_between_two_days() -> None:
    """How many there are is counted from the days: neither the days nor the number vary."""
    stay = api("stay", {"city": TEXT, "start": DAY, "end": DAY}, {"nights": WHOLE})
    asked = {"city": "Lisbon", "start": "2026-03-05", "end": "2026-03-08"}
    said = "A room in Lisbon from 2026-03-05 to 2026-03-08, please."
    row = sample(said, (stay, asked, {"nights": 3}), "There is a room for 3 nights.")
    for name in ("start", "end", "nights"):
        assert "counted from" in doubt(row, name)[1]
    assert mined_dataset.slots(mined_dataset.template(row)) == {"city"}


def test_number_that_words_compare() -> None:
    """«Enough seats» for three are not enough for twelve."""
    find = api("find", {"city": TEXT, "guests": WHOLE}, {"seats": WHOLE})
    row = sample(
        "A table in Lisbon for 3 guests.",
        (find, {"city": "Lisbon", "guests": 3}, {"seats": 5}),
        "There are enough seats in Lisbon: 5.",
    )
    assert "compare" in doubt(row, "guests")[1]
    assert "compare" in doubt(row, "seats")[1]


def test_items_side_by_side() -> None:
    """«The cheapest» must stay the cheapest: numbers of several items keep their values."""
    item = {"type": "object", "properties": {"flight": TEXT, "price": WHOLE}}
    find = api("find", {"city": TEXT}, {"flights": {"type": "array", "items": item}})
    flights = [{"flight": "FR1234", "price": 61}, {"flight": "BA2281", "price": 88}]
    row = sample(
        "Find flights to Lisbon.",
        (find, {"city": "Lisbon"}, {"flights": flights}),
        "To Lisbon FR1234 costs 61 and BA2281 88.",
    )
    assert "beside the same field" in doubt(row, "flights.[].price")[1]
    assert "flight" in mined_dataset.slots(mined_dataset.template(row))


def test_states_stay() -> None:
    """What a reply says about a status depends on which it is."""
    find = api("find", {"code": TEXT}, {"status": TEXT, "gate": TEXT})
    row = sample(
        "Where is flight FR1234?",
        (find, {"code": "FR1234"}, {"status": "boarding", "gate": "B-22"}),
        "FR1234 is boarding at gate B-22.",
    )
    assert "state" in doubt(row, "status")[1]


def test_error_code_that_equals_a_number() -> None:
    """«503» of an error is no number of nights."""
    row = sample(
        "Find me a hotel in Lisbon for 503 nights.",
        (HOTELS, {"city": "Lisbon", "nights": 503}, f"!{mined_dataset.FAULT.error}"),
        (HOTELS, {"city": "Lisbon", "nights": 503}, FOUND),
        "Casa Azul in Lisbon costs 120.50 a night.",
        scenario=Scenario.ERROR_RECOVERY,
        fault=mined_dataset.FAULT,
    )
    assert "error" in doubt(row, "nights")[1]
    assert "503 Service" in str(mined_dataset.template(row).sample)


def test_shorter_value_inside_a_longer_one() -> None:
    """«curry» in «chicken curry» belongs to the longer value."""
    find = api("dish", {"search": TEXT}, {"found": WHOLE})
    first = (find, {"search": "curry"}, {"found": 77})
    other = (find, {"search": "chicken curry"}, {"found": 34})
    row = sample(
        "Look for curry.", first, "There are 77.", "And for chicken curry?", other, "There are 34.",
        scenario=Scenario.MULTI_TURN,
    )  # fmt: skip
    more = sample(
        "Look for goulash.", (find, {"search": "goulash"}, {"found": 12}), "There are 12."
    )
    last = sample("Look for paella.", (find, {"search": "paella"}, {"found": 13}), "There are 13.")
    made = mined_dataset.template(row, more, last)
    assert made.goal == "Look for {search}."
    assert "chicken" not in str(made.sample["dialogue"]["messages"])
