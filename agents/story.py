"""Plays a dialogue whose calls and words are drawn: the simulator in worlds.

The words are chosen among those that are all right, the calls are run in the world, and in the
retrieve abilities each operation is searched for before it is called first.
"""

from __future__ import annotations

import random
import re
from collections.abc import Iterator, Sequence
from itertools import groupby

from toolloom.agents.ask import Answer, Costs, Job, NoUsableAnswer
from toolloom.agents.choice import choose
from toolloom.pipeline.apis.execution.results import Executed, Executor, Search, Shorten
from toolloom.pipeline.checks.text.words import STOP
from toolloom.schemas import (
    API_SEARCH,
    Api,
    Dialogue,
    Execution,
    FunctionCall,
    JsonObject,
    Message,
    Need,
    Observation,
    Outcome,
    Part,
    Query,
    Reason,
    RequestRefused,
    ToolCall,
    seed_for,
)

KEYWORDS = 4  # of a search
BY_WHAT_IT_DOES = 0.7  # share of searches that begin so, where a world gives no words
IN_VAIN = 0.2  # share of such words that find others and yet are searched for
VAGUE = frozenset(["one", "all", "something", "known", "several", "words", "some"])
TURN = {"user": "Which of these would a person say?", "assistant": "Which reply reads best?"}


async def play(
    query: Query, job: Job, opening: Message, executor: Executor, search: Search, shorten: Shorten
) -> Outcome:
    """The dialogue that a query's story tells, after its system turn `opening`; rejected where
    API Search finds no way to an operation."""
    assert query.setting
    played = _Played(query, job, executor, search, shorten)
    played.messages = [opening, Message(role="user", content=query.text)]
    try:
        for parts in _acts(query.setting.story[1:]):
            await (played.call(parts) if parts[0].role == "call" else played.say(parts[0]))
    except NoUsableAnswer as why:
        so_far = Dialogue(query=query, messages=tuple(played.messages))
        return Outcome(rejected=(job.reject(so_far, why, played.costs + why.costs),))
    told = _told(query, played.left)
    provenance = job.provenance(played.costs, [query.id])
    return Outcome((Dialogue(query=told, messages=tuple(played.messages), provenance=provenance),))


async def first_words(need: Need, job: Job) -> Answer[str]:
    """What the user says first, of the words that are all right."""
    words = _story(need)[0].words
    picked = await choose(job, TURN["user"], words, 0, ask_model=_asked(need) == 0)
    return Answer(words[picked.value], picked.costs)


async def settle(dialogue: Dialogue, job: Job) -> Answer[Dialogue]:
    """The dialogue with the words that the tester chooses, where a choice was left to it."""
    left = [part for part in _story(dialogue.query) if part.role != "call"]
    if not left:
        return Answer(dialogue, Costs())
    messages = list(dialogue.messages)
    spoken = [place for place, m in enumerate(messages) if m.role != "tool" and m.content]
    before, place = spoken[-len(left) - 1], spoken[-len(left)]
    what = f"{TURN[left[0].role]} Before it: {messages[before].content}"
    words = left[0].words
    drawn = words.index(messages[place].content or "")
    picked = await choose(job, what, words, place, drawn=drawn)
    messages[place] = messages[place].model_copy(update={"content": words[picked.value]})
    told = {"query": _told(dialogue.query, ()), "messages": tuple(messages)}
    return Answer(dialogue.model_copy(update=told), picked.costs)


def _story(need: Need) -> Sequence[Part]:
    return need.setting.story if need.setting else ()


def _open(need: Need) -> list[int]:
    """The places of a story where several words are right."""
    return [place for place, part in enumerate(_story(need)) if len(part.words) > 1]


def _asked(need: Need) -> int | None:
    """The one open place that a small model is asked about, by seed: the query agent at the
    opening, the tester at the last, the simulator in between."""
    return random.Random(seed_for("asked", need.id)).choice(_open(need) or [None])


