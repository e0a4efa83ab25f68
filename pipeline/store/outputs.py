"""A folder of outputs in a store, worked on in a local folder: its mirror.

`opened` turns `s3://bucket/prefix` into the mirror's path; what code then writes and looks for
there is told in mirror.py.

    <mirror>/.mirror.json                         the URL
    <mirror>/{runs,datasets,pools}/<name>/.store.jsonl   what of it is in the store (mirror_unit.py)
    <mirror>/cache.sqlite                         never leaves this machine
"""

from __future__ import annotations

import hashlib
import json
import logging
import os
import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from pathlib import Path

from toolloom.llm.log import note
from toolloom.pipeline.store.files import explain
from toolloom.pipeline.store.mirror import MIRRORS
from toolloom.pipeline.store.mirror_unit import Pushes, Role, Unit
from toolloom.pipeline.store.remote import Remote, RemoteFile, each, is_url
from toolloom.schemas import StoreError

VARIABLE = "TOOLLOOM_MIRROR"
NAME = ".mirror.json"
KINDS = ("runs", "datasets", "pools", "exports")  # what of a folder of outputs is in the store
LAST_WORDS = 60.0  # seconds in which a run that ends with an error brings to the store what it has
LAST_MOMENT = 0.8  # the same for one that is stopped

TELL: ContextVar[Callable[[str], None] | None] = ContextVar("TELL", default=None)
"""Who is told that a fetch takes long; else the log is."""


def opened(outputs: str | Path, refresh: bool = True) -> Path:
    """The local folder for a folder of outputs: a path stays, a URL gets its mirror.

    A mirror knows afterwards which runs, versions and pools the store has; without `refresh` it
    knows what it knew before, and no more is asked. Raises StoreError.
    """
    if Path(outputs) in MIRRORS:
        return Path(outputs)
    text = _as_url(outputs)
    if text is None:
        return Path(outputs)
    if text.startswith(("file://", "local://")):
        return Path(text.partition("://")[2])
    remote = Remote(text)
    remote.reach()
    readable = re.sub(r"[^a-z0-9]+", "-", remote.url.lower()).strip("-")[:40]
    hashed = hashlib.sha256(f"{remote.url}\n{remote.endpoint}".encode()).hexdigest()
    root = _home() / f"{readable}-{hashed[:12]}"
    mirror = MIRRORS.setdefault(root, Mirror(root, remote))
    if refresh or not (root / NAME).exists():
        mirror.refresh()
    return root


class Mirror:
    """A local folder that stands for a folder of outputs in a store."""

    def __init__(self, root: Path, remote: Remote) -> None:
        self.root = root
        self.remote = remote
        self._pushes: dict[str, Pushes] = {}

    def refresh(self) -> None:
        """Learn which runs, versions and pools the store has now; pools are fetched whole."""
        with _on_disk(self.root):
            self.root.mkdir(parents=True, exist_ok=True)
            name_file = self.root / NAME
            if not name_file.exists():
                name_file.write_text(json.dumps({"url": self.remote.url}) + "\n", encoding="utf-8")
        for kind in ("runs", "datasets", "pools"):
            there = {name for name, seen in self.remote.names(kind).items() if seen is None}
            here = {path.parent.name for path in (self.root / kind).glob("*/.store.jsonl")}
            each(self._look, [f"{kind}/{name}" for name in sorted(there | here)])

    def fetch(self, name: str) -> None:
        """Bring a run, a version or a file up to date, unless this machine is at work on it."""
        unit, inner = self._unit(name)
        # What the store has a folder of, has one here since `refresh`.
        if unit is not None and unit.path.is_dir() and (inner or unit.kind == "runs"):
            self._update(
                unit,
                lambda: unit.files(inner),
                lambda n: not inner or n == inner or n.startswith(f"{inner}/"),
            )

    def push(self, name: str) -> None:
        unit, inner = self._unit(name)
        if unit is None or not inner or "/." in name:
            return
        names = unit.inner_names(inner) or [inner]
        if pushes := self._pushes.get(unit.name):
            pushes.add(names)
            return
        with _on_disk(unit.path), unit.alone():
            unit.give(names)

    def clear(self, name: str) -> None:
        unit, inner = self._unit(name)
        if unit is not None and (pushes := self._pushes.get(unit.name)):
            pushes.clear(inner)

    @contextmanager
    def holding(self, name: str) -> Iterator[None]:
        unit, inner = self._unit(name)
        if unit is None or inner:
            yield
            return
        with _on_disk(unit.path), unit.alone(Role.HOLDER):
            there = unit.files() if unit.kind == "runs" else unit.looked()
            within = (lambda _: True) if unit.kind == "runs" else unit.is_seen_at_once
            unit.update(there, within, Role.HOLDER, _tell)
        pushes = self._pushes[unit.name] = Pushes(unit)
        try:
            yield
        except BaseException as error:
            with suppress(StoreError):  # the first error is the one to tell
                pushes.end(LAST_WORDS if isinstance(error, Exception) else LAST_MOMENT)
            raise
        else:
            pushes.end()
        finally:
            del self._pushes[unit.name]

    def _look(self, name: str) -> None:
        unit, _ = self._unit(name)
        if unit is None:
            return
        self._update(unit, unit.looked, unit.is_seen_at_once)
        if unit.kind == "datasets":
            from toolloom.pipeline.store.version import point

            point(unit.path)

    def _update(
        self, unit: Unit, listed: Callable[[], dict[str, RemoteFile]], within: Callable[[str], bool]
    ) -> None:
        with _on_disk(unit.path), unit.alone():
            role = Role.GUEST if unit.held else Role.READER
            if role is Role.READER or unit.kind != "runs":  # whose files come and go
                unit.update(listed(), within, role, _tell)

    def _unit(self, name: str) -> tuple[Unit | None, str]:
        """The run, dataset, pool or export that a name is in, and the name in it."""
        kind, _, rest = name.partition("/")
        first, _, inner = rest.partition("/")
        if kind not in KINDS or not first or first.startswith("."):
            return None, ""
        return Unit(self.root / kind / first, f"{kind}/{first}", self.remote), inner


def _as_url(outputs: str | Path) -> str | None:
    """The URL that is meant, if one is: also by a path that was made of it, or by its mirror."""
    text = str(outputs)
    if found := re.fullmatch(r"([a-zA-Z][a-zA-Z0-9+.-]+):/([^/].*)", text):
        text = f"{found[1]}://{found[2]}"
    if is_url(text):
        return text
    with suppress(OSError, ValueError, KeyError):
        return str(json.loads((Path(text) / NAME).read_bytes())["url"])
    return None


def _home() -> Path:
    """Where mirrors are kept."""
    if chosen := os.environ.get(VARIABLE):
        return Path(chosen).resolve()
    caches = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(caches).resolve() / "toolloom" / "mirrors"


def _tell(message: str) -> None:
    if tell := TELL.get():
        tell(message)
    else:
        note(logging.INFO, "mirror", message)


@contextmanager
def _on_disk(path: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise explain(path, error, "written") from error
