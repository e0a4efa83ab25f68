"""How a sample is read: its texts, its values, and what cannot be read."""

from __future__ import annotations

import json

import pytest
from support import mined_dataset
from support.mined_dataset import HOTELS, TEXT, WHOLE, api, sample

from toolloom.pipeline.templates.mining.survey import SampleValues, survey
from toolloom.schemas import Finding, JsonObject, Reason

ITEM = {"type": "object", "properties": {"name": TEXT, "seats": WHOLE}}
PLACES = api("places", {"tags": {"type": "array", "items": TEXT}}, {"found": {"items": ITEM}})
ROW = sample(
    "Any quiet places with a view?",
    (PLACES, {"tags": ["quiet", "view"]}, {"found": [{"name": "Azul", "seats": 4, "open": True}]}),
    "Azul has 4 seats.",
)


def read(row: JsonObject) -> SampleValues:
    found = survey(row)
    assert isinstance(found, SampleValues)
    return found


def test_scalars_are_found_with_their_schemas() -> None:
    """In lists and objects too; yes and no are no values to vary."""
    found = read(ROW)
    assert [(leaf.names, leaf.value) for leaf in found.intended] == [
        (("tags", "[]"), "quiet"),
        (("tags", "[]"), "view"),
    ]
    assert [(leaf.name, leaf.value) for leaf in found.observed] == [("name", "Azul"), ("seats", 4)]
    assert found.observed[1].schema == WHOLE


def test_texts_have_their_roles() -> None:
    """What is said stands beside what stays."""
    found = read(ROW)
    assert [t.role for t in found.texts] == ["goal", "user", "reply"]
    assert found.fixed == [mined_dataset.SYSTEM]


def test_sample_itself_is_not_changed() -> None:
    """The survey works on a copy."""
    before = json.dumps(ROW)
    read(ROW).tree["dialogue"]["messages"][1]["content"] = "?"
    assert json.dumps(ROW) == before


@pytest.mark.parametrize(
    "content", ["", "[1]", '{"response":', '{"response": NaN,"error":null}', '{"a":1,"a":2}']
)
def test_observation_that_cannot_be_written_again_stays(content: str) -> None:
    """Its text is one of those in which no value may stand."""
    row = json.loads(json.dumps(ROW))
    row["dialogue"]["messages"][3]["content"] = content
    found = read(row)
    assert content in found.fixed
    assert not found.observed


def test_very_long_sample_is_refused() -> None:
    """Search takes time: there is an end to what is searched."""
    row = sample("Find it. " * 4000, (HOTELS, {"city": "Lisbon", "nights": 3}, {}), "Ok.")
    found = survey(row)
    assert isinstance(found, Finding)
    assert found.reason is Reason.NOTHING_TO_VARY
