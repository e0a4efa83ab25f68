"""Conditions under which the words of a script stay true: asked once, of a dialogue that was made
into one. What comes back is read and tried by those who asked: it may be wrong in any way.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from toolloom.agents.ask import Answer, Job, ask, shape
from toolloom.prompts import render
from toolloom.schemas import JsonObject

MOST = 8  # conditions
SHAPE = shape({"conditions": {"type": "array", "items": {"type": "string"}, "maxItems": MOST}})


def read(answer: Any) -> tuple[str, ...]:
    """The conditions, each once, in order."""
    texts = (" ".join(text.split()) for text in answer["conditions"])
    return tuple(dict.fromkeys(text for text in texts if text))


async def conditions(
    world: JsonObject, names: Sequence[str], script: str, job: Job
) -> Answer[tuple[str, ...]]:
    """Conditions for a script, as text; `names`: what can stand in them. Raises NoUsableAnswer."""
    tables = [
        (name, ", ".join([spec["key"], *spec["fields"]]))
        for name, spec in world["entities"].items()
    ]
    prompt = render(
        "conditions",
        {"about": world["about"], "tables": tables, "names": list(names), "script": script},
    )
    return await ask(job.model, prompt, read, schema=SHAPE, seed=job.seed, max_tokens=400)
