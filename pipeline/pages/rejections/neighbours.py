"""Accepted dialogues that are most like a rejected record: what would have passed.

Those that call an API of the record come first, then those of its categories, then others; within
each, the nearest texts. Nearness is rapidfuzz's ratio of the words in order of the alphabet: it
needs no index and no stemmer, so that it serves every language and the few hundred candidates that
share an API, and its 0 to 100 can be told to a curator. (BM25, which API Search uses, ranks by
words that are rare in the corpus, without a scale.)
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from toolloom.pipeline.pages.reading import readable
from toolloom.pipeline.pages.rejections.table import Row, whole, words_of
from toolloom.pipeline.store.version import PARTS, Version
from toolloom.schemas import JsonObject
from toolloom.schemas.splits import api_id, need_of, needed

MOST = 10_000  # dialogues of a split that are looked through
TWINS = 95.0  # texts this like each other are rows of one template: one of them is enough
LOOKED_AT = 200  # of the best candidates, in search of ones that are no twins


@dataclass(frozen=True)
class Candidate:
    """What is known of an accepted dialogue without reading it again."""

    split: str
    place: int
    id: str
    apis: frozenset[str]
    categories: frozenset[str]
    text: str
    folded: str


@dataclass(frozen=True)
class Neighbour:
    """An accepted dialogue near a rejected record."""

    sample: JsonObject
    split: str
    shares: str  # "API", "category" or "" (the nearest text of what there is)
    likeness: float  # of the texts: 0 to 100


class Neighbourhood:
    """The accepted dialogues of a version, read when they are first asked for."""

    def __init__(self, version: Version) -> None:
        self._version = version
        self._known: dict[str, list[Candidate]] = {}

    def near(self, row: Row, count: int = 2) -> list[Neighbour]:
        """The `count` nearest accepted dialogues; fewer where there are fewer."""
        from rapidfuzz import fuzz, utils

        wanted = utils.default_process(row.text)
        apis, categories = set(row.apis), set(row.categories)

        def rank(one: Candidate) -> tuple[int, float, str]:
            shared = 2 if apis & one.apis else 1 if categories & one.categories else 0
            return -shared, -fuzz.token_sort_ratio(wanted, one.folded), one.id

        ranked = sorted(((rank(one), one) for one in self._candidates()), key=lambda x: x[0])
        chosen: list[tuple[tuple[int, float, str], Candidate]] = []
        for place, one in ranked[:LOOKED_AT]:
            twin = any(fuzz.ratio(one.folded, other.folded) >= TWINS for _, other in chosen)
            if not twin and len(chosen) < count:
                chosen.append((place, one))
        return [self._neighbour(place, one) for place, one in chosen]

    def _neighbour(self, place: tuple[int, float, str], one: Candidate) -> Neighbour:
        stored = whole(self._version, "samples", one.split, one.place)
        sample = {part: stored[part] for part in ("id", *PARTS)}
        return Neighbour(sample, one.split, ("", "category", "API")[-place[0]], -place[1])

    def _candidates(self) -> list[Candidate]:
        splits = self._version.splits("samples")
        for split in splits:
            if split not in self._known:
                self._known[split] = list(self._read(split))
        return [one for split in splits for one in self._known[split]]

    def _read(self, split: str) -> Iterator[Candidate]:
        for place, stored in enumerate(self._version.rows("samples", split)):
            if place == MOST:
                return
            with readable(self._version, stored):
                found = self._candidate(split, place, stored)
            yield found

    def _candidate(self, split: str, place: int, stored: JsonObject) -> Candidate:
        from rapidfuzz import utils

        dialogue = self._version.parsed(stored, "dialogue")
        apis, text = needed(need_of(dialogue)), words_of(dialogue)
        return Candidate(
            split=split,
            place=place,
            id=stored["id"],
            apis=frozenset(map(api_id, apis)),
            categories=frozenset(api["category"] for api in apis),
            text=text,
            folded=utils.default_process(text),
        )
