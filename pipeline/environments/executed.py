"""Real execution for a run: for each sample a session, with fresh servers and processes.

Nothing runs that the recipe does not name. An observation is in the response cache before anyone
sees it, under a key of everything that decides it, the sample's earlier calls included. A session
answers from the cache as long as it can and starts nothing; at the first call that is not there it
runs the earlier ones again, so that the state is right. Hence a run that was killed ends with the
same bytes as one that was not.
"""

from __future__ import annotations

import asyncio
import json
import re
from collections import deque
from collections.abc import Iterable, Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass, field
from itertools import takewhile
from pathlib import Path
from typing import TYPE_CHECKING

from pydantic import TypeAdapter

from toolloom.llm.cache import Cache, Entry
from toolloom.llm.messages import WORK
from toolloom.pipeline.environments.commands import ExecutionSource, function_files
from toolloom.pipeline.environments.environment import Environment, Executed, Executor, failed, play
from toolloom.pipeline.formats.import_log import legal
from toolloom.schemas import (
    Api,
    ApiSource,
    Dialogue,
    Execution,
    Failure,
    Finding,
    JsonObject,
    Message,
    Observation,
    Reason,
    Source,
    ToolloomError,
    canonical,
    digest,
)

if TYPE_CHECKING:
    from toolloom.pipeline.environments.mcp import McpSession


def operation(api: Api) -> str:
    """What an API is called by whatever executes it."""
    return api.source.operation or api.name


def executable_names(api: Api) -> set[str]:
    """The names in `execute` that let an API run: those of what runs, its operation.

    A record may be anyone's, and pair any operation with any name: its own name and its function
    name count only as far as they are the operation's.
    """
    runs = operation(api)
    found = {runs, legal(runs)}
    if api.name.endswith(f".{runs}") or re.fullmatch(rf"{re.escape(runs)} \(\d+\)", api.name):
        found.add(api.name)
    renamed = re.fullmatch(r"(.+)_\d+", api.function)
    if renamed and renamed[1] in (legal(runs), legal(runs)[:60], legal(runs)[:62]):
        found.add(api.function)
    return found


def find_place(api: Api, sources: Iterable[ApiSource]) -> ExecutionSource | None:
    """The first source that executes an API, if one does. Raises ToolloomError."""
    return next((place for source in sources if (place := place_of(api, source))), None)


def place_of(api: Api, source: ApiSource) -> ExecutionSource | None:
    """Where a source executes an API; None if it does not, or may not.

    Raises ToolloomError if it may, and there is no telling where.
    """
    if not executable_names(api) & set(source.execute):
        return None
    kind, wanted = api.source.kind, api.source.reference
    if source.mcp:
        place = ExecutionSource(source)
        return place if kind == "mcp" and wanted == place.reference else None
    if kind != "python" or not (Path(source.path).exists() or source.path == wanted):
        return None  # a pool's name, or a module's
    # The record may be anyone's: it chooses among the source's files, and is no path itself.
    files = [file for file in function_files(source) if file.reference == wanted]
    if len(files) > 1:
        raise ToolloomError(
            f"{source.path} holds {len(files)} files {wanted}, and it cannot be told which is to "
            "be executed. Name the folder by its path from the current folder."
        )
    return ExecutionSource(source, files[0]) if files else None


def check_executed(sources: Iterable[ApiSource], apis: Sequence[Api]) -> None:
    """Raises ToolloomError for a source whose `execute` lets nothing run: all would be played."""
    for source in sources:
        if source.execute and not any(place_of(api, source) for api in apis):
            shown = source.path or ExecutionSource(source).name
            raise ToolloomError(
                f"apis.sources: {shown}: `execute` names {', '.join(source.execute)}, of which "
                "nothing can be executed. Only Python functions, named by their file, folder or "
                "module, and tools of MCP servers can: take `execute` out, or move it to such a "
                "source."
            )


LOST = failed(
    Failure.CRASH,
    "The process has ended, and the calls before this one ended it again or took too long.",
)
ENDING = (Failure.TIME_LIMIT, Failure.CRASH)  # with it the process is gone
EXECUTED = TypeAdapter(Executed)  # as the cache holds it
AT_ONCE = 4  # sessions with a process
REPLAYS = 2  # tries to bring about a state again


class Executions:
    """Everything a run may execute. One for a run."""

    def __init__(self, sources: Sequence[ApiSource], cache: Cache | None, seed: int) -> None:
        self.sources = tuple(s for s in sources if s.execute)
        self.cache = cache
        self.seed = seed
        self._places: dict[tuple[Source, str, str], ExecutionSource | None] = {}
        self.slots = asyncio.Semaphore(AT_ONCE)  # of sessions with a process, however many it has

    def place(self, api: Api) -> ExecutionSource | None:
        """Where an API is executed, if it is. Raises ToolloomError if it cannot run."""
        known = (api.source, api.name, api.function)
        if known not in self._places:
            self._places[known] = find_place(api, self.sources)
        return self._places[known]


