"""The loop that plays a dialogue: a user speaks, an assistant acts, an environment answers.

Whoever plays, the loop is this one: a model (`agents/simulator.py`), a script, or a recording.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Awaitable, Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Protocol, TypeAlias

from toolloom.pipeline.environments.environment import Environment, Executed
from toolloom.schemas import API_SEARCH, Api, FunctionCall, JsonObject, Message, Reason, ToolCall

IN_VAIN = 2  # searches for what no tool does
ASKED = 4  # searches whose keywords are asked for, until what is called next is found


class Assistant(Protocol):
    async def act(self, messages: Sequence[Message], tools: Sequence[Api]) -> Message:
        """Words, or calls of some of the tools."""


class User(Protocol):
    async def speak(self, messages: Sequence[Message]) -> str | None:
        """What is said next; None where there is nothing more to say."""


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
class Words:
    """What is said next."""

    role: str
    text: str


@dataclass(frozen=True)
class Calls:
    """What is called next, side by side."""

    calls: tuple[FunctionCall, ...]


@dataclass(frozen=True)
class Searching:
    """What is searched for next, with one set of keywords after the other until each function that
    is `wanted` is found, from where the last search of these keywords ended; where none is wanted,
    with the first of them, in vain."""

    keywords: tuple[str, ...]
    wanted: frozenset[str]


Move: TypeAlias = Words | Calls | Searching
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
        return move.text if isinstance(move, Words) else None

    async def act(self, messages: Sequence[Message], tools: Sequence[Api]) -> Message:
        """The next words or calls. Raises Unplayable where no search finds what is called next."""
        while isinstance(move := self._moves[0], Searching):
            lacking = move.wanted - {api.function for api in tools}
            number, most = self._tried[move.keywords], len(move.keywords) or ASKED
            if number < (most if lacking else 0 if move.wanted else min(most, IN_VAIN)):
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
        if isinstance(move, Calls):
            return calling(messages, move.calls)
        return Message(role="assistant", content=move.text)


class Recording:
    """Both players of a dialogue that was played before, and what its calls returned then."""

    def __init__(self, messages: Iterable[Message]) -> None:
        whole = tuple(messages)
        self._spoken = deque(m for m in whole if m.role in ("user", "assistant"))
        self._results = deque(m for m in whole if m.role == "tool")

    async def speak(self, messages: Sequence[Message]) -> str | None:
        return (self._spoken.popleft().content or "") if self._spoken else None

    async def act(self, messages: Sequence[Message], tools: Sequence[Api]) -> Message:
        return self._spoken.popleft()

    def result(self) -> Executed:
        """What came of the next call."""
        message = self._results.popleft()
        assert message.execution
        return Executed(message.observation(), message.execution)

    async def search(self, pool: Sequence[Api], keywords: str) -> list[JsonObject]:
        """What the next search found."""
        found: list[JsonObject] = self.result().observation.response
        return found
