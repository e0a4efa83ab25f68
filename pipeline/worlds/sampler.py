"""Draws what users need in worlds: a script, and a start state in which every word of it is true;
or a solved task, a drawn one or a recipe's own, whose words are still missing.

States are drawn one after the other by seed, each is tried on the scripts that still want rows, for
everybody who may speak in it, and gives at most `PER_STATE` of them, so that rows differ in people,
days and stock, and not only in words. A script that no state fits has run dry. A row is a need: it
says the start state, the goal and the script, which plays again from the same seed, word for word.

A recipe's own tasks are a JSON Lines file: a line says what its user wants, and the calls that
solve it or the changes that these come to. All are held to the world before anything is drawn, and
all mistakes are told at once.
"""

from __future__ import annotations

import datetime as dt
import json
import random
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import combinations, islice
from pathlib import Path
from typing import Any, Self

from pydantic import Field, ValidationError, model_validator

from toolloom.pipeline.checks.schema import texts_in
from toolloom.pipeline.checks.text.words import stems
from toolloom.pipeline.checks.world.interpreter import (
    Json,
    Machine,
    State,
    difference,
    misfit,
    state_of,
)
from toolloom.pipeline.checks.world.outcome import broken_policies
from toolloom.pipeline.environments.environment import moment_of
from toolloom.pipeline.processes import in_processes
from toolloom.pipeline.sampling.draw import Group, shares
from toolloom.pipeline.sampling.values import rng_for
from toolloom.pipeline.store.documents import listed
from toolloom.pipeline.store.files import read_lines
from toolloom.pipeline.worlds.library import briefing, named_worlds, names, scripts_of, world_of
from toolloom.pipeline.worlds.scripts import (
    MadeCall,
    Play,
    WorldScript,
    acts,
    play_in,
    scenario_of,
    script_name,
)
from toolloom.pipeline.worlds.states import MOMENT, StartStates, read_json
from toolloom.pipeline.worlds.tasks import Task, UserTurn, tasks
from toolloom.schemas import (
    Ability,
    Api,
    Intention,
    JsonObject,
    Need,
    Recipe,
    RecipeError,
    Scenario,
    Setting,
    Split,
    Told,
    Turn,
    World,
    WorldError,
    WorldGoal,
    WorldPlan,
    canonical,
    digest,
    seed_for,
)
from toolloom.schemas.base import Record, first_error
from toolloom.schemas.splits import SEEN, split_of_need, split_of_script, zone

PER_STATE = 2  # rows of different scripts
DRY = 5  # rows after one another without a task: the world has none of that kind
MANY = 60  # rows from which on worlds are drawn from in processes side by side
RARE = 30  # states for a row of a script, after which it leaves what it has not given to others
STATES = 500  # drawn of a world, and
STATES_A_ROW = 80  # more for each row that a script may give
LONGEST = 1_500  # characters of a result that are shown to who words a dialogue
FORMS = {
    "ask": "wants",
    "agree": "agrees",
    "decline": "would rather not",
    "answer": "answers what the assistant had to ask",
    "retry": "tries another way",
}


def written_by_model(recipe: Recipe) -> bool:
    """Whether the query agent words tasks, or scripts are played."""
    endpoint = recipe.endpoint("query")
    words = recipe.played.words if recipe.played else "scripts"
    return words == "model" or (words == "auto" and not (endpoint.small or endpoint.absent))


def check_worlds(recipe: Recipe) -> None:
    """Raises RecipeError or WorldError for worlds that are not there or no worlds. A run that
    begins with a version has that version's."""
    if not recipe.worlds or not recipe.worlds.use or recipe.regenerate or recipe.extend:
        return
    modelled = written_by_model(recipe)
    if recipe.worlds.solution == "played" and not modelled:
        raise RecipeError(
            "worlds.solution: `played` needs a capable model, which words tasks and plays them; "
            "the rows of this recipe are those of scripts. Name a `model`, or leave it out."
        )
    if recipe.worlds.tasks and not modelled:
        raise RecipeError("worlds.tasks: only a capable model can word tasks. Name a `model`.")
    worlds = named_worlds(recipe.worlds, scripted=not modelled)
    if unknown := recipe.worlds.states.keys() - {world.name for world in worlds}:
        raise RecipeError(f"worlds.states: {min(unknown)} is none of the recipe's worlds.")
    if recipe.worlds.tasks:
        list(given_tasks(recipe.worlds, {world.name: Machine(world.spec) for world in worlds}))
    beside = recipe.apis.domains or recipe.apis.sources
    held_out = [zone(recipe.splits, world.category, world.tool) not in SEEN for world in worlds]
    if all(held_out) and not beside:
        raise RecipeError(
            f"splits: {', '.join(world.name for world in worlds)} would be held out, and nothing "
            "be left to train on. Name a category in `splits.seen`, or set the weights of "
            "`test_tool` and `test_category` to 0."
        )


