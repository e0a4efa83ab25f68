"""A process of its own for what is executed: its own group, a fresh folder, no environment.

Only variables that are named are handed on. Everything is bounded: the length of a message, what
is kept of the standard error, the time an orderly end may take. At the end the whole group is
killed, so that nothing a server or a function started is left behind; where this process is killed
itself, a guard does that.

Not a sandbox: it may do what its user may do. So no Python function (`worker.py`) runs that the
recipe does not name.
"""

from __future__ import annotations

import asyncio
import atexit
import contextlib
import functools
import hashlib
import json
import os
import shlex
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from toolloom.pipeline.apis.execution.results import Result, failed, portable, too_late
from toolloom.pipeline.store.secrets import secrets_of
from toolloom.schemas import Failure, JsonObject, Observation, ToolloomError

MESSAGE = 8 * 2**20  # bytes of one line
WORDS = 500  # characters of its standard error that an error message shows
GRACE = 1.0  # seconds for an orderly end, once its input is closed


class Child:
    """A running process that is spoken to in lines."""

    def __init__(
        self, process: asyncio.subprocess.Process, secrets: Mapping[str, str] | None = None
    ) -> None:
        """`secrets`: what nobody may read, with what stands in its place."""
        self._process = process
        self.secrets = secrets or {}
        self.hangs = False  # set by who waited for it in vain
        self._tail = b""
        self._listens = asyncio.create_task(self._listen())

    @classmethod
    async def start(
        cls, argv: Sequence[str], environment: Mapping[str, str], folder: Path
    ) -> Child:
        """Raises OSError."""
        guard = _guard(os.getpid())  # first, as nothing may come between the start and `watch`
        process = await asyncio.create_subprocess_exec(
            *argv,
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
            env=dict(environment),
            cwd=folder,
            start_new_session=True,
            limit=MESSAGE,
        )
        guard.watch(process.pid)
        return cls(process, secrets_of(environment))

    async def send(self, line: str) -> None:
        """Raises ConnectionError if nobody listens any more."""
        assert self._process.stdin
        self._process.stdin.write(line.encode("utf-8", "replace") + b"\n")
        await self._process.stdin.drain()

    async def receive(self) -> str | None:
        """The next line; None where there is no more, or one that is too long to be read."""
        assert self._process.stdout
        try:
            line = await self._process.stdout.readline()
        except ValueError:  # longer than MESSAGE
            return None
        return line.decode("utf-8", "replace") if line else None

    async def _listen(self) -> None:
        """Keep the end of what it writes to its standard error."""
        assert self._process.stderr
        while chunk := await self._process.stderr.read(2**16):
            self._tail = (self._tail + chunk)[-4 * WORDS :]

    def last_words(self) -> str:
        """The end of its standard error, for an error message."""
        words = self._tail.decode("utf-8", "replace").strip()
        for secret, shown in self.secrets.items():
            words = words.replace(secret, shown)
        return words[-WORDS:]

    async def run_out(self, seconds: float) -> int | None:
        """Wait for its end and give its status; None if it takes longer. Its output is dropped."""
        assert self._process.stdin and self._process.stdout
        self._process.stdin.close()
        try:
            async with asyncio.timeout(seconds):
                while await self._process.stdout.read(2**16):
                    pass
                return await self._process.wait()
        except TimeoutError:
            return None

    def has_ended(self) -> bool:
        return self._process.returncode is not None

    async def ended(self) -> str:
        """How it ended, in words that are the same each time. For one that is ending."""
        try:
            async with asyncio.timeout(GRACE):
                status = await self._process.wait()
                await self._listens
        except TimeoutError:
            return "no longer answers"
        if status < 0:
            return f"ended by signal {-status}"
        return f"ended with status {status}"

    async def stop(self, grace: float = GRACE) -> None:
        """End it, and whatever it started in its group. One that hangs is given no time."""
        try:
            if grace and not self.hangs and self._process.returncode is None:
                assert self._process.stdin
                self._process.stdin.close()  # for a server, the sign to end
                ends = asyncio.get_running_loop().time() + grace
                while self._process.returncode is None and asyncio.get_running_loop().time() < ends:  # noqa: ASYNC110 - no event tells of its end while children hold its pipes
                    await asyncio.sleep(0.01)
        finally:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.killpg(self._process.pid, signal.SIGKILL)
            _guard(os.getpid()).let_go(self._process.pid)
            # A process that left the group may hold the pipes: they are not waited for for ever.
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(GRACE):
                    await self._process.wait()
                    await self._listens
            self._listens.cancel()
            transport: Any = getattr(self._process, "_transport", None)
            if transport is not None:
                transport.close()
            await asyncio.sleep(0)  # the pipes close in the loop's next turn


