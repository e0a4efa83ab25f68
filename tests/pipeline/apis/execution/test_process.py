"""Processes of what is executed."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
from pathlib import Path

import pytest
from support import prefect_loopback
from support.waiting import wait_for

from toolloom.pipeline.apis.execution import process
from toolloom.pipeline.store.secrets import secrets_of
from toolloom.schemas import ToolloomError

FAMILY = """
import subprocess, sys, time
child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(60)"])
print(child.pid, flush=True)
sys.stdin.read()
"""


async def test_a_group_ends_as_a_whole() -> None:
    """What a server started itself does not outlive it."""
    with process.working_folder() as folder:
        child = await process.Child.start([sys.executable, "-c", FAMILY], {}, folder)
        started = int(await child.receive() or 0)
        assert _lives(started)
        await child.stop()
        async with asyncio.timeout(60):  # a killed process takes a moment to go
            while _lives(started):  # noqa: ASYNC110 - nothing tells when it has gone
                await asyncio.sleep(0.01)


def _lives(pid: int) -> bool:
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except OSError:
        return False
    return state != "Z"  # ended, and not yet noticed by whoever took it in


async def test_an_endless_line_is_no_line() -> None:
    """A program that never ends its line does not fill our memory."""
    endless = "import sys\nwhile True: sys.stdout.write('x' * 65536)"
    with process.working_folder() as folder:
        child = await process.Child.start([sys.executable, "-c", endless], {}, folder)
        async with asyncio.timeout(60):
            assert await child.receive() is None
        await child.stop(0)


async def test_only_the_end_of_the_standard_error_is_kept() -> None:
    """A talkative program is cut to its last words."""
    talk = "import sys\nsys.stderr.write('blah ' * 100000 + 'goodbye')"
    with process.working_folder() as folder:
        child = await process.Child.start([sys.executable, "-c", talk], {}, folder)
        assert await child.ended() == "ended with status 0"
        assert len(child.last_words()) <= process.WORDS and child.last_words().endswith("goodbye")
        await child.stop()


async def test_a_preparation_that_takes_too_long_ends() -> None:
    """`prepare` has a time limit, and the message says so."""
    with process.working_folder() as folder, pytest.raises(ToolloomError, match="0.3 seconds"):
        command = f"{sys.executable} -c 'import time; time.sleep(60)'"
        await process.prepare(command, {}, folder, name="shelf", seconds=0.3)


def test_a_folder_goes_with_what_was_locked_in_it() -> None:
    """Read-only files and folders do not keep the working folder."""
    with process.working_folder() as folder:
        (folder / "inner").mkdir()
        (folder / "inner" / "file").touch()
        os.chmod(folder / "inner", 0o500)
    assert not folder.exists()


def test_files_of_a_command_are_named_by_their_whole_path(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A script is found from the working folder too; a folder's name means one in there."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "shelf.py").touch()
    (tmp_path / "books").mkdir()
    found = process.arguments(f"{sys.executable} shelf.py books --verbose", "shelf")
    assert found == [sys.executable, str(tmp_path / "shelf.py"), "books", "--verbose"]
    ((named, before),) = process.fingerprints("python shelf.py books", "shelf")
    (tmp_path / "shelf.py").write_text("changed")
    assert (named, before) != process.fingerprints("python shelf.py books", "shelf")[0]


def test_secrets_are_told_by_the_names_of_variables() -> None:
    """Names that say so, and passwords in addresses; nothing short, and no ordinary value."""
    environment = {
        "SHELF_API_KEY": "key-4711",
        "SECRET_OF_THE_SHELF": "key-4711-long",
        "DATABASE_URL": "postgres://ada:lovelace@localhost/books",
        "HALF": "http://[::1",
        "PIN_TOKEN": "1234",
        "TZ": "Europe/Paris",
        "AUTHOR": "Ada Lovelace",
        "PATH": "/usr/bin:/bin",
    }
    assert secrets_of(environment) == {
        "key-4711-long": "$SECRET_OF_THE_SHELF",
        "key-4711": "$SHELF_API_KEY",
        "lovelace": "$DATABASE_URL",
    }
    assert next(iter(secrets_of(environment))) == "key-4711-long"


async def test_last_words_hold_no_secrets() -> None:
    """An error message shows what a program said, without what it was handed on."""
    says = "import os, sys; sys.exit('bad ' + os.environ['API_TOKEN'])"
    with process.working_folder() as folder:
        environment = {"API_TOKEN": "hush-4711"}
        child = await process.Child.start([sys.executable, "-c", says], environment, folder)
        assert await child.ended() == "ended with status 1"
        assert child.last_words() == "bad $API_TOKEN"
        await child.stop()


STAYS = """
import asyncio, os, sys
from pathlib import Path
from toolloom.pipeline.apis.execution.process import Child

CHILD = "import os, time; os.fork(); print(os.getpid(), flush=True); time.sleep(600)"

async def main():
    child = await Child.start([sys.executable, "-c", CHILD], {}, Path.cwd())
    print(await child.receive(), await child.receive(), flush=True)
    await asyncio.sleep(600)

asyncio.run(main())
"""


def test_nothing_outlives_a_killed_process() -> None:
    """kill -9 runs none of our code; still what was started, and what that started, ends."""
    with subprocess.Popen([sys.executable, "-c", STAYS], stdout=-1, text=True) as process:
        assert process.stdout
        started = [int(pid) for pid in process.stdout.readline().split()]
        started += prefect_loopback.family(process.pid)  # the guard too
        process.kill()
    assert len({*started}) == 3
    wait_for(lambda: not any(map(_lives, started)), "all of them end")
