"""The API agent's way with a small model: one small question at a time.

A model of a few hundred million parameters cannot write a whole API. It can say what one is
called and does, and choose its fields among those that real APIs of the kind have.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from toolloom.agents.drafts import build, snake
from toolloom.agents.likeness import twin
from toolloom.agents.outcome import Job
from toolloom.llm import Answer, Misfit, Unusable, Usage, ask
from toolloom.prompts import render
from toolloom.schemas import Api, Domain, JsonObject, Reason, seed_for
from toolloom.schemas.catalogue import Field, PublicApi

VERBS = (
    "get", "find", "search", "list", "check", "look_up", "compare", "estimate", "calculate",
    "book", "create", "order", "schedule", "track", "suggest", "report",
)  # fmt: skip
NAME: JsonObject = {
    "type": "object",
    "properties": {
        "verb": {"enum": list(VERBS)},
        "object": {"type": "string", "pattern": "^[a-z]+( [a-z]+){0,2}$"},
        "description": {"type": "string", "pattern": "^[A-Z][a-z]+( [a-z]+){2,16}\\.$"},
    },
    "required": ["verb", "object", "description"],
    "additionalProperties": False,
}
EXTRA = 2  # example values asked for beyond the one the catalogue has


def choice(names: Sequence[str], most: int) -> JsonObject:
    """Shape of an answer that chooses one to `most` of `names`."""
    fields = {"type": "array", "items": {"enum": list(names)}, "minItems": 1, "maxItems": most}
    return {
        "type": "object",
        "properties": {"fields": fields},
        "required": ["fields"],
        "additionalProperties": False,
    }


def read_name(answer: Any, taken: Iterable[str]) -> tuple[str, str]:
    """(name, description) of an answer. Raises Misfit for a name that repeats words or another."""
    name = snake(f"{answer['verb']} {answer['object']}")
    parts = name.split("_")
    if not name or len(set(parts)) < len(parts):
        raise Misfit(Reason.UNUSABLE_RESPONSE, f"«{name}» repeats a word.")
    other = twin(name, taken)
    if other:
        raise Misfit(Reason.NEAR_DUPLICATE, f"«{name}» is nearly «{other}».")
    words = answer["description"].lower().rstrip(".").split()
    if len(set(words)) < 0.7 * len(words):
        raise Misfit(Reason.UNUSABLE_RESPONSE, f"«{answer['description']}» repeats itself.")
    return name, answer["description"]


def read_value(answer: Any, known: Sequence[Any]) -> str:
    """One more example value. Raises Misfit for a known one or a sentence."""
    value = " ".join(str(answer["value"]).split())
    if not value or len(value.split()) > 4 or twin(value, [str(k) for k in known]):
        raise Misfit(Reason.UNUSABLE_RESPONSE, f"«{value}» is no new value in one to four words.")
    return value


async def design(
    domain: Domain, job: Job, count: int, examples: Sequence[PublicApi]
) -> Answer[list[Api | Misfit]]:
    """`count` APIs, each after the first with an input that the first one returns."""
    made: list[Api | Misfit] = []
    usage, raw = Usage(), list[str]()
    inputs = fields(p for a in examples for o in a.operations for p in o.parameters)
    outputs = fields(r for a in examples for o in a.operations for r in o.returns)
    for number in range(count):
        first = next((m for m in made if isinstance(m, Api)), None)
        try:
            draft, spent = await _draft(domain, job, number, examples, inputs, outputs, first)
            made.append(build(domain, snake(domain.name), draft))
        except Unusable as why:
            made.append(Misfit(why.reason, why.detail))
            spent = why.usage
            raw.extend(why.raw)
        except Misfit as why:
            made.append(why)
        usage += spent
    return Answer(made, usage, tuple(raw))


def fields(found: Iterable[Field]) -> dict[str, Field]:
    """Fields by name, the first of each name; nested ones are beyond a small model."""
    kept: dict[str, Field] = {}
    for field in found:
        if field.type not in ("array", "object"):
            kept.setdefault(field.name, field)
    return kept


async def _draft(
    domain: Domain,
    job: Job,
    number: int,
    examples: Sequence[PublicApi],
    inputs: dict[str, Field],
    outputs: dict[str, Field],
    first: Api | None,
) -> tuple[JsonObject, Usage]:
    """One API as a draft for `build`: its name, its description, its fields."""
    seed = seed_for(job.seed, number)
    taken = [first.name] if first else []
    prompt = render(
        "api_name",
        {
            "category": domain.category,
            "domain": domain.name,
            "examples": list(examples),
            "taken": taken,
        },
    )
    named = await ask(
        job.model,
        prompt,
        lambda a: read_name(a, taken),
        schema=NAME,
        seed=seed,
        max_tokens=60,
    )
    name, description = named.value
    returned, cost_out = await _choose(name, description, outputs, job, seed, inputs=False)
    offered = {k: v for k, v in inputs.items() if k not in {f.name for f in returned}}
    taking, cost_in = await _choose(name, description, offered, job, seed, inputs=True)
    usage = named.usage + cost_out + cost_in
    if first is not None:
        linked, cost = await _link(name, description, first, returned, job, seed)
        taking = [*linked, *(t for t in taking if t.name not in {f.name for f in linked})][:3]
        usage += cost
    rich = []
    for field in taking:
        more, cost = await _enrich(field, name, job, seed)
        rich.append(more)
        usage += cost
    draft = {"name": name, "description": description, "parameters": rich, "returns": returned}
    return draft, usage


async def _choose(
    name: str, description: str, known: dict[str, Field], job: Job, seed: int, *, inputs: bool
) -> tuple[list[Field], Usage]:
    answer = await ask(
        job.model,
        render(
            "api_fields",
            {"function": name, "description": description, "fields": list(known), "inputs": inputs},
        ),
        lambda a: list(dict.fromkeys(a["fields"])),
        schema=choice(list(known), 3),
        seed=seed,
        max_tokens=60,
    )
    return [known[n] for n in answer.value], answer.usage


async def _link(
    name: str, description: str, first: Api, returned: Sequence[Field], job: Job, seed: int
) -> tuple[list[Field], Usage]:
    """The input that the tool's first API returns, so that the two can be chained."""
    known = {
        n: Field(name=n, type=s["type"], description=s.get("description", ""))
        for n, s in first.fields.items()
        if s["type"] != "boolean" and n not in {f.name for f in returned}
    }
    if not known:
        return [], Usage()
    chosen, usage = await _choose(name, description, known, job, seed, inputs=True)
    return chosen[:1], usage


async def _enrich(field: Field, name: str, job: Job, seed: int) -> tuple[Field, Usage]:
    """The field with a few more example values, where it is text that a user words freely."""
    known = [field.example, *field.examples] if field.example else list(field.examples)
    usage = Usage()
    if field.type != "string" or field.enum or field.format or not known:
        return field, usage
    for number in range(EXTRA):
        asked = list(known)
        prompt = render(
            "api_example",
            {
                "field": field.name,
                "description": field.description,
                "examples": asked,
                "function": name,
            },
        )
        try:
            answer = await ask(
                job.model,
                prompt,
                lambda a, asked=asked: read_value(a, asked),  # type: ignore[misc]
                schema={
                    "type": "object",
                    "properties": {"value": {"type": "string"}},
                    "required": ["value"],
                    "additionalProperties": False,
                },
                seed=seed_for(seed, field.name, number),
                max_tokens=24,
            )
        except Unusable as why:
            usage += why.usage
            break
        usage += answer.usage
        known.append(answer.value)
    return field.model_copy(update={"example": None, "examples": tuple(known)}), usage
