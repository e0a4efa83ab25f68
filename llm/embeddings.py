"""Embeddings: texts as vectors, from any OpenAI-compatible /v1/embeddings, each paid for once."""

from __future__ import annotations

import asyncio
import base64
import hashlib
import json
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Annotated, Any, TypeAlias

from pydantic import BaseModel, Field

from toolloom.llm.client import Shared
from toolloom.llm.limits import usage_of
from toolloom.llm.messages import EMBEDDINGS, MOST_TOKENS, WORK, Garbled, TooMuch
from toolloom.schemas import Endpoint, EndpointError, Usage, canonical
from toolloom.schemas.endpoint import public

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Vector: TypeAlias = NDArray[np.float32]

BATCH = 64  # texts in a request; fewer if the endpoint refuses so many
LOCAL_BATCH = 8  # the embedded model takes about a second for 200 tokens on one core
SHORTEST = 256  # characters a refused text is not cut below
STORED = "<f4"  # float32, little-endian: the same bytes on every machine
LARGEST = 3.4028234e38  # float32


class Row(BaseModel):
    """One embedding of a response. Servers that give no index answer in order."""

    index: Annotated[int, Field(strict=True)] = -1
    embedding: list[Annotated[float, Field(strict=True, ge=-LARGEST, le=LARGEST)]] = Field(
        min_length=1
    )


class Response(BaseModel):
    data: list[Row]
    usage: Any = None


class Embedder:
    """One model's embeddings at one endpoint. Made by Gateway.embedder."""

    def __init__(self, endpoint: Endpoint, gateway: Shared) -> None:
        self.endpoint = endpoint
        self._gateway = gateway
        self._name = public(endpoint.base_url)
        self._price = gateway.price(endpoint)

    async def embed(self, texts: Sequence[str]) -> Vector:
        """A row for each text, in order; those embedded before come from the cache.

        A text the endpoint calls too long is embedded by its beginning. No text may be empty:
        endpoints refuse that. Raises RequestRefused, and what stops a run: EndpointDown,
        EndpointDenied, ModelMissing, EndpointError.
        """
        import numpy as np

        keys = [fingerprint(self._name, self.endpoint.model, text) for text in texts]
        wanted = dict(zip(keys, texts, strict=True))
        bodies = await self._gateway.cache.read_all(list(wanted))
        self._gateway.stats.cached += len(bodies)
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
        in_flight, size = self._gateway.in_flight, LOCAL_BATCH if self.endpoint.local else BATCH
        tasks = {in_flight[key] for key in missing if key in in_flight}
        new = [item for item in missing.items() if item[0] not in in_flight]
        batches = [dict(new[start : start + size]) for start in range(0, len(new), size)]
        mine = {self._gateway.fly(batch, self._ask(batch)) for batch in batches}
        try:
            done, _ = await asyncio.wait(tasks | mine, return_when=asyncio.FIRST_EXCEPTION)
        finally:
            self._gateway.drop(mine)
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
        gateway, endpoint = self._gateway, self.endpoint
        gateway.stats.asked += 1
        content = json.dumps({"model": endpoint.model, "input": list(wanted.values())}).encode()
        most = usage_of(self._price, len(content))  # a token is at least a byte

        async def keep(raw: str, number: int) -> tuple[dict[str, Vector], Usage]:
            """Those that stand. The response is booked on the first."""
            rows, tokens = decode(raw, len(wanted))
            used = usage_of(self._price, tokens) if tokens else most
            if not tokens:
                words = "was sent: the most that it can be is booked."
                gateway.warn_of_no_usage(endpoint, words)
            booked = [(number, used), *[(0, Usage())] * (len(wanted) - 1)]
            entries = [
                gateway.entry(endpoint, "embedding", key, pack(row), WORK.get().run, *one)
                for key, row, one in zip(wanted, rows, booked, strict=True)
            ]
            stand = await gateway.cache.write_all(entries)
            gateway.stats.embedded += len(rows)
            gateway.stats.book(used)
            return {key: unpack(body) for key, body in zip(wanted, stand, strict=True)}, used

        client = await gateway.client(endpoint, EMBEDDINGS)
        return await client.ask(content, most, len(content) // 4, keep, next(iter(wanted)))


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
    import numpy as np

    try:
        body = Response.model_validate_json(raw)
        if len(body.data) != count:
            raise ValueError(f"{len(body.data)} embeddings for {count} texts")
        rows = {n if e.index < 0 else e.index: e.embedding for n, e in enumerate(body.data)}
        if set(rows) != set(range(count)):
            raise ValueError("indices that are not those of the texts")
        if len({len(row) for row in rows.values()}) > 1:
            raise ValueError("embeddings of different sizes")
    except ValueError as error:
        why = " ".join(str(error).split())[:200]
        raise Garbled(f"no embeddings ({why}): {raw[:200]!r}", raw) from error
    tokens = body.usage.get("prompt_tokens") if isinstance(body.usage, dict) else None
    if not (type(tokens) is int and 0 < tokens < MOST_TOKENS):
        tokens = 0
    return [np.asarray(rows[n], np.float32) for n in range(count)], tokens
