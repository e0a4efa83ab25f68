"""Draws what users need in worlds: a script, and a start state in which every word of it is true.

States are drawn one after the other by seed, each is tried on the scripts that still want rows, for
everybody who may speak in it, and gives at most `PER_STATE` of them, so that rows differ in people,
days and stock, and not only in words. A script that no state fits has run dry. A row is a need: it
says the start state, the goal and the script, which plays again from the same seed, word for word.
"""

from __future__ import annotations

import datetime as dt
import random
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import islice
from typing import Any

from toolloom.pipeline.checks.world.interpreter import Json, Machine, State, difference
from toolloom.pipeline.processes import in_processes
from toolloom.pipeline.sampling.draw import shares
from toolloom.pipeline.sampling.groups import Group
from toolloom.pipeline.sampling.values import rng_for
from toolloom.pipeline.worlds.library import briefing, scripts_of, written_by_model
from toolloom.pipeline.worlds.scripts import (
    MadeCall,
    Play,
    WorldScript,
    play_in,
    scenario_of,
    script_name,
)
from toolloom.pipeline.worlds.solved import given_tasks, play_of
from toolloom.pipeline.worlds.states import StartStates
from toolloom.pipeline.worlds.tasks import tasks
from toolloom.schemas import (
    Ability,
    Api,
    Intention,
    Need,
    Recipe,
    Scenario,
    Setting,
    Split,
    Turn,
    World,
    WorldError,
    WorldGoal,
    WorldPlan,
    digest,
    seed_for,
)
from toolloom.schemas.splits import SEEN, split_of_need, split_of_script, zone

PER_STATE = 2  # rows of different scripts
DRY = 5  # rows after one another without a task: the world has none of that kind
MANY = 60  # rows from which on worlds are drawn from in processes side by side
RARE = 30  # states for a row of a script, after which it leaves what it has not given to others
STATES = 500  # drawn of a world, and
STATES_A_ROW = 80  # more for each row that a script may give


