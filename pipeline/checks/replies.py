"""Replies: founded in what was observed, telling what came of it, contradicting none of it.

Every number, date, time, address, code, quotation and name in a reply is a claim.
"""

from __future__ import annotations

import datetime as dt
import re
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Set
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache
from itertools import chain, combinations, pairwise, product
from typing import Any, NamedTuple, TypeVar

from toolloom.pipeline.checks.calls import documented_before, pair, says_no
from toolloom.pipeline.checks.grounding import (
    ADDRESS,
    CODE,
    QUOTED,
    close,
    is_code,
    said,
    same,
    says,
)
from toolloom.pipeline.checks.schema import is_number, leaves, parts_of
from toolloom.pipeline.checks.text.quantities import (
    MONTHS,
    WEEKDAYS,
    Quantity,
    dated,
    dates,
    lengths,
    quantities,
    seconds_in,
    shift,
    spans_of_time,
    sums,
    timed,
    times,
)
from toolloom.pipeline.checks.text.words import (
    STOP,
    clauses,
    content,
    exact,
    forms,
    listed,
    literal,
    plain,
    sentences,
    spaced,
    stem,
    stems,
    table,
    words,
)
from toolloom.pipeline.checks.transcript import (
    CallMade,
    Fault,
    answered_before,
    asked,
    made,
    replies,
    said_before,
    shown,
)
from toolloom.schemas import Api, Dialogue, JsonObject, Reason, Scenario

_AFFIRMS = re.compile(
    r"\b(?:done|all set|success\w*|confirm\w*|completed?|ready|sure|yes|ok|okay)\b"
    r"|(?:\b(?:has|have|had|was|were|is|are|been|i|we|it)|'ve|'s) (?:\w+ ){0,2}"
    r"(?:\w{2,}ed|set|sent|put|made|on|off|in)\b",
    re.IGNORECASE,
)
_GAVE_UP = re.compile(
    r"\b(?:i|we)(?:'m| am| was| were|'re| are)? (?:sorry|afraid|unable|not able|could not|couldn't"
    r"|cannot|can't|failed|wasn't able|was not able|weren't able)\b|\bfailed to\b"
    r"|\bsomething went wrong\b",
    re.IGNORECASE,
)
T = TypeVar("T")
_SUMMARY = 0.4  # share of a long text's words that a summary of it must hold
_PROSE = 6  # content words from which a text is summarised rather than quoted
_NAMES_SMALL = frozenset({"German"})  # languages that write every noun with a capital


def founded_replies(dialogue: Dialogue) -> Iterator[Fault]:
    """Every number, date, time, address, code, quotation and name was said or observed."""
    query = dialogue.query
    told = frozenset[float]()  # by earlier replies
    for place, text, final in replies(dialogue):
        turn, last = asked(dialogue, place), place == len(dialogue.messages) - 1
        results = [c.back for c in made(dialogue) if c.turn <= turn and not c.is_search]
        if not (final and last) and not any(b is not None and b < place for b in results):
            continue  # a question or an announcement before anything is known
        evidence = evidence_at(dialogue, place)
        evidence = replace(evidence, values=(*evidence.values, *told))
        told |= _numbers_of(text)
        for claim in unfounded(text, evidence, names=query.language not in _NAMES_SMALL):
            detail = f"the {claim.kind} {shown(claim.text)} was neither said nor observed"
            yield Fault(Reason.UNGROUNDED_ANSWER, place, detail)


def told_results(dialogue: Dialogue) -> Iterator[Fault]:
    """The reply tells at least one thing that each call found out, or that it worked.

    A call whose result feeds a later call of the same turn need not be told.
    """
    due, paired = dialogue.query.due, pair(dialogue)
    feeding = {(r.call, i.turn) for i in due for r in i.references.values()}
    silent = {c.back for index, c in paired.calls.items() if (index, due[index].turn) in feeding}
    for call, place, reply in _replied(dialogue):
        if call.back not in silent and (fault := _untold(dialogue, call, reply, place)):
            yield Fault(Reason.UNGROUNDED_ANSWER, place, fault)


def _replied(dialogue: Dialogue) -> Iterator[tuple[CallMade, int, str]]:
    """Calls that worked, with the replies of the same turn that come after them as one text."""
    for call in made(dialogue):
        if call.is_search or call.failed or call.api is None or call.back is None:
            continue
        after = [(place, text) for place, text, _ in replies(dialogue) if place > call.back]
        turn = [(place, text) for place, text in after if asked(dialogue, place) == call.turn]
        if turn:
            yield call, turn[-1][0], "\n".join(text for _, text in turn)


