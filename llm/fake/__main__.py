"""A scripted OpenAI-compatible endpoint on this machine: for tests, and to try recipes for free.

python -m toolloom.llm.fake --port 8123 --latency 0.2
"""

from __future__ import annotations

import argparse
import asyncio
from contextlib import suppress
from pathlib import Path

from toolloom.llm.fake import Batching, FakeServer, improvise
from toolloom.llm.fake.script import FAILURES


def main() -> None:
    parser = argparse.ArgumentParser(
        prog="python -m toolloom.llm.fake",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    names = ", ".join(("a status", *FAILURES))
    add = parser.add_argument
    add("--port", type=int, default=8123, help="0 takes a free one")
    add("--latency", type=float, default=0.0, help="seconds before each answer")
    add("--spread", type=float, default=0.0, help="sigma of lognormal latencies with that mean")
    add("--failures", type=shares, default={}, help=f"shares: 429=0.05,reset=0.01 ({names})")
    add("--retry-after", type=float, default=1.0, help="seconds that such a 429 asks to wait")
    add("--requests-per-minute", type=int, help="more get 429")
    add("--tokens-per-minute", type=int, help="more get 429")
    add("--places", type=int, help="requests under way at once; more get 429")
    add("--prefix-cache", action="store_true", help="tell cached_tokens")
    add("--batch-seconds", type=float, default=0.0, help="seconds that a batch takes")
    add("--no-batches", action="store_true", help="have no Batch API")
    add("--answer", help="what it says to everything")
    add("--key", help="the key it asks for")
    add("--log", type=Path, help="file that gets one line for each answer")
    options = vars(parser.parse_args())
    batching = Batching(seconds=options.pop("batch_seconds"))
    options["batches"] = None if options.pop("no_batches") else batching
    answer: str | None = options.pop("answer")
    server = FakeServer(improvise if answer is None else lambda body: answer, **options)
    with suppress(KeyboardInterrupt):
        asyncio.run(serve_forever(server))


def shares(text: str) -> dict[str, float]:
    """Reads `429=0.05,reset=0.01`. Raises ValueError."""
    pairs = (part.partition("=") for part in text.split(",") if part)
    return {name.strip(): float(share) for name, _, share in pairs}


async def serve_forever(server: FakeServer) -> None:
    async with server:
        print(f"serving on {server.base_url}", flush=True)
        await asyncio.Event().wait()


if __name__ == "__main__":
    main()
