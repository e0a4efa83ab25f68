"""An accepted sample becomes a template by itself (tool manipulation, sections 4.1 and C.1).

    mine(sample, seen)  →  «Find me a hotel in {city} …», and other cities

Only arguments of its calls vary, and only those of which nothing is in doubt: a distinctive value
that the user says once, that stands in its calls, and that results and replies echo word for word.
A value stays as it is where a part of it stands anywhere else, or where something in a result may
follow from it. A slot that is wrong makes wrong rows by the thousand; one too few costs little.
"""

from __future__ import annotations

import datetime as dt
import json
import random
import re
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from copy import deepcopy
from dataclasses import dataclass, field
from functools import partial
from typing import Any, TypeAlias

from toolloom.pipeline.checks import inspect
from toolloom.pipeline.checks.evidence import is_status
from toolloom.pipeline.checks.schema import as_dict, fits, oddity
from toolloom.pipeline.checks.text.phrases import is_code
from toolloom.pipeline.checks.text.words import STOP, alone, name_words, spaced, stem, words
from toolloom.pipeline.sampling.values import NoValue, draw_value, rng_for
from toolloom.pipeline.sampling.vocabulary import LOCALES, REMARKS, TOPICS
from toolloom.pipeline.store.files import to_text
from toolloom.pipeline.templates.filling import STAGE as EXPANDED
from toolloom.pipeline.templates.filling import TemplateRenderer
from toolloom.schemas import (
    API_SEARCH,
    Finding,
    JsonObject,
    Provenance,
    Reason,
    Rejected,
    Scenario,
    Split,
    canonical,
)
from toolloom.schemas.splits import api_id
from toolloom.schemas.template import CLOSE, OPEN, Choice, Template, marker

STAGE = "templates"
LONGEST = 200  # characters of a value
DIGITS = 5  # from which a number is no other one by chance
VALUES = 64  # of a slot
FURTHEST = 300  # days from the present: words without a year mean a day in this reach
_LETTERS = 24_000  # of a sample's messages but for searches
_DRAWS = 240
_TRIED = 5  # rows of which one has to pass
_ENTRY = 20_000  # places of arguments whose values are noted
_DAY = re.compile(r"\d{4}-\d{2}-\d{2}")
_DATED = re.compile(r"\d{4}-\d{2}-\d{2}|\d{1,2}[/.]\d{1,2}[/.]\d{2,4}")
_CALENDAR = re.compile(
    r"\b(?:(?:mon|tues|wednes|thurs|fri|satur|sun)day|to(?:day|morrow|night)|yesterday|weekend"
    r"|jan(?:uary)?|feb(?:ruary)?|mar(?:ch)?|apr(?:il)?|june?|july?|aug(?:ust)?|sept?(?:ember)?"
    r"|oct(?:ober)?|nov(?:ember)?|dec(?:ember)?|\d{1,2}(?:st|nd|rd|th))\b",
    re.IGNORECASE,
)
_NEXT = re.compile(r" [A-Z]\w")
_BEFORE = re.compile(r"[^.!?:]\s[A-Z]\w*\s\Z")
_ARTICLE = re.compile(r"\b(an?)\s\Z", re.IGNORECASE)
_VOWEL = re.compile(r"[aeiou8]|1[18]\b", re.IGNORECASE)
_WORKED_OUT = re.compile(
    r"(?:translat|defin|meaning|synonym|conver|encod|decod|encrypt|decrypt|hash|revers|summar"
    r"|length|count|sum|total|average|calculat|result|zodiac)\w*"
)
"""Names of APIs and fields whose values follow from the argument."""
_LENGTHS = re.compile(r"(?:night|day|week|month)s?|duration|length|stay")
_LABELS = re.compile(r"ids?|number|no|code|zip|postcode|phone|isbn|account|reference|order|ticket")
"""Names whose numbers are labels: nothing is counted with them."""

Found: TypeAlias = tuple[int, int, str]
"""A place in a text that a value takes, and the form in which it stands there."""


