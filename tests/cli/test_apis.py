"""`toolloom apis` on pools: list, show, stats, filter and search."""

import asyncio
import json
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from support.api_pools import HOSTILE, api, call, pool

from toolloom.llm import FakeServer
from toolloom.pipeline.apis.pool import open_pool
from toolloom.pipeline.apis.pool_quality import type_of
from toolloom.pipeline.formats.import_log import ImportLog
from toolloom.schemas import Source


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["import", "--into", "mine"], "There is nothing to import"),
        (["import", "sea", "--into", "a b"], "cannot be the name of a pool"),
        (["import", "sea", "--into", "mine", "--format", "opnapi"], "did you mean `openapi`?"),
        (["import", "sea", "--into", "tools.json/mine"], "cannot be written"),
        (["import", "se\x1b[2J", "--into", "mine"], "There is no se\\x1b[2J"),
        (["list", "see"], "Did you mean sea?"),
        (["list", "sea", "--category", "See"], "did you mean `Sea`?"),
        (["list", "sea", "--tool", "x"], "known are: Almanac, Harbour"),
        (["show", "sea", "tide"], "Did you mean tides"),
        (["show", "sea", "HARBOUR"], "Sea/Harbour/tides"),
        (["show", "sea", "qqqqqq"], "`apis list sea` has all"),
        (["stats", "none"], "There are: sea"),
        (["filter", "sea"], "name one with --into"),
        (["filter", "sea", "--into", "sea"], "is the pool to filter"),
        (["filter", "sea", "--into", "x", "--rule", "depricated"], "did you mean `deprecated`?"),
        (["search", "none", "words"], "There are: sea"),
        (["search", "sea", "tides", "--model", "m"], "--embeddings"),
        (["search", "sea", "tides", "--embeddings", "ftp://x"], "http://"),
    ],
)
def test_mistakes_are_exit_code_2(home: Path, arguments: list[str], message: str) -> None:
    """Each says what is wrong, in one message without a traceback."""
    ran = call(*arguments)
    assert ran.exit_code == 2, ran.output
    assert message in ran.stderr
    assert "Traceback" not in ran.output
    assert "\x1b" not in ran.output


def test_list_shows_what_is_asked_for(home: Path) -> None:
    """By category and tool, so many of them, and how many there are."""
    assert "3 of 3 APIs of sea" in call("list", "sea").stdout
    ran = call("list", "sea", "--category", "Sea", "--tool", "Harbour", "-n", "1")
    assert "tides" in ran.stdout
    assert "winds" not in ran.stdout
    assert "1 of 2 APIs of sea that match." in ran.stdout


def test_show_prints_an_api(home: Path) -> None:
    """By function name or id, with its parameters and where it comes from."""
    ran = call("show", "sea", "Sea/Harbour/winds")
    assert ran.exit_code == 0
    for part in (
        "openai · sea.json · CC0-1.0 · collections: coast",
        "Tell the winds of a harbour.",
        "array of string",
        "any: today | tomorrow",
        "name of a town",
    ):
        assert part in ran.stdout
    assert call("show", "sea", "winds").stdout == ran.stdout


def test_show_prints_the_entry_of_tools(home: Path) -> None:
    """As JSON and nothing else, so that it can be piped."""
    ran = call("show", "sea", "winds", "--json")
    assert json.loads(ran.stdout) == api("winds").as_tool()


def test_stats_count_what_is_there(home: Path) -> None:
    """By source, category, tool and collection, and in words."""
    ran = call("stats", "sea")
    assert ran.exit_code == 0
    assert re.search(r"Sea/Harbour +2", ran.stdout)
    assert "CC0-1.0" in ran.stdout
    assert "3 APIs of 2 tools in 1 categories and 1 collections, from 1 sources" in ran.stdout
    assert "median 3, at most 3" in ran.stdout
    assert "100% say what they return, 1 are deprecated." in ran.stdout


def test_stats_sum_up_what_is_too_long_to_list(home: Path) -> None:
    """The first ten of each table, and how many APIs the others have."""
    apis = [api(f"a{n}", tool=f"t{n}") for n in range(14)]
    open_pool(Path("outputs"), "many").add(apis, ImportLog("many"))
    assert re.search(r"… and 4 more +4\n", call("stats", "many").stdout)


def test_stats_of_an_empty_pool(home: Path) -> None:
    """Nothing is divided by nothing."""
    open_pool(Path("outputs"), "empty").add([], ImportLog("nothing"))
    assert "0 APIs of 0 tools" in call("stats", "empty").stdout


def test_filter_makes_a_pool(home: Path) -> None:
    """The rules with their counts, and what was kept."""
    ran = call("filter", "sea", "--into", "good")
    assert ran.exit_code == 0
    assert "deprecated                   1   Its source advises against using it." in ran.stdout
    assert "2 APIs kept, 1 dropped; written to outputs/pools/good." in ran.stdout
    assert [one.name for one in pool("good").apis()] == ["tides", "winds"]
    assert "Almanac" in (pool("good").path / "dropped.jsonl").read_text()


