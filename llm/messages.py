"""What is sent to an endpoint and what comes back: chat completions, written and read by hand, the
key of a response in the cache, what a failed request means; the JSON in what a model wrote, held to
its schema; and the log of it.

Writing and reading the few fields that are used costs a fraction of what the SDK's request
transform and response models do.
"""

from __future__ import annotations

import datetime as dt
import email.utils
import json
import logging
import re
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from contextvars import ContextVar
from dataclasses import asdict, dataclass
from enum import StrEnum
from functools import lru_cache
from typing import Any, NoReturn

import json_repair
import jsonschema
import jsonschema_rs
import referencing
from jsonschema.exceptions import best_match
from referencing.exceptions import Unresolvable

from toolloom.schemas import (
    EndpointDenied,
    EndpointError,
    JsonObject,
    ModelMissing,
    RequestRefused,
    canonical,
    digest,
)

LOG = logging.getLogger("toolloom")


@dataclass(frozen=True, slots=True)
class Work:
    """What is being worked on: it goes into each log line, and books what answers cost."""

    run: str = ""
    stage: str = ""
    agent: str = ""
    record: str = ""


WORK: ContextVar[Work] = ContextVar("WORK", default=Work())  # noqa: B039 - it is frozen


def note(level: int, event: str, message: str = "", **facts: Any) -> None:
    """Log an event. `message` is for people; `facts` are JSON values, and never hold a secret.

    DEBUG is for each request, INFO for what a run does, WARNING for what its user should know.
    """
    if LOG.isEnabledFor(level):
        named = {name: value for name, value in asdict(WORK.get()).items() if value}
        LOG.log(level, "%s", message or event, extra={"facts": {"event": event, **named, **facts}})


MOST_TOKENS = 2**31  # no count of tokens reaches that
# Kept in the body of a response that came in a batch: it has another price.
IN_BATCH = "toolloom_batch"
SCHEMA_SENTENCE = "Answer with JSON only, valid against this JSON Schema:"
CHAT, EMBEDDINGS = "/chat/completions", "/embeddings"


@dataclass(frozen=True)
class Caller:
    """Who asked where, for the messages; the key is kept to be struck out of them."""

    address: str
    model: str
    key_env: str
    key: str
    path: str = CHAT

    def scrub(self, text: str) -> str:
        """The text without the key, which some servers repeat in their errors."""
        return text.replace(self.key, "[key]") if len(self.key) > 2 else text

    def clean(self, body: str) -> str:
        """The same for a success. Only what cannot be a word: this is data."""
        return self.scrub(body) if len(self.key) >= 16 else body


class Mode(StrEnum):
    """How an endpoint is held to a schema, best first."""

    JSON_SCHEMA = "json_schema"
    JSON_OBJECT = "json_object"
    TEXT = "text"


@dataclass(frozen=True)
class Request:
    """One chat completion to ask for."""

    messages: tuple[dict[str, str], ...]
    schema: JsonObject | None
    max_tokens: int
    temperature: float
    seed: int


@dataclass(frozen=True)
class Reply:
    """One chat completion; `raw` is the response's whole body."""

    text: str
    finish_reason: str
    prompt_tokens: int
    completion_tokens: int
    raw: str
    cached_tokens: int = 0  # of the prompt's, those the endpoint had cached
    metered: bool = True  # whether the endpoint told how many tokens it took
    batched: bool = False


def fingerprint(address: str, model: str, request: Request, mode: Mode) -> str:
    """SHA-256 over all that decides an answer: the key of a response."""
    asked = {
        "endpoint": address,
        "model": model,
        "messages": request.messages,
        "schema": request.schema,
        "mode": mode,
        "max_tokens": request.max_tokens,
        "temperature": float(request.temperature),
        "seed": request.seed,
    }
    return digest(asked, 64)


