"""The door to MCP servers, with real servers."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from mcp_types import CallToolResult, TextContent
from support import shelf

from toolloom.pipeline.environments import mcp
from toolloom.pipeline.environments.commands import ExecutionSource
from toolloom.pipeline.environments.environment import Result
from toolloom.pipeline.environments.mcp import LARGEST, McpSession, connect, read_tools
from toolloom.pipeline.formats.import_log import ImportLog
from toolloom.schemas import ApiSource, Failure, Observation, ToolloomError


async def test_tools_become_apis() -> None:
    """All pages are read: each tool is an API or a skipped line, its schemas written out. A list
    that goes round in a circle ends, and that is said."""
    log = ImportLog("shelf")
    keyed = shelf.place(mcp=f"{shelf.COMMAND} --key hush --endless")
    apis = await read_tools(keyed, log, category="Library")
    report = log.report(imported=len(apis))
    assert [api.name for api in apis] == list(shelf.TOOLS)
    assert (report.read, [s.what for s in report.skipped]) == (11, ["count"])
    add = apis[0]
    assert (add.id, add.function, add.source.kind) == ("Library/shelf/add", "add", "mcp")
    assert (add.source.reference, add.source.operation) == ("shelf", "add")
    assert add.description == "Does what add says."
    assert set(add.required) == {"a", "b"}
    assert add.fields["sum"]["type"] == "integer"
    assert apis[1].returns is None
    assert "hush" not in report.model_dump_json() + "".join(a.model_dump_json() for a in apis)
    assert report.version and "circle" in report.notes[0]
    assert (await read_tools(shelf.place(name=""), ImportLog("it")))[0].tool == "shelf"  # its own


ANSWERS: list[tuple[str, dict[str, int], Any]] = [
    ("add", {"a": 2, "b": 3}, {"sum": 5}),
    ("count", {}, {"memory": 1, "file": 1}),
    ("listed", {}, "one\ntwo"),
    ("picture", {}, ["a square", {"type": "image", "mimeType": "image/png", "bytes": 5}]),
]
FAILURES = [
    ("fail", Failure.TOOL_ERROR, "no such page in ./book"),
    ("unheard_of", Failure.PROTOCOL_ERROR, "Unknown tool: unheard_of"),
    ("grumble", Failure.ERROR_TEXT, "Error: the shelf is empty"),
    ("die", Failure.CRASH, "The server has ended."),
]


async def test_results_become_observations() -> None:
    """Structured content, JSON in a text, texts, other content by its kind; failures by theirs."""
    async with connect(shelf.place()) as session:
        for name, arguments, response in ANSWERS:
            assert await session.call(name, arguments) == Result(Observation(response=response))
        for name, failure, error in FAILURES:
            assert await session.call(name, {}) == Result(Observation(error=error), failure)


async def test_a_slow_call_ends_at_the_time_limit() -> None:
    """A tool that takes too long is a failure after the limit, not a wait."""
    began = asyncio.get_running_loop().time()
    async with connect(shelf.place(time_limit=0.5)) as session:
        result = await session.call("nap", {"seconds": 60})
    assert result.failure is Failure.TIME_LIMIT
    assert result.observation.error == "No answer within 0.5 seconds."
    assert asyncio.get_running_loop().time() - began < 30


async def test_a_server_sees_a_fresh_folder_and_no_environment(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Neither variables nor files of ours are there, and the folder's path is not told. What
    `prepare` makes is there when the server starts; a script is found by its path."""
    monkeypatch.setenv("SECRET_KEY", "hush")
    monkeypatch.setenv("CITY", "Bern")
    script = tmp_path / "shelve.py"
    script.write_text("open('calls.txt', 'w').write('once twice ')")
    prepared = f"{sys.executable} {script}"
    async with connect(shelf.place(environment=("CITY",), prepare=prepared)) as session:
        shown = (await session.call("show", {})).observation.response
        assert (await session.call("count", {})).observation.response["file"] == 3
    seen = set(shown.split("\n")) - {"LC_CTYPE"}  # Python sets LC_CTYPE
    assert seen == {"cwd=.", "CITY", "calls.txt"}


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"mcp": "no-such-program --key hush"}, "no program `no-such-program`"),
        ({"mcp": "'half"}, "cannot be read"),
        ({"prepare": f"{sys.executable} -c 'raise SystemExit(\"no flour\")'"}, "no flour"),
        ({"mcp": f"{shelf.COMMAND} --broken hush"}, "the shelf has no books"),
        ({"mcp": f"{shelf.COMMAND} --strange hush"}, "in no known way: "),
        ({"environment": ("NOT_SET_ANYWHERE",)}, "NOT_SET_ANYWHERE, which is not set"),
        ({"mcp": "http://ada:hush@127.0.0.1:9/mcp?key=hush"}, "cannot be used"),
    ],
)
async def test_a_server_that_cannot_be_used_is_an_error_that_says_why(
    changes: dict[str, str], reason: str
) -> None:
    """One line names the source and the reason, and none of the command's arguments."""
    with pytest.raises(ToolloomError) as error:
        async with connect(shelf.place(**changes)):
            pass
    assert "shelf" in str(error.value) and reason in str(error.value)
    assert "hush" not in str(error.value) and "pydantic" not in str(error.value)


