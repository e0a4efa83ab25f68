"""What came of a dialogue in a world: its changes, the policies it kept, and what was said.

The calls are run again from the start state, so whatever path led there counts. A change is told
without the keys of new rows, which any order of calls may give, and without free text. Of what is
said only what is certainly wrong is told: a moment that no result has, another currency than the
world's, a row that is named in a reply or looked for and that nothing said or returned before.
"""

from __future__ import annotations

import datetime as dt
import re
from collections import Counter
from collections.abc import Collection, Iterator, Sequence
from contextlib import suppress
from functools import lru_cache
from itertools import chain, product
from typing import Any, NamedTuple

from toolloom.pipeline.checks.grounding import about, founded, mentions, named
from toolloom.pipeline.checks.replies import Evidence, evidence_at, number_held
from toolloom.pipeline.checks.schema import leaves, parts_of
from toolloom.pipeline.checks.text.quantities import dated, quantities, seconds_in, timed
from toolloom.pipeline.checks.text.words import exact, fold, sentences, stem, stems, words
from toolloom.pipeline.checks.transcript import (
    CallMade,
    Fault,
    answered_before,
    made,
    observed_before,
    replies,
    said_before,
    shown,
)
from toolloom.pipeline.checks.world.interpreter import (
    Frame,
    Json,
    Machine,
    Row,
    State,
    as_term,
    difference,
    state_of,
    values_of,
)
from toolloom.schemas import Dialogue, Observation, Reason, Setting, Told, canonical, digest

CURRENCIES = "$€£¥"
_GAP = 6  # characters between a day and its time, as in «Monday, at 9»
_DATE, _CLOCK = re.compile(r"\d{4}-\d{2}-\d{2}"), re.compile(r"\d{2}:\d{2}")
_MOMENT = re.compile(rf"({_DATE.pattern})T({_CLOCK.pattern})")
_DAY = re.compile(rf"\b{_DATE.pattern}(?=T|\b)")
_MARK = re.compile(r"[\dT:.-]+|[A-Z]{2,}-?\d+")  # days, times, keys
_PROPER = re.compile(r"[A-Z]\w+(?:[ -][A-Z]\w+)+")


class Acted(NamedTuple):
    """One call of a dialogue. `agreed`: the last thing said before it was a user's answer to
    something that the assistant had said."""

    name: str
    arguments: Row
    agreed: bool = False


class Broken(NamedTuple):
    """A policy that a call did not keep."""

    call: int
    says: str


def observed(response: Json, error: str | None) -> Observation:
    """What a call's result is to those who called."""
    return Observation(error=f"{error}: {response}") if error else Observation(response=response)


def outcome(dialogue: Dialogue, machine: Machine) -> Iterator[Fault]:
    """What is wrong with what came of a dialogue: its calls are run again from its start state.

    Results that differ, changes that lack or that nobody asked for, facts that are not told, and
    policies that are broken. Whatever path led there counts.
    """
    setting = dialogue.query.setting
    if setting is None:
        return
    now = f"{dialogue.query.now:%Y-%m-%dT%H:%M}"
    start = state = state_of(setting.start["tables"], setting.start["me"], setting.start["next"])
    own = [c for c in made(dialogue) if c.api and c.api.source.reference == setting.world]
    broken, keeper = list[Fault](), _PolicyKeeper(machine, now)
    for call in own:
        acted = Acted(_operation(call), call.arguments, _agreed(dialogue, call))
        after, response, error = machine.apply(state, acted.name, call.arguments, now)
        for policy in keeper.broken(acted, state, error):
            broken.append(Fault(Reason.POLICY_BROKEN, call.place, f"{call.name}: {policy}"))
        seen, state = observed(response, error), after
        if not _repeats(dialogue, call, seen):
            there = call.observation.error if call.failed and call.observation else call.response
            detail = f"{call.name} returns {shown(seen.error or seen.response)}, not {shown(there)}"
            yield Fault(Reason.NOT_REPEATABLE, call.back, detail)
    for call in own:
        for name, value in _invented(dialogue, call, machine):
            detail = f"{call.name}: nothing said or returned {name}={shown(value)}"
            yield Fault(Reason.UNGROUNDED_ARGUMENT, call.place, detail)
    yield from _changed(setting, difference(machine, start, state))
    yield from _untold(dialogue, setting, machine)
    names = _names(machine, setting)
    for place, text, _ in replies(dialogue):
        for detail in (
            *_moments_untrue(dialogue, text, place),
            *_units_untrue(dialogue, text, place, machine),
            *_names_untrue(dialogue, text, place, names),
        ):
            yield Fault(Reason.UNGROUNDED_ANSWER, place, detail)
    yield from _names_invented(dialogue, machine, setting, names)
    yield from broken


