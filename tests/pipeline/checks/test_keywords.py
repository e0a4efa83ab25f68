from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from toolloom.pipeline.checks.keywords import bound, first_type, fits, kind_of, merged
from toolloom.pipeline.checks.schema import violations

scalars: st.SearchStrategy[Any] = st.sampled_from(
    ["", "a", "abc", 0, 1, 1.0, 1.5, True, False, None, [], {}]
)


@given(
    st.fixed_dictionaries(
        {"type": st.sampled_from(["string", "integer", "number", "boolean", "null"])},
        optional={
            "enum": st.lists(scalars, max_size=4),
            "minLength": st.integers(0, 3),
            "maxLength": st.integers(0, 3),
            "description": st.text(max_size=3),
        },
    ),
    scalars,
)
def test_the_short_way_agrees_with_the_validator(schema: dict[str, Any], value: Any) -> None:
    """What is told without a validator is what a validator would say."""
    assert fits(schema, value) == (not violations(schema, value))


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
    made = merged({"allOf": [one, two, "hostile"], "title": "y"})
    assert made["properties"] == {"a": {}, "b": {}}
    assert made["required"] == ["a", "b"]
    assert (made["title"], made["minProperties"]) == ("y", 1)


@pytest.mark.parametrize("value", [True, "3", None, [], float("nan"), float("inf")])
def test_a_bound_that_is_no_number_is_none(value: Any) -> None:
    """And one beyond reason is kept within what can be counted with."""
    assert bound({"minimum": value}, "minimum", 7) == 7
    assert bound({"minimum": 10**500}, "minimum", 7) == 1e15
    assert bound({"minimum": -(10**500)}, "minimum", 7) == -1e15
