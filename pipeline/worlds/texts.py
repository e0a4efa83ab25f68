"""The texts of a script that is made of a dialogue: slots for the values that they say, conditions
for what they say plainly. What nothing accounts for makes the script impossible.
"""

from __future__ import annotations

import datetime as dt
import re
from collections.abc import Iterator, Sequence
from itertools import chain, combinations, pairwise, permutations

from toolloom.pipeline.checks.text.dates import dated
from toolloom.pipeline.checks.text.numbers import quantities
from toolloom.pipeline.checks.text.times import timed
from toolloom.pipeline.checks.text.words import STOP, content, exact, fold, stem, words
from toolloom.pipeline.checks.world.grammar import NUMBERS
from toolloom.pipeline.checks.world.interpreter import WEEKDAYS, shifted
from toolloom.pipeline.worlds.conditions import Conditions, Underivable
from toolloom.pipeline.worlds.mentions import LONG, NAMED_DAYS, Sayable, ValueSlot, slots

MOST_SUMMED = 24  # amounts of which three may make a sum
NEAR = ((-1, -1), (0, 0), (1, 1), (2, 6), (-6, -2))  # days from today that are worded alike
_HOURS = re.compile(
    r"\b(?:(?:this|good) (?:morning|afternoon|evening)|tonight|last night)\b",
    re.IGNORECASE,
)
_MEALS = re.compile(
    r"\b(?:mornings?|noon|afternoons?|evenings?|nights?|lunch|dinner|breakfast|early|late)\b",
    re.IGNORECASE,
)
_HIM = re.compile(r"\b(?:she|hers?|herself|he|him|his|himself)\b", re.IGNORECASE)
_WEEKS = re.compile(
    r"\b(?:weekend|(?:this|next|last|coming) (?:week|month|\w+day))\b",
    re.IGNORECASE,
)
_KEY = re.compile(r"\b[A-Z]{2,}-\d+\b")
_BARE = ("today", "now", "this")


