"""A dialogue of API-Bank on its way into our record: its turns, its calls, the APIs it knows.

Calls were written as text, so a number in quotes is a number where the API takes one.
ToolSearcher is our API Search. A description tells the fields of what an API puts out, but the
annotated outputs are often a field's bare value, so outputs are not held to it.
"""

from __future__ import annotations

import datetime as dt
import json
import re
from typing import Any

from toolloom.pipeline.checks.grounding import same
from toolloom.pipeline.checks.transcript import shown
from toolloom.pipeline.formats.audit.reading import Reading, Script, Toolbox, dialogue, fault
from toolloom.pipeline.formats.importers.api_bank import typed
from toolloom.pipeline.formats.importers.bank_rows import SEARCH
from toolloom.pipeline.formats.importers.intake import line, text
from toolloom.schemas import API_SEARCH, Ability, Finding, JsonObject, Reason

_OUTPUTS = "tools: output_parameters, since annotated outputs are often a field's bare value"
_UNDESCRIBED = "an API without a description: its calls are not held to a schema"
_KINDS: dict[str, Any] = {
    "integer": int, "number": (int, float), "boolean": bool, "array": list, "object": dict,
}  # fmt: skip
_SEARCHES = (SEARCH, API_SEARCH.function)


def described(output: Any) -> list[JsonObject]:
    """The descriptions of APIs that a search gave: a list of them, or one."""
    return [one for one in (output if isinstance(output, list) else [output]) if is_described(one)]


def is_described(one: Any) -> bool:
    """Whether it is the description of an API, in the terms of any of the three levels."""
    return isinstance(one, dict) and isinstance(_inputs(one), dict) and bool(name_of(one))


def name_of(one: JsonObject) -> str:
    """The name of a described API."""
    return line(one.get("name")) or line(one.get("apiCode"))


def _inputs(one: JsonObject) -> Any:
    return one.get("input_parameters", one.get("parameters"))


