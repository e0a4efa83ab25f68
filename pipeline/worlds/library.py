"""The worlds of a run: found, read, shown, and taken as APIs.

Those that ship are named, one's own are paths of files. A run reads each once, into a `World`; its
operations become APIs like any others, so that pools, API Search, splits and distractors need to
know nothing of worlds. A mistake in a file is told with its line and place, all of them at once.
"""

from __future__ import annotations

import json
import random
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import cache, lru_cache
from importlib.resources import files
from pathlib import Path

from toolloom.pipeline.checks.world.grammar import near
from toolloom.pipeline.checks.world.interpreter import (
    Json,
    Machine,
    State,
    as_term,
    shown,
    state_of,
)
from toolloom.pipeline.checks.world.reading import read_world
from toolloom.pipeline.checks.world.signatures import parameters, returns
from toolloom.pipeline.environments.environment import moment_of
from toolloom.pipeline.render.section import Cell, Section, counted
from toolloom.pipeline.store.documents import read
from toolloom.pipeline.store.files import replacing
from toolloom.pipeline.worlds.operations import Lookups
from toolloom.pipeline.worlds.scripts import Play, WorldScript, play_in, read_scripts, script_name
from toolloom.pipeline.worlds.soundness import Score, Soundness
from toolloom.pipeline.worlds.tasks import tasks
from toolloom.schemas import (
    Api,
    JsonObject,
    Need,
    RecipeError,
    Setting,
    Source,
    World,
    WorldError,
    WorldPlan,
)

ALL = "all"  # stands for each world that ships
WIDEST = 60  # letters of a cell
TASKS = 12  # drawn to see whether a world has any
REMEMBERED = 256  # files of worlds that a process keeps read: more than any recipe names


# --- files -----------------------------------------------------------------------------------


def load_world(path: Path) -> Json:
    """The world of a YAML file. Raises WorldError with all its mistakes."""
    document = read(path, WorldError, plain=False)
    world = read_world(document.value, document.fault)
    document.refuse()
    return json.loads(json.dumps(world))


def keep(worlds: Iterable[JsonObject], outputs: Path) -> None:
    """Write each world that the API agent wrote into `outputs/worlds/<name>.yaml`; a file that is
    there already, which somebody may have changed, stays."""
    for world in map(World.model_validate, worlds):
        path = outputs / "worlds" / f"{world.name}.yaml"
        if world.text and not path.exists():
            with replacing(path) as file:
                file.write(world.text.encode())


def load_scripts(path: Path, machine: Machine) -> tuple[list[JsonObject], list[WorldScript]]:
    """The scripts that stand beside a world's file, those of `shop.yaml` in `shop.scripts.yaml`: as
    they are written, and as they are read. Raises WorldError with all mistakes."""
    document = read(path.with_suffix(".scripts.yaml"), WorldError, plain=False)
    scripts = read_scripts(document.value, machine, document.fault)
    document.refuse()
    return document.value, scripts


# --- the worlds that a recipe names ----------------------------------------------------------


LICENCE = "Apache-2.0"  # of the worlds that ship, as of all that does


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
    hint, looked = near(name, shipped()), f" (looked for in {Path.cwd()})"
    raise RecipeError(
        f"worlds.use: {name!r} is neither a world that ships nor a file{looked}{hint}."
    )


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
    operations: dict[str, str] = {}
    for world in worlds:
        for api in apis_of(world):
            other = operations.setdefault(api.id, world.name)
            if other != world.name:
                raise RecipeError(
                    f"worlds.use: {other} and {world.name} both have the operation {api.id}: give "
                    "one of them another `tool` or `category`, or leave it out."
                )
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


@lru_cache(maxsize=REMEMBERED)  # a run asks for each several times
def _read(path: Path, _: tuple[int, ...]) -> World:
    """The world of a file, as it was at these times."""
    spec, scripts = load_world(path), list[JsonObject]()
    if path.with_suffix(".scripts.yaml").exists():
        scripts = load_scripts(path, Machine(spec))[0]
    licence = LICENCE if path in shipped().values() else ""
    return World.of(spec, licence=licence, scripts=tuple(scripts))


def scripts_of(world: World, machine: Machine) -> list[WorldScript]:
    """Its scripts, read. Raises WorldError for one that is none."""

    def fault(where: tuple[str | int, ...], what: str) -> None:
        raise WorldError(f"{world.name}: scripts{''.join(f'[{part}]' for part in where)} {what}")

    return read_scripts(list(world.scripts), machine, fault)


def apis_of(world: World) -> Iterator[Api]:
    """Its operations as APIs, with their errors in their description."""
    for name, spec in world.spec["operations"].items():
        told = f" Fails with {', '.join(spec['errors'])}." if spec["errors"] else ""
        yield Api(
            category=world.category,
            tool=world.tool,
            name=name,
            function=name,
            description=f"{spec['about']}{told}",
            parameters=parameters(spec["args"]),
            returns=returns(spec["shape"]),
            source=Source(
                kind="world", reference=world.name, operation=name, licence=world.licence
            ),
        )


def briefing(machine: Machine, state: State) -> list[str]:
    """What an assistant in a world has to know besides the moment: what it is for, who speaks, the
    policies; a sentence each."""
    lines = [machine.world["about"]]
    if machine.actor and state["me"]:
        frame = machine.frame(state, {}, "2000-01-01T00:00")  # a name has no moment
        frame.vars["this"] = state["tables"][machine.actor][state["me"]]
        called = as_term(machine.world["entities"][machine.actor]["called"])(frame)
        lines.append(f"You help {called}, who is signed in.")
    lines += [policy["says"] for policy in machine.world["policies"]]
    return [line for line in lines if line]


