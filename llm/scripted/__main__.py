"""A scripted OpenAI-compatible endpoint on this machine: for tests, and to try recipes for free.

python -m toolloom.llm.scripted --port 8123 --latency 0.2
"""

from __future__ import annotations

import argparse
import asyncio
from contextlib import suppress
from pathlib import Path

from toolloom.llm.scripted import FAILURES, FakeServer, improvise


def main() -> None:
    parser = argparse.ArgumentParser(
        prog="python -m toolloom.llm.scripted",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    names = ", ".join(("a status", *FAILURES))
    add = parser.add_argument
    add("--port", type=int, default=8123, help="0 takes a free one")
    add("--latency", type=float, default=0.0, help="seconds before each answer")
    add("--failures", type=shares, default={}, help=f"shares: 429=0.05,reset=0.01 ({names})")
    add("--retry-after", type=float, default=1.0, help="seconds that such a 429 asks to wait")
    add("--places", type=int, help="requests under way at once; more get 429")
    add("--answer", help="what it says to everything")
    add("--key", help="the key it asks for")
    add("--log", type=Path, help="file that gets one line for each answer")
    options = vars(parser.parse_args())
    answer: str | None = options.pop("answer")

    async def serve() -> None:
        script = improvise if answer is None else lambda body: answer
        async with FakeServer(script, **options) as server:
            print(f"serving on {server.base_url}", flush=True)
            await asyncio.Event().wait()

    with suppress(KeyboardInterrupt):
        asyncio.run(serve())


def shares(text: str) -> dict[str, float]:
    """Reads `429=0.05,reset=0.01`. Raises ValueError."""
    pairs = (part.partition("=") for part in text.split(",") if part)
    return {name.strip(): float(share) for name, _, share in pairs}


if __name__ == "__main__":
    main()
