"""The one environment that renders pages. What models wrote is shown as text, whatever it holds."""

from __future__ import annotations

import re
from functools import cache
from pathlib import Path
from typing import Any

import jinja2

FOLDER = Path(__file__).parents[1] / "pages"

# What cannot be seen, or reorders what can: control characters but tab and newline, half
# characters, the invisible ones (zero width, fillers, tags) and those that change the direction.
# The joiners U+200C and U+200D stay: emoji and Persian are written with them.
UNSEEN = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\xad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180e\u200b\u200e\u200f"
    "\u2028-\u202e\u2060-\u206f\u3164\ufeff\uffa0\ufff9-\ufffb\ud800-\udfff\U000e0000-\U000e0fff]"
)


def visible(value: object) -> str:
    """Text with what cannot be seen written as `\\u202e`."""
    return UNSEEN.sub(lambda found: ascii(found[0])[1:-1], str(value))


def render(name: str, **variables: Any) -> str:
    """A page or a part of one; every value is escaped that is not markup of ours.

    Raises LookupError for a record that lacks what its template shows.
    """
    try:
        return _environment().get_template(name).render(variables)
    except jinja2.UndefinedError as error:
        raise LookupError(str(error)) from error


def source(name: str) -> str:
    """A file of this folder as it is."""
    return (FOLDER / name).read_text(encoding="utf-8")


@cache
def _environment() -> jinja2.Environment:
    made = jinja2.Environment(
        loader=jinja2.FileSystemLoader(FOLDER),
        undefined=jinja2.StrictUndefined,
        autoescape=True,
        trim_blocks=True,
        lstrip_blocks=True,
        finalize=_final,
    )
    made.filters["count"] = lambda number: f"{number:,}"
    made.filters["words"] = lambda code: str(code).replace("_", " ")
    return made


def _final(value: Any) -> Any:
    """What a template puts into a page."""
    return value if hasattr(value, "__html__") else visible(value)  # markup is ours
