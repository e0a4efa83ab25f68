"""What an audit leaves on the disk: the report, and the flagged rows."""

from __future__ import annotations

import os
from pathlib import Path
from types import TracebackType
from typing import IO

from toolloom.pipeline.formats.audit.audit import AuditReport, dumped
from toolloom.schemas import JsonObject, StoreError


class JsonLinesFile:
    """A file of JSON lines that is there when all is written, and not before."""

    def __init__(self, path: Path, source: Path) -> None:
        """`source`: what is audited, which is not to be overwritten. Raises StoreError."""
        _apart(path, source)
        self._path = path
        self._part = path.with_name(f".{path.name}.part")
        self._file: IO[str] | None = None

    def __enter__(self) -> JsonLinesFile:
        try:
            self._file = self._part.open("w", encoding="utf-8", errors="surrogateescape")
        except OSError as error:
            raise _unwritable(self._path, error) from error
        return self

    def write(self, row: JsonObject) -> None:
        assert self._file
        try:
            self._file.write(dumped(row) + "\n")
        except OSError as error:
            raise _unwritable(self._path, error) from error

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        assert self._file
        try:
            self._file.close()
            if kind is None:
                os.replace(self._part, self._path)
            else:
                self._part.unlink(missing_ok=True)
        except OSError as failed:
            raise _unwritable(self._path, failed) from failed


def write_report(path: Path, report: AuditReport, source: Path) -> None:
    """The report as JSON. Raises StoreError."""
    _apart(path, source)
    try:
        path.write_text(dumped(report.as_json(), indent=2) + "\n", encoding="utf-8")
    except OSError as error:
        raise _unwritable(path, error) from error


def _apart(path: Path, source: Path) -> None:
    if path.exists() and source.exists() and path.samefile(source):
        raise StoreError(f"{path} is what is audited. Name another file to write to.")
    if path.is_dir():
        raise StoreError(f"{path} is a folder. Name a file to write to.")


def _unwritable(path: Path, error: OSError) -> StoreError:
    why = error.strerror or str(error)
    return StoreError(f"{path} cannot be written: {why}. Check the folder and its rights.")
