"""Functions of Python files behind a server of our own, in real processes."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from toolloom.pipeline.environments import commands, function_server
from toolloom.pipeline.environments.commands import ExecutionSource, FunctionFile, function_files
from toolloom.pipeline.environments.environment import Result
from toolloom.pipeline.environments.mcp import connect, read_tools
from toolloom.pipeline.formats.import_log import ImportLog
from toolloom.pipeline.store.secrets import secrets_of
from toolloom.schemas import Api, ApiSource, Failure, ImportFailed, ToolloomError


async def test_what_fails_to_prepare_says_why() -> None:
    """`prepare` has a time limit; an error message shows the end of what a program said, without
    what it was handed on."""
    says = "import os, sys; sys.exit(1000 * chr(98) + os.environ[chr(75) + chr(69) + chr(89)])"
    with commands.working_folder() as folder:
        command = f"{sys.executable} -c 'import time; time.sleep(60)'"
        with pytest.raises(ToolloomError, match="0.3 seconds"):
            await commands.prepare(command, {}, folder, name="shelf", seconds=0.3)
        command = f"{sys.executable} -c '{says}'"
        with pytest.raises(ToolloomError) as error:
            await commands.prepare(command, {"KEY": "hush-4711"}, folder, name="x", seconds=60)
    assert "bbb$KEY" in str(error.value) and len(str(error.value)) < 2 * commands.WORDS


def test_a_folder_goes_with_what_was_locked_in_it() -> None:
    """Read-only files and folders do not keep the working folder."""
    with commands.working_folder() as folder:
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
    arguments = commands.arguments(f"{sys.executable} shelf.py books --verbose", "shelf")
    assert arguments == [sys.executable, str(tmp_path / "shelf.py"), "books", "--verbose"]
    ((named, before),) = commands.fingerprints("python shelf.py books", "shelf")
    (tmp_path / "shelf.py").write_text("changed")
    assert (named, before) != commands.fingerprints("python shelf.py books", "shelf")[0]


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


CODE = """
import asyncio, dataclasses, datetime, enum, os

print("loading")
made = 0

class Colour(enum.Enum):
    RED = "red"

class Size(enum.IntEnum):
    SMALL = 1

