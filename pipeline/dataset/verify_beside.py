"""The certain checks of a version's dialogues, in processes beside the one that reads its rows.

They take most of the time of a row, lean on nothing but the row and its world, and so keep every
core busy while the rows themselves are read, compared and counted. What a process does not answer,
as one that was killed, is looked at where the rows are read.
"""

from __future__ import annotations

import os
import signal
import threading
from collections import deque
from collections.abc import Iterable, Iterator
from concurrent.futures import Future, ProcessPoolExecutor
from multiprocessing import get_context, parent_process
from types import TracebackType
from typing import TypeAlias

from toolloom.pipeline.checks import inspect
from toolloom.pipeline.checks.world.interpreter import Machine
from toolloom.pipeline.dataset.rows import parsed
from toolloom.schemas import Dialogue, Finding, JsonObject

AHEAD = 24  # dialogues that wait for each process, some 40 kB each
Found: TypeAlias = tuple[str | None, tuple[Finding, ...]]
"""Hash of the world that a dialogue was run in, if any; what was found."""

_machines: dict[str, Machine] = {}  # of a process, by hash


class Inspectors:
    """Processes that inspect the dialogues of rows before these are asked for."""

    def __init__(self, processes: int, worlds: Iterable[tuple[str, JsonObject]]) -> None:
        """`worlds`: hash and spec of those that are sound."""
        self._pool = ProcessPoolExecutor(processes, get_context("spawn"), _begin, (list(worlds),))
        self._most = AHEAD * processes
        self._now: Future[Found] | None = None  # of the row that is read

    def __enter__(self) -> Inspectors:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, _: object, __: TracebackType | None
    ) -> None:
        self._pool.shutdown(wait=kind is None, cancel_futures=True)

    def ahead(self, rows: Iterable[tuple[str, JsonObject]]) -> Iterator[tuple[str, JsonObject]]:
        """The same rows of samples, as their dialogues are looked at."""
        waiting = deque[tuple[tuple[str, JsonObject], Future[Found] | None]]()
        for row in rows:
            waiting.append((row, self._asked(row[1].get("dialogue"))))
            if len(waiting) > self._most:
                first, self._now = waiting.popleft()
                yield first
        for first, self._now in waiting:
            yield first

    def found(self, world: str | None) -> tuple[Finding, ...] | None:
        """What was found in the dialogue of the row that is read, run in this world; None if no
        process could tell."""
        try:
            within, findings = self._now.result() if self._now else ("", ())
        except Exception:  # noqa: BLE001  # a foreign row: anything may have come of it there
            return None
        return findings if within == world else None

    def _asked(self, dialogue: object) -> Future[Found] | None:
        try:
            return self._pool.submit(_inspected, dialogue) if isinstance(dialogue, str) else None
        except RuntimeError:  # the pool is broken
            return None


def _begin(worlds: list[tuple[str, JsonObject]]) -> None:
    """A process's start: it ends with the one that began it, however that ends."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    threading.Thread(target=_end_with_parent, daemon=True).start()
    _machines.update({name: Machine(spec) for name, spec in worlds})


def _end_with_parent() -> None:
    if parent := parent_process():
        parent.join()
    os._exit(1)


def _inspected(text: str) -> Found:
    dialogue = Dialogue.model_validate(parsed(text))
    setting = dialogue.query.setting
    world = setting.hash if setting and setting.hash in _machines else None
    return world, inspect(dialogue, world=_machines[world] if world else None)
