"""Verifies a version of a dataset without a model or a network.

Its bytes against its hashes, its tables against the layout, every row against all certain checks,
instructions against their samples, its splits against their plan, its figures and its card against
the data, its parent's hash.
"""

from __future__ import annotations

import hashlib
import time
from collections import Counter, deque
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from functools import partial
from itertools import chain, groupby
from pathlib import Path
from tempfile import SpooledTemporaryFile
from typing import Any

import yaml

from toolloom.agents.tester import poor
from toolloom.pipeline.checks import CHECKS
from toolloom.pipeline.checks.instructions import (
    NAMING,
    inspect_level,
    inspect_levels,
    sentences,
    spoken_tags,
)
from toolloom.pipeline.dataset.card import card
from toolloom.pipeline.dataset.figures import BEFORE_QUERIES, TOOLBENCH, RowCounts, example
from toolloom.pipeline.dataset.instructions import seed_of, seed_of_rows
from toolloom.pipeline.dataset.publish import code_hash, replay_files
from toolloom.pipeline.dataset.report import Counts
from toolloom.pipeline.dataset.rows import INSTRUCTIONS, REJECTED, SAMPLES, parsed
from toolloom.pipeline.dataset.verify_beside import Inspectors
from toolloom.pipeline.dataset.verify_files import (
    CARD,
    MANIFEST,
    SUMS,
    FaultKind,
    Manifest,
    VerifyReport,
    VersionFiles,
    look,
    look_at_tables,
    verify_lineage,
)
from toolloom.pipeline.dataset.verify_rows import (
    UNFIT,
    Ids,
    VersionRows,
    inspect_sample,
    small,
    verify_apis,
    verify_splits,
    verify_table,
    verify_worlds,
)
from toolloom.pipeline.store.files import to_line
from toolloom.pipeline.store.version import dotted, find_version, numbers
from toolloom.schemas import (
    FINISH,
    Granularity,
    Instruction,
    JsonObject,
    NothingFound,
    Seed,
    Split,
    canonical,
)
from toolloom.schemas.splits import SEEN, zone

# What a manifest that was tampered with raises: anything may be missing or of another type.
_UNFIT = (
    *(LookupError, TypeError, ValueError, AttributeError),
    *(ArithmeticError, RecursionError, yaml.YAMLError),
)
MANY = 2_000  # dialogues, from which processes that begin for them are worth it
Progress = Callable[[int, int], None]
"""Rows read, rows in all; called often."""


def place_of(outputs: Path, name: str) -> Path:
    """The folder of a version: a path, `name`, `name/1.2.0` or `name/latest`.

    Damaged ones are found too. Raises NothingFound.
    """
    whole, place = Path(name) if "\0" not in name else outputs / "datasets", None
    for path in (whole, outputs / "datasets" / name.strip("/") if "\0" not in name else whole):
        if (path / MANIFEST).is_file() or (path / SUMS).is_file():
            place = path.resolve()
        elif path.is_dir() and (known := numbers(path)):
            place = path / dotted(known[-1])
        if place:
            break
    if place is None and whole.is_dir():
        raise NothingFound(f"{whole}: is no version of a dataset (it holds no {MANIFEST}).")
    return place or find_version(outputs, name).path


def verify(path: Path, progress: Progress | None = None, processes: int = 0) -> VerifyReport:
    """Everything that can be known of a version from its folder. Raises StoreError.

    `processes`: how many inspect dialogues beside this one, where there are many of them. They
    are begun anew, so that a script that asks for them must be guarded by `__name__`.
    """
    started = time.monotonic()
    files = look(path)
    rows, told, counts = None, files.manifest, files.findings.counts
    if told is not None:
        look_at_tables(files)
        rows = _read(files, told, progress, processes)
        _figures(rows)
        _runs(files, told)
        _makers(rows)
        _card(files)
        _replay(files)
        verify_lineage(files, told)
    return VerifyReport(
        path=str(path),
        version=f"{told.name}/{told.version}" if told else path.name,
        files=len(files.sizes),
        size=sum(files.sizes.values()),
        rows=rows.counts() if rows else {},
        inspected=rows.inspected if rows else 0,
        checks=sum(map(len, CHECKS)),
        counts={kind: counts[kind] for kind in FaultKind if counts[kind]},
        faults=files.faults,
        notes=tuple(files.notes),
        seconds=time.monotonic() - started,
    )


