"""Check a file in a trainer's form: the shape of each row, its rendering, and its loading.

Templates drop calls, results or arguments without a word. So a rendered text is searched for all of
them, in their order: a value that only the user said does not stand in for the argument.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from itertools import islice, zip_longest
from os.path import isfile
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ValidationError

from toolloom.pipeline.dataset.export import shots
from toolloom.pipeline.dataset.export.templates import ChatTemplate
from toolloom.pipeline.formats import row_shapes
from toolloom.pipeline.store.files import explain
from toolloom.pipeline.store.tables import load_file, read_rows
from toolloom.schemas import ExportError, JsonObject, NothingFound

SEEN = 100  # rows that are looked at to tell the format


@dataclass(frozen=True)
class Talk:
    """What a trainer hands to a chat template."""

    messages: list[JsonObject]
    tools: list[JsonObject]


@dataclass(frozen=True)
class Shaped:
    """A format's model, and the talks in a row; none where calls are text already."""

    model: type[BaseModel]
    talks: Callable[[JsonObject], list[Talk]] = lambda row: []
    padded: bool = False  # keys that a struct of Parquet has and a message has not are null


@dataclass
class Rendered:
    """How the rows fared in one template."""

    template: ChatTemplate
    rendered: int = 0
    failed: int = 0
    first: str = ""  # the first failure, with its row


@dataclass
class Checked:
    """What was found in a file."""

    format: str
    rows: int = 0
    wrong: int = 0
    first: str = ""  # the first wrong row
    loaded: str = ""  # what is wrong with what `datasets` gives; empty: nothing
    templates: list[Rendered] = field(default_factory=list)

    @property
    def is_sound(self) -> bool:
        """Rows of the right shape that load, and one template at least that renders all."""
        known = [one for one in self.templates if one.template.knows_tools]
        renders = not known or len(self.losses) < len(known)
        return self.rows > 0 and not self.wrong and not self.loaded and renders

    @property
    def losses(self) -> list[Rendered]:
        """Templates that know tools and do not render every row."""
        return [one for one in self.templates if one.template.knows_tools and one.failed]


def _messages(row: JsonObject) -> list[Talk]:
    return [Talk(row["messages"], _read(row.get("tools") or []))]


def _pairs(row: JsonObject) -> list[Talk]:
    tools = _read(row.get("tools") or [])
    return [Talk([*row["prompt"], *row[key]], tools) for key in ("chosen", "rejected")]


def _axolotl(row: JsonObject) -> list[Talk]:
    """Axolotl parses arguments and parameters that are text before it renders."""
    messages = json.loads(json.dumps(row["messages"]))
    for message in messages:
        for call in message.get("tool_calls") or ():
            call["function"]["arguments"] = _read(call["function"]["arguments"])
    tools = [{**t, "function": {**t["function"]}} for t in row.get("tools") or []]
    for tool in tools:
        tool["function"]["parameters"] = _read(tool["function"]["parameters"])
    return [Talk(messages, tools)]


def _read(value: Any) -> Any:
    return json.loads(value) if isinstance(value, str) else value


SHAPES: dict[str, tuple[Shaped, ...]] = {
    "trl": (Shaped(row_shapes.TrlRow, _messages), Shaped(row_shapes.ChatShape, _messages)),
    "trl-dpo": (Shaped(row_shapes.PairRow, _pairs),),
    "llamafactory": (Shaped(row_shapes.FactoryRow),),
    "axolotl": (Shaped(row_shapes.AxolotlRow, _axolotl),),
    "verl": (Shaped(row_shapes.VerlRow, _messages, padded=True), Shaped(row_shapes.VerlRlRow)),
    "openai": (Shaped(row_shapes.OpenAiRow, _messages),),
    "hermes": (Shaped(row_shapes.HermesRow),),
    "xlam": (Shaped(row_shapes.XlamRow),),
    "bfcl": (Shaped(row_shapes.BfclRow), Shaped(row_shapes.BfclAnswers)),
    "api-bank": (Shaped(row_shapes.BankRow),),
    "toolllama": (Shaped(row_shapes.LlamaRow),),
    "few-shot": (Shaped(shots.FewShotRow, _messages),),
    "all-shot": (Shaped(shots.AllShotRow),),
}


