"""The values a text offers for an argument, to narrow a small model's schema to an `enum`."""

from __future__ import annotations

import datetime as dt
import re
from collections.abc import Iterable, Iterator
from typing import Any

from toolloom.pipeline.checks.plain import oddity
from toolloom.pipeline.checks.text.dates import dated, numbers_outside
from toolloom.pipeline.checks.text.phrases import is_code, said
from toolloom.pipeline.checks.text.times import moments, timed
from toolloom.pipeline.checks.text.words import STOP, Word, alone, clauses, plain, words
from toolloom.schemas import JsonObject

_CAP = 40
_LONGEST = 5  # words of a phrase
QUOTED = re.compile(r"\"([^\"\n]{1,200})\"|(?<!\w)'([^'\n]{2,200})'(?!\w)|«([^»\n]{1,200})»")
ADDRESS = re.compile(
    r"https?://[^\s<>\"')]+|[\w.+-]{1,64}@[\w-]{1,64}(?:\.[\w-]{1,64}){1,8}|(?<!\w)[@#]\w+"
)
CODE = re.compile(r"(?<![\w@./-])(?=[\w-]*\d)(?=[\w-]*[A-Za-z_])[\w-]{3,}|\+?\d[\d ().-]{5,}\d")
_ASKING = frozenset(
    """
    please find book show give tell get need want look help know check search make
    schedule set add create send start could can would i'd i'm what's hi hello hey
    thanks thank let reserve order
    """.split()  # noqa: SIM905 - a table of words
)


def spans(text: str, schema: JsonObject, now: dt.datetime) -> list[Any]:
    """Candidate values of an argument, best first, at most 40.

    Numbers for `integer` and `number`; ISO dates and times for a `format`; the enum's own values
    that the text mentions, else all of them; for strings addresses, codes, quotations, names and
    phrases, longest first. A list offers what its items would.
    """
    if oddity(schema) or not isinstance(schema, dict):
        return []
    if isinstance(schema.get("enum"), list):
        choices = schema["enum"]
        return [c for c in choices if isinstance(c, str) and said(c, text)] or list(choices)
    kind = schema.get("type")
    kinds = kind if isinstance(kind, list) else [kind]
    if "array" in kinds and isinstance(schema.get("items"), dict):
        return spans(text, schema["items"], now)
    if "integer" in kinds or "number" in kinds:
        return _numbers(text, now.date(), whole="number" not in kinds)
    if "boolean" in kinds:
        return [True, False]
    found = _strings(text, schema.get("format"), now)
    return _unique(v for v in found if "format" in schema or said(v, text))


def _unique(found: Iterable[Any]) -> list[Any]:
    return list(dict.fromkeys(found))[:_CAP]


def _numbers(text: str, today: dt.date, whole: bool) -> list[Any]:
    found = numbers_outside(text, today)
    return _unique(n for n in found if not whole or n == int(n))


def _strings(text: str, kind: Any, now: dt.datetime) -> Iterator[str]:
    today = now.date()
    days = [d.isoformat() for place in dated(text, today) for d in sorted(place.days)]
    hours = [f"{t:%H:%M:%S}" for place in timed(text) for t in sorted(place.times)]
    if kind == "date":
        yield from days
    elif kind == "time":
        yield from hours
    elif kind == "date-time":
        yield from (f"{m:%Y-%m-%dT%H:%M:%S}" for m in sorted(moments(text, now)))
        yield from (f"{d}T{t}" for d in days or [today.isoformat()] for t in hours or ["00:00:00"])
    elif kind == "email":
        yield from (m.group() for m in ADDRESS.finditer(text) if "@" in m.group()[1:])
    elif kind in {"uri", "url"}:
        yield from (m.group() for m in ADDRESS.finditer(text) if "://" in m.group())
    else:
        yield from _phrases(text)


def _phrases(text: str) -> Iterator[str]:
    flat = plain(text)
    yield from (m.group().rstrip(".,;:!?") for m in ADDRESS.finditer(flat))
    yield from (next(g for g in m.groups() if g) for m in QUOTED.finditer(flat))
    yield from (m.group() for m in CODE.finditer(flat) if is_code(m.group()))
    yield from sorted(_names(flat), key=len, reverse=True)
    yield from sorted(_grams(flat), key=lambda p: (-len(p.split()), -len(p)))


def _names(text: str) -> Iterator[str]:
    """Capitalised runs, small words between capitals included; not the first word alone."""
    for clause in clauses(text):
        run: list[Word] = []
        for word in (*clause, Word("", "", 0, 0)):
            if word.capital and (run or word.folded not in STOP | _ASKING):
                run.append(word)
            elif not (run and word.folded in {"of", "the", "de", "la", "and", "&"}):
                if run and (len(run) > 1 or run[0].start > 0):
                    yield text[run[0].start : run[-1].end]
                run = []


def _grams(text: str) -> Iterator[str]:
    """Runs of one to five words within a clause that look like a noun phrase."""
    for clause in clauses(text):
        for first, start in enumerate(clause):
            if _edge(start):
                continue
            for last in clause[first : first + _LONGEST]:
                inside = list(words(text[start.start : last.end]))
                if _edge(last) or not alone(text, start.start, last.end):
                    continue
                if not any(w.folded in _ASKING for w in inside):
                    yield text[start.start : last.end]


def _edge(word: Word) -> bool:
    """Words a phrase neither begins nor ends with; capitals as in «US» are a name, not a «us»."""
    if len(word.raw) > 1 and word.raw.isupper():
        return False
    return word.folded in STOP or word.folded in _ASKING
