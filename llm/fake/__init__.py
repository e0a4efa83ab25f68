"""A scripted OpenAI-compatible endpoint on this machine: for tests, and to try recipes for free.

`FakeServer` serves chat completions, embeddings and batches over real HTTP, so that nothing of the
door to models is replaced when it is tested. What it says is a script, a function of a request's
body: the one that ships plays the agents from the words of our own prompts. It fails, waits and
limits as real endpoints were seen to do, the same with every start, and counts what came.
`python -m toolloom.llm.fake` starts one.

May touch: a port of this machine; the door's limits and wire, schemas.
Begin with `FakeServer`, below; `script.py` is what it says and how it fails, `batches.py` its Batch
API, `actor.py` the agents' part.
"""

from __future__ import annotations

import asyncio
import hashlib
import inspect
import json
import socket
import struct
import threading
import time
from collections import Counter, deque
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Self, TextIO

from aiohttp import web

from toolloom.llm.fake.batches import Batches, Batching
from toolloom.llm.fake.script import (
    JSON,
    Dice,
    Limits,
    Prefixes,
    Script,
    Scripted,
    ScriptedFailure,
    ScriptedReply,
    completion,
    embed,
    error_body,
    improvise,
    refusal,
    respond,
    size,
)
from toolloom.schemas import JsonObject, canonical

__all__ = [
    "Batching",
    "FakeServer",
    "Script",
    "Scripted",
    "ScriptedFailure",
    "ScriptedReply",
    "embed",
    "improvise",
]

LOOK = 0.05  # seconds between looks whether a client has left
GOODBYE = struct.pack("ii", 1, 0)  # linger for no time: TCP sends a reset
BODIES_KEPT = 1000
LARGEST_BODY = 64 * 2**20
ALL_MODES = ("json_schema", "json_object")


