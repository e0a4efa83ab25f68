"""`toolloom apis import`: what it reads, what it writes, and what it says."""

import io
import json
import os
import sys
import threading
from pathlib import Path

import pytest
from rich.console import Console
from support.api_pools import HOSTILE, api, call, pool

from toolloom.pipeline.apis.pool import open_pool
from toolloom.pipeline.apis.sources import sections, server
from toolloom.pipeline.formats.import_log import ImportLog
from toolloom.pipeline.render.terminal import view
from toolloom.schemas import Source

SERVER = Path(__file__).parents[1] / "pipeline" / "apis" / "execution" / "server.py"


def test_import_says_what_it_came_to(home: Path) -> None:
    """A table with a line for each source, and where the APIs are now."""
    ran = call("import", "tools.json", "--into", "mine", "--category", "Sea")
    assert ran.exit_code == 0, ran.output
    head, row = ran.stdout.splitlines()[:2]
    assert head.split() == ["source", "format", "read", "imported", "seconds"]
    assert row.split()[:4] == ["tools.json", "openai", "2", "2"]
    assert "2 APIs imported into outputs/pools/mine." in ran.stdout
    assert [one.category for one in pool("mine").apis()] == ["Sea", "Sea"]


def test_importing_again_replaces(home: Path) -> None:
    """The pool stays the same, byte for byte."""
    call("import", "tools.json", "--into", "mine")
    before = pool("mine").digest
    ran = call("import", "tools.json", "--into", "mine")
    assert ran.stdout.splitlines()[1].split()[:5] == ["tools.json", "openai", "2", "2", "2"]
    assert pool("mine").digest == before


def test_a_collection_is_put_on_all(home: Path) -> None:
    """It joins those that the APIs have."""
    call("import", "sea", "--into", "mine", "--collection", "blue")
    assert {one.collections for one in pool("mine").apis()} == {("coast", "blue")}


def test_a_pool_can_be_a_source(home: Path) -> None:
    """By name or path; its APIs keep their sources."""
    by_path = call("import", "outputs/pools/sea", "--into", "copy", "--format", "pool")
    assert by_path.exit_code == call("import", "sea", "--into", "copy").exit_code == 0
    assert pool("copy").digest == pool("sea").digest


def test_the_tools_of_a_server_are_imported(home: Path) -> None:
    """Under the name it is given; its command, which may hold secrets, is written nowhere."""
    command = f"sums={sys.executable} {SERVER} --token SECRET"
    ran = call("import", "--mcp", command, "--into", "mine", "--category", "Sums")
    assert ran.exit_code == 0, ran.output
    assert ran.stdout.splitlines()[1].split()[:2] == ["sums", "mcp"]
    assert "Sums/sums/add" in [one.id for one in pool("mine").apis()]
    written = "".join(path.read_text() for path in pool("mine").path.iterdir())
    assert "SECRET" not in written + ran.output


@pytest.mark.parametrize("source", ["", "x" * 5000, "/dev/null/x"])
def test_a_name_that_is_none_is_one_message(home: Path, source: str) -> None:
    """What the system refuses as a path is a source that fails like others."""
    ran = call("import", source, "--into", "mine")
    assert (ran.exit_code, ran.exception.__class__) == (2, SystemExit)
    assert "not imported" in ran.stderr or "is empty" in ran.stderr


@pytest.mark.parametrize("command", ["", '"', "no-such-program --token SECRET", "x="])
def test_a_server_that_fails_is_one_message(home: Path, command: str) -> None:
    """Exit code 2, and no secret of the command."""
    ran = call("import", "--mcp", command, "--into", "mine")
    assert (ran.exit_code, ran.exception.__class__) == (2, SystemExit)
    assert "not imported" in ran.stderr or "is empty" in ran.stderr
    assert "SECRET" not in ran.output


@pytest.mark.parametrize(
    ("given", "name", "mcp"),
    [
        ("mcp-server-git --a=b", "", "mcp-server-git --a=b"),
        ("git=mcp-server-git --a=b", "git", "mcp-server-git --a=b"),
        ("http://host/mcp?a=b", "", "http://host/mcp?a=b"),
        ("far=http://host/mcp?a=b", "far", "http://host/mcp?a=b"),
    ],
)
def test_a_server_may_be_given_a_name(given: str, name: str, mcp: str) -> None:
    """Before an equals sign, which addresses and options may hold too."""
    assert (server(given).name, server(given).mcp) == (name, mcp)


def test_a_pool_imported_into_itself_stays_as_it_is(home: Path) -> None:
    """Every API replaces itself."""
    before = pool("sea").digest
    assert call("import", "sea", "--into", "sea").exit_code == 0
    assert pool("sea").digest == before


