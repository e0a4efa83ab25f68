"""Type hints become JSON Schema, read as text."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from toolloom.pipeline.formats.hints import ClassShape, Hints, Member

AUTO = Member(value="auto()")
COLOURS = {"RED": Member(value="'red'"), "BLUE": Member(value="'b'")}
POINT = {
    "x": Member("float"),
    "y": Member("float", "0.5"),
    "tags": Member("list[str]", "field(default_factory=list)"),
}
OPTIONS = {"name": Member("Required[str]"), "age": Member("int")}
QUERY = {
    "text": Member("str", "Field(description='What to find.')"),
    "limit": Member("int", "Field(10, ge=1)"),
}
SHAPES = {
    "Colour": ClassShape(bases=("Enum",), members=COLOURS),
    "Level": ClassShape(bases=("IntEnum",), members={"LOW": AUTO, "HIGH": AUTO}),
    "Point": ClassShape(members=POINT, dataclass=True),
    "Labelled": ClassShape(bases=("Point",), members={"label": Member("str")}, dataclass=True),
    "Options": ClassShape(bases=("TypedDict",), members=OPTIONS, total=False),
    "Query": ClassShape(bases=("BaseModel",), members=QUERY),
}


def told(hint: str, aliases: dict[str, str] | None = None) -> tuple[Any, list[str]]:
    unknown: list[str] = []
    hints = Hints(SHAPES, aliases or {}, {"Opt": "Optional", "dt": "datetime"}, unknown.append)
    return hints.schema(hint), unknown


@pytest.mark.parametrize(
    ("hint", "schema"),
    [
        ("str", {"type": "string"}),
        ("list[int]", {"type": "array", "items": {"type": "integer"}}),
        ("typing.List[bool]", {"type": "array", "items": {"type": "boolean"}}),
        ("dict[str, float]", {"type": "object", "additionalProperties": {"type": "number"}}),
        ("dict", {"type": "object"}),
        ("set[str]", {"type": "array", "items": {"type": "string"}, "uniqueItems": True}),
        ("tuple[int, ...]", {"type": "array", "items": {"type": "integer"}}),
        ("tuple[int, str]", {"type": "array", "prefixItems": [{"type": "integer"}, {"type": "string"}], "minItems": 2, "maxItems": 2}),
        ("Opt[int]", {"type": ["integer", "null"]}),
        ("int | str | None", {"type": ["integer", "string", "null"]}),
        ("'int | None'", {"type": ["integer", "null"]}),
        ("Union[int, int]", {"type": "integer"}),
        ("Optional[Union[int, str]]", {"type": ["integer", "string", "null"]}),
        ("str | 'int | None' | None", {"type": ["string", "integer", "null"]}),
        ("list[int] | None", {"anyOf": [{"type": "array", "items": {"type": "integer"}}, {"type": "null"}]}),
        ("Literal['a', 'b']", {"type": "string", "enum": ["a", "b"]}),
        ("Literal['a', 1]", {"enum": ["a", 1]}),
        ("datetime.date", {"type": "string", "format": "date"}),
        ("dt.datetime", {"type": "string", "format": "date-time"}),
        ("Annotated[int, 'How many of it.']", {"type": "integer", "description": "How many of it."}),
        ("Annotated[int, Field(description='Few.', ge=1)]", {"type": "integer", "description": "Few.", "minimum": 1}),
        ("Colour", {"type": "string", "enum": ["red", "b"]}),
        ("Level", {"type": "integer", "enum": [1, 2]}),
        ("Any", {}),
        ("Unit", {"type": "string", "enum": ["m", "ft"]}),
    ],
)  # fmt: skip
def test_hints(hint: str, schema: Any) -> None:
    """Each hint has one schema, and none of these is unknown."""
    assert told(hint, {"Unit": "Literal['m', 'ft']"}) == (schema, [])


def test_classes_of_the_file_are_objects() -> None:
    """Data classes, typed dictionaries and models show their fields, inherited ones too."""
    point, _ = told("Labelled")
    assert list(point["properties"]) == ["x", "y", "tags", "label"]
    assert point["required"] == ["x", "label"]
    assert told("Options")[0]["required"] == ["name"]
    query, _ = told("Query")
    assert query["required"] == ["text"]
    assert query["properties"]["limit"] == {"type": "integer", "minimum": 1, "default": 10}


UNKNOWN = ["DataFrame", "Callable[[int], int]", "a b", "f()"]


@pytest.mark.parametrize(
    "hint", [*UNKNOWN, "list[()]", "Optional[()]", "Annotated[()]", "Literal[()]"]
)
def test_unknown_hints_are_told(hint: str) -> None:
    """What JSON Schema cannot express, and a type of nothing, has no type and is named."""
    assert told(hint) == ({}, [hint])
    assert told("Literal[x]") == ({}, ["x"])


def test_names_that_stand_for_each_other_end() -> None:
    """Circles and towers of names are cut off in bounded time."""
    assert told("A", {"A": "B", "B": "A"})[1] == ["a type nested too deep"]
    tower = {f"T{n}": f"tuple[{', '.join([f'T{n + 1}'] * 40)}]" for n in range(9)}
    made, unknown = told("T0", tower)
    assert made["type"] == "array" and "a type nested too deep" in unknown


@given(st.text(alphabet="abUnion[]|,.()'\"*: 0", max_size=30) | st.text(max_size=20))
def test_any_text_is_read(hint: str) -> None:
    """Arbitrary text gives a schema or is told as unknown; nothing is raised."""
    made, _ = told(hint)
    assert json.loads(json.dumps(made)) == made
