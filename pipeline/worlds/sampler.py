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
from functools import partial
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
from toolloom.pipeline.worlds.tasks import Task, tasks
from toolloom.pipeline.worlds.wants import play_of
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

OFFERED = 24  # operations of a world that an assistant has, unless more are called
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
        rng = self.rng("state", number)
        now = draw_now(rng)
        return now, draw_state(self.machine, rng, now)

    def play(self, chance: Chance, now: str, state: State) -> Play | None:
        script = self.scripts[chance.script]
        rng = self.rng("script", script.name, chance.state)
        return play_in(script, self.machine, state, now, rng)

    def wants(self, plan: WorldPlan, script: int, row: Play) -> bool:
        """Whether the recipe's dials let a row in."""
        scenario = scenario_of(self.scripts[script], row, self.machine)
        return fits_dials(row, plan) and (not plan.scenarios or scenario in plan.scenarios)

    def chances(self, wanted: Mapping[int, int], fits: Callable[[int, Play], bool]) -> list[Chance]:
        """Where rows can be drawn, as many of each script as are `wanted`, by number of state: of
        states that were not drawn before. `fits`: whether a script's row will do."""
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
                if said not in self._told and fits(place, row):
                    self._told.add(said)
                    found.append(chance)
                    given[place] += 1
                    taken += 1
                    if taken == PER_STATE:
                        break
        return found

    def rng(self, *parts: Any) -> random.Random:
        named = (self.purpose,) if self.purpose else ()
        return rng_for(self.recipe.seed, "worlds", self.world.name, *named, *parts)


def draw_world_needs(
    recipe: Recipe, worlds: Sequence[World], apis: Iterable[Api]
) -> Iterator[Need]:
    """Needs of all worlds, world by world; of a regeneration those of its split alone.

    Each script has its turn before any has its second. Raises WorldError for scripts that are none,
    and where nothing can be drawn, for want of which there would be no run.
    """
    plan = recipe.played
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
        anew = recipe.regenerate
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
    every: Iterable[list[Chance]]
    if sum(sum(each.values()) for each in wanted) < MANY:
        every = (
            draw.chances(each, partial(draw.wants, plan))
            for draw, each in zip(draws, wanted, strict=True)
        )
    else:
        searches = [(recipe, draw.world, each) for draw, each in zip(draws, wanted, strict=True)]
        every = in_processes(_found, searches)
    for draw, chances in zip(draws, every, strict=True):
        begin = f"{draw.world.name}-{recipe.seed}"

        def named(chance: Chance, begin: str = begin) -> str:
            return f"{begin}-{chance.script:03d}-{chance.use:02d}"

        yield from script_needs(recipe, draw, chances, known, Abilities(recipe, draw), named)


def _found(search: tuple[Recipe, World, Mapping[int, int]]) -> list[Chance]:
    """Where a recipe's rows of a world can be drawn; in a process of its own."""
    recipe, world, wanted = search
    draw = WorldDraw(recipe, world)
    return draw.chances(wanted, partial(draw.wants, recipe.played or WorldPlan()))


def script_needs(
    recipe: Recipe,
    draw: WorldDraw,
    chances: Sequence[Chance],
    known: Sequence[Api],
    kinds: Abilities,
    name: Callable[[Chance], str],
) -> Iterator[Need]:
    """Needs with their words: rows of scripts in the states that were found for them."""
    own = [api for api in known if api.source.reference == draw.world.name]
    for number, same in groupby(chances, key=lambda chance: chance.state):
        now, state = draw.start(number)
        for chance in same:
            row = draw.play(chance, now, state)
            assert row is not None  # it was drawn before, from the same seed
            script = draw.scripts[chance.script]
            scenario = scenario_of(script, row, draw.machine)
            yield _need(
                recipe,
                draw,
                row,
                name=name(chance),
                scenario=scenario,
                ability=kinds.of(row, script.searches),
                own=own,
                known=known,
            )


def _draw_tasks(
    recipe: Recipe, plan: WorldPlan, draws: Sequence[WorldDraw], known: Sequence[Api]
) -> Iterator[Need]:
    """Needs whose calls are settled and whose words are missing, as many of each world."""
    rows = plan.rows or recipe.queries.count
    counts = shares({str(number): 1.0 for number in range(len(draws))}, rows)
    anew = recipe.regenerate
    size = TaskSize(plan.calls, plan.turns)
    # A sequential task is a single want that takes more than one call.
    among = {"single" if s == "sequential" else s.value for s in plan.scenarios} or SCENARIOS
    for draw, count in zip(draws, counts.values(), strict=True):
        kinds = Abilities(recipe, draw)
        dry = 0
        seed = [recipe.seed, "worlds", draw.world.name]
        drawn = tasks(
            draw.machine, seed, count, size=size, among=among, fits=partial(_let_in, plan)
        )
        for number, task in enumerate(drawn):
            dry = 0 if task else dry + 1
            if dry == DRY:
                break
            if task is None:
                continue
            name = f"{draw.world.name}-{recipe.seed}-t{number:05d}"
            row = play_of(task, draw.machine)
            offered = frozenset(task.offered)
            own = [
                api
                for api in known
                if api.source.reference == draw.world.name and api.source.operation in offered
            ]
            need = _need(
                recipe,
                draw,
                row,
                name=name,
                scenario=Scenario(task.scenario),
                ability=kinds.of(row),
                own=own,
                known=known,
            )
            if anew is None or split_of_need(recipe.splits, need) is anew.split:
                yield need


