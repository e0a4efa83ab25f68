"""Check a file in a trainer's form: the shape of each row, its rendering, and its loading."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from itertools import islice, zip_longest
from os.path import isfile
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ValidationError

from toolloom.pipeline.dataset.export import goal_shapes
from toolloom.pipeline.dataset.export.survival import lost
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
    "few-shot": (Shaped(goal_shapes.FewShotRow, _messages),),
    "all-shot": (Shaped(goal_shapes.AllShotRow),),
}


def read(path: Path) -> Iterator[Any]:
    """The rows of Parquet, JSON lines or a JSON array. Raises ToolloomError."""
    if not isfile(path):  # and not its method, which raises at odd names
        raise NothingFound(f"{path}: there is no such file.")
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
            for number, line in enumerate(file, 1):
                if line.strip():
                    yield _line(path, number, line)
    except OSError as error:
        raise explain(path, error, "read") from error
    except (ValueError, RecursionError) as error:
        raise ExportError(f"{path}: is no JSON ({str(error)[:200]}).") from error


def _line(path: Path, number: int, line: bytes) -> Any:
    try:
        return json.loads(line)
    except (ValueError, RecursionError) as error:
        raise ExportError(f"{path}, line {number}: is no JSON ({str(error)[:200]}).") from error


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
    ):
        if marks <= keys:
            return name
    if "conversations" in keys:
        if "id" not in keys:
            return "llamafactory"
        return "hermes" if "tools" in keys else "toolllama"
    if "messages" in keys:
        return _chat_kind(path, rows)
    shown = ", ".join(sorted(map(str, keys))[:8])
    raise ExportError(f"{path}: no format has rows with {shown}. Name one with --format.")


def _chat_kind(path: Path, rows: list[JsonObject]) -> str:
    """TRL, Axolotl, verl and OpenAI differ in what is text."""
    columns = [row["tools"] for row in rows if isinstance(row.get("tools"), list)]
    tools = [tool for column in columns for tool in column if isinstance(tool, dict)]
    functions = [t["function"] for t in tools if isinstance(t.get("function"), dict)]
    parquet = path.suffix == ".parquet"
    if any(isinstance(function.get("parameters"), str) for function in functions):
        return "verl" if parquet else "axolotl"
    return "trl"


def check(path: Path, name: str, templates: list[ChatTemplate]) -> Checked:
    """Check every row of a file. Raises ToolloomError if it cannot be read."""
    found = Checked(name)
    shaped = SHAPES[name]
    tried = {template.name: Rendered(template) for template in templates}
    for number, row in enumerate(read(path), 1):
        found.rows = number
        fitting, why = _shape(row, shaped)
        if fitting is None:
            found.wrong += 1
            found.first = found.first or f"row {number}: {why}"
            continue
        talks = fitting.talks(row)
        for one in tried.values() if talks else ():
            found.templates = list(tried.values())
            _render(one, talks, number)
    if found.rows:
        found.loaded = _loading(path)
    return found


def _shape(row: Any, shaped: tuple[Shaped, ...]) -> tuple[Shaped | None, str]:
    """The model that the row fits, or the first fault."""
    keys = set(row) if isinstance(row, dict) else set()
    best = max(shaped, key=lambda one: len(_keys(one.model) & keys))
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


def _keys(model: type[BaseModel]) -> set[str]:
    return {field.alias or name for name, field in model.model_fields.items()}


def _render(into: Rendered, talks: list[Talk], number: int) -> None:
    """Render a row, as a whole: both sides of a pair count once."""
    for talk in talks:
        why = _failure(into.template, talk)
        if why:
            into.failed += 1
            into.first = into.first or f"row {number}: {why}"
            return
    into.rendered += 1


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
