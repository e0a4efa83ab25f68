"""What the scripted endpoint says: completions, embeddings, and answers that are none."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any, TypeAlias

from toolloom.llm.actor import act
from toolloom.llm.invent import invent, sentence, vector
from toolloom.llm.parsing import readings
from toolloom.llm.wire import SCHEMA_SENTENCE
from toolloom.schemas import JsonObject, canonical, digest


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
    schema = _schema_of(body)
    played: Scripted | None = act(body, schema)
    if played is not None:
        return played
    return sentence(seed) if schema is None else canonical(invent(schema, seed))


def _schema_of(body: JsonObject) -> JsonObject | None:
    """The schema of the response_format, or the one the last message tells."""
    wrapper = (body.get("response_format") or {}).get("json_schema") or {}
    if "schema" in wrapper:
        found: JsonObject = wrapper["schema"]
        return found
    _, told, text = body["messages"][-1]["content"].rpartition(SCHEMA_SENTENCE)
    return next((value for value, _ in readings(text)), None) if told else None


def embed(body: JsonObject) -> JsonObject:
    """The body that answers a request for embeddings: hashed words."""
    given = body.get("input")
    texts = [given] if isinstance(given, str) else list(given or ())
    sent = size(body)
    entries = [
        {"object": "embedding", "index": index, "embedding": vector(text)}
        for index, text in enumerate(texts)
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
    given = body.get("input") or ()
    return sum(len(text) // 4 + 1 for text in ([given] if isinstance(given, str) else given))


def message_size(message: JsonObject) -> int:
    return len(message.get("content") or "") // 4 + 4


class Prefixes:
    """Which beginnings of messages were sent before: what an endpoint would have cached."""

    def __init__(self) -> None:
        self._seen: set[int] = set()

    def cached(self, body: JsonObject) -> int:
        """Tokens of the longest run of first messages seen before; this one is seen from now."""
        found, sent, mark, again = 0, 0, hash(body.get("model")), True
        for message in body["messages"]:
            mark = hash((mark, message["role"], str(message.get("content"))))
            sent += message_size(message)
            again = again and mark in self._seen
            found = sent if again else found
            self._seen.add(mark)
        return found
