"""The commands for worlds: check one, look at it, play in it."""

from __future__ import annotations

import asyncio
import json
import shlex
import sys
from collections.abc import Callable, Coroutine
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Annotated, Any

import typer

from toolloom.cli.console import FOUND, HERE, NOTHING_ACCEPTED, Outputs, complain, say

app = typer.Typer(
    no_args_is_help=True,
    rich_markup_mode="markdown",
    help=(
        "Check a world, look at it, play in it.\n\n"
        "A world is a YAML file: entities with their rows, operations on them, promises of what "
        "the operations do, and policies."
    ),
)

WorldFile = Annotated[Path, typer.Argument(metavar="FILE", help="The world's YAML file.")]
Agent = Annotated[
    Path | None,
    typer.Option(metavar="RECIPE", help="Recipe whose API agent writes; needs a capable model."),
]
SeedOf = Annotated[int, typer.Option("--seed", metavar="N", help="Seed for random choices.")]
StateOf = Annotated[
    Path | None,
    typer.Option("--state", metavar="FILE", help="Begin in the state of a JSON file, of your own."),
]


@app.command()
def check(
    file: WorldFile,
    seed: SeedOf = 0,
    mutants: Annotated[
        bool, typer.Option("--mutants/--no-mutants", help="Plant faults, and count those found.")
    ] = True,
) -> None:
    """Read a world, walk through it, and hold each operation to its promises.

    Every mistake in the file, and in the scripts beside it, is reported with its line. Then random
    calls try every operation in states drawn by seed. An operation that never succeeds, fails
    without a declared error, changes what it does not promise or shows what is not there is a
    finding; so are an error that never occurs, a key that nothing shows, and a world of which no
    task can be drawn. Last, faults are planted in the operations: the share that these checks find
    is the world's mutation score. What no script covers is listed. Exit code 1 if there are
    findings.

    Example: `toolloom world check recipes/worlds/shop.yaml`
    """
    from toolloom.pipeline.checks.world.interpreter import Machine
    from toolloom.pipeline.worlds.library import found, load_scripts, load_world, taskless
    from toolloom.pipeline.worlds.soundness import examine, score
    from toolloom.schemas import Reason

    machine = Machine(load_world(file))
    scripts = load_scripts(file, machine)[1] if file.with_suffix(".scripts.yaml").exists() else []
    result = examine(machine, seed)
    if why := taskless(machine, seed):
        result.add(Reason.WORLD_UNREACHABLE, "", [why])
    sound = not result.findings
    say(found(machine, scripts, result, score(machine.world, seed) if mutants and sound else None))
    if not sound:
        complain(f"{len(result.findings)} findings: the world is not sound yet.")
        raise typer.Exit(FOUND)


@app.command("list")
def list_worlds() -> None:
    """List the worlds that ship, with what is in them.

    A recipe names them, `worlds: [shop, clinic]`, or takes `worlds: [all]`.

    Example: `toolloom world list`
    """
    from toolloom.pipeline.worlds.library import held, shipped, world_of

    say([held(map(world_of, shipped()), about=True)])


@app.command()
def show(
    file: WorldFile,
    seed: SeedOf = 0,
    task: Annotated[
        int | None,
        typer.Option("--task", metavar="N", help="One task with its solution, by number.", min=1),
    ] = None,
    state_file: StateOf = None,
) -> None:
    """Print a world with one state of it: entities, operations, policies.

    With `--task` the state is that of a task, which is printed below it: what each user turn says,
    the calls that solve it, what the answer must say, and what changes.

    Example: `toolloom world show recipes/worlds/shop.yaml --seed 7 --task 3`
    """
    from toolloom.pipeline.worlds.library import described
    from toolloom.pipeline.worlds.sampler import play_of
    from toolloom.pipeline.worlds.scripts import as_text
    from toolloom.pipeline.worlds.states import StartStates
    from toolloom.pipeline.worlds.tasks import tasks

    machine, state, now = _drawn(file, seed, state_file)
    if task is None:
        say(described(machine, state, now))
        return
    *_, one = tasks(machine, seed, task, starts=StartStates(machine, state_file))
    if one is None:
        complain(f"Task {task} of seed {seed} has no solution. Take another number.")
        raise typer.Exit(FOUND)
    say(described(machine, one.start, one.now))
    say(f"{one.scenario}\n{as_text(play_of(one))}")
    for change in one.changes:
        say(f"  = {' '.join(map(str, change))}")