class Word(str):
    def __str__(self): return "overridden"

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
            "set": {"b", "a"}, "at": datetime.datetime(2026, 1, 5, 9, 30), "half": "\\ud83d",
            "took": datetime.timedelta(minutes=1), "word": Word("Ada"), "size": Size.SMALL}

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
def paired(): return {(1, 2): "a"}
def unbounded(): return float("inf")
def circle():
    round = []
    round.append(round)
    return round
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
def functions(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> ExecutionSource:
    """Of the file above, which may see one variable."""
    monkeypatch.setenv("SHELF_TOKEN", "hush-4711")
    file = tmp_path / "shelf.py"
    file.write_text(CODE)

    source = ApiSource(path="shelf.py", time_limit=5, environment=("SHELF_TOKEN",))
    return ExecutionSource(source, FunctionFile(file, "shelf"))


async def call(
    place: ExecutionSource, name: str, allowed: frozenset[str] = ALLOWED, **arguments: Any
) -> Result:
    """The one call of a session."""
    async with connect(place, allowed) as session:
        return await session.call(name, arguments)


async def test_values_become_json(functions: ExecutionSource) -> None:
    """Dates, enums, dataclasses, tuples and sets have one form in JSON; async is awaited."""
    assert (await call(functions, "add", a=2, b=3)).observation.response == 5
    assert (await call(functions, "later", word="tea")).observation.response == "tea"
    assert (await call(functions, "rich")).observation.response == {
        "book": {"title": "Emma", "bought": "2026-01-05"},
        "colour": "red",
        "3": [1, 2],
        "set": ["a", "b"],
        "at": "2026-01-05T09:30:00",
        "half": "?",
        "took": 60.0,
        "word": "Ada",
        "size": 1,
    }


@pytest.mark.parametrize(
    ("name", "arguments", "failure", "error"),
    [
        ("fail", {}, Failure.TOOL_ERROR, "ValueError: no shelf in ."),
        ("add", {"b": 1}, Failure.PROTOCOL_ERROR, "missing a required argument: 'a'"),
        ("add", {"a": 1, "c": 1}, Failure.PROTOCOL_ERROR, "unexpected keyword argument 'c'"),
        ("leave", {}, Failure.CRASH, "The process has ended."),
        ("ask", {}, Failure.TOOL_ERROR, "EOFError"),
        ("much", {}, Failure.TOOL_ERROR, "longer than 4194304 bytes"),
        ("hoard", {}, Failure.TOOL_ERROR, "MemoryError"),
        ("odd", {}, Failure.TOOL_ERROR, "holds a object, which is not JSON"),
        ("endless", {}, Failure.TOOL_ERROR, "Exceeds the limit"),
        ("paired", {}, Failure.TOOL_ERROR, "keys must be str"),
        ("unbounded", {}, Failure.TOOL_ERROR, "not JSON compliant"),
        ("circle", {}, Failure.TOOL_ERROR, "Circular reference"),
        ("mute", {}, Failure.TOOL_ERROR, "Mute"),
        # A token that an execution needs does not reach the cache and the dataset.
        ("leak", {}, Failure.TOOL_ERROR, "ValueError: no entry for $SHELF_TOKEN"),
        ("forbidden", {}, Failure.PROTOCOL_ERROR, "may not be called"),
        ("os.getcwd", {}, Failure.PROTOCOL_ERROR, "may not be called"),
    ],
)
async def test_failures_are_told_apart(
    functions: ExecutionSource, name: str, arguments: dict[str, Any], failure: Failure, error: str
) -> None:
    """A function that raises, wrong arguments, an end and a forbidden name each differ."""
    result = await call(functions, name, **arguments)
    assert result.failure is failure
    assert error in str(result.observation.error)


async def test_a_function_that_forks_answers_once(functions: ExecutionSource) -> None:
    """The child comes back from the function too; it is not heard, nor ever takes a call."""
    async with connect(functions, ALLOWED) as session:
        for _ in range(5):
            assert (await session.call("fork", {})).observation.response == 1
            assert (await session.call("add", {"a": 2})).observation.response == 2


def test_a_file_that_never_loads_ends_by_itself(tmp_path: Path) -> None:
    """Nobody may be left to end it: the server bounds the time of loading too."""
    file = tmp_path / "endless.py"
    file.write_text("while True: pass")
    settings = {"file": str(file), "first": [], "last": [], "allowed": [], "seconds": 1}
    settings["start"] = 1 - function_server.SLACK
    command = [sys.executable, str(function_server.__file__), json.dumps(settings)]
    assert subprocess.run(command, timeout=60, stdin=subprocess.DEVNULL).returncode < 0


async def test_each_session_is_fresh_and_sees_no_variables(
    functions: ExecutionSource, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Memory, folder and environment are new; only a variable that is named is there. Hashes are
    seeded alike in every process, or no call over sets could be repeated."""
    monkeypatch.setenv("SECRET_KEY", "hush")
    mixed: list[Any] = []
    for _ in range(2):
        async with connect(functions, ALLOWED) as session:
            shown = (await session.call("show", {})).observation.response
            assert shown[:2] == [".", []]
            assert set(shown[2]) - {"LC_CTYPE"} == {"SHELF_TOKEN"}  # Python sets LC_CTYPE
            assert (await session.call("count", {})).observation.response == [1, 1]
            assert (await session.call("count", {})).observation.response == [2, 2]
            mixed.append((await session.call("mixed", {})).observation.response)
    assert mixed[0] == mixed[1]


async def test_a_module_is_loaded_by_its_name(tmp_path: Path) -> None:
    """A dotted name is a module of a package, with the package's own imports."""
    folder = tmp_path / "library"
    folder.mkdir()
    (folder / "__init__.py").write_text("from .tools import greet")
    (folder / "words.py").write_text("GREETING = 'hello'")
    (folder / "tools.py").write_text("from .words import GREETING\ndef greet(): return GREETING")
    for module, file in [("library.tools", "tools.py"), ("library", "__init__.py")]:
        named = FunctionFile(folder / file, module, module)
        place = ExecutionSource(ApiSource(path=module), named)
        result = await call(place, "greet", frozenset({"greet"}))
        assert result.observation.response == "hello"


@pytest.mark.parametrize(
    ("code", "error"),
    [
        ("import no_such_library", "ModuleNotFoundError: No module named 'no_such_library'"),
        ("def half(:", "SyntaxError"),
        ("import sys; sys.exit(4)", "SystemExit: 4"),
        ("import os; os._exit(4)", "ended before it began"),
    ],
)
async def test_a_file_that_cannot_be_loaded_stops_the_run(
    functions: ExecutionSource, tmp_path: Path, code: str, error: str
) -> None:
    """That is no observation of a call: the message names the file and what is wrong."""
    (tmp_path / "shelf.py").write_text(code)
    with pytest.raises(ToolloomError, match="functions of shelf.py cannot be used") as stopped:
        async with connect(functions, ALLOWED):
            pass
    assert error in str(stopped.value)


async def described(path: Path, code: str) -> tuple[dict[str, Api], ImportLog]:
    """The APIs of a file of this code, by their operations."""
    path.write_text(code)
    ledger = ImportLog(path.name)
    (file,) = function_files(ApiSource(path=str(path)))
    found = await read_tools(ExecutionSource(ApiSource(path=str(path)), file), ledger)
    return {api.source.operation: api for api in found}, ledger


SPHINX = '''
def mix(first, parts=2):
    """Mix colours.

    .. deprecated:: 2.0

    :param str first: The colour to begin with.
    :returns: The new colour.
    :rtype: str
    """
'''


async def test_types_may_stand_in_a_docstring(tmp_path: Path) -> None:
    """Of another style than Google's, where there are no hints."""
    api = (await described(tmp_path / "colours.py", SPHINX))[0]["mix"]
    assert api.properties["first"] == {"type": "string", "description": "The colour to begin with."}
    assert api.properties["parts"]["default"] == 2
    assert api.returns == {"type": "string", "description": "The new colour."}
    assert api.description == "Mix colours." and api.deprecated


ODD = """
from __future__ import annotations
import os
from typing import TYPE_CHECKING
from warnings import catch_warnings
if TYPE_CHECKING:
    from nowhere import Nothing
class Shop:
    def sell(self): ...
def _hidden(): ...
def nameless(item, /): ...
def many(*items, **others): ...
def lost(key: Nothing, default=object()): ...
def schema(copy: int, _odd: str = "half \\ud83d"): ...
def hints(call: type[os.PathLike], where: dict[str, list[Shop]]): ...
"""


async def test_what_is_no_api_is_told(tmp_path: Path) -> None:
    """Methods and arguments without a name are skipped; what no schema can say is left open."""
    found, log = await described(tmp_path / "odd.py", ODD)
    assert set(found) == {"many", "lost", "schema", "hints"}
    assert {s.what for s in log.report(imported=4).skipped} == {"odd.Shop.sell", "odd.nameless"}
    assert set(found["schema"].properties) == {"copy", "_odd"}
    assert found["lost"].properties == {"key": {}, "default": {}}
    cut = {(c.api.rpartition(".")[2], c.place) for c in log.report(imported=4).cut}
    assert ("many", "parameters.*items") in cut and ("hints", "parameters.where") in cut


async def test_exports_decide(tmp_path: Path) -> None:
    """With `__all__`, what it names is public and nothing else is."""
    code = "from os import getcwd\n__all__ = ['_a', 'getcwd']\ndef _a(): ...\ndef b(): ...\n"
    assert set((await described(tmp_path / "shop.py", code))[0]) == {"_a", "getcwd"}
    found, log = await described(tmp_path / "empty.py", "")
    assert not found and "no functions are defined" in log.report(imported=0).notes[0]


def test_a_module_is_found_without_importing_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A dotted name leads to its file, that of Python's own modules too; a folder is Python's
    only where its format says so."""
    folder = tmp_path / "loomshop" / "parts"
    folder.mkdir(parents=True)
    (tmp_path / "loomshop" / "__init__.py").write_text("raise SystemExit('never run')")
    (folder / "dyes.py").touch()
    monkeypatch.chdir(tmp_path)
    for name, path in [("loomshop.parts.dyes", "loomshop/parts/dyes.py"), ("os", os.__file__)]:
        (found,) = function_files(ApiSource(path=name))
        assert found.path == tmp_path / path and found.reference == found.named == name
    assert "loomshop" not in sys.modules
    assert function_files(ApiSource(path="loomshop")) == []
    files = function_files(ApiSource(path="loomshop", format="python"))
    assert [file.named for file in files] == ["loomshop", "parts.dyes"]
    for nothing in ("sys", "loomshop.none", "loom_none", "loomshop.parts.dyes.more"):
        with pytest.raises(ImportFailed, match=f"There is no {nothing}"):
            function_files(ApiSource(path=nothing))
