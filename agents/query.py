"""The query agent: puts a drawn need into a user's words (API-Bank, section 4, third agent).

Of a task in a world, whose calls are settled, one request words the whole dialogue, as turns that
are worded apart do not follow from each other.
"""

from __future__ import annotations

import datetime as dt
import json
import re
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

from toolloom.agents.ask import Answer, BadAnswer, Costs, Job, NoUsableAnswer, ask, shape
from toolloom.pipeline.checks.form import odd_request
from toolloom.pipeline.checks.grounding import mentions
from toolloom.prompts import Prompt, render
from toolloom.schemas import (
    Api,
    JsonObject,
    Message,
    Need,
    Outcome,
    Query,
    Reason,
    Scenario,
    Setting,
    Turn,
)

MOST = 220  # tokens of a turn's words


@dataclass(frozen=True)
class Fact:
    """A value that a text must tell, with what it means."""

    name: str
    about: str
    value: Any
    schema: JsonObject

    @property
    def label(self) -> str:
        return self.name.replace("_", " ")

    @property
    def shown(self) -> str:
        """The value as a person would write it."""
        if isinstance(self.value, bool):
            return "yes" if self.value else "no"
        if isinstance(self.value, list):
            return ", ".join(str(v) for v in self.value)
        if isinstance(self.value, dict):
            return ", ".join(f"{k.replace('_', ' ')} {v}" for k, v in self.value.items())
        return str(self.value)


def facts(schemas: dict[str, JsonObject], values: JsonObject) -> list[Fact]:
    """Facts of an object of values."""
    known = {name: {"title": name, **schemas.get(name, {})} for name in values}
    return [
        Fact(name, known[name].get("description", ""), value, known[name])
        for name, value in values.items()
    ]


def read_request(text: str, told: Sequence[Fact], now: dt.datetime) -> str:
    """A user's text. Raises BadAnswer if a value is missing from it or no user would say it."""
    text = " ".join(text.strip().strip('"').split())
    if not text:
        raise BadAnswer(Reason.UNUSABLE_RESPONSE, "The text is empty.")
    if missing := [fact for fact in told if not mentions(text, fact.value, fact.schema, now)]:
        names = ", ".join(f"{f.name} = {f.shown}" for f in missing)
        raise BadAnswer(Reason.VALUE_NOT_MENTIONED, f"The text does not say {names}.")
    if odd := odd_request(text):
        raise BadAnswer(Reason.UNNATURAL_QUERY, odd)
    return text


def transcript(messages: Sequence[Message]) -> list[tuple[str, str]]:
    """A dialogue as (speaker, text) lines for a prompt; the system turn is left out."""
    lines: list[tuple[str, str]] = []
    for message in messages:
        if message.role == "user":
            lines.append(("User", message.content or ""))
        elif message.role == "tool":
            lines.append((f"Result of {message.name}", message.content or ""))
        elif message.role == "assistant":
            for call in (c.function for c in message.tool_calls):
                arguments = json.dumps(call.arguments, ensure_ascii=False)
                lines.append(("Call", f"{call.name}({arguments})"))
            if message.content:
                lines.append(("Assistant", message.content))
    return lines


def moment(now: dt.datetime) -> str:
    """The present as a dialogue tells it: weekday, date and time."""
    return f"{now:%A %Y-%m-%d %H:%M}"


def goals(need: Need, turn: int = 0) -> list[tuple[Api, list[Fact]]]:
    """What the user asks for in a turn, with the values told there."""
    found = []
    for index, intention in enumerate(need.intent):
        if intention.turn == turn:
            api = need.api(intention.api)
            hidden = need.withheld if index == 0 else ()
            told = {k: v for k, v in intention.arguments.items() if k not in hidden}
            found.append((api, facts(api.properties, told)))
    return found


def withheld(need: Need) -> list[Fact]:
    """What the user leaves out at first and tells when asked."""
    if not need.withheld:
        return []
    intention = need.intent[0]
    kept = {k: intention.arguments[k] for k in need.withheld}
    return facts(need.api(intention.api).properties, kept)


def question(need: Need) -> Prompt:
    """The prompt for the first turn, whole."""
    return render(
        "query",
        {
            "wishes": [{"does": a.description, "facts": told} for a, told in goals(need)],
            "hidden": [f"{f.label} ({f.about})" for f in withheld(need)],
            "later": [r.replace("_", " ") for i in need.intent for r in i.references],
            "language": need.language,
            "now": moment(need.now),
        },
    )


