"""Long observations made short by their schema, without a model (ToolLLM, appendix A.2).

Tokens are estimated: UTF-8 bytes of the compact JSON, divided by 4 and rounded up.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, TypeAlias

from toolloom.pipeline.checks.schema import (
    as_dict,
    as_strings,
    bound,
    fits,
    is_null,
    merged,
    variants_of,
)
from toolloom.pipeline.checks.text.words import name_words
from toolloom.schemas import JsonObject

Path: TypeAlias = tuple[str, ...]

SHORT = 40  # bytes of a scalar that stays
ITEMS = (50, 20, 10, 5, 3, 1)  # first items of a list that stay, step by step
TEXTS = (800, 400, 200, 100, 50)  # characters of a text that stay, step by step
TELLING = frozenset({"id", "name", "title", "status", "state", "type", "code", "error", "message"})
DEEPEST = 60
HUGE = 1_000_000  # bytes beyond which lists are cut before anything is weighed
EACH = "[]"  # in a path: every item of a list
CUT = "…"


def tokens(value: Any) -> int:
    """How many tokens a value's JSON is, about."""
    return _tokens(_compact(value))


def compress(response: Any, schema: JsonObject | None, limit: int) -> tuple[Any, int | None]:
    """A response of at most `limit` tokens, and how many the whole one had if it was longer.

    First go fields that the schema does not require: those it does not know, then the longest and
    deepest; ids, names and short values stay. Then lists keep their first items, and long texts
    are cut. What is left fits its schema if the whole one did. If all that is not enough, the
    beginning of the JSON is kept, as text.
    """
    text = _compact(response)
    whole = _tokens(text)
    if whole <= limit:
        return response, None
    if isinstance(response, str):
        return beginning(response, limit), whole
    value, known = _copy(response), as_dict(schema)
    strict = bool(known) and fits(known, value)
    for _ in _steps(value, known, limit, huge=len(text) > HUGE):
        if tokens(value) <= limit and (not strict or fits(known, value)):
            return value, whole
    return beginning(text, limit), whole


def beginning(text: str, limit: int) -> str:
    """As much of a text as `limit` tokens hold, written as JSON."""
    if tokens(text) <= limit:
        return text
    low, high = 0, min(len(text), 4 * limit)
    while low < high:
        middle = (low + high + 1) // 2
        low, high = (middle, high) if tokens(text[:middle] + CUT) <= limit else (low, middle - 1)
    return text[:low] + CUT if tokens(text[:low] + CUT) <= limit else ""


def _tokens(text: str) -> int:
    return math.ceil(len(text.encode("utf-8", "surrogatepass")) / 4)


def _compact(value: Any) -> str:
    try:
        return json.dumps(value, ensure_ascii=False, separators=(",", ":"))
    except (RecursionError, TypeError, ValueError):  # too deep, or no JSON: only a copy is
        return json.dumps(_copy(value), ensure_ascii=False, separators=(",", ":"))


def _copy(value: Any, depth: int = 0) -> Any:
    """A copy to work on, of JSON alone and not too deep."""
    if isinstance(value, str | int | float) or value is None:
        return value
    if depth >= DEEPEST or not isinstance(value, dict | list | tuple):
        return CUT
    if isinstance(value, dict):
        return {str(k): _copy(v, depth + 1) for k, v in value.items()}
    return [_copy(v, depth + 1) for v in value]


def _steps(value: Any, schema: JsonObject, limit: int, *, huge: bool) -> Iterator[None]:
    """Shorten the value in place, a step further each time."""
    if huge:
        _keep_first(value, schema, ITEMS[0])
        yield
    yield from _drop(value, schema, limit, _is_aside)
    for most in ITEMS:
        _keep_first(value, schema, most)
        yield
    for most in TEXTS:
        _cut_texts(value, schema, most)
        yield
    yield from _drop(value, schema, limit, lambda part: not part.small)
    yield from _drop(value, schema, limit, lambda part: True)


@dataclass
class _Part:
    """A field at a path, over all items of the lists that the path goes through."""

    depth: int
    known: bool = False
    siblings_known: bool = False
    small: bool = True
    bytes: int = 0


def _is_aside(part: _Part) -> bool:
    """Long, and either deep inside or not in a schema that knows the fields beside it."""
    return not part.small and (part.depth > 1 or (part.siblings_known and not part.known))


