"""What goes over the wire: OpenAI's chat completions, written and read by hand, and JSON found in
what a model wrote, held to its schema.

Writing and reading the few fields that are used costs a fraction of what the SDK's request
transform and response models do.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from enum import StrEnum
from functools import lru_cache
from typing import Any, NoReturn

import json_repair
import jsonschema
import referencing
from jsonschema.exceptions import SchemaError, best_match
from referencing.exceptions import Unresolvable

from toolloom.schemas import JsonObject, canonical

MOST_TOKENS = 2**31  # no count of tokens reaches that
# Kept in the body of a response that came in a batch: it has another price.
IN_BATCH = "toolloom_batch"
SCHEMA_SENTENCE = "Answer with JSON only, valid against this JSON Schema:"


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
    cached: bool
    raw: str
    cached_tokens: int = 0  # of the prompt's, those the endpoint had cached
    metered: bool = True  # whether the endpoint told how many tokens it took
    batched: bool = False


class NotACompletion(ValueError):
    """A body that is not a chat completion, whatever its HTTP status says."""


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
    return hashlib.sha256(canonical(asked).encode("utf-8", "surrogatepass")).hexdigest()


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


def decode(raw: str, cached: bool) -> Reply:
    """Read a response's body. Raises NotACompletion."""
    try:
        body = json.loads(raw)
        choice = body["choices"][0]
        message = choice["message"]
        text = _text(message.get("content")) or _text(message.get("refusal"))
    except (ValueError, LookupError, TypeError, AttributeError, RecursionError) as error:
        raise NotACompletion(f"the body is not a chat completion: {raw[:200]!r}") from error
    usage = body.get("usage")
    details = usage.get("prompt_tokens_details") if isinstance(usage, dict) else None
    sent, received = _count(usage, "prompt_tokens"), _count(usage, "completion_tokens")
    return Reply(
        text=text,
        finish_reason=str(choice.get("finish_reason") or ""),
        prompt_tokens=sent or 0,
        completion_tokens=received or 0,
        cached=cached,
        raw=raw,
        cached_tokens=_count(details, "cached_tokens") or 0,
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


def _count(usage: Any, name: str) -> int | None:
    """A number of tokens, or none where what is told is no such number."""
    count = usage.get(name) if isinstance(usage, dict) else None
    return count if isinstance(count, int) and 0 <= count < MOST_TOKENS else None


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


def violation(value: Any, schema: JsonObject) -> str | None:
    """What is wrong with a value, in words a model can act on; None if it fits.

    Raises IllegalSchema. References to other documents count as illegal: none is fetched.
    """
    try:
        errors = list(_validator(canonical(schema)).iter_errors(value))
    except (Unresolvable, RecursionError, re.error) as problem:
        raise IllegalSchema(f"the schema cannot be used: {problem}") from problem
    # Of an error in alternatives (anyOf) the one in the alternative that was nearly right.
    nearest = [best_match([error]) or error for error in errors[:MOST_ERRORS]]
    shown = [f"at {error.json_path}: {error.message}" for error in nearest]
    return "; ".join(text[:LONGEST_ERROR] for text in shown) or None


def check_schema(schema: JsonObject) -> None:
    """Raises IllegalSchema before anything is asked."""
    _validator(canonical(schema))


def _check_parts(schema: Any) -> None:
    """Raises SchemaError. Part by part: the schemas of a run share most of their parts, and
    checking one against its metaschema takes milliseconds."""
    own = schema
    if isinstance(schema, dict):
        own = dict(schema)
        if isinstance(own.get("properties"), dict):
            for part in own["properties"].values():
                _check_parts(part)
            own["properties"] = dict.fromkeys(own["properties"], True)
        if isinstance(own.get("anyOf"), list) and own["anyOf"]:
            for part in own["anyOf"]:
                _check_parts(part)
            own["anyOf"] = [True]
        if isinstance(own.get("items"), dict):
            _check_parts(own["items"])
            own["items"] = True
    _check_part(canonical(own))


@lru_cache(maxsize=4096)
def _check_part(text: str) -> None:
    jsonschema.Draft202012Validator.check_schema(json.loads(text))


@lru_cache(maxsize=512)
def _validator(schema_text: str) -> jsonschema.Draft202012Validator:
    schema = json.loads(schema_text)
    dialect = jsonschema.Draft202012Validator
    try:
        _check_parts(schema)
    except (SchemaError, RecursionError) as error:
        reason = getattr(error, "message", "it is nested too deeply")
        raise IllegalSchema(f"the schema is not a legal JSON Schema: {reason}") from error
    nothing: referencing.Registry[Any] = referencing.Registry()
    return dialect(schema, registry=nothing, format_checker=dialect.FORMAT_CHECKER)
