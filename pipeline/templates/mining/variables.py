"""Which values of a sample are one and the same: told by the user, passed in calls, echoed.

And the forms a value is said in: other letters, number words, dates as people write them. A form is
a function of the value alone, so that it can be told for every other value too.
"""

from __future__ import annotations

import datetime as dt
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any, TypeAlias

from toolloom.pipeline.checks.evidence import is_status
from toolloom.pipeline.checks.grounding import close, same
from toolloom.pipeline.checks.text.phrases import is_code
from toolloom.pipeline.checks.text.words import STOP, content, fold, spaced, stem, words
from toolloom.pipeline.templates.mining.survey import LONGEST, SampleValue, SampleValues
from toolloom.schemas import JsonObject, canonical

Form: TypeAlias = Callable[[Any], str | None]
"""The text of a value in this form; None for a value that has none."""

ITSELF = ""
"""The form of a string that stands as it is, or of a number in plain figures."""

TEXT = "text"
"""The form of a number that stands alone where only text may."""

_DAY = re.compile(r"\d{4}-\d{2}-\d{2}")
_CLOCK = re.compile(r"([01]\d|2[0-3]):([0-5]\d)(?::00)?")
_HUMP = re.compile(r"(?<=[a-z0-9])(?=[A-Z])")
_MOST = 1e15
_ONES = """zero one two three four five six seven eight nine ten eleven twelve thirteen fourteen
fifteen sixteen seventeen eighteen nineteen""".split()  # noqa: SIM905 - a table of words
_TENS = "twenty thirty forty fifty sixty seventy eighty ninety".split()  # noqa: SIM905 - likewise


def is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def day_of(value: Any) -> dt.date | None:
    """The day that a text in ISO 8601 is."""
    if not isinstance(value, str) or not _DAY.fullmatch(value):
        return None
    try:
        return dt.date.fromisoformat(value)
    except ValueError:
        return None


def clock_of(value: Any) -> dt.time | None:
    """The time of day that a text such as `19:30` is."""
    found = _CLOCK.fullmatch(value) if isinstance(value, str) else None
    return dt.time(int(found[1]), int(found[2])) if found else None


def texts(value: Any) -> Iterator[tuple[str, str]]:
    """Every form of a value with its text, the plainest first; none is told twice."""
    seen: set[str] = set()
    for name, form in _forms_of(value).items():
        text = form(value)
        if text and text not in seen:
            seen.add(text)
            yield name, text


def said_as(value: Any, form: str) -> str | None:
    """The text of a value in a form; None if it has none."""
    if form == TEXT:
        return plain_number(value) if is_number(value) else str(value)
    known = _forms_of(value).get(form)
    return known(value) if known else None


def form_of(value: Any, text: str) -> str | None:
    """The form in which a value is this text."""
    return next((name for name, said in texts(value) if said == text), None)


def plain_number(value: float) -> str:
    """A number as JSON writes it."""
    return repr(value) if isinstance(value, float) else str(value)


def _forms_of(value: Any) -> Mapping[str, Form]:
    if is_number(value):
        return _NUMBERS if abs(value) < _MOST else {}
    if day_of(value):
        return _DAYS
    if clock_of(value):
        return _CLOCKS
    return _STRINGS if isinstance(value, str) else {}


def _on_day(write: Callable[[dt.date], str]) -> Form:
    def form(value: Any) -> str | None:
        day = day_of(value)
        return write(day) if day else None

    return form


def _ordinal(day: dt.date) -> str:
    ending = "th" if 10 < day.day < 14 else {1: "st", 2: "nd", 3: "rd"}.get(day.day % 10, "th")
    return f"{day.day}{ending}"


def _day_forms() -> Iterator[tuple[str, Form]]:
    yield ITSELF, str
    for called, month in (("", "%B"), ("short_", "%b")):
        for with_year, year in (("_year", " %Y"), ("", "")):
            for name, write in _orders(month, year):
                yield f"{called}{name}{with_year}", _on_day(write)