class Guard:
    """A process that reads the groups to kill from a pipe, which ends however this process does."""

    _PROGRAM = """
import os, signal, sys
groups = set()
for line in sys.stdin:
    group = int(line)
    (groups.add if group > 0 else groups.discard)(abs(group))
for group in groups:
    try:
        os.killpg(group, signal.SIGKILL)
    except OSError:
        pass
"""

    def __init__(self) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-I", "-S", "-c", self._PROGRAM],
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
            bufsize=0,
        )
        atexit.register(self._process.communicate)

    def watch(self, group: int) -> None:
        """Kill this group once this process is no more."""
        assert self._process.stdin
        with contextlib.suppress(OSError):  # where somebody has killed it there is no guard
            self._process.stdin.write(b"%d\n" % group)

    def let_go(self, group: int) -> None:
        """The group has ended: its number may soon be another one's."""
        self.watch(-group)


@functools.cache
def _guard(pid: int) -> Guard:
    """That of this process: one that was forked needs its own."""
    return Guard()


@contextlib.contextmanager
def working_folder() -> Iterator[Path]:
    """A fresh folder, removed afterwards with all that was put into it."""
    made = tempfile.mkdtemp(prefix="toolloom-")
    try:
        yield Path(made).resolve()
    finally:
        shutil.rmtree(made, onerror=_unlock)


def _unlock(act: Any, path: str, _: Any) -> None:
    """What was made read-only is removed all the same."""
    with contextlib.suppress(OSError):
        os.chmod(os.path.dirname(path), 0o700)
        os.chmod(path, 0o700)
        act(path)


async def prepare(
    command: str, environment: Mapping[str, str], folder: Path, *, name: str, seconds: float
) -> None:
    """Run a source's `prepare` in a fresh folder. Raises ToolloomError if it fails."""
    argv = arguments(command, name)
    child = await started(argv, environment, folder, name=name)
    try:
        status = await child.run_out(seconds)
    finally:
        await child.stop(0)
    if status:
        words = child.last_words() or "it says nothing"
        raise ToolloomError(
            f"{name}: its `prepare` ({_shown(argv)}) failed with status {status}: {words}. "
            "It runs in a fresh folder and sees only the variables named in `environment`."
        )
    if status is None:
        raise ToolloomError(
            f"{name}: its `prepare` ({_shown(argv)}) took longer than {seconds:g} seconds. "
            "Make it shorter, or raise `time_limit`."
        )


@asynccontextmanager
async def running(
    argv: Sequence[str],
    names: Sequence[str],
    *,
    name: str,
    before: str,
    time_limit: float,
    preset: Mapping[str, str] | None = None,
) -> AsyncIterator[tuple[Child, Path]]:
    """A program of a source in a fresh folder, which its `prepare` (`before`) has filled.

    It sees the variables of these `names`, and what is `preset`. Raises ToolloomError.
    """
    with working_folder() as folder:
        environment = handed_on(names, name)
        if before:
            await prepare(before, environment, folder, name=name, seconds=3 * time_limit)
        child = await started(argv, {**(preset or {}), **environment}, folder, name=name)
        try:
            yield child, folder
        finally:
            await child.stop(GRACE)


async def started(
    argv: Sequence[str], environment: Mapping[str, str], folder: Path, *, name: str
) -> Child:
    """Start a program. Raises ToolloomError."""
    try:
        return await Child.start(argv, environment, folder)
    except OSError as error:
        raise ToolloomError(
            f"{name}: {_shown(argv)} cannot be started ({error.strerror or error}). "
            "Check that it is a program for this machine."
        ) from error


def arguments(command: str, name: str) -> list[str]:
    """A command as a list, found and without a shell. Raises ToolloomError.

    It will run in another folder: a program or a file that is named by its place relative to the
    current folder is named by its whole path from here on.
    """
    first, *rest = _split(command, name)
    beside = str(Path(sys.executable).parent)
    found = shutil.which(first) or shutil.which(first, path=beside)
    if found is None:
        raise ToolloomError(
            f"{name}: there is no program `{first}` on the PATH or in {beside}. "
            "Install it, or give its whole path."
        )
    return [os.path.abspath(found), *(os.path.abspath(r) if _is_file(r) else r for r in rest)]


def fingerprints(command: str, name: str) -> list[tuple[str, str]]:
    """The files a command names, with the SHA-256 of each: what is executed depends on them."""
    return [(part, file_digest(Path(part))) for part in _split(command, name) if _is_file(part)]


def file_digest(path: Path) -> str:
    """SHA-256 of a file. Raises ToolloomError."""
    try:
        with path.open("rb") as file:
            return hashlib.file_digest(file, "sha256").hexdigest()
    except OSError as error:
        raise ToolloomError(
            f"{path}: cannot be read ({error.strerror or error}), and what is executed depends "
            "on it. Give it back, or take it out of the recipe."
        ) from error


