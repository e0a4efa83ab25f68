"""What the tests of `toolloom apis` share."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from support.api_pools import api

from toolloom.pipeline.apis.pool import open_pool
from toolloom.pipeline.formats.import_log import ImportLog

TOOLS = [
    {
        "type": "function",
        "function": {
            "name": name,
            "description": about,
            "parameters": {
                "type": "object",
                "properties": {"place": {"type": "string", "description": "name of a town"}},
                "required": ["place"],
            },
        },
    }
    for name, about in (
        ("tide_times", "Tell when the sea is high at a place."),
        ("ferry_times", "List the ferries that leave a harbour today."),
    )
]


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A working folder with tools in a file and a pool of three APIs."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "tools.json").write_text(json.dumps(TOOLS))
    apis = [api("tides"), api("winds"), api("old_tides", deprecated=True, tool="Almanac")]
    open_pool(Path("outputs"), "sea").add(apis, ImportLog("sea.json"))
    return tmp_path
