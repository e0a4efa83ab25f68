"""The scripted endpoint: what it says, how it fails, what it limits, and what it invents."""

from __future__ import annotations

import json
import subprocess
import sys
from collections import Counter

import httpx
import jsonschema
import openai
import pytest
from hypothesis import given
from hypothesis import strategies as st

from toolloom import FakeServer
from toolloom.llm.scripted import invent


def post(client, content="Hello"):
    """The response to a question."""
    body = {"model": "fake", "messages": [{"role": "user", "content": content}]}
    return client.post("chat/completions", json=body, timeout=30)


def test_what_comes_is_counted(tmp_path):
    """Answers are counted, repeats apart, and the log has a line for each; equal requests have equal
    keys. `failures` are the shares of requests that fail so, the same ones with every start."""
    statuses = []
    for _ in range(2):
        log, shares = tmp_path / "log.jsonl", {"500": 0.25, "429": 0.25}
        log.unlink(missing_ok=True)
        fake = FakeServer(lambda body: "Rome", failures=shares, retry_after=3, log=log)
        with fake.serve_in_thread() as server, httpx.Client(base_url=server.base_url) as client:
            came = [post(client, f"question {n % 20}") for n in range(60)]
            told = client.get(f"{server.base_url.removesuffix('/v1')}/counters").json()
        statuses.append([one.status_code for one in came])
    assert statuses[0] == statuses[1]
    counts = Counter(statuses[0])
    assert set(counts) == {200, 429, 500}
    assert all(count > 5 for count in counts.values())
    assert (told["received"], told["answered"]) == (60, counts[200])
    assert told["failed"] == {"500": counts[500], "429": counts[429]}
    assert {one.headers["Retry-After"] for one in came if one.status_code == 429} == {"3"}
    keys = [json.loads(line)["key"] for line in log.read_text().splitlines()]
    assert (len(keys), len(set(keys))) == (counts[200], counts[200] - server.repeats)


@pytest.mark.parametrize("wrong", [{"429": 0.6, "500": 0.6}, {"gremlins": 0.1}, {"200": 0.1}])
def test_shares_that_cannot_be_are_refused(wrong):
    """Shares above 1 together, and failures that nobody knows."""
    with pytest.raises(ValueError, match="failures: "):
        FakeServer(failures=wrong)


def test_answers_are_streamed():
    """With `stream: true` an answer comes as server-sent events, word by word, which the SDK puts
    together to the same text and usage."""
    with FakeServer(lambda body: "Rome, of course").serve_in_thread() as server:
        with httpx.Client(base_url=server.base_url) as plain:
            told = post(plain).json()
        client = openai.OpenAI(api_key="none", base_url=server.base_url)
        with client:
            asked = [{"role": "user", "content": "Hello"}]
            parts = list(client.chat.completions.create(model="m", messages=asked, stream=True))
    texts = [part.choices[0].delta.content for part in parts]
    assert texts == ["Rome,", " of", " course", None]
    assert parts[-1].choices[0].finish_reason == "stop"
    assert parts[-1].usage.model_dump(exclude_none=True) == told["usage"]


def test_the_command_serves():
    """`python -m toolloom.llm.scripted` says where it serves, and serves there."""
    options = ["--port=0", "--failures=500=0,reset=0", "--latency=0.01"]
    command = [sys.executable, "-W", "error", "-m", "toolloom.llm.scripted", *options]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        address = process.stdout.readline().split()[-1]
        with httpx.Client(base_url=address) as client:
            assert client.get("models").json()["data"][0]["id"] == "fake"
            said = post(client).json()
        assert said["choices"][0]["message"]["content"]
        process.terminate()


@pytest.mark.parametrize(
    "schema",
    [
        {"type": "string", "minLength": 30, "maxLength": 40},
        *({"type": "string", "format": f} for f in ("date", "date-time", "email", "uuid")),
        {"type": "integer", "minimum": 3, "maximum": 5},
        {"type": "number", "minimum": -1, "maximum": -0.5},
        {"type": "number", "exclusiveMinimum": 0},
        {"type": "string", "examples": ["red"], "enum": ["red", "blue"]},
        {"anyOf": [{"type": "string"}, {"type": "integer", "minimum": 7}]},
        {"oneOf": [{"type": ["null", "boolean"]}]},
        {
            "properties": {"a": {"$ref": "#/$defs/n"}},
            "required": ["a"],
            "$defs": {"n": {"const": 1}},
        },
        {"properties": {"b": {"type": "array", "maxItems": 0}}, "required": ["b", "c"]},
        {"properties": {"next": {"$ref": "#"}}, "required": [], "additionalProperties": False},
    ],
)
@given(seed=st.text())
def test_invented_values_fit(schema, seed):
    """An invented value is valid, formats included, and the same for the same seed."""
    value = invent(schema, seed)
    dialect = jsonschema.Draft202012Validator
    dialect(schema, format_checker=dialect.FORMAT_CHECKER).validate(value)
    assert value == invent(schema, seed)