def _untold(dialogue: Dialogue, call: CallMade, reply: str, place: int) -> str | None:
    """Why the reply does not tell what the call found out; None if it does."""
    english = dialogue.query.language == "English"
    if call.response in ([], {}, "") or _holds_empty_list(call.response):
        return None if says_no(reply) or not english else f"{call.name} found nothing; not said"
    heard = "\n".join(said_before(dialogue, place))
    facts = [v for v in _told_apart(call.response) if _is_news(v, call, heard, dialogue)]
    if not english:
        facts = [v for v in facts if isinstance(v, int | float)]
    only_codes = all(isinstance(v, str) and is_code(v) for v in facts)
    if only_codes and not english:
        return None
    if any(claimed(reply, s, frozenset()) == {s.holds} for s in stated(call.response)):
        return None
    if not only_codes:
        parts = call.response.values() if isinstance(call.response, dict) else [call.response]
        sizes = {len(part) for part in parts if isinstance(part, list) and part}
        counted = any(quantity.value in sizes for quantity in quantities(reply))
        if counted or any(_tells(reply, v, dialogue) for v in facts):
            return None
        return f"tells nothing of what {call.name} found: {shown(call.response)}"
    # Nothing but a status or ids, which may go untold.
    if negative(call.response):
        return None if says_no(reply) else f"{call.name} reports failure; not said"
    if _GAVE_UP.search(plain(reply)):
        return f"says it did not work, but {call.name} did: {shown(call.response)}"
    return None if _AFFIRMS.search(reply) else f"does not say that {call.name} worked"


def _told_apart(response: Any) -> Iterator[Any]:
    """The leaves of a response; a text of several lines is one for each line, `Author: Ada` too."""
    for leaf in leaves(response):
        if isinstance(leaf, str) and "\n" in leaf:
            for line in filter(None, map(str.strip, leaf.splitlines())):
                yield line
                if ": " in line:
                    yield line.split(": ", 1)[1]
        else:
            yield leaf


def _holds_empty_list(response: Any) -> bool:
    """An object whose only content is an empty list: a search without results."""
    if not isinstance(response, dict):
        return False
    lists = [v for v in response.values() if isinstance(v, list)]
    rest = [v for v in response.values() if not isinstance(v, list) and v not in (0, None, "")]
    return bool(lists) and not any(lists) and not [v for v in rest if not is_status(v)]


def _is_news(leaf: Any, call: CallMade, heard: str, dialogue: Dialogue) -> bool:
    """A leaf that is neither empty nor a status, nor an echo of the call or of the user."""
    if leaf is None or leaf == "" or is_status(leaf):
        return False
    if any(same(leaf, given) for given in leaves(call.arguments)):
        return False
    return isinstance(leaf, int | float) or not says(heard, leaf, None, dialogue.query.now)


def _tells(reply: str, leaf: Any, dialogue: Dialogue) -> bool:
    if isinstance(leaf, str) and len(wanted := content(leaf)) >= _PROSE:
        return sum(w in stems(reply) for w in wanted) >= _SUMMARY * len(wanted)
    if isinstance(leaf, str):
        return says(reply, leaf, None, dialogue.query.now)
    lone = Evidence((), (leaf,), (), dialogue.query.now)
    return any(number_held(q, reply, lone) for q in quantities(reply))


def consistent_replies(dialogue: Dialogue) -> Iterator[Fault]:
    """No reply says the opposite of an observed status or tells another choice of an enum."""
    for call, place, reply in _replied(dialogue):
        others = [c.response for c in made(dialogue) if c.turn == call.turn and not c.is_search]
        told = [v for r in others for v in leaves(r) if isinstance(v, str)]
        returns = call.api.returns if call.api else None
        known = "\n".join([*said_before(dialogue, place), *told])
        for field, value, choice in other_choices(call.response, returns, reply, known):
            detail = f"says {choice!r}, but {field} of {call.name} is {value!r}"
            yield Fault(Reason.UNGROUNDED_ANSWER, place, detail)
        for fact in stated(call.response):
            alike = {s.holds for r in others for s in stated(r) if s.yes & fact.yes}
            if alike == {fact.holds} and claimed(reply, fact, stems(known)) == {not fact.holds}:
                detail = f"says the opposite of {fact.field} of {call.name} ({shown(fact.holds)})"
                yield Fault(Reason.UNGROUNDED_ANSWER, place, detail)


def admitted_limits(dialogue: Dialogue) -> Iterator[Fault]:
    """Where no API fits, the reply says that it cannot serve the request."""
    query = dialogue.query
    if query.scenario is not Scenario.IRRELEVANCE or query.language != "English":
        return
    for place, text, _ in replies(dialogue)[-1:]:
        if not says_no(text):
            detail = "does not say that it cannot serve the request"
            yield Fault(Reason.UNGROUNDED_ANSWER, place, detail)


