"""Schemas of any dialect and quality as small JSON Schemas of 2020-12, valid by construction.

What goes in is hostile: a schema of OpenAPI, Swagger, MCP or OpenAI, or no schema at all.
References are written out down to a few levels; of what is left out there is one list, booked at
the end. Where a source shows values and no types, `schema_of` tells the schema from them. `to_api`
makes the record of an API of what a source says of it.
"""

from __future__ import annotations

import json
import math
import re
import warnings
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import unquote

from toolloom.pipeline.checks.schema import as_list, is_number
from toolloom.pipeline.checks.text.words import table
from toolloom.pipeline.formats.import_log import (
    ImportLog,
    Obstacle,
    Why,
    legible,
    line,
    sentence,
    shortened,
)
from toolloom.pipeline.formats.rows import load
from toolloom.schemas import Api, ImportFailed, JsonObject, Source, canonical

# References


class Scoped(NamedTuple):
    """A part of a document, the file it stands in, and the references that led to it."""

    value: Any
    file: Path
    trail: tuple[str, ...] = ()

    def inner(self, value: Any) -> Scoped:
        """Something within it."""
        return value if isinstance(value, Scoped) else self._replace(value=value)

    @property
    def reference(self) -> str | None:
        found = self.value.get("$ref") if isinstance(self.value, dict) else None
        return found if isinstance(found, str) else None


class Resolver:
    """All references of one source: followed below its folder, never fetched; each file once."""

    def __init__(self, document: Any, ledger: ImportLog, file: Path | None = None) -> None:
        """Without a file only references within the document are followed."""
        self._folder = file.resolve().parent if file else None
        self._ledger = ledger
        self.root = Scoped(document, file.resolve() if file else Path())
        self._files: dict[Path, Any] = {self.root.file: document}

    def target(self, reference: str, at: Scoped, place: str) -> Scoped | None:
        """What a reference leads to; None if that is booked as unresolved."""
        found = self._look(reference, at, 0)
        if isinstance(found, Scoped):
            return found
        self._ledger.unresolved(legible(reference[:300]), legible(place[:300]), found)
        return None

    def settled(self, node: Scoped, place: str) -> Scoped:
        """A node, and if it is a reference, what that leads to in the end."""
        for _ in range(_HOPS):
            if node.reference is None:
                return node
            found = self.target(node.reference, node, place)
            if found is None:
                break
            node = found
        return node._replace(value=None)

    def _look(self, reference: str, at: Scoped, hops: int) -> Scoped | Obstacle:
        """RFC 6901. A pointer may lead through other references, as many real ones do."""
        address, _, fragment = reference.partition("#")
        file = self._file(unquote(address), at.file) if address else at.file
        if isinstance(file, str):
            return file
        pointer = unquote(fragment)
        here = Scoped(self._files[file], file)
        names = pointer.split("/") if pointer.strip("/") else [""]
        if names[0]:
            return "missing"
        for token in names[1:]:
            name = token.replace("~1", "/").replace("~0", "~")
            stepped = _step(here, name)
            if stepped is None and here.reference is not None and hops < _HOPS:
                found = self._look(here.reference, here, hops + 1)
                stepped = _step(found, name) if isinstance(found, Scoped) else None
            if stepped is None:
                return "missing"
            here = stepped
        return here._replace(trail=(*at.trail, f"{file}#{pointer}"))

    def _file(self, address: str, base: Path) -> Path | Obstacle:
        if _SCHEME.match(address):
            return "remote"
        try:
            path = (base.parent / address).resolve()
            foreign = Path(address).is_absolute() or "\\" in address
            if foreign or self._folder is None or not path.is_relative_to(self._folder):
                return "outside"
            if not path.is_file():
                return "missing"
        except (OSError, ValueError, RuntimeError):  # names no file can have, loops of links
            return "missing"
        if path not in self._files and len(self._files) < _MOST_FILES:
            try:
                readable = path.suffix.lower() in {".json", ".yaml", ".yml"}
                self._files[path] = load(path, self._ledger) if readable else None
            except ImportFailed:
                self._files[path] = None
        return path if isinstance(self._files.get(path), dict | list) else "unreadable"


