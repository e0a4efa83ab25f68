"""Makes versions of a dataset from finished runs.

A version never changes: it is built in a hidden folder and renamed when it is whole. It holds no
time of day, so equal runs make equal bytes, and a run that is published already is not again.
"""

from __future__ import annotations

import hashlib
import json
import shutil
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import cache
from importlib.metadata import version as installed
from itertools import chain
from pathlib import Path
from typing import Any, TypeAlias

from toolloom.pipeline import tables
from toolloom.pipeline.card import card
from toolloom.pipeline.jsonl import explain, locked, write_lines
from toolloom.pipeline.report import count
from toolloom.pipeline.splits import api_id, shown, split_of, stray, zone
from toolloom.pipeline.store import RunFolder
from toolloom.pipeline.tables import APIS, REJECTED, SAMPLES, SFT, Tables
from toolloom.pipeline.tallies import RowCounts, need_of, sources
from toolloom.pipeline.versions import (
    LAYOUT,
    PARTS,
    Version,
    dotted,
    find_version,
    following,
    latest,
    numbers,
    open_version,
)
from toolloom.schemas import (
    JsonObject,
    PublishError,
    Regeneration,
    Split,
    SplitPlan,
    StoreError,
    digest,
)
from toolloom.schemas.recipe import public_fields, public_recipe

BEFORE_QUERIES = "apis"  # the split of `rejected` for what fell before there were queries
TRIED_AGAIN = ("queries", "dialogues", "tested")  # stages whose rejects --only-rejected asks again


@dataclass(frozen=True)
class Published:
    """A version, and whether it was made just now."""

    version: Version
    fresh: bool = False

    @property
    def path(self) -> Path:
        return self.version.path

    @property
    def manifest(self) -> JsonObject:
        return self.version.manifest

    @property
    def label(self) -> str:
        return self.version.label

    @property
    def load_line(self) -> str:
        return self.version.load_line


def publish(run: RunFolder, outputs: Path) -> Published:
    """Make a version of a finished run, or find the one it made. Raises PublishError.

    A run that regenerates a split makes the version that follows from the one it names.
    """
    _check(run)
    regenerated = run.recipe.regenerate
    if regenerated is not None:
        return publish_split(run, _parent(regenerated, outputs), outputs)
    folder = outputs / "datasets" / run.recipe.name
    with locked(folder):
        return _make(folder, _content(run), lambda: latest(folder), _Whole(run))


def publish_split(run: RunFolder, parent: Version, outputs: Path) -> Published:
    """Make the version in which one split of `parent` comes from `run`, and the others are its.

    Raises PublishError.
    """
    _check(run)
    folder = outputs / "datasets" / parent.name
    content = digest([_content(run), parent.manifest["content"]], 64)
    with locked(folder):
        return _make(folder, content, lambda: parent, _Part(run, parent))


def _parent(wanted: Regeneration, outputs: Path) -> Version:
    parent = find_version(outputs, wanted.version)
    if parent.manifest["content"] != wanted.content:
        raise PublishError(
            f"{parent.path}: is not the version that this run was made for "
            f"({wanted.version} with the content {wanted.content[:12]}…). Regenerate the split "
            "from the version that is there."
        )
    return parent


def _check(run: RunFolder) -> None:
    marks = [run.stage(stage.name).mark for stage in run.plan]
    if not marks or None in marks:
        raise PublishError(f"{run.id} is not finished; run its recipe again to go on.")
    if not (last := marks[-1]) or not last.accepted:
        raise PublishError(
            f"{run.id} accepted nothing, so there is nothing to publish. "
            f"`toolloom rejected {run.id}` shows why."
        )


def _content(run: RunFolder) -> str:
    """What a version is made of: equal for equal runs, however fast and on whose account."""
    marks = [run.stage(stage.name).mark for stage in run.plan]
    hashes = [(m.accepted_sha256, m.rejected_sha256) for m in marks if m]
    recipe = public_fields(run.recipe.identity)
    return digest([LAYOUT, installed("toolloom"), recipe, hashes], 64)


def _make(
    folder: Path, content: str, parent: Callable[[], Version | None], source: _Whole | _Part
) -> Published:
    """The version with this content, found or built; the lock is held."""
    for number in reversed(numbers(folder)):
        if (known := _readable(folder / dotted(number))) and known.manifest["content"] == content:
            _point(folder)
            return Published(known)
    version = _build(folder, content, parent(), source)
    _point(folder)
    return Published(version, fresh=True)


