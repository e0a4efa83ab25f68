"""The scripted endpoint: what it says, how it fails, what it limits, and what it invents."""

from __future__ import annotations

import http.client
import json
import subprocess
import sys
import urllib.request
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from types import SimpleNamespace
from urllib.parse import urlsplit

import jsonschema
import openai
import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.waiting import come_to_rest, until

from toolloom.llm import FakeServer
from toolloom.llm.actor import invent


def whole(server, timeout=5, content="Hello", **fields):
    """A request of its own connection: status, headers and body, whatever they are."""
    url = urlsplit(server.base_url)
    connection = http.client.HTTPConnection(url.netloc, timeout=timeout)
    body = {"model": "fake", "messages": [{"role": "user", "content": content}], **fields}
    try:
        connection.request("POST", f"{url.path}/chat/completions", json.dumps(body))
        response = connection.getresponse()
        return response.status, response.headers, response.read()
    finally:
        connection.close()


def post(server, content="Hello", **fields):
    """The body of an answer."""
    return json.loads(whole(server, content=content, **fields)[2])


def outcome(server):
    return whole(server)[0]


def test_threads_serve_synchronous_code(tmp_path):
    """The server runs beside synchronous code and counts what it answers, repeats apart. The log
    has one line for each answer; equal requests have equal keys."""
    server = FakeServer(lambda body: "Rome", log=tmp_path / "log.jsonl")
    with server.serve_in_thread():
        said = [post(server, content) for content in ("a", "b", "a")]
    assert {body["choices"][0]["message"]["content"] for body in said} == {"Rome"}
    assert all(body["usage"]["completion_tokens"] > 0 for body in said)
    assert (server.received, server.answered, server.repeats) == (3, 3, 1)
    lines = (tmp_path / "log.jsonl").read_text().splitlines()
    keys = [json.loads(line)["key"] for line in lines]
    assert keys[0] == keys[2] != keys[1]


def test_shares_of_requests_fail():
    """`failures` are the shares of requests that fail so; the dice fall the same every time."""
    statuses = []
    for _ in range(2):
        with FakeServer(failures={"500": 0.25, "429": 0.25}).serve_in_thread() as server:
            statuses.append([outcome(server) for _ in range(60)])
            address = f"{server.base_url.removesuffix('/v1')}/counters"
            with urllib.request.urlopen(address, timeout=5) as response:
                told = json.load(response)
    assert statuses[0] == statuses[1]
    counts = Counter(statuses[0])
    assert set(counts) == {200, 429, 500}
    assert all(count > 5 for count in counts.values())
    # GET /counters tells what came, what was answered, and what failed how.
    assert (told["received"], told["answered"]) == (60, counts[200])
    assert told["failed"] == {"500": counts[500], "429": counts[429]}


def test_a_share_may_be_all_and_not_more():
    """With a share of 1 every request fails, at once, and a 429 asks to wait `retry_after` seconds;
    shares above 1 and unknown names are refused."""
    with FakeServer(latency=5, failures={"429": 1}, retry_after=3).serve_in_thread() as server:
        status, headers, _ = whole(server)
    assert (status, headers["Retry-After"]) == (429, "3")
    for wrong in ({"429": 0.6, "500": 0.6}, {"gremlins": 0.1}, {"200": 0.1}):
        with pytest.raises(ValueError, match="failures: "):
            FakeServer(failures=wrong)


def test_connections_are_reset():
    """A reset reaches the client as one, not as a polite end of the connection."""
    script = FakeServer(failures={"reset": 1})
    with script.serve_in_thread() as server, pytest.raises(ConnectionResetError):
        whole(server)
    assert (server.answered, dict(server.failures)) == (0, {"reset": 1})


@pytest.mark.parametrize(
    ("kind", "status", "begins", "content"),
    [
        ("truncated", 200, b'{"id"', "application/json"),
        ("html", 502, b"<html>", "text/html"),
    ],
)
def test_what_is_no_completion_comes_as_one(kind, status, begins, content):
    """Half a body is called JSON and comes with 200; an HTML page comes with 502."""
    with FakeServer(failures={kind: 1}).serve_in_thread() as server:
        came, headers, body = whole(server)
    assert (came, headers["Content-Type"].split(";")[0]) == (status, content)
    assert body.startswith(begins)
    with pytest.raises(json.JSONDecodeError):
        json.loads(body)


