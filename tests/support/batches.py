"""Requests asked in batches, and what a cache keeps of them, for tests of batches."""

from __future__ import annotations

import asyncio
import contextlib
import sqlite3
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from toolloom.llm import Gateway, Model, Request
from toolloom.llm.batch import Pace
from toolloom.schemas import Endpoint, JsonObject

QUICK = Pace(gather=0.05, first_poll=0.02, longest_poll=0.05, settle=0.3)


def echo(body: JsonObject) -> str:
    """The script of a server that says which request it answers."""
    return f"answer to {body['messages'][-1]['content']}"


@asynccontextmanager
async def opened(cache: Path | str, endpoint: Endpoint, **options: Any) -> AsyncIterator[Model]:
    """A model behind a gateway that does not wait long."""
    async with Gateway(cache, **{"pace": QUICK, **options}) as gateway:
        yield gateway.model(endpoint)


async def ask_all(
    model: Model, plain: Callable[..., Request], count: int, **gathering: bool
) -> list[Any]:
    asked = (model.complete(plain(f"question {n}")) for n in range(count))
    return await asyncio.gather(*asked, **gathering)


def rows(cache: Path | str, table: str) -> list[Any]:
    with contextlib.closing(sqlite3.connect(cache)) as connection:
        connection.row_factory = sqlite3.Row
        return connection.execute(f"SELECT * FROM {table}").fetchall()