class BankDialogue:
    """One dialogue on its way into our record."""

    def __init__(self, place: str, known: dict[str, JsonObject]) -> None:
        self._place = place
        self._known = dict(known)
        self.tools = Toolbox("api-bank")
        self.script = Script()
        self.faults: list[Finding] = []
        self.unmapped: dict[str, None] = {}
        self._searches = False
        self._search = SEARCH  # what API Search is called
        self._listed = False  # the row itself describes its APIs
        self._answered = self._called = 0

    def read(self, turns: list[JsonObject]) -> Reading:
        """A dialogue of turns with the roles User, AI and API."""
        for turn in turns:
            role = turn.get("role")
            if role == "User":
                self.script.user(turn.get("text"))
            elif role == "AI":
                self.script.assistant(turn.get("text"))
            elif role == "API":
                self._turn(turn)
            else:
                self.fault(f"a turn of the role {shown(role)}")
        return self.reading(turns)

    def fault(self, detail: str, reason: Reason = Reason.MALFORMED_DIALOGUE) -> None:
        self.faults.append(fault(reason, detail, len(self.script.messages()) - 1))

    def _turn(self, turn: JsonObject) -> None:
        name, given, result = turn.get("api_name"), turn.get("param_dict"), turn.get("result")
        if not isinstance(name, str) or not name.strip():
            self.fault("a call without a name", Reason.FALSE_API_CALL_FORMAT)
            return
        if not isinstance(result, dict):
            self.call(name, given)
            return
        echo = result.get("input")
        if isinstance(echo, dict) and isinstance(given, dict) and not _echoes(echo, given):
            self.fault(f"{name}: the result is of another call, with {shown(echo)}")
        if result.get("api_name", name) != name:
            self.fault(f"{name}: the result is of {shown(result['api_name'])}")
        error = result.get("exception")
        self.call(name, given, (result.get("output"), None if error is None else str(error)))

    def call(self, name: str, given: Any, result: tuple[Any, str | None] | None = None) -> None:
        """A call, and what it gave."""
        self._called += 1
        if name == self._search:
            self._searches = True
            for one in described(result[0]) if result else ():
                self._known.setdefault(name_of(one), one)
            called, arguments = API_SEARCH.function, given
        else:
            self._offer(name, given)
            called, arguments = self.tools.called(name), self._typed(name, given)
        (made,) = self.script.assistant("", [(called, arguments)])
        if result is not None:
            self._answered += 1
            output, error = result
            if called == API_SEARCH.function and isinstance(output, dict):
                output = [output]  # a search that found one API
            self.script.result(made, output, error)

    def _offer(self, name: str, given: Any) -> None:
        """The API of a call. Of one nobody describes only what the call shows is known."""
        if self.tools.api(name):
            return
        if name in self._known:
            self.describe(self._known[name])
        elif not self._listed and not (self._known and self._searches):
            self.unmapped[_UNDESCRIBED] = None
            names = given if isinstance(given, dict) else {}
            self.tools.add(name, "", {"type": "object", "properties": {k: {} for k in names}})

    def offer(self, one: JsonObject) -> None:
        """An API that the row describes: what it does not describe is not on offer."""
        self._listed = True
        if name_of(one) in _SEARCHES and list(_inputs(one)) == ["keywords"]:
            self._searches, self._search = True, name_of(one)
        else:
            self.describe(one)

    def describe(self, one: JsonObject) -> None:
        """Offer an API by its description; all its parameters are needed, but optional ones."""
        inputs = _inputs(one)
        whole = inputs.get("type") == "object" and isinstance(inputs.get("properties"), dict)
        optional = {k for k, v in inputs.items() if _is_optional(v)}
        parameters = (
            inputs
            if whole
            else {
                "type": "object",
                "properties": {k: typed(v) for k, v in inputs.items()},
                "required": [k for k in inputs if k not in optional],
            }
        )
        self.tools.add(name_of(one), one.get("description"), parameters)
        if one.get("output_parameters") or one.get("response"):
            self.unmapped[_OUTPUTS] = None

    def _typed(self, name: str, given: Any) -> Any:
        """Arguments with text read as the type the API takes, where it reads as one."""
        api = self.tools.api(name)
        if not isinstance(given, dict) or api is None:
            return given
        return {k: _as_type(v, api.properties.get(k, {}).get("type")) for k, v in given.items()}

    def reading(self, raw: Any, now: dt.datetime | None = None) -> Reading:
        messages = self.script.messages()
        ability = Ability.RETRIEVE_CALL if self._searches else Ability.CALL
        made = dialogue(self._place, messages, self.tools.pool, ability=ability, now=now)
        return Reading(
            self._place,
            raw,
            made,
            (*self.unmapped, *self.tools.unmapped),
            tuple(self.faults),
            has_results=bool(self._called) and self._answered == self._called,
            has_reply=messages[-1].role == "assistant" and not messages[-1].tool_calls,
            has_now=now is not None,
        )


def _is_optional(said: Any) -> bool:
    """Said so, or that there is a default, or in which case it is needed."""
    if not isinstance(said, dict):
        return False
    about = text(said.get("description")).lower()
    when = re.search(r"\boptional|\bdefault|\brequired (?:when|if)\b|\bif not\b", about)
    return said.get("required") is False or bool(when)


def _echoes(echo: JsonObject, given: JsonObject) -> bool:
    return echo.keys() == given.keys() and all(same(echo[k], given[k]) for k in given)


def _as_type(value: Any, kind: Any) -> Any:
    if not isinstance(value, str) or kind not in {
        "integer",
        "number",
        "boolean",
        "array",
        "object",
    }:
        return value
    try:
        read = json.loads(value.lower() if kind == "boolean" else value)
    except (ValueError, RecursionError):
        return value
    return read if isinstance(read, _KINDS[kind]) else value
