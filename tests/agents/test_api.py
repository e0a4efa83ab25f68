from __future__ import annotations

from typing import Any

import pytest

from toolloom.agents import api
from toolloom.agents.ask import BadAnswer
from toolloom.schemas import Domain, Reason

DOMAIN = Domain(category="Weather", name="tide tables", description="When the sea is high.")
PORT = {"name": "port", "type": "string", "description": "Name of the port", "examples": ["Brest"]}
LEVEL = {"name": "level", "type": "number", "description": "Height in metres"}


def draft(name: str, **changes: Any) -> dict[str, Any]:
    fields = {"description": "Tell the next high tide.", "parameters": [PORT], "returns": [LEVEL]}
    return {"name": name, **fields, **changes}


def tool(*drafts: dict[str, Any]) -> dict[str, Any]:
    return {"tool": "Tide Clock", "apis": list(drafts)}


@pytest.mark.parametrize(
    ("bad", "detail"),
    [
        (draft("Get Tide"), "is not in snake_case"),
        (draft("get_tide", description="Tide."), "fewer than three words"),
        (draft("get_tide", parameters=[PORT, PORT]), "stands twice"),
        (draft("get_tide", parameters=[{**LEVEL, "enum": ["high"]}]), "is not of type number"),
        (draft("get_tide", parameters=[{**PORT, "name": "the port"}]), "is not in snake_case"),
    ],
)
async def test_an_illegal_api_is_rejected_alone(working: Any, bad: Any, detail: str) -> None:
    """What is wrong with one API of a tool does not cost the others."""
    async with working([tool(draft("list_ports"), bad)], "api") as (job, _):
        outcome = await api.run(DOMAIN, job, count=2, examples=())
    assert [a.name for a in outcome.accepted] == ["list_ports"]
    assert outcome.rejected[0].reason is Reason.ILLEGAL_SCHEMA
    assert detail in outcome.rejected[0].detail
    assert outcome.rejected[0].raw


def test_a_tool_of_nothing_but_faults_is_a_misfit() -> None:
    """The first fault is the one that is told."""
    with pytest.raises(BadAnswer, match="«No!»"):
        api.read(tool(draft("No!"), draft("Neither")), DOMAIN)


FIELD: dict[str, Any] = {"name": "day", "type": "string", "description": "The day"}


def test_empty_parts_of_a_draft_mean_none() -> None:
    """Models fill what they do not need with empty lists; only what must be given is required."""
    empty = {**FIELD, "enum": [], "examples": [], "format": ""}
    schema = api.object_schema([empty, {**FIELD, "name": "hour", "required": False}], "get")
    assert schema["properties"]["day"] == {"type": "string", "description": "The day"}
    assert schema["required"] == ["day"]