_MOST_FILES = 1_000
_HOPS = 20  # references that lead to references
_SCHEME = re.compile(r"[a-zA-Z][a-zA-Z0-9+.-]+:|//")


def _step(here: Scoped, name: str) -> Scoped | None:
    value = here.value
    if isinstance(value, dict) and name in value:
        return here.inner(value[name])
    if isinstance(value, list) and name.isdecimal() and len(name) < 9 and int(name) < len(value):
        return here.inner(value[int(name)])
    return None


# One schema


class SchemaBudget(NamedTuple):
    """How large a schema may become, as compact JSON in UTF-8."""

    bytes: int = 8_000
    depth: int = 4  # properties within properties
    response: bool = False  # what is cut from a response's schema never makes it stricter


PARAMETERS = SchemaBudget()
RETURNS = SchemaBudget(bytes=4_000, response=True)
_NESTING = 12  # schemas within schemas, lists and alternatives included
_STEPS = 4_000  # schemas that are looked at in one attempt
_MERGED = 16  # references and `allOf` within each other
_VARIANTS = 8
_GROUPS = 4  # `anyOf` and `oneOf` that hold at the same time
_NAME = 200  # characters of a property's name


class _OverBudget(Exception):
    """This attempt has become too large."""


def plain(
    schema: Any,
    *,
    ledger: ImportLog,
    api: str,
    place: str = "returns",
    resolver: Resolver | None = None,
    budget: SchemaBudget = RETURNS,
) -> JsonObject:
    """A valid schema of 2020-12 within the budget, of what is returned; for arguments see
    `arguments`. Without a resolver `#/…` is the schema itself."""
    resolver = resolver or Resolver(schema, ledger)
    node = resolver.root.inner(schema)
    attempts = [(budget.depth, 400, True)]
    attempts += [(depth, 160 if depth > 1 else 100, False) for depth in range(budget.depth, 0, -1)]
    for depth, text, examples in attempts:
        reader = _Reader(resolver, budget, depth, text, examples)
        try:
            found = reader.read(node, place)
        except _OverBudget:
            continue
        if len(canonical(found).encode()) <= budget.bytes:
            break
    else:
        depth, reader = 0, _Reader(resolver, budget, 1, 80, False)
        found = reader.first_properties(node, place)
    reasons: dict[Why, list[tuple[str, int]]] = {}
    for where, why, size in reader.cuts:
        if why == "depth" and depth < budget.depth:  # it was given up for the bytes
            why = "bytes"
        reasons.setdefault(why, []).append((where, size))
    for why, cuts in reasons.items():  # a line for each reason, with the first place
        more = f" and {len(cuts) - 1} more" if len(cuts) > 1 else ""
        ledger.cut(api, legible(cuts[0][0])[:200] + more, why, sum(size for _, size in cuts))
    return found


def arguments(
    schema: Any,
    *,
    ledger: ImportLog,
    api: str,
    resolver: Resolver | None = None,
    budget: SchemaBudget = PARAMETERS,
) -> JsonObject:
    """`plain` for the arguments of a function: always an object that names its properties.

    Alternatives at the top, which OpenAI does not allow, become one object: the properties of
    all of them, of which those are required that all require.
    """
    place = "parameters"
    found = plain(schema, ledger=ledger, api=api, place=place, resolver=resolver, budget=budget)
    variants = [v for v in found.get("anyOf", ()) if isinstance(v, dict)]
    if variants:
        ledger.cut(api, "parameters.anyOf", "invalid")
    properties = dict(found.get("properties", {}))
    for variant in variants:
        properties = {**variant.get("properties", {}), **properties}
    lists = [set(v.get("required", ())) for v in variants if v.get("type") != "null"]
    required = set(found.get("required", ())) | (set.intersection(*lists) if lists else set())
    needed = [name for name in properties if name in required]
    whole = {**found, "type": "object", "properties": properties, "required": needed}
    kept = ("type", "description", "properties", "required", "additionalProperties")
    return {key: whole[key] for key in kept if whole.get(key) not in (None, [])}


