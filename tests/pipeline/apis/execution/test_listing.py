"""The tools of a real MCP server as APIs."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from toolloom.pipeline.apis.execution.mcp import Server, read_server
from toolloom.pipeline.formats.import_log import ImportLog
from toolloom.schemas import ImportFailed

SERVER = Path(__file__).parent / "server.py"


async def test_tools_become_apis() -> None:
    """Each tool is an API or a skipped line; references in its schemas are written out."""
    ledger = ImportLog("shelf")
    command = f"{sys.executable} {SERVER} --key hush"
    apis = await read_server(Server(command, "shelf"), ledger, category="Library")
    report = ledger.report(imported=len(apis))
    assert report.read == len(apis) + len(report.skipped) == 11
    assert [s.what for s in report.skipped] == ["count"]
    add = apis[0]
    assert (add.id, add.function, add.source.kind) == ("Library/shelf/add", "add", "mcp")
    assert (add.source.reference, add.source.operation) == ("shelf", "add")
    assert add.description == "Does what add says."
    assert set(add.required) == {"a", "b"}
    assert add.fields["sum"]["type"] == "integer"
    assert apis[1].returns is None
    assert "hush" not in report.model_dump_json() + "".join(a.model_dump_json() for a in apis)
    assert report.version


async def test_a_server_that_cannot_be_read_is_a_failed_import() -> None:
    """One error says what happened, whatever went wrong."""
    with pytest.raises(ImportFailed, match="no-such-program"):
        await read_server(Server("no-such-program"), ImportLog("x"))
