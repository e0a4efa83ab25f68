"""How much requests differ: distinct n-grams, and how near the nearest other one is."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import fmean

from toolloom.pipeline.curation.rows import folded

DRAWN = 2_000  # requests that are compared, each with each
LETTERS = 1_000  # of each request
NEAR = 80  # from here on two requests are told to be alike
# Of scripts that do not part words each letter is one.
_LONE = "\u3040-\u30ff\u3400-\u9fff\uac00-\ud7af"
_WORD = re.compile(f"[{_LONE}]|[^\\W{_LONE}]+")


@dataclass(frozen=True)
class Diversity:
    """Of requests that were drawn."""

    of: int  # requests there are
    drawn: int
    distinct: dict[int, float]  # by n: different n-grams, as a share of all
    nearest: tuple[int, ...]  # of each request the likeness of the nearest other, 0 to 100

    @property
    def mean(self) -> float | None:
        return fmean(self.nearest) if self.nearest else None

    @property
    def near(self) -> float:
        """The share of requests with another that is alike."""
        return sum(n >= NEAR for n in self.nearest) / len(self.nearest) if self.nearest else 0.0


def diversity(requests: Sequence[str], of: int | None = None) -> Diversity:
    """`of`: how many requests these were drawn from."""
    texts = [folded(request[:LETTERS]) for request in requests]
    words = [_WORD.findall(text) for text in texts]
    shares = {n: distinct(words, n) for n in (1, 2, 3)}
    return Diversity(len(texts) if of is None else of, len(texts), shares, nearest(texts))


def distinct(texts: Sequence[Sequence[str]], n: int) -> float:
    """Distinct-n: different n-grams as a share of all n-grams (Li et al. 2016); 0 without any."""
    seen: set[tuple[str, ...]] = set()
    count = 0
    for words in texts:
        grams = [tuple(words[place : place + n]) for place in range(len(words) - n + 1)]
        seen.update(grams)
        count += len(grams)
    return len(seen) / count if count else 0.0


def nearest(texts: Sequence[str]) -> tuple[int, ...]:
    """Of each text the likeness of the nearest other one: 100 for equal ones.

    Likeness is that of letters in order: 100 less the share of letters to delete and insert.
    """
    import numpy as np
    from rapidfuzz import fuzz, process

    if len(texts) < 2:
        return ()
    likeness = process.cdist(texts, texts, scorer=fuzz.ratio, dtype=np.uint8, workers=-1)
    np.fill_diagonal(likeness, 0)
    return tuple(int(one) for one in likeness.max(axis=1))
