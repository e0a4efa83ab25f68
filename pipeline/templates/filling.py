"""Rows of one template: which values are drawn, and the samples that they make.

The texts of written templates are Jinja in a sandbox, with little of the language: expressions and
`if`, no loops, no calls, few filters, short results. Whoever shares a file of templates cannot make
others read a file, run code or wait.
"""

from __future__ import annotations

import datetime as dt
import json
import math
import random
import re
import unicodedata
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import lru_cache
from itertools import islice, product
from typing import Any, NamedTuple, TypeAlias, TypeGuard

from jinja2 import StrictUndefined, TemplateSyntaxError, Undefined, meta, nodes
from jinja2.exceptions import SecurityError
from jinja2.sandbox import ImmutableSandboxedEnvironment

from toolloom.pipeline.checks import inspect
from toolloom.pipeline.sampling.values import rng_for
from toolloom.pipeline.store.files import to_text
from toolloom.prompts import FAILED
from toolloom.schemas import Finding, JsonObject, Provenance, Sample, Template, marker
from toolloom.schemas.derived import CLOSE, OPEN

LONGEST = 4_000  # letters of a text, before and after it is rendered
_SIGNS = re.compile(r"%(?:-?[dm]|[BbYyAa%])|[^%]")


class Mistake(ValueError):
    """A text that is no template or cannot be rendered, or a pool without values, in words for
    its writer."""


class _Sandbox(ImmutableSandboxedEnvironment):
    intercepted_binops = frozenset(["*", "%"])

    def call_binop(self, context: Any, operator: str, left: Any, right: Any) -> Any:
        if not all(isinstance(side, int | float) for side in (left, right)):
            raise SecurityError(f"`{operator}` takes numbers alone")
        return super().call_binop(context, operator, left, right)


_ALLOWED = (
    *(nodes.Template, nodes.Output, nodes.TemplateData, nodes.If, nodes.Name, nodes.Const),
    *(nodes.Filter, nodes.Getattr, nodes.Getitem, nodes.Slice, nodes.Dict, nodes.Pair, nodes.List),
    *(nodes.Tuple, nodes.Add, nodes.Sub, nodes.Mul, nodes.Div, nodes.FloorDiv, nodes.Mod),
    *(nodes.Neg, nodes.Concat, nodes.Compare, nodes.Operand, nodes.And, nodes.Or, nodes.Not),
    *(nodes.CondExpr, nodes.Keyword),
)


def date_text(value: str, form: str = "%-d %B %Y") -> str:
    """A date such as 2026-03-02 in words; `%-d` is a day without its zero, on any system."""
    day = dt.date.fromisoformat(value)
    signs = _SIGNS.findall(form)
    if "".join(signs) != form:
        raise ValueError(f"`date` knows %d %-d %m %-m %B %b %Y %y %A %a %%, not all of {form!r}")
    plain = {"%-d": str(day.day), "%-m": str(day.month), "%Y": f"{day.year:04d}"}
    return "".join(plain.get(s, day.strftime(s)) if len(s) > 1 else s for s in signs)


def _slug(text: Any, sign: str = "-") -> str:
    """The words without accents, as addresses are written: `zurich-old-town`."""
    letters = (c for c in unicodedata.normalize("NFKD", str(text)) if not unicodedata.combining(c))
    return _short(sign.join(re.findall(r"[^\W_]+", "".join(letters).lower())))


def _short(text: str) -> str:
    if len(text) > LONGEST:
        raise ValueError(f"a text is longer than {LONGEST:,} letters")
    return text


_OURS: Mapping[str, Callable[..., Any]] = {
    "date": date_text,
    "slug": _slug,
    "replace": lambda text, old, new: _short(str(text).replace(old, new)),
    "join": lambda values, sign="": _short(sign.join(map(str, values))),
    "later": lambda day, days: f"{dt.date.fromisoformat(day) + dt.timedelta(days=days)}",
}
FILTERS = ("lower", "upper", "title", "capitalize", "trim", "length", "first", "last", "int",
           "float", "round", "abs", "string", "list", "sort", *_OURS)  # fmt: skip


