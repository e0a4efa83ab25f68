"""A pool of APIs on disk: imported once, used by any number of recipes.

    <outputs>/pools/<name>/apis.jsonl      Api records, in the order in which they came
    <outputs>/pools/<name>/imports.jsonl   an ImportReport for each import

An import appears in these files as a whole or not at all. Memory holds the pool. What is in one can
be shown, and rules leave APIs out of it.
"""

from __future__ import annotations

import json
import os
import re
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager
from itertools import count
from os.path import isfile
from pathlib import Path
from typing import Any, TypeAlias, TypeVar

from pydantic import ValidationError

from toolloom.pipeline.checks.schema import misshapen
from toolloom.pipeline.checks.text.words import listed
from toolloom.pipeline.formats.import_log import ImportLog
from toolloom.pipeline.render.section import Section, counted, safe_json, short
from toolloom.pipeline.store.documents import nearest
from toolloom.pipeline.store.files import hold_folder, read_lines, record_line, replacing, to_text
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
        self.path, self.name = path, path.name

    def apis(self) -> Iterator[Api]:
        """Raises StoreError with the line that holds no API."""
        return _records(self.path / "apis.jsonl", Api)

    def reports(self) -> Iterator[ImportReport]:
        """What each import came to, the oldest first."""
        return _records(self.path / "imports.jsonl", ImportReport)

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
                        f"Not in it this time, and kept: {counted(number, 'API')} that the pool "
                        f"has from {reference or 'here'}."
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
            for name in ("parameters", "returns") if isinstance(record, Api) else ():
                if wrong := misshapen(getattr(record, name) or {}):
                    raise ValueError(f"{name}.{wrong}")
        except (ValueError, RecursionError) as error:
            why = str(error)
            if isinstance(error, ValidationError):
                why = first_error(error, model.__name__)
            raise StoreError(
                f"{path}, line {number}: is damaged or from another version of toolloom ({why}). "
                f"Remove this line, or the folder {path.parent}, and import its source again."
            ) from error
        yield record


def find_pool(outputs: Path, name: str) -> PoolFolder:
    """A pool by name or path. Raises NothingFound with the nearest name, or all."""
    named = [outputs / "pools" / name] if LEGAL.fullmatch(name) else []
    for path in (*named, *([Path(name)] if name else [])):
        if holds_pool(path):
            return PoolFolder(path)
    files = (outputs / "pools").glob("*/apis.jsonl")
    known = sorted(file.parent.name for file in files if file.is_file())
    hint = nearest(name, known) if known else "`toolloom apis import` makes one."
    raise NothingFound(f"There is no pool {name!r} in {outputs / 'pools'}: {hint}")


def holds_pool(path: Path) -> bool:
    """Whether it is a pool's folder."""
    return isfile(path / "apis.jsonl")  # not a method, which raises at a name that is too long


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


# What is in it, shown


def list_section(apis: Iterable[Api]) -> Section:
    """A line for each API; it is answered by the simulator unless the recipe has it executed."""
    rows = [
        (
            a.function,
            short(f"{a.category}/{a.tool}", 40),
            f"world {a.source.reference}" if a.source.kind == "world" else "simulator",
            short(a.description),
        )
        for a in apis
    ]
    return Section(head=("function", "category/tool", "answered by", "description"), rows=rows)


def api_sections(api: Api) -> list[Section]:
    """An API as a person reads it."""
    source = api.source
    marks = [
        *(source.kind, source.reference, source.operation, source.licence),
        f"collections: {', '.join(api.collections)}" if api.collections else "",
        "deprecated" if api.deprecated else "",
        "" if api.repeatable else "not repeatable",
    ]
    parameters = [
        (
            name,
            type_of(schema),
            "yes" if name in api.required else "",
            str(schema.get("description", "")) if isinstance(schema, dict) else "",
        )
        for name, schema in api.properties.items()
    ]
    shown = [
        Section(api.function, note=f"{api.id}\n{' · '.join(filter(None, marks))}"),
        Section(note=api.description or "(no description)"),
        Section(head=("parameter", "type", "required", "description"), rows=parameters),
    ]
    if api.returns is not None:
        shown.append(Section(note="returns", items=[safe_json(api.returns)]))
    return shown


def type_of(schema: Any) -> str:
    """A schema's type in a word or two, such as `array of string`."""
    if not isinstance(schema, dict):
        return "any"
    kinds = schema.get("type", "any")
    named = " or ".join(map(str, kinds)) if isinstance(kinds, list) else str(kinds)
    if isinstance(schema.get("enum"), list):
        return f"{named}: " + short(" | ".join(map(str, schema["enum"])), 40)
    if named == "array" and isinstance(schema.get("items"), dict):
        return f"array of {type_of(schema['items'])}"
    return named


# Rules that leave APIs out of a pool, each with a name. They judge descriptions: what can be said
# without a call. ToolLLM (appendix A.1) calls each API and drops what does not answer, answers
# slowly, or answers with HTML or an error. Of that only `error_returns` is here, for responses
# described as errors; that an API is alive and quick is found out by executing it.

