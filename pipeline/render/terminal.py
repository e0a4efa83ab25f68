"""Sections and dialogues on a terminal. Text of models is shown as data, whatever it holds."""

from __future__ import annotations

import json
from collections.abc import Iterable

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from toolloom.pipeline.render.section import Section, shown, visible
from toolloom.schemas import JsonObject

COLOURS = {"system": "dim", "user": "cyan", "assistant": "green", "tool": "yellow"}


def text(value: object, style: str = "") -> Text:
    """Safe text without markup."""
    return Text(visible(value), style=style)


def indented(value: object) -> Text:
    return text("\n".join(f"  {line}" for line in str(value).split("\n")))


def view(sections: Iterable[Section]) -> RenderableType:
    """Sections, one below the other, with an empty line between them."""
    lines: list[RenderableType] = []
    for section in sections:
        lines += [
            *([text("")] if lines else []),
            *([text(section.title, "bold")] if section.title else []),
            *([_grid(section)] if section.head or section.rows else []),
            *([text(section.note)] if section.note else []),
            *map(indented, section.items),
        ]
    return Group(*lines)


def _grid(section: Section) -> Table:
    """A table without lines; numbers, shares and dollars to the right, under whole names."""
    grid = Table(
        box=None,
        pad_edge=False,
        header_style="dim",
        padding=(0, 3, 0, 0),
        show_header=bool(section.head),
    )
    width = max((len(row) for row in section.rows), default=len(section.head))
    for column, name in enumerate(section.head or [""] * width):
        figures = section.is_number(column)
        grid.add_column(name, justify="right" if figures else "left", min_width=len(name) * figures)
    for row in (*section.rows, *([section.total] if section.total else [])):
        grid.add_row(*(text(shown(cell)) for cell in row))
    return grid


def messages_view(messages: Iterable[JsonObject]) -> RenderableType:
    """Messages, numbered as findings number them."""
    lines: list[RenderableType] = []
    for number, message in enumerate(messages):
        style = COLOURS.get(message["role"], "")
        lines.append(text(f"{number} {message['role']}{_came_about(message)}", style))
        if message.get("content") is not None:
            lines.append(indented(message["content"]))
        for call in message.get("tool_calls") or ():
            function = call["function"]
            arguments = json.dumps(function["arguments"], ensure_ascii=False)
            lines.append(indented(f"→ {function['name']}({arguments})"))
    return Group(*lines)


def _came_about(message: JsonObject) -> str:
    """How a tool message came about, such as ` (executed by mcp:git)`."""
    execution = message.get("execution")
    if not execution or execution["kind"] == "search":
        return ""
    by = f" by {execution['by']}" if execution["by"] else ""
    failure = f", {execution['failure']}" if execution["failure"] else ""
    whole = execution["whole_tokens"]
    short = f", compressed from {whole:,} tokens" if whole else ""
    return f" ({execution['kind']}{by}{failure}{short})"