def encode(model: str, request: Request, mode: Mode) -> JsonObject:
    """The body of a request, in the mode the endpoint understands."""
    body: JsonObject = {
        "model": model,
        "messages": request.messages,
        "max_tokens": request.max_tokens,
        "temperature": request.temperature,
        "seed": request.seed,
    }
    if request.schema is None:
        return body
    if mode is Mode.JSON_SCHEMA:
        # Without `strict`: OpenAI's strict subset lacks keywords our schemas use, and every answer
        # is validated here anyway.
        schema_format = {"name": "answer", "schema": request.schema}
        return {**body, "response_format": {"type": "json_schema", "json_schema": schema_format}}
    *before, last = request.messages
    content = f"{last['content']}\n\n{SCHEMA_SENTENCE}\n{canonical(request.schema)}"
    body["messages"] = (*before, {**last, "content": content})
    if mode is Mode.JSON_OBJECT:
        body["response_format"] = {"type": "json_object"}
    return body


def decode(raw: str) -> Reply:
    """Read a response's body. Raises Garbled if it is no chat completion, whatever its status."""
    try:
        body = json.loads(raw)
        choice = body["choices"][0]
        message = choice["message"]
        text = _text(message.get("content")) or _text(message.get("refusal"))
    except (ValueError, LookupError, TypeError, AttributeError, RecursionError) as error:
        raise Garbled(f"the body is not a chat completion: {raw[:200]!r}", raw) from error
    usage = body.get("usage")
    details = usage.get("prompt_tokens_details") if isinstance(usage, dict) else None
    sent, received = tokens_told(usage, "prompt_tokens"), tokens_told(usage, "completion_tokens")
    return Reply(
        text=text,
        finish_reason=str(choice.get("finish_reason") or ""),
        prompt_tokens=sent or 0,
        completion_tokens=received or 0,
        raw=raw,
        cached_tokens=tokens_told(details, "cached_tokens") or 0,
        metered=bool(sent) and received is not None,
        batched=body.get(IN_BATCH) is True,
    )


def _text(content: Any) -> str:
    """A message's content: text, parts of text, or nothing. Lone surrogates are replaced."""
    if content is None:
        return ""
    if isinstance(content, list):
        content = "".join(part.get("text") or "" for part in content)
    if not isinstance(content, str):
        raise TypeError("content is neither text nor parts")
    if content.isascii():
        return content
    return content.encode("utf-16", "surrogatepass").decode("utf-16", "replace")


def tokens_told(usage: Any, name: str) -> int | None:
    """A number of tokens, or none where what is told is no such number."""
    count = usage.get(name) if isinstance(usage, dict) else None
    return count if type(count) is int and 0 <= count < MOST_TOKENS else None


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
# What to do about a prompt that no second try will make right.
TOO_MUCH = {
    re.compile(
        r"context_length_exceeded|exceed_context_size|maximum context length|"
        r"(exceeds?|longer than|larger than).{0,60}context (length|size|window)|prompt is too long",
        re.IGNORECASE | re.DOTALL,
    ): "The prompt is longer than the model's context: take a model with a longer one, or set "
    "fewer `queries.distractors` or a smaller `observation_tokens`.",
    re.compile(
        r"content[_ ]filter|content management policy|content[_ ]policy|ResponsibleAI|"
        r"input was flagged|requires moderation",
        re.IGNORECASE,
    ): "The endpoint's content filter does not let this prompt pass.",
}
TOO_LARGE = {
    re.compile(r"request too large|must be reduced", re.IGNORECASE): "It is larger than all that "
    "the account may send within a minute."
}
MONEY_WORDS = re.compile(r"insufficient_quota|insufficient (balance|credits|funds)", re.IGNORECASE)


class Trouble(Exception):
    """A try that failed in a way that may pass.

    `kind`: the HTTP status, or `connection`, `timeout`, `garbled`. `pause`: seconds the endpoint
    asked to wait.
    """

    def __init__(self, what: str, kind: int | str, pause: float | None = None) -> None:
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
    hints = TOO_LARGE if status == 429 else TOO_MUCH
    hint = next((hint for words, hint in hints.items() if words.search(body)), "")
    if caller.path == CHAT and hint:
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
    return " ".join(str(said or body).split())[:300] or "no explanation"


