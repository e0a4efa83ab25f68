"""Embeddings: texts as vectors, from any OpenAI-compatible /v1/embeddings, each paid for once."""

from __future__ import annotations

import asyncio
import base64
import hashlib
import json
from collections.abc import Mapping, Sequence
from contextlib import AsyncExitStack
from typing import TYPE_CHECKING, Any, TypeAlias
from weakref import WeakValueDictionary

from toolloom.llm.budget import usage_of
from toolloom.llm.connection import OutgoingRequest
from toolloom.llm.faults import Garbled, TooMuch
from toolloom.llm.log import WORK
from toolloom.llm.model import Opening, Shared, looked_at
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

    def __init__(self, endpoint: Endpoint, shared: Shared, opening: Opening) -> None:
        self.endpoint = endpoint
        self._shared = shared
        self._open = opening
        self._name = public(endpoint.base_url)
        self._price = shared.price(endpoint)
        # One for each text in use: of equal texts one is sent, the others wait for it.
        self._locks: WeakValueDictionary[str, asyncio.Lock] = WeakValueDictionary()
        self._size = LOCAL_BATCH if endpoint.local else BATCH

    async def embed(self, texts: Sequence[str]) -> Vector:
        """A row for each text, in order; those embedded before come from the cache.

        A text the endpoint calls too long is embedded by its beginning. No text may be empty:
        endpoints refuse that. Raises RequestRefused, and what stops a run: EndpointDown,
        EndpointDenied, ModelMissing, EndpointError.
        """
        import numpy as np

        keys = [fingerprint(self._name, self.endpoint.model, text) for text in texts]
        wanted = dict(zip(keys, texts, strict=True))
        vectors = await self._remembered(wanted)
        missing = [item for item in wanted.items() if item[0] not in vectors]
        vectors |= await self._settle_all(missing)
        sizes = sorted({vector.size for vector in vectors.values()})
        if len(sizes) > 1:
            raise EndpointError(
                f"{self._name} gave vectors of different sizes ({sizes}) for "
                f"{self.endpoint.model!r}: another model goes by that name by now. Use a new "
                "response cache, or give the model another name."
            )
        rows = [vectors[key] for key in keys]
        return np.stack(rows) if rows else np.zeros((0, 0), np.float32)

    async def _settle_all(self, missing: Sequence[tuple[str, str]]) -> dict[str, Vector]:
        """The vectors of texts, each batch of which is sent in a task of its own: whoever asked
        may give up, what is paid for is kept. After a failure nothing more is sent."""
        starts = range(0, len(missing), self._size)
        flights: list[asyncio.Task[dict[str, Vector]]] = []
        for start in starts:
            flight = asyncio.create_task(self._settle(dict(missing[start : start + self._size])))
            self._shared.embeddings.add(flight)
            flight.add_done_callback(self._shared.embeddings.discard)
            flight.add_done_callback(looked_at)
            flights.append(flight)
        if not flights:
            return {}
        try:
            done, _ = await asyncio.wait(flights, return_when=asyncio.FIRST_EXCEPTION)
        finally:
            for flight in set(flights) - self._shared.wire:
                flight.cancel()
        parts = [flight.result() for flight in flights if flight in done]  # or what failed
        return {key: vector for part in parts for key, vector in part.items()}

    async def _settle(self, batch: Mapping[str, str]) -> dict[str, Vector]:
        """The vectors of a batch; of equal texts asked for at once one is sent."""
        async with AsyncExitStack() as stack:
            # In one order everywhere, so that two batches never wait for each other.
            for key in sorted(batch):
                await stack.enter_async_context(self._locks.setdefault(key, asyncio.Lock()))
            vectors = await self._remembered(batch)
            missing = {key: text for key, text in batch.items() if key not in vectors}
            return vectors | await self._ask(missing) if missing else vectors

    async def _remembered(self, wanted: Mapping[str, str]) -> dict[str, Vector]:
        bodies = await self._shared.cache.read_all(list(wanted))
        self._shared.stats.cached += len(bodies)
        return {key: unpack(body) for key, body in bodies.items()}

    async def _ask(self, wanted: Mapping[str, str]) -> dict[str, Vector]:
        """Send texts; halves of them, or of the only one, if the endpoint calls them too much."""
        try:
            return await self._send(wanted)
        except TooMuch:
            items = list(wanted.items())
            if len(items) > 1:
                half = len(items) // 2
                return await self._ask(dict(items[:half])) | await self._ask(dict(items[half:]))
            key, text = items[0]
            if len(text) <= SHORTEST:
                raise
            return await self._ask({key: text[: len(text) // 2]})

    async def _send(self, wanted: Mapping[str, str]) -> dict[str, Vector]:
        """Send one request; its vectors are committed before anyone sees them."""
        vectors: dict[str, Vector] = {}
        body = {"model": self.endpoint.model, "input": list(wanted.values())}
        content = json.dumps(body).encode()
        bound = usage_of(self._price, len(content))  # a token is at least a byte

        async def accept(raw: str, tries: int) -> Usage:
            read, counted = decode(raw, len(wanted))
            if not counted:
                self._shared.warn_of_no_usage(
                    self.endpoint, "was sent: the most that it can be is booked."
                )
            used = usage_of(self._price, counted or bound.tokens)
            vectors.update(await self._keep(dict(zip(wanted, read, strict=True)), tries, used))
            return used

        lines = await self._open()
        self._shared.stats.asked += 1
        key, guess = next(iter(wanted)), len(content) // 4
        await lines.send(OutgoingRequest(content, key, guess, bound, accept))
        return vectors

    async def _keep(
        self, vectors: Mapping[str, Vector], tries: int, used: Usage
    ) -> dict[str, Vector]:
        """Commit the vectors of one response, which is booked on the first; those that stand."""
        run = WORK.get().run
        booked = [(tries, used), *[(0, Usage())] * (len(vectors) - 1)]
        entries = [
            self._shared.entry(self.endpoint, "embedding", key, pack(vector), run, *one)
            for (key, vector), one in zip(vectors.items(), booked, strict=True)
        ]
        stand = await self._shared.cache.write_all(entries)
        self._shared.stats.embedded += len(vectors)
        self._shared.stats.book(used)
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
