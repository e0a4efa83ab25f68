"""Every instruction of a version again: its record, its sample's path, the certain checks, its
training rows."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Mapping
from itertools import groupby
from tempfile import SpooledTemporaryFile
from typing import Any

from toolloom.agents.tester_rate import poor
from toolloom.pipeline.configs import (
    INSTRUCTIONS,
    PLANNING,
    SAMPLES,
    encoded,
    instruction_row,
)
from toolloom.pipeline.contents_rows import maker
from toolloom.pipeline.instruction_counts import TOOLBENCH, InstructionCounts
from toolloom.pipeline.jsonl import to_line
from toolloom.pipeline.rewriting.checks import CHECKS, inspect_levels
from toolloom.pipeline.rewriting.mentions import NAMING
from toolloom.pipeline.rewriting.planning import planning_rows
from toolloom.pipeline.rewriting.seeds import seed_of, seed_of_rows
from toolloom.pipeline.splits import SEEN, zone
from toolloom.pipeline.tables import reads_back
from toolloom.pipeline.verify_files import read_table
from toolloom.pipeline.verify_reading import (
    UNFIT,
    Ids,
    Rows,
    differing_column,
    parsed,
    short,
    small,
    why_unfit,
)
from toolloom.pipeline.verify_report import Kind
from toolloom.schemas import FINISH, Granularity, Instruction, JsonObject, Seed, Split

_IN_MEMORY = 4 * 2**20  # bytes of samples, before a file is begun


class Solutions:
    """The dialogues that instructions name, on the disk while they are wanted.

    In memory are about 200 bytes of each.
    """

    def __init__(self, rows: Rows) -> None:
        self._file = SpooledTemporaryFile(_IN_MEMORY)  # noqa: SIM115  # closed by `with`
        self._wanted = {small(name) for name in _named(rows)}
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


def _named(rows: Rows) -> Iterator[str]:
    """The samples that instructions name."""
    for split in rows.told.configs.get(INSTRUCTIONS.name, {}):
        for name in rows.files.readable(INSTRUCTIONS.name, split):
            for row in read_table(rows.files, name, rows.findings):
                yield str(row.get("sample"))


def verify_instructions(rows: Rows, solutions: Solutions) -> None:
    """All splits' instructions, and beside them their rows of `planning`."""
    made, trained = (rows.told.configs.get(c.name, {}) for c in (INSTRUCTIONS, PLANNING))
    ids, samples = Ids(), Ids()
    for split in made:
        training = _Training(rows, split)
        for name, group in groupby(rows.rows(INSTRUCTIONS.name, split), key=_sample):
            _Group(rows, split, str(name), ids, samples).verify(list(group), solutions, training)
        training.finish()
    for split in trained:
        if split not in made:
            detail = f"`planning` has {split}, `instructions` has not"
            rows.findings.add(Kind.TRAINING, "manifest.json", detail)


def _sample(found: tuple[str, JsonObject]) -> Any:
    return found[1].get("sample")


class _Group:
    """The instructions of one sample: they stand together."""

    def __init__(self, rows: Rows, split: str, name: str, ids: Ids, samples: Ids) -> None:
        self._rows, self._split, self._name = rows, split, name
        self._ids, self._samples = ids, samples
        self._file = ""

    def _fault(self, kind: Kind, detail: str, row: Any = None) -> None:
        self._rows.findings.add(kind, self._file, detail, self._name if row is None else row)

    def verify(
        self, group: list[tuple[str, JsonObject]], solutions: Solutions, training: _Training
    ) -> None:
        found: dict[Granularity, Instruction] = {}
        for file, row in group:
            self._file = file
            raw = self._record(row)
            if raw is None:
                training.skip(str(row.get("id")))
                continue
            training.hold_against(raw, file)
            each = Instruction.model_validate(raw)
            if each.level in found:
                self._fault(Kind.RECORD, f"its sample has two of the level {each.level}", each.id)
            found[each.level] = each
        if self._samples.add(self._name):
            self._fault(Kind.RECORD, "instructions of its sample stand apart from each other")
        if found and (seed := self._seed(found, solutions)):
            self._hold_against(seed, found)

    def _record(self, row: JsonObject) -> JsonObject | None:
        """The record in a row, counted; None if it holds none."""
        try:
            raw: JsonObject = parsed(row["record"])
            each = Instruction.model_validate(raw)
            differing = differing_column(instruction_row(raw), row)
        except UNFIT as error:
            self._fault(Kind.RECORD, f"holds no instruction ({why_unfit(error)})", row.get("id"))
            return None
        if differing:
            self._fault(Kind.RECORD, f"`{differing}` is not that of its record", each.id)
        if self._ids.add(each.id):
            self._fault(Kind.RECORD, "its id is there twice", each.id)
        if each.split != self._split:
            self._fault(Kind.SPLIT, f"is in {self._split}; it says {each.split}", each.id)
        for finding in poor(each.ratings):
            self._fault(Kind.CHECK, f"{finding.reason}: {finding.detail}", each.id)
        rows = self._rows
        rows.instructions.setdefault(self._split, InstructionCounts()).add(raw)
        rows.count(self._split)
        rows.makers |= set(map(maker, raw["provenance"]))
        return raw

    def _seed(self, found: dict[Granularity, Instruction], solutions: Solutions) -> Seed | None:
        """What the instructions were made of; None, and a fault, if it is not there."""
        if {each.source for each in found.values()} == {TOOLBENCH}:
            self._in_zone(next(iter(found.values())))
            return seed_of_rows(list(found.values()))
        sample = solutions.find(self._split, self._name)
        if sample is None:
            if (SAMPLES.name, self._split) not in self._rows.broken:
                self._fault(Kind.RECORD, f"its sample is not in `samples` of {self._split}")
            return None
        try:
            seed = seed_of(sample, Split(self._split))
        except UNFIT:  # the sample's own fault, which is told
            return None
        if seed is None:
            self._fault(Kind.RECORD, "its sample calls nothing")
        return seed

    def _in_zone(self, each: Instruction) -> None:
        """Tools that are held out are held out here too."""
        tools = zip(each.tags.categories, each.tags.tools, strict=False)
        zones = {zone(self._rows.plan, *tool) for tool in tools}
        held = next((z for z in (Split.TEST_CATEGORY, Split.TEST_TOOL) if z in zones), None)
        if held and held != self._split:
            self._fault(Kind.SPLIT, f"is in {self._split}; its tools belong into {held}")
        elif not held and self._split not in SEEN:
            self._fault(Kind.SPLIT, f"is in {self._split}; its tools are seen in training")

    def _hold_against(self, seed: Seed, found: dict[Granularity, Instruction]) -> None:
        """Tags, path and names are those of the calls, and no certain check finds a fault."""
        for level, each in found.items():
            wanted = (seed.tags, seed.path, tuple(CHECKS.spoken(seed, level)), seed.source)
            there = (each.tags, each.path, each.spoken, each.source)
            for name, one, other in zip(_PARTS, wanted, there, strict=True):
                if one != other:
                    self._fault(Kind.RECORD, f"`{name}` is not that of its sample", each.id)
            if each.path[-1:] != (FINISH,):
                self._fault(Kind.RECORD, f"`path` does not end in {FINISH}", each.id)
        texts = {level: each.text for level, each in found.items()}
        for level, findings in inspect_levels(seed, {**_begun(seed, texts), **texts}).items():
            for finding in findings if level in found else ():
                self._fault(Kind.CHECK, f"{finding.reason}: {finding.detail}", found[level].id)


