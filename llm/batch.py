"""Requests through the Batch API: gathered, sent as one file, answered within a day, for less.

A batch is written down beside the responses once its file is at the endpoint, before it is made, so
that one that was paid for is found again whenever the process is killed:

    uploaded    its file lies at the endpoint as `remote`; perhaps the batch exists
    open        it goes by the name `remote` at the endpoint

https://platform.openai.com/docs/api-reference/batch
"""

from __future__ import annotations

import asyncio
import json
import logging
import time
from collections.abc import Awaitable, Callable, Iterable, Iterator
from dataclasses import dataclass, field, replace
from functools import partial
from tempfile import NamedTemporaryFile
from typing import TYPE_CHECKING, Any, Final, TypeAlias
from uuid import uuid4

from toolloom.llm.cache import lose
from toolloom.llm.client import NOTHING, ONE_REQUEST, Absent, Client, Shared, Try
from toolloom.llm.messages import IN_BATCH, WORK, Garbled, Reply, Trouble, Work, decode, fault, note
from toolloom.schemas import EndpointError, JsonObject, RequestRefused, Usage

if TYPE_CHECKING:
    import openai
    from openai.types import Batch

Failed: TypeAlias = dict[str, tuple[Exception, Usage]]
"""What is wrong with requests, by their keys, and what each may have used."""

URL: Final = "/v1/chat/completions"
UPLOADED, OPEN = "uploaded", "open"
ENDED = frozenset({"completed", "failed", "expired", "cancelled"})
FULL = "token_limit_exceeded"
LABEL = "toolloom"  # of the metadata that holds a batch's own name
MOST_LINES, MOST_BYTES = 50_000, 200_000_000
TRANSFER_SECONDS = 3600.0  # for a file of 200 MB
SLOWER = 1.5


@dataclass(frozen=True)
class Pace:
    """Seconds that batching waits."""

    gather: float = 2.0  # for another request to join a batch
    first_poll: float = 1.0
    longest_poll: float = 60.0
    settle: float = 10.0  # until a batch that was made shows in the list of batches


class NoBatches(Exception):
    """The endpoint has no Batch API."""


@dataclass
class BatchRequest:
    """A request that somebody waits for, with its line in a batch's file."""

    line: bytes
    last: Try
    answer: asyncio.Future[Reply] = field(default_factory=asyncio.Future)


@dataclass
class BatchRow:
    """A batch as it is written down, with the requests in it by their keys."""

    name: str
    tries: dict[str, Try]
    state: str = ""
    remote: str = ""
    at: float = field(default_factory=time.time)  # of the state


