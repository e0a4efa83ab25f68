"""Makes versions of a dataset from finished runs.

A version never changes: it is built in a hidden folder and renamed when it is whole. Each of its
tables begins with the rows of the parent's that stay, then has those that the run made; where none
are added and all stay, the parent's file is copied byte for byte. Then `figures.describe` tells
what is in them. A version holds no time of day, so equal runs make equal bytes, and a run that is
published already is not again.
"""

from __future__ import annotations

import json
import re
import shutil
from collections import Counter, defaultdict
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from functools import cache
from hashlib import sha256 as new_sha256
from importlib.metadata import version as installed
from itertools import chain
from pathlib import Path

import jinja2
import yaml

from toolloom.pipeline.checks.world import interpreter
from toolloom.pipeline.dataset import figures
from toolloom.pipeline.dataset.configs import (
    CONFIGS,
    INSTRUCTIONS,
    REJECTED,
    SAMPLES,
    Maker,
    base_of,
    configs_of,
    makers_of,
)
from toolloom.pipeline.render.section import cell, counted, dollars, percent, table
from toolloom.pipeline.store.files import explain, hold_folder, read_objects, to_line, write_lines
from toolloom.pipeline.store.run_folder import RunFolder
from toolloom.pipeline.store.version import (
    Config,
    Version,
    VersionWriter,
    dotted,
    find_version,
    following,
    is_older,
    latest,
    numbers,
    open_version,
    point,
)
from toolloom.prompts import environment
from toolloom.schemas import (
    Api,
    Extension,
    Instruction,
    JsonObject,
    Metric,
    PublishError,
    Record,
    Regeneration,
    Rejected,
    Sample,
    SplitPlan,
    StoreError,
    World,
    digest,
)
from toolloom.schemas.base import LAYOUT
from toolloom.schemas.recipe import public_fields, public_recipe
from toolloom.schemas.splits import api_id, shown, split_of, stray, tool_of, zone

HERE = Path(__file__).parent


@dataclass(frozen=True)
class Published(Version):
    """A version, and whether it was made just now."""

    fresh: bool = False


def publish(run: RunFolder, outputs: Path) -> Published:
    """Make a version of a finished run, or find the one it made. Raises PublishError.

    A run that regenerates a split, or adds rows, makes the version that follows from the one it
    names.
    """
    marks = {stage.name: mark for stage in run.plan if (mark := run.stage(stage.name).mark)}
    if not marks or len(marks) < len(run.plan):
        raise PublishError(f"{run.id} is not finished; run its recipe again to go on.")
    if came_to_nothing(run):
        raise PublishError(
            f"{run.id} accepted nothing, so there is nothing to publish. "
            f"`toolloom rejected {run.id}` shows why."
        )
    # What the version is made of: equal for equal runs, however fast and on whose account.
    hashes = [(mark.accepted_sha256, mark.rejected_sha256) for mark in marks.values()]
    recipe = public_fields(run.recipe.identity)
    content = digest([LAYOUT, installed("toolloom"), recipe, hashes], 64)
    keep = Keep.of(run, outputs)
    folder = outputs / "datasets" / run.recipe.name
    if keep.parent:
        folder = outputs / "datasets" / keep.parent.name
        content = digest([content, keep.parent.manifest["content"]], 64)
    with hold_folder(folder):
        for number in reversed(numbers(folder)):
            with suppress(StoreError):  # damaged, or of another layout: not the one looked for
                version = open_version(folder / dotted(number))
                if version.manifest["content"] == content:
                    point(folder)
                    return Published(version.path, version.manifest)
        made = _build(folder, content, run, keep)
        point(folder)
        return made