def _orders(month: str, year: str) -> Iterator[tuple[str, Callable[[dt.date], str]]]:
    """Month first and day first. `year` with the space before it, or nothing."""
    after = f",{year}" if year else ""

    def first(day: dt.date) -> str:
        return f"{day.strftime(month)} {day.day}{day.strftime(after)}"

    yield "weekday_month_day", lambda day: f"{day:%A}, {first(day)}"
    yield "month_day", first
    yield "day_month", lambda day: f"{day.day} {day.strftime(month + year)}"
    yield (
        "month_day_th",
        lambda day: f"{day.strftime(month)} {_ordinal(day)}{day.strftime(after)}",
    )
    yield "day_th_month", lambda day: f"{_ordinal(day)} of {day.strftime(month + year)}"


def _on_clock(write: Callable[[dt.time], str]) -> Form:
    def form(value: Any) -> str | None:
        time = clock_of(value)
        return write(time) if time else None

    return form


def _twelve(time: dt.time, whole: bool = True) -> str:
    hour = time.hour % 12 or 12
    return f"{hour}" if whole and not time.minute else f"{hour}:{time.minute:02}"


def _half(time: dt.time) -> str:
    return "am" if time.hour < 12 else "pm"


_CLOCKS: Mapping[str, Form] = {
    ITSELF: str,
    "24h": _on_clock(lambda t: f"{t:%H:%M}"),
    "24h_short": _on_clock(lambda t: f"{t.hour}:{t.minute:02}"),
    "12h": _on_clock(lambda t: f"{_twelve(t)} {_half(t)}"),
    "12h_capital": _on_clock(lambda t: f"{_twelve(t)} {_half(t).upper()}"),
    "12h_close": _on_clock(lambda t: f"{_twelve(t)}{_half(t)}"),
    "12h_close_capital": _on_clock(lambda t: f"{_twelve(t)}{_half(t).upper()}"),
    "12h_dots": _on_clock(lambda t: f"{_twelve(t)} {_half(t)[0]}.m."),
    "12h_long": _on_clock(lambda t: f"{_twelve(t, whole=False)} {_half(t)}"),
    "12h_long_capital": _on_clock(lambda t: f"{_twelve(t, whole=False)} {_half(t).upper()}"),
}


def _words(value: Any) -> str | None:
    if not isinstance(value, int) or not 0 <= value < 100:
        return None
    if value < 20:
        return _ONES[value]
    tens, ones = divmod(value, 10)
    return _TENS[tens - 2] + (f"-{_ONES[ones]}" if ones else "")


def _capital(text: str | None) -> str | None:
    return text[:1].upper() + text[1:] if text else None


def _decimals(places: int, separator: str = "") -> Form:
    return lambda v: f"{v:{separator}.{places}f}" if isinstance(v, float) else None


def _padded(value: Any) -> str | None:
    """A whole number with cents."""
    return f"{value:.2f}" if isinstance(value, int) else None


_NUMBERS: Mapping[str, Form] = {
    ITSELF: plain_number,
    "short": lambda v: str(int(v)) if float(v).is_integer() else repr(float(v)),
    "words": _words,
    "words_capital": lambda v: _capital(_words(v)),
    "thousands": lambda v: f"{v:,}",
    "short_thousands": lambda v: f"{int(v):,}" if float(v).is_integer() else None,
    "cents": _padded,
    "decimals_2": _decimals(2),
    "thousands_2": _decimals(2, ","),
    "decimals_1": _decimals(1),
    "whole": _decimals(0),
}
ROUNDED = frozenset({"decimals_1", "decimals_2", "thousands_2", "whole"})
"""Forms that tell less than the value, as replies do."""


def _spaced(text: str) -> str:
    return " ".join(_HUMP.sub(" ", text.replace("_", " ")).split())


def _names(text: str) -> str:
    return " ".join(w[:1].upper() + w[1:].lower() for w in text.split(" "))


def _titled(text: str) -> str:
    return " ".join(w[:1].upper() + w[1:] for w in text.split(" "))


def _as_it_is(text: str) -> str:
    return text


_CASES: Mapping[str, Callable[[str], str]] = {
    ITSELF: _as_it_is,
    "lower": str.lower,
    "capital": lambda text: text[:1].upper() + text[1:],
    "sentence": lambda text: text[:1].upper() + text[1:].lower(),
    "title": _titled,
    "names": _names,
    "upper": str.upper,
}
_SPACES: Mapping[str, Callable[[str], str]] = {
    ITSELF: _as_it_is,
    "spaced": _spaced,
    "open": lambda text: _spaced(text).replace("-", " "),
    "hyphens": lambda text: _spaced(text).replace(" ", "-"),
}


