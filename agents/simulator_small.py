"""The simulator's way with a small model: the act that is due, one small question at a time.

Arguments are chosen among the values that the dialogue offers, observations are made field by
field, replies sentence by sentence (one argument or one fact a question).
"""

from __future__ import annotations

import asyncio
import datetime as dt
from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

from toolloom.agents.plan import Act, Due, due, known_functions, observed, outcomes, reference_values
from toolloom.agents.wording import (
    Fact,
    Senses,
    compose_request,
    facts,
    read_request,
    say_facts,
    wish,
)
from toolloom.llm import Answer, Misfit, Model, Unusable, Usage, ask
from toolloom.prompts import render
from toolloom.schemas import (
    API_SEARCH,
    Api,
    FunctionCall,
    JsonObject,
    Message,
    Query,
    Reason,
    canonical,
    seed_for,
)

Said: TypeAlias = tuple[str | None, list[FunctionCall]]
Search = Callable[[Sequence[Api], str], list[JsonObject]]


def one(name: str, schema: JsonObject) -> JsonObject:
    """Shape of an answer with one field."""
    return {
        "type": "object",
        "properties": {name: schema},
        "required": [name],
        "additionalProperties": False,
    }


KEYWORDS = one("keywords", {"type": "string", "pattern": "^[a-z]+( [a-z]+){1,3}$"})
QUESTION = one(
    "question",
    {"type": "string", "pattern": "^(What|Which|Could you tell me|Please tell me)( [a-z]+)+[?.]$"},
)
EXPLANATION = one(
    "reply",
    {"type": "string", "pattern": "^(I am sorry, but I cannot|Unfortunately I cannot)( [a-z]+)+\\.$"},
)


async def act(
    query: Query,
    messages: Sequence[Message],
    model: Model,
    senses: Senses,
    search: Search,
    seed: int,
) -> Answer[Said]:
    """The act that is due."""
    step = due(query, messages)
    if step.act is Act.SEARCH:
        return await _search(query, messages, step, model, search, seed)
    if step.act is Act.CALL:
        return await _call(query, messages, step, model, senses, seed)
    if step.act is Act.ASK:
        return await _question(query, model, seed)
    if step.act is Act.ANSWER:
        return await _answer(query, messages, model, senses, seed)
    return await _explain(query, messages, model, senses, seed)


async def _search(
    query: Query,
    messages: Sequence[Message],
    step: Due,
    model: Model,
    search: Search,
    seed: int,
) -> Answer[Said]:
    """Keywords for API Search that find what is needed, if there is something to find."""
    wanted = query.api(query.due[step.calls[0]].api).function if step.calls else None

    def read(answer: Any) -> str:
        found = [d["name"] for d in search(query.pool, answer["keywords"])]
        if wanted and wanted not in found:
            raise Misfit(Reason.SEARCH_SKIPPED, f"«{answer['keywords']}» finds {found or 'nothing'}.")
        return str(answer["keywords"])

    said = " ".join(m.content or "" for m in messages if m.role == "user")
    goal = wish(query.api(query.intent[step.calls[0] if step.calls else 0].api))
    answer = await ask(
        model,
        render("simulator_keywords", {"said": said, "wish": goal}),
        read,
        schema=KEYWORDS,
        seed=seed,
        max_tokens=24,
    )
    call = FunctionCall(name=API_SEARCH.function, arguments={"keywords": answer.value})
    return Answer((None, [call]), answer.usage, answer.raw)


async def _call(
    query: Query,
    messages: Sequence[Message],
    step: Due,
    model: Model,
    senses: Senses,
    seed: int,
) -> Answer[Said]:
    """The due calls: which function, then each of its arguments."""
    calls: list[FunctionCall] = []
    usage, raw = Usage(), list[str]()
    for index in step.calls:
        api = query.api(query.due[index].api)
        named = await _name(query, messages, api, [c.name for c in calls], model, seed)
        filled = await _arguments(query, messages, index, model, senses, seed)
        calls.append(FunctionCall(name=named.value, arguments=filled.value))
        usage += named.usage + filled.usage
        raw += [*named.raw, *filled.raw]
    return Answer((None, calls), usage, tuple(raw))


async def _name(
    query: Query,
    messages: Sequence[Message],
    wanted: Api,
    called: Sequence[str],
    model: Model,
    seed: int,
) -> Answer[str]:
    """The function to call, among all that may be called now."""
    names = [n for n in known_functions(query, messages) if n != API_SEARCH.function]
    by_name = {a.function: a for a in query.pool}

    def read(answer: Any) -> str:
        if answer["function"] != wanted.function:
            raise Misfit(Reason.API_HALLUCINATION, f"{answer['function']} is not what is needed.")
        return str(answer["function"])

    return await ask(
        model,
        render(
            "simulator_name",
            {
                "said": _last_user(messages),
                "functions": [(n, by_name[n].description) for n in names if n in by_name],
                "called": list(called),
            },
        ),
        read,
        schema=one("function", {"enum": names}),
        seed=seed_for(seed, "name", len(called)),
        max_tokens=40,
    )


