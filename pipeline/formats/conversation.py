"""A dialogue that others wrote, taken turn by turn into our record.

What the readers of all forms share: tools, calls and results however they are named and paired,
API Search, notes of what has no place in our record; and JSON in text as others write it. Rows are
hostile: nothing in them is evaluated, and neither depth nor size may cost much. A reader never
raises for a row, only for a file (StoreError): a row that is no dialogue is `refused`.
"""

from __future__ import annotations

import datetime as dt
import json
import re
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any, NamedTuple

from toolloom.pipeline.checks.contradictions import NO_DATE
from toolloom.pipeline.checks.schema import UncheckableSchema, as_dict, oddity, violations
from toolloom.pipeline.checks.text.call_text import literal
from toolloom.pipeline.formats.import_log import ImportLog, line, text
from toolloom.pipeline.formats.json_schema import SCHEMAS, SchemaBudget, arguments, first, plain
from toolloom.pipeline.formats.rows import ForeignRow
from toolloom.schemas import (
    API_SEARCH,
    Ability,
    Api,
    Dialogue,
    Finding,
    FunctionCall,
    JsonObject,
    Message,
    Query,
    Reason,
    Scenario,
    Source,
    ToolCall,
)
from toolloom.schemas.api import SourceKind

DEEPEST = 64  # nesting of a row, and again of JSON text in it
PARTS = 200_000  # values of a row
MOST_TURNS = 500
MOST_TOOLS = MOST_CALLS = 1_000
_NOTES, _FAULTS = 40, 200  # of one row
_MENDS, _MENDED = 8, 2_000  # texts of a row that are mended, and how long each may be
_SHARED = 1_000_000  # letters of a result that is given to several calls, all told
_ROOMY = SchemaBudget(bytes=400_000, depth=10)  # an audit judges by the whole schema
_PRESENT = re.compile(
    r"\b(?:present moment|current (?:date|time|date and time|datetime)|today(?:'s date)?)\s*"
    r"(?:is|:)\s*(?:[A-Za-z]+,? )?(\d{4}-\d\d-\d\d)(?:[ T](\d\d:\d\d))?",
    re.IGNORECASE,
)


@dataclass(frozen=True)
class Reading:
    """A row, read. The flags say what it holds: checks that need more are not run."""

    place: str
    raw: Any
    dialogue: Dialogue | None = None
    unmapped: tuple[str, ...] = ()
    faults: tuple[Finding, ...] = field(default=(), repr=False)
    has_results: bool = False  # its calls have observations
    has_reply: bool = False  # it ends with words of the assistant


def refused(row: ForeignRow, why: str = "", unmapped: Iterable[str] = ()) -> Reading:
    """A row that is no dialogue: unreadable, or without what its form asks for."""
    finding = Finding(check="reading", reason=Reason.MALFORMED_DIALOGUE, detail=why or row.fault)
    raw = row.raw if row.fault else row.value
    return Reading(row.place, raw, None, tuple(unmapped), (finding,))


class RowCall(NamedTuple):
    """A call as a row has it."""

    name: Any
    arguments: Any = None
    id: str = ""

    @classmethod
    def of(cls, entry: Any, bare: bool = False) -> RowCall | None:
        """The call of an object, nested under `function` or flat; none without a name, and of one
        that stands `bare`, as nothing says that it is a call, none without arguments."""
        inner = entry.get("function", entry) if isinstance(entry, dict) else None
        if not isinstance(inner, dict) or not isinstance(inner.get("name"), str):
            return None
        if bare and not {"arguments", "parameters"} & inner.keys():
            return None
        given = inner.get("arguments", inner.get("parameters"))
        return cls(inner["name"], given, text(entry.get("id")))


