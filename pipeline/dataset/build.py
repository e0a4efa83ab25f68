"""What a version is made of: the parent's rows that stay, then what a run made.

Each table of the new version begins with those rows of the parent's table that stay. Where nothing
is added and all rows stay, the parent's files are copied byte for byte, and their figures are those
of the parent's manifest; everything else is streamed, and counted as it is written.
"""

from __future__ import annotations

import shutil
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import chain
from pathlib import Path

from toolloom.pipeline.dataset import report, rows
from toolloom.pipeline.dataset.figures import (
    BEFORE_QUERIES,
    TOOLBENCH,
    Figures,
    InstructionCounts,
    RowCounts,
    example,
    in_order,
    maker,
    split_of_rejected,
    with_rejects,
)
from toolloom.pipeline.dataset.plays import PlayCounts
from toolloom.pipeline.dataset.rows import (
    INSTRUCTIONS,
    PLANNING,
    REJECTED,
    SAMPLES,
    base_of,
    configs_of,
)
from toolloom.pipeline.store.files import read_objects, to_line, write_lines
from toolloom.pipeline.store.run_folder import RunFolder
from toolloom.pipeline.store.tables import Config, TableWriter, VersionWriter, read_rows
from toolloom.pipeline.store.version import Version
from toolloom.schemas import (
    Api,
    Instruction,
    JsonObject,
    PublishError,
    Record,
    Rejected,
    Sample,
    SplitPlan,
    World,
)
from toolloom.schemas.recipe import public_recipe
from toolloom.schemas.splits import api_id, need_of, shown, split_of, stray, zone

TRIED_AGAIN = ("queries", "dialogues", "tested")  # stages whose rejects --only-rejected asks again
PAIRS = "contamination.jsonl"
PAIRS_SHOWN = 20  # of rows and benchmarks, on the card


def is_tried_again(row: JsonObject) -> bool:
    """Whether --only-rejected asks a rejected record again, of its row as it is stored. A script
    that was played would be played alike: growth plays it in another state."""
    if row["stage"] not in TRIED_AGAIN:
        return False
    setting = need_of(rows.parsed(row["record"])).get("setting")
    return not setting or bool(setting.get("story"))


@dataclass(frozen=True)
class Keep:
    """What stays of the version that a run adds to, or of which it makes a split anew."""

    parent: Version | None = None
    anew: str | None = None  # the split that is made anew
    retries: bool = False  # of it only what was rejected is tried again

    def whole(self, config: Config, split: str) -> bool:
        """Whether all rows of a table stay, if there are any."""
        if split != self.anew or config.row.origin in (Api, World):
            return True
        return self.retries and config.row.origin is not Rejected

    def table(self, config: Config, split: str) -> JsonObject | None:
        """What the parent's manifest says of a table."""
        if self.parent is None:
            return None
        tables: dict[str, JsonObject] = self.parent.manifest["configs"].get(config.name, {})
        return tables.get(split)

    def rows(self, config: Config, split: str) -> Iterator[JsonObject]:
        """The rows of a parent's table that stay, as they are stored. Raises StoreError."""
        if self.parent is None or not self.table(config, split):
            return
        stored = chain.from_iterable(
            read_rows(path, stored=True) for path in self.parent.files(config.name, split)
        )
        if self.whole(config, split):
            yield from stored
        elif config.name == REJECTED.name:
            yield from (row for row in stored if self.retries and not is_tried_again(row))
        elif config.name == INSTRUCTIONS.name:  # the others go with their samples
            yield from (row for row in stored if row["source"] == TOOLBENCH)
        elif config.name != SAMPLES.name:  # made of records, of which some stay
            base = base_of(config)
            records = map(base.row.record_of, self.rows(base, split))
            ids = {row["id"] for row in chain.from_iterable(map(config.row.of, records))}
            yield from (row for row in stored if row["id"] in ids)

    def pairs(self) -> Iterator[JsonObject]:
        """The parent's pairs of rows and benchmarks, but for those of rows that go."""
        if self.parent and self.parent.manifest.get("contamination"):
            for pair in read_objects(self.parent.path / PAIRS):
                if self.retries or pair["split"] != self.anew:
                    yield pair


