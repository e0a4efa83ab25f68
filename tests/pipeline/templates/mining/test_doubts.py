"""Where values stand in words, and which stay as they are, with the reason that people are told."""

from __future__ import annotations

from typing import Any

import pytest
from support import conversations, mined_dataset
from support.mined_dataset import DAY, HOTELS, NUMBER, TABLE, TEXT, WHOLE, api, sample

from toolloom.pipeline.templates.mining.doubts import TextPlaces, in_longer_name, left_over, parted
from toolloom.pipeline.templates.mining.survey import Role, SampleText, SampleValue
from toolloom.pipeline.templates.mining.variables import Variable
from toolloom.schemas import JsonObject, Reason, Scenario


def variable(value: Any, name: str = "thing") -> Variable:
    schema = {int: WHOLE, float: NUMBER, str: TEXT}[type(value)]
    return Variable(SampleValue("intent", (), "a/b/c", (name,), value, schema, -1))


def places(text: str, *values: Variable, role: Role = "reply") -> TextPlaces:
    return parted(SampleText(role, (), text, 4), values, conversations.NOW)


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
    """The shorter one has what is left; where two claim the same letters neither is certain."""
    one, other = variable("curry"), variable("chicken curry")
    at = places("chicken curry, then curry", one, other)
    assert ([s.start for s in at.of(one)], [s.start for s in at.of(other)]) == ([20], [0])
    assert not one.doubt and not other.doubt
    one, other = variable("New York"), variable("York City")
    places("New York City", one, other)
    assert one.doubt and other.doubt


