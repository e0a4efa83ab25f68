"""What curation reads of a row, which is a `Sample` as JSON."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable
from typing import Any

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
    """All that the user says; as `text` in known.jsonl."""
    return "\n".join(turns(row))


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
    plain = "".join(c if c.isalnum() or _is_vowel(c) else " " for c in spread)
    return " ".join(plain.split()) or text


def _is_vowel(letter: str) -> bool:
    """Marks that are letters to their readers, as in Hindi or Thai; `isalnum` knows only bases."""
    return unicodedata.category(letter).startswith("M")


def reject(row: JsonObject, stage: str, findings: Iterable[Finding]) -> Rejected:
    """A row with what was found of it."""
    return Rejected.of(
        row, stage, tuple(findings), id=query(row)["id"], provenance=row["provenance"]
    )
