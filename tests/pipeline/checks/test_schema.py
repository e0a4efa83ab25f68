"""JSON Schema: what is quick finds what is thorough, and keywords are read safely."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from jsonschema import Draft202012Validator, FormatChecker

from toolloom.pipeline.checks.schema import (
    _is_simple,
    bound,
    first_type,
    fits,
    fits_simple,
    is_simple,
    kind_of,
    merged,
    of_content,
    violations,
)
from toolloom.pipeline.checks.transcript import once
from toolloom.schemas import Dialogue

NAMES = st.sampled_from(["a", "b", "city"])
LEAVES = st.sampled_from(
    ["", "x", "2026-02-30", "2026-02-28", 0, 1, -1, 5, 10**30, 2.0, 2.5, True, False, None]
)
VALUES = st.recursive(
    LEAVES, lambda v: st.lists(v, max_size=2) | st.dictionaries(NAMES, v, max_size=2)
)
KINDS = st.sampled_from(["string", "integer", "number", "boolean", "null", "array", "object"])
PLAIN: dict[str, st.SearchStrategy[Any]] = {
    "type": KINDS,
    "enum": st.lists(LEAVES, max_size=3),
    "required": st.lists(NAMES, max_size=2),
    "additionalProperties": st.booleans(),
    "minimum": st.integers(-1, 3),
    "exclusiveMaximum": st.integers(-1, 3),
    "minLength": st.integers(0, 3),
    "maxItems": st.integers(0, 2),
    "format": st.sampled_from(["date", "made-up"]),
    "pattern": st.sampled_from(["x", "^$", r"^\d{4}-\d\d-\d\d$", "(", "(a+)+$"]),
    "description": st.sampled_from(["x", "$ref"]),
}
SCHEMAS = st.recursive(
    st.fixed_dictionaries({}, optional=PLAIN),
    lambda s: st.fixed_dictionaries(
        {},
        optional={**PLAIN, "properties": st.dictionaries(NAMES, s, max_size=2), "items": s},
    ),
    max_leaves=6,
)


@given(schema=SCHEMAS, value=VALUES)
@example(schema={"type": "string", "items": {"pattern": "("}}, value="")
def test_what_fits_quickly_fits(schema: dict[str, Any], value: Any) -> None:
    """A yes of the quick way is a yes of jsonschema, and the schema is legal; a pattern that is
    none is told where a value is held to it, as it is without the quick way."""
    if is_simple(schema) and fits_simple(schema, value, lambda v, name: name == "made-up"):
        Draft202012Validator.check_schema(schema, format_checker=FormatChecker(()))
        assert Draft202012Validator(schema).is_valid(value)


SHORT = {key: PLAIN[key] for key in ("enum", "minLength", "description")}
SCALARS = ["string", "integer", "number", "boolean", "null"]


@given(
    st.fixed_dictionaries(
        {"type": st.sampled_from(SCALARS)}, optional={**SHORT, "maxLength": st.integers(0, 3)}
    ),
    LEAVES,
)
def test_the_short_way_agrees_with_the_validator(schema: dict[str, Any], value: Any) -> None:
    """What is told without a validator is what a validator would say."""
    assert fits(schema, value) == (not violations(schema, value))


def test_what_does_not_fit_is_told() -> None:
    """Where the quick way says no, the faults are those of jsonschema."""
    schema = {"type": "object", "properties": {"a": {"type": "integer"}}, "required": ["a"]}
    assert [f.path for f in violations(schema, {"a": "x"})] == ["a"]
    assert violations(schema, {"a": 1}) == [] and is_simple(schema)
    assert not is_simple({"$ref": "#/a"}) and not is_simple({"type": "str"})


@pytest.mark.parametrize("minimum", [1, True, 1.0])
def test_equal_schemas_of_other_types_are_judged_apart(minimum: Any) -> None:
    """What is known of one content is not told of another that Python takes for equal."""
    assert of_content(_is_simple, {"minimum": 1})
    assert of_content(_is_simple, {"minimum": minimum}) == is_simple({"minimum": minimum})
    assert not of_content(_is_simple, {"default": object()})


def test_a_view_is_made_once_for_each_dialogue(all_good: list[Dialogue]) -> None:
    """The last dialogue's view is kept, and another's is never given for it."""
    seen: list[str] = []

    @once
    def name(dialogue: Dialogue) -> str:
        seen.append(dialogue.id)
        return dialogue.id

    one, two = all_good[:2]
    assert [name(d) for d in (one, one, two, one)] == [one.id, one.id, two.id, one.id]
    assert seen == [one.id, two.id, one.id]


@pytest.mark.parametrize("schema", [False, None, 3, [], {"type": 3}, {"$ref": "http://x.example/"}])
def test_what_is_no_schema_fits_nothing(schema: Any) -> None:
    """Nor does one that refers elsewhere."""
    assert not fits(schema, "a")
    assert fits(True, "a") and fits({}, "a")


@pytest.mark.parametrize(
    ("schema", "kind"),
    [
        ({"type": "string"}, "string"),
        ({"type": ["null", "integer"]}, "integer"),
        ({"type": ["string", "integer"]}, None),
        ({"anyOf": [{"type": "null"}, {"type": "string"}]}, "string"),
        ({"oneOf": [{"type": "integer"}, {"type": "string"}]}, None),
        ({"anyOf": 3}, None),
        ({"type": 3}, None),
        ({}, None),
        ("string", None),
    ],
)
def test_the_one_type_of_a_schema(schema: Any, kind: str | None) -> None:
    """Apart from null; several are none."""
    assert kind_of(schema) == kind


def test_the_first_type_counts() -> None:
    """Where a value must be of some type."""
    assert first_type({"type": ["null", "integer", "string"]}) == "integer"
    assert first_type({"type": "null"}) is None


def test_all_parts_count() -> None:
    """Properties and what is required add up; the schema's own words come last."""
    one = {"properties": {"a": {}}, "required": ["a"], "title": "x"}
    two = {"properties": {"b": {}}, "required": ["b", 3], "minProperties": 1}
    whole = merged({"allOf": [one, two, "hostile"], "title": "y"})
    assert whole["properties"] == {"a": {}, "b": {}}
    assert whole["required"] == ["a", "b"]
    assert (whole["title"], whole["minProperties"]) == ("y", 1)


@pytest.mark.parametrize("value", [True, "3", None, [], float("nan"), float("inf")])
def test_a_bound_that_is_no_number_is_none(value: Any) -> None:
    """And one beyond reason is kept within what can be counted with."""
    assert bound({"minimum": value}, "minimum", 7) == 7
    assert bound({"minimum": 10**500}, "minimum", 7) == 1e15
    assert bound({"minimum": -(10**500)}, "minimum", 7) == -1e15