@dataclass(frozen=True)
class Keep:
    """What stays of the version that a run adds to, or of which it makes a split anew."""

    parent: Version | None = None
    anew: str | None = None  # the split that is made anew

    @classmethod
    def of(cls, run: RunFolder, outputs: Path) -> Keep:
        """What stays of the version that a run names. Raises PublishError if it is another now."""
        anew, wanted = run.recipe.regenerate, run.recipe.regenerate or run.recipe.extend
        if not wanted or not wanted.version:
            return cls()
        return cls(parent_of(wanted, outputs), anew.split.value if anew and not anew.keep else None)

    def pairs(self) -> Iterator[JsonObject]:
        """The parent's pairs of rows and benchmarks, but for those of rows that go."""
        if self.parent and self.parent.manifest.get("contamination"):
            for pair in read_objects(self.parent.path / figures.PAIRS):
                if pair["split"] != self.anew:
                    yield pair

    def whole(self, config: Config, split: str) -> bool:
        """Whether all rows of a table stay."""
        return split != self.anew or config.row.origin in (Api, World)

    def rows(self, config: Config, split: str) -> Iterator[JsonObject]:
        """The rows of a parent's table that stay, as they are stored. Raises StoreError."""
        if self.parent is None:
            return
        stored = self.parent.rows(config.name, split, stored=True)
        if self.whole(config, split):
            yield from stored
        elif config is INSTRUCTIONS:  # the others go with their samples
            yield from (row for row in stored if row["source"] == figures.TOOLBENCH)
        elif config not in (SAMPLES, REJECTED):  # made of records, of which some stay
            base = base_of(config)
            records = map(base.row.record_of, self.rows(base, split))
            ids = {row["id"] for row in chain.from_iterable(map(config.row.of, records))}
            yield from (row for row in stored if row["id"] in ids)


def parent_of(wanted: Regeneration | Extension, outputs: Path) -> Version:
    """The version that a run begins with. Raises PublishError if it is another now."""
    parent = find_version(outputs, wanted.version)
    if parent.manifest["content"] != wanted.content:
        again = "Regenerate the split from" if isinstance(wanted, Regeneration) else "Add to"
        raise PublishError(
            f"{parent.path}: is not the version that this run was made for "
            f"({wanted.version} with the content {wanted.content[:12]}…). {again} the version that "
            "is there."
        )
    return parent


def came_to_nothing(run: RunFolder) -> bool:
    """Whether a run is finished and accepted nothing that could be published."""
    plan = run.plan if (run.path / "plan.json").is_file() else ()
    if not plan or not all(run.stage(stage.name).mark for stage in plan):
        return False
    return next(chain(run.rows(), run.instructions()), None) is None


def _build(folder: Path, content: str, run: RunFolder, keep: Keep) -> Published:
    parent, known = keep.parent, numbers(folder)
    if parent is None and known and not is_older(folder / dotted(known[-1])):
        parent = latest(folder)
    building = folder / ".building"  # the lock is held: nobody else builds here
    try:
        shutil.rmtree(building, ignore_errors=True)
        building.mkdir()
        with VersionWriter(building) as writer:
            tables = _Tables(building, keep, writer)
            makers = _write(run, keep, tables)
        manifest: JsonObject = {
            "layout": LAYOUT,
            "name": folder.name,
            "version": "",  # follows from the rest
            "parent": parent
            and {"version": parent.number, "sha256": figures.sha256(parent.path / "manifest.json")},
            "content": content,
            "toolloom": installed("toolloom"),
            "code": code_hash(),
            **_told(run, keep, tables, figures.describe(building), makers),
        }
        manifest["version"] = dotted(following(numbers(folder), parent, manifest))
        _finish(manifest, building)
        path = folder / manifest["version"]
        building.rename(path)
    except OSError as error:
        raise explain(folder, error, "written") from error
    finally:
        shutil.rmtree(building, ignore_errors=True)
    return Published(path, manifest, fresh=True)