@lru_cache(maxsize=1)
def _sandbox() -> _Sandbox:
    made = _Sandbox(undefined=StrictUndefined, autoescape=False, keep_trailing_newline=True)
    made.globals.clear()
    known = {**made.filters, **_OURS}
    made.filters = {name: known[name] for name in FILTERS}
    return made


def is_text(value: Any) -> TypeGuard[str]:
    """Whether it is a string, and anything in it is to be rendered."""
    return isinstance(value, str) and any(sign in value for sign in ("{{", "{%", "{#"))


@lru_cache(maxsize=4_096)
def names_in(source: str) -> frozenset[str]:
    """The variables of a text. Raises Mistake for one that is no template."""
    return frozenset(meta.find_undeclared_variables(_parsed(source)))


def _parsed(source: str) -> nodes.Template:
    if len(source) > LONGEST:
        raise Mistake(f"is longer than {LONGEST:,} letters")
    try:
        tree = _sandbox().parse(source)
    except TemplateSyntaxError as error:
        raise Mistake(f"is not a template ({error.message})") from error
    for node in tree.find_all(nodes.Node):
        if not isinstance(node, _ALLOWED):
            raise Mistake(f"`{type(node).__name__.lower()}` may not stand in a template")
        if isinstance(node, nodes.Filter) and node.name not in FILTERS:
            known = ", ".join(sorted(FILTERS))
            raise Mistake(f"there is no filter `{node.name}`; filters are {known}")
    return tree


@lru_cache(maxsize=4_096)
def _compiled(source: str) -> Callable[[Mapping[str, Any]], Any]:
    body = _parsed(source).body
    parts = body[0].nodes if len(body) == 1 and isinstance(body[0], nodes.Output) else []
    if len(parts) == 1 and not isinstance(parts[0], nodes.TemplateData):
        whole = source.strip().removeprefix("{{").removesuffix("}}").strip("-+")
        return _sandbox().compile_expression(whole, undefined_to_none=False)
    return _sandbox().from_string(source).render


def rendered(source: Any, values: Mapping[str, Any]) -> Any:
    """A text with its variables; what is one expression and nothing else keeps its type, and what
    is no text stays as it is. Raises Mistake."""
    if not is_text(source):
        return source
    compiled = _compiled(source)
    try:
        made = compiled(values)
        if isinstance(made, Undefined):
            str(made)  # raises, as it is a strict one
        return _short(made) if isinstance(made, str) else made
    except FAILED as error:
        raise Mistake(f"cannot be rendered ({str(error)[:200]})") from error


STAGE = "expanded"
MARK = re.compile(f"{OPEN}([^{OPEN}{CLOSE}]*){CLOSE}")
NUMBER = marker("#")
"""Stands for a row's id until it is accepted and numbered; no slot has this name."""

DENSE = 20_000  # up to so many rows of a template are all listed, in an order of chance
_SHOWN = ("pool", "outside")  # what a query shows of APIs
Row: TypeAlias = tuple[int, ...]
"""For each choice the place of its row."""


def text_of(value: Any) -> str:
    """A value as a longer text holds it: strings as they are, all else as JSON."""
    return value if isinstance(value, str) else to_text(value)


def changed(value: Any, change: Callable[[Any], Any]) -> Any:
    """A JSON value with whatever in it is neither a list nor an object changed."""
    if isinstance(value, list):
        return [changed(part, change) for part in value]
    if isinstance(value, dict):
        return {key: changed(part, change) for key, part in value.items()}
    return change(value)


def filled(value: Any, values: Mapping[str, Any]) -> Any:
    """A part of a skeleton with its slots filled. Of tool messages only their own JSON is."""

    def fill(part: Any) -> Any:
        if not isinstance(part, str) or OPEN not in part:
            return part
        if (whole := MARK.fullmatch(part)) is not None:
            return values[whole[1]]
        return MARK.sub(lambda found: text_of(values[found[1]]), part)

    return changed(value, fill)


