"""Bodies of requests and responses, the key of a request, and what refusals mean."""

from __future__ import annotations

import json

import pytest

from toolloom.llm.messages import (
    CHAT,
    EMBEDDINGS,
    Caller,
    FormatRefused,
    Garbled,
    Mode,
    TooMuch,
    Trouble,
    decode,
    fault,
    fingerprint,
    retry_after,
)
from toolloom.schemas import EndpointDenied, EndpointError, ModelMissing, RequestRefused


@pytest.mark.parametrize(
    ("content", "text"),
    [
        ({"content": None}, ""),
        ({"content": [{"type": "text", "text": "Ro"}, {"type": "text", "text": "me"}]}, "Rome"),
        ({"content": None, "refusal": "I will not."}, "I will not."),
        ({"content": "R\ud800me"}, "R\ufffdme"),
        ({"content": "\U0001f600"}, "\U0001f600"),
    ],
)
@pytest.mark.parametrize(
    ("usage", "told"),
    [
        ({"prompt_tokens": 3, "completion_tokens": 0}, (3, 0, True)),
        ({"prompt_tokens": 3}, (3, 0, False)),
        ({"prompt_tokens": 10**20, "completion_tokens": 1}, (0, 1, False)),
        ({"prompt_tokens": 3, "completion_tokens": -1}, (3, 0, False)),
        ({"prompt_tokens": 0, "completion_tokens": "5"}, (0, 0, False)),
        (None, (0, 0, False)),
    ],
)
def test_completions_have_many_forms(content, text, usage, told):
    """Text, parts, nothing and refusals are read; what cannot be written is replaced. What is no
    possible number of tokens counts as not told."""
    raw = json.dumps({"choices": [{"message": content}], "usage": usage})
    reply = decode(raw, cached=False)
    assert (reply.text, reply.prompt_tokens, reply.completion_tokens, reply.metered) == (
        text,
        *told,
    )


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
    for one in (1, 1.0):
        request = plain(schema=city, temperature=one)
        key = fingerprint("http://127.0.0.1/v1", "m", request, Mode.TEXT)
        assert key == "98d52e3ce30cd494662905bdf2a2e4e719c512624f0f36161ab23ba1c6d7c4a6"


@pytest.mark.parametrize(
    ("headers", "seconds"),
    [
        ({}, None),
        ({"retry-after": "1.5"}, 1.5),
        ({"retry-after-ms": "250", "retry-after": "1"}, 0.25),
        ({"retry-after": "86400"}, 3600.0),
        ({"retry-after": "inf"}, 3600.0),
        ({"retry-after": "nan"}, None),
        ({"retry-after": "-1"}, None),
        ({"retry-after": "soon"}, None),
        ({"retry-after": "Thu, 01 Jan 1970 00:00:00 GMT"}, None),
        ({"retry-after": "Thu, 01 Jan 2970 00:00:00 GMT"}, 3600.0),
    ],
)
def test_waits_are_read_and_bounded(headers, seconds):
    """Seconds, fractions, milliseconds and dates are honoured up to an hour; nonsense is not."""
    assert retry_after(headers) == seconds


CHAT_FAULTS = [
    (400, '{"error": {"code": "model_not_found", "message": "no"}}', ModelMissing),
    (403, '{"error": {"code": "model_not_found", "message": "no"}}', ModelMissing),
    (404, '{"error": "model \\"m\\" not found, try pulling it first"}', ModelMissing),
    (404, '{"detail": "Not Found"}', EndpointError),
    (402, "Insufficient credits", EndpointDenied),
    (400, "'response_format.type' must be 'text'", FormatRefused),
    (400, "Invalid schema for response_format 'answer'", RequestRefused),
    (422, "unknown variant `json_schema`", FormatRefused),
    (400, "maximum context length is 4096 tokens", RequestRefused),
]
EMBEDDING_FAULTS = [
    (400, "This model's maximum context length is 512 tokens, however you sent 600", TooMuch),
    (400, "'$.input' is too long. Maximum length is 2048", TooMuch),
    (400, "batch size is invalid, it should not be larger than 10", TooMuch),
    (413, "Input validation error: inputs must have less than 512 tokens", TooMuch),
    (422, "batch size 64 > maximum allowed batch size 32", TooMuch),
    (500, "input (3001 tokens) is too large to process", TooMuch),
    (500, "the input length exceeds the context length", TooMuch),
    (400, "input cannot be an empty string", RequestRefused),
    (429, "too many requests", Trouble),
    (503, "too many requests", Trouble),
    (500, "internal error", Trouble),
    (501, "This server does not support embeddings", EndpointError),
    (500, "this model does not support embeddings", EndpointError),
    (404, "Not Found", EndpointError),
]


@pytest.mark.parametrize(
    ("path", "formatted", "status", "body", "kind"),
    [
        *((CHAT, True, *case) for case in CHAT_FAULTS),
        *((EMBEDDINGS, False, *case) for case in EMBEDDING_FAULTS),
        (CHAT, False, 400, "json_schema", RequestRefused),  # no format was asked for
    ],
)
def test_servers_words_are_understood(path, formatted, status, body, kind):
    """What real servers say is told apart: model, path, money, format, request; of embeddings
    texts of the wrong size from busy servers and from servers that do not embed."""
    caller = Caller("http://127.0.0.1/v1", "m", "OPENAI_API_KEY", "none", path)
    assert type(fault(status, {}, body, caller, formatted=formatted)) is kind
