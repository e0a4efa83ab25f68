"""Finished runs of records made by hand (samples, templates, expansions, instructions), and the
versions that are published of them."""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from support import toys
from toolloom.pipeline.dataset.publish import Published, publish
from toolloom.pipeline.stage import Stage, planned_stage
from toolloom.pipeline.store.files import record_line
from toolloom.pipeline.store.run_folder import RunFolder
from toolloom.pipeline.store.version import Version
from toolloom.pipeline.templates.filling import TemplateRenderer
from toolloom.schemas import (
    FINISH,
    Choice,
    Extension,
    Granularity,
    Instruction,
    Recipe,
    Rejected,
    Sample,
    Seed,
    Split,
    Tags,
    Template,
    Usage,
    marker,
)

TEMPLATES = Stage("templates", "", Sample, Template, beside=True)
EXPANDED = Stage("expanded", "", Template, Sample, beside=True)
REWRITTEN = Stage("rewritten", "rewriter", Seed, Instruction, beside=True)
CITIES = ("Zürich", "Bern", "Genève", "Chur", "Olten")


def template(of: Sample | None = None) -> Template:
    """A template with one slot: the city, wherever it is said but in the pool."""
    sample = (of or toys.sample()).model_dump(mode="json")
    query = sample["dialogue"]["query"]
    bare = {**sample, "provenance": [], "flags": []}
    bare["dialogue"] = {**sample["dialogue"], "query": {**query, "pool": []}}
    made = json.loads(json.dumps(bare, ensure_ascii=False).replace("Zürich", marker("value")))
    made["dialogue"]["query"]["pool"] = query["pool"]
    return Template(
        id=query["id"],
        kind="mined",
        goal="What is the weather in {value}?",
        apis=tuple(one["api"] for one in query["intent"]),
        sample=made,
        choices=(Choice(slots=("value",), rows=tuple((c,) for c in CITIES), about="the city"),),
    )


def expanded() -> list[Sample]:
    """Three rows of the template, numbered from 0."""
    renderer = TemplateRenderer(made := template())
    rows = (renderer.sample((1 + n,), f"{made.id}-x{n:06d}") for n in range(3))
    return [Sample.model_validate(row) for row in rows]


def instruction(
    level: Granularity, sample: str = "q0", split: Split = Split.TRAIN, **changes: Any
) -> Instruction:
    """An instruction of a toy sample, which calls weather_current."""
    fields: dict[str, Any] = {
        "id": f"{sample}-{level}",
        "sample": sample,
        "split": split,
        "level": level,
        "text": f"A request at the level {level}.",
        "spoken": {Granularity.TOOL: ("Station",)}.get(level, ()),
        "tags": Tags(categories=("weather",), tools=("station",), apis=("current",)),
        "path": ("weather_current", FINISH),
    }
    return Instruction(**{**fields, **changes})


def levels(sample: str = "q0", **changes: Any) -> list[Instruction]:
    return [instruction(level, sample, **changes) for level in Granularity]


def run(
    outputs: Path,
    recipe: Recipe,
    samples: Iterable[Sample] = (),
    rows: Iterable[Sample] = (),
    instructions: Iterable[Instruction] = (),
    rejected: Iterable[Rejected] = (),
) -> RunFolder:
    """A finished run with the records given, `rows` of templates among them; `rejected` fell in
    `rewritten`."""
    folder = RunFolder(outputs / "runs" / recipe.run_id)
    given = recipe.extend is not None
    stages = (toys.TESTED, TEMPLATES, EXPANDED, REWRITTEN)
    folder.open(recipe, [planned_stage(s, given=given and s is toys.TESTED) for s in stages])
    made: dict[str, Iterable[Any]] = {
        "tested": samples,
        "templates": [template()] if rows else (),
        "expanded": rows,
        "rewritten": instructions,
    }
    for stage in stages:
        files = folder.stage(stage.name)
        fallen = rejected if stage is REWRITTEN else ()
        lines = map(record_line, made[stage.name])
        files.write_shard(0, lines, map(record_line, fallen), Usage())
        files.finish(1, stage.writes, None)
    return folder


def finished_run(
    outputs: Path,
    samples: list[Sample],
    rejected: Iterable[Rejected] = (),
    use: Usage | None = None,
    **changes: Any,
) -> RunFolder:
    """A run of one stage with the records given, which took so much."""
    recipe = toys.recipe(**changes)
    folder = RunFolder(outputs / "runs" / recipe.run_id)
    folder.open(recipe, [planned_stage(toys.TESTED)])
    lines = map(record_line, samples), map(record_line, rejected)
    folder.stage("tested").write_shard(0, *lines, use or Usage())
    folder.stage("tested").finish(1, Sample, None)
    return folder


def published(tmp_path: Path, *samples: Sample) -> Published:
    return publish(finished_run(tmp_path, list(samples)), tmp_path)


REWRITE = {"rewrite": {"coarse": 0.5}}


def more(outputs: Path, before: Version | Published, seed: int = 1, **made: Any) -> Published:
    """The version after `before`, with what a run adds."""
    wanted = Extension(version=before.label, content=before.manifest["content"])
    recipe = toys.recipe(seed=seed, extend=wanted.model_dump(), **REWRITE)
    return publish(run(outputs, recipe, [toys.sample()], **made), outputs)