async def _arguments(
    query: Query,
    messages: Sequence[Message],
    index: int,
    model: Model,
    senses: Senses,
    seed: int,
) -> Answer[JsonObject]:
    """One question for each argument that the dialogue gives a value to."""
    intention = query.due[index]
    api = query.api(intention.api)
    wanted = {**intention.arguments, **reference_values(query, index, messages)}
    names = [n for n in api.properties if n in wanted]
    answers = await asyncio.gather(
        *(
            _argument(query, messages, api, n, wanted[n], model, senses, seed_for(seed, index, n))
            for n in names
        )
    )
    usage = sum((a.usage for a in answers), Usage())
    values = {n: a.value for n, a in zip(names, answers, strict=True)}
    return Answer(values, usage, tuple(r for a in answers for r in a.raw))


async def _argument(
    query: Query,
    messages: Sequence[Message],
    api: Api,
    name: str,
    wanted: Any,
    model: Model,
    senses: Senses,
    seed: int,
) -> Answer[Any]:
    """One argument, chosen among the values that the user's words and observations offer."""
    schema = api.properties[name]
    said = " ".join(m.content or "" for m in messages if m.role == "user")
    offered = choices(name, schema, said, observed(messages), query.now, senses)

    def read(answer: Any) -> Any:
        if not same(answer["value"], wanted, schema, query.now, senses):
            raise Misfit(Reason.INTENT_MISMATCH, f"{name} = {answer['value']!r} is not meant.")
        return answer["value"]

    if not any(same(o, wanted, schema, query.now, senses) for o in offered):
        detail = f"Nothing said offers a value for {name}: {offered[:8]}."
        raise Unusable(Reason.UNGROUNDED_ARGUMENT, detail, (), Usage())
    return await ask(
        model,
        render(
            "simulator_argument",
            {
                "said": said,
                "results": observed(messages),
                "function": api.function,
                "name": name.replace("_", " "),
                "about": schema.get("description", ""),
            },
        ),
        read,
        schema=one("value", {"enum": offered}),
        seed=seed,
        max_tokens=80,
    )


def choices(
    name: str,
    schema: JsonObject,
    said: str,
    responses: Sequence[Any],
    now: dt.datetime,
    senses: Senses,
) -> list[Any]:
    """Values a dialogue offers for an argument: spans of the user's words, observed fields."""
    if schema.get("type") == "boolean":
        return [True, False]
    found = list(senses.spans(said, schema, now))
    kinds = {"integer": (int,), "number": (int, float), "string": (str,)}
    kind = kinds.get(schema.get("type", "string"), (str,))
    for response in responses:
        for value in response.values() if isinstance(response, dict) else ():
            if isinstance(value, kind) and not isinstance(value, bool):
                found.append(value)
    label = set(name.lower().split("_"))
    tight = [v for v in found if not isinstance(v, str) or set(v.lower().split()) - label]
    unique = {canonical(v): v for v in tight or found}
    return list(unique.values())


def same(
    value: Any, wanted: Any, schema: JsonObject, now: dt.datetime, senses: Senses
) -> bool:
    """Whether a chosen value says what is meant: equal, or a text that mentions it in full."""
    if isinstance(value, str) and isinstance(wanted, str):
        folded = " ".join(value.lower().split()), " ".join(wanted.lower().split())
        if folded[0] == folded[1]:
            return True
        close = len(folded[0]) <= len(folded[1]) + 4
        return close and senses.mentions(value, wanted, schema, now)
    return bool(value == wanted)


async def observe(api: Api, call: FunctionCall, model: Model, seed: int) -> Answer[JsonObject]:
    """A response, field by field, each held to its schema."""
    names = list(api.fields)
    answers = await asyncio.gather(
        *(_field(api, call, n, model, seed_for(seed, api.function, n)) for n in names)
    )
    usage = sum((a.usage for a in answers), Usage())
    values = {n: a.value for n, a in zip(names, answers, strict=True)}
    return Answer(values, usage, tuple(r for a in answers for r in a.raw))


async def _field(
    api: Api, call: FunctionCall, name: str, model: Model, seed: int
) -> Answer[Any]:
    schema = api.fields[name]
    return await ask(
        model,
        render(
            "simulator_field",
            {
                "description": api.description,
                "arguments": call.arguments,
                "name": name.replace("_", " "),
                "about": schema.get("description", ""),
            },
        ),
        read_field,
        schema=one("value", narrowed(schema)),
        seed=seed,
        max_tokens=32,
    )


def narrowed(schema: JsonObject) -> JsonObject:
    """A field's schema, tight enough that a small model comes to an end."""
    kind = schema.get("type")
    if schema.get("enum") or schema.get("format") or kind == "boolean":
        return schema
    if kind == "string":
        return {"type": "string", "pattern": "^[A-Z][a-z]+( [A-Za-z]+)*$"}
    if kind == "integer":
        return {"type": "integer", "minimum": 1, "maximum": 999, **_bounds(schema)}
    return schema


