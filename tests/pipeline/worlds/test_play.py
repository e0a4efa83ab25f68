"""Dialogues in worlds, played: words chosen, calls run, operations searched for."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TypeAlias

import pytest
from support import lending, toys

from toolloom.agents import query
from toolloom.agents.ask import Job
from toolloom.llm import Gateway
from toolloom.pipeline.checks import inspect
from toolloom.pipeline.checks.world.interpreter import Machine
from toolloom.pipeline.worlds.play import WorldSession, moment_of, play
from toolloom.schemas import (
    Ability,
    Api,
    Dialogue,
    JsonObject,
    Need,
    Reason,
    RequestRefused,
    World,
)

Drawn: TypeAlias = dict[str, Need]
SCRIPTS = ("fines", "renewal", "no coffee", "fines first")


@pytest.fixture(scope="module")
def world() -> World:
    return lending.world(*SCRIPTS)


@pytest.fixture(scope="module")
def machine(world: World) -> Machine:
    return Machine(world.spec)


@pytest.fixture(scope="module")
def drawn(world: World) -> dict[str, Need]:
    """One dialogue of each script."""
    needs = lending.needs(lending.recipe(worlds={"per_script": 1}), [world])
    return {need.setting.script: need for need in needs if need.setting}


async def seeded(need: Need, machine: Machine, folder: Path, seed: int = 1) -> Dialogue:
    """A dialogue played without a model."""
    async with Gateway(folder / "cache.sqlite") as gateway:
        job = Job("dialogues", "simulator", need.id, seed, gateway.model(lending.NOBODY))
        (asked,) = (await query.run(need, job)).accepted
        (dialogue,) = (await lending.outcome_of(asked, job, machine)).accepted
    assert isinstance(dialogue, Dialogue)
    return dialogue


def roles(dialogue: Dialogue) -> str:
    return " ".join(message.role for message in dialogue.messages)


async def test_a_dialogue_is_in_openai_form(drawn: Drawn, machine: Machine, tmp_path: Path) -> None:
    """System turn first; calls side by side in one message, each answered under its id, in order."""
    dialogue = await seeded(drawn["fines"], machine, tmp_path)
    assert roles(dialogue) == (
        "system user assistant tool tool assistant user assistant user assistant tool assistant"
    )
    both, *results = dialogue.messages[2:5]
    assert [call.function.name for call in both.tool_calls] == ["list_loans", "list_holds"]
    assert [m.tool_call_id for m in results] == [c.id for c in both.tool_calls]
    assert [m.name for m in results] == ["list_loans", "list_holds"]
    ids = [call.id for message in dialogue.messages for call in message.tool_calls]
    assert ids == ["call_0", "call_1", "call_2"]
    told = dialogue.messages[0].content or ""
    assert "Members with fines above 5 renew at the desk." in told and "signed in" in told
    assert dialogue.query.setting and not dialogue.query.setting.story
    assert not inspect(dialogue, world=machine)


@pytest.mark.parametrize("ability", [Ability.RETRIEVE_CALL, Ability.PLAN_RETRIEVE_CALL])
async def test_what_is_called_was_found_before(
    drawn: Drawn, machine: Machine, tmp_path: Path, ability: Ability
) -> None:
    """A search before the first call of an operation, and none where an earlier one found it."""
    need = drawn["fines first"].model_copy(update={"ability": ability})
    dialogue = await seeded(need, machine, tmp_path)
    known: set[str] = set()
    searches = 0
    for place, call in dialogue.calls():
        if call.function.name != "api_search":
            assert call.function.name in known
            continue
        searches += 1
        (answer,) = (m for m in dialogue.messages[place + 1 :][:1] if m.tool_call_id == call.id)
        found = answer.observation()
        known |= {document["name"] for document in (found.response if found else ())}
    assert 0 < searches <= 3  # renew is called twice
    assert not inspect(dialogue, world=machine)


async def test_a_search_with_the_words_of_its_world_may_be_in_vain(
    drawn: Drawn, machine: Machine, tmp_path: Path
) -> None:
    """By seed; it is in the dialogue then, and the next search has other words."""
    need = drawn["renewal"].model_copy(update={"ability": Ability.RETRIEVE_CALL})
    sought = machine.world["operations"]["list_loans"]["sought"]
    lengths = set()
    for seed in range(24):
        dialogue = await seeded(need, machine, tmp_path, seed)
        calls = [call.function for _, call in dialogue.calls()]
        end = next(at for at, call in enumerate(calls) if call.name == "list_loans")
        words = [call.arguments["keywords"] for call in calls[:end]]
        own = [text for text in words if text in sought]
        assert words[: len(own)] == own and len(set(words)) == len(words)
        assert not inspect(dialogue, world=machine)
        lengths.add((len(own), len(words)))
    assert {(1, 1), (2, 2)} <= lengths  # found at once, and at the second try


async def test_a_dialogue_without_calls_is_words_alone(
    drawn: Drawn, machine: Machine, tmp_path: Path
) -> None:
    """Also in an ability that searches."""
    need = drawn["no coffee"].model_copy(update={"ability": Ability.RETRIEVE_CALL})
    dialogue = await seeded(need, machine, tmp_path)
    assert roles(dialogue) == "system user assistant"
    assert dialogue.provenance[0].requests == 0 and not dialogue.provenance[0].model


async def test_a_refused_search_costs_the_dialogue_and_not_the_run(
    drawn: Drawn, machine: Machine, tmp_path: Path
) -> None:
    """An endpoint of embeddings may refuse one text: it is told, with its answer."""

    async def refused(apis: Sequence[Api], keywords: str) -> list[JsonObject]:
        raise RequestRefused("400: too long", "the whole answer")

    need = drawn["renewal"].model_copy(update={"ability": Ability.RETRIEVE_CALL})
    assert need.setting
    asked = lending.query_of(need)
    within = WorldSession(machine, need.setting, moment_of(asked))
    async with Gateway(tmp_path / "cache.sqlite") as gateway:
        job = Job("dialogues", "simulator", need.id, 1, gateway.model(lending.NOBODY))
        around = replace(toys.environment(within), search=refused)
        (fallen,) = (await play(asked, job, around)).rejected
    assert (fallen.reason, fallen.raw) == (Reason.REQUEST_REFUSED, ("the whole answer",))
