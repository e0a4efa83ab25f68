"""A conversation that others wrote, taken turn by turn into our messages.

What the readers of chat forms share: tools, calls and results however they are named and paired,
API Search, notes of what has no place in our record; and JSON in text as others write it. Rows are
hostile: nothing in them is evaluated, and neither depth nor size may cost much.
"""

from __future__ import annotations

import datetime as dt
import json
import re
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple, TypeAlias

from toolloom.llm.wire import readings as repaired
from toolloom.pipeline.checks.text.call_text import CallTextError, parse
from toolloom.pipeline.formats.files import ForeignRow, foreign_rows
from toolloom.pipeline.formats.intake import line, text
from toolloom.pipeline.formats.reading import (
    Reading,
    Script,
    Toolbox,
    dialogue,
    envelope,
    fault,
    json_of,
    refused,
)
from toolloom.schemas import API_SEARCH, Ability, Finding, JsonObject, Reason, Scenario
from toolloom.schemas.api import SourceKind

Take: TypeAlias = Callable[[JsonObject, ForeignRow], Reading]

MOST_TOOLS = 1_000
MOST_CALLS = 1_000
_NOTES = 40  # different notes on a row
_MENDS = 8  # texts of a row that are mended, or are tried to be
_FAULTS = 200  # of one row
_SHARED = 1_000_000  # letters of a result that is given to several calls, all told
_THOUGHTS = ("think", "scratch_pad")


class RowCall(NamedTuple):
    """A call as a row has it."""

    name: Any
    arguments: Any = None
    id: str = ""


def readings(path: Path, take: Take) -> Iterator[Reading]:
    """Every row of a file, read by `take`, which gets objects of bearable size only."""
    for row in foreign_rows(path):
        if row.fault:
            yield refused(row)
        elif not isinstance(row.value, dict):
            yield refused(row, "it is no JSON object")
        elif why := excess(row.value):
            yield refused(row, why)
        else:
            yield take(row.value, row)


def identity(value: JsonObject, row: ForeignRow) -> str:
    """What the row calls itself, or its place."""
    return line(value.get("id")) or row.place


