"""Tasks: solved before they are worded, each call needed, each argument known, by seed."""

from __future__ import annotations

from collections import Counter, defaultdict
from functools import cache
from itertools import pairwise
from pathlib import Path

import pytest
import yaml

from toolloom.pipeline.checks.schema import texts_in
from toolloom.pipeline.checks.world.interpreter import Machine, difference
from toolloom.pipeline.checks.world.outcome import Acted, broken_policies
from toolloom.pipeline.checks.world.reading import read_world
from toolloom.pipeline.worlds.library import load_world
from toolloom.pipeline.worlds.operations import Lookups, leaves
from toolloom.pipeline.worlds.sampler import play_of
from toolloom.pipeline.worlds.scripts import as_text
from toolloom.pipeline.worlds.tasks import (
    MOST_CALLS,
    MOST_TURNS,
    SCENARIOS,
    PlayedCall,
    Task,
    tasks,
)
from toolloom.schemas import WorldPlan

ROOT = Path(__file__).parents[3]
WORLDS = {"lending": ROOT / "tests" / "support" / "library.yaml"} | {
    path.stem: path
    for path in sorted((ROOT / "recipes" / "worlds").glob("*.yaml"))
    if "scripts" not in path.name
}
EACH_TIME = ("lending", "shop", "clinic")  # of few rules, of things on sale, of slots to choose
SHARED = [
    pytest.param(world, marks=() if world in EACH_TIME else pytest.mark.slow) for world in WORLDS
]
# One world after the other, so that a worker draws the tasks of few.
every_world = pytest.mark.parametrize("world", SHARED, scope="module")

COUNT = 40


@cache
def drawn(world: str) -> tuple[Machine, list[Task]]:
    machine = Machine(load_world(WORLDS[world]))
    return machine, [task for task in tasks(machine, 5, COUNT) if task]


def faults(task: Task, calls: list[PlayedCall]) -> list[str]:
    """What these calls, made anew, lack to be a solution."""
    return list(task.shortfalls(task.replayed(calls)))


@every_world
def test_a_task_replayed_reaches_its_goal(world: str) -> None:
    """Of one to eight calls and one to four turns: the same responses, errors and changes; no
    policy is broken, nothing is missing. Hardly a number is without a task."""
    machine, found = drawn(world)
    assert len(found) >= COUNT * 0.95
    for task in found:
        assert len(task.calls) + bool(task.avoided) > 0 and len(task.calls) <= MOST_CALLS
        assert 1 <= len(task.turns) <= MOST_TURNS
        state = task.start
        for call in task.calls:
            state, response, error = machine.apply(state, call.name, call.arguments, task.now)
            assert (response, error) == (call.response, call.error)
        assert difference(machine, task.start, state) == task.changes
        acts = [Acted(call.name, call.arguments, call.agreed) for call in task.calls]
        assert not list(broken_policies(machine, task.start, task.now, acts))
        assert not faults(task, task.calls)


@every_world
def test_no_call_can_be_left_out(world: str) -> None:
    """Without it the goal is missed, an argument unknown, a fact untold or a policy broken; and no
    key is used before it was seen."""
    _, found = drawn(world)
    for task in found:
        for number in range(len(task.calls)):
            rest = [*task.calls[:number], *task.calls[number + 1 :]]
            assert faults(task, rest), as_text(play_of(task))
        *before, last = task.calls or [None]
        keys = task.lookups.keys(last.name, last.arguments) if last else []
        if last and any(key != task.start["me"] for _, key in keys):
            assert faults(task, [last, *(call for call in before if call)])


@every_world
def test_what_a_call_takes_is_known(world: str) -> None:
    """A key stands in an earlier result, beside what a turn says of its row, which is not the key.
    Another value is said by then, as it is or in a name, or stands in a result."""
    machine, found = drawn(world)
    for task in found:
        names = [row.label for row in task.rows.values()]
        for number, call in enumerate(task.calls):
            parts = [part for turn in task.turns[: call.turn + 1] for part in turn.said]
            said = [str(part.value) for part in parts] + [str(v) for p in parts for _, v in p.label]
            seen = {t for each in task.calls[:number] for t in texts_in(each.response)}
            kinds = {"type": "object", "fields": machine.operations[call.name].args}
            for _, kind, value in leaves(kinds, call.arguments):
                row = task.rows.get((kind.get("entity", ""), value))
                if kind["type"] != "ref":
                    assert value in seen or any(str(value) in text for text in said)
                elif value != task.start["me"]:
                    assert value in seen and row and row.label in names
                    assert value not in dict(row.label).values()
                    assert all(str(word) in said for _, word in row.label), as_text(play_of(task))


