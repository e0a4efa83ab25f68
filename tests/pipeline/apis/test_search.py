from __future__ import annotations

import asyncio
import math
from collections.abc import AsyncIterator, Sequence
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support import toys

from toolloom import FakeServer, Gateway
from toolloom.llm import Embedder
from toolloom.pipeline.apis import search as retrieval
from toolloom.pipeline.apis.search import Finder, ndcg
from toolloom.schemas import Api, Endpoint, JsonObject, SearchPlan

POOL = [
    toys.api(),
    toys.api("boats", "rent").model_copy(update={"description": "Rent a sailing boat."}),
    toys.api("boats", "sell").model_copy(update={"description": "Sell a motor boat."}),
    toys.api("boats", "repair").model_copy(update={"description": "Repair a boat's sail."}),
]
FOUND = SearchPlan(found=2)


def search(apis: Sequence[Api], keywords: str) -> list[JsonObject]:
    """API Search as a dialogue sees it, without embeddings."""
    return asyncio.run(Finder(FOUND).search(apis, keywords))


def test_the_best_fit_comes_first() -> None:
    """Documentation is what is found, as many as are wanted, best first; what fits nothing finds nothing."""
    documents = search(POOL, "rent a boat for sailing")
    assert documents[0] == POOL[1].document()
    assert len(documents) == FOUND.found
    assert search(POOL, "quantum chess") == search(POOL, "") == search([], "boat") == []


@given(st.text(max_size=60))
def test_any_keywords_can_be_searched_for(keywords: str) -> None:
    """Whatever a model searches for, it gets documents or none."""
    assert all(d in [a.document() for a in POOL] for d in search(POOL, keywords))


@pytest.fixture
async def server() -> AsyncIterator[FakeServer]:
    async with FakeServer() as opened:
        yield opened


@pytest.fixture
async def embedder(server: FakeServer, tmp_path: Path) -> AsyncIterator[Embedder]:
    """Hashed words from the fake endpoint: texts that share words are near."""
    async with Gateway(tmp_path / "cache.sqlite") as gateway:
        yield gateway.embedder(Endpoint(base_url=server.base_url, model="fake"))


async def test_embeddings_find_the_nearest(embedder: Embedder) -> None:
    """With embeddings the nearest text comes first, and there is always a nearest one."""
    finder = Finder(FOUND, embedder)
    assert (await finder.search(POOL, "rent a sailing boat"))[0] == POOL[1].document()
    assert len(await finder.search(POOL, "quantum chess")) == FOUND.found
    assert await finder.search(POOL, " ") == await finder.search([], "boat") == []


async def test_equal_meanings_keep_the_pools_order(embedder: Embedder) -> None:
    """APIs with equal texts are ranked in the order they stand in, wherever that is."""
    same = [POOL[1].model_copy(update={"function": f"rent_{n}"}) for n in range(40)]
    ranked = await Finder(SearchPlan(), embedder).rank([POOL[0], *same], "rent boats", 41)
    assert [a for a in ranked if a is not POOL[0]] == same


async def test_only_a_beginning_is_embedded(server: FakeServer, embedder: Embedder) -> None:
    """Long documents and keywords are cut before they are sent."""
    wordy = toys.api().model_copy(update={"description": "boat " * 5000})
    await Finder(SearchPlan(), embedder).search([wordy], "sail " * 5000)
    lengths = [len(text) for body in server.bodies for text in body["input"]]
    assert lengths == [retrieval.EMBEDDED] * 2


def test_ndcg_is_as_computed_by_hand() -> None:
    """Gains are discounted by the logarithm of the rank and divided by the best ranking's."""
    assert ndcg(["a", "b"], {"a"}, 1) == 1
    assert ndcg(["b", "a"], {"a"}, 1) == 0
    assert ndcg(["b", "a"], {"a"}, 5) == pytest.approx(1 / math.log2(3))
    assert ndcg(["a", "x", "b"], {"a", "b"}, 5) == pytest.approx(1.5 / (1 + 1 / math.log2(3)))
    assert ndcg(["a", "x"], {"a", "b", "c"}, 1) == 1
    assert ndcg([], {"a"}, 5) == 0
