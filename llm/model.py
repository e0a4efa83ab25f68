"""The gateway to all models of a run; a model, and embeddings: texts as vectors. What was answered
once is never asked again.

A request's way is `Model._answer`, from top to bottom: cache, budget, limits, send, commit.
"""

from __future__ import annotations

import asyncio
import base64
import json
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Self, TypeAlias

from pydantic import BaseModel, Field

from toolloom.llm.batch import Batcher, NoBatches, Pace
from toolloom.llm.client import Client, Shared, Try, usage_of
from toolloom.llm.local import guided
from toolloom.llm.messages import (
    CHAT,
    EMBEDDINGS,
    WORK,
    FormatRefused,
    Garbled,
    Mode,
    Reply,
    Request,
    TooMuch,
    decode,
    encode,
    fingerprint,
    tokens_told,
)
from toolloom.schemas import Budget, Endpoint, EndpointError, Price, Usage, digest
from toolloom.schemas.recipe import public

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Vector: TypeAlias = NDArray[np.float32]

MODE = "mode"
TOKENS_IN_A_BYTE = 0.3  # of a request, at first; then as the endpoint counts
GRACE = 1.0  # seconds for answers that are under way when a run ends early
BATCH = 64  # texts in a request; fewer if the endpoint refuses so many
LOCAL_BATCH = 8  # the embedded model takes about a second for 200 tokens on one core
SHORTEST = 256  # characters a refused text is not cut below
STORED = "<f4"  # float32, little-endian: the same bytes on every machine
LARGEST = 3.4028234e38  # float32


class Gateway(Shared):
    """Opens models. `async with` it: it holds connections, a database and perhaps a server."""

    def __init__(
        self,
        cache: str | Path,
        *,
        prices: Mapping[str, Price] | None = None,
        budget: Budget | None = None,
        run: str = "",
        pace: Pace = Pace(),  # noqa: B008 - it is frozen
    ) -> None:
        """`cache`: the path of a SQLite file.

        `budget` is for all that `run` ever used, in this process or before; `pace` is that of
        batches. Raises StoreError.
        """
        super().__init__(cache, prices or {}, budget or Budget(), run)
        self._pace = pace
        self._models: dict[Endpoint, Model] = {}
        self._batchers: dict[tuple[str, str], Batcher] = {}

    async def __aenter__(self) -> Self:
        if not self.budget.endless:
            self.budget.spent = await self.cache.spent(self.run)
        return self

    async def __aexit__(self, *_: object) -> None:
        try:
            tasks = set(self.in_flight.values())
            self.drop(tasks)
            try:  # what was sent has a moment for its answer: it is paid for
                if tasks & self.sending:
                    await asyncio.wait(tasks & self.sending, timeout=GRACE)
            finally:
                for task in tasks:
                    task.cancel()
                await asyncio.gather(*tasks, return_exceptions=True)
        finally:  # also of those who are stopped once more and do not wait for what is under way
            for batcher in self._batchers.values():
                await batcher.close()
            await self._opened.aclose()
            await self.cache.close()

    def model(self, endpoint: Endpoint) -> Model:
        """The model behind an endpoint, always the same one; nothing is sent yet."""
        if endpoint not in self._models:
            self.limits(endpoint)
            self._models[endpoint] = Model(endpoint, self)
        return self._models[endpoint]

    def embedder(self, endpoint: Endpoint) -> Embedder:
        """The embeddings of an endpoint; nothing is sent yet."""
        self.limits(endpoint)
        return Embedder(endpoint, self)

    def batcher(self, model: Model, client: Client) -> Batcher:
        """The batches of a model, which agents that ask the same one share."""
        endpoint = model.endpoint
        name = public(endpoint.base_url), endpoint.model
        if name not in self._batchers:
            self._batchers[name] = Batcher(client, self, model.commit, self._pace)
        self._batchers[name].allow(endpoint.concurrency)
        return self._batchers[name]


