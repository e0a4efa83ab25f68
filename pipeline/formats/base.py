"""What a format is: a pure function from a sample to rows, the files they go to, and words."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import groupby
from typing import Any, Literal, Protocol, TypeAlias

from toolloom.pipeline.store.version import Columns, Version
from toolloom.schemas import (
    API_SEARCH,
    Api,
    JsonObject,
    Message,
    Observation,
    Sample,
    ToolCall,
    digest,
)

Arguments: TypeAlias = Literal["object", "string"]
Kind: TypeAlias = Literal["jsonl", "json", "parquet"]
Rows: TypeAlias = tuple[tuple[str, JsonObject], ...]
"""Rows, each with the name of its file."""

DIGITS = 15  # of a number of ours: 64 bits hold it with two more


@dataclass(frozen=True)
class Exported:
    """What a sample becomes."""

    rows: Rows = ()
    lost: tuple[str, ...] = ()  # parts of the sample that these rows do not hold
    unfit: str = ""  # why there is no row


@dataclass(frozen=True)
class ExportFile:
    """A file of a format. `path` holds `{split}`."""

    path: str
    kind: Kind
    columns: Columns = field(default_factory=Columns)  # of Parquet


@dataclass(frozen=True)
class ExportPlace:
    """Where an export lies: what notes to a trainer name."""

    dataset: str
    splits: tuple[str, ...]  # those with rows
    folder: str


class StatefulFormat(Protocol):
    """Makes the rows of an export in which what a sample becomes depends on others."""

    def rows(self, sample: Sample, form: Arguments) -> Exported:
        """What there is to write now that this sample came. Raises NotRepresentable."""

    def rest(self) -> Rows:
        """What is left to write at the end of a split."""


@dataclass(frozen=True)
class Format:
    """A form of rows that a trainer reads."""

    name: str
    rows: Callable[[Sample, Arguments], Exported]
    files: dict[str, ExportFile]
    # What arguments of calls can be; the first is the default.
    arguments: tuple[Arguments, ...] = ("object",)
    why: str = "the format writes calls as text of its own"  # if there is no choice of arguments
    notes: Callable[[ExportPlace], dict[str, str]] = lambda place: {}  # further files by name
    hint: str = ""  # how to point the trainer at it; holds {folder}, {dataset}, {split}
    # Where samples depend on others, given how many demonstrations to show; `rows` then makes
    # those of a sample that stands alone.
    stateful: Callable[[Version, int], StatefulFormat] | None = None
    shots: int | None = None  # demonstrations shown unless told otherwise, if it shows any


class NotRepresentable(Exception):
    """A sample that a format cannot hold; the text says why, in few words."""


def given(sample: Sample) -> tuple[Api, ...]:
    """The tools the assistant was given. In the retrieve abilities API Search is the only one."""
    query = sample.dialogue.query
    return (API_SEARCH,) if query.ability.searches else query.pool


def tools(sample: Sample) -> list[JsonObject]:
    return [api.as_tool() for api in given(sample)]


def arguments(call: ToolCall) -> JsonObject:
    """The arguments of a call as an object. Raises NotRepresentable for text nobody read."""
    if isinstance(call.function.arguments, str):
        raise NotRepresentable("a call's arguments are unread text")
    return call.function.arguments


def calls(message: Message) -> list[JsonObject]:
    """Name and arguments of each call of a message. Raises NotRepresentable."""
    return [{"name": c.function.name, "arguments": arguments(c)} for c in message.tool_calls]


def envelope(message: Message) -> Observation:
    """The observation of a tool message. Raises NotRepresentable."""
    try:
        return message.observation()
    except ValueError as error:
        raise NotRepresentable("an observation is not in the envelope") from error


def outcome(call: ToolCall, messages: Sequence[Message]) -> Observation:
    """What a call came to. Raises NotRepresentable."""
    found = [m for m in messages if m.role == "tool" and m.tool_call_id == call.id]
    if not found:
        raise NotRepresentable("a call has no result")
    return envelope(found[-1])


def turns(messages: Sequence[Message]) -> Iterator[list[Message]]:
    """Messages one at a time, but the results of one turn's calls together."""
    places = enumerate(messages)
    for _, group in groupby(places, lambda one: -1 if one[1].role == "tool" else one[0]):
        yield [message for _, message in group]


def number_of(sample: Sample) -> int:
    """All digits of its id, which are its seed and number: unique in a split. Where they are more
    than a column of integers has room for, a hash of the id."""
    digits = "".join(re.findall(r"[0-9]+", sample.id))
    return int(digits or 0) if len(digits) <= DIGITS else int(digest(sample.id, 12), 16)


def system_of(sample: Sample) -> str:
    first = sample.dialogue.messages[0]
    return (first.content or "") if first.role == "system" else ""


def spoken(messages: Sequence[Message]) -> list[Message]:
    """All messages but the system turn. Raises NotRepresentable if there is none."""
    rest = [m for m in messages if m.role != "system"]
    if not rest or rest[0].role != "user":
        raise NotRepresentable("the user does not begin")
    return rest


def words_beside_calls(messages: Sequence[Message]) -> tuple[str, ...]:
    """What formats lose that hold either words or calls in a turn."""
    return ("words beside a call",) if any(m.tool_calls and m.content for m in messages) else ()


def spaced(value: Any) -> str:
    """JSON as chat templates write it: so that text and object look the same to a model."""
    text = json.dumps(value, ensure_ascii=False)
    try:
        text.encode()
    except UnicodeEncodeError:  # half a character, which UTF-8 cannot hold
        return json.dumps(value)
    return text


def first_task(said: Sequence[Message]) -> tuple[list[Message], bool]:
    """The first user turn with what serves it, and whether there are more."""
    ends = [place for place, m in enumerate(said) if m.role == "user" and place]
    return list(said[: ends[0]] if ends else said), bool(ends)