def _begun(seed: Seed, texts: Mapping[Granularity, str]) -> dict[Granularity, str]:
    """The statement that the other levels begin with, where its own row was rejected."""
    others = [text for level, text in texts.items() if level in NAMING]
    for statement in CHECKS.statements(seed) if others else ():
        if all(text.startswith(f"{statement} ") for text in others):
            return {Granularity.STATEMENT: statement}
    return {}


_PARTS = ("tags", "path", "spoken", "source")


class _Training:
    """The rows of `planning`, read in step with the instructions: the same order.

    Of coarse instructions only a share has any: of which, the shares of the runs decide.
    """

    def __init__(self, rows: Rows, split: str) -> None:
        self._rows, self._split = rows, split
        self._there = rows.rows(PLANNING.name, split)
        self._waiting: deque[tuple[str, JsonObject]] = deque()
        self._shares = _shares(rows)
        rows.left_out.setdefault((PLANNING.name, split), 0)

    def _next(self) -> tuple[str, JsonObject] | None:
        if not self._waiting:
            self._waiting.extend(found for found in [next(self._there, None)] if found)
        return self._waiting[0] if self._waiting else None

    def hold_against(self, raw: JsonObject, file: str) -> None:
        """An instruction's rows are the next ones, and equal to what is made of it."""
        full = planning_rows(raw, 1.0)
        wanted = {len(planning_rows(raw, share)) for share in self._shares}
        there = sum(self._is_there(row, may_lack=0 in wanted) for row in full)
        if there not in wanted and (PLANNING.name, self._split) not in self._rows.broken:
            detail = f"has {there} rows in `planning` at its place, not {max(wanted)}"
            self._rows.findings.add(Kind.TRAINING, file, detail, raw["id"])

    def _is_there(self, row: JsonObject, may_lack: bool) -> bool:
        """Take the next row, if it is this one; one that cannot be stored need not be there."""
        made, found = encoded(PLANNING, row), self._next()
        if found is None or found[1].get("id") != row["id"]:
            if may_lack or reads_back({**made, "tools": ()}):
                return False
            self._rows.left_out[PLANNING.name, self._split] += 1
            return True
        file, there = self._waiting.popleft()
        counted = self._rows.instructions.setdefault(self._split, InstructionCounts())
        counted.train(row)
        if name := differing_column(made, there):
            detail = f"`{name}` has {short(there.get(name))}, not {short(made.get(name))}"
            self._rows.findings.add(Kind.TRAINING, file, detail, row["id"])
        return True

    def skip(self, name: str) -> None:
        """The rows of an instruction that cannot be read."""
        while (found := self._next()) and str(found[1].get("id")).startswith(name):
            self._waiting.popleft()

    def finish(self) -> None:
        lacking = (INSTRUCTIONS.name, self._split) in self._rows.broken
        while (found := self._next()) and not lacking:
            self._waiting.popleft()
            detail = "has no instruction in `instructions` at its place"
            self._rows.findings.add(Kind.TRAINING, found[0], detail, found[1].get("id"))


def _shares(rows: Rows) -> set[float]:
    """The shares of coarse instructions that the runs trained on."""
    recipes = [run.get("recipe") for run in rows.told.runs.values()]
    plans = [recipe.get("rewrite") for recipe in recipes if isinstance(recipe, dict)]
    found = [plan.get("coarse") for plan in plans if isinstance(plan, dict)]
    return {float(share) for share in found if isinstance(share, int | float)} or {1.0}
