"""Whether a text tells a fact: a value of a result, in whatever words people have for it.

Where `grounding.says` asks whether a user said an argument, a fact that is true, nothing or none at
all has to be told too: «breakfast comes with it», «free of charge», «nobody is ahead of you».
"""

from __future__ import annotations

import datetime as dt
import re
from typing import Any

from toolloom.pipeline.checks.grounding import about, mentions
from toolloom.pipeline.checks.replies import Evidence, number_held
from toolloom.pipeline.checks.text.numbers import quantities
from toolloom.pipeline.checks.text.words import fold, sentences, stem, stems, words
from toolloom.schemas import JsonObject

_DENIED = re.compile(
    r"\b(?:no|not|never|none|nothing|nobody|neither|nor|without|off|\w+n't|cannot)\b"
)
_NONE = re.compile(r"\b(?:no|none|nothing|nobody|without)\b|(?:\bnot|n't) any")
_UNPAID = re.compile(
    r"\b(?:no|without|any) (?:\w+ )?(?:charge|fee|cost|fine)s?\b|\bfree of charge\b"
    r"|\bnothing (?:\w+ )?to (?:pay|settle)\b|\bnothing (?:is )?(?:due|owed)\b"
    r"|\bcosts? (?:\w+ )?nothing\b|\b(?:owe|cost|pay) anything\b"
)
_FREE = re.compile(r"\bfree\b(?! to\b)")
_NONE_LEFT = re.compile(r"\b(?:none|nothing|not any|no more) (?:left|remain\w*)|\bsold out\b")
_PAID = stems("fee charge cost price fine amount total deposit due owed")
_MINOR = stems("pence cents minor")
_MONTHS, _YEARS = stem("months"), {"year", "years"}
_PARTS: dict[float, str] = {50: "half", 100: "(?:fully|all)"}  # percents
_NAME = re.compile(r"[A-Z]\w+(?: [A-Z]\w+){1,4}")
_SIZE = re.compile(r"\d+(?:x\d+)+")
_TITLE = "(?:Dr|Mr|Mrs|Ms|Miss|Prof|Professor)"  # a last word alone may be another row's
_NEAR = 4  # words between a denial and what it denies


def tells(text: str, value: Any, schema: JsonObject, now: dt.datetime) -> bool:
    """Whether the text tells the value of a field; `schema`: its own, with its name as title."""
    if isinstance(value, bool):
        return any(_claims(part, schema, value) for part in sentences(text))
    if value in (None, "", []):
        return any(_claims(part, schema, False, len(part)) for part in sentences(text))
    if mentions(text, value, schema, now):
        return True
    if value == 0:
        return any(_nothing(part, schema) for part in sentences(text))
    if isinstance(value, int | float):
        return _number(text, value, schema, now)
    if isinstance(value, str) and _SIZE.fullmatch(value):
        return bool(re.search(rf"\b{value.replace('x', ' ?(?:x|×|by) ?')}\b", text))
    if isinstance(value, str) and _NAME.fullmatch(value):
        return bool(re.search(rf"\b{_TITLE}\.? {re.escape(value.split()[-1])}\b", text))
    return False


def _claims(text: str, schema: JsonObject, value: bool, reach: int = _NEAR) -> bool:
    """Whether a sentence says yes, or no, to what a field is about. To be about it takes its name,
    or two of the words of name and description; to deny it takes one."""
    title, others = about(schema)
    found = words(text)
    stems = [stem(word.folded) for word in found]
    places = [place for place, each in enumerate(stems) if each in title | others]
    near = {i for place in places for i in range(place - reach, place + reach)}
    denied = _DENIED.search(" ".join(word.folded for i, word in enumerate(found) if i in near))
    known = {stems[place] for place in places}
    named = len(known) >= min(len(title | others), 2) > 0 or (title and title <= known)
    return bool(denied) if not value else bool(named) and not denied


def _nothing(text: str, schema: JsonObject) -> bool:
    title, others = about(schema)
    folded, named = fold(text), title & stems(text)
    if _NONE_LEFT.search(folded) or (_NONE.search(folded) and _claims(text, schema, False)):
        return True
    paid = (title | others) & _PAID
    return bool(paid and (_UNPAID.search(folded) or (named and _FREE.search(folded))))


def _number(text: str, value: float, schema: JsonObject, now: dt.datetime) -> bool:
    """Rounded, scaled, in another unit of money or time."""
    known = frozenset[str]().union(*about(schema))
    evidence = Evidence((), (value, *([value / 100] if known & _MINOR else [])), (), now)
    told = [each for each in quantities(text) if each.stated]
    years = [each.value * 12 for each in told if each.unit in _YEARS and _MONTHS in known]
    if stem("percent") in known and (part := _PARTS.get(value)):
        return bool(re.search(rf"\b{part}\b", fold(text)))
    return value in years or any(number_held(each, text, evidence) for each in told)