def _repeats(dialogue: Dialogue, call: CallMade, seen: Observation) -> bool:
    """Whether a call has the result that stands in the dialogue, whole or shortened."""
    if call.back is None or call.observation is None:
        return True  # told by the checks of the dialogue's form
    before = dialogue.messages[call.back].execution
    if before is not None and before.whole_tokens is not None:
        return before.digest == digest(seen.model_dump(mode="json"), 64)
    there, here = (each.model_dump(mode="json") for each in (call.observation, seen))
    return canonical(there) == canonical(here)


def _invented(dialogue: Dialogue, call: CallMade, machine: Machine) -> Iterator[tuple[str, Any]]:
    """Arguments that nobody can know: keys that no result or error showed and the user did not say;
    in what changes something, also names, amounts and moments, which the assistant may have put
    forward and the user agreed to. Choices, what a lookup is narrowed by, and free texts are the
    assistant's reading of the request, and judged by what comes of them."""
    operation = machine.operations.get(_operation(call))
    if operation is None or call.api is None:
        return
    texts = said_before(dialogue, call.place)
    # What errors said too: `CRN-7 is blocked by CRN-3` tells of both.
    before = [c.observation for c in answered_before(dialogue, call.place)]
    texts += [each.error for each in before if each and each.error]
    # What the assistant said, and the user answered.
    roles = [message.role for message in dialogue.messages[: call.place]]
    last = max((at for at, role in enumerate(roles) if role == "user"), default=0)
    agreed = [*texts, *(text for at, text, _ in replies(dialogue) if at < last)]
    seen = observed_before(dialogue, call.place)
    setting = dialogue.query.setting
    known = {leaf for leaf in leaves(seen) if isinstance(leaf, str)}
    known |= {setting.start["me"]} if setting else set()
    for name, value in call.arguments.items():
        schema = named(name, call.api.properties.get(name))
        for kind, leaf in values_of(operation.args.get(name, {}), value):
            form = kind.get("type")
            if form == "ref":
                held = leaf in known or any(exact(str(leaf), text) for text in texts)
            elif operation.changes and form in _SAID and not kind.get("free"):
                held = leaf == 1 or founded(leaf, agreed, seen, schema, dialogue.query.now)
            else:
                held = True
            if not held:
                yield name, leaf


def _operation(call: CallMade) -> str:
    return call.api.source.operation if call.api else call.name


def _changed(setting: Setting, changes: Sequence[Sequence[Any]]) -> Iterator[Fault]:
    wanted = Counter(canonical(list(change)) for change in setting.goal.changes)
    there = Counter(canonical(list(change)) for change in changes)
    for change in sorted((wanted - there).elements()):
        yield Fault(Reason.GOAL_NOT_REACHED, None, f"is not changed: {_cut(change)}")
    for change in sorted((there - wanted).elements()):
        yield Fault(Reason.COLLATERAL_CHANGE, None, f"nobody asked for {_cut(change)}")


def _cut(change: str) -> str:
    return change if len(change) <= LONGEST else f"{change[: LONGEST - 1]}…"


def _agreed(dialogue: Dialogue, call: CallMade) -> bool:
    """Whether the user spoke last before a call, after the assistant had said something."""
    before = [m for m in dialogue.messages[: call.place] if m.role in ("user", "assistant")]
    spoken = [message.role for message in before if (message.content or "").strip()]
    return spoken[-2:] == ["assistant", "user"]


_SAID = ("text", "integer", "number", "date", "time", "datetime")
LONGEST = 160  # characters of a change in a finding


def broken_policies(
    machine: Machine, start: State, now: str, calls: Sequence[Acted]
) -> Iterator[Broken]:
    """Each policy that a call breaks: calls that fail break none, as nothing comes of them."""
    state, keeper = start, _PolicyKeeper(machine, now)
    for number, call in enumerate(calls):
        after, _, error = machine.apply(state, call.name, call.arguments, now)
        yield from (Broken(number, says) for says in keeper.broken(call, state, error))
        state = after


