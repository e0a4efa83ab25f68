"""Rows drawn while a dataset streams by: the same ones for the same version."""

from __future__ import annotations

import hashlib
from heapq import heappush, heapreplace
from itertools import chain, zip_longest
from typing import Generic, TypeVar

T = TypeVar("T")


class Draw(Generic[T]):
    """So many items at random, with equal chances, in memory that does not grow.

    It keeps those whose ids have the lowest hashes: who comes first does not matter.
    """

    def __init__(self, size: int) -> None:
        self._size = size
        self._kept: list[tuple[int, int, T]] = []  # a heap: the highest hash, negated, is first
        self.seen = 0

    def offer(self, name: str, item: T) -> None:
        self.seen += 1
        # The number decides between equal names, so that items are never compared.
        entry = (-_hashed(name), -self.seen, item)
        if len(self._kept) < self._size:
            heappush(self._kept, entry)
        elif entry > self._kept[0]:
            heapreplace(self._kept, entry)

    def items(self) -> list[T]:
        """What was drawn, lowest hash first."""
        return [item for *_, item in sorted(self._kept, key=lambda e: e[:2], reverse=True)]


class Spread(Generic[T]):
    """So many items of each kind, spread over the sorts there are within the kind."""

    def __init__(self, size: int) -> None:
        self._size = size
        self._draws: dict[str, dict[str, Draw[T]]] = {}

    def offer(self, kind: str, sort: str, name: str, item: T) -> None:
        draws = self._draws.setdefault(kind, {})
        if sort not in draws:
            draws[sort] = Draw(self._size)
        draws[sort].offer(name, item)

    def seen(self) -> dict[str, int]:
        """How many there are of each kind, most first."""
        counts = {k: sum(d.seen for d in draws.values()) for k, draws in self._draws.items()}
        return dict(sorted(counts.items(), key=lambda item: (-item[1], item[0])))

    def items(self, kind: str) -> list[T]:
        """Of each sort one, then of each a second, until there are enough."""
        sorts = [draw.items() for _, draw in sorted(self._draws.get(kind, {}).items())]
        rounds = zip_longest(*([(item,) for item in items] for items in sorts), fillvalue=())
        return [*chain.from_iterable(chain.from_iterable(rounds))][: self._size]


def _hashed(name: str) -> int:
    digest = hashlib.sha256(b"report\0" + name.encode("utf-8", "surrogatepass")).digest()
    return int.from_bytes(digest[:8], "big")
