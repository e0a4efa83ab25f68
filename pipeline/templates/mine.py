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
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from copy import deepcopy
from dataclasses import dataclass, field
from functools import partial
from typing import Any, TypeAlias

from toolloom.pipeline.checks import inspect
from toolloom.pipeline.checks.grounding import is_code
from toolloom.pipeline.checks.replies import is_status
from toolloom.pipeline.checks.schema import as_dict, as_list, fits, is_number, oddity
from toolloom.pipeline.checks.text.words import STOP, alone, name_words, spaced, stem, words
from toolloom.pipeline.formats.conversation import json_of
from toolloom.pipeline.sampling.values import LOCALES, REMARKS, TOPICS, NoValue, draw_value, rng_for
from toolloom.pipeline.store.files import to_text
from toolloom.pipeline.templates.filling import MARK, TemplateRenderer, changed, date_text, text_of
from toolloom.pipeline.templates.filling import STAGE as EXPANDED
from toolloom.schemas import (
    API_SEARCH,
    Dialogue,
    Finding,
    JsonObject,
    Provenance,
    Reason,
    Rejected,
    Scenario,
    Split,
    canonical,
)
from toolloom.schemas.derived import CLOSE, OPEN, Choice, Template, marker
from toolloom.schemas.splits import api_id

STAGE = "templates"
LONGEST = 200  # characters of a value
DIGITS = 5  # from which a number is no other one by chance
VALUES = 64  # of a slot
FURTHEST = 300  # days from the present: words without a year mean a day in this reach
_DRAWS = 240
_TRIED = 5  # rows of which one has to pass
_ENTRY = 20_000  # places of arguments whose values are noted
_DAY = re.compile(r"\d{4}-\d{2}-\d{2}")
_CALENDAR = re.compile(
    r"\d{4}-\d{2}-\d{2}|\d{1,2}[/.]\d{1,2}[/.]\d{2,4}|\b(?:(?:mon|tues|wednes|thurs|fri|satur|sun)day|to(?:day|morrow|night)|yesterday|weekend"
    r"|jan(?:uary)?|feb(?:ruary)?|mar(?:ch)?|apr(?:il)?|june?|july?|aug(?:ust)?|sept?(?:ember)?"
    r"|oct(?:ober)?|nov(?:ember)?|dec(?:ember)?|\d{1,2}(?:st|nd|rd|th))\b",
    re.IGNORECASE,
)
_NEXT = re.compile(r" [A-Z]\w")
_BEFORE = re.compile(r"[^.!?:]\s[A-Z]\w*\s\Z")
_ARTICLE = re.compile(r"\ban?\s\Z", re.IGNORECASE)
_WORKED_OUT = re.compile(
    r"(?:translat|defin|meaning|synonym|conver|encod|decod|encrypt|decrypt|hash|revers|summar"
    r"|length|count|sum|total|average|calculat|result|zodiac)\w*"
)
"""Names of APIs and fields whose values follow from the argument."""
_LENGTHS = re.compile(r"(?:night|day|week|month)s?|duration|length|stay")
_LABELS = re.compile(r"ids?|number|no|code|zip|postcode|phone|isbn|account|reference|order|ticket")
"""Names whose numbers are labels: nothing is counted with them."""

Doubt: TypeAlias = tuple[Reason, str]
Path: TypeAlias = tuple[str | int, ...]
_FIXED = {"role", "id", "type", "name", "tool_call_id", "execution"}
"""Fields of messages of which nothing is said."""
_NOTHING, _AMBIGUOUS = Reason.NOTHING_TO_VARY, Reason.AMBIGUOUS_VALUE