def test_a_source_that_fails_keeps_none_back(home: Path) -> None:
    """Exit code 2 with the plain message; the others are imported."""
    ran = call("import", "none.json", "sea", "--into", "mine")
    assert ran.exit_code == 2
    assert "none.json: not imported. There is no none.json" in ran.stderr
    assert "Traceback" not in ran.output
    assert len(list(pool("mine").apis())) == 3


def test_nothing_imported_is_exit_code_1(home: Path) -> None:
    """A source without a single API is no mistake, and no success."""
    open_pool(Path("outputs"), "empty").add([], ImportLog("nothing"))
    assert call("import", "empty", "--into", "mine").exit_code == 1


def test_the_report_can_be_had_as_json(home: Path) -> None:
    """In a file, or alone on standard output; the pool keeps its own."""
    call("import", "sea", "none.json", "--into", "mine", "--report", "report.json")
    ran = call("import", "sea", "none.json", "--into", "mine", "--report", "-")
    made, printed = json.loads(Path("report.json").read_text()), json.loads(ran.stdout)
    assert (made["imports"][0]["imported"], made["imports"][0]["replaced"]) == (3, 0)
    assert (printed["imports"][0]["imported"], printed["imports"][0]["replaced"]) == (3, 3)
    assert [one["source"] for one in printed["failed"]] == ["none.json"]
    assert [one.replaced for one in pool("mine").reports()] == [0, 3]


@pytest.mark.parametrize("place", [".", "tools.json/report"])
def test_a_report_that_cannot_be_written_is_one_message(home: Path, place: str) -> None:
    """What was imported is told all the same."""
    ran = call("import", "tools.json", "--into", "mine", "--report", place)
    assert ran.exit_code == 2, ran.output
    assert "2 APIs imported" in ran.stdout
    assert "cannot be written" in ran.stderr


def test_a_report_to_a_device_leaves_the_device(home: Path) -> None:
    """What is no file, such as /dev/stderr, is written to and never replaced."""
    os.mkfifo("pipe")
    read = threading.Thread(target=lambda: got.append(Path("pipe").read_text()))
    got: list[str] = []
    read.start()
    ran = call("import", "tools.json", "--into", "mine", "--report", "pipe")
    read.join()
    assert ran.exit_code == 0, ran.output
    assert Path("pipe").is_fifo()
    assert json.loads(got[0])["imports"][0]["imported"] == 2


def test_examples_are_not_counted_as_apis(home: Path) -> None:
    """A list of public APIs gives none to call, and is no failure."""
    Path("list.md").write_text("| API | Description |\n|---|---|\n| Nests | Finds nests |\n")
    ran = call("import", "list.md", "--into", "mine")
    assert "0 APIs and 1 example for the API agent imported" in ran.stdout
    assert ran.exit_code == 0, ran.output


def test_long_lists_are_cut_and_say_where_the_rest_is(home: Path) -> None:
    """Ten lines of a kind are shown; the file has all."""
    apis = [api(f"a{n}", source=Source(kind="openai", reference="two.json")) for n in range(13)]
    open_pool(Path("outputs"), "two").add(apis, ImportLog("two.json"))
    mine = [api(f"a{n}", tool="Elsewhere") for n in range(13)]
    open_pool(Path("outputs"), "mine").add(mine, ImportLog("sea.json"))
    ran = call("import", "two", "--into", "mine")
    assert "Sea/Harbour/a9: a9 is now a9_2 (taken)" in ran.stdout
    assert "a10_2" not in ran.stdout
    assert "… and 3 more, all in outputs/pools/mine/imports.jsonl" in ran.stdout
    assert len(list(pool("mine").reports())[-1].renamed) == 13


def test_the_report_shows_losses_as_data() -> None:
    """Also those lines that only an importer books."""
    ledger = ImportLog(HOSTILE)
    ledger.version = HOSTILE
    ledger.cut("an API", HOSTILE, "bytes", 3)
    ledger.unresolved(HOSTILE, HOSTILE, "remote")
    ledger.skip(HOSTILE, HOSTILE)
    ledger.note(HOSTILE)
    console = Console(width=200, record=True, file=io.StringIO(), force_terminal=True)
    console.print(view(sections([ledger.report(imported=0)], "a file")))
    shown = console.export_text()
    assert shown.count("\\x1b[2J") == 8
    assert "\x1b" not in shown


def test_the_table_of_imports_keeps_its_numbers_on_a_narrow_terminal() -> None:
    """Heads of numbers are whole; columns that hold nothing are left out."""
    ledger = ImportLog("/a/folder/with/a/name/of/some/length", "openapi")
    ledger.skip("a", "b")
    report = ledger.report(imported=1_234_567, replaced=2, seconds=1)
    console = Console(width=80, record=True, file=io.StringIO())
    console.print(view(sections([report], "a file")))
    head = console.export_text().splitlines()[0].split()
    assert head == ["source", "format", "read", "imported", "replaced", "skipped", "seconds"]
