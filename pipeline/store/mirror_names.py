"""What the names of files in a folder of outputs tell: which file makes others count.

Names are those in a run's, dataset's or pool's folder.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping

from toolloom.pipeline.store.remote import RemoteFile

VERSION = re.compile(r"(\d+\.\d+\.\d+)/.+")
SHARD = re.compile(r"(.+)/shards/(\d+)\.(?:accepted\.jsonl|rejected\.jsonl|done)")


def marker_of(name: str) -> str:
    """The file without which this one does not count; empty if there is none."""
    if found := VERSION.fullmatch(name):
        return f"{found[1]}/manifest.json"
    if found := SHARD.fullmatch(name):
        return f"{found[1]}/shards/{found[2]}.done"
    folder, _, last = name.rpartition("/")
    return f"{folder}/done.json" if folder and last in ("accepted.jsonl", "rejected.jsonl") else ""


def is_marker(name: str) -> bool:
    return marker_of(name) == name or is_stage_marker(name)


def is_stage_marker(name: str) -> bool:
    return name.endswith("/done.json")


def is_manifest(name: str) -> bool:
    return bool(VERSION.fullmatch(name)) and is_marker(name)


def whole(there: Mapping[str, RemoteFile]) -> dict[str, RemoteFile]:
    """Without the files whose marker is lacking."""
    return {n: seen for n, seen in there.items() if (marker_of(n) or n) in there}


def with_files(names: Iterable[str], among: Iterable[str]) -> list[str]:
    """Names, and for each marker in them the files that it makes count."""
    names = set(names)
    markers = set(filter(is_marker, names))
    return sorted(names | {name for name in among if marker_of(name) in markers})
