"""Values that other samples of the same split hold: by argument, and by field of a response."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, TypeAlias

from toolloom.pipeline.checks.text.words import literal
from toolloom.pipeline.templates.mining.survey import SampleValue, SampleValues, survey
from toolloom.schemas import Finding, JsonObject, canonical

Key: TypeAlias = tuple[str, str, str]
"""`argument` or `field`, the id of the API, and the path of names."""

KEYS = 20_000
VALUES = 64  # of each key


class SeenValues:
    """Bounded: the first values of the first keys are kept, in the order they come in."""

    def __init__(self) -> None:
        self._values: dict[Key, dict[str, Any]] = {}

    def add(self, sample: JsonObject) -> None:
        """Note the values of a sample. One that cannot be read for a template adds none."""
        found = survey(sample)
        if not isinstance(found, Finding):
            for leaf in _told(found):
                self._note(leaf)

    def _note(self, leaf: SampleValue) -> None:
        key = leaf.key
        if key not in self._values and len(self._values) >= KEYS:
            return
        values = self._values.setdefault(key, {})
        if len(values) < VALUES:
            values.setdefault(canonical(leaf.value), leaf.value)

    def values(self, leaf: SampleValue) -> list[Any]:
        """What else stands in this place in other samples."""
        return list(self._values.get(leaf.key, {}).values())


def _told(found: SampleValues) -> Iterator[SampleValue]:
    """Its arguments, and what its responses hold that is no echo of them."""
    yield from found.intended
    given = [str(leaf.value) for leaf in (*found.intended, *found.called)]
    for leaf in found.observed:
        text = str(leaf.value)
        if not any(literal(value, text) for value in given):
            yield leaf