def mine(sample: JsonObject, seen: SeenValues, split: Split | None = None) -> Template | Rejected:
    """A sample, as JSON, as a template; or why none of its values may vary."""
    if why := _unreadable(sample):
        return Rejected.of(sample, STAGE, [why], id=sample["dialogue"]["query"]["id"])
    work = _Sample(deepcopy(sample))
    kept, varying = list[Finding](), list[_Value]()
    for one in sorted(work.values, key=lambda v: -len(str(v.value))):
        doubt = work.doubt(one, varying)
        if not doubt:
            one.rows = work.options(one, seen, varying)
            doubt = None if len(one.rows) > 1 else (_NOTHING, "no other value is known for it")
        if doubt:
            reason, detail = doubt
            detail = f"argument {one.about} = {str(one.value)[:60]}: {detail}"
            kept.append(Finding(check="mining", reason=reason, detail=detail))
        else:
            varying.append(one)
    name = work.query["id"]
    if not varying:
        nothing = "none of the values that the user tells may vary"
        why = Finding(check="mining", reason=_NOTHING, detail=nothing)
        return Rejected.of(sample, STAGE, [why, *kept], id=name)
    varying.sort(key=lambda v: v.number)
    template = work.template(varying, split, kept)
    if findings := _never_passes(template):
        return Rejected.of(sample, STAGE, findings, id=name)
    return template


_NOTHING, _AMBIGUOUS = Reason.NOTHING_TO_VARY, Reason.AMBIGUOUS_VALUE
Doubt: TypeAlias = tuple[Reason, str]


def _unreadable(sample: JsonObject) -> Finding | None:
    """Why a sample can be no template whatever its values are."""
    messages = sample["dialogue"]["messages"]
    letters = sum(
        len(m.get("content") or "") for m in messages if m.get("name") != API_SEARCH.function
    )
    reason, detail = _NOTHING, ""
    if any((m.get("execution") or {}).get("kind") == "executed" for m in messages):
        reason = Reason.EXECUTED_RESULT
        detail = "its observations were really executed: other values would need an execution"
    elif letters > _LETTERS:
        detail = f"its messages have {letters} characters; {_LETTERS} are searched at most"
    elif OPEN in (text := to_text(sample)) or CLOSE in text:
        detail = "it holds characters that mark slots"
    elif sample["dialogue"]["query"]["scenario"] == Scenario.IRRELEVANCE:
        detail = "it calls nothing"
    elif odd := oddity(sample):
        detail = f"it holds {odd}"
    return Finding(check="mining", reason=reason, detail=detail) if detail else None


def _never_passes(template: Template) -> tuple[Finding, ...]:
    """What the certain checks find, if they find something in each of some rows."""
    renderer, findings = TemplateRenderer(template), tuple[Finding, ...]()
    for row in renderer.drawn(rng_for(EXPANDED, template.id), _TRIED):
        if not (findings := inspect(renderer.dialogue(renderer.sample(row)))):
            return ()
    return findings


class SeenValues:
    """What arguments are given in the samples of a split, in bounded memory: the first values of
    the first arguments, in the order in which they come."""

    def __init__(self) -> None:
        self._values: dict[tuple[str, str], dict[str, Any]] = {}

    def add(self, sample: JsonObject) -> None:
        for call in sample["dialogue"]["query"]["intent"]:
            for path, value in _leaves(call["arguments"]):
                key = call["api"], ".".join(map(str, path))
                if key in self._values or len(self._values) < _ENTRY:
                    known = self._values.setdefault(key, {})
                    if len(known) < VALUES:
                        known.setdefault(canonical(value), value)

    def of(self, api: str, path: str) -> list[Any]:
        return list(self._values.get((api, path), {}).values())


@dataclass
class _Value:
    """An argument, with what else it may be."""

    number: int
    api: str
    path: str
    value: Any
    schema: JsonObject
    forms: dict[str, Callable[[Any], str]]
    rows: list[tuple[Any, str]] = field(default_factory=list)  # with where each comes from
    used: dict[str, None] = field(default_factory=dict)  # forms that stand in texts

    @property
    def about(self) -> str:
        return f"{self.path} of {self.api}"

    @property
    def name(self) -> str:
        return next((n for n in reversed(self.path.split(".")) if not n.isdigit()), "value")

    @property
    def is_day(self) -> bool:
        return isinstance(self.value, str) and bool(_DAY.fullmatch(self.value))

    def places(self, text: str) -> list[Found]:
        """Where any form of it stands alone, from left to right."""
        found: list[Found] = []
        for form, say in self.forms.items():
            for match in re.finditer(re.escape(say(self.value)), text):
                taken = any(a < match.end() and match.start() < b for a, b, _ in found)
                if not taken and alone(text, *match.span()):
                    found.append((*match.span(), form))
        return sorted(found)


