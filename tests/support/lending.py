"""The library as a run's world: its dialogues, drawn and played as a run does, without a model."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import pytest
import yaml

from support import toys
from toolloom.agents import simulator
from toolloom.agents.ask import Costs, Job
from toolloom.llm import Gateway
from toolloom.pipeline.apis.search import Finder
from toolloom.pipeline.checks.world.interpreter import Machine
from toolloom.pipeline.checks.world.reading import read_world
from toolloom.pipeline.environments.environment import Script, Search, WorldSession, moment_of
from toolloom.pipeline.worlds.library import Worlds, apis_of, world_of
from toolloom.pipeline.worlds.sampler import draw_world_needs
from toolloom.pipeline.worlds.scripts import moves
from toolloom.schemas import (
    Api,
    Dialogue,
    Endpoint,
    Need,
    Outcome,
    Query,
    Recipe,
    SearchPlan,
    World,
    parse_recipe,
)

LIBRARY = Path(__file__).with_name("library.yaml")
NOBODY = Endpoint(base_url="none", model="none")
ONLY_CALL = {"abilities": {"call": 1}}


def raw_library() -> Any:
    """What its file says."""
    return yaml.load(LIBRARY.read_text(), yaml.BaseLoader)


def machine_of(raw: Any) -> Machine:
    """The machine of a world that must be without a mistake."""
    return Machine(json.loads(json.dumps(read_world(raw, lambda *fault: pytest.fail(str(fault))))))


def world(*names: str, **changes: Any) -> World:
    """The library, with the scripts of these names alone, if any are told."""
    whole = world_of(str(LIBRARY))
    kept = tuple(each for each in whole.scripts if not names or each["name"] in names)
    return whole.model_copy(update={"scripts": kept, **changes})


def recipe(**changes: Any) -> Recipe:
    """A recipe of two dialogues of each script, all in `train`; `worlds` adds dials."""
    dials = {"use": [str(LIBRARY)], "per_script": 2, **changes.pop("worlds", {})}
    fields = {"name": "lent", "model": "none", "splits": toys.ALL_IN_TRAIN, "queries": ONLY_CALL}
    return parse_recipe({**fields, "worlds": dials, **changes}, "a recipe")


def needs(of: Recipe, worlds: Sequence[World], beside: Iterable[Api] = ()) -> list[Need]:
    """The dialogues that a recipe draws in worlds; `beside`: APIs of worlds that give none."""
    own = [api for each in worlds for api in apis_of(each)]
    return list(draw_world_needs(of, worlds, [*own, *beside]))


def query_of(need: Need, text: str = "") -> Query:
    return Query(**{**dict(need), "text": text or need.text})


async def outcome_of(
    asked: Query, world: World, job: Job, search: Search | None = None, limit: int = 1024
) -> Outcome:
    """The dialogue of a query, played by its script; `limit`: tokens of an observation."""
    assert asked.setting
    worlds = Worlds()
    machine = worlds.add(world)
    script = Script(moves(worlds.play(asked), machine, asked))
    session = WorldSession(machine, asked.setting, moment_of(asked))
    found = search or Finder(SearchPlan()).search
    environment = simulator.environment_of(asked, [session], found, limit)
    messages = [simulator.system_turn(asked)]
    return await simulator.played(asked, job, messages, script, environment, Costs())


async def played(
    drawn: Sequence[Need], world: World, folder: Path, limit: int = 1024
) -> list[Dialogue]:
    """Finished dialogues of needs."""
    dialogues = []
    async with Gateway(folder / "cache.sqlite") as gateway:
        for need in drawn:
            job = Job("dialogues", "simulator", need.id, 1, gateway.model(NOBODY))
            outcome = await outcome_of(query_of(need), world, job, limit=limit)
            (dialogue,) = outcome.accepted
            assert isinstance(dialogue, Dialogue)
            dialogues.append(dialogue)
    return dialogues
