"""The simulator: plays assistant, execution and later user turns (API-Bank, section 4, agent 4).

Each act is one question, and nothing but what stands in the dialogue goes into it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any, TypeVar

from toolloom.agents.ask import BadAnswer, Costs, Job, NoUsableAnswer, ask, shape
from toolloom.agents.query import Fact, goals, moment, read_request, transcript, withheld
from toolloom.pipeline.environments.environment import (
    Environment,
    Executed,
    Executor,
    Failing,
    Players,
    Search,
    Unplayable,
    calling,
    play,
)
from toolloom.prompts import Prompt, render
from toolloom.schemas import (
    API_SEARCH,
    Api,
    Dialogue,
    Execution,
    FunctionCall,
    JsonObject,
    Message,
    Observation,
    Outcome,
    Query,
    Reason,
    RequestRefused,
    seed_for,
)

T = TypeVar("T")

DONE = "done"  # what a user says who has nothing left to say
STEPS = 16  # acts of an assistant before a dialogue is given up


@dataclass
class Simulator(Executor):
    """A model as assistant, user and whatever executes no call of its own, in one dialogue."""

    query: Query
    job: Job
    messages: list[Message]
    costs: Costs = field(default_factory=Costs)  # so far

    async def speak(self, messages: Sequence[Message]) -> str | None:
        """The user's next turn: the query itself, what was withheld, or the next wish; in a world,
        what was worded for it and is not done yet, as an answer to what the assistant says."""
        query = self.query
        # A user hears what is said, and sees no call, result or documentation.
        heard = [each for each in transcript(messages) if each[0] in ("User", "Assistant")]
        told: JsonObject = {"transcript": heard, "now": moment(query.now)}
        if messages[-1].role == "system":
            return query.text
        if query.setting:
            turns = sum(message.role == "user" for message in messages)
            for number, draft in enumerate(query.setting.words[turns:]):
                prompt = render("world_user", {**told, "draft": draft.user})
                read = partial(read_request, told=(), now=query.now)
                said = await self._ask(prompt, read, part=f"draft_{number}" if number else "")
                if said.strip(".").lower() != DONE:
                    return said
            return None
        wishes = next_turn(query, messages)
        if wishes is None:
            return None
        facts = [fact for _, group in wishes for fact in group]
        told["wishes"] = [{"does": api.description, "facts": group} for api, group in wishes]
        told |= {"purpose": purpose(query), "language": query.language}
        prompt = render("simulator_user", told)
        return await self._ask(prompt, lambda answer: read_request(answer, facts, query.now))

    async def act(self, messages: Sequence[Message], tools: Sequence[Api]) -> Message:
        """The assistant's next act. Raises NoUsableAnswer, also where there is no end."""
        if sum(message.role == "assistant" for message in messages) == STEPS:
            raise NoUsableAnswer(Reason.MALFORMED_DIALOGUE, f"No end after {STEPS} acts.")
        variables = {
            "system": messages[0].content,
            "functions": [api.document() for api in tools],
            "transcript": transcript(messages),
        }
        prompt = render("simulator", variables)
        said = await self._ask(prompt, read_act, act_schema(tools), most=800)
        if isinstance(said, str):
            return Message(role="assistant", content=said)
        return calling(messages, said)

    def runs(self, api: Api) -> bool:
        return True

    async def run(self, api: Api, arguments: JsonObject) -> Executed:
        """What a call of an API returns that nothing executes. Raises NoUsableAnswer."""
        variables = {
            "function": api.document(),
            "arguments": arguments,
            "now": moment(self.query.now),
            "earlier": [t for t in transcript(self.messages) if t[0].startswith("Result")],
        }
        answered = sum(message.role == "tool" for message in self.messages)
        response = await self._ask(
            render("simulator_execution", variables),
            lambda answer: answer["response"],
            shape({"response": api.returns or {}}),
            part=f"call_{answered}",
            most=800,
        )
        by = self.job.model.endpoint.model
        return Executed(Observation(response=response), Execution(kind="simulated", by=by))

    async def keywords(self, messages: Sequence[Message]) -> str:
        """What to search for next. Raises NoUsableAnswer."""
        told = {"system": messages[0].content, "transcript": transcript(messages)}
        form = shape({"keywords": {"type": "string", "minLength": 1, "maxLength": 100}})
        prompt = render("world_search", told)
        return await self._ask(prompt, lambda answer: str(answer["keywords"]), form)

    async def _ask(
        self,
        prompt: Prompt,
        read: Callable[[Any], T],
        schema: JsonObject | None = None,
        *,
        part: str = "",
        most: int = 200,
    ) -> T:
        """`part` tells questions apart that are asked after the same messages."""
        seed = seed_for(self.job.seed, len(self.messages))
        seed = seed_for(seed, part) if part else seed
        answer = await ask(self.job.model, prompt, read, schema=schema, seed=seed, max_tokens=most)
        self.costs.book(answer.costs)
        return answer.value


