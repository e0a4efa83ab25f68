"""Requests through the Batch API: gathered, sent as one file, answered within a day, for less.

https://platform.openai.com/docs/api-reference/batch
"""

from __future__ import annotations

import asyncio
import contextvars
import json
import logging
import time
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from tempfile import TemporaryFile
from typing import TYPE_CHECKING, Any, TypeAlias
from uuid import uuid4

from toolloom.llm.batch_jobs import (
    GATHERED,
    UNSENT,
    URL,
    Absent,
    BatchApi,
    BatchPurse,
    BatchRow,
    NoBatches,
    Pace,
    TooLarge,
    chunks,
    reasons,
)
from toolloom.llm.budget import Try
from toolloom.llm.cache import Cache
from toolloom.llm.client import Client
from toolloom.llm.faults import Caller, Garbled, Trouble, fault
from toolloom.llm.log import WORK, Work, note
from toolloom.llm.wire import IN_BATCH, Reply, decode
from toolloom.schemas import (
    BudgetReached,
    Endpoint,
    EndpointDown,
    EndpointError,
    JsonObject,
    RequestRefused,
    Usage,
)

if TYPE_CHECKING:
    from openai.types import Batch

Way: TypeAlias = "Callable[[], Awaitable[Batch | None]]"
Commit: TypeAlias = Callable[[str, str, Try], Awaitable[tuple[Reply, Usage]]]

MOST_LINES = 50_000
MOST_BYTES = 200_000_000
COMMITTED_AT_ONCE = 256  # results in one transaction


@dataclass
class BatchRequest:
    """A request that somebody waits for, with its line in a batch's file."""

    key: str
    line: bytes
    formatted: bool
    others: int  # answers to others before it was asked
    last: Try
    answer: asyncio.Future[Reply] = field(default_factory=asyncio.Future)
    context: contextvars.Context = field(default_factory=contextvars.copy_context)

    def __post_init__(self) -> None:
        # Its asker may be gone by the time it fails.
        self.answer.add_done_callback(lambda done: done.cancelled() or done.exception())

    def given_up(self, error: Trouble, caller: Caller, answers: int) -> Exception:
        """After the last try: the endpoint is down, or if it answers others the request is odd."""
        tried = f"{error} (tried {self.last.number}x)"
        if isinstance(error, Garbled):
            words = f"{caller.address} does not answer with a completion: {tried}."
            return RequestRefused(words, error.raw)
        if answers > self.others:
            words = f"{caller.address} fails on this request, not on others: {tried}."
            return RequestRefused(words)
        return EndpointDown(
            f"{caller.address} does not serve {caller.model!r} in batches: {tried}. "
            "What was answered is kept: run the same command again to go on."
        )