class Batcher:
    """Asks one model at one endpoint, all requests of a while together."""

    def __init__(
        self,
        client: Client,
        gateway: Shared,
        commit: Callable[[str, str, Try], Awaitable[tuple[Reply, Usage]]],
        pace: Pace,
    ) -> None:
        """`commit(key, raw, try)` keeps a success and reads it; it raises Garbled if it is none."""
        self._client, self._gateway, self._commit = client, gateway, commit
        self._cache, self._budget = gateway.cache, gateway.budget
        self._at = client.caller.address, client.caller.model
        self._pace = pace
        self._items: dict[str, BatchRequest] = {}  # all that is waited for
        self._gathered: dict[str, BatchRequest] = {}  # on the way into a batch
        self._size = 0  # of their lines
        self._sent: dict[str, Try] = {}  # all that is in a batch
        self._reserved: dict[str, Usage] = {}
        self._batches: dict[str, asyncio.Task[None]] = {}
        self._open: set[str] = set()  # batches that have not ended, as far as is known
        self._most = 1  # requests in a batch
        self._timer: asyncio.TimerHandle | None = None
        self._answers = 0
        self._taking_up = asyncio.Lock()
        self._taken_up = False
        self._none: NoBatches | None = None

    def allow(self, most: int) -> None:
        """Let batches be as large as that: of several endpoints the widest counts."""
        self._most = max(self._most, min(most, MOST_LINES))

    async def close(self) -> None:
        """Stop waiting. What was sent stays written down, for the next process."""
        if self._timer:
            self._timer.cancel()
        tasks = list(self._batches.values())
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    async def ask(self, key: str, body: JsonObject, first: Try) -> Reply:
        """The answer, perhaps in hours; `first` is what its first try can take.

        Raises NoBatches, RequestRefused, EndpointError, BudgetReached.
        """
        async with self._taking_up:  # what other processes began and did not end
            if self._none:
                raise self._none
            for row in () if self._taken_up else await self._rows():
                self._start(row)
            self._taken_up = True
        if key not in self._sent and (raw := await self._cache.read(key)) is not None:
            return decode(raw)  # such a batch had it
        request = {"custom_id": key, "method": "POST", "url": URL, "body": body}
        line, last = json.dumps(request).encode() + b"\n", self._sent.get(key, first)
        item, answers = BatchRequest(line, last), self._answers
        self._items[key] = item
        try:
            while True:
                if key not in self._sent:
                    await self._budget.reserve(item.last.most)
                    self._reserved[key] = item.last.most
                    self._join(key, item)
                try:
                    return await item.answer
                except Trouble as error:
                    number = item.last.number + (error.kind != 429)
                    if number > self._client.retry.tries:
                        others = self._answers > answers
                        raise self._client.given_up(error, item.last.number, others) from error
                item.last, item.answer = replace(item.last, number=number), asyncio.Future()
                self._gateway.stats.retries += 1
        finally:
            del self._items[key]

    def _join(self, key: str, item: BatchRequest) -> None:
        """Let a request join the next batch, which leaves once it is full or no other comes."""
        if self._size + len(item.line) > MOST_BYTES:
            self._leave()
        self._gathered[key] = item
        self._size += len(item.line)
        if self._timer:
            self._timer.cancel()
        if len(self._gathered) >= self._most:
            self._leave()
        else:
            self._timer = asyncio.get_running_loop().call_later(self._pace.gather, self._leave)

    def _leave(self) -> None:
        items, self._gathered, self._size = self._gathered, {}, 0
        if items:
            row = BatchRow(uuid4().hex, {key: item.last for key, item in items.items()})
            self._start(row, b"".join(item.line for item in items.values()))

    def _start(self, row: BatchRow, content: bytes = b"") -> None:
        """Send a batch's file, or go on with one that another process began."""
        if row.name in self._batches:
            return
        for key, one in row.tries.items():
            if row.state and one.run == self._gateway.run:
                self._budget.resume()  # it is in what the run has spent
                self._reserved[key] = one.most
        self._sent.update(row.tries)
        self._batches[row.name] = asyncio.create_task(self._see_to(row, content))

    async def _see_to(self, row: BatchRow, content: bytes) -> None:
        """A batch from the first to the last: file, batch, waiting, answers. What goes wrong is
        told to those who wait for it."""
        WORK.set(Work(run=WORK.get().run))  # a batch is nobody's alone
        # What another process did not come to send costs nothing.
        failed: Failed = dict.fromkeys(row.tries, (Trouble("not sent", 429), NOTHING))
        try:
            await (self._make(row, content) if content else self._find(row))
            if row.state == OPEN:
                failed = await self._results(row, await self._ended(row))
        except Absent as error:
            if row.state == OPEN:
                note(logging.WARNING, "batch", f"A batch is gone ({error}).", batch=row.remote)
                gone = Trouble("the batch is gone", "timeout")  # and perhaps paid for
                failed = {key: (gone, one.most) for key, one in row.tries.items()}
            else:
                none = NoBatches(f"{self._at[0]} has no Batch API ({error})")
                if not self._none:
                    note(logging.WARNING, "no_batches", f"{none}: requests are sent one by one.")
                self._none, failed = none, dict.fromkeys(row.tries, (none, NOTHING))
        except Exception as error:  # noqa: BLE001 - nobody else would hear of it
            if row.state == OPEN or not (content and isinstance(error, RequestRefused)):
                self._taken_up = False  # who asks again shall find the batch
                for key in row.tries:
                    self._settle(key, NOTHING, error)
                return
            refused = EndpointError(f"No batch can be made: {error}")  # it rejects no request
            failed = dict.fromkeys(row.tries, (refused, NOTHING))
        finally:
            del self._batches[row.name]
            self._open.discard(row.name)
        await self._forget(row, failed)
        for key, (wrong, used) in failed.items():
            self._settle(key, used, wrong)

    def _settle(self, key: str, used: Usage, came: Reply | Exception) -> None:
        """Book a try, and hand out what came of it to who waits for it by now."""
        self._sent.pop(key, None)
        if (most := self._reserved.pop(key, None)) is not None:
            self._budget.settle(most, used)
        if (item := self._items.get(key)) and not item.answer.done():
            if isinstance(came, Exception):
                item.answer.set_exception(came)
            else:
                item.answer.set_result(came)

    async def _make(self, row: BatchRow, content: bytes) -> None:
        """Upload a file and make a batch of it, once, also if the endpoint's answer is lost."""
        tried = False

        async def upload(sdk: openai.AsyncOpenAI) -> str:
            file = (f"toolloom-{row.name}.jsonl", content, "application/jsonl")
            return (await sdk.files.create(file=file, purpose="batch")).id

        async def create(sdk: openai.AsyncOpenAI) -> str:
            nonlocal tried
            if tried and (known := await _listed(sdk, row.name)):
                return known
            tried = True
            made = await sdk.batches.create(
                input_file_id=row.remote,
                endpoint=URL,
                completion_window="24h",
                metadata={LABEL: row.name},
            )
            return made.id

        row.remote = await self._client.call(upload, TRANSFER_SECONDS)
        row.state, row.at = UPLOADED, time.time()
        await self._write(row)
        row.remote, row.state = await self._client.call(create), OPEN

    async def _find(self, row: BatchRow) -> None:
        """Look for the batch of a file that another process uploaded, which may just be made."""
        while row.state == UPLOADED:
            if remote := await self._client.call(partial(_listed, name=row.name)):
                row.state, row.remote = OPEN, remote
            elif time.time() > row.at + self._pace.settle:
                return
            else:
                await asyncio.sleep(self._pace.first_poll)
        if row.state == OPEN:
            note(logging.INFO, "batch", f"Going on with batch {row.remote}", batch=row.remote)

    async def _ended(self, row: BatchRow) -> Batch:
        """Look at a batch until it has ended."""
        await self._write(row)
        self._open.add(row.name)
        state, wait = "", self._pace.first_poll
        while True:
            batch = await self._client.call(lambda sdk: sdk.batches.retrieve(row.remote))
            if batch.status.lower() != state:
                state, counts = batch.status.lower(), batch.request_counts
                done = counts.completed if counts else 0
                words = f"Batch {batch.id}: {state}, {done} of {len(row.tries)} answered"
                note(logging.INFO, "batch", words, batch=batch.id, state=state, completed=done)
            if state in ENDED:
                self._open.discard(row.name)
                return batch
            await asyncio.sleep(wait)
            wait = min(wait * SLOWER, self._pace.longest_poll)

    async def _results(self, row: BatchRow, batch: Batch) -> Failed:
        """Commit all successes of a batch that has ended; what failed."""
        if batch.status.lower() == "failed":  # it was not begun at all
            return dict.fromkeys(row.tries, (await self._not_begun(batch), NOTHING))
        missing = Trouble(f"batch {batch.id} is {batch.status} without its answer", "timeout")
        failed: Failed = {key: (missing, one.most) for key, one in row.tries.items()}
        caller = self._client.caller
        for file in filter(None, (batch.output_file_id, batch.error_file_id)):
            with NamedTemporaryFile() as content:
                download = partial(_download, file=file, into=content.name)
                await self._client.call(download, TRANSFER_SECONDS)
                for key, status, text in outcomes(content):
                    if key not in failed:
                        continue
                    if status is None:
                        failed[key] = Trouble(caller.scrub(text), "timeout"), ONE_REQUEST
                    elif not 200 <= status < 300:
                        item = self._items.get(key)
                        formatted = item is not None and b'"response_format"' in item.line
                        failed[key] = fault(status, {}, text, caller, formatted), ONE_REQUEST
                    else:
                        try:
                            kept = await self._commit(key, caller.clean(text), row.tries[key])
                        except Garbled as error:
                            failed[key] = error, row.tries[key].most
                            continue
                        del failed[key]
                        self._answers += 1
                        self._settle(key, kept[1], kept[0])
        return failed

    async def _not_begun(self, batch: Batch) -> Exception:
        """Why a batch was not begun. While others of ours fill the endpoint, it waits for room."""
        errors = (batch.errors.data if batch.errors else None) or []
        words = "; ".join(str(error.message or error.code) for error in errors)
        words = self._client.caller.scrub(words or "no reason given")
        full = any(error.code == FULL for error in errors)
        if full and self._open:
            note(logging.INFO, "batch", f"Waiting for room: {words}", batch=batch.id)
            await asyncio.sleep(self._pace.longest_poll)
            return Trouble(words, 429)
        advice = "a smaller `concurrency`" if full else "`mode: direct`"
        return EndpointError(
            f"{self._at[0]} does not take the batch {batch.id}: {words}. What was answered is "
            f"kept: run the same command again to go on, or set {advice}."
        )

    async def _rows(self) -> list[BatchRow]:
        """All batches that were not settled, with what was not answered."""
        asked = (
            "SELECT id, state, remote, at, key, tries, run, sent, received, cost FROM batches"
            " LEFT JOIN batch_requests AS b ON batch = id AND NOT EXISTS"
            " (SELECT 1 FROM responses WHERE responses.key = b.key)"
            " WHERE endpoint = ? AND model = ?"
        )

        def read(connection: Any) -> list[BatchRow]:
            rows: dict[str, BatchRow] = {}
            for name, state, remote, at, key, *tried in connection.execute(asked, self._at):
                row = rows.setdefault(name, BatchRow(name, {}, state, remote, at))
                if key:
                    number, run, sent, received, cost = tried
                    numbers = {"prompt_tokens": sent, "completion_tokens": received, "cost": cost}
                    row.tries[key] = Try(number, run, Usage(requests=1, **numbers))
            return list(rows.values())

        return await self._cache.within(read)

    async def _write(self, row: BatchRow) -> None:
        """Write a batch down, or how far it has come."""
        values = (row.name, *self._at, row.remote, row.state, row.at)
        requests = []
        for key, one in row.tries.items():
            most = one.most.prompt_tokens, one.most.completion_tokens, one.most.cost
            requests.append((key, row.name, one.run, one.number, *most))

        def write(connection: Any) -> None:
            connection.execute("INSERT OR REPLACE INTO batches VALUES (?, ?, ?, ?, ?, ?)", values)
            connection.executemany(
                "INSERT OR REPLACE INTO batch_requests VALUES (?, ?, ?, ?, ?, ?, ?)", requests
            )

        await self._cache.within(write)

    async def _forget(self, row: BatchRow, failed: Failed) -> None:
        """A batch is settled, or never came to be. What its failed tries used is booked with it
        gone, so never twice."""

        def delete(connection: Any) -> None:
            connection.execute("DELETE FROM batch_requests WHERE batch = ?", (row.name,))
            gone = connection.execute("DELETE FROM batches WHERE id = ?", (row.name,)).rowcount
            for key, (_, used) in failed.items() if gone else ():
                lose(connection, row.tries[key].run, used)

        await self._cache.within(delete)