async def run(
    query: Query, job: Job, executors: Sequence[Executor], search: Search, limit: int = 1_024
) -> Outcome:
    """Play a query to its end. The model plays the calls that no executor runs, but in a world,
    where they are not available. The dialogue is accepted as it is; the tester judges it."""
    messages = [system_turn(query)]
    simulator = Simulator(query, job, messages)
    if query.setting is None:
        executors = [*executors, simulator]
    environment = environment_of(query, executors, search, limit)
    return await played(query, job, messages, simulator, environment, simulator.costs)


def environment_of(
    query: Query, executors: Sequence[Executor], search: Search, limit: int
) -> Environment:
    """What a query's dialogue plays in: a fault that is played comes before what executes calls; a
    real one comes of the execution itself."""
    fault = query.fault
    if fault and not fault.real:
        function = query.api(query.intent[fault.call].api).function
        executors = [Failing(function, fault.error, fault.transient), *executors]
    return Environment(query.pool, executors, search if query.ability.searches else None, limit)


async def played(
    query: Query,
    job: Job,
    messages: list[Message],
    players: Players,
    environment: Environment,
    costs: Costs,
) -> Outcome:
    """The dialogue that comes of it, or what there is of it with the reason why it goes no
    further; `costs`: of the players."""
    # Without what was to be said, once it is.
    setting = query.setting and query.setting.model_copy(update={"plan": (), "words": ()})
    bare = query.model_copy(update={"setting": setting})
    try:
        await play(messages, players, players, environment)
    except (NoUsableAnswer, RequestRefused, Unplayable) as error:
        why = error
        if isinstance(why, RequestRefused):  # a search's: it ends a dialogue as a question's does
            why = NoUsableAnswer(Reason.REQUEST_REFUSED, str(why), Costs(raw=(why.raw,)))
        elif isinstance(why, Unplayable):
            why = NoUsableAnswer(why.reason, why.detail)
        so_far = Dialogue(query=bare, messages=tuple(messages))
        return Outcome(rejected=(job.reject(so_far, why, costs + why.costs),))
    provenance = job.provenance(costs, [query.id])
    whole = Dialogue(query=bare, messages=tuple(messages), provenance=provenance)
    return Outcome(accepted=(whole,))


def system_turn(query: Query) -> Message:
    """The system turn of the training data: the present moment and what is on offer."""
    search = API_SEARCH.function if query.ability.searches else ""
    told = query.setting.told if query.setting else ()
    about = {"now": moment(query.now), "language": query.language, "search": search, "told": told}
    return Message(role="system", content=render("dialogue", about).messages[0]["content"])


def act_schema(apis: Sequence[Api]) -> JsonObject:
    """Shape of an act: calls under each API's own schema, or a reply."""
    calls: JsonObject = {"type": "array", "maxItems": 8}
    shapes = [shape({"name": {"const": a.function}, "arguments": a.parameters}) for a in apis]
    calls |= {"items": {"anyOf": shapes}} if shapes else {"maxItems": 0}
    return shape({"calls": calls, "reply": {"type": "string"}})


def read_act(answer: Any) -> str | list[FunctionCall]:
    """The reply or the calls of an act. Raises BadAnswer if it is neither."""
    if answer["calls"]:
        return [FunctionCall.model_validate(c) for c in answer["calls"]]
    reply: str = answer["reply"].strip()
    if not reply:
        raise BadAnswer(Reason.UNUSABLE_RESPONSE, "Neither a call nor a reply.")
    return reply


def next_turn(query: Query, messages: Sequence[Message]) -> list[tuple[Api, list[Fact]]] | None:
    """What the user says after a reply: the withheld values, the next wish, or nothing."""
    turn = sum(m.role == "user" for m in messages)
    if query.withheld and turn == 1:
        return [(query.api(query.intent[0].api), withheld(query))]
    if not query.withheld and turn < query.turns:
        # Of a correction, only the values that are new.
        said = query.intent[0].arguments if purpose(query) == "correction" else {}
        return [
            (api, [f for f in told if f.name not in said or said[f.name] != f.value])
            for api, told in goals(query, turn)
        ]
    return None


def purpose(query: Query) -> str:
    """What a later turn of the user is: an answer, a correction, or a new wish."""
    if query.withheld:
        return "answer"
    return "correction" if query.fault is not None and query.fault.real else "wish"
