"""A pool of APIs on disk: imported once, used by any number of recipes.

    <outputs>/pools/<name>/apis.jsonl      Api records, in the order in which they came
    <outputs>/pools/<name>/imports.jsonl   an ImportReport for each import

An import appears in these files as a whole or not at all. Memory holds the pool.
"""

from __future__ import annotations

import difflib
import hashlib
import json
import os
import re
import time
from collections import Counter
from collections.abc import Iterable, Iterator
from contextlib import AbstractContextManager
from itertools import count
from pathlib import Path
from typing import TypeVar

from pydantic import ValidationError

from toolloom.pipeline.formats.import_log import ImportLog
from toolloom.pipeline.store.files import hold_folder, read_lines, record_line, replacing
from toolloom.schemas import Api, ImportReport, NothingFound, Record, StoreError, first_error

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
        return _records(self.path / "apis.jsonl", Api)

    def reports(self) -> Iterator[ImportReport]:
        """What each import came to, the oldest first."""
        return _records(self.path / "imports.jsonl", ImportReport)

    @property
    def digest(self) -> str:
        """SHA-256 of the APIs as they lie on the disk."""
        return hashlib.sha256(b"".join(map(record_line, self.apis()))).hexdigest()

    def locked(self) -> AbstractContextManager[None]:
        """Hold the pool for this process. Raises StoreError if another one does."""
        return hold_folder(self.path, BUSY)

    def write(self, apis: Iterable[Api], reports: Iterable[ImportReport]) -> None:
        """For who holds it. Both files are whole and on the disk before either has its name."""
        with (
            replacing(self.path / "apis.jsonl") as pool,
            replacing(self.path / "imports.jsonl") as imports,
        ):
            pool.writelines(map(record_line, apis))
            imports.writelines(map(record_line, reports))
            pool.flush()
            os.fsync(pool.fileno())

    def add(self, items: Iterable[Api], ledger: ImportLog) -> ImportReport:
        """Add what an importer reads; it books in `ledger`, which knows no names of the pool.

        An API whose id the pool has from the same source takes its place and keeps its function
        name. An id that another source has is told apart by the tool's name: `Pets (2)`. Whatever
        `items` or the disk raises, the pool stays as it was.
        """
        began = time.monotonic()
        with self.locked():
            pool = {api.id: api for api in self.apis()}
            before = len(pool)
            tried: Counter[tuple[str, str]] = Counter()
            touched: set[str] = set()
            for item in items:
                # Numbers that an earlier API of this id did not get are not tried again.
                for number in count(tried[item.id, item.source.reference] + 1):
                    tool = item.tool if number == 1 else f"{item.tool} ({number})"
                    wanted = f"{item.category}/{tool}/{item.name}"
                    known = pool.get(wanted)
                    if known is None or (_origin(known) == _origin(item) and wanted not in touched):
                        break
                tried[item.id, item.source.reference] = number
                if number > 1:
                    ledger.note(
                        f"{item.id}: the pool has an API of this id; here its tool is «{tool}»."
                    )
                function = known.function if known else item.function
                pool[wanted] = item.model_copy(update={"tool": tool, "function": function})
                touched.add(wanted)
            here = {_origin(pool[id]) for id in touched}
            left = Counter(_origin(api) for id, api in pool.items() if id not in touched)
            for (kind, reference), number in left.items():
                if (kind, reference) in here:
                    ledger.note(
                        f"{number:,} APIs that the pool has from {reference or 'here'} "
                        "were not in it this time; they stay."
                    )
            added = len(pool) - before
            report = ledger.report(
                imported=len(touched),
                replaced=len(touched) - added,
                seconds=round(time.monotonic() - began, 3),
            )
            self.write(pool.values(), [*self.reports(), report])
        return report


def _origin(api: Api) -> tuple[str, str]:
    return api.source.kind, api.source.reference


def _records(path: Path, model: type[R]) -> Iterator[R]:
    for number, line in enumerate(read_lines(path) if path.exists() else (), 1):
        try:
            record = model.model_validate(json.loads(line))
            if isinstance(record, Api) and (wrong := _misshapen(record)):
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
