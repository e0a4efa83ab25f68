"""What begins with a version: one split of it made anew or grown, and what is added to it.

The plans of such runs are recipes: `plan_regeneration`, `plan_growth`, `plan_extension`. One that
was carried out is known by its run's id, which the manifest names. What such a run begins with is
a `Start`: the version's records are put into the run's folder as finished stages, so that nothing
is asked or paid for again, and beside them are

    <run>/known.jsonl    published rows that stay, which no new row may repeat
    <run>/needs.jsonl    the needs that are tried again, of a split made anew
"""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from functools import partial
from itertools import chain, count
from pathlib import Path
from typing import Any, TypeAlias, TypeVar

from pydantic import ValidationError

from toolloom.pipeline.curation.duplicates import compared
from toolloom.pipeline.dataset.publish import came_to_nothing, is_tried_again
from toolloom.pipeline.stage import Stage, StageInput
from toolloom.pipeline.store.files import read_records, record_line, to_line, write_lines
from toolloom.pipeline.store.locks import hold_dataset
from toolloom.pipeline.store.run_folder import QUERIES, RunFolder, begun_with
from toolloom.pipeline.store.version import (
    PARTS,
    Version,
    check_home,
    find_version,
    latest,
    open_version,
)
from toolloom.schemas import (
    Api,
    ExpansionPlan,
    Extension,
    Instruction,
    JsonObject,
    Need,
    NothingFound,
    PublishError,
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
    ToolloomError,
    Usage,
    World,
    parse_recipe,
)
from toolloom.schemas.recipe import begun
from toolloom.schemas.splits import need_of

Plan = TypeVar("Plan", ExpansionPlan, RewritePlan)
Lines: TypeAlias = Callable[[], Iterable[bytes]]
"""Lines of a file, made when they are written."""

_ROW = re.compile(r"-x\d{6,}$")  # ends the id of a row of a template


@dataclass(frozen=True)
class Start:
    """What a run begins with that builds on a version; none for a dataset that begins with nothing.

    A version never changes, so whoever goes on after a kill writes the same.
    """

    stages: tuple[Stage, ...]  # those that the run has
    given: Mapping[str, Lines]  # what the version has of stages, by their name
    known: Lines | None = None
    needs: Lines | None = None
    filled: frozenset[str] = frozenset()  # of `given`, those whose records the run's rows come of

    def write(self, folder: RunFolder) -> None:
        """Write it, as far as it is not there; the run is held."""
        for stage in self.stages:
            lines, files = self.given.get(stage.name), folder.stage(stage.name)
            if lines and files.mark is None:
                files.write_shard(0, lines(), (), Usage())
                files.finish(1)
        for name, lines in (("known.jsonl", self.known), ("needs.jsonl", self.needs)):
            if lines and not (folder.path / name).exists():
                write_lines(folder.path / name, lines())


def begin(
    recipe: Recipe, outputs: Path, folder: RunFolder, stages: Sequence[Stage]
) -> Start | None:
    """What a run begins with; None for one that builds on no version.

    Raises NothingFound and PublishError for a version that is not there, or is another one.
    """
    if wanted := recipe.regenerate:
        advice = "Regenerate the split from the version that is there."
        version = _version(outputs, wanted, advice)
        return _begin_split(version, wanted, recipe.seed, folder, stages)
    if recipe.extend is None:
        return None
    advice = "Add to the version that is there."
    return _begin_adding(
        _version(outputs, recipe.extend, advice) if recipe.extend.version else None, recipe, stages
    )


def _version(outputs: Path, wanted: Regeneration | Extension, advice: str) -> Version:
    version = find_version(outputs, wanted.version)
    if version.manifest["content"] != wanted.content:
        raise PublishError(
            f"{version.path}: is not the version that the recipe was made for: its content "
            f"is another. {advice}"
        )
    return version