def test_a_dry_run_writes_nothing(home: Path) -> None:
    """The same counts, and no pool."""
    ran = call("filter", "sea", "--dry-run", "--rule", "deprecated", "--rule", "no_returns")
    assert "2 APIs kept, 1 dropped; nothing was written." in ran.stdout
    assert "Not applied: no_description," in ran.stdout
    assert not (home / "outputs" / "pools" / "good").exists()


def test_a_filter_that_keeps_nothing_is_exit_code_1(home: Path) -> None:
    """The pool is there to be looked at."""
    call("filter", "sea", "--into", "none", "--rule", "no_description")
    open_pool(Path("outputs"), "bad").add([api("x", description="")], ImportLog("x"))
    assert call("filter", "bad", "--into", "good").exit_code == 1
    assert list(pool("good").apis()) == []


def test_search_finds_by_words(home: Path) -> None:
    """The best first, and exit code 1 if nothing fits."""
    ran = call("search", "sea", "how are the winds", "-n", "1")
    assert ran.exit_code == 0
    assert "winds" in ran.stdout
    assert "tides" not in ran.stdout
    assert call("search", "sea", "qwertz").exit_code == 1
    assert call("search", "sea", "?!").exit_code == 1


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
    ledger = ImportLog(HOSTILE)
    ledger.version = HOSTILE
    ledger.cut("an API", HOSTILE, "bytes", 3)
    ledger.unresolved(HOSTILE, HOSTILE, "remote")
    ledger.skip(HOSTILE, HOSTILE)
    ledger.note(HOSTILE)
    open_pool(Path("outputs"), "evil").add([evil, evil], ledger)
    said = ""
    for arguments in (
        ["list", "evil"],
        ["list", "evil", "--category", "x"],
        ["show", "evil", "evil"],
        ["show", "evil", "evil", "--json"],
        ["show", "evil", "x"],
        ["stats", "evil"],
        ["filter", "evil", "--dry-run"],
        ["search", "evil", "winds"],
        ["import", "evil", "--into", "copy", "--report", "-"],
        ["import", "evil", "--into", "copy"],
    ):
        said += call(*arguments).output
    assert "\\x1b[2J" in said
    assert not {"\x1b", "\x07", "\u202e"} & set(said)


@pytest.mark.parametrize("schema", [True, None, [], {"type": {}}, {"enum": 3}, {"items": 3}])
def test_odd_schemas_have_a_type(schema: Any) -> None:
    """A schema that no importer would make is shown all the same."""
    assert type_of(schema)


@pytest.mark.parametrize("command", ["", "import", "list", "show", "stats", "filter", "search"])
def test_each_help_page_shows_what_to_type(command: str) -> None:
    """Help is there for every command, with an example."""
    seen = call(*filter(None, [command]), "--help")
    assert seen.exit_code == 0
    assert "Example" in seen.stdout or not command


def test_a_closed_pipe_is_no_error(home: Path) -> None:
    """`toolloom apis list sea | head -1` ends quietly."""
    apis = [api(f"a{n}", description="x" * 70) for n in range(3000)]
    open_pool(Path("outputs"), "many").add(apis, ImportLog("many"))
    code = "from toolloom.cli import main; main()"
    command = [sys.executable, "-c", code, "apis", "list", "many", "-n", "3000"]
    with subprocess.Popen(command, stdout=-1, stderr=-1, cwd=home) as process:
        assert process.stdout and process.stderr
        process.stdout.close()
        assert process.stderr.read() == b""


@pytest.mark.skipif(not Path("/dev/full").is_char_device(), reason="only Linux has /dev/full")
@pytest.mark.parametrize("buffered", ["", "1"])
@pytest.mark.parametrize("command", [["list", "sea"], ["show", "sea", "tides", "--json"]])
def test_a_full_disk_under_the_output_is_one_message(
    home: Path, command: list[str], buffered: str
) -> None:
    """Exit code 2 and no traceback, also if Python finds out when it flushes."""
    code = "from toolloom.cli import main; main()"
    environment = {**os.environ, "PYTHONUNBUFFERED": buffered}
    with open("/dev/full", "w") as full:
        ran = subprocess.run(
            [sys.executable, "-c", code, "apis", *command],
            stdout=full,
            stderr=subprocess.PIPE,
            cwd=home,
            env=environment,
            text=True,
        )
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


def test_a_dead_endpoint_of_embeddings_is_one_message(home: Path) -> None:
    """Exit code 2, and no traceback."""
    ran = call("search", "sea", "winds", "--embeddings", "http://127.0.0.1:9/v1", "--model", "toy")
    assert ran.exit_code == 2
    assert "http://127.0.0.1:9/v1" in ran.stderr