class Gone(Trouble):
    """Nothing is told of a request: it may have been answered."""


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
        self._commit = commit
        self._purse = purse
        self._pace = pace
        self._on_retry = on_retry
        self._api = BatchApi(lines, cache, endpoint.model, pace)
        # On the way into a batch, which leaves when it is full or nobody comes any more.
        self._gathered: dict[str, BatchRequest] = {}
        self._bytes = 0
        self._most = 1  # requests in a batch
        self._timer: asyncio.TimerHandle | None = None
        self._items: dict[str, BatchRequest] = {}  # all that is waited for
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
        self._most = max(self._most, min(most, MOST_LINES))

    async def close(self) -> None:
        """Stop waiting. What was sent stays written down, for the next process."""
        if self._timer:
            self._timer.cancel()
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
            if key not in self._sent and (raw := await self._cache.read(key)) is not None:
                return decode(raw, cached=True)  # an earlier process's batch had it
            sent = self._sent.get(key)
            last = replace(first, number=sent.number) if sent else first
            request = {"custom_id": key, "method": "POST", "url": URL, "body": body}
            line = json.dumps(request).encode() + b"\n"
            item = BatchRequest(key, line, "response_format" in body, self._answers, last)
            self._items[key] = item
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
            for row in await self._api.rows():
                if row.name not in self._batches:
                    self._purse.follow(row.tries)
                    self._start(row, partial(self._api.go_on, row))
            self._taken_up = True

    async def _pay(self, items: Iterable[BatchRequest]) -> None:
        """Let requests join the next batch, each as soon as the budget has room for a try."""
        for item in items:
            try:
                await self._purse.hold(item.key, self._endpoint.model, item.last)
            except BudgetReached as error:
                self._refuse((item.key,), error)
            else:
                self._gather(item)

    def _gather(self, item: BatchRequest) -> None:
        if self._bytes + len(item.line) > MOST_BYTES:
            self._leave()
        self._gathered[item.key] = item
        self._bytes += len(item.line)
        if len(self._gathered) >= self._most:
            self._leave()
            return
        if self._timer:
            self._timer.cancel()
        loop = asyncio.get_running_loop()
        self._timer = loop.call_later(self._pace.gather, self._leave)

    def _leave(self) -> None:
        if self._timer:
            self._timer.cancel()
        items, self._gathered, self._bytes = self._gathered, {}, 0
        if items:
            tries = {key: item.last for key, item in items.items()}
            row = BatchRow(uuid4().hex, GATHERED, "", time.time(), tries)
            self._start(row, partial(self._api.send, row, [i.line for i in items.values()]))

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
            await self._api.forget(row.name)
            if len(row.tries) == 1:
                raise EndpointError(f"No batch can be made of one request: {error}") from error
            self._most = len(row.tries) // 2
            self._again(row.tries)
            return
        except Absent as error:
            note(logging.WARNING, "batch", f"A batch is gone ({error}).", batch=row.remote)
            bodies = await self._cache.read_all(list(row.tries))
            for key, body in bodies.items():
                self._purse.settle(key)
                self._hand_out(key, decode(body, cached=True))
            gone = Gone("the batch is gone", "timeout")
            await self._end(row, {key: gone for key in row.tries if key not in bodies})
            return
        if batch is None:
            await self._api.forget(row.name)
            self._again(row.tries)
        elif batch.status.lower() == "failed":
            await self._api.forget(row.name)
            await self._failed(row, batch)
        else:
            await self._end(row, await self._results(row, batch))

    async def _failed(self, row: BatchRow, batch: Batch) -> None:
        """Not begun at all: too much for now, which passes, or a reason to stop."""
        words, full = reasons(batch)
        words = self._api.caller.scrub(words)
        if not full:
            error = EndpointError(
                f"{self._api.caller.address} does not take the batch {batch.id}: {words}. "
                "What was answered is kept: run the same command again to go on, or set "
                "`mode: direct`."
            )
            self._refuse(row.tries, error)
            return
        # Unless others of ours are in there, even this one is too large.
        self._refused_room.add(row.name)
        alone = not self._batches.keys() - self._refused_room
        if alone:
            self._most = max(1, len(row.tries) // 2)
        note(logging.INFO, "batch", f"Waiting for room: {words}", batch=batch.id)
        await asyncio.sleep(self._pace.longest_poll)
        if alone and len(row.tries) == 1:
            self._fail({key: Trouble(words, "timeout") for key in row.tries})
        else:
            self._again(row.tries)

    async def _results(self, row: BatchRow, batch: Batch) -> dict[str, Exception]:
        """Commit all successes of a batch that has ended; what failed, and why."""
        failed: dict[str, Exception] = {}
        taken: set[str] = set()
        for file in filter(None, (batch.output_file_id, batch.error_file_id)):
            with TemporaryFile() as content:
                await self._api.download(file, content)
                for some in chunks(outcomes(content), COMMITTED_AT_ONCE):
                    mine = {o.key: o for o in some if o.key in row.tries and o.key not in taken}
                    taken.update(mine)
                    failed.update(await self._keep_all(mine, row.tries))
        missing = Gone(f"batch {batch.id} is {batch.status} without its answer", "timeout")
        return {**failed, **{key: missing for key in row.tries if key not in taken}}

    async def _keep_all(
        self, results: Mapping[str, BatchOutcome], tries: Mapping[str, Try]
    ) -> dict[str, Exception]:
        """Commit successes and hand them out; what failed, and why."""
        failed: dict[str, Exception] = {}
        good = [outcome for outcome in results.values() if outcome.good]
        bodies = await self._cache.read_all([outcome.key for outcome in good])
        work = []
        for outcome in good:
            item = self._items.get(outcome.key)  # whose answer it is, so that it is booked there
            context = item.context if item else contextvars.copy_context()
            keeping = self._keep(outcome, bodies.get(outcome.key), tries[outcome.key])
            work.append(asyncio.get_running_loop().create_task(keeping, context=context))
        kept = await asyncio.gather(*work, return_exceptions=True)
        for outcome, error in zip(good, kept, strict=True):
            if isinstance(error, Garbled):
                failed[outcome.key] = error
            elif error is not None:
                raise error
        caller = self._api.caller
        for key, outcome in results.items():
            if outcome.status is None:
                failed[key] = Trouble(caller.scrub(outcome.body), "timeout")
            elif not outcome.good:
                item = self._items.get(key)
                formatted = item is not None and item.formatted
                failed[key] = fault(outcome.status, {}, outcome.body, caller, formatted)
        return failed

    async def _keep(self, outcome: BatchOutcome, stored: str | None, last: Try) -> None:
        """Commit a success, unless that was done before, and hand it out. Raises Garbled."""
        raw = self._api.caller.clean(outcome.body)
        if stored == raw:
            reply = decode(raw, cached=True)
            self._purse.settle(outcome.key)
        else:
            reply, used = await self._commit(outcome.key, raw, last)
            self._purse.settle(outcome.key, used)
        self._hand_out(outcome.key, reply)

    async def _end(self, row: BatchRow, failed: Mapping[str, Exception]) -> None:
        """Forget a batch, book what its failed tries used, and see to them."""
        used: dict[str, Usage] = {}
        for key, error in failed.items():
            most = self._purse.most(self._endpoint.model, row.tries[key])
            unclear = isinstance(error, Gone | Garbled)  # and perhaps paid for
            used[key] = most if unclear else Usage(requests=1)
        await self._api.forget(row.name, [(row.tries[key].run, one) for key, one in used.items()])
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
        retry = self._endpoint.retry
        for key, error in failed.items():
            item = self._items.get(key)
            if item is None or not isinstance(error, Trouble):
                self._refuse((key,), error)
                continue
            passes = isinstance(error.kind, int) or error.kind in retry.errors
            if passes and item.last.number < retry.tries:
                item.last = replace(item.last, number=item.last.number + 1)
                self._on_retry()
                again.append(key)
            else:
                self._refuse((key,), item.given_up(error, self._api.caller, self._answers))
        self._again(again)

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
            self._gathered.pop(key, None)
            self._purse.settle(key, UNSENT)  # if it was not settled before
            if item := self._items.pop(key, None):
                item.answer.set_exception(error)


@dataclass(frozen=True)
class BatchOutcome:
    """What became of one request: the body of a success, or a status and an error's body.

    Without a status there was no response at all, and `body` says why.
    """

    key: str
    status: int | None
    body: str

    @property
    def good(self) -> bool:
        return self.status is not None and 200 <= self.status < 300


def outcomes(lines: Iterable[bytes]) -> Iterator[BatchOutcome]:
    """What a result file tells; lines that cannot be read tell nothing."""
    for content in lines:
        try:
            line = json.loads(content)
            key, response = line["custom_id"], line.get("response")
        except (ValueError, LookupError, TypeError, AttributeError, RecursionError):
            continue
        if not isinstance(key, str):
            continue
        if not isinstance(response, dict) or not isinstance(response.get("status_code"), int):
            yield BatchOutcome(key, None, _words(line.get("error")))
            continue
        # Some servers write an error's `message` beside the status, without a body.
        body = response.get("body", response)
        # With \u escapes, as lone surrogates in an answer fit into no database.
        text = body if isinstance(body, str) else json.dumps(body)
        outcome = BatchOutcome(key, response["status_code"], text)
        yield replace(outcome, body=_marked(text)) if outcome.good else outcome


def _marked(body: str) -> str:
    """The body of a success as one that came in a batch."""
    try:
        answer = json.loads(body)
    except (ValueError, RecursionError):
        return body
    return json.dumps({**answer, IN_BATCH: True}) if isinstance(answer, dict) else body


def _words(error: Any) -> str:
    if not isinstance(error, dict):
        return f"no response ({error})" if error else "no response"
    words = [str(error[name]) for name in ("code", "message") if error.get(name)]
    return ": ".join(words) or "no response"
