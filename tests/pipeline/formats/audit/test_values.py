import datetime as dt
import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from toolloom.pipeline.formats.audit.values import (
    MOST_TURNS,
    excess,
    joined,
    opened,
    present,
    tagged,
    turns,
)

JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=6),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=6), inner, max_size=3)
    ),
    max_leaves=10,
)


@given(st.dictionaries(st.text(max_size=6), JSON, max_size=4))
def test_json_and_python_s_text_of_a_value_are_that_value(value: object) -> None:
    """JSON is read as such; what Python's `repr` writes too, and is told."""
    assert opened(json.dumps(value)) == (value, "")
    found, how = opened(repr(value))
    assert found == value and (how or json.loads(repr(value)) == value)


@pytest.mark.parametrize("text", ["plain", "", "{broken", "__import__('os')", "[open('x')]", "7"])
def test_other_text_stays_text(text: str) -> None:
    """Nothing is evaluated, and a bare number or word is text."""
    assert opened(text) == (text, "")


def test_broken_json_is_mended_only_if_asked() -> None:
    """Results are never mended: only what a model was to write as JSON is."""
    assert opened('{"a": [1, 2')[0] == '{"a": [1, 2'
    assert opened('{"a": [1, 2', mend=True) == ({"a": [1, 2]}, "is no JSON and was mended")


def test_depth_and_size_are_bounded() -> None:
    """What is too deep is left as text; a row of it is refused in words."""
    deep = "[" * 100 + "]" * 100
    assert opened(deep) == (deep, "")
    assert "deeper" in (excess(json.loads(deep)) or "") and excess({"a": [1]}) is None
    assert "parts" in (excess([0] * 300_000) or "")


def test_tags_are_taken_out_in_order() -> None:
    """What stands between tags is listed, the rest joined; an open tag stays."""
    assert tagged("a<t>1</t>b<t>2</t>c", "t") == ("abc", ["1", "2"])
    assert tagged("a<t>1</t><t>2", "t") == ("a<t>2", ["1"])
    assert tagged("</t>", "t") == ("</t>", [])


def test_turns_may_be_text_but_must_be_objects() -> None:
    """Columns and single turns may be JSON text, as Parquet files have them."""
    assert turns(json.dumps([json.dumps({"role": "user"})])) == [{"role": "user"}]
    assert turns([{}, 1]) == "its turn 2 is no object"
    assert turns([{}] * (MOST_TURNS + 1)) == f"it has more than {MOST_TURNS} turns"
    assert turns(None) == turns([]) == "it has no turns"


def test_parts_of_a_content_are_joined_only_if_all_are_texts() -> None:
    """A picture among them leaves the parts as they are."""
    assert joined([{"type": "text", "text": "a"}, "b"]) == "ab"
    assert joined([{"type": "image_url"}]) == [{"type": "image_url"}]


@pytest.mark.parametrize(
    ("told", "now"),
    [
        ("The present moment is Monday 2026-03-02 09:30. Ask.", dt.datetime(2026, 3, 2, 9, 30)),
        ("Today is 2024-05-01", dt.datetime(2024, 5, 1)),
        ("Current date: Friday, 2024-05-03", dt.datetime(2024, 5, 3)),
        ("Today is 2024-02-31", None),
        ("You are a model of 2024-05-01.", None),
    ],
)
def test_the_present_is_read_from_the_system_turn(told: str, now: dt.datetime | None) -> None:
    """Relative dates in a dialogue can be judged only if its present is told."""
    assert present(told) == now
