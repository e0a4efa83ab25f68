"""Near-duplicates of names."""

from __future__ import annotations

import re
from collections.abc import Iterable
from functools import cache

import snowballstemmer
from rapidfuzz import fuzz

ALIKE = 88.0  # of 100, on sorted stems: «bike rental» is «rental of bikes», not «car rental»
_EMPTY = frozenset({"a", "an", "and", "the", "of", "for", "in", "to", "service", "servic", "api"})


@cache
def stems(name: str) -> tuple[str, ...]:
    """The sorted stems of a name's words, without those that say nothing."""
    stemmer = snowballstemmer.stemmer("english")
    parted = re.sub(r"(?<=[a-z0-9])(?=[A-Z])", " ", name)
    found = stemmer.stemWords(re.findall(r"[^\W_]+", parted.lower()))
    return tuple(sorted({s for s in found if s not in _EMPTY}))


def twin(name: str, others: Iterable[str]) -> str | None:
    """The first of `others` that says the same as `name`, in whatever order or number."""
    mine = " ".join(stems(name))
    return next((o for o in others if fuzz.ratio(mine, " ".join(stems(o))) >= ALIKE), None)
