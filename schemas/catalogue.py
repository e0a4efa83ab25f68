"""The seed catalogue: categories, and real public APIs that ground the API agent."""

from __future__ import annotations

import re
from typing import Any, Literal, TypeAlias

from pydantic import Field as Described

from toolloom.schemas.base import JsonObject, Record

_DATE = re.compile(r"\d{4}-\d\d-\d\d")
_MOMENT = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d(:\d\d)?(Z|[+-]\d\d:\d\d)")

JsonType: TypeAlias = Literal["string", "integer", "number", "boolean", "array", "object"]


def _format_of(example: Any) -> str:
    """The format an example value shows, where it is a date or a date with a time."""
    if not isinstance(example, str):
        return ""
    for form, shape in (("date", _DATE), ("date-time", _MOMENT)):
        if shape.fullmatch(example):
            return form
    return ""


class Field(Record):
    """An input or output of an operation, flat; `schema()` is its JSON Schema."""

    name: str = Described(description="Name in snake_case.")
    type: JsonType = Described(description="JSON type.")
    description: str = Described(default="", description="What it means, with its unit.")
    required: bool = Described(default=True, description="Whether a call must give it.")
    example: Any = Described(default=None, description="A value as it may occur.")
    examples: tuple[Any, ...] = Described(default=(), description="More such values.")
    enum: tuple[Any, ...] = Described(default=(), description="All values, where few are legal.")
    format: str = Described(default="", description="JSON Schema format, such as date.")
    items: JsonType | None = Described(default=None, description="Type of an array's items.")

    def json_schema(self) -> JsonObject:
        """The field as a JSON Schema (2020-12)."""
        made: JsonObject = {"type": self.type}
        if self.description:
            made["description"] = self.description
        if self.enum:
            made["enum"] = list(self.enum)
        form = self.format or _format_of(self.example)
        if form and self.type == "string":
            made["format"] = form
        given = ([self.example] if self.example not in (None, "") else []) + list(self.examples)
        if given and not self.enum and not form:
            made["examples"] = given
        if self.type == "array":
            made["items"] = {"type": self.items or "string"}
        return made


class Operation(Record):
    """One call of a real API."""

    name: str
    does: str
    parameters: tuple[Field, ...] = ()
    returns: tuple[Field, ...] = ()


class PublicApi(Record):
    """A real public API, described in our own words."""

    name: str
    category: str
    does: str
    operations: tuple[Operation, ...] = ()


class Category(Record):
    """A category of the seed taxonomy."""

    name: str
    about: str
    examples: tuple[str, ...] = ()
