"""The simulator: plays assistant, execution and later user turns (API-Bank, section 4, agent 4).

Each act is one question. A model that can chooses its acts freely; a small one is asked for
the act that is due. Either way nothing but what stands in the dialogue goes into the question.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from toolloom.agents import simulator_small as piecewise
from toolloom.agents.execution_small import observe
from toolloom.agents.outcome import Job, Outcome
from toolloom.agents.plan import asks, observation, transcript
from toolloom.agents.query import goals, moment, withheld
from toolloom.agents.shapes import one, shape
from toolloom.agents.wording import Fact, Senses, read_request
from toolloom.llm import Answer, Misfit, Unusable, Usage, ask
from toolloom.pipeline.apis.execution.executor import Executed, World
from toolloom.pipeline.checks.transcript import known_functions
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
    Query,
    Reason,
    RequestRefused,
    ToolCall,
    seed_for,
)

STEPS = 16  # acts of an assistant before a dialogue is given up


@dataclass
class Tape:
    """A dialogue while it is played, and what it has cost so far."""

    query: Query
    job: Job
    messages: list[Message]
    usage: Usage = field(default_factory=Usage)
    raw: list[str] = field(default_factory=list)

    @property
    def seed(self) -> int:
        """A seed of its own for the next question."""
        return seed_for(self.job.seed, len(self.messages))

    def take(self, answer: Answer[Any]) -> Any:
        """Book an answer and give its value."""
        self.usage += answer.usage
        self.raw += answer.raw
        return answer.value


async def run(query: Query, job: Job, world: World) -> Outcome:
    """Play a query to its end. The dialogue is accepted as it is; the tester judges it."""
    tape = Tape(query, job, [system_turn(query), Message(role="user", content=query.text)])
    try:
        await _play(tape, world)
    except (Unusable, RequestRefused) as error:
        why = _unusable(error)
        so_far = Dialogue(query=query, messages=tuple(tape.messages))
        usage, raw = tape.usage + why.usage, [*tape.raw, *why.raw]
        return Outcome(rejected=(job.reject(so_far, why, usage=usage, raw=raw),))
    made = Dialogue(
        query=query,
        messages=tuple(tape.messages),
        provenance=job.provenance(tape.usage, [query.id]),
    )
    return Outcome(accepted=(made,))


def _unusable(error: Unusable | RequestRefused) -> Unusable:
    """A search that its endpoint refuses ends the dialogue as a refused question does."""
    if isinstance(error, Unusable):
        return error
    return Unusable(Reason.REQUEST_REFUSED, str(error), (error.raw,), Usage())


def system_turn(query: Query) -> Message:
    """The system turn of the training data: the present moment and what is on offer."""
    prompt = render(
        "dialogue",
        {
            "now": moment(query.now),
            "language": query.language,
            "search": API_SEARCH.function if query.ability.searches else "",
        },
    )
    return Message(role="system", content=prompt.messages[0]["content"])


async def _play(tape: Tape, world: World) -> None:
    for _ in range(STEPS):
        act = await _act(tape, world)
        tape.messages.append(act)
        for call in act.tool_calls:
            tape.messages.append(await _observe(tape, call, world))
        if not act.tool_calls:
            told = next_turn(tape.query, tape.messages)
            if told is None:
                return
            tape.messages.append(await _speak(tape, told, world.senses))
    raise Unusable(Reason.MALFORMED_DIALOGUE, f"No end after {STEPS} acts.", (), Usage())


async def _act(tape: Tape, world: World) -> Message:
    if tape.job.model.endpoint.small:
        answer = await piecewise.act(
            tape.query, tape.messages, tape.job.model, world.senses, world.search, tape.seed
        )
    else:
        answer = await _free_act(tape)
    text, calls = tape.take(answer)
    first = sum(len(m.tool_calls) for m in tape.messages)
    return Message(
        role="assistant",
        content=text,
        tool_calls=tuple(ToolCall(id=f"call_{first + i}", function=c) for i, c in enumerate(calls)),
    )


async def _free_act(tape: Tape) -> Answer[piecewise.Said]:
    """The assistant's next act, free within the functions it may call."""
    apis = callable_apis(tape.query, tape.messages)
    return await ask(
        tape.job.model,
        render(
            "simulator",
            {
                "system": tape.messages[0].content,
                "functions": [a.document() for a in apis],
                "transcript": transcript(tape.messages),
            },
        ),
        read_act,
        schema=act_schema(apis),
        seed=tape.seed,
        max_tokens=800,
    )


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


