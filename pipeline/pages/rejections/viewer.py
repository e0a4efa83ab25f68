"""Rejected records one at a time, as a person reads them, beside accepted ones like them.

The order is that of the records' keys: fixed, and in no relation to what is in them. So the first
hundred that a curator marks are a fair sample of what the filters let through.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from markupsafe import Markup

from toolloom.pipeline.pages.dialogue import STYLE, dialogue_html
from toolloom.pipeline.pages.reading import readable
from toolloom.pipeline.pages.rejections.judgements import Judgement
from toolloom.pipeline.pages.rejections.neighbours import Neighbour
from toolloom.pipeline.pages.rejections.table import Row, known_column, whole
from toolloom.pipeline.render.html import visible
from toolloom.schemas import JsonObject, NothingFound

if TYPE_CHECKING:
    from toolloom.pipeline.pages.rejections.inspection import Inspection
    from toolloom.pipeline.store.version import Version

ALL, UNMARKED, AGREE, DISAGREE = "all", "not marked", "agree", "disagree"
MARKED = (ALL, UNMARKED, AGREE, DISAGREE)
_BESIDE = """
.toolloom-beside { display: grid; gap: 1rem; align-items: start;
  grid-template-columns: repeat(auto-fit, minmax(min(26rem, 100%), 1fr)); }
.toolloom-beside h4 { margin: .2rem 0 .4rem; font: 600 14px/1.4 system-ui, sans-serif; }
.toolloom-beside summary { cursor: pointer; font: 600 14px/1.4 system-ui, sans-serif; }
.toolloom-beside section > * + * { margin-top: .7rem; }
"""
_NEAR = {"API": "calls the same API", "category": "is of the same category", "": "is the nearest"}


class Viewer:
    """The records that filters let through, and the one that is shown."""

    def __init__(self, inspection: Inspection, filters: dict[str, str]) -> None:
        self._inspection = inspection
        self.raw = False
        self.show_neighbours = True
        self.rows: list[Row] = []
        self.place = 0
        self.filter(**filters)

    @property
    def row(self) -> Row | None:
        """The record that is shown; None if no record fits."""
        return self.rows[self.place] if self.rows else None

    def filter(self, marked: str = ALL, text: str = "", **columns: str) -> Viewer:
        """Show those that have these values, such as `agent="tester"`, from the first one on.

        `marked`: one of `MARKED`, of this curator's own marks. `text`: what is said, or found.
        """
        if marked not in MARKED:
            raise NothingFound(f"marked is one of {', '.join(MARKED)}; not {marked!r}.")
        for column in columns:
            known_column(column)
        marks, wanted = self._inspection.marks, text.casefold()

        def fits(row: Row) -> bool:
            own = marks.of(row).get(self._inspection.curator)
            told = {None: UNMARKED, True: AGREE, False: DISAGREE}[own.agrees if own else None]
            return (
                marked in (ALL, told)
                and all(value in row.values(column) for column, value in columns.items())
                and wanted in f"{row.id}\n{row.text}\n{row.detail}".casefold()
            )

        rows = filter(fits, self._inspection.rows)
        self.rows, self.place = sorted(rows, key=lambda row: row.key), 0
        return self

    def step(self, by: int) -> Viewer:
        """Go forward or back; after the last comes the first."""
        self.place = (self.place + by) % max(1, len(self.rows))
        return self

    def mark(self, agrees: bool | None, note: str = "") -> Judgement:
        """Keep what the curator says of the record that is shown; None takes a mark back.

        Raises NothingFound if none is shown, StoreError if it cannot be kept.
        """
        if self.row is None:
            raise NothingFound("No record is shown that could be marked.")
        told = self._inspection
        return told.judgements.add(self.row, agrees, told.curator, note.strip())

    @property
    def mine(self) -> Judgement | None:
        """The curator's own mark on the record that is shown."""
        return self._marks().get(self._inspection.curator)

    def _marks(self) -> dict[str, Judgement]:
        return dict(self._inspection.marks.of(self.row)) if self.row else {}

    @property
    def position(self) -> str:
        if self.row is None:
            return "No rejected record fits." if self._inspection.rows else "Nothing was rejected."
        return f"{self.place + 1:,} of {len(self.rows):,}"

    def html(self) -> str:
        """The record that is shown, with its neighbours; all that models wrote is escaped."""
        if self.row is None:
            return str(Markup("<p>{}</p>").format(self.position))
        row = self.row
        version = self._inspection.version
        record = whole(version, "rejected", row.split, row.place)
        with readable(version, record):
            shown = Markup(dialogue_html(record, raw=self.raw))
        near = self._inspection.neighbourhood.near(row) if self.show_neighbours else []
        return str(
            Markup(
                '<style>{}</style><div class="toolloom-beside mathjax_ignore tex2jax_ignore">'
                "<section><h4>Rejected ({}){}</h4>{}</section>{}</div>"
            ).format(
                Markup(STYLE + _BESIDE),
                self.position,
                self._marks_html(),
                shown,
                _beside(version, near),
            )
        )

    def _marks_html(self) -> Markup:
        lines = [
            Markup("<br>{}: {}{}").format(
                visible(curator),
                AGREE if mark.agrees else DISAGREE,
                f" – {visible(mark.note)}" if mark.note else "",
            )
            for curator, mark in self._marks().items()
        ]
        return Markup().join(lines)

    def __repr__(self) -> str:
        row = self.row
        return f"{self.position}: {row.reason} ({visible(row.id)})" if row else self.position

    def _repr_mimebundle_(self, **_: Any) -> dict[str, Any]:
        """With controls where a front end has widgets; else the record as it stands."""
        plain = {"text/plain": repr(self), "text/html": self.html()}
        try:
            from toolloom.pipeline.pages.rejections.controls import controls
        except ImportError:  # ipywidgets is an extra
            return plain
        return {**controls(self, self._inspection), **plain}


def _beside(version: Version, near: list[Neighbour]) -> Markup:
    """Accepted neighbours; the first one open."""
    told = Markup("<details{}><summary>Accepted: {} (words {:.0f}% alike)</summary>{}</details>")
    shown = [
        told.format(
            Markup("" if number else " open"),
            _NEAR[one.shares],
            one.likeness,
            _accepted(version, one.sample),
        )
        for number, one in enumerate(near)
    ]
    return Markup("<section>{}</section>").format(Markup().join(shown)) if shown else Markup()


def _accepted(version: Version, sample: JsonObject) -> Markup:
    with readable(version, sample):
        return Markup(dialogue_html(sample))
