"""Jobs whose model is a server scripted by the test."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Iterable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from itertools import count
from pathlib import Path
from typing import Any, TypeAlias

import pytest

from toolloom import FakeServer, Gateway
from toolloom.agents.ask import Job
from toolloom.llm.scripted import Script, Scripted
from toolloom.schemas import Endpoint

Opener: TypeAlias = Callable[..., AbstractAsyncContextManager[tuple[Job, FakeServer]]]


@pytest.fixture
def working(tmp_path: Path) -> Opener:
    """Opens an agent's job: the server says what the script, or the list of answers, holds. Each
    has a cache of its own, as a server may have the port of one before it."""
    number = count()

    @asynccontextmanager
    async def open_job(
        script: Script | Iterable[Scripted], agent: Any = "domain", **endpoint: Any
    ) -> AsyncIterator[tuple[Job, FakeServer]]:
        async with (
            FakeServer(script if callable(script) else in_turn(script)) as server,
            Gateway(tmp_path / f"cache-{next(number)}.sqlite") as gateway,
        ):
            chosen = Endpoint(
                base_url=server.base_url, model="fake", retry={"tries": 1}, **endpoint
            )
            yield Job("stage", agent, "record", 1, gateway.model(chosen)), server

    return open_job


def in_turn(answers: Iterable[Scripted]) -> Script:
    """A script that gives one answer after the other."""
    coming = iter(answers)
    return lambda body: next(coming)
