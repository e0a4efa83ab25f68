"""What importers find becomes `Api` records here, except repeats of what was found before."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterator
from hashlib import sha256
from pathlib import Path
from typing import Any, TypeAlias

from toolloom.pipeline.formats.import_log import ImportLog, legible, sentence, writable
from toolloom.pipeline.formats.json_schema import RETURNS, arguments, plain
from toolloom.schemas import Api, JsonObject, Source
from toolloom.schemas.api import SourceKind

LONGEST_TEXT = 1024
LONGEST_NAME = 200

Seen: TypeAlias = dict[str, set[bytes]]  # hashes of the descriptions read under an id


class ApiBuilder:
    """One source's way into the pool: counts what is found and keeps its ids unique."""

    def __init__(
        self, ledger: ImportLog, kind: SourceKind, reference: str = "", seen: Seen | None = None
    ) -> None:
        """`seen`: what the files read before this one held, where several are one source."""
        self.ledger = ledger
        self.kind: SourceKind = kind
        self.reference = reference or ledger.source
        self._seen: Seen = {} if seen is None else seen
        self._repeats = 0

    def refuse(self, what: str, why: str) -> None:
        self.ledger.refuse(what, why)

    def api(
        self,
        *,
        category: str,
        tool: Any,
        name: Any,
        description: Any,
        parameters: Any,
        returns: Any = None,
        wanted: str = "",
        operation: str = "",
        deprecated: bool = False,
    ) -> Iterator[Api]:
        """The API of what was found, or nothing: a repeat is counted, what has no name booked.

        Every value may be hostile. What its source files under no category is one with its tool.
        `wanted`: the function name, if it is not `name`.
        """
        called = line(name)
        if not called:
            shown = filter(None, (line(tool), line(description)[:60]))
            return self.refuse(": ".join(shown), "It has no name.")
        path = [line(category) or line(tool) or "unnamed", line(tool) or "unnamed", called]
        raw = _fingerprint([description, parameters, returns])
        known = self._seen.setdefault("/".join(path), set())
        if raw in known:
            self._repeats += 1
            return None
        known.add(raw)
        if len(known) > 1:
            number = len(known)
            start = "/".join(path)
            while f"{start} ({number})" in self._seen:
                number += 1
            self._seen[f"{start} ({number})"] = {raw}
            path[2] = f"{path[2]} ({number})"
        self.ledger.read += 1
        api = "/".join(path)
        yield Api(
            category=path[0],
            tool=path[1],
            name=path[2],
            function=self.ledger.function(wanted or called, api),
            description=self.ledger.shortened(sentence(description), LONGEST_TEXT, api),
            parameters=self._arguments(parameters, api),
            returns=self._returned(returns, api),
            deprecated=deprecated,
            source=Source(kind=self.kind, reference=self.reference, operation=operation or called),
        )
        return None

    def close(self) -> None:
        """Say how many repeats there were: they are no further operations."""
        if self._repeats:
            self.ledger.note(
                f"{self.reference}: descriptions that stand again and count once: {self._repeats}."
            )
            self._repeats = 0

    def _arguments(self, parameters: Any, api: str) -> JsonObject:
        if parameters is not None and not isinstance(parameters, dict):
            self.ledger.cut(api, "parameters", "invalid")
            parameters = None
        return arguments(parameters or {}, ledger=self.ledger, api=api)

    def _returned(self, returns: Any, api: str) -> JsonObject | None:
        if not returns:
            return None
        return plain(returns, ledger=self.ledger, api=api, place="returns", budget=RETURNS) or None


def reference(path: Path) -> str:
    """How a record names the file it comes from: without the folders of this machine.

    A file below the current folder has one name, however its path is given.
    """
    try:
        return Path(os.path.abspath(path)).relative_to(Path.cwd()).as_posix()
    except ValueError:
        return path.name


def text(value: Any) -> str:
    """Text that UTF-8 can hold; of anything else, nothing."""
    return writable(value) if isinstance(value, str) else ""


def line(value: Any) -> str:
    """A name as one line of text, at most 200 characters."""
    if isinstance(value, int | float):
        value = str(value)
    if not isinstance(value, str):
        return ""
    return re.sub(r"\s+", " ", legible(value[: 4 * LONGEST_NAME])).strip()[:LONGEST_NAME]


def words(name: str) -> str:
    """`weather_tools.daily` as `weather tools daily`."""
    return re.sub(r"[._\-\s]+", " ", name).strip()


def _fingerprint(value: Any) -> bytes:
    """A hash of a description."""
    text = json.dumps(value, sort_keys=True, default=str)
    return sha256(text.encode()).digest()[:12]