def _begin_split(
    version: Version, wanted: Regeneration, seed: int, folder: RunFolder, stages: Sequence[Stage]
) -> Start:
    """The version's worlds and APIs, so that only the queries of the split are drawn and paid
    for."""
    path = folder.path / "needs.jsonl"

    def again(stage: Stage) -> Stage:
        number = sum(1 for _ in fallen(version, wanted.split))
        return dataclasses.replace(
            stage, feed=lambda given: read_records(path, Need), expects=lambda *_: number
        )

    def staying() -> Iterator[bytes]:
        """Rows of the other splits, and of this one if it keeps its own."""
        for split in version.splits("samples"):
            if split != wanted.split or wanted.only_rejected or wanted.keep:
                for row in version.rows("samples", split):
                    yield known_line(version, row)

    before = set(begun_with(True, [stage.name for stage in stages]))
    return Start(
        tuple(
            again(stage) if wanted.only_rejected and stage.name == QUERIES else stage
            for stage in stages
        ),
        {
            stage.name: partial(_records, version, stage.writes)
            for stage in stages
            if stage.name in before
        },
        known=staying,
        needs=(lambda: _needs(version, wanted.split, seed)) if wanted.only_rejected else tuple,
    )


def _begin_adding(version: Version | None, recipe: Recipe, stages: Sequence[Stage]) -> Start:
    """The version's worlds, APIs and samples, so that only stages run whose records stand beside
    them."""

    def rows_of_templates() -> Iterator[bytes]:
        """Rows that the version has of templates, which none may repeat."""
        for row in version.rows("samples") if version else ():
            if version and is_expanded(version, row):
                yield known_line(version, row)

    adding = [_fresh(stage, version) for stage in stages if _adds(stage)]
    if not adding:
        raise RecipeError("extend: there is nothing to add without `expand` or `rewrite`.")
    before = stages[: [_adds(stage) for stage in stages].index(True)]
    last = {stage.writes: stage for stage in before}  # that makes worlds, APIs, samples
    filled = [last[kind] for kind in (World, Api, Sample) if kind in last]
    lines: dict[type[Record], Lines] = {
        World: lambda: _records(version, World) if version else (),
        Api: lambda: _records(version, Api) if version else (),
        Sample: lambda: _samples(version, recipe) if version else (),
    }
    return Start(
        (*filled, *adding),
        {stage.name: lines[stage.writes] for stage in filled},
        known=rows_of_templates if recipe.expand else None,
        filled=frozenset(stage.name for stage in filled),
    )


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


def _records(version: Version, kind: type[Record]) -> Iterator[bytes]:
    """What a version holds whole of what its queries are drawn from."""
    name = {Api: "apis", World: "worlds"}.get(kind)
    for row in version.rows(name) if name else ():
        yield to_line(version.parsed(row, "record"))


def _samples(version: Version, recipe: Recipe) -> Iterator[bytes]:
    """All samples. Rows of templates make no templates, and are rewritten if that is wanted."""
    rewrite = recipe.rewrite
    rows_too = recipe.expand is None and rewrite is not None and rewrite.expanded
    for row in version.rows("samples"):
        if rows_too or not is_expanded(version, row):
            yield to_line({key: version.parsed(row, key) for key in PARTS})


def _needs(version: Version, split: str, seed: int) -> Iterator[bytes]:
    """The needs that are tried again, under new ids: other ids have other answers."""
    begin = f"{split}-{seed}-"
    rows = (row for c in ("samples", "rejected") for row in version.rows(c, split))
    taken = [row["id"].removeprefix(begin) for row in rows if row["id"].startswith(begin)]
    first = 1 + max((int(number) for number in taken if number.isdigit()), default=-1)
    for number, need in enumerate(fallen(version, split), first):
        fields = {key: need[key] for key in Need.model_fields if key in need}
        try:
            yield record_line(Need.model_validate({**fields, "id": f"{begin}{number:06d}"}))
        except ValueError as error:
            raise StoreError(
                f"{version.path}: a rejected record, {need.get('id')}, holds no query that this "
                f"version of toolloom reads ({str(error).splitlines()[0]})."
            ) from error


def is_expanded(version: Version, row: JsonObject) -> bool:
    """Whether a row of `samples` is one of a template."""
    if not _ROW.search(row["id"]):
        return False
    return any(share["stage"] == "expanded" for share in version.parsed(row, "provenance"))


def known_line(version: Version, row: JsonObject) -> bytes:
    """A row of `samples` as the stages that compare rows know it."""
    dialogue = version.parsed(row, "dialogue")
    query = dialogue["query"]
    names = ("api", "arguments", "references")
    intent = [{name: one[name] for name in names} for one in query["intent"]]
    told = {name: query[name] for name in ("id", "ability", "scenario")}
    setting = query.get("setting")
    place = {"setting": {name: setting[name] for name in ("world", "script")}} if setting else {}
    return to_line({**told, **place, "text": compared({"dialogue": dialogue}), "intent": intent})