def flattened(node: Scoped, resolver: Resolver) -> dict[str, Any]:
    """The keywords of a schema, references and `allOf` merged; the schemas in it are Scoped."""
    try:
        return _Reader(resolver, PARAMETERS, 0, 0, False).flat(node, "body")
    except _OverBudget:
        return {}


@dataclass
class _Reader:
    """One attempt at a schema, and what it left out."""

    resolver: Resolver
    budget: SchemaBudget
    depth: int
    text: int
    examples: bool
    cuts: list[tuple[str, Why, int]] = field(default_factory=list)
    spent: int = 0
    steps: int = 0

    def cut(self, place: str, why: Why, size: int = 0) -> None:
        self.cuts.append((place, why, size))

    def spend(self, size: int) -> None:
        """About what is written. Only the end is measured exactly."""
        self.spent += size
        if self.spent > self.budget.bytes:
            raise _OverBudget

    def _parts(self, node: Scoped, place: str, within: int = 0) -> Iterator[Scoped]:
        """What a schema refers to, the parts of its `allOf`, itself: the later one wins."""
        self.steps += 1
        if self.steps > _STEPS:
            raise _OverBudget
        schema = node.value
        if not isinstance(schema, dict) or within > _MERGED:
            if not isinstance(schema, bool):
                self.cut(place, "cycle" if isinstance(schema, dict) else "invalid")
            return
        target = node.reference and self.resolver.target(node.reference, node, place)
        if target and target.trail[-1] in node.trail:
            self.cut(place, "cycle")
            yield target.inner(_outline(target.value))
        elif target:
            yield from self._parts(target, place, within + 1)
        for part in as_list(schema.get("allOf")):
            yield from self._parts(node.inner(part), place, within + 1)
        yield node

    def flat(self, node: Scoped, place: str) -> dict[str, Any]:
        """The keywords of all its parts in one object. `groups`: `anyOf` and `oneOf`."""
        whole: dict[str, Any] = {}
        for part in self._parts(node, place):
            for key, value in part.value.items():
                if key == "properties" and isinstance(value, dict):
                    properties = whole.setdefault("properties", {})
                    for name, child in value.items():
                        inner, known = part.inner(child), properties.get(name)
                        if known is not None and known.value is not child:
                            inner = inner._replace(value={"allOf": [known, inner]})
                        properties[name] = inner
                elif key == "required" and isinstance(value, list):
                    names = [n for n in value if isinstance(n, str) and n]
                    whole["required"] = list(dict.fromkeys([*whole.get("required", ()), *names]))
                elif key in ("anyOf", "oneOf") and isinstance(value, list) and value:
                    group = [part.inner(each) for each in value]
                    whole["groups"] = [*whole.get("groups", ()), group][:_GROUPS]
                elif key == "items" and isinstance(value, list):  # until draft 2020-12
                    whole["prefixItems"] = value
                elif key in ("items", "additionalProperties") and isinstance(value, dict) and value:
                    whole[key] = part.inner(value)
                elif key == "type" and key in whole:
                    names, others = _type_names(value), _type_names(whole[key])
                    whole[key] = [n for n in names if n in others] or value
                elif key in _SIMPLE or (key == "additionalProperties" and isinstance(value, bool)):
                    whole[key] = value
        return whole

    def read(self, node: Scoped, place: str, depth: int = 0, nesting: int = 0) -> JsonObject:
        """`depth`: properties around it. `nesting`: schemas of all kinds around it."""
        return self._written(self.flat(node, place), place, depth, nesting)

    def _written(self, own: dict[str, Any], place: str, depth: int, nesting: int) -> JsonObject:
        types = _types(own)
        if not types and not _is_open(own.get("type")):
            self.cut(f"{place}.type", "invalid")
        out = _typed(types)
        text = sentence(own.get("description"))
        if not text and " " in (title := sentence(own.get("title"))):
            text = "" if _letters(title) == _letters(place.rpartition(".")[2]) else title
        if short := shortened(text, self.text):
            out["description"] = short
        if short != text:
            self.cut(f"{place}.description", "text", len(text) - len(short))
        out |= self._values(own, types, place)
        self.spend(16 * len(out) + len(short) + 2)
        for name in _DROPPED:
            if name in own:
                self.cut(f"{place}.{name}", "invalid")
        too_deep = nesting >= _NESTING
        if not types or "object" in types:
            if not too_deep and depth < self.depth:
                self._object(own, out, place, depth, nesting)
            elif own.get("properties") or isinstance(own.get("additionalProperties"), Scoped):
                self.cut(place, "depth")
        if "items" in own and (not types or "array" in types):
            if too_deep:
                self.cut(f"{place}.items", "depth")
            else:
                out["items"] = self.read(own["items"], f"{place}.items", depth, nesting + 1)
        for number, group in enumerate(own.get("groups", ())):
            inside = f"{place}.anyOf" if number == 0 else f"{place}.anyOf.{number}"
            if too_deep:
                self.cut(inside, "depth")
            elif len(group) > _VARIANTS:  # they become their types
                self.cut(inside, "enum")
                kinds = [_types(self.flat(each, inside)) for each in group[:100]]
                if "type" not in out and all(kinds) and len(group) <= 100:
                    out |= _typed(list(dict.fromkeys(name for each in kinds for name in each)))
            else:  # both as `anyOf`: what is cut from alternatives may overlap
                variants = [
                    self.read(each, f"{inside}.{n}", depth, nesting + 1)
                    for n, each in enumerate(group)
                ]
                _add_variants(out, [*variants, *([{"type": "null"}] if _nullable(own) else [])])
        return out

    def _values(self, own: dict[str, Any], types: list[str], place: str) -> JsonObject:
        """Keywords whose values hold no schemas, each legal, in a fixed order."""
        found: JsonObject = {}
        if choices := self._choices(own, types, place):
            found["enum"] = choices
        given = dict(own)
        for strict, bound in (("exclusiveMinimum", "minimum"), ("exclusiveMaximum", "maximum")):
            # Until draft 4 it says how the bound is meant.
            if isinstance(given.get(strict), bool) and given.pop(strict) and bound in given:
                given[strict] = given.pop(bound)
        for name, (kind, legal) in _LEGAL.items():
            value = given.get(name)
            if value is None or value is False or (kind and types and kind not in types):
                continue
            if legal(value):
                found[name] = int(value) if legal is _is_count else value
            else:
                self.cut(f"{place}.{name}", "invalid")
        told = [own["example"]] if "example" in own else []
        told += as_list(own.get("examples"))[:_EXAMPLES]
        if defaults := _fitting([own["default"]] if "default" in own else [], types, _EXAMPLE):
            found["default"] = defaults[0][1]
        if examples := dict(_fitting(told, types, _EXAMPLE)):
            if self.examples:
                found["examples"] = list(examples.values())[:_EXAMPLES]
            else:
                self.cut(f"{place}.examples", "bytes")
        return found

    def _choices(self, own: dict[str, Any], types: list[str], place: str) -> list[Any]:
        """Legal choices of the type, at most 64; of a response all or none."""
        given = [own["const"]] if "const" in own else own.get("enum")
        if not isinstance(given, list) or not given:
            return []
        fitting = _fitting(given[: CHOICES * 4], types, _CHOICE)
        lost, legal = len(given[: CHOICES * 4]) > len(fitting), dict(fitting)
        if lost:
            self.cut(f"{place}.enum", "invalid")
        if many := len(legal) > CHOICES or len(given) > CHOICES * 4:
            size = sum(map(len, list(legal)[CHOICES:])) + 10 * (len(given) - len(legal))
            self.cut(f"{place}.enum", "enum", 0 if self.budget.response else size)
        if (lost or many) and self.budget.response:
            return []
        kept = list(legal.values())[:CHOICES]
        return [*kept, None] if kept and _nullable(own) and None not in kept else kept

    def _object(
        self, own: dict[str, Any], out: JsonObject, place: str, depth: int, nesting: int
    ) -> None:
        """Its properties, and which are required: draft 3 marks that on the property."""
        hidden = "writeOnly" if self.budget.response else "readOnly"
        required, properties = own.get("required", []), dict[str, Any]()
        needed = set(required)
        for name, child in own.get("properties", {}).items():
            if not isinstance(name, str) or not 0 < len(name) <= _NAME or legible(name) != name:
                self.cut(f"{place}.{str(name)[:_NAME]}", "invalid")
                continue
            inside = f"{place}.{name}"
            inner = self.flat(child, inside)
            if inner.get(hidden) is True:
                continue
            self.spend(len(name.encode()) + 4)
            properties[name] = self._written(inner, inside, depth + 1, nesting + 1)
            if isinstance(child.value, dict) and child.value.get("required") is True:
                needed.add(name)
        if own.get("properties"):
            out["properties"] = properties
            required = [name for name in properties if name in needed]
        if required:
            out["required"] = [name for name in required if legible(name) == name]
            self.spend(sum(map(len, required)) + 12)
        extra = own.get("additionalProperties")
        if isinstance(extra, Scoped):
            out["additionalProperties"] = self.read(extra, f"{place}.*", depth + 1, nesting + 1)
        elif extra is False and "patternProperties" not in own:
            out["additionalProperties"] = False

    def first_properties(self, node: Scoped, place: str) -> JsonObject:
        """As many properties as fit, each without its parts, those that are required first."""
        self.cut(place, "bytes")
        kept: JsonObject = {}
        own: dict[str, Any] = {}
        room = self.budget.bytes - 200
        with suppress(_OverBudget):
            own = self.flat(node, place)
        named, required = own.get("properties", {}), own.get("required", [])
        for name in sorted(list(named)[:_STEPS], key=lambda n: n not in required):
            self.spent = self.steps = 0
            found: JsonObject = {}
            with suppress(_OverBudget):
                whole = self._written({"properties": {name: named[name]}}, place, 0, 0)
                found = whole.get("properties", {})
            size = 2 * len(canonical(found).encode())  # its name may stand in `required` too
            if found and size <= room:
                room -= size
                kept |= found
            else:
                self.cut(f"{place}.{str(name)[:_NAME]}", "bytes")
        out = _typed(_types({**own, "properties": kept}))
        if kept:
            out["properties"] = {name: kept[name] for name in named if name in kept}
        if needed := [name for name in required if name in kept]:
            out["required"] = needed
        return out


