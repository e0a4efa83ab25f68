"""A sample as mining reads it: its texts, and the values of its calls and observations.

With the values that other samples of the same split hold, by argument and by field of a response.
"""

from __future__ import annotations

import datetime as dt
import json
from collections.abc import Iterator, Mapping
from copy import deepcopy
from dataclasses import dataclass, field
from typing import Any, Literal, TypeAlias

from toolloom.pipeline.checks.schema import as_dict, oddity
from toolloom.pipeline.checks.text.words import literal
from toolloom.pipeline.store.files import to_text
from toolloom.schemas import API_SEARCH, Finding, JsonObject, Reason, canonical
from toolloom.schemas.splits import api_id
from toolloom.schemas.template import CLOSE, OPEN

Path: TypeAlias = tuple[str | int, ...]
Role: TypeAlias = Literal["goal", "user", "reply", "search", "error", "observed", "given"]
Side: TypeAlias = Literal["intent", "call", "response"]

LONGEST = 200  # characters of a value that may be a slot
_LETTERS = 24_000  # of a sample's messages but for documentation
_LEAVES = 300


@dataclass(frozen=True)
class SampleValue:
    """A scalar of an argument or a response, with where it stands and what is known of it."""

    side: Side
    path: Path  # in the survey's tree
    api: str
    names: tuple[str, ...]  # from the argument or field inwards; `[]` for an item
    value: Any
    schema: JsonObject
    place: int  # index of the message; -1 in the intent
    number: int = 0  # of the intention or the call, counted

    @property
    def name(self) -> str:
        """The innermost name."""
        return next((n for n in reversed(self.names) if n != "[]"), "value")

    @property
    def key(self) -> tuple[str, str, str]:
        kind = "field" if self.side == "response" else "argument"
        return kind, self.api, ".".join(self.names)


@dataclass(frozen=True)
class SampleText:
    """Words in which values may stand."""

    role: Role
    path: Path
    text: str
    place: int


@dataclass
class SampleValues:
    """`tree`: the sample, the contents of its tool messages as objects where they can be changed;
    `contents`: the text of each of these."""

    tree: JsonObject
    contents: dict[int, str] = field(default_factory=dict)
    intended: list[SampleValue] = field(default_factory=list)
    called: list[SampleValue] = field(default_factory=list)
    observed: list[SampleValue] = field(default_factory=list)
    texts: list[SampleText] = field(default_factory=list)
    fixed: list[str] = field(default_factory=list)  # texts that stay: system, what was cut
    calls: list[str] = field(default_factory=list)  # the API of each, by its number

    @property
    def query(self) -> JsonObject:
        found: JsonObject = self.tree["dialogue"]["query"]
        return found

    @property
    def now(self) -> dt.datetime:
        return dt.datetime.fromisoformat(self.query["now"])

    @property
    def apis(self) -> dict[str, JsonObject]:
        """APIs by id: the pool's, and the one that lacks."""
        outside = self.query.get("outside")
        return {api_id(a): a for a in (*self.query["pool"], *([outside] if outside else ()))}


def survey(sample: JsonObject) -> SampleValues | Finding:
    """Read a sample, or say why it can be no template."""
    dialogue = sample["dialogue"]
    if any((m.get("execution") or {}).get("kind") == "executed" for m in dialogue["messages"]):
        detail = "its observations were really executed: other values would need an execution"
        return Finding(check="mining", reason=Reason.EXECUTED_RESULT, detail=detail)
    spoken = (m for m in dialogue["messages"] if m.get("name") != API_SEARCH.function)
    letters = sum(len(m.get("content") or "") for m in spoken)
    if letters > _LETTERS:
        return _none(f"its messages have {letters} characters; {_LETTERS} are searched at most")
    if any(sign in json.dumps(dialogue, ensure_ascii=False) for sign in (OPEN, CLOSE)):
        return _none("its text holds the characters that mark slots")
    found = SampleValues({**sample, "dialogue": deepcopy(dialogue)})
    query, apis = found.query, found.apis
    at: Path = ("dialogue", "query")
    found.texts.append(SampleText("goal", (*at, "text"), query["text"], -1))
    for number, intention in enumerate(query["intent"]):
        api, path = intention["api"], (*at, "intent", number, "arguments")
        schema = (apis.get(api) or {}).get("parameters")
        found.intended += _leaves("intent", path, api, intention["arguments"], schema, -1, number)
    if query.get("fault") and query["fault"]["error"]:
        found.texts.append(
            SampleText("error", (*at, "fault", "error"), query["fault"]["error"], -1)
        )
    for place, message in enumerate(found.tree["dialogue"]["messages"]):
        _read_message(found, place, message)
    leaves = len(found.intended) + len(found.called) + len(found.observed)
    return _none(f"it holds {leaves} values; {_LEAVES} at most") if leaves > _LEAVES else found


def _none(why: str) -> Finding:
    return Finding(check="mining", reason=Reason.NOTHING_TO_VARY, detail=why)


