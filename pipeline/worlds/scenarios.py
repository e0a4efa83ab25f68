"""Scenarios: in which ways a want meets a world.

Each begins with a goal that works, or is made not to: what is forbidden, missing, withheld, meant
two ways, refused by the world, or wanted next.
"""

from __future__ import annotations

import json
import random
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from toolloom.pipeline.checks.world.grammar import MOMENTS, Kind
from toolloom.pipeline.checks.world.interpreter import Json, Row, State, names_one, nodes
from toolloom.pipeline.worlds.followups import FollowUpDrawer
from toolloom.pipeline.worlds.goals import GoalDrawer
from toolloom.pipeline.worlds.lookups import FieldOf, Lookups, Path, fields_read, keys_in, scanned
from toolloom.pipeline.worlds.plans import MOST_CALLS, MOST_TURNS, Plan
from toolloom.pipeline.worlds.questions import QuestionDrawer
from toolloom.pipeline.worlds.solutions import (
    Avoided,
    NamedRow,
    forbidden,
    visible,
)

SCENARIOS = {
    "single": 10,  # sequential, where it takes more than one call
    "parallel": 2,
    "multi_turn": 5,
    "clarification": 3,
    "irrelevance": 2,
    "error_recovery": 4,
    "refusal": 2,
    "confirmation": 2,
}
"""Scenarios, each as often as its number among all."""

KEYLESS = 0.3  # weight of a change that names no row, beside 1 more for each row
DRAWS = 16  # of arguments until a call succeeds
QUESTIONS = 0.25  # share of goals that are reads
LONGER = 2  # lengths of a talk that are drawn, of which the longest is wanted
TWO = 0.9  # share of wants of the longest talks that are two at once
SAME = 1  # calls that fail in the same way and are tried
YES = 0.65  # share of confirmations that are given


@dataclass(frozen=True)
class TaskSize:
    """The least and the most calls and user turns of a task."""

    calls: tuple[int, int] = (0, MOST_CALLS)
    turns: tuple[int, int] = (1, MOST_TURNS)

    @property
    def deep(self) -> bool:
        """Whether one want is hardly ever enough."""
        return self.calls[0] > 4 or self.turns[0] > 3

    def fits(self, calls: int, turns: int) -> bool:
        sizes = ((self.calls, calls), (self.turns, turns))
        return all(least <= size <= most for (least, most), size in sizes)


