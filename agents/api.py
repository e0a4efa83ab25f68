"""The API agent: designs a domain's tool and its APIs (API-Bank, section 4, second agent)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from toolloom.agents.ask import BadAnswer, Job, NoUsableAnswer, ask, shape
from toolloom.agents.drafts import build, snake
from toolloom.agents.wording import keep_new
from toolloom.prompts import Prompt, render
from toolloom.schemas import Api, Domain, JsonObject, Outcome, Rejected
from toolloom.schemas.api import PublicApi

_TEXT: JsonObject = {"type": "string"}
_FIELD: JsonObject = {
    "type": "object",
    "properties": {
        "name": _TEXT,
        "type": {"enum": ["string", "integer", "number", "boolean", "array", "object"]},
        "description": _TEXT,
        "required": {"type": "boolean"},
        "examples": {"type": "array"},
        "enum": {"type": "array"},
        "format": {"enum": ["", "date", "date-time", "time", "email", "uri", "uuid"]},
        "items": {"enum": ["string", "integer", "number"]},
    },
    "required": ["name", "type", "description"],
    "additionalProperties": False,
}
_API: JsonObject = shape(
    {
        "name": _TEXT,
        "description": _TEXT,
        "parameters": {"type": "array", "items": _FIELD, "maxItems": 12},
        "returns": {"type": "array", "items": _FIELD, "minItems": 1, "maxItems": 12},
    }
)


def schema(count: int) -> JsonObject:
    """Shape of an answer with `count` APIs."""
    apis = {"type": "array", "items": _API, "minItems": 1, "maxItems": count}
    return shape({"tool": _TEXT, "apis": apis})


def question(
    domain: Domain, examples: Sequence[PublicApi], count: int, taken: Sequence[str] = ()
) -> Prompt:
    """The prompt that asks for a tool of `count` APIs, with real ones to learn from."""
    return render(
        "api",
        {
            "category": domain.category,
            "domain": domain.name,
            "description": domain.description,
            "examples": list(examples),
            "count": count,
            "taken": list(taken),
        },
    )


def read(answer: Any, domain: Domain) -> list[Api | BadAnswer]:
    """The APIs of an answer, or what is wrong with each. Raises BadAnswer if none is legal."""
    tool = snake(answer["tool"]) or snake(domain.name)
    made: list[Api | BadAnswer] = []
    for draft in answer["apis"]:
        try:
            made.append(build(domain, tool, draft))
        except BadAnswer as why:
            made.append(why)
    faults = [m for m in made if isinstance(m, BadAnswer)]
    if len(faults) == len(made):
        raise faults[0]
    return made


async def run(domain: Domain, job: Job, *, count: int, examples: Sequence[PublicApi]) -> Outcome:
    """Design `count` APIs for `domain`; near-duplicates within the tool are rejected."""
    try:
        answer = await ask(
            job.model,
            question(domain, examples, count),
            lambda a: read(a, domain),
            schema=schema(count),
            seed=job.seed,
            max_tokens=700 * count + 200,
        )
    except NoUsableAnswer as why:
        return Outcome(rejected=(job.reject(domain, why),))
    kept: list[Api] = []
    rejected: list[Rejected] = []
    keep_new(job, domain, answer.value, answer.costs, kept, rejected)
    return Outcome(tuple(kept), tuple(rejected))
