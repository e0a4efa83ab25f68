"""A scripted OpenAI-compatible endpoint on this machine: for tests, and to try recipes for free.

`FakeServer` serves chat completions (streamed too) and embeddings over real HTTP, so that nothing
of the door to models is replaced when it is tested. What it says is a script, a function of a
request's body: the one that ships plays the agents from the words of our own prompts. It fails,
waits and limits as real endpoints do, the same with every start, and counts what came.
`model: scripted` in a recipe starts one, and so does

    python -m toolloom.llm.scripted --port 8123 --latency 0.2
"""

from __future__ import annotations

import argparse
import asyncio
import hashlib
import inspect
import json
import random
import socket
import struct
import threading
import time
from collections import Counter, deque
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self, TextIO, TypeAlias

from aiohttp import web

from toolloom.llm.actor import act, invent, sentence, vector
from toolloom.llm.json_output import readings
from toolloom.llm.messages import SCHEMA_SENTENCE
from toolloom.schemas import JsonObject, canonical, digest

LOOK = 0.05  # seconds between looks whether a client has left
GOODBYE = struct.pack("ii", 1, 0)  # linger for no time: TCP sends a reset
BODIES_KEPT = 1000
LARGEST_BODY = 64 * 2**20
JSON = "application/json"
CHAT = "/v1/chat/completions"
PAGE = "<html><head><title>Please wait</title></head></html>"
HALF = (
    '{"id": "chatcmpl-cut", "object": "chat.completion", "choices": [{"index": 0, "message": {"ro'
)


@dataclass(frozen=True)
class ScriptedFailure:
    """An answer that is none. `body`: sent as it is, OpenAI's error JSON if not given."""

    status: int = 500
    retry_after: float | None = None
    body: str | None = None
    reset: bool = False  # close the connection without a word
    hang: bool = False  # no answer until the client leaves
    name: str = ""  # what it is counted as; else its status

    def error(self) -> str:
        """The body that is sent."""
        if self.body is not None:
            return self.body
        code = "rate_limit_exceeded" if self.status == 429 else None
        return refusal(self.status, "scripted failure", code).body or ""


@dataclass(frozen=True)
class ScriptedReply:
    """A completion with another finish_reason than "stop"."""

    text: str
    finish_reason: str = "length"


Scripted: TypeAlias = str | JsonObject | list[Any] | ScriptedReply | ScriptedFailure
Script: TypeAlias = Callable[[JsonObject], Scripted | Awaitable[Scripted]]

FAILURES: Mapping[str, ScriptedFailure] = {
    "reset": ScriptedFailure(reset=True, name="reset"),
    "hang": ScriptedFailure(hang=True, name="hang"),
    "truncated": ScriptedFailure(200, body=HALF, name="truncated"),
    "html": ScriptedFailure(502, body=PAGE, name="html"),
}


def refusal(status: int, message: str, code: str | None = None) -> ScriptedFailure:
    """A failure with OpenAI's error JSON."""
    error = {"message": message, "type": "invalid_request_error", "param": None, "code": code}
    return ScriptedFailure(status, body=json.dumps({"error": error}))


def improvise(body: JsonObject) -> Scripted:
    """The script of a server without one.

    Our own prompts are played by the actor; to others the answer is a value that fits the
    schema, or a sentence.
    """
    seed = digest([body.get("messages"), body.get("seed")])
    wrapper = (body.get("response_format") or {}).get("json_schema") or {}
    schema: JsonObject | None = wrapper.get("schema")
    if schema is None:  # the last message may tell it
        _, sentinel, text = body["messages"][-1]["content"].rpartition(SCHEMA_SENTENCE)
        schema = next((value for value, _ in readings(text)), None) if sentinel else None
    played: Scripted | None = act(body, schema)
    if played is not None:
        return played
    return sentence(seed) if schema is None else canonical(invent(schema, seed))


