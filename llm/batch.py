"""Requests through the Batch API: gathered, sent as one file, answered within a day, for less.

https://platform.openai.com/docs/api-reference/batch
"""

from __future__ import annotations

import asyncio
import contextvars
import logging
from collections.abc import Awaitable, Callable, Iterable, Mapping
from functools import partial
from tempfile import TemporaryFile
from typing import TYPE_CHECKING, TypeAlias
from uuid import uuid4

from toolloom.llm.batch_book import GATHERED, Book, Row, chunks, now
from toolloom.llm.batch_lines import Item, Outcome, outcomes
from toolloom.llm.batch_office import Absent, NoBatches, Office, Pace, TooLarge, reasons
from toolloom.llm.cache import Cache
from toolloom.llm.faults import Garbled, Trouble
from toolloom.llm.lines import Lines
from toolloom.llm.log import WORK, Work, note
from toolloom.llm.wire import Reply, decode
from toolloom.schemas import Endpoint, EndpointError, JsonObject

if TYPE_CHECKING:
    from openai.types import Batch

Commit: TypeAlias = Callable[[str, str, int], Awaitable[Reply]]
Way: TypeAlias = "Callable[[], Awaitable[Batch | None]]"

__all__ = ["Batcher", "NoBatches", "Pace"]

MOST_LINES = 50_000
MOST_BYTES = 200_000_000
AT_ONCE = 256  # results committed in one transaction


