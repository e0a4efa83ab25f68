"""How fast duplicates are found, in how much memory, and which.

    python benchmarks/curation.py [ROWS …]

Makes rows of which every tenth is a near duplicate of an earlier one: a word put in, left out or
replaced, or only the case and the punctuation changed. Each size is measured in a process of its
own. The baseline reads the same rows in the same process and drops only those whose text is equal.
"""

from __future__ import annotations

import hashlib
import json
import random
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from toolloom.pipeline.curation.duplicates import deduplicate
from toolloom.pipeline.curation.parts import folded, instruction, jaccard, text_parts
from toolloom.pipeline.stage import StageInput
from toolloom.pipeline.store.files import Rows, to_line, write_lines
from toolloom.schemas import parse_recipe

SIZES = (10_000, 100_000, 1_000_000)
EVERY = 10
STARTS = ("Please find", "I need", "Can you book", "Show me", "Could you check", "Tell me about")
ENDS = ("for next week", "as soon as possible", "and send it to me", "for two people", "tonight")


def vocabulary(rng: random.Random) -> list[str]:
    """Words of one to four syllables, so that texts share letters as real ones do."""
    syllables = [a + b for a in "bcdfghklmnprstvw" for b in ("a", "e", "i", "o", "u", "an", "er")]
    return ["".join(rng.choices(syllables, k=rng.randint(1, 4))) for _ in range(4000)]


def texts(count: int, rng: random.Random) -> Iterator[tuple[str, int | None]]:
    """Instructions, and for the planted ones the number of the one they are near."""
    words, earlier = vocabulary(rng), list[tuple[int, str]]()
    for number in range(count):
        if number % EVERY == EVERY - 1:
            place, text = rng.choice(earlier[-5000:])
            yield changed(text, words, rng), place
            continue
        middle = " ".join(rng.choices(words, k=rng.randint(6, 24)))
        text = f"{rng.choice(STARTS)} {middle} {rng.choice(ENDS)}."
        earlier.append((number, text))
        del earlier[:-5000]
        yield text, None


def changed(text: str, words: list[str], rng: random.Random) -> str:
    found, place = text.split(), rng.randrange(1, len(text.split()) - 1)
    match rng.randrange(4):
        case 0:
            found.insert(place, rng.choice(words))
        case 1:
            del found[place]
        case 2:
            found[place] = rng.choice(words)
        case _:
            return text.upper().replace(".", "!")
    return " ".join(found)


def row(number: int, text: str) -> dict[str, Any]:
    """A sample with all that takes room in one; every row makes another call."""
    api = {
        "category": f"category {number % 40}",
        "tool": f"tool {number % 200}",
        "name": f"find {number % 1000}",
        "function": f"find_{number % 1000}",
        "description": "Finds something by its name and the day it is wanted for.",
        "parameters": {"type": "object", "properties": {"name": {"type": "string"}}},
    }
    named = f"{api['category']}/{api['tool']}/{api['name']}"
    intent = {"api": named, "turn": 0, "arguments": {"name": f"n{number}"}, "references": {}}
    query = {
        "id": f"q{number}",
        "ability": ("call", "retrieve_call")[number % 2],
        "scenario": "single",
        "pool": [api],
        "outside": None,
        "intent": [intent],
        "text": text,
    }
    call = {"id": "c1", "function": {"name": api["function"], "arguments": intent["arguments"]}}
    messages = [
        {"role": "user", "content": text},
        {"role": "assistant", "content": None, "tool_calls": [call]},
        {"role": "tool", "content": '{"response": {"found": true}, "error": null}'},
        {"role": "assistant", "content": "It is found."},
    ]
    return {"dialogue": {"query": query, "messages": messages}, "flags": [], "provenance": []}


def resident(name: str) -> float:
    """MB of this process, from the kernel: `VmHWM` is the most it ever had."""
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(x.split()[1]) / 1024 for x in lines if x.startswith(name))


def timed(work: Callable[[], Any]) -> tuple[Any, float]:
    began = time.perf_counter()
    return work(), time.perf_counter() - began


def equal_texts(rows: Rows) -> int:
    seen: set[bytes] = set()
    for _, found in rows.objects():
        seen.add(hashlib.sha256(instruction(found).encode()).digest())
    return rows.count - len(seen)


def measure(count: int) -> None:
    rng = random.Random(count)
    near = parse_recipe({"name": "b"}, "").curation.near
    with tempfile.TemporaryDirectory() as name:
        path, planted = Path(name) / "rows.jsonl", dict[tuple[str, str], float]()
        last: dict[int, str] = {}

        def lines() -> Iterator[bytes]:
            for number, (text, of) in enumerate(texts(count, rng)):
                if of is not None:
                    parts = [text_parts(folded(t)) for t in (text, last[of])]
                    planted[f"q{number}", f"q{of}"] = jaccard(*parts)
                last[number] = text
                last.pop(number - 60_000, None)
                yield to_line(row(number, text))

        write_lines(path, lines())
        last.clear()
        rows = Rows(path, count)
        given = StageInput(
            parse_recipe({"name": "b"}, ""), "deduplicated", rows, Rows(path, 0), Path(name)
        )
        before = resident("VmRSS")
        Path("/proc/self/clear_refs").write_text("5")  # the peak so far was the making of rows
        found, seconds = timed(
            lambda: {each.id for each in deduplicate(given) if not isinstance(each, bytes)}
        )
        peak = resident("VmHWM")
        equal, base = timed(lambda: equal_texts(rows))
        due = {pair for pair, likeness in planted.items() if likeness >= near}
        # Of a pair the row goes that is not in a test; one row may be in several pairs.
        hit = {pair for pair in due if found & set(pair)}
        meant = {number for pair in due for number in pair}
        figures = {
            "rows": count,
            "bytes a row": path.stat().st_size // count,
            "rows/s": round(count / seconds),
            "equal texts only: rows/s": round(count / base),
            "peak MB": round(peak),
            "MB before": round(before),
            "planted": len(planted),
            "of them alike enough": len(due),
            "recall": round(len(hit) / max(1, len(due)), 5),
            "precision": round(len(found & meant) / max(1, len(found)), 5),
            "found by equal text": equal,
        }
        print(json.dumps(figures))


if __name__ == "__main__":
    sizes = [int(size) for size in sys.argv[1:]] or SIZES
    if len(sizes) == 1:
        measure(sizes[0])
    else:
        for size in sizes:
            subprocess.run([sys.executable, __file__, str(size)], check=True)
