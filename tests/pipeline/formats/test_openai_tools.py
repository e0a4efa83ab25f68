"""Function tools in the forms of chat requests."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from toolloom.pipeline.formats import openai_tools
from toolloom.pipeline.formats.import_log import ImportLog
from toolloom.schemas import Api

SCHEMA = {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}
CHAT = {"type": "function", "function": {"name": "weather", "parameters": SCHEMA}}
FLAT = {"type": "function", "name": "weather", "parameters": SCHEMA, "strict": True}
BARE = {"name": "weather", "description": "Tells the weather.", "parameters": SCHEMA}
INPUT = {"name": "weather", "input_schema": SCHEMA}
LISTED = {"name": "weather", "inputSchema": SCHEMA, "outputSchema": {"type": "string"}}


def gather(path: Path, content: Any) -> tuple[list[Api], ImportLog]:
    path.write_text(content if isinstance(content, str) else json.dumps(content))
    ledger = ImportLog(path.name)
    return list(openai_tools.read(path, ledger)), ledger


@pytest.mark.parametrize(
    "document",
    [
        [CHAT],
        [FLAT],
        [BARE],
        [INPUT],
        CHAT,
        BARE,
        {"tools": [LISTED]},
        {"functions": [BARE]},
        {"model": "any", "messages": [], "tools": [CHAT]},
    ],
)
def test_each_form_gives_the_same_function(tmp_path: Path, document: Any) -> None:
    """Nested, flat and bare entries, alone, listed or in a request, are one API."""
    assert openai_tools.fits(document)
    (api,), ledger = gather(tmp_path / "city_tools.json", document)
    assert (api.id, api.function) == ("city tools/city tools/weather", "weather")
    assert api.parameters == SCHEMA
    assert ledger.read == 1


def test_other_tools_are_skipped_with_their_type(tmp_path: Path) -> None:
    """What is no function tool is named by its place and type."""
    found, ledger = gather(tmp_path / "t.json", [CHAT, {"type": "web_search"}, 5])
    skipped = ledger.report(imported=1).skipped
    assert (len(found), ledger.read) == (1, 3)
    assert [line.what for line in skipped] == ["t.json, tool 2", "t.json, tool 3"]
    assert "web_search" in skipped[0].why


def test_a_returned_schema_is_kept(tmp_path: Path) -> None:
    """An `outputSchema` is what the API returns."""
    (api,), _ = gather(tmp_path / "t.json", {"tools": [LISTED]})
    assert api.returns == {"type": "string"}
