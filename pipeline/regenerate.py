"""Plans runs that make one split of a version anew, or grow it: their recipes.

What such a run begins with is in `basis.py`.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from itertools import count
from pathlib import Path

from pydantic import ValidationError

from toolloom.llm.cache import address
from toolloom.pipeline.basis import fallen
from toolloom.pipeline.dataset.publish import came_to_nothing
from toolloom.pipeline.store.locks import hold_dataset
from toolloom.pipeline.store.run import RunFolder
from toolloom.pipeline.store.version import Version, check_home, find_version, latest, open_version
from toolloom.schemas import (
    ExpansionPlan,
    JsonObject,
    NothingFound,
    Recipe,
    RecipeError,
    Regeneration,
    Split,
    SplitPlan,
    StoreError,
    parse_recipe,
)
from toolloom.schemas.recipe import public_recipe


def plan_regeneration(
    outputs: Path,
    dataset: str,
    split: str,
    *,
    version: str | None = None,
    seed: int | None = None,
    recipe: Recipe | None = None,
    only_rejected: bool = False,
    keep: bool = False,
) -> Recipe:
    """The recipe that makes a split of a version anew: of the run that made it, or `recipe`.

    The version's APIs and its plan of splits stay, whatever the recipe says. Without `version` it
    is the latest one, without `seed` the one after that of the run that made the split. With
    `only_rejected` or `keep` the split keeps its rows; with `keep` new queries are drawn, without
    `seed` with the first one that was not used for the split and did not come to nothing. Raises
    NothingFound for a dataset, version or split that is not there, and if nothing was rejected.
    """
    if only_rejected and keep:
        raise RecipeError("`--only-rejected` and `--keep` exclude each other: choose one.")
    found = find_version(outputs, dataset)
    if version:
        found = find_version(outputs, f"{found.name}/{version.rpartition('/')[2]}")
    _check(found, outputs, split)
    if only_rejected and not any(True for _ in fallen(found, split)):
        raise NothingFound(
            f"{found.label}: no query of {split} was rejected, so there is none to try again. "
            "Without --only-rejected the whole split is made anew."
        )
    if keep:
        return _growth(outputs, found, Split(split), recipe, seed)
    made = _maker(found, split)
    wanted = _wanted(found, Split(split)).model_copy(update={"only_rejected": only_rejected})
    base = recipe or _published(made if only_rejected else _source(found, split), found)
    planned = _planned(base, found, wanted, made["seed"] + 1 if seed is None else seed)
    return planned if only_rejected else _carried_out(planned, found) or planned


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
    folder = outputs / "datasets" / recipe.name
    if found := latest(folder):
        _check(found, outputs, split)
        return _growth(outputs, found, Split(split), recipe, None)
    if older := sorted(folder.glob("v*/manifest.json")):
        raise StoreError(
            f"{older[-1].parent}: was made by an older toolloom, which had other numbers for "
            "versions. Publish its run again, or grow a dataset of another `name`."
        )
    whole = recipe.model_copy(update={"regenerate": None, "extend": None})
    return _fruitful(outputs, lambda seed: whole.model_copy(update={"seed": seed}), whole.seed)


def _growth(
    outputs: Path, version: Version, split: Split, recipe: Recipe | None, seed: int | None
) -> Recipe:
    """The plan that keeps a split and draws more queries for it. Raises RecipeError for a seed
    that its queries were drawn with."""
    base = recipe or _published(_source(version, split), version)
    wanted = _wanted(version, split).model_copy(update={"keep": True})
    if seed is None:
        first = 1 + max(run["seed"] for run in _runs(version, split))
        return _fruitful(outputs, lambda n: _planned(base, version, wanted, n), first)
    planned = _planned(base, version, wanted, seed)
    if done := _carried_out(planned, version):
        return done
    drawn = [run["seed"] for run in _runs(version, split) if not run["recipe"].get("extend")]
    if seed in drawn:
        raise RecipeError(
            f"seed {seed}: queries of {split} in {version.label} were drawn with it already, and "
            f"would be the same ones. Take another, such as {1 + max(drawn)}."
        )
    return planned


def _fruitful(outputs: Path, plan: Callable[[int], Recipe], first: int) -> Recipe:
    """The first plan, by its seed, whose run did not end with nothing accepted."""
    plans = map(plan, count(first))
    return next(p for p in plans if not came_to_nothing(RunFolder(outputs / "runs" / p.run_id)))


def _wanted(version: Version, split: Split) -> Regeneration:
    return Regeneration(version=version.label, content=version.manifest["content"], split=split)


def _planned(base: Recipe, version: Version, wanted: Regeneration, seed: int) -> Recipe:
    """A recipe, made to fit the version whose split it is for."""
    plan = _plan_of(version)
    changes = {
        "name": version.name,
        "seed": seed,
        "splits": plan,
        "regenerate": wanted,
        "extend": None,
        "expand": None if wanted.only_rejected else _for_split(base.expand, plan, wanted.split),
        # Seeds of its own belong to no split that is made anew.
        "rewrite": base.rewrite and base.rewrite.model_copy(update={"seeds": ()}),
    }
    return base.model_copy(update=changes)


def _for_split(expand: ExpansionPlan | None, plan: SplitPlan, split: Split) -> ExpansionPlan | None:
    """How the templates of one split are expanded, if they are: into its part of the rows."""
    if expand is None or split not in expand.splits:
        return None
    whole = sum(map(plan.weight, expand.splits))
    rows = round(expand.rows * plan.weight(split) / whole) if whole else expand.rows
    return expand.model_copy(update={"splits": (split,), "rows": max(1, rows)})


def _published(run: JsonObject, version: Version) -> Recipe:
    """The recipe that a manifest tells of a run."""
    return parse_recipe(run["recipe"], f"{version.path / 'manifest.json'}: the recipe")


def _runs(version: Version, split: str) -> list[JsonObject]:
    """What the manifest tells of the runs that a split has rows of. Raises StoreError."""
    try:
        names = version.told("splits")[split]["runs"]
        runs: list[JsonObject] = [version.told("runs")[name] for name in names]
        sound = all(isinstance(r["seed"], int) and isinstance(r["recipe"], dict) for r in runs)
    except (LookupError, TypeError):
        sound = False
    if not sound or not runs:
        raise _damaged(version, f"the runs of {split}")
    return runs


def _plan_of(version: Version) -> SplitPlan:
    try:
        return SplitPlan.model_validate(version.told("plan"))
    except ValidationError as error:
        raise _damaged(version, "its plan of splits") from error


def _damaged(version: Version, what: str) -> StoreError:
    where = version.path / "manifest.json"
    return StoreError(f"{where}: is damaged (it does not tell {what}).")


def _maker(version: Version, split: str) -> JsonObject:
    """What the manifest tells of the run that made a split, and did not just add to it.

    The last one of a split that was grown. A dataset that began with nothing was added to by all
    its runs.
    """
    runs = _runs(version, split)
    made = [run for run in runs if not run["recipe"].get("extend")]
    return (made or runs)[-1]


def _source(version: Version, split: str) -> JsonObject:
    """The last run that drew queries for a split: one that tries again expands no templates."""
    drew = [run for run in _runs(version, split) if not _tries_again(run["recipe"])]
    made = [run for run in drew if not run["recipe"].get("extend")]
    return made[-1] if made else _maker(version, split)


def _tries_again(recipe: JsonObject) -> bool:
    wanted = recipe.get("regenerate")
    return isinstance(wanted, dict) and bool(wanted.get("only_rejected"))


def _carried_out(planned: Recipe, version: Version) -> Recipe | None:
    """The plan that made this version, if it is this one with the version it began with.

    With a seed of one's own the same command names the same plan, also when it is carried out.
    """
    assert planned.regenerate
    split = planned.regenerate.split
    run = _maker(version, split)
    extended = version.manifest.get("extended")
    grown = str(extended.get("run")) if isinstance(extended, dict) else None
    newest = version.told("runs").get(grown)
    if run is not newest and version.manifest.get("regenerated") != split:
        return None
    made = _published(run, version)
    if (before := made.regenerate) is None:
        return None
    parent = version.path.parent / before.version.rpartition("/")[2]
    if not (parent / "manifest.json").is_file() or _content(parent) != before.content:
        return None  # it could not be shown
    same = planned.model_copy(update={"regenerate": before})
    place = {"version": before.version, "content": before.content}
    if planned.regenerate.model_copy(update=place) != before:
        return None  # it kept rows that are to go, or the other way round
    return same if public_recipe(same) == public_recipe(made) else None


def _content(path: Path) -> str:
    return str(open_version(path).manifest["content"])


def _check(version: Version, outputs: Path, split: str) -> None:
    if not isinstance(version.told("splits"), dict):
        raise _damaged(version, "its splits")
    splits = [name for name in version.told("splits") if name in set(Split)]
    if split not in splits:
        advice = f"There are: {', '.join(splits)}."
        if split in set(Split):
            advice += " Its run drew no queries for it: run the recipe with more of them, or with "
            advice += "APIs of more tools and categories."
        raise NothingFound(f"{version.label} has no split {split!r}. {advice}")
    check_home(version, outputs)


def hold_version(
    outputs: Path, dataset: str, cache: str | None = None
) -> AbstractContextManager[None]:
    """Hold a dataset, as people name it, while a version of it is added to.

    One that has no version yet is not held: there is nothing to begin with. Raises PublishError
    for a version that is not at home in `outputs`, and Busy.
    """
    try:
        found = find_version(outputs, dataset)
    except NothingFound:
        return nullcontext()
    check_home(found, outputs)  # before its name, which may be a stranger's, is used in a path
    return hold_dataset(outputs, found.name, address(outputs, cache))