def fallen(version: Version, split: str) -> Iterator[JsonObject]:
    """The needs of a split that fell on their way to a sample; not those sorted out after."""
    for row in version.rows("rejected", split):
        if is_tried_again(row):
            yield need_of(version.parsed(row, "record"))


def plan_change(
    outputs: Path,
    dataset: str,
    change: JsonObject,
    *,
    version: str | None = None,
    seed: int | None = None,
    recipe: Recipe | None = None,
) -> Recipe:
    """The plan of a change in its JSON form, as a flow is given it: the fields of one of
    `regenerate`, `expand` and `rewrite`. Raises RecipeError for one that is none."""
    given: dict[str, Any] = {"version": version, "seed": seed, "recipe": recipe}
    (name, fields), *others = change.items() if change else (("", {}),)
    if others or not isinstance(fields, dict):
        raise RecipeError("change: is not one of `regenerate`, `expand`, `rewrite` with fields.")
    match name:
        case "regenerate":
            known = {"split": "", "only_rejected": False, "keep": False}
            if fields.keys() - known.keys():
                raise RecipeError(f"change.regenerate: known here are {', '.join(known)}.")
            return plan_regeneration(outputs, dataset, **{**known, **fields}, **given)
        case "expand":
            expand = parsed_plan(ExpansionPlan, fields, "change.expand.")
            return plan_extension(outputs, dataset, expand=expand, **given)
        case "rewrite":
            rewrite = parsed_plan(RewritePlan, fields, "change.rewrite.")
            return plan_extension(outputs, dataset, rewrite=rewrite, **given)
    raise RecipeError(f"change: {name!r} is none of `regenerate`, `expand`, `rewrite`.")


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
    found = _chosen(outputs, dataset, version)
    _check(found, outputs, split)
    if keep:
        return _growth(outputs, found, Split(split), recipe, seed)
    if only_rejected and not any(True for _ in fallen(found, split)):
        raise NothingFound(
            f"{found.label}: no query of {split} was rejected, so there is none to try again. "
            "Without --only-rejected the whole split is made anew."
        )
    made = _maker(found, split)
    number = made["seed"] + 1 if seed is None else seed

    def planned(begun: Version) -> Recipe:
        source = _maker(begun, split) if only_rejected else _source(begun, split)
        base = recipe or _published(source, begun)
        wanted = _wanted(begun, Split(split)).model_copy(update={"only_rejected": only_rejected})
        if not only_rejected and recipe is None and base.worlds and base.worlds.rows:
            # What the split had: the recipe's rows are those of all splits.
            rows = max(1, _played(begun, split))
            worlds = base.worlds.model_copy(update={"rows": rows})
            base = base.model_copy(update={"worlds": worlds})
        return _planned(base, begun, wanted, number)

    return (None if only_rejected else _carried_out(found, planned)) or planned(found)


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

    def planned(begun: Version, number: int) -> Recipe:
        base = recipe or _published(_source(begun, split), begun)
        wanted = _wanted(begun, split).model_copy(update={"keep": True})
        return _planned(base, begun, wanted, number)

    drawn = [run["seed"] for run in _runs(version, split) if not run["recipe"].get("extend")]
    if seed is None:
        first = 1 + max(run["seed"] for run in _runs(version, split))
        return _fruitful(outputs, lambda number: planned(version, number), first)
    if done := _carried_out(version, lambda begun: planned(begun, seed)):
        return done
    if seed in drawn:
        raise RecipeError(
            f"seed {seed}: queries of {split} in {version.label} were drawn with it already, and "
            f"would be the same ones. Take another, such as {1 + max(drawn)}."
        )
    return planned(version, seed)


def _fruitful(outputs: Path, plan: Callable[[int], Recipe], first: int) -> Recipe:
    """The first plan, by its seed, whose run did not end with nothing accepted."""
    plans = map(plan, count(first))
    return next(p for p in plans if not came_to_nothing(RunFolder(outputs / "runs" / p.run_id)))


def _carried_out(version: Version, plan: Callable[[Version], Recipe]) -> Recipe | None:
    """The plan that made this version of the one before it, if it is this one."""
    before = _before(version)
    runs = version.told("runs")
    try:
        planned = plan(before) if before else None
    except ToolloomError:
        return None  # as it could not be planned there
    return planned if planned and isinstance(runs, dict) and planned.run_id in runs else None