class Conversation:
    """Turns on their way into a dialogue, with what has no place there and what is wrong."""

    def __init__(self, kind: SourceKind, row: ForeignRow) -> None:
        self.tools = Toolbox(kind)
        self.faults: list[Finding] = []
        self._row = row
        self._script = Script()
        self._notes: dict[str, None] = {}
        self._open: dict[str, str] = {}  # calls without a result: id, function name
        self._named = False  # the row gives its calls ids
        self._calls = 0
        self._mends = 0
        self._searches = False
        self._results = False
        self._last = ""
        self._now: dt.datetime | None = None

    def note(self, told: str) -> None:
        """What has no place in our record. Each note counts once in a row."""
        if len(self._notes) < _NOTES:
            self._notes[told] = None

    def fields(self, value: JsonObject, known: Iterable[str]) -> None:
        """Note the columns of a row that are not read."""
        for key in [key for key in value if key not in known]:
            self.note(f"field `{line(key)[:60]}`")

    def fault(self, reason: Reason, detail: str) -> None:
        """A fault of the last message, found while it was read."""
        if len(self.faults) < _FAULTS:
            turn = len(self._script.messages()) - 1 if self._last else None
            self.faults.append(fault(reason, detail, turn))

    def mended(self, value: Any) -> tuple[Any, str]:
        """`opened`, mended where it must be, as often as a row may cost."""
        found, how = opened(value, mend=self._mends < _MENDS)
        self._mends += isinstance(found, str) or "mended" in how
        return found, how

    def left_out(self, turn: str, role: str) -> None:
        """A turn of a role that no record has. `turn`: what the format calls it."""
        self.fault(
            Reason.MALFORMED_DIALOGUE, f"a {turn} of the role `{role[:60]}`, which is left out"
        )

    # Tools

    def offer(self, listed: Any) -> None:
        """Tools as a list, or as JSON text of one; each nested under `function` or flat."""
        found, how = opened(listed)
        if how:
            self.note(f"tools: the list {how}")
        if isinstance(found, dict):
            found = [found]
        if found is None or found == "":
            return
        if not isinstance(found, list):
            self.fault(Reason.ILLEGAL_SCHEMA, "its tools are no list that can be read")
            return
        if len(found) > MOST_TOOLS:
            self.note(f"tools: those after the first {MOST_TOOLS:,}")
        for entry in found[:MOST_TOOLS]:
            self._tool(opened(entry)[0])

    def _tool(self, entry: Any) -> None:
        inner = entry.get("function", entry) if isinstance(entry, dict) else None
        if not isinstance(inner, dict):
            self.fault(Reason.ILLEGAL_SCHEMA, "a tool that is no object")
            return
        schemas = (inner.get(key) for key in ("parameters", "input_schema", "inputSchema"))
        parameters, _ = opened(next((s for s in schemas if s is not None), None))
        properties = parameters.get("properties") if isinstance(parameters, dict) else None
        searched = isinstance(properties, dict) and [*properties] == ["keywords"]
        if searched and inner.get("name") == API_SEARCH.function:
            self._searches = True
            return
        returns = inner.get("returns", inner.get("output_schema"))
        self.tool(inner.get("name"), inner.get("description"), parameters, returns)

    def tool(self, name: Any, description: Any, parameters: Any, returns: Any = None) -> None:
        """Offer one function."""
        returns = returns if isinstance(returns, dict) else None
        if why := self.tools.add(name, description, parameters, returns):
            self.fault(Reason.ILLEGAL_SCHEMA, why)

    # Turns

    def system(self, content: Any) -> None:
        words = self._words(content)
        self._now = self._now or present(words)
        self._script.system(words)
        self._last = "system"

    def user(self, content: Any) -> None:
        self._script.user(self._words(content))
        self._open, self._last = {}, "user"

    def assistant(self, content: Any, calls: Iterable[RowCall] = ()) -> None:
        """Words, calls, or both."""
        words = self._words(content)
        for tag in _THOUGHTS:
            words, thoughts = tagged(words, tag)
            if thoughts:
                self.note(f"what stands in <{tag}>")
        made = [*calls]
        if self._calls + len(made) > MOST_CALLS:
            self.note(f"calls: those after the first {MOST_CALLS:,}")
            made = made[: MOST_CALLS - self._calls]
        if self._last == "words":
            self.note("messages of the assistant that follow each other, joined to one")
        self._named = self._named or any(call.id for call in made)
        asked = [(self.tools.called(c.name), self._arguments(c.arguments)) for c in made]
        # The row's own ids, so that one that is used twice is found; else a number.
        own = [text(call.id) or f"call {n}" for n, call in enumerate(made, self._calls + 1)]
        self._calls += len(made)
        ids = self._script.assistant(words.strip(), asked, own)
        self._open = {i: name for i, (name, _) in zip(ids, asked, strict=True)}
        self._last = "calls" if made else "words"

    def _arguments(self, given: Any) -> Any:
        value, how = self.mended(given)
        if how:
            self.note(f"arguments: text that {how}")
        if value is None or value == "":
            self.note("arguments: none, read as {}")
            return {}
        if isinstance(value, dict):
            return {text(key): part for key, part in value.items()}
        return text(value) if isinstance(value, str) else value

    def result(self, content: Any, call_id: Any = None, name: Any = None) -> None:
        """A result as the row has it: our envelope, JSON, or any text."""
        value, how = opened(joined(content))
        if how:
            self.note(f"results: text that {how}")
        self.observed(*envelope(value), call_id, name)

    def results(self, content: Any) -> None:
        """One turn that answers all open calls: a list of as many results, or one for them all."""
        value, _ = opened(joined(content))
        waiting = len(self._open)
        if waiting < 2:
            self.result(content)
        elif isinstance(value, list) and len(value) == waiting:
            for one in value:
                self.result(one)
        elif isinstance(content, str) and len(content) * waiting <= _SHARED:
            self.note("results: one turn for several calls, taken as the result of each")
            for _ in range(waiting):
                self.result(content)
        else:
            self.result(content)

    def observed(
        self, response: Any, error: str | None, call_id: Any = None, name: Any = None
    ) -> None:
        """A result of the call with this id; else of the first open one of this name, or of any."""
        called = self.tools.called(name) if isinstance(name, str) and name else None
        found, function = self._answered(text(call_id), called)
        if function == API_SEARCH.function and self._searches:
            for found_api in response if isinstance(response, list) else [response]:
                if isinstance(found_api, dict):
                    self._tool(found_api)
        self._script.result(found, response, error, called or function)
        self._results, self._last = True, "result"

    def _answered(self, call_id: str, name: str | None) -> tuple[str | None, str | None]:
        if call_id and (self._named or call_id in self._open):
            return call_id, self._open.pop(call_id, None)
        same = (key for key, function in self._open.items() if function == name)
        first = next(same, next(iter(self._open), None))
        return (first, self._open.pop(first)) if first is not None else (None, None)

    def _words(self, content: Any) -> str:
        content = joined(content)
        if isinstance(content, list | dict):
            self.note("content that is no text")
            return text(json.dumps(content, ensure_ascii=False, default=str))
        return text(content) if isinstance(content, str) else ""

    def reading(self, name: str, scenario: Scenario | None = None) -> Reading:
        """The row, read. Refused if nobody says anything in it.

        A row may end with calls, which are what it teaches: their results are not missing.
        """
        messages = self._script.messages()
        if all(message.role == "system" for message in messages):
            return refused(self._row, "it has no messages", self._notes)
        ability = Ability.RETRIEVE_CALL if self._searches else Ability.CALL
        made = dialogue(
            name, messages, self.tools.pool, ability=ability, scenario=scenario, now=self._now
        )
        ends_open = self._last == "calls"
        return Reading(
            self._row.place,
            self._row.value,
            made,
            tuple(dict.fromkeys([*self._notes, *self.tools.unmapped])),
            tuple(self.faults),
            has_results=self._results and not ends_open,
            has_reply=self._last == "words",
        )


