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
from typing import Any, TypeVar

import sqlalchemy as sa

from toolloom.llm.cache import BATCHED, BATCHES, RESPONSES, Cache, lose
from toolloom.schemas import Usage

T = TypeVar("T")

GATHERED, UPLOADED, OPEN = "gathered", "uploaded", "open"
AT_ONCE = 500


@dataclass(frozen=True)
class Try:
    """The `number`th try of a request, for a run, with the most tokens that it takes."""

    number: int
    run: str
    sent: int
    received: int


@dataclass(frozen=True)
class BatchRow:
    """A batch as it was last written down, with the requests in it by their keys."""

    name: str
    state: str
    remote: str
    at: float  # of the state, in Unix time
    tries: Mapping[str, Try]


class BatchTable:
    """The batches of one model at one endpoint."""

    def __init__(self, cache: Cache, endpoint: str, model: str) -> None:
        self._cache = cache
        self._owner = {"endpoint": endpoint, "model": model}

    async def rows(self) -> list[BatchRow]:
        """All batches that were not settled, by this process or another."""
        columns = BATCHES.c
        mine = sa.select(columns.id, columns.state, columns.remote, columns.at).where(
            columns.endpoint == self._owner["endpoint"], columns.model == self._owner["model"]
        )

        def read(connection: sa.Connection) -> list[BatchRow]:
            found = connection.execute(mine.order_by(columns.at)).all()
            return [
                BatchRow(name, state, remote or "", at, _tries(connection, name))
                for name, state, remote, at in found
            ]

        return await self._cache.within(read)

    async def write(self, row: BatchRow) -> None:
        """Write a batch down, or how far it has come."""

        def write(connection: sa.Connection) -> None:
            written = connection.execute(
                sa.update(BATCHES)
                .where(BATCHES.c.id == row.name)
                .values(state=row.state, remote=row.remote or None, at=row.at)
            )
            if written.rowcount:
                return
            values = {"id": row.name, "state": row.state, "remote": row.remote, "at": row.at}
            connection.execute(sa.insert(BATCHES), {**self._owner, **values})
            for keys in chunks(row.tries, AT_ONCE):
                connection.execute(sa.delete(BATCHED).where(BATCHED.c.key.in_(keys)))
            rows = [_columns(row.name, key, made) for key, made in row.tries.items()]
            if rows:
                connection.execute(sa.insert(BATCHED), rows)

        await self._cache.within(write)

    async def forget(self, name: str, lost: Iterable[tuple[str, Usage]] = ()) -> None:
        """A batch is settled, or never came to be.

        `lost`: what tries without an answer used, each with its run. It is booked with the batch
        gone, so never twice.
        """
        sums = _sums(lost)

        def delete(connection: sa.Connection) -> None:
            connection.execute(sa.delete(BATCHED).where(BATCHED.c.batch == name))
            if connection.execute(sa.delete(BATCHES).where(BATCHES.c.id == name)).rowcount:
                for run, spent in sums.items():
                    lose(connection, run, spent)

        await self._cache.within(delete)


async def unanswered(cache: Cache, run: str) -> list[tuple[str, str, Try]]:
    """Key, model and try of all of a run's requests that batches of earlier processes hold."""
    answered = sa.exists().where(RESPONSES.c.key == BATCHED.c.key)
    asked = (
        sa.select(BATCHED, BATCHES.c.model)
        .join(BATCHES, BATCHES.c.id == BATCHED.c.batch)
        .where(BATCHED.c.run == run, BATCHES.c.state != GATHERED, ~answered)
    )
    found = await cache.within(lambda connection: connection.execute(asked).all())
    return [(row.key, row.model, _try(row)) for row in found]


def now() -> float:
    return time.time()


def _tries(connection: sa.Connection, name: str) -> dict[str, Try]:
    found = connection.execute(sa.select(BATCHED).where(BATCHED.c.batch == name))
    return {row.key: _try(row) for row in found}


def _try(row: sa.Row[Any]) -> Try:
    return Try(row.tries, row.run, row.sent, row.received)


def _columns(batch: str, key: str, made: Try) -> dict[str, str | int]:
    columns = {"tries": made.number, "sent": made.sent, "received": made.received}
    return {"key": key, "batch": batch, "run": made.run, **columns}


def _sums(lost: Iterable[tuple[str, Usage]]) -> dict[str, Usage]:
    sums: dict[str, Usage] = {}
    for run, used in lost:
        sums[run] = sums.get(run, Usage()) + used
    return sums


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