def read(path: Path) -> Iterator[Any]:
    """The rows of Parquet, JSON lines or a JSON array. Raises ToolloomError."""
    if not isfile(path):  # and not its method, which raises at odd names
        raise NothingFound(f"{path}: there is no such file.")
    number = 0  # of a line
    try:
        with path.open("rb") as file:
            start = file.read(64).lstrip()
            if start.startswith(b"PAR1"):
                yield from read_rows(path)
                return
            file.seek(0)
            if start.startswith(b"["):
                yield from json.load(file)
                return
            for line in file:
                number += 1
                if line.strip():
                    yield json.loads(line)
    except OSError as error:
        raise explain(path, error, "read") from error
    except (ValueError, RecursionError) as error:
        where = f"{path}, line {number}" if number else path
        raise ExportError(f"{where}: is no JSON ({str(error)[:200]}).") from error


def detect(path: Path) -> str:
    """The format of a file, by the keys of its first rows. Raises ExportError."""
    rows = [row for row in islice(read(path), SEEN) if isinstance(row, dict)]
    if not rows:
        raise ExportError(f"{path}: holds no rows that are JSON objects.")
    keys = set(rows[0])
    for marks, name in (
        ({"prompt", "chosen", "rejected"}, "trl-dpo"),
        ({"data_source", "reward_model"}, "verl"),
        ({"question", "function"}, "bfcl"),
        ({"ground_truth"}, "bfcl"),
        ({"query", "answers"}, "xlam"),
        ({"instruction", "output"}, "api-bank"),
        ({"messages", "parallel_tool_calls"}, "openai"),
        ({"messages", "demonstrations"}, "few-shot"),
        ({"ids", "segments"}, "all-shot"),
        ({"conversations", "id", "tools"}, "hermes"),
        ({"conversations", "id"}, "toolllama"),
        ({"conversations"}, "llamafactory"),
    ):
        if marks <= keys:
            return name
    if "messages" in keys:  # TRL, Axolotl and verl differ in what is text
        columns = [row["tools"] for row in rows if isinstance(row.get("tools"), list)]
        tools = [tool for column in columns for tool in column if isinstance(tool, dict)]
        functions = [t["function"] for t in tools if isinstance(t.get("function"), dict)]
        if any(isinstance(function.get("parameters"), str) for function in functions):
            return "verl" if path.suffix == ".parquet" else "axolotl"
        return "trl"
    shown = ", ".join(sorted(map(str, keys))[:8])
    raise ExportError(f"{path}: no format has rows with {shown}. Name one with --format.")


def check(path: Path, name: str, templates: list[ChatTemplate]) -> Checked:
    """Check every row of a file. Raises ToolloomError if it cannot be read."""
    checked = Checked(name)
    tried = [*{template.name: Rendered(template) for template in templates}.values()]
    for number, row in enumerate(read(path), 1):
        checked.rows = number
        fitting, why = _shape(row, SHAPES[name])
        if fitting is None:
            checked.wrong += 1
            checked.first = checked.first or f"row {number}: {why}"
        elif talks := fitting.talks(row):
            checked.templates = tried
            for one in tried:
                _render(one, talks, number)
    if checked.rows:
        checked.loaded = _loading(path)
    return checked


def _shape(row: Any, shaped: tuple[Shaped, ...]) -> tuple[Shaped | None, str]:
    """The model that the row fits, or the first fault."""
    keys = set(row) if isinstance(row, dict) else set()

    def known(one: Shaped) -> int:
        fields = one.model.model_fields.items()
        return sum((field.alias or name) in keys for name, field in fields)

    best = max(shaped, key=known)
    try:
        best.model.model_validate(_bare(row) if best.padded else row)
    except ValidationError as error:
        first = error.errors()[0]
        where = ".".join(str(part) for part in first["loc"]) or "the row"
        return None, f"{where}: {first['msg'].removeprefix('Value error, ')}"
    return best, ""


def _bare(value: Any) -> Any:
    """Without the keys that are null."""
    if isinstance(value, dict):
        return {key: _bare(inner) for key, inner in value.items() if inner is not None}
    return [_bare(inner) for inner in value] if isinstance(value, list) else value


