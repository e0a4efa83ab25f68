"""Made-up values for a JSON Schema, and vectors: what the fake endpoint answers unscripted."""

from __future__ import annotations

import datetime as dt
import hashlib
import math
import random
import re
from collections.abc import Callable
from typing import Any

from toolloom.schemas import JsonObject, canonical

WORDS = [
    "amber",
    "anchor",
    "autumn",
    "basket",
    "bridge",
    "candle",
    "canyon",
    "cedar",
    "copper",
    "coral",
    "dawn",
    "ember",
    "falcon",
    "field",
    "forest",
    "garden",
    "glacier",
    "harbor",
    "island",
    "juniper",
    "lantern",
    "maple",
    "meadow",
    "mirror",
    "north",
    "ocean",
    "orchard",
    "pebble",
    "pine",
    "quartz",
    "river",
    "saffron",
    "silver",
    "summit",
    "timber",
    "valley",
    "velvet",
    "willow",
    "winter",
]
DEEPEST = 8
DIMENSIONS = 256
EPOCH = dt.datetime(2026, 1, 1, tzinfo=dt.UTC)


def invent(schema: JsonObject, seed: str) -> Any:
    """A value that fits the schema; the same schema and seed give the same value.

    Knows the keywords toolloom's own schemas use; ignores `pattern` and conditions.
    """
    return _Inventor(schema, random.Random(seed)).value(schema, 0)


def sentence(seed: str) -> str:
    """A few words that mean nothing."""
    words = random.Random(seed).sample(WORDS, 7)
    return f"{' '.join(words).capitalize()}."


def vector(text: str) -> list[float]:
    """The words of a text, each hashed to a direction, as one vector of length 1."""
    made = [0.0] * DIMENSIONS
    parted = re.sub(r"(?<=[a-z0-9])(?=[A-Z])", " ", text)
    for word in re.findall(r"[^\W_]+", parted.lower()) or [text]:
        place = int.from_bytes(hashlib.sha256(word.encode("utf-8", "replace")).digest()[:8])
        made[place % DIMENSIONS] += 1.0 if place >> 32 & 1 else -1.0
    length = math.hypot(*made) or 1.0
    return [number / length for number in made]


class _Inventor:
    def __init__(self, root: JsonObject, dice: random.Random) -> None:
        self._root = root
        self._dice = dice

    def value(self, schema: Any, depth: int) -> Any:
        if not isinstance(schema, dict):
            return self._text({})
        schema = self._resolved(schema)
        for keyword in ("enum", "examples"):
            if schema.get(keyword):
                return self._dice.choice(schema[keyword])
        for keyword in ("const", "default"):
            if keyword in schema:
                return schema[keyword]
        for keyword in ("anyOf", "oneOf"):
            if schema.get(keyword):
                rest = {k: v for k, v in schema.items() if k != keyword}
                return self.value({**rest, **self._dice.choice(schema[keyword])}, depth)
        return self._of_type(schema, depth)

    def _resolved(self, schema: JsonObject) -> JsonObject:
        """The schema with its local reference and its `allOf` folded in."""
        for _ in range(DEEPEST):
            reference = schema.get("$ref")
            if not isinstance(reference, str):
                break
            rest = {k: v for k, v in schema.items() if k != "$ref"}
            schema = {**self._target(reference), **rest}
        merged = dict(schema)
        for part in merged.pop("allOf", ()):
            part = self._resolved(part)
            properties = {**merged.get("properties", {}), **part.get("properties", {})}
            required = [*merged.get("required", ()), *part.get("required", ())]
            joined = {"properties": properties, "required": required} if properties else {}
            merged = {**merged, **part, **joined}
        return merged

    def _target(self, reference: str) -> JsonObject:
        found: Any = self._root
        for step in filter(None, reference.removeprefix("#").split("/")):
            step = step.replace("~1", "/").replace("~0", "~")
            found = found.get(step, {}) if isinstance(found, dict) else {}
        return found if isinstance(found, dict) else {}

    def _of_type(self, schema: JsonObject, depth: int) -> Any:
        kinds = schema.get("type") or ("object" if "properties" in schema else "string")
        kind = kinds if isinstance(kinds, str) else next((k for k in kinds if k != "null"), "null")
        if kind == "object":
            return self._object(schema, depth)
        if kind == "array":
            return self._array(schema, depth)
        if kind in ("integer", "number"):
            return self._number(schema, whole=kind == "integer")
        if kind == "boolean":
            return self._dice.random() < 0.5
        return None if kind == "null" else self._text(schema)

    def _object(self, schema: JsonObject, depth: int) -> JsonObject:
        properties = schema.get("properties", {})
        required = schema.get("required", ())
        names = required if depth >= DEEPEST else dict.fromkeys([*properties, *required])
        return {name: self.value(properties.get(name, {}), depth + 1) for name in names}

    def _array(self, schema: JsonObject, depth: int) -> list[Any]:
        least = schema.get("minItems", 0 if depth >= DEEPEST else 1)
        count = min(max(least, 2), schema.get("maxItems", max(least, 2)))
        made: dict[str, Any] = {}
        values = [self.value(schema.get("items", {}), depth + 1) for _ in range(count)]
        if not schema.get("uniqueItems"):
            return values
        for _ in range(100):
            made.update({canonical(value): value for value in values})
            values = [self.value(schema.get("items", {}), depth + 1)]
            if len(made) >= count:
                break
        return list(made.values())[:count]

    def _number(self, schema: JsonObject, whole: bool) -> Any:
        low: Any = schema.get("minimum", schema.get("exclusiveMinimum", 0))
        low += 1 if whole and "exclusiveMinimum" in schema else 0
        high: Any = schema.get("maximum", schema.get("exclusiveMaximum", low + 100))
        high -= 1 if whole and "exclusiveMaximum" in schema else 0
        step = schema.get("multipleOf")
        if step:
            first, last = -(-low // step), high // step
            return step * self._dice.randint(int(first), int(max(first, last)))
        if whole:
            return self._dice.randint(int(-(-low // 1)), int(high // 1))
        # Strictly between the bounds, unless they meet.
        return round(low + (high - low) * self._dice.uniform(0.1, 0.9), 2) if high > low else low

    def _text(self, schema: JsonObject) -> str:
        made = FORMATS.get(schema.get("format", ""), _words)(self._dice)
        while len(made) < schema.get("minLength", 0):
            made += f" {_words(self._dice)}"
        return made[: schema.get("maxLength", len(made))]


def _words(dice: random.Random) -> str:
    return " ".join(dice.sample(WORDS, 2))


def _moment(dice: random.Random) -> dt.datetime:
    return EPOCH + dt.timedelta(minutes=dice.randrange(525_600))


FORMATS: dict[str, Callable[[random.Random], str]] = {
    "date": lambda dice: _moment(dice).date().isoformat(),
    "date-time": lambda dice: _moment(dice).isoformat().replace("+00:00", "Z"),
    "time": lambda dice: f"{_moment(dice):%H:%M:%S}Z",
    "email": lambda dice: f"{dice.choice(WORDS)}@example.com",
    "uri": lambda dice: f"https://example.com/{dice.choice(WORDS)}",
    "uuid": lambda dice: f"{dice.getrandbits(32):08x}-0000-4000-8000-{dice.getrandbits(48):012x}",
}
