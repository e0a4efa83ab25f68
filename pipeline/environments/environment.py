"""What a dialogue plays in: the tools on offer, what their calls return, and what they change.

Long observations are made short without a model (after ToolLLM, appendix A.2); tokens are
estimated: UTF-8 bytes of the compact JSON, divided by 4 and rounded up.
"""

from __future__ import annotations

import json
import math
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Protocol, Self, TypeAlias

from toolloom.pipeline.checks.schema import as_dict, fits
from toolloom.pipeline.checks.world.interpreter import Machine, State, difference, state_of
from toolloom.pipeline.checks.world.outcome import observed
from toolloom.schemas import (
    API_SEARCH,
    Api,
    Execution,
    Failure,
    JsonObject,
    Need,
    Observation,
    Setting,
    digest,
)


@dataclass(frozen=True)
class Executed:
    """What came of a call, and how."""

    observation: Observation
    execution: Execution


@dataclass(frozen=True)
class Result:
    """What came of a call."""

    observation: Observation
    failure: Failure | None = None

    @property
    def ended(self) -> bool:
        """Whether it took the process with it, so that the next call needs a new one."""
        return self.failure in (Failure.TIME_LIMIT, Failure.CRASH)


def failed(why: Failure, words: str) -> Result:
    """A failure, in the words of whoever noticed it."""
    return Result(Observation(error=words.strip() or "It failed."), why)


Search: TypeAlias = Callable[[Sequence[Api], str], Awaitable[list[JsonObject]]]
"""Documentation of the APIs that fit keywords best, best first."""


class Executor(Protocol):
    """Runs the calls of one dialogue, from a state that is fresh when the dialogue begins."""

    def runs(self, api: Api) -> bool:
        """Whether this API is one it executes."""

    async def run(self, api: Api, arguments: JsonObject) -> Executed:
        """The observation of a call. A failure of the call is an observation with an error."""

    def fork(self) -> Self:
        """Another one, in the state that the calls so far have brought about, if there is one."""
        return self

    def changes(self) -> list[tuple[Any, ...]]:
        """What the calls so far have changed, where that can be told."""
        return []


@dataclass(frozen=True)
class Simulated(Executor):
    """Whatever nothing else executes, played by a function that is handed in."""

    simulate: Callable[[Api, JsonObject], Awaitable[Executed]]

    def runs(self, api: Api) -> bool:
        return True

    async def run(self, api: Api, arguments: JsonObject) -> Executed:
        return await self.simulate(api, arguments)


@dataclass
class Failing(Executor):
    """A fault that is planned: the API of this function fails, once if it passes."""

    function: str
    error: str
    passes: bool
    failed: bool = False

    def runs(self, api: Api) -> bool:
        return api.function == self.function and not (self.passes and self.failed)

    async def run(self, api: Api, arguments: JsonObject) -> Executed:
        self.failed = True
        return Executed(Observation(error=self.error), Execution(kind="planned"))

    def fork(self) -> Self:
        return replace(self)


def moment_of(need: Need) -> str:
    """The present of a dialogue, as an interpreter takes it."""
    return f"{need.now:%Y-%m-%dT%H:%M}"


@dataclass
class WorldSession(Executor):
    """A world as the executor of one dialogue: its calls, in order, from its start state."""

    machine: Machine
    setting: Setting
    now: str
    start: State = field(init=False)
    state: State = field(init=False)

    def __post_init__(self) -> None:
        start = self.setting.start
        self.start = self.state = state_of(start["tables"], start["me"], start["next"])

    def runs(self, api: Api) -> bool:
        return api.source.kind == "world" and api.source.reference == self.setting.world

    async def run(self, api: Api, arguments: JsonObject) -> Executed:
        """What a call returns; a failure changes nothing, and is an observation with its error."""
        operation = api.source.operation
        self.state, response, error = self.machine.apply(self.state, operation, arguments, self.now)
        seen = observed(response, error)
        return Executed(
            seen,
            Execution(
                kind="executed",
                by=f"world:{self.setting.world}",
                failure=Failure.TOOL_ERROR if error else None,
                digest=digest(seen.model_dump(mode="json"), 64),
            ),
        )

    def fork(self) -> Self:
        fork = replace(self)
        fork.state = self.state  # states are never changed, only followed by others
        return fork

    def changes(self) -> list[tuple[Any, ...]]:
        return [tuple(change) for change in difference(self.machine, self.start, self.state)]


