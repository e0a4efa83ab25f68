"""What begins with a version: one split of it made anew or grown, and what is added to it.

The plans of such runs are recipes: `plan_regeneration`, `plan_growth`, `plan_extension`. What such
a run begins with is a `Start`: the version's records are put into the run's folder as finished
stages, so that nothing is asked or paid for again, and beside them the published rows that no new
row may repeat, as `known.jsonl`.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext, suppress
from dataclasses import dataclass
from functools import partial
from itertools import count
from pathlib import Path
from typing import Any, TypeAlias

from pydantic import ValidationError

from toolloom.pipeline.curation.duplicates import compared
from toolloom.pipeline.dataset.publish import came_to_nothing, parent_of
from toolloom.pipeline.stage import Stage, StageInput
from toolloom.pipeline.store.files import hold_dataset, to_line, write_lines
from toolloom.pipeline.store.run_folder import RunFolder, begun_with
from toolloom.pipeline.store.version import PARTS, Version, check_home, find_version, latest
from toolloom.schemas import (
    Api,
    ExpansionPlan,
    Extension,
    Instruction,
    JsonObject,
    NothingFound,
    Recipe,
    RecipeError,
    Record,
    Regeneration,
    RewritePlan,
    Sample,
    Seed,
    Split,
    SplitPlan,
    StoreError,
    Usage,
    World,
    parse_recipe,
)
from toolloom.schemas.recipe import explain

Lines: TypeAlias = Callable[[], Iterable[bytes]]
"""Lines of a file, made when they are written."""


@dataclass(frozen=True)
class Start:
    """What a run begins with that builds on a version; none for a dataset that begins with nothing.

    A version never changes, so whoever goes on after a kill writes the same.
    """

    stages: tuple[Stage, ...]  # those that the run has
    given: Mapping[str, Lines]  # what the version has of stages, by their name
    known: Lines  # rows that stay, as far as new ones are compared with them
    filled: frozenset[str] = frozenset()  # of `given`, those whose records the run's rows come of

    def write(self, folder: RunFolder) -> None:
        """Write it, as far as it is not there; the run is held."""
        for stage in self.stages:
            lines, files = self.given.get(stage.name), folder.stage(stage.name)
            if lines and files.mark is None:
                files.write_shard(0, lines(), (), Usage())
                files.finish(1)
        if not (folder.path / "known.jsonl").exists():
            write_lines(folder.path / "known.jsonl", self.known())


def begin(recipe: Recipe, outputs: Path, stages: Sequence[Stage]) -> Start:
    """What a run begins with that builds on a version.

    A split that is made anew or grown begins with the version's worlds and APIs, so that only its
    queries are drawn and paid for; what is added to a version with its samples too, so that only
    stages run whose records stand beside them. Raises NothingFound and PublishError for a version
    that is not there, or is another one.
    """
    anew = recipe.regenerate
    wanted = anew or recipe.extend
    assert wanted
    version = parent_of(wanted, outputs) if wanted.version else None
    if anew:
        before = begun_with(True, [stage.name for stage in stages])
        filled = [stage for stage in stages if stage.name in before]
        chosen = tuple(stages)
    else:
        adding = [_adds(stage) for stage in stages]
        if True not in adding:
            raise RecipeError("extend: there is nothing to add without `expand` or `rewrite`.")
        last = {stage.writes: stage for stage in stages[: adding.index(True)]}
        filled = [last[kind] for kind in (World, Api, Sample) if kind in last]
        chosen = (*filled, *(_fresh(stage, version) for stage in stages if _adds(stage)))
    given = {stage.name: partial(_records, version, stage.writes) for stage in filled}
    known = partial(_known, version, recipe)
    return Start(chosen, given, known, frozenset() if anew else frozenset(given))


def _adds(stage: Stage) -> bool:
    """Whether a stage's records stand beside the samples, in a version that has these already."""
    return stage.beside and stage.writes is not World


