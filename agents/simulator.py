"""The simulator: plays assistant, execution and later user turns (API-Bank, section 4, agent 4).

Each act is one question, and nothing but what stands in the dialogue goes into it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, TypeAlias, TypeVar

from toolloom.agents.ask import Answer, BadAnswer, Costs, Job, NoUsableAnswer, ask, shape
from toolloom.agents.query import goals, moment, withheld
from toolloom.agents.wording import Fact, read_request, transcript
from toolloom.pipeline.apis.execution.results import Executed, Executor, Search, Shorten
from toolloom.pipeline.checks.transcript import known_functions, observation_of
from toolloom.prompts import render
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
    ToolCall,
    seed_for,
)

T = TypeVar("T")
Said: TypeAlias = tuple[str | None, list[FunctionCall]]  # words or calls

STEPS = 16  # acts of an assistant before a dialogue is given up


@dataclass(frozen=True)
class Environment:
    """What a dialogue needs of the outside, besides a model."""

    search: Search
    executor: Executor
    shorten: Shorten


@dataclass
class DialogueInProgress:
    """A dialogue while it is played, and what it has cost so far."""

    query: Query
    job: Job
    messages: list[Message]
    costs: Costs = field(default_factory=Costs)

    @property
    def seed(self) -> int:
        """A seed of its own for the next question."""
        return seed_for(self.job.seed, len(self.messages))

    def take(self, answer: Answer[T]) -> T:
        """Book an answer and give its value."""
        self.costs.book(answer.costs)
        return answer.value


async def run(query: Query, job: Job, environment: Environment) -> Outcome:
    """Play a query to its end. The dialogue is accepted as it is; the tester judges it."""
    opening = [system_turn(query), Message(role="user", content=query.text)]
    play = DialogueInProgress(query, job, opening)
    try:
        await _play(play, environment)
    except (NoUsableAnswer, RequestRefused) as error:
        why = error
        if isinstance(why, RequestRefused):  # a search's: it ends a dialogue as a question's does
            why = NoUsableAnswer(Reason.REQUEST_REFUSED, str(why), Costs(raw=(why.raw,)))
        so_far = Dialogue(query=query, messages=tuple(play.messages))
        return Outcome(rejected=(job.reject(so_far, why, play.costs + why.costs),))
    played = Dialogue(
        query=query,
        messages=tuple(play.messages),
        provenance=job.provenance(play.costs, [query.id]),
    )
    return Outcome(accepted=(played,))


def system_turn(query: Query) -> Message:
    """The system turn of the training data: the present moment and what is on offer."""
    search = API_SEARCH.function if query.ability.searches else ""
    told = query.setting.told if query.setting else ()
    about = {"now": moment(query.now), "language": query.language, "search": search, "told": told}
    prompt = render("dialogue", about)
    return Message(role="system", content=prompt.messages[0]["content"])


async def _play(play: DialogueInProgress, environment: Environment) -> None:
    for _ in range(STEPS):
        apis = callable_apis(play.query, play.messages)
        variables = {
            "system": play.messages[0].content,
            "functions": [a.document() for a in apis],
            "transcript": transcript(play.messages),
        }
        prompt, shape = render("simulator", variables), act_schema(apis)
        answer = await ask(
            play.job.model, prompt, read_act, schema=shape, seed=play.seed, max_tokens=800
        )
        text, calls = play.take(answer)
        first = sum(len(m.tool_calls) for m in play.messages)
        act = Message(
            role="assistant",
            content=text,
            tool_calls=tuple(
                ToolCall(id=f"call_{first + i}", function=c) for i, c in enumerate(calls)
            ),
        )
        play.messages.append(act)
        for call in act.tool_calls:
            api = {a.function: a for a in (*play.query.pool, API_SEARCH)}[call.function.name]
            seen = await _execute(play, api, call, environment)
            play.messages.append(seen.message(call.id, api, environment.shorten))
        if not act.tool_calls:
            told = next_turn(play.query, play.messages)
            if told is None:
                return
            play.messages.append(await _speak(play, told))
    raise NoUsableAnswer(Reason.MALFORMED_DIALOGUE, f"No end after {STEPS} acts.")


def callable_apis(query: Query, messages: Sequence[Message]) -> list[Api]:
    """The APIs an assistant may call now, API Search among them where it is given."""
    by_name = {a.function: a for a in (*query.pool, API_SEARCH)}
    return [by_name[n] for n in known_functions(query, messages) if n in by_name]


def act_schema(apis: Sequence[Api]) -> JsonObject:
    """Shape of an act: calls under each API's own schema, or a reply."""
    calls: JsonObject = {"type": "array", "maxItems": 8}
    shapes = [shape({"name": {"const": a.function}, "arguments": a.parameters}) for a in apis]
    calls |= {"items": {"anyOf": shapes}} if shapes else {"maxItems": 0}
    return shape({"calls": calls, "reply": {"type": "string"}})


