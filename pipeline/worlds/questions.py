"""Questions: what somebody wants to be told and nothing more, with the read that tells it.

A field or two of a row that people can name, of what only its key gives, of oneself; or a short
list. What an earlier result has told, or the question itself says, is not asked.
"""

from __future__ import annotations

from collections.abc import Iterator

from toolloom.pipeline.checks.world.grammar import Kind
from toolloom.pipeline.checks.world.interpreter import PATTERNS, Json, Row
from toolloom.pipeline.worlds.goals import GoalDrawer, RowKey
from toolloom.pipeline.worlds.lookups import keys_in, leaves
from toolloom.pipeline.worlds.plans import Plan
from toolloom.pipeline.worlds.solutions import PlayedCall, TaskFact, played

DRAWS = 16  # of arguments until a read has something to tell
WEIGHTS = {"choice": 0.2, "boolean": 0.5, "text": 1.5}
"""How often a field of a type is asked for, beside 3 of dates and numbers."""
LISTS = 0.35  # share of questions that are about a whole list
MOST_ROWS, MOST_FACTS = 5, 10  # that an answer tells


class QuestionDrawer:
    """Puts a question at the end of a plan."""

    def __init__(self, plan: Plan) -> None:
        self.plan, self.lookups, self.machine = plan, plan.lookups, plan.machine
        self.rng, self.now = plan.rng, plan.now

    def ask(self, name: str | None = None, about: set[RowKey] | None = None) -> bool:
        """Something that a read tells: fields of a row or of one's own, or a short list; `about`:
        rows of which it has to name one."""
        name = name or self.rng.choice(self.lookups.reads)
        self.request = self.plan.turns[-1]
        self.request.operations.append(name)
        kinds = self.machine.operations[name].args
        required = [n for n, kind in kinds.items() if not kind.get("optional")]
        if required or name not in self.lookups.searches:
            return self._detail(name, about)
        if about is None and self.rng.random() < LISTS:
            return self._listing(name)
        return self._row(name, about=about)

    def _detail(self, name: str, about: set[RowKey] | None) -> bool:
        """Of a read that wants arguments or tells of oneself."""
        goals = GoalDrawer(self.machine, self.plan.state, self.now, self.rng, about)
        for _ in range(DRAWS):
            args = goals.draw(name)
            if args is None:
                return False
            kinds = self.machine.operations[name].args
            args = {n: v for n, v in args.items() if not kinds[n].get("optional")}
            keys = {(entity, key) for _, entity, key in keys_in(args, kinds)}
            if about is not None and not keys & about:
                continue
            tried = played(self.machine, self.plan.state, self.now, name, args, 0, False)
            if tried.error is None and tried.response and self.plan.prepare(name, args):
                return self._asked(self.plan.run(name, args))
        return False

    def _asked(self, made: PlayedCall) -> bool:
        """Ask for a field or two of a response that is one object, or for those of all rows."""
        shape = self.machine.world["operations"][made.name]["shape"]
        words = {str(value) for row in self.plan.rows.values() for _, value in row.label}
        plain = shape["type"] == "list"
        found = [
            (path, kind, value)
            for path, kind, value in leaves(shape, made.response)
            if kind["type"] != "ref" and (plain or len(path) == 1) and not _within(value, words)
            if made.arguments or path[-1] in self.lookups.changed
        ]
        shown_before = {
            (path[-1], str(value))
            for earlier in self.plan.calls
            if earlier is not made and not earlier.error
            for path, _, value in leaves(
                self.machine.world["operations"][earlier.name]["shape"], earlier.response
            )
        }
        news = sorted({str(p[-1]) for p, _, v in found if (p[-1], str(v)) not in shown_before})
        if not news:
            return False
        if shape["type"] == "list":
            asked = news[:3]
        else:
            asked = self.rng.sample(news, min(len(news), self.rng.choice((1, 1, 2))))
        facts = [self.fact(made.name, str(p[-1]), v) for p, _, v in found if p[-1] in asked]
        self.request.asks += asked
        self.plan.facts += facts
        return 0 < len(facts) <= MOST_FACTS

    def twice(self) -> bool:
        """The same of two rows, which one call does not tell."""
        names = [n for n, s in self.lookups.searches.items() if not s.own]
        if not names:
            return False
        name = self.rng.choice(names)
        self.request = self.plan.turns[-1]
        self.request.operations.append(name)
        if any(not kind.get("optional") for kind in self.machine.operations[name].args.values()):
            return False
        if not self._row(name):
            return False
        asked = list(self.request.asks)
        return any(self._row(name, asked) for _ in range(DRAWS)) and len(self.plan.calls) > 1

    def _row(
        self, name: str, asks: list[str] | None = None, about: set[RowKey] | None = None
    ) -> bool:
        """A field of a row that people can name before they see it listed; `asks`: the fields that
        were asked of another row."""
        search = self.lookups.searches[name]
        rows = search.rows(self.machine.frame(self.plan.state, {}, self.now))
        entity = self.lookups.listed[name]
        if entity not in self.lookups.named:
            return False
        keys = [row.get(self.machine.entities[entity].key) for row in rows]
        if about is not None:
            keys = [key for key in keys if (entity, key) in about]
        key = self.rng.choice(keys) if keys else None
        if key is None or (entity, key) in self.plan.rows:
            return False
        turn = self.plan.turn
        if not self.plan.find(name, entity, key, "", {}) or self.plan.turn > turn:
            return False
        made, item = next(
            (made, shown)
            for made in reversed(self.plan.calls)
            for shown in made.shown
            if made.name == name and (shown.entity, shown.key) == (entity, key)
        )
        words = {w for row in self.plan.rows.values() for w in row.words}
        words |= set(map(str, made.arguments.values()))
        named = {name for name, _ in self.lookups.labels[entity]}
        ranked = [
            (self.rng.random() ** (1 / WEIGHTS.get(kind["type"], 3)), str(path[-1]), value)
            for path, kind, value in leaves(item.kind, item.item)
            if kind["type"] != "ref" and len(path) == 1 and not _within(value, words)
            if path[-1] not in named
        ]
        news = [(name, value) for _, name, value in sorted(ranked, reverse=True, key=_weight)]
        if not news or (entity in self.lookups.mine and not any(map(_counts, news))):
            return False  # one knows one's own address
        asked = news[: self.rng.choice((1, 1, 2))]
        if asks is not None:
            asked = [(field, item.item[field]) for field in asks if field in item.item]
        else:
            self.request.asks += [field for field, _ in asked]
        self.plan.facts += [self.fact(name, f, value, (entity, key)) for f, value in asked]
        return True

    def fact(
        self, name: str, field: str, value: Json, row: tuple[str, str] | None = None
    ) -> TaskFact:
        return TaskFact(name, row, field, value, self.plan.turn)

    def _listing(self, name: str) -> bool:
        """All rows that meet a condition: their names, or what is said first of them."""
        search = self.lookups.searches[name]
        frame = self.machine.frame(self.plan.state, {}, self.now)
        rows = search.rows(frame)
        if not rows:
            return False
        row = self.rng.choice(rows)
        filters = self.plan.narrow(name, search, self.lookups.listed[name], row, frame, True)
        if filters is None:
            return False
        args: Row = {}
        for one, value in filters:
            kind = self.machine.operations[name].args[one.argument]
            if kind["type"] == "ref" and not self.plan.learn(kind["entity"], value, "", {}, 1):
                return False
            args[one.argument] = value
        made = self.plan.run(name, args)
        if made.error or not 1 <= len(made.response) <= MOST_ROWS:
            return False
        shape = self.machine.world["operations"][name]["shape"]["of"]
        said = {value for value in args.values() if isinstance(value, str)}
        said |= {str(value) for row in self.plan.rows.values() for _, value in row.label}
        label = {
            value
            for s in made.shown
            if s.entity == self.lookups.listed[name] and len(s.path) == 2
            for _, value in self.lookups.label(
                s.entity, self.plan.state["tables"][s.entity][s.key], frame
            )
        }
        items = [list(_told(shape, item)) for item in made.response]
        names = dict.fromkeys(f for f, _ in items[0])
        fields = [
            f for f in names if not any(_within(v, said) for i in items for g, v in i if g == f)
        ]
        fields.sort(key=lambda f: dict(items[0])[f] not in label)
        fields = fields[:2]
        self.request.asks += fields
        for item in items:
            self.plan.facts += [self.fact(name, f, value) for f, value in item if f in fields]
        return bool(fields) and len(self.plan.facts) <= MOST_FACTS


def _told(shape: Kind, item: Json) -> Iterator[tuple[str, Json]]:
    """What an item of a list says of itself, without what it lists in turn."""
    for path, kind, value in leaves(shape, item):
        if kind["type"] not in ("ref", "boolean") and all(isinstance(step, str) for step in path):
            yield str(path[-1]), value


def _counts(field: tuple[str, Json]) -> bool:
    """Whether a field is a number, a truth or a moment."""
    moments = PATTERNS.values()
    return not isinstance(field[1], str) or any(form.fullmatch(field[1]) for form in moments)


def _weight(ranked: tuple[float, str, Json]) -> float:
    return ranked[0]


def _within(value: Json, words: set[str] | frozenset[str]) -> bool:
    """Whether a value is part of what was said."""
    return isinstance(value, str) and any(value.lower() in word.lower() for word in words)