def _fresh(stage: Stage, version: Version | None) -> Stage:
    """The stage without the requests that the version has instructions of."""
    feed = stage.feed
    if stage.writes is not Instruction or feed is None or version is None:
        return stage

    def feed_new(given: StageInput) -> Iterator[Record]:
        known = {row["sample"] for row in version.rows("instructions")}
        for seed in feed(given):
            if not (isinstance(seed, Seed) and seed.id in known):
                yield seed

    return dataclasses.replace(stage, feed=feed_new)


def _records(version: Version | None, kind: type[Record]) -> Iterator[bytes]:
    """What a version holds of a kind; rows of templates make no templates and are not rewritten."""
    name = {Api: "apis", World: "worlds", Sample: "samples"}.get(kind)
    if version is None or name is None:
        return
    for row in version.rows(name):
        if kind is not Sample:
            yield to_line(version.parsed(row, "record"))
        elif not is_expanded(version, row):
            yield to_line({key: version.parsed(row, key) for key in PARTS})


def _known(version: Version | None, recipe: Recipe) -> Iterator[bytes]:
    """Rows that no new one may repeat: of a split that is made anew or grown all that stay, and of
    a version that rows of templates are added to these."""
    anew = recipe.regenerate
    if version is None or not (anew or recipe.expand):
        return
    for split in version.splits("samples"):
        if not anew or anew.keep or split != anew.split:
            for row in version.rows("samples", split):
                if anew or is_expanded(version, row):
                    yield _known_line(version, row)


def is_expanded(version: Version, row: JsonObject) -> bool:
    """Whether a row of `samples` is one of a template."""
    return any(share["stage"] == "expanded" for share in version.parsed(row, "provenance"))


def _known_line(version: Version, row: JsonObject) -> bytes:
    """A row of `samples` as the stages that compare rows know it."""
    dialogue = version.parsed(row, "dialogue")
    query = dialogue["query"]
    told = {name: query[name] for name in ("id", "ability", "scenario")}
    if setting := query.get("setting"):
        told["setting"] = {name: setting[name] for name in ("world", "script")}
    names = ("api", "arguments", "references")
    intent = [{name: one[name] for name in names} for one in query["intent"]]
    return to_line({**told, "text": compared({"dialogue": dialogue}), "intent": intent})


def plan_change(outputs: Path, dataset: str, change: JsonObject, **given: Any) -> Recipe:
    """The plan of a change in its JSON form, as a flow is given it: the fields of one of
    `regenerate`, `expand` and `rewrite`; `given` are the `version`, `seed` and `recipe` that it
    takes. Raises RecipeError for one that is none."""
    match list(change.items()):
        case [("regenerate", dict(fields))] if fields.keys() <= {"split", "keep"}:
            return plan_regeneration(outputs, dataset, **{"split": "", **fields}, **given)
        case [(("expand" | "rewrite") as kind, dict(fields))]:
            plan = parsed_plan(kind, fields, f"change.{kind}.")
            return plan_extension(outputs, dataset, **{**given, kind: plan})
    raise RecipeError("change: is not one of `regenerate`, `expand`, `rewrite` with fields.")


def plan_regeneration(
    outputs: Path,
    dataset: str,
    split: str,
    *,
    version: str | None = None,
    seed: int | None = None,
    recipe: Recipe | None = None,
    keep: bool = False,
) -> Recipe:
    """The recipe that makes a split of a version anew: of the run that made it, or `recipe`.

    The version's APIs and its plan of splits stay, whatever the recipe says. Without `version` it
    is the latest one, without `seed` the one after that of the run that made the split. With `keep`
    the split keeps its rows and new queries are drawn, without `seed` with the first one that was
    not used for the split and did not come to nothing. Raises NothingFound for a dataset, version
    or split that is not there, and RecipeError for a seed that the rows to keep were drawn with.
    """
    found = _chosen(outputs, dataset, version)
    _check(found, outputs, split)
    if keep:
        return _growth(outputs, found, Split(split), recipe, seed)
    made = _makers(_runs(found, split))[-1]
    base = recipe or _published(made, found)
    if recipe is None and base.worlds and base.worlds.rows:
        # What the split had: the recipe's rows are those of all splits.
        rows = (row for row in found.rows("samples", split) if not is_expanded(found, row))
        drawn = sum(1 for row in rows if found.parsed(row, "dialogue")["query"].get("setting"))
        worlds = base.worlds.model_copy(update={"rows": max(1, drawn)})
        base = base.model_copy(update={"worlds": worlds})
    return _planned(base, found, Split(split), made["seed"] + 1 if seed is None else seed)