def _read(
    files: VersionFiles, told: Manifest, progress: Progress | None, processes: int
) -> VersionRows:
    total = sum(table.rows for config in told.configs.values() for table in config.values())
    done = 0

    def step() -> None:
        nonlocal done
        done += 1
        if progress and done % 64 == 0:
            progress(done, total)

    rows = VersionRows(files, told, step)
    with Solutions(rows) as solutions:
        verify_apis(rows)
        verify_worlds(rows)
        many = sum(table.rows for table in told.configs.get(SAMPLES.name, {}).values()) >= MANY
        with ExitStack() as stack:
            if processes and many:
                sound = [(name, world.world) for name, world in rows.worlds.items() if world]
                rows.beside = stack.enter_context(Inspectors(processes, sound))
            for split in rows.splits(SAMPLES):
                for _, sample in verify_table(rows, SAMPLES, split, partial(inspect_sample, rows)):
                    solutions.keep(split, sample)
        rows.beside = None
        Instructions(rows, solutions).verify()
    for split in rows.splits(REJECTED):
        deque(verify_table(rows, REJECTED, split), maxlen=0)
    verify_splits(rows)
    return rows


def _figures(rows: VersionRows) -> None:
    """The manifest's figures are those of the rows."""
    if rows.broken:
        rows.files.notes.append("Figures were not compared: not all tables could be read.")
        return
    told, counted = rows.manifest, rows.figures
    for split in sorted({*told.splits, *counted.dialogues}):
        if split not in (*Split, BEFORE_QUERIES):
            rows.fault(FaultKind.FIGURE, MANIFEST, f"there is no split {split}")
            continue
        figures = {k: v for k, v in told.splits.get(split, {}).items() if k != "runs"}
        found = counted.dialogues.get(split, RowCounts()).told()
        for name in {**found, **figures}:
            _compare(rows, f"splits.{split}.{name}", figures.get(name), found.get(name))
    for config, splits in told.configs.items():
        for split, table in splits.items():
            left = rows.left_out[config, split]
            _compare(rows, f"configs.{config}.{split}.left_out", table.left_out, left)
    # As many rows of templates are told of as there are.
    expanded: Counter[str] = Counter()
    for name, each in (rows.manifest.expansion or {}).items():
        if name not in rows.manifest.runs:
            rows.fault(FaultKind.FIGURE, MANIFEST, f"expansion.{name} is not among the runs")
        counts = each.get("rows")
        if isinstance(counts, dict):
            expanded.update({k: n for k, n in counts.items() if isinstance(n, int)})
    for split in {**expanded, **counted.expanded}:
        made = counted.expanded[split]
        _compare(rows, f"expansion rows of {split}", expanded[split], made)
    _instructions(rows)
    _worlds(rows)


def _worlds(rows: VersionRows) -> None:
    """What is told of worlds, and of the dialogues in them, is what there is."""
    told, counted = rows.manifest.worlds or {}, rows.figures
    _compare(rows, "worlds.known", told.get("known", []), counted.worlds_json())
    splits = told.get("splits")
    figures = splits if isinstance(splits, dict) else {}
    found = {split: plays.told() for split, plays in counted.plays.items()}
    for split in {**found, **figures}:
        _compare(rows, f"worlds.{split}", figures.get(split), found.get(split))


def _instructions(rows: VersionRows) -> None:
    """What is told of instructions is what there is, by split and level; and so is the example."""
    told = rows.manifest.instructions or {}
    splits = told.get("splits")
    figures = splits if isinstance(splits, dict) else {}
    counts = rows.figures.instructions.items()
    counted = {split: found.told() for split, found in counts if found}
    for split in {**counted, **figures}:
        _compare(rows, f"instructions.{split}", figures.get(split), counted.get(split))
    files, made = rows.files, rows.splits(INSTRUCTIONS)
    names = chain.from_iterable(files.readable(INSTRUCTIONS.name, split) for split in made)
    shown = example(chain.from_iterable(map(files.rows, names)))
    _compare(rows, "instructions.example", told.get("example"), shown)


