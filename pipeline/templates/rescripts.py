"""Accepted dialogues that were worded for tasks, as scripts of their worlds, for a file of scripts.

Each is derived (`worlds/derive.py`); a model, if there is one, is asked once for what else its
words need; it is kept if it has rows in other states. The file is for people to read and to change:
`toolloom world proof` shows its scripts side by side.
"""

from __future__ import annotations

import asyncio
import os
import shutil
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import yaml

from toolloom.agents.ask import Job, NoUsableAnswer
from toolloom.agents.conditions import conditions
from toolloom.llm import Model
from toolloom.pipeline.store.documents import read
from toolloom.pipeline.store.files import replacing
from toolloom.pipeline.templates.redraws import WorldRows, original_of, script_of, world_template
from toolloom.pipeline.worlds.conditions import Underivable
from toolloom.pipeline.worlds.derive import Derived
from toolloom.schemas import JsonObject, Recipe, Template, World, WorldError, seed_for

WIDTH = 110  # characters of a line of a file of scripts


@dataclass(frozen=True)
class Rescript:
    """What became of a dialogue: its script, or why there is none; of the conditions of a model,
    how many the script has, those that were left out, and why none came."""

    id: str
    world: str
    spec: JsonObject | None = None
    why: str = ""
    given: int = 0
    left_out: tuple[str, ...] = ()
    silent: str = ""


async def rescripts(
    samples: Iterable[JsonObject],
    worlds: Sequence[World],
    recipe: Recipe,
    model: Model | None = None,
) -> list[Rescript]:
    """Scripts of those samples, as JSON, that were worded for tasks; `model` is asked for more
    conditions of each. Errors of its endpoint pass through."""
    made = _Rescripting(worlds, recipe, model)
    tasks = [
        each for each in samples if (script_of(each) or ("", "none"))[1] == "" and _writer(each)
    ]
    return list(await asyncio.gather(*map(made.of, tasks)))


def _writer(sample: JsonObject) -> str:
    """The model that worded a dialogue; "" of a row of a template."""
    return next((p["model"] for p in sample["dialogue"]["query"]["provenance"] if p["model"]), "")


class _Rescripting:
    def __init__(self, worlds: Sequence[World], recipe: Recipe, model: Model | None) -> None:
        self.worlds = {world.name: world for world in worlds}
        self.rows, self.recipe, self.model = WorldRows(recipe, worlds), recipe, model

    async def of(self, sample: JsonObject) -> Rescript:
        query, template = sample["dialogue"]["query"], world_template(sample)
        became = Rescript(template.id, query["setting"]["world"])
        try:
            made = self.rows.derive(template)
            if self.model:
                try:
                    clauses = await self.asked(made, template, self.model)
                except NoUsableAnswer as why:
                    became = replace(became, silent=why.detail)
                else:
                    machine = self.rows.of(template).machine
                    made, left_out = made.needing(clauses, original_of(template).dialogue, machine)
                    given = len(clauses) - len(left_out)
                    became = replace(became, given=given, left_out=tuple(left_out))
            self.rows.check(template, made)
        except Underivable as why:
            return replace(became, why=str(why))
        spec = {"name": template.id, "written": f"model {_writer(sample)}", **made.spec}
        return replace(became, spec=spec)

    async def asked(self, made: Derived, template: Template, model: Model) -> tuple[str, ...]:
        """The conditions that a model gives for a script. Raises NoUsableAnswer."""
        world = self.worlds[template.sample["dialogue"]["query"]["setting"]["world"]]
        entries = [*made.spec.get("find", ()), *made.spec["turns"]]
        taken = {"need", "user", "assistant"}
        names = [name for entry in entries for name in entry if name not in taken]
        seed = seed_for(self.recipe.seed, "conditions", template.id)
        job = Job("templates", "query", template.id, seed, model)
        return (await conditions(world.spec, names, as_yaml([made.spec]), job)).value


def as_yaml(specs: Sequence[JsonObject]) -> str:
    """Scripts as they stand in a file."""
    return yaml.safe_dump(list(specs), sort_keys=False, allow_unicode=True, width=WIDTH)


def scripts_in(path: Path) -> list[Any]:
    """What a file of scripts holds, nothing if it is not there yet. Raises WorldError for what
    cannot be read, is no list or cannot be written."""
    try:
        path = path.resolve()
        folder = next(each for each in path.parents if each.exists())
        there = [path] if path.exists() else []
        # Mode bits too: whoever may write everything leaves alone what is marked as read-only.
        shut = [
            p for p in (*there, folder) if not (p.stat().st_mode & 0o222 and os.access(p, os.W_OK))
        ]
    except (OSError, RuntimeError) as why:  # the second of links that lead to themselves
        raise WorldError(f"{path}: cannot be written ({why}). Choose another file.") from why
    value = read(path, WorldError, plain=False).value if there else None
    if value is not None and not isinstance(value, list):
        raise WorldError(f"{path}: is no file of scripts, `- name: …`. Choose another file.")
    if shut or not folder.is_dir():
        raise WorldError(f"{(*shut, folder)[0]}: cannot be written to. Choose another file.")
    return value or []


def append(path: Path, specs: Sequence[JsonObject]) -> int:
    """Add scripts to a file, those whose names it does not have; how many were added. Raises
    WorldError, and leaves the file as it is, where it would not hold them besides its own."""
    known, path = scripts_in(path), path.resolve()
    names = {str(each.get("name")) for each in known if isinstance(each, dict)}
    fresh = [spec for spec in specs if str(spec["name"]) not in names]
    if fresh:
        before = path.read_text(encoding="utf-8").rstrip() + "\n\n" if path.exists() else ""
        text = before.lstrip() + "\n".join(as_yaml([spec]) for spec in fresh)
        with replacing(path) as file:
            file.write(text.encode())
            file.flush()
            if path.exists():
                shutil.copymode(path, file.name)
            try:
                whole = read(Path(file.name), WorldError, plain=False).value
            except WorldError:
                whole = None
            if whole != [*known, *fresh]:
                raise WorldError(
                    f"{path}: scripts cannot be added at its end: that needs a plain list, each "
                    "`- name: …` at the start of its line. Choose another file."
                )
    return len(fresh)
