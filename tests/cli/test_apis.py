"""`toolloom apis`: import, list, show, filter and search."""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
from functools import partial
from pathlib import Path

import pytest
from support.api_pools import HOSTILE, api, pool
from support.commands import call as toolloom
from support.processes import TOOLLOOM
from support.screen import shown
from support.shelf import COMMAND

from toolloom import FakeServer
from toolloom.pipeline.apis.pool import open_pool
from toolloom.pipeline.apis.sources import sections
from toolloom.pipeline.formats.import_log import ImportLog
from toolloom.schemas import Source

call = partial(toolloom, "apis")


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A working folder with a file and a pool of three APIs."""
    monkeypatch.chdir(tmp_path)
    Path("file").touch()
    apis = [api("tides"), api("winds"), api("old_tides", deprecated=True, tool="Almanac")]
    open_pool(Path("outputs"), "sea").add(apis, ImportLog("sea.json"))
    return tmp_path


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["import", "--into", "mine"], "There is nothing to import"),
        (["import", "sea", "--into", "a b"], "cannot be the name of a pool"),
        (["import", "sea", "--into", "mine", "--format", "opnapi"], "did you mean `openapi`?"),
        (["import", "sea", "--into", "file/mine"], "cannot be written"),
        (["import", "se\x1b[2J", "--into", "mine"], "se\\x1b[2J does not exist"),
        (["list", "see"], "did you mean `sea`?"),
        (["list", "sea", "--category", "See"], "did you mean `Sea`?"),
        (["list", "sea", "--tool", "x"], "use one of: Almanac, Harbour"),
        (["show", "sea", "tide"], "Did you mean tides"),
        (["show", "sea", "HARBOUR"], "Sea/Harbour/tides"),
        (["show", "sea", "qqqqqq"], "`apis list sea` has all"),
        (["filter", "sea"], "name one with --into"),
        (["filter", "sea", "--into", "sea"], "holds a pool"),
        (["filter", "sea", "--into", "x", "--rule", "depricated"], "did you mean `deprecated`?"),
        (["search", "sea", "tides", "--model", "m"], "--embeddings"),
        (["import", "sea", "--into", "mine", "--report", "."], "cannot be written"),
        (["import", "sea", "--into", "mine", "--report", "pipe"], "cannot be written"),
        (["search", "sea", "tides", "--embeddings", "ftp://x"], "http://"),
    ],
)
def test_mistakes_are_exit_code_2(home: Path, arguments: list[str], message: str) -> None:
    """Each says what is wrong, in one message without a traceback."""
    os.mkfifo("pipe")
    ran = call(*arguments)
    assert ran.exit_code == 2, ran.output
    assert message in ran.stderr
    assert "Traceback" not in ran.output
    assert "\x1b" not in ran.output


def test_what_is_asked_for_is_shown(home: Path) -> None:
    """By function name or id; as JSON nothing else, so that it can be piped."""
    assert call("show", "sea", "Sea/Harbour/winds").stdout == call("show", "sea", "winds").stdout
    assert json.loads(call("show", "sea", "winds", "--json").stdout) == api("winds").as_tool()
    listed = call("list", "sea", "--category", "Sea", "--tool", "Harbour", "-n", "1").stdout
    assert "tides" in listed and "winds" not in listed


def test_a_dry_run_writes_nothing(home: Path) -> None:
    """The same counts, and no pool."""
    ran = call("filter", "sea", "--dry-run", "--rule", "deprecated", "--rule", "no_returns")
    assert "2 APIs kept, 1 dropped; nothing was written." in ran.stdout
    assert "Not applied: no_description," in ran.stdout
    assert not (home / "outputs" / "pools" / "good").exists()
    open_pool(Path("outputs"), "bad").add([api("x", description="")], ImportLog("x"))
    assert call("filter", "bad", "--into", "good").exit_code == 1  # there to be looked at
    assert list(pool("good").apis()) == []


@pytest.mark.parametrize("words", ["qwertz", "?!"])
def test_a_search_that_finds_nothing_is_exit_code_1(home: Path, words: str) -> None:
    """Words that no API has, and none at all."""
    assert call("search", "sea", words).exit_code == 1


def hostile_ledger() -> ImportLog:
    ledger = ImportLog(HOSTILE)
    ledger.version = HOSTILE
    ledger.cut("an API", HOSTILE, "bytes", 3)
    ledger.unresolved(HOSTILE, HOSTILE, "remote")
    ledger.skip(HOSTILE, HOSTILE)
    ledger.note(HOSTILE)
    return ledger


def test_text_of_documents_cannot_command_the_terminal(home: Path) -> None:
    """Whatever an API says of itself, no view hands it to the terminal."""
    evil = api(
        f"x{HOSTILE}",
        function="evil",
        category=f"c{HOSTILE}",
        tool=f"t{HOSTILE}",
        description=f"winds {HOSTILE}",
        parameters={
            "type": HOSTILE,
            "properties": {
                HOSTILE: {"type": [HOSTILE, 3], "description": [HOSTILE]},
                "b": {"enum": [HOSTILE, None], "description": {"a": HOSTILE}},
            },
            "required": [HOSTILE],
        },
        returns={"description": HOSTILE},
        collections=(HOSTILE,),
        source=Source(kind="openai", reference=HOSTILE, operation=HOSTILE, licence=HOSTILE),
    )
    open_pool(Path("outputs"), "evil").add([evil, evil], hostile_ledger())
    said = shown(sections([hostile_ledger().report(imported=0)], "a file"))  # as an importer books
    assert said.count("\\x1b[2J") == 8
    for arguments in (
        ["list", "evil"],
        ["list", "evil", "--category", "x"],
        ["show", "evil", "evil"],
        ["show", "evil", "evil", "--json"],
        ["show", "evil", "x"],
        ["filter", "evil", "--dry-run"],
        ["search", "evil", "winds"],
        ["import", "evil", "--into", "copy", "--report", "-"],
        ["import", "evil", "--into", "copy"],
    ):
        said += call(*arguments).output
    assert not {"\x1b", "\x07", "\u202e"} & set(said)


@pytest.mark.skipif(not Path("/dev/full").is_char_device(), reason="only Linux has /dev/full")
def test_a_full_disk_under_the_output_is_one_message(home: Path) -> None:
    """Exit code 2 and no traceback, also if Python finds out when it flushes."""
    command = [*TOOLLOOM, "apis", "list", "sea"]
    with open("/dev/full", "w") as full:
        ran = subprocess.run(command, stdout=full, cwd=home, stderr=subprocess.PIPE, text=True)
    assert ran.returncode == 2
    assert ran.stderr == "The output cannot be written (No space left on device).\n"


async def test_search_ranks_by_meaning(home: Path) -> None:
    """With --embeddings, by an endpoint's vectors; what was embedded once is not sent again."""
    async with FakeServer() as server:
        given = ["search", "sea", "how are the winds", "--embeddings", server.base_url]
        first = await asyncio.to_thread(call, *given, "--model", "toy")
        sent = server.received
        again = await asyncio.to_thread(call, *given, "--model", "toy")
    assert first.exit_code == 0, first.output
    assert "winds" in first.stdout
    assert again.stdout == first.stdout
    assert sent == server.received > 0


