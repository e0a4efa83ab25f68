"""API-Bank: annotated dialogues, a file each, and the training rows made of them, as our records.

Of the APIs a file or folder knows what its searches found and its rows describe. Calls were
written as text, so a number in quotes is a number where the API takes one. ToolSearcher is our API
Search. A description tells the fields of what an API puts out, but the annotated outputs are often
a field's bare value, so outputs are not held to it.
"""

from __future__ import annotations

import datetime as dt
import re
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

from toolloom.pipeline.checks.grounding import same
from toolloom.pipeline.checks.text.call_text import CallTextError, parse
from toolloom.pipeline.checks.transcript import shown
from toolloom.pipeline.formats.api_bank import SEARCH, Described, described_in, descriptions, typed
from toolloom.pipeline.formats.conversation import excess
from toolloom.pipeline.formats.files import ForeignRow, files, foreign_rows
from toolloom.pipeline.formats.intake import text
from toolloom.pipeline.formats.reading import (
    Reading,
    Script,
    Toolbox,
    dialogue,
    fault,
    json_of,
    refused,
)
from toolloom.schemas import API_SEARCH, Ability, Finding, JsonObject, Reason

_OUTPUTS = "tools: output_parameters, since annotated outputs are often a field's bare value"
_UNDESCRIBED = "an API without a description: its calls are not held to a schema"
_KINDS: dict[str, Any] = {
    "integer": int, "number": (int, float), "boolean": bool, "array": list, "object": dict,
}  # fmt: skip
_SEARCHES = (SEARCH, API_SEARCH.function)


class BankDialogue:
    """One dialogue on its way into our record."""

    def __init__(self, place: str, known: dict[str, Described]) -> None:
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
        if (
            isinstance(echo, dict)
            and isinstance(given, dict)
            and not (echo.keys() == given.keys() and all(same(echo[k], given[k]) for k in given))
        ):
            self.fault(f"{name}: the result is of another call, with {shown(echo)}")
        if result.get("api_name", name) != name:
            self.fault(f"{name}: the result is of {shown(result['api_name'])}")
        self.call(name, given, (result.get("output"), _error(result.get("exception"))))

    def call(self, name: str, given: Any, result: tuple[Any, str | None] | None = None) -> None:
        """A call, and what it gave."""
        self._called += 1
        if name == self._search:
            self._searches = True
            for one in descriptions(result[0]) if result else ():
                self._known.setdefault(one.name, one)
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

    def offer(self, one: Described) -> None:
        """An API that the row describes: what it does not describe is not on offer."""
        self._listed = True
        if one.name in _SEARCHES and list(one.inputs) == ["keywords"]:
            self._searches, self._search = True, one.name
        else:
            self.describe(one)

    def describe(self, one: Described) -> None:
        """Offer an API by its description; all its parameters are needed, but optional ones."""
        parameters = one.inputs
        if parameters.get("type") != "object" or not isinstance(parameters.get("properties"), dict):
            parameters = {
                "type": "object",
                "properties": {k: typed(v) for k, v in one.inputs.items()},
                "required": [k for k, v in one.inputs.items() if not _is_optional(v)],
            }
        self.tools.add(one.name, one.description, parameters)
        if one.outputs:
            self.unmapped[_OUTPUTS] = None

    def _typed(self, name: str, given: Any) -> Any:
        """Arguments with text read as the type the API takes, where it reads as one."""
        api = self.tools.api(name)
        if not isinstance(given, dict) or api is None:
            return given
        typed_values = dict(given)
        for key, value in given.items():
            kind = api.properties.get(key, {}).get("type")
            if isinstance(value, str) and isinstance(kind, str) and kind in _KINDS:
                read = json_of(value.lower() if kind == "boolean" else value)
                typed_values[key] = read if isinstance(read, _KINDS[kind]) else value
        return typed_values

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
        )


def _is_optional(said: Any) -> bool:
    """Said so, or that there is a default, or in which case it is needed."""
    if not isinstance(said, dict):
        return False
    about = text(said.get("description")).lower()
    when = re.search(r"\boptional|\bdefault|\brequired (?:when|if)\b|\bif not\b", about)
    return said.get("required") is False or bool(when)