def read(text: str, need: Need) -> str:
    """The first turn. Raises BadAnswer if a value is missing, given away or oddly worded."""
    text = read_request(text, [f for _, group in goals(need) for f in group], need.now)
    for fact in withheld(need):
        if mentions(text, fact.value, fact.schema, need.now):
            raise BadAnswer(Reason.VALUE_GIVEN_AWAY, f"The text says {fact.name} = {fact.shown}.")
    return text


# --- all words of a dialogue in a world ------------------------------------------------------


def read_words(answer: Any, setting: Setting) -> tuple[Turn, ...]:
    """The words of all turns. Raises BadAnswer for a turn without words, and for a user who says a
    key, which only results show."""
    turns = tuple(
        Turn(user=turn["user"].strip(), assistant=turn["assistant"].strip())
        for turn in answer["turns"]
    )
    keys = [
        key for rows in setting.start["tables"].values() for key in rows if re.search(r"\d", key)
    ]
    for turn, plan in zip(turns, setting.plan, strict=True):
        for role, text in turn:
            if not text:
                detail = f"A turn of the {role} has no words."
                raise BadAnswer(Reason.UNUSABLE_RESPONSE, detail)
        if hidden := [key for key in keys if key in turn.user and key not in plan.user]:
            detail = f"The user says {hidden[0]}, which no person knows: say what it is."
            raise BadAnswer(Reason.UNNATURAL_QUERY, detail)
    return turns


Problem: TypeAlias = Callable[[tuple[Turn, ...]], Awaitable[str]]
"""What is wrong with words once the calls are made around them; empty: nothing."""


async def word_all(
    need: Need, lines: Sequence[str], problem: Problem, job: Job
) -> Answer[tuple[Turn, ...]]:
    """The words of a solved task, all turns at once; `lines`: calls, results, and what is to be
    said. Raises NoUsableAnswer."""
    assert need.setting
    setting, count = need.setting, len(need.setting.plan)
    own = [api for api in need.pool if api.source.reference == setting.world]
    if need.ability.searches and need.scenario is not Scenario.CONFIRMATION:
        # Of the others, not called and not refused, nothing may have been found.
        named = set(re.findall(r"\w+", " ".join(lines)))
        own = [api for api in own if api.source.operation in named]
    told = {
        "now": moment(need.now),
        "rules": list(setting.told),
        "tools": [(api.source.operation, api.description) for api in own],
        "parts": list(lines),
        "turns": count,
        "language": need.language,
    }
    judged = False

    async def read(answer: Any) -> tuple[Turn, ...]:
        """The words; none if nobody would want this. Once they go back for what no call bears out:
        then the tester has the last word."""
        nonlocal judged
        words = read_words(answer, setting) if answer["likely"] else ()
        if words and not judged:
            judged = True
            if wrong := await problem(words):
                advice = "Say it as the results and rules have it, or leave it out."
                raise BadAnswer(Reason.UNGROUNDED_ANSWER, f"{wrong}. {advice}")
        return words

    text: JsonObject = {"type": "string"}
    turn = shape({"user": text, "assistant": text})
    turns = {"type": "array", "items": turn, "minItems": count, "maxItems": count}
    fields = {"person": text, "turns": turns, "likely": {"type": "boolean"}}
    answer: Answer[tuple[Turn, ...]] = await ask(
        job.model,
        render("world_words", told),
        read,
        schema=shape(fields),
        seed=job.seed,
        max_tokens=100 + MOST * count,
    )
    if not answer.value:
        detail = "The query agent says that nobody would want this."
        raise NoUsableAnswer(Reason.UNNATURAL_QUERY, detail, answer.costs)
    return answer


async def run(
    need: Need, job: Job, lines: Sequence[str] = (), problem: Problem | None = None
) -> Outcome:
    """The need as a query, or rejected with what its words lack. Of a task of a world, `lines` are
    its calls and results, and what is to be said; `problem` judges the words."""
    fields = dict(need)
    answer: Answer[Any]
    try:
        if need.setting and need.setting.script:
            answer = Answer(need.text, Costs())
        elif need.setting is None:
            answer = await ask(
                job.model, question(need), lambda a: read(a, need), seed=job.seed, max_tokens=200
            )
        else:
            assert problem
            answer = await word_all(need, lines, problem, job)
            fields["setting"] = need.setting.model_copy(update={"words": answer.value})
            answer = Answer(answer.value[0].user, answer.costs)
    except NoUsableAnswer as why:
        return Outcome(rejected=(job.reject(need, why),))
    provenance = job.provenance(answer.costs, [api.id for api in need.needed])
    return Outcome((Query(**{**fields, "text": answer.value, "provenance": provenance}),))
