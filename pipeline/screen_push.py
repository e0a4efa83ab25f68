"""How far a push is, and what came of it."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from typing import TYPE_CHECKING, Self

from toolloom.pipeline.screen import text
from toolloom.pipeline.screen_cache import size

if TYPE_CHECKING:
    from rich.console import Console

    from toolloom.pipeline.parcel import Load
    from toolloom.pipeline.push import Pushed
    from toolloom.pipeline.versions import Version

SECONDS_BETWEEN_LINES = 3


class Ticking:
    """Now and then a line that says how far a push is."""

    def __init__(self, console: Console, load: Load) -> None:
        self._console = console
        self._load = load
        self._began = time.monotonic()
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._tell, daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *error: object) -> None:
        self._over.set()
        self._thread.join()

    def _tell(self) -> None:
        while not self._over.wait(SECONDS_BETWEEN_LINES):
            self._console.print(text(self._line()), soft_wrap=True)

    def _line(self) -> str:
        load, seconds = self._load, time.monotonic() - self._began
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
