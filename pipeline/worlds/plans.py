"""The way to a goal, call by call: a key that is needed is looked up by a read that shows it beside
what a person says of its row, the arguments of that read in the same way; what the policies ask for
comes before the call that they are about.
"""

from __future__ import annotations

import random
from dataclasses import dataclass, field
from typing import TypeAlias

from toolloom.pipeline.checks.world.grammar import MOMENTS, Kind
from toolloom.pipeline.checks.world.interpreter import PATTERNS, Frame, Json, Row, State, names_one
from toolloom.pipeline.checks.world.outcome import difference
from toolloom.pipeline.worlds.lookups import (
    FieldOf,
    Lookups,
    Path,
    Search,
    SearchFilter,
    ShownKey,
    alike,
    flat,
    form_of,
    keys_in,
    spoken,
)
from toolloom.pipeline.worlds.solutions import (
    Avoided,
    Label,
    NamedRow,
    PlayedCall,
    TaskFact,
    forbidden,
    keys_called,
    looked_at,
    played,
    seen,
    visible,
)

MOST_TURNS, MOST_CALLS = 4, 8
PlanMark: TypeAlias = tuple[int, State, dict[tuple[str, str], NamedRow], int, int]
CHOSEN = 0.6  # share of rows that are chosen from a list, where a name would do as well
DEEPEST = 3  # lookups for the arguments of lookups
BY_NAME = 0.65  # share of rows that are named as the world calls them, not by something else
NARROWED = {"words": 0.6, "key": 0.2, "subject": 0.3}
"""Shares of lists of one's own that are narrowed, by what."""
LISTED = 0.4  # share of lists of one's own that are wanted with one status only


@dataclass
class UserTurn:
    """What a user turn is for: ask, choose, agree, decline, answer, retry."""

    form: str
    operations: list[str] = field(default_factory=list)
    asks: list[str] = field(default_factory=list)  # fields that a question is about


