"""What curators say of rejected records, and how often a rejection is right.

Their marks are a JSONL beside the versions of a dataset:

    <outputs>/datasets/<name>/judgements.jsonl

A mark is a line and is never changed: the last one of a curator on a record counts. Lines are
added under a lock and are on the disk before `add` returns. What a killed process leaves of a line
is passed over by readers and closed by the next writer.
"""

from __future__ import annotations

import datetime as dt
import os
from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from math import sqrt
from pathlib import Path

from pydantic import Field, ValidationError

from toolloom.pipeline.pages.rejections import RejectedSample
from toolloom.pipeline.store.files import explain, record_line
from toolloom.pipeline.store.locks import hold
from toolloom.schemas import Record, StoreError

FILE = "judgements.jsonl"
API_BANK = 0.78  # the precision of its tester
Z = 1.959963984540054  # of the normal distribution, for 95 %


class Judgement(Record):
    """A curator's mark on a rejected record."""

    key: str = Field(description="The record's key: id, stage and content, whatever the version.")
    id: str
    stage: str
    agent: str
    reason: str
    version: str = Field(description="The version in which the curator saw it.")
    agrees: bool | None = Field(description="Rightly rejected? None: the mark is taken back.")
    note: str = ""
    curator: str
    time: dt.datetime = Field(description="When, in UTC.")


@dataclass(frozen=True)
class Marks:
    """The marks that count, by the key of the record and by curator."""

    by_record: Mapping[str, Mapping[str, Judgement]] = field(default_factory=dict)
    damaged: int = 0  # lines that cannot be read

    def of(self, row: RejectedSample) -> Mapping[str, Judgement]:
        return self.by_record.get(row.key, {})

    def verdict(self, row: RejectedSample) -> bool | None:
        """What most curators say; None if nobody says anything, or as many this as that."""
        votes = [mark.agrees for mark in self.of(row).values()]
        more = 2 * sum(map(bool, votes)) - len(votes)
        return more > 0 if more else None


class Judgements:
    """The file of a dataset's judgements."""

    def __init__(self, folder: Path) -> None:
        """`folder`: that of the dataset, with its versions."""
        self.path = folder / FILE
        self._lock = folder / f".{FILE}.lock"

    def read(self) -> Marks:
        """The marks that count. Raises StoreError for a file that cannot be read."""
        try:
            text = self.path.read_bytes()
            if not text.endswith(b"\n"):  # in the middle of a line
                with suppress(StoreError), hold(self._lock):  # it may be there to be read only
                    text = self.path.read_bytes()
        except FileNotFoundError:
            return Marks()
        except OSError as error:
            raise explain(self.path, error, "read") from error
        found: dict[str, dict[str, Judgement]] = {}
        damaged = 0
        for line in filter(None, text.split(b"\n")):
            try:
                mark = Judgement.model_validate_json(line)
            except ValidationError:
                damaged += 1
                continue
            marks = found.setdefault(mark.key, {})
            marks.pop(mark.curator, None)
            if mark.agrees is not None:
                marks[mark.curator] = mark
        return Marks({key: marks for key, marks in found.items() if marks}, damaged)

    def add(
        self, row: RejectedSample, agrees: bool | None, curator: str, note: str = ""
    ) -> Judgement:
        """Keep a mark; it is on the disk when this returns. Raises StoreError."""
        mark = Judgement(
            key=row.key,
            id=row.id,
            stage=row.stage,
            agent=row.agent,
            reason=row.reason,
            version=row.version,
            agrees=agrees,
            note=_sound(note),
            curator=_sound(curator),
            time=dt.datetime.now(dt.UTC).replace(microsecond=0),
        )
        try:
            with hold(self._lock):
                # A whole line, after the end of one that was cut off; it is on the disk then.
                line = record_line(mark)
                made = not self.path.exists()
                with self.path.open("a+b", buffering=0) as file:
                    size = file.seek(0, os.SEEK_END)
                    if size and os.pread(file.fileno(), 1, size - 1) != b"\n":
                        line = b"\n" + line
                    try:
                        while line:
                            line = line[file.write(line) :]
                    except OSError:  # no room: leave no half of a line
                        file.truncate(size)
                        raise
                    os.fsync(file.fileno())
                if made:  # it outlives a power cut only if its folder is on the disk as well
                    place = os.open(self.path.parent, os.O_RDONLY)
                    try:
                        os.fsync(place)
                    finally:
                        os.close(place)
        except OSError as error:
            raise explain(self.path, error, "written") from error
        return mark


def _sound(text: str) -> str:
    """Text without halves of characters, which JSON could be written with and not read."""
    return text.encode(errors="replace").decode()


class Precision(Record):
    """The precision of one group of rejections, with its 95 % interval.

    Of what is rejected, how much ought to be. API-Bank (section 5, «Quality»): «upon examining the
    data that was automatically filtered by the tester agent, we discover that 78% of it does not
    adhere to our design principles as intended.» That is the precision of its tester.
    """

    group: str
    rejected: int = Field(description="Records in the group.")
    judged: int = Field(description="Different ones that curators have judged.")
    agreed: int = Field(description="Of those, rightly rejected.")
    tied: int = Field(default=0, description="As many agree as disagree: not counted as judged.")

    @property
    def share(self) -> float | None:
        """The precision; None as long as nothing is judged."""
        return self.agreed / self.judged if self.judged else None

    @property
    def interval(self) -> tuple[float, float]:
        return wilson(self.agreed, self.judged)


def wilson(hits: int, of: int) -> tuple[float, float]:
    """The 95 % score interval of a share: honest for few marks and for shares of 0 and 1.

    E. B. Wilson, «Probable Inference, the Law of Succession, and Statistical Inference», Journal
    of the American Statistical Association 22 (1927), 209-212. Recommended for small samples by
    Brown, Cai and DasGupta, «Interval Estimation for a Binomial Proportion», Statistical Science
    16 (2001), 101-133.
    """
    if not of:
        return 0.0, 1.0
    part, spread = hits / of, Z * Z / of
    centre = part + spread / 2
    half = Z * sqrt(part * (1 - part) / of + spread / (4 * of))
    low, high = ((centre + sign * half) / (1 + spread) for sign in (-1, 1))
    return (0.0 if hits == 0 else low), (1.0 if hits == of else high)


def precision(
    rows: Iterable[RejectedSample], marks: Marks, column: str | None = None
) -> list[Precision]:
    """The precision by what is in a column, most rejected first; without one, over all."""
    groups: dict[str, list[RejectedSample]] = {}
    for row in rows:
        for value in row.values(column) if column else ("all",):
            groups.setdefault(value, []).append(row)
    measured = [_precision_of(group, members, marks) for group, members in groups.items()]
    return sorted(measured, key=lambda one: (-one.rejected, one.group))


def _precision_of(group: str, rows: list[RejectedSample], marks: Marks) -> Precision:
    """Equal records are one judgement: they count once."""
    marked = {row.key: marks.verdict(row) for row in rows if marks.of(row)}
    judged = [agrees for agrees in marked.values() if agrees is not None]
    return Precision(
        group=group,
        rejected=len(rows),
        judged=len(judged),
        agreed=sum(judged),
        tied=len(marked) - len(judged),
    )