class _Tables:
    """The tables of a version, each of which begins with the rows that stay in it."""

    def __init__(self, folder: Path, keep: Keep, writer: VersionWriter) -> None:
        self.folder, self._keep, self._writer = folder, keep, writer
        self._kept_ids = defaultdict[str, set[str]](set)  # by config: no other row may have them
        self._begun: set[tuple[str, str]] = set()
        self.made = defaultdict[str, Counter[str]](Counter)  # by config and split, of the run

    def _begin(self, config: Config, split: str) -> None:
        if (config.name, split) in self._begun:
            return
        self._begun.add((config.name, split))
        for row in self._keep.rows(config, split):
            if config in (SAMPLES, INSTRUCTIONS):
                self._kept_ids[config.name].add(row["id"])
            self._writer.add(config, split, row)

    def add(self, origin: type[Record], split: str, record: JsonObject, recipe: JsonObject) -> None:
        """The rows of a record in all configs that are made of such records. Raises PublishError if
        the parent has one of its name."""
        for config in configs_of(origin):
            if config.row.wanted(record, recipe) is False:
                continue
            for row in map(config.columns.encode, config.row.of(record)):
                self._begin(config, split)
                if row["id"] in self._kept_ids[config.name]:
                    label = self._keep.parent.label if self._keep.parent else ""
                    raise PublishError(
                        f"{row['id']}: is in `{config.name}` of {label} already, so it cannot "
                        "be added. Add to that version with another seed."
                    )
                if config.columns.hold(row):
                    self._writer.add(config, split, row)
                    self.made[config.name][split] += 1

    def finish(self) -> None:
        """Write what stays of all other tables of the parent: whole ones are copied."""
        parent = self._keep.parent
        for config in CONFIGS:
            for split in parent.splits(config.name) if parent else ():
                if (config.name, split) in self._begun:
                    continue
                if not self._keep.whole(config, split):
                    self._begin(config, split)
                    continue
                assert parent
                for name, told in parent.manifest["configs"][config.name][split]["files"].items():
                    (self.folder / name).parent.mkdir(parents=True, exist_ok=True)
                    shutil.copyfile(parent.path / name, self.folder / name)
                    if figures.sha256(self.folder / name) != told["sha256"]:
                        raise PublishError(
                            f"{name} of {parent.number}: is damaged (its SHA-256 is not "
                            "the one in its manifest), so no version can be made of it."
                        )
        self._writer.finish()


def _write(run: RunFolder, keep: Keep, tables: _Tables) -> set[Maker]:
    """Write the tables of a version, and the pairs of rows and benchmarks; who made the rows.
    Raises PublishError for a sample that shows an API that its split must not."""
    plan, recipe = run.recipe.splits, public_recipe(run.recipe)
    if keep.parent:  # whose rows stay where they are
        plan = SplitPlan.model_validate(keep.parent.manifest["plan"])
    makers: set[Maker] = set()
    for sample in run.rows():
        makers |= makers_of(sample)
        need = sample["dialogue"]["query"]
        place = split_of(plan, need)
        if api := stray(plan, need, place):
            raise PublishError(
                f"{need['id']}: is of the split {place} and shows {api}, whose tool or category "
                "is held out of it. Queries were not drawn by the recipe's `splits`."
            )
        tables.add(Sample, place.value, sample, recipe)
    for each in run.instructions():
        record = each.model_dump(mode="json")
        makers |= makers_of(record)
        tables.add(Instruction, each.split.value, record, recipe)
    for rejected in run.rejected():
        tables.add(Rejected, figures.split_of_rejected(plan, rejected["record"]), rejected, recipe)
    for origin, records in ((Api, apis_of(run)), (World, run.worlds())):
        for record in records if keep.parent is None else ():
            tables.add(origin, zone(plan, *tool_of(record)).value, record, recipe)
    tables.finish()
    if pairs := [*keep.pairs(), *figures.contamination(run)]:
        write_lines(tables.folder / figures.PAIRS, map(to_line, pairs))
    return makers


def _told(
    run: RunFolder, keep: Keep, tables: _Tables, described: JsonObject, makers: set[Maker]
) -> JsonObject:
    """What the manifest tells: figures, and what no table holds. Raises PublishError."""
    parent = keep.parent
    before: JsonObject = parent.manifest if parent else {}
    if parent and (wanted := run.recipe.regenerate):
        drawn = {split for made in tables.made.values() for split in made}
        if others := drawn - {wanted.split.value, figures.BEFORE_QUERIES}:
            raise PublishError(
                f"{run.id}: has rows of the split {min(others)}, but was to draw queries of "
                f"{wanted.split} of {parent.label}."
            )
    first = before["apis"]["run"] if parent else run.id
    splits: JsonObject = {}
    for split, rest in described["splits"].items():
        names = _runs_left(run, keep, split)
        made = any(split in counts for counts in tables.made.values()) or split == keep.anew
        splits[split] = {"runs": [*names, *([run.id] if made else [])], **rest}
    used = {first}.union(*(told["runs"] for told in splits.values()))
    runs = {run.id: _run(run, makers), **before.get("runs", {})}
    added = [c.name for c in CONFIGS if c.name in tables.made]
    extended = {"run": run.id, "rows": {c: figures.in_order(dict(tables.made[c])) for c in added}}
    return {
        "regenerated": keep.anew,
        "extended": extended if parent and not keep.anew else None,
        "plan": before["plan"] if parent else run.recipe.splits.model_dump(mode="json"),
        "runs": {name: told for name, told in runs.items() if name in used or not keep.anew},
        "expansion": _expansion(run, keep, used),
        **described,
        "splits": splits,
        "apis": {"run": first, **described["apis"]},
    }


