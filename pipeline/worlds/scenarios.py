"""Scenarios: in which ways a want meets a world.

Each begins with a goal that works, or is made not to: what is forbidden, missing, withheld,
refused by the world, or wanted next. A scenario writes its turns and calls into a plan, and says
whether there is one.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

from toolloom.pipeline.checks.world.grammar import MOMENTS, Tree
from toolloom.pipeline.checks.world.interpreter import Json, Row, names_one, nodes
from toolloom.pipeline.worlds.arguments import ArgumentDrawer, RowKey
from toolloom.pipeline.worlds.lookups import keys_in, leaves
from toolloom.pipeline.worlds.plans import MOST_CALLS, MOST_TURNS, Plan, Want
from toolloom.pipeline.worlds.solutions import Avoided, TaskFact, forbidden, played, visible

DRAWS = 16  # of arguments until a call succeeds
NAMES = 4  # operations that are tried where few calls will do
SAME = 2  # calls that fail in the same way and are tried
QUESTIONS = 0.25  # share of first goals that are reads
LATER_QUESTIONS = 0.5  # share of later ones
NEAR = 0.6  # share of later changes that are about rows which were spoken of
YES = 0.5  # share of confirmations that are given
BOUNDS = ("<", "<=", ">", ">=")
MOST_FACTS = 10  # that an answer tells


@dataclass(frozen=True)
class TaskSize:
    """The least and the most calls and user turns of a task."""

    calls: tuple[int, int] = (0, MOST_CALLS)
    turns: tuple[int, int] = (1, MOST_TURNS)

    def fits(self, calls: int, turns: int) -> bool:
        (least, most), (fewest, longest) = self.calls, self.turns
        enough = least <= calls <= min(most, MOST_CALLS)
        return enough and fewest <= turns <= min(longest, MOST_TURNS)


def wish(plan: Plan, goal: str = "", about: set[RowKey] | None = None) -> Want | None:
    """A change that works now and is allowed by the policies, and that nobody asked for yet;
    `about`: rows of which it has to name one."""
    asked = {name for turn in plan.turns for name in turn.operations}
    names = [name for name in plan.lookups.writes if name not in asked]
    if not names:
        return None
    name = goal if goal in names else plan.rng.choice(names)
    drawer = plan.drawer(about)
    for _ in range(DRAWS):
        args = drawer.draw(name)
        if args is not None and plan.works(name, args):
            return name, args
    return None


def asked(plan: Plan, goal: str) -> Want | None:
    """A first turn that asks for a change, whose lookups are made."""
    turn, want = plan.begin("ask"), wish(plan, goal)
    if want is None:
        return None
    turn.operations.append(want[0])
    return want if plan.prepare(*want) and len(plan.turns) == 1 else None


def single(plan: Plan, goal: str, size: TaskSize) -> bool:
    if not goal and plan.rng.random() < QUESTIONS:
        plan.begin("ask")
        return question(plan)
    want = asked(plan, goal)
    return want is not None and plan.act(*want)


def parallel(plan: Plan, goal: str, size: TaskSize) -> bool:
    """The same for two rows at once; no row is in both."""
    want = asked(plan, goal)
    keys = set(keys_of(plan, *want)) if want else set()
    if want is None or not keys:
        return False
    name, args = want
    drawer = plan.drawer()
    after, _, _ = plan.machine.apply(plan.state, name, args, plan.now)
    for _ in range(DRAWS):
        other = drawer.draw(name)
        if other is None or keys & set(keys_of(plan, name, other)):
            continue
        if plan.works(name, other) and plan.works(name, other, after):
            ready = plan.prepare(name, other) and len(plan.turns) == 1  # nothing is chosen
            return ready and plan.act(*want) and plan.act(name, other)
    return False


def keys_of(plan: Plan, name: str, args: Row) -> list[RowKey]:
    return [(entity, key) for _, entity, key in keys_in(args, plan.lookups.kinds(name))]


def multi_turn(plan: Plan, goal: str, size: TaskSize) -> bool:
    """Wants that follow one another, until there are calls enough or no turns left."""
    least, most = min(size.calls[0], MOST_CALLS), min(size.calls[1], MOST_CALLS)
    enough = plan.rng.randint(least, most)
    begin = parallel if plan.rng.random() < enough / MOST_CALLS / 2 else single
    if not begin(plan, goal, size):
        return False
    wants = 1
    while follow_up(plan, most, min(size.turns[1], MOST_TURNS)):
        wants += 1
        if len(plan.calls) >= enough and len(plan.turns) >= size.turns[0]:
            break
    return wants > 1


def follow_up(plan: Plan, most_calls: int, most_turns: int) -> bool:
    """One more turn that asks for something, with calls of its own; without one nothing is left.
    No row that came in the meantime is asked for: of that all has been told."""
    mark = plan.mark()
    old = {(e, key) for e, table in plan.start["tables"].items() for key in table}
    spoken = set(plan.rows) & old
    for _ in range(DRAWS):
        turn = plan.begin("ask")
        calls = len(plan.calls)
        if plan.rng.random() < LATER_QUESTIONS:
            found = question(plan)
        else:
            want = wish(plan, about=spoken if spoken and plan.rng.random() < NEAR else old)
            turn.operations += [want[0]] if want else []
            found = want is not None and plan.act(*want)
        within = len(plan.calls) <= most_calls and len(plan.turns) <= most_turns
        if found and within and len(plan.calls) > calls:
            return True
        plan.back(mark)
    return False


def clarification(plan: Plan, goal: str, size: TaskSize) -> bool:
    """A value is withheld without which nobody could go on, and that no row of one's own has."""
    want = asked(plan, goal)
    if want is None:
        return False
    name, args = want
    said = {str(value) for made in plan.calls for value in made.arguments.values()}
    shown = [s for made in plan.calls for s in made.shown if s.entity in plan.lookups.own]
    seen = {field for s in shown for field in s.item}  # which would stay
    open_ones = [
        argument
        for argument, kind in plan.lookups.kinds(name).items()
        if not kind.get("optional") and kind["type"] not in ("ref", "list", "text")
        if argument not in seen and not any(str(args[argument]).startswith(s) for s in said)
    ]
    if not open_ones:
        return False
    plan.begin("answer", name)
    plan.withheld[name, (plan.rng.choice(open_ones),)] = plan.turn
    return plan.act(*want)