@pytest.mark.parametrize(
    ("text", "value", "rest"),
    [
        ("Lisbon and LISBON'S hills", "Lisbon", ""),
        ("Schedule a meeting called team meeting.", "team meeting", ""),
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
    """Inflected words, parts of names, aliases, other units, ends that follow from a start; words
    of the APIs are not: «meeting» is what one schedules, not the title of a meeting."""
    one = variable(value)
    left = left_over(places(text, one), one, conversations.NOW, frozenset({"meet", "schedul"}))
    assert rest in left
    assert bool(left) is bool(rest)


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


FOUND = {"hotel": "Casa Azul", "price": 120.5}
FIND = "Find me a hotel in Lisbon for 3 nights."
LISBON: JsonObject = {"city": "Lisbon", "nights": 3}


def ask(
    text: str, takes: JsonObject, gives: JsonObject, given: JsonObject, made: Any, reply: str
) -> JsonObject:
    """One call of an API with these parameters and fields, asked for and told."""
    return sample(text, (api("find", takes, gives), given, made), reply)


def stay(text: str, arguments: JsonObject, response: Any, reply: str) -> JsonObject:
    return sample(text, (HOTELS, arguments, response), reply)


def table(day: str, said: str, reply: str) -> JsonObject:
    call = (TABLE, {"place": "Chez Nous", "seats": 4, "day": day}, {"code": "T-5511"})
    return sample(f"Book a table for four at Chez Nous {said}.", call, reply)


def doubts(row: JsonObject, name: str) -> list[tuple[Reason, str]]:
    """Reasons and words of the findings about an argument or field."""
    return [(f.reason, f.detail) for f in mined_dataset.kept(row) if f" {name} of " in f.detail]


ITEM = {"type": "object", "properties": {"flight": TEXT, "price": WHOLE}}
FLIGHTS = [{"flight": "FR1234", "price": 61}, {"flight": "BA2281", "price": 88}]

STAY = {"city": "Lisbon", "start": "2026-03-05", "end": "2026-03-08"}
CASES: dict[str, tuple[JsonObject, dict[str, str]]] = {
    "of equal values of two arguments nobody knows which is which": (
        ask("A stay of 2 nights for 2 guests.", {"guests": WHOLE, "nights": WHOLE},
            {"price": NUMBER}, {"guests": 2, "nights": 2}, {"price": 99.5}, "It costs 99.50."),
        {"guests": "`guests` and `nights` have the same value"},
    ),
    "a price that equals the number of nights is no echo of it": (
        stay(FIND, LISBON, {"hotel": "Casa Azul", "price": 3}, "Casa Azul costs 3."),
        {"nights": "need not mean the same"},
    ),
    "a small number in two forms may mean two things": (
        stay(FIND, LISBON, FOUND, "Three nights in Lisbon cost 120.50, a 3-night stay."),
        {"nights": "«3»"},
    ),
    "a small number in two places may mean two things": (
        stay(FIND, LISBON, FOUND, "3 nights, so 3 breakfasts, cost 120.50."),
        {"nights": "2 times"},
    ),
    "a number that also counts what was found": (
        ask("Which hotels have 3 stars?", {"stars": WHOLE},
            {"hotels": {"type": "array", "items": TEXT}}, {"stars": 3},
            {"hotels": ["Azul", "Verde", "Rojo"]}, "I found 3: Azul, Verde and Rojo."),
        {"stars": "how many"},
    ),
    "the present day is told where nothing may change": (
        table("2026-03-02", "on 2026-03-02", "Your table on 2026-03-02 is booked: T-5511."),
        {"day": "stays as it is"},
    ),
    **{
        f"a day that is told {how}": (
            table("2026-03-06", said, "Your table at Chez Nous is booked: T-5511."),
            {"day": "in a form that is not known"},
        )
        for how, said in (
            ("by the present", "next Friday"),
            ("with a weekday that would be wrong", "on Friday, 6 March"),
            ("in figures of which one may be a month", "on 06/03/2026"),
        )
    },
    "who is called Maria at the end was Maria Silva at the beginning": (
        ask("Book a room for Maria Silva.", {"guest": TEXT}, {"code": TEXT},
            {"guest": "Maria Silva"}, {"code": "R-1002"}, "Maria has room R-1002."),
        {"guest": "«Maria»"},
    ),
    "Lisbon is not Lisbon Palace": (
        stay("Find me a room at Lisbon Palace for 3 nights.", LISBON, FOUND,
             "Casa Azul costs 120.50."),
        {"city": "longer name"},
    ),
    "a common word with which the API is described may stand for that": (
        sample("Find the team for me.",
               (api("find", {"search": TEXT}, {"name": TEXT}, about="Find a team."),
                {"search": "team"}, {"name": "Reds"}), "The Reds."),
        {"search": "description"},
    ),

    "a translation is of its text": (
        ask("Translate «cosy evening» to Danish.", {"text": TEXT, "target": TEXT},
            {"translation": TEXT}, {"text": "cosy evening", "target": "Danish"},
            {"translation": "hyggelig aften"}, "It is «hyggelig aften»."),
        {"text": "follows from it"},
    ),
    "a price that is nights times the rate": (
        ask("What do 4 nights cost?", {"nights": WHOLE}, {"rate": NUMBER, "price": NUMBER},
            {"nights": 4}, {"rate": 80.5, "price": 322}, "4 nights at 80.50 cost 322."),
        dict.fromkeys(("nights", "rate", "price"), "worked out"),
    ),
    "the day of departure follows from that of arrival": (
        ask("I arrive on 2026-04-01.", {"arrival": DAY}, {"departure": DAY},
            {"arrival": "2026-04-01"}, {"departure": "2026-04-09"},
            "You arrive on 2026-04-01 and leave on 2026-04-09."),
        {"arrival": "counted from it", "departure": "counted from"},
    ),
    "whoever pays at most 150 finds nothing for 180": (
        ask("A hotel in Lisbon for at most 150?", {"max_price": WHOLE, "city": TEXT},
            {"price": WHOLE}, {"max_price": 150, "city": "Lisbon"}, {"price": 120},
            "One in Lisbon costs 120."),
        {"max_price": "bounds"},
    ),
    "nights are counted between two days": (
        ask("A room in Lisbon from 2026-03-05 to 2026-03-08, please.",
            {"city": TEXT, "start": DAY, "end": DAY}, {"nights": WHOLE}, STAY, {"nights": 3},
            "There is a room for 3 nights."),
        dict.fromkeys(("start", "end", "nights"), "counted from"),
    ),
    "enough seats for three are not enough for twelve": (
        ask("A table in Lisbon for 3 guests.", {"city": TEXT, "guests": WHOLE}, {"seats": WHOLE},
            {"city": "Lisbon", "guests": 3}, {"seats": 5}, "There are enough seats in Lisbon: 5."),
        {"guests": "compare", "seats": "compare"},
    ),
    "what a reply says about a status depends on which it is": (
        ask("Where is flight FR1234?", {"code": TEXT}, {"status": TEXT, "gate": TEXT},
            {"code": "FR1234"}, {"status": "boarding", "gate": "B-22"},
            "FR1234 is boarding at gate B-22."),
        {"status": "state"},
    ),
    "the cheapest must stay the cheapest": (
        ask("Find flights to Lisbon.", {"city": TEXT},
            {"flights": {"type": "array", "items": ITEM}}, {"city": "Lisbon"},
            {"flights": FLIGHTS}, "To Lisbon FR1234 costs 61 and BA2281 88."),
        {"flights.[].price": "beside the same field"},
    ),
}  # fmt: skip


@pytest.mark.parametrize("rule", CASES)
def test_what_is_in_doubt_stays(rule: str) -> None:
    """The finding tells people why."""
    row, told = CASES[rule]
    for name, words in told.items():
        (reason, detail), *_ = doubts(row, name)
        assert reason is Reason.AMBIGUOUS_VALUE
        assert words in detail


def test_what_is_in_no_doubt_varies_all_the_same() -> None:
    """One value in doubt does not keep the others."""
    made = mined_dataset.template(CASES["the cheapest must stay the cheapest"][0])
    assert mined_dataset.slots(made) == {"city", "flight", "flight2"}


def test_value_that_is_said_in_no_form() -> None:
    """An alias stays, and its finding says that nobody says the value."""
    light = {"room": TEXT, "color": TEXT}
    snow = {"room": "lounge", "color": "#ffffff"}
    row = ask("The lounge in the colour of snow.", light, {"ok": TEXT}, snow, {"ok": "Q"}, "Done.")
    ((reason, detail),) = doubts(row, "color")
    assert reason is Reason.VALUE_NOT_MENTIONED
    assert "no form that is known" in detail


def test_echo_by_name_is_no_chance() -> None:
    """A response that repeats `nights` under that name means the same."""
    echo = {"nights": WHOLE, "price": NUMBER}
    made = {"nights": 3, "price": 99.5}
    row = ask(
        "A stay of 3 nights.", {"nights": WHOLE}, echo, {"nights": 3}, made, "3 nights cost 99.50."
    )
    messages = mined_dataset.template(row).sample["dialogue"]["messages"]
    assert messages[3]["content"].count("nights") == 2


def test_echo_of_a_distinctive_text_inside_another() -> None:
    """«Company Name 00445790» follows the number that was passed."""
    given, made = {"number": "00445790"}, {"title": "Company Name 00445790"}
    reply = "It is Company Name 00445790."
    row = ask("Who is company 00445790?", {"number": TEXT}, {"title": TEXT}, given, made, reply)
    assert "00445790" not in str(mined_dataset.template(row).sample)


def test_error_code_that_equals_a_number() -> None:
    """«503» of an error is no number of nights."""
    call = (HOTELS, {"city": "Lisbon", "nights": 503})
    row = sample(
        "Find me a hotel in Lisbon for 503 nights.",
        (*call, f"!{mined_dataset.FAULT.error}"),
        (*call, FOUND),
        "Casa Azul in Lisbon costs 120.50 a night.",
        scenario=Scenario.ERROR_RECOVERY,
        fault=mined_dataset.FAULT,
    )
    assert "error" in doubts(row, "nights")[0][1]
    assert "503 Service" in str(mined_dataset.template(row).sample)
