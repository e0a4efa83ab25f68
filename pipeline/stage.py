"""What a stage is: a plain async function over one record, and where its records come from."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

from toolloom.llm import Gateway, Model
from toolloom.pipeline.store.files import Rows, read_records
from toolloom.pipeline.store.run import PlannedStage
from toolloom.schemas import AgentName, Outcome, Recipe, Record, Rejected

if TYPE_CHECKING:  # a run opens them; reading a stage must not load numpy
    from toolloom.pipeline.apis.execution.session import Executions
    from toolloom.pipeline.apis.search import Finder


@dataclass(frozen=True)
class Context:
    """What a stage may use: the recipe, the way to the models, search and real execution."""

    recipe: Recipe
    gateway: Gateway
    finder: Finder
    workshop: Executions

    @classmethod
    def of(cls, recipe: Recipe, gateway: Gateway) -> Context:
        from toolloom.pipeline.apis.execution.session import Executions
        from toolloom.pipeline.apis.search import Finder

        plan = recipe.search
        embedder = gateway.embedder(plan.embeddings) if plan.embeddings else None
        workshop = Executions(recipe.apis.sources, gateway.cache, recipe.seed)
        return cls(recipe, gateway, Finder(plan, embedder), workshop)

    def model(self, agent: AgentName) -> Model:
        return self.gateway.model(self.recipe.endpoint(agent))


def nothing_of(stage: str) -> Rows:
    """What a stage that is not there accepted."""
    return Rows(Path(stage), 0)


@dataclass(frozen=True)
class StageInput:
    """What a stage that feeds itself, or sifts, is given."""

    recipe: Recipe
    stage: str
    rows: Rows  # all that the last stage before it that is not `beside` accepted
    known: Rows  # rows that are published already and stay: id, text, intent and so on
    scratch: Path  # a folder for files that need not survive
    earlier: Callable[[str], Rows] = nothing_of  # what any earlier stage accepted, by its name
    kind: type[Record] = Record  # what `rows` are

    @classmethod
    def none(cls, recipe: Recipe, stage: str) -> StageInput:
        """That of a stage before which nothing was accepted."""
        return cls(recipe, stage, nothing_of(stage), nothing_of(stage), Path(stage))

    def records(self) -> Iterator[Any]:
        """The rows as records."""
        return read_records(self.rows.path, self.kind) if self.rows.count else iter(())


Sifted: TypeAlias = bytes | Rejected
"""What became of one row: its line, as it came or with flags, or the rejected record."""


@dataclass(frozen=True)
class Stage:
    """One step of a run.

    `work` takes one record to its outcome. `feed` makes the stage's records of all that was
    accepted before it, which it may read as often as it wants; without it the rows stream through,
    shard by shard. `settle` holds what only the whole stage can tell (near-duplicates, unique
    names): it is given every accepted record, in order, and parts them again. A stage that settles,
    or whose successor feeds itself, is complete before the next begins. `expects` tells from how
    many records the stage before accepted how many will enter, for those who watch; without it,
    all of them will.

    A stage that asks no model but compares rows with each other has no agent and no `work`: it
    has a `sift`, which reads all rows as often as it wants, in bounded memory, and gives back
    what became of each in order. It begins when the stage before is complete.

    A stage that is `beside` makes records that stand beside the rows and do not replace them: a
    stage after it reads what the last one that is not `beside` accepted.

    `here` tells whether its records must be worked on where the run began, not on other machines,
    as they name files. `when` tells whether a recipe wants the stage. `check` raises RecipeError if
    something that the stage will need is not there, and is called before the first stage begins.
    """

    name: str
    agent: AgentName | Literal[""]
    reads: type[Record]
    writes: type[Record]
    work: Callable[[Any, Context], Awaitable[Outcome]] | None = None
    feed: Callable[[StageInput], Iterator[Record]] | None = None
    settle: Callable[[Sequence[Any]], Outcome] | None = None
    expects: Callable[[Recipe, int], int] | None = None
    sift: Callable[[StageInput], Iterator[Sifted]] | None = None
    beside: bool = False
    when: Callable[[Recipe], bool] | None = None
    check: Callable[[Recipe], None] | None = None
    here: Callable[[Recipe], bool] | None = None


def planned(stages: Iterable[Stage], recipe: Recipe) -> tuple[Stage, ...]:
    """The stages that a recipe wants."""
    return tuple(stage for stage in stages if stage.when is None or stage.when(recipe))


def planned_stage(stage: Stage, given: bool = False) -> PlannedStage:
    """A stage's line in plan.json. `given`: its records are those of the version added to."""
    return PlannedStage(
        name=stage.name,
        agent=stage.agent,
        writes=stage.writes.__name__,
        sifts=stage.sift is not None,
        beside=stage.beside,
        given=given,
    )


def main_before(stages: Sequence[Stage], stage: Stage) -> Stage | None:
    """The stage whose accepted records are a stage's rows: the last that is not `beside`."""
    earlier = stages[: [each.name for each in stages].index(stage.name)]
    return next((each for each in reversed(earlier) if not each.beside), None)


def check(stages: Iterable[Stage], recipe: Recipe) -> None:
    """Raises RecipeError if something is missing that a stage will need."""
    for stage in stages:
        if stage.check:
            stage.check(recipe)
