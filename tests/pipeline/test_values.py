from __future__ import annotations

import datetime as dt
import random
from typing import Any

import jsonschema
import pytest

from toolloom.pipeline.values import NoValue, draw_object, draw_value
from toolloom.pipeline.vocabulary import BY_NAME

NOW = dt.datetime(2026, 3, 2, 9, 30)


def drawn(name: str, schema: dict[str, Any], seed: int = 0, language: str = "English") -> Any:
    return draw_value(name, schema, random.Random(seed), NOW, language)


@pytest.mark.parametrize(
    "schema",
    [
        {"enum": ["a", "b"]},
        {"type": "string", "examples": ["a", "b"]},
        {"const": 3},
        {"type": "string", "format": "date"},
        {"type": "string", "format": "date-time"},
        {"type": "string", "format": "email"},
        {"type": "string", "format": "uuid"},
        {"type": "integer", "minimum": 3, "maximum": 4},
        {"type": "number", "minimum": 0, "maximum": 1},
        {"type": ["integer", "null"]},
        {"type": "array", "items": {"enum": [1, 2]}},
        {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]},
    ],
)
def test_values_fit_their_schema(schema: dict[str, Any]) -> None:
    """Enums, examples, formats, bounds, lists and objects are kept to."""
    for seed in range(20):
        jsonschema.validate(drawn("x", schema, seed), schema)


def test_free_text_is_not_invented() -> None:
    """Without enum, example, format or a telling name there is no value: noise helps nobody."""
    with pytest.raises(NoValue):
        drawn("remark", {"type": "string"})
    with pytest.raises(NoValue):
        drawn("city", {"type": "string", "pattern": "^[A-Z]{3}$"})


@pytest.mark.parametrize("name", sorted(BY_NAME))
def test_names_tell_values(name: str) -> None:
    """A parameter's name, or its ending, says what its values look like."""
    kind = "number" if isinstance(drawn(name, {"type": "number"}), float) else "string"
    assert drawn(f"user_{name}", {"type": kind})


def test_days_lie_ahead() -> None:
    """A user asks for days to come, counted from the dialogue's own present."""
    for seed in range(20):
        assert drawn("day", {"type": "string", "format": "date"}, seed) > "2026-03-02"


def test_values_speak_the_dialogues_language() -> None:
    """Cities of a German dialogue are German ones."""
    schema = {"type": "string"}
    assert drawn("city", schema, 1, "German") != drawn("city", schema, 1, "English")


def test_required_values_are_always_drawn() -> None:
    """Of the optional ones about half; one that cannot be drawn is left out."""
    schema = {
        "type": "object",
        "properties": {n: {"type": "string"} for n in ("city", "email", "remark")},
        "required": ["city"],
    }
    some = [draw_object(schema, random.Random(seed), NOW) for seed in range(40)]
    assert all("city" in d and "remark" not in d for d in some)
    assert 5 < sum("email" in d for d in some) < 35


def test_equal_seeds_draw_equal_values() -> None:
    """Nothing but the generator decides."""
    for name in ("city", "email", "code"):
        assert drawn(name, {"type": "string"}, 5) == drawn(name, {"type": "string"}, 5)
