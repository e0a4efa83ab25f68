"""Processes of what is executed, and Python functions in real ones."""

from __future__ import annotations

import asyncio
import dataclasses
import datetime as dt
import enum
import json
import os
import re
import subprocess
import sys
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, TypeAlias

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support import prefect_loopback
from support.waiting import wait_for

from toolloom.pipeline.apis.execution import process, worker
from toolloom.pipeline.apis.execution.process import Child, Functions
from toolloom.pipeline.apis.execution.results import Result
from toolloom.pipeline.store.secrets import secrets_of
from toolloom.schemas import Failure, ToolloomError

MakeFunctions: TypeAlias = Callable[..., Functions]
FAMILY = """
import subprocess, sys, time
child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(60)"])
print(child.pid, flush=True)
sys.stdin.read()
"""


@asynccontextmanager
async def started(code: str, environment: Mapping[str, str] | None = None) -> AsyncIterator[Child]:
    """A Python process of this code, in a working folder of its own."""
    with process.working_folder() as folder:
        child = await Child.start([sys.executable, "-c", code], environment or {}, folder)
        yield child
        await child.stop(0)


async def test_a_group_ends_as_a_whole() -> None:
    """What a server started itself does not outlive it."""
    async with started(FAMILY) as child:
        inner = int(await child.receive() or 0)
        assert _lives(inner)
        await child.stop()
        wait_for(lambda: not _lives(inner), "a killed process takes a moment to go")


def _lives(pid: int) -> bool:
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except OSError:
        return False
    return state != "Z"  # ended, and not yet noticed by whoever took it in


async def test_an_endless_line_is_no_line() -> None:
    """A program that never ends its line does not fill our memory."""
    async with started("import sys\nwhile True: sys.stdout.write('x' * 65536)") as child:
        async with asyncio.timeout(60):
            assert await child.receive() is None


async def test_only_the_end_of_the_standard_error_is_kept() -> None:
    """A talkative program is cut to its last words."""
    async with started("import sys\nsys.stderr.write('blah ' * 100000 + 'goodbye')") as child:
        assert await child.ended() == "ended with status 0"
        assert len(child.last_words()) <= process.WORDS and child.last_words().endswith("goodbye")


async def test_last_words_hold_no_secrets() -> None:
    """An error message shows what a program said, without what it was handed on."""
    says = "import os, sys; sys.exit('bad ' + os.environ['API_TOKEN'])"
    async with started(says, {"API_TOKEN": "hush-4711"}) as child:
        assert await child.ended() == "ended with status 1"
        assert child.last_words() == "bad $API_TOKEN"


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
    arguments = process.arguments(f"{sys.executable} shelf.py books --verbose", "shelf")
    assert arguments == [sys.executable, str(tmp_path / "shelf.py"), "books", "--verbose"]
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
        family = [int(pid) for pid in process.stdout.readline().split()]
        family += prefect_loopback.family(process.pid)  # the guard too
        process.kill()
    assert len({*family}) == 3
    wait_for(lambda: not any(map(_lives, family)), "all of them end")


CODE = """
import asyncio, dataclasses, datetime, enum, os

print("loading")
made = 0

class Colour(enum.Enum):
    RED = "red"

@dataclasses.dataclass
class Book:
    title: str
    bought: datetime.date

def add(a: int, b: int = 0):
    print("noise on the standard output")
    return a + b

def count():
    global made
    made += 1
    with open("made.txt", "a") as file:
        file.write("x")
    return [made, os.path.getsize("made.txt")]

def rich():
    return {"book": Book("Emma", datetime.date(2026, 1, 5)), "colour": Colour.RED, 3: (1, 2),
            "set": {"b", "a"}, "at": datetime.datetime(2026, 1, 5, 9, 30)}

async def later(word: str):
    await asyncio.sleep(0.01)
    return word

def fail(): raise ValueError(f"no shelf in {os.getcwd()}")
def leave(): os._exit(3)
def ask(): return input("name? ")
def show(): return [os.getcwd(), os.listdir(), sorted(os.environ)]
def much(): return "x" * (5 * 2**20)
def hoard(): return len(bytearray(3 * 2**30))
def odd(): return object()
def mixed(): return list({"one", "two", "three", "four", "five"})
def endless(): return 10 ** 6000
def double(): return {1: "a", "1": "b"}
def paired(): return {(1, 2): "a"}
def mute():
    class Mute(Exception):
        def __str__(self): raise RuntimeError
    raise Mute
def fork(): return os.fork() and 1
def leak(): raise ValueError("no entry for " + os.environ["SHELF_TOKEN"])
def forbidden(): open(os.environ.get("OUTSIDE", "/nowhere"), "w").close()
"""
ALLOWED = frozenset(re.findall(r"def (\w+)", CODE)) - {"forbidden"}


