"""The files of one stage of a run: its shards, then its two files, each with its marker.

    <stage>/shards/00003.{accepted,rejected}.jsonl, 00003.done
    <stage>/{accepted,rejected}.jsonl, done.json

A marker (`.done`, `done.json`) is written last: what has one is complete, what has none is made
again. Shards are joined into the two files of their stage when all of them are there.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import chain, islice
from pathlib import Path
from threading import Event
from typing import Any, Literal, TypeVar

from pydantic import Field

from toolloom.pipeline.store import mirror
from toolloom.pipeline.store.files import (
    Rows,
    WrittenLines,
    read_lines,
    read_objects,
    read_records,
    record_line,
    replacing,
    write_lines,
)
from toolloom.schemas import JsonObject, Outcome, Record, Rejected, Usage

T = TypeVar("T")
R = TypeVar("R", bound=Record)
Kind = Literal["accepted", "rejected"]


class Mark(Record):
    """The marker of a finished shard or stage. Equal runs write equal marks."""

    accepted: int
    rejected: int
    use: Usage = Field(default_factory=Usage)


class StageMark(Mark):
    """A finished stage: `shards` holds how many records each shard accepted, in order."""

    shards: tuple[int, ...] = Field(description="Empty if the stage settled or sifted.")
    accepted_sha256: str
    rejected_sha256: str


def _read_mark(path: Path, model: type[R]) -> R | None:
    if not path.exists():
        return None
    return next(read_records(path, model), None)


class StageFolder:
    """The files of one stage of a run."""

    def __init__(self, path: Path) -> None:
        self.path = path

    @property
    def mark(self) -> StageMark | None:
        """The finished stage's marker, or None while there is work left."""
        return _read_mark(self.path / "done.json", StageMark)

    def shard_mark(self, index: int) -> Mark | None:
        return _read_mark(self._shard(index, "done"), Mark)

    def write_shard(
        self, index: int, accepted: Iterable[bytes], rejected: Iterable[bytes], use: Usage
    ) -> Mark:
        """Write a shard's records, as lines, then its marker."""
        good, _ = write_lines(self._shard(index, "accepted.jsonl"), accepted)
        bad, _ = write_lines(self._shard(index, "rejected.jsonl"), rejected)
        mark = Mark(accepted=good, rejected=bad, use=use)
        write_lines(self._shard(index, "done"), [record_line(mark)])
        return mark

    def shard_records(self, index: int, model: type[R]) -> list[R]:
        """What a finished shard accepted."""
        return list(read_records(self._shard(index, "accepted.jsonl"), model))

    def records(self, model: type[R]) -> Iterator[R]:
        """What a finished stage accepted."""
        return read_records(self.path / "accepted.jsonl", model)

    def so_far(self, model: type[R]) -> Iterator[R]:
        """What a stage accepted, of all that is finished so far."""
        return chain.from_iterable(read_records(f, model) for f in self._files("accepted"))

    def objects(self, kind: Kind) -> Iterator[JsonObject]:
        """Accepted or rejected records as plain JSON, of all that is finished so far."""
        return chain.from_iterable(map(read_objects, self._files(kind)))

    def groups(self, model: type[R], size: int) -> Iterator[list[R]]:
        """A finished stage's records by shard as they came, or by `size` if it parted them anew."""
        records, mark = self.records(model), self.mark
        if mark and mark.shards:
            yield from (list(islice(records, count)) for count in mark.shards)
        else:
            yield from batches(records, size)

    def finish(
        self,
        shards: int,
        model: type[Record] = Record,
        settle: Callable[[Sequence[Any]], Outcome] | None = None,
    ) -> StageMark:
        """Join the shards `0…shards-1` into the stage's files, mark it and remove them."""
        marks = [mark for i in range(shards) if (mark := self.shard_mark(i))]
        good: Iterable[bytes] = self._joined(shards, "accepted")
        bad: Iterable[bytes] = self._joined(shards, "rejected")
        if settle:
            records = [r for i in range(shards) for r in self.shard_records(i, model)]
            outcome = settle(records)
            good = map(record_line, outcome.accepted)
            bad = chain(bad, map(record_line, outcome.rejected))
        accepted_count, accepted_sha256 = write_lines(self.path / "accepted.jsonl", good)
        rejected_count, rejected_sha256 = write_lines(self.path / "rejected.jsonl", bad)
        made = StageMark(
            accepted=accepted_count,
            rejected=rejected_count,
            use=sum((m.use for m in marks), Usage()),
            shards=() if settle else tuple(m.accepted for m in marks),
            accepted_sha256=accepted_sha256,
            rejected_sha256=rejected_sha256,
        )
        write_lines(self.path / "done.json", [record_line(made)])
        self.tidy()
        return made

    def sift(self, outcomes: Iterable[bytes | Rejected]) -> StageMark:
        """Write what became of each row into the stage's files, and mark it."""
        good, bad = self.path / "accepted.jsonl", self.path / "rejected.jsonl"
        with replacing(good) as kept, replacing(bad) as fallen:
            accepted, rejected = WrittenLines(kept), WrittenLines(fallen)
            for each in outcomes:
                if isinstance(each, bytes):
                    accepted.write(each)
                else:
                    rejected.write(record_line(each))
        made = StageMark(
            accepted=accepted.count,
            rejected=rejected.count,
            shards=(),
            accepted_sha256=accepted.sha256,
            rejected_sha256=rejected.sha256,
        )
        write_lines(self.path / "done.json", [record_line(made)])
        return made

    def accepted(self, stop: Event) -> Rows:
        """What a finished stage accepted, to be read several times."""
        return Rows(self.path / "accepted.jsonl", self.mark.accepted if self.mark else 0, stop)

    def tidy(self) -> None:
        """Remove the shards of a finished stage, also those a killed process left."""
        shards = self.path / "shards"
        for marker in shards.glob("*.done"):  # first: none may be left without its files
            marker.unlink(missing_ok=True)
        shutil.rmtree(shards, ignore_errors=True)
        mirror.cleared(shards)

    def _shard(self, index: int, ending: str) -> Path:
        return self.path / "shards" / f"{index:05d}.{ending}"

    def _joined(self, shards: int, kind: Kind) -> Iterator[bytes]:
        for index in range(shards):
            yield from read_lines(self._shard(index, f"{kind}.jsonl"))

    def _files(self, kind: Kind) -> list[Path]:
        if self.mark:
            return [self.path / f"{kind}.jsonl"]
        done = (self.path / "shards").glob("*.done")
        # 100000.done sorts before 99999.done as text.
        return [d.with_suffix(f".{kind}.jsonl") for d in sorted(done, key=lambda d: int(d.stem))]


def batches(records: Iterable[T], size: int) -> Iterator[list[T]]:
    """Lists of `size` records, the last one shorter."""
    source = iter(records)
    while batch := list(islice(source, size)):
        yield batch