def _read_message(found: SampleValues, place: int, message: JsonObject) -> None:
    at: Path = ("dialogue", "messages", place)
    role, content = message["role"], message.get("content") or ""
    if role == "system":
        found.fixed.append(content)
    elif role == "tool":
        _read_result(found, place, message)
    elif content:
        found.texts.append(
            SampleText("user" if role == "user" else "reply", (*at, "content"), content, place)
        )
    for index, call in enumerate(message.get("tool_calls") or ()):
        path = (*at, "tool_calls", index, "function", "arguments")
        _read_call(found, place, path, call["function"])


def _read_call(found: SampleValues, place: int, path: Path, function: JsonObject) -> None:
    number, arguments = len(found.calls), function["arguments"]
    if not isinstance(arguments, dict):
        found.fixed.append(str(arguments))
        arguments = {}
    if function["name"] == API_SEARCH.function:
        found.calls.append(API_SEARCH.id)
        for name, value in arguments.items():
            if isinstance(value, str):
                found.texts.append(SampleText("search", (*path, name), value, place))
        return
    api: JsonObject = next(
        (a for a in found.query["pool"] if a["function"] == function["name"]), {}
    )
    name = api_id(api) if api else function["name"]
    found.calls.append(name)
    found.called += _leaves("call", path, name, arguments, api.get("parameters"), place, number)


def _read_result(found: SampleValues, place: int, message: JsonObject) -> None:
    content = message.get("content") or ""
    execution = message.get("execution") or {}
    numbers: dict[str, int] = {}
    for each in found.tree["dialogue"]["messages"]:
        for call in each.get("tool_calls") or ():
            numbers[call["id"]] = len(numbers)
    number = numbers.get(message.get("tool_call_id") or "")
    if number is None or message.get("name") == API_SEARCH.function:
        return  # documentation stays as it is, and says nothing of this dialogue's values
    seen = None if execution.get("whole_tokens") is not None else _observation(content)
    if seen is None:
        found.fixed.append(content)
        return
    found.tree["dialogue"]["messages"][place]["content"] = seen
    found.contents[place] = content
    at: Path = ("dialogue", "messages", place, "content")
    if isinstance(seen.get("error"), str):
        found.texts.append(SampleText("error", (*at, "error"), seen["error"], place))
    api = found.calls[number]
    schema = (found.apis.get(api) or {}).get("returns")
    path = (*at, "response")
    found.observed += _leaves("response", path, api, seen.get("response"), schema, place, number)


_STYLES: tuple[Mapping[str, Any], ...] = (
    {"ensure_ascii": False, "separators": (",", ":")},
    {"ensure_ascii": False},
    {},
    {"separators": (",", ":")},
)


def _observation(content: str) -> JsonObject | None:
    """What an observation holds, if its text can be written again without a loss."""
    try:
        seen = json.loads(content)
    except (ValueError, RecursionError):
        return None
    if not isinstance(seen, dict) or oddity(seen):
        return None
    return seen if any(json.dumps(seen, **style) == content for style in _STYLES) else None


def written(seen: JsonObject, content: str) -> str:
    """An observation as text: compact where it holds slots, else as it was."""
    text = to_text(seen)
    return text if OPEN in text else content


def _leaves(
    side: Side, path: Path, api: str, value: Any, schema: Any, place: int, number: int
) -> Iterator[SampleValue]:
    """The scalars of a JSON value that are more than yes, no or nothing."""
    stack: list[tuple[Path, tuple[str, ...], Any, Any]] = [(path, (), value, schema)]
    while stack:
        at, names, item, known = stack.pop()
        known = as_dict(known)
        if isinstance(item, dict):
            inside = as_dict(known.get("properties"))
            stack += [
                ((*at, k), (*names, k), v, inside.get(k)) for k, v in reversed(list(item.items()))
            ]
        elif isinstance(item, list):
            each = known.get("items")
            parts = reversed(list(enumerate(item)))
            stack += [((*at, i), (*names, "[]"), v, each) for i, v in parts]
        elif item is not None and not isinstance(item, bool) and item != "":
            yield SampleValue(side, at, api, names, item, known, place, number)


Key: TypeAlias = tuple[str, str, str]
"""`argument` or `field`, the id of the API, and the path of names."""

KEYS = 20_000
VALUES = 64  # of each key


class SeenValues:
    """Bounded: the first values of the first keys are kept, in the order they come in."""

    def __init__(self) -> None:
        self._values: dict[Key, dict[str, Any]] = {}

    def add(self, sample: JsonObject) -> None:
        """Note the values of a sample. One that cannot be read for a template adds none."""
        found = survey(sample)
        if isinstance(found, Finding):
            return
        given = [str(leaf.value) for leaf in (*found.intended, *found.called)]
        # What a response holds that is an echo would contradict another argument.
        own = [
            leaf
            for leaf in found.observed
            if not any(literal(value, str(leaf.value)) for value in given)
        ]
        for leaf in (*found.intended, *own):
            if leaf.key in self._values or len(self._values) < KEYS:
                values = self._values.setdefault(leaf.key, {})
                if len(values) < VALUES:
                    values.setdefault(canonical(leaf.value), leaf.value)

    def values(self, leaf: SampleValue) -> list[Any]:
        """What else stands in this place in other samples."""
        return list(self._values.get(leaf.key, {}).values())
