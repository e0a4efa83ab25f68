"""Small records and stages that ask no model, for tests of what runs and keeps real ones."""

from __future__ import annotations

import asyncio
import datetime as dt
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from support.conversations import called
from toolloom import FakeServer
from toolloom.pipeline.apis.search import Finder
from toolloom.pipeline.environments.environment import Executed, Executor
from toolloom.pipeline.stage import Context, Stage, StageInput
from toolloom.pipeline.stages import feed_queries as feed_needs
from toolloom.schemas import (
    Ability,
    Api,
    Brief,
    Dialogue,
    Domain,
    Execution,
    Failure,
    Finding,
    Intention,
    JsonObject,
    Message,
    Need,
    Observation,
    Outcome,
    Provenance,
    Query,
    Reason,
    Recipe,
    Record,
    Rejected,
    Sample,
    Scenario,
    SearchPlan,
    Verdict,
    parse_recipe,
)

DELAY = 0.0


ALL_IN_TRAIN = dict.fromkeys(("validation", "test_instruction", "test_tool", "test_category"), 0)


def recipe(**changes: Any) -> Recipe:
    """A recipe of a few toy records in shards of four, all of them in `train`."""
    fields = {"name": "toy", "shard_size": 4, "queries": {"count": 21}, "apis": {"domains": 6}}
    return parse_recipe({**fields, "splits": ALL_IN_TRAIN, **changes}, "a toy recipe")


def whole(server: FakeServer | None = None, **changes: Any) -> Recipe:
    """A recipe whose agents ask the scripted endpoint, in shards of four."""
    model = {"model": "fake", "concurrency": 8, "base_url": server.base_url if server else "local"}
    fields = {
        "name": "whole",
        "model": {**model, **changes.pop("model", {})},
        "apis": {"domains": 4, "per_domain": 2, "worlds": False},
        "queries": {"count": 12},
        "shard_size": 4,
        "splits": ALL_IN_TRAIN,
    }
    return parse_recipe({**fields, **changes}, "a recipe")


def files(outputs: Path) -> dict[str, bytes]:
    """The files of all runs, by their paths."""
    found = (p for p in (outputs / "runs").rglob("*") if p.is_file())
    return {str(p.relative_to(outputs)): p.read_bytes() for p in found}


@dataclass(frozen=True)
class Before(StageInput):
    """What a stage is given before which these records were accepted."""

    accepted: tuple[Record, ...] = ()

    def records(self) -> Iterator[Any]:
        return iter(self.accepted)

    @classmethod
    def of(cls, recipe: Recipe, *accepted: Record) -> Before:
        return cls(recipe, "stage", accepted=accepted)


def api(category: str = "weather", name: str = "current") -> Api:
    return Api(
        category=category,
        tool="station",
        name=name,
        function=f"{category}_{name}",
        description="Current weather of a city.",
        parameters={"type": "object", "properties": {"city": {"type": "string"}}},
    )


def query(number: int = 0, **changes: Any) -> Query:
    ability = list(Ability)[number % 3]
    fields: dict[str, Any] = {
        "id": f"q{number}",
        "ability": ability,
        "scenario": Scenario.SINGLE,
        "now": dt.datetime(2026, 3, 2, 9, 30),
        "pool": (api(), api(name="forecast")),
        "intent": (Intention(api=api().id, arguments={"city": "Zürich"}),),
        "text": f"What is the weather in Zürich? ({number})",
        "provenance": (share("queries", f"q{number}"),),
    }
    return Query(**{**fields, **changes})


def share(stage: str, parent: str) -> Provenance:
    return Provenance(
        stage=stage,
        agent="query",
        model="toy-1",
        prompts=("abc123",),
        seed=0,
        requests=2,
        prompt_tokens=10,
        completion_tokens=5,
        parents=(parent,),
    )


def sample(of: Query | None = None, arguments: Any = None, answer: str = "It is 7 °C.") -> Sample:
    """A sample of a user turn, a call, its observation and an answer."""
    asked = of or query()
    call = ("weather_current", arguments or {"city": "Zürich"}, {"celsius": 7})
    messages = (
        Message(role="user", content=asked.text),
        *called(call, first=1),
        Message(role="assistant", content=answer),
    )
    dialogue = Dialogue(query=asked, messages=messages, provenance=(share("tested", asked.id),))
    return Sample(dialogue=dialogue, verdict=Verdict(), provenance=(share("tested", asked.id),))


