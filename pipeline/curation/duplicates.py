"""Rows that there are too many of: that say the same as another, make the same calls as too many
others, or have a value that a split has too many of.

Rows are taken one after the other: those of known splits, then tests and validation, then train,
each in its order. A row goes if it is like one that stayed, so that no two rows that stay are
alike, and the row that is named in its place is there.

An instruction is the set of its runs of five letters, which needs no words and so serves every
language. Calls are the set of what they say: each function, and each argument with its value. Which
sets may be alike is told by MinHash in bands (Leskovec, Rajaraman and Ullman, section 3.4); the
sets themselves decide.

A value may have at most `factor` times as many rows as the median value of its split had when the
rows came in. A hash of what a row says decides whether it stays, so that neither its place nor its
number matters.
"""

from __future__ import annotations

import hashlib
import json
import re
import unicodedata
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Sequence, Set
from dataclasses import dataclass
from statistics import median
from typing import Any, TypeAlias

from rensa import RMinHash, RMinHashLSH

from toolloom.pipeline.stage import Sifted, StageInput
from toolloom.schemas import (
    API_SEARCH,
    Dimension,
    Finding,
    JsonObject,
    Reason,
    Rejected,
    Scenario,
    Split,
)
from toolloom.schemas.splits import api_id, need_of, needed, signature, split_of

_GAP = re.compile(r"[\W_]+")
# Accents and vowel points, which people leave out at will: Latin, Greek, Cyrillic, Hebrew, Arabic.
_ACCENT = re.compile(
    "[\u0300-\u036f\u0591-\u05bd\u05bf\u05c1\u05c2\u05c4\u05c5\u05c7\u0610-\u061a\u064b-\u065f\u0670"
    "\u06d6-\u06dc\u06df-\u06e4\u1ab0-\u1aff\u1dc0-\u1dff\u20d0-\u20ff\ufe00-\ufe0f\ufe20-\ufe2f]"
)


def turns(row: JsonObject) -> list[str]:
    """What the user says, turn by turn."""
    messages = row["dialogue"]["messages"]
    return [message["content"] or "" for message in messages if message["role"] == "user"]


def instruction(row: JsonObject) -> str:
    """All that the user says."""
    return "\n".join(turns(row))


def compared(row: JsonObject) -> str:
    """The text that a row must not share with another: what the user says; in a world all that is
    said, as one request may have another answer in another state."""
    if not need_of(row).get("setting"):
        return instruction(row)
    spoken = (m for m in row["dialogue"]["messages"] if m["role"] in ("user", "assistant"))
    return "\n".join(m["content"] for m in spoken if m["content"])


def calls(row: JsonObject) -> list[tuple[str, Any]]:
    """Function and arguments of each call, in order, without API Search."""
    messages = row["dialogue"]["messages"]
    made = [call["function"] for m in messages for call in m.get("tool_calls") or ()]
    return [(c["name"], c["arguments"]) for c in made if c["name"] != API_SEARCH.function]


def call_signature(need: JsonObject) -> str:
    """The calls of a need, among those of its ability and scenario."""
    return f"{need['ability']} {need['scenario']} {signature(need['intent'])}"


def folded(text: str) -> str:
    """Case, accents, punctuation and spaces made equal; the text itself if nothing is left."""
    if text.isascii():
        return _GAP.sub(" ", text.casefold()).strip() or text
    spread = _ACCENT.sub("", unicodedata.normalize("NFKD", text)).casefold()
    # Marks are letters to their readers, as in Hindi or Thai; `isalnum` knows only bases.
    plain = "".join(c if c.isalnum() or unicodedata.category(c)[0] == "M" else " " for c in spread)
    return " ".join(plain.split()) or text


def reject(row: JsonObject, stage: str, findings: Iterable[Finding]) -> Rejected:
    """A row with what was found of it."""
    return Rejected.of(
        row, stage, tuple(findings), id=need_of(row)["id"], provenance=row["provenance"]
    )


def hashed(text: str) -> int:
    """64 bits of a text, the same on every machine."""
    found = hashlib.blake2b(text.encode("utf-8", "surrogatepass"), digest_size=8)
    return int.from_bytes(found.digest(), "little")


LETTERS = 5
WORDS = 3  # longer values of arguments are compared by runs of so many words


def text_parts(text: str) -> Set[str]:
    """The runs of five letters of a folded text; a shorter text as a whole."""
    return {text[i : i + LETTERS] for i in range(max(1, len(text) - LETTERS + 1))}


