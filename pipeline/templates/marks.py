"""What the checks can match on in a value: words, numbers, days, times, names that mean the same.

Made with the checks' own readers, and generous: a mark too many costs an inspection, a mark too
few could let a row pass that should not. Then what stands around the slots of a skeleton:
constants, flags, and slots that stand together.
"""

from __future__ import annotations

import datetime as dt
import json
import re
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from functools import lru_cache
from itertools import chain, pairwise
from typing import Any, NamedTuple

from toolloom.pipeline.checks.evidence import POLES
from toolloom.pipeline.checks.grounding import leaves
from toolloom.pipeline.checks.schema import as_dict
from toolloom.pipeline.checks.text.dates import MONTHS, WEEKDAYS, dated, only_date
from toolloom.pipeline.checks.text.numbers import quantities
from toolloom.pipeline.checks.text.times import moments, only_time, seconds_in, spans_of_time, timed
from toolloom.pipeline.checks.text.words import (
    GROUPS,
    STOP,
    Word,
    content,
    first_word,
    fold,
    forms,
    letters,
    plain,
    spaced,
    stem,
    stems_of,
    words,
)
from toolloom.pipeline.dataset.unfold import MARK
from toolloom.schemas import JsonObject
from toolloom.schemas.splits import needed

_LONG = 8  # letters of a word in which a slip of the pen is forgiven
_IN_A_RUN = 5  # words that may be written as one
_PROSE = 6  # words of a text that may be told in other words
_LONGEST = 300  # letters of a value that is judged by its marks
UNITS = frozenset(
    """
    m meter meters metre metres km kilometer kilometers kilometre kilometres cm g gram grams kg
    kilogram kilograms mg ml l liter liters litre litres mb gb tb percent per k mn mio bn b hundred
    thousand million billion trillion dozen
    """.split()  # noqa: SIM905 - a table of words
)
_SHORT = re.compile(r"[A-Z]{2,6}")
_GLUED = re.compile(r"[\w/-]")
_NO_SPACES = re.compile(r"[\u0e00-\u0eff\u3040-\u30ff\u3400-\u9fff\uac00-\ud7af]+")
_SIGN = re.compile(r"[^\w\s.,;:!?'\"()\[\]{}<>/\\-]")
_LENGTH = re.compile(r"P(?:(\d+)W)?(?:(\d+)D)?(?:T(?:(\d+)H)?(?:(\d+)M)?(?:(\d+)S)?)?")
_STAMP = re.compile(
    r"\d{4}-\d{2}-\d{2}[T ]\d{2}:\d{2}(?::\d{2}(?:\.\d+)?)?\s?(?:Z|[+-]\d{2}:?\d{2})?\Z"
)
_MONTH = re.compile(r"\d{4}-(\d{2})")
# What ends a sentence, begins another reading of what follows, or turns what is said around.
_UNRULY = re.compile(
    r"[.!?…;:](?=\s|$)|[\n\r。！？{}<>\[\]()\"“”«»*`#|~]|__|(?<!\w)['‘]|['’](?!\w)|://|\s[-–—]\s"
)
_TURNING = frozenset(
    """
    no not never without neither nor cannot out isn't aren't wasn't weren't don't doesn't didn't
    except skip exclude excluding avoid off disable disabled hate can't won't n't decline remove
    if unless whether once should
    """.split()  # noqa: SIM905 - a table of words
)
# Beside a number they make a time of it.
PARTS_OF_A_DAY = frozenset(
    "am pm morning noon afternoon evening night midnight tonight today tomorrow".split()  # noqa: SIM905 - words
)
_FORMS: dict[str, set[str]] = {}
for _number, _group in enumerate(GROUPS):
    for _form in _group:
        _FORMS.setdefault(letters(_form) or _form, set()).add(f"alias:{_number}")


