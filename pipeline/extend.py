"""Adds to a version: rows of templates, or instructions. The recipe of such a run, and its begin.

The version's APIs and samples are put into the run's folder as finished stages, so that nothing is
asked again, and only the stages run whose records stand beside the samples. Beside them is

    <run>/known.jsonl    the rows of templates that the version has, which none may repeat
"""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

from pydantic import ValidationError

from toolloom.pipeline.basis import known_line
from toolloom.pipeline.stage import Sifting, Stage
from toolloom.pipeline.store.files import to_line, write_lines
from toolloom.pipeline.store.run import RunFolder
from toolloom.pipeline.store.version import PARTS, Version, check_home, find_version
from toolloom.schemas import (
    Api,
    ExpansionPlan,
    Extension,
    Instruction,
    JsonObject,
    NothingFound,
    PublishError,
    Recipe,
    RecipeError,
    Record,
    RewritePlan,
    Sample,
    Seed,
    SplitPlan,
    Usage,
    parse_recipe,
)
from toolloom.schemas.recipe import public_recipe

Plan = TypeVar("Plan", ExpansionPlan, RewritePlan)

_ROW = re.compile(r"-x\d{6,}$")  # ends the id of a row of a template


def parsed_plan(kind: type[Plan], fields: JsonObject, where: str = "plan.") -> Plan:
    """What is to be added, with the defaults of what is not said.

    Raises RecipeError, which names the first field that does not fit, after `where`.
    """
    try:
        return kind.model_validate(fields)
    except ValidationError as error:
        first = error.errors()[0]
        name = "".join(str(part) for part in first["loc"][:1])
        said = first["msg"].removeprefix("Value error, ")
        if first["type"] == "extra_forbidden":
            said = f"unknown field; known here: {', '.join(sorted(kind.model_fields))}."
        raise RecipeError(f"{where if name else where.rstrip('.')}{name}: {said}") from error


def plan_extension(
    outputs: Path,
    dataset: str,
    *,
    expand: ExpansionPlan | None = None,
    rewrite: RewritePlan | None = None,
    version: str | None = None,
    seed: int | None = None,
    recipe: Recipe | None = None,
) -> Recipe:
    """The recipe that adds to a version: of the run that made it, or `recipe`.

    The version's plan of splits stays, whatever the recipe says. Without `version` it is the
    latest one. A dataset that is not there begins with nothing, if seeds of its own are rewritten.
    If the same was added already the plan is the one that did it, so that it is not added twice.
    Raises NothingFound for a dataset or version that is not there.
    """
    wanted: JsonObject = {"expand": expand, "rewrite": rewrite, "regenerate": None}
    found = _found(outputs, dataset, version, rewrite)
    if found is None:
        begun = parse_recipe({"name": dataset}, f"a new dataset {dataset!r}")
        changes = {**wanted, "name": begun.name, "extend": Extension()}
        again = {} if seed is None else {"seed": seed}
        return (recipe or begun).model_copy(update={**changes, **again})
    check_home(found, outputs)
    last = next(iter(found.told("runs").values()))
    base = recipe or parse_recipe(last["recipe"], f"{found.path / 'manifest.json'}: the recipe")
    changes = {
        **wanted,
        "name": found.name,
        "seed": base.seed if seed is None else seed,
        "splits": SplitPlan.model_validate(found.told("plan")),
        "extend": Extension(version=found.label, content=found.manifest["content"]),
    }
    planned = base.model_copy(update=changes)
    return _carried_out(planned, found) or planned


def _found(
    outputs: Path, dataset: str, version: str | None, rewrite: RewritePlan | None
) -> Version | None:
    """The version to add to; None for a dataset that begins with the seeds of a rewrite."""
    try:
        found = find_version(outputs, dataset)
    except NothingFound:
        if version or not (rewrite and rewrite.seeds) or "/" in dataset:
            raise
        return None
    if version:
        return find_version(outputs, f"{found.name}/{version.rpartition('/')[2]}")
    return found


def _carried_out(planned: Recipe, version: Version) -> Recipe | None:
    """The plan that made this version or one that it adds to, if it is this one."""
    for run in version.told("runs").values():
        made = run["recipe"]
        if not made.get("extend"):
            return None
        before = Extension.model_validate(made["extend"])
        same = planned.model_copy(update={"extend": before})
        if public_recipe(same) == made:
            return same if _is_there(before, version) else None
    return None


