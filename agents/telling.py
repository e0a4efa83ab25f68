"""Words for a dialogue in a world whose calls are settled: the query agent on a capable model.

One request words the whole dialogue, as turns that are worded apart do not follow from each other.
"""

from __future__ import annotations

import json
import re
from typing import Any

from toolloom.agents.ask import Answer, BadAnswer, Job, ask, shape
from toolloom.prompts import Prompt, render
from toolloom.schemas import JsonObject, Need, Part, Reason, Setting

LONGEST = 1_500  # characters of a result that are shown
MOST = 220  # tokens of a turn's words


def words_schema(turns: int) -> JsonObject:
    """Shape of the answer: so many turns."""
    text: JsonObject = {"type": "string"}
    turn = shape({"user": text, "assistant": text})
    each = {"type": "array", "items": turn, "minItems": turns, "maxItems": turns}
    return shape({"person": text, "turns": each})


def question(need: Need, setting: Setting, now: str) -> Prompt:
    """The prompt for all words."""
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
            "now": now,
            "rules": list(setting.told),
            "tools": [(api.source.operation, api.description) for api in own],
            "parts": lines,
            "turns": turn,
            "language": need.language,
        },
    )


def read(answer: Any, setting: Setting) -> tuple[Part, ...]:
    """The story with its words. Raises BadAnswer for a turn without words, and for a user who
    says what only results show."""
    turns = iter(answer["turns"])
    keys = _keys(setting)
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


def _keys(setting: Setting) -> list[str]:
    """Keys of all rows, which people do not know."""
    tables = setting.start["tables"].values()
    return [key for rows in tables for key in rows if re.search(r"\d", key)]


async def tell(need: Need, setting: Setting, now: str, job: Job) -> Answer[tuple[Part, ...]]:
    """The story of a need with all its words. Raises NoUsableAnswer."""
    turns = sum(part.role == "user" for part in setting.story)
    return await ask(
        job.model,
        question(need, setting, now),
        lambda answer: read(answer, setting),
        schema=words_schema(turns),
        seed=job.seed,
        max_tokens=100 + MOST * turns,
    )