def irrelevance(plan: Plan, goal: str, size: TaskSize) -> bool:
    """What is wanted cannot be done with the operations that are there."""
    turn, want = plan.begin("ask"), wish(plan, goal)
    if want is None or not all(plan.say(*key) for key in keys_of(plan, *want)):
        return False
    turn.operations.append(want[0])
    plan.avoided = Avoided(*want, "missing")
    return True


def refusal(plan: Plan, goal: str, size: TaskSize) -> bool:
    """A policy does not allow what the world would let pass."""
    turn = plan.begin("ask")
    for name in plan.shuffled([n for n in plan.lookups.writes if plan.lookups.musts[n]])[:NAMES]:
        drawer = plan.drawer()
        for _ in range(DRAWS):
            args = drawer.draw(name, beyond=True)
            says = forbidden(plan.lookups, plan.state, plan.now, name, args) if args else None
            if args and says and not plan.machine.apply(plan.state, name, args, plan.now)[2]:
                turn.operations.append(name)
                plan.avoided = Avoided(name, args, says)
                return plan.prepare(name, args, says)
    return False


def confirmation(plan: Plan, goal: str, size: TaskSize) -> bool:
    """A policy wants consent: it is given, or it is not."""
    agreeing = [name for name in plan.lookups.writes if plan.lookups.agrees(name)]
    if goal not in agreeing and not agreeing:
        return False
    want = asked(plan, goal if goal in agreeing else plan.rng.choice(agreeing))
    if want is None or plan.rng.random() < YES:
        return want is not None and plan.act(*want)
    plan.begin("decline", want[0])
    plan.avoided = Avoided(*want, "declined")
    return True


def error_recovery(plan: Plan, goal: str, size: TaskSize) -> bool:
    """A call fails although nothing had shown why, and somebody takes another way."""
    turn = plan.begin("ask")
    operations = plan.machine.world["operations"]
    for name in plan.shuffled(plan.lookups.writes)[:NAMES]:
        drawer = plan.drawer()
        known = dict.fromkeys(operations[name]["errors"], 0)
        for _ in range(DRAWS):
            args = drawer.draw(name)
            error = plan.machine.apply(plan.state, name, args, plan.now)[2] if args else None
            if args is None or known.get(str(error), SAME) >= SAME:
                continue
            known[str(error)] += 1
            mark = plan.mark()
            if _recovers(plan, name, args, str(error), drawer):
                turn.operations.append(name)
                return True
            plan.back(mark)
    return False


def _recovers(plan: Plan, name: str, args: Row, error: str, drawer: ArgumentDrawer) -> bool:
    if forbidden(plan.lookups, plan.state, plan.now, name, args) or not plan.prepare(name, args):
        return False
    others = (other for other in _ways_out(plan, name, args, drawer) if plan.works(name, other))
    other = next(others, None)
    if other is None or not _surprises(plan, name, error):
        return False
    plan.act(name, args)
    plan.begin("retry", name)
    return plan.act(name, other)