def _string_form(part: Callable[[str], str], write: Callable[[str], str]) -> Form:
    return lambda value: write(part(value)) if isinstance(value, str) else None


def _string_forms() -> Iterator[tuple[str, Form]]:
    for spacing, part in _SPACES.items():
        for case, write in _CASES.items():
            yield "_".join(filter(None, (spacing, case))), _string_form(part, write)


_DAYS: Mapping[str, Form] = dict(_day_forms())
_STRINGS: Mapping[str, Form] = dict(_string_forms())


_GENERIC = frozenset(
    stem(w)
    for w in "id number code value type text data key the of to for in used result".split()  # noqa: SIM905 - words
)
_DIGITS = 5  # from which a number is no other one by chance


@dataclass
class Variable:
    """A value that may become slots: one meaning, wherever it stands.

    `leaves`: where it stands alone, with the form it has there. `doubt`: why it stays as it is.
    """

    first: SampleValue
    leaves: list[tuple[SampleValue, str]] = field(default_factory=list)
    referred: bool = False  # a later call takes it from the response
    doubt: str = ""
    unsaid: bool = False  # the doubt is that no words say it

    @property
    def value(self) -> Any:
        return self.first.value

    @property
    def is_argument(self) -> bool:
        return self.first.side == "intent"

    @property
    def about(self) -> str:
        kind = "argument" if self.is_argument else "field"
        return f"{kind} {'.'.join(self.first.names)} of {self.first.api}"

    def refuse(self, why: str, unsaid: bool = False) -> None:
        """Keep the value as it is; the first reason counts."""
        if not self.doubt:
            self.doubt, self.unsaid = why, unsaid


def variables(found: SampleValues) -> tuple[list[Variable], list[SampleValue]]:
    """Arguments, then fields of responses; and the leaves that belong to none of them."""
    arguments = _arguments(found.intended)
    loose = [leaf for leaf in found.called if not _passed(leaf, arguments)]
    rest = [leaf for leaf in found.observed if not _echoed(leaf, arguments)]
    fields = _fields(rest)
    loose = [leaf for leaf in loose if not _referred(leaf, fields, found)]
    return [*arguments, *fields], loose


def may_vary(value: Any) -> bool:
    """Can a value be found in words at all?"""
    if is_number(value):
        return True
    plain = isinstance(value, str) and value.isprintable() and value == value.strip()
    return plain and 0 < len(value) <= LONGEST


def distinctive(value: Any, schema: JsonObject | None = None) -> bool:
    """A text that stands twice only if the same is meant: no small number, no common word."""
    if isinstance((schema or {}).get("enum"), list):
        return False
    if is_number(value):
        return len(re.sub(r"\D", "", str(value))) >= _DIGITS
    if not isinstance(value, str) or is_status(value) or clock_of(value):
        return False
    if day_of(value):
        return True
    digits = sum(c.isdigit() for c in value)
    if is_code(value):
        return digits >= _DIGITS or (len(value) > 3 and any(c.isalpha() for c in value))
    found = [w for w in words(value) if w.folded not in STOP]
    if len(found) > 1:
        return True
    return len(value) > 2 and value[:1].isupper() and bool(found)


def is_alike(value: Any, other: Any) -> bool:
    """The same value but for its form."""
    if is_number(value) != is_number(other):
        return str(value) == str(other)
    if is_number(value):
        return close(value, other)
    calendar = any(day_of(v) or clock_of(v) for v in (value, other))
    if not calendar and _squeezed(value) != _squeezed(other):
        return False
    return form_of(value, other) is not None or form_of(other, value) is not None


@lru_cache(maxsize=4096)
def _squeezed(text: str) -> str:
    """Forms of a text differ in case, spaces and what joins its words: to be quick."""
    return re.sub(r"[\s_-]", "", text).casefold()