def embed(body: JsonObject) -> JsonObject:
    """The body that answers a request for embeddings: hashed words."""
    sent, texts = size(body), body.get("input") or ()
    entries = [
        {"object": "embedding", "index": index, "embedding": vector(text)}
        for index, text in enumerate([texts] if isinstance(texts, str) else texts)
    ]
    usage = {"prompt_tokens": sent, "total_tokens": sent}
    return {"object": "list", "model": body.get("model"), "data": entries, "usage": usage}


def size(body: JsonObject) -> int:
    """Tokens sent, of either kind of request; four characters count as a token."""
    if "messages" in body:
        return sum(len(message.get("content") or "") // 4 + 4 for message in body["messages"])
    texts = body.get("input") or ()
    return sum(len(text) // 4 + 1 for text in ([texts] if isinstance(texts, str) else texts))


def key_of(body: JsonObject) -> str:
    """Equal bodies have equal keys; an answer's id begins with its request's."""
    return hashlib.sha256(json.dumps(body, sort_keys=True).encode()).hexdigest()[:32]


def completion(body: JsonObject, said: ScriptedReply) -> JsonObject:
    """A response body as OpenAI writes it."""
    sent, received = size(body), len(said.text) // 4 + 1
    usage = {
        "prompt_tokens": sent,
        "completion_tokens": received,
        "total_tokens": sent + received,
    }
    message = {"role": "assistant", "content": said.text}
    return {
        "id": f"chatcmpl-{key_of(body)[:12]}",
        "object": "chat.completion",
        "created": 1_790_000_000,
        "model": body.get("model"),
        "choices": [{"index": 0, "message": message, "finish_reason": said.finish_reason}],
        "usage": usage,
    }


def events(whole: JsonObject) -> Iterator[str]:
    """A completion as server-sent events: a word at a time, and what it took with the last."""
    (choice,), head = whole["choices"], {**whole, "object": "chat.completion.chunk", "usage": None}
    for number, word in enumerate(choice["message"]["content"].split(" ")):
        delta = {"content": f" {word}"} if number else {"role": "assistant", "content": word}
        said = {"index": 0, "delta": delta, "finish_reason": None}
        yield f"data: {json.dumps({**head, 'choices': [said]})}\n\n"
    last = {"index": 0, "delta": {}, "finish_reason": choice["finish_reason"]}
    ended = {**head, "choices": [last], "usage": whole["usage"]}
    yield f"data: {json.dumps(ended)}\n\ndata: [DONE]\n\n"


class FakeServer:
    """The endpoint. `async with FakeServer(script) as server:` or `with server.serve_in_thread():`.

    `script` is given each request's body. It returns the text of the answer, an object to be
    written as JSON, a ScriptedReply or a ScriptedFailure; a coroutine function may wait before.
    """

    def __init__(
        self,
        script: Script = improvise,
        *,
        embeddings: Script = embed,
        latency: float = 0.0,
        failures: Mapping[str, float] | None = None,
        retry_after: float = 1.0,
        places: int | None = None,
        key: str | None = None,
        models: Sequence[str] | None = None,
        modes: Sequence[str] = ("json_schema", "json_object"),
        log: str | Path | None = None,
        port: int = 0,
    ) -> None:
        """`embeddings`: the script of /v1/embeddings; it says the whole body, or a failure.

        `latency`: seconds before each answer. `failures`: shares of requests that fail, by status
        or by a name in FAILURES; a 429 comes at once and says `retry_after`. `places`: requests
        under way; one more gets 429. `models`: others get 404. `modes`: of response_format;
        others get 400. `log`: a file that gets one line for each answer sent. Raises ValueError
        for a failure nobody knows, or shares above 1.
        """
        self.received = 0
        self.answered = 0
        self.repeats = 0  # answers to a body that had been answered before
        self.failures: Counter[str] = Counter()  # by name
        self.busy = 0  # requests under way
        self.peak = 0  # most requests under way at once
        self.bodies: deque[JsonObject] = deque(maxlen=BODIES_KEPT)
        self._seen: set[str] = set()
        self._scripts = {CHAT: script, "/v1/embeddings": embeddings}
        self._latency = latency
        self._dice = random.Random(0)
        self._failures: list[tuple[ScriptedFailure, float]] = []
        for name, share in (failures or {}).items():
            failure = FAILURES.get(name)
            if name.isdecimal() and 400 <= int(name) <= 599:
                wait = retry_after if name == "429" else None
                failure = ScriptedFailure(int(name), wait, name=name)
            if failure is None:
                names = ", ".join(FAILURES)
                raise ValueError(f"failures: {name!r} is neither a status nor one of {names}")
            self._failures.append((failure, share))
        if sum(share for _, share in self._failures) > 1:
            raise ValueError("failures: the shares are more than 1 together")
        self._places = places
        self._key = key
        self._models = models
        self._modes = (None, "text", *modes)
        self._log_path = Path(log) if log else None
        self._log: TextIO | None = None
        self._port = port
        self._runner: web.AppRunner | None = None

    @property
    def base_url(self) -> str:
        return f"http://127.0.0.1:{self._port}/v1"

    @property
    def failed(self) -> int:
        return self.failures.total()

    def routes(self, app: web.Application) -> None:
        for path in self._scripts:
            app.router.add_post(path, self._answer)
        app.router.add_get("/v1/models", self._list)
        app.router.add_get("/counters", self._counters)

    async def __aenter__(self) -> Self:
        app = web.Application(client_max_size=LARGEST_BODY)
        self.routes(app)
        # Nothing is under way once a test is over that is worth waiting for.
        self._runner = web.AppRunner(app, access_log=None, shutdown_timeout=0.1)
        await self._runner.setup()
        site = web.TCPSite(self._runner, "127.0.0.1", self._port, backlog=1024)
        await site.start()
        self._port = self._runner.addresses[0][1]
        return self

    async def __aexit__(self, *_: object) -> None:
        if self._runner is not None:
            await self._runner.cleanup()
        if self._log is not None:
            self._log.close()

    @contextmanager
    def serve_in_thread(self) -> Iterator[FakeServer]:
        """Serve beside synchronous code, on an event loop of its own."""
        loop = asyncio.new_event_loop()
        loop.run_until_complete(self.__aenter__())
        thread = threading.Thread(target=loop.run_forever, daemon=True)
        thread.start()
        try:
            yield self
        finally:
            loop.call_soon_threadsafe(loop.stop)
            thread.join()
            loop.run_until_complete(self.__aexit__())
            loop.close()

    async def _answer(self, request: web.Request) -> web.StreamResponse:
        self.received += 1
        self.busy += 1
        self.peak = max(self.peak, self.busy)
        shown = request.headers.get("Authorization", "").removeprefix("Bearer ")
        try:
            if self._key not in (
                None,
                shown,
            ):  # like several real servers, it repeats the wrong one
                words = f"Incorrect API key provided: {shown}."
                return await self._fail(refusal(401, words, "invalid_api_key"), request)
            body: JsonObject = json.loads(await request.read())
            self.bodies.append(body)
            if self._places is not None and self.busy > self._places:
                return await self._fail(ScriptedFailure(429), request)
            failure = self.chance()
            if self._latency and not (failure and failure.status == 429):
                await asyncio.sleep(self._latency)
            said = failure or await self.say(body, request.path)
            if isinstance(said, ScriptedFailure):
                return await self._fail(said, request)
            if body.get("stream") is True and request.path == CHAT:
                response = web.StreamResponse(headers={"Content-Type": "text/event-stream"})
                await response.prepare(request)
                for event in events(said):
                    await response.write(event.encode())
            else:
                response = web.Response(body=json.dumps(said).encode(), content_type=JSON)
                await response.prepare(request)
            await response.write_eof()
            self.count(body)
            return response
        finally:
            self.busy -= 1

    def chance(self) -> ScriptedFailure | None:
        """How the next request fails, if it does."""
        drawn = self._dice.random() if self._failures else 1.0
        for failure, share in self._failures:
            if drawn < share:
                return failure
            drawn -= share
        return None

    async def say(self, body: JsonObject, path: str = CHAT) -> JsonObject | ScriptedFailure:
        """What the endpoint has to say to a body."""
        model, kind = str(body.get("model")), (body.get("response_format") or {}).get("type")
        if self._models is not None and model not in self._models:
            return refusal(404, f"The model `{model}` does not exist.", "model_not_found")
        if kind not in self._modes:
            return refusal(400, f"response_format of type `{kind}` is not supported.")
        said: Any = self._scripts[path](body)
        said = await said if inspect.isawaitable(said) else said
        if isinstance(said, ScriptedFailure) or path == "/v1/embeddings":
            outcome: JsonObject | ScriptedFailure = said
            return outcome
        if not isinstance(said, ScriptedReply):
            said = ScriptedReply(said if isinstance(said, str) else canonical(said), "stop")
        return completion(body, said)

    async def _fail(self, failure: ScriptedFailure, request: web.Request) -> web.Response:
        self.failures[failure.name or str(failure.status)] += 1
        if failure.hang:
            while request.transport and not request.transport.is_closing():  # noqa: ASYNC110 - no event
                await asyncio.sleep(LOOK)
        if failure.reset and (transport := request.transport):
            raw = transport.get_extra_info("socket")
            raw.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, GOODBYE)
            transport.close()
        body = failure.error()
        kind = {"{": JSON, "<": "text/html"}.get(body[:1], "text/plain")
        wait = {} if failure.retry_after is None else {"Retry-After": str(failure.retry_after)}
        return web.Response(
            status=failure.status, body=body.encode(), content_type=kind, headers=wait
        )

    def count(self, body: JsonObject) -> None:
        """An answer has been written to its socket."""
        key = key_of(body)
        self.answered += 1
        self.repeats += key in self._seen
        self._seen.add(key)
        if self._log_path is not None:
            self._log = self._log or self._log_path.open("a", buffering=1, encoding="utf-8")
            self._log.write(json.dumps({"key": key, "model": body.get("model")}) + "\n")

    async def _counters(self, request: web.Request) -> web.Response:
        """`busy`: requests under way, `cpu`: seconds that this process has used."""
        names = ("received", "answered", "repeats", "busy", "peak")
        counted = {name: getattr(self, name) for name in names}
        told = {**counted, "failed": dict(self.failures), "cpu": time.process_time()}
        return web.json_response(told)

    async def _list(self, request: web.Request) -> web.Response:
        names = ("fake",) if self._models is None else self._models
        entries = [{"id": name, "object": "model", "owned_by": "toolloom"} for name in names]
        return web.json_response({"object": "list", "data": entries})


def main() -> None:
    parser = argparse.ArgumentParser(
        prog="python -m toolloom.llm.scripted",
        description="A scripted OpenAI-compatible endpoint on this machine.",
    )
    names = ", ".join(("a status", *FAILURES))
    add = parser.add_argument
    add("--port", type=int, default=8123, help="0 takes a free one")
    add("--latency", type=float, default=0.0, help="seconds before each answer")
    add("--failures", default="", help=f"shares: 429=0.05,reset=0.01 ({names})")
    add("--answer", help="what it says to everything")
    add("--log", type=Path, help="file that gets one line for each answer")
    options = vars(parser.parse_args())
    answer: str | None = options.pop("answer")
    pairs = (part.partition("=") for part in options.pop("failures").split(",") if part)
    options["failures"] = {name.strip(): float(share) for name, _, share in pairs}

    async def serve() -> None:
        script = improvise if answer is None else lambda body: answer
        async with FakeServer(script, **options) as server:
            print(f"serving on {server.base_url}", flush=True)
            await asyncio.Event().wait()

    with suppress(KeyboardInterrupt):
        asyncio.run(serve())


if __name__ == "__main__":
    main()
