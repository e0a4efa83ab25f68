"""The one collector of what is wrong: bounded, however much is found.

All findings are counted by kind, and of each kind the first few are kept, in the order in which
they were found. `verify` and `push` collect by kind of fault, an audit by reason.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable
from typing import Generic, TypeVar

K = TypeVar("K", bound=Hashable)
F = TypeVar("F")

MOST = 200  # findings of one kind that are kept


class Findings(Generic[K, F]):
    """Findings of type F by kind K."""

    def __init__(self, most: int = MOST) -> None:
        self._most = most
        self.counts = Counter[K]()
        self.kept: dict[K, list[F]] = {}

    def add(self, kind: K, finding: F) -> None:
        self.counts[kind] += 1
        kept = self.kept.setdefault(kind, [])
        if len(kept) < self._most:
            kept.append(finding)

    def __bool__(self) -> bool:
        return bool(self.counts)
