"""Which values of a sample are one and the same: told by the user, passed in calls, echoed.

And the forms a value is said in: other letters, number words, dates as people write them. A form is
a function of the value alone, so that it can be told for every other value too.
"""

from __future__ import annotations

import datetime as dt
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import lru_cache, partial
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


def _day_as(pattern: str, value: str) -> str:
    """A day in strftime's pattern, with `{0}` for its number and `{1}` for 1st, 2nd and so on."""
    day = dt.date.fromisoformat(value)
    ending = "th" if 10 < day.day < 14 else {1: "st", 2: "nd", 3: "rd"}.get(day.day % 10, "th")
    return day.strftime(pattern).format(day.day, f"{day.day}{ending}")


def _day_forms() -> Iterator[tuple[str, Form]]:
    """Month first and day first, the month's name whole and short, with the year and without."""
    yield ITSELF, str
    for called, month in (("", "%B"), ("short_", "%b")):
        for with_year, year in (("_year", " %Y"), ("", "")):
            after = f",{year}" if year else ""
            for name, pattern in (
                ("weekday_month_day", f"%A, {month} {{0}}{after}"),
                ("month_day", f"{month} {{0}}{after}"),
                ("day_month", f"{{0}} {month}{year}"),
                ("month_day_th", f"{month} {{1}}{after}"),
                ("day_th_month", f"{{1}} of {month}{year}"),
            ):
                yield f"{called}{name}{with_year}", partial(_day_as, pattern)


def _clock_as(pattern: str, value: str) -> str:
    time = dt.time.fromisoformat(value)
    long = f"{time.hour % 12 or 12}:{time.minute:02}"
    half = "am" if time.hour < 12 else "pm"
    short = long if time.minute else long.removesuffix(":00")
    return pattern.format(time=time, long=long, short=short, half=half, HALF=half.upper())


_CLOCK_FORMS = {
    "24h": "{time:%H:%M}",
    "24h_short": "{time.hour}:{time.minute:02}",
    "12h": "{short} {half}",
    "12h_capital": "{short} {HALF}",
    "12h_close": "{short}{half}",
    "12h_close_capital": "{short}{HALF}",
    "12h_dots": "{short} {half[0]}.m.",
    "12h_long": "{long} {half}",
    "12h_long_capital": "{long} {HALF}",
}


def _words(value: Any) -> str | None:
    if not isinstance(value, int) or not 0 <= value < 100:
        return None
    if value < 20:
        return _ONES[value]
    tens, ones = divmod(value, 10)
    return _TENS[tens - 2] + (f"-{_ONES[ones]}" if ones else "")


def _decimals(places: int, separator: str = "") -> Form:
    return lambda v: f"{v:{separator}.{places}f}" if isinstance(v, float) else None


_NUMBERS: Mapping[str, Form] = {
    ITSELF: plain_number,
    "short": lambda v: str(int(v)) if float(v).is_integer() else repr(float(v)),
    "words": _words,
    "words_capital": lambda v: (_words(v) or "").capitalize() or None,
    "thousands": lambda v: f"{v:,}",
    "short_thousands": lambda v: f"{int(v):,}" if float(v).is_integer() else None,
    "cents": lambda v: f"{v:.2f}" if isinstance(v, int) else None,  # of a whole number
    "decimals_2": _decimals(2),
    "thousands_2": _decimals(2, ","),
    "decimals_1": _decimals(1),
    "whole": _decimals(0),
}
ROUNDED = frozenset({"decimals_1", "decimals_2", "thousands_2", "whole"})
"""Forms that tell less than the value, as replies do."""


def _spaced(text: str) -> str:
    return " ".join(_HUMP.sub(" ", text.replace("_", " ")).split())


_CASES: Mapping[str, Callable[[str], str]] = {
    ITSELF: str,
    "lower": str.lower,
    "capital": lambda text: text[:1].upper() + text[1:],
    "sentence": lambda text: text[:1].upper() + text[1:].lower(),
    "title": lambda text: " ".join(w[:1].upper() + w[1:] for w in text.split(" ")),
    "names": lambda text: " ".join(w[:1].upper() + w[1:].lower() for w in text.split(" ")),
    "upper": str.upper,
}
_SPACES: Mapping[str, Callable[[str], str]] = {
    ITSELF: str,
    "spaced": _spaced,
    "open": lambda text: _spaced(text).replace("-", " "),
    "hyphens": lambda text: _spaced(text).replace(" ", "-"),
}


def _string_as(space: Callable[[str], str], case: Callable[[str], str], value: str) -> str:
    return case(space(value))


_DAYS: Mapping[str, Form] = dict(_day_forms())
_CLOCKS: Mapping[str, Form] = {
    ITSELF: str,
    **{name: partial(_clock_as, pattern) for name, pattern in _CLOCK_FORMS.items()},
}
_STRINGS: Mapping[str, Form] = {
    "_".join(filter(None, (spacing, casing))): partial(_string_as, space, case)
    for spacing, space in _SPACES.items()
    for casing, case in _CASES.items()
}

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
    # An argument with the same value in two calls is one, whoever takes it.
    named: dict[tuple[str, str], Variable] = {}
    for leaf in found.intended:
        if may_vary(leaf.value):
            one = named.setdefault((leaf.name, canonical(leaf.value)), Variable(leaf))
            one.leaves.append((leaf, ITSELF))
    arguments = list(named.values())
    loose = [
        leaf
        for leaf in found.called
        if not any(one.first.name == leaf.name and _attach(leaf, one) for one in arguments)
    ]
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


def _attach(leaf: SampleValue, one: Variable) -> bool:
    """Note a leaf that is a form of a variable's value; a number only as the same number."""
    if is_number(leaf.value):
        is_same = type(leaf.value) is type(one.value) and leaf.value == one.value
        form = ITSELF if is_same else None
    elif is_number(one.value):
        form = TEXT if leaf.value == str(one.value) else None
    else:
        form = form_of(one.value, leaf.value)
    if form is not None:
        one.leaves.append((leaf, form))
    return form is not None


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
    references = [i.get("references") or {} for i in found.query["intent"] if i["api"] == leaf.api]
    if not any(leaf.names[:1] and leaf.names[0] in each for each in references):
        return False
    for one in fields:
        if one.first.place < leaf.place and same(one.value, leaf.value) and _attach(leaf, one):
            one.referred = True
            return True
    return False


def folded(value: Any) -> str:
    """Equal for values that words could not tell apart."""
    return fold(spaced(value)) if isinstance(value, str) else str(value)
