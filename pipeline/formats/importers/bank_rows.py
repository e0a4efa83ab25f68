"""What files of API-Bank say of APIs: descriptions and calls, from each form it comes in."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeAlias

from toolloom.pipeline.checks.text.call_text import CallTextError, parse
from toolloom.pipeline.formats.importers.intake import line, text
from toolloom.pipeline.formats.importers.ledger import ImportLog
from toolloom.pipeline.formats.importers.rows import UNREAD, rows
from toolloom.schemas import ImportFailed
from toolloom.schemas.base import JsonObject

SEARCH = "ToolSearcher"
_LARGEST_SCENE = 1_000_000
_LONGEST = 100_000  # letters of a line in running text that are looked at
_CALLED = re.compile(r"(?:API-Request\s*:\s*)?\[?\s*([A-Za-z_]\w*)\s*\(")
_ANSWERED = re.compile(r"\)\s*\]?\s*->\s*")


@dataclass(frozen=True)
class Described:
    """An API's description."""

    name: str
    description: str
    inputs: JsonObject
    outputs: JsonObject


@dataclass(frozen=True)
class BankCall:
    """A call of an API, and what it answered if it did."""

    name: str
    arguments: JsonObject = field(default_factory=dict)
    output: Any = None
    answered: bool = False


Fact: TypeAlias = Described | BankCall


def is_bank_row(row: Any) -> bool:
    """Whether a JSON value is a description, a turn of a dialogue or a training row."""
    if not isinstance(row, dict):
        return False
    if row.get("role") in ("User", "AI", "API"):
        return "text" in row or "api_name" in row
    if isinstance(row.get("input_parameters"), dict) or "apiCode" in row:
        return True
    asked = text(row.get("instruction")) + text(row.get("input"))
    return "input" in row and ("API descriptions" in asked or "API-Request" in asked)


def evidence(path: Path, ledger: ImportLog, document: Any = UNREAD) -> Iterator[Fact]:
    """All that one file says. What cannot be read of it is booked as skipped."""
    if path.suffix.lower() == ".txt":
        yield from _scene(path, ledger)
        return
    for place, row in rows(path, ledger, document):
        for number, entry in enumerate(row if isinstance(row, list) else [row], 1):
            if is_bank_row(entry):
                yield from _facts(entry)
            else:
                ledger.read += 1
                ledger.skip(f"{place}, row {number}", "It is none of API-Bank's forms.")


def _facts(row: dict[str, Any]) -> Iterator[Fact]:
    if row.get("role") == "API":
        yield from _turn(row)
    elif "input_parameters" in row or "apiCode" in row:
        yield from _described(row)
    else:
        for key in ("instruction", "input", "output", "expected_output"):
            for one in text(row.get(key)).splitlines():
                yield from _running(one[:_LONGEST].strip())


def _described(row: Any) -> Iterator[Described]:
    """A description; training rows of level 3 call its fields otherwise."""
    if not isinstance(row, dict):
        return
    name = line(row.get("name")) or line(row.get("apiCode"))
    inputs = row.get("input_parameters", row.get("parameters"))
    outputs = row.get("output_parameters", row.get("response"))
    if name and isinstance(inputs, dict):
        outputs = outputs if isinstance(outputs, dict) else {}
        yield Described(name, text(row.get("description")), inputs, outputs)


def _turn(row: dict[str, Any]) -> Iterator[Fact]:
    name, given = line(row.get("api_name")), row.get("param_dict")
    result = row.get("result")
    result = result if isinstance(result, dict) else {}
    if not name:
        return
    answered = "output" in result and not result.get("exception")
    arguments = given if isinstance(given, dict) else {}
    yield BankCall(name, arguments, result.get("output"), answered)
    if name == SEARCH:
        yield from _found(result.get("output"))


def _found(output: Any) -> Iterator[Described]:
    for entry in output if isinstance(output, list) else [output]:
        yield from _described(entry)


def _running(one: str) -> Iterator[Fact]:
    """A line of a training row: a description, or a call with or without its answer."""
    if one.startswith("{"):
        try:
            yield from _described(json.loads(one))
        except (ValueError, RecursionError):
            return
    elif one.startswith("API-Request"):
        asked, output = _split(one)
        calls = _parsed(asked)
        for call in calls:
            yield BankCall(call.name, call.arguments, output)
            if call.name == SEARCH:
                yield from _found(output)


def _split(one: str) -> tuple[str, Any]:
    """The call and its answer, where that is a list or an object as Python writes them."""
    arrow = _ANSWERED.search(one)
    if not arrow:
        return one, None
    answer = one[arrow.end() :].strip()
    asked = one[: arrow.start()] + ")" + ("]" if "[" in one[: arrow.start()] else "")
    if answer[:1] not in ("{", "["):
        return asked, None
    read = _parsed(f"Answer(it={answer})")
    return asked, read[0].arguments.get("it") if read else None


def _scene(path: Path, ledger: ImportLog) -> Iterator[BankCall]:
    try:
        if path.stat().st_size > _LARGEST_SCENE:
            raise ImportFailed(f"{path.name} is too large for a scene. Name the file that is one.")
        content = path.read_text("utf-8", "replace")
    except OSError as error:
        raise ImportFailed(f"{path.name} cannot be read: {error.strerror}.") from error
    ledger.bytes += path.stat().st_size
    after = re.split(r"(?i)API Calls?:", content, maxsplit=1)
    for one in after[1].splitlines() if len(after) > 1 else []:
        one = one.strip()[:_LONGEST]
        if not one:
            continue
        calls = _parsed(one[: one.rfind(")") + 1])
        yield from calls
        if not calls:
            ledger.read += 1
            ledger.skip(f"{path.name}: {one[:80]}", "It cannot be read as a call.")


def _parsed(written: str) -> list[BankCall]:
    if not _CALLED.match(written):
        return []
    try:
        return [
            BankCall(call.name, call.arguments)
            for call in parse(written)
            if isinstance(call.arguments, dict)
        ]
    except (CallTextError, RecursionError):
        return []
