"""The viewer's buttons and filters, as Jupyter widgets. Imports ipywidgets, which is an extra."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import ipywidgets as widgets
from markupsafe import Markup

from toolloom.pipeline.pages.rejections.table import counts
from toolloom.pipeline.pages.rejections.viewer import AGREE, ALL, DISAGREE, MARKED, Viewer
from toolloom.pipeline.render.html import visible
from toolloom.schemas import NothingFound, ToolloomError

if TYPE_CHECKING:
    from toolloom.pipeline.pages.rejections.inspection import Inspection

FILTERS = ("agent", "reason", "check", "model", "ability", "category", "prompt", "split")


def controls(viewer: Viewer, inspection: Inspection) -> dict[str, Any]:
    """A front end's view of the viewer: its MIME bundle."""
    bundle: dict[str, Any] = Controls(viewer, inspection).box._repr_mimebundle_()
    return bundle


class Controls:
    """What is on the screen, and what follows a click."""

    def __init__(self, viewer: Viewer, inspection: Inspection) -> None:
        self._viewer = viewer
        self._filters = {column: _filter(column, inspection) for column in FILTERS}
        self._marked = widgets.Dropdown(description="my marks", options=MARKED)
        self._text = widgets.Text(description="search", continuous_update=False)
        self._where, self._page = widgets.Label(), widgets.HTML()
        self.note = widgets.Text(placeholder="why (optional)", layout={"width": "24rem"})
        self._said = widgets.HTML()
        self._raw = _box("raw responses", viewer.raw)
        self._near = _box("accepted neighbours", viewer.show_neighbours)
        self.buttons = {
            "previous": self._button("← previous", lambda: self._go(-1)),
            "next": self._button("next →", lambda: self._go(1)),
            AGREE: self._button("agree: rightly rejected", lambda: self._mark(True), "success"),
            DISAGREE: self._button("disagree: it is good", lambda: self._mark(False), "danger"),
            "take back": self._button("take back", lambda: self._mark(None)),
        }
        self.box = self._laid_out()
        for each in (*self._filters.values(), self._marked, self._text):
            each.observe(lambda _: self._told(self._refilter), "value")
        for each in (self._raw, self._near):
            each.observe(lambda _: self._told(self._show), "value")
        self._told(self._turn)

    def _laid_out(self) -> widgets.VBox:
        wrapped = widgets.Layout(flex_flow="row wrap")
        filters = [*self._filters.values(), self._marked, self._text]
        button = self.buttons
        steps = [button["previous"], button["next"], self._where, self._raw, self._near]
        marking = [button[AGREE], button[DISAGREE], button["take back"], self.note, self._said]
        rows = [widgets.HBox(each, layout=wrapped) for each in (filters, steps, marking)]
        return widgets.VBox([*rows, self._page])

    def _button(self, label: str, work: Callable[[], None], style: str = "") -> widgets.Button:
        button = widgets.Button(description=label, button_style=style, layout={"width": "auto"})
        button.on_click(lambda _: self._told(work))
        return button

    def _told(self, work: Callable[[], None]) -> None:
        """Do it; an error that a person can act on is shown where a mark is confirmed."""
        self._say("")
        try:
            work()
        except ToolloomError as error:
            self._say(visible(error))

    def _say(self, text: str) -> None:
        # The classes keep `$…$` in an id or a path from being read as a formula.
        told = Markup('<span class="mathjax_ignore tex2jax_ignore">{}</span>')
        self._said.value = told.format(text) if text else ""

    def _show(self) -> None:
        """The record; none rather than the one before, if it cannot be read."""
        self._viewer.raw, self._viewer.show_neighbours = self._raw.value, self._near.value
        self._where.value = self._viewer.position
        try:
            self._page.value = self._viewer.html()
        except ToolloomError:
            self._page.value = ""
            raise

    def _turn(self) -> None:
        """Show another record, with the note that its curator has kept."""
        mine = self._viewer.mine
        self.note.value = mine.note if mine else ""
        self._show()

    def _go(self, by: int) -> None:
        self._viewer.step(by)
        self._turn()

    def _refilter(self) -> None:
        chosen = {column: box.value for column, box in self._filters.items() if box.value}
        self._viewer.filter(marked=self._marked.value, text=self._text.value, **chosen)
        self._turn()

    def _mark(self, agrees: bool | None) -> None:
        if not self._page.value:
            raise NothingFound("No record is shown that could be marked.")
        kept = self._viewer.mark(agrees, self.note.value)
        self._turn()
        what = {True: AGREE, False: DISAGREE, None: "taken back"}[kept.agrees]
        self._say(f"Kept: {what} ({visible(kept.id)}).")


def _filter(column: str, inspection: Inspection) -> widgets.Dropdown:
    found = counts(inspection.rows, column)
    options = [(ALL, ""), *((f"{value} ({count:,})", value) for value, count in found.items())]
    return widgets.Dropdown(description=column, options=options)


def _box(label: str, value: bool) -> widgets.Checkbox:
    return widgets.Checkbox(description=label, value=value, indent=False, layout={"width": "auto"})
