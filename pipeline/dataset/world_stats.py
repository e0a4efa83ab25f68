"""Dialogues in worlds: how many came of each script, how alike they are, which scripts ran dry.

A manifest holds the figures of each split (`PlayCounts`) and what the worlds are (`world_json`);
`worlds_told` puts them together for those who show them.
"""

from __future__ import annotations

import hashlib
import re
from array import array
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from heapq import nsmallest
from itertools import combinations, islice
from statistics import median
from typing import TypeAlias

from toolloom.schemas import JsonObject, digest

PER_SCRIPT = 4  # rows of a script, whose words are compared with each other
SCRIPTS = 24  # of a world, whose first rows are compared
_WORD = re.compile(r"\w+")

Words: TypeAlias = "array[int]"
"""A mark of 8 bytes for each different word, good in this process."""
Place: TypeAlias = tuple[str, str]
"""Hash of a world, name of a script."""


def world_json(record: JsonObject) -> JsonObject:
    """What the manifest tells of a world."""
    spec, scripts = record["spec"], record["scripts"]
    return {
        "name": record["name"],
        "hash": digest(spec),
        "operations": len(spec["operations"]),
        "policies": len(spec["policies"]),
        # As those who read scripts name them: one without a name has its number.
        "scripts": [str(each.get("name", place)) for place, each in enumerate(scripts, 1)],
    }


class PlayCounts:
    """The dialogues in worlds of a split, in memory that grows with the scripts, not the rows."""

    def __init__(self) -> None:
        self.rows = Counter[Place]()
        # Of each script the rows whose ids have the smallest hashes: the same in any order.
        self.words: dict[Place, dict[str, Words]] = {}

    def add(self, dialogue: JsonObject) -> None:
        """Count a dialogue, as JSON, that plays in a world."""
        query = dialogue["query"]
        place = str(query["setting"]["hash"]), str(query["setting"].get("script", ""))
        self.rows[place] += 1
        kept, name = self.words.setdefault(place, {}), _rank(query["id"])
        if len(kept) < PER_SCRIPT or name < max(kept):
            kept[name] = _words(dialogue["messages"])
            self.words[place] = _first(kept)

    def told(self) -> JsonObject:
        """By the hash of a world: the rows of its scripts, and how alike they are (`shared`: the
        sum of the shares of words that two rows have in common; `pairs`: of how many)."""
        told: JsonObject = {}
        for hash in sorted({hash for hash, _ in self.rows}):
            places = sorted(place for place in self.rows if place[0] == hash)
            written = (self.words[place] for place in places if place[1])
            same = (pair for kept in written for pair in combinations(_in_order(kept), 2))
            chosen = nsmallest(SCRIPTS, places, key=lambda place: _rank(place[1]))
            firsts = (next(_in_order(self.words[place])) for place in chosen)
            told[hash] = {
                "scripts": {script: self.rows[hash, script] for _, script in places},
                "same": _alike(same),
                "other": _alike(combinations(firsts, 2)),
            }
        return told


def _rank(name: str) -> str:
    return hashlib.sha256(name.encode("utf-8", "surrogatepass")).hexdigest()


def _first(kept: dict[str, Words]) -> dict[str, Words]:
    return {name: kept[name] for name in islice(sorted(kept), PER_SCRIPT)}


def _in_order(kept: dict[str, Words]) -> Iterator[frozenset[int]]:
    return (frozenset(kept[name]) for name in sorted(kept))


def _words(messages: Iterable[JsonObject]) -> Words:
    """The words that user and assistant say."""
    said = (m.get("content") or "" for m in messages if m["role"] in ("user", "assistant"))
    return array("q", {hash(word) for text in said for word in _WORD.findall(text.lower())})


def _alike(pairs: Iterable[tuple[frozenset[int], frozenset[int]]]) -> JsonObject:
    shares = [len(a & b) / (len(a | b) or 1) for a, b in pairs]
    return {"pairs": len(shares), "shared": round(sum(shares), 3)}


# --- what those who show a version tell of its worlds


@dataclass(frozen=True)
class WorldTold:
    """A world and what came of it, over all splits."""

    name: str
    operations: int
    policies: int
    rows: int
    scripts: dict[str, int]  # rows of each script that gave any
    dry: tuple[str, ...]  # scripts that gave no row
    same: float | None  # mean share of words that two rows of a script have in common
    other: float | None  # the same of rows of different scripts

    @property
    def median(self) -> float:
        """Rows of a script."""
        return median(self.scripts.values()) if self.scripts else 0

    @property
    def most(self) -> int:
        return max(self.scripts.values(), default=0)


def worlds_told(manifest: JsonObject) -> list[WorldTold]:
    """The worlds of a version, by name; none of one without any."""
    told = manifest.get("worlds") or {"known": [], "splits": {}}
    found = []
    for world in told["known"]:
        parts = [
            split[world["hash"]] for split in told["splits"].values() if world["hash"] in split
        ]
        rows = sum((Counter[str](part["scripts"]) for part in parts), Counter[str]())
        found.append(
            WorldTold(
                name=world["name"],
                operations=world["operations"],
                policies=world["policies"],
                rows=rows.total(),
                scripts={script: count for script, count in rows.items() if script},
                dry=tuple(script for script in world["scripts"] if script not in rows),
                same=_mean([part["same"] for part in parts]),
                other=_mean([part["other"] for part in parts]),
            )
        )
    return found


def _mean(parts: Iterable[JsonObject]) -> float | None:
    parts = list(parts)
    pairs = sum(part["pairs"] for part in parts)
    return sum(part["shared"] for part in parts) / pairs if pairs else None
