"""Schemas of any dialect and quality as small JSON Schemas of 2020-12, valid by construction.

What goes in is hostile: a schema of OpenAPI, Swagger, MCP, OpenAI or BFCL, or no schema at all.
References are written out down to a few levels; what is left out is booked in the ledger. Where a
source shows values and no types, `schema_of` tells the schema from them.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

from toolloom.pipeline.formats import keywords
from toolloom.pipeline.formats.import_log import ImportLog, Why, legible, sentence, shortened
from toolloom.pipeline.formats.references import Resolve, Resolver
from toolloom.schemas import JsonObject, canonical

_NESTING = 12  # schemas within schemas, lists and alternatives included
_STEPS = 4_000  # schemas that are looked at in one attempt
_MERGED = 16  # references and `allOf` within each other
_VARIANTS = 8
_NAME = 200  # characters of a property's name


@dataclass(frozen=True)
class SchemaBudget:
    """How large a schema may become, as compact JSON in UTF-8."""

    bytes: int = 8_000
    depth: int = 4  # properties within properties
    response: bool = False  # what is cut from a response's schema never makes it stricter


PARAMETERS = SchemaBudget()
RETURNS = SchemaBudget(bytes=4_000, response=True)


class Scoped(NamedTuple):
    """A schema, how to resolve references in it, and the references that led to it."""

    schema: Any
    resolve: Resolve
    trail: tuple[str, ...] = ()


class OverBudget(Exception):
    """This attempt has become too large."""


class SchemaReader:
    """One attempt at a schema: what it left out, and how much it has written and looked at."""

    def __init__(
        self, ledger: ImportLog, place: str, budget: SchemaBudget, text: int, examples: bool
    ) -> None:
        self._ledger = ledger
        self._root = place
        self._budget = budget
        self._text = text
        self._examples = examples
        self._spent = 0
        self._steps = 0
        self._cuts: list[tuple[str, Why, int]] = []

    # What was left out

    def cut(self, place: str, why: Why, size: int = 0) -> None:
        self._cuts.append((place, why, size))

    def book(self, api: str, small: bool) -> None:
        """One line for each reason, with the first place. `small`: the depth was given up for
        the bytes."""
        first: dict[Why, str] = {}
        number: Counter[Why] = Counter()
        size: Counter[Why] = Counter()
        for place, given, left_out in self._cuts:
            why: Why = "bytes" if small and given == "depth" else given
            first.setdefault(why, place)
            number[why] += 1
            size[why] += left_out
        for why, place in first.items():
            more = f" and {number[why] - 1} more" if number[why] > 1 else ""
            self._ledger.cut(api, legible(place)[:200] + more, why, size[why])

    def _spend(self, size: int) -> None:
        """About what is written. Only the end is measured exactly."""
        self._spent += size
        if self._spent > self._budget.bytes:
            raise OverBudget

    # A schema as one flat object

    def settle(self, node: Scoped, place: str, within: int = 0) -> dict[str, Any]:
        """The keywords of a schema with its references and `allOf` merged into it.

        Schemas in the values are Scoped. A reference that leads back is cut.
        """
        self._steps += 1
        if self._steps > _STEPS:
            raise OverBudget
        while isinstance(node.schema, Scoped):
            node = node.schema
        schema = node.schema
        if not isinstance(schema, dict):
            if not isinstance(schema, bool):
                self.cut(place, "invalid")
            return {}
        if within > _MERGED:
            self.cut(place, "cycle")
            return {}
        own = keywords.own(schema, lambda child: Scoped(child, node.resolve, node.trail))
        base: dict[str, Any] = {}
        reference = schema.get("$ref")
        if isinstance(reference, str):
            base = self._target(reference, node, place, within)
        parts = schema.get("allOf")
        for part in parts if isinstance(parts, list) else ():
            inner = self.settle(Scoped(part, node.resolve, node.trail), place, within + 1)
            base = keywords.merged(inner, base)
        return keywords.merged(own, base)

    def _target(self, reference: str, node: Scoped, place: str, within: int) -> dict[str, Any]:
        found = node.resolve(reference, place)
        if found is None:
            return {}
        if found.key in node.trail:
            self.cut(place, "cycle")
            return keywords.outline(found.value)
        trail = (*node.trail, found.key)
        return self.settle(Scoped(found.value, found.resolve, trail), place, within + 1)

    # Writing

    def read(self, node: Scoped, place: str, depth: int, nesting: int) -> JsonObject:
        """`depth`: properties around it. `nesting`: schemas of all kinds around it."""
        return self.write(self.settle(node, place), place, depth, nesting)

    def write(self, own: dict[str, Any], place: str, depth: int, nesting: int) -> JsonObject:
        types = keywords.types(own, lambda _: self.cut(f"{place}.type", "invalid"))
        out: JsonObject = {"type": types[0] if len(types) == 1 else types} if types else {}
        text = sentence(own.get("description"))
        if not text and isinstance(own.get("title"), str):
            title = sentence(own["title"])  # often the name again, or that of a class
            said = " " not in title or keywords.same_words(title, place.rpartition(".")[2])
            text = "" if said else title
        if text:
            short = shortened(text, self._text)
            if short != text:
                self.cut(f"{place}.description", "text", len(text) - len(short))
            if short:
                out["description"] = short
        self._values(own, types, out, place)
        self._spend(16 * len(out) + len(out.get("description", "")) + 2)
        for name in keywords.DROPPED:
            if name in own:
                self.cut(f"{place}.{name}", "invalid")
        if not types or "object" in types:
            self._object(own, out, place, depth, nesting)
        if not types or "array" in types:
            self._items(own, out, place, depth, nesting)
        self._groups(own, out, place, depth, nesting)
        return out

    def _values(self, own: dict[str, Any], types: list[str], out: JsonObject, place: str) -> None:
        """Keywords whose values hold no schemas."""
        choices, left_out = keywords.choices(own, types, self._budget.response)
        if choices:
            out["enum"] = choices
        for why, size in left_out:
            self.cut(f"{place}.enum", why, size)
        for name, value in keywords.limits(
            own, types, lambda k: self.cut(f"{place}.{k}", "invalid")
        ):
            if name != "examples" or self._examples:
                out[name] = value
            else:
                self.cut(f"{place}.examples", "bytes")

    def _object(
        self, own: dict[str, Any], out: JsonObject, place: str, depth: int, nesting: int
    ) -> None:
        named: dict[Any, Scoped] = own.get("properties", {})
        extra = own.get("additionalProperties")
        required = own.get("required", [])
        if nesting >= _NESTING or depth >= self._budget.depth:
            if named or isinstance(extra, Scoped):
                self.cut(place, "depth")
            return
        if named:
            out["properties"], required = self._named(named, required, place, depth, nesting)
        if required:
            out["required"] = [name for name in required if legible(name) == name]
            self._spend(sum(map(len, required)) + 12)
        if isinstance(extra, Scoped):
            out["additionalProperties"] = self.read(extra, f"{place}.*", depth + 1, nesting + 1)
        elif extra is False and "patternProperties" not in own:
            out["additionalProperties"] = False

    def _named(
        self, named: dict[Any, Scoped], required: list[str], place: str, depth: int, nesting: int
    ) -> tuple[JsonObject, list[str]]:
        """Schemas of properties, and which are required. Draft 3 marks that on the property."""
        hidden = "writeOnly" if self._budget.response else "readOnly"
        properties: JsonObject = {}
        needed = set(required)
        for name, child in named.items():
            if not isinstance(name, str) or not 0 < len(name) <= _NAME or legible(name) != name:
                self.cut(f"{place}.{str(name)[:_NAME]}", "invalid")
                continue
            inside = f"{place}.{name}"
            own = self.settle(child, inside)
            if own.get(hidden) is True:
                continue
            self._spend(len(name.encode()) + 4)
            properties[name] = self.write(own, inside, depth + 1, nesting + 1)
            if isinstance(child.schema, dict) and child.schema.get("required") is True:
                needed.add(name)
        return properties, [name for name in properties if name in needed]

    def _items(
        self, own: dict[str, Any], out: JsonObject, place: str, depth: int, nesting: int
    ) -> None:
        items, first = own.get("items"), own.get("prefixItems", [])
        if nesting >= _NESTING:
            if items or first:
                self.cut(f"{place}.items", "depth")
            return
        if items:
            out["items"] = self.read(items, f"{place}.items", depth, nesting + 1)
        if first:
            if len(first) > _VARIANTS:
                self.cut(f"{place}.prefixItems", "bytes")
            out["prefixItems"] = [
                self.read(each, f"{place}.prefixItems.{n}", depth, nesting + 1)
                for n, each in enumerate(first[:_VARIANTS])
            ]

    def _groups(
        self, own: dict[str, Any], out: JsonObject, place: str, depth: int, nesting: int
    ) -> None:
        """`anyOf` and `oneOf`, both as `anyOf`: what is cut from alternatives may overlap."""
        for number, group in enumerate(own.get("groups", ())):
            inside = f"{place}.anyOf" if number == 0 else f"{place}.anyOf.{number}"
            if nesting >= _NESTING:
                self.cut(inside, "depth")
                continue
            if len(group) > _VARIANTS:
                self.cut(inside, "enum")
                types = keywords.widened([self.settle(each, inside) for each in group[:100]])
                if types and len(group) <= 100 and "type" not in out:
                    out["type"] = types[0] if len(types) == 1 else types
                continue
            variants = [
                self.read(each, f"{inside}.{n}", depth, nesting + 1) for n, each in enumerate(group)
            ]
            if keywords.is_nullable(own):
                variants.append({"type": "null"})
            add_variants(out, variants)

    def squeeze(self, node: Scoped) -> JsonObject:
        """As many properties as fit, each without its parts, those that are required first."""
        try:
            own = self.settle(node, self._root)
        except OverBudget:
            own = {}
        types = keywords.types(own, lambda _: self.cut(f"{self._root}.type", "invalid"))
        out: JsonObject = {"type": types[0] if len(types) == 1 else types} if types else {}
        self.cut(self._root, "bytes")
        named, required = own.get("properties", {}), set(own.get("required", ()))
        if not named or (types and "object" not in types):
            return out
        room = self._budget.bytes - 200
        kept: JsonObject = {}
        for name in sorted(list(named)[:_STEPS], key=lambda n: n not in required):
            self._spent = self._steps = 0
            try:
                found, _ = self._named({name: named[name]}, [], self._root, 0, 0)
            except OverBudget:
                found = {name: {}} if isinstance(name, str) and len(name) <= _NAME else {}
            size = 2 * len(canonical(found).encode())  # its name may stand in `required` too
            if size > room:
                self.cut(f"{self._root}.{name}", "bytes", size // 2)
            else:
                room -= size
                kept.update(found)
        out["properties"] = {name: kept[name] for name in named if name in kept}
        if required & set(kept):
            out["required"] = [name for name in out["properties"] if name in required]
        return out


def add_variants(out: JsonObject, variants: list[JsonObject]) -> None:
    """Alternatives as briefly as they can be said."""
    different = list({canonical(v): v for v in variants}.values())
    if not all(different):  # one of them allows everything
        return
    if all(v.keys() == {"type"} for v in different) and "type" not in out:
        names: dict[str, None] = {}
        for each in different:
            given = each["type"]
            names.update(dict.fromkeys([given] if isinstance(given, str) else given))
        out["type"] = next(iter(names)) if len(names) == 1 else list(names)
        return
    null: JsonObject = {"type": "null"}
    others = [v for v in different if v != null]
    if len(others) == 1 and not (others[0].keys() - {"description"}) & out.keys():
        only = {**others[0], **out}
        if len(different) == 1:
            out.update(only)
            return
        if isinstance(only.get("type"), str) and "enum" not in only and "anyOf" not in only:
            out.update({**only, "type": [only["type"], "null"]})
            return
    if "anyOf" in out:
        out.setdefault("allOf", []).append({"anyOf": different})
    else:
        out["anyOf"] = different


def plain(
    schema: Any,
    *,
    ledger: ImportLog,
    api: str,
    place: str,
    resolve: Resolve | None = None,
    budget: SchemaBudget = PARAMETERS,
) -> JsonObject:
    """A valid schema of 2020-12 within the budget. Without `resolve`, `#/…` is the schema itself.

    `place` is `parameters` or `returns`; for arguments see `arguments`.
    """
    if not isinstance(schema, Scoped):
        schema = Scoped(schema, resolve or Resolver(None, schema, ledger).root)
    for depth, text, examples in _attempts(budget.depth):
        attempt = SchemaReader(ledger, place, replace(budget, depth=depth), text, examples)
        try:
            found = attempt.read(schema, place, 0, 0)
        except OverBudget:
            continue
        if len(canonical(found).encode()) <= budget.bytes:
            attempt.book(api, depth < budget.depth)
            return found
    attempt = SchemaReader(ledger, place, replace(budget, depth=1), 80, False)
    found = attempt.squeeze(schema)
    attempt.book(api, True)
    return found


def arguments(
    schema: Any,
    *,
    ledger: ImportLog,
    api: str,
    resolve: Resolve | None = None,
    budget: SchemaBudget = PARAMETERS,
) -> JsonObject:
    """`plain` for the arguments of a function: always an object that names its properties.

    Alternatives at the top, which OpenAI does not allow, become one object: the properties of
    all of them, of which those are required that all require.
    """
    found = plain(
        schema, ledger=ledger, api=api, place="parameters", resolve=resolve, budget=budget
    )
    variants = [v for v in found.get("anyOf", ()) if isinstance(v, dict)]
    if variants:
        ledger.cut(api, "parameters.anyOf", "invalid")
    properties = dict(found.get("properties", {}))
    for variant in variants:
        for name, each in variant.get("properties", {}).items():
            properties.setdefault(name, each)
    needed = [set(v.get("required", ())) for v in variants if v.get("type") != "null"]
    required = set(found.get("required", ())) | (set.intersection(*needed) if needed else set())
    whole: JsonObject = {"type": "object"}
    if "description" in found:
        whole["description"] = found["description"]
    whole["properties"] = properties
    if required & set(properties):
        whole["required"] = [name for name in properties if name in required]
    if "additionalProperties" in found:
        whole["additionalProperties"] = found["additionalProperties"]
    return whole


def keywords_of(schema: Scoped, ledger: ImportLog) -> dict[str, Any]:
    """The keywords of a schema, references and `allOf` merged; the schemas in it are Scoped."""
    try:
        return SchemaReader(ledger, "", PARAMETERS, 0, False).settle(schema, "body")
    except OverBudget:
        return {}


def _attempts(depth: int) -> Iterator[tuple[int, int, bool]]:
    """Depths, lengths of descriptions and whether with examples, until the budget holds."""
    yield depth, 400, True
    for number in range(depth, 0, -1):
        yield number, 100 if number == 1 else 160, False


_EXAMPLE_DEPTH = 5
_WIDTH = 60  # keys of an object, items of a list, that are looked at
_KEY = re.compile(r"[A-Za-z_$@][\w$@.-]{0,63}")


def schema_of(values: Iterable[Any], depth: int = 0) -> JsonObject:
    """A schema that all values fit, as narrow as can be said without guessing.

    Objects whose keys look like data (`10032`, `2023-04-12`) get no properties.
    """
    seen = list(values)
    kinds = {_kind(value) for value in seen}
    if kinds == {"integer", "number"}:
        kinds = {"number"}
    if not kinds or depth >= _EXAMPLE_DEPTH:
        return {}
    made: JsonObject = {"type": kinds.pop() if len(kinds) == 1 else sorted(kinds)}
    if made["type"] == "object":
        made |= _example_properties(seen, depth)
    elif made["type"] == "array":
        items = schema_of([item for value in seen for item in value[:_WIDTH]], depth + 1)
        made |= {"items": items} if items else {}
    return made


def _kind(value: Any) -> str:
    for kind, name in _KINDS:
        if isinstance(value, kind):
            return name
    return "null" if value is None else "string"


_KINDS = (
    (bool, "boolean"),
    (int, "integer"),
    (float, "number"),
    (dict, "object"),
    (list, "array"),
)


def _example_properties(objects: list[dict[str, Any]], depth: int) -> JsonObject:
    keys = {key: None for value in objects for key in list(value)[:_WIDTH]}
    if not keys or not all(_KEY.fullmatch(str(key)) for key in keys):
        return {}
    found = {
        str(key): schema_of([value[key] for value in objects if key in value], depth + 1)
        for key in keys
    }
    return {"properties": found}