_LISTED = re.compile(r"^\s*(?:#+\s*)?\d{1,2}[.)]\s", re.MULTILINE)
_LABEL = re.compile(r"^[\s*#•-]*[^:.\n]{1,40}:", re.MULTILINE)
_MARKUP = re.compile(r"(?<!\w)[*_`#]+(?=\w)|(?<=[\w.:])[*_`]+(?!\w)")
_ADDED = re.compile(r"\b(?:plus|less|off|extra|more|surcharge|discount|on top)\b", re.IGNORECASE)
_CURRENCIES = ("$", "€", "£", "¥", "₹")
_DATED = re.compile(
    rf"\d{{4}}-|\b(?:{'|'.join(name.title() for name in MONTHS)}|today|tomorrow"
    r"|(?:with)?in \w+ (?:day|week|month|year)s?)\b"
)
_PRICE = 3  # below it, so many times a number may be any number
_COUNTED = re.compile(r" ([a-z]{3,})")
_DAY = re.compile(r"\d{4}-\d\d-\d\d")
_LATEST = re.compile(r" at the (?:latest|earliest)\b")  # «9 to 11 a.m., so 11 at the latest»
_SIZES = re.compile(r"(\d+) ?x ?(\d+)")
_FIRST = re.compile(r"(?:the|to|on) (?:first|second)", re.IGNORECASE)
_LAST_DAY = re.compile(r"\blast (?:full |whole )?day\b")
_SIZED = re.compile(r"\d+(?:[.,]\d+)*-?[a-z]+(?:-[a-z]+)*", re.IGNORECASE)
_HEDGE = re.compile(
    r"(?:about|around|approximately|roughly|nearly|almost|over|under|some|~)\s*[$€£]?$",
    re.IGNORECASE,
)
_HALVED = re.compile(r"\b[Hh]alf (?:of|the|an?|price|off|what|your|their|its)\b")
_HALF_A = re.compile(r"(?:a|one) (?P<name>half \w+)", re.IGNORECASE)
_COMMON = listed("no names in replies")
_METRIC = listed("metric units")
_RANGE = re.compile(r"\d{1,2} to \d{1,2}")
_NUMBERED = re.compile(r"(?:the )?\d+\w\w")  # a day said by its number, of the month that is meant


RULES, AMOUNTS = 20, 8  # rules or rows that are looked at, and numbers of one
MOST = 60  # numbers of a field that are added up or taken from each other
_TOTAL = re.compile(
    r"\b(?:(?:al)?together|in all|totals?|both|between them|combined|adds? up|com(?:es?|ing) to|"
    r"br(?:ings?|inging|ought)|the lot|includ\w+|mak(?:es?|ing)|plus|overall|that['’]s|"
    r"tak(?:es?|ing) (?:it|that|the \w+) to)\b",
    re.IGNORECASE,
)
_APART = re.compile(
    r"\b(?:more|less|fewer|cheaper|dearer|left|leav(?:e|es|ing)|difference|sav(?:e|es|ing)|extra|"
    r"remain\w*|falls?|rises?|drops?|longer|shorter|higher|lower|earlier|later|over|under|than|back|refund\w*)\b",
    re.IGNORECASE,
)
_EACH = re.compile(r" (?:each|apiece)\b")
_SOME = re.compile(r"\sof\s(?:them|these|those|the|your|my)\b", re.IGNORECASE)


class UnfoundedClaim(NamedTuple):
    """A claim in a reply that nothing bears out."""

    kind: str
    text: str


def unfounded(reply: str, evidence: Evidence, names: bool = True) -> Iterator[UnfoundedClaim]:
    """Claims in the reply that nothing said or observed bears out, in no special order."""
    text = _MARKUP.sub(lambda m: " " * len(m.group()), plain(reply))
    taken: list[tuple[int, int]] = []
    for kind, start, end, held in (*_literals(text, evidence), *_calendar(text, evidence)):
        taken.append((start, end))
        if not held:
            yield UnfoundedClaim(kind, text[start:end])
    taken += [m.span() for m in _LISTED.finditer(text)]
    hours = {t.hour % 12 or 12 for m in timed(text) if m.sure for t in m.times}
    for quantity in quantities(text):
        inside = any(a <= quantity.start < b for a, b in taken)
        inside |= bool(_LATEST.match(text, quantity.end)) and quantity.value in hours
        if quantity.stated and not inside and not number_held(quantity, text, evidence):
            yield UnfoundedClaim("number", text[quantity.start : quantity.end])
    if names:
        yield from (UnfoundedClaim("name", name) for name in _names(text, evidence, taken))


def _literals(text: str, evidence: Evidence) -> Iterator[tuple[str, int, int, bool]]:
    """Addresses, codes and quotations, with whether the evidence has them."""
    days = [(d.start, d.end) for d in dated(text, evidence.now.date())]
    addresses: list[tuple[int, int]] = []
    for found in ADDRESS.finditer(text):
        address = found.group().rstrip(".,;:!?)")
        addresses.append(found.span())
        yield "address", found.start(), found.end(), address.lower() in evidence.all_text.lower()
    for found in CODE.finditer(text):
        code, start = found.group(), found.start()
        sized = _SIZED.fullmatch(code) or not re.search(r"[^\W\d]", code)
        # A code inside a day or an address is judged with it.
        if not sized and not any(a <= start < b for a, b in (*days, *addresses)):
            held = any(exact(code, part) for part in evidence.parts)
            yield "code", start, found.end(), held or said(code, evidence.all_text)
    for found in QUOTED.finditer(text):
        quoted = next(g for g in found.groups() if g).strip(" .,!?")
        held = any(literal(quoted, part) for part in evidence.parts)
        held = held or said(quoted, evidence.all_text)
        yield "quotation", found.start(), found.end(), held