@dataclass
class Environment:
    """The tools of one dialogue. Each call is run by the first of `executors` that can.

    With `search`, API Search is all that is on offer at first, and each API that it finds
    afterwards. Observations are cut to `limit` tokens.
    """

    pool: Sequence[Api]
    executors: Sequence[Executor]
    search: Search | None = None
    limit: int = 1_024
    found: dict[str, Api] = field(default_factory=dict)  # by function, as they were found

    @property
    def tools(self) -> list[Api]:
        """The APIs that may be called now."""
        return list(self.pool) if self.search is None else [API_SEARCH, *self.found.values()]

    async def call(self, name: str, arguments: JsonObject) -> Executed:
        """What comes of a call. Raises what a search raises, and ToolloomError if what executes
        an API cannot be used at all."""
        if self.search and name == API_SEARCH.function:
            documents = await self.search(self.pool, str(arguments.get("keywords", "")))
            by_name = {api.function: api for api in self.pool}
            names = [document["name"] for document in documents]
            self.found |= {name: by_name[name] for name in names if name in by_name}
            return Executed(Observation(response=documents), Execution(kind="search"))
        api = next((api for api in self.pool if api.function == name), None)
        executor = next((one for one in self.executors if api and one.runs(api)), None)
        if api is None or executor is None:
            return Executed(
                Observation(error=f"not_available: {name} is not available here."),
                Execution(kind="executed", by="nobody"),
            )
        seen = await executor.run(api, arguments)
        response, whole = compress(seen.observation.response, api.returns, self.limit)
        return Executed(
            seen.observation.model_copy(update={"response": response}),
            seen.execution.model_copy(update={"whole_tokens": whole}),
        )

    def fork(self) -> Environment:
        """Another one, in the state that the calls so far have brought about."""
        forks = [executor.fork() for executor in self.executors]
        return replace(self, executors=forks, found=dict(self.found))

    def changes(self) -> list[tuple[Any, ...]]:
        """What the calls so far have changed, where that can be told."""
        return [change for executor in self.executors for change in executor.changes()]


# --- long observations -----------------------------------------------------------------------

CUT = "…"
STEPS = ((50, 800), (20, 400), (10, 200), (5, 200), (3, 100), (1, 100), (1, 50))
"""First items of a list that stay, and characters of a text, step by step."""
DEEPEST = 60


def tokens(value: Any) -> int:
    """How many tokens a value's JSON is, about."""
    return math.ceil(len(_compact(value).encode("utf-8", "surrogatepass")) / 4)


def compress(response: Any, schema: JsonObject | None, limit: int) -> tuple[Any, int | None]:
    """A response of at most `limit` tokens, and how many the whole one had if it was longer.

    Lists keep their first items, and long texts are cut, further step by step. What is left fits
    its schema if the whole one did. If all that is not enough, the beginning of the JSON is kept,
    as text.
    """
    whole = tokens(response)
    if whole <= limit:
        return response, None
    if isinstance(response, str):
        return beginning(response, limit), whole
    known = as_dict(schema)
    strict = bool(known) and fits(known, response)
    for items, letters in STEPS:
        value = _short(response, items, letters)
        if tokens(value) <= limit and (not strict or fits(known, value)):
            return value, whole
    return beginning(_compact(response), limit), whole


def beginning(text: str, limit: int) -> str:
    """As much of a text as `limit` tokens hold, written as JSON."""
    if tokens(text) <= limit:
        return text
    low, high = 0, min(len(text), 4 * limit)
    while low < high:
        middle = (low + high + 1) // 2
        low, high = (middle, high) if tokens(text[:middle] + CUT) <= limit else (low, middle - 1)
    return text[:low] + CUT if tokens(text[:low] + CUT) <= limit else ""


def _short(value: Any, items: int, letters: int, depth: int = 0) -> Any:
    """A copy, of JSON alone and not too deep, with its first items and the beginnings of texts."""
    if isinstance(value, str):
        return value if len(value) <= letters else value[: letters - 1] + CUT
    if isinstance(value, int | float) or value is None:
        return value
    if depth >= DEEPEST or not isinstance(value, dict | list | tuple):
        return CUT
    if isinstance(value, dict):
        return {str(k): _short(v, items, letters, depth + 1) for k, v in value.items()}
    return [_short(v, items, letters, depth + 1) for v in value[:items]]


def _compact(value: Any) -> str:
    try:
        return json.dumps(value, ensure_ascii=False, separators=(",", ":"))
    except (RecursionError, TypeError, ValueError):  # too deep, or no JSON: only a copy is
        return _compact(_short(value, 10**9, 10**9))