def _told(query: Query, story: Sequence[Part]) -> Query:
    """The query with what is left of its story."""
    assert query.setting
    setting = query.setting.model_copy(update={"story": tuple(story)})
    return query.model_copy(update={"setting": setting})


def _acts(story: Sequence[Part]) -> Iterator[list[Part]]:
    """Words one by one, calls that go side by side together."""
    number = 0
    numbered = []
    for part in story:
        number += not part.beside
        numbered.append((number, part))
    for _, group in groupby(numbered, key=lambda pair: pair[0]):
        yield [part for _, part in group]


class _Played:
    """A dialogue while it is played, and what it has cost so far."""

    def __init__(
        self, query: Query, job: Job, executor: Executor, search: Search, shorten: Shorten
    ) -> None:
        self.query, self.job = query, job
        self.executor, self.search, self.shorten = executor, search, shorten
        self.messages: list[Message] = []
        self.costs = Costs()
        world = query.setting.world if query.setting else ""
        own = [api for api in query.pool if api.source.reference == world]
        self.apis = {api.source.operation: api for api in own}
        self.known: set[str] = set()
        self.made = 0
        story, asked = _story(query), _asked(query)
        testers = asked and asked == _open(query)[-1] and job.model.endpoint.small
        # The tester's words are drawn by the seed until it chooses; what is left of the story
        # tells it the place.
        self.sought = {part.name: part.sought for part in story if part.role == "call"}
        self.left = story[asked:] if testers else ()
        self.asked = story[asked] if asked and not testers else None

    async def say(self, part: Part) -> None:
        if self.query.ability.searches:
            for name in part.offers:
                await self._look_up(self.apis[name], self.sought.get(name, ()))
        place, what = len(self.messages), TURN[part.role]
        ask_model = part is self.asked
        picked = await choose(self.job, what, part.words, place, ask_model=ask_model)
        self.costs.book(picked.costs)
        self.messages.append(
            Message(
                role="user" if part.role == "user" else "assistant",
                content=part.words[picked.value],
            )
        )

    async def call(self, parts: Sequence[Part]) -> None:
        apis = [self.apis[part.name] for part in parts]
        if self.query.ability.searches:
            for api, part in zip(apis, parts, strict=True):
                await self._look_up(api, part.sought)
        calls = [
            (api, part.arguments, await self.executor.run(api, part.arguments))
            for api, part in zip(apis, parts, strict=True)
        ]
        self._add(calls)

    async def _look_up(self, api: Api, sought: Sequence[str]) -> None:
        if api.function not in self.known:
            await self._find(api, sought)

    async def _find(self, api: Api, sought: Sequence[str]) -> None:
        """Search until it is found: with words that its world gives for it, in an order by seed,
        then by its name or by what it does, and at last by all of its words. A search in vain
        is part of some dialogues, as it happens to those who do not know a tool yet."""
        rng = random.Random(seed_for(self.job.seed, "search", api.name))
        plain = [api.name.replace("_", " "), _gist(re.split(r"[,.;:]", api.description)[0])]
        if rng.random() < BY_WHAT_IT_DOES:
            plain.reverse()
        own = rng.sample(sought, len(sought))
        for keywords in (*own, *plain, f"{plain[0]} {_gist(api.description, 16)}"):
            try:
                found = await self.search(self.query.pool, keywords)
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
            self.messages.append(seen.message(call.id, api, self.shorten))


def _gist(text: str, most: int = KEYWORDS) -> str:
    """Its first words, to the last that carries meaning: «cancel a meeting»."""
    found = re.findall(r"[^\W\d_]+(?:['’-][^\W\d_]+)*", text.lower())[:most]
    while found and (found[-1] in STOP or found[-1] in VAGUE):
        found.pop()
    return " ".join(found[1:] if found[:1] == ["your"] else found) or text[:40]