def _calendar(text: str, evidence: Evidence) -> Iterator[tuple[str, int, int, bool]]:
    """Dates and times; relative ones also hold where the number in them was told."""
    reach, marks = 0, dated(text, evidence.now.date())
    if _LAST_DAY.search(text):  # «it runs out on Sunday, so Saturday is its last day»
        ends = evidence.days & {day for mark in marks for day in mark.days}
        eves = (f"{eve}" for day in ends for eve in shift(day, "day", -1))
        evidence = replace(evidence, texts=(*evidence.texts, *eves))
    for place in marks:
        if place.end <= reach:
            continue
        reach, phrase = place.end, text[place.start : place.end]
        others = {day for mark in marks if mark != place for day in mark.days}
        held = evidence.has_day(place.days, others) or literal(phrase, evidence.all_text)
        held |= bool(_FIRST.fullmatch(phrase)) and " second" in text  # «$9 for the first»
        inside = [q for q in quantities(phrase) if q.stated]
        beside = [d for d in marks if 0 < max(d.start - place.end, place.start - d.end) < 7]
        weekday = WEEKDAYS.get(phrase.split()[-1].lower())
        if weekday is not None and (
            named := [d for d in beside if d.absolute or _NUMBERED.fullmatch(text, d.start, d.end)]
        ):
            # «Wednesday, 3 March», «Wed the 3rd», «3 March (Wednesday)», «3 to Friday 5 March»
            near = min(named, key=lambda d: max(d.start - place.end, place.start - d.end))
            days = near.days & (evidence.days | evidence.led)
            days = days or (near.days if near.absolute else frozenset())
            held = any(day.weekday() == weekday for day in days)
        elif weekday is not None and not held:
            # «dropped off on Wednesday 1 October, it would be ready on Thursday»
            before = [day for d in marks if d.absolute and d.end < place.start for day in d.days]
            ahead = {day: (weekday - day.weekday() - 1) % 7 + 1 for day in before}
            then = (each for day, days in ahead.items() for each in shift(day, "day", days))
            held = evidence.has_day(frozenset(then))
        elif not held and not place.absolute:
            period = re.search(r"week|month|year|today|tonight|now|this", phrase, re.IGNORECASE)
            told = [number_held(q, phrase, evidence) for q in inside]
            root = stem(phrase.lower())
            held = all(told) if inside else bool(period) or evidence.has_stem({root})
        yield "date", place.start, place.end, held
    for moment in timed(text):
        held = _in(evidence.told, moment.times, times)
        if not held and _RANGE.fullmatch(text[moment.start : moment.end]):
            continue  # «10 to 19 degrees»: two numbers, judged as such
        if moment.sure or held:
            yield "time", moment.start, moment.end, held


def number_held(quantity: Quantity, text: str, evidence: Evidence) -> bool:
    """Told as it is, rounded, scaled, as a percentage, in another unit of time, or worked out."""
    readings = {*quantity.readings()}
    if not readings.isdisjoint(evidence.values) or _in(evidence.told, readings, _numbers_of):
        return True
    told = evidence.numbers.union(*map(_numbers_of, evidence.facts))
    if not (told | evidence.shares).isdisjoint(readings) or _worked_out(quantity, text, evidence):
        return True
    # Of a size that is called so: «a half plot».
    if (name := _HALF_A.match(text, quantity.start)) and literal(name["name"], evidence.all_text):
        return True
    # «half an hour», «an hour and a half»
    halves = quantity.value == 0.5 and spans_of_time(text[max(0, quantity.start - 12) :][:30])
    hedged = bool(_HEDGE.search(text[max(0, quantity.start - 20) : quantity.start]))
    if any(_rounds(reading, quantity, n, hedged) for n in told for reading in quantity.readings()):
        return True
    if quantity.unit in _METRIC:
        return any(close(quantity.value * f, n) for n in told for f in (1000, 0.001, 100, 0.01))
    unit = seconds_in(quantity.unit)
    if not unit and not halves:
        return False
    lengths = evidence.seconds | {n * u for n in told for u in (1, 60, 3600)}
    found = [q for q in quantities(text) if seconds_in(q.unit)]
    whole = [
        a.value * seconds_in(a.unit) + b.value * seconds_in(b.unit)
        for a, b in pairwise(found)
        if quantity in (a, b) and b.start - a.end < 14
    ]
    whole.append(max(halves) if halves else quantity.value * unit)
    return any(close(s, n) for s in whole for n in lengths)