def _compare(rows: VersionRows, name: str, told: Any, counted: Any) -> None:
    if told == counted:
        return
    if isinstance(told, dict) and isinstance(counted, dict):
        keys = [k for k in {**counted, **told} if counted.get(k) != told.get(k)] or ["order"]
        name, told, counted = f"{name}.{keys[0]}", told.get(keys[0]), counted.get(keys[0])
    rows.fault(FaultKind.FIGURE, MANIFEST, f"{name} is {told}, the data have {counted}")


def _runs(files: VersionFiles, told: Manifest) -> None:
    """Each split comes from runs that are told, and has what its run accepted and rejected."""
    for split, figures in told.splits.items():
        names = figures.get("runs")
        if not isinstance(names, list) or not names or set(map(str, names)) - set(told.runs):
            files.fault(FaultKind.FIGURE, MANIFEST, f"splits.{split}.runs are not among the runs")
    if told.extended and told.extended.run not in told.runs:
        files.fault(FaultKind.FIGURE, MANIFEST, "extended.run is not among the runs")
    for name, run in told.runs.items():
        try:
            counts = Counts.model_validate(run.get("counts"))
        except ValueError:
            files.fault(FaultKind.FIGURE, MANIFEST, f"runs.{name}.counts cannot be read")
            continue
        _run_figures(files, name, counts, told)


def _run_figures(files: VersionFiles, name: str, counts: Counts, told: Manifest) -> None:
    """What a run accepted and rejected is there; of runs before the last only a part is left."""
    if told.extended:
        if name != told.extended.run:
            return
        configs = {"rows": SAMPLES, "rejected": REJECTED, "instructions": INSTRUCTIONS}
        rows = told.extended.rows
        found = {what: sum(rows.get(c.name, {}).values()) for what, c in configs.items()}
    else:
        last = told.splits if told.regenerated is None else [told.regenerated.value]
        splits = [told.splits[split] for split in last if split in told.splits]
        mine = [figures for figures in splits if figures.get("runs") == [name]]
        if not mine:
            return
        found = {what: sum(f.get(what, 0) for f in mine) for what in ("rows", "rejected")}
    made = counts.accepted, counts.rejected, counts.instructions
    figures = dict(zip(("rows", "rejected", "instructions"), made, strict=True))
    # A run for one split may have rejected records that belong to no split, among other runs'.
    runs = told.splits.get(BEFORE_QUERIES, {}).get("runs") if told.regenerated else None
    fell_before = isinstance(runs, list) and name in runs
    for what, number in found.items():
        fewer = what == "rejected" and number < figures[what] and fell_before
        if number != figures[what] and not fewer:
            detail = f"run {name} made {figures[what]} {what}, its splits have {number}"
            files.fault(FaultKind.FIGURE, MANIFEST, detail)


def _makers(rows: VersionRows) -> None:
    """The agents, models and prompts that rows name are those of the runs."""
    listed = (run.get("agents") for run in rows.manifest.runs.values())
    agents = [a for each in listed if isinstance(each, list) for a in each if isinstance(a, dict)]
    names = ("stage", "agent", "model", "prompts")
    known = {canonical([agent.get(name) for name in names]) for agent in agents}
    for maker in sorted(rows.figures.makers):
        if canonical(list(maker)) not in known:
            stage, agent, model, _ = maker
            detail = f"rows name {agent} of {stage} with the model {model!r}, and no run does"
            rows.fault(FaultKind.FIGURE, MANIFEST, detail)


def _replay(files: VersionFiles) -> None:
    """What replays the rows is ours: whoever runs it trusts it."""
    for name, content in replay_files().items() if files.raw.get("worlds") else ():
        differs = files.hashes.get(name) != hashlib.sha256(content).hexdigest()
        if differs and name in files.hashes and files.raw["code"] == code_hash():
            files.fault(FaultKind.FIGURE, name, "is not what toolloom publishes there")


