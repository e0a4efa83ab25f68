"""What a document tells of an operation: its path and method, and the record in its response."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from dataclasses import dataclass

from toolloom.pipeline.checks.schema import as_dict, first_type
from toolloom.pipeline.checks.text.words import name_words
from toolloom.schemas import Api, JsonObject

KEYS = ("id", "uuid", "guid", "slug", "code", "number")
ALIKE = 0.6  # share of fields that two records of one table have in common
DEEPEST = 3  # objects in an object that are told as fields

_PREFIX = re.compile(r"api|rest|v?\d+(\.\d+)*|public|services?")
_PLACE = re.compile(r"\{[.;?]?(\w+)\*?\}")
PLAIN = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")


def snake(name: str) -> str:
    return "_".join(name_words(name))


def singular(name: str) -> str:
    """The noun of a table's name, also of `statuses`."""
    endings = ("ies", "y"), ("uses", "us"), ("sses", "ss"), ("xes", "x"), ("ches", "ch"), ("s", "")
    for ending, other in endings:
        if name.endswith(ending) and not name.endswith("ss"):
            return name.removesuffix(ending) + other
    return name


def stem(word: str) -> str:
    """What a verb, its noun and its participle have in common: mute, mutes, muted, muting."""
    for ending in ("ing", "ed", "es", "s", "e"):
        if word.endswith(ending) and len(word) - len(ending) > 2:
            word = word.removesuffix(ending)
            break
    return word[:-1] if word[-2:-1] == word[-1:] else word


@dataclass(frozen=True)
class ReturnedRecord:
    """What a response tells about: fields by their path, one or many, and in what it is wrapped."""

    fields: Mapping[tuple[str, ...], JsonObject]
    many: bool
    wrap: tuple[str, ...] = ()
    about: str = ""
    names: frozenset[str] = frozenset()  # of the object's own properties


Known = Collection[frozenset[str]]  # the properties of other records: such an object is one


def record_of(schema: object, known: Known = ()) -> ReturnedRecord | None:
    """The record in a response's schema: the object, the items of its one list, or what `data` or
    a wrapper like it holds."""
    schema = as_dict(schema)
    if first_type(schema) == "array":
        items = as_dict(schema.get("items"))
        fields = _flat(items, known)
        return ReturnedRecord(fields, True, (), about(items), _names(items)) if fields else None
    properties = {name: as_dict(part) for name, part in as_dict(schema.get("properties")).items()}
    lists = [n for n, p in properties.items() if _flat(as_dict(p.get("items")), known)]
    objects = [n for n, p in properties.items() if len(_names(p)) > 1]
    plain = [n for n, p in properties.items() if is_scalar(p)]
    keyed = any(snake(name) in KEYS for name in properties)
    inner = lists if len(lists) == 1 and len(plain) < 4 else objects if len(objects) == 1 else []
    if inner and not keyed and (inner is lists or not plain):
        found = record_of(properties[inner[0]], known)
        wrap = (inner[0], *(found.wrap if found else ()))
        return found and ReturnedRecord(found.fields, found.many, wrap, found.about, found.names)
    fields = _flat(schema, known)
    if len(fields) < 2:
        return None
    return ReturnedRecord(fields, False, (), about(schema), _names(schema))


def _names(schema: JsonObject) -> frozenset[str]:
    return frozenset(as_dict(schema.get("properties")))


def _flat(
    schema: JsonObject, known: Known, within: tuple[str, ...] = ()
) -> dict[tuple[str, ...], JsonObject]:
    """Fields by path: those of objects in it too, but for objects that are records themselves or of
    which nothing is told."""
    found: dict[tuple[str, ...], JsonObject] = {}
    for name, value in as_dict(schema.get("properties")).items():
        part = as_dict(value)
        items = as_dict(part.get("items")) if first_type(part) == "array" else part
        linked = any(alike(_names(part), each) for each in known)
        inner = {} if linked or len(within) == DEEPEST else _flat(part, known, (*within, name))
        if not PLAIN.fullmatch(name):
            continue
        if inner:
            found |= {(name, *path): kind for path, kind in inner.items()}
        elif is_scalar(items) or first_type(part) == "object":
            found[name,] = part
    return found


def alike(names: Collection[str], others: Collection[str]) -> bool:
    """Whether two records are rows of one table."""
    both = len(set(names) & set(others))
    every = len(set(names) | set(others))
    return bool(both) and (both / every >= ALIKE or (both > 3 and both == len(names)))


def is_scalar(schema: JsonObject) -> bool:
    return first_type(schema) in ("string", "integer", "number", "boolean")


def about(schema: JsonObject) -> str:
    return " ".join(str(schema.get("description", "")).split())


class ApiRoute:
    """Method and path of an API, and what it returns."""

    def __init__(self, api: Api, known: Known = ()) -> None:
        self.api = api
        self.method, _, path = api.source.operation.partition(" ")
        path = re.sub(r"\.(json|xml)$|\{\.\w+\}", "", path)
        parts = [part for part in path.split("/") if part]
        while parts and _PREFIX.fullmatch(parts[0].lower()):
            parts.pop(0)
        places = [n for n, part in enumerate(parts) if _PLACE.fullmatch(part)]
        cut = places[-1] if places else len(parts)
        self.places = [m[1] for part in parts if (m := _PLACE.fullmatch(part))]
        self.statics = [snake(part) for part in parts if not _PLACE.fullmatch(part)]
        self.collection = tuple(snake(p) for p in parts[:cut] if not _PLACE.fullmatch(p))
        self.on_item = bool(places) and cut == len(parts) - 1
        self.record = record_of(api.returns, known)
        words = name_words(self.statics[-1]) if self.statics else []
        self.reads = self.method == "GET" or words[:1] in (["get"], ["list"], ["find"], ["search"])

    @property
    def lists(self) -> bool:
        return self.record is not None and self.record.many

    @property
    def last(self) -> str:
        return self.statics[-1] if self.statics else ""

    @property
    def under(self) -> str:
        """What the last place of the path is one of: `accounts` of `/accounts/{id}/follow`."""
        return self.collection[-1] if self.places and self.collection else ""