class _Tables(VersionWriter):
    """The tables of a version, each of which begins with the rows that stay in it."""

    def __init__(self, folder: Path, keep: Keep) -> None:
        super().__init__(folder, rows.CONFIGS)
        self._folder, self._keep = folder, keep
        self._ids: dict[str, set[str]] = {}  # of rows that stay, which no other may have
        self.begun: set[tuple[str, str]] = set()
        self.stayed = Figures()  # of rows that stay, as far as the parent's do not tell

    def begin(self, config: Config, split: str, writer: TableWriter) -> None:
        self.begun.add((config.name, split))
        before = self._keep.table(config, split)
        if before is None:
            return
        whole = self._keep.whole(config, split)
        if whole:
            writer.left_out = before["left_out"]
        for row in self._keep.rows(config, split):
            if config.name in (SAMPLES.name, INSTRUCTIONS.name):
                self._ids.setdefault(config.name, set()).add(row["id"])
            if not whole or config.name == SAMPLES.name:
                self.stayed.add(config, split, row)
            writer.add(row)

    def add(self, config: Config, split: str, row: JsonObject) -> None:
        self.table(config, split)  # its first rows are there before ids are compared
        if row["id"] in self._ids.get(config.name, ()):
            label = self._keep.parent.label if self._keep.parent else ""
            raise PublishError(
                f"{row['id']}: is in `{config.name}` of {label} already, so it cannot "
                "be added. Add to that version with another seed."
            )
        super().add(config, split, row)

    def finish(self) -> dict[str, dict[str, JsonObject]]:
        """All tables in their order: written ones, and those of the parent that stay, copied."""
        copied: dict[str, dict[str, JsonObject]] = {}
        before = self._keep.parent.manifest["configs"] if self._keep.parent else {}
        for config in rows.CONFIGS:
            for split, table in before.get(config.name, {}).items():
                if (config.name, split) in self.begun:
                    continue
                if self._keep.whole(config, split):
                    assert self._keep.parent
                    for name in table["files"]:
                        (self._folder / name).parent.mkdir(parents=True, exist_ok=True)
                        shutil.copyfile(self._keep.parent.path / name, self._folder / name)
                    copied.setdefault(config.name, {})[split] = table
                elif any(True for _ in self._keep.rows(config, split)):
                    self.table(config, split)
        written = super().finish()
        both = {c.name: {**copied.get(c.name, {}), **written.get(c.name, {})} for c in rows.CONFIGS}
        return {config: in_order(tables) for config, tables in both.items() if tables}


def build(folder: Path, run: RunFolder, keep: Keep) -> JsonObject:
    """Write the tables of a version; what the manifest tells of them. Raises PublishError."""
    parent = keep.parent
    before = parent.manifest if parent else {}
    plan = SplitPlan.model_validate(before["plan"]) if parent else run.recipe.splits
    with _Tables(folder, keep) as tables:
        made = Figures()
        _write(run, plan, tables, made)
        if parent is None:
            for api in apis_of(run):
                split = zone(plan, api["category"], api["tool"]).value
                _add(tables, made, Api, split, api)
            for world in run.worlds():
                split = zone(plan, world["category"], world["tool"]).value
                _add(tables, made, World, split, world)
        grown = set(tables.begun)
        if parent and (wanted := run.recipe.regenerate):
            others = {split for _, split in grown} - {wanted.split.value, BEFORE_QUERIES}
            if others:
                raise PublishError(
                    f"{run.id}: has rows of the split {min(others)}, but was to draw queries of "
                    f"{wanted.split} of {parent.label}."
                )
        configs = tables.finish()
    figures = _Merged(run, keep, made, tables)
    splits, instructions = figures.splits(), figures.instructions()
    tables_of_instructions = configs.get(INSTRUCTIONS.name, {}).values()
    files = (folder / name for table in tables_of_instructions for name in table["files"])
    shown = example(chain.from_iterable(map(read_rows, files))) if instructions else None
    used = {before["apis"]["run"] if parent else run.id}
    used.update(chain.from_iterable(told["runs"] for told in splits.values()))
    runs = {run.id: told_run(run, made), **before.get("runs", {})}
    return {
        "regenerated": keep.anew,
        "extended": _extended(run, keep, configs, grown) if parent and not keep.anew else None,
        "plan": plan.model_dump(mode="json") if parent is None else before["plan"],
        "runs": {name: told for name, told in runs.items() if name in used or not keep.anew},
        "splits": splits,
        "expansion": _expansion(run, keep, made, used),
        "instructions": {"splits": instructions, "example": shown} if instructions else None,
        "apis": before["apis"] if parent else {"run": run.id, **made.apis_json()},
        "contamination": _write_pairs(folder, chain(keep.pairs(), report.contamination(run))),
        **({"worlds": told} if (told := figures.worlds()) else {}),
        "configs": configs,
    }