MEANINGLESS = listed("names without a meaning")
METHODS = frozenset(("get", "head", "post", "put", "patch", "delete", "options"))
ERRORS = frozenset(("error", "errors"))
BESIDE_ERRORS = ERRORS | {"code", "detail", "details", "message", "status", "success", "timestamp"}
MARKUP = re.compile(r"<(!doctype html|html|head|body)\b", re.IGNORECASE)


def _described(schema: Any) -> bool:
    said = schema.get("description") if isinstance(schema, dict) else None
    return isinstance(said, str) and bool(said.strip())


def _meaningless(api: Api) -> bool:
    """A method and path, such as `GET /pets`, is no name; there the function name counts."""
    path = "/" in api.name
    word = re.sub(r"[\W_]+", "", api.function if path else api.name).lower()
    short_one = len(word) < 2 and word.isascii()  # one Chinese character is a word
    return short_one or word.isdigit() or word in MEANINGLESS or (path and word in METHODS)


def _error_returns(api: Api) -> bool:
    fields = set(api.fields)
    shown = to_text([(api.returns or {}).get(key) for key in ("description", "examples")])
    asked_for = "error" in f"{api.name} {api.description}".lower()  # such as `list_errors`
    only_error = bool(fields & ERRORS) and fields <= BESIDE_ERRORS and not asked_for
    return only_error or bool(MARKUP.search(shown))


DUPLICATE = "duplicate"
RULES: dict[str, tuple[str, Callable[[Api], bool]]] = {
    "no_description": ("Says nothing of what it does.", lambda a: not a.description.strip()),
    "short_description": (  # «List all pets» tells which, «List pets» not
        "Says what it does in fewer than 3 words.",
        lambda a: 0 < len(a.description.split()) < 3,
    ),
    "overlong_description": (  # OpenAI's limit
        "Its description has more than 1,024 characters.",
        lambda a: len(a.description) > 1_024,
    ),
    "deprecated": ("Its source advises against using it.", lambda a: a.deprecated),
    "meaningless_name": ("One letter, a number, or a word such as test.", _meaningless),
    "undocumented_parameters": (
        "Has parameters and describes none of them.",
        lambda a: bool(a.properties) and not any(map(_described, a.properties.values())),
    ),
    "undescribed_required": (
        "Requires a parameter that it does not describe.",
        lambda a: not all(_described(a.properties.get(name)) for name in a.required),
    ),
    "too_many_parameters": (  # beyond, examples of a call fill few of them
        "Has more than 20 parameters.",
        lambda a: len(a.properties) > 20,
    ),
    "oversized_schema": (  # 2,000 tokens of each prompt
        "The schema of its parameters has more than 8,000 bytes.",
        lambda a: len(to_text(a.parameters).encode()) > 8_000,
    ),
    "no_returns": ("Does not say what it returns.", lambda a: not a.returns),
    "error_returns": ("All it says to return is an error or a web page.", _error_returns),
    "destructive": (
        "Its HTTP method is DELETE; other ways to destroy are not seen.",
        lambda a: a.source.operation.startswith("DELETE "),
    ),
    DUPLICATE: (  # judged with what came before, in `judge`
        "Has the description and parameters of an earlier one that is kept.",
        lambda a: False,
    ),
}
ON_REQUEST = ("short_description", "undescribed_required", "no_returns", "destructive")
USUAL = tuple(name for name in RULES if name not in ON_REQUEST)


Judged: TypeAlias = list[tuple[Api, tuple[str, ...]]]


def judge(apis: Iterable[Api], names: Sequence[str] = USUAL) -> Judged:
    """Each API with the names of the rules it breaks."""
    judged: Judged = []
    kept: set[str] = set()
    for api in apis:
        broken = [name for name, (_, breaks) in RULES.items() if name in names and breaks(api)]
        # In ASCII, which holds whatever text a document has.
        content = json.dumps([api.description, api.parameters], sort_keys=True)
        if DUPLICATE in names and api.description.strip() and content in kept:
            broken.append(DUPLICATE)
        if not broken:
            kept.add(content)
        judged.append((api, tuple(broken)))
    return judged


def filter_pool(pool: PoolFolder, judged: Judged, into: PoolFolder) -> None:
    """Make the pool `into` of the APIs that break no rule; its report names the others.

    Raises StoreError where there is a pool already.
    """
    with into.locked():
        if (into.path / "apis.jsonl").exists():
            raise StoreError(
                f"{into.path}: holds a pool, which would be lost. Give --into another name, or "
                "remove that pool."
            )
        ledger = ImportLog(pool.name, "pool")
        for api, broken in judged:
            if broken:
                ledger.skip(api.id, f"It breaks {', '.join(broken)}.")
        ledger.read = len(judged)
        kept = [api for api, broken in judged if not broken]
        into.write(kept, [*pool.reports(), ledger.report(imported=len(kept))])


def rules_section(names: Sequence[str], judged: Judged) -> Section:
    """The rules with how many APIs break each of them. An API can break several."""
    counted = Counter(name for _, broken in judged for name in broken)
    rows = [(name, counted[name], told) for name, (told, _) in RULES.items() if name in names]
    return Section(head=("rule", "APIs", "what it leaves out"), rows=rows)
