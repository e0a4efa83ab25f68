"""The journal of a folder of a mirror: which files are in the store, too, and how they were."""

from __future__ import annotations

import json
import threading
from contextlib import suppress
from dataclasses import astuple, dataclass
from pathlib import Path

from toolloom.pipeline.store.remote import RemoteFile


@dataclass(frozen=True)
class Both:
    """A file that is in both places: in the store, and here."""

    size: int
    tag: str  # empty: not told yet, as stores do not when a file is given to them
    changed: int  # st_mtime_ns

    def is_there(self, seen: RemoteFile) -> bool:
        return self.size == seen.size and self.tag in ("", seen.tag)


class Journal:
    """A line for each change, so that a kill costs one at most; safe among threads."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._writing = threading.Lock()
        self._both: dict[str, Both] = {}

    def __getitem__(self, name: str) -> Both | None:
        return self._both.get(name)

    def names(self) -> list[str]:
        with self._writing:
            return list(self._both)

    def note(self, name: str, both: Both | None) -> None:
        """Write down what is in both places; None: nothing."""
        with self._writing:
            if both is None:
                self._both.pop(name, None)
            else:
                self._both[name] = both
            with self.path.open("a", encoding="utf-8") as file:
                file.write(_line(name, both))

    def read(self, shorten: bool) -> None:
        """Take in what processes have noted; `shorten`: nobody else writes now."""
        count = 0
        self._both = {}
        with suppress(FileNotFoundError), self.path.open(encoding="utf-8") as file:
            for line in file:
                count += 1
                with suppress(ValueError, TypeError):  # a line that a kill has cut
                    name, fields = json.loads(line)
                    self._both.pop(name, None)
                    if fields:
                        self._both[name] = Both(*fields)
        if shorten and count > 2 * len(self._both) + 100:
            temporary = self.path.with_name(f"{self.path.name}.tmp")
            lines = (_line(name, both) for name, both in self._both.items())
            temporary.write_text("".join(lines), encoding="utf-8")
            temporary.replace(self.path)


def _line(name: str, both: Both | None) -> str:
    return json.dumps([name, both and astuple(both)]) + "\n"
