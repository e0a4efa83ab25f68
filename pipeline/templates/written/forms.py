"""The form of files of written templates, and what is wrong with one that does not have it.

The YAML itself is read by `store/documents.py`, with the line of every value.
"""

from __future__ import annotations

import datetime as dt
import difflib
from collections.abc import Iterable, Iterator, Mapping
from types import MappingProxyType
from typing import Annotated, Any, TypeVar

from pydantic import Field, ValidationError, field_validator, model_validator

from toolloom.pipeline.store.documents import Place, WrittenDocument, nearest
from toolloom.pipeline.templates.written.pools import (
    FAKERS,
    FORMS,
    NAME,
    POOL_VALUES,
    FakerPool,
    SchemaPool,
    ValueForm,
    Written,
)
from toolloom.schemas import JsonObject, canonical

F = TypeVar("F", bound=ValueForm)

MOST_CALLS = 8
MOST_GOALS = 50
MOST_TEMPLATES = 2_000
LONGEST = 4_000  # letters of a text
_YEARS = (1900, 2200)  # of a present: days are counted from it
Text = Annotated[str, Field(min_length=1, max_length=LONGEST)]


class CallForm(ValueForm):
    """A call, and what comes of it."""

    api: str
    arguments: JsonObject = Field(default_factory=dict)
    response: Any = None


class TableForm(ValueForm):
    """Values that belong together: each row has one for every slot."""

    slots: Annotated[tuple[str, ...], Field(min_length=2, max_length=20)]
    rows: Annotated[tuple[tuple[Any, ...], ...], Field(min_length=1, max_length=2_000)]

    @model_validator(mode="after")
    def _rows_fit(self) -> TableForm:
        for number, row in enumerate(self.rows, 1):
            if len(row) != len(self.slots):
                raise ValueError(f"row {number} has {len(row)} values for {len(self.slots)} slots")
        return self


class WrittenForm(ValueForm):
    """What a file and a template both may have."""

    language: str | None = None
    now: dt.datetime | None = None
    pools: dict[str, Any] = Field(default_factory=dict)
    together: tuple[TableForm, ...] = ()

    @field_validator("now")
    @classmethod
    def _is_local(cls, value: dt.datetime | None) -> dt.datetime | None:
        if value is not None and value.tzinfo is not None:
            raise ValueError("must be a local time, such as 2026-03-02T09:30")
        if value is not None and not _YEARS[0] <= value.year <= _YEARS[1]:
            raise ValueError(f"must be a year from {_YEARS[0]} to {_YEARS[1]}")
        return value


class TemplateForm(WrittenForm):
    """A template as people write it."""

    name: Annotated[str, Field(pattern=r"^[a-z0-9][a-z0-9-]{0,59}$")]
    goal: Text | None = None
    goals: Annotated[tuple[Text, ...], Field(max_length=MOST_GOALS)] = ()
    calls: Annotated[tuple[CallForm, ...], Field(min_length=1, max_length=MOST_CALLS)]
    answer: Text | None = None

    @model_validator(mode="after")
    def _has_goals(self) -> TemplateForm:
        if bool(self.goal) == bool(self.goals):
            raise ValueError("give either `goal` or `goals`")
        return self

    def said(self) -> list[tuple[str, Place]]:
        """The goals, each with its place."""
        if self.goal:
            return [(self.goal, ("goal",))]
        return [(text, ("goals", number)) for number, text in enumerate(self.goals)]


class FileForm(WrittenForm):
    """A file of templates."""

    apis: str | None = None
    templates: Annotated[list[Any], Field(min_length=1, max_length=MOST_TEMPLATES)]


_WORDS: Mapping[str, str] = MappingProxyType({
    "too_short": "has too few entries",
    "too_long": "has too many entries",
    "string_too_short": "is empty",
    "string_too_long": f"is longer than {LONGEST:,} letters",
    "string_type": "must be text; put it in quotes",
    "string_pattern_mismatch": "must be lower-case letters, digits and `-`",
    "dict_type": "must be a mapping",
    "model_type": "must be a mapping",
    "list_type": "must be a list",
    "tuple_type": "must be a list",
    "datetime_from_date_parsing": "must be a date and time, such as 2026-03-02T09:30",
    "datetime_parsing": "must be a date and time, such as 2026-03-02T09:30",
    "datetime_type": "must be a date and time, such as 2026-03-02T09:30",
})  # fmt: skip
_INNER: Mapping[str, type[ValueForm]] = MappingProxyType({"calls": CallForm, "together": TableForm})