def _add_variants(out: JsonObject, variants: list[JsonObject]) -> None:
    """Alternatives as briefly as they can be said."""
    different = list({canonical(v): v for v in variants}.values())
    if not all(different):  # one of them allows everything
        return
    if all(v.keys() == {"type"} for v in different) and "type" not in out:
        kinds = [v["type"] for v in different]
        names = (n for k in kinds for n in (k if isinstance(k, list) else [k]))
        out |= _typed(list(dict.fromkeys(names)))
        return
    others = [v for v in different if v != {"type": "null"}]
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


# Keywords

OTHER_NAMES = dict(table("names of types"))
TYPES = {other: name for name, words in OTHER_NAMES.items() for other in (name, *words.split())}
_ANY = {"any", "mixed", "unknown", "", "anything", "*"}
_DROPPED = (
    "not", "if", "contains", "propertyNames", "patternProperties", "dependencies",
    "dependentSchemas", "dependentRequired", "unevaluatedProperties", "$dynamicRef", "prefixItems",
)  # fmt: skip
"""Rules that models seldom keep and few endpoints accept; leaving one out allows more values."""
CHOICES = 64
_CHOICE, _EXAMPLE, _PATTERN = 300, 200, 200  # characters
_EXAMPLES = 2
_FORMAT = re.compile(r"[A-Za-z0-9][A-Za-z0-9_./ -]{0,40}")