def plan_growth(outputs: Path, recipe: Recipe, split: str = "train") -> Recipe:
    """The recipe of the run that makes a recipe's dataset larger by new queries of a split.

    As long as there is no version that is the whole run of the recipe. Then it keeps all that the
    latest version has, its APIs and its plan of splits, and draws the split's part of the recipe's
    queries with the next seed. Only what is on the disk decides, so that a growth that was stopped
    is planned again and goes on; one that accepted nothing gives way to the next seed. Raises
    NothingFound if the version lacks the split, and StoreError if it cannot be read.
    """
    if split not in set(Split):
        raise NothingFound(f"There is no split {split!r}. There are: {', '.join(Split)}.")
    if found := latest(outputs / "datasets" / recipe.name):
        _check(found, outputs, split)
        return _growth(outputs, found, Split(split), recipe, None)
    whole = recipe.model_copy(update={"regenerate": None, "extend": None})
    return _fruitful(outputs, lambda seed: whole.model_copy(update={"seed": seed}), whole.seed)


def _growth(
    outputs: Path, version: Version, split: Split, recipe: Recipe | None, seed: int | None
) -> Recipe:
    """The plan that keeps a split and draws more queries for it. Raises RecipeError for a seed
    that its queries were drawn with."""
    runs = _runs(version, split)
    made = _makers(runs)
    base = recipe or _published(made[-1], version)
    if seed is None:
        first = 1 + max(run["seed"] for run in runs)
        return _fruitful(outputs, lambda n: _planned(base, version, split, n, keep=True), first)
    drawn = [run["seed"] for run in made]
    if seed in drawn:
        raise RecipeError(
            f"seed {seed}: queries of {split} in {version.label} were drawn with it already, and "
            f"would be the same ones. Take another, such as {1 + max(drawn)}."
        )
    return _planned(base, version, split, seed, keep=True)


def _fruitful(outputs: Path, plan: Callable[[int], Recipe], first: int) -> Recipe:
    """The first plan, by its seed, whose run did not end with nothing accepted."""
    plans = map(plan, count(first))
    return next(p for p in plans if not came_to_nothing(RunFolder(outputs / "runs" / p.run_id)))


def _planned(
    base: Recipe, version: Version, split: Split, seed: int, *, keep: bool = False
) -> Recipe:
    """A recipe, made to fit the version whose split it is for."""
    plan, content = SplitPlan.model_validate(version.manifest["plan"]), version.manifest["content"]
    expand = base.expand if base.expand and split in base.expand.splits else None
    if expand:  # the split's part of the rows
        whole = sum(map(plan.weight, expand.splits))
        rows = round(expand.rows * plan.weight(split) / whole) if whole else expand.rows
        expand = expand.model_copy(update={"splits": (split,), "rows": max(1, rows)})
    apis = base.apis
    if base.writes_worlds and not version.manifest.get("worlds"):
        apis = apis.model_copy(update={"worlds": False})  # its domains have none
    changes = {
        "name": version.name,
        "seed": seed,
        "apis": apis,
        "splits": plan,
        "regenerate": Regeneration(version=version.label, content=content, split=split, keep=keep),
        "extend": None,
        "expand": expand,
        # Seeds of its own belong to no split that is made anew.
        "rewrite": base.rewrite and base.rewrite.model_copy(update={"seeds": ()}),
    }
    return base.model_copy(update=changes)


def _published(run: JsonObject, version: Version) -> Recipe:
    """The recipe that a manifest tells of a run."""
    return parse_recipe(run["recipe"], f"{version.path / 'manifest.json'}: the recipe")