def declared(form: WrittenForm, place: Place = ()) -> Iterator[tuple[Place, str]]:
    """The slots that a file or template at a place gives values, each with its own place."""
    yield from (((*place, "pools", slot), slot) for slot in form.pools)
    for number, table in enumerate(form.together):
        yield from (((*place, "together", number, "slots"), slot) for slot in table.slots)


def near_to(name: str, known: Iterable[str]) -> str:
    """The end of a sentence: the known slot that was meant, if one is near."""
    near = difflib.get_close_matches(name, sorted(known), n=1, cutoff=0.6)
    return f"; did you mean `{{{near[0]}}}`?" if near else "."


def read_form(form: type[F], raw: Any, place: Place, document: WrittenDocument) -> F | None:
    """What a person wrote as the form it should have; None, and faults, if it has not."""
    if not isinstance(raw, dict):
        known = ", ".join(f"`{name}`" for name in _names(form))
        document.fault(place, f"must be a mapping; its fields are {known}.")
        return None
    try:
        return form.model_validate(raw)
    except ValidationError as error:
        found = error.errors(include_url=False)
        for one in found:
            # A list none of whose items is right is no empty list.
            size, loc = len(one["loc"]), one["loc"]
            inner = any(len(o["loc"]) > size > 0 and o["loc"][:size] == loc for o in found)
            if not (inner and one["type"] == "too_short"):
                _explain(one, form, place, document)
        return None


def _names(form: type[ValueForm]) -> list[str]:
    return [field.alias or name for name, field in form.model_fields.items()]


def _explain(error: Any, form: type[ValueForm], place: Place, document: WrittenDocument) -> None:
    """One of pydantic's errors in words, at its line."""
    loc = tuple(part for part in error["loc"] if part != "[key]")
    where = (*place, *loc)
    if error["type"] == "extra_forbidden":
        inner = _INNER.get(str(loc[0]), form) if len(loc) > 1 else form
        hint = nearest(str(loc[-1]), _names(inner), "known here are")
        document.fault(where, f"unknown field; {hint}")
    elif error["type"] == "missing":
        document.fault(where, "missing; it must be there.")
    else:
        what = error["msg"].removeprefix("Value error, ")
        what = _WORDS.get(error["type"], what[:1].lower() + what[1:])
        given = error["input"]
        given = given if not isinstance(given, str) or len(given) < LONGEST else ""
        shown = f" (given: {canonical(given)[:80]})" if isinstance(given, str | int | float) else ""
        document.fault(where, what + (shown if given != "" else "") + ".")


def read_pools(
    raw: Mapping[str, Any], place: Place, document: WrittenDocument
) -> dict[str, Written]:
    """The pools of a file or template; those with faults are left out."""
    found: dict[str, Written] = {}
    for slot, value in raw.items():
        where = (*place, slot)
        if not NAME.fullmatch(slot):
            document.fault(where, "is no name of a slot: lower-case letters, digits and `_`.")
            continue
        pool = _pool(value, where, document)
        if pool is not None:
            found[slot] = pool
    return found


def _pool(raw: Any, place: Place, document: WrittenDocument) -> Written | None:
    if raw == "schema":
        return SchemaPool()
    if isinstance(raw, list):
        if not raw:
            document.fault(place, "is empty; a slot needs at least one value.")
            return None
        if len(raw) > POOL_VALUES:
            what = f"has {len(raw):,} values; at most {POOL_VALUES:,} are taken."
            document.fault(place, what)
            return None
        seen: set[str] = set()
        for number, text in enumerate(map(canonical, raw)):
            if text in seen:
                document.fault((*place, number), f"the value {text[:80]} stands twice.")
            seen.add(text)
        return raw
    if not isinstance(raw, dict):
        kinds = ", ".join(f"`{kind}`" for kind in FORMS)
        document.fault(place, f"must be a list, `schema`, or a mapping with one of {kinds}.")
        return None
    named = [kind for kind in FORMS if kind in raw]
    if len(named) > 1:
        document.fault(place, f"is {' and '.join(named)}; a pool is one of them.")
        return None
    if not named:
        hint = nearest(next(iter(raw), ""), FORMS, "kinds of pools are")
        document.fault(place, f"is no kind of pool; {hint}")
        return None
    made: Any = read_form(FORMS[named[0]], raw, place, document)
    if isinstance(made, FakerPool) and made.faker not in FAKERS:
        hint = nearest(made.faker, FAKERS, "some that may are")
        document.fault((*place, "faker"), f"no provider `{made.faker}` may be used; {hint}")
        return None
    return made  # type: ignore[no-any-return]  # one of FORMS