def test_answers_are_streamed():
    """With `stream: true` an answer comes as server-sent events, word by word, which the SDK puts
    together to the same text and usage."""
    with FakeServer(lambda body: "Rome, of course").serve_in_thread() as server:
        told = post(server)
        client = openai.OpenAI(api_key="none", base_url=server.base_url)
        with client:
            asked = [{"role": "user", "content": "Hello"}]
            parts = list(client.chat.completions.create(model="m", messages=asked, stream=True))
    texts = [part.choices[0].delta.content for part in parts]
    assert texts == ["Rome,", " of", " course", None]
    assert parts[-1].choices[0].finish_reason == "stop"
    assert parts[-1].usage.model_dump(exclude_none=True) == told["usage"]


def test_hanging_requests_end_with_the_client():
    """A request that hangs gets no answer, and holds a place until its client leaves."""
    with FakeServer(failures={"hang": 0.5}, places=1).serve_in_thread() as server:
        said = []
        for _ in range(4):
            with suppress(TimeoutError):
                said.append(whole(server, timeout=1)[0])
            come_to_rest(server.base_url)
    assert server.failures == {"hang": 4 - len(said)}
    assert set(said) == {200}


def test_more_requests_than_places_are_refused():
    """Above `places` requests at once there is 429, at once."""

    async def slowly(body):
        await until(lambda: script.failed == 3)
        return "Hello"

    script = FakeServer(slowly, places=2)
    with script.serve_in_thread() as server, ThreadPoolExecutor(5) as pool:
        statuses = Counter(pool.map(lambda _: outcome(server), range(5)))
    assert statuses == {200: 2, 429: 3}


def test_the_command_serves():
    """`python -m toolloom.llm.scripted` says where it serves, and serves there."""
    options = ["--port=0", "--failures=500=0,reset=0", "--answer=Rome", "--latency=0.01"]
    command = [sys.executable, "-W", "error", "-m", "toolloom.llm.scripted", *options]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        address = process.stdout.readline().split()[-1]
        with urllib.request.urlopen(f"{address}/models", timeout=5) as response:
            assert json.load(response)["data"][0]["id"] == "fake"
        said = post(SimpleNamespace(base_url=address))
        assert said["choices"][0]["message"]["content"] == "Rome"
        process.terminate()


SCHEMAS = [
    {"type": "string", "minLength": 30, "maxLength": 40},
    *({"type": "string", "format": f} for f in ("date", "date-time", "time", "email", "uuid")),
    {"type": "integer", "minimum": 3, "maximum": 5},
    {"type": "number", "minimum": -1, "maximum": -0.5},
    {"type": "number", "exclusiveMinimum": 0},
    {"type": ["null", "boolean"]},
    {"enum": ["a", 1, None]},
    {"const": {"a": 1}},
    {"type": "string", "examples": ["red"], "enum": ["red", "blue"]},
    {"type": "array", "items": {"type": "string"}, "maxItems": 0},
    {"anyOf": [{"type": "string"}, {"type": "integer", "minimum": 7}]},
    {"oneOf": [{"type": "boolean"}, {"type": "null"}]},
    {"properties": {"a": {"$ref": "#/$defs/n"}}, "required": ["a"], "$defs": {"n": {"const": 1}}},
    {"properties": {"b": {"type": "array", "items": {"const": 1}}}, "required": ["b", "c"]},
    {"properties": {"next": {"$ref": "#"}}, "required": [], "additionalProperties": False},
]


@pytest.mark.parametrize("schema", SCHEMAS)
@given(seed=st.text())
def test_invented_values_fit(schema, seed):
    """An invented value is valid, formats included, and the same for the same seed."""
    value = invent(schema, seed)
    dialect = jsonschema.Draft202012Validator
    dialect(schema, format_checker=dialect.FORMAT_CHECKER).validate(value)
    assert value == invent(schema, seed)
