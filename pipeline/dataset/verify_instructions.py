"""Every instruction of a version again: its record, its sample's path, the certain checks, its
training rows."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import groupby
from tempfile import SpooledTemporaryFile
from typing import Any, NamedTuple

from toolloom.agents.tester import poor
from toolloom.pipeline.checks.instructions import inspect_level, inspect_levels
from toolloom.pipeline.checks.statements import sentences
from toolloom.pipeline.checks.tags import NAMING, spoken_tags
from toolloom.pipeline.dataset.configs import INSTRUCTIONS, PLANNING, SAMPLES, instruction_row
from toolloom.pipeline.dataset.contents_rows import maker
from toolloom.pipeline.dataset.instruction_counts import TOOLBENCH, InstructionCounts
from toolloom.pipeline.dataset.instructions.seeds import seed_of, seed_of_rows
from toolloom.pipeline.dataset.verify_files import read_table
from toolloom.pipeline.dataset.verify_planning import Planning, votes_of
from toolloom.pipeline.dataset.verify_reading import (
    UNFIT,
    Ids,
    Rows,
    differing_column,
    parsed,
    small,
    why_unfit,
)
from toolloom.pipeline.dataset.verify_report import Kind
from toolloom.pipeline.store.files import to_line
from toolloom.schemas import FINISH, Granularity, Instruction, JsonObject, Seed, Split
from toolloom.schemas.splits import SEEN, zone

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
    seen = _Seen(Ids(), Ids(), votes_of(rows))
    for split in made:
        training = Planning(rows, split)
        for name, group in groupby(rows.rows(INSTRUCTIONS.name, split), key=_sample):
            _Group(rows, split, str(name), seen).verify(list(group), solutions, training)
        training.finish()
    for split in trained:
        if split not in made:
            detail = f"`planning` has {split}, `instructions` has not"
            rows.findings.add(Kind.TRAINING, "manifest.json", detail)


def _sample(found: tuple[str, JsonObject]) -> Any:
    return found[1].get("sample")


class _Seen(NamedTuple):
    """The ids so far, and what an instruction may have of votes."""

    ids: Ids
    samples: Ids
    votes: set[int]


class _Group:
    """The instructions of one sample: they stand together."""

    def __init__(self, rows: Rows, split: str, name: str, seen: _Seen) -> None:
        self._rows, self._split, self._name, self._seen = rows, split, name, seen
        self._file = ""

    def _fault(self, kind: Kind, detail: str, row: Any = None) -> None:
        self._rows.findings.add(kind, self._file, detail, self._name if row is None else row)

    def verify(
        self, group: list[tuple[str, JsonObject]], solutions: Solutions, training: Planning
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
        if self._seen.samples.add(self._name):
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
        if self._seen.ids.add(each.id):
            self._fault(Kind.RECORD, "its id is there twice", each.id)
        if each.split != self._split:
            self._fault(Kind.SPLIT, f"is in {self._split}; it says {each.split}", each.id)
        self._made_as_told(each)
        rows = self._rows
        rows.instructions.setdefault(self._split, InstructionCounts()).add(raw)
        rows.count(self._split)
        rows.makers |= set(map(maker, raw["provenance"]))
        return raw

    def _made_as_told(self, each: Instruction) -> None:
        """Its name, where it comes from, and its votes."""
        if each.id != f"{each.sample}-{each.level}":
            self._fault(Kind.RECORD, "its id is not that of its sample and level", each.id)
        if not any(each.sample in told.parents for told in each.provenance):
            self._fault(Kind.RECORD, "its provenance does not name its sample", each.id)
        if len(each.ratings) not in self._seen.votes:
            wanted = " or ".join(map(str, sorted(self._seen.votes)))
            detail = f"has {len(each.ratings)} votes, not {wanted}"
            self._fault(Kind.RECORD, detail, each.id)
        for finding in poor(each.ratings):
            self._fault(Kind.CHECK, f"{finding.reason}: {finding.detail}", each.id)

    def _seed(self, found: dict[Granularity, Instruction], solutions: Solutions) -> Seed | None:
        """What the instructions were made of; None, and a fault, if it is not there."""
        sample = solutions.find(self._split, self._name)
        if sample is None and {each.source for each in found.values()} == {TOOLBENCH}:
            self._in_zone(next(iter(found.values())))
            return seed_of_rows(list(found.values()))
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
            spoken = tuple(spoken_tags(seed, level))
            wanted = (seed.tags, seed.path, spoken, seed.source, seed.licence)
            there = (each.tags, each.path, each.spoken, each.source, each.licence)
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


_PARTS = ("tags", "path", "spoken", "source", "licence")