class TextSlots:
    def __init__(self, of: Conditions) -> None:
        self.of = of
        self.told: list[tuple[str, ValueSlot]] = []
        self.plain: list[tuple[str, str]] = []  # who says what that is in no slot
        self.clocks = False  # whether words lean on times of day
        self.said = 0  # letters in slots

    def text(self, form: str, text: str, results: Sequence[Sayable]) -> str:
        """A text with slots for the values that it says; `results`: of the calls before it."""
        heard = [s for s in results if s.kind["type"] != "ref" or form == "assistant"]
        known = [*self.of.ours, *heard] if form == "user" else [*reversed(heard), *self.of.ours]
        found = list[ValueSlot]()
        spans = [(place.start, place.end) for place in dated(text, self.of.today)]
        spans += [(place.start, place.end) for place in timed(text) if place.sure]
        for slot in slots(text, known, self.of.voice):
            inside = any(start <= slot.start and slot.end <= end for start, end in spans)
            if slot.source.kind["type"] == "integer" and (
                inside or not self._is_shown(slot.source)
            ):
                continue  # «in three days» is no number of anything
            if text[slot.start : slot.end] in self.of.constants:
                continue  # what a call passes as it is: «any Monday»
            if slot.form in ("number", "") and slot.source.value in self.of.constants:
                for one in (slot.source, *slot.others):  # what the user said, or by chance as many
                    if one in results:
                        self.of.hold(one)
                continue
            for other in slot.others[:3]:
                self.alike(slot.source, other, slot.form)
            found.append(slot)
        rest = _without(text, found)
        if form == "assistant":
            found += self._sums(rest, results)
            found += self._shifted(_without(text, found), results)
        found.sort(key=lambda slot: slot.start)
        self.told += [(form, slot) for slot in found]
        self.said += sum(slot.end - slot.start for slot in found)
        self.stays(form, _without(text, found))
        pieces, at = list[str](), 0
        for slot in found:
            pieces += [text[at : slot.start], slot.text]
            at = slot.end
        return "".join([*pieces, text[at:]])

    def _is_shown(self, one: Sayable) -> bool:
        """Whether a result shows a number: nobody speaks of others."""
        return any((s.field, s.value) == (one.field, one.value) for s in self.of.results)

    def alike(self, one: Sayable, other: Sayable, form: str) -> None:
        """Two values that the same words say are the same in every state, as far as they say it."""
        part = {"time": "time", "clock": "time", "weekday": "weekday"}.get(form, "date")
        texts = one.kind["type"] == "text"  # «Anna» may be the first name of one, and a whole one
        if form in ("month", "nth") or (texts and one.value != other.value):
            return
        if part == "weekday" and str(one.value)[:10] == str(other.value)[:10]:
            part = "date"
        terms = [
            f"{part}({each.term})"
            if part == "weekday" or (each.kind["type"] == "datetime" and form != "when")
            else each.term
            for each in (one, other)
        ]
        self.of.needs[" = ".join(terms)] = None

    def _sums(self, rest: str, results: Sequence[Sayable]) -> Iterator[ValueSlot]:
        """Amounts that follow from others: a price so many times, the sum or the difference of two
        or three such."""
        sign = re.escape(self.of.voice.currency)
        amounts = list(re.finditer(rf"{sign}(\d[\d,]*(?:\.\d\d)?)(?![\d.,]*\d)", rest))
        known = [
            s for s in (*reversed(results), *self.of.ours) if s.kind["type"] in NUMBERS and s.value
        ]
        money = {s.term: s for s in known if s.kind["type"] == "number"}
        counts = {str(n): n for n in sorted(self.of.constants, key=str) if type(n) is int and n > 1}
        counts |= {s.term: s.value for s in known if s.kind["type"] == "integer" and s.value > 1}
        base = [(term, one.value) for term, one in money.items()]
        base += [(f"{t} * {c}", v * n) for t, v in base for c, n in counts.items()]
        base += [(fee, float(fee)) for fee in re.findall(rf"{sign}(\d+(?:\.\d\d)?)", self.of.rules)]
        for match in amounts:
            amount = float(match[1].replace(",", ""))
            ways = chain(
                (
                    (term, value)
                    for term, value in base[: len(base)]
                    if term in money or "*" in term
                ),
                ((f"{a} + {b}", v + w) for (a, v), (b, w) in combinations(base, 2)),
                ((f"{a} - {b}", v - w) for (a, v), (b, w) in permutations(base, 2)),
                (
                    (f"{a} + {b} + {c}", v + w + x)
                    for (a, v), (b, w), (c, x) in combinations(base[:MOST_SUMMED], 3)
                ),
            )
            term = next((term for term, value in ways if abs(value - amount) < 0.005), None)
            if term:
                source = Sayable(term, {"type": "number", "role": "money"}, amount, term, term)
                yield ValueSlot(*match.span(), source, "money")

    def _shifted(self, rest: str, results: Sequence[Sayable]) -> Iterator[ValueSlot]:
        """Moments that are so long after others: an end, the last day of a term of the rules."""
        known = [*reversed(results), *self.of.ours]
        spans = [(s.term, s.value) for s in known if s.kind["type"] == "integer" and s.value]
        spans += [(str(n), n) for n in self.of.constants if type(n) is int and n > 1]
        terms = [(n, int(n)) for n in re.findall(r"(\d+) days", self.of.rules)]
        sources = list[Sayable]()
        for one in known:
            form = one.kind["type"]
            if one.value is not None and form in ("date", "datetime"):
                unit, by = ("days", spans + terms) if form == "date" else ("minutes", spans)
                for term, number in by:
                    value = shifted(one.value, number, unit)
                    name = f"{one.term} + {term} {unit}"
                    sources.append(Sayable(name, one.kind, value, name, name))
        for slot in slots(rest, sources, self.of.voice):
            if slot.form in ("date", "on", "day", "time", "clock", "when"):
                yield ValueSlot(slot.start, slot.end, slot.source, slot.form)

    def stays(self, form: str, rest: str) -> None:
        """Account for what is in no slot. Raises Underivable for what nothing accounts for."""
        for constant in self.of.constants:
            if isinstance(constant, str) and len(constant) > len("00:00"):
                rest = rest.replace(constant, "_" * len(constant))
        if key := _KEY.search(rest):
            raise Underivable(f"it says {key[0]}, which nothing shows there")
        known = [*self.of.results, *self.of.ours]  # what comes later too: the user may mean it
        spans = self._days_stay(form, rest, known) + self._times_stay(form, rest, known)
        self._numbers_stay(form, rest, known, spans)
        self._names_stay(form, rest)
        self.plain.append((form, rest))
        if _HOURS.search(rest):
            hour = int(self.of.now[11:13])
            low, high = next(p for p in ((0, 12), (12, 17), (17, 24)) if p[0] <= hour < p[1])
            self.of.opening[f"hour(now) >= {low} and hour(now) < {high}"] = None
        elif _MEALS.search(rest):
            self.clocks = True
        if pronoun := _HIM.search(rest):
            self._pronouns_stay(form, pronoun[0])
        if _WEEKS.search(rest):
            self.of.opening[f"weekday(today) = '{self.of.today:%A}'"] = None

    def _pronouns_stay(self, form: str, said: str) -> None:
        """Keep whether rows are of a man or a woman, by what they say of it."""
        of_them = [
            one
            for one in self.of.ours
            if one.field in ("she", "he", "female", "male")
            or re.match(r"(?:s?he|they)/", str(one.value))
        ]
        for one in of_them:
            self.of.hold(one)
        if form == "assistant" and not of_them:
            raise Underivable(f"no row that is looked for says who «{said}» is")

    def _fits(self, form: str, said: str) -> bool:
        """Whether words may stay that no value accounts for: the user's own, or of the rules."""
        before = "\n".join(text for who, text in self.plain if who == "user")
        return form == "user" or exact(said, before) or exact(said, self.of.rules)

    def _days_stay(self, form: str, rest: str, known: list[Sayable]) -> list[tuple[int, int]]:
        spans = list[tuple[int, int]]()
        for place in dated(rest, self.of.today):
            said = rest[place.start : place.end]
            if any(start <= place.start and place.end <= end for start, end in spans):
                continue
            spans.append((place.start, place.end))
            if said.lower() in _BARE:
                continue
            days = {day.isoformat() for day in place.days}
            same = [
                s
                for s in known
                if s.kind["type"] in ("date", "datetime") and str(s.value)[:10] in days
            ]
            if same and place.absolute:
                raise Underivable(f"no slot says a day as «{said}»")
            for one in same:
                self.of.hold(one, "day")
            named = any(said.lower().find(day.lower()) >= 0 for day in WEEKDAYS)
            if same and named:
                self.of.opening[f"weekday(today) = '{self.of.today:%A}'"] = None
            if not same and not self._fits(form, said) and said not in self.of.constants:
                raise Underivable(f"nothing says where «{said}» comes from")
        return spans

    def _times_stay(self, form: str, rest: str, known: list[Sayable]) -> list[tuple[int, int]]:
        spans = list[tuple[int, int]]()
        for place in timed(rest):
            said = rest[place.start : place.end]
            clocks = {f"{each:%H:%M}" for each in place.times}
            same = [
                s
                for s in known
                if s.kind["type"] in ("time", "datetime") and str(s.value)[-5:] in clocks
            ]
            for one in same:
                self.of.hold(one, "time")
            if same or clocks & {c for c in self.of.constants if isinstance(c, str)}:
                spans.append((place.start, place.end))
            elif place.sure and not self._fits(form, said):
                raise Underivable(f"nothing says where «{said}» comes from")
            elif place.sure:
                spans.append((place.start, place.end))
        return spans

    def _numbers_stay(
        self, form: str, rest: str, known: list[Sayable], spans: list[tuple[int, int]]
    ) -> None:
        for q in quantities(rest):
            inside = any(start <= q.start and q.end <= end for start, end in spans)
            if q.value == 1 and not inside:  # «one more visit», and «that one»: both are held
                for one in self.of.leaned_on:
                    if one.kind["type"] == "integer" and one.value == 1:
                        self.of.hold(one)
            if inside or q.value == 1 or q.value in self.of.constants:
                continue
            said = rest[q.start : q.end]
            same = [
                s
                for s in known
                if s.kind["type"] in NUMBERS and s.value == q.value and self._is_shown(s)
            ]
            sizes = [term for term, size in self.of.sizes.items() if size == q.value]
            for one in same:
                self.of.hold(one)
            self.of.needs.update((f"size({term}) = {self.of.sizes[term]}", None) for term in sizes)
            texts = [s for s in known if s.kind["type"] == "text" and exact(said, str(s.value))]
            for one in texts:
                self.of.hold(one)
            if q.stated and not same and not sizes and not texts and not self._fits(form, said):
                raise Underivable(f"nothing says where «{said}» comes from")

    def _names_stay(self, form: str, rest: str) -> None:
        """Hold the texts of which a part is said; refuse names of rows that are not looked for."""
        there = {w.folded: stem(w.folded) for w in words(rest)}
        spoken = {s for w, s in there.items() if w not in STOP and len(w) > 2}
        kinds = {
            stem(fold(w))
            for s in [*self.of.results, *self.of.ours]
            if s.kind["type"] == "choice" and isinstance(s.value, str)
            for w in s.value.split()
        }
        for source in [*self.of.results, *self.of.ours]:
            if source.kind["type"] != "text" or not isinstance(source.value, str):
                continue
            shared = (set(content(source.value)) & spoken) - kinds
            if len(shared) > (1 if len(source.value) > LONG else 0):
                self.of.hold(source)
        held = {s.value for s in [*self.of.results, *self.of.ours] if isinstance(s.value, str)}
        for name, entity in self.of.machine.entities.items():
            for f, kind in entity.fields.items():
                rows = self.of.state["tables"][name].values()
                if kind["type"] != "text" or kind.get("secret"):
                    continue
                for value in sorted({row[f] or "" for row in rows} - held):
                    proper = len(value) > 3 and (value[0].isupper() or " " in value)
                    if any(value in other or (len(other) > 3 and other in value) for other in held):
                        continue  # it, or the part of it that is said, is held
                    if proper and re.search(rf"(?<!\w){re.escape(value)}(?!\w)", rest):
                        raise Underivable(f"it names {value}, which no result shows")

    def relations(self) -> None:
        """Keep the order of values that are told, how near days are, and that what the user says
        of a row names it alone."""
        spoken = {slot.source.term for _, slot in self.told}
        for one in self.of.leaned_on:
            self.of.needs.update(dict.fromkeys(self.of.class_of(one, one.term in spoken)))
        told: dict[str, dict[str, Sayable]] = {}
        for _, slot in self.told:
            one, form = slot.source, slot.form
            type_ = one.kind["type"]
            if self.clocks and type_ in ("time", "datetime"):
                self.of.hold(one, "time")
            if form in ("time", "clock"):
                told.setdefault("time", {})[
                    f"time({one.term})" if type_ == "datetime" else one.term
                ] = one
            elif type_ in ("date", "datetime"):
                told.setdefault("day", {})[
                    f"date({one.term})" if type_ == "datetime" else one.term
                ] = one
                if not any(s.source == one and s.form == "date" for _, s in self.told):
                    self._near(one)
            elif form == "money":
                told.setdefault("money", {})[one.term] = one
            elif type_ in NUMBERS:
                told.setdefault(one.field, {})[one.term] = one
        for what, terms in told.items():
            size = {"day": slice(0, 10), "time": slice(-5, None)}.get(what)
            values = {term: one.value[size] if size else one.value for term, one in terms.items()}
            order = sorted(values, key=lambda term: values[term])
            for a, b in pairwise(order):
                if not terms[a].same(terms[b]):
                    same = values[a] == values[b]
                    if not same or what in ("day", "time", "money"):
                        self.of.needs[f"{a} {'=' if same else '<'} {b}"] = None
        self._others()
        self._alone()

    def _others(self) -> None:
        """Keep who is told of from being the one who speaks."""
        mine = [one for one in self.of.ours if one.holder == "me" and one.kind.get("label")]
        for slot in {slot.source.term: slot for form, slot in self.told if form != "user"}.values():
            for own in mine if slot.source.kind.get("label") else ():
                if own.kind["type"] == slot.source.kind["type"] and own.value != slot.source.value:
                    self.of.needs[f"{slot.source.term} != {own.term}"] = None

    def _near(self, one: Sayable) -> None:
        if one.term.startswith(NAMED_DAYS):
            return
        gap = (dt.date.fromisoformat(one.value[:10]) - self.of.today).days
        low, high = next(
            ((low, high) for low, high in NEAR if low <= gap <= high),
            (7, 182) if gap > 0 else (-182, -7),
        )
        if low <= gap <= high:
            self.of.needs[
                f"days(today, {one.term}) >= {low} and days(today, {one.term}) <= {high}"
            ] = None

    def _alone(self) -> None:
        """What the user says of a row names no other of theirs, where it does not here."""
        said: dict[str, set[str]] = {}
        for form, slot in self.told:
            if form == "user" and slot.source.holder in self.of.rows.values():
                said.setdefault(slot.source.holder, set()).add(slot.source.field)
        for (entity, key), name in self.of.rows.items():
            spec, row = self.of.machine.entities[entity], self.of.row((entity, key))
            fields = {f for f in said.get(name, ()) if f in spec.fields}
            refs = [f for f, target in spec.references.items() if (target, row[f]) in self.of.rows]
            for group in (fields, *([{f} for f in refs] if len(refs) > 1 else [])):
                mine = [
                    other
                    for other in self.of.state["tables"][entity].values()
                    if self.of.machine.owned(self.of.frame, entity, other)
                    and all(other[f] == row[f] for f in group)
                ]
                if group and len(mine) == 1:
                    owner = spec.owner or []
                    way = [
                        *(f.removesuffix("_id") for f, _ in owner[:-1]),
                        *(f for f, _ in owner[-1:]),
                    ]
                    own = [f"{'.'.join(way)} = me"] if way else []
                    clauses = " and ".join([*own, *(f"{f} = {name}.{f}" for f in sorted(group))])
                    self.of.opening[f"count({entity} where {clauses}) = 1"] = None


def _without(text: str, found: Sequence[ValueSlot]) -> str:
    """A text with its slots blotted out, all else in its place."""
    for slot in found:
        text = f"{text[: slot.start]}{'_' * (slot.end - slot.start)}{text[slot.end :]}"
    return text
