"""What a stage is: a plain async function over one record, and how its input is drawn."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

from toolloom.llm import Gateway, Model
from toolloom.pipeline.store.files import Rows
from toolloom.pipeline.store.run import PlannedStage
from toolloom.schemas import AgentName, Outcome, Recipe, Record, Rejected

if TYPE_CHECKING:  # a run opens them; reading a stage must not load numpy
    from toolloom.pipeline.apis.execution.session import Workshop
    from toolloom.pipeline.apis.search import Finder

__all__ = [
    "Context",
    "Outcome",
    "Sifted",
    "Sifting",
    "Stage",
    "main_before",
    "nothing_of",
    "planned",
    "planned_stage",
    "ready",
]


@dataclass(frozen=True)
class Context:
    """What a stage may use: the recipe, the way to the models, search and real execution."""

    recipe: Recipe
    gateway: Gateway
    finder: Finder
    workshop: Workshop

    @classmethod
    def of(cls, recipe: Recipe, gateway: Gateway) -> Context:
        from toolloom.pipeline.apis.execution.session import Workshop
        from toolloom.pipeline.apis.search import Finder

        plan = recipe.search
        embedder = gateway.embedder(plan.embeddings) if plan.embeddings else None
        workshop = Workshop(recipe.apis.sources, gateway.cache, recipe.seed)
        return cls(recipe, gateway, Finder(plan, embedder), workshop)

    def model(self, agent: AgentName) -> Model:
        return self.gateway.model(self.recipe.endpoint(agent))


def nothing_of(stage: str) -> Rows:
    """What a stage that is not there accepted."""
    return Rows(Path(stage), 0)


@dataclass(frozen=True)
class Sifting:
    """What a stage that sifts or gathers is given."""

    recipe: Recipe
    stage: str
    rows: Rows  # all that the last stage before it that is not `beside` accepted
    known: Rows  # rows that are published already and stay: id, text, intent and so on
    scratch: Path  # a folder for files that need not survive
    earlier: Callable[[str], Rows] = nothing_of  # what any earlier stage accepted, by its name


Sifted: TypeAlias = bytes | Rejected
"""What became of one row: its line, as it came or with flags, or the rejected record."""


@dataclass(frozen=True)
class Stage:
    """One step of a run.

    `work` takes one record to its outcome. `draw` makes the stage's input from all that the
    stage before accepted; without it the records stream through, shard by shard. `settle` holds
    what only the whole stage can tell (near-duplicates, unique names): it is given every
    accepted record, in order, and parts them again. A stage that settles, or whose successor
    draws, is complete before the next begins. `expects` tells from how many records the stage
    before accepted how many will enter, for those who watch; without it, all of them will.

    A stage that asks no model but compares rows with each other has no agent and no `work`: it
    has a `sift`, which reads all rows as often as it wants, in bounded memory, and gives back
    what became of each in order. It begins when the stage before is complete.

    A stage that is `beside` makes records that stand beside the rows and do not replace them: a
    stage after it reads what the last one that is not `beside` accepted. `gather` is a `draw` that
    may read as often as it wants, and what any earlier stage accepted.

    `here` tells whether its records must be worked on where the run began, not on other machines,
    as they name files. `when` tells whether a recipe wants the stage. `ready` raises RecipeError if
    something that the stage will need is not there, and is called before the first stage begins.
    """

    name: str
    agent: AgentName | Literal[""]
    reads: type[Record]
    writes: type[Record]
    work: Callable[[Any, Context], Awaitable[Outcome]] | None = None
    draw: Callable[[Recipe, Iterable[Any]], Iterator[Record]] | None = None
    settle: Callable[[Sequence[Any]], Outcome] | None = None
    expects: Callable[[Recipe, int], int] | None = None
    sift: Callable[[Sifting], Iterator[Sifted]] | None = None
    when: Callable[[Recipe], bool] | None = None
    ready: Callable[[Recipe], None] | None = None
    beside: bool = False
    gather: Callable[[Sifting], Iterator[Record]] | None = None
    here: Callable[[Recipe], bool] | None = None

    @property
    def draws(self) -> bool:
        """Whether it makes its input itself, of all that came before."""
        return self.draw is not None or self.gather is not None


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


def ready(stages: Iterable[Stage], recipe: Recipe) -> None:
    """Raises RecipeError if something is missing that a stage will need."""
    for stage in stages:
        if stage.ready:
            stage.ready(recipe)