class Conversation:
    """Turns on their way into a dialogue, with what has no place there and what is wrong.

    An assistant's words and the calls that follow them are one message, and a dialogue has one
    system message, empty where none is told.
    """

    def __init__(self, kind: SourceKind, row: ForeignRow) -> None:
        self.faults: list[Finding] = []
        self._kind = kind
        self._log = ImportLog(kind)  # gives out names
        self._row = row
        self.pool: dict[str, Api] = {}  # by function
        self._names: dict[str, str] = {}  # the row's name of a tool → its function
        self._messages: list[Message] = []
        self._notes: dict[str, None] = {}
        self._open: dict[str, str] = {}  # calls without a result: id, function name
        self._named = False  # the row gives its calls ids
        self._calls = self._mends = 0
        self.searches = False  # API Search is on offer
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
            turn = len(self._all()) - 1 if self._messages else None
            self.faults.append(Finding(check="reading", reason=reason, turn=turn, detail=detail))

    def mended(self, value: Any) -> tuple[Any, str]:
        """`opened`, mended where it must be, as often as a row may cost."""
        found, how = opened(value, mend=self._mends < _MENDS)
        self._mends += isinstance(found, str) or "mended" in how
        return found, how

    def noted(self, read: tuple[Any, str], what: str) -> Any:
        """The value of `opened`, with a note if its text is not quite JSON."""
        if read[1]:
            self.note(f"{what} {read[1]}")
        return read[0]

    def left_out(self, turn: str, role: str) -> None:
        """A turn of a role that no record has. `turn`: what the form calls it."""
        detail = f"a {turn} of the role `{role[:60]}`, which is left out"
        self.fault(Reason.MALFORMED_DIALOGUE, detail)

    # Tools

    def api(self, name: Any) -> Api | None:
        """The record of a function, by the name the row calls it."""
        return self.pool.get(self._names.get(line(name), ""))

    def offer(self, listed: Any) -> None:
        """Tools as a list, or as JSON text of one; each nested under `function` or flat."""
        found = self.noted(opened(listed), "tools: the list")
        if isinstance(found, dict):
            found = [found]
        if found is None or found == "":
            return
        if not isinstance(found, list):
            self.fault(Reason.ILLEGAL_SCHEMA, "its tools are not a list that can be read")
            return
        if len(found) > MOST_TOOLS:
            self.note(f"tools: those after the first {MOST_TOOLS:,}")
        for entry in found[:MOST_TOOLS]:
            self._offered(opened(entry)[0])

    def _offered(self, entry: Any) -> None:
        inner = entry.get("function", entry) if isinstance(entry, dict) else None
        if not isinstance(inner, dict):
            self.fault(Reason.ILLEGAL_SCHEMA, "a tool that is not an object")
            return
        parameters, _ = opened(first(inner, *SCHEMAS))
        taken = [*as_dict(as_dict(parameters).get("properties"))]
        if taken == ["keywords"] and inner.get("name") == API_SEARCH.function:
            self.searches = True
            return
        returns = as_dict(inner.get("returns", inner.get("output_schema")))
        self.tool(inner.get("name"), inner.get("description"), parameters, returns)

    def tool(self, name: Any, description: Any, parameters: Any, returns: Any = None) -> None:
        """Offer one function, under a legal and unique name."""
        called = line(name)
        if not called:
            self.fault(Reason.ILLEGAL_SCHEMA, "a tool without a name")
        elif called in self._names:
            self.note("tools: the second description of a function with the same name")
        else:
            function = self._log.function(called, called)
            key = json.dumps([description, parameters, returns], sort_keys=True, default=str)
            api, lost = _api(self._kind, called, function, key)
            self._names[called], self.pool[function] = function, api
            for one in lost:
                self.note(one)

    # Turns

    def system(self, content: Any, now: dt.datetime | None = None) -> None:
        words = self._words(content)
        self._now = self._now or now or present(words)
        self._messages.append(Message(role="system", content=words))

    def user(self, content: Any) -> None:
        self._messages.append(Message(role="user", content=self._words(content)))
        self._open = {}

    def assistant(self, content: Any, calls: Iterable[RowCall] = ()) -> None:
        """Words, calls, or both."""
        words = self._words(content)
        for tag in ("think", "scratch_pad"):
            words, thoughts = tagged(words, tag)
            if thoughts:
                self.note(f"what stands in <{tag}>")
        asked = [*calls]
        if self._calls + len(asked) > MOST_CALLS:
            self.note(f"calls: those after the first {MOST_CALLS:,}")
            asked = asked[: MOST_CALLS - self._calls]
        made = []
        for call in asked:
            self._calls += 1
            self._named = self._named or bool(call.id)
            given = self._arguments(call.arguments)
            unread = given if isinstance(given, dict | str) else json.dumps(given, default=str)
            named = self._names.get(line(call.name), text(call.name))
            # The row's own ids, so that one that is used twice is found; else a number.
            own = text(call.id) or f"call {self._calls}"
            made.append(ToolCall(id=own, function=FunctionCall(name=named, arguments=unread)))
        told = text(words.strip()) or None
        last = self._messages[-1] if self._messages else None
        if last and last.role == "assistant" and not last.tool_calls:
            if not made:
                self.note("messages of the assistant that follow each other, joined to one")
            told = "\n".join(filter(None, (last.content, told))) or None
            self._messages.pop()
        self._messages.append(Message(role="assistant", content=told, tool_calls=tuple(made)))
        self._open = {call.id: call.function.name for call in made}

    def _arguments(self, given: Any) -> Any:
        value = self.noted(self.mended(given), "arguments: text that")
        if value is None or value == "":
            self.note("arguments: none, read as {}")
            return {}
        if isinstance(value, dict):
            return {text(key): part for key, part in value.items()}
        return text(value) if isinstance(value, str) else value

    def result(self, content: Any, call_id: Any = None, name: Any = None) -> None:
        """A result as the row has it: our envelope, JSON, or any text."""
        value = self.noted(opened(_joined(content)), "results: text that")
        error = None
        if isinstance(value, dict) and value.keys() == {"response", "error"}:
            failed, value = value["error"], value["response"]
            error = failed if failed is None else str(failed)
        self.observed(value, error, call_id, name)

    def results(self, content: Any) -> None:
        """One turn that answers all open calls: a list of as many results, or one for them all."""
        value, _ = opened(_joined(content))
        waiting = len(self._open)
        each = [content]
        if waiting > 1 and isinstance(value, list) and len(value) == waiting:
            each = value
        elif waiting > 1 and isinstance(content, str) and len(content) * waiting <= _SHARED:
            self.note("results: one turn for several calls, taken as the result of each")
            each *= waiting
        for one in each:
            self.result(one)

    def observed(
        self, response: Any, error: str | None, call_id: Any = None, name: Any = None
    ) -> None:
        """A result of the call with this id; else of the first open one of this name, or of any."""
        called = self._names.get(line(name), text(name)) if isinstance(name, str) and name else None
        found: str | None = text(call_id)
        if not found or not (self._named or found in self._open):
            same = (i for i, function in self._open.items() if function == called)
            found = next(same, next(iter(self._open), None))
        function = self._open.pop(found or "", None)
        if function == API_SEARCH.function and self.searches:
            for one in response if isinstance(response, list) else [response]:
                if isinstance(one, dict):
                    self._offered(one)
        held = json.dumps({"response": response, "error": error}, ensure_ascii=False, default=str)
        self._messages.append(
            Message(role="tool", content=text(held), tool_call_id=found, name=called or function)
        )

    def _words(self, content: Any) -> str:
        content = _joined(content)
        if isinstance(content, list | dict):
            self.note("content that is not text")
            content = json.dumps(content, ensure_ascii=False, default=str)
        return text(content)

    def _all(self) -> tuple[Message, ...]:
        if self._messages and self._messages[0].role == "system":
            return tuple(self._messages)
        return (Message(role="system", content=""), *self._messages)

    def reading(self, name: str = "") -> Reading:
        """The row, read. Refused if nobody says anything in it.

        A row may end with calls, which are what it teaches: their results are not missing. Intent
        and scenario are unknown, and no check of an audit looks at them.
        """
        messages, row = self._all(), self._row
        if all(message.role == "system" for message in messages):
            return refused(row, "it has no messages", self._notes)
        query = Query(
            id=name or row.place,
            ability=Ability.RETRIEVE_CALL if self.searches else Ability.CALL,
            scenario=Scenario.SINGLE,
            now=self._now or NO_DATE,
            pool=tuple(self.pool.values()),
            intent=(),
            text=next((m.content for m in messages if m.role == "user"), None) or "-",
        )
        last = messages[-1]
        return Reading(
            row.place,
            row.value,
            Dialogue(query=query, messages=messages),
            tuple(self._notes),
            tuple(self.faults),
            has_results=any(m.role == "tool" for m in messages) and not last.tool_calls,
            has_reply=last.role == "assistant" and not last.tool_calls,
        )


