"""What a terminal shows."""

from __future__ import annotations

from typing import Any

from rich.console import Console

from toolloom.pipeline.render.section import Section
from toolloom.pipeline.render.terminal import view


def shown(*things: Any, width: int = 200) -> str:
    """Whatever rich prints, and sections as the commands print them."""
    console = Console(width=width)
    with console.capture() as captured:
        for thing in things:
            console.print(view(thing) if _is_sections(thing) else thing)
    return captured.get()


def _is_sections(thing: Any) -> bool:
    return isinstance(thing, list) and all(isinstance(each, Section) for each in thing)
