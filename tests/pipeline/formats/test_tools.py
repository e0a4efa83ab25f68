"""Tools as APIs: ids are unique, repeats are told, losses are booked; the forms of requests."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from toolloom.pipeline.formats import tools
from toolloom.pipeline.formats.import_log import ImportLog
from toolloom.pipeline.formats.tools import LONGEST_TEXT, to_api
from toolloom.schemas import Api, Source


def take(log: ImportLog, **given_values: Any) -> list[Api]:
    values = {"category": "", "tool": "shop", "description": "", "parameters": None}
    return list(to_api(log, Source(kind="openai"), **{**values, **given_values}))


def test_the_same_description_counts_once() -> None:
    """A repeat is no further operation: it is told in a note, not in `read`."""
    log, source = ImportLog("shop.json"), Source(kind="openai", reference="shop.json")
    known = {"category": "", "tool": "shop", "description": "", "parameters": None}
    made = [api for n in ("buy", "buy", "sell") for api in to_api(log, source, name=n, **known)]
    assert [api.name for api in made] == ["buy", "sell"]
    report = log.report(imported=2)
    assert report.read == 2
    assert report.notes == ("shop.json: descriptions that stand again and count once: 1.",)


def test_namesakes_get_ids_of_their_own() -> None:
    """Whatever order the names come in; the rename is booked."""
    log = ImportLog("shop.json")
    wanted = [("buy", "1"), ("buy", "2"), ("buy (2)", "3"), ("sell (2)", "4"), ("sell", "5")]
    found = [take(log, name=n, description=d) for n, d in [*wanted, ("sell", "6")]]
    assert len({api.id for (api,) in found}) == len(found)
    assert [api.id for (api,) in found][:2] == ["shop/shop/buy", "shop/shop/buy (2)"]
    assert [api.function for (api,) in found][:2] == ["buy", "buy_2"]
    assert log.report(imported=2).renamed[0].why == "taken"


def test_losses_are_booked() -> None:
    """What has no name is skipped with a reason; of a long description the cut is told."""
    log = ImportLog("shop.json")
    assert take(log, name=None, description="Lost and found.") == []
    (api,) = take(log, name="buy", description="many words " * 300)
    report = log.report(imported=1)
    assert (report.skipped[0].what, report.read) == ("shop: Lost and found.", 2)
    assert len(api.description) <= LONGEST_TEXT
    assert report.cut[0].why == "text" and report.cut[0].bytes > 2000


SCHEMA = {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}
CHAT = {"type": "function", "function": {"name": "weather", "parameters": SCHEMA}}
FLAT = {"type": "function", "name": "weather", "parameters": SCHEMA, "strict": True}
BARE = {"name": "weather", "description": "Tells the weather.", "parameters": SCHEMA}
INPUT = {"name": "weather", "input_schema": SCHEMA}
LISTED = {"name": "weather", "inputSchema": SCHEMA, "outputSchema": {"type": "string"}}


def gather(path: Path, content: Any) -> tuple[list[Api], ImportLog]:
    path.write_text(json.dumps(content))
    log = ImportLog(path.name)
    return list(tools.read(path, log)), log


@pytest.mark.parametrize(
    "document",
    [
        *([CHAT], [FLAT], [BARE], [INPUT], CHAT, BARE, {"tools": [LISTED]}, {"functions": [BARE]}),
        {"model": "any", "messages": [], "tools": [CHAT]},
    ],
)
def test_each_form_gives_the_same_function(tmp_path: Path, document: Any) -> None:
    """Nested, flat and bare entries, alone, listed or in a request, are one API."""
    assert tools.fits(document)
    (api,), log = gather(tmp_path / "city_tools.json", document)
    assert (api.id, api.function) == ("city tools/city tools/weather", "weather")
    assert api.parameters == SCHEMA
    assert api.returns == ({"type": "string"} if document == {"tools": [LISTED]} else None)
    assert log.read == 1


def test_other_tools_are_skipped_with_their_type(tmp_path: Path) -> None:
    """What is no function tool is named by its place and type."""
    found, log = gather(tmp_path / "t.json", [CHAT, {"type": "web_search"}, 5])
    skipped = log.report(imported=1).skipped
    assert (len(found), log.read) == (1, 3)
    assert [line.what for line in skipped] == ["t.json, tool 2", "t.json, tool 3"]
    assert "web_search" in skipped[0].why
