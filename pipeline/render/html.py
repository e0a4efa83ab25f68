"""Sections and pages as HTML. What models wrote is shown as text, whatever it holds."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import Any

import jinja2
from markupsafe import Markup

from toolloom.pipeline.render.section import shown, visible

FOLDERS = (Path(__file__).parent, Path(__file__).parents[1] / "pages")


def render(name: str, **variables: Any) -> str:
    """A page or a part of one; every value is escaped that is not markup of ours. Raises
    LookupError for a record that lacks what its template shows."""
    try:
        return _environment().get_template(name).render(variables)
    except jinja2.UndefinedError as error:
        raise LookupError(str(error)) from error


def source(name: str) -> str:
    """A style or a script as it is."""
    paths = (folder / name for folder in FOLDERS)
    return next(path for path in paths if path.exists()).read_text(encoding="utf-8")


def notebook_html(html: str) -> str:
    """HTML of ours with its style. The classes keep a notebook from reading $…$ as formulas."""
    page = '<style>{}</style><div class="mathjax_ignore tex2jax_ignore">{}</div>'
    return Markup(page).format(Markup(source("style.css")), Markup(html))


@cache
def _environment() -> jinja2.Environment:
    environment = jinja2.Environment(
        loader=jinja2.FileSystemLoader(FOLDERS),
        undefined=jinja2.StrictUndefined,
        autoescape=True,
        trim_blocks=True,
        lstrip_blocks=True,
        # What a template puts into a page; markup is ours.
        finalize=lambda value: value if hasattr(value, "__html__") else visible(value),
    )
    environment.filters["count"] = lambda number: f"{number:,}"
    environment.filters["words"] = words
    environment.filters["cut"] = cut
    environment.filters["shown"] = shown
    return environment


def words(code: object) -> str:
    """A code as words: `off_path` is `off path`."""
    return str(code).replace("_", " ")


def cut(value: object, longest: int | None) -> str:
    """The beginning of a text that is longer than `longest` characters."""
    whole = str(value)
    if longest is None or len(whole) <= longest:
        return whole
    return f"{whole[:longest]}… ({len(whole) - longest:,} more characters)"
