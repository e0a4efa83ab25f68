"""Faults as they are found in something large, in bounded memory: all counted, the first kept."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from typing import Generic, Protocol, TypeVar


class FaultLike(Protocol):
    """One thing that is wrong: of a kind, at some place, and what it is in a sentence."""

    @property
    def kind(self) -> str: ...

    @property
    def detail(self) -> str: ...


F = TypeVar("F", bound=FaultLike)


class Findings(Generic[F]):
    """Faults by kind: of each kind the first `most` are kept, and all are counted."""

    def __init__(self, kinds: Iterable[str], most: int = 200) -> None:
        """`kinds`: in the order in which they are shown."""
        self._kept: dict[str, list[F]] = {kind: [] for kind in kinds}
        self._most = most
        self.counts = Counter[str]()
        self.notes: list[str] = []  # what could not be looked at

    def add(self, fault: F) -> None:
        self.counts[fault.kind] += 1
        kept = self._kept.setdefault(fault.kind, [])
        if len(kept) < self._most:
            kept.append(fault)

    @property
    def kept(self) -> tuple[F, ...]:
        """Kind by kind, each in the order in which they were found."""
        return tuple(fault for faults in self._kept.values() for fault in faults)

    @property
    def left_out(self) -> int:
        """How many are counted and not kept."""
        return self.counts.total() - len(self.kept)
