"""Which values of a sample are one and the same: told by the user, passed in calls, echoed."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any

from toolloom.pipeline.checks.grounding import close, same
from toolloom.pipeline.checks.polarity import is_status
from toolloom.pipeline.checks.text.phrases import is_code
from toolloom.pipeline.checks.text.words import STOP, content, fold, spaced, stem, words
from toolloom.pipeline.templates.mining.forms import ITSELF, clock_of, day_of, form_of, is_number
from toolloom.pipeline.templates.mining.survey import LONGEST, SampleValue, SampleValues
from toolloom.schemas import JsonObject, canonical

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
