"""Bodies of requests and responses, and JSON in what a model wrote."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from toolloom.llm.wire import (
    IllegalSchema,
    Mode,
    NotACompletion,
    decode,
    fingerprint,
    readings,
    violation,
)


def body(message, **usage):
    """A response's body with this message."""
    return json.dumps({"choices": [{"message": message}], "usage": usage or None})


@pytest.mark.parametrize(
    ("message", "text"),
    [
        ({"content": "Rome"}, "Rome"),
        ({"content": None}, ""),
        ({"content": [{"type": "text", "text": "Ro"}, {"type": "text", "text": "me"}]}, "Rome"),
        ({"content": None, "refusal": "I will not."}, "I will not."),
        ({"content": "R\ud800me"}, "R\ufffdme"),
        ({"content": "\U0001f600"}, "\U0001f600"),
    ],
)
def test_content_has_many_forms(message, text):
    """Text, parts, nothing and refusals are read; what cannot be written is replaced."""
    reply = decode(body(message), cached=False)
    assert (reply.text, reply.prompt_tokens) == (text, 0)


@pytest.mark.parametrize(
    ("usage", "told"),
    [
        ({"prompt_tokens": 3, "completion_tokens": 0}, (3, 0, True)),
        ({"prompt_tokens": 3}, (3, 0, False)),
        ({"prompt_tokens": 10**20, "completion_tokens": 1}, (0, 1, False)),
        ({"prompt_tokens": 3, "completion_tokens": -1}, (3, 0, False)),
        ({"prompt_tokens": 0, "completion_tokens": "5"}, (0, 0, False)),
        ({}, (0, 0, False)),
    ],
)
def test_counts_of_tokens_are_believed_within_reason(usage, told):
    """What is no possible number of tokens counts as not told."""
    reply = decode(body({"content": "Rome"}, **usage), cached=False)
    assert (reply.prompt_tokens, reply.completion_tokens, reply.metered) == told


@pytest.mark.parametrize(
    "raw",
    [
        *("", "<html>", "null", "{}", "[]", "[" * 100_000, '{"error": "overloaded"}'),
        *('{"choices": []}', '{"choices": [{}]}', '{"choices": [{"message": 1}]}'),
    ],
)
def test_other_bodies_are_no_completions(raw):
    """A body without a message is no completion."""
    with pytest.raises(NotACompletion):
        decode(raw, cached=False)


def test_keys_are_the_same_for_ever(plain, city):
    """The key of a request does not change between versions: old caches stay good."""
    key = fingerprint("http://127.0.0.1/v1", "m", plain(schema=city, temperature=1), Mode.TEXT)
    assert key == fingerprint(
        "http://127.0.0.1/v1", "m", plain(schema=city, temperature=1.0), Mode.TEXT
    )
    assert key == "98d52e3ce30cd494662905bdf2a2e4e719c512624f0f36161ab23ba1c6d7c4a6"


SCALARS = st.none() | st.booleans() | st.integers() | st.text(st.characters(codec="utf-8"))
VALUES = st.dictionaries(st.text(max_size=5), SCALARS | st.lists(SCALARS, max_size=3), min_size=1)
PROSE = st.text(st.characters(codec="utf-8", exclude_characters="{}[]`<"))


@given(PROSE, VALUES, PROSE)
def test_json_is_found_wherever_it_stands(before, value, after):
    """A text that is JSON is read first; JSON between words, or in a Markdown fence even of an
    answer that was cut off after it, is found too, all without repair."""
    told = json.dumps(value)
    assert next(readings(told)) == (value, "")
    assert (value, "") in readings(f"{before} {told} {after}")
    fenced = f"{before}\n```json\n{told}\n```\n{after}"
    assert (value, "") in readings(fenced, cut_off=True)


@given(st.text())
def test_any_text_is_survived(text):
    """Whatever a model writes, reading it ends, and what is found can be written as UTF-8."""
    for value, _ in readings(text):
        json.dumps(value, ensure_ascii=False).encode()


@given(VALUES, st.integers(min_value=1, max_value=20))
def test_halves_are_not_read(value, cut):
    """Of an answer that was cut off nothing is read."""
    assert not list(readings(json.dumps(value)[:-cut], cut_off=True))


@pytest.mark.parametrize("text", ["[" * 100_000, '{"a":' * 50_000, "{" * 2_000])
def test_deep_nesting_is_survived(text):
    """Nesting that would exhaust the stack is no JSON."""
    assert all(value for value, _ in readings(text))


def test_thoughts_are_not_the_answer():
    """What a reasoning model thinks aloud is skipped."""
    assert list(readings('<think>{"a": 1}?</think>{"a": 2}')) == [({"a": 2}, "")]


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