def call_parts(need: JsonObject) -> Set[str]:
    """What the calls of a need say. Those of another ability or scenario share nothing with it."""
    found: set[str] = set()
    for each in need["intent"]:
        own = [each["api"]]
        for place, value in _leaves(each["arguments"]):
            own += (f"{each['api']}\0{place}\0{part}" for part in _said(value))
        for place, source in (each.get("references") or {}).items():
            own.append(f"{each['api']}\0.{place}\0→{source['call']}.{source['field']}")
        found.update(f"{need['ability']} {need['scenario']}\0{part}" for part in own)
    return found


def _leaves(value: Any, place: str = "") -> Iterator[tuple[str, Any]]:
    """The values inside a value, with where they stand; those of a list all stand in one place."""
    if isinstance(value, dict) and value:
        for key, inner in value.items():
            yield from _leaves(inner, f"{place}.{key}")
    elif isinstance(value, list) and value:
        for inner in value:
            yield from _leaves(inner, place)
    else:
        yield place, value


def _said(value: Any) -> list[str]:
    """A value as text, a longer one as its runs of words; 5, 5.0 and "5" are one."""
    if isinstance(value, float) and value.is_integer() and abs(value) < 2**53:
        value = int(value)
    found = folded(value).split() if isinstance(value, str) else [repr(value)]
    if len(found) <= WORDS + 1:
        return [" ".join(found)]
    return [" ".join(found[i : i + WORDS]) for i in range(len(found) - WORDS + 1)]


def jaccard(one: Set[str], other: Set[str]) -> float:
    """How alike two sets are: what they share, of all that is in either."""
    shared = len(one & other)
    return shared / (len(one) + len(other) - shared)


BANDS = 26
MOST_SLOTS = 8  # in a band
RECALL = 0.99  # of the pairs that are just alike enough; of those that are more, nearly all
LOOKED_AT = 16  # rows that are compared with a row, those whose MinHash is most alike
_SEED = 1


def slots_in_band(near: float) -> int:
    """As many as still find pairs of this likeness: the more, the fewer are looked at in vain."""
    found = 1
    while found < MOST_SLOTS and 1 - (1 - near ** (found + 1)) ** BANDS >= RECALL:
        found += 1
    return found


@dataclass(frozen=True, slots=True)
class Side:
    """What rows are compared by: their words or their calls."""

    whole: str
    said: Set[str] | None = None  # parts; None: the runs of letters of the whole

    @property
    def parts(self) -> Set[str]:
        return text_parts(self.whole) if self.said is None else self.said


class SimilarRows:
    """Rows that stay, by a side of theirs."""

    def __init__(self, near: float, least: int = 1) -> None:
        """`least`: of so many rows that are alike none is overlooked."""
        self._near, self._slots = near, BANDS * slots_in_band(near)
        self._most = max(LOOKED_AT, least)
        self._index = RMinHashLSH(near, self._slots, BANDS)
        self._equal = defaultdict[str, list[int]](list)
        self._sides: dict[int, tuple[Side, RMinHash]] = {}

    def _digest(self, parts: Set[str]) -> RMinHash | None:
        if self._near == 1 or not parts:
            return None
        made = RMinHash(self._slots, _SEED)
        made.update(list(parts))
        return made

    def add(self, row: int, side: Side) -> None:
        self._equal[side.whole].append(row)
        if digest := self._digest(side.parts):
            self._sides[row] = side, digest
            self._index.insert(row, digest)

    def like(self, side: Side) -> list[Fate]:
        """The rows that are equal or near to this one: equal ones first, then the likeliest."""
        parts, equal = side.parts, self._equal.get(side.whole, ())
        found = [(True, 1.0, row) for row in equal]
        if digest := self._digest(parts):
            met = sorted({*self._index.query(digest)}.difference(equal))
            met.sort(key=lambda row: -digest.jaccard(self._sides[row][1]))
            for row in met[: self._most]:
                if (likeness := jaccard(parts, self._sides[row][0].parts)) >= self._near:
                    found.append((False, likeness, row))
        return found


Fate: TypeAlias = tuple[bool, float, int]
"""Whether a row is equal to another, how like it is, and that row."""

KNOWN, HELD_OUT, TRAINED_ON = range(3)  # the order in which rows are taken


@dataclass(frozen=True, slots=True)
class ComparedRow:
    """A row as far as it is compared."""

    id: str
    turn: int
    text: Side
    calls: Side | None  # None: no calls make it like another

    @classmethod
    def of(cls, text: str, need: JsonObject, turn: int) -> ComparedRow:
        if need.get("setting"):  # how often a script of a world is told is a dial of its own
            return cls(need["id"], turn, Side(folded(text), frozenset()), None)
        made = Side(call_signature(need), call_parts(need)) if need["intent"] else None
        return cls(need["id"], turn, Side(folded(text)), made)