class Plan:
    """Calls in the order in which they are made, and what the user has said by then."""

    def __init__(self, lookups: Lookups, start: State, now: str, rng: random.Random) -> None:
        self.lookups, self.machine = lookups, lookups.machine
        self.start, self.state, self.now, self.rng = start, start, now, rng
        self.calls: list[PlayedCall] = []
        self.turns: list[UserTurn] = []
        self.rows: dict[tuple[str, str], NamedRow] = {}
        self.facts: list[TaskFact] = []
        self.avoided: Avoided | None = None
        self.wide = False  # whether lists of one's own serve several wants
        self.grounds: dict[str, frozenset[FieldOf]] = {}  # what was seen before a change
        self.withheld: dict[tuple[str, Path], int] = {}  # turn that says an argument, if no other

    def begin(self, form: str, *operations: str) -> None:
        self.turns.append(UserTurn(form, list(operations)))

    @property
    def turn(self) -> int:
        return len(self.turns) - 1

    # --- calls

    def run(self, name: str, args: Row, agreed: bool = False) -> PlayedCall:
        """Make a call, or find that it was made before and nothing has changed since."""
        for made in self.calls:
            if (made.name, made.arguments) == (name, args) and made.after is self.state:
                return made
        made = played(self.machine, self.state, self.now, name, args, self.turn, agreed)
        self.calls.append(made)
        self.state = made.after
        return made

    def act(self, name: str, args: Row) -> bool:
        """A change that a goal wants, after everything that has to come before it."""
        if not self.prepare(name, args):
            return False
        self.consent(name)
        return self.run(name, args, self.agrees(name)).error is None

    def prepare(self, name: str, args: Row, says: str = "") -> bool:
        """Learn the keys among arguments, and look at what policies want looked at; `says`: only
        what tells that this policy does not allow it."""
        kinds = self.machine.operations[name].args
        keys = list(keys_in(args, kinds))
        if says:
            trees = self.lookups.deciding(name, says)
            about = {a for a, k in kinds.items() if any(names_one(t, k.get("as")) for t in trees)}
            if not all(p[0] in about or self._said(e, k) for p, e, k in keys):
                return False
            keys = [key for key in keys if key[0][0] in about]
        keys.sort(
            key=lambda key: (key[1] not in self.lookups.own, key[1] not in self.lookups.named)
        )
        if not all(self.learn(entity, key, name, args) for _, entity, key in keys):
            return False
        for policy in self.lookups.policies[name]:
            if policy.get("first") and not says and not self._first(policy, name, args):
                return False
        if not all(self._look(entity) for entity in self.looks(name, args)):
            return False
        self._ground(name, args, says)
        return True

    def _said(self, entity: str, key: str) -> bool:
        """Name a row that nobody has to look up."""
        frame = self.machine.frame(self.state, {}, self.now)
        label = self.lookups.label(entity, self.state["tables"][entity][key], frame)
        if (entity, key) not in self.rows and entity in self.lookups.named and label:
            self.rows[entity, key] = NamedRow(entity, key, tuple(label), self.turn)
        return (entity, key) in self.rows or key == self.state["me"]

    def _ground(self, name: str, args: Row, says: str) -> None:
        """See what decides on a change, as far as a read can be asked for it."""
        grounds = self.lookups.grounds[name, says]
        for entity, field_name in sorted(grounds):
            place = (entity, field_name)
            if place not in visible(self.lookups, self.calls):
                ways = [way for way in self.lookups.reads if place in self.lookups.shown[way]]
                next((way for way in ways if self._asks(way, entity, name, args)), None)
        seen_by_now = grounds & visible(self.lookups, self.calls)
        self.grounds[name] = self.grounds.get(name, seen_by_now) & seen_by_now

    def _asks(self, way: str, entity: str, name: str, args: Row) -> bool:
        """Make a read with what a goal says, or one that shows a row which the goal names."""
        given = self._fitted(way, name, args)
        if given is not None and self.run(way, given).error is None:
            return True
        keys = keys_in(args, self.machine.operations[name].args)
        return any(e == entity and self.find(way, e, key, name, args) for _, e, key in keys)

    def works(self, name: str, args: Row, state: State | None = None) -> bool:
        """Whether a call succeeds, changes something and breaks no policy: now, or in a state."""
        state = state or self.state
        after, _, error = self.machine.apply(state, name, args, self.now)
        if error is not None or after is state or not difference(self.machine, state, after):
            return False
        return forbidden(self.lookups, state, self.now, name, args) is None

    def agrees(self, name: str) -> bool:
        return any(policy.get("consent") for policy in self.lookups.policies[name])

    def consent(self, name: str) -> None:
        """Ask before the call, unless the user has just chosen what was offered."""
        if self.agrees(name) and self.turns[-1].form not in ("choose", "retry", "agree"):
            self.begin("agree", name)

    def looks(self, name: str, args: Row) -> set[str]:
        return looked_at(self.lookups, self.state, self.now, name, args)

    def _look(self, entity: str) -> bool:
        """See the rows of an entity, as far as a list without conditions shows them."""
        if seen(self.lookups, self.calls, entity):
            return True
        for name in self.lookups.ways[entity]:
            if all(kind.get("optional") for kind in self.machine.operations[name].args.values()):
                return self.run(name, {}).error is None
        return True

    def _first(self, policy: Json, name: str, args: Row) -> bool:
        """Make one of the calls that a policy wants before another."""
        same = [(argument, args.get(argument)) for argument in policy.get("same", ())]
        for made in self.calls:
            alike = all(made.arguments.get(n, v) == v for n, v in same)
            if made.name in policy["first"] and made.error is None and alike:
                return True
        kinds = self.machine.operations[name].args
        for look in self.rng.sample(policy["first"], len(policy["first"])):
            for _, entity, key in keys_in(args, kinds):
                if look in self.lookups.ways[entity] and self.find(look, entity, key, name, args):
                    return True
            given = self._fitted(look, name, args)
            if given is not None and self.run(look, given).error is None:
                return True
        return False

    def _fitted(self, read: str, name: str, args: Row) -> Row | None:
        """The required arguments of a read, taken from those of the goal."""
        fitted: Row = {}
        for argument, kind in self.machine.operations[read].args.items():
            if not kind.get("optional"):
                fitted[argument] = self.borrowed(argument, kind, name, args)
        return None if None in fitted.values() else fitted

    def borrowed(self, argument: str, kind: Kind, name: str, args: Row) -> Json:
        """What an argument of a read means, if the goal has one that means the same."""
        kinds = self.machine.operations[name].args if name else {}
        if argument in args and kinds[argument]["type"] == kind["type"]:
            return args[argument]
        for other, value in args.items():
            if kind["type"] == "date" and kinds[other]["type"] == "datetime":
                return value[:10]
            if kind["type"] == "list" and alike(kind, kinds[other]):
                return value
        return None

    # --- keys

    def learn(self, entity: str, key: str, name: str, wanted: Row, depth: int = 0) -> bool:
        """Come to know a key: because it was seen, or by a read that shows it."""
        if entity == self.machine.actor and key == self.state["me"]:
            return True
        if (entity, key) in self.rows:
            words = self.rows[entity, key].words
            if any(keys_called(made.shown, entity, words) == {key} for made in self.calls):
                return True
        for made in reversed(self.calls):
            if any(s.entity == entity and s.key == key for s in made.shown):
                return self._name(entity, key, made, self._labels_of(name, wanted))
        if depth >= DEEPEST or len(self.calls) > MOST_CALLS:
            return False
        ways = self.lookups.ways[entity]
        weights = {way: self._weight(way, entity, wanted) for way in ways}
        for way in sorted(ways, key=lambda w: -(self.rng.random() ** (1 / weights[w]))):
            if self.find(way, entity, key, name, wanted, depth):
                return True
        return False

    def _weight(self, way: str, entity: str, wanted: Row) -> float:
        kinds = self.machine.operations[way].args
        required = [kind for kind in kinds.values() if not kind.get("optional")]
        if any(name in wanted for name, kind in kinds.items() if kind["type"] == "ref"):
            return 200.0
        search = self.lookups.searches.get(way)
        direct = search is not None and search.own == (entity in self.lookups.own)
        if direct and self.lookups.listed[way] != entity:
            return 0.5  # a booking is looked for among bookings, not among requests about them
        return 8.0 if direct and not required else 2.0 if direct else 0.2

    def find(self, way: str, entity: str, key: str, name: str, wanted: Row, depth: int = 0) -> bool:
        """Make a read that shows a key beside what its row is called; nothing is left if not."""
        before = self.mark()
        args = self._read_args(way, entity, key, name, wanted, depth)
        if args is not None:
            made = self.run(way, args)
            shows = any(s.entity == entity and s.key == key for s in made.shown)
            if shows and self._name(entity, key, made, self._labels_of(name, wanted)):
                return True
        self.back(before)
        return False

    def mark(self) -> PlanMark:
        """Where the plan stands, to come back to."""
        return len(self.calls), self.state, dict(self.rows), len(self.turns), len(self.facts)

    def back(self, mark: PlanMark) -> None:
        calls, self.state, self.rows, turns, facts = mark
        del self.calls[calls:], self.turns[turns:], self.facts[facts:]

    def _labels_of(self, name: str, wanted: Row) -> set[str]:
        """How the rows are called that a goal is about."""
        frame = self.machine.frame(self.state, {}, self.now)
        kinds = self.machine.operations[name].args if name else {}
        return {
            str(value)
            for _, entity, key in keys_in(wanted, kinds)
            for _, value in self.lookups.label(entity, self.state["tables"][entity][key], frame)
        }

    def _name(self, entity: str, key: str, made: PlayedCall, near: set[str]) -> bool:
        """Settle how the user calls a row that a call shows; `near`: names that are said anyway."""
        label = self.describe(entity, key, made, near)
        if label is None:
            return False
        said = " ".join(str(value) for _, value in label)
        search = self.lookups.searches.get(made.name)
        kinds = self.machine.operations[made.name].args
        asked = [value for name, value in made.arguments.items() if kinds[name].get("optional")]
        listed = entity not in self.lookups.own and search is not None and not search.own
        if asked:
            listed = listed and not any(isinstance(v, str) and v in said for v in asked)
        else:
            listed = listed and bool(kinds) and self.rng.random() < CHOSEN
        listed = listed or entity not in self.lookups.named
        if listed and made.turn == self.turn:  # chosen from what the assistant lists
            if len({s.key for s in made.shown if s.entity == entity}) < 2:
                return False
            self.begin("choose")
        self.rows[entity, key] = NamedRow(entity, key, label, self.turn)
        return True

    def describe(self, entity: str, key: str, made: PlayedCall, near: set[str]) -> Label | None:
        """What a person says of a row so that a response shows which one is meant: its name, as
        short as will do; or something else that it alone has, such as what is in an order."""
        target = next(s for s in made.shown if s.entity == entity and s.key == key)
        others = [s for s in made.shown if s.entity == entity and s.key != key]
        frame = self.machine.frame(made.before, {}, self.now)
        row = made.before["tables"][entity].get(key) or made.after["tables"][entity][key]
        called = [
            (name, value)
            for name, value in self.lookups.label(entity, row, frame)
            if isinstance(value, str) and value in target.values
        ]
        alone = [
            (name, value)
            for name, value in spoken(target)
            if not any(value in other.values for other in others)
        ]
        timeless = [part for part in called if not _is_moment(part[1])]
        names = [label for label in (timeless, called) if label and _alone(label, others)]
        about = [part for part in alone if part[1] in near and part not in called]
        if about and names != [timeless]:
            return (about[0],)
        if names and (names[0] is timeless or not alone or self.rng.random() < BY_NAME):
            return tuple(names[0])
        if entity not in self.lookups.own and called:
            return None  # two of the same name
        return (self.rng.choice(alone),) if alone else None

    # --- arguments of reads

    def _read_args(
        self, way: str, entity: str, key: str, name: str, wanted: Row, depth: int
    ) -> Row | None:
        args: Row = {}
        for argument, kind in self.machine.operations[way].args.items():
            if kind.get("optional"):
                continue
            value = self.borrowed(argument, kind, name, wanted)
            if value is None and kind["type"] == "ref":
                frame = self.machine.frame(self.state, {}, self.now)
                holders = self.lookups.holders(kind["entity"], entity, key, frame)
                value = self.rng.choice(holders) if holders else None
            if value is None:
                return None
            args[argument] = value
            for _, other, inner in keys_in({argument: value}, {argument: kind}):
                if other == entity and inner == key:
                    return None  # it would be known already
                if not self.learn(other, inner, name, wanted, depth + 1):
                    return None
        search = self.lookups.searches.get(way)
        if search is None:
            return args
        args |= self._known(way, name, wanted)
        frame = self.machine.frame(self.state, args, self.now)
        rows = [row for row in search.rows(frame) if key in row.values()]
        if not rows:
            return None
        row = self.rng.choice(rows)
        filters = self.narrow(way, search, entity, row, frame)
        if filters is None:
            return None
        for filtered, value in filters:
            kind = self.machine.operations[way].args[filtered.argument]
            if kind["type"] == "ref" and not self.learn(kind["entity"], value, "", {}, depth + 1):
                return None
            args[filtered.argument] = value
        return args

    def _known(self, way: str, name: str, wanted: Row) -> Row:
        """The moments that a search takes, if all of them are wanted: free rooms on that day."""
        given = self.machine.operations[name].args if name else {}
        kinds = self.machine.operations[way].args
        times = {n: k for n, k in kinds.items() if k["type"] in MOMENTS and k.get("optional")}
        if all(n in wanted and given[n]["type"] == kind["type"] for n, kind in times.items()):
            return {argument: wanted[argument] for argument in times}
        return {}

    def narrow(
        self,
        way: str,
        search: Search,
        entity: str,
        row: Row,
        frame: Frame,
        whole: bool = False,
    ) -> list[tuple[SearchFilter, Json]] | None:
        """Conditions under which somebody would search for a row, or, if `whole`, want all rows;
        None if there is none to give."""
        kinds = self.machine.operations[way].args
        if not search.filters:
            return []
        usable: list[tuple[SearchFilter, Json]] = []
        for one in search.filters:
            kind = kinds[one.argument]
            if kind.get("optional") and one.argument not in frame.args:
                values = one.of(frame, search.alias, row)
                value = self._asked(one, kind, self.rng.choice(values)) if values else None
                if isinstance(value, str) and one.sign == "has" and kind["type"] == "text":
                    value = self._words(value, search, one, frame)
                if value is not None and self._narrows(way, search, one, value, frame):
                    usable.append((one, value))
        by_form: dict[str, list[tuple[SearchFilter, Json]]] = {}
        for one, value in usable:
            by_form.setdefault(form_of(one, kinds[one.argument]), []).append((one, value))
        if search.own:
            if whole and by_form.get("choice") and self.rng.random() < LISTED:
                return [self.rng.choice(by_form["choice"])]
            for form, share in NARROWED.items():
                if self.wide and form != "words":
                    continue
                if form == "key":  # nobody looks one row up to list others by it
                    known = {s.key for made in self.calls for s in made.shown}
                    by_form[form] = [pair for pair in by_form.get(form, ()) if pair[1] in known]
                if by_form.get(form) and self.rng.random() < share:
                    return [self.rng.choice(by_form[form])]
            return []
        required = any(not kind.get("optional") for kind in kinds.values())
        if entity in self.lookups.named:
            words = by_form.get("words")
            if words:
                return [self.rng.choice(words)]
            easy = [*by_form.get("choice", ()), *by_form.get("key", ())] or usable
            return [self.rng.choice(easy)] if easy else [] if required else None
        subjects = [*by_form.get("subject", ()), *by_form.get("key", ()), *by_form.get("words", ())]
        if not subjects:
            return [self.rng.choice(usable)] if usable else [] if required else None
        chosen = [self.rng.choice(subjects)]
        times = by_form.get("day", []), by_form.get("clock", []), by_form.get("weekday", [])
        if self.rng.random() < 0.75:
            chosen += self._when(self.rng.choice([t for t in times if t] or [[]]))
        if by_form.get("choice") and self.rng.random() < 0.25:
            chosen.append(self.rng.choice(by_form["choice"]))
        return chosen

    def _narrows(
        self, way: str, search: Search, one: SearchFilter, value: Json, frame: Frame
    ) -> bool:
        """Whether a choice leaves some rows out: nobody asks for what all have."""
        if self.machine.operations[way].args[one.argument]["type"] != "choice":
            return True
        every = search.rows(frame)
        return any(value not in flat(one.of(frame, search.alias, row)) for row in every)

    def _when(self, times: list[tuple[SearchFilter, Json]]) -> list[tuple[SearchFilter, Json]]:
        """One bound or both: a day, from a day on, after a time."""
        if len(times) == 2 and times[0][0].sign in (">=", "<=") and len(str(times[0][1])) == 10:
            return times if self.rng.random() < 0.7 else [times[0]]
        return [self.rng.choice(times)] if times else []

    def _asked(self, one: SearchFilter, kind: Kind, value: Json) -> Json:
        """The condition that a person would say of a value; None if nobody would."""
        form = kind["type"]
        if one.sign == "has":
            if isinstance(value, list):
                return self.rng.choice(value) if value else None
            return value
        if form == "boolean":
            return value or None
        if form == "time":
            hour = int(value[:2]) + (one.sign == "<=" and value[3:] != "00")
            return f"{hour:02}:00"
        if form in ("integer", "number") and one.sign in (">=", "<="):
            return -(-value // 10) * 10 if one.sign == "<=" else None  # what is needed is not known
        return value

    def _words(self, value: str, search: Search, one: SearchFilter, frame: Frame) -> str:
        """What somebody types to find a name: all of it, or the word that fewest others have."""
        words = value.split()
        if len(words) > 1 and self.rng.random() < 0.4:
            rows = search.rows(frame)
            texts = [str(v) for row in rows for v in one.of(frame, search.alias, row)]
            often = {word: sum(word in text for text in texts) for word in words}
            return min(words, key=lambda word: (often[word], -len(word)))
        return value if len(words) <= 4 else " ".join(words[:3])


# --- forms of values -------------------------------------------------------------------------


def _is_moment(value: str) -> bool:
    return any(pattern.fullmatch(value) for pattern in PATTERNS.values())


def _alone(label: list[tuple[str, Json]], others: list[ShownKey]) -> bool:
    """Whether what is said of a row holds of no other."""
    words = {value for _, value in label}
    return not any(words <= other.values for other in others)