def _arguments(intended: Iterable[SampleValue]) -> list[Variable]:
    """An argument with the same value in two calls is one, whoever takes it."""
    found: dict[tuple[str, str], Variable] = {}
    for leaf in intended:
        if may_vary(leaf.value):
            one = found.setdefault((leaf.name, canonical(leaf.value)), Variable(leaf))
            one.leaves.append((leaf, ITSELF))
    return list(found.values())


def _form_in(leaf: SampleValue, one: Variable) -> str | None:
    """The form of a variable's value that the leaf is; a number only as the same number."""
    if is_number(leaf.value):
        return ITSELF if type(leaf.value) is type(one.value) and leaf.value == one.value else None
    if is_number(one.value):
        return "text" if leaf.value == str(one.value) else None
    return form_of(one.value, leaf.value)


def _attach(leaf: SampleValue, one: Variable) -> bool:
    form = _form_in(leaf, one)
    if form is not None:
        one.leaves.append((leaf, form))
    return form is not None


def _passed(leaf: SampleValue, arguments: Iterable[Variable]) -> bool:
    """Is this argument of a call what the user means? Then it is noted there."""
    return any(one.first.name == leaf.name and _attach(leaf, one) for one in arguments)


def _echoed(leaf: SampleValue, arguments: Iterable[Variable]) -> bool:
    """Does a response repeat what was asked? Where it might as well be chance, the argument is in
    doubt."""
    if not may_vary(leaf.value):
        return False
    for one in arguments:
        if is_alike(one.value, leaf.value):
            if _means(leaf, one) and _attach(leaf, one):
                return True
            one.refuse(
                f"the response has the same value as `{leaf.name}`, which need not mean the same"
            )
    return False


def _means(leaf: SampleValue, one: Variable) -> bool:
    if distinctive(one.value, one.first.schema) and distinctive(leaf.value, leaf.schema):
        return True
    passed = [each for each, _ in one.leaves if each.number == leaf.number and each.side == "call"]
    return bool(passed) and named_alike(leaf, one.first)


def named_alike(leaf: SampleValue, other: SampleValue) -> bool:
    """Do the names and descriptions of two places speak of the same?"""
    if leaf.name == other.name:
        return True
    ours, theirs = _stems(leaf.name), _stems(other.name)
    if is_number(leaf.value):
        return bool(ours & theirs)
    return bool(ours & (theirs | _told(other)) or theirs & _told(leaf))


def _stems(name: str) -> frozenset[str]:
    return frozenset(content(spaced(name))) - _GENERIC


def _told(leaf: SampleValue) -> frozenset[str]:
    about = leaf.schema.get("description")
    return frozenset(content(about[:300])) - _GENERIC if isinstance(about, str) else frozenset()


def _fields(leaves: Iterable[SampleValue]) -> list[Variable]:
    """Values of responses; equal ones are one where they can hardly be equal by chance."""
    found: list[Variable] = []
    for leaf in leaves:
        if not may_vary(leaf.value):
            continue
        one = next((v for v in found if is_alike(v.value, leaf.value)), None)
        if one is None:
            found.append(Variable(leaf, [(leaf, ITSELF)]))
        elif not (distinctive(leaf.value, leaf.schema) and _attach(leaf, one)):
            one.refuse(f"`{one.first.name}` and `{leaf.name}` have the same value by chance")
    return found


def _referred(leaf: SampleValue, fields: Iterable[Variable], found: SampleValues) -> bool:
    """Does this argument come from an earlier response, as the intent says?"""
    if not any(_refers(leaf, intention) for intention in found.query["intent"]):
        return False
    for one in fields:
        if one.first.place < leaf.place and same(one.value, leaf.value) and _attach(leaf, one):
            one.referred = True
            return True
    return False


def _refers(leaf: SampleValue, intention: JsonObject) -> bool:
    references = intention.get("references") or {}
    return intention["api"] == leaf.api and bool(leaf.names) and leaf.names[0] in references


def pairs(found: Iterable[Variable]) -> Iterator[tuple[Variable, Variable]]:
    """Every two of them, the earlier first."""
    listed = list(found)
    for place, one in enumerate(listed):
        for other in listed[place + 1 :]:
            yield one, other


def folded(value: Any) -> str:
    """Equal for values that words could not tell apart."""
    return fold(spaced(value)) if isinstance(value, str) else str(value)