def _is_there(wanted: Extension, version: Version) -> bool:
    """Whether the version that an extension began with can be read: without it nothing is shown."""
    if not wanted.version:
        return True
    try:
        before = find_version(version.path.parent.parent.parent, wanted.version)
    except NothingFound:
        return False
    return bool(before.manifest["content"] == wanted.content)


@dataclass(frozen=True)
class Ground:
    """The version that a run adds to; None for a dataset that begins with nothing."""

    version: Version | None
    recipe: Recipe

    @classmethod
    def of(cls, recipe: Recipe, outputs: Path) -> Ground | None:
        """None for a recipe that adds to no version. Raises NothingFound and PublishError."""
        wanted = recipe.extend
        if wanted is None:
            return None
        if not wanted.version:
            return cls(None, recipe)
        version = find_version(outputs, wanted.version)
        if version.manifest["content"] != wanted.content:
            raise PublishError(
                f"{version.path}: is not the version that the recipe was made for: its content "
                "is another. Add to the version that is there."
            )
        return cls(version, recipe)

    def stages(self, folder: RunFolder, stages: Sequence[Stage]) -> tuple[Stage, ...]:
        """Those that the version fills, and those that add to it."""
        adding = [self._fresh(stage) for stage in stages if stage.beside]
        if not adding:
            raise RecipeError("extend: there is nothing to add without `expand` or `rewrite`.")
        return (*_given(stages), *adding)

    def gives(self, stage: Stage) -> bool:
        """Whether the version fills a stage."""
        return not stage.beside

    def prepare(self, folder: RunFolder, stages: Sequence[Stage]) -> None:
        """Write what the run begins with, as far as it is not there; the run is locked.

        A version never changes, so whoever goes on after a kill writes the same.
        """
        for stage in filter(self.gives, stages):
            files = folder.stage(stage.name)
            if files.mark is None:
                files.write_shard(0, self._lines(stage.writes), (), Usage())
                files.finish(1, stage.writes, None)
        if self.recipe.expand and not (folder.path / "known.jsonl").exists():
            write_lines(folder.path / "known.jsonl", self._known())

    def _lines(self, kind: type[Record]) -> Iterator[bytes]:
        if self.version:
            yield from self._apis(self.version) if kind is Api else self._samples(self.version)

    def _apis(self, version: Version) -> Iterator[bytes]:
        for row in rows_of(version, "apis"):
            yield to_line(version.parsed(row, "record"))

    def _samples(self, version: Version) -> Iterator[bytes]:
        """All samples. Rows of templates make no templates, and are rewritten if that is wanted."""
        rewrite = self.recipe.rewrite
        rows_too = self.recipe.expand is None and rewrite is not None and rewrite.expanded
        for row in rows_of(version, "samples"):
            if rows_too or not is_expanded(version, row):
                yield to_line({key: version.parsed(row, key) for key in PARTS})

    def _known(self) -> Iterator[bytes]:
        version = self.version
        for row in rows_of(version, "samples") if version else ():
            if version and is_expanded(version, row):
                yield known_line(version, row)

    def _fresh(self, stage: Stage) -> Stage:
        """The stage without the requests that the version has instructions of."""
        gather = stage.gather
        if stage.writes is not Instruction or gather is None or self.version is None:
            return stage
        version = self.version

        def gather_new(given: Sifting) -> Iterator[Record]:
            known = {row["sample"] for row in rows_of(version, "instructions")}
            for seed in gather(given):
                if not (isinstance(seed, Seed) and seed.id in known):
                    yield seed

        return dataclasses.replace(stage, gather=gather_new)


def rows_of(version: Version, config: str) -> Iterator[JsonObject]:
    """The rows of a config, whatever their split."""
    for split in version.splits(config):
        yield from version.rows(config, split)


def is_expanded(version: Version, row: JsonObject) -> bool:
    """Whether a row of `samples` is one of a template."""
    if not _ROW.search(row["id"]):
        return False
    return any(share["stage"] == "expanded" for share in version.parsed(row, "provenance"))


def _given(stages: Sequence[Stage]) -> list[Stage]:
    """The stages whose records the version holds: the last that makes APIs, and samples."""
    before = stages[: [stage.beside for stage in stages].index(True)]
    last = {stage.writes: stage for stage in before}
    return [last[kind] for kind in (Api, Sample) if kind in last]