@pytest.fixture
def functions(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> MakeFunctions:
    """Of the file above, which may see one variable."""
    monkeypatch.setenv("SHELF_TOKEN", "hush-4711")
    file = tmp_path / "shelf.py"
    file.write_text(CODE)

    def make(**changes: Any) -> Functions:
        fields = {"name": "shelf.py", "file": file, "allowed": ALLOWED, "time_limit": 5}
        return Functions(**{**fields, "environment": ("SHELF_TOKEN",), **changes})

    return make


async def call(functions: Functions, name: str, **arguments: Any) -> Result:
    """The one call of a session."""
    async with functions.session() as session:
        return await session.call(name, arguments)


async def test_values_become_json(functions: MakeFunctions) -> None:
    """Dates, enums, dataclasses, tuples and sets have one form in JSON; async is awaited."""
    assert (await call(functions(), "add", a=2, b=3)).observation.response == 5
    assert (await call(functions(), "later", word="tea")).observation.response == "tea"
    assert (await call(functions(), "rich")).observation.response == {
        "book": {"title": "Emma", "bought": "2026-01-05"},
        "colour": "red",
        "3": [1, 2],
        "set": ["a", "b"],
        "at": "2026-01-05T09:30:00",
    }


@pytest.mark.parametrize(
    ("name", "arguments", "failure", "error"),
    [
        ("fail", {}, Failure.TOOL_ERROR, "ValueError: no shelf in ."),
        ("add", {"b": 1}, Failure.PROTOCOL_ERROR, "missing a required argument: 'a'"),
        ("add", {"a": 1, "c": 1}, Failure.PROTOCOL_ERROR, "unexpected keyword argument 'c'"),
        ("leave", {}, Failure.CRASH, "The process ended with status 3."),
        ("ask", {}, Failure.TOOL_ERROR, "EOFError"),
        ("much", {}, Failure.TOOL_ERROR, "longer than 4194304 bytes"),
        ("hoard", {}, Failure.TOOL_ERROR, "MemoryError"),
        ("odd", {}, Failure.TOOL_ERROR, "holds a object, which is no JSON"),
        ("endless", {}, Failure.TOOL_ERROR, "an integer of thousands of digits"),
        ("double", {}, Failure.TOOL_ERROR, "two keys that are 1"),
        ("paired", {}, Failure.TOOL_ERROR, "a tuple as a key"),
        ("mute", {}, Failure.TOOL_ERROR, "Mute"),
        # A token that an execution needs does not reach the cache and the dataset.
        ("leak", {}, Failure.TOOL_ERROR, "ValueError: no entry for $SHELF_TOKEN"),
        ("forbidden", {}, Failure.PROTOCOL_ERROR, "may not be called"),
        ("os.getcwd", {}, Failure.PROTOCOL_ERROR, "may not be called"),
    ],
)
async def test_failures_are_told_apart(
    functions: MakeFunctions, name: str, arguments: dict[str, Any], failure: Failure, error: str
) -> None:
    """A function that raises, wrong arguments, an end and a forbidden name each differ."""
    result = await call(functions(), name, **arguments)
    assert result.failure is failure
    assert error in str(result.observation.error)


async def test_the_worker_holds_the_list_of_what_may_run_too(functions: MakeFunctions) -> None:
    """A name that reached the worker all the same is refused there."""
    async with functions().session() as session:
        order = {"call": "forbidden", "arguments": {}, "seconds": 1}
        answer = await session._ask(order, 5)
    assert answer == {"refused": "There is no function forbidden that may be called."}


async def test_a_function_that_forks_answers_once(functions: MakeFunctions) -> None:
    """The child comes back from the function too; it is not heard, nor ever takes a call."""
    async with functions().session() as session:
        for _ in range(5):
            assert (await session.call("fork", {})).observation.response == 1
            assert (await session.call("add", {"a": 2})).observation.response == 2


async def test_a_file_that_never_loads_ends_by_itself(tmp_path: Path) -> None:
    """Nobody may be left to end it: the worker bounds the time of loading too."""
    file = tmp_path / "endless.py"
    file.write_text("while True: pass")
    child = await Child.start([sys.executable, str(worker.__file__)], {}, tmp_path)
    where = {"file": str(file), "first": [], "last": [], "allowed": []}
    await child.send(json.dumps({**where, "seconds": 1 - worker.SLACK}))
    async with asyncio.timeout(60):
        assert await child.receive() is None
    assert (await child.ended()).startswith("ended by signal")
    await child.stop()


async def test_each_session_is_fresh_and_sees_no_variables(
    functions: MakeFunctions, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Memory, folder and environment are new; only a variable that is named is there."""
    monkeypatch.setenv("SECRET_KEY", "hush")
    for _ in range(2):
        async with functions().session() as session:
            shown = (await session.call("show", {})).observation.response
            assert shown[:2] == [".", []]
            assert set(shown[2]) - {"LC_CTYPE"} == {"SHELF_TOKEN"}  # Python sets LC_CTYPE
            assert (await session.call("count", {})).observation.response == [1, 1]
            assert (await session.call("count", {})).observation.response == [2, 2]


async def test_sets_come_in_the_same_order_each_time(functions: MakeFunctions) -> None:
    """Hashes are seeded alike in every process, or no call over sets could be repeated."""
    first, second = [await call(functions(), "mixed") for _ in range(2)]
    assert first == second


async def test_a_module_is_loaded_by_its_name(functions: MakeFunctions) -> None:
    """A dotted name is a module of a package, with the package's own imports."""
    folder = functions().file.parent / "library"
    folder.mkdir()
    (folder / "__init__.py").write_text("from .tools import greet")
    (folder / "words.py").write_text("GREETING = 'hello'")
    (folder / "tools.py").write_text("from .words import GREETING\ndef greet(): return GREETING")
    for module, file in [("library.tools", "tools.py"), ("library", "__init__.py")]:
        named = {"module": module, "file": folder / file, "allowed": frozenset({"greet"})}
        assert (await call(functions(**named), "greet")).observation.response == "hello"


@pytest.mark.parametrize(
    ("code", "error"),
    [
        ("import no_such_library", "ModuleNotFoundError: No module named 'no_such_library'"),
        ("def half(:", "SyntaxError"),
        ("import sys; sys.exit(4)", "SystemExit: 4"),
        ("import os; os._exit(4)", "ended with status 4"),
    ],
)
async def test_a_file_that_cannot_be_loaded_stops_the_run(
    functions: MakeFunctions, code: str, error: str
) -> None:
    """That is no observation of a call: the message names the file and what is wrong."""
    functions().file.write_text(code)
    with pytest.raises(ToolloomError, match="shelf.py cannot be loaded") as stopped:
        async with functions().session():
            pass
    assert error in str(stopped.value)


class Size(enum.IntEnum):
    SMALL = 1


class Name(str):
    def __str__(self) -> str:
        return "overridden"


@dataclasses.dataclass
class Pair:
    left: Any


SCALARS = st.one_of(
    *(st.none(), st.booleans(), st.integers(), st.text(), st.uuids(), st.decimals(allow_nan=False)),
    *(st.dates(), st.datetimes(), st.times(), st.timedeltas(), st.just(Size.SMALL)),
    *(st.builds(Name, st.text()), st.floats(allow_nan=False, allow_infinity=False)),
)
RESULTS = st.recursive(
    SCALARS,
    lambda inner: (
        st.lists(inner)
        | st.tuples(inner)
        | st.builds(Pair, inner)
        | st.dictionaries(st.text() | st.integers() | st.dates(), inner)
    ),
)


@given(RESULTS)
def test_what_json_can_hold_is_written_and_read_back(value: Any) -> None:
    """A result is plain JSON: what is read back equals what was sent."""
    sent = worker.plain(value)
    assert json.loads(json.dumps(sent, allow_nan=False)) == sent


CIRCLE: list[Any] = []
CIRCLE.append(CIRCLE)


@pytest.mark.parametrize(
    "value",
    [float("nan"), float("inf"), b"bytes", {1: object()}, open, pytest.param(CIRCLE, id="circle")],
)
def test_what_json_cannot_hold_is_refused(value: Any) -> None:
    """Nothing is written as text that merely looks like a value; a circle ends at some level."""
    with pytest.raises((TypeError, ValueError)):
        worker.plain(value)


def test_values_of_classes_of_their_own_are_plain() -> None:
    """A subclass of a plain type is written by its value, not by its own words."""
    assert worker.plain([Size.SMALL, Name("Ada"), dt.timedelta(minutes=1)]) == [1, "Ada", 60.0]
