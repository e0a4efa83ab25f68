"""The stages' work in worlds: reading them, ordering them, their operations as APIs."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from toolloom.agents.ask import Costs
from toolloom.agents.wording import drawn, duplicate
from toolloom.pipeline.stage import Context, StageInput, job_of
from toolloom.pipeline.worlds.authoring import write_world
from toolloom.pipeline.worlds.needs import written_by_model
from toolloom.pipeline.worlds.shelf import apis_of, named_worlds, names, world_of
from toolloom.schemas import (
    Domain,
    Outcome,
    Recipe,
    RecipeError,
    Rejected,
    World,
    WorldError,
    WorldPlan,
)
from toolloom.schemas.splits import SEEN, zone


def wants_worlds(recipe: Recipe) -> bool:
    return recipe.played is not None


def check_worlds(recipe: Recipe) -> None:
    """Raises RecipeError or WorldError for worlds that are not there or no worlds. A run that
    begins with a version has that version's."""
    given = recipe.regenerate or recipe.extend
    if not recipe.worlds or not recipe.worlds.use or given:
        return
    worlds = named_worlds(recipe.worlds, scripted=not written_by_model(recipe))
    beside = recipe.apis.domains or recipe.apis.sources
    held_out = [zone(recipe.splits, world.category, world.tool) not in SEEN for world in worlds]
    if all(held_out) and not beside:
        raise RecipeError(
            f"splits: {', '.join(world.name for world in worlds)} would be held out, and nothing "
            "be left to train on. Name a category in `splits.seen`, or set the weights of "
            "`test_tool` and `test_category` to 0."
        )


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


def expect_rows(recipe: Recipe) -> int:
    """How many dialogues a recipe draws in worlds at most."""
    plan, anew = recipe.played, recipe.regenerate
    if plan is None:
        return 0
    if anew and plan.rows is not None:
        return plan.rows  # the worlds are the version's, and the recipe's may be gone
    if written_by_model(recipe):
        return plan.rows or recipe.queries.count
    try:
        scripts = sum(len(world_of(name).scripts) for name in names(plan))
    except (RecipeError, WorldError):
        if not anew:
            raise
        return 0
    most = scripts * plan.per_script
    return most if plan.rows is None else min(most, plan.rows)
