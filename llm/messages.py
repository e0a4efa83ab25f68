"""OpenAI's chat completions, written and read by hand, and the key of a response in the cache.

Writing and reading the few fields that are used costs a fraction of what the SDK's request
transform and response models do.
"""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from toolloom.schemas import JsonObject, canonical

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