class ValueMarks(NamedTuple):
    """Two values can be matched by a check only if a mark of one is in `marks` or `open` of the
    other, or their numbers or long words are near each other."""

    marks: frozenset[str] = frozenset()
    open: frozenset[str] = frozenset()
    numbers: frozenset[float] = frozenset()
    dated: frozenset[float] = (
        frozenset()
    )  # in a day or time, which no other day or time is taken for
    long: frozenset[str] = frozenset()
    scaled: bool = (
        False  # a number with a unit, a share or a scale: it may be told as another number
    )
    prose: bool = False
    unruly: bool = False  # changes how what stands beside it is read

    def __or__(self, other: ValueMarks) -> ValueMarks:
        pairs: Iterable[tuple[Any, Any]] = zip(self, other, strict=True)
        return ValueMarks(*(one | another for one, another in pairs))


_NOTHING = ValueMarks()


def apart(each: Sequence[ValueMarks]) -> Iterator[ValueMarks]:
    """The marks of each value without those that all of them have."""
    fields = ("marks", "open", "numbers", "dated", "long")
    shared = {name: frozenset.intersection(*(getattr(m, name) for m in each)) for name in fields}
    for marks in each:
        yield marks._replace(**{n: getattr(marks, n) - common for n, common in shared.items()})


def marks_of(values: Iterable[Any], now: dt.datetime, flags: frozenset[str]) -> ValueMarks:
    """The marks of values that are chosen together. `flags`: the marks of a yes or no."""
    found = _NOTHING
    for value in values:
        for leaf in leaves(value):
            if isinstance(leaf, str):
                found |= _of_text(leaf, now)
            elif isinstance(leaf, bool):
                found |= _NOTHING._replace(marks=flags | {f"flag:{leaf}"})
            elif isinstance(leaf, int | float):
                found |= _NOTHING._replace(numbers=frozenset([_float(leaf)]))
        stack, sizes = [value], set[float]()
        while stack:
            part = stack.pop()
            if isinstance(part, list):
                sizes.add(len(part))
                stack += part
            elif isinstance(part, dict):
                stack += part.values()
        found |= _NOTHING._replace(numbers=frozenset(sizes), unruly=value in ("", [], {}))
    return found


def _float(number: float) -> float:
    try:
        return float(number)
    except OverflowError:
        return float("inf")


@lru_cache(maxsize=4096)
def _of_text(text: str, now: dt.datetime) -> ValueMarks:
    calendar, opened = frozenset(_calendar(text, now)), frozenset(_months(text, now))
    whole = text.strip()
    figures = not re.search(r"[^\W\dTZ_]", whole)  # a day, a time or both
    if figures and (only_date(whole, now.date()) or only_time(whole) or _STAMP.match(whole)):
        return _NOTHING._replace(
            marks=calendar, open=opened, dated=frozenset([*_dated(text, now), *_said(text)])
        )
    flat = plain(text)
    found = words(flat) if spaced(flat) == flat else (*words(flat), *words(spaced(flat)))
    meant = [w for w in found if w.folded not in STOP] or list(found)
    marks = {m for w in meant for m in _of_word(w)}
    marks |= set(_runs(found)) | set(_named(text)) | set(_SIGN.findall(text))
    marks |= {c[i : i + 2] for c in _NO_SPACES.findall(fold(text)) for i in range(len(c))}
    begun = {w.folded[:n] for w in meant for n in range(3, len(w.folded))}
    begun |= {f"capital:{w.folded[:1]}" for w in found if w.capital}
    return ValueMarks(
        calendar | marks,
        opened | begun | frozenset(_initials(text)),
        frozenset([*_said(text), *_lengths(text)]),
        frozenset(_dated(text, now)),
        frozenset(w.folded for w in meant if len(w.folded) >= _LONG),
        scaled=any(q.scale != 1 or q.percent or is_unit(q.unit) for q in quantities(text))
        or text.startswith("P"),
        prose=len(content(text)) >= _PROSE,
        unruly=any(w.folded in _TURNING or w.folded.endswith("n't") for w in found)
        or len(text) > _LONGEST
        or not text.strip()
        or bool(_UNRULY.search(text)),
    )