class Model:
    """A model as agents ask it. Made by Gateway.model."""

    def __init__(self, endpoint: Endpoint, gateway: Gateway) -> None:
        self.endpoint = endpoint
        self.price = gateway.price(endpoint)
        self._gateway = gateway
        self._name = public(endpoint.base_url)
        self._mode: Mode | None = None
        self._finding = asyncio.Lock()
        self._rate = TOKENS_IN_A_BYTE

    def usage(self, reply: Reply) -> Usage:
        """What a reply takes; it costs nothing where no price is known."""
        sent, received = reply.prompt_tokens, reply.completion_tokens
        return usage_of(self.price, sent, received, reply.cached_tokens, batch=reply.batched)

    async def complete(self, request: Request) -> Reply:
        """The answer, from the cache if it was ever given.

        Raises RequestRefused, and what stops a run: EndpointDown, EndpointDenied, ModelMissing,
        BudgetReached, StoreError.
        """
        if request.schema is None:
            return await self._complete(request, Mode.TEXT)
        async with self._finding:
            if self._mode is None:
                cache, asked = self._gateway.cache, (self._name, self.endpoint.model)
                known = (await cache.traits(*asked)).get(MODE)
                if known not in set(Mode):
                    reply, self._mode = await self._complete_in(list(Mode), request)
                    await cache.learn(*asked, MODE, self._mode)
                    return reply
                self._mode = Mode(known)
        # A mode that is refused is refused of this schema alone: the endpoint's mode stays.
        reply, _ = await self._complete_in(list(Mode)[list(Mode).index(self._mode) :], request)
        return reply

    async def _complete_in(self, modes: Sequence[Mode], request: Request) -> tuple[Reply, Mode]:
        """The answer in the first of the modes, best first, that is not refused."""
        for mode in modes:
            with suppress(FormatRefused):
                return await self._complete(request, mode), mode
        raise AssertionError("plain text has no response_format to refuse")

    async def _complete(self, request: Request, mode: Mode) -> Reply:
        """The answer to one body. Of equal ones at the same time one is looked up and sent.

        It is sent in a task of its own: whoever asked may give up, what is paid for is kept.
        """
        key = fingerprint(self._name, self.endpoint.model, request, mode)
        task = self._gateway.in_flight.get(key)
        if task is None:
            task = self._gateway.fly((key,), self._answer(request, mode, key))
        else:
            self._gateway.stats.cached += 1
        reply: Reply = await asyncio.shield(task)
        return reply

    async def _answer(self, request: Request, mode: Mode, key: str) -> Reply:
        """The way of a request: cache, budget, limits, send, commit; again while that may help."""
        gateway, endpoint = self._gateway, self.endpoint
        if (known := await gateway.cache.read(key)) is not None:
            gateway.stats.cached += 1
            return decode(known)
        gateway.stats.asked += 1
        body = encode(endpoint.model, request, mode)
        content = json.dumps(guided(body) if endpoint.local else body).encode()
        run = WORK.get().run or gateway.run
        client = await gateway.client(endpoint, CHAT)
        # Which mode the endpoint takes is found out at once, not within a day.
        if endpoint.batched and (request.schema is None or self._mode is not None):
            try:
                most = usage_of(self.price, len(content), request.max_tokens, batch=True)
                return await gateway.batcher(self, client).ask(key, body, Try(1, run, most))
            except NoBatches:
                self.endpoint = endpoint.model_copy(update={"mode": "direct"})
        most = usage_of(self.price, len(content), request.max_tokens)  # a token is at least a byte
        tokens = int(len(content) * self._rate) + request.max_tokens

        async def keep(raw: str, number: int) -> tuple[Reply, Usage]:
            return await self.commit(key, raw, Try(number, run, most))

        reply = await client.ask(content, most, tokens, keep, key, "response_format" in body)
        self._rate = max(self._rate, reply.prompt_tokens / len(content))
        return reply

    async def commit(self, key: str, raw: str, last: Try) -> tuple[Reply, Usage]:
        """Keep a response; the reply that stands, and what is booked for it. Raises Garbled."""
        reply = decode(raw)
        counted = used = self.usage(reply)
        if not reply.metered:
            self._gateway.warn_of_no_usage(
                self.endpoint,
                "takes: they are shown as 0, and count against the budget as the most they can be.",
            )
            most = last.most
            sent = max(used.prompt_tokens, most.prompt_tokens)
            received = max(used.completion_tokens, most.completion_tokens)
            used = usage_of(self.price, sent, received, used.cached_tokens, batch=reply.batched)
        entry = self._gateway.entry(self.endpoint, "chat", key, raw, last.run, last.number, used)
        stands = await self._gateway.cache.write(entry)
        self._gateway.stats.used += counted  # not of what could not be kept
        if stands == raw:
            return reply, used
        # Another process was faster. This one's answer is paid for as well.
        await self._gateway.cache.lose(last.run, used)
        return decode(stands), used


class EmbeddingRow(BaseModel):
    """One embedding of a response. Servers that give no index answer in order."""

    index: Annotated[int, Field(strict=True)] = -1
    embedding: list[Annotated[float, Field(strict=True, ge=-LARGEST, le=LARGEST)]] = Field(
        min_length=1
    )


class EmbeddingResponse(BaseModel):
    data: list[EmbeddingRow]
    usage: Any = None


class Embedder:
    """One model's embeddings at one endpoint. Made by Gateway.embedder."""

    def __init__(self, endpoint: Endpoint, gateway: Gateway) -> None:
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

        asked = {"kind": "embedding", "endpoint": self._name, "model": self.endpoint.model}
        keys = [digest({**asked, "text": text}, 64) for text in texts]
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
            rows, tokens = decode_vectors(raw, len(wanted))
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
            gateway.stats.used += used
            return {key: unpack(body) for key, body in zip(wanted, stand, strict=True)}, used

        client = await gateway.client(endpoint, EMBEDDINGS)
        return await client.ask(content, most, len(content) // 4, keep, next(iter(wanted)))


def pack(vector: Vector) -> str:
    return base64.b64encode(vector.astype(STORED).tobytes()).decode("ascii")


def unpack(body: str) -> Vector:
    import numpy as np

    return np.frombuffer(base64.b64decode(body), STORED).astype(np.float32)


def decode_vectors(raw: str, count: int) -> tuple[list[Vector], int]:
    """The vectors of a response's body in the order asked, and the tokens sent, 0 if it does not
    say how many. Raises Garbled."""
    import numpy as np

    try:
        body = EmbeddingResponse.model_validate_json(raw)
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
    vectors = [np.asarray(rows[n], np.float32) for n in range(count)]
    return vectors, tokens_told(body.usage, "prompt_tokens") or 0
