"""What a verification finds and what it went through."""

from __future__ import annotations

from collections import Counter
from enum import StrEnum
from typing import Any

from pydantic import Field

from toolloom.schemas import Record

MOST = 200  # findings of one kind that are kept; all are counted


class Kind(StrEnum):
    """What is wrong, in the order in which it is told."""

    FILE = "file"
    TABLE = "table"
    RECORD = "record"
    CHECK = "check"
    TRAINING = "training row"
    SPLIT = "split"
    LINEAGE = "lineage"
    FIGURE = "figure"


ABOUT = {
    Kind.FILE: "files that are not what the version was published with",
    Kind.TABLE: "tables that cannot be read, or are not in the layout",
    Kind.RECORD: "rows that hold no valid record",
    Kind.CHECK: "rows in which a certain check finds a fault",
    Kind.TRAINING: "rows of `sft` or `planning` that are not made of their record",
    Kind.SPLIT: "rows and APIs that are in the wrong split",
    Kind.LINEAGE: "what does not follow from the parent version",
    Kind.FIGURE: "figures that are not those of the data",
}


class Fault(Record):
    """One thing that is not as it must be."""

    kind: Kind
    file: str = Field(description="The file, as its path in the version.")
    row: str | None = Field(default=None, description="Id of the row, where it is one.")
    detail: str = Field(description="What is wrong.")


class Report(Record):
    """A verification."""

    path: str
    version: str = Field(description="Name and number, such as `weather/1.2.0`.")
    files: int = Field(description="Files whose hashes were taken.")
    size: int = Field(description="Bytes in them.")
    rows: dict[str, int] = Field(description="Rows that were read, by config.")
    inspected: int = Field(description="Dialogues that all certain checks went through.")
    checks: int = Field(description="Certain checks of a dialogue.")
    counts: dict[Kind, int] = Field(description="Findings by kind.")
    faults: tuple[Fault, ...] = Field(description=f"Findings, at most {MOST} of a kind.")
    notes: tuple[str, ...] = Field(description="What could not be looked at.")
    seconds: float = Field(description="Wall time.")

    @property
    def good(self) -> bool:
        return not self.counts


class Findings:
    """Faults as they are found, in bounded memory."""

    def __init__(self) -> None:
        self.counts: Counter[Kind] = Counter()
        self.faults: list[Fault] = []
        self.notes: list[str] = []

    def add(self, kind: Kind, file: str, detail: str, row: Any = None) -> None:
        self.counts[kind] += 1
        if self.counts[kind] <= MOST:
            told = None if row is None else str(row)[:200]
            self.faults.append(Fault(kind=kind, file=file, row=told, detail=detail[:2000]))

    def ordered(self) -> tuple[Fault, ...]:
        order = list(Kind)
        return tuple(sorted(self.faults, key=lambda fault: order.index(fault.kind)))
