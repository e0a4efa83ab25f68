"""JSON Schema: values are held to hostile schemas in bounded time, and keywords are read safely."""

from __future__ import annotations

import time
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.json_values import json_values

from toolloom.pipeline.checks.schema import (
    UncheckableSchema,
    bound,
    fits,
    kind_of,
    merged,
    violations,
)
from toolloom.pipeline.checks.transcript import once
from toolloom.schemas import Dialogue

KEYWORDS = st.sampled_from(
    """
    type properties required items enum const pattern format minimum maxLength allOf anyOf oneOf not
    $ref $defs $id $schema additionalProperties patternProperties prefixItems if then default
    """.split()  # noqa: SIM905 - a table of words
)


def test_what_does_not_fit_is_told_with_its_place() -> None:
    """The path, and what was expected; a schema that is the same is compiled once."""
    schema = {"type": "object", "properties": {"a": {"type": "integer"}}, "required": ["a"]}
    assert [(f.path, f.keyword) for f in violations(schema, {"a": "x"})] == [("a", "type")]
    assert [(f.path, f.keyword) for f in violations(schema, {})] == [("", "required")]
    assert violations(schema, {"a": 1}) == violations(schema, {"a": 2.0}) == []
    assert violations(schema, {"a": True})


@pytest.mark.parametrize(
    ("name", "value", "expected"),
    [
        ("date", "2026-02-28", True),
        ("date", "2026-02-30", False),
        ("date-time", "2026-02-28T10:00", True),  # without an offset: one present is told
        ("date-time", "2026-02-28", False),
        ("time", "10:00", True),
        ("time", "late", False),
        ("email", "a@b.example", True),
        ("email", "a", False),
        ("made-up", "x", True),
        ("regex", "(", True),
    ],
)
def test_formats_are_those_that_people_write(name: str, value: str, expected: bool) -> None:
    """Others say nothing."""
    assert fits({"type": "string", "format": name}, value) is expected


def doubled(levels: int) -> Any:
    """A schema whose references multiply by two at each level."""
    parts = {f"d{n}": {"allOf": [{"$ref": f"#/$defs/d{n + 1}"}] * 2} for n in range(levels)}
    return {"$ref": "#/$defs/d0", "$defs": {**parts, f"d{levels}": {"type": "string"}}}


@pytest.mark.parametrize(
    ("schema", "value"),
    [
        (doubled(40), "x"),
        ({"allOf": [{"$ref": "#"}] * 2}, "x"),
        ({"items": {"$ref": "#"}, "contains": {"$ref": "#"}}, [[[]]]),
        ({"pattern": "("}, "a"),
        ({"type": 3}, "a"),
        ({"$ref": "http://x.example/"}, "a"),
        ({"$ref": "#/$defs/none"}, "a"),
        ({"items": {"items": {"items": {}}}, "x": "y" * 200_000}, "a"),
    ],
    ids=["doubled", "itself twice", "parts twice", "pattern", "type", "afar", "nowhere", "large"],
)
def test_hostile_schemas_are_refused_in_bounded_time(schema: Any, value: Any) -> None:
    """Nothing is fetched, and nothing is followed without end."""
    began = time.process_time()
    with pytest.raises(UncheckableSchema):
        violations(schema, value)
    assert time.process_time() - began < 2


def test_schemas_that_hold_themselves_are_checked() -> None:
    """As comments with answers do, and trees with two branches."""
    tree = {"$defs": {"node": {"type": "object", "required": ["n"], "properties": {}}}}
    branch = {"$ref": "#/$defs/node"}
    tree["$defs"]["node"]["properties"] = {"left": branch, "right": branch}
    schema = {**tree, **branch}
    assert fits(schema, {"n": 1, "left": {"n": 2}, "right": {"n": 3, "left": {"n": 4}}})
    assert not fits(schema, {"n": 1, "left": {"right": {}}})


@pytest.mark.parametrize("pattern", ["(a+)+$", "^(a|a)*$", "(?=.*b)a"])
def test_patterns_end_in_bounded_time(pattern: str) -> None:
    """Whatever they are."""
    began = time.process_time()
    fits({"pattern": pattern}, "a" * 5_000 + "c")
    assert time.process_time() - began < 2


@given(
    st.recursive(
        st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
        lambda v: st.lists(v, max_size=3) | st.dictionaries(KEYWORDS, v, max_size=4),
        max_leaves=20,
    ),
    json_values(),
)
def test_any_schema_is_checked_or_refused(schema: Any, value: Any) -> None:
    """Keywords may hold anything."""
    assert fits(schema, value) in (True, False)


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
