"""The calls of a script that is made of a dialogue, with names for the parts of their results that
the dialogue is about.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from toolloom.pipeline.checks.text.words import STOP, content, exact, stems_of
from toolloom.pipeline.checks.world.grammar import MOMENTS, NUMBERS, Kind
from toolloom.pipeline.checks.world.interpreter import PATTERNS, Json, Row
from toolloom.pipeline.worlds.conditions import Conditions, Underivable
from toolloom.pipeline.worlds.lookups import leaves
from toolloom.pipeline.worlds.mentions import LONG, Sayable, places, renderings
from toolloom.pipeline.worlds.scripts import MadeCall
from toolloom.schemas import JsonObject

MOST_ITEMS = 6  # of a list that are told apart
_QUANTIFIED = re.compile(
    r"\b(?:only|both|all (?:of|the|my|your)|each|every|either|neither|none|no other|others?|"
    r"another|rest|nothing|else|anything)\b",
    re.IGNORECASE,
)
_NONE = re.compile(r"\b(?:none|nothing|no \w+|not any|neither)\b", re.IGNORECASE)
_RANKED = re.compile(
    r"\b(?:(?!(?:b?rest|requ?est|best|guest|interest|test|west|suggest|honest|forest)\b)\w{3,}est|"
    r"the (?:first|second|last|next)|earlier|later|sooner|cheaper|larger|smaller)\b",
    re.IGNORECASE,
)


class ResultParts:
    def __init__(self, of: Conditions) -> None:
        self.of = of
        self.taken: set[str] = set()  # names of parts of results

    def call(self, made: MadeCall, name: str, place: int) -> Iterator[JsonObject]:
        """A call, and names for the parts of its result that others are about."""
        spec = self.of.machine.operations[made.name].args
        args = ", ".join(f"{n} = {self.argument(v, spec[n])}" for n, v in made.arguments.items())
        yield {name: f"{made.name}({args}){f' fails {made.error}' if made.error else ''}"}
        if made.error:
            for one in self.of.ours:
                if one.kind.get("label") and exact(str(one.value), made.response):
                    self.of.needs[f"{name} has {one.term}"] = None
        else:
            said = "\n".join(self._replies(place)), self._later(place)
            shape = self.of.machine.world["operations"][made.name]["shape"]
            yield from self.parts_of(name, name, shape, made.response, said)

    def _replies(self, place: int) -> Iterator[str]:
        """What is said about a call: until the user speaks again, and what they answer."""
        for form, part in self.of.parts[place:]:
            if isinstance(part, str):
                yield part
                if form == "user":
                    return

    def _later(self, place: int) -> str:
        """All that is said after a call: names of what it shows may come late."""
        return "\n".join(part for _, part in self.of.parts[place:] if isinstance(part, str))

    def argument(self, value: Json, kind: Kind) -> str:
        """A value of a call as a term."""
        form = kind["type"]
        if form == "list":
            return f"[{', '.join(self.argument(item, kind['of']) for item in value)}]"
        if form == "object":
            fields = kind["fields"]
            return (
                f"({', '.join(f'{n} = {self.argument(v, fields[n])}' for n, v in value.items())})"
            )
        if form == "ref":
            if (kind["entity"], value) == (self.of.machine.actor, self.of.state["me"]):
                return "me"
            shown_by = [
                s.term for s in self.of.results if s.kind["type"] == "ref" and s.value == value
            ]
            if not shown_by and (kind["entity"], value) not in self.of.rows:
                raise Underivable(f"nothing that is named shows {value}")
            return shown_by[-1] if shown_by else self.of.rows[kind["entity"], value]
        return self.of.literal(value, kind)

    def parts_of(
        self, term: str, name: str, kind: Kind, value: Json, said: tuple[str, str]
    ) -> Iterator[JsonObject]:
        """Names for the items of a list that are spoken of or called, in the order in which others
        lean on them; conditions on what is shown."""
        if kind["type"] == "object" and isinstance(value, dict):
            self._show(name, kind, value, term)
            for f, inner in kind["fields"].items():
                if value.get(f) is not None:
                    yield from self.parts_of(f"{term}.{f}", name, inner, value[f], said)
        elif kind["type"] == "list" and kind["of"]["type"] == "object" and value is not None:
            yield from self._items(term, name, kind["of"], value, said)

    def _items(
        self, term: str, name: str, kind: Kind, items: list[Row], said: tuple[str, str]
    ) -> Iterator[JsonObject]:
        fields = kind["fields"]
        marks = [
            f for f, k in fields.items() if k["type"] in ("ref", "text") and k["type"] != "list"
        ]
        mark = next((f for f in marks if len({str(i.get(f)) for i in items}) == len(items)), "")
        known = {number: self._known(item, fields, items) for number, item in enumerate(items)}
        spoken = [
            n
            for n, item in enumerate(items)
            if not known[n] and self._is_told(item, items, fields, said)
        ]
        if spoken and not mark:
            raise Underivable("nothing tells the items of a list apart that are spoken of")
        order = [n for n in known if known[n]] + [
            n for n in range(max(spoken, default=-1) + 1) if not known[n]
        ]
        if len(order) > MOST_ITEMS:
            raise Underivable(f"{len(order)} items of a list would have to be told apart")
        self.of.sizes[term] = len(items)
        before: list[str] = []
        for n in order:
            noun = next((f for f in marks if f.endswith("_id")), "item").removesuffix("_id")
            own = f"{name}_{noun}"
            if own in self.taken:
                own = f"{own}_{sum(each.startswith(own) for each in self.taken) + 1}"
            self.taken.add(own)
            where = known[n] or " and ".join(f"{mark} != {b}.{mark}" for b in before)
            yield {own: f"first({term}{f' where {where}' if where else ''})"}
            if mark:
                before.append(own)
            if known[n] or n in spoken:
                yield from self.parts_of(own, own, kind, items[n], said)
            if known[n] and len(items) > 1 and _RANKED.search(said[0]):
                self._rank(term, own, mark, kind, items, n)
        self._missing(term, kind, items, said[0])
        many = len([n for n in order if known[n] or n in spoken])
        if len(items) < 2 or (said[0] and (many > 1 or _QUANTIFIED.search(said[0]))):
            self.of.needs[f"size({term}) = {len(items)}"] = None

    def _missing(self, term: str, kind: Kind, items: list[Row], said: str) -> None:
        """Keep from a list what a reply says that it lacks: «none of them is about the parking»."""
        for f, inner in kind["fields"].items():
            if inner["type"] == "text" and inner.get("label") and _NONE.search(said):
                shown = stems_of("\n".join(str(item.get(f)) for item in items))
                for word in sorted(
                    {w for w in re.findall(r"\w{4,}", said.lower()) if w not in STOP}
                ):
                    if not stems_of(word) & shown and word in self._vocabulary(f):
                        self.of.needs[f"count({term} where {f} has '{word}') = 0"] = None

    def _vocabulary(self, f: str) -> set[str]:
        """The words of all values that a field of this name has in the world's own data."""
        entities = self.of.machine.world["entities"].values()
        texts = [str(row.get(f, "")) for entity in entities for row in entity["data"]]
        return {word for text in texts for word in re.findall(r"\w{4,}", text.lower())}

    def _known(self, item: Row, fields: dict[str, Kind], items: list[Row]) -> str:
        """The condition by which an item is that of a row that is looked for."""
        for f, kind in fields.items():
            value = item.get(f)
            if value is None or sum(each.get(f) == value for each in items) > 1:
                continue
            if kind["type"] == "ref" and (kind["entity"], value) in self.of.rows:
                return f"{f} = {self.of.rows[kind['entity'], value]}"
            label = next(
                (
                    s
                    for s in self.of.ours
                    if s.kind.get("label")
                    and s.value == value
                    and s.term == f"{s.holder}.{s.field}"
                ),
                None,
            )
            if kind["type"] == "text" and label:
                return f"{f} = {label.term}"
        return self._holding(item, fields, items)

    def _holding(self, item: Row, fields: dict[str, Kind], items: list[Row]) -> str:
        """The condition by which an item is the only one that lists a row that is looked for."""
        for f, kind in fields.items():
            if kind["type"] == "list" and kind["of"]["type"] == "object":
                for one in item.get(f) or ():
                    inner = self._known(one, kind["of"]["fields"], item[f])
                    has = [each for each in items if any(_alike(one, o) for o in each.get(f) or ())]
                    if inner and len(has) == 1:
                        return f"count({f} where {inner}) > 0"
        return ""

    def _is_told(
        self, item: Row, items: list[Row], fields: dict[str, Kind], said: tuple[str, str]
    ) -> bool:
        """Whether a text says something that of all that is shown only this item has."""
        for f, kind in fields.items():
            value = item.get(f)
            if kind["type"] == "object" and value is not None:
                inner = [each[f] for each in items if each.get(f) is not None]
                if self._is_told(value, inner, kind["fields"], said):
                    return True
            if kind["type"] == "ref" and exact(str(value), said[0]):
                return True
            if kind["type"] not in ("text", *MOMENTS) and kind.get("role") != "money":
                continue
            others = [each[f] for each in items if each is not item and each.get(f) is not None]
            if value is None or value in others:
                continue
            own = {text for _, text in renderings(Sayable(f, kind, value), self.of.voice)}
            for other in (*others, *self._elsewhere(items)):
                same = kind["type"] != "text" and _form_of(other) == kind["type"]
                if same or other in others:
                    own -= {t for _, t in renderings(Sayable(f, kind, other), self.of.voice)}
            if any(True for text in own for _ in places(text, said[kind["type"] == "text"])):
                return True
            if kind["type"] == "text" and len(value) <= LONG:
                shared = {w for other in others for w in content(str(other))}
                if (set(content(value)) - shared) & stems_of(said[0]):
                    return True
        return False

    def _elsewhere(self, items: list[Row]) -> Iterator[Json]:
        """The values that other results show, and rows that are looked for hold."""
        for _, part in self.of.parts:
            if isinstance(part, MadeCall) and part.error is None and part.response is not items:
                shape = self.of.machine.world["operations"][part.name]["shape"]
                yield from (value for _, _, value in leaves(shape, part.response))
        yield from (one.value for one in self.of.ours)

    def _rank(
        self, term: str, own: str, mark: str, kind: Kind, items: list[Row], place: int
    ) -> None:
        """Keep an item the least, the greatest or the first, where words may say that it is."""
        if place == 0 and mark:
            self.of.needs[f"first({term}).{mark} = {own}.{mark}"] = None
        for f, inner in kind["fields"].items():
            values = [item[f] for item in items if item.get(f) is not None]
            if inner["type"] not in (*NUMBERS, *MOMENTS) or len(values) < len(items):
                continue
            for sign, most in (("<=", min(values)), (">=", max(values))):
                if values[place] == most and values.count(most) == 1:
                    self.of.needs[f"count({term} where {f} {sign} {own}.{f}) = 1"] = None

    def _show(self, name: str, kind: Kind, value: Row, term: str) -> None:
        """The values of an object, for texts to say; and what words may lean on in them."""
        fields = kind["fields"]
        key = next(
            (str(value[f]) for f, k in fields.items() if k["type"] == "ref" and f in value), term
        )
        entity = next((k["entity"] for k in fields.values() if k["type"] == "ref"), "")
        own = self.of.machine.entities[entity].fields if (entity, key) in self.of.rows else {}
        for f, inner in fields.items():
            if inner["type"] in ("object", "row") or f not in value:
                continue
            one = Sayable(f"{term}.{f}", inner, value[f], name, key)
            self.of.results.append(one)
            same = f in own and self.of.row((entity, key)).get(f) == value[f]
            if inner["type"] not in ("list", "ref") and (
                not same or inner["type"] in ("boolean", *NUMBERS)
            ):
                self.of.leaned_on.append(one)


def _alike(one: Row, other: Row) -> bool:
    """Whether two items name the same thing."""
    texts = [value for value in one.values() if isinstance(value, str)]
    return texts == [value for value in other.values() if isinstance(value, str)]


def _form_of(value: Json) -> str:
    if isinstance(value, str):
        return next((form for form, like in PATTERNS.items() if like.fullmatch(value)), "text")
    return "number" if isinstance(value, (int, float)) else ""
