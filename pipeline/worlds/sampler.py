"""Draws what users need in worlds: a script, and a start state in which every word of it is true.

States are drawn one after the other by seed, each is tried on the scripts that still want rows, and
gives at most `PER_STATE` of them, so that rows differ in people, days and stock, and not only in
words. A script that no state fits has run dry. Which script gets which state is settled first, in a
few bytes a row; then the rows are drawn again one at a time, so that memory stays flat however many
there are.
"""

from __future__ import annotations

import datetime as dt
import random
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import groupby
from typing import Any

from toolloom.pipeline.checks.world.interpreter import Json, Machine, State
from toolloom.pipeline.checks.world.outcome import difference
from toolloom.pipeline.processes import in_processes
from toolloom.pipeline.sampling.draw import shares
from toolloom.pipeline.sampling.groups import Group
from toolloom.pipeline.sampling.values import rng_for
from toolloom.pipeline.worlds.library import briefing, scripts_of, written_by_model
from toolloom.pipeline.worlds.scenarios import SCENARIOS, TaskSize
from toolloom.pipeline.worlds.scripts import (
    MadeCall,
    Play,
    WorldScript,
    play_in,
    scenario_of,
    story,
)
from toolloom.pipeline.worlds.states import draw_now, draw_state
from toolloom.pipeline.worlds.tasks import Task, play_of, tasks
from toolloom.schemas import (
    Ability,
    Api,
    Intention,
    Need,
    Recipe,
    Scenario,
    Setting,
    Split,
    Told,
    World,
    WorldError,
    WorldGoal,
    WorldPlan,
    digest,
)
from toolloom.schemas.splits import SEEN, split_of_need, split_of_script, zone

PER_STATE = 2  # rows of different scripts
DRY = 5  # rows after one another without a task: the world has none of that kind
MANY = 60  # rows from which on worlds are searched in processes side by side
STATES = 300  # drawn of a world, and
STATES_A_ROW = 80  # more for each row that a script may give


@dataclass(frozen=True)
class Chance:
    """A row that can be drawn: the script fits the state of this number."""

    state: int
    script: int
    use: int


@dataclass
class WorldDraw:
    """A world of a run, ready to be drawn from: what its scripts gave, and which ran dry."""

    recipe: Recipe
    world: World
    # What is drawn if not needs: in other states, and no longer than a script keeps giving rows.
    purpose: str = ""
    drawn: int = 0  # states so far
    hash: str = field(init=False)
    machine: Machine = field(init=False)
    scripts: list[WorldScript] = field(init=False)
    _told: set[tuple[int, str]] = field(default_factory=set)

    def __post_init__(self) -> None:
        self.hash = self.world.hash
        self.machine = Machine(self.world.spec)
        self.scripts = scripts_of(self.world, self.machine)

    def start(self, number: int) -> tuple[str, State]:
        """Moment and state of a number."""
        rng = self._rng("state", number)
        now = draw_now(rng)
        return now, draw_state(self.machine, rng, now)

    def play(self, chance: Chance, now: str, state: State) -> Play | None:
        script = self.scripts[chance.script]
        rng = self._rng("script", script.name, chance.state)
        return play_in(script, self.machine, state, now, rng)

    def wants(self, script: int, row: Play) -> bool:
        """Whether the recipe's dials let a row in."""
        plan = self.recipe.played or WorldPlan()
        scenario = scenario_of(self.scripts[script], row, self.machine)
        turns = sum(role == "user" for role, _ in row.messages)
        return (
            plan.calls[0] <= len(row.calls) <= plan.calls[1]
            and plan.turns[0] <= turns <= plan.turns[1]
            and (not plan.scenarios or scenario in plan.scenarios)
        )

    def chances(self, wanted: Mapping[int, int]) -> list[Chance]:
        """Where rows can be drawn, as many of each script as are `wanted`, by number of state: of
        states that were not drawn before."""
        found: list[Chance] = []
        given: Counter[int] = Counter()
        tried: Counter[int] = Counter()
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
            # What fits seldom comes first, or it would find the state taken.
            lacking.sort(key=lambda place: ((given[place] + 1) / (tried[place] + 1), place))
            taken = 0
            for place in lacking:
                tried[place] += 1
                chance = Chance(number, place, given[place])
                row = self.play(chance, now, state)
                if row is None:
                    continue
                said = place, digest([m for _, m in row.messages if isinstance(m, str)], 16)
                # Else nothing of it can be seen to differ.
                if said not in self._told and self.wants(place, row):
                    self._told.add(said)
                    found.append(chance)
                    given[place] += 1
                    taken += 1
                    if taken == PER_STATE:
                        break
        return found

    def _rng(self, *parts: Any) -> random.Random:
        named = (self.purpose,) if self.purpose else ()
        return rng_for(self.recipe.seed, "worlds", self.world.name, *named, *parts)