def _worked_out(quantity: Quantity, text: str, evidence: Evidence) -> bool:
    """Whether a sentence that speaks of a total, a difference or some of several tells what two
    numbers of one field, or two that the reply tells, or one that it tells and one of a field, come
    to; a total also of a whole column. So many times a number that is known need no such word."""
    around = text[max(0, quantity.start - 80) : quantity.end + 80]
    most = max(map(len, evidence.columns), default=0)
    if _SOME.match(text, quantity.end) and 0 < quantity.value <= most:
        return True
    added, apart = _TOTAL.search(around), _APART.search(around)
    replied = _numbers_of(text)
    if len(replied) > MOST:  # nobody works out so much, and it would take long to try
        return False
    said = {number for number in replied if number in evidence.numbers or evidence.priced(number)}
    prices = [number for number in said if number >= _PRICE]
    times = {a * b for a, b in product(replied, prices)}
    times |= {a / b for a, b in product(replied - said, prices)}
    times |= {a * number for number, word in evidence.rates if word in around for a in replied}
    money = text[quantity.start - 1 : quantity.start] in _CURRENCIES
    if money:
        days = {n for n in evidence.stays if n and round(quantity.value / n, 2) in evidence.prices}
        times |= {a * b for a, b in product(replied | days | evidence.shares, evidence.prices)}
    if any(close(quantity.value, other) for other in times) or (
        money and evidence.priced(quantity.value)
    ):
        return True
    if not added and not apart:
        return False
    unit = seconds_in(quantity.unit)
    told = {abs(quantity.value), *(quantity.value * unit / u for u in (60, 3600) if unit)}
    if _EACH.match(text, quantity.end):  # «two sets at £25 each, which takes it to £105»
        told |= {quantity.value * n for n in replied if 1 < n <= AMOUNTS}
    rows = [[n for n in row.values() if is_number(n)][:AMOUNTS] for row in evidence.rows[:RULES]]
    # Such as a price with its fee; of several of these a reply tells the total, too.
    parts = {sum(some) for row in rows for n in (2, 3) for some in combinations(row, n) if money}
    found = parts.union(map(sum, product(parts, said)))
    rounded = {round(number, 2) for number in found}
    said |= {number for number in replied if round(number, 2) in rounded}
    for column in (*evidence.columns, said):
        if added and len(column) > 1:
            found |= {sum(column), *map(sum, combinations(column, 2))}
        if apart or said & {*column}:  # «it's £32, so the round comes to £87»
            found |= {abs(a - b) for a, b in combinations(column, 2)}
    if added:  # «£90 goes back, plus £11; that's £54 back, plus £15. Altogether you get £170»
        paid = [q.value for q in quantities(text) if text[q.start - 1 : q.start] in _CURRENCIES]
        several = (combinations(sorted({*paid} & said)[:AMOUNTS], number) for number in (3, 4))
        found |= {sum(some) for some in chain(*several)}
    beside = [*product(said, chain(*evidence.columns))]
    found |= {a + b for a, b in beside} if added else set()
    found |= {abs(a - b) for a, b in beside} if apart else set()
    if added:  # «$698 together, or $498 with a plan, which takes $100 off each»
        offs = [n * off for off in chain(*evidence.amounts) for n in (1, 2)]
        found |= {a + b - off for (a, b), off in product(combinations(said, 2), offs)}
    return any(close(one, other) for one in told for other in found)


def _rounds(reading: float, quantity: Quantity, told: float, hedged: bool) -> bool:
    """Is the reading what a told number is when rounded as finely as the reply writes it?"""
    if close(reading, told) or close(abs(reading), abs(told)):
        return True
    try:
        scale = quantity.scale if reading == quantity.value else 1
        size = scale / 10**quantity.decimals
        if quantity.percent and close(reading, quantity.value / 100):
            size /= 100
        zeros = len(str(int(abs(reading)))) - len(str(int(abs(reading))).rstrip("0"))
        if hedged and scale == 1 and zeros and not quantity.decimals:
            size = 10**zeros
        exactly = float(told).is_integer() and scale == 1 and not hedged
        return not exactly and abs(reading - told) <= size * 0.5 + abs(told) * 1e-9
    except OverflowError:
        return False


def _names(text: str, evidence: Evidence, taken: list[tuple[int, int]]) -> Iterator[str]:
    """Capitalised words inside a sentence that nothing said or observed holds."""
    skipped = [*taken, *(m.span() for m in _LABEL.finditer(text))]
    starts = {s.lstrip("\"'([-•* ")[:12] for s in sentences(text)}
    for word in words(text):
        before = text[: word.start].rstrip(" \"'([-•*")
        first = not before or before[-1] in ".!?:\n" or before.endswith("…")
        if not word.capital or first or any(a <= word.start < b for a, b in skipped):
            continue
        if text[word.end : word.end + 1] == "$":  # a currency such as CA$
            continue
        if text[word.start : word.start + 12] in starts or len(word.folded) < 2:
            continue
        if not _name_held(word.folded, word.raw, evidence):
            yield word.raw


def _name_held(folded: str, raw: str, evidence: Evidence) -> bool:
    if folded in STOP or folded in _COMMON or folded in WEEKDAYS:
        return True
    roots = {stem(folded), stem(folded.removesuffix("s"))}
    if evidence.has_stem(roots) or any(d.month == MONTHS.get(folded) for d in evidence.days):
        return True
    may_be_short = forms(folded) or (raw.isupper() and len(raw) > 1)
    return bool(may_be_short) and said(raw, evidence.all_text)


# What a reply may draw on