async def _listed(sdk: openai.AsyncOpenAI, name: str) -> str | None:
    """The batch with our name for it."""
    async for batch in sdk.batches.list(limit=100):
        if (batch.metadata or {}).get(LABEL) == name:
            return batch.id
    return None


async def _download(sdk: openai.AsyncOpenAI, file: str, into: str) -> None:
    async with sdk.files.with_streaming_response.content(file) as response:
        await response.stream_to_file(into)


def outcomes(lines: Iterable[bytes]) -> Iterator[tuple[str, int | None, str]]:
    """What a result file tells of requests: key, status, and a success's body or an error's.

    Without a status there was no response at all, and the text says why. Lines that cannot be read
    tell nothing.
    """
    for content in lines:
        try:
            line = json.loads(content)
            key, response, error = str(line["custom_id"]), line.get("response"), line.get("error")
        except (ValueError, LookupError, TypeError, AttributeError, RecursionError):
            continue
        status = response.get("status_code") if isinstance(response, dict) else None
        if not isinstance(status, int):
            error = error if isinstance(error, dict) else {"message": error}
            words = [str(error[name]) for name in ("code", "message") if error.get(name)]
            yield key, None, ": ".join(words) or "no response"
            continue
        # Some servers write an error's `message` beside the status, without a body.
        body = response.get("body", response)
        if 200 <= status < 300 and isinstance(body, dict):
            body = {**body, IN_BATCH: True}  # it has another price
        # With \u escapes, as lone surrogates in an answer fit into no database.
        yield key, status, body if isinstance(body, str) else json.dumps(body)