def _render(into: Rendered, talks: list[Talk], number: int) -> None:
    """Render a row, as a whole: both sides of a pair count once."""
    why = next(filter(None, (_failure(into.template, talk) for talk in talks)), None)
    if why is None:
        into.rendered += 1
    else:
        into.failed += 1
        into.first = into.first or f"row {number}: {why}"


def _failure(template: ChatTemplate, talk: Talk) -> str | None:
    try:
        text = template.render(talk.messages, talk.tools)
    except ExportError:
        raise
    except Exception as error:  # noqa: BLE001 a template may raise anything, and it is told
        return f"{type(error).__name__}: {error}"[:200]
    return lost(text, talk.messages)


def _loading(path: Path) -> str:
    """What is wrong when `datasets` loads the file; nothing if it gives the same rows."""
    try:
        with load_file(path) as loaded:
            for number, (row, own) in enumerate(zip_longest(loaded, read(path)), 1):
                if row != own:
                    return f"`datasets` gives another row {number} than the file has"
    except ExportError as error:
        return str(error)
    return ""


def lost(text: str, messages: list[JsonObject]) -> str | None:
    """The first thing that is missing, in words; None if nothing is."""
    at, start = 0, 0
    for place, message in enumerate(messages):
        role = message["role"]
        if role in ("system", "developer"):
            continue  # templates move it
        if role != "tool":
            start = at
        content = (message.get("content") or "").strip()
        if content:
            # Results of one turn may stand between its calls.
            end = _after(text, content, start if role == "tool" else at)
            if end is None:
                what = "the observation" if role == "tool" else f"what the {role} says"
                return f"{what} in message {place} is lost"
            at = max(at, end)
        for function in (call["function"] for call in message.get("tool_calls") or ()):
            end, why = _call(text, function["name"], function["arguments"], at)
            if why:
                return f"message {place}: {why}"
            at = max(at, end)
    return None


def _call(text: str, name: str, arguments: Any, at: int) -> tuple[int, str | None]:
    """The place after a call, or what of it is missing."""
    # A name of its own: not the beginning of a longer one.
    found = re.compile(rf"(?<![\w-]){re.escape(name)}(?![\w-])").search(text, at)
    if not found:
        return at, f"the call of {name} is lost"
    at = found.end()
    if isinstance(arguments, str):
        # They must stand as they are; quoted, they are no object to the model.
        plain = text.find(arguments, at)
        ways = (json.dumps(arguments, ensure_ascii=ascii_) for ascii_ in (True, False))
        quoted = min((place for way in ways if (place := text.find(way, at)) >= 0), default=-1)
        if quoted >= 0 and (plain < 0 or quoted <= plain):
            return at, f"the arguments of {name} are written as a quoted text: objects are needed"
        if plain < 0:
            return at, f"the arguments of {name} are lost"
        return plain + len(arguments), None
    ends = [at]
    for leaf in _leaves(arguments):
        end = _after(text, leaf, at)
        if end is None:
            return at, f"{leaf!r} of the call of {name} is lost"
        ends.append(end)
    return max(ends), None  # templates sort keys: the last one need not come last


def _leaves(value: Any) -> Iterator[str]:
    """Keys and values of arguments, as text."""
    if isinstance(value, dict):
        for key, inner in value.items():
            yield key
            yield from _leaves(inner)
    elif isinstance(value, list):
        for inner in value:
            yield from _leaves(inner)
    elif isinstance(value, str):
        if value.strip():
            yield value.strip()
    else:
        yield json.dumps(value)


def _after(text: str, wanted: str, at: int) -> int | None:
    """The place after the first of the ways to write a text, or None.

    As it is, escaped as in JSON, or as Python writes it.
    """
    python = {"true": "True", "false": "False", "null": "None"}.get(wanted, repr(wanted)[1:-1])
    ways = {wanted, python, *(json.dumps(wanted, ensure_ascii=e)[1:-1] for e in (True, False))}
    ends = [place + len(way) for way in ways if (place := text.find(way, at)) >= 0]
    return min(ends, default=None)