@app.command()
def play(file: WorldFile, seed: SeedOf = 0, state_file: StateOf = None) -> None:
    """Call operations in a state, line by line, and see their results and what they change.

    A line is an operation and its arguments, as `renew loan_id=LOA-1004` or with JSON:
    `place_order {"items": [{"product_id": "PRD-505", "quantity": 2}], "address_id": "ADR-302"}`.
    `show` prints the state, `back` takes the last change back, an empty line or `quit` ends.

    Example: `toolloom world play recipes/worlds/shop.yaml`
    """
    from toolloom.pipeline.worlds.library import described
    from toolloom.pipeline.worlds.soundness import changes

    machine, state, now = _drawn(file, seed, state_file)
    say(described(machine, state, now))
    states = [state]
    prompt = "> " if sys.stdin.isatty() else ""
    with suppress(EOFError):
        while (line := input(prompt).strip()) not in ("", "quit"):
            name, _, rest = line.partition(" ")
            if name == "show":
                say(described(machine, states[-1], now))
            elif name == "back":
                del states[max(1, len(states) - 1) :]
            else:
                after, response, error = machine.apply(states[-1], name, _arguments(rest), now)
                say(f"{'✗ ' + error if error else '✓'} {json.dumps(response, ensure_ascii=False)}")
                for effect in changes(machine, states[-1], after):
                    say("  " + " ".join(word for word in effect[-1] if word))
                if after is not states[-1]:
                    states.append(after)


@app.command()
def proof(
    file: WorldFile,
    seed: SeedOf = 0,
    states: Annotated[
        int, typer.Option("--states", "-n", metavar="N", help="Rows of each script.", min=1)
    ] = 3,
) -> None:
    """Print each script of a world in several states, side by side, for proofreading.

    The scripts of `shop.yaml` stand in `shop.scripts.yaml`. A script that no state fits has run
    dry: loosen its conditions. Exit code 1 if one has, or if one breaks a policy of the world.

    Example: `toolloom world proof recipes/worlds/shop.yaml -n 2`
    """
    from toolloom.pipeline.checks.world.interpreter import Machine
    from toolloom.pipeline.checks.world.outcome import broken_policies
    from toolloom.pipeline.worlds.library import load_scripts, load_world
    from toolloom.pipeline.worlds.scripts import acts, as_text, proofs

    machine = Machine(load_world(file))
    _, scripts = load_scripts(file, machine)
    dry, broken = [], []
    for script, rows in zip(scripts, proofs(scripts, machine, seed, states), strict=True):
        by = f", written by {script.written}" if script.written else ""
        say(f"# {script.name} ({script.voice or 'any voice'}{by})")
        for row in rows:
            say(as_text(row) + "\n")
            policies = broken_policies(machine, row.start, row.now, acts(row))
            broken += [f"{script.name}: {fault.says}" for fault in policies]
        if len(rows) < states:
            dry.append(script.name)
    if dry:
        complain(f"Run dry: {', '.join(dry)}. No state that was drawn meets their conditions.")
    for what in dict.fromkeys(broken):
        complain(f"Breaks a policy. {what}")
    if dry or broken:
        raise typer.Exit(FOUND)


@app.command()
def serve(file: WorldFile, seed: SeedOf = 0, state_file: StateOf = None) -> None:
    """Serve a world to any MCP client over standard input and output.

    Each start is a new session, in the state drawn by the seed. The server's instructions say what
    time it is, who the user is, and what the policies are.

    Example: `toolloom world serve recipes/worlds/shop.yaml --seed 7`
    """
    from toolloom.pipeline.environments import mcp
    from toolloom.pipeline.worlds.library import briefing

    machine, state, now = _drawn(file, seed, state_file)
    instructions = "\n".join([f"Now: {now}.", *briefing(machine, state)])
    asyncio.run(mcp.serve(machine, state, now, instructions))