def handed_on(names: Sequence[str], name: str) -> dict[str, str]:
    """The variables a source names. Raises ToolloomError for one that is not set."""
    unset = [n for n in names if n not in os.environ]
    if unset:
        raise ToolloomError(
            f"{name}: `environment` names {', '.join(unset)}, which is not set. "
            "Set it, or take it out of the recipe."
        )
    return {n: os.environ[n] for n in names}


def _split(command: str, name: str) -> list[str]:
    try:
        parts = shlex.split(command)
    except ValueError as error:
        raise ToolloomError(f"{name}: its command cannot be read ({error}).") from error
    if not parts:
        raise ToolloomError(f"{name}: its command is empty. Give a program.")
    return parts


def _is_file(part: str) -> bool:
    """Whether it is the path of a file. A folder's name means one in the working folder."""
    try:
        return os.path.isfile(part)
    except ValueError:  # such as a null byte
        return False


def _shown(argv: Sequence[str]) -> str:
    """The program without its arguments, which may hold secrets."""
    return f"`{Path(argv[0]).name}`"


WORKER = Path(__file__).with_name("worker.py")
START = 30.0  # seconds for a file to be loaded, at least


@dataclass(frozen=True)
class Functions:
    """Functions of a file, or of a module, that may be called."""

    name: str
    file: Path
    allowed: frozenset[str]
    module: str = ""
    environment: tuple[str, ...] = ()
    prepare: str = ""
    time_limit: float = 10

    @asynccontextmanager
    async def session(self) -> AsyncIterator[Workbench]:
        """A fresh process in a fresh folder. Raises ToolloomError if it cannot be used."""
        # `-I` would also do away with the seed of hashes; there is nothing to be isolated from
        # in an environment that is empty but for what the recipe names.
        async with running(
            (sys.executable, "-s", "-P", str(WORKER)),
            self.environment,
            name=self.name,
            before=self.prepare,
            time_limit=self.time_limit,
            preset={"PYTHONHASHSEED": "0"},
        ) as (child, folder):
            bench = Workbench(self, child, folder)
            await bench.load()
            yield bench

    def order(self) -> JsonObject:
        """What the worker loads."""
        if not self.module:
            parent = str(self.file.parent.absolute())
            where: JsonObject = {"file": str(self.file.absolute()), "first": [], "last": [parent]}
        else:
            up = self.module.count(".") + (self.file.name == "__init__.py")
            top = str(self.file.absolute().parents[up])  # holds the module's topmost package
            where = {"module": self.module, "first": [top], "last": []}
        return {**where, "allowed": sorted(self.allowed)}


class Workbench:
    """A running worker. Not for several calls at once."""

    def __init__(self, functions: Functions, child: Child, folder: Path) -> None:
        self.functions = functions
        self._child = child
        self._folder = folder

    async def load(self) -> None:
        """Raises ToolloomError if the file or module cannot be loaded."""
        limit = max(START, self.functions.time_limit)
        try:
            answer = await self._ask({**self.functions.order(), "seconds": limit}, limit)
        except TimeoutError:
            self._child.hangs = True
            answer = {"failed": f"it takes longer than {limit:g} seconds"}
        if answer is None:
            answer = {"failed": f"its process {await self._child.ended()}"}
        if "failed" in answer:
            words = self._child.last_words()
            said = f" It says: {words}" if words else ""
            raise ToolloomError(
                f"{self.functions.name} cannot be loaded for execution: {answer['failed']}.{said} "
                "Check that it can be imported where toolloom is installed."
            )

    async def call(self, name: str, arguments: JsonObject) -> Result:
        """What came of a call, whatever the function does."""
        seconds = self.functions.time_limit
        if name not in self.functions.allowed:
            return failed(Failure.PROTOCOL_ERROR, f"The function {name} may not be called.")
        try:
            answer = await self._ask(
                {"call": name, "arguments": arguments, "seconds": seconds}, seconds
            )
        except TimeoutError:
            self._child.hangs = True
            return too_late(seconds)
        if answer is None:
            return failed(Failure.CRASH, f"The process {await self._child.ended()}.")
        return portable(_read(answer), self._folder, self._child.secrets)

    async def _ask(self, order: JsonObject, seconds: float) -> JsonObject | None:
        """The worker's answer; None if it ends without one. Raises TimeoutError."""
        try:
            async with asyncio.timeout(seconds):
                await self._child.send(json.dumps(order))
                line = await self._child.receive()
                answer = json.loads(line or "null")
        except (OSError, ValueError, RecursionError) as error:
            if isinstance(error, TimeoutError):
                raise
            return None
        return answer if isinstance(answer, dict) else None


def _read(answer: JsonObject) -> Result:
    if "refused" in answer:
        return failed(Failure.PROTOCOL_ERROR, str(answer["refused"]))
    if "raised" in answer:
        return failed(Failure.TOOL_ERROR, str(answer["raised"]))
    return Result(Observation(response=answer.get("value")))
