"""Tasks: solved before they are worded, each call needed, each argument known, by seed."""

from __future__ import annotations

import dataclasses
import json
from collections import Counter, defaultdict
from functools import cache
from itertools import pairwise, permutations
from pathlib import Path
from typing import Any

import pytest
import yaml

from toolloom.pipeline.checks.world.interpreter import Machine
from toolloom.pipeline.checks.world.outcome import Acted, broken_policies, difference
from toolloom.pipeline.checks.world.reading import read_world
from toolloom.pipeline.sampling.values import rng_for
from toolloom.pipeline.worlds.library import load_world
from toolloom.pipeline.worlds.lookups import keys_in, keys_shown, lookups_of
from toolloom.pipeline.worlds.plans import MOST_CALLS, MOST_TURNS
from toolloom.pipeline.worlds.scenarios import SCENARIOS, TaskSize
from toolloom.pipeline.worlds.tasks import Task, TaskCall, draw_task, faults, tasks
from toolloom.pipeline.worlds.wants import as_text

ROOT = Path(__file__).parents[3]
WORLDS = {"lending": ROOT / "tests" / "support" / "library.yaml"} | {
    path.stem: path
    for path in sorted((ROOT / "recipes" / "worlds").glob("*.yaml"))
    if "scripts" not in path.name
}
EACH_TIME = ("lending", "shop", "bank")  # of few rules, of things on sale, of sums and limits
SHARED = [
    pytest.param(world, marks=() if world in EACH_TIME else pytest.mark.slow) for world in WORLDS
]
# One world after the other, so that a worker draws the tasks of few.
every_world = pytest.mark.parametrize("world", SHARED, scope="module")


COUNT = 60


@cache
def drawn(world: str, scenario: str | None = None) -> tuple[Machine, list[Task]]:
    machine = Machine(load_world(WORLDS[world]))
    return machine, [task for task in tasks(machine, 5, COUNT, scenario) if task]


@every_world
def test_most_seeds_give_a_task(world: str) -> None:
    """Of one to eight calls and one to four turns; none at all only where nothing may be done."""
    _, found = drawn(world)
    assert len(found) >= COUNT * 0.95
    for task in found:
        assert len(task.calls) <= MOST_CALLS
        assert 1 <= len(task.turns) <= MOST_TURNS
        assert task.calls or task.avoided


@every_world
def test_a_task_replayed_reaches_its_goal(world: str) -> None:
    """The same responses, errors and changes; no policy is broken, nothing is missing."""
    machine, found = drawn(world)
    for task in found:
        state = task.start
        for call in task.calls:
            state, response, error = machine.apply(state, call.name, call.arguments, task.now)
            assert (response, error) == (call.response, call.error)
        assert difference(machine, task.start, state) == task.changes
        acts = [Acted(call.name, call.arguments, call.agreed) for call in task.calls]
        assert not list(broken_policies(machine, task.start, task.now, acts))
        assert not faults(machine, task, task.calls)


@every_world
def test_no_call_can_be_left_out(world: str) -> None:
    """Without it the goal is missed, an argument unknown, a fact untold or a policy broken."""
    machine, found = drawn(world)
    for task in found:
        for number in range(len(task.calls)):
            rest = [*task.calls[:number], *task.calls[number + 1 :]]
            assert faults(machine, task, rest), as_text(task)


@every_world
def test_every_argument_has_a_source(world: str) -> None:
    """A key comes from the result of an earlier call, another value from a result or a turn."""
    machine, found = drawn(world)
    for task in found:
        for number, call in enumerate(task.calls):
            kinds = machine.operations[call.name].args
            keys = {path: key for path, _, key in keys_in(call.arguments, kinds)}
            sources = {source.path: source for source in call.sources}
            assert keys.keys() <= sources.keys()
            for path, source in sources.items():
                assert source.turn is None or source.turn <= call.turn
                if path in keys and source.form != "me":
                    assert source.call is not None
                    assert source.call < number
                    value = task.calls[source.call].response
                    for step in source.where:
                        value = value[step]
                    assert value == keys[path]
                    assert source.label


