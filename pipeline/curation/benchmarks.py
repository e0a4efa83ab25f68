"""What benchmarks say and call: BFCL, API-Bank, ToolBench and any JSON lines.

Of a row in no known form all texts count, and as calls all objects with a name and arguments.
Texts that are JSON themselves are read as such.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from toolloom.pipeline.checks.text.call_text import CallTextError, parse
from toolloom.pipeline.formats.import_log import ImportLog
from toolloom.pipeline.formats.rows import rows
from toolloom.schemas import ImportFailed, JsonObject, Recipe, RecipeError

ENDINGS = {".json", ".jsonl", ".ndjson", ".txt"}
LARGEST_TEXT = 1_000_000  # letters of a text that are looked at
_CALL = re.compile(r"(?:API-Request\s*:)?\s*\[?\s*[A-Za-z_][\w.]*\s*\(.*\)\s*\]?")


@dataclass(frozen=True)
class Gold:
    """A call of a benchmark. `alternatives`: each argument is the list of its right values."""

    name: str
    arguments: JsonObject
    alternatives: bool = False


@dataclass
class BenchmarkRow:
    """What one row of a benchmark says."""

    place: str  # file and line, and the row's id if it has one
    texts: list[str] = field(default_factory=list)
    calls: list[Gold] = field(default_factory=list)
    unread: int = 0  # calls that could not be read

    def add(self, name: Any, arguments: Any, alternatives: bool = False) -> None:
        """Take a call; what has no name or no arguments by name is none."""
        if isinstance(name, str) and name.strip() and isinstance(arguments, dict):
            self.calls.append(Gold(name, arguments, alternatives))


def check(recipe: Recipe) -> None:
    """Raises RecipeError if a benchmark is not there."""
    for named in recipe.curation.against:
        files(named)


def files(named: str) -> list[Path]:
    """The files of a benchmark, in order. Raises RecipeError if there are none."""
    path = Path(named).expanduser()
    if path.is_dir():
        found = sorted(p for p in path.rglob("*") if p.suffix.lower() in ENDINGS and p.is_file())
        if not found:
            kinds = ", ".join(sorted(ENDINGS))
            raise RecipeError(f"curation.against: there are no files ({kinds}) in {named}.")
        return found
    if not path.is_file():
        raise RecipeError(
            f"curation.against: {named} does not exist. Name the file or folder of a benchmark."
        )
    return [path]


def items(named: str, ledger: ImportLog) -> Iterator[BenchmarkRow]:
    """The rows of a benchmark. What cannot be read is booked as skipped."""
    top = Path(named).expanduser()
    for path in files(named):
        shown = path.relative_to(top).as_posix() if path != top else path.name
        try:
            if path.suffix == ".txt":
                lines = path.read_text("utf-8", "replace").splitlines()
                for number, line in enumerate(lines, 1):
                    item = BenchmarkRow(f"{shown}:{number}")
                    _take_text(line, item)
                    yield item
                continue
            for place, row in rows(path, ledger):
                line = place.removeprefix(path.name)
                for number, entry in enumerate(row if isinstance(row, list) else [row], 1):
                    inside = f"{line}[{number}]" if isinstance(row, list) else line
                    yield read(entry, f"{shown}{inside}")
        except (ImportFailed, OSError, RecursionError) as error:
            ledger.read += 1
            ledger.skip(shown, str(error))


def read(row: Any, place: str = "") -> BenchmarkRow:
    """What one row says, whatever its form."""
    fields = row if isinstance(row, dict) else {}
    named = fields.get("id", fields.get("query_id", ""))
    item = BenchmarkRow(f"{place} {named}".strip() if isinstance(named, str | int) else place)
    truth, answer = fields.get("ground_truth"), fields.get("answer_generation")
    if isinstance(fields.get("question"), list) and "function" in fields:
        row = fields["question"]  # BFCL: not its function documents
    elif "query" in fields and "api_list" in fields:
        row = fields["query"]  # ToolBench: not its APIs
    elif isinstance(truth, list):
        # BFCL's gold answers: calls with lists of right values, or call texts turn by turn.
        for each in truth:
            for name, arguments in each.items() if isinstance(each, dict) else ():
                item.add(name, arguments, alternatives=True)
        row = [each for each in truth if not isinstance(each, dict)]
    elif isinstance(answer, dict):
        row = [answer.get("query"), fields.get("tree")]
    _walk(row, item)
    return item


def _take_call(text: str, item: BenchmarkRow) -> None:
    try:
        called = parse(text)
    except (CallTextError, RecursionError):
        item.unread += 1
        return
    for call in called:
        item.add(call.name, call.arguments)


def _take_text(text: str, item: BenchmarkRow) -> None:
    """A text, with the calls that stand in lines of it."""
    text = text[:LARGEST_TEXT]
    item.texts.append(text)
    for line in text.splitlines():
        if ("API-Request" in line or "(" in line[:80]) and _CALL.fullmatch(line.strip()):
            _take_call(line.strip(), item)


def _walk(value: Any, item: BenchmarkRow) -> None:
    """All texts in a value, and all calls, without recursion."""
    waiting = [value]
    while waiting:
        inner = waiting.pop()
        if isinstance(inner, str):
            parsed = _inside(inner)
            if parsed is None:
                _take_text(inner, item)
            else:
                waiting.append(parsed)
        elif isinstance(inner, list):
            waiting += reversed(inner)
        elif isinstance(inner, dict) and "node_type" in inner:  # of ToolBench's trees: calls alone
            children = [each for each in inner.get("children") or () if isinstance(each, dict)]
            waiting += reversed(children)
            for child in children if inner["node_type"] == "Action" else ():
                if child.get("node_type") == "Action Input":
                    item.add(inner.get("description"), _inside(str(child.get("description", ""))))
        elif isinstance(inner, dict) and inner.get("role") == "API" and "api_name" in inner:
            given = inner.get("param_dict")
            item.add(inner["api_name"], given if isinstance(given, dict) else {})
        elif isinstance(inner, dict):
            given = inner.get("arguments")
            item.add(inner.get("name"), _inside(given) if isinstance(given, str) else given)
            waiting += reversed(inner.values())


def _inside(text: str) -> Any:
    """What a text holds that is a JSON object or list; None if it is none."""
    if text[:1] not in "{[" or text[-1:] not in "}]" or len(text) > LARGEST_TEXT:
        return None
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return None
