"""How the scripted endpoint fails by chance, takes its time, and limits its clients."""

from __future__ import annotations

import math
import random
import time
from collections import deque
from collections.abc import Mapping

from toolloom.llm.fake_answers import ScriptedFailure

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

    def random(self) -> float:
        return self._dice.random()

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


class ScriptedWindow:
    """At most `limit` within any minute of requests or tokens, which is what `what` says."""

    def __init__(self, what: str, limit: int, minute: float) -> None:
        self._what, self._limit, self._minute = what, limit, minute
        self._taken: deque[tuple[float, int]] = deque()
        self._used = 0

    def wait(self, amount: int) -> float:
        """Seconds until there is room for `amount`; 0.0 if there is."""
        now = self._forget()
        room = self._limit - self._used
        if amount <= room:
            return 0.0
        for at, taken in self._taken:
            room += taken
            if amount <= room:
                return at + self._minute - now
        return self._minute

    def take(self, amount: int) -> None:
        self._taken.append((time.monotonic(), amount))
        self._used += amount

    def headers(self) -> dict[str, str]:
        now = self._forget()
        empty = self._taken[-1][0] + self._minute - now if self._taken else 0.0
        return {
            f"x-ratelimit-limit-{self._what}": str(self._limit),
            f"x-ratelimit-remaining-{self._what}": str(max(0, self._limit - self._used)),
            f"x-ratelimit-reset-{self._what}": duration(empty),
        }

    def _forget(self) -> float:
        """Give back what is older than a minute. Returns the time."""
        now = time.monotonic()
        while self._taken and self._taken[0][0] <= now - self._minute:
            self._used -= self._taken.popleft()[1]
        return now


class Limits:
    """What clients may ask for at once and in a minute, told in headers as OpenAI does.

    Tokens received are booked when they are known, so that they count for later requests.
    """

    def __init__(
        self, places: int | None, requests: int | None, tokens: int | None, minute: float
    ) -> None:
        self._free = math.inf if places is None else places
        self._requests = ScriptedWindow("requests", requests, minute) if requests else None
        self._tokens = ScriptedWindow("tokens", tokens, minute) if tokens else None

    def refusal(self, tokens: int) -> ScriptedFailure | None:
        """The answer to one request too many. Any other is booked, until it will `leave`."""
        if self._free < 1:
            return ScriptedFailure(429)
        wait = max(
            self._requests.wait(1) if self._requests else 0.0,
            self._tokens.wait(tokens) if self._tokens else 0.0,
        )
        if wait > 0:
            return ScriptedFailure(429, retry_after=round(wait + 0.0005, 3))
        self._free -= 1
        if self._requests:
            self._requests.take(1)
        self.receive(tokens)
        return None

    def leave(self) -> None:
        self._free += 1

    def receive(self, tokens: int) -> None:
        if self._tokens:
            self._tokens.take(tokens)

    def headers(self) -> dict[str, str]:
        windows = (window for window in (self._requests, self._tokens) if window)
        return {name: value for window in windows for name, value in window.headers().items()}


def duration(seconds: float) -> str:
    """Seconds as OpenAI's headers write them: 120ms, 7.66s, 6m0s."""
    if seconds < 1:
        return f"{math.ceil(seconds * 1000)}ms"
    minutes, rest = divmod(seconds, 60)
    return f"{minutes:.0f}m{rest:.3g}s" if minutes else f"{rest:.5g}s"
