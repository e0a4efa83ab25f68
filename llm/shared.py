"""What the models of a run share: cache, prices, counts, budget, and what is under way."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from typing import Any

from toolloom.llm.batch import Batcher, Pace
from toolloom.llm.batch_purse import BatchPurse
from toolloom.llm.cache import Cache
from toolloom.llm.wire import Reply
from toolloom.schemas import Endpoint, Price


@dataclass
class Stats:
    """What this process really asked and paid for.

    Answers from the cache count as `cached`, among them each text whose embedding was there;
    `embedded` are the texts whose embedding was not.
    """

    asked: int = 0
    cached: int = 0
    embedded: int = 0
    retries: int = 0
    prompt_tokens: int = 0
    cached_tokens: int = 0
    completion_tokens: int = 0
    cost: float = 0.0

    def retried(self) -> None:
        self.retries += 1

    def add(self, other: Stats) -> None:
        """Count what another process asked and paid for."""
        for each in fields(self):
            setattr(self, each.name, getattr(self, each.name) + getattr(other, each.name))


@dataclass
class Shared:
    """Made by a Gateway, which hands it to each model that it opens.

    `flights` are requests under way by their key, `embeddings` batches of texts; `wire` are the
    tasks among them that have sent something, so that somebody has to pay for an answer.
    """

    cache: Cache
    prices: Mapping[str, Price]
    run: str
    pace: Pace  # of batches
    stats: Stats = field(default_factory=Stats)
    batch_purse: BatchPurse = field(default_factory=lambda: BatchPurse(None, {}))
    batchers: dict[tuple[str, str], Batcher] = field(default_factory=dict)
    unmetered: set[tuple[str, str]] = field(default_factory=set)  # models that tell no tokens
    flights: dict[str, asyncio.Task[Reply]] = field(default_factory=dict)
    embeddings: set[asyncio.Task[Any]] = field(default_factory=set)
    wire: set[asyncio.Task[Any] | None] = field(default_factory=set)

    def cost(
        self,
        endpoint: Endpoint,
        prompt: int,
        completion: int,
        cached: int = 0,
        *,
        batch: bool = False,
    ) -> float:
        """US dollars of so many tokens; 0 where no price is known."""
        price = self.prices.get(endpoint.model)
        return price.cost(prompt, completion, cached, batch=batch) if price else 0.0