def mine(sample: JsonObject, seen: SeenValues, split: Split | None = None) -> Template | Rejected:
    """A sample, as JSON, as a template; or why none of its values may vary."""
    kept, name = list[Finding](), sample["dialogue"]["query"]["id"]

    def found(reason: Reason, detail: str) -> Finding:
        return Finding(check="mining", reason=reason, detail=detail)

    if why := _unreadable(sample):
        return Rejected.of(sample, STAGE, [found(*why)], id=name)
    work = _Sample(deepcopy(sample))
    for one in sorted(work.values, key=lambda v: -len(str(v.value))):
        doubt = next(work.doubts(one), None)
        if not doubt:
            one.others = work.options(one, seen)
            doubt = None if one.others else (_NOTHING, "no other value is known for it")
        if doubt:
            detail = f"argument {one.about} = {str(one.value)[:60]}: {doubt[1]}"
            kept.append(found(doubt[0], detail))
        else:
            work.varying.append(one)
    if not work.varying:
        nothing = found(_NOTHING, "none of the values that the user tells may vary")
        return Rejected.of(sample, STAGE, [nothing, *kept], id=name)
    template = work.template(split, kept)
    renderer, findings = TemplateRenderer(template), tuple[Finding, ...]()
    for row in renderer.drawn(rng_for(EXPANDED, template.id), _TRIED):
        made = Dialogue.model_validate(renderer.sample(row)["dialogue"])
        if not (findings := inspect(made)):
            return template
    return Rejected.of(sample, STAGE, findings, id=name) if findings else template


def _unreadable(sample: JsonObject) -> Doubt | None:
    """Why a sample can be no template whatever its values are."""
    messages = sample["dialogue"]["messages"]
    if any((m.get("execution") or {}).get("kind") == "executed" for m in messages):
        detail = "its observations were really executed: other values would need an execution"
        return Reason.EXECUTED_RESULT, detail
    if OPEN in (text := to_text(sample)) or CLOSE in text:
        return _NOTHING, "it holds characters that mark slots"
    if sample["dialogue"]["query"]["scenario"] == Scenario.IRRELEVANCE:
        return _NOTHING, "it calls nothing"
    odd = oddity(sample)
    return (_NOTHING, f"it holds {odd}") if odd else None