@lru_cache(maxsize=4096)
def _api(kind: SourceKind, called: str, function: str, key: str) -> tuple[Api, tuple[str, ...]]:
    """The record of a description, and what its schemas lost. Cached: rows share their tools."""
    description, parameters, returns = json.loads(key)
    log, lost = ImportLog(called), []
    if parameters is not None and not isinstance(parameters, dict):
        lost.append("tools: parameters that are not an object")
        parameters = None
    read = arguments(parameters or {}, ledger=log, api=called, budget=_ROOMY)
    api = Api(
        category="audit",
        tool="audit",
        name=called,
        function=function,
        description=text(description),
        parameters=_with_defaults(read, parameters),
        returns=plain(returns or {}, ledger=log, api=called, budget=_ROOMY) or None,
        source=Source(kind=kind),
    )
    report = log.report(imported=1)
    lost += [f"tools: schema keywords left out ({cut.why})" for cut in report.cut]
    lost += [f"tools: a reference that is not followed ({r.why})" for r in report.unresolved]
    return api, tuple(dict.fromkeys(lost))


def _with_defaults(schema: JsonObject, given: Any) -> JsonObject:
    """The schema with every default it names allowed, although its own types forbid it.

    `N/A` for a unit of seconds or milliseconds is no fault of the call that leaves it so.
    """
    named = as_dict(as_dict(given).get("properties"))
    properties = dict(schema.get("properties", {}))
    for name, inner in properties.items():
        default = as_dict(named.get(name)).get("default")
        if default is None or oddity(default) or not isinstance(inner, dict):
            continue
        with suppress(UncheckableSchema):
            if violations(inner, default):
                about = {k: inner[k] for k in ("description",) if k in inner}
                either = [inner, {"const": default}]
                properties[name] = {**about, "default": default, "anyOf": either}
    return {**schema, "properties": properties} if properties else schema