def test_a_pool_can_be_a_source(home: Path) -> None:
    """By name or path; its APIs keep their sources. A category may replace theirs, a collection
    joins those that they have."""
    before = list(pool("sea").apis())
    by_path = call("import", "outputs/pools/sea", "--into", "copy", "--format", "pool")
    assert by_path.exit_code == 0
    assert call("import", "sea", "--into", "sea").exit_code == 0  # every API replaces itself
    assert list(pool("copy").apis()) == list(pool("sea").apis()) == before
    call("import", "sea", "--into", "mine", "--category", "Bay", "--collection", "blue")
    marks = {(one.category, one.collections) for one in pool("mine").apis()}
    assert marks == {("Bay", ("coast", "blue"))}


def test_the_tools_of_a_server_are_imported(home: Path) -> None:
    """Under the name it is given; its command, which may hold secrets, is written nowhere."""
    command = f"sums={COMMAND} --token SECRET"
    ran = call("import", "--mcp", command, "--into", "mine", "--category", "Sums")
    assert ran.exit_code == 0, ran.output
    assert ran.stdout.splitlines()[1].split()[:2] == ["sums", "mcp"]
    assert "Sums/sums/add" in [one.id for one in pool("mine").apis()]
    written = "".join(path.read_text() for path in pool("mine").path.iterdir())
    assert "SECRET" not in written + ran.output


@pytest.mark.parametrize(
    "source",
    [
        *([path] for path in ("", "x" * 5000, "/dev/null/x")),
        *(["--mcp", command] for command in ("", '"', "no-such-program --token SECRET", "x=")),
    ],
)
def test_a_source_that_is_none_is_one_message(home: Path, source: list[str]) -> None:
    """A name that the system refuses as a path, or a server that fails: exit code 2, and no secret
    of a command."""
    ran = call("import", *source, "--into", "mine")
    assert (ran.exit_code, ran.exception.__class__) == (2, SystemExit)
    assert "not imported" in ran.stderr or "is empty" in ran.stderr
    assert "SECRET" not in ran.output


def test_a_source_that_fails_keeps_none_back(home: Path) -> None:
    """Exit code 2 with the plain message; the others are imported."""
    ran = call("import", "none.json", "sea", "--into", "mine")
    assert ran.exit_code == 2
    assert "none.json: not imported. none.json does not exist (looked for in" in ran.stderr
    assert "Traceback" not in ran.output
    assert len(list(pool("mine").apis())) == 3
    open_pool(Path("outputs"), "empty").add([], ImportLog("nothing"))
    assert call("import", "empty", "--into", "mine").exit_code == 1  # no mistake, and no success


def test_the_report_can_be_had_as_json(home: Path) -> None:
    """In a file, or alone on standard output; the pool keeps its own."""
    call("import", "sea", "none.json", "--into", "mine", "--report", "report.json")
    ran = call("import", "sea", "none.json", "--into", "mine", "--report", "-")
    made, printed = json.loads(Path("report.json").read_text()), json.loads(ran.stdout)
    assert (made["imports"][0]["imported"], made["imports"][0]["replaced"]) == (3, 0)
    assert (printed["imports"][0]["imported"], printed["imports"][0]["replaced"]) == (3, 3)
    assert [one["source"] for one in printed["failed"]] == ["none.json"]
    assert [one.replaced for one in pool("mine").reports()] == [0, 3]
