"""Chat templates, run as `transformers` runs them, and whether a row survives one.

TRL's wheel carries the templates of many models as plain files; it need not be imported for them.
"""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime
from functools import cached_property
from importlib.util import find_spec
from os.path import isfile
from pathlib import Path
from typing import Any

from jinja2 import Environment, TemplateError, meta, nodes
from jinja2.ext import Extension
from jinja2.parser import Parser
from jinja2.sandbox import ImmutableSandboxedEnvironment

from toolloom.pipeline.store.files import explain
from toolloom.schemas import ExportError, JsonObject, NothingFound

# Templates of much-used models, which differ in how they take calls.
USUAL = ("qwen2_5", "qwen3", "llama3_1", "deepseekv3", "gemma4_v5", "glm4moe", "gptoss")
TODAY = datetime(2026, 1, 1)  # a check must not depend on the day
MOST = 20_000_000  # characters of a rendering
LONGEST = 10.0  # seconds a rendering may take
BIGGEST = 1_000_000  # bytes of a template


class Generation(Extension):
    """The tag `{% generation %}`, which marks what the assistant said; here it is just text."""

    tags = {"generation"}  # noqa: RUF012 jinja2's own form

    def parse(self, parser: Parser) -> list[nodes.Node]:
        next(parser.stream)
        return parser.parse_statements(("name:endgeneration",), drop_needle=True)


def _tojson(
    value: Any,
    ensure_ascii: bool = False,
    indent: int | None = None,
    separators: tuple[str, str] | None = None,
    sort_keys: bool = False,
) -> str:
    """As `transformers` has it: without jinja2's escapes for HTML."""
    form: Any = {"indent": indent, "separators": separators, "sort_keys": sort_keys}
    return json.dumps(value, ensure_ascii=ensure_ascii, **form)


def _raise(message: str) -> None:
    raise TemplateError(message)


def environment() -> Environment:
    extensions = [Generation, "jinja2.ext.loopcontrols"]
    made = ImmutableSandboxedEnvironment(
        trim_blocks=True, lstrip_blocks=True, extensions=extensions
    )
    made.filters["tojson"] = _tojson
    made.globals |= {"raise_exception": _raise, "strftime_now": TODAY.strftime}
    return made


@dataclass(frozen=True)
class ChatTemplate:
    """A template with a name."""

    name: str
    source: str

    @cached_property
    def _compiled(self) -> Any:
        try:
            return environment().from_string(self.source)
        except TemplateError as error:
            raise ExportError(f"The chat template {self.name} is broken ({error}).") from error

    @cached_property
    def _variables(self) -> set[str]:
        return meta.find_undeclared_variables(environment().parse(self.source))

    @property
    def shows_tools(self) -> bool:
        """Whether it writes out the tools."""
        return "tools" in self._variables

    @property
    def knows_tools(self) -> bool:
        """Whether it has any idea of tools or calls."""
        return self.shows_tools or "tool_calls" in self.source

    def render(self, messages: list[JsonObject], tools: list[JsonObject]) -> str:
        """The text a model is trained on. Raises whatever the template runs into."""
        started, parts, length = time.monotonic(), list[str](), 0
        for part in self._compiled.generate(
            messages=messages,
            tools=tools or None,
            documents=None,
            add_generation_prompt=False,
            bos_token="<s>",
            eos_token="</s>",
            pad_token="<pad>",
            unk_token="<unk>",
        ):
            parts.append(part)
            length += len(part)
            if length > MOST or time.monotonic() - started > LONGEST:
                raise TemplateError("the rendering grows too long or takes too long")
        return "".join(parts)


def shipped() -> dict[str, Path]:
    """TRL's templates by name; none where TRL is not installed."""
    spec = find_spec("trl")
    places = (spec.submodule_search_locations if spec else None) or ()
    paths = [path for place in places for path in Path(place).glob("chat_templates/*.jinja")]
    return {path.stem: path for path in sorted(paths)}


def choose(wanted: list[str]) -> list[ChatTemplate]:
    """Templates by name, `all`, or path; those in common use if none is named.

    Raises NothingFound, and StoreError for a file that cannot be read.
    """
    known = shipped()
    if not wanted:
        return [_read(name, known[name]) for name in USUAL if name in known]
    return [template for name in wanted for template in _named(name, known)]


def _named(name: str, known: dict[str, Path]) -> Iterator[ChatTemplate]:
    if name == "all" and known:
        # The `_training` ones render the same text with marks for the loss.
        usual = [one for one in known if not one.endswith("_training")]
        yield from (_read(one, known[one]) for one in usual)
    elif name in known:
        yield _read(name, known[name])
    elif isfile(name):
        yield _read(Path(name).name, Path(name))
    else:
        there = f"TRL ships: {', '.join(known)}." if known else "TRL, which ships some, is missing."
        raise NothingFound(f"--template {name}: no such file, and no such template. {there}")


def _read(name: str, path: Path) -> ChatTemplate:
    try:
        with path.open("rb") as file:
            raw = file.read(BIGGEST + 1)
        if len(raw) > BIGGEST:
            raise ExportError(f"{path}: is over {BIGGEST:,} bytes, too long for a chat template.")
        return ChatTemplate(name, raw.decode())
    except OSError as error:
        raise explain(path, error, "read") from error
    except UnicodeDecodeError as error:
        raise ExportError(f"{path}: is no text in UTF-8, so no chat template.") from error
