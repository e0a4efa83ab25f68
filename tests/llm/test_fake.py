from __future__ import annotations

import json
import subprocess
import sys
import urllib.request

import jsonschema
import pytest

from toolloom.llm import FakeServer, ask
from toolloom.llm.fake import Failure


def post(server, content="Hello", path="/chat/completions", **fields):
    """Ask a server as any program would: the body of its answer."""
    body = {"model": "fake", "messages": [{"role": "user", "content": content}], **fields}
    request = urllib.request.Request(
        f"{server.base_url}{path}",
        json.dumps(body).encode(),
        {"Content-Type": "application/json"},
    )
    with urllib.request.urlopen(request, timeout=5) as response:
        return json.load(response)


def test_threads_serve_synchronous_code():
    """The server runs beside synchronous code and counts what it answers, repeats apart."""
    with FakeServer(lambda body: "Rome").serve_in_thread() as server:
        said = [post(server, content) for content in ("a", "b", "a")]
    assert {body["choices"][0]["message"]["content"] for body in said} == {"Rome"}
    assert all(body["usage"]["completion_tokens"] > 0 for body in said)
    assert (server.received, server.answered, server.repeats) == (3, 3, 1)


def test_answers_are_logged(tmp_path):
    """The log has one line for each answer; equal requests have equal keys."""
    with FakeServer(log=tmp_path / "log.jsonl").serve_in_thread() as server:
        for content in ("a", "b", "a"):
            post(server, content)
    lines = (tmp_path / "log.jsonl").read_text().splitlines()
    keys = [json.loads(line)["key"] for line in lines]
    assert keys[0] == keys[2] != keys[1]


def test_embeddings_are_hashed_words():
    """Embeddings have length 1, are the same for the same words, and count as other answers."""
    texts = ["rent_a_boat", "Rent a boat!", "sell cars", ""]
    with FakeServer(lambda body: "Rome").serve_in_thread() as server:
        one, two = (post(server, path="/embeddings", input=texts) for _ in range(2))
        single = post(server, path="/embeddings", input="sell cars")
    vectors = [entry["embedding"] for entry in one["data"]]
    assert one == two
    assert vectors[0] == vectors[1] != vectors[2] == single["data"][0]["embedding"]
    assert all(sum(x * x for x in v) == pytest.approx(1) for v in vectors)
    assert (server.received, server.answered, server.repeats) == (3, 3, 1)


def test_failures_come_as_scripted():
    """A failure has its status, its Retry-After and its body, and counts as no answer."""
    script = FakeServer(lambda body: Failure(503, retry_after=7, body="busy"))
    with script.serve_in_thread() as server, pytest.raises(urllib.request.HTTPError) as failed:
        post(server)
    with failed.value as error:
        assert (error.code, error.headers["Retry-After"], error.read()) == (503, "7", b"busy")
    assert (server.answered, server.failed) == (0, 1)


def test_a_share_of_requests_fails():
    """failure_rate is the share of requests that are answered with 503."""
    with FakeServer(failure_rate=1.0).serve_in_thread() as server:
        with pytest.raises(urllib.request.HTTPError, match="503") as failed:
            post(server)
        failed.value.close()


@pytest.mark.parametrize("modes", [("json_schema",), ("json_object",), ()])
async def test_without_a_script_any_schema_is_answered(gateway, at, prompt, modes):
    """The server without a script answers every structured request, in any mode, with a fit."""
    schema = {
        "type": "object",
        "properties": {"day": {"type": "string", "format": "date"}, "n": {"enum": [1, 2]}},
        "required": ["day", "n"],
        "additionalProperties": False,
    }
    async with FakeServer(modes=modes) as server:
        answer = await ask(gateway.model(at(server)), prompt, dict, seed=1, schema=schema)
    jsonschema.validate(answer.value, schema)
    assert answer.usage.requests == 1


def test_the_command_serves():
    """`python -m toolloom.llm.fake` says where it serves, and serves there."""
    command = [sys.executable, "-W", "error", "-m", "toolloom.llm.fake", "--port", "0"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        address = process.stdout.readline().split()[-1]
        with urllib.request.urlopen(f"{address}/models", timeout=5) as response:
            assert json.load(response)["data"][0]["id"] == "fake"
        process.terminate()
