"""The recipes about real APIs: their sources are read, and what they allow really runs."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from toolloom.pipeline.apis.sources import imported
from toolloom.pipeline.environments.executed import Executions, Session
from toolloom.schemas import Api, Failure, Recipe, load_recipe

ROOT = Path(__file__).parents[1]


@pytest.fixture(autouse=True)
def at_the_root(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where a user runs them: the recipes name files from there."""
    monkeypatch.chdir(ROOT)


def apis(of: Recipe) -> dict[str, Api]:
    found = [item for source in of.apis.sources for item in imported(source)[0]]
    return {api.function: api for api in found}


async def calls(
    of: Recipe, known: dict[str, Api], *wanted: tuple[str, dict[str, Any]]
) -> list[Any]:
    """The executions of calls of one dialogue."""
    executions = Executions(of.apis.sources, None, of.seed)
    async with Session(executions, "q0") as session:
        return [await session.run(known[name], arguments) for name, arguments in wanted]


async def test_the_servers_of_the_mcp_recipe_run() -> None:
    """Each dialogue has a scratch repository of its own, with the same bytes; errors are real."""
    chosen = load_recipe(ROOT / "recipes" / "mcp.yaml")
    known = await asyncio.to_thread(apis, chosen)
    where = {"repo_path": "notes"}
    staged = ("git_add", {**where, "files": ["shopping.txt"]})
    status, history = ("git_status", where), ("git_log", where)
    time = {"source_timezone": "Europe/Paris", "time": "08:30", "target_timezone": "Asia/Tokyo"}
    first = await calls(chosen, known, staged, status, history, ("convert_time", time))
    second = await calls(chosen, known, status, history, ("git_status", {"repo_path": "diary"}))
    assert "Changes to be committed" in first[1].observation.response
    assert "Changes to be committed" not in second[0].observation.response
    assert first[2].execution.digest == second[1].execution.digest
    assert first[3].observation.response["target"]["timezone"] == "Asia/Tokyo"
    assert second[2].execution.failure is Failure.TOOL_ERROR
