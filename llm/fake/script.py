"""What the scripted endpoint says, how it fails, takes its time and limits its clients."""

from __future__ import annotations

import json
import math
import random
import time
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import Any, TypeAlias

from aiohttp import web

from toolloom.llm.fake.actor import act, invent, sentence, vector
from toolloom.llm.limits import QuotaWindow
from toolloom.llm.wire import SCHEMA_SENTENCE, readings
from toolloom.schemas import JsonObject, canonical, digest

JSON = "application/json"
TYPES = {"{": JSON, "<": "text/html"}  # by a body's first character


@dataclass(frozen=True)
class ScriptedFailure:
    """An answer that is none. `body`: sent as it is, OpenAI's error JSON if not given."""

    status: int = 500
    retry_after: str | float | None = None
    body: str | None = None
    disconnect: bool = False  # close the connection without a word
    reset: bool = False  # the same, as a TCP reset
    hang: bool = False  # no answer until the client leaves
    kind: str = ""  # what it is counted as; else what it does, or its status

    @property
    def name(self) -> str:
        done = (kind for kind in ("hang", "reset", "disconnect") if getattr(self, kind))
        return self.kind or next(done, str(self.status))


@dataclass(frozen=True)
class ScriptedReply:
    """A completion with another finish_reason than "stop"."""

    text: str
    finish_reason: str = "length"


Scripted: TypeAlias = str | JsonObject | list[Any] | ScriptedReply | ScriptedFailure
Script: TypeAlias = Callable[[JsonObject], Scripted | Awaitable[Scripted]]


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
    sent = size(body)
    entries = [
        {"object": "embedding", "index": index, "embedding": vector(text)}
        for index, text in enumerate(_texts(body))
    ]
    return {
        "object": "list",
        "model": body.get("model"),
        "data": entries,
        "usage": {"prompt_tokens": sent, "total_tokens": sent},
    }


def completion(
    body: JsonObject, said: ScriptedReply, key: str, cached: int | None = None
) -> JsonObject:
    """A response body as OpenAI writes it. `cached`: tokens sent that are said to be cached."""
    sent, received = size(body), len(said.text) // 4 + 1
    usage: JsonObject = {
        "prompt_tokens": sent,
        "completion_tokens": received,
        "total_tokens": sent + received,
    }
    if cached is not None:
        usage["prompt_tokens_details"] = {"cached_tokens": cached}
    message = {"role": "assistant", "content": said.text}
    return {
        "id": f"chatcmpl-{key[:12]}",
        "object": "chat.completion",
        "created": 1_790_000_000,
        "model": body.get("model"),
        "choices": [{"index": 0, "message": message, "finish_reason": said.finish_reason}],
        "usage": usage,
    }


