"""Notes on rows, on the disk for as long as they are needed."""

from __future__ import annotations

import os
import tempfile
from array import array
from pathlib import Path


class SpillFile:
    """Bytes by number. Its file has no name, so that a killed process leaves nothing."""

    def __init__(self, folder: Path) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self._file = tempfile.TemporaryFile(dir=folder)  # noqa: SIM115 - open as long as it lives
        self._ends = array("q", [0])

    def __len__(self) -> int:
        return len(self._ends) - 1

    def put(self, value: bytes) -> None:
        self._file.write(value)
        self._ends.append(self._ends[-1] + len(value))

    def get(self, number: int) -> bytes:
        start, end = self._ends[number], self._ends[number + 1]
        self._file.flush()
        return os.pread(self._file.fileno(), end - start, start)

    def close(self) -> None:
        self._file.close()