class SeenValues:
    """What arguments are given in the samples of a split, in bounded memory: the first values of
    the first arguments, in the order in which they come."""

    def __init__(self) -> None:
        self._values: dict[tuple[str, str], dict[str, Any]] = {}

    def add(self, sample: JsonObject) -> None:
        for call in sample["dialogue"]["query"]["intent"]:
            for path, value in _leaves(call["arguments"]):
                key = call["api"], _dotted(path)
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
    path: Path
    value: Any
    schema: JsonObject
    forms: dict[str, Callable[[Any], str]]
    others: list[Any] = field(default_factory=list)  # what else it may be
    used: dict[str, None] = field(default_factory=dict)  # forms that stand in texts
    slot: str = ""

    @property
    def about(self) -> str:
        return f"{_dotted(self.path)} of {self.api}"

    @property
    def name(self) -> str:
        return next((part for part in reversed(self.path) if isinstance(part, str)), "value")

    @property
    def is_day(self) -> bool:
        return _day(self.value) is not None

    def places(self, text: str) -> list[tuple[int, int, str]]:
        """Where any form of it stands alone, and which, from left to right."""
        found: list[tuple[int, int, str]] = []
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
        self.language = str(self.query.get("language") or "English")
        self.now = dt.datetime.fromisoformat(self.query["now"])
        self.messages: list[JsonObject] = dialogue["messages"]
        self._written: dict[int, str] = {}
        for number, message in enumerate(self.messages):
            # What was cut may hold any value, and documentation is as it is.
            cut = (message.get("execution") or {}).get("whole_tokens")
            fixed = cut or message["role"] != "tool" or message["name"] == API_SEARCH.function
            if not fixed and (seen := _observed(message["content"])):
                self._written[number], message["content"] = message["content"], seen
        self._apis = {api_id(api): api for api in self.query["pool"]}
        about = " ".join(f"{a['name']} {a['description']}" for a in self._apis.values())
        self._common = {stem(w.folded) for w in words(spaced(about))}
        self.values = list(self._arguments())
        self.varying: list[_Value] = []
        self._dates = sum(one.is_day for one in self.values)

    def _arguments(self) -> Iterator[_Value]:
        """The arguments of the intended calls, each value once."""
        known: set[str] = set()
        for call in self.query["intent"]:
            for path, value in _leaves(call["arguments"]):
                schema = as_dict(self._apis.get(call["api"], {}).get("parameters"))
                for step in path:
                    inner = as_dict(schema.get("properties")).get(str(step))
                    schema = as_dict(schema.get("items") if isinstance(step, int) else inner)
                if canonical(value) not in known:
                    known.add(canonical(value))
                    yield _Value(len(known), call["api"], path, value, schema, _forms(value))

    def doubts(self, one: _Value) -> Iterator[Doubt]:
        """Why a value stays as it is, beside those that vary already."""
        if not _kind(one.value, self.now)[1]:
            yield _AMBIGUOUS, "it may stand for anything"
        own = [w for w in words(spaced(str(one.value))) if w.folded not in STOP]
        coded = any(c.isdigit() for c in str(one.value))
        if own and not coded and all(stem(w.folded) in self._common for w in own):
            yield _AMBIGUOUS, "it is a word of the API's own description"
        said = [m["content"] for m in self.messages if m["role"] == "user"]
        places = [(text, place) for text in said for place in one.places(text)]
        if not places:
            yield Reason.VALUE_NOT_MENTIONED, "the user says it in no form that is known"
        if len(places) > 1:
            yield _AMBIGUOUS, "the user says it more than once"
        for text, (start, end, _) in places:
            capital = isinstance(one.value, str) and one.value[:1].isupper()
            if capital and (_NEXT.match(text, end) or _BEFORE.search(text[:start])):
                yield _AMBIGUOUS, "it may be a part of a longer name"
            others = [place for other in self.varying for place in other.places(text)]
            if any(a < end and start < b for a, b, _ in others):
                yield _AMBIGUOUS, "it stands inside another value"
        texts = [m["content"] for m in self.messages[1:] if isinstance(m["content"], str)]
        if any(_ARTICLE.search(t[:at]) for t in texts for at, _, _ in one.places(t)):
            yield _AMBIGUOUS, "`a` or `an` before it fits no other value for sure"
        left = self._left_over(one)
        found = {stem(w.folded) for w in words(spaced(left))} - self._common
        telling = (w.folded for w in own if len(w.folded) > 3 and not one.is_day)
        stood = next((word for word in telling if stem(word) in found), "")
        if (whole := _in_words(str(one.value))).strip() and whole in _in_words(left):
            stood = str(one.value)
        if stood:
            yield _AMBIGUOUS, f"«{stood}» stands elsewhere too"
        if follows := next(self._followed(one), ""):
            yield _AMBIGUOUS, f"{follows} may follow from it"
        if one.is_day and (self._dates > 1 or _CALENDAR.search(left)):
            yield _AMBIGUOUS, "other days may be counted from it"

    def _left_over(self, one: _Value) -> str:
        """All texts but the system turn, without this value and those that vary."""
        slotted = [_slotted(m, [one, *self.varying]) for m in self.messages[1:]]
        found = [
            part
            for path, value in _leaves(slotted)
            if not _FIXED & {*path}
            for part in (*path, text_of(value))
            if isinstance(part, str)
        ]
        return MARK.sub(" … ", "\n".join(found))

    def _followed(self, one: _Value) -> Iterator[str]:
        """What of the results may follow from a value: a total, an end, a translation."""
        asked = (call["api"] for call in self.query["intent"] if one.api == call["api"])
        if any(_named(api.rpartition("/")[2], _WORKED_OUT) for api in asked):
            yield "what the call returns"
        for message in self.messages:
            seen = message["content"].get("response") if isinstance(message["content"], dict) else 0
            for path, value in _leaves(seen):
                name = next((part for part in reversed(path) if isinstance(part, str)), "")
                number = is_number(value)
                digits = number or (isinstance(value, str) and re.search(r"\d", value))
                if value != one.value and (
                    (_named(name, _WORKED_OUT) and not is_status(value))
                    or (one.is_day and number and _named(name, _LENGTHS))
                    or (is_number(one.value) and digits and not _named(one.name, _LABELS))
                ):
                    yield f"`{name}` of the response"

    def options(self, one: _Value, seen: SeenValues) -> list[Any]:
        """What else the value may be; no value is one of another slot."""
        taken = {canonical(value) for v in self.varying for value in (v.value, *v.others)}
        constant = _in_words(self._left_over(one))
        kind, today = _kind(one.value, self.now)[0], self.now.date()
        found = {canonical(one.value): one.value}
        for value in self._candidates(one, seen):
            if len(found) == VALUES:
                break
            if (
                canonical(value) not in found.keys() | taken
                and _kind(value, self.now)[0] == kind
                and abs(((_day(value) or today) - today).days) <= FURTHEST
                and fits(one.schema or True, value)
                and not (isinstance(value, str) and _in_words(value) in constant)
            ):
                found[canonical(value)] = value
        return [*found.values()][1:]

    def _candidates(self, one: _Value, seen: SeenValues) -> Iterator[Any]:
        """Other values: of the enum, examples, other samples, then drawn."""
        for key in ("enum", "examples"):
            yield from as_list(one.schema.get(key))[:VALUES]
        if isinstance(one.schema.get("enum"), list):
            return
        yield from seen.of(one.api, _dotted(one.path))
        rng = rng_for("mined", self.query["id"], one.about)
        with suppress(NoValue):
            for _ in range(_DRAWS):
                yield _drawn(one, self.now, self.language, rng)

    def template(self, split: Split | None, kept: Sequence[Finding]) -> Template:
        varying = sorted(self.varying, key=lambda v: v.number)
        _name(varying)
        messages = [self.messages[0], *(_slotted(m, varying) for m in self.messages[1:])]
        for number, content in self._written.items():
            changed = to_text(messages[number]["content"])
            messages[number]["content"] = changed if OPEN in changed else content
        text = _in_text(self.query["text"], varying)
        query = {**self.query, "text": text, "provenance": []}
        query["intent"] = [
            {**call, "arguments": _in_json(call["arguments"], varying)} for call in query["intent"]
        ]
        dialogue = {**self.tree["dialogue"], "query": query, "messages": messages, "provenance": []}
        name = query["id"]
        return Template(
            id=name,
            kind="mined",
            goal=text.replace(OPEN, "{").replace(CLOSE, "}"),
            apis=tuple(call["api"] for call in query["intent"]),
            split=split,
            sample={**self.tree, "dialogue": dialogue, "flags": [], "provenance": []},
            choices=tuple(map(_choice, varying)),
            refused=tuple(kept),
            provenance=(Provenance(stage=STAGE, agent="", model="", seed=0, parents=(name,)),),
        )


