"""What curation reads of a row, which is a `Sample` as JSON, and the parts rows are compared by.

An instruction is the set of its runs of five letters, which needs no words and so serves every
language. Calls are the set of what they say: each function, and each argument with its value. Both
are sorted hashes, each once, that are the same on every machine.
"""

from __future__ import annotations

import hashlib
import re
import unicodedata
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from toolloom.schemas import API_SEARCH, Finding, JsonObject, Rejected
from toolloom.schemas.splits import signature

_GAP = re.compile(r"[\W_]+")
# Accents and vowel points, which people leave out at will: Latin, Greek, Cyrillic, Hebrew, Arabic.
_ACCENT = re.compile(
    "[\u0300-\u036f\u0591-\u05bd\u05bf\u05c1\u05c2\u05c4\u05c5\u05c7\u0610-\u061a\u064b-\u065f\u0670"
    "\u06d6-\u06dc\u06df-\u06e4\u1ab0-\u1aff\u1dc0-\u1dff\u20d0-\u20ff\ufe00-\ufe0f\ufe20-\ufe2f]"
)


def query(row: JsonObject) -> JsonObject:
    found: JsonObject = row["dialogue"]["query"]
    return found


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
    if not query(row).get("setting"):
        return instruction(row)
    messages = row["dialogue"]["messages"]
    return "\n".join(m["content"] or "" for m in messages if m["role"] in ("user", "assistant"))


def calls(row: JsonObject) -> list[tuple[str, Any]]:
    """Function and arguments of each call, in order, without API Search."""
    made = (
        call["function"]
        for message in row["dialogue"]["messages"]
        for call in message.get("tool_calls") or ()
    )
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
        row, stage, tuple(findings), id=query(row)["id"], provenance=row["provenance"]
    )


Parts: TypeAlias = NDArray[np.uint32]
Long: TypeAlias = NDArray[np.uint64]

LETTERS = 5
SEED = 1
WORDS = 3  # longer values of arguments are compared by runs of so many words
_DEPTH = 20


def text_parts(text: str) -> Parts:
    """The runs of five letters of a folded text; a shorter text as a whole."""
    letters = np.frombuffer(text.encode("utf-32-le", "surrogatepass"), "<u4").astype(np.uint64)
    runs = max(1, len(letters) - LETTERS + 1)
    found = np.zeros(runs, np.uint64)
    for place in range(min(LETTERS, len(letters))):
        found = found * np.uint64(0x100000001B3) + letters[place : place + runs]
    return _narrowed(mixed(found))


def _narrowed(values: Long) -> Parts:
    return np.unique((values >> np.uint64(32)).astype(np.uint32))


def mixed(values: Long) -> Long:
    """splitmix64's last steps: every bit of a value depends on all of its bits before."""
    values = (values ^ (values >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    values = (values ^ (values >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return values ^ (values >> np.uint64(31))


def call_parts(need: JsonObject) -> Parts:
    """What the calls of a need say. Those of another ability or scenario share nothing with it."""
    kind = f"{need['ability']} {need['scenario']}"
    said = sorted({f"{kind}\0{part}" for part in _calls(need["intent"])})
    return named_parts(said or [kind])


def named_parts(names: Iterable[str]) -> Parts:
    return _narrowed(np.array([hashed(name) for name in names], np.uint64))


def _calls(intent: Iterable[JsonObject]) -> Iterator[str]:
    for each in intent:
        yield each["api"]
        for place, value in _leaves(each["arguments"], "", 0):
            yield from (f"{each['api']}\0{place}\0{part}" for part in _said(value))
        for place, source in (each.get("references") or {}).items():
            yield f"{each['api']}\0.{place}\0→{source['call']}.{source['field']}"


def _leaves(value: Any, place: str, depth: int) -> Iterator[tuple[str, Any]]:
    """The values inside a value, with where they stand; those of a list all stand in one place."""
    if isinstance(value, dict) and value and depth < _DEPTH:
        for key, inner in value.items():
            yield from _leaves(inner, f"{place}.{key}", depth + 1)
    elif isinstance(value, list) and value and depth < _DEPTH:
        for inner in value:
            yield from _leaves(inner, place, depth + 1)
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


def hashed(text: str) -> int:
    """64 bits of a text."""
    found = hashlib.blake2b(text.encode("utf-8", "surrogatepass"), digest_size=8)
    return int.from_bytes(found.digest(), "little")


def jaccard(one: Parts, other: Parts) -> float:
    """How alike two sets are: what they share, of all that is in either."""
    shared = len(np.intersect1d(one, other, assume_unique=True))
    return shared / (len(one) + len(other) - shared)


def digests(sets: Sequence[Parts], slots: int) -> NDArray[np.uint32]:
    """MinHash (Broder, 1997): in each slot two sets agree as probably as they are alike."""
    from rensa import RMinHash

    ends = np.zeros(len(sets) + 1, np.uint64)
    np.cumsum([len(parts) for parts in sets], out=ends[1:])
    matrix = RMinHash.digest_matrix_from_flat_token_hashes(
        np.concatenate(sets).astype(np.uint64), ends, slots, SEED
    )
    return np.array(matrix.to_rows(), np.uint32)