def _runs_left(run: RunFolder, keep: Keep, split: str) -> list[str]:
    """The runs before this one whose rows are left in a split."""
    told = keep.parent.manifest if keep.parent else {"splits": {}}
    others = [n for n in told["splits"].get(split, {"runs": ()})["runs"] if n != run.id]
    if split != keep.anew:
        return others
    left = any(True for _ in keep.rows(INSTRUCTIONS, split))  # of ToolBench's queries
    return [name for name in others if left and told["runs"][name]["recipe"].get("rewrite")]


def _expansion(run: RunFolder, keep: Keep, used: set[str]) -> JsonObject | None:
    """What is told of templates: of the parent's runs as far as their rows stay."""
    told = figures.expansion_json(run)
    found = {run.id: told} if told else {}
    before = (keep.parent.manifest.get("expansion") if keep.parent else None) or {}
    for name, expanded in before.items():
        left = {split: rows for split, rows in expanded["rows"].items() if split != keep.anew}
        if keep.anew is None or (name in used and left):
            found[name] = {**expanded, "rows": left}
    return found or None


def _run(run: RunFolder, makers: set[Maker]) -> JsonObject:
    """What is told of a run, and of who made the accepted rows, their templates and the APIs they
    call."""
    for stage in run.plan:
        if stage.name in ("worlds", "domains", "apis", "templates") and not stage.given:
            makers = makers.union(*map(makers_of, run.stage(stage.name).objects("accepted")))
    places = {stage.name: place for place, stage in enumerate(run.plan)}
    in_turn = sorted(makers, key=lambda one: (places.get(one[0], -1), *one[1:]))
    names = ("stage", "agent", "model", "prompts")
    return {
        "seed": run.recipe.seed,
        "recipe": public_recipe(run.recipe),
        "counts": figures.count(run).model_dump(mode="json"),
        "agents": [dict(zip(names, one, strict=True)) for one in in_turn],
    }


def apis_of(run: RunFolder) -> Iterator[JsonObject]:
    """The APIs of a run; of one that did not make any, those its rows show."""
    if "apis" in {stage.name for stage in run.plan}:
        yield from run.stage("apis").objects("accepted")
        return
    there: JsonObject = {}
    for sample in run.rows():
        for api in shown(sample["dialogue"]["query"]):
            there.setdefault(api_id(api), api)
    yield from there.values()


def _finish(manifest: JsonObject, folder: Path) -> None:
    """Add card, manifest and checksums to the tables."""
    for name, content in made_of(manifest).items():
        write_lines(folder / name, [content])
    paths = {p.relative_to(folder).as_posix(): p for p in folder.rglob("*") if p.is_file()}
    others = sorted(name for name in paths if not name.endswith(".parquet"))
    manifest["files"] = {name: figures.sha256(paths[name]) for name in others}
    text = json.dumps(manifest, indent=2, ensure_ascii=False)
    write_lines(folder / "manifest.json", [text.encode("utf-8", "replace") + b"\n"])
    hashes = {**manifest["files"], "manifest.json": figures.sha256(folder / "manifest.json")}
    write_lines(folder / "SHA256SUMS", [*sums(manifest, hashes)])


def sums(manifest: JsonObject, hashes: dict[str, str]) -> Iterator[bytes]:
    """The lines of SHA256SUMS, in the form that `sha256sum --check` reads."""
    tables = (t["files"] for splits in manifest["configs"].values() for t in splits.values())
    hashes |= {name: told["sha256"] for files in tables for name, told in files.items()}
    for name in sorted(hashes):
        yield f"{hashes[name]}  {name}\n".encode()


def made_of(manifest: JsonObject) -> dict[str, bytes]:
    """What is made of a manifest, by path in the version: the card, and what replays the rows of
    `environments` without toolloom."""
    made = {"README.md": card(manifest).encode("utf-8", "replace")}
    if manifest.get("worlds"):
        made["replay/README.md"] = (HERE / "replay.md.j2").read_bytes()
        made["replay/world.py"] = Path(interpreter.__file__).read_bytes()
    return made