@every_world
def test_what_decides_is_seen_first(world: str) -> None:
    """Before a refusal the reads that show on what its policy depends, where there are any."""
    machine, found = drawn(world)
    lookups = Lookups(machine)
    for task in found:
        avoided = task.avoided
        if avoided and avoided.why not in ("missing", "declined"):
            shown = {field for call in task.calls for field in lookups.shown[call.name]}
            here = task.start, task.now, avoided.name, avoided.arguments, avoided.why
            for place in lookups.decisive(*here) - shown:
                for name in lookups.reads:  # one that wants nothing could have been asked
                    kinds = lookups.kinds(name).values()
                    free = all(kind.get("optional") for kind in kinds)
                    assert not (place in lookups.shown[name] and free), as_text(play_of(task))


@every_world
def test_scenarios_are_what_they_say(world: str) -> None:
    """An error is met and overcome, a question put back, a yes waited for, and what must not be
    done is not. Nearly all come up in the clinic; elsewhere those that any state allows."""
    _, found = drawn(world)
    by = defaultdict(list)
    for task in found:
        by[task.scenario].append(task)
        if avoided := task.avoided:
            assert not task.changes and avoided.name not in {c.name for c in task.calls}
            assert (avoided.why == "missing") == (task.missing == avoided.name)
        for number, turn in enumerate(task.turns):
            if turn.form == "answer":  # what was said before is not asked for
                before = [v for c in task.calls if c.turn < number for v in c.arguments.values()]
                values = [part.value for part in turn.said if not part.label]
                assert values and not any(value in before for value in values)
    anywhere = {"sequential", "parallel", "multi_turn", "irrelevance"}
    anywhere |= {"refusal"} if world == "shop" else set()  # also where nothing need be looked up
    assert by.keys() >= anywhere and (world != "clinic" or len(by) >= len(SCENARIOS))
    assert all(any(call.error for call in task.calls) for task in by["error_recovery"])
    assert all(task.calls[-1].error is None for task in by["error_recovery"])
    assert all("answer" in [turn.form for turn in task.turns] for task in by["clarification"])
    assert all(2 <= sum(t.form == "ask" for t in task.turns) <= 4 for task in by["multi_turn"])
    assert all(not task.calls for task in by["irrelevance"])
    assert all(task.avoided and "." in task.avoided.why for task in by["refusal"])


def test_equal_seeds_draw_equal_tasks() -> None:
    """A task can be drawn again, by itself among others."""
    machine, found = drawn("shop")
    again = [as_text(play_of(task)) for task in tasks(machine, 5, 8) if task]
    assert again == [as_text(play_of(task)) for task in found[: len(again)]]
    assert len(set(again)) >= 6


@every_world
@pytest.mark.parametrize(
    "plan",
    [WorldPlan(calls=(6, 8), turns=(1, 4)), WorldPlan(calls=(0, 8), turns=(3, 4))],
    ids=["calls", "turns"],
)
def test_long_tasks_can_be_had(world: str, plan: WorldPlan) -> None:
    """Of as many calls or turns as are asked for, each want with calls of its own and unlike the
    others, and clear about which of several rows it is. They come seldom where a world's rules
    want much looked at, as an airline's."""
    machine = Machine(load_world(WORLDS[world]))
    found = [task for task in tasks(machine, "long", 6, plan) if task]
    assert len(found) >= (1 if world == "flights" else 4)
    for task in found:
        assert plan.lets_in(len(task.calls), len(task.turns)) and not faults(task, task.calls)
        asks = [number for number, turn in enumerate(task.turns) if turn.form == "ask"]
        for first, after in pairwise([*asks, len(task.turns)]):
            assert any(first <= call.turn < after for call in task.calls), as_text(play_of(task))
        wanted = Counter(name for number in asks for name in task.turns[number].operations)
        assert set(wanted.values()) == {1}
        rows = task.rows
        for call in task.calls:
            turn = task.turns[call.turn]
            for place in task.lookups.keys(call.name, call.arguments):
                if turn.form == "ask" and call.name in turn.operations and place in rows:
                    assert rows[place].label in [part.label for part in turn.said]


def test_a_world_without_an_actor_has_tasks_too() -> None:
    """The till of docs/worlds.md: a list that takes no arguments is looked up as it is."""
    page = (ROOT / "docs" / "worlds.md").read_text().split("```yaml")
    raw, policies = (yaml.load(page[n].split("```")[0], yaml.BaseLoader) for n in (1, 2))
    raw |= policies  # and its policies, one of each kind
    machine = Machine(read_world(raw, lambda *fault: pytest.fail(str(fault))))
    found = [task for task in tasks(machine, 1, 12) if task]
    assert len(machine.world["policies"]) == 4
    assert any([call.name for call in t.calls] == ["list_accounts", "pay_in"] for t in found)
    assert not any(faults(task, task.calls) for task in found)
