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
from collections.abc import Sequence
from typing import Any, TypeAlias

from toolloom.agents.choices import choices, nearest, offers, parts
from toolloom.agents.ledger import Ledger
from toolloom.agents.plan import Act, Due, due, observed, outcomes, reference_values
from toolloom.agents.results import told_by
from toolloom.agents.shapes import one
from toolloom.agents.wording import (
    Fact,
    Senses,
    compose_request,
    joined,
    say_facts,
    wish,
)
from toolloom.llm import Answer, Misfit, Model, Unusable, Usage, ask
from toolloom.pipeline.apis.execution.executor import Search
from toolloom.pipeline.checks.transcript import known_functions
from toolloom.prompts import render
from toolloom.schemas import (
    API_SEARCH,
    Api,
    FunctionCall,
    JsonObject,
    Message,
    Query,
    Reason,
    seed_for,
)

CHOOSING = 1.0  # temperature of a choice: a colder one only repeats its first mistake

Said: TypeAlias = tuple[str | None, list[FunctionCall]]


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

    async def read(answer: Any) -> str:
        words = answer["keywords"].split()
        if len(set(words)) < len(words):
            raise Misfit(Reason.UNUSABLE_RESPONSE, f"«{answer['keywords']}» repeats a word.")
        found = [d["name"] for d in await search(query.pool, answer["keywords"])]
        if wanted and wanted not in found:
            raise Misfit(
                Reason.SEARCH_SKIPPED, f"«{answer['keywords']}» finds {found or 'nothing'}."
            )
        return str(answer["keywords"])

    wishes = parts("\n".join(m.content or "" for m in messages if m.role == "user"))
    searches = sum(m.name == API_SEARCH.function for m in messages)
    answer: Answer[str] = await ask(
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
        if not any(senses.same(o, wanted) for o in offered):  # the narrow view misses it
            offered = list(senses.spans(said, {"title": name, **schema}, query.now))
        offered = [o for o in offered if o not in used] or offered

    def read(answer: Any) -> Any:
        if not senses.same(answer["value"], wanted):
            raise Misfit(Reason.INTENT_MISMATCH, f"{name} = {answer['value']!r} is not meant.")
        return answer["value"]

    if not any(senses.same(o, wanted) for o in offered) and any(
        senses.same(u, wanted) for u in used
    ):
        offered = list(used)  # said before, and meant again
    if not any(senses.same(o, wanted) for o in offered):
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
        if intention.turn != turn or seen.error is not None:
            continue
        told = told_by(api, seen.response)
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
    while len(texts) > 1 and senses.odd_reply(" ".join(texts)):
        texts.pop()  # one fact more than can be told without saying the same over and over
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
    purpose: str,
) -> Answer[str]:
    """A later turn of the user: an answer to a question, a correction, or the next wish."""
    if purpose == "wish":
        parts = [(wish(api), group) for api, group in told]
        return await compose_request(model, parts, now, senses, seed)
    api, group = told[0]
    ledger = Ledger()
    said = await say_facts(ledger, model, "query_detail", wish(api), group, now, senses, seed)
    return joined(said, group, now, senses, ledger)


def _last_user(messages: Sequence[Message]) -> str:
    return next((m.content or "" for m in reversed(messages) if m.role == "user"), "")
