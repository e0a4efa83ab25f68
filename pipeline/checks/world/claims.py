"""What is said in a world, held against its state: moments, amounts, and names that rows go by.

Only what is certain is told: a moment that no result has, another currency than the world's, a row
that is named in a reply or looked for and that nothing said or returned before.
"""

from __future__ import annotations

import datetime as dt
import re
from collections.abc import Collection, Iterator
from contextlib import suppress
from functools import lru_cache
from itertools import chain, product
from typing import Any

from toolloom.pipeline.checks.evidence import evidence_at
from toolloom.pipeline.checks.schema import parts_of
from toolloom.pipeline.checks.text.dates import dated
from toolloom.pipeline.checks.text.numbers import quantities
from toolloom.pipeline.checks.text.times import seconds_in, timed
from toolloom.pipeline.checks.text.words import fold
from toolloom.pipeline.checks.transcript import Fault, made, replies, said_before, shown
from toolloom.pipeline.checks.world.interpreter import Machine
from toolloom.schemas import Dialogue, Reason, Setting

CURRENCIES = "$€£¥"
_GAP = 6  # characters between a day and its time, as in «Monday, at 9»
_DATE, _CLOCK = re.compile(r"\d{4}-\d{2}-\d{2}"), re.compile(r"\d{2}:\d{2}")
_MOMENT = re.compile(rf"({_DATE.pattern})T({_CLOCK.pattern})")
_DAY = re.compile(rf"\b{_DATE.pattern}(?=T|\b)")
_MARK = re.compile(r"[\dT:.-]+|[A-Z]{2,}-?\d+")  # days, times, keys
_PROPER = re.compile(r"[A-Z]\w+(?:[ -][A-Z]\w+)+")


def false_claims(dialogue: Dialogue, machine: Machine, setting: Setting) -> Iterator[Fault]:
    """What replies say, and lookups are narrowed by, that is nowhere."""
    named = _names(machine, setting)
    for place, text, _ in replies(dialogue):
        for detail in (
            *_moments_untrue(dialogue, text, place),
            *_units_untrue(dialogue, text, place, machine),
            *_names_untrue(dialogue, text, place, named),
        ):
            yield Fault(Reason.UNGROUNDED_ANSWER, place, detail)
    yield from _names_invented(dialogue, machine, setting, named)


def _names_invented(
    dialogue: Dialogue, machine: Machine, setting: Setting, named: dict[str, str]
) -> Iterator[Fault]:
    """Lookups by a name that nobody said and no result showed: all else that narrows one is the
    assistant's reading of the request."""
    proper = [set(label.split()) for label in named.values()]
    for call in made(dialogue):
        if call.api is None or call.api.source.reference != setting.world:
            continue
        operation = machine.operations.get(call.api.source.operation)
        takes = operation.args if operation else {}
        for name, value in call.arguments.items():
            kind = takes.get(name, {})
            if kind.get("type") != "text" or kind.get("free") or not isinstance(value, str):
                continue
            parts = [part for part in value.split() if part[:1].isupper()]
            if not parts or not any(label >= set(parts) for label in proper):
                continue
            before = fold("\n".join(m.content or "" for m in dialogue.messages[: call.place]))
            if not any(fold(part) in before for part in parts):
                detail = f"{call.name}: nothing said or returned {name}={shown(value)}"
                yield Fault(Reason.UNGROUNDED_ARGUMENT, call.place, detail)


def _moments_untrue(dialogue: Dialogue, text: str, place: int) -> Iterator[str]:
    """A day with a time that no result, and nobody, has together."""
    today = dialogue.query.now.date()
    known: set[dt.datetime] | None = None
    for start, end, told in _moments(text, today):
        if known is None:
            known = _known_moments(dialogue, place, today)
        if not told & known:
            yield f"no result has {shown(text[start:end].rstrip(' .,'))}"


@lru_cache(maxsize=1024)
def _moments(text: str, today: dt.date) -> tuple[tuple[int, int, frozenset[dt.datetime]], ...]:
    """Each day with the time beside it: where, and every moment that it may mean."""
    found = []
    clocks = [each for each in timed(text) if each.sure]
    for day in dated(text, today) if clocks else ():
        for clock in clocks:
            gap = text[day.end : clock.start] if day.end <= clock.start else None
            if gap is not None and len(gap) <= _GAP and re.fullmatch(r",? ?(?:at )?", gap):
                both = frozenset(dt.datetime.combine(d, t) for d in day.days for t in clock.times)
                found.append((day.start, clock.end, both))
                break
    return tuple(found)