# --- the needs of a run ----------------------------------------------------------------------


def draw_world_needs(
    recipe: Recipe, worlds: Sequence[World], apis: Iterable[Api]
) -> Iterator[Need]:
    """Needs of all worlds, world by world; of a regeneration those of its split alone.

    Each script has its turn before any has its second. Raises WorldError for scripts that are none,
    and where nothing can be drawn, for want of which there would be no run.
    """
    plan, anew = recipe.played, recipe.regenerate
    if plan is None or not worlds:
        return
    known = list(apis)
    draws = [WorldDraw(recipe, world) for world in worlds]
    drawn = _draw_tasks if written_by_model(recipe) else _draw_scripts
    count = 0
    for need in drawn(recipe, plan, draws, known):
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
    recipe: Recipe, plan: WorldPlan, draws: Sequence[WorldDraw], known: Sequence[Api]
) -> Iterator[Need]:
    """Needs with their words: rows of scripts."""
    wanted = parted(recipe, plan, draws)
    many = sum(sum(each.values()) for each in wanted) >= MANY
    searches = [(recipe, draw.world, each) for draw, each in zip(draws, wanted, strict=True)]
    found = in_processes(_found, searches, None if many else 1)
    for draw, chances in zip(draws, found, strict=True):
        begin = f"{draw.world.name}-{recipe.seed}"

        def named(chance: Chance, begin: str = begin) -> str:
            return f"{begin}-{chance.script:03d}-{chance.use:02d}"

        yield from NeedMaker(draw, known).of_scripts(chances, named)


def _found(search: tuple[Recipe, World, Mapping[int, int]]) -> list[Chance]:
    """Where a recipe's rows of a world can be drawn; in a process of its own."""
    recipe, world, wanted = search
    return WorldDraw(recipe, world).chances(wanted)


