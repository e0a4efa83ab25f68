"""The simulator's way with a small model: the act that is due, one small question at a time.

Arguments are chosen among the values that the dialogue offers, observations are made field by
field, replies sentence by sentence (one argument or one fact a question).

What is asked is planned by the query's intent, and an answer that misses the intent is asked for
again: rejection sampling. The questions themselves hold only what the dialogue and the
documentation known in it say.
"""

from __future__ import annotations

import datetime as dt
import re
from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

from toolloom.agents.ledger import Ledger
from toolloom.agents.likeness import stems
from toolloom.agents.plan import (
    Act,
    Due,
    due,
    known_functions,
    observed,
    outcomes,
    reference_values,
)
from toolloom.agents.wording import (
    Fact,
    Senses,
    compose_request,
    facts,
    joined,
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

CHOOSING = 1.0  # temperature of a choice: a colder one only repeats its first mistake

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
    {
        "type": "string",
        "pattern": "^(What|Which|Could you tell me|Please tell me)( [a-z']+)+[?.]$",
        "maxLength": 120,
    },
)
EXPLANATION = one(
    "reply",
    {
        "type": "string",
        "pattern": "^(I am sorry, but I cannot|Unfortunately I cannot)( [a-z',-]+)+\\.$",
    },
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
        words = answer["keywords"].split()
        if len(set(words)) < len(words):
            raise Misfit(Reason.UNUSABLE_RESPONSE, f"«{answer['keywords']}» repeats a word.")
        found = [d["name"] for d in search(query.pool, answer["keywords"])]
        if wanted and wanted not in found:
            raise Misfit(
                Reason.SEARCH_SKIPPED, f"«{answer['keywords']}» finds {found or 'nothing'}."
            )
        return str(answer["keywords"])

    wishes = parts("\n".join(m.content or "" for m in messages if m.role == "user"))
    searches = sum(m.name == API_SEARCH.function for m in messages)
    answer = await ask(
        model,
        render("simulator_keywords", {"said": wishes[min(searches, len(wishes) - 1)]}),
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
    ledger = Ledger()
    for index in step.calls:
        api = query.api(query.due[index].api)
        done = [c for m in messages for c in m.tool_calls] if index else []
        called = [*(c.function for c in done), *calls]
        names = [c.name for c in called]
        name = await ledger.take(_name(query, messages, api, names, model, seed))
        filled = await ledger.take(_arguments(query, messages, index, called, model, senses, seed))
        calls.append(FunctionCall(name=name, arguments=filled))
    return ledger.answer((None, calls))


async def _name(
    query: Query,
    messages: Sequence[Message],
    wanted: Api,
    called: Sequence[str],
    model: Model,
    seed: int,
) -> Answer[str]:
    """The function to call, among those whose documentation shares most with what was said."""
    known = set(known_functions(query, messages))
    said = _last_user(messages)
    apis = [a for a in query.pool if a.function in known]
    near = nearest(said, apis, [c for c in called if c != wanted.function])
    does = {a.function: a.description for a in apis}

    def read(answer: Any) -> str:
        if answer["function"] != wanted.function:
            raise Misfit(Reason.API_HALLUCINATION, f"{answer['function']} is not what is needed.")
        return str(answer["function"])

    return await ask(
        model,
        render(
            "simulator_name",
            {
                "said": said,
                "functions": [(n, does[n]) for n in near],
            },
        ),
        read,
        schema=one("function", {"enum": near}),
        seed=seed_for(seed, "name", len(called)),
        max_tokens=40,
        temperature=CHOOSING,
    )


async def _arguments(
    query: Query,
    messages: Sequence[Message],
    index: int,
    called: Sequence[FunctionCall],
    model: Model,
    senses: Senses,
    seed: int,
) -> Answer[JsonObject]:
    """One question for each argument that the dialogue gives a value to."""
    intention = query.due[index]
    api = query.api(intention.api)
    wanted = {**intention.arguments, **reference_values(query, index, messages)}
    names = [n for n in api.properties if n in wanted]
    ledger = Ledger()
    values = await ledger.take_all(
        _argument(
            query,
            messages,
            index,
            n,
            wanted[n],
            _used(called, n),
            model,
            senses,
            seed_for(seed, index, n),
        )
        for n in names
    )
    return ledger.answer(dict(zip(names, values, strict=True)))


def _used(called: Sequence[FunctionCall], name: str) -> list[Any]:
    """Values that other calls have given to the same argument."""
    objects = [c.arguments for c in called if isinstance(c.arguments, dict)]
    return [o[name] for o in objects if name in o]


async def _argument(
    query: Query,
    messages: Sequence[Message],
    index: int,
    name: str,
    wanted: Any,
    used: Sequence[Any],
    model: Model,
    senses: Senses,
    seed: int,
) -> Answer[Any]:
    """One argument, chosen among the values that the user's words and observations offer."""
    api = query.api(query.due[index].api)
    schema = api.properties[name]
    said = "\n".join(m.content or "" for m in messages if m.role == "user")
    if name in query.due[index].references:
        offered = offers(observed(messages), schema)
    else:
        offered = choices(api, name, said, query.now, senses, whole=bool(query.withheld))
        offered = [o for o in offered if o not in used] or offered

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
                "name": name.replace("_", " "),
                "about": schema.get("description", ""),
            },
        ),
        read,
        schema=one("value", {"enum": offered}),
        seed=seed,
        max_tokens=80,
        temperature=CHOOSING,
    )


