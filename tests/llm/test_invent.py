from __future__ import annotations

import jsonschema
import pytest
from hypothesis import given
from hypothesis import strategies as st

from toolloom.llm.fake.actor import invent, sentence

SCHEMAS = [
    {"type": "string", "minLength": 30, "maxLength": 40},
    {"type": "string", "format": "date"},
    {"type": "string", "format": "date-time"},
    {"type": "string", "format": "time"},
    {"type": "string", "format": "email"},
    {"type": "string", "format": "uuid"},
    {"type": "integer", "minimum": 3, "maximum": 5},
    {"type": "integer", "exclusiveMinimum": 3, "exclusiveMaximum": 6, "multipleOf": 5},
    {"type": "number", "minimum": -1, "maximum": -0.5},
    {"type": "number", "exclusiveMinimum": 0},
    {"type": ["null", "boolean"]},
    {"enum": ["a", 1, None]},
    {"const": {"a": 1}},
    {"type": "string", "examples": ["red"], "enum": ["red", "blue"]},
    {"type": "array", "items": {"enum": [1, 2, 3]}, "minItems": 3, "uniqueItems": True},
    {"type": "array", "items": {"type": "string"}, "maxItems": 0},
    {"anyOf": [{"type": "string"}, {"type": "integer", "minimum": 7}]},
    {"oneOf": [{"type": "boolean"}, {"type": "null"}]},
    {"allOf": [{"properties": {"a": {"type": "string"}}}], "required": ["a"], "type": "object"},
    {
        "type": "object",
        "properties": {"a": {"$ref": "#/$defs/n"}, "b": {"type": "array", "items": {"const": 1}}},
        "required": ["a", "c"],
        "$defs": {"n": {"type": "integer"}},
    },
    {
        "type": "object",
        "properties": {"next": {"$ref": "#"}, "name": {"type": "string"}},
        "required": ["name"],
        "additionalProperties": False,
    },
]


@pytest.mark.parametrize("schema", SCHEMAS)
@given(seed=st.text())
def test_invented_values_fit(schema, seed):
    """An invented value is valid, formats included, and the same for the same seed."""
    value = invent(schema, seed)
    dialect = jsonschema.Draft202012Validator
    dialect(schema, format_checker=dialect.FORMAT_CHECKER).validate(value)
    assert value == invent(schema, seed)


def test_seeds_make_a_difference():
    """Another seed says something else."""
    assert sentence("1") != sentence("2")
    assert invent({"type": "string"}, "1") != invent({"type": "string"}, "2")