DEEPEST = 64  # nesting of a row, and again of JSON text in it
PARTS = 200_000  # values of a row
MOST_TURNS = 500
_LITERAL = 400_000  # letters that are read as Python writes them
_MENDED = 2_000  # letters that are mended: the time that takes grows with their square
_PRESENT = re.compile(
    r"\b(?:present moment|current (?:date|time|date and time|datetime)|today(?:'s date)?)\s*"
    r"(?:is|:)\s*(?:[A-Za-z]+,? )?(\d{4}-\d\d-\d\d)(?:[ T](\d\d:\d\d))?",
    re.IGNORECASE,
)


def excess(value: Any) -> str | None:
    """What makes a value too deep or too large to be looked at, or None."""
    stack, parts = [(value, 0)], 0
    while stack:
        item, depth = stack.pop()
        parts += 1
        if depth > DEEPEST:
            return f"it is nested deeper than {DEEPEST} levels"
        if isinstance(item, dict):
            stack += [(part, depth + 1) for part in item.values()]
        elif isinstance(item, list | tuple):
            stack += [(part, depth + 1) for part in item]
        if parts + len(stack) > PARTS:
            return f"it has more than {PARTS:,} parts"
    return None


def opened(value: Any, mend: bool = False) -> tuple[Any, str]:
    """The value of a text that is JSON, or nearly, and how it was read if it is not JSON.

    Anything else, and text that cannot be read, is given back. Python's way to write values is
    parsed, never evaluated. `mend`: also what json_repair makes of it.
    """
    if not isinstance(value, str) or value.lstrip()[:1] not in {"{", "["}:
        return value, ""
    for read, how in _WAYS:
        found = read(value)
        if isinstance(found, dict | list):
            return (value, "") if excess(found) else (found, how)
    if mend and len(value) <= _MENDED:
        found, how = next(repaired(value), (None, ""))
        if isinstance(found, dict | list) and not excess(found):
            return found, "is no JSON and was mended"
    return value, ""


def _literal(written: str) -> Any:
    if len(written) > _LITERAL:
        return None
    try:
        call, *others = parse(f"value(it={written.strip()})")
    except (CallTextError, ValueError, RecursionError):
        return None
    single = not others and isinstance(call.arguments, dict) and call.arguments.keys() == {"it"}
    return call.arguments["it"] if single and isinstance(call.arguments, dict) else None


_WAYS = (
    (json_of, ""),
    (partial(json_of, strict=False), "has line breaks in its strings"),
    (_literal, "is written as Python, not as JSON"),
)


def turns_in(value: Any) -> list[JsonObject] | str:
    """The turns of a column, of which each may be JSON text, or why they are none."""
    listed, _ = opened(value)
    if not isinstance(listed, list) or not listed:
        return "it has no turns"
    if len(listed) > MOST_TURNS:
        return f"it has more than {MOST_TURNS} turns"
    found = [opened(turn)[0] for turn in listed]
    wrong = next((n for n, turn in enumerate(found, 1) if not isinstance(turn, dict)), 0)
    return f"its turn {wrong} is no object" if wrong else found


def tagged(written: str, tag: str) -> tuple[str, list[str]]:
    """A text without its `<tag>…</tag>`, and what stands in them. One without an end stays."""
    start, end = f"<{tag}>", f"</{tag}>"
    outside, inside, at = list[str](), list[str](), 0
    while (opening := written.find(start, at)) >= 0:
        closing = written.find(end, opening)
        if closing < 0:
            break
        outside.append(written[at:opening])
        inside.append(written[opening + len(start) : closing])
        at = closing + len(end)
    return "".join([*outside, written[at:]]), inside


def joined(content: Any) -> Any:
    """Content in parts as one text, if all its parts are texts."""
    if isinstance(content, list) and content:
        parts = [p.get("text") if isinstance(p, dict) and "type" in p else p for p in content]
        words = [part for part in parts if isinstance(part, str)]
        return "".join(words) if len(words) == len(parts) else content
    return content


def present(told: str) -> dt.datetime | None:
    """The present a system turn tells, as ours do or in words much used for it."""
    found = _PRESENT.search(told)
    try:
        return dt.datetime.fromisoformat(f"{found[1]}T{found[2] or '00:00'}") if found else None
    except ValueError:
        return None