@dataclass
class Sampler:
    """A world of a run, ready to be drawn from. Each row gets an ability, in the recipe's
    proportions and an order by seed, and a pool of APIs."""

    recipe: Recipe
    world: World
    apis: Sequence[Api]  # of the run
    # What rows are drawn for, if not for a run's queries: in other states, and no longer than a
    # script keeps giving rows.
    purpose: str = ""
    drawn: int = 0  # states so far
    machine: Machine = field(init=False)
    starts: StartStates = field(init=False)
    scripts: list[WorldScript] = field(init=False)
    _said: set[tuple[int, str]] = field(default_factory=set)
    _owed: list[Ability] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.machine = Machine(self.world.spec)
        self.starts = StartStates(self.machine, self._plan.state_of(self.world.name))
        self.scripts = scripts_of(self.world, self.machine)
        self._hash = self.world.hash
        self._own = [api for api in self.apis if api.source.reference == self.world.name]
        taken = {api.function for api in self._own}
        near = _near(self.recipe, self.world, self.apis)
        self._others = Group([api for api in near if api.function not in taken])
        self._abilities = self._drawn_abilities()

    @property
    def _plan(self) -> WorldPlan:
        return self.recipe.played or WorldPlan()

    def start(self, number: int) -> tuple[str, State]:
        """Moment and state of a number."""
        return self.starts.draw(rng_for(*self._parts("state", number)))

    def rows(self, wanted: Mapping[int, int], name: Callable[[int, int], str]) -> Iterator[Need]:
        """As many rows of each script as are `wanted`, by its number, in states that were not
        drawn before; `name`: the id of a script's row of a number. A script that few states fit
        leaves its rows to those of which the fewest are wanted, as long as they may give more."""
        given: Counter[int] = Counter()
        tried: Counter[int] = Counter()
        wanted, heirs = dict(wanted), [] if self.purpose else list(wanted)
        most = STATES + STATES_A_ROW * max(wanted.values(), default=0)
        for number in range(self.drawn, self.drawn + most):
            lacking = [
                place
                for place, count in wanted.items()
                if given[place] < count
                and (not self.purpose or tried[place] < STATES + STATES_A_ROW * given[place])
            ]
            if not lacking:
                break
            self.drawn = number + 1
            now, state = self.start(number)
            for place in lacking:
                if tried[place] >= RARE * (given[place] + 1):
                    heirs = [heir for heir in heirs if heir != place]
                    self._leave(wanted, place, given[place], heirs)
            lacking = [place for place in lacking if given[place] < wanted[place]]
            # What fits seldom comes first, or it would find the state taken.
            lacking.sort(key=lambda place: ((given[place] + 1) / (tried[place] + 1), place))
            taken = 0
            for place in lacking:
                tried[place] += 1
                script = self.scripts[place]
                seed = seed_for(*self._parts("script", script.name, number))
                for seen in self.starts.speakers(state):
                    row = play_in(script, self.machine, seen, now, random.Random(seed))
                    if row is None:
                        continue
                    scenario = scenario_of(script, row, self.machine)
                    if self._takes(place, row, scenario):
                        called = name(place, given[place])
                        yield self.need(row, called, scenario, script.searches, seed)
                        given[place] += 1
                        taken += 1
                        break
                if taken == PER_STATE:
                    break

    def _leave(self, wanted: dict[int, int], place: int, given: int, heirs: Sequence[int]) -> None:
        """Leave what a script has not given to others, as far as they may give more."""
        while wanted[place] > given:
            heir = min(heirs, key=lambda heir: wanted[heir], default=place)
            if heir == place or wanted[heir] == self._plan.per_script:
                return
            wanted[heir] += 1
            wanted[place] -= 1

    def _takes(self, place: int, row: Play, scenario: Scenario) -> bool:
        """Whether a row says what no other row of its script says, and the recipe's dials let it
        in."""
        said = place, digest([text for _, text in row.words], 16)
        turns = sum(role == "user" for role, _ in row.messages)
        fits = self._plan.lets_in(len(row.calls), turns)
        if said in self._said or not fits or scenario not in (self._plan.scenarios or Scenario):
            return False
        self._said.add(said)
        return True

    def need(
        self,
        row: Play,
        name: str,
        scenario: Scenario,
        searches: bool = True,
        seed: int = 0,
        missing: str = "",
    ) -> Need:
        """A row as a need, of a script that is played from a seed or of a task whose words are
        missing; `missing`: an operation that the assistant has not."""
        turns, start = _calls_by_turn(row), row.start
        rng = rng_for(self.recipe.seed, "worlds", name, "pool")
        own = {api.source.operation: api for api in self._own if api.source.operation != missing}
        pool = [api.bare() for api in own.values()]
        # Where something that the user says leads to no call, the assistant may say that it has no
        # tool for it, which another world's tool would make a lie.
        if all(turns) and self._others.apis:
            others = self._others.offer((), self.recipe.queries.distractors, rng)
            pool += [api.bare() for api in others]
        rng.shuffle(pool)
        tables = {n: {str(k): r for k, r in rows.items()} for n, rows in start["tables"].items()}
        state: Json = {"me": start["me"], "next": dict(start["next"]), "tables": tables}
        facts = {(fact.field, fact.said): fact for fact in row.facts}
        words = [text for _, text in row.words]
        plan = zip(words[::2], words[1::2], strict=True) if not row.script else ()
        return Need(
            id=name,
            ability=self._ability(turns, searches),
            scenario=scenario,
            now=dt.datetime.fromisoformat(row.now),
            pool=tuple(pool),
            intent=tuple(
                Intention(api=own[call.name].id, turn=turn, arguments=call.arguments)
                for turn, calls in enumerate(turns)
                for call in calls
            ),
            text=words[0] if row.script else "",
            setting=Setting(
                world=self.world.name,
                hash=self._hash,
                script=row.script,
                start=state,
                told=tuple(briefing(self.machine, start)),
                goal=WorldGoal(
                    changes=tuple(tuple(c) for c in difference(self.machine, start, row.end)),
                    facts=tuple(facts.values()),
                ),
                seed=seed,
                plan=tuple(Turn(user=user, assistant=reply) for user, reply in plan),
            ),
        )

    def _ability(self, turns: Sequence[Sequence[MadeCall]], searches: bool) -> Ability:
        """The next of the abilities; where a script does not say what to search for, another row
        searches instead."""
        ability = next(self._abilities)
        if ability.searches and not searches:
            self._owed.append(ability)
            ability = Ability.CALL
        elif searches and self._owed and not ability.searches:
            ability = self._owed.pop(0)
        most = max(len({call.name for call in calls}) for calls in turns)
        if ability is Ability.PLAN_RETRIEVE_CALL and most < 2:
            return Ability.RETRIEVE_CALL  # no request takes several APIs
        return ability

    def _drawn_abilities(self) -> Iterator[Ability]:
        weights = self.recipe.queries.abilities
        total = sum(weights.values())
        order = [a for a, weight in weights.items() for _ in range(round(20 * weight / total))]
        rng = rng_for(self.recipe.seed, "worlds", self.world.name, "abilities")
        while True:
            rng.shuffle(order)
            yield from order

    def _parts(self, *parts: Any) -> tuple[Any, ...]:
        named = (self.purpose,) if self.purpose else ()
        return self.recipe.seed, "worlds", self.world.name, *named, *parts


def draw_world_needs(
    recipe: Recipe, worlds: Sequence[World], apis: Iterable[Api]
) -> Iterator[Need]:
    """The needs that a recipe draws in its worlds, world after world.

    Raises WorldError for a world whose rules leave it no state, for one without what is needed,
    and where nothing can be drawn, for want of which there would be no run.
    """
    plan, anew = recipe.played, recipe.regenerate
    if plan is None or not worlds:
        return
    known = list(apis)
    drawn = _draw_scripts
    if written_by_model(recipe):
        drawn = _given_needs if plan.tasks else _draw_tasks
    count = 0
    for need in drawn(recipe, plan, worlds, known):
        if anew is None or split_of_need(recipe.splits, need) is anew.split:
            count += 1
            yield need
    if not count and all(api.source.kind == "world" for api in known):
        raise WorldError(
            f"worlds: nothing can be drawn in {' and '.join(world.name for world in worlds)}"
            f"{f' for the split {anew.split}' if anew else ''}: no state meets a script that "
            "`calls`, `turns` and `scenarios` let in. Widen these, or look with "
            "`toolloom world proof` at which scripts run dry."
        )


