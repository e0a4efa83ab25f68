"""The one door to disk for runs.

<outputs>/cache.sqlite                      every model response, shared by all runs
<outputs>/runs/<run id>/recipe.yaml         the recipe, every field filled in, no passwords
<outputs>/runs/<run id>/plan.json           the stages in order
<outputs>/runs/<run id>/known.jsonl         published rows that stay, if a version is built on
<outputs>/runs/<run id>/<stage>/…           the records of a stage (stage_files.py)
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, asynccontextmanager
from itertools import chain
from pathlib import Path
from threading import Event
from typing import TYPE_CHECKING, TypeVar

import yaml
from pydantic import Field

from toolloom.pipeline.store import mirror
from toolloom.pipeline.store.files import (
    Rows,
    locked,
    read_lines,
    read_records,
    record_line,
    write_lines,
)
from toolloom.pipeline.store.stage_files import StageFolder
from toolloom.schemas import (
    Expansion,
    Instruction,
    JsonObject,
    NothingFound,
    Recipe,
    Record,
    load_recipe,
)
from toolloom.schemas.recipe import public_recipe

if TYPE_CHECKING:  # reading a run must not load what talks to models
    from toolloom.pipeline.stage import Stage

R = TypeVar("R", bound=Record)

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

    @asynccontextmanager
    async def held(self) -> AsyncIterator[None]:
        """`locked` for async code: the loop stays alive while a store is waited for."""
        lock = self.locked()
        await asyncio.to_thread(lock.__enter__)
        try:
            yield
        except BaseException as error:
            await asyncio.to_thread(lock.__exit__, type(error), error, error.__traceback__)
            raise
        await asyncio.to_thread(lock.__exit__, None, None, None)


def find_run(outputs: Path, name: str) -> RunFolder:
    """A run by id, the start of its id, path, or `latest`. Raises NothingFound."""
    if (Path(name) / "plan.json").is_file():
        mirror.fetch(Path(name))
        return RunFolder(Path(name))
    runs = sorted((outputs / "runs").glob("*/recipe.yaml"), key=lambda p: p.stat().st_mtime)
    ids = [path.parent.name for path in runs]
    found = [i for i in ids if i == name] or [i for i in ids if name and i.startswith(name)]
    if name == "latest":
        found = ids[-1:]
    if len(found) == 1:
        mirror.fetch(outputs / "runs" / found[0])
        return RunFolder(outputs / "runs" / found[0])
    if found:
        raise NothingFound(f"{name!r} begins the ids of several runs: {', '.join(found)}.")
    known = f"There are: {', '.join(ids[-10:])}." if ids else "There is none yet."
    raise NothingFound(f"There is no run {name!r} in {mirror.shown(outputs / 'runs')}. {known}")