def _in(texts: Iterable[str], wanted: Set[T], read: Callable[[str], Set[T]]) -> bool:
    """Whether one of these is read in one of the texts: not all need be read to know."""
    return any(not wanted.isdisjoint(read(text)) for text in texts)


@dataclass(frozen=True)
class Evidence:
    """Everything a reply may repeat: what was said and observed, and names of the APIs."""

    texts: tuple[str, ...]
    values: tuple[Any, ...]
    names: tuple[str, ...]
    now: dt.datetime
    pool: tuple[Api, ...] = ()
    rows: tuple[JsonObject, ...] = ()  # of results
    asked: tuple[JsonObject, ...] = ()  # arguments of calls
    rules: tuple[str, ...] = ()  # of the world, and documentation that was found
    facts: tuple[str, ...] = ()  # computed from results; nothing else is worked out of these

    @cached_property
    def told(self) -> tuple[str, ...]:
        return (*self.texts, *self.facts, *self.rules)

    @cached_property
    def dated(self) -> tuple[str, ...]:
        """What may tell of days; few rules do."""
        return (*self.texts, *self.facts, *filter(_may_tell_days, self.rules))

    @cached_property
    def columns(self) -> list[list[float]]:
        """The numbers of each field, of all rows that have it."""
        found = defaultdict[str, list[float]](list)
        for row in self.rows:
            for name, value in row.items():
                if is_number(value):
                    found[name].append(value)
        return [column[:MOST] for column in found.values()]

    @cached_property
    def amounts(self) -> list[list[float]]:
        """Sums of money that documentation adds or takes off, of each rule."""
        told = [rule for rule in map(plain, self.rules) if _ADDED.search(rule)]
        sums_of_money = [
            {q.value for q in quantities(rule) if rule[q.start - 1] in _CURRENCIES} for rule in told
        ]
        return [sorted(each)[:AMOUNTS] for each in sums_of_money[:RULES]]

    @cached_property
    def stays(self) -> set[int]:
        """Days from one day of a row or of a call to another, and with both counted."""
        found = set[int]()
        for row in (*self.asked, *self.rows)[:MOST]:
            told = {v for v in row.values() if isinstance(v, str) and _DAY.match(v)}
            days = [day for v in sorted(told)[:AMOUNTS] for day in dates(v[:10], self.now.date())]
            apart = {abs(a - b).days for a, b in combinations(days, 2)}
            found |= apart | {days + 1 for days in apart}
        return found

    @cached_property
    def rates(self) -> list[tuple[float, str]]:
        """Numbers of documentation, with what they count: «each voucher takes 100 points»."""
        numbers = ((rule, q) for rule in map(plain, self.rules) for q in quantities(rule))
        counted = ((q.value, _COUNTED.match(rule, q.end)) for rule, q in numbers)
        return [(n, word[1]) for n, word in counted if word and n >= _PRICE][:MOST]

    @cached_property
    def shares(self) -> set[float]:
        """Parts of a price that rules name: «half the price», «20 % off»."""
        half = {0.5} if any(map(_HALVED.search, self.told)) else set[float]()
        told = (q.value / 100 for rule in self.rules for q in quantities(rule) if q.percent)
        return half.union(*((share, 1 - share) for share in sorted({*told})[:AMOUNTS]))

    @cached_property
    def changes(self) -> set[float]:
        """What up to three of these of one rule come to."""
        return {
            sum(some)
            for amounts in self.amounts
            for number in (1, 2, 3)
            for some in combinations([*amounts, *(-amount for amount in amounts)], number)
        }

    @cached_property
    def prices(self) -> set[float]:
        return {round(n, 2) for n in chain(*self.columns) if abs(n) >= _PRICE}

    def priced(self, number: float) -> bool:
        """Whether it is a number of a result with these: «the frame plus $90 for single vision
        lenses, less $100 with a plan»."""
        return any(round(number - change, 2) in self.prices for change in self.changes)

    @cached_property
    def numbers(self) -> frozenset[float]:
        """Numbers said or observed, sizes of observed lists, years of the dates."""
        plain_numbers = [v for v in self.values if isinstance(v, int | float)]
        years = [d.year for d in self.days]
        return frozenset(plain_numbers).union(years, *map(_numbers_of, (*self.texts, *self.rules)))

    @cached_property
    def seconds(self) -> frozenset[float]:
        stays = {days * 86_400 for days in self.stays}
        return frozenset(s for text in self.told for s in spans_of_time(text)) | stays

    @cached_property
    def days(self) -> frozenset[dt.date]:
        today = self.now.date()
        return frozenset(d for text in self.dated for d in dates(text, today)) | {today}

    def has_day(self, days: frozenset[dt.date], beside: Set[dt.date] = frozenset()) -> bool:
        """`beside`: days that the same reply tells, from which a rule may lead to this one."""
        today = self.now.date()
        if today in days or _in(self.dated, days, lambda text: dates(text, today)):
            return True
        near = beside & (self.days | self.ends) if len(beside) <= MOST else ()
        led = (end for day in near for span in self.ruled for end in shift(day, *span))
        return any(not days.isdisjoint(known) for known in (self.ends, self.led, led))

    @cached_property
    def led(self) -> set[dt.date]:
        """Where rules lead from today: «at least 3 and at most 28 days from now»."""
        today = self.now.date()
        return {d for unit, n in self.ruled if unit != "year" for d in shift(today, unit, n)}

    @cached_property
    def ends(self) -> set[dt.date]:
        return {end for day in self.days for span in self.spans for end in shift(day, *span)}

    @cached_property
    def spans(self) -> set[tuple[str, int]]:
        """How far from a day another is: results say so (`days_to_arrive`), people («for three
        days», the last two days on) and rules («moves on by 12 months»)."""
        named = (item for row in self.rows for item in row.items() if "day" in item[0])
        taken = {("day", n) for name, n in named if type(n) is int and 0 < n <= MOST}
        said = chain.from_iterable(map(lengths, self.texts))
        stays = {(unit, n - 1) for how, unit, n in said if (how, unit) == ("for", "day")}
        ruled = {(unit, n) for unit, n in self.ruled if unit in ("month", "year")}
        return {*sorted(taken | stays | ruled)[:MOST]}

    @cached_property
    def ruled(self) -> set[tuple[str, int]]:
        """How far rules reach, there and back: «at most 60 days before it is due»."""
        told = chain.from_iterable(map(lengths, self.rules))
        return {(unit, n * way) for _, unit, n in sorted(told)[:MOST] for way in (1, -1)}

    @cached_property
    def parts(self) -> tuple[str, ...]:
        """All texts and names, and what the APIs' documentation tells."""
        told = list[str]()
        for api in self.pool:
            told += [api.category, spaced(api.tool), spaced(api.name), api.description]
            told += map(spaced, (*api.properties, *api.fields))
            for schema in (*api.properties.values(), *api.fields.values()):
                if isinstance(schema, dict) and isinstance(schema.get("description"), str):
                    told.append(schema["description"])
        return (*self.told, *self.names, *told)

    @cached_property
    def all_text(self) -> str:
        return "\n".join(self.parts)

    def has_stem(self, roots: set[str]) -> bool:
        return _in(self.told, roots, stems) or _in(self.parts, roots, stems)


