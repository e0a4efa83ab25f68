"""What was said, called and observed when: the view of a dialogue the checks share; and what they
find.
"""

from __future__ import annotations

import json
from bisect import bisect_left
from collections import Counter, defaultdict
from collections.abc import Callable, Hashable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import wraps
from typing import Any, Generic, NamedTuple, TypeAlias, TypeVar

from toolloom.schemas import (
    API_SEARCH,
    Api,
    Dialogue,
    JsonObject,
    Message,
    Observation,
    Query,
    Reason,
)

T = TypeVar("T")
K = TypeVar("K", bound=Hashable)
MOST = 200  # findings of one kind that are kept


class Fault(NamedTuple):
    """What a check objects to: `turn` is the index of the message, where there is one."""

    reason: Reason
    turn: int | None
    detail: str


Check: TypeAlias = Callable[[T], Iterator[Fault]]
"""A certain check of a dialogue, or of an instruction. Its name is stored with what it finds."""


@dataclass
class Findings(Generic[K, T]):
    """What is wrong, by kind: all of it is counted, and of each kind the first few are kept, in the
    order in which they were found.

    `verify` and `push` collect by kind of fault, an audit by reason.
    """

    most: int = MOST
    counts: Counter[K] = field(default_factory=Counter)
    kept: defaultdict[K, list[T]] = field(default_factory=lambda: defaultdict(list))

    def add(self, kind: K, finding: T) -> None:
        self.counts[kind] += 1
        if len(self.kept[kind]) < self.most:
            self.kept[kind].append(finding)


def once(view: Callable[[Dialogue], T]) -> Callable[[Dialogue], T]:
    """A view of a dialogue that a dozen checks ask for is made once: the last one is kept."""
    last: tuple[Dialogue, T] | None = None

    @wraps(view)
    def seen(dialogue: Dialogue) -> T:
        nonlocal last
        known = last  # one read and one write: threads may ask too
        if known is None or known[0] is not dialogue:
            last = known = (dialogue, view(dialogue))
        return known[1]

    return seen


@dataclass(frozen=True)
class CallMade:
    """A call that was made, with what came of it.

    `turn` is the user turn that was under way, `place` the index of the message, `back` that of
    the observation. `api` is None for a name that is not in the pool.
    """

    place: int
    turn: int
    name: str
    api: Api | None
    arguments: JsonObject
    back: int | None
    observation: Observation | None

    @property
    def is_search(self) -> bool:
        return self.name == API_SEARCH.function

    @property
    def failed(self) -> bool:
        return self.observation is None or self.observation.error is not None

    @property
    def response(self) -> Any:
        return self.observation.response if self.observation else None


def shown(value: Any, longest: int = 80) -> str:
    """A value for a finding's detail, cut to a length one can read."""
    text = json.dumps(value, ensure_ascii=False, default=str)
    return text if len(text) <= longest else text[: longest - 1] + "…"


def observation_of(message: Message) -> Observation | None:
    """The observation a tool message holds, or None where it holds none."""
    try:
        return message.observation()
    except ValueError:
        return None


@once
def _requests(dialogue: Dialogue) -> tuple[list[int], list[str], int]:
    """The indices and texts of the user's messages, and how many answer a question."""
    said = [(i, m.content or "") for i, m in enumerate(dialogue.messages) if m.role == "user"]
    answers = max(0, len(said) - dialogue.query.turns)
    return [i for i, _ in said], [text for _, text in said], answers


def said_before(dialogue: Dialogue, place: int) -> list[str]:
    """What the user said before a message."""
    places, texts, _ = _requests(dialogue)
    return texts[: bisect_left(places, place)]


def asked(dialogue: Dialogue, place: int) -> int:
    """The user turn (as in `Intention.turn`) under way at a message.

    The answers to a clarifying question belong to turn 0 and follow the first user message.
    """
    places, _, answers = _requests(dialogue)
    return max(0, bisect_left(places, place) - 1 - answers)


@once
def observations(dialogue: Dialogue) -> dict[int, Observation | None]:
    """What the tool messages hold, by index; None where it cannot be read."""
    found = ((i, m) for i, m in enumerate(dialogue.messages) if m.role == "tool")
    return {i: observation_of(m) for i, m in found}


@once
def made(dialogue: Dialogue) -> tuple[CallMade, ...]:
    """Every call with readable arguments, in order."""
    known = {api.function: api for api in dialogue.query.pool}
    results, seen = dialogue.results(), observations(dialogue)
    found = []
    for place, call in dialogue.calls():
        name, arguments = call.function.name, call.function.arguments
        back, _ = results.get(call.id, (None, None))
        if isinstance(arguments, dict):
            api = API_SEARCH if name == API_SEARCH.function else known.get(name)
            result = None if back is None else seen[back]
            turn = asked(dialogue, place)
            found.append(CallMade(place, turn, name, api, arguments, back, result))
    return tuple(found)


def answered_before(dialogue: Dialogue, place: int) -> list[CallMade]:
    """The calls whose observations came before a message."""
    return [call for call in made(dialogue) if call.back is not None and call.back < place]


def observed_before(dialogue: Dialogue, place: int) -> list[Any]:
    """Responses that came before a message; API Search's documentation is not among them."""
    calls = answered_before(dialogue, place)
    return [call.response for call in calls if not call.failed and not call.is_search]


@once
def replies(dialogue: Dialogue) -> tuple[tuple[int, str, bool], ...]:
    """Index, text and finality of every assistant message with words; final ends a turn."""
    return tuple(
        (place, message.content or "", not message.tool_calls)
        for place, message in enumerate(dialogue.messages)
        if message.role == "assistant" and (message.content or "").strip()
    )


def known_functions(query: Query, messages: Sequence[Message]) -> list[str]:
    """Functions the assistant may call now: the pool's, or those API Search has returned."""
    if not query.ability.searches:
        return [a.function for a in query.pool]
    found = [API_SEARCH.function]
    for message in messages:
        if message.role == "tool" and message.name == API_SEARCH.function:
            seen = observation_of(message)
            found += documented(seen.response if seen else None)
    return list(dict.fromkeys(found))


def documented(response: Any) -> Iterator[str]:
    """Names of the APIs whose documentation a search returned, in a list or on its own."""
    for document in response if isinstance(response, list) else [response]:
        if isinstance(document, dict) and isinstance(document.get("name"), str):
            yield document["name"]
