"""Versions that a run added to, side by side."""

from __future__ import annotations

import io
from pathlib import Path
from typing import Any

from rich.console import Console
from support import finished_runs, toys

from toolloom.pipeline.dataset.diff import compare
from toolloom.pipeline.dataset.publish import publish
from toolloom.pipeline.pages.sections import diff_sections, versions_section
from toolloom.pipeline.render.terminal import view
from toolloom.pipeline.store.version import Version
from toolloom.schemas import Extension, Granularity


def shown(*things: Any) -> str:
    console = Console(file=io.StringIO(), width=200)
    console.print(*things)
    assert isinstance(console.file, io.StringIO)
    return console.file.getvalue()


def first(outputs: Path) -> Version:
    return publish(finished_runs.run(outputs, toys.recipe(), [toys.sample()]), outputs).version


def more(outputs: Path, before: Version, seed: int, **kinds: Any) -> Version:
    wanted = Extension(version=before.label, content=before.manifest["content"])
    recipe = toys.recipe(seed=seed, extend=wanted.model_dump())
    return publish(finished_runs.run(outputs, recipe, **kinds), outputs).version


def test_instructions_are_matched_by_id(tmp_path: Path) -> None:
    """Same, changed, removed and added, in numbers."""
    base = first(tmp_path)
    api = finished_runs.instruction(Granularity.API, text="Another request.")
    statement, category, tool, _, hybrid = finished_runs.levels()
    one = more(tmp_path, base, 1, instructions=[statement, category, tool, api])
    two = more(tmp_path, base, 2, instructions=[statement, category, *finished_runs.levels()[3:]])
    [found] = compare(one, two).instructions
    assert found.model_dump() == {
        "split": "train",
        "before": 4,
        "after": 4,
        "same": 2,
        "renamed": 0,
        "changed": 1,
        "removed": 1,
        "added": 1,
    }
    assert hybrid.id


def test_rows_of_templates_are_added_rows(tmp_path: Path) -> None:
    """They differ as any other row does; instructions are shown where a version has some."""
    one = first(tmp_path)
    two = more(
        tmp_path,
        one,
        1,
        expansions=[finished_runs.expansion()],
        instructions=finished_runs.levels(),
    )
    diff = compare(one, two)
    assert (diff.rows[0].same, diff.rows[0].added) == (1, 3)
    text = shown(view(diff_sections(diff)))
    assert "instructions" in text
    assert "instructions" not in shown(view(diff_sections(compare(one, one))))


def test_the_list_of_versions_says_what_was_added(tmp_path: Path) -> None:
    """Rows and instructions, by which run; a column counts instructions where there are any."""
    one = first(tmp_path)
    two = more(
        tmp_path,
        one,
        1,
        expansions=[finished_runs.expansion()],
        instructions=finished_runs.levels(),
    )
    text = shown(view([versions_section([one, two], two.number)]))
    assert f"3 rows, 5 instructions more, {two.manifest['extended']['run']}" in text
    assert "instructions" in text.splitlines()[0]
    assert "instructions" not in shown(view([versions_section([one], one.number)]))
