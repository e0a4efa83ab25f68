"""How far a push is, and what came of it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from toolloom.pipeline.pages.screens.cache import size

if TYPE_CHECKING:
    from toolloom.pipeline.dataset.parcel import Load
    from toolloom.pipeline.dataset.push import Pushed
    from toolloom.pipeline.store.version import Version


def sent_line(load: Load, seconds: float) -> str:
    """How far a push is."""
    if not load.files:
        return f"comparing with the Hub, {seconds:.0f} s"
    return (
        f"sent {load.sent:,} of {len(load.files):,} files, "
        f"{size(load.sent_bytes)} of {size(load.bytes)}, {seconds:.0f} s"
    )


def pushed_lines(version: Version, pushed: Pushed) -> Iterator[str]:
    """What a push came to, ending with the line that loads it."""
    kind = "private" if pushed.private else "public"
    yield f"{version.label} is at {pushed.url} ({kind}), tag {pushed.number}."
    if pushed.committed:
        yield (
            f"Commit {pushed.commit[:12]}: {_files(pushed.files)}, of which {pushed.sent:,} were "
            f"sent ({size(pushed.sent_bytes)})"
            + (f"; {_files(pushed.deleted)} of another version deleted." if pushed.deleted else ".")
        )
    elif pushed.tagged:
        yield f"The commit {pushed.commit[:12]} was there, and lacked the tag."
    else:
        yield f"It was there already, as commit {pushed.commit[:12]}: nothing was sent."
    yield pushed.load_line


def _files(count: int) -> str:
    return f"{count:,} file{'' if count == 1 else 's'}"