class _Sample:
    """A sample with its observations as objects, and what of it may vary."""

    def __init__(self, tree: JsonObject) -> None:
        self.tree, dialogue = tree, tree["dialogue"]
        self.query: JsonObject = dialogue["query"]
        self.now = dt.datetime.fromisoformat(self.query["now"])
        self.messages: list[JsonObject] = dialogue["messages"]
        self._written: dict[int, str] = {}
        for number, message in enumerate(self.messages):
            if message["role"] == "tool" and _is_written_alike(message):
                self._written[number] = message["content"]
                message["content"] = json.loads(message["content"])
        self.apis = {api_id(api): api for api in self.query["pool"]}
        about = " ".join(f"{a['name']} {a['description']}" for a in self.apis.values())
        self._common = {stem(w.folded) for w in words(spaced(about))}
        self.values = list(self._arguments())
        self._dates = sum(one.is_day for one in self.values)

    def _arguments(self) -> Iterator[_Value]:
        """The arguments of the intended calls, each value once."""
        known: set[str] = set()
        for call in self.query["intent"]:
            properties = as_dict(self.apis.get(call["api"], {}).get("parameters"))
            for path, value in _leaves(call["arguments"]):
                schema = properties
                for step in path:
                    schema = as_dict(
                        schema.get("items")
                        if isinstance(step, int)
                        else as_dict(schema.get("properties")).get(step)
                    )
                if canonical(value) not in known:
                    known.add(canonical(value))
                    label = ".".join(map(str, path))
                    yield _Value(len(known), call["api"], label, value, schema, _forms(value))

    def doubt(self, one: _Value, others: Sequence[_Value]) -> Doubt | None:
        """Why a value stays as it is. `others` vary already."""
        if not _is_distinctive(one):
            return _AMBIGUOUS, "it may stand for anything"
        own = [w for w in words(spaced(str(one.value))) if w.folded not in STOP]
        coded = any(c.isdigit() for c in str(one.value))
        if own and not coded and all(stem(w.folded) in self._common for w in own):
            return _AMBIGUOUS, "it is a word of the API's own description"
        said = [m["content"] for m in self.messages if m["role"] == "user"]
        places = [(text, place) for text in said for place in one.places(text)]
        if len(places) != 1:
            if not places:
                return Reason.VALUE_NOT_MENTIONED, "the user says it in no form that is known"
            return _AMBIGUOUS, "the user says it more than once"
        ((text, (start, end, _)),) = places
        capital = isinstance(one.value, str) and one.value[:1].isupper()
        if capital and (_NEXT.match(text, end) or _BEFORE.search(text[:start])):
            return _AMBIGUOUS, "it may be a part of a longer name"
        if any(_overlaps(text, one, other) for text in said for other in others):
            return _AMBIGUOUS, "it stands inside another value"
        left = self._left_over([one, *others])
        if stood := _part_of(one, own, left, self._common):
            return _AMBIGUOUS, f"«{stood}» stands elsewhere too"
        return self._followed(one, left)

    def _left_over(self, varying: Sequence[_Value]) -> str:
        """All texts but the system turn, without the values that vary."""
        slotted = _Slots({one.number: "" for one in varying}, varying)
        parts = [*_texts(slotted.of_messages(self.messages[1:]))]
        return re.sub(f"{OPEN}[^{CLOSE}]*{CLOSE}", " … ", "\n".join(parts))

    def _followed(self, one: _Value, left: str) -> Doubt | None:
        """What of the results may follow from a value: a total, an end, a translation."""
        calls = [call for call in self.query["intent"] if one.api == call["api"]]
        if any(_named(call["api"].rpartition("/")[2], _WORKED_OUT) for call in calls):
            return _AMBIGUOUS, "what the call returns may follow from it"
        results = [
            (str(next((n for n in reversed(path) if isinstance(n, str)), "")), value)
            for m in self.messages
            if isinstance(m["content"], dict)
            for path, value in _leaves(m["content"].get("response"))
            if value != one.value
        ]
        for name, value in results:
            if _named(name, _WORKED_OUT) and not is_status(value):
                return _AMBIGUOUS, f"`{name}` of the response may follow from it"
        if one.is_day:
            if self._dates > 1 or _CALENDAR.search(left) or _DATED.search(left):
                return _AMBIGUOUS, "other days may be counted from it"
            for name, value in results:
                if _is_number(value) and _named(name, _LENGTHS):
                    return _AMBIGUOUS, f"`{name}` of the response may be counted from it"
        elif _is_number(one.value) and not _named(one.name, _LABELS):
            for name, value in results:
                if _is_number(value) or (isinstance(value, str) and re.search(r"\d", value)):
                    return _AMBIGUOUS, f"`{name}` of the response may follow from it"
        return None

    def options(
        self, one: _Value, seen: SeenValues, others: Sequence[_Value]
    ) -> list[tuple[Any, str]]:
        """The value, then what else it may be; no value is one of another slot."""
        rng = rng_for("mined", self.query["id"], one.about)
        taken = {canonical(value) for other in others for value, _ in other.rows}
        constant = _in_words(self._left_over([one, *others]))
        texts = [m["content"] for m in self.messages[1:] if isinstance(m["content"], str)]
        before = [text[:start] for text in texts for start, _, _ in one.places(text)]
        articles = {a[1].lower() == "an" for each in before if (a := _ARTICLE.search(each))}
        found = {canonical(one.value): (one.value, "sample")}
        for value, source in _candidates(one, seen, self.now, self._language, rng):
            key = canonical(value)
            if len(found) == VALUES:
                break
            if key in found or key in taken or not _is_kin(value, one, self.now):
                continue
            if one.schema and not fits(one.schema, value):
                continue
            if isinstance(value, str) and _in_words(value) in constant:
                continue
            if articles <= {bool(_VOWEL.match(str(value)))}:
                found[key] = value, source
        return list(found.values())

    @property
    def _language(self) -> str:
        return str(self.query.get("language") or "English")

    def template(
        self, varying: Sequence[_Value], split: Split | None, kept: Sequence[Finding]
    ) -> Template:
        names = dict(_names(varying))
        slots = _Slots(names, varying)
        messages = [self.messages[0], *slots.of_messages(self.messages[1:])]
        for number, content in self._written.items():
            changed = to_text(messages[number]["content"])
            messages[number]["content"] = changed if OPEN in changed else content
        query = {**self.query, "text": slots.in_text(self.query["text"]), "provenance": []}
        query["intent"] = [
            {**call, "arguments": slots.in_json(call["arguments"])} for call in query["intent"]
        ]
        dialogue = {**self.tree["dialogue"], "query": query, "messages": messages, "provenance": []}
        name = query["id"]
        return Template(
            id=name,
            kind="mined",
            goal=query["text"].replace(OPEN, "{").replace(CLOSE, "}"),
            apis=tuple(call["api"] for call in query["intent"]),
            split=split,
            sample={**self.tree, "dialogue": dialogue, "flags": [], "provenance": []},
            choices=tuple(_choice(one, names[one.number]) for one in varying),
            refused=tuple(kept),
            provenance=(Provenance(stage=STAGE, agent="", model="", seed=0, parents=(name,)),),
        )


