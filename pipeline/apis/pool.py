"""A pool of APIs on disk: imported once, used by any number of recipes.

    <outputs>/pools/<name>/apis.jsonl       Api records, in the order in which they came
    <outputs>/pools/<name>/examples.jsonl   PublicApi records: examples for the API agent
    <outputs>/pools/<name>/imports.jsonl    an ImportReport for each import
    <outputs>/pools/<name>/dropped.jsonl    in a pool made by a filter: what it left out, and why

An import appears in these files as a whole or not at all. Memory holds names, never the APIs.
"""

from __future__ import annotations

import difflib
import hashlib
import json
import os
import re
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager
from dataclasses import dataclass
from itertools import count
from pathlib import Path
from typing import BinaryIO, TypeAlias, TypeVar

from pydantic import ValidationError

from toolloom.pipeline.formats.import_log import ImportLog
from toolloom.pipeline.store.files import explain, read_lines, record_line, replacing
from toolloom.pipeline.store.locks import hold_folder
from toolloom.schemas import Api, ImportReport, NothingFound, Record, StoreError, first_error
from toolloom.schemas.api import PublicApi, Renamed

Origin: TypeAlias = tuple[str, str]


@dataclass(slots=True)
class _Known:
    """An API of the pool: its line, names and origin."""

    place: int
    function: str
    origin: Origin
    touched: bool = False


class Merge:
    """One import into a pool.

    An API whose id the pool has from the same source takes its place and keeps its function
    name. An id that another source has is told apart by the tool's name: `Pets (2)`.
    """

    def __init__(self, pool: Iterable[Api]) -> None:
        self._known: dict[str, _Known] = {}
        origins: dict[Origin, Origin] = {}
        for place, api in enumerate(pool):
            origin = origins.setdefault(_origin(api), _origin(api))
            self._known[api.id] = _Known(place, api.function, origin)
        self._names = ImportLog("", taken=(known.function for known in self._known.values()))
        self._size = self._before = len(self._known)
        self._tried: dict[tuple[str, Origin], int] = {}
        self._moved: dict[str, Renamed] = {}
        self._notes: list[str] = []
        self.replaced = 0

    @property
    def added(self) -> int:
        return self._size - self._before

    def settle(self, api: Api) -> tuple[Api, int]:
        """The API as the pool keeps it, and its line there."""
        settled, origin = api, _origin(api)
        # Under an id that is free, or its own from an earlier import. Numbers that an earlier
        # API of this id did not get are not tried again.
        for number in count(self._tried.get((api.id, origin), 0) + 1):
            tool = api.tool if number == 1 else f"{api.tool} ({number})"
            known = self._known.get(f"{api.category}/{tool}/{api.name}")
            if known is None or (known.origin == origin and not known.touched):
                break
        self._tried[api.id, origin] = number
        if number > 1:
            note = f"{api.id}: the pool has an API of this id; here its tool is «{tool}»."
            self._notes.append(note)
            settled = api.model_copy(update={"tool": tool})
        if known is None:
            function = self._names.function(api.function, settled.id)
            known = self._known[settled.id] = _Known(self._size, function, origin)
            self._size += 1
        else:
            self.replaced += 1
        known.touched = True
        if known.function != api.function:
            self._moved[api.function] = Renamed(
                api=settled.id, old=api.function, new=known.function, why="taken"
            )
        return settled.model_copy(update={"function": known.function}), known.place

    def renamed(self, booked: Iterable[Renamed]) -> tuple[Renamed, ...]:
        """What the importer booked, with the names that the pool gave in their place."""
        moved, lines = dict(self._moved), list[Renamed]()
        for line in booked:
            last = moved.pop(line.new, None)
            if last is None:
                lines.append(line)
            elif last.new != line.old:
                lines.append(line.model_copy(update={"new": last.new}))
        return (*lines, *moved.values())

    def close(self, ledger: ImportLog) -> None:
        """Note what is worth knowing of the import as a whole."""
        for text in self._notes:
            ledger.note(text)
        here = {known.origin for known in self._known.values() if known.touched}
        left: Counter[str] = Counter(
            known.origin[1]
            for known in self._known.values()
            if known.origin in here and not known.touched
        )
        for reference, number in left.items():
            ledger.note(
                f"{number:,} APIs that the pool has from {reference or 'here'} "
                "were not in it this time; they stay."
            )


