"""Sections and pages as HTML. What models wrote is shown as text, whatever it holds."""

from __future__ import annotations

import re
from functools import cache
from pathlib import Path
from typing import Any

import jinja2
from markupsafe import Markup

from toolloom.pipeline.render.section import Section, shown

FOLDERS = (Path(__file__).parent, Path(__file__).parents[1] / "pages")

# What cannot be seen, or reorders what can: control characters but tab and newline, half
# characters, the invisible ones (zero width, fillers, tags) and those that change the direction.
# The joiners U+200C and U+200D stay: emoji and Persian are written with them.
UNSEEN = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\xad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180e\u200b\u200e\u200f"
    "\u2028-\u202e\u2060-\u206f\u3164\ufeff\uffa0\ufff9-\ufffb\ud800-\udfff\U000e0000-\U000e0fff]"
)


def visible(value: object) -> str:
    """Text with what cannot be seen written as `\\u202e`."""
    return UNSEEN.sub(lambda match: ascii(match[0])[1:-1], str(value))


def render(name: str, **variables: Any) -> str:
    """A page or a part of one; every value is escaped that is not markup of ours.

    Raises LookupError for a record that lacks what its template shows.
    """
    try:
        return _environment().get_template(name).render(variables)
    except jinja2.UndefinedError as error:
        raise LookupError(str(error)) from error


def source(name: str) -> str:
    """A style or a script as it is."""
    paths = (folder / name for folder in FOLDERS)
    return next(path for path in paths if path.exists()).read_text(encoding="utf-8")


class Drawn:
    """Sections as a notebook shows them, in any front end."""

    def __init__(self, *sections: Section) -> None:
        self.sections = sections

    def _repr_html_(self) -> str:
        return notebook_html(render("sections.html.j2", sections=self.sections))

    def __repr__(self) -> str:
        return "\n".join(_in_words(section) for section in self.sections)


def notebook_html(html: str) -> str:
    """HTML of ours with its style. The classes keep a notebook from reading $…$ as formulas."""
    page = '<style>{}</style><div class="mathjax_ignore tex2jax_ignore">{}</div>'
    return Markup(page).format(Markup(source("style.css")), Markup(html))


def _in_words(section: Section) -> str:
    """For who does not see it: `Title: a 3, b 2`."""
    rows = (" ".join(filter(None, map(shown, row))) for row in section.rows)
    return f"{section.title}: {', '.join(rows) or 'nothing'}"


@cache
def _environment() -> jinja2.Environment:
    environment = jinja2.Environment(
        loader=jinja2.FileSystemLoader(FOLDERS),
        undefined=jinja2.StrictUndefined,
        autoescape=True,
        trim_blocks=True,
        lstrip_blocks=True,
        finalize=_final,
    )
    environment.filters["count"] = lambda number: f"{number:,}"
    environment.filters["words"] = words
    environment.filters["shown"] = shown
    return environment


def words(code: object) -> str:
    """A code as words: `off_path` is `off path`."""
    return str(code).replace("_", " ")


def _final(value: Any) -> Any:
    """What a template puts into a page."""
    return value if hasattr(value, "__html__") else visible(value)  # markup is ours
