"""Which requests are in which batch: rows beside the response cache, which outlive the process.

A batch is written down before anything of it is sent, so that one that was paid for is found
again whenever the process is killed:

    gathered    nothing that could be paid for exists yet
    uploaded    its file lies at the endpoint as `remote`; perhaps the batch exists
    open        it goes by the name `remote` at the endpoint
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import TypeVar

import sqlalchemy as sa

from toolloom.llm.cache import BATCHED, BATCHES, Cache

T = TypeVar("T")

GATHERED, UPLOADED, OPEN = "gathered", "uploaded", "open"
AT_ONCE = 500


@dataclass(frozen=True)
class Row:
    """A batch as it was last written down. `tries`: of each request, with the one in here."""

    name: str
    state: str
    remote: str
    at: float  # Unix time
    tries: Mapping[str, int]


class Book:
    """The batches of one model at one endpoint."""

    def __init__(self, cache: Cache, endpoint: str, model: str) -> None:
        self._cache = cache
        self._owner = {"endpoint": endpoint, "model": model}

    async def rows(self) -> list[Row]:
        """All batches that were not settled, by this process or another."""
        columns = BATCHES.c
        mine = sa.select(columns.id, columns.state, columns.remote, columns.at).where(
            columns.endpoint == self._owner["endpoint"], columns.model == self._owner["model"]
        )

        def read(connection: sa.Connection) -> list[Row]:
            found = connection.execute(mine.order_by(columns.at)).all()
            return [
                Row(name, state, remote or "", at, _tries(connection, name))
                for name, state, remote, at in found
            ]

        return await self._cache.within(read)

    async def write(self, row: Row) -> None:
        """Write a batch down, or how far it has come."""

        def write(connection: sa.Connection) -> None:
            written = connection.execute(
                sa.update(BATCHES)
                .where(BATCHES.c.id == row.name)
                .values(state=row.state, remote=row.remote or None)
            )
            if written.rowcount:
                return
            values = {"id": row.name, "state": row.state, "remote": row.remote, "at": row.at}
            connection.execute(sa.insert(BATCHES), {**self._owner, **values})
            for keys in chunks(row.tries, AT_ONCE):
                connection.execute(sa.delete(BATCHED).where(BATCHED.c.key.in_(keys)))
            rows = [{"key": k, "batch": row.name, "tries": n} for k, n in row.tries.items()]
            if rows:
                connection.execute(sa.insert(BATCHED), rows)

        await self._cache.within(write)

    async def forget(self, name: str) -> None:
        """A batch is settled, or never came to be."""

        def delete(connection: sa.Connection) -> None:
            connection.execute(sa.delete(BATCHED).where(BATCHED.c.batch == name))
            connection.execute(sa.delete(BATCHES).where(BATCHES.c.id == name))

        await self._cache.within(delete)


def now() -> float:
    return time.time()


def _tries(connection: sa.Connection, name: str) -> dict[str, int]:
    found = sa.select(BATCHED.c.key, BATCHED.c.tries).where(BATCHED.c.batch == name)
    return {row[0]: row[1] for row in connection.execute(found)}


def chunks(items: Iterable[T], size: int) -> Iterator[list[T]]:
    """The items in lists of `size`; the last may be shorter."""
    some: list[T] = []
    for item in items:
        some.append(item)
        if len(some) == size:
            yield some
            some = []
    if some:
        yield some