def expect_rows(recipe: Recipe) -> int:
    """How many dialogues a recipe draws in worlds at most."""
    plan, anew = recipe.played, recipe.regenerate
    if plan is None:
        return 0
    if anew and plan.rows is not None:
        return plan.rows  # the worlds are the version's, and the recipe's may be gone
    if written_by_model(recipe):
        return plan.rows or recipe.queries.count
    try:
        scripts = sum(len(world_of(name).scripts) for name in names(plan))
    except (RecipeError, WorldError):
        if not anew:
            raise
        return 0
    most = scripts * plan.per_script
    return most if plan.rows is None else min(most, plan.rows)


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
        self._plan = self.recipe.played or WorldPlan()
        self.machine = Machine(self.world.spec)
        self.starts = StartStates(self.machine, self._plan.state_of(self.world.name))
        self.scripts = scripts_of(self.world, self.machine)
        self._hash = self.world.hash
        self._own = [api for api in self.apis if api.source.reference == self.world.name]
        taken = {api.function for api in self._own}
        # Of the world that was drawn to stand beside it, as far as its splits may show them.
        beside = {name for api in self._own for name in api.collections}
        splits = self.recipe.splits
        seen = zone(splits, self.world.category, self.world.tool) in SEEN
        self._others = Group(
            api
            for api in self.apis
            if api.source.kind == "world"
            and api.source.reference != self.world.name
            and beside & set(api.collections)
            and (not seen or zone(splits, api.category, api.tool) is Split.TRAIN)
            and api.function not in taken
        )
        self._abilities = self._drawn_abilities()

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
            now, state = self.starts.draw(rng_for(*self._parts("state", number)))
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
        said = place, digest(row.words, 16)
        fits = self._plan.lets_in(len(row.calls), sum(role == "user" for role, _ in row.messages))
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
        words = row.words
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
    counts = shares(dict.fromkeys(range(len(worlds)), 1.0), plan.rows or recipe.queries.count)
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
            yield sampler.need(play_of(task), name, Scenario(task.scenario), missing=task.missing)


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


def _calls_by_turn(row: Play) -> list[list[MadeCall]]:
    """The calls after each thing that the user says; those before the first go with it."""
    turns: list[list[MadeCall]] = [[]]
    users = 0
    for role, part in row.messages:
        users += role == "user"
        if isinstance(part, MadeCall):
            turns[-1].append(part)
        elif users > len(turns):
            turns.append([])
    return turns


# --- solved tasks, whose words are missing -----------------------------------------------------


def play_of(task: Task) -> Play:
    """A task as a row whose words are still what is to be said."""
    row = Play("", task.now, task.start, task.calls[-1].after if task.calls else task.start)
    for number, turn in enumerate(task.turns):
        row.messages.append(("user", _wanted(turn)))
        row.messages += [("call", call) for call in task.calls if call.turn == number]
        facts = [_told(fact.field, fact.value) for fact in task.facts if fact.turn == number]
        more = [_must_tell(facts)] if facts else []
        following = task.turns[number + 1].form if number + 1 < len(task.turns) else ""
        if following in ("agree", "decline"):
            more.append("says what it will do and what comes of it, and asks for a yes")
        elif following == "answer":
            more.append("asks for what is missing")
        elif following == "retry":
            more.append("says why that failed, and asks what to do instead")
        elif not following and task.avoided:
            name, why = task.avoided.name, task.avoided.why
            missing = f"cannot do it: there is no tool {name}"
            more.append(missing if why == "missing" else f"does not call {name}: {why}")
        row.messages.append(("assistant", "; ".join(more)))
    row.facts = [_told(fact.field, fact.value) for fact in task.facts]
    return row


def _wanted(turn: UserTurn) -> str:
    """What the user of a turn wants and says, in the world's own names."""
    parts = [FORMS[turn.form], *turn.operations]
    parts += [f"asks about {', '.join(turn.asks)}"] if turn.asks else []
    values = []
    for each in turn.said:
        name = ".".join(map(str, each.path)) or "a row"
        label = ", ".join(f"{field} {_text(value)}" for field, value in each.label)
        told = f"is the one with {label}" if label else f"= {_text(each.value)}"
        values.append(f"{name} {told}")
    return " ".join(parts) + (f": {'; '.join(values)}" if values else "")


def _text(value: Json) -> str:
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


def _told(field: str, value: Json) -> Told:
    return Told(value=value, said=_text(value), field=field)


def _must_tell(facts: Sequence[Told]) -> str:
    parts = ", ".join(f"{fact.field} = {fact.said}" for fact in facts)
    return parts and f"must tell {parts}"