class Batcher:
    """Asks one model at one endpoint, all requests of a while together."""

    def __init__(
        self,
        endpoint: Endpoint,
        lines: Lines,
        cache: Cache,
        commit: Commit,
        pace: Pace,
        on_retry: Callable[[], None],
    ) -> None:
        """`commit(key, raw, tries)` keeps a success and reads it; it raises Garbled if it is none.

        It is called for every success in a batch, whether or not somebody waits for it.
        """
        self._endpoint = endpoint
        self._cache = cache
        self._commit = commit
        self._pace = pace
        self._on_retry = on_retry
        self._book = Book(cache, lines.caller.address, endpoint.model)
        self._office = Office(lines, self._book, pace)
        self._most = 1
        self._items: dict[str, Item] = {}  # all that is waited for
        self._gathered: dict[str, Item] = {}  # of them, what is not in a batch yet
        self._bytes = 0
        self._answers = 0
        self._sent: dict[str, int] = {}  # tries of all that is in a batch
        self._batches: dict[str, asyncio.Task[None]] = {}
        self._refused_room: set[str] = set()  # batches that wait until others are done
        self._timer: asyncio.TimerHandle | None = None
        self._taken_up = False
        self._taking_up = asyncio.Lock()
        self._none: NoBatches | None = None

    def allow(self, most: int) -> None:
        """Let batches be as large as that: of several endpoints the widest counts."""
        self._most = max(self._most, min(most, MOST_LINES))

    async def close(self) -> None:
        """Stop waiting. What was sent stays written down, for the next process."""
        if self._timer:
            self._timer.cancel()
        for task in self._batches.values():
            task.cancel()
        await asyncio.gather(*self._batches.values(), return_exceptions=True)
        for item in self._items.values():
            item.answer.cancel()

    async def ask(self, key: str, body: JsonObject) -> Reply:
        """The answer, perhaps in hours. Raises NoBatches, RequestRefused, EndpointError."""
        await self._take_up()
        item = self._items.get(key)
        if item is None:
            if key not in self._sent and (known := await self._cache.read(key)) is not None:
                return decode(known, cached=True)  # an earlier process's batch had it
            item = self._items.setdefault(key, Item.of(key, body, self._answers))
            if key in self._sent:
                item.tries = self._sent[key]
            elif key not in self._gathered:
                self._gather(item)
        return await asyncio.shield(item.answer)

    async def _take_up(self) -> None:
        """Go on with the batches that this process knows nothing of yet."""
        async with self._taking_up:
            if self._none:
                raise self._none
            if self._taken_up:
                return
            for row in await self._book.rows():
                if row.name not in self._batches:
                    self._start(row, partial(self._office.go_on, row))
            self._taken_up = True

    def _gather(self, item: Item) -> None:
        """Let a request join the next batch, which leaves when it is full or nobody comes."""
        if self._bytes + len(item.line) > MOST_BYTES:
            self._leave()
        self._gathered[item.key] = item
        self._bytes += len(item.line)
        if len(self._gathered) >= self._most:
            self._leave()
            return
        if self._timer:
            self._timer.cancel()
        self._timer = asyncio.get_running_loop().call_later(self._pace.gather, self._leave)

    def _leave(self) -> None:
        if self._timer:
            self._timer.cancel()
        items, self._gathered, self._bytes = self._gathered, {}, 0
        if items:
            row = Row(uuid4().hex, GATHERED, "", now(), {k: i.tries for k, i in items.items()})
            lines = [item.line for item in items.values()]
            self._start(row, partial(self._office.send, row, lines))

    def _start(self, row: Row, way: Way) -> None:
        self._sent.update(row.tries)
        context = contextvars.copy_context()
        context.run(WORK.set, Work(run=WORK.get().run))  # a batch is nobody's alone
        task = asyncio.get_running_loop().create_task(self._see_to(row, way), context=context)
        self._batches[row.name] = task

    async def _see_to(self, row: Row, way: Way) -> None:
        """Whatever goes wrong with a batch is told to those who wait for it."""
        try:
            await self._take(row, way)
        except Exception as error:  # noqa: BLE001 - nobody else would hear of it
            if isinstance(error, NoBatches) and not self._none:
                note(logging.WARNING, "no_batches", f"{error}: requests are sent one by one.")
                self._none = error
            self._taken_up = False  # who asks again shall find the batch
            self._refuse(row.tries, error)
        finally:
            del self._batches[row.name]
            self._refused_room.discard(row.name)

    async def _take(self, row: Row, way: Way) -> None:
        """Wait for a batch's end, and see to all that was in it."""
        try:
            batch = await way()
        except TooLarge as error:
            await self._book.forget(row.name)
            if len(row.tries) == 1:
                raise EndpointError(f"No batch can be made of one request: {error}") from error
            self._most = len(row.tries) // 2
            self._again(row.tries)
            return
        except Absent as error:
            note(logging.WARNING, "batch", f"A batch is gone ({error}).", batch=row.remote)
            await self._book.forget(row.name)
            self._fail(row.tries, Trouble("the batch is gone", "timeout"))
            return
        if batch is None:
            await self._book.forget(row.name)
            self._again(row.tries)
        elif batch.status.lower() == "failed":
            await self._book.forget(row.name)
            await self._failed(row, batch)
        else:
            await self._settle(row, batch)

    async def _failed(self, row: Row, batch: Batch) -> None:
        """Not begun at all: too much for now, which passes, or a reason to stop."""
        words, full = reasons(batch)
        words = self._office.caller.scrub(words)
        if not full:
            raise EndpointError(
                f"{self._office.caller.address} does not take the batch {batch.id}: {words}. "
                "What was answered is kept: run the same command again to go on, or set "
                "`mode: direct`."
            )
        # Unless others of ours are in there, even this one is too large.
        self._refused_room.add(row.name)
        alone = not self._batches.keys() - self._refused_room
        if alone:
            self._most = max(1, len(row.tries) // 2)
        note(logging.INFO, "batch", f"Waiting for room: {words}", batch=batch.id)
        await asyncio.sleep(self._pace.longest_poll)
        if alone and len(row.tries) == 1:
            self._fail(row.tries, Trouble(words, "timeout"))
        else:
            self._again(row.tries)

    async def _settle(self, row: Row, batch: Batch) -> None:
        """Commit all successes, forget the batch, and see to the rest."""
        failed: dict[str, Exception] = {}
        taken: set[str] = set()
        for file in filter(None, (batch.output_file_id, batch.error_file_id)):
            with TemporaryFile() as content:
                await self._office.download(file, content)
                for some in chunks(outcomes(content), AT_ONCE):
                    mine = {o.key: o for o in some if o.key in row.tries and o.key not in taken}
                    taken.update(mine)
                    failed.update(await self._keep_all(mine, row.tries))
        await self._book.forget(row.name)
        missing = Trouble(f"batch {batch.id} is {batch.status} without its answer", "timeout")
        for key in row.tries:
            if key in failed or key not in taken:
                self._fail((key,), failed.get(key, missing))

    async def _keep_all(
        self, found: Mapping[str, Outcome], tries: Mapping[str, int]
    ) -> dict[str, Exception]:
        """Commit successes and hand them out; what failed, and why."""
        good = [outcome for outcome in found.values() if outcome.good]
        known = await self._cache.read_all([outcome.key for outcome in good])
        loop = asyncio.get_running_loop()
        work = [
            loop.create_task(
                self._keep(outcome, known.get(outcome.key), tries[outcome.key]),
                context=self._context(outcome.key),
            )
            for outcome in good
        ]
        kept = await asyncio.gather(*work, return_exceptions=True)
        failed: dict[str, Exception] = {}
        for outcome, error in zip(good, kept, strict=True):
            if isinstance(error, Garbled):
                failed[outcome.key] = error
            elif error is not None:
                raise error
        for outcome in found.values():
            if not outcome.good:
                item = self._items.get(outcome.key)
                formatted = item is not None and item.formatted
                failed[outcome.key] = outcome.error(self._office.caller, formatted)
        return failed

    def _context(self, key: str) -> contextvars.Context:
        """Whose answer it is, so that it is booked there."""
        item = self._items.get(key)
        return item.context if item else contextvars.copy_context()

    async def _keep(self, outcome: Outcome, known: str | None, tries: int) -> None:
        """Commit a success, unless that was done before, and hand it out. Raises Garbled."""
        if known is None:
            raw = self._office.caller.clean(outcome.body)
            reply = await self._commit(outcome.key, raw, tries)
        else:
            reply = decode(known, cached=True)
        self._answers += 1
        self._sent.pop(outcome.key, None)
        if item := self._items.pop(outcome.key, None):
            item.answer.set_result(reply)

    def _fail(self, keys: Iterable[str], error: Exception) -> None:
        """Try again what may pass and is still waited for; else tell why not."""
        for key in keys:
            item = self._items.get(key)
            if item is None or not isinstance(error, Trouble):
                self._refuse((key,), error)
            elif item.tries < self._endpoint.retry.tries and self._may_pass(error):
                item.tries += 1
                self._on_retry()
                self._again((key,))
            else:
                given_up = item.given_up(error, self._office.caller, self._answers)
                self._refuse((key,), given_up)

    def _may_pass(self, error: Trouble) -> bool:
        return isinstance(error.kind, int) or error.kind in self._endpoint.retry.errors

    def _again(self, keys: Iterable[str]) -> None:
        """Into the next batch with all that somebody waits for."""
        for key in keys:
            self._sent.pop(key, None)
            if (item := self._items.get(key)) is not None:
                self._gather(item)

    def _refuse(self, keys: Iterable[str], error: Exception) -> None:
        for key in keys:
            self._sent.pop(key, None)
            self._gathered.pop(key, None)
            if item := self._items.pop(key, None):
                item.answer.set_exception(error)
