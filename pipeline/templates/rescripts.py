"""Accepted dialogues that were worded for tasks, as scripts of their worlds, for a file of scripts.

Each is derived (`worlds/derive.py`); a model, if there is one, is asked once for what else its
words need; it is kept if it has rows in other states. The file is for people to read and to change:
`toolloom world proof` shows its scripts side by side.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

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
    """What became of a dialogue: its script, or why there is none; conditions of a model that were
    left out."""

    id: str
    world: str
    spec: JsonObject | None = None
    why: str = ""
    left_out: tuple[str, ...] = ()


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
        world, left_out = query["setting"]["world"], list[str]()
        try:
            made = self.rows.derive(template)
            if self.model:
                made, left_out = await self.asked(made, template, self.model)
            self.rows.check(template, made)
        except Underivable as why:
            return Rescript(template.id, world, why=str(why), left_out=tuple(left_out))
        spec = {"name": template.id, "written": f"model {_writer(sample)}", **made.spec}
        return Rescript(template.id, world, spec, "", tuple(left_out))

    async def asked(
        self, made: Derived, template: Template, model: Model
    ) -> tuple[Derived, list[str]]:
        """A script with the conditions that a model gives for it; and those that are left out."""
        world = self.worlds[template.sample["dialogue"]["query"]["setting"]["world"]]
        entries = [*made.spec.get("find", ()), *made.spec["turns"]]
        taken = {"need", "user", "assistant"}
        names = [name for entry in entries for name in entry if name not in taken]
        seed = seed_for(self.recipe.seed, "conditions", template.id)
        job = Job("templates", "query", template.id, seed, model)
        try:
            answer = await conditions(world.spec, names, as_yaml([made.spec]), job)
        except NoUsableAnswer as why:
            raise Underivable(f"the model gave no conditions: {why.detail}") from why
        dialogue = original_of(template).dialogue
        return made.needing(answer.value, dialogue, self.rows.of(template).machine)


def as_yaml(specs: Sequence[JsonObject]) -> str:
    """Scripts as they stand in a file."""
    return yaml.safe_dump(list(specs), sort_keys=False, allow_unicode=True, width=WIDTH)


def append(path: Path, specs: Sequence[JsonObject]) -> int:
    """Add scripts to a file, those whose names it does not have; how many were added. Raises
    WorldError for a file that cannot be read."""
    before, there = "", set[str]()
    if path.exists():
        known = read(path, WorldError, plain=False).value
        there = {str(each.get("name")) for each in known or () if isinstance(each, dict)}
        before = path.read_text(encoding="utf-8").rstrip() + "\n\n"
    fresh = [as_yaml([spec]) for spec in specs if str(spec["name"]) not in there]
    if fresh:
        with replacing(path) as file:
            file.write((before.lstrip() + "\n".join(fresh)).encode())
    return len(fresh)
