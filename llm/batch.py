"""Requests through the Batch API: gathered, sent as one file, answered within a day, for less.

https://platform.openai.com/docs/api-reference/batch
"""

from __future__ import annotations

import asyncio
import contextvars
import logging
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, TypeAlias
from uuid import uuid4

from toolloom.llm.batch_book import GATHERED, BatchRow, BatchTable, Try, now
from toolloom.llm.batch_gather import Gathering
from toolloom.llm.batch_lines import BatchRequest, Gone
from toolloom.llm.batch_office import Absent, BatchApi, NoBatches, Pace, TooLarge, reasons
from toolloom.llm.batch_purse import UNSENT, BatchPurse
from toolloom.llm.batch_results import Commit, Results
from toolloom.llm.cache import Cache
from toolloom.llm.client import Client
from toolloom.llm.faults import Garbled, Trouble
from toolloom.llm.log import WORK, Work, note
from toolloom.llm.wire import Reply, decode
from toolloom.schemas import BudgetReached, Endpoint, EndpointError, JsonObject, Usage

if TYPE_CHECKING:
    from openai.types import Batch

Way: TypeAlias = "Callable[[], Awaitable[Batch | None]]"

__all__ = ["Batcher", "NoBatches", "Pace"]


class Batcher:
    """Asks one model at one endpoint, all requests of a while together."""

    def __init__(
        self,
        endpoint: Endpoint,
        lines: Client,
        cache: Cache,
        commit: Commit,
        purse: BatchPurse,
        pace: Pace,
        on_retry: Callable[[], None],
    ) -> None:
        """`commit(key, raw, try)` keeps a success and reads it; it raises Garbled if it is none.

        It is called for every success in a batch, whether or not somebody waits for it.
        """
        self._endpoint = endpoint
        self._cache = cache
        self._purse = purse
        self._pace = pace
        self._on_retry = on_retry
        self._book = BatchTable(cache, lines.caller.address, endpoint.model)
        self._office = BatchApi(lines, self._book, pace)
        self._gathering = Gathering(pace.gather, self._leave)
        self._items: dict[str, BatchRequest] = {}  # all that is waited for
        self._results = Results(cache, self._office, commit, purse, self._items, self._hand_out)
        self._answers = 0
        self._sent: dict[str, Try] = {}  # all that is in a batch
        self._batches: dict[str, asyncio.Task[None]] = {}
        self._paying: set[asyncio.Task[None]] = set()  # for tries that are to follow others
        self._refused_room: set[str] = set()  # batches that wait until others are done
        self._taken_up = False
        self._taking_up = asyncio.Lock()
        self._none: NoBatches | None = None

    def allow(self, most: int) -> None:
        """Let batches be as large as that: of several endpoints the widest counts."""
        self._gathering.allow(most)

    async def close(self) -> None:
        """Stop waiting. What was sent stays written down, for the next process."""
        self._gathering.close()
        tasks = [*self._batches.values(), *self._paying]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        for item in self._items.values():
            item.answer.cancel()

    async def ask(self, key: str, body: JsonObject, first: Try) -> Reply:
        """The answer, perhaps in hours; `first` is what is held back for its first try.

        Raises NoBatches, RequestRefused, EndpointError, BudgetReached.
        """
        await self._take_up()
        item = self._items.get(key)
        if item is None:
            if key not in self._sent and (known := await self._cache.read(key)) is not None:
                return decode(known, cached=True)  # an earlier process's batch had it
            sent = self._sent.get(key)
            made = replace(first, number=sent.number) if sent else first
            item = self._items[key] = BatchRequest.of(key, body, self._answers, made)
            if not sent:
                await self._pay([item])
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
                    self._purse.follow(row.tries)
                    self._start(row, partial(self._office.go_on, row))
            self._taken_up = True

    async def _pay(self, items: Iterable[BatchRequest]) -> None:
        """Let requests join the next batch, each as soon as the budget has room for a try."""
        for item in items:
            try:
                await self._purse.hold(item.key, self._endpoint.model, item.made)
            except BudgetReached as error:
                self._refuse((item.key,), error)
            else:
                self._gathering.join(item)

    def _leave(self, items: Sequence[BatchRequest]) -> None:
        row = BatchRow(uuid4().hex, GATHERED, "", now(), {item.key: item.made for item in items})
        self._start(row, partial(self._office.send, row, [item.line for item in items]))

    def _start(self, row: BatchRow, way: Way) -> None:
        self._sent.update(row.tries)
        context = contextvars.copy_context()
        context.run(WORK.set, Work(run=WORK.get().run))  # a batch is nobody's alone
        task = asyncio.get_running_loop().create_task(self._see_to(row, way), context=context)
        self._batches[row.name] = task

    async def _see_to(self, row: BatchRow, way: Way) -> None:
        """Whatever goes wrong with a batch is told to those who wait for it."""
        try:
            await self._take(row, way)
        except Exception as error:  # noqa: BLE001 - nobody else would hear of it
            if isinstance(error, NoBatches) and not self._none:
                note(logging.WARNING, "no_batches", f"{error}: requests are sent one by one.")
                self._none = error
            self._taken_up = False  # who asks again shall find the batch
            if not isinstance(error, NoBatches):  # it may still be answered
                for key in row.tries:
                    self._purse.settle(key)
            self._refuse(row.tries, error)
        finally:
            del self._batches[row.name]
            self._refused_room.discard(row.name)

    async def _take(self, row: BatchRow, way: Way) -> None:
        """Wait for a batch's end, and see to all that was in it."""
        try:
            batch = await way()
        except TooLarge as error:
            await self._book.forget(row.name)
            if len(row.tries) == 1:
                raise EndpointError(f"No batch can be made of one request: {error}") from error
            self._gathering.limit(len(row.tries) // 2)
            self._again(row.tries)
            return
        except Absent as error:
            note(logging.WARNING, "batch", f"A batch is gone ({error}).", batch=row.remote)
            await self._end(row, await self._results.without(row))
            return
        if batch is None:
            await self._book.forget(row.name)
            self._again(row.tries)
        elif batch.status.lower() == "failed":
            await self._book.forget(row.name)
            await self._failed(row, batch)
        else:
            await self._end(row, await self._results.take(row, batch))

    async def _failed(self, row: BatchRow, batch: Batch) -> None:
        """Not begun at all: too much for now, which passes, or a reason to stop."""
        words, full = reasons(batch)
        words = self._office.caller.scrub(words)
        if not full:
            self._refuse(
                row.tries,
                EndpointError(
                    f"{self._office.caller.address} does not take the batch {batch.id}: {words}. "
                    "What was answered is kept: run the same command again to go on, or set "
                    "`mode: direct`."
                ),
            )
            return
        # Unless others of ours are in there, even this one is too large.
        self._refused_room.add(row.name)
        alone = not self._batches.keys() - self._refused_room
        if alone:
            self._gathering.limit(len(row.tries) // 2)
        note(logging.INFO, "batch", f"Waiting for room: {words}", batch=batch.id)
        await asyncio.sleep(self._pace.longest_poll)
        if alone and len(row.tries) == 1:
            self._fail({key: Trouble(words, "timeout") for key in row.tries})
        else:
            self._again(row.tries)

    async def _end(self, row: BatchRow, failed: Mapping[str, Exception]) -> None:
        """Forget a batch, book what its failed tries used, and see to them."""
        used: dict[str, Usage] = {}
        for key, error in failed.items():
            most = self._purse.most(self._endpoint.model, row.tries[key])
            unclear = isinstance(error, Gone | Garbled)  # and perhaps paid for
            used[key] = most if unclear else Usage(requests=1)
        await self._book.forget(row.name, [(row.tries[key].run, one) for key, one in used.items()])
        for key, spent in used.items():
            self._purse.settle(key, spent)
        self._fail(failed)

    def _hand_out(self, key: str, reply: Reply) -> None:
        self._answers += 1
        self._sent.pop(key, None)
        if item := self._items.pop(key, None):
            item.answer.set_result(reply)

    def _fail(self, failed: Mapping[str, Exception]) -> None:
        """Try again what may pass and is still waited for; else tell why not."""
        again: list[str] = []
        for key, error in failed.items():
            item = self._items.get(key)
            if item is None or not isinstance(error, Trouble):
                self._refuse((key,), error)
            elif item.made.number < self._endpoint.retry.tries and self._may_pass(error):
                item.made = replace(item.made, number=item.made.number + 1)
                self._on_retry()
                again.append(key)
            else:
                given_up = item.given_up(error, self._office.caller, self._answers)
                self._refuse((key,), given_up)
        self._again(again)

    def _may_pass(self, error: Trouble) -> bool:
        return isinstance(error.kind, int) or error.kind in self._endpoint.retry.errors

    def _again(self, keys: Iterable[str]) -> None:
        """Into the next batch with all that somebody waits for."""
        items: list[BatchRequest] = []
        for key in keys:
            self._sent.pop(key, None)
            if item := self._items.get(key):
                items.append(item)
            else:
                self._purse.settle(key, UNSENT)
        paying = asyncio.create_task(self._pay(items))
        self._paying.add(paying)
        paying.add_done_callback(self._paying.discard)

    def _refuse(self, keys: Iterable[str], error: Exception) -> None:
        for key in keys:
            self._sent.pop(key, None)
            self._gathering.drop(key)
            self._purse.settle(key, UNSENT)  # if it was not settled before
            if item := self._items.pop(key, None):
                item.answer.set_exception(error)
