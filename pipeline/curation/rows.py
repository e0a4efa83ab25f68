"""What curation reads of a row, which is a `Sample` as JSON."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable
from typing import Any

from toolloom.pipeline.splits import signature
from toolloom.schemas import API_SEARCH, Finding, JsonObject, Rejected

_GAP = re.compile(r"[\W_]+")


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
    if not text.isascii():
        spread = unicodedata.normalize("NFKD", text)
        text = "".join(c for c in spread if not unicodedata.combining(c))
    return _GAP.sub(" ", text.casefold()).strip() or text


def reject(row: JsonObject, stage: str, findings: Iterable[Finding]) -> Rejected:
    """A row with what was found of it."""
    found = tuple(findings)
    return Rejected(
        id=query(row)["id"],
        stage=stage,
        agent="",
        reason=found[0].reason,
        detail=found[0].detail,
        findings=found,
        record=row,
        provenance=row["provenance"],
    )
