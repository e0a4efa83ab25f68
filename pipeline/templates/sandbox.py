"""The texts of written templates: Jinja in a sandbox, with little of the language.

Expressions and `if`, no loops, no calls, few filters, short results: whoever shares a file of
templates cannot make others read a file, run code or wait.
"""

from __future__ import annotations

import datetime as dt
import re
import unicodedata
from collections.abc import Callable, Mapping
from functools import lru_cache
from typing import Any

from jinja2 import StrictUndefined, TemplateError, TemplateSyntaxError, Undefined, meta, nodes
from jinja2.exceptions import SecurityError
from jinja2.sandbox import ImmutableSandboxedEnvironment

LONGEST = 4_000  # letters of a text, before and after it is rendered
_SIGNS = re.compile(r"%(?:-?[dm]|[BbYyAa%])|[^%]")


class TextMistake(ValueError):
    """A text that is no template, or that cannot be rendered, in words for its writer."""


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


def _date(value: str, form: str = "%-d %B %Y") -> str:
    """A date such as 2026-03-02 in words; `%-d` is a day without its zero, on any system."""
    day = dt.date.fromisoformat(value)
    if "".join(_SIGNS.findall(form)) != form:
        raise ValueError(f"`date` knows %d %-d %m %-m %B %b %Y %y %A %a %%, not all of {form!r}")
    plain = {"%-d": str(day.day), "%-m": str(day.month), "%Y": f"{day.year:04d}"}
    return "".join(
        plain.get(sign, day.strftime(sign)) if len(sign) > 1 else sign
        for sign in _SIGNS.findall(form)
    )


def _later(value: str, days: int) -> str:
    return (dt.date.fromisoformat(value) + dt.timedelta(days=days)).isoformat()


def _replace(text: Any, old: str, new: str) -> str:
    return _short(str(text).replace(old, new))


def _slug(text: Any, sign: str = "-") -> str:
    """The words without accents, as addresses are written: `zurich-old-town`."""
    letters = (c for c in unicodedata.normalize("NFKD", str(text)) if not unicodedata.combining(c))
    return _short(sign.join(re.findall(r"[^\W_]+", "".join(letters).lower())))


def _join(values: Any, sign: str = "") -> str:
    return _short(sign.join(map(str, values)))


def _short(text: str) -> str:
    if len(text) > LONGEST:
        raise ValueError(f"a text is longer than {LONGEST:,} letters")
    return text


_OURS: Mapping[str, Callable[..., Any]] = {
    "date": _date, "later": _later, "replace": _replace, "slug": _slug, "join": _join,
}  # fmt: skip
FILTERS = ("lower", "upper", "title", "capitalize", "trim", "length", "first", "last", "int",
           "float", "round", "abs", "string", "list", "sort", *_OURS)  # fmt: skip


@lru_cache(maxsize=1)
def _sandbox() -> _Sandbox:
    made = _Sandbox(undefined=StrictUndefined, autoescape=False, keep_trailing_newline=True)
    made.globals.clear()
    made.filters = {
        **{name: made.filters[name] for name in FILTERS if name in made.filters},
        **_OURS,
    }
    return made


def is_text(value: str) -> bool:
    """Whether anything in a string is to be rendered."""
    return "{{" in value or "{%" in value or "{#" in value


@lru_cache(maxsize=4_096)
def names_in(source: str) -> frozenset[str]:
    """The variables of a text. Raises TextMistake for one that is no template."""
    return frozenset(meta.find_undeclared_variables(_parsed(source)))


def _parsed(source: str) -> nodes.Template:
    if len(source) > LONGEST:
        raise TextMistake(f"is longer than {LONGEST:,} letters")
    try:
        tree = _sandbox().parse(source)
    except TemplateSyntaxError as error:
        raise TextMistake(f"is no template ({error.message})") from error
    for node in tree.find_all(nodes.Node):
        if not isinstance(node, _ALLOWED):
            raise TextMistake(f"`{type(node).__name__.lower()}` may not stand in a template")
        if isinstance(node, nodes.Filter) and node.name not in FILTERS:
            known = ", ".join(sorted(FILTERS))
            raise TextMistake(f"there is no filter `{node.name}`; filters are {known}")
    return tree


@lru_cache(maxsize=4_096)
def _compiled(source: str) -> Callable[[Mapping[str, Any]], Any]:
    body = _parsed(source).body
    parts = body[0].nodes if len(body) == 1 and isinstance(body[0], nodes.Output) else []
    if len(parts) == 1 and not isinstance(parts[0], nodes.TemplateData):
        whole = source.strip().removeprefix("{{").removesuffix("}}").strip("-+")
        return _sandbox().compile_expression(whole, undefined_to_none=False)
    return _sandbox().from_string(source).render


def rendered(source: str, values: Mapping[str, Any]) -> Any:
    """A text with its variables; what is one expression and nothing else keeps its type. Raises
    TextMistake."""
    try:
        made = _compiled(source)(values)
        if isinstance(made, Undefined):
            str(made)  # raises, as it is a strict one
        return _short(made) if isinstance(made, str) else made
    except TextMistake:
        raise
    except (
        TemplateError,
        ArithmeticError,
        AttributeError,
        LookupError,
        TypeError,
        ValueError,
    ) as e:
        raise TextMistake(f"cannot be rendered ({str(e)[:200]})") from e