def read_act(answer: Any) -> Said:
    """(reply, calls) of an act. Raises BadAnswer if it is neither."""
    if answer["calls"]:
        return None, [FunctionCall.model_validate(c) for c in answer["calls"]]
    reply = answer["reply"].strip()
    if not reply:
        raise BadAnswer(Reason.UNUSABLE_RESPONSE, "Neither a call nor a reply.")
    return reply, []


async def _execute(
    play: DialogueInProgress, api: Api, call: ToolCall, environment: Environment
) -> Executed:
    """API Search, the planned fault, the API's own executor, or else the model."""
    arguments = call.function.arguments if isinstance(call.function.arguments, dict) else {}
    if api is API_SEARCH:
        found = await environment.search(play.query.pool, str(arguments.get("keywords", "")))
        return Executed(Observation(response=found), Execution(kind="search"))
    if fault := _planned(play, call):
        return Executed(fault, Execution(kind="planned"))
    if environment.executor.runs(api):
        return await environment.executor.run(api, arguments)
    played = Observation(response=play.take(await _simulate(play, api, call)))
    return Executed(played, Execution(kind="simulated", by=play.job.model.endpoint.model))


def _planned(play: DialogueInProgress, call: ToolCall) -> Observation | None:
    """The error of a fault that is played; a real one comes of the execution itself."""
    query, name = play.query, call.function.name
    fault = query.fault
    if fault is None or fault.real or query.api(query.intent[fault.call].api).function != name:
        return None
    results = (observation_of(m) for m in play.messages if m.role == "tool" and m.name == name)
    failed = any(seen is not None and seen.error for seen in results)
    return None if failed and fault.transient else Observation(error=fault.error)


async def _simulate(play: DialogueInProgress, api: Api, call: ToolCall) -> Answer[Any]:
    variables = {
        "function": api.document(),
        "arguments": call.function.arguments,
        "now": moment(play.query.now),
        "earlier": [t for t in transcript(play.messages) if t[0].startswith("Result")],
    }
    return await ask(
        play.job.model,
        render("simulator_execution", variables),
        lambda a: a["response"],
        schema=shape({"response": api.returns or {}}),
        seed=seed_for(play.seed, call.id),
        max_tokens=800,
    )


def next_turn(query: Query, messages: Sequence[Message]) -> list[tuple[Api, list[Fact]]] | None:
    """What the user says after a reply: the withheld values, the next wish, or nothing."""
    turn = sum(m.role == "user" for m in messages)
    if query.withheld and turn == 1:
        return [(query.api(query.intent[0].api), withheld(query))]
    if not query.withheld and turn < query.turns:
        return [(api, _news(query, told)) for api, told in goals(query, turn)]
    return None


def _news(query: Query, told: list[Fact]) -> list[Fact]:
    """Of a correction, only the values that are new; of any other wish, all."""
    said = query.intent[0].arguments if purpose(query) == "correction" else {}
    return [f for f in told if f.name not in said or said[f.name] != f.value]


def purpose(query: Query) -> str:
    """What a later turn of the user is: an answer, a correction, or a new wish."""
    if query.withheld:
        return "answer"
    return "correction" if query.fault is not None and query.fault.real else "wish"


async def _speak(play: DialogueInProgress, told: list[tuple[Api, list[Fact]]]) -> Message:
    """A later turn of the user."""
    everything = [f for _, group in told for f in group]
    now = play.query.now
    variables = {
        "wishes": [{"does": a.description, "facts": g} for a, g in told],
        "purpose": purpose(play.query),
        "language": play.query.language,
        "now": moment(now),
        "transcript": transcript(play.messages),
    }
    answer = await ask(
        play.job.model,
        render("simulator_user", variables),
        lambda a: read_request(a.strip().strip('"'), everything, now),
        seed=play.seed,
        max_tokens=200,
    )
    return Message(role="user", content=play.take(answer))
