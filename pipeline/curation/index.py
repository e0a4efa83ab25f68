"""All that benchmarks say, by what it can be found by; their texts stay on the disk."""

from __future__ import annotations

import json
import re
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from toolloom.pipeline.curation.benchmarks import BenchmarkRow, Gold
from toolloom.pipeline.curation.callforms import (
    ENOUGH,
    fits,
    plain_call,
    plain_name,
    says,
    written,
)
from toolloom.pipeline.curation.overlap import HashTable, runs, shared, whole, words
from toolloom.pipeline.curation.shelf import SpillFile
from toolloom.pipeline.curation.shingles import hashed
from toolloom.schemas import JsonObject

SHOWN = 1000  # letters of a text that are shown
_ROLE = re.compile(r"^\s*(?:user|human|ai|assistant|first utterance)\s*:", re.IGNORECASE)


@dataclass(frozen=True)
class Match:
    """What a row and a benchmark have in common."""

    check: str  # words, text or calls
    benchmark: str
    place: str
    match: str  # as it was compared
    row: str
    theirs: str


class BenchmarkIndex:
    """Rows of benchmarks, looked up by runs of words, short texts and calls."""

    def __init__(self, scratch: Path) -> None:
        self._shelf = SpillFile(scratch)
        self._runs, self._wholes, self._calls = HashTable(), HashTable(), HashTable()
        self._open: dict[str, list[tuple[Gold, int]]] = defaultdict(list)  # with alternatives
        self._size: dict[int, int] = {}  # calls of rows with several
        self.rows = self.texts = self.calls = self.unread = 0

    def add(self, benchmark: str, item: BenchmarkRow) -> None:
        self.rows += 1
        self.unread += item.unread
        for text in item.texts:
            self._add_text(benchmark, item.place, text)
        if item.calls:
            self._add_calls(benchmark, item)

    def _add_text(self, benchmark: str, place: str, text: str) -> None:
        found = words(text)
        short = {whole(words(_ROLE.sub("", line))) for line in (text, *text.splitlines())}
        hashes = runs(found)
        if not len(hashes) and short == {None}:
            return
        number = len(self._shelf)
        self._note(benchmark, place, text)
        self._runs.add(hashes.tolist(), number)
        self._wholes.add([each for each in short if each is not None], number)
        self.texts += 1

    def _add_calls(self, benchmark: str, item: BenchmarkRow) -> None:
        number = len(self._shelf)
        self._note(benchmark, item.place, "; ".join(map(_written, item.calls)))
        self.calls += len(item.calls)
        if len(item.calls) > 1:
            self._size[number] = len(item.calls)
        for gold in item.calls:
            if gold.alternatives:
                self._open[plain_name(gold.name)].append((gold, number))
            else:
                self._calls.add([hashed(plain_call(gold.name, gold.arguments))], number)

    def _note(self, *texts: str) -> None:
        self._shelf.put(json.dumps(texts).encode())

    def _noted(self, number: int) -> tuple[str, str, str]:
        benchmark, place, text = json.loads(self._shelf.get(number))
        return benchmark, place, text

    def close(self) -> None:
        """Make ready for look-ups; nothing is added any more."""
        self._runs.close(once=True)
        self._wholes.close(once=True)
        self._calls.close(once=False)

    def discard(self) -> None:
        self._shelf.close()

    def text(self, turns: Sequence[str]) -> Match | None:
        """The first words of a user's turns that a benchmark has."""
        for turn in turns:
            found = words(turn)
            if hit := self._runs.first(runs(found)):
                benchmark, place, theirs = self._noted(hit[1])
                if match := shared(found, hit[0], words(theirs)):
                    return _match("words", benchmark, place, match, turn, theirs)
        for text in ("\n".join(turns), *turns[:1]):
            found = words(text)
            for number in self._wholes.all(whole(found) or 0)[:1]:
                benchmark, place, theirs = self._noted(number)
                return _match("text", benchmark, place, " ".join(found), text, theirs)
        return None

    def call(self, calls: Sequence[tuple[str, Any]]) -> Match | None:
        """The first of a row's calls, or all of them, that a benchmark has as gold."""
        made = [(name, arguments) for name, arguments in calls if isinstance(arguments, dict)]
        in_all: set[int] | None = None
        for name, arguments in made:
            among = self._having(name, arguments)
            if among and says(arguments) >= ENOUGH:
                return self._matched([(name, arguments)], min(among))
            in_all = among if in_all is None else in_all & among
        together = sum(says(arguments) for _, arguments in made)
        same = [n for n in sorted(in_all or ()) if self._size.get(n, 1) == len(made)]
        if same and len(made) == len(calls) and together >= ENOUGH:
            return self._matched(made, same[0])
        return None

    def _having(self, name: str, arguments: JsonObject) -> set[int]:
        """The benchmarks' rows with such a call."""
        found = set(self._calls.all(hashed(plain_call(name, arguments))))
        golds = self._open.get(plain_name(name), ())
        return found | {number for gold, number in golds if fits(arguments, gold.arguments)}

    def _matched(self, made: Sequence[tuple[str, JsonObject]], number: int) -> Match:
        benchmark, place, theirs = self._noted(number)
        match = "; ".join(plain_call(*call) for call in made)
        return _match("calls", benchmark, place, match, "; ".join(_each(made)), theirs)


def _match(check: str, benchmark: str, place: str, match: str, row: str, theirs: str) -> Match:
    """With texts cut to what can be shown, around what matches."""
    return Match(check, benchmark, place, match[:SHOWN], _cut(row, match), _cut(theirs, match))


def _cut(text: str, match: str) -> str:
    if len(text) <= SHOWN:
        return text
    found = text.casefold().find(" ".join(match.split()[:2]))
    start = max(0, found - SHOWN // 4)
    return f"{'…' if start else ''}{text[start : start + SHOWN]}…"


def _written(gold: Gold) -> str:
    return written(gold.name, gold.arguments)


def _each(made: Sequence[tuple[str, JsonObject]]) -> Iterator[str]:
    return (written(*call) for call in made)
