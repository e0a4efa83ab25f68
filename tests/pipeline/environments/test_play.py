"""Dialogues in worlds, played: words chosen, calls run, operations searched for."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TypeAlias

import pytest
from support import lending

from toolloom.agents.ask import Job
from toolloom.llm import Gateway
from toolloom.pipeline.apis.search import Finder
from toolloom.pipeline.checks import inspect
from toolloom.pipeline.checks.world.interpreter import Machine
from toolloom.pipeline.environments.environment import (
    ASKED,
    Environment,
    Script,
    Search,
    Searching,
    Unplayable,
    WorldSession,
    moment_of,
    play,
)
from toolloom.schemas import (
    Ability,
    Api,
    Dialogue,
    JsonObject,
    Message,
    Need,
    Outcome,
    Reason,
    RequestRefused,
    SearchPlan,
    World,
)

Drawn: TypeAlias = dict[str, Need]
SCRIPTS = ("fines", "renewal", "no coffee", "fines first")


@pytest.fixture(scope="module")
def world() -> World:
    return lending.world(*SCRIPTS)


@pytest.fixture(scope="module")
def drawn(world: World) -> dict[str, Need]:
    """One dialogue of each script."""
    needs = lending.needs(lending.recipe(worlds={"per_script": 1}), [world])
    return {need.setting.script: need for need in needs if need.setting}


async def played(need: Need, world: World, folder: Path, search: Search | None = None) -> Outcome:
    """A dialogue played without a model."""
    async with Gateway(folder / "cache.sqlite") as gateway:
        job = Job("dialogues", "simulator", need.id, 1, gateway.model(lending.NOBODY))
        return await lending.outcome_of(lending.query_of(need), world, job, search)


async def dialogue_of(need: Need, world: World, folder: Path) -> Dialogue:
    (dialogue,) = (await played(need, world, folder)).accepted
    assert isinstance(dialogue, Dialogue)
    return dialogue


def searching(need: Need) -> Need:
    return need.model_copy(update={"ability": Ability.RETRIEVE_CALL})


def called(dialogue: Dialogue) -> list[str]:
    """What is called, with the keywords of a search."""
    calls = [call.function for _, call in dialogue.calls()]
    given = [call.arguments if isinstance(call.arguments, dict) else {} for call in calls]
    return [args.get("keywords", call.name) for call, args in zip(calls, given, strict=True)]


def roles(dialogue: Dialogue) -> str:
    return " ".join(message.role for message in dialogue.messages)


async def test_a_dialogue_is_in_openai_form(drawn: Drawn, world: World, tmp_path: Path) -> None:
    """System turn first; calls side by side in one message, each answered under its id, in order."""
    dialogue = await dialogue_of(drawn["fines"], world, tmp_path)
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
    assert not inspect(dialogue, world=Machine(world.spec))


async def test_what_is_called_was_found_before(drawn: Drawn, world: World, tmp_path: Path) -> None:
    """The script's keywords, one after the other, until all is found that is called before its next
    search; what is known is not searched for again."""
    dialogue = await dialogue_of(searching(drawn["fines first"]), world, tmp_path)
    assert called(dialogue) == [
        *("renew a loan", "list_loans", "renew"),
        *("pay fines", "pay_fines", "renew"),
    ]
    assert roles(dialogue).startswith("system user assistant tool assistant tool")
    assert not inspect(dialogue, world=Machine(world.spec))


async def test_a_second_search_follows_where_the_first_misses(
    drawn: Drawn, world: World, tmp_path: Path
) -> None:
    """With other words."""
    narrow = Finder(SearchPlan(found=1)).search
    need = searching(drawn["fines first"])
    (dialogue,) = (await played(need, world, tmp_path, narrow)).accepted
    assert isinstance(dialogue, Dialogue)
    assert called(dialogue)[:3] == ["renew a loan", "see my loans", "list_loans"]


async def test_what_no_tool_does_is_searched_for_in_vain(
    drawn: Drawn, world: World, tmp_path: Path
) -> None:
    """With all keywords, before anything is said; where tools are at hand it is words alone."""
    dialogue = await dialogue_of(searching(drawn["no coffee"]), world, tmp_path)
    assert called(dialogue) == ["order a coffee", "drinks delivered to a seat"]
    assert roles(dialogue) == "system user assistant tool assistant tool assistant"
    plain = await dialogue_of(drawn["no coffee"], world, tmp_path)
    assert roles(plain) == "system user assistant"
    assert plain.provenance[0].requests == 0 and not plain.provenance[0].model


async def test_keywords_that_are_asked_for_follow_what_was_found(
    drawn: Drawn, world: World, tmp_path: Path
) -> None:
    """A task of no script: each search is asked for by who sees the last one, so often and no more."""
    asked = list[int]()

    async def keywords(messages: Sequence[Message]) -> str:
        asked.append(len(messages))
        return ["something else", "renew a loan"][min(len(asked), 2) - 1]

    tool = lending.query_of(searching(drawn["renewal"])).pool
    wanted = frozenset({"renew"})
    for gives, count in (({"renew"}, 2), ({"fly"}, ASKED)):
        asked.clear()
        hi, bye = (Message(role=r, content=t) for r, t in (("user", "Hi"), ("assistant", "Bye")))
        moves = [hi, Searching((), frozenset(gives)), bye]
        script, messages = Script(moves, keywords), list[Message]()
        environment = Environment(tool, [], Finder(SearchPlan(found=1)).search)
        if gives == wanted:
            await play(messages, script, script, environment)
            assert messages[-1].content == "Bye"
        else:
            with pytest.raises(Unplayable, match="finds fly"):
                await play(messages, script, script, environment)
        assert asked == [1 + 2 * number for number in range(count)]


async def test_what_no_search_finds_is_not_called(
    drawn: Drawn, world: World, tmp_path: Path
) -> None:
    """The dialogue is kept as far as it came, with the reason."""

    async def nothing(apis: Sequence[Api], keywords: str) -> list[JsonObject]:
        return []

    need = searching(drawn["renewal"])
    (fallen,) = (await played(need, world, tmp_path, nothing)).rejected
    assert fallen.reason is Reason.SEARCH_SKIPPED and "finds list_loans" in fallen.detail
    assert len(fallen.record["messages"]) == 6  # of two searches


async def test_a_refused_search_costs_the_dialogue_and_not_the_run(
    drawn: Drawn, world: World, tmp_path: Path
) -> None:
    """An endpoint of embeddings may refuse one text: it is told, with its answer."""

    async def refused(apis: Sequence[Api], keywords: str) -> list[JsonObject]:
        raise RequestRefused("400: too long", "the whole answer")

    need = searching(drawn["renewal"])
    (fallen,) = (await played(need, world, tmp_path, refused)).rejected
    assert (fallen.reason, fallen.raw) == (Reason.REQUEST_REFUSED, ("the whole answer",))


async def test_a_fork_goes_its_own_way(drawn: Drawn, world: World) -> None:
    """From the state that the calls so far have brought about: what one changes the other has not."""
    asked, machine = lending.query_of(drawn["fines first"]), Machine(world.spec)
    assert asked.setting
    session = WorldSession(machine, asked.setting, moment_of(asked))
    whole = Environment(asked.pool, [session])
    pay = asked.intent[2].arguments
    fork = whole.fork()
    await fork.call("pay_fines", pay)
    assert [change[2] for change in fork.changes()] == ["fines"] and not whole.changes()
    again = await fork.fork().call("pay_fines", pay)
    assert (again.observation.error is None) is False  # paid already
    assert (await whole.call("pay_fines", pay)).observation.error is None
    assert (await whole.call("fly", {})).observation.error
