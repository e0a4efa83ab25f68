from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from toolloom.pipeline.checks import instructions as checks
from toolloom.pipeline.checks.instructions import (
    LONGEST_NAME,
    MOST,
    inspect_level,
    invented,
    says,
    spoken,
    statements,
    values_of,
)
from toolloom.schemas import Api, Granularity, Reason, Seed, Split, Step

REWRITES = yaml.safe_load((Path(__file__).parent / "rewrites.yaml").read_text())


def api(row: list[str]) -> Api:
    names = dict(zip(("category", "tool", "name", "function"), row, strict=True))
    return Api(**names, description="", parameters={"type": "object", "properties": {}})


def seed(name: str) -> Seed:
    row = REWRITES["seeds"][name]
    steps = row["steps"]
    return Seed(
        id=name,
        split=Split.TRAIN,
        hybrid=row["hybrid"],
        steps=tuple(Step(category=c, tool=t, api=a, function=f) for c, t, a, f in steps),
        values=tuple(row["values"]),
        pool=tuple(api(each) for each in [*steps, *row["beside"]]),
    )


def reasons(row: dict[str, Any]) -> list[str]:
    """Of a rewrite as the file has it."""
    known = seed(row["seed"])
    return faults(known, Granularity(row["level"]), row["text"], row.get("statement"))


def faults(known: Seed, level: Granularity, text: str, statement: str | None = None) -> list[str]:
    others = {Granularity.HYBRID: known.hybrid}
    if statement is not None:
        others[Granularity.STATEMENT] = statement
    return [f.reason.value for f in checks.inspect_level(known, level, text, others)]


def toy(hybrid: str, *steps: str, values: tuple[str, ...] = ()) -> Seed:
    """A seed whose steps are written `category/tool/api`."""
    parts = (step.split("/") for step in steps)
    path = tuple(Step(category=c, tool=t, api=a, function=a) for c, t, a in parts)
    return Seed(id="x", split=Split.TRAIN, hybrid=hybrid, steps=path, values=values)


def shown(row: dict[str, Any]) -> str:
    return f"{row['seed']}-{row['level']}-{row.get('reason', 'good')}"


@pytest.mark.parametrize("row", [*REWRITES["good"], *REWRITES["bad"]], ids=shown)
def test_rewrites_are_rejected_for_their_faults_alone(row: dict[str, Any]) -> None:
    """What a careful person finds right has no fault; one is named by its own reason, and no other."""
    assert set(reasons(row)) == {row[key] for key in ("reason", "also") if key in row}


@pytest.mark.parametrize("row", [r for r in REWRITES["good"] if "statement" in r], ids=shown)
def test_statements_of_good_rewrites_are_statements(row: dict[str, Any]) -> None:
    """What a coarser level goes on from holds the checks of its own level."""
    assert reasons({**row, "level": "statement", "text": row["statement"]}) == []


def test_the_full_request_stays_as_it_is() -> None:
    """The hybrid level is what the user said, whatever it says."""
    known = seed("refund")
    assert checks.inspect_level(known, Granularity.HYBRID, known.hybrid, {}) == ()
    (fault,) = checks.inspect_level(known, Granularity.HYBRID, "Something else.", {})
    assert fault.reason is Reason.STATEMENT_NOT_CONTAINED


def test_names_in_the_statement_name_no_tag() -> None:
    """The request itself must name the tags: the user's own words about the weather do not."""
    row = next(r for r in REWRITES["good"] if r["seed"] == "weather" and r["level"] == "category")
    statement = row["statement"]
    assert "tag_not_named" in reasons({**row, "text": f"{statement} Help me with that, please."})


def test_a_finer_name_made_of_a_coarser_one_tells_nothing() -> None:
    """The tool Weather of the category Weather is no leak, nor is Get Weather."""
    known = toy("I'm off to Bern. Rain?", "Weather/Weather/get_weather")
    text = "I'm off to Bern. Please get Weather for my trip from the Weather tools."
    assert faults(known, Granularity.CATEGORY, text, "I'm off to Bern.") == []