@pytest.mark.parametrize(
    ("command", "reason"),
    [
        ("cat", "cannot be used"),
        ("yes", "did not begin within 1 seconds"),
        ("head -c 200000000 /dev/zero", "did not begin|ended before"),
    ],
)
async def test_what_is_no_server_is_told_in_bounded_time(
    monkeypatch: pytest.MonkeyPatch, command: str, reason: str
) -> None:
    """A program that ends, echoes, is silent, or prints rubbish without end."""
    monkeypatch.setattr(mcp, "START", 1.0)
    async with asyncio.timeout(60):
        with pytest.raises(ToolloomError, match=reason):
            async with connect(shelf.place(mcp=command, time_limit=1)):
                pass


def test_an_answer_beyond_all_bounds_is_refused() -> None:
    """Over HTTP the length of an answer is bounded here, before it reaches the cache."""
    content = [TextContent(type="text", text="x" * LARGEST)]
    result = McpSession(shelf.place())._read(CallToolResult(content=content))
    assert result.failure is Failure.PROTOCOL_ERROR
    assert "longer than" in str(result.observation.error)


async def test_an_address_is_reached_over_http() -> None:
    """A server at an address is used as one over pipes is."""
    command = [sys.executable, str(shelf.SERVER), "http"]
    running = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)  # noqa: ASYNC220 - a test's own server
    try:
        assert running.stdout and running.stdout.readline() == "a stray line\n"
        port = int(running.stdout.readline())
        at = ExecutionSource(ApiSource(mcp=f"http://127.0.0.1:{port}/mcp", time_limit=5))
        async with connect(at) as session:
            assert len(await session.list_tools(ImportLog("shelf"))) == 11
            assert (await session.call("add", {"a": 1, "b": 1})).observation.response == {"sum": 2}
            assert (await session.call("fail", {})).failure is Failure.TOOL_ERROR
            running.kill()
            assert (await session.call("add", {"a": 1, "b": 1})).failure is not None
    finally:
        running.kill()
        running.communicate()


async def test_a_cancelled_call_leaves_nothing() -> None:
    """Stopping a run in the middle of a call ends the server too."""

    async def nap() -> None:
        async with connect(shelf.place()) as session:
            started.set()
            await session.call("nap", {"seconds": 60})

    started = asyncio.Event()
    task = asyncio.create_task(nap())
    await started.wait()
    await asyncio.sleep(0.1)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task


def test_a_recipe_names_a_server() -> None:
    """Its program or host is its name by default; records never hold arguments or secrets."""
    assert ExecutionSource(ApiSource(mcp="/opt/tools/clock --key hush")).reference == "clock"
    address = ExecutionSource(ApiSource(mcp="https://ada:pw@clock.example:8443/mcp?key=hush"))
    assert (address.name, address.reference) == ("clock.example", "https://clock.example:8443/mcp")
