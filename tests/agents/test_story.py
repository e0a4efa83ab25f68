"""Dialogues in worlds, played: words chosen, calls run, operations searched for."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, TypeAlias

import pytest
from support import lending, toys

from toolloom.agents import query, simulator, tester
from toolloom.agents.api import offer
from toolloom.agents.ask import Job
from toolloom.agents.domain import order
from toolloom.llm import Gateway
from toolloom.llm.fake import ScriptedFailure
from toolloom.pipeline.checks import inspect
from toolloom.pipeline.checks.world.interpreter import Machine
from toolloom.pipeline.worlds.session import WorldSession, moment_of
from toolloom.pipeline.worlds.shelf import apis_of
from toolloom.schemas import (
    Ability,
    Api,
    Dialogue,
    Finding,
    JsonObject,
    Need,
    Part,
    Query,
    Reason,
    RequestRefused,
    Sample,
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


async def test_words_are_chosen_by_seed(drawn: Drawn, machine: Machine, tmp_path: Path) -> None:
    """The same by the same seed; every alternative by some; nothing that is not written."""
    need = drawn["renewal"]
    assert need.setting
    heard: dict[int, set[str]] = {0: set(), 3: set()}
    for seed in range(12):
        dialogue = await seeded(need, machine, tmp_path, seed)
        assert dialogue == await seeded(need, machine, tmp_path, seed)
        heard[0].add(dialogue.messages[1].content or "")
        heard[3].add(dialogue.messages[-1].content or "")
    assert heard == {place: {*need.setting.story[place].words} for place in heard}


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


async def nothing_to_repeat(_: Dialogue) -> Sequence[Finding]:
    return ()


async def chosen(
    working: Any, need: Need, machine: Machine, answers: Any
) -> tuple[Query, Dialogue, Sample, Any]:
    """A dialogue whose words a model on a server chose: asked, played, tested."""
    async with working(answers, "simulator", small=True) as (job, server):
        (asked,) = (await query.run(need, job)).accepted
        (dialogue,) = (await lending.outcome_of(asked, job, machine)).accepted
        (sample,) = (await tester.run(dialogue, job, nothing_to_repeat, 3, machine)).accepted
    return asked, dialogue, sample, server


def with_turns(need: Need, number: int) -> Need:
    """The same under another id, with a turn before its last whose words are to be chosen too."""
    assert need.setting
    first, *calls, last = need.setting.story
    thanks = Part(role="assistant", words=("One moment.", "I'll see."))
    more = Part(role="user", words=("Fine.", "Good."))
    setting = need.setting.model_copy(update={"story": (first, thanks, more, *calls, last)})
    return need.model_copy(update={"setting": setting, "id": f"need-{number}"})


async def test_a_small_model_chooses_among_what_is_right(
    working: Any, drawn: Drawn, machine: Machine
) -> None:
    """It is shown all alternatives under letters; what it chose is said, and booked. One question
    a dialogue, of the agent whose place it is; the seed chooses the rest."""
    askers = set()
    for number in range(24):
        need = with_turns(drawn["renewal"], number)
        words = [part.words for part in need.setting.story if part.words] if need.setting else []
        for letter, choice in (("A", 0), ("B", 1)):
            asked, dialogue, sample, server = await chosen(
                working, need, machine, lambda body, letter=letter: {"choice": letter}
            )
            requests = tuple(r.provenance[0].requests for r in (asked, dialogue, sample))
            assert server.answered == sum(requests) == 1
            prompt = server.bodies[0]["messages"][-1]["content"]
            (place,) = (
                place
                for place, texts in enumerate(words)
                if all(
                    f"{sign}: {text}\n" in f"{prompt}\n"
                    for sign, text in zip("AB", texts, strict=True)
                )
            )
            final = sample.dialogue
            spoken = [m.content for m in final.messages if m.content and m.role != "tool"][1:]
            assert spoken[place] == words[place][choice]
            assert all(text in texts for text, texts in zip(spoken, words, strict=True))
            assert final.query.setting and not final.query.setting.story
            askers.add((place, requests.index(1)))
    assert askers == {(0, 0), (1, 1), (2, 1), (3, 2)}


REFUSAL = ScriptedFailure(400)


@pytest.mark.parametrize(
    "answer", ["", "A", {"choice": "C"}, {"choice": ["A"]}, "I like the 2nd.", REFUSAL]
)
@pytest.mark.parametrize("agent", ["simulator", "tester"])
async def test_the_seed_chooses_where_a_model_does_not(
    working: Any, drawn: Drawn, machine: Machine, tmp_path: Path, answer: Any, agent: str
) -> None:
    """What it answered is booked, and the dialogue is that of a run without a model."""
    for number in range(24):
        need = with_turns(drawn["renewal"], number)
        asked, dialogue, sample, server = await chosen(working, need, machine, lambda body: answer)
        if (sample if agent == "tester" else dialogue).provenance[0].requests:
            break
    assert server.received > 0
    records = (asked, dialogue, sample)
    assert sum(record.provenance[0].requests for record in records) == server.answered
    same = await seeded(need, machine, tmp_path)
    assert sample.dialogue.messages == same.messages


def letters(*said: str) -> list[dict[str, str]]:
    return [{"choice": letter} for letter in said]


def worlds(count: int) -> Sequence[World]:
    one = lending.world("renewal")
    return [one.model_copy(update={"name": f"w{n}", "about": f"About {n}."}) for n in range(count)]


async def test_worlds_have_the_order_that_a_small_model_gives_them(working: Any) -> None:
    """Asked for one after the other; each tells how it was chosen."""
    async with working(letters("C", "A"), small=True) as (job, server):
        outcome = await order(worlds(3), job)
    assert [world.name for world in outcome.accepted] == ["w2", "w0", "w1"]
    assert {world.provenance[0].requests for world in outcome.accepted} == {2}
    assert "B: Library: About 1." in server.bodies[0]["messages"][-1]["content"]
    async with working([]) as (job, server):
        assert [w.name for w in (await order(worlds(3), job)).accepted] == ["w0", "w1", "w2"]
    assert server.received == 0


async def test_operations_stand_beside_those_of_a_world_that_is_chosen(working: Any) -> None:
    """They are of one collection with it; a world that is alone asks nobody."""
    one, *others = worlds(3)
    apis = list(apis_of(one))
    async with working(letters("B"), "api", small=True) as (job, server):
        outcome = await offer(one, apis, others, job)
    assert {api.collections for api in outcome.accepted} == {("w0", "w2")}
    assert [api.name for api in outcome.accepted] == [api.name for api in apis]
    assert server.answered == outcome.accepted[0].provenance[0].requests == 1
    async with working([], "api", small=True) as (job, server):
        alone = await offer(one, apis, [], job)
    assert {api.collections for api in alone.accepted} == {("w0",)} and server.received == 0


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
        (fallen,) = (await simulator.run(asked, job, around)).rejected
    assert (fallen.reason, fallen.raw) == (Reason.REQUEST_REFUSED, ("the whole answer",))
