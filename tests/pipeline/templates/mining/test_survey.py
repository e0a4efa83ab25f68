"""How a sample is read: its texts, its values, and what cannot be read."""

from __future__ import annotations

import json

import pytest
from support import conversations
from support.mined_dataset import TEXT, WHOLE, api, sample

from toolloom.pipeline.templates.mining.survey import SampleValues, survey
from toolloom.schemas import JsonObject

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
    """In lists and objects too, beside the texts; yes and no are no values to vary."""
    found = read(ROW)
    assert [(leaf.names, leaf.value) for leaf in found.intended] == [
        (("tags", "[]"), "quiet"),
        (("tags", "[]"), "view"),
    ]
    assert [(leaf.name, leaf.value) for leaf in found.observed] == [("name", "Azul"), ("seats", 4)]
    assert found.observed[1].schema == WHOLE
    assert [t.role for t in found.texts] == ["goal", "user", "reply"]
    assert found.fixed == [conversations.SYSTEM]


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
