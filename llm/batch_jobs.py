"""Batches at the endpoint and in the database: files in, batches made and followed.

A batch is written down, in rows beside the response cache that outlive the process, before
anything of it is sent, so that one that was paid for is found again whenever the process is killed:

    gathered    nothing that could be paid for exists yet
    uploaded    its file lies at the endpoint as `remote`; perhaps the batch exists
    open        it goes by the name `remote` at the endpoint
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections import defaultdict
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from itertools import islice
from tempfile import TemporaryFile
from typing import IO, TYPE_CHECKING, Any, Final, TypeVar

import sqlalchemy as sa

from toolloom.llm.budget import FREE, Spending, Try, usage_of
from toolloom.llm.cache import Cache, lose
from toolloom.llm.client import Client
from toolloom.llm.database import BATCHED, BATCHES, RESPONSES
from toolloom.llm.faults import Caller
from toolloom.llm.log import note
from toolloom.schemas import EndpointError, Price, RequestRefused, Usage

if TYPE_CHECKING:
    import openai
    from openai.types import Batch

T = TypeVar("T")

URL: Final = "/v1/chat/completions"
GATHERED, UPLOADED, OPEN = "gathered", "uploaded", "open"
ROWS_AT_ONCE = 500
ABSENT = frozenset({404, 405, 410, 501})
TOO_LARGE = 413
FULL = "token_limit_exceeded"
ENDED = frozenset({"completed", "failed", "expired", "cancelled"})
LABEL = "toolloom"  # of the metadata that holds a batch's own name
PAGE = 100
CREATIONS = 3  # tries before the last: a file just uploaded may not be known everywhere yet
LATE_POLLS = 5  # of a batch that is done and does not name its results yet
SLOWER = 1.5
TRANSFER_SECONDS = 3600.0  # for a file of 200 MB
UNSENT = Usage()


@dataclass(frozen=True)
class BatchRow:
    """A batch as it was last written down, with the requests in it by their keys."""

    name: str
    state: str
    remote: str
    at: float  # of the state, in Unix time
    tries: Mapping[str, Try]


def _try(row: sa.Row[Any]) -> Try:
    return Try(row.tries, row.run, row.sent, row.received)


def chunks(items: Iterable[T], size: int) -> Iterator[list[T]]:
    """The items in lists of `size`; the last may be shorter."""
    rest = iter(items)
    while some := list(islice(rest, size)):
        yield some


class BatchPurse:
    """The purse, by the keys of requests: each try is held once and settled once.

    What earlier processes left in batches is booked from the start, as the most it can be; it is
    under way as soon as somebody waits for those batches.
    """

    def __init__(self, purse: Spending, prices: Mapping[str, Price]) -> None:
        self._purse = purse
        self._prices = prices
        self._left: dict[str, Usage] = {}
        self._held: dict[str, Usage] = {}

    async def begin(self, cache: Cache, run: str) -> None:
        """Book what earlier processes of the run left in batches that still hold it."""
        answered = sa.exists().where(RESPONSES.c.key == BATCHED.c.key)
        asked = (
            sa.select(BATCHED, BATCHES.c.model)
            .join(BATCHES, BATCHES.c.id == BATCHED.c.batch)
            .where(BATCHED.c.run == run, BATCHES.c.state != GATHERED, ~answered)
        )
        for row in await cache.within(lambda connection: connection.execute(asked).all()):
            self._left[row.key] = bound = self.most(row.model, _try(row))
            self._purse.book(bound)

    def most(self, model: str, one: Try) -> Usage:
        """The most that a try can use in a batch."""
        return usage_of(self._prices.get(model, FREE), one.sent, one.received, batch=True)

    def follow(self, keys: Iterable[str]) -> None:
        """Somebody waits for an earlier process's batch with these requests."""
        for key in keys:
            if bound := self._left.pop(key, None):
                self._purse.resume()
                self._held[key] = bound

    async def hold(self, key: str, model: str, one: Try) -> None:
        """Set aside room for a try that is to go into a batch. Raises BudgetReached."""
        if key not in self._held:
            bound = self.most(model, one)
            await self._purse.hold(bound)
            self._held[key] = bound

    def settle(self, key: str, used: Usage | None = None) -> None:
        """Book what a try used: all it can have used, unless that is known."""
        if (bound := self._held.pop(key, None)) is not None:
            self._purse.settle(bound, bound if used is None else used)


