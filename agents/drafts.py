"""API drafts of a model, checked and made into records."""

from __future__ import annotations

import re
from collections.abc import Sequence

import jsonschema
from pydantic import ValidationError

from toolloom.agents.ask import BadAnswer
from toolloom.schemas import Api, Domain, JsonObject, Reason
from toolloom.schemas.api import ApiField

LEGAL = re.compile(r"[a-z][a-z0-9_]{1,63}")


def build(domain: Domain, tool: str, draft: JsonObject) -> Api:
    """An API of a model's draft, checked as JSON Schema. Raises BadAnswer."""
    name = legal(draft["name"], "API")
    return Api(
        category=domain.category,
        tool=tool,
        name=name,
        function=name,
        description=described(draft["description"], name),
        parameters=object_schema(draft["parameters"], name),
        returns=object_schema(draft["returns"], name),
    )


def described(text: str, name: str) -> str:
    """A description that says something. Raises BadAnswer."""
    text = " ".join(text.split())
    if len(text.split()) < 3:
        raise BadAnswer(
            Reason.ILLEGAL_SCHEMA, f"{name}: the description has fewer than three words."
        )
    return text


def legal(name: str, what: str) -> str:
    """`name` itself. Raises BadAnswer if it is not snake_case of 2 to 64 characters."""
    if not LEGAL.fullmatch(name):
        raise BadAnswer(Reason.ILLEGAL_SCHEMA, f"{what} name «{name[:80]}» is not in snake_case.")
    return name


def object_schema(drafts: Sequence[JsonObject], api: str) -> JsonObject:
    """A JSON Schema object of fields. Raises BadAnswer for what is not legal JSON Schema."""
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
        where = f"{api}.{name}"
        try:
            jsonschema.Draft202012Validator.check_schema(part)
        except jsonschema.SchemaError as error:
            raise BadAnswer(Reason.ILLEGAL_SCHEMA, f"{where}: {error.message[:200]}") from error
        check = jsonschema.Draft202012Validator(part)
        for key in ("enum", "examples"):
            for value in part.get(key, ()):
                if not check.is_valid(value):
                    detail = f"{where}: {key} {value!r} is not of type {part['type']}."
                    raise BadAnswer(Reason.ILLEGAL_SCHEMA, detail)
    return made


def snake(text: str) -> str:
    """`text` as a legal snake_case name, or an empty text."""
    made = re.sub(r"[^a-z0-9]+", "_", text.lower()).strip("_")[:64].strip("_")
    return made if LEGAL.fullmatch(made) else ""
