"""API Search over API documentation, and how well it finds; and the seed catalogue that ships with
toolloom, a taxonomy and real public APIs, in which the API agent's examples are searched for.

By meaning: the cosine of embeddings (API-Bank, section 3.1). Without an embedding model: BM25,
ToolLLM's baseline. Both are judged by NDCG@1 and @5, as ToolLLM does (section 3.1).
"""

from __future__ import annotations

import logging
import math
import re
from collections.abc import Collection, Sequence
from functools import cache
from importlib.resources import files
from typing import TYPE_CHECKING, Any

from toolloom.pipeline.checks.text.words import spaced, stem
from toolloom.schemas import Api, Domain, JsonObject, RecipeError, SearchPlan
from toolloom.schemas.api import Category, PublicApi
from toolloom.schemas.yaml_reader import read_yaml

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from toolloom.llm import Embedder

EMBEDDED = 2_000  # characters of a text that are embedded: what small models take, and cheap
APIS_KEPT = 50_000  # in the indexes that a finder keeps
SHOWN = 5  # real APIs in the API agent's prompt
DIGITS = 6  # of a cosine: sums in float32 differ beyond, from row to row and machine to machine


def words(text: str) -> list[str]:
    """Stemmed lower-case words; snake_case and camelCase names fall apart into theirs."""
    return [stem(w) for w in re.findall(r"[^\W_]+", spaced(text).lower())]


class SearchIndex:
    """A BM25 index over texts."""

    def __init__(self, texts: Sequence[str]) -> None:
        import bm25s  # imports numpy and scipy, 0.4 s

        logging.getLogger("bm25s").setLevel(logging.WARNING)  # it tells of every index it builds
        tokens = [words(t) or [""] for t in texts]
        self._bm25 = bm25s.BM25(method="lucene")
        self._bm25.index(tokens, show_progress=False)

    def top(self, text: str, k: int) -> list[int]:
        """Positions of the best `k` texts, best first; fewer where nothing matches."""
        wanted = words(text)
        if not wanted:  # punctuation alone: bm25s raises on it
            return []
        scores = self._bm25.get_scores(wanted)
        return [i for i in _best(scores, k) if scores[i] > 0]


def _unit(vectors: NDArray[np.float32]) -> NDArray[np.float32]:
    """Vectors of length 1, so that their product is a cosine; a vector of zeros stays."""
    import numpy as np

    lengths = np.linalg.norm(vectors.astype(np.float64), axis=-1, keepdims=True)
    return (vectors / np.where(lengths > 0, lengths, 1)).astype(np.float32)


def _best(scores: NDArray[np.floating], k: int) -> list[int]:
    """Positions of the highest scores; equal ones in their order."""
    import numpy as np

    return [int(i) for i in np.argsort(-scores, kind="stable")[:k]]


class Finder:
    """API Search for one run or pool, in which an id stands for one API."""

    def __init__(self, plan: SearchPlan, embedder: Embedder | None = None) -> None:
        """Ranks by `embedder` if there is one, else by BM25."""
        self._plan = plan
        self._embedder = embedder
        self._kept: dict[tuple[str, ...], SearchIndex | NDArray[np.float32]] = {}

    async def search(self, apis: Sequence[Api], keywords: str) -> list[JsonObject]:
        """Documentation of the APIs that fit `keywords` best, as API Search returns it.

        Raises what Embedder.embed raises.
        """
        return [api.document() for api in await self.rank(apis, keywords, self._plan.found)]

    async def rank(self, apis: Sequence[Api], keywords: str, k: int) -> list[Api]:
        """The best `k` APIs, best first; by BM25 only such as share a word with `keywords`."""
        if not apis or not keywords.strip():
            return []
        key = tuple(api.id for api in apis)
        index = self._kept.get(key)
        if index is None:
            texts = [api_text(api) for api in apis]
            if self._embedder is None:
                index = SearchIndex(texts)
            else:
                index = _unit(await self._embedder.embed([t[:EMBEDDED] for t in texts]))
            if sum(map(len, self._kept)) + len(key) > APIS_KEPT:
                self._kept.clear()
            self._kept[key] = index
        if isinstance(index, SearchIndex):
            return [apis[i] for i in index.top(keywords, k)]
        assert self._embedder
        (wanted,) = await self._embedder.embed([keywords[:EMBEDDED]])
        return [apis[i] for i in _best((index @ _unit(wanted)).round(DIGITS), k)]


def api_text(api: Api) -> str:
    """What of an API is searched: its names, description and parameters."""
    fields = " ".join(f"{n} {s.get('description', '')}" for n, s in api.properties.items())
    return f"{api.category} {api.tool} {api.name} {api.description} {fields}"


def ndcg(ranked: Sequence[str], relevant: Collection[str], k: int) -> float:
    """Normalised discounted cumulative gain of the first `k` ids, 0 to 1; gains are 1 or 0.

    `relevant` must not be empty. (Järvelin & Kekäläinen 2002, with logarithms to base 2.)
    """
    discounts = [1 / math.log2(place + 2) for place in range(k)]
    gained = sum(gain for gain, i in zip(discounts, ranked, strict=False) if i in relevant)
    return gained / sum(discounts[: len(set(relevant))])


def _read(name: str) -> Any:
    text = files(__package__).joinpath("catalogue", name).read_text(encoding="utf-8")
    return read_yaml(text, located=False).value


@cache
def categories() -> tuple[Category, ...]:
    """The seed taxonomy, in its own order."""
    return tuple(Category.model_validate(c) for c in _read("categories.yaml"))


def category(name: str) -> Category:
    """The category of this name. Raises RecipeError that lists the known ones."""
    for known in categories():
        if known.name.lower() == name.lower():
            return known
    names = ", ".join(c.name for c in categories())
    raise RecipeError(f"apis.categories: there is no category «{name}». Known are: {names}.")


@cache
def _examples() -> tuple[tuple[PublicApi, ...], SearchIndex]:
    """Real public APIs whose operations are known, in their own order, and an index over them."""
    every = map(PublicApi.model_validate, _read("public_apis.yaml"))
    known = tuple(a for a in every if a.operations)
    texts = [
        f"{a.name} {a.category} {a.does} " + " ".join(f"{o.name} {o.does}" for o in a.operations)
        for a in known
    ]
    return known, SearchIndex(texts)


def examples_for(subject: Domain) -> list[PublicApi]:
    """Real APIs that ground a domain's: those of its category, then the most alike."""
    known, index = _examples()
    alike = [known[i] for i in index.top(f"{subject.name} {subject.category}", len(known))]
    return sorted(alike, key=lambda a: a.category != subject.category)[:SHOWN]
