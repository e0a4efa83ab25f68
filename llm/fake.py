"""A scripted OpenAI-compatible endpoint on this machine: for tests, and to try recipes for free.

python -m toolloom.llm.fake --port 8123 --latency 0.2
"""

from __future__ import annotations

import argparse
import asyncio
import inspect
import json
import random
import threading
from collections import Counter, deque
from collections.abc import Awaitable, Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any, Self, TypeAlias

from aiohttp import web

from toolloom.llm.actor import act
from toolloom.llm.invent import invent, sentence, vector
from toolloom.llm.parsing import readings
from toolloom.llm.wire import SCHEMA_SENTENCE
from toolloom.schemas import JsonObject, canonical, digest

BODIES_KEPT = 1000
LARGEST_BODY = 64 * 2**20
ALL_MODES = ("json_schema", "json_object")


@dataclass(frozen=True)
class Failure:
    """An answer that is none. `body`: sent as it is, OpenAI's error JSON if not given."""

    status: int = 500
    retry_after: str | float | None = None
    body: str | None = None
    disconnect: bool = False  # close the connection without a word


@dataclass(frozen=True)
class Said:
    """A completion with another finish_reason than "stop"."""

    text: str
    finish_reason: str = "length"


Scripted: TypeAlias = str | JsonObject | list[Any] | Said | Failure
Script: TypeAlias = Callable[[JsonObject], Scripted | Awaitable[Scripted]]


def improvise(body: JsonObject) -> Scripted:
    """The script of a server without one.

    Our own prompts are played by the actor; to others the answer is a value that fits the
    schema, or a sentence.
    """
    seed = digest([body.get("messages"), body.get("seed")])
    schema = _schema_of(body)
    played: Scripted | None = act(body, schema)
    if played is not None:
        return played
    return sentence(seed) if schema is None else canonical(invent(schema, seed))


def embed(body: JsonObject) -> JsonObject:
    """The body that answers a request for embeddings: hashed words."""
    given = body.get("input")
    texts = [given] if isinstance(given, str) else list(given or ())
    tokens = sum(len(text) // 4 + 1 for text in texts)
    entries = [
        {"object": "embedding", "index": index, "embedding": vector(text)}
        for index, text in enumerate(texts)
    ]
    return {
        "object": "list",
        "model": body.get("model"),
        "data": entries,
        "usage": {"prompt_tokens": tokens, "total_tokens": tokens},
    }


def _schema_of(body: JsonObject) -> JsonObject | None:
    """The schema of the response_format, or the one the last message tells."""
    wrapper = (body.get("response_format") or {}).get("json_schema") or {}
    if "schema" in wrapper:
        found: JsonObject = wrapper["schema"]
        return found
    _, told, text = body["messages"][-1]["content"].rpartition(SCHEMA_SENTENCE)
    return next((value for value, _ in readings(text)), None) if told else None


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
        failure_rate: float = 0.0,
        key: str | None = None,
        models: Sequence[str] | None = None,
        modes: Sequence[str] = ALL_MODES,
        log: str | Path | None = None,
        port: int = 0,
        host: str = "127.0.0.1",
    ) -> None:
        """`models`: others get 404; `log`: a file that gets one line for each answer sent.

        `embeddings`: the script of /v1/embeddings; it says the whole body, or a Failure.
        """
        self.received = 0
        self.answered = 0
        self.repeats = 0  # answers to a body that had been answered before
        self.failed = 0
        self.peak = 0  # most requests under way at once
        self.bodies: deque[JsonObject] = deque(maxlen=BODIES_KEPT)
        self._seen: Counter[str] = Counter()
        self._busy = 0
        self._script = script
        self._embeddings = embeddings
        self._latency = latency
        self._failure_rate = failure_rate
        self._dice = random.Random(0)
        self._key = key
        self._models = models
        self._modes = tuple(modes)
        self._log = Path(log) if log else None
        self._host, self._port = host, port
        self._runner: web.AppRunner | None = None

    @property
    def base_url(self) -> str:
        return f"http://{self._host}:{self._port}/v1"

    async def __aenter__(self) -> Self:
        app = web.Application(client_max_size=LARGEST_BODY)
        app.router.add_post("/v1/chat/completions", self._answer)
        app.router.add_post("/v1/embeddings", self._answer)
        app.router.add_get("/v1/models", self._list)
        # Nothing is under way once a test is over that is worth waiting for.
        self._runner = web.AppRunner(app, access_log=None, shutdown_timeout=0.1)
        await self._runner.setup()
        site = web.TCPSite(self._runner, self._host, self._port, backlog=1024)
        await site.start()
        self._port = self._runner.addresses[0][1]
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self._runner is not None:
            await self._runner.cleanup()

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
            loop.run_until_complete(self.__aexit__(None, None, None))
            loop.close()

    async def _list(self, request: web.Request) -> web.Response:
        if (denied := self._denied(request)) is not None:
            return denied
        names = ("fake",) if self._models is None else self._models
        entries = [{"id": name, "object": "model", "owned_by": "toolloom"} for name in names]
        return web.json_response({"object": "list", "data": entries})

    async def _answer(self, request: web.Request) -> web.StreamResponse:
        self.received += 1
        self._busy += 1
        self.peak = max(self.peak, self._busy)
        try:
            return await self._serve(request)
        finally:
            self._busy -= 1

    async def _serve(self, request: web.Request) -> web.StreamResponse:
        body: JsonObject = await request.json()
        self.bodies.append(body)
        refused = self._denied(request) or self._refused(body)
        if refused is not None:
            return refused
        if self._latency:
            await asyncio.sleep(self._latency)
        chat = request.path.endswith("/chat/completions")
        outcome = await self._outcome(body, self._script if chat else self._embeddings)
        if isinstance(outcome, Failure):
            return self._fail(outcome, request)
        if chat:
            said = outcome if isinstance(outcome, Said) else Said(_text(outcome), "stop")
            outcome = completion(body, said)
        response = web.json_response(outcome)
        await response.prepare(request)
        await response.write_eof()
        self._count(body)
        return response

    async def _outcome(self, body: JsonObject, script: Script) -> Scripted:
        if self._dice.random() < self._failure_rate:
            return Failure(503)
        outcome = script(body)
        return await outcome if inspect.isawaitable(outcome) else outcome

    def _denied(self, request: web.Request) -> web.Response | None:
        if self._key is None or request.headers.get("Authorization") == f"Bearer {self._key}":
            return None
        # Like several real servers, it repeats the key it does not like.
        shown = request.headers.get("Authorization", "").removeprefix("Bearer ")
        return _error(401, f"Incorrect API key provided: {shown}.", "invalid_api_key")

    def _refused(self, body: JsonObject) -> web.Response | None:
        model = str(body.get("model"))
        if self._models is not None and model not in self._models:
            return _error(404, f"The model `{model}` does not exist.", "model_not_found")
        kind = (body.get("response_format") or {}).get("type")
        if kind in (None, "text", *self._modes):
            return None
        return _error(400, f"response_format of type `{kind}` is not supported.", None)

    def _fail(self, failure: Failure, request: web.Request) -> web.Response:
        self.failed += 1
        if failure.disconnect and request.transport is not None:
            request.transport.close()
        wait = failure.retry_after
        headers = {} if wait is None else {"Retry-After": str(wait)}
        if failure.body is None:
            return _error(failure.status, "scripted failure", None, headers)
        return web.Response(status=failure.status, text=failure.body, headers=headers)

    def _count(self, body: JsonObject) -> None:
        """An answer has been written to its socket."""
        key = digest(body, 32)
        self.answered += 1
        self.repeats += key in self._seen
        self._seen[key] += 1
        if self._log is not None:
            with self._log.open("a", encoding="utf-8") as log:
                log.write(json.dumps({"key": key, "model": body.get("model")}) + "\n")