def choices(
    api: Api, name: str, said: str, now: dt.datetime, senses: Senses, *, whole: bool
) -> list[Any]:
    """Values that the user's words offer for an argument.

    `whole`: look at all that was said, not only at the part that asks for this API.
    """
    schema = api.properties[name]
    if schema.get("type") == "boolean":
        return [True, False]
    part = said if whole else segment(said, api)
    found = list(senses.spans(" ".join(passages(api, name, part)), schema, now))
    return [v for v in found if not _label(v, api, name)] or found


def offers(responses: Sequence[Any], schema: JsonObject) -> list[Any]:
    """Observed values of the type of a schema, for an argument that nobody has said."""
    kinds = {"integer": (int,), "number": (int, float)}.get(schema.get("type", ""), (str,))
    values = [v for r in responses if isinstance(r, dict) for v in r.values()]
    found = [v for v in values if isinstance(v, kinds) and not isinstance(v, bool)]
    return list({canonical(v): v for v in found}.values())


def segment(said: str, api: Api) -> str:
    """The part of a request that asks for an API: the one that shares most words with it."""
    return max(parts(said), key=lambda part: _shared(part, api))


def parts(said: str) -> list[str]:
    """A request's wishes: its turns, and in them what follows on «also», «then» or «after»."""
    return re.split(r"(?<=[.?!])\s+(?=(?:Also|Then|After|I also)\b)|\n", said)


def nearest(said: str, apis: Sequence[Api], called: Sequence[str]) -> list[str]:
    """The functions that share most words with the first wish that no call has served."""
    free = [a for a in apis if a.function not in called] or list(apis)
    for part in parts(said):
        most = max(_shared(part, a) for a in apis)
        best = [a.function for a in apis if _shared(part, a) == most]
        if not set(best) <= set(called):
            return [name for name in best if name not in called]
    return [a.function for a in free]


def _shared(text: str, api: Api) -> int:
    known = set(stems(f"{api.name} {api.description} {' '.join(api.properties)}"))
    return len(known & set(stems(text)))


def passages(api: Api, name: str, said: str) -> list[str]:
    """The sentences that may speak of an argument.

    Those that name it; else those that name no other argument and are more than the wish.
    """
    sentences = re.split(r"(?<=[.?!])\s+", said)
    naming = [s for s in sentences if set(stems(name)) & set(stems(s))]
    if naming:
        return naming
    others = {stem for other in api.properties if other != name for stem in stems(other)}
    goal = set(stems(api.description))
    free = [s for s in sentences if not others & set(stems(s)) and set(stems(s)) - goal]
    return free or sentences


def _label(value: Any, api: Api, name: str) -> bool:
    """Whether a span is the argument's name, a piece of the wish, or a clause about a value."""
    if not isinstance(value, str):
        return False
    words = value.lower().split()
    return (
        "".join(words) in name.lower().replace("_", "")
        or set(stems(value)) <= {*stems(name), *stems(api.description)}
        or bool({"is", "are", "be"} & set(words))
    )


def same(value: Any, wanted: Any, schema: JsonObject, now: dt.datetime, senses: Senses) -> bool:
    """Whether a chosen value says what is meant: equal, or a text that mentions it in full."""
    if isinstance(value, str) and isinstance(wanted, str):
        folded = " ".join(value.lower().split()), " ".join(wanted.lower().split())
        if folded[0] == folded[1]:
            return True
        close = len(folded[0]) <= len(folded[1]) + 4
        both = ((value, wanted), (wanted, value))  # «Dollar» is said by «US Dollar», not the same
        return close and all(senses.mentions(a, b, schema, now) for a, b in both)
    return bool(value == wanted)


