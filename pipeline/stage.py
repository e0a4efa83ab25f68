"""What a stage is: a plain async function over one record, and how its input is drawn."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from toolloom.agents.outcome import Outcome
from toolloom.llm import Gateway, Model
from toolloom.schemas import AgentName, Recipe, Record

if TYPE_CHECKING:  # a run opens them; reading a stage must not load numpy
    from toolloom.pipeline.execution.session import Workshop
    from toolloom.pipeline.retrieval import Finder

__all__ = ["Context", "Outcome", "Stage"]


@dataclass(frozen=True)
class Context:
    """What a stage may use: the recipe, the way to the models, search and real execution."""

    recipe: Recipe
    gateway: Gateway
    finder: Finder
    workshop: Workshop

    @classmethod
    def of(cls, recipe: Recipe, gateway: Gateway) -> Context:
        from toolloom.pipeline.execution.session import Workshop
        from toolloom.pipeline.retrieval import Finder

        plan = recipe.search
        embedder = gateway.embedder(plan.embeddings) if plan.embeddings else None
        workshop = Workshop(recipe.apis.sources, gateway.cache, recipe.seed)
        return cls(recipe, gateway, Finder(plan, embedder), workshop)

    def model(self, agent: AgentName) -> Model:
        return self.gateway.model(self.recipe.endpoint(agent))


@dataclass(frozen=True)
class Stage:
    """One step of a run.

    `work` takes one record to its outcome. `draw` makes the stage's input from all that the
    stage before accepted; without it the records stream through, shard by shard. `settle` holds
    what only the whole stage can tell (near-duplicates, unique names): it is given every
    accepted record, in order, and parts them again. A stage that settles, or whose successor
    draws, is complete before the next begins. `expects` tells from how many records the stage
    before accepted how many will enter, for those who watch; without it, all of them will.
    """

    name: str
    agent: AgentName
    reads: type[Record]
    writes: type[Record]
    work: Callable[[Any, Context], Awaitable[Outcome]]
    draw: Callable[[Recipe, Iterable[Any]], Iterator[Record]] | None = None
    settle: Callable[[Sequence[Any]], Outcome] | None = None
    expects: Callable[[Recipe, int], int] | None = None
