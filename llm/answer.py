"""Asking until an answer does: candidates, then one chance to mend the last of them."""

from __future__ import annotations

import hashlib
import inspect
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import Any, Generic, TypeVar

from toolloom.llm.model import Model
from toolloom.llm.parsing import IllegalSchema, check_schema, readings, violation
from toolloom.llm.wire import Reply, Request
from toolloom.prompts import Prompt, render
from toolloom.schemas import JsonObject, Reason, RequestRefused

T = TypeVar("T")
Read = Callable[[Any], T | Awaitable[T]]


@dataclass(frozen=True)
class Usage:
    """What answers cost. Counts cached ones too, so that a resumed run reports the same."""

    requests: int = 0
    prompt_tokens: int = 0
    completion_tokens: int = 0
    cost: float = 0.0
    repairs: tuple[str, ...] = ()
    prompts: tuple[str, ...] = ()  # hashes of templates, each once, in order of use
    cached_tokens: int = 0  # of the prompts', those the endpoint had cached

    def __add__(self, other: Usage) -> Usage:
        return Usage(
            self.requests + other.requests,
            self.prompt_tokens + other.prompt_tokens,
            self.completion_tokens + other.completion_tokens,
            self.cost + other.cost,
            self.repairs + other.repairs,
            tuple(dict.fromkeys(self.prompts + other.prompts)),
            self.cached_tokens + other.cached_tokens,
        )


@dataclass(frozen=True)
class Answer(Generic[T]):
    """A value that did, what it cost, and the body of every response on the way to it."""

    value: T
    usage: Usage
    raw: tuple[str, ...]


class Misfit(Exception):
    """Raised by a `read` when an answer does not do. `detail` is shown to the model."""

    def __init__(self, reason: Reason, detail: str) -> None:
        super().__init__(detail)
        self.reason = reason
        self.detail = detail


class Unusable(Exception):
    """No answer did. Holds the last reason and everything the model said."""

    def __init__(self, reason: Reason, detail: str, raw: tuple[str, ...], usage: Usage) -> None:
        super().__init__(detail)
        self.reason = reason
        self.detail = detail
        self.raw = raw
        self.usage = usage


async def ask(
    model: Model,
    prompt: Prompt,
    read: Read[T],
    *,
    seed: int,
    schema: JsonObject | None = None,
    max_tokens: int = 256,
    temperature: float | None = None,
    candidates: int | None = None,
) -> Answer[T]:
    """The first answer that fits `schema` and that `read` takes. Raises Unusable.

    `read`, which may be a coroutine function, is given the JSON value, or without a schema the
    stripped text. Candidates differ by
    their seed alone; at temperature 0 most endpoints give the same answer to each. Errors of the
    endpoint itself pass through: they stop the run.
    """
    warmth = model.endpoint.temperature if temperature is None else temperature
    trial = _Trial(model, read, schema, max_tokens, warmth)
    trial.check()
    count = candidates or model.endpoint.candidates
    for number in range(count):
        if await trial.run(prompt, _seed(seed, number)):
            return trial.answer()
    if await trial.run(_mended(prompt, trial), _seed(seed, count)):
        return trial.answer()
    raise trial.unusable(trial.problem.reason, trial.problem.detail)


def _seed(seed: int, number: int) -> int:
    """31 bits: some servers read seeds as signed 32-bit integers."""
    return int.from_bytes(hashlib.sha256(f"{seed}/{number}".encode()).digest()[:4]) >> 1


def _mended(prompt: Prompt, trial: _Trial[Any]) -> Prompt:
    """The prompt, the last answer and what is wrong with it."""
    mend = render("mend", {"problem": trial.problem.detail})
    # Several chat templates refuse an empty turn.
    said = {"role": "assistant", "content": trial.said or "(no answer)"}
    messages = (*prompt.messages, said, *mend.messages)
    return Prompt(mend.template, mend.template_hash, messages)


@dataclass
class _Trial(Generic[T]):
    """One question's tries: what was said, what was wrong with it, what it cost."""

    model: Model
    read: Read[T]
    schema: JsonObject | None
    max_tokens: int
    temperature: float
    usage: Usage = field(default_factory=Usage)
    raw: tuple[str, ...] = ()
    said: str = ""
    problem: Misfit = field(default_factory=lambda: Misfit(Reason.UNUSABLE_RESPONSE, "no answer"))
    found: list[T] = field(default_factory=list)

    def check(self) -> None:
        """A schema that cannot be used is not worth a request."""
        try:
            if self.schema is not None:
                check_schema(self.schema)
        except IllegalSchema as error:
            raise self.unusable(Reason.ILLEGAL_SCHEMA, str(error)) from error

    async def run(self, prompt: Prompt, seed: int) -> bool:
        """Ask once. True if the answer does."""
        self.usage += Usage(prompts=(prompt.template_hash,))
        request = Request(prompt.messages, self.schema, self.max_tokens, self.temperature, seed)
        try:
            reply = await self.model.complete(request)
        except RequestRefused as error:
            self.raw += (error.raw,)
            raise self.unusable(Reason.REQUEST_REFUSED, str(error)) from error
        self._note(reply)
        if reply.finish_reason == "content_filter":
            detail = "The endpoint's content filter took the answer away; no other try would help."
            raise self.unusable(Reason.REQUEST_REFUSED, detail)
        try:
            self.found.append(await self._value(reply))
        except Misfit as misfit:
            self.problem = misfit
            return False
        except IllegalSchema as error:
            raise self.unusable(Reason.ILLEGAL_SCHEMA, str(error)) from error
        return True

    def answer(self) -> Answer[T]:
        return Answer(self.found[0], self.usage, self.raw)

    def unusable(self, reason: Reason, detail: str) -> Unusable:
        return Unusable(reason, detail, self.raw, self.usage)

    def _note(self, reply: Reply) -> None:
        self.usage += Usage(
            requests=1,
            prompt_tokens=reply.prompt_tokens,
            completion_tokens=reply.completion_tokens,
            cost=self.model.cost(reply),
            cached_tokens=reply.cached_tokens,
        )
        self.raw += (reply.raw,)
        self.said = reply.text.strip()

    async def _value(self, reply: Reply) -> T:
        if not self.said:
            raise Misfit(Reason.UNUSABLE_RESPONSE, "the answer is empty")
        if self.schema is None:
            return await self._read(self.said)
        value, repair = fitting(self.said, self.schema, reply.finish_reason, self.max_tokens)
        read = await self._read(value)
        self.usage += Usage(repairs=(repair,) if repair else ())
        return read

    async def _read(self, value: Any) -> T:
        made = self.read(value)
        return await made if inspect.isawaitable(made) else made


def fitting(text: str, schema: JsonObject, finish_reason: str, max_tokens: int) -> tuple[Any, str]:
    """The first JSON value in `text` that fits, and the repair it took. Raises Misfit."""
    cut_off = finish_reason == "length"
    first: str | None = None
    for value, repair in readings(text, cut_off):
        problem = violation(value, schema)
        if problem is None:
            return value, repair
        first = first or problem
    if cut_off and first is None:
        first = f"it was cut off after {max_tokens} tokens (max_tokens): it must be shorter"
    detail = first or f"it holds no JSON: {text[:200]!r}"
    raise Misfit(Reason.UNUSABLE_RESPONSE, detail)