def deduplicate(given: StageInput) -> Iterator[Sifted]:
    """The stage `deduplicated`."""
    rows = [ComparedRow.of(row["text"], row, KNOWN) for _, row in given.known.objects()]
    for _, row in given.rows.objects():
        need = need_of(row)
        turn = TRAINED_ON if split_of(given.recipe.splits, need) is Split.TRAIN else HELD_OUT
        rows.append(ComparedRow.of(compared(row), need, turn))
    fallen = _fallen(rows, given)
    for number, line in enumerate(given.rows, given.known.count):
        if finding := fallen.get(number):
            yield reject(json.loads(line), given.stage, [finding])
        else:
            yield line


def _fallen(rows: Sequence[ComparedRow], given: StageInput) -> dict[int, Finding]:
    """What is found of each row that goes."""
    plan, fallen = given.recipe.curation, dict[int, Finding]()
    texts, calls = SimilarRows(plan.near), SimilarRows(plan.near, plan.same_calls)
    for number in sorted(range(len(rows)), key=lambda n: rows[n].turn):
        given.rows.check()
        row = rows[number]
        if row.turn != KNOWN:
            same_text = texts.like(row.text)
            alike = calls.like(row.calls) if row.calls and not same_text else []
            if same_text or len(alike) >= plan.same_calls:
                fate = max(same_text or alike, key=lambda found: found[:2])
                all_equal = sum(equal for equal, _, _ in alike) >= plan.same_calls
                exactly = fate[0] if same_text else all_equal
                fallen[number] = _told(bool(same_text), exactly, fate, rows, given)
                continue
        texts.add(number, row.text)
        if row.calls:
            calls.add(number, row.calls)
    return fallen


def _told(
    text: bool, exactly: bool, fate: Fate, rows: Sequence[ComparedRow], given: StageInput
) -> Finding:
    _, similarity, other = fate
    published = given.recipe.regenerate
    place = f" in {published.version}" if published and rows[other].turn == KNOWN else ""
    named = f"{rows[other].id}{place}"
    same = "the same" if exactly else "nearly the same"
    likeness = "" if exactly else f" (similarity {similarity:.2f})"
    if text:
        check, detail = "instruction", f"The user says {same} as in {named}{likeness}."
    else:
        most = given.recipe.curation.same_calls
        made = "1 row makes" if most == 1 else f"{most} rows make"
        check, detail = "calls", f"{made} {same} calls already, such as {named}{likeness}."
    reason = Reason.EXACT_DUPLICATE if exactly else Reason.NEAR_DUPLICATE
    return Finding(check=check, reason=reason, detail=detail)


def balance(given: StageInput) -> Iterator[Sifted]:
    """The stage `balanced`."""
    factors = given.recipe.curation.balance
    # Not in the order of the recipe, which decides nothing else.
    dimensions = [dimension for dimension in Dimension if dimension in factors]
    hashes: list[int] = []
    values: dict[Dimension, list[tuple[str, str]]] = {each: [] for each in dimensions}
    for _, sample in given.rows.objects():
        need = need_of(sample)
        split = split_of(given.recipe.splits, need).value
        hashes.append(hashed(f"{folded(instruction(sample))}\0{call_signature(need)}"))
        for dimension in dimensions:
            values[dimension].append((split, value(need, dimension)))
    fallen: dict[int, Finding] = {}
    for dimension in dimensions:
        came, left = Counter(values[dimension]), defaultdict[tuple[str, str], list[int]](list)
        for row in sorted(set(range(len(hashes))) - fallen.keys(), key=hashes.__getitem__):
            left[values[dimension][row]].append(row)
        for (split, name), rows in left.items():
            middle = median(count for (where, _), count in came.items() if where == split)
            most = max(1, int(factors[dimension] * middle))
            detail = (
                f"{split} has {came[split, name]:,} rows of {dimension.value} «{name}», and "
                f"{middle:,g} of the median one: {most:,} stay."
            )
            finding = Finding(check="balance", reason=Reason.OVERREPRESENTED, detail=detail)
            fallen.update(dict.fromkeys(rows[most:], finding))
    for number, line in enumerate(given.rows):
        if number in fallen:
            yield reject(json.loads(line), given.stage, [fallen[number]])
        else:
            yield line


def value(need: JsonObject, dimension: Dimension) -> str:
    """What a row counts as. One with APIs of several categories counts for the first call's."""
    if dimension is Dimension.CATEGORY:
        categories = {api_id(api): api["category"] for api in needed(need)}
        found = (categories[i["api"]] for i in need["intent"] if i["api"] in categories)
        return str(next(found, ""))
    if dimension is Dimension.CALLS:
        return str(len(need["intent"]) if need["scenario"] != Scenario.IRRELEVANCE else 0)
    return str(need[dimension.value])