def size(body: JsonObject) -> int:
    """Tokens sent, of either kind of request; four characters count as a token."""
    if "messages" in body:
        return sum(message_size(message) for message in body["messages"])
    return sum(len(text) // 4 + 1 for text in _texts(body))


def _texts(body: JsonObject) -> list[str]:
    texts = body.get("input") or ()
    return [texts] if isinstance(texts, str) else list(texts)


def message_size(message: JsonObject) -> int:
    return len(message.get("content") or "") // 4 + 4


class Prefixes:
    """Which beginnings of messages were sent before: what an endpoint would have cached."""

    def __init__(self) -> None:
        self._seen: set[int] = set()

    def cached(self, body: JsonObject) -> int:
        """Tokens of the longest run of first messages seen before; this one is seen from now."""
        cached, sent, mark, again = 0, 0, hash(body.get("model")), True
        for message in body["messages"]:
            mark = hash((mark, message["role"], str(message.get("content"))))
            sent += message_size(message)
            again = again and mark in self._seen
            cached = sent if again else cached
            self._seen.add(mark)
        return cached


PAGE = "<html><head><title>{0}</title></head><body><h1>{0}</h1></body></html>"
HALF = (
    '{"id": "chatcmpl-cut", "object": "chat.completion", "choices": [{"index": 0, "message": {"ro'
)
FAILURES: Mapping[str, tuple[ScriptedFailure, ...]] = {
    "reset": (ScriptedFailure(reset=True),),
    "disconnect": (ScriptedFailure(disconnect=True),),
    "hang": (ScriptedFailure(hang=True),),
    "truncated": (ScriptedFailure(200, body=HALF, kind="truncated"),),
    "html": (
        ScriptedFailure(200, body=PAGE.format("Please wait"), kind="html"),
        ScriptedFailure(502, body=PAGE.format("502 Bad Gateway"), kind="html"),
    ),
}


class Dice:
    """Which requests fail and how long answers take, the same with every start."""

    def __init__(
        self, failures: Mapping[str, float], latency: float, spread: float, retry_after: float
    ) -> None:
        """Raises ValueError for a failure nobody knows, or shares above 1."""
        self._dice = random.Random(0)
        self._latency, self._spread = latency, spread
        self._failures = [(_named(k, retry_after), share) for k, share in failures.items()]
        if sum(failures.values()) > 1:
            raise ValueError("failures: the shares are more than 1 together")

    def failure(self) -> ScriptedFailure | None:
        """How the next request fails, if it does."""
        if not self._failures:
            return None
        drawn = self._dice.random()
        for kinds, share in self._failures:
            if drawn < share:
                return self._dice.choice(kinds)
            drawn -= share
        return None

    def latency(self) -> float:
        """Seconds; with a spread they are lognormal, and `latency` is their mean."""
        if not self._spread:
            return self._latency
        return self._latency * math.exp(self._dice.gauss(-(self._spread**2) / 2, self._spread))


def _named(name: str, retry_after: float) -> tuple[ScriptedFailure, ...]:
    if name in FAILURES:
        return FAILURES[name]
    if not (name.isdecimal() and 400 <= int(name) <= 599):
        raise ValueError(f"failures: {name!r} is neither a status nor one of {', '.join(FAILURES)}")
    return (ScriptedFailure(int(name), retry_after=retry_after if name == "429" else None),)


class ScriptedWindow(QuotaWindow):
    """At most `limit` within any minute, of requests or tokens."""

    def wait(self, amount: float) -> float:
        """Seconds until there is room; for more than all of it there never is."""
        return self.seconds if amount > self.limit else super().wait(amount)

    def headers(self, what: str) -> dict[str, str]:
        super().wait(0)  # forgets what is older than a minute
        newest = self.shares[-1].at if self.shares else -math.inf
        return {
            f"x-ratelimit-limit-{what}": f"{self.limit:.0f}",
            f"x-ratelimit-remaining-{what}": f"{max(0, self.limit - self.used):.0f}",
            f"x-ratelimit-reset-{what}": duration(
                max(0.0, newest + self.seconds - time.monotonic())
            ),
        }


class Limits:
    """What clients may ask for at once and in a minute, told in headers as OpenAI does.

    Tokens received are booked when they are known, so that they count for later requests.
    """

    def __init__(
        self, places: int | None, requests: int | None, tokens: int | None, minute: float
    ) -> None:
        self._free = math.inf if places is None else places
        limits = {"requests": requests, "tokens": tokens}
        self._windows = {k: ScriptedWindow(limit, minute) for k, limit in limits.items() if limit}

    def refusal(self, tokens: int) -> ScriptedFailure | None:
        """The answer to one request too many. Any other is booked, until it will `leave`."""
        if self._free < 1:
            return ScriptedFailure(429)
        amounts = {"requests": 1, "tokens": tokens}
        waits = (window.wait(amounts[name]) for name, window in self._windows.items())
        if (wait := max(waits, default=0.0)) > 0:
            return ScriptedFailure(429, retry_after=round(wait + 0.0005, 3))
        self._free -= 1
        for name, window in self._windows.items():
            window.take(amounts[name])
        return None

    def leave(self) -> None:
        self._free += 1

    def receive(self, tokens: int) -> None:
        if window := self._windows.get("tokens"):
            window.take(tokens)

    def headers(self) -> dict[str, str]:
        return {k: v for name, w in self._windows.items() for k, v in w.headers(name).items()}


def duration(seconds: float) -> str:
    """Seconds as OpenAI's headers write them: 120ms, 7.66s, 6m0s."""
    if seconds < 1:
        return f"{math.ceil(seconds * 1000)}ms"
    minutes, rest = divmod(seconds, 60)
    return f"{minutes:.0f}m{rest:.3g}s" if minutes else f"{rest:.5g}s"


def refusal(status: int, message: str, code: str | None = None) -> ScriptedFailure:
    error = {"message": message, "type": "invalid_request_error", "param": None, "code": code}
    return ScriptedFailure(status, body=json.dumps({"error": error}))


def respond(failure: ScriptedFailure, limits: Mapping[str, str] | None = None) -> web.Response:
    """A failure as an HTTP response."""
    wait = {} if failure.retry_after is None else {"Retry-After": str(failure.retry_after)}
    body = error_body(failure)
    headers = {**(limits or {}), **wait, "Content-Type": TYPES.get(body[:1], "text/plain")}
    return web.Response(status=failure.status, body=body.encode(), headers=headers)


def error_body(failure: ScriptedFailure) -> str:
    """Without a body of its own a failure gets OpenAI's error."""
    if failure.body is not None:
        return failure.body
    code = "rate_limit_exceeded" if failure.status == 429 else None
    return refusal(failure.status, "scripted failure", code).body or ""