def _drop(
    value: Any, schema: JsonObject, limit: int, wanted: Callable[[_Part], bool]
) -> Iterator[None]:
    """Take away optional fields, a path at a time, until the estimate says that it is enough."""
    parts = {path: part for path, part in _parts(value, schema).items() if wanted(part)}
    order = sorted(parts, key=lambda p: (parts[p].known, -parts[p].bytes * parts[p].depth, p))
    excess = 4 * (tokens(value) - limit)
    for path in order:
        excess -= parts[path].bytes
        for where, node, its in _objects(value, schema, path[:-1]):
            optional = path[-1] not in as_strings(its.get("required"))
            if where == path[:-1] and optional and len(node) > bound(its, "minProperties", 0):
                node.pop(path[-1], None)
        if excess <= 0:
            yield
            excess = 4 * (tokens(value) - limit)
    yield


def _parts(value: Any, schema: JsonObject) -> dict[Path, _Part]:
    """Every field that may go, by its path."""
    found: dict[Path, _Part] = {}
    for where, node, its in _objects(value, schema):
        properties, required = as_dict(its.get("properties")), as_strings(its.get("required"))
        for name, inner in node.items():
            if name not in required:
                part = found.setdefault((*where, name), _Part(depth=len(where) + 1))
                size = len(_compact(inner).encode("utf-8", "surrogatepass"))
                part.bytes += size + len(name) + 4
                part.known |= name in properties
                part.siblings_known |= bool(properties)
                scalar = not isinstance(inner, dict | list)
                part.small &= scalar and (
                    size <= SHORT or bool(TELLING & set(name_words(name)[-1:]))
                )
    return found


def _keep_first(value: Any, schema: JsonObject, most: int) -> None:
    for _, node, its in _nodes(value, schema):
        if isinstance(node, list):
            del node[max(most, math.ceil(bound(its, "minItems", 0))) :]


def _cut_texts(value: Any, schema: JsonObject, most: int) -> None:
    for _, node, its in _nodes(value, schema):
        places: list[Any] = list(node) if isinstance(node, dict) else list(range(len(node)))
        for place in places:
            text = node[place]
            if isinstance(text, str) and len(text) > most:
                rules = _inner(its, place, text)
                if not rules.keys() & {"enum", "const", "pattern", "format"}:
                    kept = max(most, math.ceil(bound(rules, "minLength", 0)))
                    node[place] = text[: kept - 1] + CUT if kept < len(text) else text


def _objects(
    value: Any, schema: JsonObject, along: Path | None = None
) -> Iterator[tuple[Path, JsonObject, JsonObject]]:
    yield from (found for found in _nodes(value, schema, along) if isinstance(found[1], dict))


def _nodes(
    value: Any, schema: JsonObject, along: Path | None = None, where: Path = ()
) -> Iterator[tuple[Path, Any, JsonObject]]:
    """Objects and lists with their path and schema, inner ones first; those `along` a path."""
    if not isinstance(value, dict | list):
        return
    its = _resolved(schema, value)
    following = along[len(where)] if along and len(where) < len(along) else None
    if along is None or following is not None:
        inside = value.items() if isinstance(value, dict) else enumerate(value)
        for place, inner in list(inside):
            step = place if isinstance(place, str) else EACH
            if isinstance(inner, dict | list) and following in (None, step):
                yield from _nodes(inner, _inner(its, place, inner), along, (*where, step))
    yield where, value, its


def _inner(schema: JsonObject, place: str | int, value: Any) -> JsonObject:
    """The schema of what stands at a place in an object or a list."""
    if isinstance(place, int):
        first = schema.get("prefixItems")
        listed = first[place] if isinstance(first, list) and place < len(first) else None
        found = schema.get("items") if listed is None else listed
    else:
        known = as_dict(schema.get("properties"))
        found = known[place] if place in known else schema.get("additionalProperties")
    return _resolved(as_dict(found), value)


def _resolved(schema: JsonObject, value: Any) -> JsonObject:
    """A schema with its `allOf`, and that of its variants which the value fits, drawn together."""
    if isinstance(schema.get("allOf"), list):
        schema = merged(schema)
        schema.pop("allOf", None)
    variants = [v for v in variants_of(schema) if isinstance(v, dict) and not is_null(v)]
    if not variants:
        return schema
    found = variants[0] if len(variants) == 1 else next((v for v in variants if fits(v, value)), {})
    outer = {k: v for k, v in schema.items() if k not in ("anyOf", "oneOf")}
    return merged({"allOf": [outer, found]})