def _outline(schema: Any) -> JsonObject:
    """What can be said of a schema without looking into it."""
    if not isinstance(schema, dict):
        return {}
    found = {k: schema[k] for k in ("type", "description", "title") if k in schema}
    if "type" not in found and ("properties" in schema or "allOf" in schema):
        found["type"] = "object"
    return found


def _typed(types: list[str]) -> JsonObject:
    return {"type": types[0] if len(types) == 1 else types} if types else {}


def _type_names(given: Any) -> list[str]:
    names = [given] if isinstance(given, str) else as_list(given)
    texts = [n.strip().lower() for n in names if isinstance(n, str) and len(n) < 40]
    return list(dict.fromkeys(TYPES[t] for t in texts if t in TYPES))


def _is_open(given: Any) -> bool:
    """Whether a type says that any will do, or nothing is said of it."""
    several = given if isinstance(given, list) else [given]
    return given is None or any(isinstance(n, str) and n.strip().lower() in _ANY for n in several)


def _types(found: dict[str, Any]) -> list[str]:
    """JSON's names of the types, by their other names too; inferred where none is given."""
    given, choices = found.get("type"), found.get("enum")
    names = _type_names(given)
    if isinstance(given, list) and _is_open(given):
        return []
    if given is None:
        if found.get("properties") or "additionalProperties" in found:
            names = ["object"]
        elif "items" in found or "prefixItems" in found:
            names = ["array"]
        elif isinstance(choices, list) and choices and all(isinstance(c, str) for c in choices):
            names = ["string"]
    if names and _nullable(found) and "null" not in names:
        names.append("null")
    if "number" in names and "integer" in names:
        names.remove("integer")
    return names