def completion(body: JsonObject, said: Said) -> JsonObject:
    """A response body as OpenAI writes it; four characters count as a token."""
    sent = sum(len(message["content"]) // 4 + 4 for message in body["messages"])
    received = len(said.text) // 4 + 1
    return {
        "id": f"chatcmpl-{digest(body)}",
        "object": "chat.completion",
        "created": 1_790_000_000,
        "model": body.get("model"),
        "choices": [
            {
                "index": 0,
                "message": {"role": "assistant", "content": said.text},
                "finish_reason": said.finish_reason,
            }
        ],
        "usage": {
            "prompt_tokens": sent,
            "completion_tokens": received,
            "total_tokens": sent + received,
        },
    }


def _text(outcome: str | JsonObject | list[Any]) -> str:
    return outcome if isinstance(outcome, str) else canonical(outcome)


def _error(
    status: int, message: str, code: str | None, headers: dict[str, str] | None = None
) -> web.Response:
    error = {"message": message, "type": "invalid_request_error", "param": None, "code": code}
    return web.json_response({"error": error}, status=status, headers=headers)


async def _serve_forever(server: FakeServer) -> None:
    async with server:
        print(f"serving on {server.base_url}", flush=True)
        await asyncio.Event().wait()


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m toolloom.llm.fake", description=__doc__)
    parser.add_argument("--port", type=int, default=8123, help="0 takes a free one")
    parser.add_argument("--latency", type=float, default=0.0, help="seconds before each answer")
    parser.add_argument("--failure-rate", type=float, default=0.0, help="share answered with 503")
    parser.add_argument("--key", help="the key it asks for")
    parser.add_argument("--log", type=Path, help="file that gets one line for each answer")
    chosen = vars(parser.parse_args())
    with suppress(KeyboardInterrupt):
        asyncio.run(_serve_forever(FakeServer(**chosen)))


if __name__ == "__main__":
    main()
