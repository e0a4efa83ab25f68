"""What a failed request means: try again, refuse the record, or stop the run."""

from __future__ import annotations

import datetime as dt
import email.utils
import json
import re
from collections.abc import Mapping
from contextlib import suppress

from toolloom.llm.messages import CHAT, EMBEDDINGS, Caller
from toolloom.schemas import (
    EndpointDenied,
    EndpointError,
    ModelMissing,
    RequestRefused,
)

LONGEST_PAUSE = 3600.0
PASSING = frozenset({408, 409, 425, 429})  # statuses worth another try, as all of 500 and above
FORMAT_WORDS = re.compile(
    r"response[ _]format|json[ _]schema|json[ _]object|json[ _]mode|structured output",
    re.IGNORECASE,
)
# OpenAI supports schemas but not this one: the record's fault, not the endpoint's mode.
SCHEMA_WORDS = re.compile(r"invalid schema|invalid_json_schema", re.IGNORECASE)
MODEL_WORDS = re.compile(
    r"model_not_found|\bmodel\b.{0,120}(does not exist|not found|not exist)|"
    r"(unknown|invalid|no such) model",
    re.IGNORECASE | re.DOTALL,
)
# Of an embeddings request: its texts are too many or one of them is too long.
SIZE_WORDS = re.compile(
    r"too (long|large|big|many)|context (length|size|window)|batch size|at most|"
    r"max(imum)?\b.{0,40}\b(tokens?|length|batch|inputs?|size)|must have (less|fewer)|"
    r"(larger|longer) than",
    re.IGNORECASE | re.DOTALL,
)
SIZE_STATUS = frozenset({400, 413, 422, 500})  # llama.cpp says it with 500
NO_EMBEDDINGS = re.compile(r"(not|n't) support.{0,20}\bembedding", re.IGNORECASE | re.DOTALL)
CONTEXT_WORDS = re.compile(
    r"context_length_exceeded|exceed_context_size|maximum context length|"
    r"(exceeds?|longer than|larger than).{0,60}context (length|size|window)|prompt is too long",
    re.IGNORECASE | re.DOTALL,
)
FILTER_WORDS = re.compile(
    r"content[_ ]filter|content management policy|content[_ ]policy|ResponsibleAI|"
    r"input was flagged|requires moderation",
    re.IGNORECASE,
)
TOO_LARGE_WORDS = re.compile(r"request too large|must be reduced", re.IGNORECASE)
# What to do about a prompt that no second try will make right.
TOO_LARGE_HINT = "It is larger than all that the account may send within a minute."
CONTEXT_HINT = (
    "The prompt is longer than the model's context: take a model with a longer one, or set fewer "
    "`queries.distractors` or a smaller `observation_tokens`."
)
FILTER_HINT = "The endpoint's content filter does not let this prompt pass."
MONEY_WORDS = re.compile(r"insufficient_quota|insufficient (balance|credits|funds)", re.IGNORECASE)


class Trouble(Exception):
    """A try that failed in a way that may pass.

    `kind`: the HTTP status, or `connection`, `timeout`, `garbled`. `pause`: seconds the endpoint
    asked to wait.
    """

    def __init__(
        self,
        what: str,
        kind: int | str,
        pause: float | None = None,
    ) -> None:
        super().__init__(what)
        self.seconds = 0.0  # that the try took
        self.kind = kind
        self.pause = pause


class Garbled(Trouble):
    """A success that is not what was asked for; `raw` is its body."""

    def __init__(self, what: str, raw: str) -> None:
        super().__init__(what, "garbled")
        self.raw = raw


class FormatRefused(RequestRefused):
    """The endpoint does not know this `response_format`."""


class TooMuch(RequestRefused):
    """Fewer or shorter texts may be embedded."""


def fault(
    status: int, headers: Mapping[str, str], body: str, caller: Caller, formatted: bool
) -> Exception:
    """The exception an HTTP error amounts to. `formatted`: the request had a response_format."""
    body = caller.scrub(body)
    said = f"HTTP {status}: {_message(body)}"
    hints = (
        ((status != 429 and CONTEXT_WORDS.search(body)), CONTEXT_HINT),
        ((status != 429 and FILTER_WORDS.search(body)), FILTER_HINT),
        ((status == 429 and TOO_LARGE_WORDS.search(body)), TOO_LARGE_HINT),
    )
    if caller.path == CHAT and (hint := next((hint for met, hint in hints if met), "")):
        return RequestRefused(f"{caller.address} refuses the request ({said}). {hint}", body)
    if status in (401, 403) and "model_not_found" not in body:
        return EndpointDenied(
            f"{caller.address} does not accept the key in {caller.key_env} ({said}). "
            f"Set {caller.key_env} to a key that may use {caller.model}."
        )
    if status == 402 or (status == 429 and MONEY_WORDS.search(body)):
        return EndpointDenied(
            f"{caller.address} reports that the account of {caller.key_env} is used up ({said}). "
            "Add credit, then run the same command again to go on."
        )
    if caller.path == EMBEDDINGS:  # 501 and 500 would otherwise be tried again
        if NO_EMBEDDINGS.search(body):
            return EndpointError(
                f"{caller.address} does not embed texts with {caller.model!r} ({said}). Set "
                "`model` of the search's `embeddings` to an embedding model that it serves."
            )
        if status == 413 or (status in SIZE_STATUS and SIZE_WORDS.search(body)):
            return TooMuch(f"{caller.address} refuses texts of this size ({said}).", body)
    if status in PASSING or status >= 500:
        return Trouble(said, status, retry_after(headers))
    if MODEL_WORDS.search(body):
        return ModelMissing(f"{caller.address} has no model {caller.model!r} ({said}).")
    if status in (404, 405, 410):
        return EndpointError(
            f"{caller.address} has no {caller.path} ({said}). base_url is the address up to "
            "and with /v1, such as http://127.0.0.1:8000/v1."
        )
    refused = f"{caller.address} refuses the request ({said})."
    if formatted and FORMAT_WORDS.search(body) and not SCHEMA_WORDS.search(body):
        return FormatRefused(refused, body)
    return RequestRefused(refused, body)


def retry_after(headers: Mapping[str, str]) -> float | None:
    """Seconds to wait by `retry-after-ms` or `retry-after` (RFC 9110: seconds or a date)."""
    text = headers.get("retry-after-ms")
    scale = 0.001 if text else 1.0
    text = text or headers.get("retry-after")
    if not text:
        return None
    try:
        seconds = float(text) * scale
    except ValueError:
        seconds = 0.0
        with suppress(ValueError):
            then = email.utils.parsedate_to_datetime(text)
            then = then if then.tzinfo else then.replace(tzinfo=dt.UTC)
            seconds = (then - dt.datetime.now(dt.UTC)).total_seconds()
    # A NaN fails the comparison and falls to nothing.
    return min(seconds, LONGEST_PAUSE) if seconds > 0 else None


def _message(body: str) -> str:
    """The human part of an error's body; servers disagree on where it is."""
    try:
        said = json.loads(body)
        while isinstance(said, dict):
            said = said.get("error") or said.get("message") or said.get("detail") or ""
    except (ValueError, RecursionError):
        said = body
    text = " ".join(str(said or body).split())
    return text[:300] or "no explanation"