def _let_in(plan: WorldPlan, task: Task) -> bool:
    return not plan.scenarios or task.scenario in plan.scenarios


def fits_dials(row: Play, plan: WorldPlan) -> bool:
    """Whether a row has as many calls and turns as the recipe wants."""
    asked = sum(role == "user" for role, _ in row.messages)
    calls, turns = plan.calls, plan.turns
    return calls[0] <= len(row.calls) <= calls[1] and turns[0] <= asked <= turns[1]


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


class Abilities:
    """An ability for each row, in the recipe's proportions. Where something the user says leads to
    no call, or the script says so, a reply rests on documentation that no search found: another row
    searches instead."""

    def __init__(self, recipe: Recipe, draw: WorldDraw) -> None:
        self._drawn = abilities(recipe, draw)
        self._owed: list[Ability] = []

    def of(self, row: Play, searches: bool = True) -> Ability:
        wanted = next(self._drawn)
        can_search = searches and _every_turn_calls(row) and _ends_with_calls(row)
        if wanted.searches and not can_search:
            self._owed.append(wanted)
            return Ability.CALL
        return self._owed.pop(0) if can_search and self._owed and not wanted.searches else wanted


def _ends_with_calls(row: Play) -> bool:
    roles = [role for role, _ in row.messages]
    return "call" in roles[len(roles) - roles[::-1].index("user") :]


def abilities(recipe: Recipe, draw: WorldDraw) -> Iterator[Ability]:
    """An ability for each row, in the recipe's proportions, in an order by seed."""
    weights = recipe.queries.abilities
    total = sum(weights.values())
    order = [ability for ability, weight in weights.items() for _ in range(_part(weight, total))]
    rng = rng_for(recipe.seed, "worlds", draw.world.name, "abilities")
    while True:
        rng.shuffle(order)
        yield from order


def _part(weight: float, total: float) -> int:
    return round(20 * weight / total)


def _need(
    recipe: Recipe,
    draw: WorldDraw,
    row: Play,
    *,
    name: str,
    scenario: Scenario,
    ability: Ability,
    own: Sequence[Api],
    known: Sequence[Api],
) -> Need:
    by_operation = {api.source.operation: api for api in own}
    rng = rng_for(recipe.seed, "worlds", name, "pool")
    turns: dict[int, set[str]] = {}
    for turn, call in _by_turn(row):
        turns.setdefault(turn, set()).add(call.name)
    if not turns:
        ability = Ability.CALL  # nothing is searched for
    elif ability is Ability.PLAN_RETRIEVE_CALL and max(map(len, turns.values())) < 2:
        ability = Ability.RETRIEVE_CALL  # no request takes several APIs
    pool = [api.bare() for api in _fewer(own, set().union(*turns.values()), rng)]
    if _every_turn_calls(row):
        offers = Group(_near(recipe, draw.world, known))
        if offers.apis:
            pool += [api.bare() for api in offers.offer((), recipe.queries.distractors, rng)]
    rng.shuffle(pool)
    return Need(
        id=name,
        ability=ability,
        scenario=scenario,
        now=dt.datetime.fromisoformat(row.now),
        pool=tuple(pool),
        intent=intent_of(row, by_operation),
        setting=setting_of(draw, row),
    )


def _fewer(own: Sequence[Api], called: set[str], rng: random.Random) -> Sequence[Api]:
    """Of a world with many operations those that are called and some others: no assistant is given
    all that a document has."""
    others = [api for api in own if api.source.operation not in called]
    if len(own) <= OFFERED:
        return own
    kept = called.union(
        a.source.operation for a in rng.sample(others, max(0, OFFERED - len(called)))
    )
    return [api for api in own if api.source.operation in kept]


def intent_of(row: Play, by_operation: Mapping[str, Api]) -> tuple[Intention, ...]:
    """The calls of a row."""
    return tuple(
        Intention(api=by_operation[call.name].id, turn=turn, arguments=call.arguments)
        for turn, call in _by_turn(row)
    )


def setting_of(draw: WorldDraw, row: Play) -> Setting:
    """A row's place in its world, with its words and calls."""
    machine = draw.machine
    return Setting(
        world=draw.world.name,
        hash=draw.hash,
        script=row.script,
        start=_plain(row.start),
        told=tuple(briefing(machine, row.start)),
        goal=WorldGoal(
            changes=tuple(tuple(c) for c in difference(machine, row.start, row.end)),
            facts=tuple(Told(value=value, said=said) for value, said in _facts(row)),
        ),
        story=tuple(story(row, machine)),
    )


def _facts(row: Play) -> list[tuple[Any, str]]:
    """Each once, in order."""
    return list({said: (value, said) for value, said in row.facts}.values())


def _plain(state: State) -> Json:
    """A state as JSON, in which all keys are texts."""
    tables = {
        n: {str(key): row for key, row in rows.items()} for n, rows in state["tables"].items()
    }
    return {"me": state["me"], "next": dict(state["next"]), "tables": tables}


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


def _every_turn_calls(row: Play) -> bool:
    """Whether each thing the user says leads to a call. Where one does not, the assistant may say
    that it has no tool for it, which another world's tool would make a lie."""
    calls = True
    for role, part in row.messages:
        if role == "user" and not calls:
            return False
        calls = isinstance(part, MadeCall) if role != "assistant" else calls
    return calls


def _by_turn(row: Play) -> Iterator[tuple[int, MadeCall]]:
    turn = -1
    for role, part in row.messages:
        turn += role == "user"
        if isinstance(part, MadeCall):
            yield max(0, turn), part
