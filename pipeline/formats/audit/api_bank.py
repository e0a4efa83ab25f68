"""API-Bank: annotated dialogues, a file each, and the training rows made of them.

Of the APIs a file or folder knows what its searches found and its rows describe.
"""

from __future__ import annotations

import datetime as dt
import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from toolloom.pipeline.checks.text.call_text import CallTextError, parse
from toolloom.pipeline.checks.transcript import shown
from toolloom.pipeline.formats.audit.bank_dialogue import (
    BankDialogue,
    described,
    is_described,
    name_of,
)
from toolloom.pipeline.formats.audit.reading import Reading, refused
from toolloom.pipeline.formats.audit.rows import ForeignRow, files, rows
from toolloom.pipeline.formats.audit.values import excess
from toolloom.pipeline.formats.importers.bank_rows import SEARCH
from toolloom.pipeline.formats.importers.intake import text
from toolloom.schemas import JsonObject, Reason

_TURN = re.compile(r"^\s*(User|AI|API-Request|API-Response)\s*:", re.MULTILINE)
_ASKED = re.compile(r"\s*Generate (?:API Request|AI Response):\s*\Z")
_ANSWERED = re.compile(r"\)\s*\]?\s*->")
_NOW = re.compile(r"current time is (\d{4}-\d\d-\d\d[ T]\d\d:\d\d(?::\d\d)?)", re.IGNORECASE)
_LONGEST = 1_000_000  # letters of a training row, turns of a dialogue
_MOST = 5_000


def read(path: Path) -> Iterator[Reading]:
    """Dialogues of one file each, or training rows. Raises StoreError."""
    found = files(path, (".json", ".jsonl"))
    known = _descriptions(found)
    for file in found:
        yield from _file(file, known)


def _descriptions(found: list[Path]) -> dict[str, JsonObject]:
    """The APIs that searches of any of the files found, by name."""
    known: dict[str, JsonObject] = {}
    for file in found:
        for row in rows(file):
            value = row.value if isinstance(row.value, dict) else {}
            result = value.get("result")
            if value.get("api_name") == SEARCH and not excess(value) and isinstance(result, dict):
                for one in described(result.get("output")):
                    known.setdefault(name_of(one), one)
    return known


def _file(file: Path, known: dict[str, JsonObject]) -> Iterator[Reading]:
    """Turns, each on a line, are one dialogue; anything else is a row of its own."""
    turns, faulty = list[ForeignRow](), None
    for row in rows(file):
        value = row.value if isinstance(row.value, dict) else {}
        if why := excess(value):
            row, value = ForeignRow(row.place, fault=why), {}
        if "role" in value and len(turns) < _MOST:
            turns.append(row)
        elif "input" in value or "instruction" in value:
            yield _training(row, value, known)
        elif turns:
            faulty = faulty or row
        else:
            yield refused(row, row.fault or "neither a turn of a dialogue nor a training row")
    if turns and faulty:
        why = f"{faulty.place}: {faulty.fault or 'no turn of a dialogue'}"
        yield refused(ForeignRow(file.name, [t.value for t in turns]), why)
    elif turns:
        yield BankDialogue(file.name, known).read([turn.value for turn in turns])


def _training(row: ForeignRow, value: JsonObject, known: dict[str, JsonObject]) -> Reading:
    """A row of the released training data: the dialogue so far as text, and what is to follow."""
    asked = f"{text(value.get('instruction'))}\n{text(value.get('input'))}"
    output = text(value.get("output")) or text(value.get("expected_output"))
    if len(asked) > _LONGEST or not output.strip():
        return refused(row, "it is too long" if output.strip() else "it has no `output`")
    made = BankDialogue(row.place, known)
    for written in asked.splitlines():
        one = _object(written)
        if is_described(one):
            made.offer(one)
    story = text(value.get("input")) if _TURN.search(text(value.get("input"))) else asked
    for role, words in _turns(story):
        _tell(made, role, words)
    role, words = next(_turns(output), ("AI", output))
    _tell(made, role, words)
    when = _NOW.search(asked)
    return made.reading(value, dt.datetime.fromisoformat(when[1]) if when else None)


def _object(written: str) -> Any:
    try:
        return json.loads(written) if written.lstrip().startswith("{") else None
    except (ValueError, RecursionError):
        return None


def _turns(story: str) -> Iterator[tuple[str, str]]:
    """Roles and words of a dialogue that is written as text."""
    marks = list(_TURN.finditer(story))
    ends = [mark.start() for mark in marks[1:]] + [len(story)]
    for mark, end in zip(marks, ends, strict=False):
        words = story[mark.end() : end].strip()
        yield mark[1], _ASKED.sub("", words).strip()


def _tell(made: BankDialogue, role: str, words: str) -> None:
    if role == "User":
        made.script.user(words)
    elif role == "AI":
        if words:
            made.script.assistant(words)
    elif words:
        _request(made, words)


def _request(made: BankDialogue, words: str) -> None:
    """`[Name(key='value')]`, with its answer after `->` where there is one."""
    arrow = _ANSWERED.search(words)
    asked = words[: arrow.start()] + ")]" if arrow else words
    if arrow and not asked.lstrip().startswith("["):
        asked = asked[:-1]
    answer = words[arrow.end() :].strip() if arrow else None
    try:
        calls = parse(asked)
    except (CallTextError, RecursionError) as error:
        made.fault(f"{error}: {shown(words)}", Reason.FALSE_API_CALL_FORMAT)
        return
    for call in calls:
        made.call(call.name, call.arguments, None if answer is None else _answer(answer))


def _answer(written: str) -> tuple[Any, str | None]:
    """What a call gave, which Python wrote: the output, and the exception if it names one."""
    try:
        held = parse(f"Answer(it={written})")[0].arguments
        value = held.get("it") if isinstance(held, dict) else written
    except (CallTextError, RecursionError):
        value = written
    if isinstance(value, dict) and {"output", "exception"} <= value.keys():
        error = value["exception"]
        return value["output"], None if error is None else str(error)
    return value, None