class _PolicyKeeper:
    """Holds the calls of a dialogue, in their order, to the policies of its world."""

    def __init__(self, machine: Machine, now: str) -> None:
        self.machine, self.now = machine, now
        self.done: list[Acted] = []
        self.values: dict[str, list[Json]] = {}  # of `one` and `once`, by what the policy says

    def broken(self, call: Acted, before: State, error: str | None) -> list[str]:
        """The policies that a call breaks, made in the state `before`."""
        policies = [p for p in self.machine.world["policies"] if call.name in p["calls"]]
        frame = None
        if policies and error is None:
            frame = self.machine.bound(before, call.name, call.arguments, self.now)
        says = [p["says"] for p in policies if frame and not self._keeps(p, call, frame)]
        self.done.append(call)
        return says

    def _keeps(self, policy: Json, call: Acted, frame: Frame) -> bool:
        same = [(name, call.arguments.get(name)) for name in policy.get("same", ())]
        firsts = [earlier for earlier in self.done if earlier.name in policy.get("first", ())]
        looked = any(all(e.arguments.get(name, v) == v for name, v in same) for e in firsts)
        kept = all(as_term(tree)(frame) for _, tree in policy.get("must", {}).get(call.name, ()))
        for key in ("one", "once"):
            tree = policy.get(key, {}).get(call.name)
            value = as_term(tree)(frame) if tree else None
            if value is not None:
                earlier = self.values.setdefault(f"{key} {policy['says']}", [])
                kept = kept and (not earlier or (value in earlier) == (key == "one"))
                earlier.append(value)
        agreed = call.agreed or not policy.get("consent")
        return kept and agreed and (looked or not policy.get("first"))


# --- facts ------------------------------------------------------------------------------------

# Where `grounding.says` asks whether a user said an argument, a fact that is true, nothing or none
# at all has to be told too: «breakfast comes with it», «free of charge», «nobody is ahead of you».

_COUNTED = re.compile(r"\S+ (?:\w+ )*?([A-Za-z]+)")  # «three copies»
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
_YEARS = {"year", "years"}
_PARTS: dict[float, str] = {50: "half", 100: "(?:fully|all)"}  # percents
_NAME = re.compile(r"[A-Z]\w+(?: [A-Z]\w+){1,4}")
_SIZE = re.compile(r"\d+(?:x\d+)+")
_TITLE = "(?:Dr|Mr|Mrs|Ms|Miss|Prof|Professor)"  # a last word alone may be another row's
_BEGINS, _ENDS = re.compile(r"(?<![\w-])(?<!\d[.,:])"), re.compile(r"(?![\w-]|[.,:]\d)")
_NEAR = 4  # words between a denial and what it denies


def _untold(dialogue: Dialogue, setting: Setting, machine: Machine) -> Iterator[Fault]:
    """Facts that no reply tells: neither as they were worded when they were drawn, nor in other
    words for the same value. Of a moment whose day was said, the time is enough."""
    texts = [text for _, text, _ in replies(dialogue)]
    plain, now = fold(" ".join(texts)), dialogue.query.now
    said = [m.content or "" for m in dialogue.messages if m.role in ("user", "assistant")]
    nouns = stems(" ".join(f"{n} {s['noun']}" for n, s in machine.world["entities"].items()))
    for fact in setting.goal.facts:
        told = not (fact.field and isinstance(fact.value, bool))  # «true» is no word for it
        stands = told and _stands(fold(fact.said), plain)
        every_kind = chain(*(entity.fields.items() for entity in machine.entities.values()))
        # A result may name it longer: `delivery_status`.
        kinds = [kind for name, kind in every_kind if f"_{fact.field}".endswith(f"_{name}")]
        ways = [k["choices"] for k in kinds if k.get("moves") and fact.value in k["choices"]]
        if ways and not any(_stands(fold(state), plain) for state in chain(*ways)):
            continue  # «it is still running», but not «it has ended»
        # What the world says of the field, without the nouns that all its rows go by.
        every = " ".join(str(kind.get("about", "")) for kind in kinds).split()
        words_of = " ".join(word for word in every if not stems(word) <= nouns)
        schema = {"title": fact.field, "description": words_of}
        if stands or any(_tells(text, fact, schema, now) for text in texts):
            continue
        if isinstance(fact.value, str) and _MOMENT.fullmatch(fact.value):
            moment = dt.datetime.fromisoformat(fact.value)
            days = {day for text in said for each in dated(text, now.date()) for day in each.days}
            clocks = {clock for text in texts for each in timed(text) for clock in each.times}
            if moment.date() in days and moment.time() in clocks:
                continue
        yield Fault(Reason.FACT_NOT_TOLD, None, f"the user is not told {shown(fact.said)}")


def _stands(said: str, text: str) -> bool:
    """Whether a text holds a value whole: «$5» does not stand in «$50», nor «two» in «two-day»."""
    place = text.find(said)
    while place >= 0:
        begins = not said[:1].isalnum() or _BEGINS.match(text, place)
        if begins and (not said[-1:].isalnum() or _ENDS.match(text, place + len(said))):
            return True
        place = text.find(said, place + 1)
    return False


