"""The one door to disk for runs: the files of a run, and of its stages.

<outputs>/cache.sqlite                      every model response, shared by all runs
<outputs>/runs/<run id>/recipe.yaml         the recipe, every field filled in, no passwords
<outputs>/runs/<run id>/plan.json           the stages in order
<outputs>/runs/<run id>/known.jsonl         published rows that stay, if a version is built on

A stage's folder has its shards, then its two files, each with its marker:

    <stage>/shards/00003.{accepted,rejected}.jsonl, 00003.done
    <stage>/{accepted,rejected}.jsonl, done.json

A marker (`.done`, `done.json`) is written last: what has one is complete, what has none is made
again. Shards are joined into the two files of their stage when all of them are there.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from itertools import chain, islice
from pathlib import Path
from threading import Event
from typing import Any, Literal, TypeVar

import yaml
from pydantic import Field

from toolloom.pipeline.store.files import (
    LOCK,
    Rows,
    WrittenLines,
    hold_folder,
    read_lines,
    read_objects,
    read_records,
    record_line,
    replacing,
    write_lines,
)
from toolloom.schemas import (
    Instruction,
    JsonObject,
    NothingFound,
    Outcome,
    Recipe,
    Record,
    Rejected,
    Sample,
    Usage,
)
from toolloom.schemas.recipe import public_recipe, written_recipe

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
    return next(read_records(path, model), None) if path.exists() else None


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
        """What a stage accepted, of all that is finished so far."""
        return chain.from_iterable(read_records(path, model) for path in self._files("accepted"))

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
        lines: Iterable[tuple[bool, bytes]] = (
            (kind == "accepted", line)
            for kind in ("accepted", "rejected")
            for index in range(shards)
            for line in read_lines(self._shard(index, f"{kind}.jsonl"))
        )
        if settle:
            outcome = settle([r for i in range(shards) for r in self.shard_records(i, model)])
            good = [(True, record_line(each)) for each in outcome.accepted]
            bad = [(False, record_line(each)) for each in outcome.rejected]
            lines = chain(good, (each for each in lines if not each[0]), bad)
        counts = () if settle else tuple(mark.accepted for mark in marks)
        made = self._write(lines, sum((mark.use for mark in marks), Usage()), counts)
        self.tidy()
        return made

    def sift(self, outcomes: Iterable[bytes | Rejected]) -> StageMark:
        """Write what became of each row into the stage's files, and mark it."""
        lines = (
            (True, each) if isinstance(each, bytes) else (False, record_line(each))
            for each in outcomes
        )
        return self._write(lines, Usage(), ())

    def _write(
        self, lines: Iterable[tuple[bool, bytes]], use: Usage, shards: tuple[int, ...]
    ) -> StageMark:
        """Write the stage's two files of lines that are accepted or not, then its marker."""
        paths = self.path / "accepted.jsonl", self.path / "rejected.jsonl"
        with replacing(paths[0]) as good, replacing(paths[1]) as bad:
            accepted, rejected = WrittenLines(good), WrittenLines(bad)
            for is_accepted, line in lines:
                (accepted if is_accepted else rejected).write(line)
        made = StageMark(
            accepted=accepted.count,
            rejected=rejected.count,
            use=use,
            shards=shards,
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

    def _shard(self, index: int, ending: str) -> Path:
        return self.path / "shards" / f"{index:05d}.{ending}"

    def _files(self, kind: Kind) -> list[Path]:
        if self.mark:
            return [self.path / f"{kind}.jsonl"]
        # As numbers: 100000.done sorts before 99999.done as text.
        done = sorted((self.path / "shards").glob("*.done"), key=lambda path: int(path.stem))
        return [path.with_suffix(f".{kind}.jsonl") for path in done]


def batches(records: Iterable[T], size: int) -> Iterator[list[T]]:
    """Lists of `size` records, the last one shorter."""
    source = iter(records)
    while batch := list(islice(source, size)):
        yield batch


BUSY = (
    "another process is at work on this run. Wait for it to end, or change the recipe "
    "(a name or a seed) to start a run of its own."
)


class PlannedStage(Record):
    """A stage's line in plan.json, so that a run can be read without its code."""

    name: str
    agent: str
    writes: str
    sifts: bool = Field(default=False, description="It only compares rows with each other.")
    beside: bool = Field(default=False, description="Its records stand beside the rows.")
    given: bool = Field(
        default=False, description="Its records are those of the version that the run adds to."
    )


QUERIES = "queries"  # the first stage of a run that makes queries for a version


def begun_with(regenerates: bool, stages: Sequence[str]) -> Sequence[str]:
    """The stages that a run takes from the version it begins with: where it makes a split anew, or
    more of it, those before the queries."""
    return stages[: stages.index(QUERIES)] if regenerates and QUERIES in stages else ()


class RunFolder:
    """The files of one run. One process at a time writes; anybody may read."""

    def __init__(self, path: Path) -> None:
        self.path = path

    @property
    def id(self) -> str:
        return self.path.name

    def stage(self, name: str) -> StageFolder:
        return StageFolder(self.path / name)

    @property
    def recipe(self) -> Recipe:
        return written_recipe(self.path / "recipe.yaml")

    @property
    def plan(self) -> tuple[PlannedStage, ...]:
        """The run's stages in order."""
        return tuple(read_records(self.path / "plan.json", PlannedStage))

    def open(self, recipe: Recipe, plan: Iterable[PlannedStage]) -> None:
        """Write what is known before the first stage; also makes this the latest run."""
        text = yaml.safe_dump(public_recipe(recipe), sort_keys=False, allow_unicode=True)
        write_lines(self.path / "recipe.yaml", [text.encode()])
        write_lines(self.path / "plan.json", map(record_line, plan))

    def samples(self) -> Iterator[JsonObject]:
        """What the last stage accepted so far; of those that sift, the last that is finished.

        What stands beside the samples is not there. Of a run that adds to a version they are that
        version's.
        """
        for stage in reversed([each for each in self.plan if not each.beside]):
            if not stage.sifts or self.stage(stage.name).mark:
                return self.stage(stage.name).objects("accepted")
        return iter(())

    def worlds(self) -> Iterator[JsonObject]:
        """The worlds in which its dialogues play."""
        return self.stage("worlds").objects("accepted")

    def expanded(self) -> Iterator[JsonObject]:
        """The rows of templates and of scripts, once all are made."""
        return chain.from_iterable(each.objects("accepted") for each in self._beside(Sample))

    def rows(self) -> Iterator[JsonObject]:
        """The dialogues of the dataset that the run makes: samples, but for those of a version that
        it adds to, then rows of templates."""
        adds = any(stage.given for stage in self.plan)
        return chain(() if adds else self.samples(), self.expanded())

    def instructions(self) -> Iterator[Instruction]:
        """Requests at five granularities, as far as they are rewritten."""
        made = self._beside(Instruction)
        return chain.from_iterable(stage.records(Instruction) for stage in made)

    def _beside(self, model: type[Record]) -> list[StageFolder]:
        wanted = [s for s in self.plan if s.beside and s.writes == model.__name__]
        return [self.stage(stage.name) for stage in wanted]

    def known(self, stop: Event) -> Rows:
        """Published rows that stay: those of this run must not repeat them."""
        path = self.path / "known.jsonl"
        return Rows(path, sum(1 for _ in read_lines(path)) if path.exists() else 0, stop)

    def rejected(self) -> Iterator[JsonObject]:
        """What all stages rejected so far."""
        return chain.from_iterable(self.stage(s.name).objects("rejected") for s in self.plan)

    @contextmanager
    def locked(self) -> Iterator[None]:
        """Hold the run for this process; one that is refused before its first file leaves no
        folder. Raises StoreError if another process holds it."""
        with hold_folder(self.path, BUSY):
            try:
                yield
            finally:
                if [file.name for file in self.path.glob("*")] == [LOCK]:
                    shutil.rmtree(self.path, ignore_errors=True)


def find_run(outputs: Path, name: str) -> RunFolder:
    """A run by id, the start of its id, path, or `latest`. Raises NothingFound."""
    if (Path(name) / "plan.json").is_file():
        return RunFolder(Path(name))
    runs = sorted((outputs / "runs").glob("*/recipe.yaml"), key=lambda p: p.stat().st_mtime)
    ids = [path.parent.name for path in runs]
    found = [i for i in ids if i == name] or [i for i in ids if name and i.startswith(name)]
    if name == "latest":
        found = ids[-1:]
    if len(found) == 1:
        return RunFolder(outputs / "runs" / found[0])
    if found:
        raise NothingFound(f"{name!r} begins the ids of several runs: {', '.join(found)}.")
    known = f"There are: {', '.join(ids[-10:])}." if ids else "There is none yet."
    raise NothingFound(f"There is no run {name!r} in {outputs / 'runs'}. {known}")