@cache
def code_hash() -> str:
    """SHA-256 over the package's own files: code, prompts, catalogue, tables of words."""
    root, hashed = Path(__file__).parents[2], new_sha256()
    for room in ("__init__.py", "flows.py", *_ROOMS):
        for path in sorted((root / room).rglob("*") if (root / room).is_dir() else [root / room]):
            if path.suffix in {".py", ".j2", ".txt", ".yaml"} and path.is_file():
                hashed.update(f"{path.relative_to(root).as_posix()}\0".encode())
                hashed.update(path.read_bytes())
    return hashed.hexdigest()


_ROOMS = ("agents", "cli", "llm", "pipeline", "prompts", "schemas")


# The card: README.md with the YAML header that maps configs to files, of the manifest alone

SIZES = ("n<1K", "1K<n<10K", "10K<n<100K", "100K<n<1M", "1M<n<10M", "n>10M")
OPTIONAL = ("extended", "instructions", "worlds", "expansion")  # in a manifest


def card(manifest: JsonObject) -> str:
    """The text of README.md. Holds no time of day: equal versions make equal cards."""
    # One config without any files in the header, and `datasets` loads none of the others either.
    loadable = {
        name: found
        for name, splits in manifest["configs"].items()
        if (found := {split: table for split, table in splits.items() if table["files"]})
    }
    rows, licence = sum(told["rows"] for told in manifest["splits"].values()), _licence(manifest)
    instructions = figures.instructions_of(manifest)
    size = rows or (instructions.levels.total() if instructions else 0)
    runs = manifest["runs"].values()
    text = _template().render(
        m={**dict.fromkeys(OPTIONAL), **manifest},
        header=_header(manifest, loadable, licence, size),
        rows=rows,
        dialogues={split: told for split, told in manifest["splits"].items() if told["rows"]},
        loadable=loadable,
        instructions=instructions,
        worlds=figures.worlds_told(manifest),
        licence=licence,
        recipes=[run["recipe"] for run in runs],
        models=sorted({agent["model"] for run in runs for agent in run["agents"]} - {""}),
    )
    return re.sub(r"\n{3,}", "\n\n", text).strip() + "\n"


@cache
def _template() -> jinja2.Template:
    """Data are no template: they are given to one, in the sandbox of prompts. `cell` escapes."""
    made = environment(HERE)
    made.filters |= {"cell": cell, "n": "{:,}".format, "percent": percent, "dollars": dollars}
    made.filters |= {"counted": counted, "total": lambda counts: sum(counts.values())}
    made.globals |= {"added": figures.added}
    made.globals |= {"summed": lambda counts: figures.ranked(sum(map(Counter, counts), Counter()))}
    made.globals |= {"table": table, "counts_of": figures.Counts.model_validate}
    made.globals |= {"kinds": figures.KINDS, "levels": figures.LEVELS, "api_bank": figures.API_BANK}
    made.globals |= {"metrics": [*map(str, Metric)], "configs": CONFIGS}
    return made.get_template("card.md.j2")


def _header(manifest: JsonObject, loadable: JsonObject, licence: str, rows: int) -> str:
    # A version of digits that no other dataset has: `datasets` caches what it loads from a folder
    # under the folder's name, the config and this version alone. Without it, two datasets in
    # folders called `1.0.0` would be one to it.
    version = f"0.0.{int(manifest['content'][:12], 16)}"
    configs: list[JsonObject] = []
    for name, splits in loadable.items():
        files = [{"split": split, "path": f"{name}/{split}-*.parquet"} for split in splits]
        first = {} if configs else {"default": True}
        configs.append({"config_name": name, "version": version, "data_files": files, **first})
    header = {
        "pretty_name": manifest["name"],
        "license": licence,
        "task_categories": ["text-generation"],
        "tags": ["function-calling", "tool-use", "synthetic", "toolloom"],
        "size_categories": [SIZES[sum(rows >= 10**digits for digits in range(3, 8))]],
        "configs": configs,
    }
    return yaml.safe_dump(header, sort_keys=False, allow_unicode=True)


def _licence(manifest: JsonObject) -> str:
    """That of the worlds, where all of it is theirs and no model wrote a word; else the terms of
    the models and APIs decide."""
    written = any(agent["model"] for run in manifest["runs"].values() for agent in run["agents"])
    sources = manifest["apis"]["sources"]
    licences = {source["licence"] if source["kind"] == "world" else "" for source in sources}
    if written or manifest.get("instructions") or len(licences) != 1:
        return "unknown"
    return licences.pop().lower() or "unknown"
