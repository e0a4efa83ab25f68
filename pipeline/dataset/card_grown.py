"""What a card says of rows of templates and of instructions."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from typing import Any

from toolloom.pipeline.dataset.figures import (
    LEVELS,
    TOOLBENCH,
    VOTES,
    InstructionCounts,
    instructions_of,
)
from toolloom.pipeline.render.markdown import cell, table
from toolloom.schemas import JsonObject, Metric

NAMED = 10  # APIs without a template


def expansion_parts(manifest: JsonObject) -> Iterator[str]:
    """Where expanded rows come from; nothing of a version without any."""
    told: JsonObject = manifest.get("expansion") or {}
    if not told:
        return
    expanded = sum(sum(each["rows"].values()) for each in told.values())
    rows = sum(split["rows"] for split in manifest["splits"].values())
    yield "## Rows of templates"
    yield (
        f"{expanded:,} of {rows:,} dialogues are rows of templates. A template is a dialogue in "
        "which values are slots; its rows differ in values that request, calls, results and "
        "answer share, and in nothing else. Each row passed the certain checks. **They repeat "
        "their template's words**: they show which value goes where, not another way to ask, and "
        "they were not held against the near-duplicate rules that other dialogues passed. The id "
        "of such a row is that of its template, then `-x` and a number, so that they can be told "
        "apart or left out."
    )
    yield table(
        ("Run", "Mined", "Written", "Asked", "With rows", "Rows", "Inspected one by one"),
        [_run_line(name, each) for name, each in told.items()],
    )
    for title, key in (
        ("Samples of which no template was made", "refused"),
        ("Values that are no slots", "values"),
        ("Values that a check objected to", "rejected"),
    ):
        yield table((title, "Count"), _summed(told.values(), key))
    yield from filter(None, map(_coverage, told.values()))


def _run_line(name: str, told: JsonObject) -> list[Any]:
    kinds = [told["templates"].get(kind, 0) for kind in ("mined", "written", "asked")]
    return [name, *kinds, told["used"], sum(told["rows"].values()), told["inspected"]]


def _summed(told: Iterable[JsonObject], key: str) -> list[tuple[str, int]]:
    counts: Counter[str] = Counter()
    for each in told:
        counts.update(each[key])
    return sorted(counts.items(), key=lambda item: (-item[1], item[0]))


def _coverage(told: JsonObject) -> str:
    """How many APIs have a template."""
    found = told.get("coverage")
    if not found:
        return ""
    text = (
        f"{found['covered']:,} of {found['apis']:,} APIs that may be called in its splits have a "
        "template."
    )
    if lacking := found["without"][:NAMED]:
        more = found["apis"] - found["covered"] - len(lacking)
        text += f" Without: {', '.join(map(cell, lacking))}{f' and {more:,} more' if more else ''}."
    return text


def instruction_parts(manifest: JsonObject) -> Iterator[str]:
    """The five levels side by side, what was accepted and how it was rated."""
    counted = instructions_of(manifest)
    if counted is None:
        return
    yield "## Instructions"
    yield _about(counted)
    if shown := manifest["instructions"]["example"]:
        yield f"The levels of `{shown['sample']}`:"
        yield table(("Level", "Instruction"), shown["levels"].items())
    rated = bool(counted.ratings)
    means = ", and the means of the tester's votes, from 1 to 3" if rated else "; none was rated"
    yield f"What was accepted{means}:"
    metrics = [metric.value for metric in Metric] if rated else []
    named = ["Votes", *(metric.capitalize() for metric in metrics)] if rated else []
    yield table(
        ("Level", "Accepted", "Rejected", *named),
        [_level_line(level, counted, metrics) for level in LEVELS],
    )
    yield _rejected(counted)
    yield _training(manifest, counted)


def _about(counted: InstructionCounts) -> str:
    told = (
        f"{counted.levels.total():,} instructions say at five granularities what a dialogue was "
        "asked: the user's situation alone, then with the categories, the tools or the APIs that "
        "would serve it, and the full request (ToolPlanner). All levels of a request have the same "
        "solution path."
    )
    if foreign := counted.sources[TOOLBENCH]:
        told += (
            f" {foreign:,} of them are of ToolBench's queries, whose dialogues are not in "
            "`samples`; their source's licence is theirs."
        )
    return told


def _level_line(level: str, counted: InstructionCounts, metrics: list[str]) -> list[Any]:
    fallen = counted.rejected[level].total() if level in counted.rejected else 0
    votes = [counted.ratings[level][VOTES] if level in counted.ratings else 0]
    means = [counted.mean(level, metric) for metric in metrics]
    shown = ["–" if mean is None else f"{mean:.2f}" for mean in means]
    return [level, counted.levels[level], fallen, *(votes if metrics else []), *shown]


def _rejected(counted: InstructionCounts) -> str:
    """A row for each reason, a column for each level."""
    total = sum(counted.rejected.values(), Counter[str]())
    levels = [level for level in LEVELS if level in counted.rejected]
    rows = [
        (reason, count, *(counted.rejected[level][reason] for level in levels))
        for reason, count in sorted(total.items(), key=lambda item: (-item[1], item[0]))
    ]
    return table(("Rejected because", "All", *levels), rows)


def _training(manifest: JsonObject, counted: InstructionCounts) -> str:
    plans = [run["recipe"].get("rewrite") for run in manifest["runs"].values()]
    shares = sorted({plan["coarse"] for plan in plans if plan})
    each = ", ".join(f"{count:,} of `{task}`" for task, count in sorted(counted.planning.items()))
    share = " or ".join(f"{100 * share:g} %" for share in shares)
    return (
        f"`planning` has them as training rows of two tasks: {each or 'none'}. Of the levels "
        f"statement and category {share} are trained on, chosen by a hash of their ids; all are "
        "in `instructions`."
    )