class TemplateRenderer:
    """Makes samples of a template's rows."""

    def __init__(self, template: Template, seed: int = 0) -> None:
        self.template = template
        sample = Sample.model_validate(template.sample).model_dump(mode="json")
        share = Provenance(stage=STAGE, agent="", model="", seed=seed, parents=(template.id,))
        self._rest = {**sample, "flags": [], "provenance": [share.model_dump(mode="json")]}
        self._dialogue: JsonObject = {**sample["dialogue"], "provenance": []}
        query = {**self._dialogue["query"], "provenance": []}
        self._shown = {name: query[name] for name in _SHOWN}
        self._asked = {**query, **dict.fromkeys(_SHOWN)}
        self._messages = [
            {**m, "content": json.loads(m["content"])}
            if m["role"] == "tool" and OPEN in m["content"]  # its JSON has slots, not its text
            else m
            for m in self._dialogue["messages"]
        ]
        user = (m["content"] for m in self._dialogue["messages"] if m["role"] == "user")
        told = set(MARK.findall(f"{to_text(query['intent'])}{query['text']}{''.join(user)}"))
        told |= {n for slot in told & {*template.texts} for n in names_in(template.texts[slot])}
        self._told = [place for place, c in enumerate(template.choices) if told & {*c.slots}]

    @property
    def distinct(self) -> int:
        """How many rows differ in what is said or called; that of its sample is one of them."""
        return math.prod(len(self.template.choices[choice].rows) for choice in self._told)

    def drawn(self, rng: random.Random, most: int, part: int = 0, parts: int = 1) -> Iterator[Row]:
        """Rows that differ in what is said or called, `most` of them at most, and not the one of
        the sample that the template is of. Different parts of one `rng` share none, as long as
        they list all rows."""
        sizes = [len(choice.rows) for choice in self.template.choices]
        told = [sizes[choice] for choice in self._told]
        found: Sequence[Row] | Iterator[Row]
        if self.distinct <= DENSE:
            listed = list(product(*map(range, told)))
            rng.shuffle(listed)
            found = listed[part::parts][:most]
        else:
            rng = random.Random(f"{rng.random()} {part}")
            found = (tuple(map(rng.randrange, told)) for _ in range(most))
        seen = {(0,) * len(told)} if self.template.kind == "mined" else set[Row]()
        for row in found:
            if row not in seen:
                seen.add(row)
                places = dict(zip(self._told, row, strict=True))
                yield tuple(
                    places[choice] if choice in places else rng.randrange(size)
                    for choice, size in enumerate(sizes)
                )

    def values(self, row: Row) -> JsonObject:
        """The value of each slot."""
        choices = zip(self.template.choices, row, strict=True)
        found = {
            slot: value
            for choice, place in choices
            for slot, value in zip(choice.slots, choice.rows[place], strict=True)
        }
        for slot, source in self.template.texts.items():  # in order: one may use another
            found[slot] = rendered(source, found)
        return found

    def sample(self, row: Row, name: str = NUMBER) -> JsonObject:
        """The sample of a row, as JSON."""
        values = self.values(row)
        query = {**filled(self._asked, values), "id": name, **self._shown}
        query["text"] = text_of(query["text"])
        messages = [filled(message, values) for message in self._messages]
        for message in messages:
            if message["content"] is not None:
                message["content"] = text_of(message["content"])
        return {**self._rest, "dialogue": {**self._dialogue, "query": query, "messages": messages}}


_TRIES = 2_000  # draws for a preview


class PreviewRow(NamedTuple):
    """A row of a template, and what the certain checks say of it."""

    sample: Sample
    findings: tuple[Finding, ...]


class TemplatePreview(NamedTuple):
    """A template, and some of its rows: the original values first."""

    template: Template
    rows: tuple[PreviewRow, ...]

    @property
    def possible(self) -> int:
        """How many rows there could be."""
        return math.prod(len(choice.rows) for choice in self.template.choices)

    @property
    def fails(self) -> bool:
        """Whether no row passes."""
        return all(row.findings for row in self.rows)


def preview(template: Template, count: int, seed: int = 0) -> TemplatePreview:
    """Up to `count` different rows: the original values, then others by chance."""
    renderer, rng = TemplateRenderer(template, seed), rng_for(seed, "preview", template.id)
    rows = [(0,) * len(template.choices)]
    rows += islice((row for row in renderer.drawn(rng, _TRIES) if any(row)), count - 1)
    samples = (
        Sample.model_validate(renderer.sample(row, f"{template.id}-x{number:06d}"))
        for number, row in enumerate(rows)
    )
    made = tuple(PreviewRow(each, inspect(each.dialogue)) for each in samples)
    return TemplatePreview(template, made)