def _nullable(found: dict[str, Any]) -> bool:
    return found.get("nullable") is True or found.get("x-nullable") is True


def _letters(text: str) -> str:
    """`Start Date` says no more than `start_date`."""
    return "".join(filter(str.isalnum, text.lower()))


def small(value: Any, limit: int) -> tuple[str, Any]:
    """A value as JSON text and as that text reads; empty text if it is no JSON or too long.

    What is large is not written out to find that it is: aliases of YAML can multiply.
    """
    if isinstance(value, str):
        return (value, value) if len(value) <= limit and legible(value) == value else ("", None)
    text = ""
    try:
        for part in json.JSONEncoder(ensure_ascii=False, allow_nan=False).iterencode(value):
            text += part
            if len(text) > limit:
                return "", None
        text.encode()
        return text, json.loads(text)
    except (TypeError, ValueError, RecursionError):
        return "", None


def _fitting(values: list[Any], kinds: list[str], limit: int) -> list[tuple[str, Any]]:
    """Those values, as JSON text and as they read, that are small and of the type.

    `1` among the choices of a text is "1", and "1" among those of a number is 1.
    """
    found = []
    for value in values:
        if "string" in kinds and len(kinds) <= 2 and isinstance(value, bool | int | float):
            value = json.dumps(value)
        elif isinstance(value, str) and kinds and "string" not in kinds and len(value) < 20:
            try:
                value = json.loads(value.lower(), parse_constant=str)
            except ValueError:
                continue
        text, read = small(value, limit)
        also = kind = _kind(read)
        if kind == "integer" or (kind == "number" and read.is_integer()):
            also = "number" if kind == "integer" else "integer"
        if text and (not kinds or kind in kinds or also in kinds):
            found.append((text, read))
    return found


def _is_number(value: Any) -> bool:
    if not is_number(value):
        return False
    return abs(value) < 2**63 if isinstance(value, int) else math.isfinite(value)


def _is_count(value: Any) -> bool:
    return _is_number(value) and value >= 0 and bool(value == int(value))


def _compiles(pattern: Any) -> bool:
    """A pattern of another dialect of regular expressions may mean something else or nothing."""
    if not isinstance(pattern, str) or len(pattern) > _PATTERN or legible(pattern) != pattern:
        return False
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            re.compile(pattern)
    except (re.error, OverflowError, RecursionError, Warning):
        return False
    return True


