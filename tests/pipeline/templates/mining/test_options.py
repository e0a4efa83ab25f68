"""Other values for a value: from where, which, and how many."""

from __future__ import annotations

import random
from typing import Any

import pytest
from support import conversations, mined_dataset
from support.mined_dataset import DAY, NUMBER, TEXT, WHOLE, api, sample

from toolloom.pipeline.templates.mining.options import draws
from toolloom.pipeline.templates.mining.survey import VALUES, SampleValue, SeenValues
from toolloom.pipeline.templates.mining.variables import Variable
from toolloom.schemas import JsonObject

NOTE = {"code": TEXT}


def pool(
    schema: JsonObject, value: Any, text: str, name: str = "thing", *others: Any
) -> dict[str, list[Any]]:
    """Values of an argument that the user tells so, and the sources they come from."""
    which = api("noted", {name: schema}, NOTE, "Keeps it.")
    rows = [
        sample(text, (which, {name: one}, {"code": "K-2201"}), "It is kept as K-2201.", id=f"s{i}")
        for i, one in enumerate((value, *others))
    ]
    choice = next(c for c in mined_dataset.template(*rows).choices if name in c.slots)
    found = [row[choice.slots.index(name)] for row in choice.rows]
    return {"values": found, "sources": list(choice.sources)}


PROSE = "Please. Look after it. There is nobody else."


@pytest.mark.parametrize(
    ("schema", "said", "name", "others", "values"),
    [
        pytest.param(
            {"type": "string", "enum": ["scarlet", "olive", "indigo"]},
            ("olive", "Keep olive."), "thing", (), ["indigo", "olive", "scarlet"],
            id="an enum is all there is",
        ),
        pytest.param(
            {"type": "string", "examples": ["goulash", "paella"]},
            ("goulash", "Keep goulash."), "search", (), ["goulash", "paella"],
            id="a name such as `search` tells nothing where examples do",
        ),
        pytest.param(
            {"type": "integer", "minimum": 2, "maximum": 9, "multipleOf": 2},
            (4, "Keep 4."), "thing", (), [2, 4, 6, 8],
            id="what the schema refuses is left out",
        ),
        pytest.param(
            {"type": "string", "enum": ["anchor", "engine", "motor", "oven"]},
            ("engine", "Keep an engine."), "thing", (), ["anchor", "engine", "oven"],
            id="after «an» comes what begins with a vowel",
        ),
        pytest.param(
            {"type": "integer", "minimum": 1, "maximum": 6},
            (3, "Keep 3 nights."), "nights", (), [2, 3, 4, 5, 6],
            id="where a noun in the plural follows no value is 1",
        ),
        pytest.param(
            TEXT, ("goulash", "Keep goulash."), "thing", ("paella", PROSE), ["goulash", "paella"],
            id="of other samples no prose stands for a word",
        ),
    ],
)  # fmt: skip
def test_all_that_a_value_may_be(
    schema: JsonObject, said: tuple[Any, str], name: str, others: Any, values: list[Any]
) -> None:
    """Whatever the source, only what would do as well."""
    assert sorted(pool(schema, *said, name, *others)["values"]) == values


def test_examples_come_before_drawn_values() -> None:
    """Examples tell what is meant better than a name does."""
    schema = {"type": "string", "examples": ["Oslo", "Turin"]}
    found = pool(schema, "Ghent", "Keep Ghent.", "city")
    assert found["values"][:3] == ["Ghent", "Oslo", "Turin"]
    assert found["sources"] == ["sample", "examples", "faker"]
    assert len(found["values"]) == len(set(found["values"])) == 64


def test_one_of_a_thing_is_not_two() -> None:
    """Nor does another number stand before a noun in the singular: «six person»."""
    which = api("noted", {"seats": WHOLE, "city": TEXT}, NOTE, "Keeps it.")
    call = (which, {"seats": 1, "city": "Lisbon"}, {"code": "K-2201"})
    made = mined_dataset.template(sample("Keep one seat in Lisbon.", call, "It is kept as K-2201."))
    assert "city" in mined_dataset.slots(made)
    assert not any(slot.startswith("seats") for slot in mined_dataset.slots(made))


def test_code_keeps_its_shape() -> None:
    """Other ids have the same letters and leading zeros."""
    found = pool(TEXT, "AB-0045", "Keep AB-0045.", "ticket")
    assert all(v[:3] == "AB-" and len(v) == 7 and v[3:].isdigit() for v in found["values"])


def test_days_lie_on_the_same_side_of_the_present() -> None:
    """What is to come is not replaced by what is past."""
    found = pool(DAY, "2026-04-01", "Keep April 1.", "day")
    assert len(found["values"]) > 30
    assert min(found["values"]) > "2026-03-02"


def test_known_is_bounded() -> None:
    """The first values of a place are kept, no more."""
    which, known = api("noted", {"thing": TEXT}, NOTE), SeenValues()
    for number in range(VALUES + 40):
        known.add(sample("Keep it.", (which, {"thing": f"v{number}"}, {"code": "K"}), "Kept."))
    leaf = SampleValue("intent", (), which.id, ("thing",), "x", TEXT, -1)
    assert len(known.values(leaf)) == VALUES


def test_echo_of_an_argument_is_nobody_elses_value() -> None:
    """A response that repeats what was passed would contradict another argument."""
    which, known = api("firm", {"number": TEXT}, {"title": TEXT}), SeenValues()
    known.add(sample("Who is 0044?", (which, {"number": "0044"}, {"title": "Firm 0044"}), "Ok."))
    leaf = SampleValue("response", (), which.id, ("title",), "x", TEXT, 3)
    assert not known.values(leaf)


@pytest.mark.parametrize("value", [7, 480, -12, 2021, 0.64, -1.25, 1450.5, "19:30", "1.54"])
def test_drawn_values_are_like_the_original(value: Any) -> None:
    """Of its type, sign and precision."""
    schema = {int: WHOLE, float: NUMBER, str: TEXT}[type(value)]
    one = Variable(SampleValue("response", (), "a/b/c", ("figure",), value, schema, 3))
    (draw, _), *_ = draws(one, conversations.NOW, "English", random.Random(1))
    made = [draw() for _ in range(50)]
    assert len(set(made)) > 5
    for each in made:
        assert type(each) is type(value)
        if isinstance(value, str):
            assert len(each.partition(".")[2]) == len(value.partition(".")[2])
        else:
            assert (each < 0) == (value < 0)
            assert len(repr(each).partition(".")[2]) <= len(repr(value).partition(".")[2])