def _runs(version: Version, split: str | None = None) -> list[JsonObject]:
    """What the manifest tells of its runs, or of those that a split has rows of. Raises
    StoreError."""
    runs, splits = version.manifest["runs"], version.manifest["splits"]
    names = splits.get(split, {}).get("runs") if split else [*runs]
    found = [runs.get(name, {}) for name in names] if isinstance(names, list) else []
    told = (isinstance(r.get("seed"), int) and isinstance(r.get("recipe"), dict) for r in found)
    if not found or not all(told):
        where = version.path / "manifest.json"
        what = f"the runs of {split}" if split else "its runs"
        raise StoreError(f"{where}: is damaged (it does not tell {what}).")
    return found


def _makers(runs: list[JsonObject]) -> list[JsonObject]:
    """Those that made a split, and did not just add to it; a dataset that began with nothing was
    added to by all its runs."""
    return [run for run in runs if not run["recipe"].get("extend")] or runs


def _check(version: Version, outputs: Path, split: str) -> None:
    splits = [name for name in version.manifest["splits"] if name in set(Split)]
    if split not in splits:
        more = " Run the recipe with more queries, or with APIs of more tools and categories."
        advice = f"There are: {', '.join(splits)}.{more if split in set(Split) else ''}"
        raise NothingFound(f"{version.label} has no split {split!r}. {advice}")
    check_home(version, outputs)


def hold_version(outputs: Path, dataset: str) -> AbstractContextManager[None]:
    """Hold a dataset, as people name it, while a version of it is added to.

    One that has no version yet is not held: there is nothing to begin with. Raises PublishError
    for a version that is not at home in `outputs`, and Busy.
    """
    with suppress(NothingFound):
        found = find_version(outputs, dataset)
        check_home(found, outputs)  # before its name, which may be a stranger's, is in a path
        return hold_dataset(outputs, found.name)
    return nullcontext()


def parsed_plan(kind: str, fields: JsonObject, where: str) -> ExpansionPlan | RewritePlan:
    """What is to be added by `expand` or `rewrite`, with the defaults of what is not said.

    Raises RecipeError, which names the first field that does not fit, after `where`.
    """
    plan: type[ExpansionPlan | RewritePlan] = ExpansionPlan if kind == "expand" else RewritePlan
    try:
        return plan.model_validate(fields)
    except ValidationError as error:
        first = error.errors()[0]
        said = explain({**first, "loc": (kind, *first["loc"])})
        raise RecipeError(where + said.removeprefix(f"{kind}.")) from error


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
    latest one, without `seed` the one after the highest that the same was added with. A dataset
    that is not there begins with nothing, if seeds of its own are rewritten. Raises NothingFound
    for a dataset or version that is not there.
    """
    wanted: JsonObject = {"expand": expand, "rewrite": rewrite, "regenerate": None}
    try:
        found = _chosen(outputs, dataset, version)
    except NothingFound:
        if version or not (rewrite and rewrite.seeds) or "/" in dataset:
            raise
        # The dataset begins with the seeds of the rewrite.
        begun = parse_recipe({"name": dataset}, f"a new dataset {dataset!r}")
        changes = {**wanted, "name": begun.name, "extend": Extension()}
        again = {} if seed is None else {"seed": seed}
        return (recipe or begun).model_copy(update={**changes, **again})
    check_home(found, outputs)
    runs = _runs(found)
    base = recipe or _published(runs[0], found)
    kind = "expand" if expand else "rewrite"
    told = ((run["seed"], run["recipe"]) for run in runs)
    added = [drawn for drawn, had in told if had.get("extend") and had.get(kind)]
    first = 1 + max(added) if added else base.seed
    changes = {
        **wanted,
        "name": found.name,
        "seed": first if seed is None else seed,
        "splits": SplitPlan.model_validate(found.manifest["plan"]),
        "extend": Extension(version=found.label, content=found.manifest["content"]),
    }
    return base.model_copy(update=changes)


def _chosen(outputs: Path, dataset: str, version: str | None) -> Version:
    """A dataset's version, by its number where that is given beside the name."""
    found = find_version(outputs, dataset)
    return find_version(outputs, f"{found.name}/{version.rpartition('/')[2]}") if version else found
