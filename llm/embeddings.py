"""Embeddings: texts as vectors, from any OpenAI-compatible /v1/embeddings, each paid for once."""

from __future__ import annotations

import asyncio
import base64
import hashlib
import json
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypeAlias

from toolloom.llm.client import Shared
from toolloom.llm.faults import Garbled, TooMuch
from toolloom.llm.limits import usage_of
from toolloom.llm.log import WORK
from toolloom.llm.messages import EMBEDDINGS
from toolloom.schemas import Endpoint, EndpointError, Usage, canonical
from toolloom.schemas.endpoint import public

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Vector: TypeAlias = NDArray[np.float32]

BATCH = 64  # texts in a request; fewer if the endpoint refuses so many
LOCAL_BATCH = 8  # the embedded model takes about a second for 200 tokens on one core
SHORTEST = 256  # characters a refused text is not cut below
MOST_TOKENS = 2**31  # what says more cannot be right
STORED = "<f4"  # float32, little-endian: the same bytes on every machine


class Embedder:
    """One model's embeddings at one endpoint. Made by Gateway.embedder."""

    def __init__(self, endpoint: Endpoint, shared: Shared) -> None:
        self.endpoint = endpoint
        self._shared = shared
        self._name = public(endpoint.base_url)
        self._price = shared.price(endpoint)

    async def embed(self, texts: Sequence[str]) -> Vector:
        """A row for each text, in order; those embedded before come from the cache.

        A text the endpoint calls too long is embedded by its beginning. No text may be empty:
        endpoints refuse that. Raises RequestRefused, and what stops a run: EndpointDown,
        EndpointDenied, ModelMissing, EndpointError.
        """
        import numpy as np

        keys = [fingerprint(self._name, self.endpoint.model, text) for text in texts]
        wanted = dict(zip(keys, texts, strict=True))
        bodies = await self._shared.cache.read_all(list(wanted))
        self._shared.stats.cached += len(bodies)
        vectors = {key: unpack(body) for key, body in bodies.items()}
        while missing := {key: text for key, text in wanted.items() if key not in vectors}:
            vectors |= await self._together(missing)
        if len(sizes := sorted({vector.size for vector in vectors.values()})) > 1:
            raise EndpointError(
                f"{self._name} gave vectors of different sizes ({sizes}) for "
                f"{self.endpoint.model!r}: another model goes by that name by now. Use a new "
                "response cache, or give the model another name."
            )
        rows = [vectors[key] for key in keys]
        return np.stack(rows) if rows else np.zeros((0, 0), np.float32)

    async def _together(self, missing: Mapping[str, str]) -> dict[str, Vector]:
        """The vectors of texts; not all of them if another caller failed that had asked for some.

        Each batch is sent in a task of its own: whoever asked may give up, what is paid for is
        kept. After a failure nothing more of these is sent.
        """
        in_flight, size = self._shared.in_flight, LOCAL_BATCH if self.endpoint.local else BATCH
        tasks = {in_flight[key] for key in missing if key in in_flight}
        new = [item for item in missing.items() if item[0] not in in_flight]
        mine: set[asyncio.Task[dict[str, Vector]]] = set()
        for start in range(0, len(new), size):
            batch = dict(new[start : start + size])
            mine.add(self._shared.fly(batch, self._ask(batch)))
        try:
            done, _ = await asyncio.wait(tasks | mine, return_when=asyncio.FIRST_EXCEPTION)
        finally:
            self._shared.drop(mine)
        parts = [task.result() for task in done if not task.cancelled()]  # or what failed
        return {k: vector for part in parts for k, vector in part.items() if k in missing}

    async def _ask(self, wanted: Mapping[str, str]) -> dict[str, Vector]:
        """Send texts; halves of them, or of the only one, if the endpoint calls them too much."""
        try:
            return await self._send(wanted)
        except TooMuch:
            (key, text), *_ = items = list(wanted.items())
            if half := len(items) // 2:
                return await self._ask(dict(items[:half])) | await self._ask(dict(items[half:]))
            if len(text) <= SHORTEST:
                raise
            return await self._ask({key: text[: len(text) // 2]})

    async def _send(self, wanted: Mapping[str, str]) -> dict[str, Vector]:
        """The vectors of texts, by the way of any request: budget, limits, send, commit."""
        shared = self._shared
        shared.stats.asked += 1
        asked = {"model": self.endpoint.model, "input": list(wanted.values())}
        content = json.dumps(asked).encode()
        most = usage_of(self._price, len(content))  # a token is at least a byte
        client = await shared.client(self.endpoint, EMBEDDINGS)
        async with client.patiently(next(iter(wanted))) as attempts:
            async for attempt in attempts:
                with attempt:
                    async with client.turn(most, len(content) // 4) as turn:
                        raw = await client.post(content)
                        rows, tokens = decode(raw, len(wanted))
                        turn.used = most
                        if tokens:
                            turn.used = usage_of(self._price, tokens)
                        else:
                            words = "was sent: the most that it can be is booked."
                            shared.warn_of_no_usage(self.endpoint, words)
                        number = attempt.retry_state.attempt_number
                        vectors = dict(zip(wanted, rows, strict=True))
                        return await self._commit(vectors, number, turn.used)
        raise AssertionError("the last failure is raised")

    async def _commit(
        self, vectors: Mapping[str, Vector], tries: int, used: Usage
    ) -> dict[str, Vector]:
        """Keep the vectors of one response, which is booked on the first; those that stand."""
        shared, run = self._shared, WORK.get().run
        booked = [(tries, used), *[(0, Usage())] * (len(vectors) - 1)]
        entries = [
            shared.entry(self.endpoint, "embedding", key, pack(vector), run, *one)
            for (key, vector), one in zip(vectors.items(), booked, strict=True)
        ]
        stand = await shared.cache.write_all(entries)
        shared.stats.embedded += len(vectors)
        shared.stats.book(used)
        return {key: unpack(body) for key, body in zip(vectors, stand, strict=True)}


def fingerprint(address: str, model: str, text: str) -> str:
    """SHA-256 over all that decides a vector: its key in the cache."""
    asked = {"kind": "embedding", "endpoint": address, "model": model, "text": text}
    return hashlib.sha256(canonical(asked).encode("utf-8", "surrogatepass")).hexdigest()


def pack(vector: Vector) -> str:
    return base64.b64encode(vector.astype(STORED).tobytes()).decode("ascii")


def unpack(body: str) -> Vector:
    import numpy as np

    return np.frombuffer(base64.b64decode(body), STORED).astype(np.float32)


def decode(raw: str, count: int) -> tuple[list[Vector], int]:
    """The vectors of a response's body in the order asked, and the tokens sent, 0 if it does not
    say how many. Raises Garbled."""
    try:
        body = json.loads(raw)
        entries = body["data"]
        if len(entries) != count:
            raise ValueError(f"{len(entries)} embeddings for {count} texts")
        # Servers that give no index answer in order.
        placed = {int(e.get("index", n)): _vector(e["embedding"]) for n, e in enumerate(entries)}
        if set(placed) != set(range(count)):
            raise ValueError("indices that are not those of the texts")
        if len({vector.size for vector in placed.values()}) > 1:
            raise ValueError("embeddings of different sizes")
    except (ValueError, LookupError, TypeError, AttributeError, RecursionError) as error:
        raise Garbled(f"no embeddings ({str(error)[:200]}): {raw[:200]!r}", raw) from error
    usage = body.get("usage")
    tokens = usage.get("prompt_tokens") if isinstance(usage, dict) else None
    if not (type(tokens) is int and 0 < tokens < MOST_TOKENS):
        tokens = 0
    return [placed[n] for n in range(count)], tokens


def _vector(numbers: Any) -> Vector:
    import numpy as np

    if not isinstance(numbers, list) or not numbers:
        raise TypeError("an embedding is no list of numbers")
    if any(type(number) not in (float, int) for number in numbers):
        raise TypeError("an embedding holds something else than numbers")
    with np.errstate(over="ignore"):
        try:
            vector = np.asarray(numbers, np.float64).astype(np.float32)
        except OverflowError as error:
            raise ValueError("an embedding with a number out of range") from error
    if not np.isfinite(vector).all():
        raise ValueError("an embedding with a number out of range")
    return vector