_COUNTS = ("minLength", "maxLength", "minItems", "maxItems", "minProperties", "maxProperties")
_BOUNDS = ("minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum")
_LEGAL: dict[str, tuple[str, Callable[[Any], bool]]] = {  # keyword: type it is for, what is legal
    "format": ("", lambda v: isinstance(v, str) and bool(_FORMAT.fullmatch(v))),
    "pattern": ("string", lambda v: isinstance(v, str) and _compiles(v)),
    **dict.fromkeys(_BOUNDS, ("", _is_number)),
    "multipleOf": ("", lambda v: _is_number(v) and v > 0),
    **dict.fromkeys(_COUNTS, ("", _is_count)),
    "uniqueItems": ("array", lambda v: v is True),
    "deprecated": ("", lambda v: v is True),
}
_SIMPLE = {
    *("type", "title", "description", "nullable", "x-nullable", "readOnly", "writeOnly"),
    *("enum", "const", "default", "example", "examples"),
    *_LEGAL,
    *_DROPPED,
}

# Schemas told from values

_EXAMPLE_DEPTH = 5
_WIDTH = 60  # keys of an object, items of a list, that are looked at
_KEY = re.compile(r"[A-Za-z_$@][\w$@.-]{0,63}")
_KINDS = {bool: "boolean", int: "integer", float: "number", dict: "object", list: "array"}


def _kind(value: Any) -> str:
    """The type of a JSON value; anything else is shown as text."""
    known = (name for kind, name in _KINDS.items() if isinstance(value, kind))
    return next(known, "null" if value is None else "string")


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
    made = _typed(sorted(kinds))
    if made["type"] == "object":
        keys = dict.fromkeys(key for value in seen for key in list(value)[:_WIDTH])
        if keys and all(_KEY.fullmatch(str(key)) for key in keys):
            made["properties"] = {
                str(key): schema_of([one[key] for one in seen if key in one], depth + 1)
                for key in keys
            }
    elif made["type"] == "array":
        items = schema_of([item for value in seen for item in value[:_WIDTH]], depth + 1)
        made |= {"items": items} if items else {}
    return made


# Records

LONGEST_TEXT = 1024  # of a description
SCHEMAS = ("parameters", "input_schema", "inputSchema")  # what fields of a tool hold one


def to_api(
    log: ImportLog,
    source: Source,
    *,
    category: str,
    tool: Any,
    name: Any,
    description: Any,
    parameters: Any,
    returns: Any = None,
    wanted: str = "",
    deprecated: bool = False,
) -> Iterator[Api]:
    """The API of what was found, or nothing: a repeat is counted, what has no name booked.

    Every value may be hostile. What its source files under no category is one with its tool.
    `wanted`: the function name, if it is not `name`.
    """
    called, tool = line(name), line(tool)
    if not called:
        what = ": ".join(filter(None, (tool, line(description)[:60])))
        return log.refuse(what, "It has no name.")
    tool = tool or "unnamed"
    path = f"{line(category) or tool}/{tool}"
    api = log.unrepeated(f"{path}/{called}", [description, parameters, returns], source.reference)
    if not api:
        return None
    log.read += 1
    function = log.function(wanted or called, api)
    text = log.shortened(sentence(description), LONGEST_TEXT, api)
    if parameters is not None and not isinstance(parameters, dict):
        log.cut(api, "parameters", "invalid")
        parameters = None
    yield Api(
        category=line(category) or tool,
        tool=tool,
        name=api[len(path) + 1 :],
        function=function,
        description=text,
        parameters=arguments(parameters or {}, ledger=log, api=api),
        returns=plain(returns or {}, ledger=log, api=api) or None,
        deprecated=deprecated,
        source=source if source.operation else source.model_copy(update={"operation": called}),
    )
    return None


def first(entry: dict[str, Any], *keys: str) -> Any:
    """The first of these fields that says something."""
    return next((entry[key] for key in keys if entry.get(key) is not None), None)