def _readable(path: Path) -> Version | None:
    """A version; None if it is damaged or of another layout: it is not the one looked for."""
    try:
        return open_version(path)
    except StoreError:
        return None


def _point(folder: Path) -> None:
    """Let `latest` lead to the highest version."""
    target, link = dotted(numbers(folder)[-1]), folder / "latest"
    try:
        if link.is_symlink() and link.readlink() == Path(target):
            return
        temporary = folder / ".latest"
        temporary.unlink(missing_ok=True)
        temporary.symlink_to(target)
        temporary.replace(link)
    except OSError as error:
        raise explain(link, error, "written") from error


def _build(folder: Path, content: str, parent: Version | None, source: _Whole | _Part) -> Version:
    building = folder / ".building"  # the lock is held: nobody else builds here
    try:
        shutil.rmtree(building, ignore_errors=True)
        building.mkdir()
        manifest = {**_origin(content, parent), **source.fill(building)}
        _sum(manifest, building)
        number = dotted(following(numbers(folder), parent, manifest))
        manifest = {"layout": LAYOUT, "name": folder.name, "version": number, **manifest}
        _tell(manifest, building)
        path = folder / number
        building.rename(path)
    except OSError as error:
        raise explain(folder, error, "written") from error
    finally:
        shutil.rmtree(building, ignore_errors=True)
    return Version(path, manifest)


def _origin(content: str, parent: Version | None) -> JsonObject:
    """What the manifest tells of a version's origin."""
    before = parent and {
        "version": parent.number,
        "sha256": sha256(parent.path / "manifest.json"),
    }
    return {
        "layout": LAYOUT,
        "parent": before,
        "content": content,
        "toolloom": installed("toolloom"),
        "code": code_hash(),
    }


def _sum(manifest: JsonObject, folder: Path) -> None:
    """Add hash and size of each table to the manifest. Raises PublishError if a copy is not
    what it was."""
    for name, told in tables_of(manifest):
        found = sha256(folder / name)
        if told.get("sha256", found) != found:
            raise PublishError(
                f"{name} of {manifest['parent']['version']}: is damaged (its SHA-256 is not "
                "the one in its manifest), so no version can be made of it."
            )
        told |= {"sha256": found, "bytes": (folder / name).stat().st_size}


def tables_of(manifest: JsonObject) -> Iterator[tuple[str, JsonObject]]:
    """Path of each Parquet file, and what the manifest tells of it."""
    for config in manifest["configs"].values():
        for split in config.values():
            yield from split["files"].items()


def _tell(manifest: JsonObject, folder: Path) -> None:
    """Add plots, card, manifest and checksums to the tables."""
    from toolloom.pipeline.plots import draw

    draw(manifest, folder / "plots")
    write_lines(folder / "README.md", [card(manifest).encode("utf-8", "replace")])
    tables = dict(tables_of(manifest))
    others = sorted(name for name in _names(folder) if name not in tables)
    manifest["files"] = {name: sha256(folder / name) for name in others}
    text = json.dumps(manifest, indent=2, ensure_ascii=False)
    write_lines(folder / "manifest.json", [text.encode("utf-8", "replace") + b"\n"])
    write_lines(folder / "SHA256SUMS", list(sums(folder)))  # all of them, before it is there


def _names(folder: Path) -> Iterator[str]:
    """The files below a folder, as paths in it."""
    for path in folder.rglob("*"):
        if path.is_file():
            yield path.relative_to(folder).as_posix()


def sums(folder: Path) -> Iterator[bytes]:
    """The lines of SHA256SUMS, in the form that `sha256sum --check` reads."""
    for name in sorted(_names(folder)):
        if name != "SHA256SUMS":
            yield f"{sha256(folder / name)}  {name}\n".encode()