def _tells(text: str, fact: Told, schema: Row, now: dt.datetime) -> bool:
    """Whether a text tells a fact in words of its own; a count, where it says of what."""
    if fact.field:
        return tells(text, fact.value, schema, now)
    if isinstance(fact.value, int | float) and (noun := _COUNTED.fullmatch(fact.said)):
        what = stem(noun[1].lower())
        return any(
            mentions(part, fact.value, {}, now) and what in stems(part) for part in sentences(text)
        )
    return mentions(text, fact.value, {}, now)


def tells(text: str, value: Any, schema: Json, now: dt.datetime) -> bool:
    """Whether the text tells the value of a field; `schema`: its own, with its name as title."""
    if isinstance(value, bool):
        plainly = re.match(r"(yes|no)\b", text.lower())  # «No, it isn't.»
        said = plainly and (plainly[0] == "yes") == value
        return bool(said) or any(_claims(part, schema, value) for part in sentences(text))
    if value in (None, "", []) or (value == "none" and not mentions(text, value, schema, now)):
        return any(_claims(part, schema, False, len(part)) for part in sentences(text))
    if mentions(text, value, schema, now):
        return True
    if value == 0:  # «None, I'm afraid.»
        plainly = re.match(r"(?:none|nothing)\b", text.lower())
        return bool(plainly) or any(_nothing(part, schema) for part in sentences(text))
    name = {"title": schema.get("title", "")}
    if value == 1 and any(_claims(part, name, True) for part in sentences(text)):
        return True  # «it is free», of one that is
    if isinstance(value, int | float):
        return _number_told(text, value, schema, now)
    if isinstance(value, str) and _SIZE.fullmatch(value):
        return bool(re.search(rf"\b{value.replace('x', ' ?(?:x|×|by) ?')}\b", text))
    if isinstance(value, str) and _NAME.fullmatch(value):
        return bool(re.search(rf"\b{_TITLE}\.? {re.escape(value.split()[-1])}\b", text))
    return False


def _claims(text: str, schema: Json, value: bool, reach: int = _NEAR) -> bool:
    """Whether a sentence says yes, or no, to what a field is about. To be about it takes two of the
    words of its name and description, unless its name has only one; to deny it takes one."""
    title, others = about(schema)
    found = words(text)
    stems = [stem(word.folded) for word in found]
    places = [place for place, each in enumerate(stems) if each in title | others]
    near = {i for place in places for i in range(place - reach, place + reach)}
    denied = _DENIED.search(" ".join(word.folded for i, word in enumerate(found) if i in near))
    known = len({stems[place] for place in places})
    return bool(denied) if not value else known >= min(len(title), 2) > 0 and not denied


def _nothing(text: str, schema: Json) -> bool:
    title, others = about(schema)
    folded, named = fold(text), title & stems(text)
    if _NONE_LEFT.search(folded) or (_NONE.search(folded) and _claims(text, schema, False)):
        return True
    paid = (title | others) & _PAID
    return bool(paid and (_UNPAID.search(folded) or (named and _FREE.search(folded))))


def _number_told(text: str, value: float, schema: Json, now: dt.datetime) -> bool:
    """Rounded, scaled, in another unit of money or time."""
    known = frozenset[str]().union(*about(schema))
    evidence = Evidence((), (value, *([value / 100] if known & _MINOR else [])), (), now)
    told = [each for each in quantities(text) if each.stated]
    years = [each.value * 12 for each in told if each.unit in _YEARS and stem("months") in known]
    if stem("percent") in known and (part := _PARTS.get(value)):
        return bool(re.search(rf"\b{part}\b", fold(text)))
    return value in years or any(number_held(each, text, evidence) for each in told)


# --- what is said -----------------------------------------------------------------------------


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
                both = {dt.datetime.combine(d, t) for d in day.days for t in clock.times}
                if text[day.start : day.end].lower().endswith("night"):  # tonight at one
                    both |= {moment + dt.timedelta(days=1) for moment in both if moment.hour < 6}
                found.append((day.start, clock.end, frozenset(both)))
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
    for call in answered_before(dialogue, place):
        if call.observation:
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
    exact = (q for q in quantities(text) if not text[: q.start].endswith(" than "))
    lengths = [q for q in exact if seconds_in(q.unit)]
    if not foreign and not lengths:
        return
    evidence = evidence_at(dialogue, place)
    for sign in foreign:
        if not any(sign in said for said in evidence.told):
            yield f"{sign} is not the world's currency, which is {own}"
    units: dict[float, set[int]] = {}
    for said in evidence.told if lengths else ():
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
    heard = fold("\n".join(m.content or "" for m in dialogue.messages[:place]))
    for name in there:
        if name not in heard:
            yield f"nobody named {shown(named[name])}, and no result shows it"