def test_values_that_the_statement_says_may_stay() -> None:
    """A place is part of the situation; said again in the request it gives nothing away."""
    row = {"seed": "lisbon", "level": "category", "statement": "I'm flying to Lisbon."}
    text = "I'm flying to Lisbon. Ask Travel and Weather tools about Lisbon."
    assert reasons({**row, "text": text}) == []
    assert reasons({**row, "text": text.replace("about Lisbon", "about Rossio")}) == [
        "finer_level_named"
    ]


def test_all_levels_of_a_seed_are_held_against_each_other() -> None:
    """Of a published sample each level is checked with the others beside it."""
    known = seed("weather")
    rows = {r["level"]: r for r in REWRITES["good"] if r["seed"] == "weather"}
    statement = rows["category"]["statement"]
    texts = {
        Granularity.HYBRID: known.hybrid,
        Granularity.STATEMENT: statement,
        Granularity.CATEGORY: rows["category"]["text"],
        Granularity.TOOL: rows["category"]["text"],
        Granularity.API: rows["api"]["text"],
    }
    judged = checks.inspect_levels(known, texts)
    alike = {level: [f.reason for f in faults] for level, faults in judged.items()}
    assert alike == {level: [Reason.LEVELS_ALIKE] for level in ("category", "tool")}
    del texts[Granularity.STATEMENT]
    judged = checks.inspect_levels(known, texts)
    assert Reason.NO_STATEMENT in {f.reason for f in judged[Granularity.API]}


@given(
    st.lists(st.text(min_size=1, max_size=40), min_size=3, max_size=3),
    st.text(max_size=300),
    st.lists(st.text(max_size=60), max_size=5),
    st.text(max_size=100),
)
def test_nothing_makes_a_check_raise(
    names: list[str], text: str, values: list[str], statement: str
) -> None:
    """What a model writes is judged, whatever it is, with whatever tags and values of strangers."""
    category, tool, name = names
    step = Step(category=category, tool=tool, api=name, function=name)
    update = {"hybrid": text, "steps": (step,), "values": tuple(values)}
    known = seed("payday")
    for level in Granularity:
        faults(known, level, text, statement)
        faults(known.model_copy(update=update), level, f"{text} {tool}", text[:50])


@pytest.mark.parametrize("unit", ["a", "Get ", "get_order_status ", "«", "1.", "A-", "I am ", "'"])
def test_long_texts_are_checked_in_linear_time(unit: str) -> None:
    """Twenty times the text takes no more than some eighty times as long."""
    known = seed("refund")

    def seconds(size: int) -> float:
        text = (unit * size)[:size]
        begin = time.thread_time()
        long = known.model_copy(update={"hybrid": text})
        statements(long)
        for level in Granularity:
            faults(long, level, text, text[:1_000])
        return time.thread_time() - begin

    seconds(50)
    assert min(seconds(40_000) for _ in range(3)) < max(80 * seconds(2_000), 1.0)


FINER = "finer_level_named"


@pytest.mark.parametrize(
    ("name", "level", "request_", "expected"),
    [
        ("lisbon", "category", "Let the Travel hotelfinder and a Weather tool help.", FINER),
        ("payday", "tool", "Ask Currency Tools and Textwire to watch 0041 79.", "invented_value"),
        ("payday", "tool", "Ask Currency Tools and Textwire what 4200 dollars are.", FINER),
    ],
)
def test_names_and_values_in_other_forms(
    name: str, level: str, request_: str, expected: str
) -> None:
    """Names in one word, and numbers without their separators."""
    said = "I'm flying to Lisbon with my two kids." if name == "lisbon" else "I work from Zurich."
    text = f"{said} {request_}"
    assert expected in faults(seed(name), Granularity(level), text, said)


SEED = toy(
    "Our club in Altona meets on 12 May. Get «The Lake» from iTunes by 10:30.",
    "Books/city_library/search-shelf",
)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("Find something for 12 May by 10:30 in Altona.", []),
        ("Find something for 13 May.", ["13"]),
        ("Find \"the lake\" or 'The Sea'.", ["The Sea", "Sea"]),
        ("Tell Jensen. Then ask OpenAI.", ["Jensen", "OpenAI"]),
        ("Use Books tools, or ask the Library API via iTunes.", ["Library"]),
        ("I'm in a hurry, OK? Get a PDF.", []),
    ],
)
def test_what_the_request_does_not_say_is_invented(text: str, expected: list[str]) -> None:
    """Figures, quoted words and names must come from the user or from the level's tags."""
    assert invented(SEED, Granularity.CATEGORY, text) == expected


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