_may_tell_days = lru_cache(maxsize=4096)(_DATED.search)  # documentation comes again and again


@lru_cache(maxsize=4096)
def _numbers_of(text: str) -> frozenset[float]:
    """Numbers that a text says, and what it adds them up to."""
    told = frozenset([reading for q in quantities(text) for reading in q.readings()])
    sizes = chain(*_SIZES.findall(text)) if "x" in text else ()
    return told.union(sums(text) if told else (), map(float, sizes))


def _ends(arguments: JsonObject) -> Iterator[str]:
    """When what a call asks for ends, where it says from when and for how long: also of one that
    failed."""
    lengths = [(seconds_in(k), v) for k, v in arguments.items() if is_number(v) and abs(v) < 10_000]
    for value in arguments.values() if any(unit for unit, _ in lengths) else ():
        if isinstance(value, str) and re.fullmatch(r"\d{4}-\d{2}-\d{2}(T\d{2}:\d{2})?", value):
            with suppress(ValueError):
                start = dt.datetime.fromisoformat(value)
                ends = (start + dt.timedelta(seconds=unit * much) for unit, much in lengths if unit)
                yield from (f"{end:%Y-%m-%dT%H:%M}" for end in ends)


def evidence_at(dialogue: Dialogue, place: int) -> Evidence:
    """What a reply at this message may draw on.

    In a world its rules are told, those of an operation by its documentation, which has to be found
    where it is searched for; and what follows from results was computed from them.
    """
    query = dialogue.query
    calls = answered_before(dialogue, place)
    texts = said_before(dialogue, place)
    texts += [c.observation.error for c in calls if c.observation and c.observation.error]
    parts = [p for c in calls if not c.is_search for p in parts_of(c.response)]
    texts += [v for v in parts if isinstance(v, str)]
    texts += [end for c in calls for end in _ends(c.arguments)]
    numbers = [v for v in parts if is_number(v)]
    sizes = [len(v) for v in parts if isinstance(v, list)]
    names = [spaced(key) for v in parts if isinstance(v, dict) for key in v]
    rules, facts = list[str](), list[str]()
    if query.setting:
        found = documented_before(dialogue, place) if query.ability.searches else None
        worlds = [api for api in query.pool if api.source.kind == "world"]
        rules = [a.description for a in worlds if found is None or a.function in found]
        rules += query.setting.told
        facts = [f.said for f in query.setting.goal.facts if re.search(r"\d", str(f.value))]
    values = (*numbers, *sizes, len(calls))
    rows = tuple(part for part in parts if isinstance(part, dict))
    asked = tuple(c.arguments for c in calls)
    texts += [v for row in asked for v in row.values() if isinstance(v, str) and _DAY.match(v)]
    more = asked, tuple(rules), tuple(facts)
    return Evidence(tuple(texts), values, tuple(names), query.now, query.pool, rows, *more)


