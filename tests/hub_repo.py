"""A repository of the loopback Hub: its files, commits, tags and LFS blobs, in memory."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, field
from typing import Any

ATTRIBUTES = b"*.parquet filter=lfs diff=lfs merge=lfs -text\n"


@dataclass(frozen=True)
class Blob:
    """A file of a commit: its content, or the hash of what LFS holds."""

    content: bytes
    lfs: bool = False

    @property
    def sha256(self) -> str:
        return hashlib.sha256(self.content).hexdigest()

    @property
    def oid(self) -> str:
        text = f"lfs {self.sha256}".encode() if self.lfs else self.content
        return hashlib.sha1(b"blob %d\0" % len(text) + text).hexdigest()

    def entry(self, path: str) -> dict[str, Any]:
        made: dict[str, Any] = {"type": "file", "path": path, "size": len(self.content)}
        made["oid"] = self.oid
        if self.lfs:
            made["lfs"] = {"oid": self.sha256, "size": len(self.content), "pointerSize": 130}
        return made


@dataclass
class Repo:
    private: bool
    commits: list[tuple[str, str, dict[str, Blob]]] = field(default_factory=list)
    tags: dict[str, str] = field(default_factory=dict)
    blobs: dict[str, bytes] = field(default_factory=dict)  # of LFS, by SHA-256
    parts: dict[tuple[str, int], bytes] = field(default_factory=dict)

    def commit(self, title: str, files: dict[str, Blob]) -> str:
        oid = hashlib.sha1(f"{len(self.commits)} {title}".encode()).hexdigest()
        self.commits.append((oid, title, files))
        return oid

    @property
    def head(self) -> str:
        return self.commits[-1][0]

    @property
    def titles(self) -> list[str]:
        return [title for _, title, _ in self.commits]

    def files(self, revision: str = "main") -> dict[str, Blob] | None:
        oid = self.head if revision == "main" else self.tags.get(revision, revision)
        return next((files for known, _, files in self.commits if known == oid), None)

    def contents(self, revision: str = "main") -> dict[str, bytes]:
        """All files but the Hub's own."""
        found = self.files(revision) or {}
        return {path: b.content for path, b in found.items() if path != ".gitattributes"}