def _observed(content: str) -> JsonObject | None:
    """What an observation holds, if its text can be written again without a loss."""
    seen = json_of(content)
    return seen if isinstance(seen, dict) and content in (to_text(seen), json.dumps(seen)) else None


def _slotted(message: JsonObject, varying: Sequence[_Value]) -> JsonObject:
    """A message with slots in place of values that vary."""
    content, calls = message["content"], message.get("tool_calls") or ()
    if isinstance(content, dict):
        content = {**content, "response": _in_json(content.get("response"), varying)}
    elif content and message["role"] in ("user", "assistant"):
        content = _in_text(content, varying)
    asked = [{**call, "function": _in_json(call["function"], varying)} for call in calls]
    return {**message, "content": content, "tool_calls": asked}


def _in_json(value: Any, varying: Sequence[_Value]) -> Any:
    """A value that is a whole argument or field stands for itself, of its type."""

    def mark(part: Any) -> Any:
        for one in varying:
            if type(one.value) is type(part) and one.value == part:
                return marker(one.slot)
        return _in_text(part, varying) if isinstance(part, str) else part

    return changed(value, mark)


def _in_text(text: str, varying: Sequence[_Value]) -> str:
    places = [(*place, one) for one in varying for place in one.places(text)]
    for start, end, form, one in sorted(places, key=lambda p: p[0], reverse=True):
        one.used[form] = None
        text = text[:start] + marker(f"{one.slot}_{form}" if form else one.slot) + text[end:]
    return text


def _name(varying: Sequence[_Value]) -> None:
    """Give each value a slot's name, of which none begins another."""
    taken: list[str] = []
    for one in varying:
        base = re.sub(r"\W+", "_", one.name)[:40].strip("_") or "value"
        name, number = base, 2
        while any(f"{n}_".startswith(f"{name}_") or f"{name}_".startswith(f"{n}_") for n in taken):
            name, number = f"{base}{number}", number + 1
        taken.append(name)
        one.slot, one.used = name, {}


