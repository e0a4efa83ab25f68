"""Mining: what becomes a slot, what is refused, and that nothing else changes."""

from __future__ import annotations

import json
import random
from typing import Any

import pytest
from support import mined_dataset
from support.mined_dataset import HOTELS, NUMBER, ROOM, TABLE, TEXT, WHOLE, api, sample

from toolloom.pipeline.templates.mining.mining import mine, rows, tied
from toolloom.pipeline.templates.mining.options import MOST, ValueOptions
from toolloom.pipeline.templates.mining.survey import SampleValue, SeenValues
from toolloom.pipeline.templates.mining.variables import Variable
from toolloom.schemas import JsonObject, Reason, Rejected, Scenario, Split, Template
from toolloom.schemas.template import CLOSE, OPEN

FOUND = {"hotel": "Casa Azul", "price": 120.5}
GIVEN = {"city": "Lisbon", "nights": 3}
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
OUTSIDE = sample(
    ASKED,
    "I am sorry, I cannot find a hotel in Lisbon.",
    scenario=Scenario.IRRELEVANCE,
    pool=(TABLE,),
    outside=HOTELS,
    intent=[{"api": HOTELS.id, "arguments": GIVEN}],
)
BRACES = sample(ASKED.replace("Lisbon", "{0.__class__} Lisbon"), (HOTELS, GIVEN, FOUND), TOLD)
"""A format string is text like any other."""
ALL = (LISBON, CHAIN, DINNER, AGAIN, OUTSIDE, BRACES)


def values(made: Template, slot: str) -> list[object]:
    for choice in made.choices:
        if slot in choice.slots:
            return [row[choice.slots.index(slot)] for row in choice.rows]
    raise AssertionError(f"{slot} is no slot of {mined_dataset.slots(made)}")


@pytest.mark.parametrize("row", ALL, ids=range(len(ALL)))
def test_a_template_gives_back_its_sample_and_rows_that_pass(row: JsonObject) -> None:
    """Its original values make the very sample; to others in all places no check objects."""
    made = mined_dataset.template(row)
    assert mined_dataset.bare(mined_dataset.first_row(made)) == mined_dataset.bare(row)
    good, said = mined_dataset.accepted(made, 40)
    assert good >= 38, said


def test_value_is_one_slot_in_all_places() -> None:
    """What the user tells is the same in the intent, the call and the reply; a price that is told
    with cents is told so for every other price."""
    made = mined_dataset.template(LISBON)
    assert "Lisbon" not in str(made.sample)
    assert made.goal == "Find me a hotel in {city} for {nights_words} nights."
    prices, told = values(made, "price"), values(made, "price_decimals_2")
    assert all(isinstance(p, float) for p in prices)
    assert told == [f"{p:.2f}" for p in prices]


def test_forms_are_columns_of_one_choice() -> None:
    """A date that is spoken as «May 3, 2026» and «3 May» is drawn once."""
    made = mined_dataset.template(DINNER)
    choice = next(c for c in made.choices if "day" in c.slots)
    assert set(choice.slots) == {"day", "day_month_day_year", "day_day_month"}
    assert choice.rows[0][choice.slots.index("day_month_day_year")] == "May 3, 2026"


def test_response_that_a_later_call_takes_is_a_slot() -> None:
    """It is filled with the response's own value; what no call and no reply repeats stays."""
    made = mined_dataset.template(CHAIN, PORTO)
    messages = made.sample["dialogue"]["messages"]
    assert messages[4]["tool_calls"][0]["function"]["arguments"]["hotel"] == f"{OPEN}hotel{CLOSE}"
    assert f'"hotel":"{OPEN}hotel{CLOSE}"' in messages[3]["content"]
    assert "price" not in mined_dataset.slots(made)


def test_system_turn_and_documentation_stay() -> None:
    """Slots stand neither in the system turn, nor in the pool, nor in the present moment."""
    row = json.loads(json.dumps(LISBON))
    row["dialogue"]["query"]["pool"][0]["description"] = "Finds hotels, in Lisbon for one."
    made = mined_dataset.template(row)
    query = made.sample["dialogue"]["query"]
    assert query["pool"] == row["dialogue"]["query"]["pool"]
    assert query["now"] == row["dialogue"]["query"]["now"]
    assert made.sample["dialogue"]["messages"][0] == row["dialogue"]["messages"][0]


@pytest.mark.parametrize(
    ("row", "reason", "words"),
    [
        pytest.param(
            sample(ASKED, (HOTELS, GIVEN, FOUND), TOLD, kind="executed"),
            Reason.EXECUTED_RESULT,
            "an execution",
            id="other values would need an execution of their own",
        ),
        pytest.param(
            sample(f"Find {OPEN}city{CLOSE}.", (HOTELS, {"city": "X", "nights": 3}, FOUND), "Ok."),
            Reason.NOTHING_TO_VARY,
            "mark slots",
            id="nobody can smuggle a slot into a template",
        ),
        pytest.param(
            sample("Find it. " * 4000, (HOTELS, GIVEN, FOUND), TOLD),
            Reason.NOTHING_TO_VARY,
            "characters",
            id="search takes time: there is an end to what is searched",
        ),
        pytest.param(
            sample(
                "Where is the ferry?",
                (api("ferry", {}, {"pier": WHOLE}), {}, {"pier": 77}),
                "The ferry is at pier 77.",
            ),
            Reason.NOTHING_TO_VARY,
            "may vary",
            id="rows that all make the same calls are none worth having",
        ),
    ],
)
def test_samples_that_make_no_template(row: JsonObject, reason: Reason, words: str) -> None:
    """They are rejected whole, with the reason."""
    made = mine(row, SeenValues())
    assert isinstance(made, Rejected)
    assert (made.reason, made.record) == (reason, row)
    assert words in made.detail


