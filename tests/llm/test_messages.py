"""Bodies of requests and responses, the key of a request, what refusals mean; and JSON in what a
model wrote, held to its schema."""

from __future__ import annotations

import json

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from toolloom.llm.messages import (
    CHAT,
    EMBEDDINGS,
    Caller,
    FormatRefused,
    Garbled,
    IllegalSchema,
    Mode,
    TooMuch,
    Trouble,
    checker,
    decode,
    fault,
    fingerprint,
    readings,
    retry_after,
)
from toolloom.schemas import EndpointDenied, EndpointError, ModelMissing, RequestRefused

SCALARS = st.none() | st.booleans() | st.integers() | st.text(st.characters(codec="utf-8"))
VALUES = st.dictionaries(st.text(max_size=5), SCALARS | st.lists(SCALARS, max_size=3), min_size=1)
PROSE = st.text(st.characters(codec="utf-8", exclude_characters="{}[]`<"))


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
    reply = decode(raw)
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
        decode(raw)


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
    assert checker(schema)({"a": 1, "c": {}, "d": ["2026-02-30"]}) == (
        "at $.a: 1 is not of type 'string'; at $.c: 'b' is a required property; "
        "at $.d[0]: '2026-02-30' is not a 'date'"
    )
    assert checker(schema)({"d": ["2026-02-28"]}) is None


def test_endless_schemas_are_illegal():
    """A schema that refers to itself for ever is reported, not followed."""
    with pytest.raises(IllegalSchema):
        checker({"$ref": "#"})(1)