def _draw_scripts(
    recipe: Recipe, plan: WorldPlan, worlds: Sequence[World], known: Sequence[Api]
) -> Iterator[Need]:
    """Rows of scripts, with their words."""
    wanted = parted(recipe, plan, worlds)
    many = sum(sum(each.values()) for each in wanted) >= MANY
    tasks = [(recipe, world, known, each) for world, each in zip(worlds, wanted, strict=True)]
    for needs in in_processes(_rows, tasks, None if many else 1):
        yield from needs


def _rows(task: tuple[Recipe, World, Sequence[Api], Mapping[int, int]]) -> list[Need]:
    """A recipe's rows of a world; in a process of its own."""
    recipe, world, known, wanted = task
    begin = f"{world.name}-{recipe.seed}"
    sampler = Sampler(recipe, world, known)
    return list(sampler.rows(wanted, lambda script, use: f"{begin}-{script:03d}-{use:02d}"))


def parted(recipe: Recipe, plan: WorldPlan, worlds: Sequence[World]) -> list[dict[int, int]]:
    """How many rows of each script are wanted, by world, in an order by seed: once each, then
    twice, and so on."""
    anew = recipe.regenerate
    places = [
        (place, script)
        for place, world in enumerate(worlds)
        for script, spec in enumerate(world.scripts)
        if anew is None
        or split_of_script(recipe.splits, world, script_name(spec, script)) is anew.split
    ]
    # All worlds alike, however many scripts they have: the n-th script of each, then the next.
    rng_for(recipe.seed, "worlds", "order").shuffle(places)
    turns: Counter[int] = Counter()
    order = []
    for place, script in places:
        order.append((turns[place], place, script))
        turns[place] += 1
    order.sort()
    most = len(order) * plan.per_script
    rows = most if plan.rows is None else min(plan.rows, most)
    wanted: list[dict[int, int]] = [{} for _ in worlds]
    for number, (_, place, script) in enumerate(order):
        wanted[place][script] = rows // len(order) + (number < rows % len(order))
    return wanted


def _draw_tasks(
    recipe: Recipe, plan: WorldPlan, worlds: Sequence[World], known: Sequence[Api]
) -> Iterator[Need]:
    """Needs whose calls are settled and whose words are missing, as many of each world."""
    rows = plan.rows or recipe.queries.count
    counts = shares(dict.fromkeys(range(len(worlds)), 1.0), rows)
    for world, count in zip(worlds, counts.values(), strict=True):
        sampler, dry = Sampler(recipe, world, known), 0
        seed = [recipe.seed, "worlds", world.name]
        for number, task in enumerate(tasks(sampler.machine, seed, count, plan, sampler.starts)):
            dry = 0 if task else dry + 1
            if dry == DRY:
                break
            if task is None:
                continue
            name = f"{world.name}-{recipe.seed}-t{number:05d}"
            scenario = Scenario(task.scenario)
            yield sampler.need(play_of(task), name, scenario, missing=task.missing)


def _given_needs(
    recipe: Recipe, plan: WorldPlan, worlds: Sequence[World], known: Sequence[Api]
) -> Iterator[Need]:
    """Needs of the tasks that a recipe gives, whose words are missing."""
    samplers = {world.name: Sampler(recipe, world, known) for world in worlds}
    machines = {name: sampler.machine for name, sampler in samplers.items()}
    for number, (name, task, row) in enumerate(islice(given_tasks(plan, machines), plan.rows)):
        need = samplers[name].need(row, f"{name}-{recipe.seed}-g{number:05d}", task.kind)
        if task.changes is not None and need.setting:
            goal = need.setting.goal.model_copy(update={"changes": task.changes})
            setting = need.setting.model_copy(update={"goal": goal})
            need = need.model_copy(update={"setting": setting})
        yield need


def _near(recipe: Recipe, world: World, known: Sequence[Api]) -> list[Api]:
    """Operations of the world that was drawn to stand beside this one, as far as they may
    be shown in its splits."""
    own = {name for api in known if api.source.reference == world.name for name in api.collections}
    hidden = () if zone(recipe.splits, world.category, world.tool) not in SEEN else SEEN
    return [
        api
        for api in known
        if api.source.kind == "world"
        and api.source.reference != world.name
        and own & set(api.collections)
        and (not hidden or zone(recipe.splits, api.category, api.tool) is Split.TRAIN)
    ]


def _calls_by_turn(row: Play) -> list[list[MadeCall]]:
    """The calls after each thing that the user says; those before the first go with it."""
    turns: list[list[MadeCall]] = [[]]
    begun = False
    for role, part in row.messages:
        if isinstance(part, MadeCall):
            turns[-1].append(part)
        elif role == "user":
            turns += [[]] if begun else []
            begun = True
    return turns
