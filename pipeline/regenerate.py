"""Makes one split of a version anew: the recipe of such a run, and what it begins with.

The version's APIs are put into the run's folder as finished stages, so that only the queries of
the split are drawn and paid for. Beside them are

    <run>/known.jsonl    the rows that stay, which no new row may repeat
    <run>/needs.jsonl    with `only_rejected`: the needs that are tried again
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from toolloom.pipeline.contents import TRIED_AGAIN
from toolloom.pipeline.curation.rows import instruction
from toolloom.pipeline.jsonl import read_records, record_line, to_line, write_lines
from toolloom.pipeline.stage import Stage
from toolloom.pipeline.store import RunFolder, Use
from toolloom.pipeline.tallies import need_of
from toolloom.pipeline.versions import Version, find_version, open_version
from toolloom.schemas import (
    Api,
    ExpansionPlan,
    JsonObject,
    Need,
    NothingFound,
    PublishError,
    Recipe,
    Regeneration,
    Split,
    SplitPlan,
    StoreError,
    parse_recipe,
)
from toolloom.schemas.recipe import public_recipe

QUERIES = "queries"  # the first stage that is done anew


def plan_regeneration(
    outputs: Path,
    dataset: str,
    split: str,
    *,
    version: str | None = None,
    seed: int | None = None,
    recipe: Recipe | None = None,
    only_rejected: bool = False,
) -> Recipe:
    """The recipe that makes a split of a version anew: of the run that made it, or `recipe`.

    The version's APIs and its plan of splits stay, whatever the recipe says. Without `version` it
    is the latest one, without `seed` the one after that of the run that made the split. Raises
    NothingFound for a dataset, version or split that is not there, and if nothing was rejected.
    """
    found = find_version(outputs, dataset)
    if version:
        found = find_version(outputs, f"{found.name}/{version.rpartition('/')[2]}")
    _check(found, outputs, split)
    if only_rejected and not any(True for _ in _fallen(found, split)):
        raise NothingFound(
            f"{found.label}: no query of {split} was rejected, so there is none to try again. "
            "Without --only-rejected the whole split is made anew."
        )
    made = _maker(found, split)
    base = recipe or parse_recipe(made["recipe"], f"{found.path / 'manifest.json'}: the recipe")
    wanted = Regeneration(
        version=found.label,
        content=found.manifest["content"],
        split=Split(split),
        only_rejected=only_rejected,
    )
    changes = {
        "name": found.name,
        "seed": made["seed"] + 1 if seed is None else seed,
        "splits": SplitPlan.model_validate(found.told("plan")),
        "regenerate": wanted,
        "extend": None,
        "expand": None if only_rejected else _for_split(base, Split(split)),
        # Seeds of its own belong to no split that is made anew.
        "rewrite": base.rewrite and base.rewrite.model_copy(update={"seeds": ()}),
    }
    planned = base.model_copy(update=changes)
    return planned if only_rejected else _carried_out(planned, found) or planned


def _for_split(recipe: Recipe, split: Split) -> ExpansionPlan | None:
    """How the templates of one split are expanded, if they are: into its part of the rows."""
    plan, weight = recipe.expand, recipe.splits.weight
    if plan is None or split not in plan.splits:
        return None
    whole = sum(map(weight, plan.splits))
    rows = round(plan.rows * weight(split) / whole) if whole else plan.rows
    return plan.model_copy(update={"splits": (split,), "rows": max(1, rows)})


def _maker(version: Version, split: str) -> JsonObject:
    """What the manifest tells of the run that made a split, and did not just add to it.

    A dataset that began with nothing was added to by all its runs.
    """
    runs: list[JsonObject] = [
        version.told("runs")[name] for name in version.told("splits")[split]["runs"]
    ]
    made = [run for run in runs if not run["recipe"].get("extend")]
    return (made or runs)[-1]


def _carried_out(planned: Recipe, version: Version) -> Recipe | None:
    """The plan that made this version, if it is this one with the version it began with.

    With a seed of one's own the same command names the same plan, also when it is carried out.
    """
    assert planned.regenerate
    split = planned.regenerate.split
    made = _maker(version, split)["recipe"]
    if version.manifest.get("regenerated") != split or not made.get("regenerate"):
        return None
    before = Regeneration.model_validate(made["regenerate"])
    parent = version.path.parent / before.version.rpartition("/")[2]
    if not (parent / "manifest.json").is_file() or _content(parent) != before.content:
        return None  # it could not be shown
    same = planned.model_copy(update={"regenerate": before})
    return same if public_recipe(same) == made else None


def _content(path: Path) -> str:
    return str(open_version(path).manifest["content"])


def _check(version: Version, outputs: Path, split: str) -> None:
    splits = [name for name in version.told("splits") if name in set(Split)]
    if split not in splits:
        advice = f"There are: {', '.join(splits)}."
        if split in set(Split):
            advice += " Its run drew no queries for it: run the recipe with more of them, or with "
            advice += "APIs of more tools and categories."
        raise NothingFound(f"{version.label} has no split {split!r}. {advice}")
    check_home(version, outputs)


def check_home(version: Version, outputs: Path) -> None:
    """Raises PublishError for a version that is not where its next one will be."""
    home = outputs / "datasets" / version.name
    if version.path.resolve().parent != home.resolve():
        raise PublishError(
            f"{version.path}: is not in {home}, where its next version would be. Copy it there, "
            "or name the folder of outputs it is in with --outputs."
        )


@dataclass(frozen=True)
class Basis:
    """The version that a run builds on."""

    version: Version
    wanted: Regeneration
    seed: int

    @classmethod
    def of(cls, recipe: Recipe, outputs: Path) -> Basis | None:
        """None for a recipe that makes a whole dataset. Raises NothingFound and PublishError."""
        wanted = recipe.regenerate
        if wanted is None:
            return None
        version = find_version(outputs, wanted.version)
        if version.manifest["content"] != wanted.content:
            raise PublishError(
                f"{version.path}: is not the version that the recipe was made for: its content "
                "is another. Regenerate the split from the version that is there."
            )
        return cls(version, wanted, recipe.seed)

    def stages(self, folder: RunFolder, stages: Sequence[Stage]) -> tuple[Stage, ...]:
        """The stages, of which `queries` takes the needs that are tried again."""
        if not self.wanted.only_rejected:
            return tuple(stages)
        path = folder.path / "needs.jsonl"
        count = sum(1 for _ in _fallen(self.version, self.wanted.split))

        def again(stage: Stage) -> Stage:
            return dataclasses.replace(
                stage, draw=lambda *_: read_records(path, Need), expects=lambda *_: count
            )

        return tuple(again(stage) if stage.name == QUERIES else stage for stage in stages)

    def gives(self, stage: Stage) -> bool:
        """Whether all rows of a stage are published already: no stage that runs has such rows."""
        return False

    def prepare(self, folder: RunFolder, stages: Sequence[Stage]) -> None:
        """Write what the run begins with, as far as it is not there; the run is locked.

        A version never changes, so whoever goes on after a kill writes the same.
        """
        names = [stage.name for stage in stages]
        for stage in stages[: names.index(QUERIES)]:
            files = folder.stage(stage.name)
            if files.mark is None:
                lines = self._apis() if stage.writes is Api else ()
                files.write_shard(0, lines, (), Use())
                files.finish(1, stage.writes, None)
        for name, lines in (("known.jsonl", self._known()), ("needs.jsonl", self._needs())):
            if not (folder.path / name).exists():
                write_lines(folder.path / name, lines)

    def _apis(self) -> Iterator[bytes]:
        for split in self.version.splits("apis"):
            for row in self.version.rows("apis", split):
                yield to_line(self.version.parsed(row, "record"))

    def _known(self) -> Iterator[bytes]:
        """The rows that stay: of the other splits, and of this one if only rejects go again."""
        for split in self.version.splits("samples"):
            if split == self.wanted.split and not self.wanted.only_rejected:
                continue
            for row in self.version.rows("samples", split):
                yield known_line(self.version, row)

    def _needs(self) -> Iterator[bytes]:
        """The needs that are tried again, under new ids: other ids have other answers."""
        split = self.wanted.split
        if not self.wanted.only_rejected:
            return
        begin = f"{split}-{self.seed}-"
        rows = (row for c in ("samples", "rejected") for row in self.version.rows(c, split))
        taken = [row["id"].removeprefix(begin) for row in rows if row["id"].startswith(begin)]
        first = 1 + max((int(number) for number in taken if number.isdigit()), default=-1)
        for number, need in enumerate(_fallen(self.version, split), first):
            yield record_line(_again(need, f"{begin}{number:06d}", self.version))


def known_line(version: Version, row: JsonObject) -> bytes:
    """A row of `samples` as the stages that compare rows know it."""
    dialogue = version.parsed(row, "dialogue")
    query = dialogue["query"]
    names = ("api", "arguments", "references")
    intent = [{name: one[name] for name in names} for one in query["intent"]]
    told = {name: query[name] for name in ("id", "ability", "scenario")}
    return to_line({**told, "text": instruction({"dialogue": dialogue}), "intent": intent})


def _fallen(version: Version, split: str) -> Iterator[JsonObject]:
    """The needs of a split that fell on their way to a sample; not those sorted out after."""
    for row in version.rows("rejected", split):
        if row["stage"] in TRIED_AGAIN:
            yield need_of(version.parsed(row, "record"))


def _again(need: JsonObject, name: str, version: Version) -> Need:
    fields = {key: need[key] for key in Need.model_fields if key in need}
    try:
        return Need.model_validate({**fields, "id": name})
    except ValueError as error:
        raise StoreError(
            f"{version.path}: a rejected record, {need.get('id')}, holds no query that this "
            f"version of toolloom reads ({str(error).splitlines()[0]})."
        ) from error