def _is_written_alike(message: JsonObject) -> bool:
    """Whether an observation's text can be written again without a loss; what was cut may hold
    any value."""
    if (message.get("execution") or {}).get("whole_tokens"):
        return False
    try:
        seen = json.loads(message["content"])
    except (ValueError, RecursionError):
        return False
    styles: tuple[JsonObject, ...] = ({"ensure_ascii": False, "separators": (",", ":")}, {})
    return isinstance(seen, dict) and any(
        json.dumps(seen, **style) == message["content"] for style in styles
    )


@dataclass
class _Slots:
    """Puts slots in place of values that vary; `names` by their numbers."""

    names: Mapping[int, str]
    varying: Sequence[_Value]

    def of_messages(self, messages: Sequence[JsonObject]) -> list[JsonObject]:
        made = []
        for message in messages:
            content, calls = message["content"], message.get("tool_calls") or ()
            if isinstance(content, dict):
                content = {**content, "response": self.in_json(content.get("response"))}
            elif content and message["role"] in ("user", "assistant"):
                content = self.in_text(content)
            asked = [{**c, "function": self.in_json(c["function"])} for c in calls]
            made.append({**message, "content": content, "tool_calls": asked})
        return made

    def in_json(self, value: Any) -> Any:
        """A value that is a whole argument or field stands for itself, of its type."""
        if isinstance(value, dict):
            return {key: self.in_json(part) for key, part in value.items()}
        if isinstance(value, list):
            return [self.in_json(part) for part in value]
        for one in self.varying:
            if type(one.value) is type(value) and one.value == value:
                return marker(self.names[one.number])
        return self.in_text(value) if isinstance(value, str) else value

    def in_text(self, text: str) -> str:
        places = [(*place, one) for one in self.varying for place in one.places(text)]
        for start, end, form, one in sorted(places, key=lambda p: p[0], reverse=True):
            one.used[form] = None
            text = text[:start] + marker(self._slot(one, form)) + text[end:]
        return text

    def _slot(self, one: _Value, form: str) -> str:
        name = self.names[one.number]
        return f"{name}_{form}" if form else name


