"""Pools of values, and what is derived from them."""

from __future__ import annotations

import datetime as dt
import random
from contextlib import suppress
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from toolloom.pipeline.templates.written.pools import (
    FAKERS,
    Argument,
    DaysPool,
    DerivedPool,
    FakerPool,
    PoolMistake,
    RangePool,
    WrittenSetting,
    circle,
    derive,
    from_schema,
    in_order,
)

NOW = dt.datetime(2026, 3, 2, 9, 30)


def setting(seed: int = 1, language: str = "English") -> WrittenSetting:
    return WrittenSetting(random.Random(seed), NOW, language)


def form(**fields: Any) -> DerivedPool:
    return DerivedPool.model_validate({"of": "a", **fields})


@pytest.mark.parametrize(
    ("numbers", "values"),
    [
        ([1, 4], (1, 2, 3, 4)),
        ([0.1, 0.3, 0.1], (0.1, 0.2, 0.3)),
        ([0.5, 2, 0.5], (0.5, 1, 1.5, 2)),
        ([-2, 0], (-2, -1, 0)),
        ([7, 7], (7,)),
        ([1, 6, 2], (1, 3, 5)),
    ],
)
def test_a_range_has_both_ends_and_exact_steps(numbers: list[float], values: Any) -> None:
    """Steps are decimal: no 0.30000000000000004; whole numbers are integers."""
    found = RangePool.model_validate({"range": numbers}).values(setting()).values
    assert found == values
    assert [type(v) for v in found] == [type(v) for v in values]


@pytest.mark.parametrize("provider", FAKERS)
@pytest.mark.parametrize("language", ["English", "German", "Dutch", "Klingon"])
def test_every_provider_gives_different_single_lines(provider: str, language: str) -> None:
    """Each provider on the list works in every language, or says which it lacks."""
    try:
        found = FakerPool(faker=provider, n=5).values(setting(language=language))
    except PoolMistake as error:
        assert language in str(error)
        return
    assert 1 <= len(found.values) == len(set(found.values)) <= 5
    assert all(isinstance(v, str) and v.isprintable() for v in found.values)


def test_days_count_from_the_present() -> None:
    """Dates so many days after the dialogue's present; before it with a minus."""
    found = DaysPool(days=(-1, 1)).values(setting())
    assert found.values == ("2026-03-01", "2026-03-02", "2026-03-03")


def test_a_schema_gives_its_enum_before_its_examples_before_a_draw() -> None:
    """What a schema lists is taken as it is, what does not fit left out."""
    both = {"type": "string", "enum": ["a", "b"], "examples": ["a"]}
    assert from_schema(Argument("x", both, "x"), 9, setting()).values == ("a", "b")
    examples = {"type": "integer", "examples": [1, "two", 3]}
    assert from_schema(Argument("x", examples, "x"), 9, setting()).values == (1, 3)
    drawn = from_schema(Argument("city", {"type": "string"}, "x"), 5, setting())
    assert len(set(drawn.values)) == 5
    assert drawn.source == "schema"


def test_a_schema_that_tells_nothing_gives_nothing() -> None:
    """Free text is not invented."""
    with pytest.raises(PoolMistake, match="the schema of argument x gives no values"):
        from_schema(Argument("x", {"type": "string"}, "argument x"), 5, setting())


def test_a_truth_is_true() -> None:
    """Nobody asks for what is not wanted: a boolean has one value, without endless tries."""
    assert from_schema(Argument("x", {"type": "boolean"}, "x"), 5, setting()).values == (True,)


@pytest.mark.parametrize(
    ("fields", "value", "made"),
    [
        ({"as": "plus"}, "Palo Alto", "palo+alto"),
        ({"as": "slug"}, "Zürich, Old Town", "zurich-old-town"),
        ({"as": "lower"}, "ÄRGER", "ärger"),
        ({"as": "upper"}, "ab", "AB"),
        ({"as": "title"}, "the old town", "The Old Town"),
        ({"as": "compact"}, "12 34", "1234"),
        ({"as": "digits"}, "+49 30 123", "4930123"),
        ({"as": "text"}, 7.5, "7.5"),
        ({"as": "initial"}, "ada", "A"),
        ({"as": "length"}, "four", 4),
        ({"map": {"English": "en"}}, "English", "en"),
        ({"map": {"7": "seven"}}, 7, "seven"),
        ({"format": "%A, %-d %B %Y"}, "2026-03-02", "Monday, 2 March 2026"),
        ({"format": "%d.%m.%y (%a, %b) 100%%"}, "2026-03-02", "02.03.26 (Mon, Mar) 100%"),
        ({"later": 30}, "2026-03-02", "2026-04-01"),
        ({"later": -2}, "2026-03-01", "2026-02-27"),
    ],
)
def test_a_value_follows_from_another(fields: Any, value: Any, made: Any) -> None:
    """Each way of deriving, by example."""
    assert derive(form(**fields), value) == made


@pytest.mark.parametrize(
    ("fields", "value", "message"),
    [
        ({"as": "digits"}, "none", 'leaves nothing of "none"'),
        ({"map": {"a": "b"}}, "c", 'no entry for "c"'),
        ({"format": "%A"}, 7, "7 is none such as 2026-03-02"),
        ({"format": "%f"}, "2026-03-02", "not know `%f`; it knows %d %-d %m %-m %B %b %Y %y %A"),
        ({"format": "%"}, "2026-03-02", "does not know `%`"),
        ({"format": "%-"}, "2026-03-02", "does not know `%-`"),
        ({"format": "x" * 41}, "2026-03-02", "longer than 40"),
        ({"later": 1}, "2026-02-30", "takes dates"),
        ({"later": 9}, "9999-12-30", "no calendar has the day 9 days after 9999-12-30"),
    ],
)
def test_what_does_not_follow_is_told(fields: Any, value: Any, message: str) -> None:
    """A derivation that fails says on which value."""
    with pytest.raises(PoolMistake, match=message):
        derive(form(**fields), value)


@given(st.text(max_size=60), st.sampled_from(["plus", "slug", "snake", "title", "digits", "text"]))
def test_no_text_breaks_a_derivation(text: str, way: str) -> None:
    """Any text gives a text, or a mistake in words."""
    with suppress(PoolMistake):
        assert isinstance(derive(form(**{"as": way}), text), str)


@given(st.text(alphabet="%-dmBYA{}.! ", max_size=12))
def test_no_format_reaches_further_than_dates(text: str) -> None:
    """Formats know their parts and nothing else, whatever stands between them."""
    try:
        made = derive(form(format=text or "%d"), "2026-03-02")
    except PoolMistake:
        return
    assert "{" not in made or "{" in text


def test_derived_slots_come_after_their_origins() -> None:
    """Chains in order; circles are left out and shown."""
    chain = {"c": form(of="b", **{"as": "upper"}), "b": form(of="a", **{"as": "lower"})}
    assert list(in_order(chain)) == ["b", "c"]
    loop = {"x": form(of="y", **{"as": "upper"}), "y": form(of="x", **{"as": "lower"})}
    assert list(in_order(loop)) == []
    assert circle(loop, "x") == ["x", "y", "x"]
    assert circle(chain, "c") == []
