from __future__ import annotations

from typing import Any

import pytest
from support import toys

from toolloom.agents.observation_small import MOST, observe, sketch
from toolloom.pipeline.checks.schema import violations
from toolloom.schemas import FunctionCall, JsonObject

TEXT = {"type": "string"}


def row(required: list[str] | None = None, **properties: Any) -> JsonObject:
    return {"type": "object", "properties": properties, "required": required or []}


def paths(schema: JsonObject) -> list[Any]:
    return [path for path, _ in sketch(schema)]


def test_scalars_at_any_depth_are_asked_for() -> None:
    """Objects are entered, a list has one item, alternatives are their first that is not null."""
    schema = row(
        a=TEXT,
        b=row(c={"type": "array", "items": row(d=TEXT)}),
        e={"anyOf": [{"type": "null"}, TEXT]},
    )
    assert paths(schema) == [("a",), ("b", "c", 0, "d"), ("e",)]


def test_required_scalars_come_first() -> None:
    """All that is required is asked for, of the rest only a few."""
    many = row(["z"], **{f"f{i}": TEXT for i in range(9)}, z=TEXT)
    assert ("z",) in paths(many)
    assert len(paths(many)) == MOST


def test_a_deep_schema_is_not_followed_to_its_end() -> None:
    """Objects and lists within each other without end ask nothing; what stands beside is asked."""
    deep: JsonObject = TEXT
    for _ in range(10):
        deep = {"type": "array", "items": row(["a", "b"], a=deep, b=deep)}
    assert paths(row(["x", "deep"], x=TEXT, deep=deep))[0] == ("x",)
    assert len(paths(row(["deep"], deep=deep))) <= 40


NUMBER = {"type": "integer"}


@pytest.mark.parametrize(
    ("returns", "value", "expected"),
    [
        (row(["copies"], copies=NUMBER), 7, {"copies": 7}),
        ({"type": "array", "items": row(["copies"], copies=NUMBER)}, 7, [{"copies": 7}]),
        (row(["in"], **{"in": row(["n"], n=NUMBER)}), 7, {"in": {"n": 7}}),
        (None, "Sunny", {"result": "Sunny"}),
    ],
)
async def test_an_observation_fits_its_schema(
    working: Any, returns: JsonObject | None, value: Any, expected: Any
) -> None:
    """Each scalar is a question, its answer in the promised shape; without one a few words serve."""
    api = toys.api().model_copy(update={"returns": returns})
    async with working(lambda body: {"value": value}, "simulator") as (job, _):
        answer = await observe(api, FunctionCall(name=api.function, arguments={}), job.model, 1)
    assert answer.value == expected
    assert not violations(returns or {}, answer.value)