@dataclass
class Session(Executor):
    """The calls of one sample, in order, from a state that is fresh when it begins. `attempt`
    tells apart several goes at the same one."""

    executions: Executions
    sample: str
    attempt: str = "play"
    _calls: list[tuple[ExecutionSource, str, JsonObject, Executed]] = field(default_factory=list)
    _servers: dict[str, tuple[McpSession, frozenset[str], AsyncExitStack]] = field(
        default_factory=dict
    )
    _slots: AsyncExitStack = field(default_factory=AsyncExitStack)
    _holds: bool = False
    _turn: asyncio.Lock = field(default_factory=asyncio.Lock)

    async def __aenter__(self) -> Session:
        return self

    async def __aexit__(self, *raised: object) -> None:
        async with self._slots:
            for name in list(self._servers):
                await self._close(name)

    def runs(self, api: Api) -> bool:
        return self.executions.place(api) is not None

    async def run(self, api: Api, arguments: JsonObject) -> Executed:
        """The observation of a call. Raises ToolloomError if its source cannot be used at all."""
        place, name = self.executions.place(api), operation(api)
        if place is None:
            raise ToolloomError(f"{api.id} may not be executed: no source's `execute` names it.")
        async with self._turn:
            cache = self.executions.cache
            decides = {
                "what": "execution",
                "attempt": self.attempt,
                "sample": self.sample,
                "seed": self.executions.seed,
                "earlier": [
                    [at.fingerprint, called, given] for at, called, given, _ in self._calls
                ],
                "call": [place.fingerprint, name, arguments],
            }
            key = digest(decides, 64)
            body = await cache.read(key) if cache else None
            if body is None:
                server = await self._server(place, name)
                result = await server.call(name, arguments) if server else LOST
                if result.failure in ENDING:
                    await self._close(place.fingerprint)
                seen = digest(result.observation.model_dump(mode="json"), 64)
                how = Execution(kind="executed", by=place.by, failure=result.failure, digest=seen)
                done = Executed(result.observation, how)
                body = canonical(EXECUTED.dump_python(done, mode="json"))
                if cache:  # it cost no request
                    work = {name: getattr(WORK.get(), name) for name in ("run", "stage", "agent")}
                    body = await cache.write(Entry(key, body, "execution", **work, requests=0))
            executed = EXECUTED.validate_python(json.loads(body))
            self._calls.append((place, name, arguments, executed))
            return executed

    async def _server(self, place: ExecutionSource, name: str) -> McpSession | None:
        """A running server in the state that the sample's calls have brought about.

        None where that state cannot be brought about again: one dialogue must not end a run.
        """
        if running := self._servers.get(place.fingerprint):
            server, allowed, _ = running
            if name in allowed:
                return server
        await self._close(place.fingerprint)
        earlier = [
            (called, given)
            for at, called, given, done in self._calls
            if at == place and done.execution.failure not in ENDING
        ]
        from toolloom.pipeline.environments.mcp import connect  # half a second to load

        allowed = frozenset({name, *place.source.execute, *(called for called, _ in earlier)})
        for _ in range(REPLAYS):
            if not self._holds:
                await self._slots.enter_async_context(self.executions.slots)
                self._holds = True
            stack = AsyncExitStack()
            server = await stack.enter_async_context(connect(place, allowed))
            self._servers[place.fingerprint] = server, allowed, stack
            for called, given in earlier:
                if (await server.call(called, given)).failure in ENDING:
                    break
            else:
                return server
            await self._close(place.fingerprint)
        return None

    async def _close(self, fingerprint: str) -> None:
        if running := self._servers.pop(fingerprint, None):
            await running[2].aclose()


SHOWN = 160  # characters of a result in a finding


async def replay(dialogue: Dialogue, executions: Executions) -> tuple[Finding, ...]:
    """A finding for each executed call whose result differs this time, and should not.

    A call that the clock or chance decides is made again too, as later ones may depend on it.
    """
    again = list(takewhile(lambda message: message.role == "system", dialogue.messages))
    apis = {api.function: api for api in dialogue.query.pool}
    async with Session(executions, dialogue.id, "replay") as session:
        before = Recording(dialogue.messages, session)
        await play(again, before, before, Environment(dialogue.query.pool, [before], before.search))
    found = []
    for turn, (first, then) in enumerate(zip(dialogue.messages, again, strict=True)):
        if not first.execution or not then.execution or first.execution.kind != "executed":
            continue
        same = first.execution.digest == then.execution.digest
        if not same and apis[first.name or ""].repeatable:
            told = [_shown(message.observation()) for message in (first, then)]
            detail = f"{first.name} returned {told[0]}, then {told[1]} from the same state."
            check, reason = "repeated_execution", Reason.NOT_REPEATABLE
            found.append(Finding(check=check, reason=reason, turn=turn, detail=detail))
    return tuple(found)


class Recording(Executor):
    """Both players of a dialogue that was played before. What was executed then is executed again;
    of all else it gives what is recorded."""

    def __init__(self, messages: Sequence[Message], session: Session) -> None:
        self._session = session
        self._spoken = deque(m for m in messages if m.role in ("user", "assistant"))
        self._results = deque(m for m in messages if m.role == "tool")

    async def speak(self, messages: Sequence[Message]) -> str | None:
        return (self._spoken.popleft().content or "") if self._spoken else None

    async def act(self, messages: Sequence[Message], tools: Sequence[Api]) -> Message:
        return self._spoken.popleft()

    async def search(self, pool: Sequence[Api], keywords: str) -> list[JsonObject]:
        found: list[JsonObject] = self._results.popleft().observation().response
        return found

    def runs(self, api: Api) -> bool:
        return True

    async def run(self, api: Api, arguments: JsonObject) -> Executed:
        before = self._results.popleft()
        assert before.execution
        if before.execution.kind == "executed" and self._session.runs(api):
            return await self._session.run(api, arguments)
        return Executed(before.observation(), before.execution)


def _shown(seen: Observation) -> str:
    text = f"the error «{seen.error}»" if seen.error is not None else canonical(seen.response)
    return text if len(text) <= SHOWN else f"{text[: SHOWN - 1]}…"
