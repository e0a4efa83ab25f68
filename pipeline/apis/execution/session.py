"""Real execution for a run: for each sample a session, with fresh servers and processes.

An observation is in the response cache before anyone sees it, under a key of everything that
decides it, the sample's earlier calls included. A session answers from the cache as long as it
can and starts nothing; at the first call that is not there it runs the earlier ones again, so
that the state is right. Hence a run that was killed ends with the same bytes as one that was not.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
from collections.abc import Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass, field
from types import TracebackType
from typing import Any
from weakref import WeakKeyDictionary

from toolloom.llm.cache import Cache, Entry
from toolloom.llm.log import WORK
from toolloom.pipeline.apis.execution.executor import Executed
from toolloom.pipeline.apis.execution.naming import operation
from toolloom.pipeline.apis.execution.results import Result, failed
from toolloom.pipeline.apis.execution.sources import ExecutionSource, find_place
from toolloom.schemas import (
    Api,
    ApiSource,
    Execution,
    Failure,
    JsonObject,
    Observation,
    Source,
    ToolloomError,
    canonical,
)

LOST = failed(
    Failure.CRASH,
    "The process has ended, and the calls before this one ended it again or took too long.",
)
AT_ONCE = 4  # sessions with a process
REPLAYS = 2  # tries to bring about a state again


class Executions:
    """Everything a run may execute. One for a run."""

    def __init__(self, sources: Sequence[ApiSource], cache: Cache | None, seed: int) -> None:
        self.sources = tuple(s for s in sources if s.execute)
        self.cache = cache
        self.seed = seed
        self._places: dict[tuple[Source, str, str], ExecutionSource | None] = {}
        self._slots: WeakKeyDictionary[asyncio.AbstractEventLoop, asyncio.Semaphore] = (
            WeakKeyDictionary()
        )

    def executes(self, api: Api) -> bool:
        """Whether the recipe names it for execution. Raises ToolloomError if it cannot run."""
        return self.place(api) is not None

    def place(self, api: Api) -> ExecutionSource | None:
        """Where an API is executed."""
        known = (api.source, api.name, api.function)
        if known not in self._places:
            self._places[known] = find_place(api, self.sources)
        return self._places[known]

    def session(self, sample: str, attempt: str = "play") -> Session:
        """For the calls of one sample; `attempt` tells apart several goes at the same one."""
        return Session(self, sample, attempt)

    def slot(self) -> asyncio.Semaphore:
        """Taken by a session that has a process, however many it has."""
        loop = asyncio.get_running_loop()
        return self._slots.setdefault(loop, asyncio.Semaphore(AT_ONCE))


@dataclass(frozen=True)
class ExecutedCall:
    """A call of a sample that was made, and what came of it."""

    place: ExecutionSource
    operation: str
    arguments: JsonObject
    executed: Executed

    def told(self) -> list[Any]:
        """What later calls depend on."""
        return [self.place.fingerprint, self.operation, self.arguments]


@dataclass
class RunningServer:
    """A running server or worker."""

    connection: Any
    stack: AsyncExitStack
    allowed: frozenset[str]


@dataclass
class Session:
    """The calls of one sample, in order, from a state that is fresh when it begins."""

    workshop: Executions
    sample: str
    attempt: str
    _calls: list[ExecutedCall] = field(default_factory=list)
    _engines: dict[str, RunningServer] = field(default_factory=dict)
    _slots: AsyncExitStack = field(default_factory=AsyncExitStack)
    _holds: bool = False
    _turn: asyncio.Lock = field(default_factory=asyncio.Lock)

    async def __aenter__(self) -> Session:
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        async with self._slots:
            for name in list(self._engines):
                await self._close(name)

    def runs(self, api: Api) -> bool:
        return self.workshop.executes(api)

    async def run(self, api: Api, arguments: JsonObject) -> Executed:
        """The observation of a call. Raises ToolloomError if its source cannot be used at all."""
        place = self.workshop.place(api)
        if place is None:
            raise ToolloomError(f"{api.id} may not be executed: no source's `execute` names it.")
        async with self._turn:
            executed = await self._answer(place, operation(api), arguments)
            self._calls.append(ExecutedCall(place, operation(api), arguments, executed))
            return executed

    async def _answer(self, place: ExecutionSource, name: str, arguments: JsonObject) -> Executed:
        cache = self.workshop.cache
        key = self._key(place, name, arguments)
        body = await cache.read(key) if cache else None
        if body is None:
            engine = await self._engine(place, name)
            result = await engine.connection.call(name, arguments) if engine else LOST
            if engine and result.ended:
                await self._close(place.fingerprint)
            body = _written(result, place)
            if cache:
                body = await cache.write(_entry(key, body))
        return _read(body)

    def _key(self, place: ExecutionSource, name: str, arguments: JsonObject) -> str:
        """SHA-256 of everything that decides an observation."""
        decides = {
            "what": "execution",
            "attempt": self.attempt,
            "sample": self.sample,
            "seed": self.workshop.seed,
            "earlier": [call.told() for call in self._calls],
            "call": [place.fingerprint, name, arguments],
        }
        return _hash(decides)

    async def _engine(self, place: ExecutionSource, name: str) -> RunningServer | None:
        """A running engine in the state that the sample's calls have brought about.

        None where that state cannot be brought about again: one dialogue must not end a run.
        """
        running = self._engines.get(place.fingerprint)
        if running and name in running.allowed:
            return running
        await self._close(place.fingerprint)
        earlier = [c for c in self._calls if c.place == place and not _ended(c.executed)]
        allowed = {name, *place.source.execute, *(c.operation for c in earlier)}
        for _ in range(REPLAYS):
            engine = await self._open(place, frozenset(allowed))
            if await _run_again(engine, earlier):
                return engine
            await self._close(place.fingerprint)
        return None

    async def _open(self, place: ExecutionSource, allowed: frozenset[str]) -> RunningServer:
        if not self._holds:
            await self._slots.enter_async_context(self.workshop.slot())
            self._holds = True
        stack = AsyncExitStack()
        connection = await stack.enter_async_context(place.opened(allowed).session())
        engine = RunningServer(connection, stack, allowed)
        self._engines[place.fingerprint] = engine
        return engine

    async def _close(self, fingerprint: str) -> None:
        if engine := self._engines.pop(fingerprint, None):
            await engine.stack.aclose()


async def _run_again(engine: RunningServer, calls: Sequence[ExecutedCall]) -> bool:
    """Make earlier calls again for what they change. Whether the process is still there."""
    for call in calls:
        result = await engine.connection.call(call.operation, call.arguments)
        if result.ended:
            return False
    return True


def _ended(executed: Executed) -> bool:
    return Result(executed.observation, executed.execution.failure).ended


def _written(result: Result, place: ExecutionSource) -> str:
    whole = _hash(result.observation.model_dump(mode="json"))
    execution = Execution(kind="executed", by=place.by, failure=result.failure, digest=whole)
    return canonical(
        {
            "observation": result.observation.model_dump(mode="json"),
            "execution": execution.model_dump(mode="json"),
        }
    )


def _read(body: str) -> Executed:
    held = json.loads(body)
    return Executed(
        Observation.model_validate(held["observation"]),
        Execution.model_validate(held["execution"]),
    )


def _entry(key: str, body: str) -> Entry:
    """An observation as the cache keeps it: it cost no request."""
    work = WORK.get()
    return Entry(
        key, body, "execution", run=work.run, stage=work.stage, agent=work.agent, requests=0
    )


def _hash(value: Any) -> str:
    """SHA-256 of a JSON value, whatever characters a model put into it."""
    return hashlib.sha256(canonical(value).encode("utf-8", "surrogatepass")).hexdigest()