async def observe(api: Api, call: FunctionCall, model: Model, seed: int) -> Answer[JsonObject]:
    """A response, field by field, each held to its schema."""
    names, ledger = list(api.fields), Ledger()
    values = await ledger.take_all(
        _field(api, call, n, model, seed_for(seed, api.function, n)) for n in names
    )
    return ledger.answer(dict(zip(names, values, strict=True)))


async def _field(api: Api, call: FunctionCall, name: str, model: Model, seed: int) -> Answer[Any]:
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
        schema=one("value", narrowed(name, schema)),
        seed=seed,
        max_tokens=32,
    )


BY_NAME = (
    (("date", "at", "day", "expires", "start", "end"), {"format": "date"}),
    (("id", "code", "number", "reference"), {"pattern": "^[A-Z][A-Z]-[0-9][0-9][0-9]$"}),
    (("price", "total", "amount", "cost", "value"), {"pattern": "^[0-9]+\\.[0-9][0-9]$"}),
    (("time", "airtime"), {"pattern": "^(1[0-9]|2[0-3]):[0-5][0-9]$"}),
    (("url", "link"), {"pattern": "^https://[a-z]+\\.example/[a-z]+$"}),
)
"""Shapes of text fields, by the last word of their name."""


def narrowed(name: str, schema: JsonObject) -> JsonObject:
    """A field's schema, tight enough that a small model comes to an end."""
    kind = schema.get("type")
    last = name.lower().split("_")[-1]
    for names, form in BY_NAME if kind == "string" else ():
        if last in names and not {"enum", "format", "pattern"} & set(schema):
            return {"type": "string", **form}
    if schema.get("enum") or schema.get("format") or kind == "boolean":
        return schema
    if kind == "string":
        return {"type": "string", "pattern": "^[A-Z0-9][A-Za-z0-9 ,.:'/-]*$", "maxLength": 40}
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
            raise Misfit(
                Reason.UNHELPFUL_ANSWER, f"«{answer['question']}» does not ask for {name}."
            )
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
    ledger = Ledger()
    for index, seen in outcomes(query, messages).items():
        intention = query.due[index]
        api = query.api(intention.api)
        if intention.turn != turn or not isinstance(seen.response, dict):
            continue
        told = [f for f in facts(api.fields, seen.response) if f.value not in (None, "")]
        texts += await say_facts(
            ledger,
            model,
            "simulator_fact",
            wish(api),
            told,
            query.now,
            senses,
            seed_for(seed, index),
            enough=1,
        )
    return ledger.answer((_whole(" ".join(texts), senses, ledger), []))


async def _explain(
    query: Query, messages: Sequence[Message], model: Model, senses: Senses, seed: int
) -> Answer[Said]:
    """Why it cannot be done: no API fits, or the execution failed for good."""
    errors = [o.error for o in outcomes(query, messages).values() if o.error]
    said = re.split(r"(?<=[.?!])\s+", query.text)[0]

    def read(answer: Any) -> str:
        words = answer["reply"].lower().rstrip(".").split()
        if not 5 <= len(words) <= 24 or len(set(words)) < 0.7 * len(words):
            raise Misfit(Reason.UNHELPFUL_ANSWER, f"«{answer['reply']}» explains nothing.")
        return str(answer["reply"])

    ledger = Ledger()
    text = await ledger.take(
        ask(
            model,
            render("simulator_explain", {"said": said, "error": errors[-1] if errors else ""}),
            read,
            schema=EXPLANATION,
            seed=seed,
            max_tokens=40,
        )
    )
    return ledger.answer((_whole(text, senses, ledger), []))


def _whole(text: str, senses: Senses, ledger: Ledger) -> str:
    """A reply that some assistant would give. Raises Unusable."""
    odd = senses.odd_reply(text) if text else "There is nothing to say."
    if odd:
        raise ledger.fault(Misfit(Reason.UNHELPFUL_ANSWER, odd))
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
    ledger = Ledger()
    said = await say_facts(ledger, model, "query_detail", wish(api), group, now, senses, seed)
    return joined(said, group, now, senses, ledger)


def _last_user(messages: Sequence[Message]) -> str:
    return next((m.content or "" for m in reversed(messages) if m.role == "user"), "")