def replayed_need(need: Need, machine: Machine, words: Sequence[Turn]) -> Play:
    """A solved task with what is said in each turn, its calls made again. A turn that leads to what
    no turn before it led to, or to nothing, is searched for in whatever keywords are given then."""
    assert need.setting
    given = need.setting.start
    start = state_of(given["tables"], given["me"], given["next"])
    row, known = Play("", moment_of(need), start, start), set[str]()
    asks = {n for p in machine.world["policies"] if p.get("consent") for n in p["calls"]}
    made = [(each.turn, need.api(each.api).source.operation, each) for each in need.intent]
    for number, turn in enumerate(words):
        row.messages.append(("user", turn.user))
        calls = [(name, each) for at, name, each in made if at == number]
        names = {name for name, _ in calls}
        # What is offered, or asked about first, is called in a later turn.
        after = min((at for at, *_ in made if at > number), default=number)
        offered = {name for at, name, _ in made if at == after}
        due = names | (offered if not names or offered & asks else set())
        refused = number and need.scenario is Scenario.CONFIRMATION and not names
        if not refused and not (due and due <= known):
            row.messages.append(("search", ()))
        known |= due
        for name, each in calls:
            row.call(machine, name, _as_said(row, machine, name, each.arguments))
        row.messages.append(("assistant", turn.assistant))
    return row


def _as_said(row: Play, machine: Machine, name: str, given: JsonObject) -> JsonObject:
    """What a look-up searches for in the words that were said or shown, where these find the same:
    who says «my Yaris» has not said that it is a hybrid."""
    heard = stems(" ".join([*row.words, *texts_in([call.response for call in row.calls])]))
    operation = machine.operations[name]
    for argument, kind in () if operation.changes else operation.args.items():
        value = given.get(argument) if kind["type"] == "text" else None
        words = value.split()[:12] if isinstance(value, str) else []
        runs = (" ".join(words[a:b]) for a, b in combinations(range(len(words) + 1), 2))
        for run in sorted((run for run in runs if stems(run) <= heard), key=len)[-1:]:
            there = {**given, argument: run}
            found = [machine.apply(row.end, name, args, row.now)[1:] for args in (given, there)]
            given = there if found[0] == found[1] else given
    return given


def as_lines(row: Play) -> list[str]:
    """A row as the one who words it sees it."""
    lines, turn = list[str](), 0
    wants = "\n".join(p for role, p in row.messages if role == "user" and isinstance(p, str))
    for number, (role, part) in enumerate(row.messages):
        if isinstance(part, MadeCall):
            lines.append(f"→ {part.name}({json.dumps(part.arguments, ensure_ascii=False)})")
            later = [p.arguments for _, p in row.messages[number:] if isinstance(p, MadeCall)]
            came = f"{part.error}: {part.response}" if part.error else ""
            lines.append(f"← {came or _result(part.response, later, wants)}")
        elif isinstance(part, str):
            turn += role == "user"
            lines.append(f"{role.capitalize()} {turn}: {part}".rstrip())
    return lines


def _result(response: Json, later: Sequence[Json], wants: str) -> str:
    """A result; of a long list the rows that later calls name, those that the user's wants tell
    most of, and others as far as they fit."""
    if not isinstance(response, list) or len(canonical(response)) <= LONGEST:
        return canonical(response)
    named, texts = {*texts_in(later)}, [{*texts_in(row)} for row in response]
    rows, room = list[int](), LONGEST
    told = [(named.isdisjoint(some), -sum(text in wants for text in some)) for some in texts]
    for number in sorted(range(len(response)), key=told.__getitem__):
        room -= len(canonical(response[number]))
        if room < 0 and rows:
            break
        rows.append(number)
    shown = canonical([response[number] for number in sorted(rows)])
    return f"{shown} and {len(response) - len(rows)} more"


# --- a recipe's own ----------------------------------------------------------------------------


class GivenCall(Record):
    """A call of a solution."""

    name: str
    arguments: JsonObject = Field(default_factory=dict)
    error: str = Field(default="", description="The code with which it is meant to fail.")


class GivenTurn(Record):
    """What the user wants or says in a turn, what is called for it, what they must be told."""

    user: str = Field(min_length=1)
    calls: tuple[GivenCall, ...] = ()
    tells: JsonObject = Field(default_factory=dict, description="Values by field.")


