"""What a batch's result files tell: successes are committed and handed out, failures told."""

from __future__ import annotations

import asyncio
import contextvars
from collections.abc import Awaitable, Callable, Mapping
from tempfile import TemporaryFile
from typing import TYPE_CHECKING, TypeAlias

from toolloom.llm.batch_book import BatchRow, Try, chunks
from toolloom.llm.batch_lines import BatchOutcome, BatchRequest, Gone, outcomes
from toolloom.llm.batch_office import BatchApi
from toolloom.llm.batch_purse import BatchPurse
from toolloom.llm.cache import Cache
from toolloom.llm.faults import Garbled
from toolloom.llm.wire import Reply, decode
from toolloom.schemas import Usage

if TYPE_CHECKING:
    from openai.types import Batch

Commit: TypeAlias = Callable[[str, str, Try], Awaitable[tuple[Reply, Usage]]]

AT_ONCE = 256  # results committed in one transaction


class Results:
    """Reads the results of batches."""

    def __init__(
        self,
        cache: Cache,
        office: BatchApi,
        commit: Commit,
        purse: BatchPurse,
        items: Mapping[str, BatchRequest],
        hand_out: Callable[[str, Reply], None],
    ) -> None:
        """`items`: all that is waited for; `hand_out` is called for each answer."""
        self._cache = cache
        self._office = office
        self._commit = commit
        self._purse = purse
        self._items = items
        self._hand_out = hand_out

    async def take(self, row: BatchRow, batch: Batch) -> dict[str, Exception]:
        """Commit all successes of a batch that has ended; what failed, and why."""
        failed: dict[str, Exception] = {}
        taken: set[str] = set()
        for file in filter(None, (batch.output_file_id, batch.error_file_id)):
            with TemporaryFile() as content:
                await self._office.download(file, content)
                for some in chunks(outcomes(content), AT_ONCE):
                    mine = {o.key: o for o in some if o.key in row.tries and o.key not in taken}
                    taken.update(mine)
                    failed.update(await self._keep_all(mine, row.tries))
        missing = Gone(f"batch {batch.id} is {batch.status} without its answer", "timeout")
        return {**failed, **{key: missing for key in row.tries if key not in taken}}

    async def without(self, row: BatchRow) -> dict[str, Exception]:
        """Of a batch that has vanished, all that was not committed before."""
        known = await self._cache.read_all(list(row.tries))
        for key, body in known.items():
            self._purse.settle(key)
            self._hand_out(key, decode(body, cached=True))
        gone = Gone("the batch is gone", "timeout")
        return {key: gone for key in row.tries if key not in known}

    async def _keep_all(
        self, found: Mapping[str, BatchOutcome], tries: Mapping[str, Try]
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

    async def _keep(self, outcome: BatchOutcome, known: str | None, made: Try) -> None:
        """Commit a success, unless that was done before, and hand it out. Raises Garbled."""
        raw = self._office.caller.clean(outcome.body)
        if known == raw:
            reply = decode(known, cached=True)
            self._purse.settle(outcome.key)
        else:
            reply, used = await self._commit(outcome.key, raw, made)
            self._purse.settle(outcome.key, used)
        self._hand_out(outcome.key, reply)