def _origin(api: Api) -> Origin:
    return (api.source.kind, api.source.reference)


R = TypeVar("R", bound=Record)
LEGAL = re.compile(r"[a-zA-Z0-9][a-zA-Z0-9._-]{0,63}")
BUSY = (
    "another process is changing this pool. Wait for it to end and run the same command again, "
    "or import into another pool."
)


class PoolFolder:
    """The files of one pool. One process at a time writes; anybody may read."""

    def __init__(self, path: Path) -> None:
        self.path = path

    @property
    def name(self) -> str:
        return self.path.name

    def apis(self) -> Iterator[Api]:
        """Raises StoreError with the line that holds no API."""
        return _records(self.path / "apis.jsonl", Api, _misshapen)

    def examples(self) -> Iterator[PublicApi]:
        """Public APIs that ground the API agent; they are no APIs of the pool."""
        return _records(self.path / "examples.jsonl", PublicApi)

    def reports(self) -> Iterator[ImportReport]:
        """What each import came to, the oldest first."""
        return _records(self.path / "imports.jsonl", ImportReport)

    @property
    def digest(self) -> str:
        """SHA-256 of the APIs as they lie on the disk."""
        hashed = hashlib.sha256()
        for line in _lines(self.path / "apis.jsonl"):
            hashed.update(line)
        return hashed.hexdigest()

    def locked(self) -> AbstractContextManager[None]:
        """Hold the pool for this process. Raises StoreError if another one does."""
        return hold_folder(self.path, BUSY)

    def add(self, items: Iterable[Api | PublicApi], ledger: ImportLog) -> ImportReport:
        """Add what an importer reads; it books in `ledger`, which knows no names of the pool.

        Whatever `items` or the disk raises, the pool stays as it was.
        """
        began = time.monotonic()
        with self.locked(), _Spool(self.path) as spool:
            merge = Merge(self.apis())
            examples: list[PublicApi] = []
            for item in items:
                if isinstance(item, Api):
                    settled, place = merge.settle(item)
                    spool.keep(place, record_line(settled))
                else:
                    examples.append(item)
            merge.close(ledger)
            report = ledger.report(
                imported=merge.added + merge.replaced,
                replaced=merge.replaced,
                examples=len(examples),
                seconds=round(time.monotonic() - began, 3),
            )
            report = report.model_copy(update={"renamed": merge.renamed(report.renamed)})
            paths = [self.path / name for name in ("apis.jsonl", "examples.jsonl", "imports.jsonl")]
            old, seen, reports = map(_lines, paths)
            with together(*paths) as (apis, public, imports):
                apis.writelines(spool.over(old))
                # New examples of an old one's name take its place, the others follow.
                fresh = {(e.category, e.name): record_line(e) for e in examples}
                for known, line in zip(self.examples(), seen, strict=True):
                    public.write(fresh.pop((known.category, known.name), line))
                public.writelines(fresh.values())
                imports.writelines(reports)
                imports.write(record_line(report))
        return report


