"""The API agent: designs a domain's tool and its APIs (API-Bank, section 4, second agent)."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

import jsonschema
from pydantic import ValidationError

from toolloom.agents.ask import BadAnswer, Job, NoUsableAnswer, ask, keep_new, shape
from toolloom.prompts import Prompt, render
from toolloom.schemas import Api, Domain, JsonObject, Outcome, Reason, Rejected
from toolloom.schemas.api import ApiField, PublicApi

LEGAL = re.compile(r"[a-z][a-z0-9_]{1,63}")

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


def question(domain: Domain, examples: Sequence[PublicApi], count: int) -> Prompt:
    """The prompt that asks for a tool of `count` APIs, with real ones to learn from."""
    return render(
        "api",
        {
            "category": domain.category,
            "domain": domain.name,
            "description": domain.description,
            "examples": list(examples),
            "count": count,
            "taken": [],  # without it the template's hash, which versions hold, would change
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


def build(domain: Domain, tool: str, draft: JsonObject) -> Api:
    """An API of a model's draft, checked as JSON Schema. Raises BadAnswer."""
    name, about = legal(draft["name"], "API"), " ".join(draft["description"].split())
    if about.count(" ") < 2:
        raise BadAnswer(
            Reason.ILLEGAL_SCHEMA, f"{name}: the description has fewer than three words."
        )
    return Api(
        category=domain.category,
        tool=tool,
        name=name,
        function=name,
        description=about,
        parameters=object_schema(draft["parameters"], name),
        returns=object_schema(draft["returns"], name),
    )


def legal(name: str, what: str) -> str:
    """`name` itself. Raises BadAnswer if it is not snake_case of 2 to 64 characters."""
    if not LEGAL.fullmatch(name):
        raise BadAnswer(Reason.ILLEGAL_SCHEMA, f"{what} name «{name[:80]}» is not in snake_case.")
    return name


def object_schema(drafts: Sequence[JsonObject], api: str) -> JsonObject:
    """A JSON Schema object of fields. Raises BadAnswer for names and values that are not legal."""
    try:
        fields = [
            ApiField.model_validate({k: v for k, v in d.items() if v not in (None, "", [])})
            for d in drafts
        ]
    except ValidationError as error:
        raise BadAnswer(Reason.ILLEGAL_SCHEMA, f"{api}: {error.errors()[0]['msg']}.") from error
    names = [legal(f.name, f"{api}: field") for f in fields]
    if len(set(names)) < len(names):
        raise BadAnswer(Reason.ILLEGAL_SCHEMA, f"{api}: a field name stands twice in {names}.")
    made: JsonObject = {
        "type": "object",
        "properties": {f.name: f.json_schema() for f in fields},
        "required": [f.name for f in fields if f.required],
        "additionalProperties": False,
    }
    for name, part in made["properties"].items():
        check = jsonschema.Draft202012Validator(part)
        for key in ("enum", "examples"):
            for value in part.get(key, ()):
                if not check.is_valid(value):
                    detail = f"{api}.{name}: {key} {value!r} is not of type {part['type']}."
                    raise BadAnswer(Reason.ILLEGAL_SCHEMA, detail)
    return made


def snake(text: str) -> str:
    """`text` as a legal snake_case name, or an empty text."""
    made = re.sub(r"[^a-z0-9]+", "_", text.lower()).strip("_")[:64].strip("_")
    return made if LEGAL.fullmatch(made) else ""