THOUGHT_ENDS = "</think>"  # where reasoning models begin to answer
FENCE = re.compile(r"```[a-zA-Z]*\s*\n?(.*?)```", re.DOTALL)
OPENING = re.compile(r"[{\[]")
REPAIR = "json_repair"
MOST_OPENINGS = 200  # brackets tried; bounds the time a hostile answer can take
LONGEST_REPAIR = 20_000  # repairing takes time that grows with the square of what is nested
MOST_ERRORS = 3
LONGEST_ERROR = 200


class IllegalSchema(ValueError):
    """A schema that nothing can be validated against."""


def readings(text: str, cut_off: bool = False) -> Iterator[tuple[Any, str]]:
    """JSON values `text` may mean, likeliest first, each with the repair it took ("" for none).

    Of an answer that was cut off only what is complete counts: a repaired one would hold half a
    value, and a part of it is not the answer.
    """
    text = text.rpartition(THOUGHT_ENDS)[2].strip()
    parts = (text, *FENCE.findall(text))
    values = [value for part in parts if (value := _strict(part)) is not None]
    if not values and not cut_off:
        values = list(_embedded(text))
    yield from ((value, "") for value in values)
    if values or cut_off or not (start := OPENING.search(text)):
        return
    repaired: Any = None
    with suppress(ValueError, RecursionError):
        repaired = _legal(json_repair.loads(text[start.start() :][:LONGEST_REPAIR]))
    if isinstance(repaired, dict | list) and repaired:
        yield repaired, REPAIR


def _strict(text: str) -> Any:
    """The value of a text that is JSON throughout, or None."""
    try:
        return _legal(json.loads(text, parse_constant=_refuse))
    except (ValueError, RecursionError):
        return None


def _embedded(text: str) -> Iterator[Any]:
    """Objects and arrays in prose, from left to right, none inside another."""
    position = 0
    for _ in range(MOST_OPENINGS):
        start = OPENING.search(text, position)
        if start is None:
            break
        position = start.end()
        try:
            value, position = DECODER.raw_decode(text, start.start())
            yield _legal(value)
        except ValueError:
            continue
        except RecursionError:
            break


def _legal(value: Any) -> Any:
    """The value, if it can be written as UTF-8: a lone surrogate cannot (UnicodeEncodeError)."""
    canonical(value).encode()
    return value


def _refuse(constant: str) -> NoReturn:
    raise ValueError(f"{constant} is not JSON")


DECODER = json.JSONDecoder(parse_constant=_refuse)


def checker(schema: JsonObject) -> Callable[[Any], str | None]:
    """What tells what is wrong with a value, in words a model can act on; None if it fits.

    Both raise IllegalSchema. References to other documents count as illegal: none is fetched.
    """
    validator = _validator(canonical(schema))

    def violation(value: Any) -> str | None:
        try:
            errors = list(validator.iter_errors(value))
        except (Unresolvable, RecursionError, re.error) as problem:
            raise IllegalSchema(f"the schema cannot be used: {problem}") from problem
        # Of an error in alternatives (anyOf) the one in the alternative that was nearly right.
        nearest = [best_match([error]) or error for error in errors[:MOST_ERRORS]]
        shown = [f"at {error.json_path}: {error.message}" for error in nearest]
        return "; ".join(text[:LONGEST_ERROR] for text in shown) or None

    return violation


# A schema among schemas, in a thousandth of the time that `jsonschema` takes for it.
LEGAL = jsonschema_rs.Draft202012Validator(
    jsonschema.Draft202012Validator.META_SCHEMA,
    validate_formats=True,
    formats={"regex": lambda text: bool(re.compile(text))},
)


@lru_cache(maxsize=512)
def _validator(schema_text: str) -> jsonschema.Draft202012Validator:
    schema = json.loads(schema_text)
    dialect = jsonschema.Draft202012Validator
    try:
        LEGAL.validate(schema)
    except (jsonschema_rs.ValidationError, RecursionError, re.error) as error:
        reason = getattr(error, "message", error)
        raise IllegalSchema(f"the schema is not a legal JSON Schema: {reason}") from error
    nothing: referencing.Registry[Any] = referencing.Registry()
    return dialect(schema, registry=nothing, format_checker=dialect.FORMAT_CHECKER)
