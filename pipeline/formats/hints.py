"""Python type hints as JSON Schema, with the classes and constants of their file.

All of it is parsed as text: nothing is imported or run.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from toolloom.schemas import JsonObject

_DEPTH = 8
_STEPS = 3000  # parts of all hints of a function that are looked at
_SIMPLE: dict[str, JsonObject] = {
    "str": {"type": "string"},
    "LiteralString": {"type": "string"},
    "Path": {"type": "string"},
    "PathLike": {"type": "string"},
    "int": {"type": "integer"},
    "float": {"type": "number"},
    "Decimal": {"type": "number"},
    "bool": {"type": "boolean"},
    "None": {"type": "null"},
    "NoneType": {"type": "null"},
    "date": {"type": "string", "format": "date"},
    "datetime": {"type": "string", "format": "date-time"},
    "time": {"type": "string", "format": "time"},
    "timedelta": {"type": "string", "format": "duration"},
    "UUID": {"type": "string", "format": "uuid"},
    "EmailStr": {"type": "string", "format": "email"},
    "HttpUrl": {"type": "string", "format": "uri"},
}


def _names(text: str) -> frozenset[str]:
    return frozenset(text.split())


_LISTS = _names(
    "list List Sequence MutableSequence Iterable Iterator Collection Generator AsyncIterator"
    " AsyncIterable AsyncGenerator deque Deque KeysView ValuesView"
)
_SETS = _names("set Set frozenset FrozenSet AbstractSet MutableSet")
_MAPPINGS = _names("dict Dict Mapping MutableMapping OrderedDict defaultdict DefaultDict Counter")
_WRAPPERS = _names("Final ClassVar Required NotRequired ReadOnly Awaitable InitVar")
_ANYTHING = {"Any", "object", "JsonValue"}
_LIMITS = {
    "ge": "minimum",
    "gt": "exclusiveMinimum",
    "le": "maximum",
    "lt": "exclusiveMaximum",
    "min_length": "minLength",
    "max_length": "maxLength",
    "pattern": "pattern",
    "multiple_of": "multipleOf",
}


class Hints:
    """Reads the hints of one file, whose own classes and names for types it knows."""

    def __init__(
        self,
        shapes: Mapping[str, ClassShape],
        aliases: Mapping[str, str],
        imported: Mapping[str, str],
        unknown: Callable[[str], None],
    ) -> None:
        """`aliases`: values of the file's own names; `imported`: the last part of what a name
        stands for; `unknown` is told each type that JSON Schema cannot express."""
        self._shapes = shapes
        self._aliases = aliases
        self._imported = imported
        self._unknown = unknown
        self._steps = 0

    def schema(self, hint: str, depth: int = 0) -> JsonObject:
        """The schema of a hint; empty for what may be anything."""
        node = parsed(hint)
        if node is None:
            self._unknown(hint[:80])
            return {}
        return self._node(node, depth)

    def _node(self, node: ast.expr, depth: int) -> JsonObject:
        self._steps += 1
        if depth > _DEPTH or self._steps > _STEPS:
            self._unknown("a type nested too deep")
            return {}
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            return self.schema(node.value, depth + 1)
        if isinstance(node, ast.Constant) and node.value is None:
            return {"type": "null"}
        if isinstance(node, ast.BinOp) and isinstance(node.op, ast.BitOr):
            parts: list[ast.expr] = []
            while isinstance(node, ast.BinOp) and isinstance(node.op, ast.BitOr):
                parts.append(node.right)
                node = node.left
            return self._union([node, *reversed(parts)], depth)
        if isinstance(node, ast.Subscript):
            inner = node.slice.elts if isinstance(node.slice, ast.Tuple) else [node.slice]
            return self._generic(self._name(node.value), inner, node, depth)
        if name := self._name(node):
            return self._named(name, node, depth)
        return self._odd(node)

    def _odd(self, node: ast.expr) -> JsonObject:
        self._unknown(ast.unparse(node)[:80])
        return {}

    def _name(self, node: ast.expr) -> str:
        """The last part of a dotted name, by the name it was imported under."""
        if isinstance(node, ast.Attribute):
            return node.attr
        if not isinstance(node, ast.Name):
            return ""
        own = node.id in self._shapes or node.id in self._aliases
        return node.id if own else self._imported.get(node.id, node.id)

    def _named(self, name: str, node: ast.expr, depth: int) -> JsonObject:
        if name in self._shapes:
            shape = self._shapes[name]
            if shape.is_enum:
                return choices(list(enumerated(shape).values()))
            fields = self._fields(shape, depth)
            if fields is None:
                self._unknown(name)
                return {}
            properties: JsonObject = {}
            required: list[str] = []
            for key, member in fields.items():
                made, needed = self._field(member, shape, depth)
                properties[key] = made
                required += [key] if needed else []
            return {"type": "object", "properties": properties, "required": required}
        if name in self._aliases:
            return self.schema(self._aliases[name], depth + 1)
        if name in _SIMPLE:
            return dict(_SIMPLE[name])
        if name in _LISTS or name in ("tuple", "Tuple"):
            return {"type": "array"}
        if name in _SETS:
            return {"type": "array", "uniqueItems": True}
        if name in _MAPPINGS:
            return {"type": "object"}
        return {} if name in _ANYTHING else self._odd(node)

    def _generic(self, name: str, inner: list[ast.expr], node: ast.expr, depth: int) -> JsonObject:
        if not inner and name not in ("tuple", "Tuple"):  # `list[()]`
            return self._odd(node)
        if name == "Optional":
            return self._union([*inner, ast.Constant(None)], depth)
        if name == "Union":
            return self._union(inner, depth)
        if name == "Literal":
            return self._literal(inner)
        if name == "Annotated":
            made = self._node(inner[0], depth + 1)
            for said in inner[1:]:
                if isinstance(said, ast.Constant) and isinstance(said.value, str):
                    made = {**made, "description": said.value}
                elif isinstance(said, ast.Call):
                    made = {**made, **self.described(said)}
            return made
        if name in _WRAPPERS:
            return self._node(inner[0], depth + 1)
        last = inner[-1] if inner else None
        if name in ("tuple", "Tuple") and not (
            isinstance(last, ast.Constant) and last.value is Ellipsis
        ):
            parts = [self._node(part, depth + 1) for part in inner]
            size = {"minItems": len(parts), "maxItems": len(parts)}
            return {"type": "array", "prefixItems": parts, **size}
        if name in _LISTS or name in _SETS or name in ("tuple", "Tuple"):
            items = self._node(inner[0], depth + 1)
            unique = {"uniqueItems": True} if name in _SETS else {}
            return {"type": "array", **({"items": items} if items else {}), **unique}
        if name in _MAPPINGS:
            values = self._node(inner[1], depth + 1) if len(inner) == 2 else {}
            return {"type": "object", **({"additionalProperties": values} if values else {})}
        return self._odd(node)

    def _union(self, parts: list[ast.expr], depth: int) -> JsonObject:
        made: list[JsonObject] = []
        for part in parts:
            schema = self._node(part, depth + 1)
            made += [schema] if schema not in made else []
        if {} in made:
            return {}
        if len(made) == 1:
            return made[0]
        if all(set(schema) == {"type"} for schema in made):
            # `int | None` within another union is several types already.
            given = (schema["type"] for schema in made)
            names = [name for one in given for name in (one if isinstance(one, list) else [one])]
            return {"type": list(dict.fromkeys(names))}
        return {"anyOf": made}

    def _literal(self, inner: list[ast.expr]) -> JsonObject:
        values: list[Any] = []
        for node in inner:
            known, value = self.value(ast.unparse(node))
            if not known:
                return self._odd(node)
            values.append(value)
        return choices(values)

    def described(self, call: ast.Call) -> JsonObject:
        """What a `Field(description=…, ge=…)` or `Doc("…")` says."""
        made: JsonObject = {}
        if self._name(call.func) == "Doc" and call.args:
            known, value = literal(call.args[0])
            return {"description": value} if known and isinstance(value, str) else {}
        for keyword in call.keywords:
            known, value = literal(keyword.value)
            if known and keyword.arg == "description" and isinstance(value, str):
                made["description"] = value
            elif known and keyword.arg == "examples" and isinstance(value, list):
                made["examples"] = value
            elif known and keyword.arg in _LIMITS:
                made[_LIMITS[keyword.arg]] = value
        return made

    def _fields(self, shape: ClassShape, depth: int) -> dict[str, Member] | None:
        """Its own fields after those of its bases in this file; none of a class without shape."""
        found: dict[str, Member] = {}
        shaped = shape.is_record
        for base in shape.bases:
            if base in self._shapes and depth <= _DEPTH:
                inherited = self._fields(self._shapes[base], depth + 1)
                shaped = shaped or inherited is not None
                found |= inherited or {}
        found |= {k: m for k, m in shape.members.items() if m.annotation}
        return found if shaped else None

    def _field(self, member: Member, shape: ClassShape, depth: int) -> tuple[JsonObject, bool]:
        made = self.schema(member.annotation, depth + 1)
        needed = shape.total and "NotRequired" not in member.annotation
        if member.value is None:
            return made, needed or "Required[" in member.annotation.replace("NotRequired[", "")
        node = parsed(member.value)
        if isinstance(node, ast.Call):
            made = {**made, **self.described(node)}
            defaults = [word.value for word in node.keywords if word.arg == "default"]
            known, value = literal(next(iter([*node.args, *defaults]), None))
            if known and value is not None:
                made["default"] = value
            factory = any(word.arg == "default_factory" for word in node.keywords)
            required = bool(node.args) and ast.unparse(node.args[0]) == "..."
            return made, required or not (node.args or defaults or factory)
        known, value = self.value(member.value)
        return ({**made, "default": value} if known and value is not None else made), False

    def value(self, written: str) -> tuple[bool, Any]:
        """(whether it is a literal or a member of an enum of this file, its value)."""
        node = parsed(written)
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name):
            shape = self._shapes.get(node.value.id)
            if shape and shape.is_enum and node.attr in shape.members:
                return True, enumerated(shape).get(node.attr)
        return literal(node)


_LONGEST = 4000  # letters of an expression
_RECORDS = {"TypedDict", "BaseModel", "NamedTuple"}
_ENUMS = {"Enum", "IntEnum", "StrEnum", "Flag", "IntFlag"}


@dataclass(frozen=True)
class Member:
    """A field of a class, as it is written."""

    annotation: str = ""
    value: str | None = None


@dataclass(frozen=True)
class ClassShape:
    """A class of the same file, as far as it tells what its values look like."""

    bases: tuple[str, ...] = ()
    members: Mapping[str, Member] = field(default_factory=dict)
    dataclass: bool = False
    total: bool = True

    @property
    def is_enum(self) -> bool:
        return bool(_ENUMS & {*self.bases})

    @property
    def is_record(self) -> bool:
        return self.dataclass or bool(_RECORDS & {*self.bases})


def literal(node: ast.expr | None) -> tuple[bool, Any]:
    """(whether it is a literal that JSON can hold, its value)."""
    if node is None:
        return False, None
    try:
        return _plain(ast.literal_eval(node))
    except (ValueError, TypeError, SyntaxError, MemoryError, RecursionError):
        return False, None


def _plain(value: Any) -> tuple[bool, Any]:
    if value is None or isinstance(value, str | bool | int):
        return True, value
    if isinstance(value, float):
        return value == value and abs(value) != float("inf"), value
    if isinstance(value, list | tuple | set | frozenset):
        parts = [_plain(part) for part in value]
        return all(known for known, _ in parts), [part for _, part in parts]
    if isinstance(value, dict) and all(isinstance(key, str) for key in value):
        made = {key: _plain(part) for key, part in value.items()}
        return all(known for known, _ in made.values()), {k: part for k, (_, part) in made.items()}
    return False, None


def parsed(written: str) -> ast.expr | None:
    if len(written) > _LONGEST:
        return None
    try:
        return ast.parse(written.strip(), mode="eval").body
    except (SyntaxError, ValueError, MemoryError, RecursionError):
        return None


def choices(values: list[Any]) -> JsonObject:
    kinds = {type(value) for value in values}
    names = {str: "string", bool: "boolean", int: "integer", float: "number"}
    kind = names.get(next(iter(kinds))) if len(kinds) == 1 else None
    return {**({"type": kind} if kind else {}), "enum": values}


def enumerated(shape: ClassShape) -> dict[str, Any]:
    """The values of an enum's members by name; `auto()` counts, or is the name in a StrEnum."""
    found: dict[str, Any] = {}
    for name, member in shape.members.items():
        if name.startswith("_") or member.value is None:
            continue
        node = parsed(member.value)
        known, value = literal(node)
        if isinstance(node, ast.Call):
            known, value = True, name.lower() if "StrEnum" in shape.bases else len(found) + 1
        if known and not isinstance(value, list | dict):
            found[name] = value
    return found
