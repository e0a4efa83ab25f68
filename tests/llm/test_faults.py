from __future__ import annotations

import datetime as dt
import email.utils

import pytest

from toolloom.llm.messages import (
    CHAT,
    EMBEDDINGS,
    Caller,
    FormatRefused,
    TooMuch,
    Trouble,
    fault,
    retry_after,
)
from toolloom.schemas import EndpointDenied, EndpointError, ModelMissing, RequestRefused


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
    ],
)
def test_waits_are_read_and_bounded(headers, seconds):
    """Seconds, fractions and milliseconds are honoured up to an hour; nonsense is not."""
    assert retry_after(headers) == seconds


def test_waits_may_be_dates():
    """Retry-After may be a date: what is left until then."""
    then = dt.datetime.now(dt.UTC) + dt.timedelta(seconds=30)
    waited = retry_after({"retry-after": email.utils.format_datetime(then, usegmt=True)})
    assert waited is not None
    assert 28 < waited <= 30


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
