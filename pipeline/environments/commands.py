"""What a recipe names to be run: servers, commands, Python files, and the folder they run in.

Each starts in a fresh folder and sees only the variables that are named. Not a sandbox: it may do
what its user may do.
"""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import importlib.util
import os
import re
import shlex
import shutil
import signal
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from importlib.machinery import PathFinder
from os.path import isfile
from pathlib import Path, PurePath
from typing import IO
from urllib.parse import urlsplit

from toolloom.pipeline.formats.import_log import reference
from toolloom.pipeline.store.secrets import secrets_of
from toolloom.schemas import ApiSource, ImportFailed, JsonObject, ToolloomError, digest

DATA = (".json", ".jsonl", ".yaml", ".yml", ".py", ".txt", ".md")  # no names of modules
WORDS = 500  # characters of a program's standard error that an error message shows


def is_address(command: str) -> bool:
    return command.startswith(("http://", "https://"))


def arguments(command: str, name: str) -> list[str]:
    """A command as a list, found and without a shell. Raises ToolloomError.

    It will run in another folder: a program or a file that is named by its place relative to the
    current folder is named by its whole path from here on; a folder's name means one in there.
    """
    first, *rest = _split(command, name)
    beside = str(Path(sys.executable).parent)
    found = shutil.which(first) or shutil.which(first, path=beside)
    if found is None:
        raise ToolloomError(
            f"{name}: there is no program `{first}` on the PATH or in {beside}. "
            "Install it, or give its whole path."
        )
    return [os.path.abspath(found), *(os.path.abspath(r) if isfile(r) else r for r in rest)]


def fingerprints(command: str, name: str) -> list[tuple[str, str]]:
    """The files a command names, with the SHA-256 of each: what is executed depends on them."""
    return [(file, file_digest(Path(file))) for file in _split(command, name) if isfile(file)]


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


@dataclass(frozen=True)
class FunctionFile:
    """A Python file whose functions a recipe names. Nothing here imports it."""

    path: Path
    named: str  # what its functions are named after, such as `tools.weather`
    module: str = ""  # its dotted name, if that was given in place of a file

    @property
    def reference(self) -> str:
        """What records call it."""
        return self.module or reference(self.path)


@dataclass(frozen=True)
class ExecutionSource:
    """A source, or one Python file of it, where calls are executed."""

    source: ApiSource
    functions: FunctionFile | None = None

    @property
    def name(self) -> str:
        """What messages call it: a server by the name it was given, its host's or its program's."""
        command, given = self.source.mcp, self.source.name
        if self.functions or given:
            return self.functions.reference if self.functions else given
        if is_address(command):
            return urlsplit(command).hostname or "mcp"
        try:
            return PurePath(shlex.split(command)[0]).name
        except (ValueError, IndexError):
            return "mcp"

    @property
    def reference(self) -> str:
        """What records call it: of an address what cannot be secret in it, else the name."""
        if self.functions or not is_address(self.source.mcp):
            return self.name
        parts = urlsplit(self.source.mcp)
        return f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}{parts.path}"

    @property
    def by(self) -> str:
        """What an execution is said to be by."""
        return f"{'python' if self.functions else 'mcp'}:{self.name}"

    @cached_property
    def fingerprint(self) -> str:
        """SHA-256 of all of it that decides what a call returns. Values of variables are not."""
        source, files = self.source, []
        if self.functions:
            files.append((self.functions.reference, file_digest(self.functions.path)))
        elif not is_address(source.mcp):
            files += fingerprints(source.mcp, self.by)
        if source.prepare:
            files += fingerprints(source.prepare, self.by)
        settings: JsonObject = {
            "at": source.mcp or (self.functions and self.functions.reference),
            "environment": sorted(source.environment),
            "prepare": source.prepare,
            "time_limit": source.time_limit,
            "files": files,
        }
        return digest(settings, 64)