def parted(recipe: Recipe, plan: WorldPlan, draws: Sequence[WorldDraw]) -> list[dict[int, int]]:
    """How many rows of each script are wanted, by world: once each, then twice, and so on."""
    anew = recipe.regenerate
    places = [
        (place, script)
        for place, each in enumerate(draws)
        for script, spec in enumerate(each.scripts)
        if anew is None or split_of_script(recipe.splits, each.world, spec.name) is anew.split
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
    wanted: list[dict[int, int]] = [{} for _ in draws]
    for number, (_, place, script) in enumerate(order):
        count = rows // len(order) + (number < rows % len(order))
        if count:
            wanted[place][script] = count
    return wanted


def _draw_tasks(
    recipe: Recipe, plan: WorldPlan, draws: Sequence[WorldDraw], known: Sequence[Api]
) -> Iterator[Need]:
    """Needs whose calls are settled and whose words are missing, as many of each world."""
    rows = plan.rows or recipe.queries.count
    counts = shares({str(number): 1.0 for number in range(len(draws))}, rows)
    anew, size = recipe.regenerate, TaskSize(plan.calls, plan.turns)
    # A sequential task is a single want that takes more than one call.
    among = {"single" if s == "sequential" else s.value for s in plan.scenarios} or set(SCENARIOS)

    def fits(task: Task) -> bool:
        return not plan.scenarios or task.scenario in plan.scenarios

    for draw, count in zip(draws, counts.values(), strict=True):
        maker, dry = NeedMaker(draw, known), 0
        seed = [recipe.seed, "worlds", draw.world.name]
        for number, task in enumerate(tasks(draw.machine, seed, count, size, among, fits)):
            dry = 0 if task else dry + 1
            if dry == DRY:
                break
            if task is None:
                continue
            name = f"{draw.world.name}-{recipe.seed}-t{number:05d}"
            need = maker.need(play_of(task), name, Scenario(task.scenario), missing=task.missing)
            if anew is None or split_of_need(recipe.splits, need) is anew.split:
                yield need


class NeedMaker:
    """Rows of a world as needs: each has an ability, in the recipe's proportions and an order by
    seed, and a pool of APIs."""

    def __init__(self, draw: WorldDraw, known: Sequence[Api]) -> None:
        self.draw, self.queries = draw, draw.recipe.queries
        self.own = [api for api in known if api.source.reference == draw.world.name]
        self.others = Group(_near(draw.recipe, draw.world, known))
        self._abilities = self._drawn_abilities()
        self._owed: list[Ability] = []

    def of_scripts(
        self, chances: Iterable[Chance], name: Callable[[Chance], str]
    ) -> Iterator[Need]:
        """Rows of scripts, with their words, in the states that were found for them."""
        draw = self.draw
        for number, same in groupby(chances, key=lambda chance: chance.state):
            now, state = draw.start(number)
            for chance in same:
                row = draw.play(chance, now, state)
                assert row is not None  # it was drawn before, from the same seed
                script = draw.scripts[chance.script]
                scenario = scenario_of(script, row, draw.machine)
                yield self.need(row, name(chance), scenario, script.searches)

    def need(
        self, row: Play, name: str, scenario: Scenario, searches: bool = True, missing: str = ""
    ) -> Need:
        """A row as a need; `missing`: an operation that the assistant has not."""
        draw, turns = self.draw, _calls_by_turn(row)
        rng = rng_for(draw.recipe.seed, "worlds", name, "pool")
        own = {api.source.operation: api for api in self.own if api.source.operation != missing}
        pool = [api.bare() for api in own.values()]
        # Where something that the user says leads to no call, the assistant may say that it has no
        # tool for it, which another world's tool would make a lie.
        if all(turns) and self.others.apis:
            pool += [api.bare() for api in self.others.offer((), self.queries.distractors, rng)]
        rng.shuffle(pool)
        start = row.start
        tables = {n: {str(k): r for k, r in rows.items()} for n, rows in start["tables"].items()}
        state: Json = {"me": start["me"], "next": dict(start["next"]), "tables": tables}
        facts = {said: Told(value=value, said=said) for value, said in row.facts}
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
            setting=Setting(
                world=draw.world.name,
                hash=draw.hash,
                script=row.script,
                start=state,
                told=tuple(briefing(draw.machine, start)),
                goal=WorldGoal(
                    changes=tuple(tuple(c) for c in difference(draw.machine, start, row.end)),
                    facts=tuple(facts.values()),
                ),
                story=tuple(story(row, draw.machine)),
            ),
        )

    def _ability(self, turns: Sequence[Sequence[MadeCall]], searches: bool) -> Ability:
        """Where something the user says leads to no call, or the script says so, a reply rests on
        documentation that no search found: another row searches instead."""
        ability, can_search = next(self._abilities), searches and all(turns)
        if ability.searches and not can_search:
            self._owed.append(ability)
            ability = Ability.CALL
        elif can_search and self._owed and not ability.searches:
            ability = self._owed.pop(0)
        most = max(len({call.name for call in calls}) for calls in turns)
        if not most:
            return Ability.CALL  # nothing is searched for
        if ability is Ability.PLAN_RETRIEVE_CALL and most < 2:
            return Ability.RETRIEVE_CALL  # no request takes several APIs
        return ability

    def _drawn_abilities(self) -> Iterator[Ability]:
        weights = self.queries.abilities
        total = sum(weights.values())
        order = [a for a, weight in weights.items() for _ in range(round(20 * weight / total))]
        rng = rng_for(self.draw.recipe.seed, "worlds", self.draw.world.name, "abilities")
        while True:
            rng.shuffle(order)
            yield from order


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