def _known_moments(dialogue: Dialogue, place: int, today: dt.date) -> set[dt.datetime]:
    """Those that were told; a time that the user says without a day may be one of any day told."""
    known = {dialogue.query.now.replace(tzinfo=None)}
    days, clocks = {today}, set[dt.time]()
    for text in said_before(dialogue, place):
        own = {d for each in dated(text, today) for d in each.days}
        hours = {t for each in timed(text) for t in each.times}
        known |= {dt.datetime.combine(d, t) for d in own for t in hours}
        days |= own
        clocks |= set() if own else hours
    setting = dialogue.query.setting
    values: list[Any] = [fact.value for fact in setting.goal.facts] if setting else []
    for call in made(dialogue):
        if call.back is not None and call.back < place and call.observation:
            values += [call.response, call.observation.error, call.arguments]
    for part in chain.from_iterable(map(parts_of, values)):
        if isinstance(part, str):
            for moment in _MOMENT.findall(part) if "T" in part and ":" in part else ():
                known.update(_read("T".join(moment)))
            for day in _DAY.findall(part) if clocks else ():
                days.update(each.date() for each in _read(day))
            if " " in part and timed(part):
                known.update(*(both for _, _, both in _moments(part, today)))
        elif isinstance(part, dict):
            known.update(_joined(part.values()))
    return known | {dt.datetime.combine(d, t) for d in days for t in clocks}


def _joined(values: Collection[Any]) -> Iterator[dt.datetime]:
    """The days and times that stand side by side in a row."""
    clocks = [v for v in values if isinstance(v, str) and len(v) == 5 and _CLOCK.fullmatch(v)]
    for day in values if clocks else ():
        if isinstance(day, str) and _DATE.fullmatch(day):
            yield from chain.from_iterable(_read(f"{day}T{clock}") for clock in clocks)


def _read(moment: str) -> Iterator[dt.datetime]:
    """A moment in ISO form, unless no calendar has it: the 30th of February."""
    with suppress(ValueError):
        yield dt.datetime.fromisoformat(moment)


def _units_untrue(dialogue: Dialogue, text: str, place: int, machine: Machine) -> Iterator[str]:
    """Another currency than the world's, and lengths of time in another unit than they were told
    in."""
    own = machine.world.get("currency", "$")
    foreign = sorted(set(CURRENCIES) & set(text) - set(own))
    lengths = [q for q in quantities(text) if seconds_in(q.unit)]
    if not foreign and not lengths:
        return
    evidence = evidence_at(dialogue, place)
    for sign in foreign:
        if not any(sign in said for said in evidence.texts):
            yield f"{sign} is not the world's currency, which is {own}"
    units: dict[float, set[int]] = {}
    for said in evidence.texts if lengths else ():
        for q in () if _MARK.fullmatch(said) else quantities(said):
            units.setdefault(q.value, set()).add(seconds_in(q.unit))
    for q in lengths:
        told, length = units.get(q.value, {0}), seconds_in(q.unit)
        held = q.value in evidence.values or q.value * length in evidence.seconds
        if not {0, length} & told and not held:
            yield f"{shown(f'{text[q.start : q.end]} {q.unit}')} was told in another unit"


def _names(machine: Machine, setting: Setting) -> dict[str, str]:
    """The proper names by which rows of the state go, by how they are folded."""
    found: dict[str, str] = {}
    for name, entity in machine.entities.items():
        labels = [field for field, kind in entity.fields.items() if kind.get("label")]
        rows = setting.start["tables"].get(name, {}).values() if labels else ()
        for row, label in product(rows, labels):
            value = row.get(label)
            if isinstance(value, str) and _PROPER.fullmatch(value):
                found[fold(value)] = value
    return found


def _names_untrue(
    dialogue: Dialogue, text: str, place: int, named: dict[str, str]
) -> Iterator[str]:
    """A row that a reply names, and that nothing said or returned before."""
    folded = fold(text)
    there = [name for name in named if name in folded]
    if not there:
        return
    before = [m.content or "" for m in dialogue.messages[:place]]
    heard = fold("\n".join(before))
    for name in there:
        if name not in heard:
            yield f"nobody named {shown(named[name])}, and no result shows it"
