"""Worlds in a run: the stages that take them, and that offer their operations as APIs."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from toolloom.agents.ask import Costs
from toolloom.agents.wording import drawn, duplicate
from toolloom.pipeline.stage import Context, StageInput, job_of
from toolloom.pipeline.worlds.authoring import write_world
from toolloom.pipeline.worlds.library import apis_of, named_worlds, names, world_of
from toolloom.schemas import Domain, Outcome, Recipe, Rejected, World, WorldPlan


def feed_worlds(given: StageInput) -> Iterator[WorldPlan | Domain]:
    """What worlds come of: the recipe's list of them, then the domains."""
    plan = given.recipe.worlds
    if plan and plan.use:
        yield plan
    if given.recipe.writes_worlds:
        yield from given.records()


def expect_worlds(recipe: Recipe, domains: int) -> int:
    named = bool(recipe.worlds and recipe.worlds.use)
    return named + (domains if recipe.writes_worlds else 0)


async def take_worlds(subject: WorldPlan | Domain, context: Context) -> Outcome:
    """The recipe's worlds, or one that the API agent writes for a domain."""
    if isinstance(subject, Domain):
        made = await write_world(subject, job_of(context, "worlds", "api", subject.id))
        return made.outcome
    provenance = job_of(context, "worlds", "domain", subject.name).provenance(Costs())
    worlds = named_worlds(subject)
    return Outcome(tuple(each.model_copy(update={"provenance": provenance}) for each in worlds))


def settle_worlds(found: Sequence[World]) -> Outcome:
    """Reject worlds whose name another has already."""
    kept: dict[str, World] = {}
    rejected: list[Rejected] = []
    for each in found:
        if each.name in kept:
            rejected.append(duplicate(each, each.name, "worlds"))
        else:
            kept[each.name] = each
    return Outcome(tuple(kept.values()), tuple(rejected))


def worlds_of(given: StageInput) -> list[World]:
    """The worlds of a run."""
    return [World.model_validate(world) for _, world in given.earlier("worlds").objects()]


def offer_world(world: World, context: Context) -> Outcome:
    """A world's operations as APIs, of one collection with those of another world, which stand
    beside them."""
    named = names(context.recipe.worlds) if context.recipe.worlds else ()
    others = [other for name in named if (other := world_of(name)).name != world.name]
    job = job_of(context, "apis", "api", world.id)
    beside = (drawn(others, job.seed).name,) if others else ()
    made = {
        "collections": (world.name, *beside),
        "provenance": job.provenance(Costs(), [world.name]),
    }
    return Outcome(tuple(api.model_copy(update=made) for api in apis_of(world)))