def _names(varying: Sequence[_Value]) -> Iterator[tuple[int, str]]:
    """A name for each value, of which none begins another."""
    taken: list[str] = []
    for one in varying:
        base = re.sub(r"\W+", "_", one.name)[:40].strip("_") or "value"
        name, number = base, 2
        while any(f"{n}_".startswith(f"{name}_") or f"{name}_".startswith(f"{n}_") for n in taken):
            name, number = f"{base}{number}", number + 1
        taken.append(name)
        yield one.number, name


def _choice(one: _Value, name: str) -> Choice:
    forms = [form for form in one.used if form]
    return Choice(
        slots=(name, *(f"{name}_{form}" for form in forms)),
        rows=tuple((v, *(one.forms[form](v) for form in forms)) for v, _ in one.rows),
        about=f"argument {one.about}",
        sources=dict(Counter(source for _, source in one.rows)),
    )


def _leaves(value: Any) -> list[tuple[tuple[str | int, ...], Any]]:
    """The scalars of a JSON value that are more than yes, no or nothing, with their paths."""
    found: list[tuple[tuple[str | int, ...], Any]] = []
    stack: list[tuple[tuple[str | int, ...], Any]] = [((), value)]
    while stack:
        path, part = stack.pop()
        if isinstance(part, dict):
            stack += [((*path, key), inner) for key, inner in reversed(list(part.items()))]
        elif isinstance(part, list):
            stack += [((*path, place), inner) for place, inner in reversed(list(enumerate(part)))]
        elif part not in (None, "") and not isinstance(part, bool):
            found.append((path, part))
    return found


def _texts(value: Any) -> Iterator[str]:
    """All texts in a value, names of fields among them; numbers as JSON has them."""
    if isinstance(value, dict):
        for key, part in value.items():
            if key not in ("role", "id", "type", "name", "tool_call_id", "execution"):
                yield key
                yield from _texts(part)
    elif isinstance(value, list):
        for part in value:
            yield from _texts(part)
    elif value is not None:
        yield value if isinstance(value, str) else to_text(value)


def _named(name: str, pattern: re.Pattern[str]) -> bool:
    """Whether a word of a name is one of these."""
    return any(map(pattern.fullmatch, name_words(name)))


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _is_distinctive(one: _Value) -> bool:
    """A value that stands twice only if the same is meant: no small number, no common word."""
    value = one.value
    if _is_number(value):
        return isinstance(value, int) and len(str(abs(value))) >= DIGITS
    plain = isinstance(value, str) and value.isprintable() and value == value.strip()
    if not plain or not 2 < len(value) <= LONGEST or is_status(value):
        return False
    if one.is_day:
        return _day(value) is not None
    if is_code(value):
        return sum(c.isdigit() for c in value) >= DIGITS or any(c.isalpha() for c in value)
    found = [w for w in words(value) if w.folded not in STOP]
    return len(found) > 1 or (value[:1].isupper() and bool(found))


def _day(value: Any) -> dt.date | None:
    try:
        return dt.date.fromisoformat(value)
    except (TypeError, ValueError):
        return None


def _day_as(pattern: str, value: str) -> str:
    """A day in strftime's pattern, with `{0}` for its number and `{1}` for 1st, 2nd and so on."""
    day = dt.date.fromisoformat(value)
    ending = "th" if 10 < day.day < 14 else {1: "st", 2: "nd", 3: "rd"}.get(day.day % 10, "th")
    return day.strftime(pattern).format(day.day, f"{day.day}{ending}")


_DAY_FORMS = {
    "weekday_month_day_year": "%A, %B {0}, %Y",
    "weekday_day_month_year": "%A, {0} %B %Y",
    "month_day_year": "%B {0}, %Y",
    "day_month_year": "{0} %B %Y",
    "weekday_month_day": "%A, %B {0}",
    "weekday_day_month": "%A, {0} %B",
    "day_th_of_month": "{1} of %B",
    "month_day_th": "%B {1}",
    "month_day": "%B {0}",
    "day_month": "{0} %B",
}
"""Longer ones first: they hold the others."""


