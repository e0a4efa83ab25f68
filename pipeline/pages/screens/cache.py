"""What a person sees of the response cache."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import TYPE_CHECKING

from rich.console import Group, RenderableType

from toolloom.pipeline.dataset.report import dollars
from toolloom.pipeline.render.terminal import grid, text

if TYPE_CHECKING:
    from toolloom.llm.cache_admin import Contents, Pruned, UsageByGroup

FIGURES = ("responses", "size", "requests", "tokens sent", "cached", "received")
UNKNOWN = "–"


def contents_view(contents: Contents) -> RenderableType:
    """Tables by model and by run, and a line with the sums."""
    total = contents.total
    head = f"{contents.where}: {total.responses:,} responses, {size(total.bytes)}"
    if contents.oldest is None or contents.newest is None:
        return text(f"{head}.")
    priced = total.cost > 0
    ages = f"from {_day(contents.oldest)} to {_day(contents.newest)}"
    return Group(
        text(f"{head}, {ages}."),
        text(""),
        _table(("model", "endpoint", "kind"), contents.by_model, priced),
        text(""),
        _table(("run",), contents.by_run, priced),
    )


def pruned_line(pruned: Pruned, dry: bool) -> str:
    """A sentence on what was removed, or would be."""
    total = pruned.total
    if not total.responses:
        return f"{pruned.where}: no response is like that; nothing was removed."
    cost = f", which cost {dollars(total.cost)}" if total.cost else ""
    what = f"{total.responses:,} responses ({size(total.bytes)}){cost}"
    if dry:
        return f"{pruned.where}: {what}, would be removed; nothing was."
    room = (
        "the disk has the room back"
        if pruned.returned
        else ("their room is used for later responses, as another process has the cache open")
    )
    return f"{pruned.where}: {what}, removed; {room}."


def size(count: int) -> str:
    """A number of bytes: 512 B, 1.5 kB, 20.0 MB."""
    value = float(count)
    for unit in ("B", "kB", "MB", "GB"):
        if value < 1000 or unit == "GB":
            break
        value /= 1000
    return f"{count} B" if unit == "B" else f"{value:,.1f} {unit}"


def _table(names: Sequence[str], shares: Sequence[UsageByGroup], priced: bool) -> RenderableType:
    head = [*names, *FIGURES, *(["cost"] if priced else [])]
    return grid(head, [_row(share, priced) for share in shares])


def _row(share: UsageByGroup, priced: bool) -> list[object]:
    named = [name or UNKNOWN for name in share.name]
    tokens = (share.prompt_tokens, share.cached_tokens, share.completion_tokens)
    cost = [dollars(share.cost)] if priced else []
    return [*named, share.responses, size(share.bytes), share.requests, *tokens, *cost]


def _day(at: float) -> str:
    return datetime.fromtimestamp(at).strftime("%Y-%m-%d %H:%M")
