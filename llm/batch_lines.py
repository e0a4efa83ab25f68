"""The lines of a batch's files: one request each on the way in, one outcome on the way out."""

from __future__ import annotations

import asyncio
import contextvars
import json
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace
from typing import Any, Final

from toolloom.llm.batch_book import Try
from toolloom.llm.faults import Caller, Garbled, Trouble, fault
from toolloom.llm.wire import IN_BATCH, Reply
from toolloom.schemas import EndpointDown, JsonObject, RequestRefused

URL: Final = "/v1/chat/completions"


@dataclass
class BatchRequest:
    """A request that somebody waits for, with its line in a batch's file."""

    key: str
    line: bytes
    formatted: bool
    others: int  # answers to others before it was asked
    made: Try  # the last one
    answer: asyncio.Future[Reply] = field(default_factory=asyncio.Future)
    context: contextvars.Context = field(default_factory=contextvars.copy_context)

    @classmethod
    def of(cls, key: str, body: JsonObject, others: int, made: Try) -> BatchRequest:
        request = {"custom_id": key, "method": "POST", "url": URL, "body": body}
        line = json.dumps(request).encode() + b"\n"
        return cls(key, line, "response_format" in body, others, made)

    def __post_init__(self) -> None:
        # Its asker may be gone by the time it fails.
        self.answer.add_done_callback(lambda done: done.cancelled() or done.exception())

    def given_up(self, error: Trouble, caller: Caller, answers: int) -> Exception:
        """After the last try: the endpoint is down, or if it answers others the request is odd."""
        told = f"{error} (tried {self.made.number}x)"
        if isinstance(error, Garbled):
            words = f"{caller.address} does not answer with a completion: {told}."
            return RequestRefused(words, error.raw)
        if answers > self.others:
            return RequestRefused(f"{caller.address} fails on this request, not on others: {told}.")
        return EndpointDown(
            f"{caller.address} does not serve {caller.model!r} in batches: {told}. "
            "What was answered is kept: run the same command again to go on."
        )


class Gone(Trouble):
    """Nothing is told of a request: it may have been answered."""


@dataclass(frozen=True)
class BatchOutcome:
    """What became of one request: the body of a success, or a status and an error's body.

    Without a status there was no response at all, and `body` says why.
    """

    key: str
    status: int | None
    body: str

    @property
    def good(self) -> bool:
        return self.status is not None and 200 <= self.status < 300

    def error(self, caller: Caller, formatted: bool) -> Exception:
        """The exception that a failure amounts to."""
        if self.status is None:
            return Trouble(caller.scrub(self.body), "timeout")
        return fault(self.status, {}, self.body, caller, formatted)


def outcomes(lines: Iterable[bytes]) -> Iterator[BatchOutcome]:
    """What a result file tells; lines that cannot be read tell nothing."""
    for content in lines:
        if (found := _outcome(content)) is not None:
            yield found


def _outcome(content: bytes) -> BatchOutcome | None:
    try:
        told = json.loads(content)
        key, response = told["custom_id"], told.get("response")
    except (ValueError, LookupError, TypeError, AttributeError, RecursionError):
        return None
    if not isinstance(key, str):
        return None
    if isinstance(response, dict) and isinstance(response.get("status_code"), int):
        # Some servers write an error's `message` beside the status, without a body.
        made = BatchOutcome(key, response["status_code"], _text(response.get("body", response)))
        return replace(made, body=_marked(made.body)) if made.good else made
    return BatchOutcome(key, None, _words(told.get("error")))


def _text(body: Any) -> str:
    # With \u escapes, as lone surrogates in an answer fit into no database.
    return body if isinstance(body, str) else json.dumps(body)


def _marked(body: str) -> str:
    """The body of a success as one that came in a batch."""
    try:
        told = json.loads(body)
    except (ValueError, RecursionError):
        return body
    return json.dumps({**told, IN_BATCH: True}) if isinstance(told, dict) else body


def _words(error: Any) -> str:
    if not isinstance(error, dict):
        return f"no response ({error})" if error else "no response"
    told = [str(error[name]) for name in ("code", "message") if error.get(name)]
    return ": ".join(told) or "no response"