class Worlds:
    """The worlds of a run, ready to be played in, by the hash of what they do."""

    def __init__(
        self, names: Iterable[str] = (), known: Callable[[], Iterable[JsonObject]] = tuple
    ) -> None:
        """A hash that is not there yet has `known` read, the worlds that a run has, and then
        `names` one by one, which may be others by now."""
        self._names = list(names)
        self._known = known
        self._worlds: dict[str, tuple[World, Machine]] = {}
        self._scripts: dict[tuple[str, str], WorldScript] = {}

    def add(self, world: World) -> Machine:
        """The machine of a world."""
        if world.hash not in self._worlds:
            self._worlds[world.hash] = world, Machine(world.spec)
        return self._worlds[world.hash][1]

    def machine(self, setting: Setting) -> Machine:
        """The machine that a row was drawn with. Raises WorldError if its world is another now."""
        if setting.hash not in self._worlds:
            for world in self._known():
                self.add(World.model_validate(world))
        while setting.hash not in self._worlds and self._names:
            self.add(world_of(self._names.pop()))
        if setting.hash not in self._worlds:
            raise WorldError(
                f"{setting.world}: what this world does is another since the run drew its "
                f"dialogues (then {setting.hash}). Undo the change, or give the recipe another "
                "seed or name."
            )
        return self._worlds[setting.hash][1]

    def play(self, need: Need) -> Play:
        """The row of a script that a need is. Raises WorldError if its script is another now."""
        assert need.setting
        setting, machine = need.setting, self.machine(need.setting)
        key = setting.hash, setting.script
        if key not in self._scripts:  # all scripts of a world take a second to read
            world = self._worlds[setting.hash][0]
            own = [s for n, s in enumerate(world.scripts) if script_name(s, n) == setting.script]
            for script in scripts_of(world.model_copy(update={"scripts": own}), machine):
                self._scripts[key] = script
        given, found = setting.start, self._scripts.get(key)
        start = state_of(given["tables"], given["me"], given["next"])
        rng = random.Random(setting.seed)
        row = play_in(found, machine, start, moment_of(need), rng) if found else None
        if row is None or row.words[0] != need.text:
            raise WorldError(
                f"{setting.world}: the script {setting.script!r} is another since the run drew its "
                "dialogues. Undo the change, or give the recipe another seed or name."
            )
        return row


# --- what is shown of a world ----------------------------------------------------------------


def unmet(machine: Machine, scripts: Iterable[WorldScript]) -> list[str]:
    """Operations that no script calls with success, and declared errors that no script meets, as
    `operation` and `operation.error`."""
    tried = {(each.operation, each.fails) for script in scripts for each in script.turns}
    operations = machine.world["operations"].items()
    wanted = [(name, code) for name, spec in operations for code in ("", *spec["errors"])]
    return [".".join(filter(None, each)) for each in wanted if each not in tried]


def taskless(machine: Machine, seed: int) -> str:
    """Why no task that calls anything is drawn in a world; nothing if one is."""
    if any(task and task.calls for task in tasks(machine, seed, TASKS)):
        return ""
    lookups = Lookups(machine)
    why = [
        f"{name} takes {argument}, and no read shows a key of {kind['entity']}"
        for name in lookups.writes
        for argument, kind in lookups.kinds(name).items()
        if kind["type"] == "ref" and not lookups.ways[kind["entity"]]
    ]
    if not any(lookups.labels[entity] for entity in lookups.listed.values()):
        why.append("no read lists rows that people have a name for (`label`, or `called`)")
    if not why:
        why.append(f"none of {TASKS} draws came to a call that succeeds and that somebody needs")
    return f"No task can be drawn: {'; '.join(why)}."


def found(
    machine: Machine, scripts: Sequence[WorldScript], result: Soundness, score: Score | None
) -> list[Section]:
    """What the checks of a world found: its operations, findings, and faults that were planted."""
    called = Counter(name for each in scripts for name in {turn.operation for turn in each.turns})
    rows = []
    for name, spec in machine.world["operations"].items():
        declared = [f"{code} {result.errors[name, code]}" for code in spec["errors"]]
        rows.append((name, called[name], result.successes[name], ", ".join(declared) or "–"))
    missed = ", ".join(unmet(machine, scripts))
    sections = [
        Section(
            f"{machine.world['name']}: {sum(result.successes.values()):,} calls that succeeded",
            ("operation", "scripts", "succeeded", "errors, and how often each was met"),
            rows,
            note=f"No script meets {missed}." if scripts and missed else "",
        )
    ]
    if result.findings:
        items = [f"{what} {seen}".rstrip() for what, (_, _, seen) in result.findings.items()]
        sections.append(Section("Findings", items=items))
    if score:
        told = f"{score.share:.2f} of {score.told_apart} planted faults are found."
        sections.append(Section("Planted faults", items=score.survivors, note=told))
    return sections


def described(machine: Machine, state: State, now: str) -> list[Section]:
    """A world and one state of it: its entities with their rows, its operations, its policies."""
    sections = []
    for name, entity in machine.entities.items():
        table, columns = state["tables"][name].values(), (entity.key, *entity.fields)
        rows = [[shown(row[column])[:WIDEST] for column in columns] for row in table]
        sections.append(Section(f"{name}, {counted(len(rows), 'row')}", columns, rows))
    speaker = f"It is {now}."
    if machine.actor and state["me"]:
        speaker += f" The user is {state['me']}, one of the {machine.actor}."
    operations = [
        (name, ", ".join(spec["args"]) or "–", spec["about"])
        for name, spec in machine.world["operations"].items()
    ]
    sections.append(Section("Operations", ("name", "arguments", "what it does"), operations))
    policies = [policy["says"] for policy in machine.world["policies"]]
    if policies:
        sections.append(Section("Policies", items=policies))
    sections.append(Section(note=speaker))
    return sections
