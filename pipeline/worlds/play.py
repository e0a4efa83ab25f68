"""Plays a dialogue whose calls and words are drawn, and runs calls in a world.

The words are drawn by seed among those that are all right, the calls are run in the world, and in
the retrieve abilities each operation is searched for before it is called first.
"""

from __future__ import annotations

import random
import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from toolloom.agents.ask import Costs, Job, NoUsableAnswer
from toolloom.agents.simulator import Environment, system_turn
from toolloom.agents.wording import drawn
from toolloom.pipeline.apis.execution.results import Executed
from toolloom.pipeline.checks.text.words import STOP
from toolloom.pipeline.checks.world.interpreter import Machine, State, state_of
from toolloom.pipeline.checks.world.outcome import observed
from toolloom.schemas import (
    API_SEARCH,
    Api,
    Dialogue,
    Execution,
    Failure,
    FunctionCall,
    JsonObject,
    Message,
    Observation,
    Outcome,
    Part,
    Query,
    Reason,
    RequestRefused,
    Setting,
    ToolCall,
    digest,
    seed_for,
)

KEYWORDS = 4  # of a search
BY_WHAT_IT_DOES = 0.7  # share of searches that begin so, where a world gives no words
IN_VAIN = 0.2  # share of such words that find others and yet are searched for
VAGUE = frozenset(["one", "all", "something", "known", "several", "words", "some"])


@dataclass
class WorldSession:
    """A world as the executor of one dialogue: its calls, in order, from its start state."""

    machine: Machine
    setting: Setting
    now: str
    state: State = field(init=False)

    def __post_init__(self) -> None:
        start = self.setting.start
        self.state = state_of(start["tables"], start["me"], start["next"])

    def runs(self, api: Api) -> bool:
        return api.source.kind == "world" and api.source.reference == self.setting.world

    async def run(self, api: Api, arguments: JsonObject) -> Executed:
        """What a call returns; a failure changes nothing, and is an observation with its error."""
        operation = api.source.operation
        self.state, response, error = self.machine.apply(self.state, operation, arguments, self.now)
        return executed(self.setting.world, response, error)


def executed(world: str, response: Any, error: str | None) -> Executed:
    """What a call's result in a world is to those who called."""
    seen = observed(response, error)
    return Executed(
        seen,
        Execution(
            kind="executed",
            by=f"world:{world}",
            failure=Failure.TOOL_ERROR if error else None,
            digest=digest(seen.model_dump(mode="json"), 64),
        ),
    )


def moment_of(query: Query) -> str:
    """The present of a dialogue, as an interpreter takes it."""
    return f"{query.now:%Y-%m-%dT%H:%M}"


async def play(query: Query, job: Job, environment: Environment) -> Outcome:
    """The dialogue that a query's story tells; rejected where API Search finds no way to an
    operation."""
    assert query.setting
    played = _Played(query, job, environment)
    try:
        for parts in _acts(query.setting.story[1:]):
            await (played.call(parts) if parts[0].role == "call" else played.say(parts[0]))
    except NoUsableAnswer as why:
        so_far = Dialogue(query=query, messages=tuple(played.messages))
        return Outcome(rejected=(job.reject(so_far, why, why.costs),))
    setting = query.setting.model_copy(update={"story": ()})
    told = query.model_copy(update={"setting": setting})
    provenance = job.provenance(Costs(), [query.id])
    return Outcome((Dialogue(query=told, messages=tuple(played.messages), provenance=provenance),))


def _acts(story: Sequence[Part]) -> list[list[Part]]:
    """Words one by one, calls that go side by side together."""
    acts: list[list[Part]] = []
    for part in story:
        if part.beside:
            acts[-1].append(part)
        else:
            acts.append([part])
    return acts


class _Played:
    """A dialogue while it is played."""

    def __init__(self, query: Query, job: Job, environment: Environment) -> None:
        assert query.setting
        self.query, self.job, self.environment = query, job, environment
        self.messages = [system_turn(query), Message(role="user", content=query.text)]
        own = [api for api in query.pool if api.source.reference == query.setting.world]
        self.apis = {api.source.operation: api for api in own}
        self.known: set[str] = set()
        self.made = 0
        calls = (part for part in query.setting.story if part.role == "call")
        self.sought = {part.name: part.sought for part in calls}

    async def say(self, part: Part) -> None:
        if self.query.ability.searches:
            for name in part.offers:
                await self._find(self.apis[name], self.sought.get(name, ()))
        self.messages.append(
            Message(
                role="user" if part.role == "user" else "assistant",
                content=drawn(part.words, self.job.seed, len(self.messages)),
            )
        )

    async def call(self, parts: Sequence[Part]) -> None:
        apis = [self.apis[part.name] for part in parts]
        if self.query.ability.searches:
            for api, part in zip(apis, parts, strict=True):
                await self._find(api, part.sought)
        calls = [
            (api, part.arguments, await self.environment.executor.run(api, part.arguments))
            for api, part in zip(apis, parts, strict=True)
        ]
        self._add(calls)

    async def _find(self, api: Api, sought: Sequence[str]) -> None:
        """Search until it is found: with words that its world gives for it, in an order by seed,
        then by its name or by what it does, and at last by all of its words. A search in vain
        is part of some dialogues, as it happens to those who do not know a tool yet."""
        if api.function in self.known:
            return
        rng = random.Random(seed_for(self.job.seed, "search", api.name))
        plain = [api.name.replace("_", " "), _gist(re.split(r"[,.;:]", api.description)[0])]
        if rng.random() < BY_WHAT_IT_DOES:
            plain.reverse()
        own = rng.sample(sought, len(sought))
        for keywords in (*own, *plain, f"{plain[0]} {_gist(api.description, 16)}"):
            try:
                found = await self.environment.search(self.query.pool, keywords)
            except RequestRefused as error:  # of embeddings: it costs this dialogue, not the run
                costs = Costs(raw=(error.raw,))
                raise NoUsableAnswer(Reason.REQUEST_REFUSED, str(error), costs) from error
            hit = any(document["name"] == api.function for document in found)
            if hit or (keywords in own and rng.random() < IN_VAIN):
                self.known |= {document["name"] for document in found}
                seen = Executed(Observation(response=found), Execution(kind="search"))
                self._add([(API_SEARCH, {"keywords": keywords}, seen)])
            if hit:
                return
        detail = f"no search for its words finds {api.function}"
        raise NoUsableAnswer(Reason.SEARCH_SKIPPED, detail)

    def _add(self, calls: Sequence[tuple[Api, JsonObject, Executed]]) -> None:
        made = [
            ToolCall(
                id=f"call_{self.made + number}",
                function=FunctionCall(name=api.function, arguments=arguments),
            )
            for number, (api, arguments, _) in enumerate(calls)
        ]
        self.made += len(made)
        self.messages.append(Message(role="assistant", tool_calls=tuple(made)))
        for call, (api, _, seen) in zip(made, calls, strict=True):
            self.messages.append(seen.message(call.id, api, self.environment.shorten))


def _gist(text: str, most: int = KEYWORDS) -> str:
    """Its first words, to the last that carries meaning: «cancel a meeting»."""
    found = re.findall(r"[^\W\d_]+(?:['’-][^\W\d_]+)*", text.lower())[:most]
    while found and (found[-1] in STOP or found[-1] in VAGUE):
        found.pop()
    return " ".join(found[1:] if found[:1] == ["your"] else found) or text[:40]