def _card(files: VersionFiles) -> None:
    """README.md is what is made of the manifest."""
    if CARD not in files.hashes:
        return
    try:
        made = card(files.raw).encode("utf-8", "replace")
    except _UNFIT as error:
        why = f"{type(error).__name__}: {str(error)[:200]}"
        files.fault(FaultKind.FIGURE, MANIFEST, f"no card can be made of it ({why})")
        return
    if hashlib.sha256(made).hexdigest() == files.hashes[CARD]:
        return
    if files.raw["code"] != code_hash():
        files.notes.append(
            f"The words of {CARD} were not compared: toolloom {files.raw['toolloom']} wrote it."
        )
        return
    lines = zip(made.splitlines(), (files.root / CARD).read_bytes().splitlines(), strict=False)
    place, told = next(
        ((n, found) for n, (line, found) in enumerate(lines, 1) if line != found), (0, b"")
    )
    line = told.decode("utf-8", "replace")[:200]
    files.fault(
        FaultKind.FIGURE, CARD, f"line {place} is not what the manifest makes of it: {line}"
    )


_IN_MEMORY = 4 * 2**20  # bytes of samples, before a file is begun


class Solutions:
    """The dialogues that instructions name, on the disk while they are wanted.

    In memory are about 200 bytes of each.
    """

    def __init__(self, rows: VersionRows) -> None:
        self._file = SpooledTemporaryFile(_IN_MEMORY)  # noqa: SIM115  # closed by `with`
        self._wanted = {
            small(str(row.get("sample")))
            for split in rows.splits(INSTRUCTIONS)
            for name in rows.files.readable(INSTRUCTIONS.name, split)
            for row in rows.files.rows(name)
        }  # the samples that instructions name
        self._places: dict[int, tuple[str, int, int]] = {}
        self._end = 0

    def __enter__(self) -> Solutions:
        return self

    def __exit__(self, *_: object) -> None:
        self._file.close()

    def keep(self, split: str, sample: JsonObject) -> None:
        """Keep a sample that is read just now, if any instruction names it."""
        name = small(sample["dialogue"]["query"]["id"])
        if name in self._wanted:
            line = to_line(sample)
            self._places[name] = (split, self._end, len(line))
            self._file.write(line)
            self._end += len(line)

    def find(self, split: str, name: str) -> JsonObject | None:
        """A sample of a split; None if it is not there."""
        there, start, size = self._places.get(small(name), ("", 0, 0))
        if not size or there != split:
            return None
        self._file.seek(start)
        found: JsonObject = parsed(self._file.read(size))
        return found


