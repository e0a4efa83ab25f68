"""Which of a recipe's sources executes an API, if one does: nothing runs that is not named."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from toolloom.pipeline.apis.execution import process
from toolloom.pipeline.apis.execution.naming import (
    executable_names,
    is_address,
    server_name,
    server_reference,
)
from toolloom.pipeline.formats.importers.intake import reference
from toolloom.pipeline.formats.importers.pymodule import find_source
from toolloom.schemas import Api, ApiSource, ToolloomError, digest


@dataclass(frozen=True)
class ExecutionSource:
    """A source, or one file of it, where calls are executed."""

    source: ApiSource
    reference: str
    file: Path | None = None  # of Python functions

    @property
    def by(self) -> str:
        """What an execution is said to be by."""
        if self.file is None:
            return f"mcp:{server_name(self.source.mcp, self.source.name)}"
        return f"python:{self.reference}"

    @property
    def module(self) -> str:
        """The module's dotted name, if it was not named by its file."""
        named = self.source.path
        return "" if named.endswith(".py") or Path(named).is_dir() else named

    @cached_property
    def fingerprint(self) -> str:
        """SHA-256 of all of it that decides what a call returns. Values of variables are not."""
        source, files = self.source, []
        if self.file is not None:
            files.append((self.reference, process.file_digest(self.file)))
        elif not is_address(source.mcp):
            files += process.fingerprints(source.mcp, self.by)
        if source.prepare:
            files += process.fingerprints(source.prepare, self.by)
        settings: dict[str, Any] = {
            "at": source.mcp or self.reference,
            "environment": sorted(source.environment),
            "prepare": source.prepare,
            "time_limit": source.time_limit,
            "files": files,
        }
        return digest(settings, 64)

    def opened(self, allowed: frozenset[str]) -> Any:
        """An engine: its `session` is a fresh process whose `call` executes."""
        source = self.source
        if self.file is None:
            from toolloom.pipeline.apis.execution.mcp import Server  # half a second to load

            return Server.of(source)
        from toolloom.pipeline.apis.execution.python_functions import Functions

        return Functions(
            self.reference,
            self.file,
            allowed,
            self.module,
            source.environment,
            source.prepare,
            source.time_limit,
        )


def find_place(api: Api, sources: Iterable[ApiSource]) -> ExecutionSource | None:
    """The first source that executes an API, if one does. Raises ToolloomError."""
    return next((place for source in sources if (place := place_of(api, source))), None)


def place_of(api: Api, source: ApiSource) -> ExecutionSource | None:
    """Where a source executes an API; None if it does not, or may not.

    Raises ToolloomError if it may, and there is no telling where.
    """
    if not executable_names(api) & set(source.execute):
        return None
    if api.source.kind == "mcp" and source.mcp:
        known = server_reference(source.mcp, source.name)
        return ExecutionSource(source, known) if api.source.reference == known else None
    if api.source.kind == "python" and source.path and source.format in ("auto", "python"):
        return _python_place(api.source.reference, source)
    return None


def _python_place(wanted: str, source: ApiSource) -> ExecutionSource | None:
    path = Path(source.path)
    if path.is_dir():
        file = _in_folder(path, wanted)
        return ExecutionSource(source, wanted, file) if file else None
    if reference(path) != wanted:
        return None
    return ExecutionSource(source, wanted, path if path.is_file() else find_source(source.path))


def _in_folder(folder: Path, wanted: str) -> Path | None:
    """The file of a folder that records call so; the records may be anyone's."""
    if not folder.is_absolute():
        file = Path(wanted)
        inside = folder in file.parents and ".." not in file.relative_to(folder).parts
        return file if inside and file.suffix == ".py" and file.is_file() else None
    files = [f for f in sorted(folder.rglob("*.py")) if reference(f) == wanted]
    if len(files) > 1:
        raise ToolloomError(
            f"{folder} holds {len(files)} files {wanted}, and it cannot be told which is to be "
            "executed. Name the folder by its path from the current folder."
        )
    return files[0] if files else None