def read_act(answer: Any) -> piecewise.Said:
    """(reply, calls) of an act. Raises Misfit if it is neither."""
    if answer["calls"]:
        return None, [FunctionCall.model_validate(c) for c in answer["calls"]]
    reply = answer["reply"].strip()
    if not reply:
        raise Misfit(Reason.UNUSABLE_RESPONSE, "Neither a call nor a reply.")
    return reply, []


async def _observe(tape: Tape, call: ToolCall, world: World) -> Message:
    """The observation of a call, no longer than the limit, and how it came about."""
    api = {a.function: a for a in (*tape.query.pool, API_SEARCH)}[call.function.name]
    seen = await _execute(tape, api, call, world)
    response, whole = seen.observation.response, None
    if api is not API_SEARCH:
        response, whole = world.shorten(response, api.returns)
    return Message(
        role="tool",
        tool_call_id=call.id,
        name=call.function.name,
        content=seen.observation.model_copy(update={"response": response}).model_dump_json(),
        execution=seen.execution.model_copy(update={"whole_tokens": whole}),
    )


async def _execute(tape: Tape, api: Api, call: ToolCall, world: World) -> Executed:
    """API Search, the planned fault, the API's own executor, or else the model."""
    arguments = call.function.arguments if isinstance(call.function.arguments, dict) else {}
    if api is API_SEARCH:
        found = await world.search(tape.query.pool, str(arguments.get("keywords", "")))
        return Executed(Observation(response=found), Execution(kind="search"))
    if fault := _planned(tape, call):
        return Executed(fault, Execution(kind="planned"))
    if world.executor.runs(api):
        return await world.executor.run(api, arguments)
    played = Observation(response=tape.take(await _simulate(tape, api, call)))
    return Executed(played, Execution(kind="simulated", by=tape.job.model.endpoint.model))


def _planned(tape: Tape, call: ToolCall) -> Observation | None:
    """The error of a fault that is played; a real one comes of the execution itself."""
    query, name = tape.query, call.function.name
    fault = query.fault
    if fault is None or fault.real or query.api(query.intent[fault.call].api).function != name:
        return None
    failed = any(m.name == name and observation(m).error for m in tape.messages if m.role == "tool")
    return None if failed and fault.transient else Observation(error=fault.error)


async def _simulate(tape: Tape, api: Api, call: ToolCall) -> Answer[Any]:
    if tape.job.model.endpoint.small:
        return await observe(api, call.function, tape.job.model, tape.seed)
    return await ask(
        tape.job.model,
        render(
            "simulator_execution",
            {
                "function": api.document(),
                "arguments": call.function.arguments,
                "now": moment(tape.query.now),
                "earlier": [t for t in transcript(tape.messages) if t[0].startswith("Result")],
            },
        ),
        lambda a: a["response"],
        schema=one("response", api.returns or {}),
        seed=seed_for(tape.seed, call.id),
        max_tokens=800,
    )


def next_turn(query: Query, messages: Sequence[Message]) -> list[tuple[Api, list[Fact]]] | None:
    """What the user says after a reply: the withheld values, the next wish, or nothing."""
    turn = asks(messages)
    if query.withheld and turn == 1:
        return [(query.api(query.intent[0].api), withheld(query))]
    if not query.withheld and turn < query.turns:
        return [(api, _news(query, told)) for api, told in goals(query, turn)]
    return None


def _news(query: Query, told: list[Fact]) -> list[Fact]:
    """Of a correction, only the values that are new; of any other wish, all."""
    if purpose(query) != "correction":
        return told
    said = query.intent[0].arguments
    return [f for f in told if f.name not in said or said[f.name] != f.value]


def purpose(query: Query) -> str:
    """What a later turn of the user is: an answer, a correction, or a new wish."""
    if query.withheld:
        return "answer"
    return "correction" if query.fault is not None and query.fault.real else "wish"


async def _speak(tape: Tape, told: list[tuple[Api, list[Fact]]], senses: Senses) -> Message:
    """A later turn of the user."""
    everything = [f for _, group in told for f in group]
    now = tape.query.now
    if tape.job.model.endpoint.small:
        answer = await piecewise.speak(
            told, tape.job.model, now, senses, tape.seed, purpose=purpose(tape.query)
        )
    else:
        answer = await ask(
            tape.job.model,
            render(
                "simulator_user",
                {
                    "wishes": [{"does": a.description, "facts": g} for a, g in told],
                    "purpose": purpose(tape.query),
                    "language": tape.query.language,
                    "now": moment(now),
                    "transcript": transcript(tape.messages),
                },
            ),
            lambda a: read_request(a.strip().strip('"'), everything, now, senses),
            seed=tape.seed,
            max_tokens=200,
        )
    return Message(role="user", content=tape.take(answer))
