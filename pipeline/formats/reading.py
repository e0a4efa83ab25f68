"""What a reader makes of a row: our record of it, what has no place there, what is wrong with it.

A reader is a function `read(path) -> Iterator[Reading]`. It never raises for a row, only for a
file (StoreError), and it yields one Reading for each row: `refused` where the row is no dialogue.
"""

from __future__ import annotations

import datetime as dt
import json
from collections.abc import Iterable
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any

from toolloom.pipeline.checks.contradictions import NO_DATE
from toolloom.pipeline.checks.schema import UncheckableSchema, oddity, violations
from toolloom.pipeline.formats.files import ForeignRow
from toolloom.pipeline.formats.import_log import ImportLog, legal
from toolloom.pipeline.formats.intake import line, text
from toolloom.pipeline.formats.json_schema import SchemaBudget, arguments, plain
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

# An audit judges by the whole schema, not by a short one.
_ROOMY = SchemaBudget(bytes=400_000, depth=10)


@dataclass(frozen=True)
class Reading:
    """A row, read. The flags say what its format holds: checks that need more are not run."""

    place: str
    raw: Any
    dialogue: Dialogue | None = None
    unmapped: tuple[str, ...] = ()
    faults: tuple[Finding, ...] = field(default=(), repr=False)
    has_results: bool = False  # its calls have observations
    has_reply: bool = False  # it ends with words of the assistant


def fault(reason: Reason, detail: str, turn: int | None = None) -> Finding:
    """What a reader itself finds, in the form of all findings."""
    return Finding(check="reading", reason=reason, turn=turn, detail=detail)


def refused(row: ForeignRow, why: str = "", unmapped: Iterable[str] = ()) -> Reading:
    """A row that is no dialogue: unreadable, or without what its format asks for."""
    finding = fault(Reason.MALFORMED_DIALOGUE, why or row.fault)
    raw = row.raw if row.fault else row.value
    return Reading(row.place, raw, None, tuple(unmapped), (finding,))


def decoded(value: Any) -> Any:
    """A cell that holds JSON as text, as a value; anything else, and broken JSON, as it is."""
    if not isinstance(value, str) or value.lstrip()[:1] not in {"{", "["}:
        return value
    read = json_of(value)
    return value if read is None else read


def json_of(written: str, strict: bool = True) -> Any:
    """The value of JSON text, or None for what is none. Not `strict`: with raw line breaks."""
    try:
        return json.loads(written, strict=strict)
    except (ValueError, RecursionError):
        return None


class Toolbox:
    """The functions a row offers, as `Api` records with legal and unique function names."""

    def __init__(self, kind: SourceKind) -> None:
        self._kind = kind
        self._pool: dict[str, Api] = {}
        self._names: dict[str, str] = {}
        self.unmapped: list[str] = []

    @property
    def pool(self) -> tuple[Api, ...]:
        return tuple(self._pool.values())

    def add(
        self, name: Any, description: Any = "", parameters: Any = None, returns: Any = None
    ) -> str | None:
        """Offer a function; why it cannot be offered, or None. All values may be hostile."""
        called = line(name)
        if not called:
            return "a tool without a name"
        if called in self._names:
            self.unmapped.append("tools: the second description of a function with the same name")
            return None
        function, number = legal(called), 2
        while function in self._pool or function == API_SEARCH.function:
            function, number = f"{legal(called)[:60]}_{number}", number + 1
        key = json.dumps([description, parameters, returns], sort_keys=True, default=str)
        api, lost = _api(self._kind, called, function, key)
        self.unmapped += lost
        self._names[called] = function
        self._pool[function] = api
        return None

    def api(self, name: Any) -> Api | None:
        """The record of a function, by the name the row calls it."""
        return self._pool.get(self._names.get(line(name), ""))

    def replace(self, api: Api) -> None:
        """Put a changed record in the place of the one with its function name."""
        self._pool[api.function] = api

    def called(self, name: Any) -> str:
        """The function name for a name as the row calls it; unknown names stay as they are."""
        return self._names.get(line(name), text(name))


@lru_cache(maxsize=4096)
def _api(kind: SourceKind, called: str, function: str, key: str) -> tuple[Api, tuple[str, ...]]:
    """The record of a description, and what its schemas lost. Cached: rows share their tools."""
    description, parameters, returns = json.loads(key)
    ledger = ImportLog(called)
    lost = []
    if parameters is not None and not isinstance(parameters, dict):
        lost.append("tools: parameters that are no object")
        parameters = None
    api = Api(
        category="audit",
        tool="audit",
        name=called,
        function=function,
        description=text(description),
        parameters=arguments(parameters or {}, ledger=ledger, api=called, budget=_ROOMY),
        returns=plain(returns, ledger=ledger, api=called, place="returns", budget=_ROOMY) or None
        if returns
        else None,
        source=Source(kind=kind),
    )
    api = _with_defaults(api, parameters)
    report = ledger.report(imported=1)
    lost += [f"tools: schema keywords left out ({cut.why})" for cut in report.cut]
    lost += [f"tools: a reference that is not followed ({r.why})" for r in report.unresolved]
    return api, tuple(dict.fromkeys(lost))


