from pathlib import Path
from typing import Any

import pytest
from support.api_pools import api

from toolloom.pipeline.apis.pool import RULES, PoolFolder, filter_pool, judge, open_pool
from toolloom.pipeline.formats.import_log import ImportLog
from toolloom.schemas import Api, Source, StoreError


def properties(count: int, description: str = "what it is") -> dict[str, Any]:
    each = {"type": "string", "description": description}
    return {"type": "object", "properties": {f"p{n}": each for n in range(count)}}


def broken(*apis: Api) -> list[tuple[str, ...]]:
    return [rules for _, rules in judge(apis, list(RULES))]


@pytest.mark.parametrize(
    ("rule", "changes"),
    [
        ("no_description", {"description": " \n"}),
        ("short_description", {"description": "Find parcels"}),
        ("overlong_description", {"description": "Find a parcel. " + "x" * 1010}),
        ("deprecated", {"deprecated": True}),
        ("meaningless_name", {"name": "x"}),
        ("meaningless_name", {"name": "42"}),
        ("meaningless_name", {"name": "Test_2"}),
        ("meaningless_name", {"name": "GET /", "function": "GET"}),
        ("undocumented_parameters", {"parameters": properties(2, "")}),
        ("undescribed_required", {"parameters": {**properties(2), "required": ["elsewhere"]}}),
        ("too_many_parameters", {"parameters": properties(21)}),
        ("oversized_schema", {"parameters": properties(3, "x" * 2700)}),
        ("no_returns", {"returns": None}),
        ("error_returns", {"returns": {"properties": {"error": {}, "message": {}}}}),
        ("error_returns", {"returns": {"examples": ["<!DOCTYPE html><p>Not found"]}}),
        ("destructive", {"source": Source(kind="openapi", operation="DELETE /parcels")}),
        # Thresholds are reached without harm, and what only looks like a fault is none.
        ("", {}),
        ("", {"parameters": {"type": "object"}}),
        ("", {"description": "Find a parcel"}),
        ("", {"description": "Find it: " + "x" * 1015}),
        ("", {"name": "GET /", "function": "front_page"}),
        ("", {"name": "查", "function": "look_up"}),
        ("", {"name": "search"}),
        ("", {"parameters": properties(20)}),
        ("", {"returns": {"properties": {"error": {}, "parcel": {}}}}),
        ("", {"returns": {"properties": {"status": {}, "message": {}}}}),
        ("", {"name": "list_errors", "returns": {"properties": {"errors": {}}}}),
        ("", {"source": Source(kind="openapi", operation="GET /DELETE ")}),
    ],
)
def test_each_rule_finds_what_it_is_for(rule: str, changes: dict[str, Any]) -> None:
    """A planted fault is found under its name, and under no other."""
    assert broken(api(**{"name": "tides", **changes})) == [(rule,) if rule else ()]


def test_a_duplicate_repeats_one_that_is_kept() -> None:
    """Of equal APIs the first one without other faults stays; silence repeats nothing."""
    same = {"description": "Find a parcel by its number."}
    apis = (
        api("a1", deprecated=True, **same),
        api("b1", **same),
        api("c1", tool="Letters", **same),
        api("d1", description=""),
        api("e1", description=""),
    )
    silent = ("no_description",)
    assert broken(*apis) == [("deprecated",), (), ("duplicate",), silent, silent]


@pytest.mark.parametrize(
    "parameters",
    [
        {"properties": {"a": None}},
        {"properties": {"a": {"description": ["no", "text"]}}},
        {"properties": {"a": True}, "required": ["b"]},
        {"properties": {"\ud800": {"default": "\ud800"}}},
    ],
)
def test_odd_schemas_are_judged_too(parameters: dict[str, Any]) -> None:
    """No rule raises on a schema that no importer would make."""
    assert "undocumented_parameters" in broken(api("tides", parameters=parameters))[0]


@pytest.fixture
def pool(tmp_path: Path) -> PoolFolder:
    pool = open_pool(tmp_path, "raw")
    apis = [api("one"), api("two", deprecated=True, description=""), api("three")]
    pool.add(apis, ImportLog("post.yaml"))
    return pool


def test_a_filter_overwrites_no_pool(pool: PoolFolder, tmp_path: Path) -> None:
    """What it leaves out is in the report of the pool it makes, and no other pool is lost."""
    into = open_pool(tmp_path, "good")
    filter_pool(pool, judge(pool.apis()), into)
    assert [api.function for api in into.apis()] == ["one", "three"]
    (skipped,) = list(into.reports())[-1].skipped
    assert (skipped.what, skipped.why) == (
        "Sea/Harbour/two",
        "It breaks no_description, deprecated.",
    )
    for there in (into, pool):
        before = list(there.apis())
        with pytest.raises(StoreError, match="holds a pool"):
            filter_pool(pool, judge(pool.apis()), there)
        assert list(there.apis()) == before