def _ways_out(plan: Plan, name: str, args: Row, drawer: ArgumentDrawer) -> Iterator[Row]:
    """The same call with one thing changed that may be as welcome: a moment, a choice, a row of
    nobody's that was shown, one item less."""
    for argument, kind in plan.lookups.kinds(name).items():
        value, form = args.get(argument), kind["type"]
        others: list[Json] = []
        if form == "list" and value and len(value) > 1:
            others = [[each for each in value if each is not item] for item in value]
        elif form == "ref" and kind["entity"] not in plan.lookups.own:
            shown = [s for made in plan.calls for s in made.shown if s.entity == kind["entity"]]
            others = sorted({s.key for s in shown})
        elif value is not None and form in (*MOMENTS, "choice"):
            others = [drawer.value(kind) for _ in range(DRAWS // 2)]
        yield from ({**args, argument: other} for other in others if other not in (None, value))


def _surprises(plan: Plan, name: str, code: str) -> bool:
    """Whether an error depends on something that no result so far shows, and no look at what is
    nobody's own would have; and does not say that all is already as it is wanted."""
    steps = plan.machine.world["operations"][name]["steps"]
    lets = {node[1]: node[2] for node in nodes(steps) if node[0] == "let"}
    clauses: list[Tree] = [n[1] for n in nodes(steps) if n[0] == "require" and n[2] == code]
    clauses += [n[2] for n in nodes(steps) if n[0] == "find" and n[3] == code]
    for clause in clauses:  # that there are no such rows; before or after others is a clash
        none = clause[0] == "=" and clause[1][0] == "count"
        if clause[0] == "!=" or (none and not any(n[0] in BOUNDS for n in nodes(clause))):
            return False
    clauses += [tree for let, tree in lets.items() if any(names_one(c, let) for c in clauses)]
    public = {place for place in plan.lookups.readable if place[0] not in plan.lookups.own}
    return not plan.lookups.places(name, clauses) <= visible(plan.lookups, plan.calls) | public


def question(plan: Plan) -> bool:
    """Something that a read tells and nobody has asked: a field or two of a row that people can
    name, of what only its key gives, or of oneself."""
    turn = plan.turns[-1]
    asked_for = {name for each in plan.turns for name in each.operations}
    names = [name for name in plan.lookups.reads if name not in asked_for]
    if not names:
        return False
    name = plan.rng.choice(names)
    turn.operations.append(name)
    kinds, entity = plan.lookups.kinds(name), plan.lookups.listed.get(name)
    needs = [argument for argument, kind in kinds.items() if not kind.get("optional")]
    row = None
    if entity is None or needs:
        drawn = plan.drawer().draw(name) or {}
        args = {argument: drawn.get(argument) for argument in needs}
        if None in args.values() or not plan.prepare(name, args):
            return False
        made = plan.run(name, args)
        if made.error or not made.response:
            return False
        kind, item = plan.machine.world["operations"][name]["shape"], made.response
    else:
        whole = played(plan.machine, plan.state, plan.now, name, {}, plan.turn)
        keys = [s.key for s in whole.shown if s.entity == entity]
        keys = [key for key in keys if (entity, key) not in plan.rows]
        if entity not in plan.lookups.named or not keys:
            return False
        row = (entity, plan.rng.choice(keys))
        if not plan.find(name, *row):
            return False
        made, shown = next(
            (call, s)
            for call in reversed(plan.calls)
            for s in call.shown
            if (s.entity, s.key) == row
        )
        kind, item = shown.kind, shown.item
    words = {str(value) for named in plan.rows.values() for _, value in named.label}
    words |= {str(value) for value in made.arguments.values()}
    told = [
        (str(path[-1]), inner["type"], value)
        for path, inner, value in leaves(kind, item)
        if path and inner["type"] != "ref" and not inner.get("label")
        if len(path) == 1 + (kind["type"] == "list")
        if not any(str(value).lower() in word.lower() for word in words)
    ]
    fields = sorted({(form == "text", field) for field, form, _ in told})
    likely = [field for text, field in fields if not text] or [field for _, field in fields]
    asks = plan.rng.sample(likely, min(len(likely), plan.rng.choice((1, 1, 2))))
    facts = [TaskFact(name, row, f, value, plan.turn) for f, _, value in told if f in asks]
    turn.asks += asks
    plan.facts += facts
    return 0 < len(facts) <= MOST_FACTS


Scenario = Callable[[Plan, str, TaskSize], bool]
SCENARIOS: dict[str, tuple[int, Scenario]] = {
    "single": (10, single),  # sequential, where it takes more than one call
    "parallel": (2, parallel),
    "multi_turn": (5, multi_turn),
    "clarification": (3, clarification),
    "irrelevance": (2, irrelevance),
    "error_recovery": (4, error_recovery),
    "refusal": (2, refusal),
    "confirmation": (2, confirmation),
}
"""How often each is drawn among all, and how."""
