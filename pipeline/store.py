"""The one door to disk for runs.

    <outputs>/cache.sqlite                      every model response, shared by all runs
    <outputs>/runs/<run id>/recipe.yaml         the recipe, every field filled in, no passwords
    <outputs>/runs/<run id>/plan.json           the stages in order
    <outputs>/runs/<run id>/known.jsonl         published rows that stay, if a version is built on
    <outputs>/runs/<run id>/<stage>/shards/00003.{accepted,rejected}.jsonl, 00003.done
    <outputs>/runs/<run id>/<stage>/{accepted,rejected}.jsonl, done.json

A marker (`.done`, `done.json`) is written last: what has one is complete, what has none is made
again. Shards are joined into the two files of their stage when all of them are there.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager
from itertools import chain, islice
from pathlib import Path
from threading import Event
from typing import TYPE_CHECKING, Any, Literal, TypeVar

import yaml
from pydantic import Field

from toolloom.pipeline.jsonl import (
    Lines,
    Rows,
    locked,
    read_lines,
    read_objects,
    read_records,
    record_line,
    replacing,
    write_lines,
)
from toolloom.schemas import (
    Expansion,
    Instruction,
    JsonObject,
    NothingFound,
    Recipe,
    Record,
    Rejected,
    load_recipe,
)
from toolloom.schemas.recipe import public_recipe

if TYPE_CHECKING:  # reading a run must not load what talks to models
    from toolloom.pipeline.stage import Outcome, Stage

T = TypeVar("T")
R = TypeVar("R", bound=Record)
Kind = Literal["accepted", "rejected"]

BUSY = (
    "another process is at work on this run. Wait for it to end, or change the recipe "
    "(a name or a seed) to start a run of its own."
)


class Use(Record):
    """What answers were used for records, cached answers included."""

    requests: int = 0
    prompt_tokens: int = 0
    cached_tokens: int = 0
    completion_tokens: int = 0
    cost: float = 0.0

    @property
    def cached_share(self) -> float:
        """How much of what was sent the endpoint says it had cached: 0 to 1."""
        return self.cached_tokens / self.prompt_tokens if self.prompt_tokens else 0.0

    def __add__(self, other: Use) -> Use:
        mine, its = self.model_dump(), other.model_dump()
        return Use(**{name: mine[name] + its[name] for name in mine})


class Mark(Record):
    """The marker of a finished shard or stage. Equal runs write equal marks."""

    accepted: int
    rejected: int
    use: Use = Field(default_factory=Use)


class StageMark(Mark):
    """A finished stage: `shards` holds how many records each shard accepted, in order."""

    shards: tuple[int, ...] = Field(description="Empty if the stage settled or sifted.")
    accepted_sha256: str
    rejected_sha256: str


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

    @classmethod
    def of(cls, stage: Stage, given: bool = False) -> PlannedStage:
        return cls(
            name=stage.name,
            agent=stage.agent,
            writes=stage.writes.__name__,
            sifts=stage.sift is not None,
            beside=stage.beside,
            given=given,
        )


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
        self, index: int, accepted: Iterable[bytes], rejected: Iterable[bytes], use: Use
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
        self, shards: int, model: type[R], settle: Callable[[Sequence[Any]], Outcome] | None
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
            use=sum((m.use for m in marks), Use()),
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
            accepted, rejected = Lines(kept), Lines(fallen)
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
        shutil.rmtree(self.path / "shards", ignore_errors=True)

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
        return load_recipe(self.path / "recipe.yaml")

    @property
    def plan(self) -> tuple[PlannedStage, ...]:
        """The run's stages in order."""
        return tuple(read_records(self.path / "plan.json", PlannedStage))

    def open(self, recipe: Recipe, plan: Iterable[PlannedStage]) -> None:
        """Write what is known before the first stage; also makes this the latest run."""
        text = yaml.safe_dump(public_recipe(recipe), sort_keys=False, allow_unicode=True)
        write_lines(self.path / "recipe.yaml", [text.encode()])
        write_lines(self.path / "plan.json", map(record_line, plan))

    def accepted(self) -> Iterator[JsonObject]:
        """The rows of the dataset that this run makes: samples, then rows of templates."""
        return chain(() if self.adds else self.samples(), self.expanded())

    @property
    def adds(self) -> bool:
        """Whether the run adds to a version, whose samples it begins with."""
        return any(stage.given for stage in self.plan)

    def samples(self) -> Iterator[JsonObject]:
        """What the last stage accepted so far; of those that sift, the last that is finished.

        What stands beside the samples is not there. Of a run that adds to a version they are that
        version's.
        """
        for stage in reversed([each for each in self.plan if not each.beside]):
            if not stage.sifts or self.stage(stage.name).mark:
                return self.stage(stage.name).objects("accepted")
        return iter(())

    def expanded(self) -> Iterator[JsonObject]:
        """The rows of templates, made into samples one after the other."""
        seed = self.recipe.seed
        return chain.from_iterable(unfolded(each, seed) for each in self.expansions())

    def expansions(self) -> Iterator[Expansion]:
        """Templates and their rows, as far as they are chosen."""
        return chain.from_iterable(self._beside(Expansion))

    def instructions(self) -> Iterator[Instruction]:
        """Requests at five granularities, as far as they are rewritten."""
        return chain.from_iterable(self._beside(Instruction))

    def _beside(self, model: type[R]) -> Iterator[Iterator[R]]:
        for stage in self.plan:
            if stage.beside and stage.writes == model.__name__:
                yield self.stage(stage.name).so_far(model)

    def known(self, stop: Event) -> Rows:
        """Published rows that stay: those of this run must not repeat them."""
        path = self.path / "known.jsonl"
        return Rows(path, sum(1 for _ in read_lines(path)) if path.exists() else 0, stop)

    def rejected(self) -> Iterator[JsonObject]:
        """What all stages rejected so far."""
        for stage in self.plan:
            yield from self.stage(stage.name).objects("rejected")

    def locked(self) -> AbstractContextManager[None]:
        """Hold the run for this process. Raises StoreError if another one does."""
        return locked(self.path, BUSY)


def unfolded(expansion: Expansion, seed: int) -> Iterator[JsonObject]:
    """The samples that the rows of a template are, as JSON."""
    from toolloom.pipeline.expansion.mould import Mould  # late: few runs have templates

    mould = Mould(expansion.template)
    for place, row in enumerate(expansion.rows):
        yield json.loads(mould.sample_text(row, expansion.sample_id(place), seed))


def batches(records: Iterable[T], size: int) -> Iterator[list[T]]:
    """Lists of `size` records, the last one shorter."""
    source = iter(records)
    while batch := list(islice(source, size)):
        yield batch


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