def _before(version: Version) -> Version | None:
    """The version that it was made of, if that is there and still the same."""
    parent = version.manifest.get("parent")
    if not isinstance(parent, dict):
        return None
    path = version.path.parent / str(parent.get("version"))
    if not (path / "manifest.json").is_file():
        return None
    return open_version(path)


def _wanted(version: Version, split: Split) -> Regeneration:
    return Regeneration(version=version.label, content=version.manifest["content"], split=split)


def _played(version: Version, split: str) -> int:
    """How many of its rows were drawn in worlds, with those that were rejected."""
    samples = (
        version.parsed(row, "dialogue")["query"]
        for row in version.rows("samples", split)
        if not is_expanded(version, row)
    )
    rejected = (need_of(version.parsed(row, "record")) for row in version.rows("rejected", split))
    return sum(1 for query in chain(samples, rejected) if query.get("setting"))


def _planned(base: Recipe, version: Version, wanted: Regeneration, seed: int) -> Recipe:
    """A recipe, made to fit the version whose split it is for."""
    plan = _plan_of_splits(version)
    expand = base.expand if base.expand and wanted.split in base.expand.splits else None
    if expand:  # the split's part of the rows
        whole = sum(map(plan.weight, expand.splits))
        rows = round(expand.rows * plan.weight(wanted.split) / whole) if whole else expand.rows
        expand = expand.model_copy(update={"splits": (wanted.split,), "rows": max(1, rows)})
    apis = base.apis
    if base.writes_worlds and not version.manifest.get("worlds"):
        apis = apis.model_copy(update={"worlds": False})  # its domains have none
    changes = {
        "name": version.name,
        "seed": seed,
        "apis": apis,
        "splits": plan,
        "regenerate": wanted,
        "extend": None,
        "expand": None if wanted.only_rejected else expand,
        # Seeds of its own belong to no split that is made anew.
        "rewrite": base.rewrite and base.rewrite.model_copy(update={"seeds": ()}),
    }
    return base.model_copy(update=changes)


def _plan_of_splits(version: Version) -> SplitPlan:
    try:
        return SplitPlan.model_validate(version.told("plan"))
    except ValidationError as error:
        raise _damaged(version, "its plan of splits") from error


def _published(run: JsonObject, version: Version) -> Recipe:
    """The recipe that a manifest tells of a run."""
    return begun(parse_recipe(run["recipe"], f"{version.path / 'manifest.json'}: the recipe"))


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
    for run in reversed(_runs(version, split)):
        wanted = run["recipe"].get("regenerate")
        tries_again = isinstance(wanted, dict) and wanted.get("only_rejected")
        if not tries_again and not run["recipe"].get("extend"):
            return run
    return _maker(version, split)


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


def hold_version(outputs: Path, dataset: str) -> AbstractContextManager[None]:
    """Hold a dataset, as people name it, while a version of it is added to.

    One that has no version yet is not held: there is nothing to begin with. Raises PublishError
    for a version that is not at home in `outputs`, and Busy.
    """
    try:
        found = find_version(outputs, dataset)
    except NothingFound:
        return nullcontext()
    check_home(found, outputs)  # before its name, which may be a stranger's, is used in a path
    return hold_dataset(outputs, found.name)


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
    if not isinstance(runs := found.told("runs"), dict) or not runs:
        raise _damaged(found, "its runs")
    base = recipe or _published(next(iter(runs.values())), found)
    changes = {
        **wanted,
        "name": found.name,
        "seed": base.seed if seed is None else seed,
        "splits": _plan_of_splits(found),
        "extend": Extension(version=found.label, content=found.manifest["content"]),
    }
    planned = base.model_copy(update=changes)
    return _added_before(found, planned) or planned


def _chosen(outputs: Path, dataset: str, version: str | None) -> Version:
    """A dataset's version, by its number where that is given beside the name."""
    found = find_version(outputs, dataset)
    return find_version(outputs, f"{found.name}/{version.rpartition('/')[2]}") if version else found


def _added_before(version: Version | None, planned: Recipe) -> Recipe | None:
    """The plan that made this version or one that it adds to, if it is this one."""
    made = version.told("runs") if version else {}
    while version:
        version = _before(version)
        begun = Extension()
        if version:
            begun = Extension(version=version.label, content=version.manifest["content"])
        same = planned.model_copy(update={"extend": begun})
        if same.run_id in made:
            return same
    return None