def _write(run: RunFolder, plan: SplitPlan, tables: VersionWriter, made: Figures) -> None:
    """All that a run made, but for samples of the version that it adds to, and APIs."""
    for sample in run.rows():
        _add(tables, made, Sample, _checked_split(plan, sample), sample)
    recipe = public_recipe(run.recipe)
    for each in run.instructions():
        record = each.model_dump(mode="json")
        _add(tables, made, Instruction, each.split.value, record, recipe)
    for rejected in run.rejected():
        _add(tables, made, Rejected, split_of_rejected(plan, rejected["record"]), rejected)


def _add(
    tables: VersionWriter,
    made: Figures,
    origin: type[Record],
    split: str,
    record: JsonObject,
    recipe: JsonObject | None = None,
) -> None:
    """The rows of a record in all configs that are made of such records, counted."""
    for config in configs_of(origin):
        if recipe and config.row.wanted(record, recipe) is False:
            continue
        for row in config.row.of(record):
            if tables.add_made(config, split, row):
                made.add(config, split, row, record)


def _checked_split(plan: SplitPlan, sample: JsonObject) -> str:
    """The split of a sample. Raises PublishError if it shows an API that its split must not."""
    need = sample["dialogue"]["query"]
    split = split_of(plan, need)
    if api := stray(plan, need, split):
        raise PublishError(
            f"{need['id']}: is of the split {split} and shows {api}, whose tool or category "
            "is held out of it. Queries were not drawn by the recipe's `splits`."
        )
    return split.value


def apis_of(run: RunFolder) -> Iterator[JsonObject]:
    """The APIs of a run; of one that did not make any, those its rows show."""
    if "apis" in {stage.name for stage in run.plan}:
        yield from run.stage("apis").objects("accepted")
        return
    seen: set[str] = set()
    queries = (sample["dialogue"]["query"] for sample in chain(run.samples(), run.expanded()))
    for api in chain.from_iterable(map(shown, queries)):
        if api_id(api) not in seen:
            seen.add(api_id(api))
            yield api


def told_run(run: RunFolder, made: Figures) -> JsonObject:
    """What the manifest tells of a run, and of who made the accepted rows, their templates and
    the APIs they call."""
    counts = report.count(run, sum(made.dialogues.values(), RowCounts()))
    makers = set(made.makers)
    for stage in run.plan:
        if stage.name in ("worlds", "domains", "apis", "templates") and not stage.given:
            for row in run.stage(stage.name).objects("accepted"):
                makers |= set(map(maker, row["provenance"]))
    places = {stage.name: place for place, stage in enumerate(run.plan)}
    ranked = sorted(makers, key=lambda one: (places.get(one[0], -1), *one[1:]))
    names = ("stage", "agent", "model", "prompts")
    return {
        "seed": run.recipe.seed,
        "recipe": public_recipe(run.recipe),
        "counts": counts.model_dump(mode="json"),
        "agents": [dict(zip(names, one, strict=True)) for one in ranked],
    }


