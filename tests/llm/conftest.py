"""Endpoints, prompts and gateways for the tests of the door."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import pytest

from toolloom import FakeServer, Gateway
from toolloom.llm import Request
from toolloom.schemas import Endpoint, JsonObject, Price

PRICES = {"fake": Price(prompt=1.0, completion=2.0, cached=0.25)}


@pytest.fixture
def patient(monkeypatch: pytest.MonkeyPatch) -> None:
    """A gateway that ends has time for the answers under way, however slow the machine."""
    monkeypatch.setattr("toolloom.llm.model.GRACE", 60.0)


@pytest.fixture
def city() -> JsonObject:
    """A schema: an object with one text."""
    city = {"type": "object", "properties": {"city": {"type": "string"}}}
    return {**city, "required": ["city"], "additionalProperties": False}


@pytest.fixture
def at() -> Callable[..., Endpoint]:
    """Makes the endpoint of a server; tries twice, so that failures are quick."""

    def make(server: FakeServer | str, **changes: Any) -> Endpoint:
        base_url = server if isinstance(server, str) else server.base_url
        retry = {"tries": changes.pop("tries", 2)}
        fields = {"base_url": base_url, "model": "fake", "retry": retry}
        return Endpoint.model_validate({**fields, **changes})

    return make


@pytest.fixture
def batched(at: Callable[..., Endpoint]) -> Callable[..., Endpoint]:
    """Makes an endpoint that is asked in batches."""
    return lambda server, **changes: at(server, **{"mode": "batch", **changes})


@pytest.fixture
def plain() -> Callable[..., Request]:
    """Makes a request for plain text."""

    def make(content: str = "Hello", **changes: Any) -> Request:
        fields = {"schema": None, "max_tokens": 16, "temperature": 0.5, "seed": 1, **changes}
        return Request(messages=({"role": "user", "content": content},), **fields)

    return make


@pytest.fixture
def cache(tmp_path: Path) -> Path:
    return tmp_path / "new" / "cache.sqlite"


@pytest.fixture
async def gateway(cache: Path) -> AsyncIterator[Gateway]:
    async with Gateway(cache, prices=PRICES) as opened:
        yield opened
