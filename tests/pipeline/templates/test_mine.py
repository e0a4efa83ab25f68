"""Mining: what becomes a slot, what stays and why, and that nothing else changes."""

from __future__ import annotations

from typing import Any

import pytest
from support import mined_dataset
from support.mined_dataset import DAY, HOTELS, NUMBER, ROOM, TABLE, TEXT, WHOLE, api, sample

from toolloom.pipeline.templates.mine import VALUES, SeenValues, mine
from toolloom.schemas import JsonObject, Reason, Rejected, Scenario, Split, Template
from toolloom.schemas.derived import CLOSE, OPEN

FOUND = {"hotel": "Casa Azul", "price": 120.5}
GIVEN: JsonObject = {"city": "Lisbon", "nights": 3}
ASKED = "Find me a hotel in Lisbon for three nights."
TOLD = "Casa Azul in Lisbon costs 120.50 a night."
LISBON = sample(ASKED, (HOTELS, GIVEN, FOUND), TOLD)
PORTO = sample(
    "Find me a hotel in Porto for two nights.",
    (HOTELS, {"city": "Porto", "nights": 2}, {"hotel": "Rio Verde", "price": 80.5}),
    "Rio Verde in Porto costs 80.50.",
)
CHAIN = sample(
    "Book a hotel in Lisbon for three nights for Ana Reis.",
    (HOTELS, GIVEN, FOUND),
    (ROOM, {"hotel": "Casa Azul", "guest": "Ana Reis"}, {"reference": "RR-2041"}),
    "Casa Azul is booked for Ana Reis under RR-2041.",
    scenario=Scenario.SEQUENTIAL,
    references={1: {"hotel": (0, "hotel")}},
)
DINNER = sample(
    "Book a table for four at Chez Nous on May 3, 2026.",
    (TABLE, {"place": "Chez Nous", "seats": 4, "day": "2026-05-03"}, {"code": "T-5511"}),
    "Your table for 4 at Chez Nous on 3 May is booked: T-5511.",
)
AGAIN = sample(
    ASKED,
    (HOTELS, GIVEN, f"!{mined_dataset.FAULT.error}"),
    (HOTELS, GIVEN, FOUND),
    TOLD,
    scenario=Scenario.ERROR_RECOVERY,
    fault=mined_dataset.FAULT,
)
BRACES = sample(ASKED.replace("Lisbon", "{0.__class__} Lisbon"), (HOTELS, GIVEN, FOUND), TOLD)
"""A format string is text like any other."""


def values(made: Template, slot: str) -> list[object]:
    choice = next(c for c in made.choices if slot in c.slots)
    return [row[choice.slots.index(slot)] for row in choice.rows]


@pytest.mark.parametrize("row", [LISBON, CHAIN, DINNER, AGAIN, BRACES], ids=range(5))
def test_a_template_gives_back_its_sample_and_rows_that_pass(row: JsonObject) -> None:
    """Its original values make the very sample; to others in all places no check objects."""
    made = mined_dataset.template(row, PORTO)
    assert mined_dataset.bare(mined_dataset.first_row(made)) == mined_dataset.bare(row)
    good, said = mined_dataset.accepted(made, 40)
    assert good >= 38, said


def test_value_is_one_slot_in_all_places() -> None:
    """What the user tells is the same in the intent, the call and the reply; a small number, what
    the response alone holds, the system turn and the documentation stay."""
    made = mined_dataset.template(LISBON, PORTO)
    before, after = LISBON["dialogue"], made.sample["dialogue"]
    assert "Lisbon" not in str(after["messages"])
    assert made.goal == "Find me a hotel in {city} for three nights."
    assert mined_dataset.slots(made) == {"city"}
    assert values(made, "city")[:2] == ["Lisbon", "Porto"]
    (choice,) = made.choices
    assert 2 < len(choice.rows) <= VALUES
    assert after["query"]["pool"] == before["query"]["pool"]
    assert after["messages"][0] == before["messages"][0]


def test_template_tells_where_it_comes_from() -> None:
    """Its sample's id and split, and its APIs in order."""
    made = mine(CHAIN, SeenValues(), Split.VALIDATION)
    assert isinstance(made, Template)
    assert made.id == CHAIN["dialogue"]["query"]["id"]
    assert (made.apis, made.split) == ((HOTELS.id, ROOM.id), Split.VALIDATION)
    assert made.provenance[0].parents == (made.id,)


def test_forms_are_columns_of_one_choice() -> None:
    """A date that is spoken as «May 3, 2026» and «3 May» is drawn once."""
    made = mined_dataset.template(DINNER)
    choice = next(c for c in made.choices if "day" in c.slots)
    assert set(choice.slots) == {"day", "day_month_day_year", "day_day_month"}
    assert choice.rows[0][choice.slots.index("day_month_day_year")] == "May 3, 2026"


def test_two_values_never_become_one() -> None:
    """No value is in the pools of two choices, so that words tell them apart."""
    gift = api("send", {"origin": TEXT, "destination": TEXT}, {"code": TEXT})
    row = sample(
        "Send a gift from Rome to Athens.",
        (gift, {"origin": "Rome", "destination": "Athens"}, {"code": "GX-7781"}),
        "The gift from Rome to Athens is sent, its code is GX-7781.",
    )
    made = mined_dataset.template(row)
    assert not {*values(made, "origin")} & {*values(made, "destination")}


