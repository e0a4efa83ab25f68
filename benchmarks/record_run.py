"""What a run asks: every body it sends, and how many requests must follow one another.

Started by throughput.py with a recipe as JSON and the file for the bodies.
"""

from __future__ import annotations

import asyncio
import json
import sys
import tempfile
from pathlib import Path
from typing import Any

from toolloom.llm import FakeServer
from toolloom.llm.fake import improvise
from toolloom.pipeline.run import run
from toolloom.schemas import parse_recipe

STAGES = ("domains", "apis", "queries", "dialogues", "tested")


async def record(recipe: dict[str, Any], outputs: Path) -> list[Any]:
    bodies: list[Any] = []

    def script(body: Any) -> Any:
        bodies.append(body)
        return improvise(body)

    async with FakeServer(script) as server:
        model = {**recipe["model"], "base_url": server.base_url}
        parsed = parse_recipe({**recipe, "model": model}, "the benchmark")
        await run(parsed, outputs=outputs)
    return bodies


def steps(outputs: Path) -> int:
    """The longest chain: one answer waits for another within a record, and of stages for each.

    Votes of one dialogue are cast together, so that a stage of the tester is two steps at most.
    """
    longest: dict[str, int] = {}
    chains: dict[str, int] = {}
    for stage in STAGES:
        for row in rows(outputs, stage):
            asked = sum(p["requests"] for p in row["provenance"] if p["stage"] == stage)
            made = asked if stage != "tested" else 1 + (asked > 3)
            longest[stage] = max(longest.get(stage, 0), made)
            if stage in STAGES[2:]:
                name = row.get("id") or (row.get("dialogue") or row).get("query", {}).get("id", "")
                chains[name] = chains.get(name, 0) + made
    return longest["domains"] + longest["apis"] + max(chains.values())


def rows(outputs: Path, stage: str) -> list[dict[str, Any]]:
    files = outputs.glob(f"runs/*/{stage}/*ted.jsonl")
    return [json.loads(line) for path in files for line in path.read_text().splitlines()]


def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        bodies = asyncio.run(record(json.loads(sys.argv[1]), Path(folder)))
        longest = steps(Path(folder))
    Path(sys.argv[2]).write_text("".join(f"{json.dumps(body)}\n" for body in bodies))
    print(json.dumps({"requests": len(bodies), "steps": longest}))


if __name__ == "__main__":
    main()