def _of_word(word: Word) -> Iterator[str]:
    root = stem(word.folded)
    yield from (word.folded, root, stem(word.folded.removesuffix("s")))
    yield from (f"pole:{n}" for n, (yes, no) in enumerate(POLES) if root in yes or root in no)
    if word.folded in MONTHS:
        yield f"month:{MONTHS[word.folded]}"
    if word.folded in WEEKDAYS:
        yield f"weekday:{WEEKDAYS[word.folded]}"


def _runs(found: tuple[Word, ...]) -> Iterator[str]:
    """Words that may be written together, and the groups of names they are among."""
    for size in range(1, _IN_A_RUN + 1):
        for start in range(len(found) - size + 1):
            run = "".join([w.folded for w in found[start : start + size]])
            yield from _FORMS.get(run, ())
            if size > 1:
                yield run


def _named(text: str) -> Iterator[str]:
    """Other names of it; capitals that may be initials."""
    found = words(plain(text))
    for form in forms(text):
        yield letters(form) or form
        yield from _FORMS.get(letters(form) or form, ())
    yield from _FORMS.get(fold(text.strip()), ())
    for word in found:
        if _SHORT.fullmatch(word.raw) and not _GLUED.match(text[word.end : word.end + 1]):
            yield from (f"capital:{letter}" for letter in word.raw.lower())


def _initials(text: str) -> Iterator[str]:
    capitals = [w.raw[0].lower() for w in words(plain(text)) if w.capital and w.folded not in STOP]
    for start in range(len(capitals) - 1):
        yield from ("".join(capitals[start:end]) for end in range(start + 2, start + 7))


def _calendar(text: str, now: dt.datetime) -> Iterator[str]:
    for day in chain.from_iterable(place.days for place in dated(text, now.date())):
        yield f"day:{day}"
    for moment in chain.from_iterable(place.times for place in timed(text)):
        yield f"time:{moment:%H:%M}"
    for told in moments(text, now):
        yield from (f"time:{told:%H:%M}", f"day:{told:%Y-%m-%d}")


def _months(text: str, now: dt.datetime) -> Iterator[str]:
    """By which names a day may be told."""
    for day in chain.from_iterable(place.days for place in dated(text, now.date())):
        yield from (f"month:{day.month}", f"weekday:{day.weekday()}")
    if month := _MONTH.fullmatch(text.strip()):
        yield f"month:{int(month[1])}"


def _said(text: str) -> Iterator[float]:
    for quantity in quantities(text):
        yield from map(_float, quantity.readings())


def _dated(text: str, now: dt.datetime) -> Iterator[float]:
    for place in dated(text, now.date()):
        for day in place.days:
            yield from (float(day.year), float(day.month), float(day.day))


def _lengths(text: str) -> Iterator[float]:
    """Lengths of time in seconds."""
    yield from map(_float, spans_of_time(text))
    length = _LENGTH.fullmatch(text)
    if length and any(length.groups()):
        sizes = (604800, 86400, 3600, 60, 1)
        yield sum(float(n or 0) * s for n, s in zip(length.groups(), sizes, strict=True))


def is_unit(word: str) -> bool:
    """Whether a number with this word after it may be told as another one."""
    return bool(seconds_in(word)) or word in UNITS


def units(text: str, now: dt.datetime) -> Iterator[str]:
    """The parts of a constant text that a value could be matched with: words and phrases."""
    flat = plain(text)
    yield from (w.raw for w in words(spaced(flat)) if w.folded not in STOP)
    phrases: tuple[Any, ...] = (*dated(flat, now.date()), *timed(flat), *quantities(flat))
    yield from (text[phrase.start : phrase.end] for phrase in phrases)


