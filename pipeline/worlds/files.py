"""A world's file, read; and what is found in it, as Sections.

A mistake is told with its file, line and place, all of them at once.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Sequence
from pathlib import Path

from toolloom.pipeline.checks.world.interpreter import Json, Machine, State, shown
from toolloom.pipeline.checks.world.reading import read_world
from toolloom.pipeline.render.section import Section
from toolloom.pipeline.store.documents import read
from toolloom.pipeline.store.files import replacing
from toolloom.pipeline.worlds.mutation import Score
from toolloom.pipeline.worlds.scripts import WorldScript, read_scripts
from toolloom.pipeline.worlds.soundness import Soundness
from toolloom.schemas import JsonObject, World, WorldError

WIDEST = 60  # letters of a cell


def load_world(path: Path) -> Json:
    """The world of a YAML file. Raises WorldError with all its mistakes."""
    document = read(path, WorldError, plain=False)
    world = read_world(document.value, document.fault)
    document.refuse()
    return json.loads(json.dumps(world))


def keep(worlds: Iterable[JsonObject], outputs: Path) -> None:
    """Write the files of those that the API agent wrote, among the `outputs`; one that is there
    already, which somebody may have changed, stays."""
    for world in map(World.model_validate, worlds):
        path = outputs / "worlds" / f"{world.name}.yaml"
        if world.text and not path.exists():
            with replacing(path) as file:
                file.write(world.text.encode())


def has_scripts(path: Path) -> bool:
    return path.with_suffix(".scripts.yaml").exists()


def load_scripts(path: Path, machine: Machine) -> list[WorldScript]:
    """The scripts that stand beside a world's file: those of `shop.yaml` in `shop.scripts.yaml`.

    Raises WorldError with all mistakes.
    """
    return _scripts(path, machine)[1]


def written_scripts(path: Path, machine: Machine) -> list[JsonObject]:
    """They as they are written, once read; none if there is no such file. Raises WorldError."""
    return _scripts(path, machine)[0] if has_scripts(path) else []


def _scripts(path: Path, machine: Machine) -> tuple[list[JsonObject], list[WorldScript]]:
    document = read(path.with_suffix(".scripts.yaml"), WorldError, plain=False)
    scripts = read_scripts(document.value, machine, document.fault)
    document.refuse()
    return document.value, scripts


def unmet(machine: Machine, scripts: Iterable[WorldScript]) -> list[str]:
    """Operations that no script calls, and declared errors that it meets in none, as
    `operation.error`."""
    tried = {(each.operation, each.fails) for script in scripts for each in script.turns}
    operations = machine.world["operations"].items()
    wanted = [(name, code) for name, spec in operations for code in ("", *spec["errors"])]
    return [".".join(filter(None, each)) for each in wanted if each not in tried]


def found(
    machine: Machine, scripts: Sequence[WorldScript], result: Soundness, score: Score | None
) -> list[Section]:
    """What the checks of a world found: its operations, findings, and faults that were planted."""
    called = Counter(
        name for script in scripts for name in {each.operation for each in script.turns}
    )
    rows = []
    for name, spec in machine.world["operations"].items():
        errors = {code: count for (op, code), count in result.errors.items() if op == name}
        declared = [f"{code} {errors.get(code, 0)}" for code in spec["errors"]]
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
        kept = result.findings.kept.items()
        items = [f"{what} {' '.join(examples)}".rstrip() for what, examples in kept]
        sections.append(Section("Findings", items=items))
    if score:
        kinds = [
            (kind, count, score.found[kind], f"{score.found[kind] / count:.0%}".replace("%", " %"))
            for kind, count in score.told_apart.most_common()
        ]
        total = ("all", score.told_apart.total(), score.found.total(), f"{score.share:.2f}")
        sections.append(
            Section(
                "Planted faults",
                ("kind", "can be told", "found", "share"),
                kinds,
                total=total,
                note=f"{score.alike} more change nothing that a call could show.",
                items=score.survivors,
            )
        )
    return sections


def described(machine: Machine, state: State, now: str) -> list[Section]:
    """A world and one state of it: its entities with their rows, its operations, its policies."""
    sections = [
        Section(
            f"{name}, {len(table)} rows",
            (entity.key, *entity.fields),
            [
                [shown(row[column])[:WIDEST] for column in (entity.key, *entity.fields)]
                for row in table.values()
            ],
        )
        for (name, entity), table in zip(
            machine.entities.items(), state["tables"].values(), strict=True
        )
    ]
    speaker = f"It is {now}."
    if machine.actor and state["me"]:
        speaker += f" {state['me']} of {machine.actor} speaks."
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