def sha256(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


@cache
def code_hash() -> str:
    """SHA-256 over the package's own files: code, prompts, catalogue."""
    import toolloom

    root, hashed = Path(toolloom.__path__[0]), hashlib.sha256()
    for room in ("__init__.py", "flows.py", *_ROOMS):
        for path in sorted((root / room).rglob("*") if (root / room).is_dir() else [root / room]):
            if path.suffix in {".py", ".j2", ".yaml"} and path.is_file():
                hashed.update(f"{path.relative_to(root).as_posix()}\0".encode())
                hashed.update(path.read_bytes())
    return hashed.hexdigest()


_ROOMS = ("agents", "cli", "llm", "pipeline", "prompts", "schemas")


class _Rows:
    """Rows on their way into tables, with the figures of their splits."""

    def __init__(self, tables: Tables, plan: SplitPlan) -> None:
        self._tables = tables
        self._plan = plan
        self.counted: dict[str, RowCounts] = {}
        self.makers: set[Maker] = set()

    def _counts(self, split: str) -> RowCounts:
        return self.counted.setdefault(split, RowCounts())

    def accept(self, sample: JsonObject) -> None:
        """A sample, as JSON. Raises PublishError if it shows an API that its split must not."""
        need = sample["dialogue"]["query"]
        split = split_of(self._plan, need).value
        if api := stray(self._plan, need, Split(split)):
            raise PublishError(
                f"{need['id']}: is of the split {split} and shows {api}, whose tool or category "
                "is held out of it. Queries were not drawn by the recipe's `splits`."
            )
        row, whole = tables.encoded(SFT, tables.sft_row(sample)), tables.samples_row(sample)
        if not tables.delicate(whole["dialogue"]) or tables.reads_back(row):
            self._tables.add(SFT, split, row)
        else:
            self._tables.leave_out(SFT, split)
        self._tables.add(SAMPLES, split, whole)
        self._counts(split).add(sample)
        self.makers |= makers(sample)

    def reject(self, record: JsonObject) -> None:
        need = need_of(record["record"])
        split = split_of(self._plan, need).value if "intent" in need else BEFORE_QUERIES
        self._tables.add(REJECTED, split, tables.rejected_row(record))
        self._counts(split).reject(record["reason"])

    def told(self, runs: Iterable[str]) -> JsonObject:
        """The figures by split; those of rejects without a split are last."""
        order = [*(split.value for split in Split), BEFORE_QUERIES]
        ids = list(runs)
        return {
            split: {"runs": ids, **self.counted[split].told()}
            for split in order
            if split in self.counted
        }


@dataclass(frozen=True)
class _Whole:
    """A version of all that a run made."""

    run: RunFolder

    def fill(self, folder: Path) -> JsonObject:
        """Write the tables; what the manifest tells of them."""
        run, plan = self.run, self.run.recipe.splits
        with Tables(folder) as sheets:
            rows = _Rows(sheets, plan)
            for sample in run.accepted():
                rows.accept(sample)
            for record in run.rejected():
                rows.reject(record)
            made = [*_apis(run)]
            for api in made:
                split = zone(plan, api["category"], api["tool"]).value
                sheets.add(APIS, split, tables.api_row(api))
            configs = sheets.finish()
        return {
            "regenerated": None,
            "plan": plan.model_dump(mode="json"),
            "runs": {run.id: _told_run(run, sum(rows.counted.values(), RowCounts()), rows.makers)},
            "splits": rows.told([run.id]),
            "apis": {"run": run.id, "count": len(made), "sources": sources(made)},
            "configs": configs,
        }


@dataclass(frozen=True)
class _Part:
    """A version in which one split is new."""

    run: RunFolder
    parent: Version

    @property
    def _wanted(self) -> Regeneration:
        wanted = self.run.recipe.regenerate
        if wanted is None:
            raise PublishError(f"{self.run.id}: its recipe does not say which split it is for.")
        return wanted

    def fill(self, folder: Path) -> JsonObject:
        """Copy the other splits, write the new one; what the manifest tells of them."""
        run, before, split = self.run, self.parent.manifest, self._wanted.split.value
        kept = [*self._kept(split)] if self._wanted.only_rejected else []
        with Tables(folder) as sheets:
            rows = _Rows(sheets, SplitPlan.model_validate(before["plan"]))
            for sample in chain(self._old(split), run.accepted()):
                rows.accept(sample)
            for record in chain(self._old_rejects(split), run.rejected()):
                rows.reject(record)
            made = sheets.finish()
        self._only(split, made)
        fresh = rows.told([*kept, run.id])[split]
        made_by = set[Maker]().union(*map(makers, run.accepted()))
        told = _told_run(run, RowCounts.of(run.accepted()), made_by)
        runs = {run.id: told, **before["runs"]}
        splits = _replaced(before["splits"], split, fresh)
        used = {before["apis"]["run"], *(r for told in splits.values() for r in told["runs"])}
        return {
            "regenerated": split,
            "plan": before["plan"],
            "runs": {name: told for name, told in runs.items() if name in used},
            "splits": splits,
            "apis": before["apis"],
            "configs": self._merged(made, split, folder),
        }

    def _kept(self, split: str) -> list[str]:
        runs: list[str] = self.parent.manifest["splits"].get(split, {"runs": []})["runs"]
        return [name for name in runs if name != self.run.id]

    def _old(self, split: str) -> Iterator[JsonObject]:
        """The parent's rows that stay in the split."""
        if self._wanted.only_rejected:
            for row in self.parent.rows("samples", split):
                yield {key: json.loads(row[key]) for key in PARTS}

    def _old_rejects(self, split: str) -> Iterator[JsonObject]:
        """The parent's rejects of the split that were not tried again."""
        if self._wanted.only_rejected:
            for row in self.parent.rows("rejected", split):
                if row["stage"] not in TRIED_AGAIN:
                    parts = ("findings", "record", "provenance")
                    yield {**row, **{key: json.loads(row[key]) for key in parts}}

    def _only(self, split: str, made: JsonObject) -> None:
        for config in made.values():
            if others := sorted(set(config) - {split}):
                raise PublishError(
                    f"{self.run.id}: has rows of the split {others[0]}, but was to make {split} "
                    f"of {self.parent.label} anew."
                )

    def _merged(self, made: JsonObject, split: str, folder: Path) -> JsonObject:
        """The new split's files beside those of the parent, which are copied byte for byte."""
        merged: JsonObject = {}
        for config, before in self.parent.manifest["configs"].items():
            stay = {s: told for s, told in before.items() if s != split or config == APIS.name}
            for name in (name for told in stay.values() for name in told["files"]):
                (folder / name).parent.mkdir(parents=True, exist_ok=True)
                shutil.copyfile(self.parent.path / name, folder / name)
            fresh = made.get(config, {}).get(split)
            found = _replaced(stay, split, fresh) if fresh else stay
            if found:
                merged[config] = found
        for config in made:
            merged.setdefault(config, made[config])
        return merged


def _replaced(splits: JsonObject, split: str, told: Any) -> JsonObject:
    """The splits with one of them exchanged or added, in their order."""
    found = {**splits, split: told}
    order = [*(each.value for each in Split), BEFORE_QUERIES]
    return {name: found[name] for name in sorted(found, key=order.index)}


def _apis(run: RunFolder) -> Iterator[JsonObject]:
    """The APIs of a run; of one that did not make any, those its rows show."""
    if "apis" in {stage.name for stage in run.plan}:
        yield from run.stage("apis").objects("accepted")
        return
    seen: set[str] = set()
    for sample in run.accepted():
        for api in shown(sample["dialogue"]["query"]):
            if api_id(api) not in seen:
                seen.add(api_id(api))
                yield api


def _told_run(run: RunFolder, counted: RowCounts, made_by: set[Maker]) -> JsonObject:
    """What the manifest tells of a run. `counted` and `made_by`: of its accepted rows."""
    return {
        "seed": run.recipe.seed,
        "recipe": public_recipe(run.recipe),
        "counts": count(run, counted).model_dump(mode="json"),
        "agents": _agents(run, made_by),
    }


Maker: TypeAlias = tuple[str, str, str, tuple[str, ...]]
"""Stage, agent, model and the hashes of the prompts."""


def makers(sample: JsonObject) -> set[Maker]:
    """Who made a sample, its dialogue and its query."""
    dialogue = sample["dialogue"]
    return set(
        map(_maker, chain(*(r["provenance"] for r in (sample, dialogue, dialogue["query"]))))
    )


def _maker(share: JsonObject) -> Maker:
    return share["stage"], share["agent"], share["model"], tuple(share["prompts"])


def _agents(run: RunFolder, made_by: set[Maker]) -> list[JsonObject]:
    """Who made the accepted rows and the APIs they call."""
    order = [stage.name for stage in run.plan]
    found = set(made_by)
    for stage in {"domains", "apis"} & set(order):
        for row in run.stage(stage).objects("accepted"):
            found |= set(map(_maker, row["provenance"]))
    ranked = sorted(found, key=lambda f: (order.index(f[0]) if f[0] in order else -1, *f[1:]))
    names = ("stage", "agent", "model", "prompts")
    return [dict(zip(names, one, strict=True)) for one in ranked]