@app.command()
def write(
    domain: Annotated[
        str,
        typer.Argument(
            metavar="DOMAIN", help="What the world is about, in a few words or a sentence."
        ),
    ] = "",
    document: Annotated[
        Path | None,
        typer.Option(
            "--from",
            metavar="FILE",
            help="API document whose operations the world has: OpenAPI, Swagger, a tool list.",
        ),
    ] = None,
    recipe: Agent = None,
    to: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE", help="Where to write it, instead of outputs/worlds/NAME.yaml."
        ),
    ] = None,
    seed: SeedOf = 0,
    outputs: Outputs = HERE,
) -> None:
    """Have the API agent write a world: tables, operations, promises, policies.

    It writes the tables with their rows, then the operations one by one, then, from their
    documentation alone, what each of them promises. Mistakes go back to it with their line, and so
    does what random calls find. An operation that still fails is dropped, and kept with its answers
    beside the world's file. Play in the world, edit it, and name it in a recipe: `worlds: [FILE]`.
    Exit code 1 if no world came of it.

    With `--from` the operations are those of a document, by its names, parameters, responses and
    descriptions, at most ten that make one world; the others are named in the end, with the reason.

    Example: `toolloom world write "a fitness studio with a waiting list" --recipe mine.yaml`
    """
    from toolloom.pipeline.apis.sources import read_source
    from toolloom.pipeline.checks.world.interpreter import Machine
    from toolloom.pipeline.formats.import_log import ImportLog
    from toolloom.pipeline.render.section import Section
    from toolloom.pipeline.store.files import record_line, write_lines
    from toolloom.pipeline.worlds.authoring import write_world
    from toolloom.pipeline.worlds.library import taskless
    from toolloom.pipeline.worlds.soundness import score
    from toolloom.schemas import Api, ApiSource, Domain, ImportFailed, WorldError

    about, apis, category, skipped = " ".join(domain.split()), list[Api](), "", {}
    if document:
        log = ImportLog(str(document))
        apis = list(read_source(ApiSource(path=str(document)), log, outputs))
        skipped = {each.what: each.why for each in log.report(imported=len(apis)).skipped}
        if not apis:
            raise ImportFailed(f"{document}: has no operation that can be read.")
        about, category = about or apis[0].tool, apis[0].category
    elif not about:
        raise typer.BadParameter("Say what the world is about, or give a document with --from.")

    work = partial(write_world, Domain(category=category, name=about), note=complain, document=apis)
    made = _asked(recipe, outputs, seed, about, "a world", work)
    made.left |= skipped
    path = to or outputs / "worlds" / f"{made.world.name if made.world else 'none'}.yaml"
    if made.world and path.exists() and path.read_text("utf-8") != made.world.text:
        raise WorldError(
            f"{path}: already exists, with another content. Name a new file with --to."
        )
    left, rejected = path.with_suffix(".rejected.jsonl"), made.outcome.rejected
    if rejected:
        write_lines(left, map(record_line, rejected))
    usage = made.costs.usage
    rows: list[list[Any]] = [
        ["operations", len(made.world.spec["operations"]) if made.world else 0],
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
    for name, unused in made.unused.items():
        say(f"{name} is written without its optional {', '.join(unused)}.")
    for why in dict.fromkeys(made.left.values()):
        names = [name for name, other in made.left.items() if other == why]
        say(f"{len(names)} of the document left out, {why.rstrip('.')}: {', '.join(names)}.")
    if rejected:
        say(f"What was dropped, with all answers, is in {left}.")
    if not made.world:
        complain(f"No world: {rejected[-1].reason}: {rejected[-1].detail}")
        raise typer.Exit(NOTHING_ACCEPTED)
    write_lines(path, [made.world.text.encode()])
    if why := taskless(Machine(made.world.spec), seed):
        complain(why)
    say(f"{path} is written. `toolloom world play {path}` lets you try it.")


@app.command()
def script(
    file: WorldFile,
    recipe: Agent = None,
    seed: SeedOf = 0,
    number: Annotated[
        int, typer.Option("--task", metavar="N", help="The task, by number.", min=1)
    ] = 1,
    add: Annotated[
        bool, typer.Option("--write", help="Add it to the scripts beside the world's file.")
    ] = False,
    outputs: Outputs = HERE,
) -> None:
    """Have the API agent write one script: a task's dialogue, with the conditions that it needs.

    The task is one that `toolloom world show --task` prints. The script is read, played in the
    state of the task, where it has to make the task's calls, and in three others; each row is held
    against the checks of dialogues. Mistakes go back to the model once. What stands is printed,
    marked as the model's (`written`). Exit code 1 if no script came of it.

    Example: `toolloom world script shop.yaml --recipe mine.yaml --task 3 --write`
    """
    import yaml

    from toolloom.agents.ask import NoUsableAnswer
    from toolloom.pipeline.checks.world.interpreter import Machine
    from toolloom.pipeline.store.documents import read, read_text
    from toolloom.pipeline.store.files import write_lines
    from toolloom.pipeline.worlds.authoring import write_script
    from toolloom.pipeline.worlds.library import load_world, world_of
    from toolloom.pipeline.worlds.tasks import tasks
    from toolloom.schemas import WorldError

    *_, task = tasks(Machine(load_world(file)), seed, number)
    if task is None or not task.calls or task.missing:
        complain(f"Task {number} of seed {seed} has no calls for a script. Take another number.")
        raise typer.Exit(FOUND)
    world, raw = world_of(str(file)), read(file, WorldError, plain=False).value
    work = partial(write_script, world, raw, task)
    try:
        made = _asked(recipe, outputs, seed, f"{world.name} script", "a script", work).value
    except NoUsableAnswer as why:
        complain(f"No script: {why.reason}: {why.detail}")
        raise typer.Exit(NOTHING_ACCEPTED) from why
    text = yaml.safe_dump([made], sort_keys=False, allow_unicode=True, width=1_000)
    say(text)
    if add:
        path = file.with_suffix(".scripts.yaml")
        whole = f"{path.read_text('utf-8').rstrip()}\n\n{text}" if path.exists() else text
        read_text(whole, path, WorldError, plain=False)  # a list in brackets has no place for it
        write_lines(path, [whole.encode()])
        say(f"{path} has it. `toolloom world proof {file}` shows it in several states.")


def _asked(
    recipe: Path | None,
    outputs: Path,
    seed: int,
    record: str,
    what: str,
    work: Callable[[Any], Coroutine[Any, Any, Any]],
) -> Any:
    """What comes of a job of a recipe's API agent. Raises RecipeError if that is no capable one."""
    from toolloom.agents.ask import Job
    from toolloom.llm import Gateway
    from toolloom.llm.cache import address
    from toolloom.schemas import RecipeError, load_recipe, parse_recipe

    plan = load_recipe(recipe) if recipe else parse_recipe({"name": "world"}, "no recipe")
    endpoint = plan.endpoint("api")
    if endpoint.small or endpoint.absent:
        raise RecipeError(
            f"Only a capable model can write {what}, and "
            f"{'the recipe names none' if recipe else 'the embedded one is too small'}. Give a "
            "recipe that names one: `--recipe mine.yaml`, with `model: {base_url: …, model: …}`."
        )

    async def asked() -> Any:
        async with Gateway(address(outputs), prices=plan.prices, budget=plan.budget) as gateway:
            return await work(Job("worlds", "api", record, seed, gateway.model(endpoint)))

    return asyncio.run(asked())


def _drawn(file: Path, seed: int, state_file: Path | None = None) -> tuple[Any, Any, str]:
    """The world of a file, a state of it, and the moment."""
    from toolloom.pipeline.checks.world.interpreter import Machine
    from toolloom.pipeline.sampling.values import rng_for
    from toolloom.pipeline.worlds.library import load_world
    from toolloom.pipeline.worlds.states import StartStates

    machine = Machine(load_world(file))
    now, state = StartStates(machine, state_file).draw(rng_for(seed, "state"))
    return machine, state, now


def _arguments(text: str) -> Any:
    """JSON, or words like `name=value`; numbers and truths of JSON are read as such."""

    def read(value: str) -> Any:
        try:
            return json.loads(value)
        except (ValueError, RecursionError):
            return value

    if text.lstrip().startswith("{"):
        return read(text)
    try:
        words = [word.partition("=") for word in shlex.split(text)]
    except ValueError:  # a quotation that does not end
        return text
    return {name: read(value) for name, _, value in words}
