"""Bodies of requests and responses, and the key of a request."""

from __future__ import annotations

import json

import pytest

from toolloom.llm.messages import Garbled, Mode, decode, fingerprint


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
    with pytest.raises(Garbled):
        decode(raw, cached=False)


def test_keys_are_the_same_for_ever(plain, city):
    """The key of a request does not change between versions: old caches stay good."""
    key = fingerprint("http://127.0.0.1/v1", "m", plain(schema=city, temperature=1), Mode.TEXT)
    assert key == fingerprint(
        "http://127.0.0.1/v1", "m", plain(schema=city, temperature=1.0), Mode.TEXT
    )
    assert key == "98d52e3ce30cd494662905bdf2a2e4e719c512624f0f36161ab23ba1c6d7c4a6"