class _Spool:
    """Lines of an import on the disk, by the place they take in the pool."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._lines: dict[int, tuple[int, int]] = {}
        self._end = 0

    def __enter__(self) -> _Spool:
        try:
            # Without a buffer, closing it cannot fail a second time on a full disk.
            self._file = tempfile.TemporaryFile(dir=self._folder, buffering=0)
        except OSError as error:
            raise explain(self._folder, error, "written") from error
        return self

    def __exit__(self, *error: object) -> None:
        self._file.close()

    def keep(self, place: int, line: bytes) -> None:
        rest = memoryview(line)
        try:
            while rest:
                rest = rest[self._file.write(rest) :]
        except OSError as error:
            raise explain(self._folder, error, "written") from error
        self._lines[place] = (self._end, len(line))
        self._end += len(line)

    def over(self, old: Iterable[bytes]) -> Iterator[bytes]:
        """The old lines, those that were kept for their place instead, then the new ones."""
        for place, line in enumerate(old):
            yield self._line(place) if place in self._lines else line
            self._lines.pop(place, None)
        yield from map(self._line, sorted(self._lines))

    def _line(self, place: int) -> bytes:
        start, length = self._lines[place]
        return os.pread(self._file.fileno(), length, start)


@contextmanager
def together(*paths: Path) -> Iterator[list[BinaryIO]]:
    """Files that appear under their names, in this order, when all are whole and on the disk."""
    with ExitStack() as stack:
        files = [stack.enter_context(replacing(path)) for path in reversed(paths)]
        yield files[::-1]
        for file in files:
            file.flush()
            os.fsync(file.fileno())


def _lines(path: Path) -> Iterator[bytes]:
    """The lines of a file, none if it is not there; the last one ends like the others."""
    if path.exists():
        for line in read_lines(path):
            yield line if line.endswith(b"\n") else line + b"\n"


def _records(
    path: Path, model: type[R], misshapen: Callable[[R], str] = lambda record: ""
) -> Iterator[R]:
    for number, line in enumerate(_lines(path), 1):
        try:
            record = model.model_validate(json.loads(line))
            if wrong := misshapen(record):
                raise ValueError(wrong)
        except (ValueError, RecursionError) as error:
            why = str(error)
            if isinstance(error, ValidationError):
                why = first_error(error, model.__name__)
            raise StoreError(
                f"{path}, line {number}: is damaged or from another version of toolloom ({why}). "
                f"Remove this line, or the folder {path.parent}, and import its source again."
            ) from error
        yield record


def _misshapen(api: Api) -> str:
    """The part of an API's schemas that all who use them would stumble on; empty if none."""
    for name, schema in (("parameters", api.parameters), ("returns", api.returns or {})):
        properties, required = schema.get("properties", {}), schema.get("required", [])
        if not isinstance(properties, dict) or not all(
            isinstance(one, dict | bool) for one in properties.values()
        ):
            return f"{name}.properties: Input should be an object of schemas"
        if not isinstance(required, list) or not all(isinstance(one, str) for one in required):
            return f"{name}.required: Input should be a list of names"
    return ""


def pools(outputs: Path) -> list[str]:
    """Names of the pools below `outputs`."""
    found = (outputs / "pools").glob("*/apis.jsonl")
    return sorted(path.parent.name for path in found if path.is_file())


def find_pool(outputs: Path, name: str) -> PoolFolder:
    """A pool by name or path. Raises NothingFound with the nearest name, or all."""
    named = [outputs / "pools" / name] if LEGAL.fullmatch(name) else []
    for path in (*named, *([Path(name)] if name else [])):
        if holds_pool(path):
            return PoolFolder(path)
    known = pools(outputs)
    near = difflib.get_close_matches(name, known, n=1)
    hint = "There is none yet: `toolloom apis import` makes one."
    if known:
        hint = f"Did you mean {near[0]}?" if near else f"There are: {', '.join(known)}."
    raise NothingFound(f"There is no pool {name!r} in {outputs / 'pools'}. {hint}")


def holds_pool(path: Path) -> bool:
    """Whether it is a pool's folder."""
    try:
        return (path / "apis.jsonl").is_file()
    except (OSError, ValueError):  # such as a name that is too long
        return False


def open_pool(outputs: Path, name: str) -> PoolFolder:
    """The pool to import into, there already or not: a name, or a path if it has a separator."""
    if os.sep in name and "\0" not in name:
        return PoolFolder(Path(name))
    if not LEGAL.fullmatch(name):
        raise StoreError(
            f"{name!r} cannot be the name of a pool: use up to 64 letters, digits, dots, hyphens "
            "and underscores, beginning with a letter or digit, or a path such as ./pools/mine."
        )
    return PoolFolder(outputs / "pools" / name)
