"""Brings what is written to the store while the work goes on: in a thread, markers last."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterable

from toolloom.pipeline.store.files import explain
from toolloom.pipeline.store.mirror_unit import Unit
from toolloom.schemas import StoreError


class Pushes:
    """What is on its way to the store from one folder. It ends with the lock on the folder.

    What waits is taken together: files first, then markers, then what is not needed any more is
    removed. An error ends it; it is raised at the next file, and at the end.
    """

    def __init__(self, unit: Unit) -> None:
        self.unit = unit
        self._changed = threading.Condition()
        self._files: list[str] = []
        self._cleared: list[str] = []
        self._busy = self._closed = False
        self._error: BaseException | None = None
        self._thread = threading.Thread(target=self._work, name="pushes", daemon=True)
        self._thread.start()

    def add(self, names: Iterable[str]) -> None:
        """Bring files to the store soon."""
        with self._changed:
            self._raise()
            self._files.extend(names)
            self._changed.notify_all()

    def clear(self, folder: str) -> None:
        """Remove a folder from the store when all that came before is there."""
        with self._changed:
            self._cleared.append(folder)
            self._changed.notify_all()

    def end(self, patience: float | None = None) -> None:
        """Wait until all is in the store, or so many seconds. Raises StoreError."""
        until = None if patience is None else time.monotonic() + patience
        with self._changed:
            while (self._files or self._cleared or self._busy) and not self._error:
                left = None if until is None else until - time.monotonic()
                if left is not None and left <= 0:
                    break
                self._changed.wait(left)
            self._closed = True
            self._changed.notify_all()
            self._raise()

    def _raise(self) -> None:
        if isinstance(self._error, StoreError):
            raise StoreError(str(self._error)) from self._error
        if isinstance(self._error, OSError):  # of the disk here
            raise explain(self.unit.path, self._error, "written") from self._error
        if self._error:
            raise self._error

    def _work(self) -> None:
        while batch := self._next():
            try:
                self.unit.give(batch[0])
                for folder in batch[1]:
                    self.unit.clear(folder)
            except BaseException as error:  # noqa: BLE001 – raised where it is waited for
                with self._changed:
                    self._error = error
                    self._changed.notify_all()
                return

    def _next(self) -> tuple[list[str], list[str]] | None:
        """All that waits; None when nobody wants more."""
        with self._changed:
            self._busy = False
            self._changed.notify_all()
            while not (self._files or self._cleared or self._closed):
                self._changed.wait()
            if self._closed:
                return None
            batch = self._files, self._cleared
            self._files, self._cleared, self._busy = [], [], True
            return batch