def function_files(source: ApiSource) -> list[FunctionFile]:
    """The Python files that a source is; none if it is something else. Raises ImportFailed.

    A folder is one only where its format says so, as describing a file runs it.
    """
    path, python = Path(source.path), source.format == "python"
    if source.mcp or not (python or source.format == "auto"):
        return []
    if path.is_dir():
        files = sorted(path.rglob("*.py")) if python else []
        inside = [f.relative_to(path).with_suffix("") for f in files]
        names = [".".join(p for p in i.parts if p != "__init__") or path.name for i in inside]
        hidden = [any(part.startswith(".") for part in i.parts) for i in inside]
        found = zip(files, names, hidden, strict=True)
        return [FunctionFile(f, name) for f, name, unseen in found if not unseen]
    if path.is_file():
        return [FunctionFile(path, path.stem)] if python or path.suffix == ".py" else []
    if re.fullmatch(r"[A-Za-z_]\w*(\.[A-Za-z_]\w*)*", source.path) and path.suffix not in DATA:
        return [FunctionFile(find_module(source.path), source.path, source.path)]
    return []


def find_module(dotted: str) -> Path:
    """The file of a module, the working folder first. Imports nothing. Raises ImportFailed."""
    top, *inner = dotted.split(".")
    spec = PathFinder.find_spec(top, [os.getcwd(), *sys.path]) or importlib.util.find_spec(top)
    for part in inner:
        folders = list(spec.submodule_search_locations or ()) if spec else []
        spec = PathFinder.find_spec(part, folders)
    if spec is None or not spec.origin or not isfile(spec.origin):
        raise ImportFailed(
            f"There is no {dotted}, neither a file or folder in {os.getcwd()} nor a Python module. "
            "Name one that exists."
        )
    return Path(spec.origin)


@contextlib.contextmanager
def working_folder() -> Iterator[Path]:
    """A fresh folder, removed afterwards with all that was put into it, what is read-only too."""
    with tempfile.TemporaryDirectory(prefix="toolloom-", ignore_cleanup_errors=True) as made:
        yield Path(made).resolve()


async def prepare(
    command: str, environment: Mapping[str, str], folder: Path, *, name: str, seconds: float
) -> None:
    """Run a source's `prepare` in a fresh folder. Raises ToolloomError if it fails."""
    argv = arguments(command, name)
    program = f"`{Path(argv[0]).name}`"  # its arguments may hold secrets
    with tempfile.TemporaryFile() as errors:
        try:
            process = await asyncio.create_subprocess_exec(
                *argv,
                stdin=asyncio.subprocess.DEVNULL,
                stdout=asyncio.subprocess.DEVNULL,
                stderr=errors,
                env=dict(environment),
                cwd=folder,
                start_new_session=True,
            )
        except OSError as error:
            raise ToolloomError(
                f"{name}: {program} cannot be started ({error.strerror or error}). "
                "Check that it is a program for this machine."
            ) from error
        try:
            async with asyncio.timeout(seconds):
                status = await process.wait()
        except TimeoutError as error:
            raise ToolloomError(
                f"{name}: its `prepare` ({program}) took longer than {seconds:g} seconds. "
                "Make it shorter, or raise `time_limit`."
            ) from error
        finally:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.killpg(process.pid, signal.SIGKILL)
            await process.wait()
        if status:
            words = last_words(errors, environment) or "it says nothing"
            raise ToolloomError(
                f"{name}: its `prepare` ({program}) failed with status {status}: {words}. "
                "It runs in a fresh folder and sees only the variables named in `environment`."
            )


def last_words(errors: IO[bytes], environment: Mapping[str, str]) -> str:
    """The end of what a program wrote to its standard error, without secrets it was handed on."""
    errors.seek(max(0, errors.seek(0, os.SEEK_END) - 4 * WORDS))
    words = errors.read().decode("utf-8", "replace").strip()
    for secret, shown in secrets_of(environment).items():
        words = words.replace(secret, shown)
    return words[-WORDS:]