def test_compressed_observation_keeps_its_values() -> None:
    """What was cut may hold any value, so those that stand in it stay."""
    row = json.loads(json.dumps(LISBON))
    row["dialogue"]["messages"][3]["execution"]["whole_tokens"] = 5000
    made = mined_dataset.template(row)
    assert mined_dataset.slots(made) == {"city", "nights", "nights_words"}


def test_search_keywords_follow_the_value() -> None:
    """A value among the keywords of a search is a slot there too."""
    row = json.loads(json.dumps(LISBON))
    search = {"name": "api_search", "arguments": {"keywords": "hotels Lisbon"}}
    call = {"id": "s", "type": "function", "function": search}
    told = {"role": "assistant", "content": None, "tool_calls": [call]}
    found = {"role": "tool", "content": '{"response":[],"error":null}', "tool_call_id": "s"}
    row["dialogue"]["messages"][2:2] = [told, {**found, "name": "api_search"}]
    made = mined_dataset.template(row)
    searched = made.sample["dialogue"]["messages"][2]["tool_calls"][0]["function"]["arguments"]
    assert searched == {"keywords": f"hotels {OPEN}city{CLOSE}"}


def test_same_argument_that_is_said_once_is_one_slot() -> None:
    """Two calls in one city, which the user names once, are in one city ever after."""
    hours = api("hours", {"city": TEXT}, {"opens": TEXT})
    row = sample(
        "Find a hotel in Lisbon for three nights, and when do offices open there?",
        [(HOTELS, GIVEN, FOUND), (hours, {"city": "Lisbon"}, {"opens": "08:30"})],
        "Casa Azul costs 120.50. Offices open at 8:30 am.",
        scenario=Scenario.PARALLEL,
    )
    made = mined_dataset.template(row)
    assert [s for s in mined_dataset.slots(made) if s.startswith("city")] == ["city"]


def test_two_values_never_become_one() -> None:
    """No value is in the pools of two choices, so that words tell them apart."""
    flights = api("flights", {"origin": TEXT, "destination": TEXT}, {"flight": TEXT})
    row = sample(
        "Find a flight from Rome to Athens.",
        (flights, {"origin": "Rome", "destination": "Athens"}, {"flight": "FR1234"}),
        "Flight FR1234 goes from Rome to Athens.",
    )
    made = mined_dataset.template(row)
    assert not {*values(made, "origin")} & {*values(made, "destination")}


def test_template_tells_where_it_comes_from() -> None:
    """Its sample's id and split, and its APIs in order; of an unserved request none is called."""
    made = mine(CHAIN, SeenValues(), Split.VALIDATION)
    assert isinstance(made, Template)
    assert made.id == CHAIN["dialogue"]["query"]["id"]
    assert made.apis == (HOTELS.id, ROOM.id)
    assert made.split is Split.VALIDATION
    assert made.provenance[0].parents == (made.id,)
    assert mined_dataset.template(OUTSIDE).apis == ()


def test_sources_are_counted() -> None:
    """A choice tells how many of its values come from where; the first is the sample's own."""
    made = mined_dataset.template(LISBON, PORTO)
    choice = next(c for c in made.choices if "city" in c.slots)
    assert choice.rows[0][0] == "Lisbon"
    assert "Porto" in values(made, "city")
    assert sum(choice.sources.values()) == len(choice.rows) <= 64
    assert choice.sources["sample"] == choice.sources["samples"] == 1


def test_hand_written_dialogues_are_mined_well() -> None:
    """Of dialogues as people hold them most become templates, and at least 95 % of rows do."""
    known, rows = SeenValues(), mined_dataset.good_samples()
    for row in rows:
        known.add(row)
    made = [t for row in rows if isinstance(t := mine(row, known), Template)]
    assert len(made) > 0.7 * len(rows)
    for each, row in ((t, r) for t in made for r in rows if r["dialogue"]["query"]["id"] == t.id):
        assert mined_dataset.bare(mined_dataset.first_row(each)) == mined_dataset.bare(row)
    counts = [mined_dataset.accepted(each, 8) for each in made]
    assert sum(good for good, _ in counts) >= 0.95 * 8 * len(made), [s for _, s in counts if s]


def pool(name: str, *values: Any, number: int = 0) -> ValueOptions:
    schema = TEXT if isinstance(values[0], str) else NUMBER
    leaf = SampleValue("call", (name,), "a/b/c", (name,), values[0], schema, 2, number)
    return ValueOptions(Variable(leaf, [(leaf, "")]), [], [(value, "sample") for value in values])


@pytest.mark.parametrize(
    ("one", "other", "together"),
    [
        (pool("check_in", "2026-05-03"), pool("check_out", "2026-05-06"), True),
        (pool("opens", "08:00"), pool("closes", "18:00"), True),
        (pool("min_price", 20), pool("max_price", 90), True),
        (pool("high", 24), pool("low", 18), True),
        (pool("high", 24), pool("low", 18, number=1), False),
        (pool("nights", 3), pool("guests", 2), False),
        (pool("city", "Lisbon"), pool("hotel", "Azul"), False),
    ],
)
def test_what_is_tied(one: ValueOptions, other: ValueOptions, together: bool) -> None:
    """Days, times, and numbers that are the ends of a range, all of one call."""
    assert len(tied([one, other])) == (1 if together else 2)


def test_order_is_kept() -> None:
    """Every row is ordered as the original, which comes first; none comes twice."""
    low, high = pool("low", 3, *range(10, 40)), pool("high", 9, *range(40, 70), 1)
    found = rows([low, high], random.Random(1))
    assert found[0] == ((3, "sample"), (9, "sample"))
    assert all(a[0] < b[0] for a, b in found)
    assert len(found) == len(set(found)) == MOST
