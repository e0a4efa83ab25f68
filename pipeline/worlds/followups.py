"""What somebody wants next, turn by turn: a question or a change about the rows that were spoken
of, about rows that go with them, or about one of the same kind.

Two changes may be wanted at once; none is wanted twice in a talk, and none takes back what an
earlier one did.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from toolloom.pipeline.checks.world.interpreter import Row, State
from toolloom.pipeline.checks.world.outcome import difference
from toolloom.pipeline.worlds.goals import GoalDrawer, RowKey
from toolloom.pipeline.worlds.lookups import keys_in
from toolloom.pipeline.worlds.plans import Plan
from toolloom.pipeline.worlds.questions import QuestionDrawer

DRAWS = 6  # of arguments until a change succeeds
WANTS = 4  # wants that are tried for one turn
HOPS = 2  # references between what was spoken of and what goes with it
QUESTIONS = 0.5  # share of turns that ask something


class FollowUpDrawer:
    """Puts one more want at the end of a plan; `two`: the share of wants beside which another is
    looked for."""

    def __init__(self, plan: Plan, two: float) -> None:
        self.two = two
        self.plan, self.lookups, self.machine = plan, plan.lookups, plan.machine
        self.rng, self.now = plan.rng, plan.now

    def ask(self, most_turns: int, most_calls: int) -> bool:
        """One more turn that asks for something, with its calls; without one nothing is left."""
        changes = difference(self.machine, self.plan.start, self.plan.state)
        ended = {(change[0], change[1]) for change in changes if self._ends(change)}
        about = self._near(self._spoken() - ended) - ended
        mark = self.plan.mark()
        for _ in range(WANTS):
            self.plan.begin("ask")
            wants = [self._question if self.rng.random() < QUESTIONS else self._change]
            if self.rng.random() < self.two:
                wants.insert(0, self._question)
            fits = all(self._new(want, about) for want in wants)
            if fits and len(self.plan.turns) <= most_turns and len(self.plan.calls) <= most_calls:
                return True
            self.plan.back(mark)
        return False

    def _new(self, want: Callable[[set[RowKey]], bool], about: set[RowKey]) -> bool:
        """Whether a want was found that takes a call of its own, in a turn that still asks."""
        calls = len(self.plan.calls)
        asks = self.plan.turns[-1].form == "ask"
        return asks and want(about) and len(self.plan.calls) > calls

    # --- what it is about

    def _spoken(self) -> set[RowKey]:
        """The rows that were spoken of: one's own, new ones, and those that were asked about or
        listed for the asking."""
        plan, mine = self.plan, self.lookups.mine
        rows = {fact.row for fact in plan.facts if fact.row}
        single = bool(rows)
        goals = {name for turn in plan.turns for name in turn.operations}
        for made in plan.calls:
            if made.name not in goals:
                continue
            changed = made.after is not made.before
            keys = list(keys_in(made.arguments, self.machine.operations[made.name].args))
            every = not (changed or made.name in self.lookups.searches)
            rows |= {(entity, key) for _, entity, key in keys if every or entity in mine}
            if changed:
                tables = made.before["tables"]
                rows |= {(s.entity, s.key) for s in made.shown if s.key not in tables[s.entity]}
            elif not single and (main := self.lookups.listed.get(made.name)) in self.lookups.named:
                rows |= {(s.entity, s.key) for s in made.shown if s.entity == main}
        tables = plan.state["tables"]
        return {(entity, key) for entity, key in rows if key in tables[entity]}

    def _near(self, rows: set[RowKey]) -> set[RowKey]:
        """Rows with those that refer to them or are referred to, and with others of their kind."""
        frame = self.machine.frame(self.plan.state, {}, self.now)
        found, edge = set(rows), rows
        for _ in range(HOPS):
            reached: set[RowKey] = set()
            for entity, key in edge:
                spec, row = self.machine.entities[entity], frame.tables[entity][key]
                reached |= {(to, row[f]) for f, to in spec.references.items() if row[f]}
                for other, column in spec.pointed_at:
                    name = self.machine.entities[other].key
                    reached |= {
                        (other, near[name])
                        for near in frame.tables[other].by(column).get(key, ())
                        if self.machine.owned(frame, other, near)
                    }
            edge = {row for row in reached - found if row[0] != self.machine.actor}
            found |= edge
        for entity in sorted({entity for entity, _ in found} & self.lookups.named):
            if entity in self.lookups.own:
                continue
            spec, table = self.machine.entities[entity], frame.tables[entity]
            kinds = [name for name, kind in spec.fields.items() if kind["type"] == "choice"]
            alike = {tuple(table[k][f] for f in kinds) for e, k in found if e == entity and kinds}
            found |= {(entity, k) for k, r in table.items() if tuple(r[f] for f in kinds) in alike}
        return found

    def _ends(self, change: list[Any]) -> bool:
        """Whether a change leaves nothing to be done with a row: cancelled, deleted."""
        if change[2] == "deleted":
            return True
        moves = (
            self.machine.entities[change[0]].moves.get(change[2], {}) if len(change) == 4 else {}
        )
        return bool(moves) and not moves.get(change[3])

    # --- wants

    def _question(self, about: set[RowKey]) -> bool:
        """Something of what was spoken of or of one's own; of a new row all has been told."""
        frame = self.machine.frame(self.plan.state, {}, self.now)
        before = self.plan.start["tables"]
        own = {
            (entity, key)
            for entity in self.lookups.own
            for key, row in frame.tables[entity].items()
            if self.machine.owned(frame, entity, row)
        }
        about = {(entity, key) for entity, key in about | own if key in before[entity]}
        asked = {name for turn in self.plan.turns for name in turn.operations}
        names = [name for name in self.lookups.reads if name not in asked]
        return bool(names) and QuestionDrawer(self.plan).ask(self.rng.choice(names), about)

    def _change(self, about: set[RowKey]) -> bool:
        """A change, or two at once, which are both looked up before either is made; of two only
        the last may have something chosen for it, and then no other wants a yes."""
        plan = self.plan
        wants: list[tuple[str, Row]] = []
        state = plan.state
        for _ in range(1 + (self.rng.random() < self.two)):
            want = self._next(about, state, [name for name, _ in wants])
            if want is not None:
                wants.append(want)
                state, _, _ = self.machine.apply(state, *want, self.now)
        ask = plan.turns[-1]
        ask.operations += [name for name, _ in wants]
        for want in wants:
            if plan.turns[-1] is not ask or not (plan.works(*want) and plan.prepare(*want)):
                return False
        if plan.turns[-1] is not ask and any(plan.agrees(name) for name, _ in wants[:-1]):
            return False
        return bool(wants) and all(plan.act(*want) for want in wants)

    def _next(self, about: set[RowKey], state: State, beside: list[str]) -> tuple[str, Row] | None:
        """A change that works in a state, about rows of before, and takes nothing back."""
        start = self.plan.start
        done = {made.name for made in self.plan.calls if made.after is not made.before}
        names = [name for name in self.lookups.writes if name not in {*done, *beside}]
        self.rng.shuffle(names)
        before = difference(self.machine, start, state)
        places = {(change[0], change[1]) for change in before}
        goals = GoalDrawer(self.machine, state, self.now, self.rng, about)
        for name in names:
            for _ in range(DRAWS):
                args = goals.draw(name)
                if args is None or not goals.rows:
                    break
                if not self.plan.works(name, args, state):
                    continue
                after, _, _ = self.machine.apply(state, name, args, self.now)
                end = difference(self.machine, start, after)
                new = [change for change in end if change not in before]
                if any(self._ends(change) and (change[0], change[1]) in places for change in new):
                    continue
                if all(_kept(change, end) for change in before):
                    return name, args
        return None


def _kept(change: list[Any], changes: list[list[Any]]) -> bool:
    """Whether a change is still there: an amount may have gone on from where it was."""
    if len(change) == 4 and isinstance(change[3], (int, float)):
        return any(other[:3] == change[:3] for other in changes)
    return change in changes
