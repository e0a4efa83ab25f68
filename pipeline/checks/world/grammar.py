"""The short language in which a world says terms and clauses, and the types that hold them.

    loan.renewals < 2 and count(holds where book_id = loan.book_id and status = 'waiting') = 0

A text is read by recursive descent into a tree that `interpreter.py` runs; nothing is evaluated.
Every name is looked up and every comparison is checked while it is read, so that a mistake is told
with what can stand there instead. docs/worlds.md explains the language to those who write it.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import Any, NoReturn, TypeAlias, TypeVar

from toolloom.pipeline.checks.world.interpreter import PATTERNS, WEEKDAYS, nodes

Kind: TypeAlias = dict[str, Any]
"""A type: {"type": text, integer, number, boolean, date, time, datetime, choice, ref, row,
list, object, null or any, …}, with `entity`, `choices`, `of` or `fields` where it has them."""
Tree: TypeAlias = list[Any]
_Found = TypeVar("_Found")
_Reading: TypeAlias = Callable[["NameScope"], tuple[Tree, Kind]]

TEXT: Kind = {"type": "text"}
NUMBER: Kind = {"type": "number"}
INTEGER: Kind = {"type": "integer"}
BOOLEAN: Kind = {"type": "boolean"}
DATE: Kind = {"type": "date"}
TIME: Kind = {"type": "time"}
DATETIME: Kind = {"type": "datetime"}
NOTHING: Kind = {"type": "null"}
ANY: Kind = {"type": "any"}

NUMBERS = ("integer", "number")
MOMENTS = ("date", "time", "datetime")


UNITS = {
    f"{name}{plural}": f"{name}s"
    for name in ("minute", "hour", "day", "week", "month")
    for plural in ("", "s")
}
WORDS = {"and", "or", "not", "in", "has", "same", "is", "given", "where", "by", "desc", "limit"} | {
    *("for", "as", "true", "false", "nothing", "now", "today", "me", "this"),
}
DEEPEST = 24  # nested brackets
LONGEST = 2_000  # characters of one text
MOST_TOKENS = 300  # of one text: `1 + 1 + …` nests as deep as it is long

_TOKEN = re.compile(
    r"\s*(?:(?P<text>'(?:[^'\\]|\\.)*')|(?P<template>\"(?:[^\"\\]|\\.)*\")|(?P<number>\d+(?:\.\d+)?)|(?P<arg>\$[A-Za-z_][A-Za-z0-9_]*)"
    r"|(?P<name>[A-Za-z_][A-Za-z0-9_]*)|(?P<sign><=|>=|!=|==|[-=<>+*/().,:\[\]{}]))"
)


# --- types -----------------------------------------------------------------------------------


class Mistake(Exception):
    """A text that cannot be read: what is wrong, and what can stand there."""


def row_of(entity: str) -> Kind:
    return {"type": "row", "entity": entity}


def list_of(kind: Kind) -> Kind:
    return {"type": "list", "of": kind}


def said(kind: Kind) -> str:
    """A type as a finding says it."""
    form = kind["type"]
    if form == "choice":
        return f"one of {', '.join(kind['choices'])}"
    if form == "ref":
        return f"a key of {kind['entity']}"
    if form == "row":
        return f"a row of {kind['entity']}"
    if form == "list":
        return f"a list of {said(kind['of'])}"
    return {"null": "nothing", "integer": "a number", "any": "any value"}.get(form, f"a {form}")


def near(name: str, names: Iterable[str]) -> str:
    """The names that can stand for one that is not known: the likest, or all if they are few."""
    every = sorted(set(names))
    chosen = difflib.get_close_matches(name, every, 3, 0.6) or every[:12]
    return f"; {', '.join(chosen)} can stand here" if chosen else ""


def keys_of(kind: Kind) -> Iterator[Kind]:
    """The types of the keys that a value of a type holds."""
    if kind["type"] == "ref":
        yield kind
    for inner in (kind["of"],) if kind["type"] == "list" else kind.get("fields", {}).values():
        yield from keys_of(inner)


def fits(kind: Kind, other: Kind) -> bool:
    """Whether values of two types can be compared or set."""
    one, two = kind["type"], other["type"]
    if "null" in (one, two) or "any" in (one, two):
        return True
    if one == two == "ref":
        return bool(kind["entity"] == other["entity"])
    if one == two == "list":
        return fits(kind["of"], other["of"])
    if one == two or {one, two} in ({"integer", "number"}, {"text", "choice"}):
        return True
    for value, target in ((kind, other), (other, kind)):
        forms = NUMBERS if target.get("whole") else ("text",)
        if target["type"] == "ref" and value["type"] in forms:
            return True
    return False


# --- reading ---------------------------------------------------------------------------------


@dataclass(frozen=True)
class Token:
    form: str
    text: str
    at: int


@dataclass(frozen=True)
class NameScope:
    """What names mean where a text stands."""

    entities: Mapping[str, Mapping[str, Kind]]  # fields, the key among them
    keys: Mapping[str, str]  # field that holds an entity's key
    args: Mapping[str, Kind] = field(default_factory=dict)
    names: Mapping[str, Kind] = field(default_factory=dict)  # rows and values bound before
    here: tuple[tuple[str, str], ...] = ()  # aliases of the rows looked at, innermost last
    this: tuple[str, str] | None = None  # the row that a rule, a change or a view is about
    skips: bool = True  # whether a clause with an absent argument is passed over
    after: bool = False  # in what a promise says of the state after a call: `was(…)` is before it

    def bound(self, name: str, kind: Kind) -> NameScope:
        return replace(self, names={**self.names, name: kind})

    def at(self, alias: str, entity: str, shown: bool = False) -> NameScope:
        """Where a row is looked at: its fields need no name before them. `this` stays the row
        outside of a search, so that its conditions can name both."""
        return replace(
            self,
            here=(*self.here, (alias, entity)),
            this=(alias, entity) if shown else self.this,
            names={**self.names, alias: row_of(entity)},
        )


def term(text: str, scope: NameScope) -> tuple[Tree, Kind]:
    """A text as a tree, and the type of its value. Raises Mistake."""
    return _whole(text, scope, _TermReader.source_or_term)


def clause(text: str, scope: NameScope) -> Tree:
    """A condition as a tree. Raises Mistake."""
    return _whole(text, scope, _TermReader.clause)


def entry(text: str, scope: NameScope) -> tuple[Tree, Kind]:
    """What stands at a name of a response: a term, which may be `nullable`. Raises Mistake."""
    return _whole(text, scope, _TermReader.entry)


def _whole(
    text: str, scope: NameScope, read: Callable[[_TermReader, NameScope], _Found], fresh: int = 0
) -> _Found:
    reader = _TermReader(text, scope, fresh)
    found = read(reader, scope)
    if reader.peek().form != "end":
        reader.fail("An operator is missing")
    return found


def slots(text: str) -> Iterator[str | tuple[str, str]]:
    """The pieces of a text with {terms} in it: words, and each term with the form behind `|`.
    Raises Mistake."""
    for number, part in enumerate(re.split(r"\{([^{}]*)\}", text)):
        if number % 2:
            inner, _, form = part.partition("|")
            yield inner, form.strip()
        elif "{" in part or "}" in part:
            raise Mistake(f"A brace is not closed in {text!r}.")
        elif part:
            yield part


def template(text: str, scope: NameScope, fresh: int = 0) -> Tree:
    """A text with {terms} in it as a tree. Raises Mistake."""
    parts: Tree = ["text"]
    for piece in slots(text):
        if isinstance(piece, str):
            parts.append(["value", piece])
            continue
        inner, form = piece
        tree, kind = _whole(inner, scope, _TermReader.source_or_term, fresh)
        if kind["type"] in ("row", "list", "object"):
            raise Mistake(f"{{{inner}}} is {said(kind)}, not a value: write a field of it.")
        if form == "money" and kind["type"] in NUMBERS:
            tree = ["money", tree]
        elif form:
            raise Mistake(f"`|{form}` cannot stand in {{{inner}|{form}}}; only `|money` can.")
        parts.append(tree)
    return parts


def absent_in(tree: Any, scope: NameScope) -> list[str]:
    """The optional arguments without which a tree says nothing: those whose values or rows it
    uses, but for those of which it asks whether they are given."""
    used, asked = set[str](), set[str]()
    for node in nodes(tree):
        if node[0] == "arg":
            used.add(node[1])
        elif node[0] == "var":
            used.add(scope.names.get(node[1], {}).get("arg", ""))
        elif node[0] == "given":
            asked.add(node[1])
    return sorted(n for n in used - asked if scope.args.get(n, {}).get("optional"))


class _TermReader:
    def __init__(self, text: str, scope: NameScope, fresh: int = 0) -> None:
        if len(text) > LONGEST:
            raise Mistake(f"A term may have {LONGEST:,} characters; this has {len(text):,}.")
        self.text = text
        self.tokens = list(_tokens(text))
        if len(self.tokens) > MOST_TOKENS:
            raise Mistake(f"A term may have {MOST_TOKENS} words and signs: {text[:60]!r} has more.")
        self.next = 0
        self.depth = 0
        self.fresh = max(fresh, len(scope.here))  # rows that were given a name of their own

    # --- tokens

    def peek(self, ahead: int = 0) -> Token:
        where = self.next + ahead
        return self.tokens[where] if where < len(self.tokens) else Token("end", "", len(self.text))

    def take(self) -> Token:
        token = self.peek()
        self.next += 1
        return token

    def found(self, *texts: str) -> bool:
        token = self.peek()
        if token.text in texts and token.form in ("sign", "name"):
            self.next += 1
            return True
        return False

    def need(self, text: str) -> None:
        if not self.found(text):
            self.fail(f"`{text}` is missing")

    def fail(self, why: str) -> NoReturn:
        where = self.peek()
        before = f"before {self.text[where.at :][:24]!r}" if where.text else "at the end"
        raise Mistake(f"{why} {before} of {self.text!r}.")

    @contextmanager
    def nested(self) -> Iterator[None]:
        self.depth += 1
        if self.depth > DEEPEST:
            raise Mistake(f"Brackets are nested more than {DEEPEST} deep.")
        yield
        self.depth -= 1

    def items(self, closing: str) -> Iterator[None]:
        """Once for each of the things that commas part, up to a bracket."""
        while not self.found(closing):
            yield
            if not self.found(","):
                self.need(closing)
                return

    # --- clauses

    def clause(self, scope: NameScope) -> Tree:
        """Conditions joined by `and`, each passed over if an argument it names is absent."""
        tree, kind = self.disjunction(scope)
        if kind["type"] not in ("boolean", "any"):
            raise Mistake(f"A condition is missing: {self.text!r} is {said(kind)}.")
        parts = tree[1:] if tree[0] == "and" else [tree]
        if scope.skips:
            pairs = [(absent_in(part, scope), part) for part in parts]
            parts = [["skip", names, part] if names else part for names, part in pairs]
        return parts[0] if len(parts) == 1 else ["and", *parts]

    def disjunction(
        self, scope: NameScope, words: tuple[str, ...] = ("or", "and")
    ) -> tuple[Tree, Kind]:
        """Conditions joined by the first of the words, each joined by the next; or one term."""
        if not words:
            return self.negation(scope)
        tree, kind = self.disjunction(scope, words[1:])
        parts = [tree]
        while self.found(words[0]):
            if kind["type"] not in ("boolean", "any"):
                self.fail(f"`{words[0]}` joins conditions, and {said(kind)} is none")
            tree, kind = self.disjunction(scope, words[1:])
            parts.append(tree)
        return (parts[0], kind) if len(parts) == 1 else ([words[0], *parts], BOOLEAN)

    def negation(self, scope: NameScope) -> tuple[Tree, Kind]:
        if self.found("not"):
            with self.nested():
                tree, _ = self.negation(scope)
            return ["not", tree], BOOLEAN
        return self.comparison(scope)

    def comparison(self, scope: NameScope) -> tuple[Tree, Kind]:
        token = self.peek()
        if token.form == "arg" and self.peek(1).text == "is":
            self.next += 2
            self.need("given")
            name = token.text[1:]
            self.argument(name, scope)
            return ["given", name], BOOLEAN
        left, kind = self.sum(scope)
        token = self.peek()
        if token.text in ("=", "!=", "<", "<=", ">", ">=", "in", "has", "same"):
            self.next += 1
            right, other = self.sum(scope)
            return self.compared(token.text, (left, kind), (right, other), scope)
        return left, kind

    def compared(
        self, sign: str, one: tuple[Tree, Kind], two: tuple[Tree, Kind], scope: NameScope
    ) -> tuple[Tree, Kind]:
        (left, kind), (right, other) = one, two
        left, kind = as_key(left, kind, other, scope)
        right, other = as_key(right, other, kind, scope)
        inner = other
        if sign == "in":
            if other["type"] not in ("list", "any"):
                raise Mistake(f"`in` needs a list; {self.text!r} has {said(other)}.")
            inner = other.get("of", ANY)
        elif sign == "has":
            if other["type"] == "any" or kind["type"] == "any":
                inner = ANY
            elif kind["type"] == "list":
                inner, kind = kind["of"], other
            elif kind["type"] in ("text", "choice"):
                inner, kind = TEXT, other
            else:
                raise Mistake(f"`has` needs a text or a list; {self.text!r} has {said(kind)}.")
        if not fits(kind, inner):
            raise Mistake(f"{self.text!r} compares {said(kind)} with {said(inner)}.")
        if sign in ("<", "<=", ">", ">="):
            wrong = next((k for k in (kind, inner) if k["type"] in ("boolean", "row", "ref")), None)
            if wrong:
                raise Mistake(
                    f"`{sign}` needs numbers, dates or times; {said(wrong)} has no order."
                )
        if sign == "same" and "text" not in (kind["type"], inner["type"]):
            raise Mistake("`same` compares texts but for upper case; write `=`.")
        for tree, against in ((left, inner), (right, kind)):
            check_choice(tree, against)
        return [sign, left, right], BOOLEAN

    # --- terms

    def sum(self, scope: NameScope) -> tuple[Tree, Kind]:
        tree, kind = self.product(scope)
        while (sign := self.peek().text) in ("+", "-") and self.peek().form == "sign":
            self.next += 1
            right, other = self.product(scope)
            if self.peek().text in UNITS and self.peek().form == "name":
                unit = UNITS[self.take().text]
                if kind["type"] not in (*MOMENTS, "any") or other["type"] not in NUMBERS:
                    self.fail(f"{said(kind)} {sign} {said(other)} {unit} makes no moment")
                if kind["type"] == "date" and unit in ("hours", "minutes"):
                    self.fail("A date has no hours; write `at(date, time)`")
                amount = ["-", ["value", 0], right] if sign == "-" else right
                tree = ["shift", tree, amount, unit]
            else:
                hint = "; a span needs a unit, as in `+ 3 days`" if kind["type"] in MOMENTS else ""
                kind = self.number(sign, kind, other, hint)
                tree = [sign, tree, right]
        return tree, kind

    def product(self, scope: NameScope) -> tuple[Tree, Kind]:
        tree, kind = self.factor(scope)
        while (sign := self.peek().text) in ("*", "/") and self.peek().form == "sign":
            self.next += 1
            right, other = self.factor(scope)
            tree, kind = [sign, tree, right], self.number(sign, kind, other)
        return tree, kind

    def number(self, sign: str, kind: Kind, other: Kind, hint: str = "") -> Kind:
        """The type of what arithmetic gives."""
        if wrong := next((k for k in (kind, other) if k["type"] not in (*NUMBERS, "any")), None):
            self.fail(f"`{sign}` needs numbers, and here is {said(wrong)}{hint}")
        return INTEGER if sign != "/" and kind["type"] == other["type"] == "integer" else NUMBER

    def factor(self, scope: NameScope) -> tuple[Tree, Kind]:
        token = self.take()
        if token.form == "number":
            number = float(token.text) if "." in token.text else int(token.text)
            return ["value", number], INTEGER if isinstance(number, int) else NUMBER
        if token.form == "text":
            text = unquoted(token.text)
            moment = next((form for form, p in PATTERNS.items() if p.fullmatch(text)), None)
            return ["value", text], {"type": moment} if moment else {**TEXT, "constant": text}
        if token.form == "template":
            return template(unquoted(token.text), scope, self.fresh), TEXT
        if token.text == "-" and token.form == "sign":
            with self.nested():
                tree, kind = self.factor(scope)
            if kind["type"] not in NUMBERS:
                self.fail(f"`-` needs a number, and here is {said(kind)}")
            value = [tree[0], -tree[1]] if tree[0] == "value" else ["-", ["value", 0], tree]
            return value, kind
        if token.text == "(":
            with self.nested():
                tree, kind = self.disjunction(scope)
                self.need(")")
            return self.path(tree, kind, scope)
        if token.text == "[":
            return self.constants(scope) if self.ahead("for") is None else self.values(scope)
        if token.text == "{":
            return self.path(*self.keyed(scope), scope)
        if token.form == "arg":
            name = token.text[1:]
            return self.path(["arg", name], self.argument(name, scope), scope)
        if token.form != "name":
            self.next -= 1
            self.fail("A value is missing")
        return self.named(token.text, scope)

    def constants(self, scope: NameScope) -> tuple[Tree, Kind]:
        """A list of constants: ['pending', 'shipped']."""
        values, kind = [], NOTHING
        for _ in self.items("]"):
            tree, item = self.factor(scope)
            if tree[0] != "value":
                self.fail("A list in brackets holds constants only")
            if not fits(kind, item):
                self.fail(f"A list of {said(kind)} cannot hold {said(item)}")
            values.append(tree[1])
            kind = item
        return ["value", values], {**list_of(kind), "constants": values}

    def values(self, scope: NameScope) -> tuple[Tree, Kind]:
        """A value of each row: `[name for products where kind = 'mug' by price limit 5]`."""
        tree, kind = self.comprehension(scope, self.shown_value)
        self.need("]")
        return tree, list_of(kind)

    def keyed(self, scope: NameScope) -> tuple[Tree, Kind]:
        """An object with a field for each row: `{code: rate for rates where base = $base}`."""

        def pair(within: NameScope) -> tuple[Tree, Kind]:
            key, kind = self.disjunction(within)
            if kind["type"] in ("row", "list", "object", "boolean"):
                self.fail(f"The key of a field is a text or a number, and here is {said(kind)}")
            self.need(":")
            value, of = self.shown_value(within)
            return ["view", [["key", key], ["value", value]]], of

        tree, kind = self.comprehension(scope, pair)
        self.need("}")
        return ["keyed", tree], {"type": "object", "fields": {}, "of": kind}

    def comprehension(self, scope: NameScope, read: _Reading) -> tuple[Tree, Kind]:
        """What is read before `for`, of each row of the search behind it."""
        start, middle = self.next, self.ahead("for")
        if middle is None:
            self.fail("`for` and a search are missing")
        with self.nested():
            self.next = middle + 1
            parts, _, within = self.rows(scope)
            tree, kind = self.before(start, middle, read, within)
        return ["list", *parts, tree], kind

    def before(
        self, start: int, middle: int, read: _Reading, within: NameScope
    ) -> tuple[Tree, Kind]:
        """What stands from one place to another, of a row that is told of behind it."""
        after, self.next = self.next, start
        found = read(within)
        if self.next != middle:
            self.fail("An operator is missing")
        self.next = after
        return found

    def argument(self, name: str, scope: NameScope) -> Kind:
        if name not in scope.args:
            hints = near(name, scope.args)
            raise Mistake(f"There is no argument `${name}` in {self.text!r}{hints}.")
        return scope.args[name]

    def named(self, name: str, scope: NameScope) -> tuple[Tree, Kind]:
        if self.peek().text == "(" and name in _FUNCTIONS:
            self.next += 1
            with self.nested():
                tree, kind = _FUNCTIONS[name](self, scope)
            return self.path(tree, kind, scope)
        if name in ("true", "false"):
            return ["value", name == "true"], BOOLEAN
        if name == "nothing":
            return ["value", None], NOTHING
        if name == "now":
            return ["now"], DATETIME
        if name == "today":
            return ["today"], DATE
        if name == "this":
            if scope.this is None:
                raise Mistake(
                    f"`this` is the row of a rule, a change or a view, and {self.text!r} "
                    "is in none: name the row of a search, as in `lines as l where l.…`."
                )
            alias, entity = scope.this
            return self.path(["var", alias], row_of(entity), scope)
        owners = (one for one in reversed(scope.here) if _step_into(row_of(one[1]), name, scope))
        owner = next(owners, None)
        if owner and name in scope.names:
            _, entity = owner
            raise Mistake(
                f"`{name}` in {self.text!r} is of {entity} and a name of its own: write "
                f"`${name}_id` for the row of the argument, `this.{name}` in a view or a change, "
                f"name the row of a search (`{entity} as x`), or name the other anew with `as`."
            )
        if owner and owner != scope.here[-1]:
            outer, inner = (entity.lstrip("\0") for _, entity in (owner, scope.here[-1]))
            raise Mistake(
                f"`{name}` in {self.text!r} is of {outer}, and the row looked at is of {inner}: "
                f"name the outer one, as in `{outer} as x`, and write `x.{name}`."
            )
        if owner:
            alias, entity = owner
            self.next -= 1
            return self.path(["var", alias], row_of(entity), scope, dotted=False)
        if name in scope.names:
            return self.path(["var", name], scope.names[name], scope)
        if name in scope.entities:
            raise Mistake(
                f"`{name}` is an entity and no value in {self.text!r}: search it, as in "
                f"`count({name} where …)` and `first({name} where …)`."
            )
        known = [*scope.names, *(f"${arg}" for arg in scope.args)]
        known += [f for _, entity in scope.here for f in scope.entities[entity]]
        if f"${name}" in known:
            raise Mistake(f"Write `${name}` for the argument in {self.text!r}.")
        raise Mistake(f"Nothing is called `{name}` in {self.text!r}{near(name, known)}.")

    def path(
        self, tree: Tree, kind: Kind, scope: NameScope, dotted: bool = True
    ) -> tuple[Tree, Kind]:
        """Fields after a value: `.product.price`, through references. Those of a list's rows are
        left to `sum` and its like."""
        while not dotted or (kind["type"] != "list" and self.found(".")):
            dotted = True
            token = self.take()
            if token.form != "name":
                self.fail("A field is missing after `.`")
            if kind["type"] == "ref":  # a key stands for its row
                tree, kind = ["hop", tree, kind["entity"]], row_of(kind["entity"])
            step = _step_into(kind, token.text, scope)
            if step is None:
                hints = near(token.text, _fields_of(kind, scope))
                raise Mistake(f"{said(kind)} has no field `{token.text}` in {self.text!r}{hints}.")
            form, name, kind = step
            tree = ["field", tree, name]
            if form == "hop":
                tree = ["hop", tree, kind["entity"]]
        return tree, kind

    # --- searches

    def source_or_term(self, scope: NameScope) -> tuple[Tree, Kind]:
        """A search (`orders where … by … limit …`), a view of a row (`order[…]`), or a term."""
        if self.starts_search(scope):
            return self.search(scope)
        tree, kind = self.disjunction(scope)
        if self.peek().text == "[":
            if kind["type"] == "ref":
                tree, kind = ["hop", tree, kind["entity"]], row_of(kind["entity"])
            if kind["type"] != "row":
                self.fail(f"Only rows can be shown as `[…]`, and here is {said(kind)}")
            alias = self.alias()
            view, shape = self.view(scope.at(alias, kind["entity"], shown=True))
            return ["shown", alias, tree, view], shape
        return tree, kind

    def starts_search(self, scope: NameScope) -> bool:
        token = self.peek()
        if token.form == "arg":
            return self.peek(1).text in ("where", "[", "by", "limit", "as")
        return (
            token.form == "name"
            and token.text in scope.entities
            and token.text not in scope.names
            and self.peek(1).text not in (".", "(")
        )

    def alias(self) -> str:
        self.fresh += 1
        return f"_{self.fresh}"

    def source(self, scope: NameScope) -> tuple[list[Any], Kind, NameScope]:
        """What is searched, a table or a list, and the name of its items; their type; and what
        names mean where they are looked at."""
        token = self.peek()
        if token.form == "name" and token.text in scope.entities and token.text not in scope.names:
            self.next += 1
            tree, item = ["table", token.text], row_of(token.text)
        else:
            tree, kind = self.factor(scope)
            if kind["type"] != "list":
                self.fail(f"A search needs an entity or a list, and here is {said(kind)}")
            item = kind["of"]
        alias = self.alias()
        if self.found("as"):
            alias = self.take().text
        if item["type"] == "row":
            within = scope.at(alias, item["entity"])
        elif item["type"] == "object":
            anonymous = f"\0{alias}"
            within = replace(
                scope,
                entities={**scope.entities, anonymous: item["fields"]},
                here=(*scope.here, (alias, anonymous)),
                names={**scope.names, alias: {**item, "entity": anonymous}},
            )
        else:
            within = scope.bound(alias, item)
        return [tree, alias], item, within

    def where(self, within: NameScope) -> Tree | None:
        return self.clause(within) if self.found("where") else None

    def order(self, within: NameScope) -> list[list[Any]]:
        keys: list[list[Any]] = []
        while self.found("," if keys else "by"):
            tree, kind = self.sum(within)
            if kind["type"] in ("row", "list", "boolean"):
                self.fail(f"{said(kind)} has no order")
            keys.append([tree, self.found("desc")])
        return keys

    def rows(self, scope: NameScope) -> tuple[list[Any], Kind, NameScope]:
        """A source, with all that can say which of its items in which order."""
        parts, item, within = self.source(scope)
        parts += [self.where(within), self.order(within)]
        parts.append(self.sum(scope)[0] if self.found("limit") else None)
        return parts, item, within

    def search(self, scope: NameScope) -> tuple[Tree, Kind]:
        parts, item, within = self.rows(scope)
        view, shape = None, item
        if self.peek().text == "[":
            if item["type"] != "row":
                self.fail("Only rows can be shown as `[…]`")
            view, shape = self.view(replace(within, this=within.here[-1]))
        return ["list", *parts, view], list_of(shape)

    def view(self, scope: NameScope) -> tuple[Tree, Kind]:
        """What of a row is shown: `[order_id, customer.name, lines where … […] as items]`."""
        self.need("[")
        fields: list[list[Any]] = []
        kinds: dict[str, Kind] = {}
        with self.nested():
            for _ in self.items("]"):
                start = self.next
                tree, kind = self.shown_value(scope)
                name = "_".join(t.text for t in self.tokens[start : self.next] if t.form == "name")
                if self.found("as"):
                    name = self.take().text
                elif self.next - start > 5 or not name:
                    self.fail("What is not a plain field needs a name: `count(…) as waiting`")
                tree, kind = self.nullable(tree, kind)
                if name in kinds:
                    self.fail(f"`{name}` is shown twice")
                fields.append([name, tree])
                kinds[name] = kind
        return ["view", fields], {"type": "object", "fields": kinds}

    def shown_value(self, scope: NameScope) -> tuple[Tree, Kind]:
        """A term whose value can stand in a response."""
        tree, kind = self.source_or_term(scope)
        if "row" in (kind["type"], kind.get("of", ANY)["type"]):
            self.fail("A row needs the fields that are shown, as in `customer[name, city]`")
        return tree, kind

    def nullable(self, tree: Tree, kind: Kind) -> tuple[Tree, Kind]:
        """What is shown as null where there is nothing, if `nullable` stands behind it."""
        if self.found("nullable"):
            return ["nullable", tree], kind | {"nullable": True}
        return tree, kind

    def entry(self, scope: NameScope) -> tuple[Tree, Kind]:
        return self.nullable(*self.shown_value(scope))

    # --- functions

    def listed(self, scope: NameScope) -> list[tuple[Tree, Kind]]:
        return [self.disjunction(scope) for _ in self.items(")")]

    def ahead(self, word: str) -> int | None:
        """Where a word stands in the brackets that are open, if it does."""
        open_brackets = 0
        for at in range(self.next, len(self.tokens)):
            text = self.tokens[at].text
            if text in ("(", "[", "{"):
                open_brackets += 1
            elif text in (")", "]", "}"):
                open_brackets -= 1
                if open_brackets < 0:
                    return None
            elif text == word and not open_brackets and self.tokens[at].form == "name":
                return at
        return None


def _tokens(text: str) -> Iterable[Token]:
    at = 0
    while at < len(text.rstrip()):
        match = _TOKEN.match(text, at)
        if match is None:
            raise Mistake(f"{text[at:].strip()[:12]!r} cannot be read in {text!r}.")
        form = str(match.lastgroup)
        said = "=" if match[form] == "==" else match[form]  # as in most languages
        yield Token(form, said, match.start(form))
        at = match.end()


def unquoted(text: str) -> str:
    """What stands between quotes."""
    return re.sub(r"\\(.)", r"\1", text[1:-1])


def check_choice(tree: Tree, against: Kind) -> None:
    """A constant that is compared with a choice must be one of it."""
    if tree[0] != "value" or against["type"] != "choice":
        return
    for value in tree[1] if isinstance(tree[1], list) else [tree[1]]:
        if value is not None and value not in against["choices"]:
            choices = ", ".join(against["choices"])
            raise Mistake(f"{value!r} is none of the values that can stand there: {choices}.")


def as_key(tree: Tree, kind: Kind, other: Kind, scope: NameScope) -> tuple[Tree, Kind]:
    """What a term stands for beside another: a row beside a key for its own, and a constant that
    reads like a day or a time beside a text for the text that it is."""
    if kind["type"] == "row" and other["type"] in ("ref", "row"):
        entity = kind["entity"]
        return ["field", tree, scope.keys[entity]], {"type": "ref", "entity": entity}
    if tree[0] == "value" and other["type"] in ("text", "choice"):
        if kind["type"] in MOMENTS:
            return tree, TEXT
        if kind["type"] == "list" and kind["of"]["type"] in MOMENTS:
            return tree, list_of(TEXT)
    return tree, kind


def _fields_of(kind: Kind, scope: NameScope) -> Mapping[str, Kind]:
    if kind["type"] == "row":
        return scope.entities[kind["entity"]]
    fields: Mapping[str, Kind] = kind.get("fields", {})
    return fields


def _step_into(kind: Kind, name: str, scope: NameScope) -> tuple[str, str, Kind] | None:
    """What a name after a value is: its field, or the row that its field `name_id` refers to."""
    if kind["type"] == "any":
        return "field", name, ANY
    fields = _fields_of(kind, scope)
    if name in fields:
        return "field", name, fields[name]
    key = fields.get(f"{name}_id")
    own = scope.keys.get(kind.get("entity", "")) == f"{name}_id"
    if key and key["type"] == "ref" and not own:
        return "hop", f"{name}_id", row_of(key["entity"])
    if kind["type"] == "object" and "of" in kind:  # its fields are those that rows give
        return "field", name, kind["of"]
    return None


# --- functions: each reads what stands between its brackets ----------------------------------

_Function: TypeAlias = Callable[[_TermReader, NameScope], tuple[Tree, Kind]]


def _plain(name: str, takes: Sequence[Sequence[str]], gives: Kind) -> _Function:
    """A function of values: `takes` are the types that each may have."""

    def read(reader: _TermReader, scope: NameScope) -> tuple[Tree, Kind]:
        parts = reader.listed(scope)
        if len(parts) != len(takes):
            reader.fail(f"`{name}` takes {len(takes)} value(s), and here are {len(parts)}")
        for (_, kind), forms in zip(parts, takes, strict=True):
            if kind["type"] not in (*forms, "any"):
                reader.fail(f"`{name}` takes {' or '.join(forms)}, and here is {said(kind)}")
        return [name, *(tree for tree, _ in parts)], gives

    return read


def _same_kinds(name: str) -> _Function:
    def read(reader: _TermReader, scope: NameScope) -> tuple[Tree, Kind]:
        parts = reader.listed(scope)
        if len(parts) < 2:
            reader.fail(f"`{name}` takes two values or more")
        kind = parts[0][1]
        for _, other in parts[1:]:
            if not fits(kind, other) or kind["type"] in ("row", "list"):
                reader.fail(f"`{name}` cannot compare {said(kind)} with {said(other)}")
        return [name, *(tree for tree, _ in parts)], widest(*(kind for _, kind in parts))

    return read


def widest(*kinds: Kind) -> Kind:
    """What holds the values of all of these, which fit each other."""
    return max(kinds, key=lambda kind: {"null": 0, "integer": 1}.get(kind["type"], 2))


def _read_if(reader: _TermReader, scope: NameScope) -> tuple[Tree, Kind]:
    test = reader.clause(replace(scope, skips=False))
    reader.need(",")
    then, kind = reader.disjunction(scope)
    reader.need(",")
    otherwise, other = reader.disjunction(scope)
    reader.need(")")
    if not fits(kind, other):
        reader.fail(f"`if` gives {said(kind)} or {said(other)}")
    tree, kind = ["if", test, then, otherwise], widest(kind, other)
    if not absent_in(tree, scope):  # the row of an argument, or another where that is absent
        kind = {name: part for name, part in kind.items() if name != "arg"}
    return tree, kind


def _read_was(reader: _TermReader, scope: NameScope) -> tuple[Tree, Kind]:
    if not scope.after:
        reader.fail("`was(…)` stands in `after` and `shows` of a promise alone")
    tree, kind = reader.disjunction(scope)
    reader.need(")")
    rows = {
        name: [named["entity"], scope.keys[named["entity"]]]
        for name, named in scope.names.items()
        if named["type"] == "row"
    }
    return ["was", tree, rows], kind


def _read_round(reader: _TermReader, scope: NameScope) -> tuple[Tree, Kind]:
    parts = reader.listed(scope)
    if not 1 <= len(parts) <= 2 or any(k["type"] not in (*NUMBERS, "any") for _, k in parts):
        reader.fail("`round` takes a number, and how many digits after the point")
    places = parts[1][0] if len(parts) > 1 else ["value", 0]
    if places[0] != "value" or not isinstance(places[1], int) or not 0 <= places[1] <= 6:
        reader.fail("`round` takes 0 to 6 digits")
    return ["round", parts[0][0], places[1]], NUMBER if places[1] else INTEGER


def _read_zip(reader: _TermReader, scope: NameScope) -> tuple[Tree, Kind]:
    """Lists side by side: `zip($product_ids as product_id, $quantities as quantity)`."""
    columns: list[list[Any]] = []
    kinds: dict[str, Kind] = {}
    for _ in reader.items(")"):
        tree, kind = reader.disjunction(scope)
        if kind["type"] not in ("list", "any") or kind.get("of", ANY)["type"] == "row":
            reader.fail(f"`zip` takes lists of values, and here is {said(kind)}")
        reader.need("as")
        name = reader.take().text
        if name in kinds:
            reader.fail(f"`{name}` names two lists")
        columns.append([name, tree])
        kinds[name] = kind.get("of", ANY)
    if len(columns) < 2:
        reader.fail("`zip` takes two lists or more, each with its name: `$ids as id`")
    return ["zip", ["view", columns]], list_of({"type": "object", "fields": kinds})


def _read_count(reader: _TermReader, scope: NameScope) -> tuple[Tree, Kind]:
    parts, _, within = reader.source(scope)
    tree = ["count", *parts, reader.where(within)]
    reader.need(")")
    return tree, INTEGER


def _read_first(reader: _TermReader, scope: NameScope) -> tuple[Tree, Kind]:
    parts, item, within = reader.source(scope)
    tree = ["first", *parts, reader.where(within), reader.order(within)]
    reader.need(")")
    return tree, item


def _over_rows(name: str) -> _Function:
    """`sum(quantity * price for lines where …)`, or shorter `sum($payments.amount)`."""

    def read(reader: _TermReader, scope: NameScope) -> tuple[Tree, Kind]:
        start, middle = reader.next, reader.ahead("for")
        reader.next = start if middle is None else middle + 1
        parts, kind, within = reader.source(scope)
        tree = ["var", parts[1]]
        if middle is None and reader.found("."):
            tree, kind = reader.path(tree, within.names[parts[1]], within, dotted=False)
        test = reader.where(within)
        reader.need(")")
        if middle is not None:
            tree, kind = reader.before(start, middle, reader.sum, within)
        if name == "sum" and kind["type"] not in (*NUMBERS, "any"):
            reader.fail(f"`sum` adds numbers, and here is {said(kind)}")
        if kind["type"] in ("row", "list", "object", "boolean"):
            reader.fail(f"`{name}` needs values with an order, and here is {said(kind)}")
        return [name, *parts, test, tree], kind

    return read


_FUNCTIONS: dict[str, _Function] = {
    "count": _read_count,
    "first": _read_first,
    "sum": _over_rows("sum"),
    "min": _over_rows("min"),
    "max": _over_rows("max"),
    "if": _read_if,
    "round": _read_round,
    "was": _read_was,
    "least": _same_kinds("least"),
    "most": _same_kinds("most"),
    "days": _plain("days", [("date", "datetime"), ("date", "datetime")], INTEGER),
    "hours": _plain("hours", [MOMENTS, MOMENTS], NUMBER),
    "minutes": _plain("minutes", [MOMENTS, MOMENTS], NUMBER),
    "date": _plain("date", [("datetime",)], DATE),
    "time": _plain("time", [("datetime",)], TIME),
    "calculate": _plain("calculate", [("text",)], NUMBER),
    "zip": _read_zip,
    "at": _plain("at", [("date",), ("time",)], DATETIME),
    "hour": _plain("hour", [("datetime", "time")], INTEGER),
    "weekday": _plain(
        "weekday", [("date", "datetime")], {"type": "choice", "choices": list(WEEKDAYS)}
    ),
    "size": _plain("size", [("list", "text")], INTEGER),
}