class ScenarioDrawer:
    """One attempt at a task of a scenario."""

    def __init__(
        self,
        lookups: Lookups,
        start: State,
        now: str,
        rng: random.Random,
        goal: str | None = None,
        size: TaskSize | None = None,
    ) -> None:
        self.size = size or TaskSize()
        self.lookups, self.machine, self.goal = lookups, lookups.machine, goal
        self.start, self.now, self.rng = start, now, rng
        self.plan = Plan(lookups, start, now, rng)

    def draw(self, scenario: str) -> Plan | None:
        drawn: Callable[[], bool] = getattr(self, scenario)
        return self.plan if drawn() else None

    # --- goals

    def wish(self, beyond: bool = False, lists: bool = True) -> tuple[str, Row] | None:
        """A change that works now: an operation and arguments, allowed by the policies."""
        names = [name for name in self.lookups.writes if lists or not self._lists(name)]
        if not names:
            return None
        kinds = [self.machine.operations[name].args for name in names]
        weights = [KEYLESS + sum(1 for _ in _references(args)) for args in kinds]
        name = self.rng.choices(names, weights)[0]
        if self.goal in names:
            name = self.goal
        goals = GoalDrawer(self.machine, self.plan.state, self.now, self.rng)
        for _ in range(DRAWS):
            args = goals.draw(name, beyond)
            if args is not None and self.plan.works(name, args):
                return name, args
        return None

    def _lists(self, name: str) -> bool:
        return any(kind["type"] == "list" for kind in self.machine.operations[name].args.values())

    def _keyless(self, name: str) -> bool:
        return next(_references(self.machine.operations[name].args), None) is None

    def single(self) -> bool:
        self.plan.begin("ask")
        if not self.goal and self.rng.random() < QUESTIONS:
            return QuestionDrawer(self.plan).ask()
        wish = self.wish()
        if wish is None:
            return False
        self.plan.turns[0].operations.append(wish[0])
        return self.plan.act(*wish)

    # --- scenarios

    def parallel(self) -> bool:
        """The same for two rows at once; no row of one's own is in both."""
        self.plan.begin("ask")
        if not self.goal and self.rng.random() < QUESTIONS:
            return QuestionDrawer(self.plan).twice() and len(self.plan.turns) == 1
        wish = self.wish(lists=False)
        if wish is None:
            return False
        name, args = wish
        kinds = self.machine.operations[name].args
        keys = {key for _, _, key in keys_in(args, kinds)}
        if not keys:
            return False
        goals = GoalDrawer(self.machine, self.plan.state, self.now, self.rng)
        after, _, _ = self.machine.apply(self.plan.state, name, args, self.now)
        for _ in range(DRAWS):
            other = goals.draw(name)
            if other is None or keys & {key for _, _, key in keys_in(other, kinds)}:
                continue
            if any(other.get(n) == args[n] for n in args if kinds[n]["type"] == "text"):
                continue
            if (
                self.plan.works(name, other)
                and not self.machine.apply(after, name, other, self.now)[2]
            ):
                self.plan.turns[0].operations.append(name)
                self.plan.wide = True
                prepared = self.plan.prepare(name, args) and self.plan.prepare(name, other)
                prepared = prepared and len(self.plan.turns) == 1  # nothing had to be chosen
                return prepared and self.plan.act(name, args) and self.plan.act(name, other)
        return False

    def multi_turn(self) -> bool:
        """Wants that follow from one another, until there are calls enough or no turns left."""
        least, most = self.size.calls[0], min(self.size.calls[1], MOST_CALLS)
        turns = min(self.size.turns[1], MOST_TURNS)
        enough = max(self.rng.randint(min(least, most), most) for _ in range(LONGER))
        two = TWO * enough / MOST_CALLS
        first = self.parallel if self.rng.random() < two else self.single
        if not first():
            return False
        follow_ups = FollowUpDrawer(self.plan, two)
        wants = 1
        while follow_ups.ask(turns, most):
            wants += 1
            if len(self.plan.calls) >= enough and len(self.plan.turns) >= self.size.turns[0]:
                break
        return wants > 1

    def _asked(self) -> tuple[str, Row] | None:
        """A first turn that asks for a change, whose lookups are made."""
        self.plan.begin("ask")
        wish = self.wish()
        if wish is None:
            return None
        self.plan.turns[0].operations.append(wish[0])
        return wish if self.plan.prepare(*wish) and len(self.plan.turns) == 1 else None

    def clarification(self) -> bool:
        """Something without which nobody could go on: a value withheld, or one of two rows."""
        asked = self._asked()
        if asked is None:
            return False
        name, args = asked
        if self.rng.random() < 0.5 and self._ambiguous(name, args):
            return self.plan.act(name, args)
        kinds = self.machine.operations[name].args
        paths: list[Path] = [
            (argument,)
            for argument, kind in kinds.items()
            if not kind.get("optional") and kind["type"] not in ("ref", "list", "text")
            if not self._settled(argument, args[argument])
        ]
        if not paths:
            return False
        path = self.rng.choice(paths)
        self.plan.begin("answer", name)
        self.plan.withheld[name, path] = 1
        return self.plan.act(name, args)

    def _settled(self, argument: str, value: Json) -> bool:
        """Whether nobody would ask for an argument: it was said for a lookup, or a row that was
        looked up has a value of that name, which would stay."""
        for made in self.plan.calls:
            if any(str(value).startswith(str(said)) for said in made.arguments.values()):
                return True
            if any(argument in s.item for s in made.shown if s.entity in self.lookups.own):
                return True
        return False

    def _ambiguous(self, name: str, args: Row) -> bool:
        """Name a row of one's own by what two of them have, and only then by what it alone has."""
        kinds = self.machine.operations[name].args
        own = [
            (p, e, k) for p, e, k in keys_in(args, kinds) if e in self.lookups.own and len(p) == 1
        ]
        if not own:
            return False
        path, entity, key = self.rng.choice(own)
        shown = {
            s.key
            for made in self.plan.calls
            if any((s.entity, s.key) == (entity, key) for s in made.shown)
            for s in made.shown
            if s.entity == entity
        }
        others = shown - {key}
        serves = {k for k in others if self.plan.works(name, {**args, str(path[0]): k})}
        row = self.plan.rows[entity, key]
        used = any(key in call.arguments.values() for call in self.plan.calls)
        if used or not serves:
            return False
        self.plan.begin("answer", name)
        self.plan.rows[entity, key] = NamedRow(entity, key, row.label, 1)
        return True

    def irrelevance(self) -> bool:
        """What is wanted cannot be done with the operations that are there."""
        asked = self._asked()
        if asked is None:
            return False
        name, args = asked
        self.plan.calls.clear()
        self.plan.avoided = Avoided(name, args, "missing")
        return True

    def refusal(self) -> bool:
        """A policy does not allow what the world would let pass."""
        self.plan.begin("ask")
        names = [name for name in self.lookups.writes if self.lookups.musts[name]]
        if not names:
            return False
        name = self.rng.choice(names)
        goals = GoalDrawer(self.machine, self.start, self.now, self.rng)
        for _ in range(DRAWS * 3):
            args = goals.draw(name, beyond=True)
            if args is None:
                return False
            says = forbidden(self.lookups, self.start, self.now, name, args)
            if says is None or self.machine.apply(self.start, name, args, self.now)[2]:
                continue
            self.plan.turns[0].operations.append(name)
            if not self.plan.prepare(name, args, says):
                return False
            self.plan.avoided = Avoided(name, args, says)
            return True
        return False

    def confirmation(self) -> bool:
        """A policy wants consent: it is given, or it is not."""
        self.plan.begin("ask")
        wish = self.wish()
        if wish is None or not self.plan.agrees(wish[0]):
            return False
        name, args = wish
        self.plan.turns[0].operations.append(name)
        if self.rng.random() < YES:
            return self.plan.act(name, args)
        if not self.plan.prepare(name, args):
            return False
        self.plan.begin("decline", name)
        self.plan.avoided = Avoided(name, args, "declined")
        return True

    def error_recovery(self) -> bool:
        """A call fails although nothing had shown why, and somebody takes another way."""
        self.plan.begin("ask")
        names = [name for name in self.lookups.writes if any(self._loose(name))]
        if not names:
            return False
        name = self.rng.choice(names)
        goals = GoalDrawer(self.machine, self.start, self.now, self.rng)
        met: list[str] = []
        for _ in range(DRAWS * 2):
            args = goals.draw(name)
            if args is None:
                return False
            _, _, error = self.machine.apply(self.start, name, args, self.now)
            known = self.machine.world["operations"][name]["errors"]
            if error not in known or forbidden(self.lookups, self.start, self.now, name, args):
                continue
            met.append(str(error))
            if met.count(str(error)) > SAME or self._granted(name, str(error)):
                continue
            mark = self.plan.mark()
            if self._recovered(name, args, str(error)):
                self.plan.turns[0].operations.append(name)
                return True
            self.plan.back(mark)
        return False

    def _recovered(self, name: str, args: Row, error: str) -> bool:
        if not self.plan.prepare(name, args) or self._foreseen(name, error):
            return False
        others = (other for other in self._ways_out(name, args) if self.plan.works(name, other))
        other = next(others, None)
        if other is None:
            return False
        self.plan.consent(name)
        self.plan.run(name, args, self.plan.agrees(name))
        self.plan.begin("retry", name)
        return self.plan.act(name, other)

    def _ways_out(self, name: str, args: Row) -> Iterator[Row]:
        """The same call with one thing changed: a moment, a choice, another row of those that were
        listed, one item less."""
        goals = GoalDrawer(self.machine, self.start, self.now, self.rng)
        for argument, kind in self._loose(name):
            value = args.get(argument)
            if value is None:
                continue
            if kind["type"] == "list":
                for item in value[: len(value) > 1 and len(value)]:
                    yield {**args, argument: [i for i in value if i is not item]}
            elif kind["type"] == "ref":
                lists = (
                    made
                    for made in self.plan.calls
                    if self.lookups.listed.get(made.name) == kind["entity"]
                )
                listed = {s.key for made in lists for s in made.shown if s.entity == kind["entity"]}
                for key in sorted(listed - {value}):
                    yield {**args, argument: key}
            else:
                for _ in range(DRAWS // 2):
                    other = goals.value(kind)
                    if other is not None and other != value:
                        yield {**args, argument: other}

    def _loose(self, name: str) -> Iterator[tuple[str, Kind]]:
        """The arguments of which another value may be as welcome."""
        kinds = self.machine.operations[name].args
        for argument, kind in kinds.items():
            form = kind["type"]
            free = kind.get("optional") or self._creates(name)
            if form == "ref":
                free = free or kind["entity"] not in self.lookups.named
                if free and kind["entity"] not in self.lookups.own:
                    yield argument, kind
            elif form in (*MOMENTS, "list") or (form == "choice" and len(kinds) > 1):
                yield argument, kind

    def _creates(self, name: str) -> bool:
        return any(step[0] == "create" for step in self.machine.world["operations"][name]["steps"])

    def _granted(self, name: str, code: str) -> bool:
        """Whether an error says that all is already as it is wanted: it is so, or one has it."""
        steps = self.machine.world["operations"][name]["steps"]
        return any(
            (clause[0] == "!=" and any(side[0] in ("arg", "var") for side in clause[1:]))
            or (clause[0] == "=" and clause[2] == ["value", 0] and _counts_equals(clause[1]))
            for clause in _clauses(steps, code)
        )

    def _readable(self) -> set[FieldOf]:
        """What a look at rows that are nobody's own would show, and a careful assistant sees before
        it tries."""
        shown = (place for way in self.lookups.reads for place in self.lookups.shown[way])
        return {place for place in shown if place[0] not in self.lookups.own}

    def _foreseen(self, name: str, code: str) -> bool:
        """Whether results so far show all on which an error depends, or a look would have."""
        spec = self.machine.world["operations"][name]
        names = {"me": self.machine.actor or ""} | {
            kind["as"]: kind["entity"] for kind in spec["args"].values() if kind.get("as")
        }
        lets = dict(_lets(spec["steps"]))
        reads, searched = set(), set()
        for clause in _clauses(spec["steps"], code):
            for tree in (clause, *(lets[name] for name in lets if names_one(clause, name))):
                reads |= fields_read(tree, names)
                searched |= scanned(tree)
        searches = self.lookups.searches
        own = {
            searches[made.name].entity
            for made in self.plan.calls
            if made.name in searches and searches[made.name].own
        }
        shown = visible(self.lookups, self.plan.calls)
        listed = {searches[made.name].entity for made in self.plan.calls if made.name in searches}
        counted = {entity for entity, _ in shown} - listed  # a sum over rows tells of all of them
        if searched - own - counted:
            return False
        keys = {e.key for e in self.machine.entities.values()}
        reads = {
            (entity, field)
            for entity, field in reads
            if field not in keys and (entity != self.machine.actor or field in self.lookups.changed)
        }
        return reads - self._readable() <= shown


def _counts_equals(tree: Json) -> bool:
    """Whether it counts the rows that are the same in all, such as one's places in a class; rows
    that lie before or after others are a clash, and something else will do."""
    text = json.dumps(tree)
    return tree[0] == "count" and not any(f'"{sign}"' in text for sign in ("<", "<=", ">", ">="))


def _references(kinds: dict[str, Kind]) -> Iterator[Kind]:
    for kind in kinds.values():
        inner = kind["of"] if kind["type"] == "list" else kind
        if inner["type"] == "ref":
            yield inner
        elif inner["type"] == "object":
            yield from _references(inner["fields"])


def _lets(steps: Json) -> Iterator[tuple[str, Json]]:
    for step in steps:
        if step[0] == "let":
            yield step[1], step[2]
        elif step[0] == "each":
            yield from _lets(step[4])


def _clauses(steps: Json, code: str) -> Iterator[Json]:
    """The conditions whose failure is an error of a code."""
    for node in nodes(steps):
        if node[0] == "require" and node[2] == code:
            yield node[1]
        elif node[0] == "find" and node[3] == code:
            yield node[2]
