"""What a person sees of exports and of checks. Text of files is shown as data."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from pathlib import Path

from rich.console import Group, RenderableType
from rich.text import Text

from toolloom.pipeline.dataset.export.checking import Checked
from toolloom.pipeline.dataset.export.exporting import Report
from toolloom.pipeline.render.terminal import grid


def report_view(report: Report) -> RenderableType:
    """The files with their rows, and what is not in them."""
    files = [(_shown(path), rows) for path, rows in report.files.items()]
    parts: list[RenderableType] = [grid(("file", "rows"), files)] if files else []
    parts += _reasons("left out because", "samples", report.unfit)
    parts += _reasons("rows do not hold", "samples", report.lost)
    return Group(*parts)


def _shown(path: Path) -> str:
    try:
        return str(path.resolve().relative_to(Path.cwd()))
    except ValueError:
        return str(path)


def _reasons(title: str, counted: str, counts: Counter[str]) -> Iterator[RenderableType]:
    if counts:
        yield Text()
        yield grid((title, counted), counts.most_common())


def checked_view(checked: Checked) -> RenderableType:
    """A row for each template; for rows that are text, one without."""
    rows = [
        (
            checked.format,
            checked.rows,
            one.template.name,
            _tools(one.template.shows_tools, one.template.knows_tools),
            one.rendered if one.template.knows_tools else "no tools",
            one.failed if one.template.knows_tools else "–",
            one.first if one.template.knows_tools else "",
        )
        for one in checked.templates
    ]
    plain = (checked.format, checked.rows, "–", "–", "–", "–", "")
    head = ("format", "rows", "template", "tools", "rendered", "failed", "first failure")
    return grid(head, rows or [plain])


def _tools(shown: bool, known: bool) -> str:
    """What a template writes out."""
    if shown:
        return "tools, calls"
    return "calls" if known else "–"


def faults(checked: Checked) -> Iterator[str]:
    """What is wrong with the file itself, in words."""
    if not checked.rows:
        yield "The file has no rows."
    if checked.wrong:
        wrong = f"{checked.wrong:,} of {checked.rows:,} rows have another shape"
        yield f"{wrong}. First, {checked.first}"
    if checked.loaded:
        yield f"Loading: {checked.loaded}."
    if checked.templates and not checked.is_sound and not (checked.wrong or checked.loaded):
        yield "No template that knows tools renders all rows."