def rejected(record: Any, stage: str, reason: Reason, detail: str = "A toy fault.") -> Rejected:
    return Rejected(
        id=record.id,
        stage=stage,
        agent="tester",
        reason=reason,
        detail=detail,
        findings=(Finding(check="toy", reason=reason, turn=1, detail=detail),),
        record=record.model_dump(mode="json"),
        raw=('{"raw": "answer"}',),
        provenance=(share(stage, record.id),),
    )


def feed_domains(given: StageInput) -> Iterator[Brief]:
    count = given.recipe.apis.domains
    yield from (Brief(category=f"c{i}", about="toys", count=1) for i in range(count))


async def name_domains(brief: Brief, context: Context) -> Outcome:
    await asyncio.sleep(DELAY)
    return Outcome((Domain(category=brief.category, name="toys"),))


def drop_the_first(records: Sequence[Domain]) -> Outcome:
    first, *rest = records
    return Outcome(tuple(rest), (rejected(first, "domains", Reason.NEAR_DUPLICATE),))


def feed_queries(given: StageInput) -> Iterator[Query]:
    pool = tuple(api(domain.category) for domain in given.records())
    for number in range(given.recipe.queries.count):
        one = pool[number % len(pool)]
        intent = (Intention(api=one.id, arguments={"city": "Zürich"}),)
        yield query(number, pool=pool, intent=intent)


async def ask_queries(query: Query, context: Context) -> Outcome:
    # Later records answer first: order of arrival must not matter.
    await asyncio.sleep(DELAY / (1 + int(query.id[1:])))
    if query.id.endswith("3"):
        return Outcome((), (rejected(query, "queries", Reason.VALUE_NOT_MENTIONED),))
    return Outcome((query,))


async def test_queries(query: Query, context: Context) -> Outcome:
    await asyncio.sleep(DELAY)
    if query.id.endswith("5"):
        return Outcome((), (rejected(sample(query), "tested", Reason.UNGROUNDED_ARGUMENT),))
    return Outcome((sample(query),))


class Station(Executor):
    """An executor of the APIs it is given answers for; an error is one that begins with `!`."""

    def __init__(self, **answers: Any) -> None:
        self.answers = answers
        self.ran: list[tuple[str, JsonObject]] = []

    def runs(self, api: Api) -> bool:
        return api.name in self.answers

    async def run(self, api: Api, arguments: JsonObject) -> Executed:
        self.ran.append((api.name, arguments))
        answer = self.answers[api.name]
        answer = answer(arguments) if callable(answer) else answer
        failed = isinstance(answer, str) and answer.startswith("!")
        seen = Observation(error=answer[1:]) if failed else Observation(response=answer)
        failure = Failure.TOOL_ERROR if failed else None
        return Executed(seen, Execution(kind="executed", by="toy", failure=failure, digest="d"))


SEARCH = Finder(SearchPlan()).search


DOMAINS = Stage(
    "domains", "domain", Brief, Domain, name_domains, feed=feed_domains, settle=drop_the_first
)
QUERIES = Stage("queries", "query", Query, Query, ask_queries, feed=feed_queries)
TESTED = Stage("tested", "tester", Query, Sample, test_queries)
STAGES = (DOMAINS, QUERIES, TESTED)
"""Of 21 queries, q3 and q13 fall in `queries`, q5 and q15 in `tested`: 17 samples."""


async def make_apis(domain: Domain, context: Context) -> Outcome:
    """Two tools, `t0` and `t1`."""
    schema = {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}
    tools = ("t0", "t1")
    changes = (
        {"tool": t, "function": f"{domain.category}_{t}", "parameters": schema} for t in tools
    )
    return Outcome(tuple(api(domain.category).model_copy(update=each) for each in changes))


async def word_needs(need: Need, context: Context) -> Outcome:
    return Outcome((Query(**{**dict(need), "text": f"A need of seed {context.recipe.seed}."}),))


async def test_needs(query: Query, context: Context) -> Outcome:
    """Rejects every fifth query of a split."""
    if int(query.id[-6:]) % 5 == 1:
        return Outcome((), (rejected(sample(query), "tested", Reason.UNGROUNDED_ARGUMENT),))
    return Outcome((sample(query, answer=f"It is {query.id}."),))


SPLIT_STAGES = (
    DOMAINS,
    Stage("apis", "api", Domain, Api, make_apis),
    Stage("queries", "query", Need, Query, word_needs, feed=feed_needs),
    Stage("tested", "tester", Query, Sample, test_needs),
)
"""Stages whose queries are drawn as in a real run, and so fall into splits."""
