"""Markdown of data, which cannot break out of its place."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from toolloom.pipeline.render.terminal import safe


def table(head: Iterable[Any], rows: Iterable[Iterable[Any]]) -> str:
    """A Markdown table; empty without rows. Cells are data and cannot break out of it."""
    names = list(head)
    lines = [names, ["---"] * len(names), *rows]
    if len(lines) == 2:
        return ""
    return "\n".join("| " + " | ".join(cell(v) for v in line) + " |" for line in lines)


def cell(value: Any) -> str:
    """One line of Markdown without HTML, links, table bars, or what a terminal obeys."""
    text = safe(" ".join(str(value).split()))
    for character in "\\|<>[]":
        text = text.replace(character, f"\\{character}")
    return text