@every_world
def test_what_is_said_stands_in_a_turn(world: str) -> None:
    """Each value that comes from the user is in the turn that its source names, or in a name there;
    so is the name of each row."""
    _, found = drawn(world)
    for task in found:
        spoken = [
            [
                *(str(part.value) for part in turn.said),
                *(str(v) for s in turn.said for _, v in s.label),
            ]
            for turn in task.turns
        ]
        for call in task.calls:
            for source in call.sources:
                value: Any = call.arguments
                for step in source.path:
                    value = value[step]
                if source.form == "said" and source.turn is not None:
                    before = [text for turn in spoken[: source.turn + 1] for text in turn]
                    wanted = str(value)
                    if isinstance(value, str):
                        assert any(wanted in text for text in before), as_text(task)
                    else:
                        assert wanted in before, as_text(task)
                for _, label in source.label:
                    assert any(label in turn for turn in spoken), as_text(task)


@every_world
def test_what_decides_is_seen_first(world: str) -> None:
    """Before a refusal the reads that show on what its policy depends, where there are any; what
    the user chooses from was listed in an earlier turn, and there are two or more of it."""
    machine, found = drawn(world)
    lookups = lookups_of(machine)
    for task in found:
        if task.avoided and task.avoided.why not in ("missing", "declined"):
            shown = {field for call in task.calls for field in lookups.shown[call.name]}
            for entity, field in lookups.grounds[task.avoided.name, task.avoided.why] - shown:
                ways = [name for name in lookups.reads if (entity, field) in lookups.shown[name]]
                for name in ways:  # one that wants nothing could have been asked
                    kinds = machine.operations[name].args.values()
                    assert not all(kind.get("optional") for kind in kinds), as_text(task)
        for row in task.rows:
            if task.turns[row.turn].form == "choose":
                before = [c for c in task.calls if c.turn < row.turn and not c.error]
                listed = [
                    {
                        s.key
                        for s in keys_shown(
                            machine.world["operations"][c.name]["shape"], c.response
                        )
                        if s.entity == row.entity
                    }
                    for c in before
                ]
                assert any(row.key in keys for keys in listed), as_text(task)


@every_world
def test_what_was_said_is_not_asked_for(world: str) -> None:
    """The value that answers a question stands in no call before it."""
    _, found = drawn(world)
    for task in found:
        for number, turn in enumerate(task.turns):
            if turn.form != "answer":
                continue
            before = [str(v) for c in task.calls if c.turn < number for v in c.arguments.values()]
            plain = [str(part.value) for part in turn.said if not part.label]
            assert not set(plain) & set(before), as_text(task)


@every_world
def test_one_more_change_is_seen(world: str) -> None:
    """A right solution with another task's last change at its end does not reach the goal."""
    machine, found = drawn(world)
    tried = 0
    for task, other in permutations(found, 2):
        if task.start is not other.start or not other.calls or other.calls[-1].error:
            continue
        more = dataclasses.replace(other.calls[-1], agreed=True)
        state = task.start
        for call in task.calls:
            state, _, _ = machine.apply(state, call.name, call.arguments, task.now)
        after, _, error = machine.apply(state, more.name, more.arguments, task.now)
        if error is None and difference(machine, state, after):
            tried += 1
            assert faults(machine, task, [*task.calls, more])
    assert tried >= 4


@every_world
def test_what_must_not_be_done_is_not_done(world: str) -> None:
    """Refused, declined, or without the operation: nothing changes."""
    _, found = drawn(world)
    for task in found:
        if task.avoided:
            assert task.changes == []
            assert task.avoided.name not in {call.name for call in task.calls}
            assert (task.avoided.name in task.offered) == (task.avoided.why != "missing")


@every_world
def test_equal_seeds_draw_equal_tasks(world: str) -> None:
    """A task can be drawn again, by itself among others."""
    machine = Machine(load_world(WORLDS[world]))
    one, two = (
        [json.dumps(dataclasses.asdict(task)) for task in tasks(machine, 9, 8) if task]
        for _ in "ab"
    )
    assert one == two
    assert len(set(one)) >= 6