class GivenTask(Record):
    """A line of a file of tasks: one turn, or several in `turns`."""

    world: str = Field(default="", description="Its name; where a recipe has one world, none.")
    scenario: Scenario | None = None
    seed: int = Field(default=0, description="Of its state, where no file says one.")
    now: str = Field(default="", description="Its moment, where it is not the state's.")
    me: str | int | None = Field(default=None, description="Key of who speaks.")
    turns: tuple[GivenTurn, ...] = Field(min_length=1)
    changes: tuple[tuple[Any, ...], ...] | None = Field(
        default=None, description="The goal, where no calls are given."
    )

    @model_validator(mode="before")
    @classmethod
    def _may_be_one_turn(cls, data: Any) -> Any:
        if not isinstance(data, dict) or "turns" in data:
            return data
        turn = {name: data[name] for name in GivenTurn.model_fields if name in data}
        rest = {name: value for name, value in data.items() if name not in turn}
        return {**rest, "turns": [turn]}

    @model_validator(mode="after")
    def _has_a_goal(self) -> Self:
        if self.changes is not None and any(turn.calls for turn in self.turns):
            raise ValueError("`calls` or `changes`, not both: calls say what changes")
        if self.now and (wrong := misfit(MOMENT, self.now)):
            raise ValueError(f"now: {wrong}")
        return self

    @property
    def kind(self) -> Scenario:
        """Its scenario: where it says none, what its turns and calls come to."""
        calls = sum(len(turn.calls) for turn in self.turns)
        if self.scenario or len(self.turns) > 1:
            return self.scenario or Scenario.MULTI_TURN
        if calls > 1:
            return Scenario.SEQUENTIAL
        return Scenario.SINGLE if calls or self.changes else Scenario.IRRELEVANCE


def given_tasks(
    plan: WorldPlan, machines: Mapping[str, Machine]
) -> Iterator[tuple[str, GivenTask, Play]]:
    """World, task and solution of each line of a recipe's file of tasks.

    Raises WorldError with all lines that are no tasks, or whose calls do not do what they should.
    """
    path, faults = Path(plan.tasks).expanduser(), list[str]()
    starts = {name: StartStates(machine, plan.state_of(name)) for name, machine in machines.items()}
    number = 0
    for number, line in enumerate(read_lines(path), 1):
        try:
            task = GivenTask.model_validate(read_json(line.decode("utf-8-sig")))
            name = task.world or next(iter(machines))
            if name not in machines or (not task.world and len(machines) > 1):
                raise WorldError(f"world: must be one of {', '.join(machines)}.")
            if task.changes is not None and plan.solution != "played":
                raise WorldError("changes: without calls a task needs `solution: played`.")
            now, start = starts[name].draw(rng_for(task.seed, "state"))
            row = solved(machines[name], task, start, now)
        except ValidationError as error:
            faults.append(f"line {number}: {first_error(error, 'the task')}")
        except WorldError as error:
            faults.append(f"line {number}: {error}")
        except (ValueError, RecursionError) as error:
            faults.append(f"line {number}: is not JSON ({error}).")
        else:
            yield name, task, row
    if lines := listed(path, faults if number else ["it has no tasks, a line of JSON each."]):
        raise WorldError("\n".join(lines))


def solved(machine: Machine, task: GivenTask, start: State, now: str) -> Play:
    """A task with its calls made in a state, as a row whose words are still what is to be said.

    Raises WorldError for a call that does not come to what it should, and for a broken policy.
    """
    if task.me is not None:
        if machine.actor is None or task.me not in start["tables"][machine.actor]:
            raise WorldError(f"me: {task.me!r} is nobody who speaks in this world.")
        start = {**start, "me": task.me}
    for change in task.changes or ():
        if not _is_change(machine, start, change):
            raise WorldError(f"changes: {json.dumps(change)} is no change of a row that is there.")
    row = Play("", task.now or now, start, start)
    for turn in task.turns:
        row.messages.append(("user", turn.user))
        for call in turn.calls:
            made = row.call(machine, call.name, call.arguments)
            if (made.error or "") != call.error:
                meant = f" instead of {call.error}" if call.error else ""
                came = f"fails with {made.error}{meant}: {made.response}"
                came = came if made.error else f"succeeds{meant}."
                raise WorldError(f"{call.name}({json.dumps(call.arguments)}) {came}")
        facts = [_told(field, value) for field, value in turn.tells.items()]
        row.messages.append(("assistant", _must_tell(facts)))
        row.facts += facts
    for broken in broken_policies(machine, start, row.now, acts(row)):
        raise WorldError(f"call {broken.call + 1} breaks a policy: {broken.says}")
    return row


def _is_change(machine: Machine, start: State, change: tuple[Any, ...]) -> bool:
    """Whether it has one of the forms of `difference`, about what there is."""
    match change:
        case (str(name), "new", dict(row)) if name in machine.entities:
            return row.keys() <= machine.entities[name].fields.keys()
        case (str(name), str() | int() as key, "deleted") if name in machine.entities:
            return key in start["tables"][name]
        case (str(name), str() | int() as key, str(field), _) if name in machine.entities:
            return key in start["tables"][name] and field in machine.entities[name].fields
    return False
