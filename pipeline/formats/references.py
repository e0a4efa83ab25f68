"""References between and within files: followed below the root file's folder, never fetched."""

from __future__ import annotations

import re
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any, NamedTuple, TypeAlias
from urllib.parse import unquote

from toolloom.pipeline.formats.files import load
from toolloom.pipeline.formats.import_log import ImportLog, Obstacle, legible
from toolloom.schemas import ImportFailed

MOST_FILES = 1_000
_HOPS = 20  # references that lead to references
_SCHEME = re.compile(r"[a-zA-Z][a-zA-Z0-9+.-]+:|//")
_READABLE = {".json", ".yaml", ".yml"}


class Found(NamedTuple):
    """What a reference leads to. `key` is the same for every way to the same place."""

    value: Any
    resolve: Resolve
    key: str


Resolve: TypeAlias = Callable[[str, str], Found | None]
"""(reference, place for the report) → what it leads to; None if that is booked as unresolved.

`Found.resolve` resolves references that stand in what was found.
"""


class Resolver:
    """All references of one source. Each file is read once."""

    def __init__(self, root_file: Path | None, document: Any, ledger: ImportLog) -> None:
        """Without a `root_file` only references within the document are followed."""
        self._root = root_file.resolve() if root_file else Path()
        self._folder = self._root.parent if root_file else None
        self._ledger = ledger
        self._files: dict[Path, Any] = {self._root: document}
        self._found: dict[tuple[Path, str], Found | Obstacle] = {}
        self._scopes: dict[Path, Resolve] = {}
        self._pending: set[tuple[Path, str]] = set()

    @property
    def root(self) -> Resolve:
        """Resolves references that stand in the root file."""
        return self._scope(self._root)

    def _scope(self, file: Path) -> Resolve:
        if file not in self._scopes:
            self._scopes[file] = lambda reference, place: self._follow(reference, file, place)
        return self._scopes[file]

    def _follow(self, reference: str, file: Path, place: str) -> Found | None:
        known = self._found.get((file, reference))
        if known is None:
            known = self._found[file, reference] = self._look(reference, file, place)
        if isinstance(known, str):
            self._ledger.unresolved(legible(reference[:300]), legible(place[:300]), known)
            return None
        return known

    def _look(self, reference: str, file: Path, place: str) -> Found | Obstacle:
        """RFC 6901. A pointer may lead through other references, as many real ones do."""
        address, _, fragment = reference.partition("#")
        target = self._target(unquote(address), file) if address else file
        if isinstance(target, str):
            return target
        pointer = unquote(fragment)
        here: Found = Found(self._files[target], self._scope(target), f"{target}#")
        if not pointer.strip("/"):
            return here
        if not pointer.startswith("/") or (target, pointer) in self._pending:
            return "missing"
        self._pending.add((target, pointer))
        try:
            for token in pointer[1:].split("/"):
                name = token.replace("~1", "/").replace("~0", "~")
                stepped = _step(here, name) or self._through(here, name, place)
                if stepped is None:
                    return "missing"
                here = stepped
        finally:
            self._pending.discard((target, pointer))
        return here

    def _target(self, address: str, file: Path) -> Path | Obstacle:
        if _SCHEME.match(address):
            return "remote"
        try:
            path = (file.parent / address).resolve()
            if self._folder is None or Path(address).is_absolute() or "\\" in address:
                return "outside"
            if not path.is_relative_to(self._folder):
                return "outside"
            if not path.is_file():
                return "missing"
        except (OSError, ValueError, RuntimeError):  # names no file can have, loops of links
            return "missing"
        if path.suffix.lower() not in _READABLE:
            return "unreadable"
        if path not in self._files and len(self._files) < MOST_FILES:
            self._files[path] = None
            with suppress(ImportFailed):
                self._files[path] = load(path, self._ledger)
        return path if isinstance(self._files.get(path), dict | list) else "unreadable"

    def _through(self, here: Found, name: str, place: str) -> Found | None:
        reference = here.value.get("$ref") if isinstance(here.value, dict) else None
        target = here.resolve(reference, place) if isinstance(reference, str) else None
        return target and _step(target, name)


def _step(here: Found, name: str) -> Found | None:
    value = here.value
    if isinstance(value, dict) and name in value:
        return here._replace(value=value[name], key=f"{here.key}/{name}")
    if isinstance(value, list) and name.isdecimal() and len(name) < 9 and int(name) < len(value):
        return here._replace(value=value[int(name)], key=f"{here.key}/{name}")
    return None


def settled(value: Any, resolve: Resolve, place: str) -> tuple[Any, Resolve]:
    """An object of an API description, and if it is a reference, what it leads to in the end."""
    for _ in range(_HOPS):
        reference = value.get("$ref") if isinstance(value, dict) else None
        if not isinstance(reference, str):
            return value, resolve
        found = resolve(reference, place)
        if found is None:
            break
        value, resolve = found.value, found.resolve
    return None, resolve