# Values in text


def json_of(written: str, strict: bool = True) -> Any:
    """The value of JSON text, or None for what is none. Not `strict`: with raw line breaks."""
    try:
        return json.loads(written, strict=strict)
    except (ValueError, RecursionError):
        return None


def opened(value: Any, mend: bool = False) -> tuple[Any, str]:
    """The value of a text that is JSON, or nearly, and how it was read if it is not JSON.

    Anything else, and text that cannot be read, is given back. Python's way to write values is
    parsed, never evaluated. `mend`: also what json_repair makes of it.
    """
    if not isinstance(value, str) or value.lstrip()[:1] not in {"{", "["}:
        return value, ""
    found, how = json_of(value), ""
    if found is None:
        found, how = json_of(value, strict=False), "has line breaks in its strings"
    if found is None:
        with suppress(ValueError):
            found, how = literal(value), "is written as Python, not as JSON"
    if found is None and mend and len(value) <= _MENDED:
        from toolloom.llm.messages import readings  # 0.2 s

        found, how = next(readings(value), (None, ""))[0], "is not JSON and was mended"
    return (found, how) if isinstance(found, dict | list) and not excess(found) else (value, "")


def excess(value: Any) -> str | None:
    """What makes a value too deep or too large to be looked at, or None."""
    stack, parts = [(value, 0)], 0
    while stack:
        item, depth = stack.pop()
        parts += 1
        if depth > DEEPEST:
            return f"it is nested deeper than {DEEPEST} levels"
        if isinstance(item, dict | list | tuple):
            inner = item.values() if isinstance(item, dict) else item
            stack += [(part, depth + 1) for part in inner]
        if parts + len(stack) > PARTS:
            return f"it has more than {PARTS:,} parts"
    return None


def turns_in(value: Any) -> list[JsonObject] | str:
    """The turns of a column, of which each may be JSON text, or why they are none."""
    listed, _ = opened(value)
    if not isinstance(listed, list) or not listed:
        return "it has no turns"
    if len(listed) > MOST_TURNS:
        return f"it has more than {MOST_TURNS} turns"
    found = [opened(turn)[0] for turn in listed]
    wrong = next((n for n, turn in enumerate(found, 1) if not isinstance(turn, dict)), 0)
    return f"its turn {wrong} is not an object" if wrong else found


def tagged(written: str, tag: str) -> tuple[str, list[str]]:
    """A text without its `<tag>…</tag>`, and what stands in them. One without an end stays."""
    head, end, tail = written.rpartition(f"</{tag}>")
    pieces = re.split(rf"<{tag}>(.*?)</{tag}>", head + end, flags=re.DOTALL)
    return "".join(pieces[::2]) + tail, pieces[1::2]


def _joined(content: Any) -> Any:
    """Content in parts as one text, if all its parts are texts."""
    if isinstance(content, list) and content:
        parts = [p.get("text") if isinstance(p, dict) and "type" in p else p for p in content]
        told = [part for part in parts if isinstance(part, str)]
        return "".join(told) if len(told) == len(parts) else content
    return content


def present(told: str) -> dt.datetime | None:
    """The present a system turn tells, as ours do or in words much used for it."""
    found = _PRESENT.search(told)
    try:
        return dt.datetime.fromisoformat(f"{found[1]}T{found[2] or '00:00'}") if found else None
    except ValueError:
        return None