def _choice(one: _Value) -> Choice:
    forms = [form for form in one.used if form]
    return Choice(
        slots=(one.slot, *(f"{one.slot}_{form}" for form in forms)),
        rows=tuple((v, *(one.forms[form](v) for form in forms)) for v in (one.value, *one.others)),
        about=f"argument {one.about}",
    )


def _dotted(path: Path) -> str:
    return ".".join(map(str, path))


def _leaves(value: Any, path: Path = ()) -> Iterator[tuple[Path, Any]]:
    """The scalars of a JSON value that are more than yes, no or nothing, with their paths."""
    if isinstance(value, dict | list):
        for key, inner in value.items() if isinstance(value, dict) else enumerate(value):
            yield from _leaves(inner, (*path, key))
    elif value not in (None, "") and not isinstance(value, bool):
        yield path, value


def _named(name: str, pattern: re.Pattern[str]) -> bool:
    """Whether a word of a name is one of these."""
    return any(map(pattern.fullmatch, name_words(name)))


def _kind(value: Any, now: dt.datetime) -> tuple[tuple[Any, ...], bool]:
    """What takes the same places: values of the same type that are worded alike. And whether it
    stands twice only if the same is meant: no small number, no common word."""
    if not isinstance(value, str):
        long = is_number(value) and len(str(abs(value))) >= DIGITS
        return (type(value), long, long and value < 0), long and isinstance(value, int)
    plain = value.isprintable() and value == value.strip() and 0 < len(value) <= LONGEST
    day, code, capital = _day(value), is_code(value), value[:1].isupper()
    marks = [mark in value for mark in (". ", "\n", "? ", "; ", ",")]
    telling = [w for w in words(value) if w.folded not in STOP]
    distinctive = day is not None or len(telling) > 1 or (capital and bool(telling))
    if code and not day:
        distinctive = sum(c.isdigit() for c in value) >= DIGITS or any(c.isalpha() for c in value)
    distinctive &= plain and len(value) > 2 and not is_status(value)
    return (str, plain, day and day >= now.date(), code, capital, *marks), distinctive


def _day(value: Any) -> dt.date | None:
    try:
        return dt.date.fromisoformat(value) if _DAY.fullmatch(value) else None
    except (TypeError, ValueError):
        return None


_DAY_FORMS = {
    "month_day_year": "%B %-d, %Y",
    "day_month_year": "%-d %B %Y",
    "month_day": "%B %-d",
    "day_month": "%-d %B",
}
"""Longer ones first, as they hold the others. In any other form a day is in doubt."""


def _forms(value: Any) -> dict[str, Callable[[Any], str]]:
    """How a value is said, by the name of the form; "" as it stands in JSON."""
    if _day(value):
        return {"": str, **{n: partial(date_text, form=form) for n, form in _DAY_FORMS.items()}}
    if isinstance(value, int):
        return {"text": str, "thousands": lambda v: f"{v:,}"}
    return {"": str}


def _in_words(text: str) -> str:
    """The words of a text, folded, to look for words in a row."""
    return f" {' '.join(w.folded for w in words(text))} "


def _drawn(one: _Value, now: dt.datetime, language: str, rng: random.Random) -> Any:
    """A value like the one that stands there. Raises NoValue."""
    value = one.value
    if day := _day(value):
        away = (day - now.date()).days
        days = rng.randint(1, min(max(60, abs(away) * 2), FURTHEST)) * (1 if away >= 0 else -1)
        return (now.date() + dt.timedelta(days=days)).isoformat()
    if is_number(value) or (is_code(value) and sum(c.isdigit() for c in value) > 1):
        figures = (str(rng.randrange(1, 10)) if c.isdigit() else c for c in str(value))
        return type(value)("".join(figures))
    schema = {k: v for k, v in one.schema.items() if k not in ("examples", "default")}
    made = draw_value(re.sub(r"(?i)_?name$", "", one.name) or one.name, schema, rng, now, language)
    locale = LOCALES.get(language, "en_US")
    if made in (*TOPICS.get(locale, ()), *REMARKS.get(locale, ())):
        raise NoValue(one.name)  # it tells nothing of what else would do
    return made