@dataclass(frozen=True)
class Pace:
    """Seconds that batching waits."""

    gather: float = 2.0  # for another request to join a batch
    first_poll: float = 1.0
    longest_poll: float = 60.0
    settle: float = 10.0  # until a batch that was made shows in the list of batches


class NoBatches(Exception):
    """The endpoint has no Batch API."""


class Absent(Exception):
    """The endpoint has no such file or batch, or no such address at all."""


class TooLarge(Exception):
    """The endpoint does not take a file of this size."""


class BatchApi:
    """The batches of one model at one endpoint, seen through, each step written down before the
    next. Made of calls that are tried again by the endpoint's policy; it raises what Client.call
    raises."""

    def __init__(self, lines: Client, cache: Cache, model: str, pace: Pace) -> None:
        self._lines = lines
        self._cache = cache
        self._owner = {"endpoint": lines.caller.address, "model": model}
        self._pace = pace

    @property
    def caller(self) -> Caller:
        return self._lines.caller

    async def rows(self) -> list[BatchRow]:
        """All batches that were not settled, by this process or another."""
        columns = BATCHES.c
        mine = (
            sa.select(columns.id, columns.state, columns.remote, columns.at)
            .where(*(columns[name] == value for name, value in self._owner.items()))
            .order_by(columns.at)
        )

        def read(connection: sa.Connection) -> list[BatchRow]:
            batches = []
            for name, state, remote, at in connection.execute(mine).all():
                batched = connection.execute(sa.select(BATCHED).where(BATCHED.c.batch == name))
                tries = {row.key: _try(row) for row in batched}
                batches.append(BatchRow(name, state, remote or "", at, tries))
            return batches

        return await self._cache.within(read)

    async def _write(self, row: BatchRow) -> None:
        """Write a batch down, or how far it has come."""

        def upsert(connection: sa.Connection) -> None:
            state = {"state": row.state, "remote": row.remote or None, "at": row.at}
            update = sa.update(BATCHES).where(BATCHES.c.id == row.name).values(state)
            if connection.execute(update).rowcount:
                return
            values = {"id": row.name, "state": row.state, "remote": row.remote, "at": row.at}
            connection.execute(sa.insert(BATCHES), {**self._owner, **values})
            for keys in chunks(row.tries, ROWS_AT_ONCE):
                connection.execute(sa.delete(BATCHED).where(BATCHED.c.key.in_(keys)))
            rows = [
                {
                    "key": key,
                    "batch": row.name,
                    "run": one.run,
                    "tries": one.number,
                    "sent": one.sent,
                    "received": one.received,
                }
                for key, one in row.tries.items()
            ]
            if rows:
                connection.execute(sa.insert(BATCHED), rows)

        await self._cache.within(upsert)

    async def forget(self, name: str, lost: Iterable[tuple[str, Usage]] = ()) -> None:
        """A batch is settled, or never came to be.

        `lost`: what tries without an answer used, each with its run. It is booked with the batch
        gone, so never twice.
        """
        sums: defaultdict[str, Usage] = defaultdict(Usage)
        for run, used in lost:
            sums[run] += used

        def delete(connection: sa.Connection) -> None:
            connection.execute(sa.delete(BATCHED).where(BATCHED.c.batch == name))
            if connection.execute(sa.delete(BATCHES).where(BATCHES.c.id == name)).rowcount:
                for run, spent in sums.items():
                    lose(connection, run, spent)

        await self._cache.within(delete)

    async def send(self, row: BatchRow, lines: Iterable[bytes]) -> Batch:
        """Make a batch of lines and wait for its end.

        Raises NoBatches; TooLarge; Absent, if it vanishes.
        """
        await self._write(row)
        try:
            with TemporaryFile() as file:
                file.writelines(lines)

                async def upload(client: openai.AsyncOpenAI) -> str:
                    file.seek(0)
                    content = (f"toolloom-{row.name}.jsonl", file, "application/jsonl")
                    return (await client.files.create(file=content, purpose="batch")).id

                uploaded = await self._call(upload, TRANSFER_SECONDS)
            sent = replace(row, state=UPLOADED, remote=uploaded, at=time.time())
            await self._write(sent)
            batch = await self._create(sent)
        except Absent as error:
            await self.forget(row.name)
            raise NoBatches(f"{self.caller.address} has no Batch API ({error})") from error
        except RequestRefused as error:  # of all its requests: that rejects none of them
            await self.forget(row.name)
            raise EndpointError(f"No batch can be made: {error}") from error
        return await self._follow(sent, batch.id)

    async def go_on(self, row: BatchRow) -> Batch | None:
        """The end of what another process began; None if that came to nothing. Raises Absent."""
        remote: str | None = row.remote
        if row.state == UPLOADED:
            remote = await self._search(row)
        if row.state == GATHERED or remote is None:
            return None
        note(logging.INFO, "batch", f"Going on with batch {remote}", batch=remote)
        return await self._follow(row, remote)

    async def _search(self, row: BatchRow) -> str | None:
        """The batch of a file, if it was made before the process died."""
        while True:
            try:
                batch = await self._call(lambda client: _find(client, row.name, row.remote))
            except Absent:  # it does not list batches
                return None
            if batch is not None:
                return batch.id
            if time.time() > row.at + self._pace.settle:
                return None
            await asyncio.sleep(self._pace.first_poll)

    async def _create(self, row: BatchRow) -> Batch:
        """Make a batch of a file, once, also if the endpoint's answer is lost.

        When it was asked for is written down, as it may come to be a little later.
        """
        tried = False

        async def act(client: openai.AsyncOpenAI) -> Batch:
            nonlocal tried
            if tried:
                if (batch := await _find(client, row.name, row.remote)) is not None:
                    return batch
                await self._write(replace(row, at=time.time()))
            tried = True
            return await client.batches.create(
                input_file_id=row.remote,
                endpoint=URL,
                completion_window="24h",
                metadata={LABEL: row.name},
            )

        for wait in range(CREATIONS):
            try:
                return await self._call(act)
            except RequestRefused:
                await asyncio.sleep(self._pace.first_poll * wait)
        return await self._call(act)

    async def _follow(self, row: BatchRow, remote: str) -> Batch:
        """Look at a batch until it has ended."""
        await self._write(replace(row, state=OPEN, remote=remote))
        state, wait, late, total = "", self._pace.first_poll, 0, len(row.tries)
        while True:
            batch = await self._call(lambda client: client.batches.retrieve(remote))
            counts = batch.request_counts
            completed, failed = (counts.completed, counts.failed) if counts else (0, 0)
            if batch.status.lower() != state:
                state = batch.status.lower()
                message = (
                    f"Batch {remote}: {state}, {completed} of {total} answered, {failed} failed"
                )
                facts = {"state": state, "total": total, "completed": completed, "failed": failed}
                note(logging.INFO, "batch", message, batch=remote, **facts)
            if state in ENDED:
                if late >= LATE_POLLS or not completed or batch.output_file_id:
                    return batch
                late += 1
            await asyncio.sleep(wait)
            wait = min(wait * SLOWER, self._pace.longest_poll)

    async def download(self, file: str, into: IO[bytes]) -> None:
        """The content of a file, ready to be read from its beginning."""

        async def act(client: openai.AsyncOpenAI) -> None:
            into.seek(0)
            into.truncate()
            async with client.files.with_streaming_response.content(file) as response:
                async for some in response.iter_bytes():
                    into.write(some)

        await self._call(act, TRANSFER_SECONDS)
        into.seek(0)

    async def _call(
        self, act: Callable[[openai.AsyncOpenAI], Awaitable[T]], seconds: float | None = None
    ) -> T:
        import openai

        async def once(client: openai.AsyncOpenAI) -> T:
            try:
                return await act(client)
            except openai.APIStatusError as error:
                if error.status_code == TOO_LARGE:
                    raise TooLarge(self.caller.scrub(str(error))) from error
                if error.status_code not in ABSENT:
                    raise
                raise Absent(self.caller.scrub(f"HTTP {error.status_code}")) from error

        return await self._lines.call(once, seconds)


async def _find(client: openai.AsyncOpenAI, name: str, file: str) -> Batch | None:
    async for batch in client.batches.list(limit=PAGE):
        # Not every server keeps metadata.
        if (batch.metadata or {}).get(LABEL) == name or batch.input_file_id == file:
            return batch
    return None


def reasons(batch: Batch) -> tuple[str, bool]:
    """Why a batch failed, and whether it is only too much beside what is under way."""
    errors = (batch.errors.data if batch.errors else None) or []
    words = "; ".join(str(error.message or error.code) for error in errors)
    return words or "no reason given", any(error.code == FULL for error in errors)
