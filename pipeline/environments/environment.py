"""What a dialogue plays in, tools and what their calls return, and the loop that plays it: a user
speaks, an assistant acts, the environment answers.

Whoever plays, the loop is this one: a model (`agents/simulator.py`), a script, or a recording.
Long observations are made short without a model (after ToolLLM, appendix A.2); tokens are
estimated: UTF-8 bytes of the compact JSON, divided by 4 and rounded up.
"""

from __future__ import annotations

import json
import math
from bisect import bisect_right
from collections import Counter, deque
from collections.abc import Awaitable, Callable, Iterable, Sequence
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
    FunctionCall,
    JsonObject,
    Message,
    Need,
    Observation,
    Reason,
    Setting,
    ToolCall,
    digest,
)

IN_VAIN = 2  # searches for what no tool does
ASKED = 4  # searches whose keywords are asked for, until what is called next is found


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
        by_name = {api.function: api for api in self.pool}
        if self.search and name == API_SEARCH.function:
            documents = await self.search(self.pool, str(arguments.get("keywords", "")))
            names = [document["name"] for document in documents]
            self.found |= {name: by_name[name] for name in names if name in by_name}
            return Executed(Observation(response=documents), Execution(kind="search"))
        api = by_name.get(name)
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


# --- the loop ------------------------------------------------------------------------------


class User(Protocol):
    async def speak(self, messages: Sequence[Message]) -> str | None:
        """What is said next; None where there is nothing more to say."""


class Assistant(Protocol):
    async def act(self, messages: Sequence[Message], tools: Sequence[Api]) -> Message:
        """What is done: words, or calls of some of the tools."""


class Players(Assistant, User, Protocol):
    """One that plays both parts."""


class Unplayable(Exception):
    """A script that cannot be played here."""

    def __init__(self, reason: Reason, detail: str) -> None:
        super().__init__(detail)
        self.reason, self.detail = reason, detail


async def play(
    messages: list[Message], assistant: Assistant, user: User, environment: Environment
) -> None:
    """Play until the user has nothing more to say. What is said, called and returned is added to
    `messages`, so that it stays where something is raised.

    Raises what the players and the environment raise.
    """
    while (text := await user.speak(messages)) is not None:
        messages.append(Message(role="user", content=text))
        acting = True
        while acting:
            act = await assistant.act(messages, environment.tools)
            messages.append(act)
            for call in act.tool_calls:
                name, given = call.function.name, call.function.arguments
                seen = await environment.call(name, given if isinstance(given, dict) else {})
                messages.append(
                    Message(
                        role="tool",
                        tool_call_id=call.id,
                        name=name,
                        content=seen.observation.model_dump_json(),
                        execution=seen.execution,
                    )
                )
            acting = bool(act.tool_calls)


def calling(messages: Sequence[Message], calls: Iterable[FunctionCall]) -> Message:
    """An act that makes calls, with ids that are new in its dialogue."""
    first = sum(len(message.tool_calls) for message in messages)
    made = (ToolCall(id=f"call_{first + n}", function=call) for n, call in enumerate(calls))
    return Message(role="assistant", tool_calls=tuple(made))


@dataclass(frozen=True)
class Searching:
    """What is searched for next, with one set of keywords after the other until each function that
    is `wanted` is found, from where the last search of these keywords ended; where none is wanted,
    with the first of them, in vain so many times."""

    keywords: tuple[str, ...]
    wanted: frozenset[str]
    in_vain: int = IN_VAIN


Move: TypeAlias = Message | tuple[FunctionCall, ...] | Searching
"""What is said, called side by side or searched for next."""
Keywords: TypeAlias = Callable[[Sequence[Message]], Awaitable[str]]


async def unasked(messages: Sequence[Message]) -> str:
    """Of a script that has all its keywords."""
    raise Unplayable(Reason.SEARCH_SKIPPED, "the script does not say what to search for")


class Script:
    """Both players of a dialogue whose words and calls are settled. A search without keywords asks
    `keywords` for them each time, who has seen the dialogue so far."""

    def __init__(self, moves: Iterable[Move], keywords: Keywords = unasked) -> None:
        self._moves = deque(moves)
        self._keywords = keywords
        self._tried = Counter[tuple[str, ...]]()  # how many of these keywords

    async def speak(self, messages: Sequence[Message]) -> str | None:
        move = self._moves.popleft() if self._moves else None
        return move.content if isinstance(move, Message) else None

    async def act(self, messages: Sequence[Message], tools: Sequence[Api]) -> Message:
        """The next words or calls. Raises Unplayable where no search finds what is called next."""
        while isinstance(move := self._moves[0], Searching):
            lacking = move.wanted - {api.function for api in tools}
            number, most = self._tried[move.keywords], len(move.keywords) or ASKED
            if number < (most if lacking else 0 if move.wanted else min(most, move.in_vain)):
                self._tried[move.keywords] += 1
                own = move.keywords[number : number + 1]
                given = {"keywords": own[0] if own else await self._keywords(messages)}
                return calling(messages, [FunctionCall(name=API_SEARCH.function, arguments=given)])
            if lacking:
                detail = f"no search of the script finds {', '.join(sorted(lacking))}"
                raise Unplayable(Reason.SEARCH_SKIPPED, detail)
            self._moves.popleft()
            del self._tried[()]  # what is asked for the next search is counted anew
        self._moves.popleft()
        return calling(messages, move) if isinstance(move, tuple) else move


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
    lengths = range(min(len(text), 4 * limit) + 1)
    fitting = bisect_right(lengths, limit, key=lambda length: tokens(text[:length] + CUT))
    return text[: fitting - 1] + CUT if fitting else ""


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