def _with_defaults(api: Api, given: Any) -> Api:
    """The API with every default it names allowed, although its own types or choices forbid it.

    `N/A` for a unit of seconds or milliseconds is no fault of the call that leaves it so.
    """
    named = given.get("properties") if isinstance(given, dict) else None
    properties = {}
    for name, schema in api.properties.items():
        told = named.get(name) if isinstance(named, dict) else None
        default = told.get("default") if isinstance(told, dict) else None
        if default is None or oddity(default) or not leaves(schema, default):
            continue
        about = {k: schema[k] for k in ("description",) if k in schema}
        properties[name] = {**about, "default": default, "anyOf": [schema, {"const": default}]}
    if not properties:
        return api
    whole = {**api.parameters, "properties": {**api.properties, **properties}}
    return api.model_copy(update={"parameters": whole})


def leaves(schema: Any, value: Any) -> bool:
    """Whether a value leaves its schema in any way that can be told."""
    try:
        return isinstance(schema, dict) and bool(violations(schema, value))
    except UncheckableSchema:
        return False


class Script:
    """The messages of a dialogue, in our order: an assistant's words and the calls that follow
    them are one message, and a dialogue has one system message, empty where none is told."""

    def __init__(self) -> None:
        self._messages: list[Message] = []
        self._calls = 0

    def system(self, content: Any) -> None:
        self._messages.append(Message(role="system", content=text(content)))

    def user(self, content: Any) -> None:
        self._messages.append(Message(role="user", content=text(content)))

    def assistant(
        self,
        content: Any = "",
        calls: Iterable[tuple[str, Any]] = (),
        ids: Iterable[str] = (),
    ) -> list[str]:
        """Words, calls as (function name, arguments), or both; the ids of the calls.

        `ids`: those of the row, where it has some. Arguments that are no object stay text, which
        the checks then find.
        """
        given, made = list(ids), list[ToolCall]()
        for name, asked in calls:
            self._calls += 1
            own = given[len(made)] if len(made) < len(given) else f"call_{self._calls}"
            unread = asked if isinstance(asked, dict | str) else json.dumps(asked, default=str)
            named = FunctionCall(name=text(name), arguments=unread)
            made.append(ToolCall(id=own, function=named))
        words, last = text(content) or None, self._messages[-1] if self._messages else None
        if last and last.role == "assistant" and not last.tool_calls:
            words = "\n".join(filter(None, (last.content, words))) or None
            self._messages.pop()
        self._messages.append(Message(role="assistant", content=words, tool_calls=tuple(made)))
        return [call.id for call in made]

    def result(
        self, call_id: str | None, response: Any, error: str | None = None, name: str | None = None
    ) -> None:
        """An observation, put into our envelope."""
        held = json.dumps({"response": response, "error": error}, ensure_ascii=False, default=str)
        self._messages.append(
            Message(role="tool", content=text(held), tool_call_id=call_id, name=name)
        )

    def said(self) -> str:
        """What the user has said so far."""
        return "\n".join(m.content or "" for m in self._messages if m.role == "user")

    def messages(self) -> tuple[Message, ...]:
        if self._messages and self._messages[0].role == "system":
            return tuple(self._messages)
        return (Message(role="system", content=""), *self._messages)


def dialogue(
    identity: str,
    messages: tuple[Message, ...],
    pool: tuple[Api, ...],
    *,
    ability: Ability = Ability.CALL,
    scenario: Scenario | None = None,
    now: dt.datetime | None = None,
) -> Dialogue:
    """Our record. The intent is unknown, so it is empty; the scenario is guessed if not told."""
    said = [m.content or "" for m in messages if m.role == "user"]
    query = Query(
        id=identity,
        ability=ability,
        scenario=scenario or _scenario(messages),
        now=now or NO_DATE,
        pool=pool,
        intent=(),
        text=(said[0] if said else "") or "-",
    )
    return Dialogue(query=query, messages=messages)


def _scenario(messages: tuple[Message, ...]) -> Scenario:
    calls = [len(m.tool_calls) for m in messages if m.tool_calls]
    if not calls:
        return Scenario.IRRELEVANCE
    if sum(m.role == "user" for m in messages) > 1:
        return Scenario.MULTI_TURN
    if len(calls) > 1:
        return Scenario.SEQUENTIAL
    return Scenario.PARALLEL if calls[0] > 1 else Scenario.SINGLE


def envelope(content: Any) -> tuple[JsonObject | Any, str | None]:
    """(response, error) of a result as others write it: ours as it is, JSON text as a value."""
    value = decoded(content)
    if isinstance(value, dict) and value.keys() == {"response", "error"}:
        failed = value["error"]
        return value["response"], failed if failed is None else str(failed)
    return value, None