_TURN = re.compile(r"^\s*(User|AI|API-Request|API-Response)\s*:", re.MULTILINE)
_ASKED = re.compile(r"\s*Generate (?:API Request|AI Response):\s*\Z")
_ANSWERED = re.compile(r"\)\s*\]?\s*->")
_NOW = re.compile(r"current time is (\d{4}-\d\d-\d\d[ T]\d\d:\d\d(?::\d\d)?)", re.IGNORECASE)
_LONGEST = 1_000_000  # letters of a training row, turns of a dialogue
_MOST = 5_000


def dialogues(path: Path) -> Iterator[Reading]:
    """Dialogues of one file each, or training rows. Raises StoreError."""
    found = files(path, (".json", ".jsonl"))
    known = _descriptions(found)
    for file in found:
        turns, faulty = list[ForeignRow](), None
        for row in foreign_rows(file):
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


def _descriptions(found: list[Path]) -> dict[str, Described]:
    """The APIs that searches of any of the files found, by name."""
    known: dict[str, Described] = {}
    for file in found:
        for row in foreign_rows(file):
            value = row.value if isinstance(row.value, dict) else {}
            result = value.get("result")
            if value.get("api_name") == SEARCH and not excess(value) and isinstance(result, dict):
                for one in descriptions(result.get("output")):
                    known.setdefault(one.name, one)
    return known


def _training(row: ForeignRow, value: JsonObject, known: dict[str, Described]) -> Reading:
    """A row of the released training data: the dialogue so far as text, and what is to follow."""
    asked = f"{text(value.get('instruction'))}\n{text(value.get('input'))}"
    output = text(value.get("output")) or text(value.get("expected_output"))
    if len(asked) > _LONGEST or not output.strip():
        return refused(row, "it is too long" if output.strip() else "it has no `output`")
    taken = BankDialogue(row.place, known)
    for one in asked.splitlines():
        for description in described_in(one):
            taken.offer(description)
    story = text(value.get("input")) if _TURN.search(text(value.get("input"))) else asked
    for role, words in (*_turns(story), next(_turns(output), ("AI", output))):
        if role == "User":
            taken.script.user(words)
        elif words and role == "AI":
            taken.script.assistant(words)
        elif words:
            _request(taken, words)
    now = None
    if when := _NOW.search(asked):
        with suppress(ValueError):  # a day that is in no calendar
            now = dt.datetime.fromisoformat(when[1])
    return taken.reading(value, now)


def _turns(story: str) -> Iterator[tuple[str, str]]:
    """Roles and words of a dialogue that is written as text."""
    marks = list(_TURN.finditer(story))
    ends = [mark.start() for mark in marks[1:]] + [len(story)]
    for mark, end in zip(marks, ends, strict=False):
        words = story[mark.end() : end].strip()
        yield mark[1], _ASKED.sub("", words).strip()


def _request(taken: BankDialogue, words: str) -> None:
    """`[Name(key='value')]`, with its answer after `->` where there is one."""
    arrow = _ANSWERED.search(words)
    asked = words[: arrow.start()] + ")]" if arrow else words
    if arrow and not asked.lstrip().startswith("["):
        asked = asked[:-1]
    answer = words[arrow.end() :].strip() if arrow else None
    try:
        calls = parse(asked)
    except (CallTextError, RecursionError) as error:
        taken.fault(f"{error}: {shown(words)}", Reason.FALSE_API_CALL_FORMAT)
        return
    for call in calls:
        taken.call(call.name, call.arguments, None if answer is None else _answer(answer))


def _answer(written: str) -> tuple[Any, str | None]:
    """What a call gave, which Python wrote: the output, and the exception if it names one."""
    try:
        held = parse(f"Answer(it={written})")[0].arguments
        value = held.get("it") if isinstance(held, dict) else written
    except (CallTextError, RecursionError):
        value = written
    if isinstance(value, dict) and {"output", "exception"} <= value.keys():
        return value["output"], _error(value["exception"])
    return value, None


def _error(exception: Any) -> str | None:
    return None if exception is None else str(exception)
