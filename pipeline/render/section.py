"""What is shown, whoever shows it: subjects give `Section`s; Markdown and HTML are made here, and
`terminal.py` draws them.

Cells are data, whatever models or documents wrote into them: the renderers make them harmless.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

from markupsafe import Markup

if TYPE_CHECKING:
    import jinja2

# What cannot be seen, moves the cursor, or reorders what can be seen: control characters but tab
# and newline, half characters, the invisible ones (zero width, fillers, tags) and those that change
# the direction. The joiners U+200C and U+200D stay: emoji and Persian are written with them.
UNSEEN = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\xad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180e\u200b\u200e\u200f"
    "\u2028-\u202e\u2060-\u206f\u3164\ufeff\uffa0\ufff9-\ufffb\ud800-\udfff\U000e0000-\U000e0fff]"
)
# What is read as a number stands to the right of its column.
FIGURE = re.compile(r"\d+|\$[\d.,]+|\d+ %")
FOLDERS = (Path(__file__).parent, Path(__file__).parents[1] / "pages")
FIRST = 10  # of many lines, where a file has all of them


@dataclass(frozen=True)
class Bar:
    """A bar in parts, one after the other, each with its kind, which is its colour: `good`, `bad`
    or `rest`. `of`: what the whole width stands for."""

    parts: tuple[tuple[str, float], ...]
    of: float

    @property
    def lengths(self) -> list[tuple[str, float, float]]:
        """Of each part its kind, where it begins and how long it is, in percent of the width."""
        drawn, end = [], 0.0
        for kind, amount in self.parts:
            length = round(100 * amount / self.of, 2) if self.of else 0.0
            drawn.append((kind, round(end, 2), length))
            end += length
        return drawn


@dataclass(frozen=True)
class Label:
    """The name of a row, with something smaller beside it. `reason`: whose samples it opens."""

    text: str
    about: str = ""
    reason: str = ""

    def __str__(self) -> str:
        return f"{self.text} {self.about}".rstrip()


Cell: TypeAlias = str | int | Bar | Label


@dataclass(frozen=True)
class Section:
    """A table with its title, a note below it, and a list; any of them may be missing. Without a
    `head` the rows have no line of names above them."""

    title: str = ""
    head: Sequence[str] = ()
    rows: Sequence[Sequence[Cell]] = ()
    total: Sequence[Cell] = ()  # one row more, of sums
    note: str = ""  # sentences, each on a line of its own
    items: Sequence[str] = ()
    legend: Sequence[tuple[str, str]] = ()  # kind of a bar's part, and its name

    def is_number(self, column: int) -> bool:
        """Whether the cells of a column are figures, as its first one tells."""
        return bool(self.rows) and bool(FIGURE.fullmatch(str(self.rows[0][column])))


def visible(value: object) -> str:
    """Text with what cannot be seen, or what a terminal would obey, written as `\\x1b`."""
    return UNSEEN.sub(lambda match: ascii(match[0])[1:-1], str(value))


def safe_json(value: Any) -> str:
    """JSON as text that a terminal obeys nothing of, and that still is the same JSON."""
    text = json.dumps(value, indent=2, ensure_ascii=False)
    return UNSEEN.sub(lambda match: json.dumps(match[0])[1:-1], text)


def shown(cell: Cell) -> str:
    """A cell as text; of a bar nothing, as the figure stands beside it."""
    if isinstance(cell, Bar):
        return ""
    return f"{cell:,}" if isinstance(cell, int) else str(cell)


def dollars(value: float) -> str:
    """US dollars: cents above one, three digits that say something below."""
    digits = 2 if value >= 1 or value <= 0 else min(9, 2 - math.floor(math.log10(value)))
    return f"${value:,.{digits}f}"


def percent(share: float) -> str:
    return f"{100 * share:.0f} %"


def counted(number: int, noun: str) -> str:
    """A number with its noun: `1 file`, `1,200 files`, `2 queries`."""
    if number == 1:
        return f"1 {noun}"
    return f"{number:,} {noun[:-1]}ies" if noun.endswith("ry") else f"{number:,} {noun}s"


def short(value: str, widest: int = 72) -> str:
    """The beginning of a text, on one line."""
    line = " ".join(value[: 4 * widest].split())
    return line if len(line) <= widest else line[: widest - 1] + "…"


def first_lines(lines: Sequence[str], where: str = "", most: int = FIRST) -> list[str]:
    """The first of many lines, and how many more there are. `where`: which file has all."""
    more = [f"… and {len(lines) - most:,} more{where}"] if len(lines) > most else []
    return [*lines[:most], *more]


def markdown(sections: Iterable[Section]) -> str:
    """Sections as Markdown with empty lines between; a title is a heading of the second level."""
    parts: list[str] = []
    for section in sections:
        rows = [*section.rows, *([section.total] if section.total else [])]
        head = section.head or [""] * len(rows[0]) if rows else ()
        parts += [
            f"## {cell(section.title)}" if section.title else "",
            table(head, (map(shown, row) for row in rows)),
            "\n".join(map(cell, section.note.splitlines())),
            "\n".join(f"- {cell(item)}" for item in section.items),
        ]
    return "\n\n".join(filter(None, parts))


def table(head: Iterable[Any], rows: Iterable[Iterable[Any]]) -> str:
    """A Markdown table; empty without rows. Cells are data and cannot break out of it."""
    names = list(head)
    lines = [names, ["---"] * len(names), *rows]
    if len(lines) == 2:
        return ""
    return "\n".join("| " + " | ".join(cell(v) for v in line) + " |" for line in lines)


def cell(value: Any) -> str:
    """One line of Markdown without HTML, links, table bars, or what a terminal obeys."""
    text = visible(" ".join(str(value).split()))
    for character in "\\|<>[]":
        text = text.replace(character, f"\\{character}")
    return text


def render(name: str, **variables: Any) -> str:
    """A page or a part of one; every value is escaped that is not markup of ours. Raises
    LookupError for a record that lacks what its template shows."""
    import jinja2  # only a page needs it

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
    import jinja2

    environment = jinja2.Environment(
        loader=jinja2.FileSystemLoader(FOLDERS),
        undefined=jinja2.StrictUndefined,
        autoescape=True,
        trim_blocks=True,
        lstrip_blocks=True,
        # What a template puts into a page; markup is ours.
        finalize=lambda value: value if hasattr(value, "__html__") else visible(value),
    )
    environment.filters |= {"count": "{:,}".format, "words": words, "cut": cut, "shown": shown}
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
