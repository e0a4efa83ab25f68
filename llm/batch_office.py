"""The Batch API of an endpoint, as far as it is used: files in, batches made and followed."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Iterable
from dataclasses import dataclass, replace
from tempfile import TemporaryFile
from typing import IO, TYPE_CHECKING, TypeVar

from toolloom.llm.batch_book import GATHERED, OPEN, UPLOADED, BatchRow, BatchTable, now
from toolloom.llm.batch_lines import URL
from toolloom.llm.client import Client
from toolloom.llm.faults import Caller
from toolloom.llm.log import note
from toolloom.schemas import EndpointError, RequestRefused

if TYPE_CHECKING:
    import openai
    from openai.types import Batch

T = TypeVar("T")

ABSENT = frozenset({404, 405, 410, 501})
TOO_LARGE = 413
FULL = "token_limit_exceeded"
ENDED = frozenset({"completed", "failed", "expired", "cancelled"})
LABEL = "toolloom"  # of the metadata that holds a batch's own name
PAGE = 100
CREATIONS = (
    3  # tries before the last: a file that was just uploaded may not be known everywhere yet
)
LATE_POLLS = 5  # of a batch that is done and does not name its results yet
SLOWER = 1.5
TRANSFER_SECONDS = 3600.0  # for a file of 200 MB


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
    """Sees batches through, each step written down before the next. Made of calls that are tried
    again by the endpoint's policy; it raises what Client.call raises."""

    def __init__(self, lines: Client, book: BatchTable, pace: Pace) -> None:
        self._lines = lines
        self._book = book
        self._pace = pace

    @property
    def caller(self) -> Caller:
        return self._lines.caller

    async def send(self, row: BatchRow, lines: Iterable[bytes]) -> Batch:
        """Make a batch of lines and wait for its end.

        Raises NoBatches; TooLarge; Absent, if it vanishes.
        """
        await self._book.write(row)
        try:
            with TemporaryFile() as file:
                file.writelines(lines)
                uploaded = await self._upload(f"toolloom-{row.name}.jsonl", file)
            row = replace(row, state=UPLOADED, remote=uploaded, at=now())
            await self._book.write(row)
            batch = await self._create(row)
        except Absent as error:
            await self._book.forget(row.name)
            raise NoBatches(f"{self.caller.address} has no Batch API ({error})") from error
        except RequestRefused as error:  # of all its requests: that rejects none of them
            await self._book.forget(row.name)
            raise EndpointError(f"No batch can be made: {error}") from error
        return await self._follow(row, batch.id)

    async def go_on(self, row: BatchRow) -> Batch | None:
        """The end of what another process began; None if that came to nothing. Raises Absent."""
        remote: str | None = row.remote
        if row.state == UPLOADED:
            remote = await self._find(row)
        if row.state == GATHERED or remote is None:
            return None
        note(logging.INFO, "batch", f"Going on with batch {remote}", batch=remote)
        return await self._follow(row, remote)

    async def _find(self, row: BatchRow) -> str | None:
        """The batch of a file, if it was made before the process died."""
        while True:
            try:
                found = await self._call(lambda client: _find(client, row.name, row.remote))
            except Absent:  # it does not list batches
                return None
            if found is not None:
                return found.id
            if now() > row.at + self._pace.settle:
                return None
            await asyncio.sleep(self._pace.first_poll)

    async def _follow(self, row: BatchRow, remote: str) -> Batch:
        await self._book.write(replace(row, state=OPEN, remote=remote))
        return await self._wait(remote, len(row.tries))

    async def _upload(self, name: str, file: IO[bytes]) -> str:
        """The id that the endpoint gives to a file of requests."""

        async def act(client: openai.AsyncOpenAI) -> str:
            file.seek(0)
            content = (name, file, "application/jsonl")
            return (await client.files.create(file=content, purpose="batch")).id

        return await self._call(act, TRANSFER_SECONDS)

    async def _create(self, row: BatchRow) -> Batch:
        """Make a batch of a file, once, also if the endpoint's answer is lost.

        When it was asked for is written down, as it may come to be a little later.
        """
        tried = False

        async def act(client: openai.AsyncOpenAI) -> Batch:
            nonlocal tried
            if tried:
                if (found := await _find(client, row.name, row.remote)) is not None:
                    return found
                await self._book.write(replace(row, at=now()))
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

    async def _wait(self, batch: str, total: int) -> Batch:
        """Look at a batch until it has ended."""
        state, wait, late = "", self._pace.first_poll, 0
        while True:
            found = await self._call(lambda client: client.batches.retrieve(batch))
            if found.status.lower() != state:
                state = found.status.lower()
                _tell(found, state, total)
            if state in ENDED and (late >= LATE_POLLS or not _without_results(found)):
                return found
            late += state in ENDED
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


def reasons(batch: Batch) -> tuple[str, bool]:
    """Why a batch failed, and whether it is only too much beside what is under way."""
    errors = (batch.errors.data if batch.errors else None) or []
    words = "; ".join(str(error.message or error.code) for error in errors)
    return words or "no reason given", any(error.code == FULL for error in errors)


async def _find(client: openai.AsyncOpenAI, name: str, file: str) -> Batch | None:
    async for batch in client.batches.list(limit=PAGE):
        # Not every server keeps metadata.
        if (batch.metadata or {}).get(LABEL) == name or batch.input_file_id == file:
            return batch
    return None


def _without_results(batch: Batch) -> bool:
    """Whether results are announced and not there."""
    counts = batch.request_counts
    answered = counts is not None and bool(counts.completed)
    return answered and not batch.output_file_id


def _tell(batch: Batch, state: str, total: int) -> None:
    counts = batch.request_counts
    completed, failed = (counts.completed, counts.failed) if counts else (0, 0)
    note(
        logging.INFO,
        "batch",
        f"Batch {batch.id}: {state}, {completed} of {total} answered, {failed} failed",
        batch=batch.id,
        state=state,
        total=total,
        completed=completed,
        failed=failed,
    )
