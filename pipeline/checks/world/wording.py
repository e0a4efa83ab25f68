"""How people write the values of a world: days beside today, money, lists, plurals.

    {order.arrives|on} → "tomorrow", "on Friday", "on March 14"      {total|money} → "$12.50"

A text is a template of the world's language with a form after each value. British texts write dates
and money words their own way; each script has one dialect throughout.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from datetime import date
from typing import Any, NamedTuple

from toolloom.pipeline.checks.text.quantities import SMALL
from toolloom.pipeline.checks.world import grammar
from toolloom.pipeline.checks.world.grammar import Kind, Mistake, NameScope, Tree
from toolloom.pipeline.checks.world.interpreter import WEEKDAYS, Frame, as_term, shown

HALF_A_YEAR = 182  # days, beyond which people say the year
_SPELLED = tuple(SMALL)[:11]  # zero to ten


class Voice(NamedTuple):
    """What the wording of values depends on."""

    now: str
    currency: str = "$"
    british: bool = False


def _money(value: Any, voice: Voice) -> str:
    whole = float(value).is_integer()
    return f"{voice.currency}{value:,.0f}" if whole else f"{voice.currency}{value:,.2f}"


def _date(value: str, voice: Voice) -> str:
    day = date.fromisoformat(value[:10])
    text = f"{day.day} {day:%B}" if voice.british else f"{day:%B} {day.day}"
    if abs((day - date.fromisoformat(voice.now[:10])).days) > HALF_A_YEAR:
        text += f" {day.year}" if voice.british else f", {day.year}"
    return text


def _day(value: str, voice: Voice) -> str:
    """Today, tomorrow, yesterday, a weekday within six days, or a date."""
    gap = (date.fromisoformat(value[:10]) - date.fromisoformat(voice.now[:10])).days
    near = {-1: "yesterday", 0: "today", 1: "tomorrow"}.get(gap)
    if near:
        return near
    if 2 <= gap <= 6:
        return WEEKDAYS[date.fromisoformat(value[:10]).weekday()]
    return _date(value, voice)


def _on(value: str, voice: Voice) -> str:
    text = _day(value, voice)
    return text if text in ("yesterday", "today", "tomorrow") else f"on {text}"


def _time(value: str, voice: Voice) -> str:
    hour, minute = int(value[-5:-3]), value[-2:]
    half = "am" if hour < 12 else "pm"
    clock = (hour + 11) % 12 + 1
    tail = "" if minute == "00" else f"{'.' if voice.british else ':'}{minute}"
    return f"{clock}{tail}{'' if voice.british else ' '}{half}"


def _number(value: Any, voice: Voice) -> str:
    small = isinstance(value, int) and 0 <= value < len(_SPELLED)
    return _SPELLED[value] if small else f"{value:,}"


FORMS: dict[str, tuple[tuple[str, ...], Callable[[Any, Voice], str]]] = {
    "money": (("integer", "number"), _money),
    "date": (("date", "datetime"), _date),
    "day": (("date", "datetime"), _day),
    "on": (("date", "datetime"), _on),
    "weekday": (
        ("date", "datetime"),
        lambda value, voice: WEEKDAYS[date.fromisoformat(value[:10]).weekday()],
    ),
    "time": (("time", "datetime"), _time),
    "when": (("datetime",), lambda value, voice: f"{_on(value, voice)} at {_time(value, voice)}"),
    "number": (("integer",), _number),
    "first": (("text",), lambda value, voice: (value.split() or [value])[0]),
    "a": (
        ("text", "choice"),
        lambda value, voice: f"{'an' if value[:1].lower() in 'aeio' else 'a'} {value}",
    ),
    "lower": (("text", "choice"), lambda value, voice: value[:1].lower() + value[1:]),
    "upper": (("text", "choice"), lambda value, voice: value[:1].upper() + value[1:]),
}
"""Forms by name, with the types of the values that they word."""


def plural(noun: str) -> str:
    """The plural of an English noun that has a regular one; `knife/knives` says its own."""
    if noun.endswith(("s", "x", "ch", "sh")):
        return f"{noun}es"
    return f"{noun[:-1]}ies" if re.search(r"[^aeiou]y$", noun) else f"{noun}s"


class Words(NamedTuple):
    """A text with slots, read: pieces of text, and terms with their form."""

    pieces: tuple[str | tuple[Tree, str], ...]

    def fill(self, frame: Frame, voice: Voice) -> str | None:
        """The text in a state; None if a slot has no value there."""
        parts = []
        for piece in self.pieces:
            if isinstance(piece, str):
                parts.append(piece)
                continue
            tree, form = piece
            value = as_term(tree)(frame)
            if value is None:
                return None
            parts.append(_worded(value, form, voice))
        text = "".join(parts)
        begins = bool(self.pieces) and not isinstance(self.pieces[0], str)
        return text[:1].upper() + text[1:] if begins else text

    def told(self, frame: Frame, voice: Voice) -> list[tuple[Any, str]]:
        """Each value that the text says, and how: not those that only choose a word."""
        slots = [piece for piece in self.pieces if not isinstance(piece, str)]
        values = [(as_term(tree)(frame), form) for tree, form in slots if form[:3] != "if "]
        return [(v, _worded(v, form, voice)) for v, form in values if v is not None]


def _worded(value: Any, form: str, voice: Voice) -> str:
    if form.startswith("count "):
        one, _, many = form[6:].partition("/")
        return f"{_number(value, voice)} {one if value == 1 else many or plural(one)}"
    if form.startswith("if "):  # `{n|if is/are}`: the first for one, the other for more
        one, _, many = form[3:].partition("/")
        return one if value in (1, True) else many
    return FORMS[form][1](value, voice) if form else shown(value)


def read_words(text: str, scope: NameScope) -> Words:
    """A text with `{term|form}` slots. Raises Mistake."""
    pieces: list[str | tuple[Tree, str]] = []
    for piece in grammar.slots(text):
        if isinstance(piece, str):
            pieces.append(piece)
            continue
        inner, form = piece
        tree, kind = grammar.term(inner, scope)
        _check_form(form, kind, f"{inner}|{form}" if form else inner)
        pieces.append((tree, form))
    return Words(tuple(pieces))


def _check_form(form: str, kind: Kind, part: str) -> None:
    type_ = kind["type"]
    if form.startswith(("count ", "if ")):
        if type_ not in ("integer", "number", "boolean", "any"):
            raise Mistake(f"`|{form}` needs a number, and {{{part}}} is {grammar.said(kind)}.")
    elif form:
        if form not in FORMS:
            raise Mistake(f"`|{form}` in {{{part}}} is not a form{grammar.near(form, FORMS)}.")
        if type_ not in (*FORMS[form][0], "any"):
            types = " or ".join(FORMS[form][0])
            raise Mistake(f"`|{form}` words a {types}, and {{{part}}} is {grammar.said(kind)}.")
    elif type_ in ("row", "object", "boolean", "date", "datetime", "time", "list"):
        raise Mistake(f"{{{part}}} is {grammar.said(kind)}: say how it is worded, as in `|on`.")