@given(st.text(max_size=200), st.sampled_from(Granularity))
def test_every_tag_has_a_name_that_says_it(tag: str, kind: Granularity) -> None:
    """A name is never empty and never long."""
    name = spoken(tag, kind)
    assert len(name) <= LONGEST_NAME and bool(name) == bool(tag)


def test_no_markup_reaches_what_is_spoken() -> None:
    """A tag of control characters, lines and braces is said without them."""
    name = spoken("Room\n\nSystem: {{x}} a\x00b \u202eabc\u202c\u2028B")
    assert name.isprintable() and not set("{}") & set(name)


@pytest.mark.parametrize(
    ("text", "value", "expected"),
    [
        ("It costs 1,500 dollars.", "1500", True),
        ("We are two.", "2", True),
        ("One of my friends is ill.", "1", False),
        ("I leave on May 3.", "2025-05-03", True),
        ("I leave soon.", "2025-05-03", False),
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
    texts = values_of([{"a": [1, 2.5, True], "b": {"c": "x", "d": None, "e": " "}}])
    assert texts == ("1", "2.5", "x")


@pytest.mark.parametrize(
    "request_",
    [
        "Could you tell me what Shopping is?",
        "I can help you with Shopping.",
        "Shopping, please.",
    ],
)
def test_a_name_alone_and_the_assistant_s_words_are_no_request(request_: str) -> None:
    """What small models write: they ask what the tag is, answer, or say words of the prompt."""
    known = seed("refund")
    statement = "My blender broke after a week and the shop wants me to send it back."
    found = faults(known, CATEGORY, f"{statement} {request_}", statement)
    assert "unnatural_query" in found


@pytest.mark.parametrize(
    ("hybrid", "values", "expected"),
    [
        ("Find me a soup. I have leeks and cream at home.", (), "I have leeks and cream at home."),
        ("Hello, my back hurts since Monday. Any clinic?", (), "My back hurts since Monday."),
        ("Ann and I moved in together. Convert 12 EUR.", ("12",), "Ann and I moved in together."),
        ("I need to know your times. The day is 7.", ("7",), "I need to know your times."),
        # It is whole sentences: none that asks, orders, or names a value or a tool of the calls.
        ("We're off to Lyon on 2025-06-03. Find some beds!", ("2025-06-03",), None),
        ("My flight is late, so please call the hotel.", (), None),
        ("I own a dog, list the vets. Go on.", (), None),
        ("I keep a list of beds in Room Desk. Sort it.", (), None),
        ("Can you find a clinic near me? The place is Bonn.", ("Bonn",), None),
        ("Please give us the scores of my team.", (), None),
        ("I want you to book the table.", (), None),
        ("Ich plane eine Reise.", (), None),
        ("", (), None),
        # A request that is one statement has no coarser level.
        ("I live in a small house.", (), None),
    ],
)
def test_the_statement_is_a_sentence_of_the_request(
    hybrid: str, values: tuple[str, ...], expected: str | None
) -> None:
    """In which users tell of themselves; many requests have none."""
    step = "Travel/Room Desk/Find Rooms"
    assert next(iter(statements(toy(hybrid, step, values=values))), None) == expected


def test_facts_come_before_wishes_and_together_first() -> None:
    """What the user does tells more of him than what he wants."""
    text = "I want to be quick. We run a shop in Graz. Is it open? Our stock is low. Tell me more."
    assert statements(toy(text, "a/b/c")) == (
        "We run a shop in Graz. Our stock is low.",
        "We run a shop in Graz.",
        "Our stock is low.",
        "I want to be quick.",
    )


@given(st.text(max_size=400), st.lists(st.text(max_size=20), max_size=3))
def test_statements_have_no_faults(text: str, values: list[str]) -> None:
    """What is offered passes the checks that it is judged by, whatever the request."""
    known = toy(f"I am at home now. {text}", "Travel/Room Desk/Find Rooms", values=tuple(values))
    offered = statements(known)
    assert len(offered) <= MOST
    for each in offered:
        assert inspect_level(known, Granularity.STATEMENT, each, {}) == ()
