"""Other values for a value that may vary: from its schema, from other samples, and drawn."""

from __future__ import annotations

import datetime as dt
import random
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

from toolloom.pipeline.checks.claims import unfounded
from toolloom.pipeline.checks.evidence import Evidence
from toolloom.pipeline.checks.grounding import named, says
from toolloom.pipeline.checks.keywords import fits
from toolloom.pipeline.checks.polarity import is_status
from toolloom.pipeline.checks.text.words import words
from toolloom.pipeline.sampling.values import NoValue
from toolloom.pipeline.templates.mining.draws import FURTHEST, draws
from toolloom.pipeline.templates.mining.forms import clock_of, day_of, is_number, said_as
from toolloom.pipeline.templates.mining.known import SeenValues
from toolloom.pipeline.templates.mining.variables import Variable, folded, may_vary

MOST = 64  # values of a choice
_CANDIDATES = 160
_TRIES = 240
_VOWEL = re.compile(r"[aeiou8]|1[18]\b", re.IGNORECASE)


@dataclass(frozen=True)
class FormUse:
    """A form that a value takes, and what stands around it."""

    form: str
    role: str = ""  # of the text it stands in; empty where it stands alone
    before: str = ""
    after: str = ""


@dataclass
class ValueOptions:
    """A value that varies: its uses, and what else it may be."""

    one: Variable
    uses: list[FormUse]
    values: list[tuple[Any, str]] = field(default_factory=list)  # with where each comes from

    @property
    def forms(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys(use.form for use in self.uses))


@dataclass(frozen=True)
class SampleSetting:
    """What the values of a sample depend on."""

    now: dt.datetime
    language: str
    known: SeenValues
    constant: str  # the words that stay, as `in_words` gives them


def in_words(text: str) -> str:
    """The words of a text, folded, to look for words in a row."""
    return f" {' '.join(w.folded for w in words(text))} "


def fill(pools: Sequence[ValueOptions], setting: SampleSetting, rng: random.Random) -> None:
    """Give each pool at most 64 values, the original first; no value is in two pools."""
    taken = {folded(pool.one.value) for pool in pools}
    waiting = []
    for pool in pools:
        pool.values.append((pool.one.value, "sample"))
        chance = random.Random(rng.getrandbits(64))
        waiting.append((pool, _fitting(pool, setting, chance)))
    while waiting:
        for pool, candidates in list(waiting):
            found = next((c for c in candidates if folded(c[0]) not in taken), None)
            if found is None or len(pool.values) >= MOST:
                waiting.remove((pool, candidates))
            else:
                taken.add(folded(found[0]))
                pool.values.append(found)


def _fitting(
    pool: ValueOptions, setting: SampleSetting, rng: random.Random
) -> Iterator[tuple[Any, str]]:
    seen = {folded(pool.one.value)}
    for value, source in _candidates(pool.one, setting, rng):
        if len(seen) > _CANDIDATES:
            return
        if _is_kin(value, pool.one.value) and folded(value) not in seen:
            seen.add(folded(value))
            if _suits(value, pool, setting):
                yield value, source


def _is_kin(value: Any, original: Any) -> bool:
    """Of the same type, so that it takes the same places."""
    if type(value) is not type(original) or not may_vary(value):
        return False
    return bool(day_of(value)) == bool(day_of(original)) and bool(clock_of(value)) == bool(
        clock_of(original)
    )


def _suits(value: Any, pool: ValueOptions, setting: SampleSetting) -> bool:
    one = pool.one
    schemas = [leaf.schema for leaf, _ in one.leaves]
    if any(schema and not fits(schema, value) for schema in schemas):
        return False
    if isinstance(value, str) and not _is_worded_alike(value, one.value):
        return False
    if is_number(value) and not _is_sized_alike(value, one):
        return False
    if (day := day_of(value)) and not _in_reach(day, one.value, setting.now.date()):
        return False
    if isinstance(value, str) and in_words(value) in setting.constant:
        return False
    return all(_says(value, use, one, setting) for use in pool.uses)


def _is_worded_alike(value: str, original: str) -> bool:
    """One sentence in place of one, with its end or without; no capitals where there were none."""
    if any((mark in value) != (mark in original) for mark in (". ", "\n", "? ", "; ")):
        return False
    if (value[-1:] in ".!?") != (original[-1:] in ".!?"):
        return False
    prose = len(original.split()) > 3 or len(value.split()) > 3
    return not prose or value[:1].isupper() == original[:1].isupper()


def _is_sized_alike(value: float, one: Variable) -> bool:
    """Nothing in place of something; and what is observed keeps its sign."""
    if not value or not one.value:
        return bool(value) == bool(one.value)
    return one.is_argument or (value < 0) == (one.value < 0)


def _in_reach(day: dt.date, original: str, today: dt.date) -> bool:
    was = day_of(original) or today
    return (day >= today) == (was >= today) and abs((day - today).days) <= FURTHEST


def _says(value: Any, use: FormUse, one: Variable, setting: SampleSetting) -> bool:
    said = said_as(value, use.form)
    if not said:
        return False
    if use.before and bool(_VOWEL.match(said)) != use.before.lower().endswith("an"):
        return False
    if use.after and is_number(value) and 1 in (abs(value), abs(one.value)):
        return False  # one person, two people
    if use.role == "user":
        schema = named(one.first.name, one.first.schema)
        return says(f"It is {said}.", value, schema, setting.now)
    if use.role == "reply":
        texts, numbers = ((value,), ()) if isinstance(value, str) else ((), (value,))
        evidence = Evidence(texts, numbers, (), setting.now)
        return not any(unfounded(f"{said} is it.", evidence))
    return True


def _candidates(
    one: Variable, setting: SampleSetting, rng: random.Random
) -> Iterator[tuple[Any, str]]:
    leaf, schema = one.first, one.first.schema
    for key, source in (("enum", "enum"), ("examples", "examples")):
        listed = schema.get(key)
        for value in listed[:MOST] if isinstance(listed, list) else ():
            if one.is_argument or not is_status(value):
                yield value, source
    if isinstance(schema.get("enum"), list):
        return
    for value in setting.known.values(leaf):
        yield value, "samples"
    for draw, source in draws(one, setting.now, setting.language, rng):
        for _ in range(_TRIES):
            try:
                yield draw(), source
            except NoValue:
                break


__all__ = ["MOST", "FormUse", "SampleSetting", "ValueOptions", "fill", "in_words"]