def test_hand_written_dialogues_are_mined_well() -> None:
    """Of dialogues as people hold them many become templates, and at least 95 % of rows pass."""
    known, rows = SeenValues(), mined_dataset.good_samples()
    for row in rows:
        known.add(row)
    made = [t for row in rows if isinstance(t := mine(row, known), Template)]
    assert len(made) > 0.3 * len(rows)
    for each, row in ((t, r) for t in made for r in rows if r["dialogue"]["query"]["id"] == t.id):
        assert mined_dataset.bare(mined_dataset.first_row(each)) == mined_dataset.bare(row)
    counts = [mined_dataset.accepted(each, 8) for each in made]
    assert sum(good for good, _ in counts) >= 0.95 * 8 * len(made), [s for _, s in counts if s]


@pytest.mark.parametrize(
    ("row", "words"),
    [
        (sample(ASKED, (HOTELS, GIVEN, FOUND), TOLD, kind="executed"), "an execution"),
        (sample(f"{ASKED} {OPEN}city{CLOSE}", (HOTELS, GIVEN, FOUND), TOLD), "mark slots"),
        (
            sample("Where?", (api("ferry", {}, {"pier": WHOLE}), {}, {"pier": 77}), "77."),
            "may vary",
        ),
    ],
    ids=["executed", "a smuggled slot", "no argument"],
)
def test_samples_that_make_no_template(row: JsonObject, words: str) -> None:
    """They are rejected whole, with the reason."""
    made = mine(row, SeenValues())
    assert isinstance(made, Rejected)
    executed = words == "an execution"
    assert made.reason is (Reason.EXECUTED_RESULT if executed else Reason.NOTHING_TO_VARY)
    assert made.record == row and words in made.detail


def ask(
    text: str, takes: JsonObject, gives: JsonObject, given: JsonObject, made: Any, reply: str
) -> JsonObject:
    """One call of an API with these parameters and fields, asked for and told."""
    return sample(text, (api("find", takes, gives), given, made), reply)


def table(said: str, reply: str = "Your table at Chez Nous is booked: T-5511.") -> JsonObject:
    given = {"place": "Chez Nous", "seats": 4, "day": "2026-03-06"}
    return sample(f"Book a table for four at Chez Nous {said}.", (TABLE, given, {"code": "T-5511"}),
                  reply)  # fmt: skip


CASES: dict[str, tuple[JsonObject, str, str]] = {
    "a small number": (LISBON, "nights", "may stand for anything"),
    "a day told by the present": (table("next Friday"), "day", "in no form"),
    "a day told beside another": (
        table("on 6 March, as 7 March is full", "It is booked for 6 March: T-5511."),
        "day",
        "other days",
    ),
    "said twice": (
        sample(f"{ASKED} It must be in Lisbon.", (HOTELS, GIVEN, FOUND), TOLD),
        "city",
        "more than once",
    ),
    "Maria at the end was Maria Silva at the beginning": (
        ask("Book a room for Maria Silva.", {"guest": TEXT}, {"code": TEXT},
            {"guest": "Maria Silva"}, {"code": "R-1002"}, "Maria has room R-1002."),
        "guest", "«maria»",
    ),
    "Lisbon is not Lisbon Palace": (
        sample("Find me a room at Lisbon Palace.", (HOTELS, GIVEN, FOUND), "It costs 120.50."),
        "city", "longer name",
    ),
    "a word with which the API is described": (
        sample("Find Team for me.", (api("find", {"search": TEXT}, {"name": TEXT},
               about="Find a team."), {"search": "Team"}, {"name": "Reds"}), "The Reds."),
        "search", "description",
    ),
    "a translation is of its text": (
        ask("Translate «Cosy evening» to Danish.", {"text": TEXT, "target": TEXT},
            {"translation": TEXT}, {"text": "Cosy evening", "target": "Danish"},
            {"translation": "hyggelig aften"}, "It is «hyggelig aften»."),
        "text", "may follow from it",
    ),
    "the day of departure follows from that of arrival": (
        ask("I arrive on 2026-04-01.", {"arrival": DAY}, {"departure": DAY},
            {"arrival": "2026-04-01"}, {"departure": "2026-04-09"}, "You leave on 2026-04-09."),
        "arrival", "counted from it",
    ),
    "a price may follow from an amount": (
        ask("Convert 12500 for me.", {"amount": WHOLE}, {"fee": NUMBER}, {"amount": 12500},
            {"fee": 125.5}, "The fee is 125.50."),
        "amount", "may follow from it",
    ),
    "an alias": (
        ask("The lounge in the colour of snow.", {"color": TEXT}, {"ok": TEXT},
            {"color": "#ffffff"}, {"ok": "Q"}, "Done."),
        "color", "in no form that is known",
    ),
}  # fmt: skip


@pytest.mark.parametrize("rule", CASES)
def test_what_is_in_doubt_stays(rule: str) -> None:
    """The finding tells people why."""
    row, name, words = CASES[rule]
    said = [f.detail for f in mined_dataset.kept(row) if f.detail.startswith(f"argument {name} ")]
    assert said and words in said[0]