class FakeServer:
    """The endpoint. `async with FakeServer(script) as server:` or `with server.serve_in_thread():`.

    `script` is given each request's body. It returns the text of the answer, an object to be
    written as JSON, Said, or a Failure; a coroutine function may wait before it does.
    """

    def __init__(
        self,
        script: Script = improvise,
        *,
        embeddings: Script = embed,
        latency: float = 0.0,
        spread: float = 0.0,
        failures: Mapping[str, float] | None = None,
        retry_after: float = 1.0,
        requests_per_minute: int | None = None,
        tokens_per_minute: int | None = None,
        minute: float = 60.0,
        places: int | None = None,
        prefix_cache: bool = False,
        batches: Batching | None = Batching(),  # noqa: B008 - it is frozen
        key: str | None = None,
        models: Sequence[str] | None = None,
        modes: Sequence[str] = ALL_MODES,
        log: str | Path | None = None,
        port: int = 0,
        host: str = "127.0.0.1",
    ) -> None:
        """`models`: others get 404; `log`: a file that gets one line for each answer sent.

        `embeddings`: the script of /v1/embeddings; it says the whole body, or a Failure.
        `latency`: seconds before each answer, with a `spread` (sigma) the mean of a lognormal.
        `failures`: shares of requests that fail, by status or by a name in FAILURES; a 429 comes
        at once and says `retry_after`. `minute`: the seconds that the limits call so.
        `places`: requests under way; one more gets 429. `prefix_cache`: answers tell
        cached_tokens, which depend on the order of requests and so make runs differ.
        `batches`: how the Batch API goes; None for an endpoint without one.
        """
        self.received = 0
        self.answered = 0
        self.repeats = 0  # answers to a body that had been answered before
        self.failures: Counter[str] = Counter()  # by kind
        self.busy = 0  # requests under way
        self.peak = 0  # most requests under way at once
        self.first: float | None = None  # Unix time of the first request
        self.bodies: deque[JsonObject] = deque(maxlen=BODIES_KEPT)
        self._seen: set[str] = set()
        self._script = script
        self._embeddings = embeddings
        self._dice = Dice(failures or {}, latency, spread, retry_after)
        self._limits = Limits(places, requests_per_minute, tokens_per_minute, minute)
        self._prefixes = Prefixes() if prefix_cache else None
        self._key = key
        self._models = models
        self.batches = Batches(batches, models, self._denied, self._line) if batches else None
        self._modes = tuple(modes)
        self._log_path = Path(log) if log else None
        self._log: TextIO | None = None
        self._host, self._port = host, port
        self._runner: web.AppRunner | None = None

    @property
    def base_url(self) -> str:
        return f"http://{self._host}:{self._port}/v1"

    @property
    def failed(self) -> int:
        return self.failures.total()

    async def __aenter__(self) -> Self:
        app = web.Application(client_max_size=LARGEST_BODY)
        app.router.add_post("/v1/chat/completions", self._answer)
        app.router.add_post("/v1/embeddings", self._answer)
        app.router.add_get("/v1/models", self._list)
        app.router.add_get("/counters", self._counters)
        if self.batches is not None:
            self.batches.add_routes(app)
        # Nothing is under way once a test is over that is worth waiting for.
        self._runner = web.AppRunner(app, access_log=None, shutdown_timeout=0.1)
        await self._runner.setup()
        site = web.TCPSite(self._runner, self._host, self._port, backlog=1024)
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

    async def _reply(self, body: JsonObject, chat: bool = True) -> JsonObject | ScriptedFailure:
        """What the endpoint has to say to a body, counted nowhere."""
        if (refused := self._refused(body)) is not None:
            return refused
        said: Any = (self._script if chat else self._embeddings)(body)
        outcome: Any = await said if inspect.isawaitable(said) else said
        if isinstance(outcome, ScriptedFailure):
            return outcome
        if not chat:
            return JsonObject(outcome)
        if not isinstance(outcome, ScriptedReply):
            outcome = ScriptedReply(
                outcome if isinstance(outcome, str) else canonical(outcome), "stop"
            )
        cached = self._prefixes.cached(body) if self._prefixes else None
        return completion(body, outcome, key_of(body), cached)

    async def _line(self, body: JsonObject, failure: ScriptedFailure | None) -> tuple[int, Any]:
        """Status and body of an answer to a batch's line, which counts as a request."""
        said = failure or await self._reply(body)
        self.received += 1
        self.bodies.append(body)
        if not isinstance(said, ScriptedFailure):
            self._count(body)
            return 200, said
        self.failures[said.name] += 1
        body_text = error_body(said)
        try:
            return said.status, json.loads(body_text)
        except ValueError:
            return said.status, body_text

    async def _counters(self, request: web.Request) -> web.Response:
        """`busy`: requests under way, `cpu`: seconds that this process has used."""
        names = ("received", "answered", "repeats", "busy", "peak", "first")
        counted = {name: getattr(self, name) for name in names}
        failed, cpu = dict(self.failures), time.process_time()
        return web.json_response({**counted, "failed": failed, "cpu": cpu})

    async def _list(self, request: web.Request) -> web.Response:
        if (denied := self._denied(request)) is not None:
            return respond(denied)
        names = ("fake",) if self._models is None else self._models
        entries = [{"id": name, "object": "model", "owned_by": "toolloom"} for name in names]
        return web.json_response({"object": "list", "data": entries})

    async def _answer(self, request: web.Request) -> web.StreamResponse:
        self.received += 1
        self.first = self.first or time.time()
        self.busy += 1
        self.peak = max(self.peak, self.busy)
        try:
            body: JsonObject = json.loads(await request.read())
            self.bodies.append(body)
            if (refused := self._denied(request) or self._refused(body)) is not None:
                return respond(refused)
            if (refused := self._limits.refusal(size(body))) is not None:
                return await self._fail(refused, request)
            try:
                return await self._work(body, request)
            finally:
                self._limits.leave()
        finally:
            self.busy -= 1

    async def _work(self, body: JsonObject, request: web.Request) -> web.StreamResponse:
        """A request that was let in: it fails by chance, or the script answers it."""
        failure = self._dice.failure()
        wait = 0.0 if failure and failure.status == 429 else self._dice.latency()
        if wait:
            await asyncio.sleep(wait)
        outcome = failure or await self._reply(body, request.path.endswith("/chat/completions"))
        if isinstance(outcome, ScriptedFailure):
            return await self._fail(outcome, request)
        self._limits.receive(outcome.get("usage", {}).get("completion_tokens", 0))
        response = web.Response(body=json.dumps(outcome).encode(), headers=self._limits.headers())
        response.headers["Content-Type"] = JSON
        await response.prepare(request)
        await response.write_eof()
        self._count(body)
        return response

    def _denied(self, request: web.Request) -> ScriptedFailure | None:
        if self._key is None or request.headers.get("Authorization") == f"Bearer {self._key}":
            return None
        # Like several real servers, it repeats the key it does not like.
        shown = request.headers.get("Authorization", "").removeprefix("Bearer ")
        return refusal(401, f"Incorrect API key provided: {shown}.", "invalid_api_key")

    def _refused(self, body: JsonObject) -> ScriptedFailure | None:
        model = str(body.get("model"))
        if self._models is not None and model not in self._models:
            return refusal(404, f"The model `{model}` does not exist.", "model_not_found")
        kind = (body.get("response_format") or {}).get("type")
        if kind in (None, "text", *self._modes):
            return None
        return refusal(400, f"response_format of type `{kind}` is not supported.")

    async def _fail(self, failure: ScriptedFailure, request: web.Request) -> web.Response:
        self.failures[failure.name] += 1
        if failure.hang:
            while request.transport and not request.transport.is_closing():  # noqa: ASYNC110 - no event
                await asyncio.sleep(LOOK)
        if (failure.disconnect or failure.reset) and (transport := request.transport):
            if failure.reset:
                raw = transport.get_extra_info("socket")
                raw.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, GOODBYE)
            transport.close()
        return respond(failure, self._limits.headers())

    def _count(self, body: JsonObject) -> None:
        """An answer has been written to its socket."""
        key = key_of(body)
        self.answered += 1
        self.repeats += key in self._seen
        self._seen.add(key)
        if self._log_path is not None:
            self._log = self._log or self._log_path.open("a", buffering=1, encoding="utf-8")
            self._log.write(json.dumps({"key": key, "model": body.get("model")}) + "\n")


def key_of(body: JsonObject) -> str:
    """Equal bodies have equal keys; an answer's id begins with its request's."""
    return hashlib.sha256(json.dumps(body, sort_keys=True).encode()).hexdigest()[:32]