class Instructions:
    """All splits' instructions; those of one sample stand together and are held together."""

    def __init__(self, rows: VersionRows, solutions: Solutions) -> None:
        self._rows, self._solutions = rows, solutions
        self._ids, self._samples = Ids(), Ids()
        # The numbers of votes that the runs asked for on an instruction.
        asked = []
        for recipe in rows.recipes():
            plan, tester = recipe.get("rewrite"), recipe.get("tester")
            if isinstance(plan, dict):
                usual = tester.get("votes") if isinstance(tester, dict) else None
                asked.append(usual if plan.get("votes") is None else plan["votes"])
        self._votes = {votes for votes in asked if isinstance(votes, int)} or {0}

    def verify(self) -> None:
        for split in self._rows.splits(INSTRUCTIONS):
            records = verify_table(self._rows, INSTRUCTIONS, split, self._inspect)
            for name, group in groupby(records, key=lambda found: str(found[1]["sample"])):
                self._verify_group(split, name, list(group))

    def _inspect(self, _: str, file: str, _raw: JsonObject, each: Instruction) -> None:
        """Tell what is wrong in one instruction alone."""
        votes = " or ".join(map(str, sorted(self._votes)))
        wrong = {
            "its id is there twice": self._ids.add(each.id),
            "its id is not that of its sample and level": each.id != f"{each.sample}-{each.level}",
            "its provenance does not name its sample": not any(
                each.sample in share.parents for share in each.provenance
            ),
            f"has {len(each.ratings)} votes, not {votes}": len(each.ratings) not in self._votes,
        }
        for detail in (detail for detail, found in wrong.items() if found):
            self._rows.fault(FaultKind.RECORD, file, detail, each.id)
        for finding in poor(each.ratings):
            detail = f"{finding.reason}: {finding.detail}"
            self._rows.fault(FaultKind.CHECK, file, detail, each.id)

    def _verify_group(self, split: str, name: str, group: list[tuple[str, JsonObject]]) -> None:
        """The instructions of one sample: each level once, all of them made of that sample."""
        file = group[-1][0]
        found: dict[Granularity, Instruction] = {}
        for where, raw in group:
            each = Instruction.model_validate(raw)
            if each.level in found:
                detail = f"its sample has two of the level {each.level}"
                self._rows.fault(FaultKind.RECORD, where, detail, each.id)
            found[each.level] = each
        if self._samples.add(name):
            detail = "instructions of its sample stand apart from each other"
            self._rows.fault(FaultKind.RECORD, file, detail, name)
        if seed := self._seed(split, name, file, found):
            self._hold_against(seed, found, file)

    def _seed(
        self, split: str, name: str, file: str, found: dict[Granularity, Instruction]
    ) -> Seed | None:
        """What the instructions were made of; None, and a fault, if it is not there."""
        sample = self._solutions.find(split, name)
        if sample is None and {each.source for each in found.values()} == {TOOLBENCH}:
            self._in_zone(split, name, file, next(iter(found.values())))
            return seed_of_rows(list(found.values()))
        if sample is None:
            if (SAMPLES.name, split) not in self._rows.broken:
                detail = f"its sample is not in `samples` of {split}"
                self._rows.fault(FaultKind.RECORD, file, detail, name)
            return None
        try:
            seed = seed_of(sample, Split(split))
        except UNFIT:  # the sample's own fault, which is told
            return None
        if seed is None:
            self._rows.fault(FaultKind.RECORD, file, "its sample calls nothing", name)
        return seed

    def _in_zone(self, split: str, name: str, file: str, each: Instruction) -> None:
        """Tools that are held out are held out here too."""
        tools = zip(each.tags.categories, each.tags.tools, strict=False)
        zones = {zone(self._rows.plan, *tool) for tool in tools}
        held = next((z for z in (Split.TEST_CATEGORY, Split.TEST_TOOL) if z in zones), None)
        if held != split if held else split not in SEEN:
            place = f"belong into {held}" if held else "are seen in training"
            self._rows.fault(FaultKind.SPLIT, file, f"is in {split}; its tools {place}", name)

    def _hold_against(self, seed: Seed, found: dict[Granularity, Instruction], file: str) -> None:
        """Tags, path and names are those of the calls, and no certain check finds a fault."""
        for level, each in found.items():
            for name in ("tags", "path", "spoken", "source", "licence"):
                of_seed = tuple(spoken_tags(seed, level)) if name == "spoken" else None
                if getattr(each, name) != (getattr(seed, name) if of_seed is None else of_seed):
                    detail = f"`{name}` is not that of its sample"
                    self._rows.fault(FaultKind.RECORD, file, detail, each.id)
            if each.path[-1:] != (FINISH,):
                detail = f"`path` does not end in {FINISH}"
                self._rows.fault(FaultKind.RECORD, file, detail, each.id)
        texts = {level: each.text for level, each in found.items()}
        for level, findings in inspect_levels(seed, {**_begun(seed, texts), **texts}).items():
            for finding in findings if level in found else ():
                detail = f"{finding.reason}: {finding.detail}"
                self._rows.fault(FaultKind.CHECK, file, detail, found[level].id)


def _begun(seed: Seed, texts: Mapping[Granularity, str]) -> dict[Granularity, str]:
    """The statement that the other levels begin with, where its own row was rejected: votes
    reject it alone, as those that go on from it have votes of their own."""
    others = [text for level, text in texts.items() if level in NAMING]
    first = sentences(others[0]) if others else []
    for many in range(len(first) - 1, 0, -1):
        statement = " ".join(first[:many])
        together = all(text.startswith(f"{statement} ") for text in others)
        if together and not inspect_level(seed, Granularity.STATEMENT, statement, {}):
            return {Granularity.STATEMENT: statement}
    return {}
