"""What a terminal shows."""

from __future__ import annotations

from collections.abc import Iterable

from rich.console import Console

from toolloom.pipeline.render.section import Section
from toolloom.pipeline.render.terminal import view


def shown(sections: Iterable[Section]) -> str:
    """Sections as the commands print them."""
    console = Console(width=200)
    with console.capture() as captured:
        console.print(view(sections))
    return captured.get()