def _forms(value: Any) -> dict[str, Callable[[Any], str]]:
    """How a value is said, by the name of the form; "" as it stands in JSON."""
    if isinstance(value, str) and _DAY.fullmatch(value) and _day(value):
        return {"": str, **{n: partial(_day_as, p) for n, p in _DAY_FORMS.items()}}
    if isinstance(value, int) and not isinstance(value, bool):
        return {"text": str, "thousands": lambda v: f"{v:,}"}
    return {"": str}


def _overlaps(text: str, one: _Value, other: _Value) -> bool:
    return any(a < d and c < b for a, b, _ in one.places(text) for c, d, _ in other.places(text))


def _in_words(text: str) -> str:
    """The words of a text, folded, to look for words in a row."""
    return f" {' '.join(w.folded for w in words(text))} "


def _part_of(one: _Value, own: Sequence[Any], left: str, common: set[str]) -> str:
    """The value, or a word of it that means something, where no slot takes it; else empty."""
    if _in_words(str(one.value)).strip() and _in_words(str(one.value)) in _in_words(left):
        return str(one.value)
    if one.is_day:
        return ""
    said = {stem(w.folded) for w in words(spaced(left))}
    wanted = {stem(w.folded): w.folded for w in own if len(w.folded) > 3}
    return next((word for root, word in wanted.items() if root in said - common), "")


def _is_kin(value: Any, one: _Value, now: dt.datetime) -> bool:
    """Whether a value takes the same places: of the same type and kind, as long, worded alike."""
    if type(value) is not type(one.value):
        return False
    if not isinstance(value, str):
        return (value < 0) == (one.value < 0) and len(str(abs(value))) >= DIGITS
    if not value.isprintable() or value != value.strip() or not 0 < len(value) <= LONGEST:
        return False
    if bool(_DAY.fullmatch(value)) != one.is_day or is_code(value) != is_code(one.value):
        return False
    if one.is_day:
        day, was = _day(value), _day(one.value)
        same_side = day and was and (day >= now.date()) == (was >= now.date())
        return bool(same_side and day and abs((day - now.date()).days) <= FURTHEST)
    if any((mark in value) != (mark in one.value) for mark in (". ", "\n", "? ", "; ", ",")):
        return False
    return bool(value[:1].isupper() == str(one.value)[:1].isupper())


def _candidates(
    one: _Value, seen: SeenValues, now: dt.datetime, language: str, rng: random.Random
) -> Iterator[tuple[Any, str]]:
    """Other values: of the enum, examples, other samples, then drawn."""
    for key in ("enum", "examples"):
        listed = one.schema.get(key)
        yield from ((value, key) for value in (listed if isinstance(listed, list) else ())[:VALUES])
    if isinstance(one.schema.get("enum"), list):
        return
    yield from ((value, "samples") for value in seen.of(one.api, one.path))
    for _ in range(_DRAWS):
        try:
            yield _drawn(one, now, language, rng)
        except NoValue:
            return


def _drawn(one: _Value, now: dt.datetime, language: str, rng: random.Random) -> tuple[Any, str]:
    """A value like the one that stands there. Raises NoValue."""
    value = one.value
    if one.is_day:
        away = ((_day(value) or now.date()) - now.date()).days
        reach = min(max(60, abs(away) * 2), FURTHEST)
        days = rng.randint(1, reach) * (1 if away >= 0 else -1)
        return (now.date() + dt.timedelta(days=days)).isoformat(), "days"
    if _is_number(value) or (is_code(value) and sum(c.isdigit() for c in value) > 1):
        figures = (str(rng.randrange(1, 10)) if c.isdigit() else c for c in str(value))
        return type(value)("".join(figures)), "range"
    schema = {k: v for k, v in one.schema.items() if k not in ("examples", "default")}
    made = draw_value(re.sub(r"(?i)_?name$", "", one.name) or one.name, schema, rng, now, language)
    locale = LOCALES.get(language, "en_US")
    for table in (TOPICS.get(locale, ()), REMARKS.get(locale, ())):
        # A topic only in place of another: such a name tells nothing of what else would do.
        if made in table and value not in table:
            raise NoValue(one.name)
    return made, "faker"
