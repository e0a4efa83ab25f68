"""Sections as Markdown, which data cannot break out of."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from toolloom.pipeline.render.section import Section, shown, visible


def markdown(sections: Iterable[Section]) -> str:
    """Sections with an empty line between them; a title is a heading of the second level."""
    return "\n\n".join(part for section in sections for part in _parts(section) if part)


def _parts(section: Section) -> list[str]:
    notes = [cell(line) for line in section.note.splitlines()]
    rows = [*section.rows, *([section.total] if section.total else [])]
    head = section.head or [""] * len(rows[0]) if rows else ()
    return [
        f"## {cell(section.title)}" if section.title else "",
        table(head, (map(shown, row) for row in rows)),
        "\n".join(notes),
        "\n".join(f"- {cell(item)}" for item in section.items),
    ]


def table(head: Iterable[Any], rows: Iterable[Iterable[Any]]) -> str:
    """A Markdown table; empty without rows. Cells are data and cannot break out of it."""
    names = list(head)
    lines = [names, ["---"] * len(names), *rows]
    if len(lines) == 2:
        return ""
    return "\n".join("| " + " | ".join(cell(v) for v in line) + " |" for line in lines)


def cell(value: Any) -> str:
    """One line of Markdown without HTML, links, table bars, or what a terminal obeys."""
    text = visible(" ".join(str(value).split()))
    for character in "\\|<>[]":
        text = text.replace(character, f"\\{character}")
    return text