def _bounds(schema: JsonObject) -> JsonObject:
    return {k: schema[k] for k in ("minimum", "maximum") if k in schema}


def read_field(answer: Any) -> Any:
    """A field's value. Raises Misfit for a rambling text or a number beyond reason."""
    value = answer["value"]
    if isinstance(value, str):
        parts = value.lower().split()
        if not parts or len(parts) > 5 or len(set(parts)) < len(parts):
            raise Misfit(Reason.UNUSABLE_RESPONSE, f"«{value[:60]}» is no short value.")
    if isinstance(value, float):
        value = round(value, 2)
    if isinstance(value, int | float) and not isinstance(value, bool) and abs(value) > 10**6:
        raise Misfit(Reason.UNUSABLE_RESPONSE, f"{value} is beyond reason.")
    return value


async def _question(query: Query, model: Model, seed: int) -> Answer[Said]:
    """A question for the first withheld value."""
    api = query.api(query.intent[0].api)
    name = query.withheld[0]
    about = api.properties[name].get("description", "")
    stems = {w[:4] for w in f"{name.replace('_', ' ')} {about}".lower().split() if len(w) > 3}

    def read(answer: Any) -> str:
        words = answer["question"].lower().rstrip("?.").split()
        if not any(w[:4] in stems for w in words) or not 4 <= len(words) <= 18:
            raise Misfit(Reason.UNHELPFUL_ANSWER, f"«{answer['question']}» does not ask for {name}.")
        return str(answer["question"])

    answer = await ask(
        model,
        render(
            "simulator_question",
            {"wish": wish(api), "name": name.replace("_", " "), "about": about},
        ),
        read,
        schema=QUESTION,
        seed=seed,
        max_tokens=32,
    )
    return Answer((answer.value, []), answer.usage, answer.raw)


async def _answer(
    query: Query, messages: Sequence[Message], model: Model, senses: Senses, seed: int
) -> Answer[Said]:
    """The reply to what has been observed since the user spoke, one sentence a fact."""
    turn = 0 if query.withheld else sum(m.role == "user" for m in messages) - 1
    texts: list[str] = []
    usage, raw = Usage(), list[str]()
    for index, seen in outcomes(query, messages).items():
        intention = query.due[index]
        api = query.api(intention.api)
        if intention.turn != turn or not isinstance(seen.response, dict):
            continue
        told = [f for f in facts(api.fields, seen.response) if f.value not in (None, "")]
        said = await say_facts(
            model, "simulator_fact", wish(api), told, query.now, senses, seed_for(seed, index)
        )
        texts += said.value
        usage += said.usage
        raw += said.raw
    return Answer((_whole(" ".join(texts), senses, usage, raw), []), usage, tuple(raw))


async def _explain(
    query: Query, messages: Sequence[Message], model: Model, senses: Senses, seed: int
) -> Answer[Said]:
    """Why it cannot be done: no API fits, or the execution failed for good."""
    errors = [o.error for o in outcomes(query, messages).values() if o.error]
    goal = wish(query.api(query.intent[0].api))

    def read(answer: Any) -> str:
        words = answer["reply"].lower().rstrip(".").split()
        if not 5 <= len(words) <= 24 or len(set(words)) < 0.7 * len(words):
            raise Misfit(Reason.UNHELPFUL_ANSWER, f"«{answer['reply']}» explains nothing.")
        return str(answer["reply"])

    answer = await ask(
        model,
        render("simulator_explain", {"wish": goal, "error": errors[-1] if errors else ""}),
        read,
        schema=EXPLANATION,
        seed=seed,
        max_tokens=40,
    )
    text = _whole(answer.value, senses, answer.usage, list(answer.raw))
    return Answer((text, []), answer.usage, answer.raw)


def _whole(text: str, senses: Senses, usage: Usage, raw: list[str]) -> str:
    """A reply that some assistant would give. Raises Unusable."""
    odd = senses.odd_reply(text) if text else "There is nothing to say."
    if odd:
        raise Unusable(Reason.UNHELPFUL_ANSWER, odd, tuple(raw), usage)
    return text


async def speak(
    told: Sequence[tuple[Api, list[Fact]]],
    model: Model,
    now: dt.datetime,
    senses: Senses,
    seed: int,
    *,
    answering: bool,
) -> Answer[str]:
    """A later turn of the user: an answer to a question, or the next wish."""
    if not answering:
        parts = [(wish(api), group) for api, group in told]
        return await compose_request(model, parts, now, senses, seed)
    api, group = told[0]
    said = await say_facts(model, "query_detail", wish(api), group, now, senses, seed)
    text = read_request(" ".join(said.value), group, now, senses)
    return Answer(text, said.usage, said.raw)


def _last_user(messages: Sequence[Message]) -> str:
    return next((m.content or "" for m in reversed(messages) if m.role == "user"), "")


