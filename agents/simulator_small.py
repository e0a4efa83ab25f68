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
from dataclasses import dataclass
from typing import Any, TypeAlias

from toolloom.agents.ask import Answer, BadAnswer, Costs, NoUsableAnswer, ask, one
from toolloom.agents.plan import Act, Due, due, observed, outcomes, reference_values, told_by
from toolloom.agents.wording import (
    Fact,
    compose_request,
    joined,
    say_facts,
    stems,
    wish,
)
from toolloom.llm import Model
from toolloom.pipeline.apis.execution.results import Search
from toolloom.pipeline.checks.grounding import mentions, same
from toolloom.pipeline.checks.text.phrases import spans
from toolloom.pipeline.checks.transcript import known_functions
from toolloom.pipeline.checks.wording import odd_reply
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


@dataclass(frozen=True)
class SmallAssistant:
    """The assistant in a dialogue, whose next act a small model is asked for piece by piece."""

    query: Query
    messages: Sequence[Message]
    model: Model
    search: Search
    seed: int

    @property
    def said(self) -> str:
        """All that the user has said."""
        return "\n".join(m.content or "" for m in self.messages if m.role == "user")

    async def act(self) -> Answer[Said]:
        """The act that is due."""
        step = due(self.query, self.messages)
        if step.act is Act.SEARCH:
            return await self._search(step)
        if step.act is Act.CALL:
            return await self._call(step)
        if step.act is Act.ASK:
            return await self._question()
        return await (self._answer() if step.act is Act.ANSWER else self._explain())

    async def _search(self, step: Due) -> Answer[Said]:
        """Keywords for API Search that find what is needed, if there is something to find."""
        query = self.query
        wanted = query.api(query.due[step.calls[0]].api).function if step.calls else None

        async def read(answer: Any) -> str:
            keywords = str(answer["keywords"])
            words = keywords.split()
            if len(set(words)) < len(words):
                raise BadAnswer(Reason.UNUSABLE_RESPONSE, f"«{keywords}» repeats a word.")
            names = [d["name"] for d in await self.search(query.pool, keywords)]
            if wanted and wanted not in names:
                detail = f"«{keywords}» finds {names or 'nothing'}."
                raise BadAnswer(Reason.SEARCH_SKIPPED, detail)
            return keywords

        wishes = parts(self.said)
        searches = sum(m.name == API_SEARCH.function for m in self.messages)
        prompt = render("simulator_keywords", {"said": wishes[min(searches, len(wishes) - 1)]})
        answer: Answer[str] = await ask(
            self.model, prompt, read, schema=KEYWORDS, seed=self.seed, max_tokens=24
        )
        call = FunctionCall(name=API_SEARCH.function, arguments={"keywords": answer.value})
        return Answer((None, [call]), answer.costs)

    async def _call(self, step: Due) -> Answer[Said]:
        """The due calls: which function, then each of its arguments."""
        calls: list[FunctionCall] = []
        costs = Costs()
        for index in step.calls:
            earlier = [c.function for m in self.messages for c in m.tool_calls] if index else []
            called = [*earlier, *calls]
            api = self.query.api(self.query.due[index].api)
            name = await costs.take(self._name(api, [c.name for c in called]))
            filled = await costs.take(self._arguments(index, called))
            calls.append(FunctionCall(name=name, arguments=filled))
        return costs.answer((None, calls))

    async def _name(self, wanted: Api, called: Sequence[str]) -> Answer[str]:
        """The function to call, among those whose documentation shares most with what was said."""
        callable_now = set(known_functions(self.query, self.messages))
        said = next((m.content or "" for m in reversed(self.messages) if m.role == "user"), "")
        apis = [a for a in self.query.pool if a.function in callable_now]
        near = nearest(said, apis, [c for c in called if c != wanted.function])
        does = {a.function: a.description for a in apis}

        def read(answer: Any) -> str:
            name = str(answer["function"])
            if name != wanted.function:
                raise BadAnswer(Reason.API_HALLUCINATION, f"{name} is not what is needed.")
            return name

        return await ask(
            self.model,
            render("simulator_name", {"said": said, "functions": [(n, does[n]) for n in near]}),
            read,
            schema=one("function", {"enum": near}),
            seed=seed_for(self.seed, "name", len(called)),
            max_tokens=40,
            temperature=CHOOSING,
        )

    async def _arguments(self, index: int, called: Sequence[FunctionCall]) -> Answer[JsonObject]:
        """One question for each argument that the dialogue gives a value to."""
        intention = self.query.due[index]
        api = self.query.api(intention.api)
        wanted = {**intention.arguments, **reference_values(self.query, index, self.messages)}
        names = [n for n in api.properties if n in wanted]
        # Values that other calls have given to the same arguments.
        earlier = [c.arguments for c in called if isinstance(c.arguments, dict)]
        costs = Costs()
        values = await costs.take_all(
            self._argument(index, n, wanted[n], [a[n] for a in earlier if n in a]) for n in names
        )
        return costs.answer(dict(zip(names, values, strict=True)))

    async def _argument(
        self, index: int, name: str, wanted: Any, used: Sequence[Any]
    ) -> Answer[Any]:
        """One argument, chosen among the values that the user's words and observations offer."""
        query, said, results = self.query, self.said, observed(self.messages)
        api = query.api(query.due[index].api)
        schema = api.properties[name]
        if name in query.due[index].references:
            offered = offers(results, schema)
        else:
            offered = choices(api, name, said, query.now, whole=bool(query.withheld))
            if not any(same(o, wanted) for o in offered):  # the narrow view misses it
                offered = list(spans(said, {"title": name, **schema}, query.now))
            offered = [o for o in offered if o not in used] or offered

        def read(answer: Any) -> Any:
            value = answer["value"]
            if not same(value, wanted):
                raise BadAnswer(Reason.INTENT_MISMATCH, f"{name} = {value!r} is not meant.")
            return value

        if not any(same(o, wanted) for o in offered) and any(same(u, wanted) for u in used):
            offered = list(used)  # said before, and meant again
        if not any(same(o, wanted) for o in offered):
            detail = f"Nothing said offers a value for {name}: {offered[:8]}."
            raise NoUsableAnswer(Reason.UNGROUNDED_ARGUMENT, detail)
        about = schema.get("description", "")
        asked_for = {"said": said, "results": results, "name": name.replace("_", " ")}
        return await ask(
            self.model,
            render("simulator_argument", {**asked_for, "about": about}),
            read,
            schema=one("value", {"enum": offered}),
            seed=seed_for(self.seed, index, name),
            max_tokens=80,
            temperature=CHOOSING,
        )

    async def _question(self) -> Answer[Said]:
        """A question for the first withheld value."""
        api = self.query.api(self.query.intent[0].api)
        name = self.query.withheld[0]
        label, about = name.replace("_", " "), api.properties[name].get("description", "")
        beginnings = {w[:4] for w in f"{label} {about}".lower().split() if len(w) > 3}

        def read(answer: Any) -> str:
            question = str(answer["question"])
            words = question.lower().rstrip("?.").split()
            if not any(w[:4] in beginnings for w in words) or not 4 <= len(words) <= 18:
                raise BadAnswer(Reason.UNHELPFUL_ANSWER, f"«{question}» does not ask for {name}.")
            return question

        prompt = render("simulator_question", {"wish": wish(api), "name": label, "about": about})
        answer = await ask(self.model, prompt, read, schema=QUESTION, seed=self.seed, max_tokens=32)
        return Answer((answer.value, []), answer.costs)

    async def _answer(self) -> Answer[Said]:
        """The reply to what has been observed since the user spoke, one sentence a fact."""
        query = self.query
        turn = 0 if query.withheld else sum(m.role == "user" for m in self.messages) - 1
        texts: list[str] = []
        costs = Costs()
        for index, seen in outcomes(query, self.messages).items():
            api = query.api(query.due[index].api)
            if query.due[index].turn == turn and seen.error is None:
                told, seed = told_by(api, seen.response), seed_for(self.seed, index)
                texts += await say_facts(
                    costs, self.model, "simulator_fact", wish(api), told, query.now, seed, enough=1
                )
        while len(texts) > 1 and odd_reply(" ".join(texts)):
            texts.pop()  # one fact more than can be told without saying the same over and over
        return costs.answer((_whole(" ".join(texts), costs), []))

    async def _explain(self) -> Answer[Said]:
        """Why it cannot be done: no API fits, or the execution failed for good."""
        errors = [o.error for o in outcomes(self.query, self.messages).values() if o.error]
        said = re.split(r"(?<=[.?!])\s+", self.query.text)[0]

        def read(answer: Any) -> str:
            reply = str(answer["reply"])
            words = reply.lower().rstrip(".").split()
            if not 5 <= len(words) <= 24 or len(set(words)) < 0.7 * len(words):
                raise BadAnswer(Reason.UNHELPFUL_ANSWER, f"«{reply}» explains nothing.")
            return reply

        costs = Costs()
        prompt = render("simulator_explain", {"said": said, "error": errors[-1] if errors else ""})
        text = await costs.take(
            ask(self.model, prompt, read, schema=EXPLANATION, seed=self.seed, max_tokens=40)
        )
        return costs.answer((_whole(text, costs), []))


