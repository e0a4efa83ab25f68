"""What benchmarks say and call: BFCL, API-Bank, ToolBench and any JSON lines.

Of a row in no known form all texts count, and as calls all objects with a name and arguments.
Texts that are JSON themselves are read as such.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator
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
    named = row.get("id", row.get("query_id", "")) if isinstance(row, dict) else ""
    item = BenchmarkRow(f"{place} {named}".strip() if isinstance(named, str | int) else place)
    if isinstance(row, dict) and isinstance(row.get("question"), list) and "function" in row:
        _walk(row["question"], item)  # BFCL: not its function documents
    elif isinstance(row, dict) and isinstance(row.get("ground_truth"), list):
        _take_truth(row["ground_truth"], item)
    elif isinstance(row, dict) and "query" in row and "api_list" in row:
        _walk(row["query"], item)  # ToolBench: not its APIs
    elif isinstance(row, dict) and isinstance(row.get("answer_generation"), dict):
        _walk(row["answer_generation"].get("query"), item)
        waiting = [row.get("tree")]
        while waiting:
            node = waiting.pop()
            if isinstance(node, list):
                waiting += reversed(node)
            if not isinstance(node, dict):
                continue
            waiting += [node.get("tree"), node.get("children")]
            for child in node.get("children") or () if node.get("node_type") == "Action" else ():
                given = (
                    _inside(str(child.get("description", ""))) if isinstance(child, dict) else None
                )
                if isinstance(given, dict) and child.get("node_type") == "Action Input":
                    item.add(node.get("description"), given)
    elif isinstance(row, dict) and row.get("role") == "API" and "api_name" in row:
        arguments = row.get("param_dict")
        item.add(row["api_name"], arguments if isinstance(arguments, dict) else {})
    else:
        _walk(row, item)
    return item


def _take_truth(truth: Iterable[Any], item: BenchmarkRow) -> None:
    """BFCL's gold answers: calls with lists of right values, or call texts turn by turn."""
    for each in truth:
        if isinstance(each, dict):
            for name, arguments in each.items():
                item.add(name, arguments, alternatives=True)
        elif isinstance(each, list):
            for text in each:
                if isinstance(text, str):
                    _take_call(text, item)
        elif isinstance(each, str):
            _take_text(each, item)


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
        elif isinstance(inner, dict):
            arguments = inner.get("arguments")
            item.add(
                inner.get("name"), _inside(arguments) if isinstance(arguments, str) else arguments
            )
            waiting += reversed(inner.values())
        elif isinstance(inner, list):
            waiting += reversed(inner)


def _inside(text: str) -> Any:
    """What a text holds that is a JSON object or list; None if it is none."""
    if text[:1] not in "{[" or text[-1:] not in "}]" or len(text) > LARGEST_TEXT:
        return None
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return None