# Words that affirm or deny what was observed

POLES = tuple((stems(yes), stems(no)) for yes, no in table("opposites"))
_DENIAL = listed("negations")
_NO_STOCK = re.compile(r"\b(?:out of stock|sold out|fully booked)\b", re.IGNORECASE)
_HYPOTHESIS = frozenset(["if", "unless", "whether", "once", "should"])
_GENERIC = frozenset(["is", "has", "was", "are", "status", "state", "flag", "result"])


class Stated(NamedTuple):
    """An observed field with a yes or no in it: words that say yes, words that say no."""

    field: str
    holds: bool
    yes: frozenset[str]
    no: frozenset[str]


def stated(response: Any) -> Iterator[Stated]:
    """Booleans and status words of a response, with the words that affirm and deny them."""
    stack = [("", response)]
    while stack:
        name, value = stack.pop()
        if isinstance(value, dict):
            stack.extend(value.items())
        elif isinstance(value, list):
            stack.extend((name, item) for item in value)
        elif isinstance(value, bool):
            yield _flag(name, value)
        elif isinstance(value, str) and (pole := _pole(value)):
            yield Stated(name, pole[0], *pole[1])


def _flag(name: str, value: bool) -> Stated:
    key = [stem(w.folded) for w in words(spaced(name)) if w.folded not in STOP | _GENERIC]
    yes = frozenset(key if len(key) == 1 else ())
    for affirms, denies in POLES:
        if yes & affirms:
            return Stated(name, value, affirms, denies)
        if yes & denies:  # a field such as `expired`: its own words say yes
            return Stated(name, value, denies, affirms)
    return Stated(name, value, yes, frozenset())


@lru_cache(maxsize=8192)
def _pole(value: str) -> tuple[bool, tuple[frozenset[str], frozenset[str]]] | None:
    """Which side of a pair a short status text is on, and the pair; None if on neither."""
    found = words(spaced(value))
    if not 0 < len(found) <= 2:
        return None
    negated = any(w.folded in _DENIAL for w in found)
    roots = stems(spaced(value))
    for yes, no in POLES:
        if roots & (yes | no):
            return bool(roots & yes) != negated, (yes, no)
    return None


def is_status(leaf: Any) -> bool:
    """A leaf that tells only whether something worked."""
    return isinstance(leaf, bool) or (isinstance(leaf, str) and _pole(leaf) is not None)


def negative(response: Any) -> bool:
    """Does the response itself report that it did not work?"""
    held = [fact.holds for fact in stated(response)]
    return bool(held) and not any(held)


def claimed(reply: str, fact: Stated, known: frozenset[str]) -> set[bool]:
    """Yes and no as the reply says it. Questions and conditions claim nothing.

    `known` are stems of what the user said or was observed: the opposite word does not count
    where it is one of them («cancel my booking»).
    """
    claims = set()
    for sentence in re.findall(r"[^.!?\n]+[.!?\n]*", _NO_STOCK.sub("unavailable", plain(reply))):
        if sentence.rstrip().endswith("?") or _HYPOTHESIS & {w.folded for w in words(sentence)}:
            continue
        for clause in clauses(sentence):
            names = [w.folded for w in clause]
            for place, name in enumerate(names):
                root = _root(name)
                if root in fact.yes or (root in fact.no and root not in known):
                    claims.add((root in fact.yes) != _denied(names[:place]))
    return claims


def _root(word: str) -> str:
    """A word's stem, but for nouns such as «confirmation», which assert nothing."""
    return word if word.endswith(("ation", "ations")) else stem(word)


def _denied(before: list[str]) -> bool:
    return any(name in _DENIAL or name.endswith("n't") for name in before[-4:])


def other_choices(
    response: Any, schema: JsonObject | None, reply: str, known: str
) -> Iterator[tuple[str, str, str]]:
    """Field, observed and claimed value where the reply tells another choice of a field's enum."""
    stack: list[tuple[str, Any, Any]] = [("", response, schema)]
    while stack:
        name, value, its = stack.pop()
        if not isinstance(its, dict):
            continue
        options = its.get("enum")
        if isinstance(value, str) and isinstance(options, list) and not _tells_choice(reply, value):
            for choice in options:
                other = isinstance(choice, str) and choice != value
                if other and _tells_choice(reply, choice) and not _tells_choice(known, choice):
                    yield name, value, choice
        properties = its.get("properties")
        if isinstance(value, dict) and isinstance(properties, dict):
            stack.extend((k, v, properties.get(k)) for k, v in value.items())
        if isinstance(value, list):
            stack.extend((name, item, its.get("items")) for item in value)


def _tells_choice(text: str, value: str) -> bool:
    wanted = [stem(w.folded) for w in words(spaced(value))]
    for sentence in sentences(text):
        found = [w.folded for w in words(sentence)]
        roots = [_root(w) for w in found]
        for place in range(len(roots) - len(wanted) + 1):
            here = roots[place : place + len(wanted)] == wanted
            if wanted and here and not _denied(found[:place]):
                return True
    return False
