"""Every instruction of a version again: its record, its sample's path, the certain checks."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from itertools import groupby
from tempfile import SpooledTemporaryFile

from toolloom.agents.tester import poor
from toolloom.pipeline.checks.instructions import inspect_level, inspect_levels
from toolloom.pipeline.checks.statements import sentences
from toolloom.pipeline.checks.tags import NAMING, spoken_tags
from toolloom.pipeline.dataset.figures import TOOLBENCH
from toolloom.pipeline.dataset.instructions import seed_of, seed_of_rows
from toolloom.pipeline.dataset.rows import INSTRUCTIONS, SAMPLES, instruction_row, parsed
from toolloom.pipeline.dataset.verify_files import FaultKind
from toolloom.pipeline.dataset.verify_rows import (
    UNFIT,
    Ids,
    VersionRows,
    differing_column,
    small,
    verify_table,
    why_unfit,
)
from toolloom.pipeline.store.files import to_line
from toolloom.schemas import FINISH, Granularity, Instruction, JsonObject, Seed, Split
from toolloom.schemas.splits import SEEN, zone

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
            records = verify_table(self._rows, INSTRUCTIONS, split, self._record)
            for name, group in groupby(records, key=lambda found: str(found[1]["sample"])):
                self._verify_group(split, name, list(group))

    def _record(self, split: str, file: str, row: JsonObject) -> JsonObject | None:
        """The record in a row, with what is wrong in it alone; None if it holds none."""
        fault = partial(self._rows.fault, file=file)
        try:
            raw = INSTRUCTIONS.row.record_of(row)
            each = Instruction.model_validate(raw)
            differing = differing_column(instruction_row(raw), row)
        except UNFIT as error:
            why = f"holds no instruction ({why_unfit(error)})"
            fault(FaultKind.RECORD, detail=why, row=row.get("id"))
            return None
        votes = " or ".join(map(str, sorted(self._votes)))
        wrong = {
            f"`{differing}` is not that of its record": differing,
            "its id is there twice": self._ids.add(each.id),
            "its id is not that of its sample and level": each.id != f"{each.sample}-{each.level}",
            "its provenance does not name its sample": not any(
                each.sample in share.parents for share in each.provenance
            ),
            f"has {len(each.ratings)} votes, not {votes}": len(each.ratings) not in self._votes,
        }
        for detail in (detail for detail, found in wrong.items() if found):
            fault(FaultKind.RECORD, detail=detail, row=each.id)
        if each.split != split:
            fault(FaultKind.SPLIT, detail=f"is in {split}; it says {each.split}", row=each.id)
        for finding in poor(each.ratings):
            fault(FaultKind.CHECK, detail=f"{finding.reason}: {finding.detail}", row=each.id)
        return raw

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
