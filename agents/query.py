"""The query agent: puts a drawn need into a user's words (API-Bank, section 4, third agent).

Of a task in a world, whose calls are settled, one request words the whole dialogue, as turns that
are worded apart do not follow from each other.
"""

from __future__ import annotations

import datetime as dt
import json
import re
from typing import Any

from toolloom.agents.ask import Answer, BadAnswer, Costs, Job, NoUsableAnswer, ask, shape
from toolloom.agents.wording import Fact, drawn, facts, read_request
from toolloom.pipeline.checks.grounding import mentions
from toolloom.prompts import Prompt, render
from toolloom.schemas import Api, JsonObject, Need, Outcome, Part, Query, Reason, Setting

LONGEST = 1_500  # characters of a result that are shown to who words a dialogue
MOST = 220  # tokens of a turn's words


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
    told = [f for _, group in goals(need) for f in group]
    text = read_request(text.strip().strip('"'), told, need.now)
    for fact in withheld(need):
        if mentions(text, fact.value, fact.schema, need.now):
            raise BadAnswer(Reason.VALUE_GIVEN_AWAY, f"The text says {fact.name} = {fact.shown}.")
    return text


async def word(need: Need, job: Job) -> Answer[str]:
    """The first turn. Raises NoUsableAnswer."""
    return await ask(
        job.model,
        question(need),
        lambda a: read(a, need),
        seed=job.seed,
        max_tokens=200,
    )


# --- all words of a dialogue in a world ------------------------------------------------------


def world_question(need: Need, setting: Setting) -> Prompt:
    """The prompt for the words of all turns."""
    lines, turn = list[str](), 0
    for part in setting.story:
        if part.role == "call":
            lines.append(f"→ {part.name}({json.dumps(part.arguments, ensure_ascii=False)})")
            lines.append(f"← {part.result[:LONGEST]}")
        else:
            turn += part.role == "user"
            about = f" {part.says}" if part.says else ""
            lines.append(f"{part.role.capitalize()} {turn}:{about}")
    own = [api for api in need.pool if api.source.reference == setting.world]
    return render(
        "world_words",
        {
            "now": moment(need.now),
            "rules": list(setting.told),
            "tools": [(api.source.operation, api.description) for api in own],
            "parts": lines,
            "turns": turn,
            "language": need.language,
        },
    )


def read_story(answer: Any, setting: Setting) -> tuple[Part, ...]:
    """The story with its words. Raises BadAnswer for a turn without words, and for a user who
    says a key, which only results show."""
    turns = iter(answer["turns"])
    tables = setting.start["tables"].values()
    keys = [key for rows in tables for key in rows if re.search(r"\d", key)]
    story, turn = list[Part](), dict[str, str]()
    for part in setting.story:
        if part.role == "call":
            story.append(part)
            continue
        if part.role == "user":
            turn = next(turns)
        text = turn[part.role].strip()
        if not text:
            raise BadAnswer(Reason.UNUSABLE_RESPONSE, f"A turn of the {part.role} has no words.")
        hidden = [key for key in keys if key in text and key not in part.says]
        if part.role == "user" and hidden:
            detail = f"The user says {hidden[0]}, which no person knows: say what it is."
            raise BadAnswer(Reason.UNNATURAL_QUERY, detail)
        story.append(part.model_copy(update={"words": (text,)}))
    return tuple(story)


async def word_all(need: Need, setting: Setting, job: Job) -> Answer[tuple[Part, ...]]:
    """The story of a need with all its words. Raises NoUsableAnswer."""
    count = sum(part.role == "user" for part in setting.story)
    text: JsonObject = {"type": "string"}
    turn = shape({"user": text, "assistant": text})
    turns = {"type": "array", "items": turn, "minItems": count, "maxItems": count}
    return await ask(
        job.model,
        world_question(need, setting),
        lambda answer: read_story(answer, setting),
        schema=shape({"person": text, "turns": turns}),
        seed=job.seed,
        max_tokens=100 + MOST * count,
    )


async def run(need: Need, job: Job) -> Outcome:
    """The need as a query, or rejected with what its words lack."""
    fields = {name: getattr(need, name) for name in Need.model_fields}
    try:
        if need.setting is None:
            answer = await word(need, job)
        elif words := need.setting.story[0].words:  # they are written
            answer = Answer(drawn(words, job.seed, 0), Costs())
        else:
            told = await word_all(need, need.setting, job)
            fields["setting"] = need.setting.model_copy(update={"story": told.value})
            answer = Answer(told.value[0].words[0], told.costs)
    except NoUsableAnswer as why:
        return Outcome(rejected=(job.reject(need, why),))
    parents = [api.id for api in need.needed]
    query = Query(
        **fields,
        text=answer.value,
        provenance=job.provenance(answer.costs, parents),
    )
    return Outcome(accepted=(query,))
