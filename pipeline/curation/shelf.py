"""Notes on rows, on the disk for as long as they are needed."""

from __future__ import annotations

import json
import tempfile
from array import array
from pathlib import Path
from typing import Any


class Shelf:
    """JSON values by number. Its file has no name, so that a killed process leaves nothing."""

    def __init__(self, folder: Path) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self._file = tempfile.TemporaryFile(dir=folder)  # noqa: SIM115 - open as long as it lives
        self._ends = array("q", [0])

    def __len__(self) -> int:
        return len(self._ends) - 1

    def put(self, value: Any) -> None:
        raw = json.dumps(value, separators=(",", ":")).encode()
        self._file.write(raw)
        self._ends.append(self._ends[-1] + len(raw))

    def get(self, number: int) -> Any:
        start, end = self._ends[number], self._ends[number + 1]
        self._file.seek(start)
        return json.loads(self._file.read(end - start))

    def close(self) -> None:
        self._file.close()