_GLUE = re.compile(r"[^\w\s]*_?")
_WORD = re.compile(r"[^\W\d_]+")
# Between two numbers, days or times these may make one of them.
_JOINING = frozenset(
    """
    to and through thru until till or of in the at past after before by x this tomorrow tonight a
    an half quarter hour hours minute minutes min mins h hr hrs second seconds day days night
    nights week weeks month months year years o clock
    """.split()  # noqa: SIM905 - a table of words
)


def texts(skeleton: JsonObject) -> Iterator[str]:
    """Every text that the checks compare with another, and the names of observed fields."""
    dialogue = skeleton["dialogue"]
    for message in dialogue["messages"]:
        content = message["content"] or ""
        if message["role"] == "tool":
            with suppress(ValueError, RecursionError):
                content = json.loads(content)
            yield from _strings(content)
        elif message["role"] != "system":
            yield content
        yield from (s for c in message["tool_calls"] for s in _strings(c["function"]["arguments"]))
    yield from (s for i in dialogue["query"]["intent"] for s in _strings(i["arguments"]))


def _strings(value: Any) -> Iterator[str]:
    """Strings, keys and numbers, as texts."""
    stack = [value]
    while stack:
        part = stack.pop()
        if isinstance(part, dict):
            stack += part.values()
            yield from map(spaced, part)
        elif isinstance(part, list):
            stack += part
            yield str(len(part))
        elif isinstance(part, str):
            yield part
        elif isinstance(part, int | float) and not isinstance(part, bool):
            yield json.dumps(part)


def constants(skeleton: JsonObject, now: dt.datetime) -> list[str]:
    """The words and phrases around the slots, each once, with those by which flags are said and
    the options of choices."""
    query = skeleton["dialogue"]["query"]
    found = {
        unit
        for text in texts(skeleton)
        for part in MARK.split(text)[::2]
        for unit in units(part, now)
    }
    for _, schema in _fields(query):
        options = schema.get("enum")
        found |= {o for o in options if isinstance(o, str)} if isinstance(options, list) else set()
    return sorted(found | _flag_words(query))


def flags(query: JsonObject) -> frozenset[str]:
    """The stems of the words by which a yes or no may be said."""
    return frozenset(stem for word in _flag_words(query) for stem in stems_of(word))


def _flag_words(query: JsonObject) -> set[str]:
    return {
        word
        for name, schema in _fields(query)
        if "boolean" in str(schema.get("type"))
        for text in (spaced(name), schema.get("description") or "", schema.get("title") or "")
        for word in _WORD.findall(str(text))
    }


def _fields(query: JsonObject) -> Iterator[tuple[str, JsonObject]]:
    """The fields of the APIs that are called, at every depth, with their names."""
    stack: list[tuple[str, Any]] = [
        ("", schema) for api in needed(query) for schema in (api["parameters"], api["returns"])
    ]
    while stack:
        name, schema = stack.pop()
        if not isinstance(schema, dict):
            continue
        yield name, schema
        stack += as_dict(schema.get("properties")).items()
        stack.append((name, schema.get("items")))


def scaled_slots(skeleton: JsonObject) -> Iterator[str]:
    """Slots with a unit, a share or a scale after them."""
    for text in texts(skeleton):
        parts = MARK.split(text)
        for slot, after in zip(parts[1::2], parts[2::2], strict=True):
            if after.lstrip(" -").startswith("%") or is_unit(first_word(after)):
                yield slot


def neighbours(skeleton: JsonObject) -> Iterator[tuple[str, str, bool]]:
    """Slots that stand together in a text, and whether they do whatever their values are.

    What nothing parts is one word; numbers, days and times may be one also over such words as
    «to».
    """
    for text in texts(skeleton):
        parts = MARK.split(text)
        slots = list(zip(parts[1::2], parts[2::2], strict=True))
        for (one, between), (other, _) in pairwise(slots):
            if _GLUE.fullmatch(between):
                yield one, other, True
            elif all(w.lower() in _JOINING for w in _WORD.findall(between)):
                yield one, other, False
