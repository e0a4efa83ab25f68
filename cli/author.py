"""The command that has a world written for a domain."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from toolloom.cli.console import HERE, NOTHING_ACCEPTED, Outputs, complain, say
from toolloom.cli.world import SeedOf

To = Annotated[
    Path | None,
    typer.Option(metavar="FILE", help="Where to write it, instead of outputs/worlds/NAME.yaml."),
]


def write(
    domain: Annotated[
        str,
        typer.Argument(metavar="DOMAIN", help="What it is about, in a few words or a sentence."),
    ],
    recipe: Annotated[
        Path | None,
        typer.Option(metavar="RECIPE", help="Whose API agent writes; a capable model."),
    ] = None,
    to: To = None,
    seed: SeedOf = 0,
    outputs: Outputs = HERE,
) -> None:
    """Have the API agent write a world for a domain: tables, operations, promises, policies.

    First it writes the tables with their rows, then one operation a question, then, from the
    documentation alone, what each promises. Mistakes go back to it with their line, and so does
    what random calls find; an operation that still fails is dropped, and kept with its answers
    beside the world's file. Play in it, edit it, name it in a recipe: `worlds: [FILE]`. Exit
    code 1 if no world came of it.

    Example: `toolloom world write "a fitness studio with a waiting list" --recipe mine.yaml`
    """
    import asyncio

    from toolloom.agents.ask import Job
    from toolloom.pipeline.worlds.authoring import write_world
    from toolloom.schemas import Domain

    about = " ".join(domain.split())

    async def work(job: Job) -> Any:
        return await write_world(Domain(category="", name=about), job, complain)

    made = asyncio.run(_asked(about, _author(recipe), seed, outputs, work))
    name = made.world.name if made.world else "none"
    path = to or outputs / "worlds" / f"{name}.yaml"
    _report(made, path)


def _author(recipe: Path | None) -> Any:
    """The recipe whose API agent writes worlds. Raises RecipeError if its model is no author."""
    from toolloom.schemas import RecipeError, load_recipe, parse_recipe

    plan = load_recipe(recipe) if recipe else parse_recipe({"name": "world"}, "no recipe")
    endpoint = plan.endpoint("api")
    if endpoint.small or endpoint.absent:
        raise RecipeError(
            "A world is written by a capable model, and "
            f"{'the recipe names none' if recipe else 'the embedded one is small'}. Give a recipe "
            "with one: `--recipe mine.yaml`, with `model: {base_url: …, model: …}` in it."
        )
    return plan


async def _asked(record: str, recipe: Any, seed: int, outputs: Path, work: Any) -> Any:
    """What comes of a job of a recipe's API agent."""
    from toolloom.agents.ask import Job
    from toolloom.llm import Gateway
    from toolloom.llm.cache import address

    async with Gateway(address(outputs), prices=recipe.prices, budget=recipe.budget) as gateway:
        model = gateway.model(recipe.endpoint("api"))
        return await work(Job("worlds", "api", record, seed, model))


def _report(made: Any, path: Path) -> None:
    """Write what came of a domain, and tell it."""
    from toolloom.pipeline.render.section import Section
    from toolloom.pipeline.store.files import record_line, replacing
    from toolloom.pipeline.worlds.mutation import score
    from toolloom.schemas import WorldError

    if made.world and path.exists() and path.read_text("utf-8") != made.world.text:
        raise WorldError(f"{path}: is there already, and is another. Name a new file with --to.")
    left = path.with_suffix(".rejected.jsonl")
    if made.outcome.rejected:
        with replacing(left) as file:
            file.write(b"".join(map(record_line, made.outcome.rejected)))
    usage = made.costs.usage
    held = len(made.world.spec["operations"]) if made.world else 0
    rows: list[list[Any]] = [
        ["operations", held],
        ["operations asked for", made.asked],
        ["read at once", made.at_once],
        ["mended after random calls", len(made.mended)],
        ["dropped", len(made.dropped)],
        ["requests", usage.requests],
        ["prompt tokens", usage.prompt_tokens],
        ["completion tokens", usage.completion_tokens],
    ]
    if made.world:
        complain(f"{made.world.name}: planted faults")
        rows.append(["share of planted faults found", f"{score(made.world.spec).share:.2f}"])
    say([Section(made.world.name if made.world else "No world", ("", ""), rows)])
    for name, why in made.dropped.items():
        say(f"{name} is dropped: {why}")
    if made.outcome.rejected:
        say(f"What was dropped stands with all answers in {left}.")
    if not made.world:
        last = made.outcome.rejected[-1]
        complain(f"No world: {last.reason}: {last.detail}")
        raise typer.Exit(NOTHING_ACCEPTED)
    with replacing(path) as file:
        file.write(made.world.text.encode())
    say(f"{path} is written. `toolloom world play {path}` lets you try it.")
