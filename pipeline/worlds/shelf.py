"""The worlds of a run: those that ship, by name, and one's own, by the path of their file.

A run reads each once, into a `World`; its operations become APIs like any others, so that pools,
API Search, splits and distractors need to know nothing of worlds.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from functools import cache, lru_cache
from importlib.resources import files
from pathlib import Path

from toolloom.pipeline.checks.world.interpreter import Machine, State, as_term
from toolloom.pipeline.checks.world.kinds import near
from toolloom.pipeline.checks.world.signatures import parameters, returns
from toolloom.pipeline.render.section import Cell, Section
from toolloom.pipeline.worlds.files import load_world, written_scripts
from toolloom.pipeline.worlds.scripts import WorldScript, read_scripts
from toolloom.schemas import Api, JsonObject, RecipeError, Source, World, WorldError, WorldPlan

ERROR_TEXT = "Fails with {}."
ALL = "all"  # stands for each world that ships


@cache
def shipped() -> dict[str, Path]:
    """The worlds that come along, by name."""
    folder = Path(str(files("toolloom") / "recipes" / "worlds"))
    found = (path for path in sorted(folder.glob("*.yaml")) if "." not in path.stem)
    return {path.stem: path for path in found}


def names(plan: WorldPlan) -> list[str]:
    """A recipe's worlds, by name or path."""
    named = ([*shipped()] if name == ALL else [name] for name in plan.use)
    return list(dict.fromkeys(name for each in named for name in each))


def place(name: str) -> Path:
    """The file of a world. Raises RecipeError if there is none."""
    if path := shipped().get(name):
        return path
    path = Path(name).expanduser()
    if path.is_file():
        return path
    advice = near(name, shipped()) or f"; those that ship are {', '.join(shipped())}"
    raise RecipeError(f"worlds.use: {name!r} is neither a world that ships nor a file{advice}.")


def world_of(name: str) -> World:
    """A world with its scripts. Raises RecipeError, or WorldError with all mistakes of a file."""
    path = place(name)
    both = (path, path.with_suffix(".scripts.yaml"))
    return _read(path, tuple(one.stat().st_mtime_ns for one in both if one.exists()))


def named_worlds(plan: WorldPlan, scripted: bool = False) -> list[World]:
    """A recipe's worlds, in its order. Raises RecipeError, also for two of one name; WorldError
    where they are to be `scripted` and one has no scripts."""
    worlds = [world_of(name) for name in names(plan)]
    for name, world in zip(names(plan), worlds, strict=True):
        if scripted and not world.scripts:
            path = place(name)
            raise WorldError(
                f"{path}: has no scripts, and so no dialogues without a capable model. Write them "
                f"beside it, into {path.with_suffix('.scripts.yaml').name}; docs/worlds.md shows "
                "how."
            )
    called = [world.name for world in worlds]
    if twice := next((name for name in called if called.count(name) > 1), None):
        raise RecipeError(f"worlds.use: two of the worlds are called {twice!r}: rename one.")
    return worlds


def held(worlds: Iterable[World], about: bool = False) -> Section:
    """What each world holds; with what it is, if wanted."""
    head = ["world", "operations", "policies", "scripts"]
    rows = list[list[Cell]]()
    for world in worlds:
        parts = (world.spec["operations"], world.spec["policies"], world.scripts)
        rows.append([world.name, *map(len, parts)])
        if about:
            rows[-1].append(world.about.partition(". ")[0].rstrip("."))
    return Section(head=[*head, "what it is"] if about else head, rows=rows)


@lru_cache(maxsize=32)  # a run asks for each several times
def _read(path: Path, _: tuple[int, ...]) -> World:
    """The world of a file, as it was at these times."""
    spec = load_world(path)
    machine = Machine(spec)
    return World(
        name=spec["name"],
        category=spec["category"] or spec["name"],
        tool=spec["tool"] or spec["name"],
        about=spec["about"],
        spec=spec,
        scripts=tuple(written_scripts(path, machine)),
    )


def scripts_of(world: World, machine: Machine) -> list[WorldScript]:
    """Its scripts, read. Raises WorldError for one that is none."""

    def fault(where: tuple[str | int, ...], what: str) -> None:
        raise WorldError(f"{world.name}: scripts{''.join(f'[{part}]' for part in where)} {what}")

    return read_scripts(list(world.scripts), machine, fault)


def apis_of(world: World) -> Iterator[Api]:
    """Its operations as APIs, with their errors in their description."""
    for name, spec in world.spec["operations"].items():
        errors = ", ".join(spec["errors"])
        told = f" {ERROR_TEXT.format(errors)}" if errors else ""
        yield Api(
            category=world.category,
            tool=world.tool,
            name=name,
            function=name,
            description=f"{spec['about']}{told}",
            parameters=parameters(spec["args"]),
            returns=returns(spec["shape"]),
            source=Source(kind="world", reference=world.name, operation=name),
        )


def briefing(machine: Machine, state: State) -> list[str]:
    """What an assistant in a world has to know besides the moment: what it is for, who speaks, the
    policies; a sentence each."""
    lines = [machine.world["about"]]
    if machine.actor and state["me"]:
        row = state["tables"][machine.actor][state["me"]]
        frame = machine.frame(state, {}, "2000-01-01T00:00")  # a name has no moment
        frame.vars["this"] = row
        called = as_term(machine.world["entities"][machine.actor]["called"])(frame)
        lines.append(f"You help {called}, who is signed in.")
    lines += [policy["says"] for policy in machine.world["policies"]]
    return [line for line in lines if line]


class Worlds:
    """The machines of worlds, by the hash of what they do."""

    def __init__(
        self, names: Iterable[str] = (), known: Callable[[], Iterable[JsonObject]] = tuple
    ) -> None:
        """Both are read when one of them is asked for first: `known`, those that a run has, before
        `names`, which may be others by now."""
        self._names = list(names)
        self._known = known
        self._machines: dict[str, Machine] = {}

    def add(self, world: World) -> Machine:
        """The machine of a world."""
        return self._machines.setdefault(world.hash, Machine(world.spec))

    def get(self, hash: str) -> Machine | None:
        if hash not in self._machines:
            for world in self._known():
                self.add(World.model_validate(world))
        while hash not in self._machines and self._names:
            self.add(world_of(self._names.pop()))
        return self._machines.get(hash)

    def machine(self, name: str, hash: str) -> Machine:
        """The machine that a row was drawn with. Raises WorldError if its world is another now."""
        machine = self.get(hash)
        if machine is None:
            raise WorldError(
                f"{name}: what this world does is another since the run drew its dialogues "
                f"(then {hash}). Undo the change, or give the recipe another seed or name."
            )
        return machine
