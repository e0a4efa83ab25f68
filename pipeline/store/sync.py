"""`toolloom sync`: files of a folder to an address of fsspec (s3://bucket/folder), or back.

Like `aws s3 sync`: what is absent, of another size or older there is copied, nothing is removed.
Markers and manifests come last, so that whatever has one is whole. Hidden files, the response
cache and the link `latest` stay where they are.
"""

from __future__ import annotations

import hashlib
import os
import re
from pathlib import Path, PurePosixPath
from typing import Any

from toolloom.pipeline.store.files import explain
from toolloom.schemas import Record, StoreError

TIMES = ("mtime", "LastModified", "last_modified", "updated", "created")
LAST = ("manifest.json", "done.json")  # and *.done: without one of these a folder is not whole


class Synced(Record):
    """What a sync came to."""

    copied: int
    same: int
    bytes: int


def is_address(text: str | Path) -> bool:
    """Whether this is an address such as s3://bucket/folder and no path."""
    return bool(re.match(r"[a-zA-Z][a-zA-Z0-9+.-]*(::|:/)", str(text)))


def local_outputs(outputs: str | Path) -> Path:
    """A folder of outputs. Raises StoreError for an address."""
    if is_address(outputs):
        raise StoreError(
            f"--outputs {outputs}: is an address. Write to a folder, and copy it there with "
            f"`toolloom sync FOLDER {outputs}`."
        )
    return Path(outputs)


def working_folder(outputs: str | Path) -> Path:
    """Where a flow writes: its outputs, or a folder of this machine where these are an address."""
    if not is_address(outputs):
        return Path(outputs)
    address = str(outputs)
    caches = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    readable = re.sub(r"[^a-z0-9]+", "-", address.lower()).strip("-")[:40]
    hashed = hashlib.sha256(address.encode()).hexdigest()[:12]
    return Path(caches).resolve() / "toolloom" / "outputs" / f"{readable}-{hashed}"


def sync(source: str, target: str) -> Synced:
    """Copy to `target` what it lacks of `source`; one of them is a folder. Raises StoreError."""
    if is_address(source) and is_address(target):
        raise StoreError("One of the two has to be a folder on this machine.")
    if not is_address(source) and not Path(source).is_dir():
        raise StoreError(f"{source}: there is no such folder.")
    for text in (source, target):
        if re.search(r"//[^@]*:.*@", text) or ("?" in text and is_address(text)):
            raise StoreError(
                "An address with a password, or with anything after `?`, would be shown and kept "
                "in many places. Put keys into the environment (docs/remote.md)."
            )
    try:
        return _sync(source, target)
    except ImportError as error:
        package = "'toolloom[s3]'" if "s3" in str(error) else "the package it names"
        raise StoreError(f"{error}. Install {package} with pip.") from error
    except Exception as error:  # each store has errors of its own
        if isinstance(error, OSError) and error.filename:
            raise explain(Path(error.filename), error, "copied") from error
        raise StoreError(
            f"{source} cannot be copied to {target} ({error or type(error).__name__}). Check the "
            "address, its keys in the environment (docs/remote.md) and the network; then run the "
            "same command again: it copies what is left."
        ) from error


def _sync(source: str, target: str) -> Synced:
    import fsspec

    given, root = fsspec.core.url_to_fs(source)
    taken, folder = fsspec.core.url_to_fs(target)
    wanted, there = _files(given, root), _files(taken, folder)
    names = [
        name
        for name, (size, time) in wanted.items()
        if name not in there or there[name][0] != size or time > there[name][1]
    ]
    for last in (False, True):
        part = [n for n in names if (n.endswith((*LAST, ".done"))) is last]
        sources, targets = ([f"{at}/{n}" for n in part] for at in (root, folder))
        if not is_address(target):
            for name in part:
                Path(folder, name).parent.mkdir(parents=True, exist_ok=True)
            partial = [Path(name).with_name(f".{Path(name).name}.tmp") for name in targets]
            given.get(sources, list(map(str, partial)))
            for path, name in zip(partial, targets, strict=True):
                path.replace(name)
        elif part:
            taken.put(sources, targets)
    sent = sum(wanted[name][0] for name in names)
    return Synced(copied=len(names), same=len(wanted) - len(names), bytes=sent)


def _files(fs: Any, root: str) -> dict[str, tuple[int, float]]:
    """Size and time of the files below a folder by name. Whoever may write there may be hostile:
    a hidden name, or one that leads out of the folder, is left alone."""
    fs.invalidate_cache()
    start = root.rstrip("/") + "/"
    found = {}
    for path, info in fs.find(root, detail=True).items():
        parts = PurePosixPath(name := path.removeprefix(start)).parts
        odd = any(part.startswith((".", "cache.sqlite")) for part in parts) or name.startswith("/")
        if info["type"] == "file" and not odd and parts[2:3] != ("latest",):
            time = next((info[key] for key in TIMES if info.get(key)), 0)
            found[name] = info["size"], time.timestamp() if hasattr(time, "timestamp") else time
    return found