@dataclass(frozen=True)
class _Merged:
    """The figures of a version: those of what stays, with those of what was made."""

    run: RunFolder
    keep: Keep
    made: Figures
    tables: _Tables

    def splits(self) -> JsonObject:
        """The figures of dialogues and rejected records by split, and the runs they come from."""
        parent, keep = self.keep.parent, self.keep
        found: JsonObject = {**parent.manifest["splits"]} if parent else {}
        for split in {*self.made.dialogues, *([keep.anew] if keep.anew else [])}:
            before = found.get(split, {"runs": [], **RowCounts().told()})
            stayed = self.tables.stayed.dialogues.get(split, RowCounts())
            made = self.made.dialogues.get(split, RowCounts())
            counted = (SAMPLES.name, split) in self.tables.begun or not keep.whole(SAMPLES, split)
            told = (stayed + made).told() if counted else before
            fallen = before["reasons"] if keep.whole(REJECTED, split) else stayed.counts["reasons"]
            told = with_rejects(told, Counter(fallen) + made.counts["reasons"])
            found[split] = {"runs": [*self._runs(split, before["runs"]), self.run.id], **told}
        return in_order(found)

    def _runs(self, split: str, runs: list[str]) -> list[str]:
        """The runs before this one whose rows are left in a split."""
        others = [name for name in runs if name != self.run.id]
        if split != self.keep.anew or self.keep.retries or self.keep.parent is None:
            return others
        told = self.keep.parent.manifest["runs"]
        left = self.tables.stayed.instructions.get(split)  # of ToolBench's queries
        return [name for name in others if left and told[name]["recipe"].get("rewrite")]

    def instructions(self) -> JsonObject:
        """The figures of instructions by split."""
        parent, keep = self.keep.parent, self.keep
        told = parent.manifest.get("instructions") if parent else None
        found: JsonObject = {**told["splits"]} if told else {}
        for split in {*self.made.instructions, *([keep.anew] if keep.anew else [])}:
            before = found.pop(split, {})
            whole = [name for config, name in _PARTS if keep.whole(config, split)]
            counts = InstructionCounts({name: before.get(name, {}) for name in whole})
            for more in (self.tables.stayed, self.made):
                counts += more.instructions.get(split, InstructionCounts())
            if counts:
                found[split] = counts.told()
        return in_order(found)

    def worlds(self) -> JsonObject | None:
        """The worlds and what came of their scripts by split; None of a version without any."""
        parent, keep = self.keep.parent, self.keep
        before = (parent.manifest.get("worlds") if parent else None) or {"known": [], "splits": {}}
        found: JsonObject = {**before["splits"]}
        for split in {*self.made.plays, *([keep.anew] if keep.anew else [])}:
            if (SAMPLES.name, split) in self.tables.begun or not keep.whole(SAMPLES, split):
                found.pop(split, None)
                counts = self.tables.stayed.plays.get(split, PlayCounts())
                if counts := counts + self.made.plays.get(split, PlayCounts()):
                    found[split] = counts.told()
        known = before["known"] if parent else self.made.worlds_json()
        return {"known": known, "splits": in_order(found)} if known or found else None


_PARTS = (
    (INSTRUCTIONS, "levels"),
    (INSTRUCTIONS, "sources"),
    (INSTRUCTIONS, "ratings"),
    (PLANNING, "planning"),
    (REJECTED, "rejected"),
)


def _extended(
    run: RunFolder, keep: Keep, configs: JsonObject, grown: set[tuple[str, str]]
) -> JsonObject:
    """What was added to the parent: rows by config and split."""
    added: dict[str, dict[str, int]] = {}
    for config in rows.CONFIGS:
        for split, told in configs.get(config.name, {}).items():
            if (config.name, split) in grown:
                before = keep.table(config, split) or {"rows": 0}
                added.setdefault(config.name, {})[split] = told["rows"] - before["rows"]
    return {"run": run.id, "rows": added}


def _expansion(run: RunFolder, keep: Keep, made: Figures, used: set[str]) -> JsonObject | None:
    """What is told of templates: of the parent's runs as far as their rows stay."""
    told = report.expansion_json(run, made.expanded)
    found = {run.id: told} if told else {}
    before = keep.parent.manifest.get("expansion") if keep.parent else None
    gone = keep.anew if not keep.retries else None
    for name, figures in (before or {}).items():
        left = {split: count for split, count in figures["rows"].items() if split != gone}
        if keep.anew is None or (name in used and left):
            found[name] = {**figures, "rows": left}
    return found or None


def _write_pairs(folder: Path, pairs: Iterable[JsonObject]) -> JsonObject | None:
    """Write the pairs of rows and benchmarks, if there are any; what the manifest tells of them."""
    counted, benchmarks, shown = Counter[str](), Counter[str](), list[JsonObject]()

    def lines() -> Iterator[bytes]:
        for pair in pairs:
            counted["dropped" if pair["dropped"] else "flagged"] += 1
            benchmarks[pair["benchmark"]] += 1
            if len(shown) < PAIRS_SHOWN:
                shown.append(pair)
            yield to_line(pair)

    write_lines(folder / PAIRS, lines())
    if not shown:
        (folder / PAIRS).unlink()
        return None
    totals = {name: counted[name] for name in ("dropped", "flagged")}
    return {**totals, "benchmarks": dict(sorted(benchmarks.items())), "examples": shown}
