"""API Search: BM25 over API documentation (API-Bank, section 3.1; ToolLLM's BM25 baseline)."""

from __future__ import annotations

import logging
import re
from collections.abc import Sequence
from functools import cache

import snowballstemmer

from toolloom.schemas import Api, JsonObject

FOUND = 2  # documents an API Search returns: enough for a near miss, short enough to read


@cache
def _stemmer() -> snowballstemmer.stemmer:
    return snowballstemmer.stemmer("english")


@cache
def _stem(word: str) -> str:
    return str(_stemmer().stemWord(word))


def words(text: str) -> list[str]:
    """Stemmed lower-case words; snake_case and camelCase names fall apart into theirs."""
    parted = re.sub(r"(?<=[a-z0-9])(?=[A-Z])", " ", text)
    return [_stem(w) for w in re.findall(r"[^\W_]+", parted.lower())]


class Index:
    """A BM25 index over texts."""

    def __init__(self, texts: Sequence[str]) -> None:
        import bm25s  # imports numpy and scipy, 0.4 s

        logging.getLogger("bm25s").setLevel(logging.WARNING)  # it tells of every index it builds
        self._size = len(texts)
        tokens = [words(t) or [""] for t in texts]
        self._bm25 = bm25s.BM25(method="lucene")
        self._bm25.index(tokens, show_progress=False)

    def top(self, text: str, k: int) -> list[int]:
        """Positions of the best `k` texts, best first; fewer where nothing matches."""
        wanted = words(text)
        if not wanted:  # punctuation alone: bm25s raises on it
            return []
        scores = self._bm25.get_scores(wanted)
        order = sorted(range(self._size), key=lambda i: (-scores[i], i))
        return [i for i in order[:k] if scores[i] > 0]


def api_text(api: Api) -> str:
    """What of an API is searched: its names, description and parameters."""
    fields = " ".join(f"{n} {s.get('description', '')}" for n, s in api.properties.items())
    return f"{api.category} {api.tool} {api.name} {api.description} {fields}"


def search(apis: Sequence[Api], keywords: str, k: int = FOUND) -> list[JsonObject]:
    """Documentation of the APIs that fit `keywords` best, as API Search returns it."""
    found = Index([api_text(a) for a in apis]).top(keywords, k) if apis else []
    return [apis[i].document() for i in found]
