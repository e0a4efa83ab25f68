"""JSON in what a model wrote, held to its schema."""

from __future__ import annotations

import json

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from toolloom.llm.json_output import IllegalSchema, readings, violation

SCALARS = st.none() | st.booleans() | st.integers() | st.text(st.characters(codec="utf-8"))
VALUES = st.dictionaries(st.text(max_size=5), SCALARS | st.lists(SCALARS, max_size=3), min_size=1)
PROSE = st.text(st.characters(codec="utf-8", exclude_characters="{}[]`<"))


@given(PROSE, VALUES, PROSE)
def test_json_is_found_wherever_it_stands(before, value, after):
    """A text that is JSON is read first, without what a model thought aloud; JSON between words, or in a Markdown fence even of an
    answer that was cut off after it, is found too, all without repair."""
    told = json.dumps(value)
    assert next(readings(told)) == (value, "")
    assert (value, "") in readings(f"{before} {told} {after}")
    assert list(readings(f"<think>{{}}{told}</think>{told}")) == [(value, "")]
    fenced = f"{before}\n```json\n{told}\n```\n{after}"
    assert (value, "") in readings(fenced, cut_off=True)


@given(st.text())
@example("[" * 100_000)
@example('{"a":' * 50_000)
@example("{" * 500)
def test_any_text_is_survived(text):
    """Whatever a model writes, reading it ends, and what is found can be written as UTF-8. Nesting
    that would exhaust the stack is no JSON."""
    for value, _ in readings(text):
        json.dumps(value, ensure_ascii=False).encode()


@given(VALUES, st.integers(min_value=1, max_value=20))
def test_halves_are_not_read(value, cut):
    """Of an answer that was cut off nothing is read."""
    assert not list(readings(json.dumps(value)[:-cut], cut_off=True))


@pytest.mark.parametrize("text", ['{"a": NaN}', '{"a": "\\ud800"}'])
def test_what_cannot_be_written_is_not_read(text):
    """NaN and lone surrogates are in no data set."""
    assert ({"a": "\ud800"}, "") not in readings(text)
    assert next(readings(text, cut_off=True), None) is None


def test_all_violations_are_told_with_their_places():
    """A model is told all that is wrong and where, of alternatives the nearest one."""
    options = [{"type": "integer"}, {"type": "object", "required": ["b"]}]
    days = {"items": {"format": "date"}}
    schema = {"properties": {"a": {"type": "string"}, "c": {"anyOf": options}, "d": days}}
    assert violation({"a": 1, "c": {}, "d": ["2026-02-30"]}, schema) == (
        "at $.a: 1 is not of type 'string'; at $.c: 'b' is a required property; "
        "at $.d[0]: '2026-02-30' is not a 'date'"
    )
    assert violation({"d": ["2026-02-28"]}, schema) is None


def test_endless_schemas_are_illegal():
    """A schema that refers to itself for ever is reported, not followed."""
    with pytest.raises(IllegalSchema):
        violation(1, {"$ref": "#"})