@every_world
def test_scenarios_are_what_they_say(world: str) -> None:
    """An error is met and overcome, a question put back, a yes waited for. Each comes up in the
    bank; elsewhere those that any state allows."""
    by = defaultdict(list)
    for task in drawn(world)[1]:
        by[task.scenario].append(task)
    anywhere = {"single", "parallel", "multi_turn", "irrelevance"}
    assert by.keys() >= {"sequential", *(SCENARIOS if world == "bank" else anywhere)}
    assert all(task.calls[-1].error is None for task in by["error_recovery"])
    assert all(any(call.error for call in task.calls) for task in by["error_recovery"])
    assert all("answer" in [turn.form for turn in task.turns] for task in by["clarification"])
    assert all(2 <= sum(t.form == "ask" for t in task.turns) <= 4 for task in by["multi_turn"])
    assert all(not task.calls for task in by["irrelevance"])
    assert all(task.avoided and "." in task.avoided.why for task in by["refusal"])


@every_world
@pytest.mark.parametrize("size", [TaskSize((6, 8)), TaskSize(turns=(3, 4))], ids=["calls", "turns"])
def test_long_tasks_can_be_had(world: str, size: TaskSize) -> None:
    """Of as many calls or turns as are asked for, each call needed, each want with calls of its own
    and unlike the others. They come seldom where a world's rules want much looked at, as an
    airline's."""
    machine = Machine(load_world(WORLDS[world]))
    found = [draw_task(machine, rng_for("long", n), size=size) for n in range(6)]
    assert sum(task is not None for task in found) >= (1 if world == "flights" else 4)
    for task in filter(None, found):
        assert size.fits(len(task.calls), len(task.turns))
        asks = [number for number, turn in enumerate(task.turns) if turn.form == "ask"]
        for first, after in pairwise([*asks, len(task.turns)]):
            assert any(first <= call.turn < after for call in task.calls), as_text(task)
        assert not any(turn.asks for turn in task.turns if turn.form != "ask")
        later = [name for number in asks[1:] for name in task.turns[number].operations]
        assert len(set(later)) == len(later), as_text(task)
        for number in range(len(task.calls)):
            rest = [*task.calls[:number], *task.calls[number + 1 :]]
            assert faults(machine, task, rest), as_text(task)


@pytest.mark.parametrize("world", SHARED[1:], scope="module")
def test_tasks_of_every_number_of_calls_come_up(world: str) -> None:
    """From one to eight, the longest of them among those of several wants; they come seldom in an
    airline's and a restaurant's."""
    _, found = drawn(world)
    depths = Counter(len(task.calls) for task in [*found, *drawn(world, "multi_turn")[1]])
    assert depths.keys() >= {*range(1, 7 if world in ("flights", "restaurant") else 8)}


@every_world
def test_a_later_want_says_which_of_two_rows_it_is_about(world: str) -> None:
    """After two were spoken of, "it" would be either."""
    machine, found = drawn(world, "multi_turn")
    tried = 0
    for task in found:
        for call in task.calls:
            turn = task.turns[call.turn]
            rows = {row.key: row for row in task.rows}
            for _, entity, key in keys_in(call.arguments, machine.operations[call.name].args):
                before = [r for r in task.rows if r.entity == entity and r.turn < call.turn]
                asked = turn.form == "ask" and call.name in turn.operations
                if asked and key in rows and len(before) > 1:
                    tried += 1
                    assert rows[key].label in [said.label for said in turn.said]
    assert tried > 5 or world not in ("lending", "shop")


def test_a_world_without_an_actor_has_tasks_too() -> None:
    """The till of docs/worlds.md: a list that takes no arguments is looked up as it is."""
    text = (ROOT / "docs" / "worlds.md").read_text().split("```yaml")[1].split("```")[0]
    raw = yaml.load(text, yaml.BaseLoader)
    machine = Machine(read_world(raw, lambda *fault: pytest.fail(str(fault))))
    found = [task for task in tasks(machine, 1, 12) if task]
    assert any([call.name for call in t.calls] == ["list_accounts", "pay_in"] for t in found)
    assert not any(faults(machine, task, task.calls) for task in found)


def test_calls_before_what_they_need_are_no_solution() -> None:
    """The same calls in another order use keys that nothing has shown yet, or fail."""
    machine, found = drawn("shop")
    chains = [t for t in found if t.calls and any(s.call == 0 for s in t.calls[-1].sources)]
    for task in chains:
        turned: list[TaskCall] = [*task.calls[1:], task.calls[0]]
        assert faults(machine, task, turned), as_text(task)