def _whole(text: str, costs: Costs) -> str:
    """A reply that some assistant would give. Raises NoUsableAnswer."""
    odd = odd_reply(text) if text else "There is nothing to say."
    if odd:
        raise costs.failure(BadAnswer(Reason.UNHELPFUL_ANSWER, odd))
    return text


async def speak(
    told: Sequence[tuple[Api, list[Fact]]],
    model: Model,
    now: dt.datetime,
    seed: int,
    *,
    purpose: str,
) -> Answer[str]:
    """A later turn of the user: an answer to a question, a correction, or the next wish."""
    if purpose == "wish":
        parts = [(wish(api), group) for api, group in told]
        return await compose_request(model, parts, now, seed)
    api, group = told[0]
    costs = Costs()
    said = await say_facts(costs, model, "query_detail", wish(api), group, now, seed)
    return joined(said, group, now, costs)


# What a dialogue offers to choose from is narrowed to what was said, by words that are shared;
# never by what the query means.


def choices(api: Api, name: str, said: str, now: dt.datetime, *, whole: bool) -> list[Any]:
    """Values that the user's words offer for an argument.

    `whole`: look at all that was said, not only at the part that asks for this API.
    """
    schema = {"title": name, **api.properties[name]}
    if schema.get("type") == "boolean":
        return [True, False]
    part = said if whole else segment(said, api)
    # «US dollars» says what the documentation calls `usd`.
    documented = [v for v in schema.get("examples", ()) if mentions(part, v, schema, now)]
    if documented:
        return documented
    if schema.get("type") == "array":  # of its items, each alone
        items = schema.get("items")
        item = {"type": "string", **(items if isinstance(items, dict) else {}), "examples": []}
        properties = {**api.properties, name: {**api.properties[name], **item}}
        one = api.model_copy(update={"parameters": {**api.parameters, "properties": properties}})
        return [[value] for value in choices(one, name, said, now, whole=whole)]
    found = list(spans(" ".join(passages(api, name, part)), schema, now))
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
