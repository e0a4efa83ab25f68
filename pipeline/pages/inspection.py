"""What the notebook opens: a version with its rejected records, and what curators say of them.

Its tables are pandas', its charts Sections, its viewer a dialogue as the report shows it, with
Jupyter widgets (an extra) around it.
"""

from __future__ import annotations

import getpass
import os
from collections.abc import Callable, Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from markupsafe import Markup

from toolloom.pipeline.pages.dialogue import dialogue_html
from toolloom.pipeline.pages.judgements import (
    API_BANK,
    Judgement,
    Judgements,
    Marks,
    Precision,
    precision,
)
from toolloom.pipeline.pages.reading import readable
from toolloom.pipeline.pages.rejections import (
    Neighbour,
    Neighbourhood,
    RejectedSample,
    counts,
    frame,
    known_column,
    over_versions,
    rows_of,
    whole,
)
from toolloom.pipeline.pages.report import chart, share
from toolloom.pipeline.render.html import Drawn, notebook_html, visible
from toolloom.pipeline.render.section import Bar, Label, Section
from toolloom.pipeline.store.sync import local_outputs
from toolloom.pipeline.store.version import Version, dotted, find_version, numbers
from toolloom.schemas import NothingFound, ToolloomError

if TYPE_CHECKING:
    import pandas as pd

MOST_PARTS = 7  # of a bar; the rest is one part
ALL, UNMARKED, AGREE, DISAGREE = "all", "not marked", "agree", "disagree"
MARKED = (ALL, UNMARKED, AGREE, DISAGREE)
NEAR = {"API": "calls the same API", "category": "is of the same category", "": "is the nearest"}
FILTERS = ("agent", "reason", "check", "model", "ability", "category", "prompt", "split")


def newest_dataset(outputs: Path) -> str:
    """The dataset whose latest version was published last. Raises NothingFound."""
    published: list[tuple[float, str]] = []
    for folder in (outputs / "datasets").glob("*"):
        if known := numbers(folder):
            manifest = folder / dotted(known[-1]) / "manifest.json"
            time = manifest.stat().st_mtime if manifest.exists() else 0.0
            published.append((time, folder.name))
    if not published:
        raise NothingFound(
            f"There is no dataset in {outputs / 'datasets'}. `toolloom run RECIPE` makes one; "
            "--outputs names another folder."
        )
    return max(published)[1]


def open_dataset(outputs: str | Path = "outputs", name: str = "", curator: str = "") -> Inspection:
    """The newest version of a dataset (or `name/1.2.0`); of the newest one, if none is named.

    `curator`: who marks; else who is logged in. Raises NothingFound, StoreError.
    """
    import pandas as pd

    pd.set_option("display.html.use_mathjax", False)  # two prices are no formula
    folder = local_outputs(outputs)
    version = find_version(folder, name or newest_dataset(folder))
    names = (curator, os.environ.get("TOOLLOOM_CURATOR", ""), _user())
    return Inspection(version, next(filter(None, map(str.strip, names)), "curator"))


def show(*things: object) -> None:
    """Show them below a notebook's cell, one under the other."""
    from IPython.display import display

    display(*things)  # type: ignore[no-untyped-call]


def _user() -> str:
    try:
        return getpass.getuser()
    except (KeyError, OSError):  # a container's user may have no name
        return "curator"


class Inspection:
    """A version's rejected records: tables, charts, a viewer, and the precision of rejections."""

    def __init__(self, version: Version, curator: str) -> None:
        self.version = version
        self.curator = curator
        self.rows = rows_of(version)
        self.judgements = Judgements(version.path.parent)

    def __repr__(self) -> str:
        splits = self.version.told("splits").values()
        accepted, rejected = sum(split["rows"] for split in splits), len(self.rows)
        label = self.version.label
        return f"{label}: {accepted:,} dialogues accepted, {rejected:,} records rejected"

    @cached_property
    def neighbourhood(self) -> Neighbourhood:
        return Neighbourhood(self.version)

    @property
    def marks(self) -> Marks:
        """As they are on the disk now: another curator may be at work."""
        return self.judgements.read()

    def splits(self) -> pd.DataFrame:
        """Dialogues accepted and records rejected by split, as the manifest tells them."""
        import pandas as pd

        splits = self.version.told("splits").items()
        lines = [(name, split["rows"], split["rejected"]) for name, split in splits]
        lines.append(("all", sum(line[1] for line in lines), sum(line[2] for line in lines)))
        return pd.DataFrame(lines, columns=["split", "accepted", "rejected"]).set_index("split")

    def records(self) -> pd.DataFrame:
        """All rejected records, a line each, to filter and group as one likes."""
        return frame(self.rows)

    def table(self, column: str) -> pd.DataFrame:
        """Rejected records by what they have in a column, with their share of all."""
        import pandas as pd

        numbers_by = counts(self.rows, known_column(column))
        shares = [f"{count / len(self.rows):.1%}" for count in numbers_by.values()]
        lines = {"records": list(numbers_by.values()), "share": shares}
        return pd.DataFrame(lines, index=pd.Index(list(numbers_by), name=column))

    def plot(self, column: str) -> Drawn:
        title = f"Rejected records of {self.version.label} by {column}"
        by_value = counts(self.rows, known_column(column))
        return Drawn(chart(title, by_value, len(self.rows), kind="bad"))

    def versions(self, column: str = "reason") -> pd.DataFrame:
        """Rejected records by version and what they have in a column, the commonest first."""
        import pandas as pd

        by_version = over_versions(self.version.path.parent, known_column(column))
        table = pd.DataFrame.from_dict(by_version, orient="index").fillna(0).astype(int)
        commonest = table.sum().sort_values(ascending=False, kind="stable").index
        return table[commonest].rename_axis("version")

    def plot_versions(self, column: str = "reason") -> Drawn:
        """A bar for each version, in parts; the commonest parts have colours of their own."""
        by_version = over_versions(self.version.path.parent, known_column(column))
        title = f"Rejected records of {self.version.name} by version and {column}"
        return Drawn(stacked(title, by_version))

    def precisions(self, column: str | None = None, agent: str | None = None) -> list[Precision]:
        """The precision by a column, or over all; of the work of one agent, or of all."""
        chosen = [row for row in self.rows if agent in (None, row.agent)]
        return precision(chosen, self.marks, known_column(column) if column else None)

    def precision(self, column: str | None = None, agent: str | None = None) -> pd.DataFrame:
        """`precisions` as a table, with 95 % intervals."""
        import pandas as pd

        lines: list[Sequence[str | int]] = []
        for one in self.precisions(column, agent):
            shares = ("",) * 3 if one.share is None else (one.share, *one.interval)
            cells = [f"{part:.0%}" if isinstance(part, float) else part for part in shares]
            lines.append((one.group, one.rejected, one.judged, one.agreed, one.tied, *cells))
        figures = ("rejected", "judged", "agreed", "undecided", "precision", "from", "to")
        head = [column or "rejections", *figures]
        return pd.DataFrame(lines, columns=head).set_index(head[0])

    def plot_precision(self, column: str | None = None, agent: str | None = None) -> Drawn:
        whose = f"the {agent}" if agent else "all agents"
        title = f"Rightly rejected, as curators see it: {whose}{f', by {column}' if column else ''}"
        return Drawn(intervals(title, self.precisions(column, agent)))

    def against_api_bank(self) -> str:
        """The tester's precision beside API-Bank's, in a sentence."""
        lost = self.marks.damaged
        also = f" {lost} damaged lines of {self.judgements.path.name} are passed over."
        return self._beside_api_bank() + (also if lost else "")

    def _beside_api_bank(self) -> str:
        tester = next(iter(self.precisions(agent="tester")), None)
        if tester is None or tester.share is None:
            return f"Nothing that the tester rejected is judged yet (API-Bank: {API_BANK:.0%})."
        low, high = tester.interval
        side = "below" if low > API_BANK else "above" if high < API_BANK else "within"
        return (
            f"Of {tester.judged} judged rejections of the tester {tester.agreed} are right: "
            f"{tester.share:.0%}, with 95% confidence {low:.0%} to {high:.0%}. "
            f"API-Bank's {API_BANK:.0%} lies {side} that."
        )

    def viewer(self, **filters: str) -> Viewer:
        """Read records one by one, and mark them. `filters`: a column with a value."""
        return Viewer(self, filters)


def stacked(title: str, by_group: Mapping[str, Mapping[str, int]]) -> Section:
    """A bar for each group; parts that are rare are one."""
    sums: dict[str, int] = {}
    for parts in by_group.values():
        for part, count in parts.items():
            sums[part] = sums.get(part, 0) + count
    ranked = sorted(sums, key=lambda part: (-sums[part], part))
    named, others = ranked[:MOST_PARTS], ranked[MOST_PARTS:]
    most = max((sum(parts.values()) for parts in by_group.values()), default=0)
    rows = []
    for group, parts in by_group.items():
        lengths = [(str(kind), parts.get(part, 0)) for kind, part in enumerate(named)]
        lengths.append((str(MOST_PARTS), sum(parts.get(part, 0) for part in others)))
        rows.append((Label(group), Bar(tuple(lengths), most), f"{sum(parts.values()):,}"))
    names = [*named, *(["others"] if others else [])]
    return Section(title, rows=rows, legend=[(str(kind), name) for kind, name in enumerate(names)])


def intervals(title: str, groups: Sequence[Precision]) -> Section:
    """Shares with their 95 % intervals, of groups that have any; API-Bank's 78 % as a line."""
    rows = []
    for one in groups:
        if one.share is None:
            continue
        low, high = one.interval
        at = min(max(one.share - 0.005, low), high - 0.01)  # the share itself, 1 % wide
        parts = (("", low), ("range", at - low), ("good", 0.01), ("range", high - at - 0.01))
        text = f"{share(one.share)}, {share(low)} to {share(high)}"
        label = Label(one.group, f"{one.agreed} of {one.judged}")
        rows.append((label, Bar(parts, 1.0, (API_BANK,)), text))
    return Section(title, rows=rows, note=f"The line is API-Bank's tester: {API_BANK:.0%}.")


class Viewer:
    """Rejected records one at a time, as a person reads them, beside accepted ones like them.

    The order is that of the records' keys: fixed, and in no relation to what is in them. So the
    first hundred that a curator marks are a fair sample of what the filters let through.
    """

    def __init__(self, inspection: Inspection, filters: dict[str, str]) -> None:
        self.inspection = inspection
        self.raw = False
        self.show_neighbours = True
        self.rows: list[RejectedSample] = []
        self.index = 0
        self.filter(**filters)

    @property
    def row(self) -> RejectedSample | None:
        """The record that is shown; None if no record fits."""
        return self.rows[self.index] if self.rows else None

    def filter(self, marked: str = ALL, text: str = "", **columns: str) -> Viewer:
        """Show those that have these values, such as `agent="tester"`, from the first one on.

        `marked`: one of `MARKED`, of this curator's own marks. `text`: what is said, or found.
        """
        if marked not in MARKED:
            raise NothingFound(f"marked is one of {', '.join(MARKED)}; not {marked!r}.")
        for column in columns:
            known_column(column)
        marks, wanted = self.inspection.marks, text.casefold()

        def fits(row: RejectedSample) -> bool:
            own = marks.of(row).get(self.inspection.curator)
            state = {None: UNMARKED, True: AGREE, False: DISAGREE}[own.agrees if own else None]
            return (
                marked in (ALL, state)
                and all(value in row.values(column) for column, value in columns.items())
                and wanted in f"{row.id}\n{row.text}\n{row.detail}".casefold()
            )

        rows = filter(fits, self.inspection.rows)
        self.rows, self.index = sorted(rows, key=lambda row: row.key), 0
        return self

    def step(self, by: int) -> Viewer:
        """Go forward or back; after the last comes the first."""
        self.index = (self.index + by) % max(1, len(self.rows))
        return self

    def mark(self, agrees: bool | None, note: str = "") -> Judgement:
        """Keep what the curator says of the record that is shown; None takes a mark back.

        Raises NothingFound if none is shown, StoreError if it cannot be kept.
        """
        if self.row is None:
            raise NothingFound("No record is shown that could be marked.")
        judgements = self.inspection.judgements
        return judgements.add(self.row, agrees, self.inspection.curator, note.strip())

    @property
    def mine(self) -> Judgement | None:
        """The curator's own mark on the record that is shown."""
        return self._marks().get(self.inspection.curator)

    def _marks(self) -> dict[str, Judgement]:
        return dict(self.inspection.marks.of(self.row)) if self.row else {}

    @property
    def position(self) -> str:
        if self.row is None:
            return "No rejected record fits." if self.inspection.rows else "Nothing was rejected."
        return f"{self.index + 1:,} of {len(self.rows):,}"

    def html(self) -> str:
        """The record that is shown, with its neighbours; all that models wrote is escaped."""
        row, version = self.row, self.inspection.version
        if row is None:
            return str(Markup("<p>{}</p>").format(self.position))
        record = whole(version, "rejected", row.split, row.index)
        with readable(version, record):
            rejected = Markup(dialogue_html(record, raw=self.raw))
        near = self.inspection.neighbourhood.near(row) if self.show_neighbours else []
        marks = [
            Markup("<br>{}: {}{}").format(
                visible(curator),
                AGREE if mark.agrees else DISAGREE,
                f" – {visible(mark.note)}" if mark.note else "",
            )
            for curator, mark in self._marks().items()
        ]
        page = Markup(
            '<div class="toolloom-beside"><section><h4>Rejected ({}){}</h4>{}</section>{}</div>'
        )
        accepted = _accepted(version, near)
        return notebook_html(page.format(self.position, Markup().join(marks), rejected, accepted))

    def __repr__(self) -> str:
        row = self.row
        return f"{self.position}: {row.reason} ({visible(row.id)})" if row else self.position

    def _repr_mimebundle_(self, **_: Any) -> dict[str, Any]:
        """With controls where a front end has widgets; else the record as it stands."""
        plain = {"text/plain": repr(self), "text/html": self.html()}
        try:
            bundle: dict[str, Any] = Controls(self).box._repr_mimebundle_()
        except ImportError:  # ipywidgets is an extra
            return plain
        return {**bundle, **plain}


def _accepted(version: Version, near: list[Neighbour]) -> Markup:
    """Accepted neighbours; the first one open."""
    page = Markup("<details{}><summary>Accepted: {} (words {:.0f}% alike)</summary>{}</details>")
    parts = []
    for number, one in enumerate(near):
        with readable(version, one.sample):
            dialogue = Markup(dialogue_html(one.sample))
        state = Markup("" if number else " open")
        parts.append(page.format(state, NEAR[one.shares], one.likeness, dialogue))
    return Markup("<section>{}</section>").format(Markup().join(parts)) if parts else Markup()


class Controls:
    """The viewer's buttons and filters, as Jupyter widgets, and what follows a click.

    Raises ImportError without ipywidgets, which is an extra.
    """

    def __init__(self, viewer: Viewer) -> None:
        import ipywidgets as widgets

        self._viewer = viewer
        self._filters = {column: self._filter(column) for column in FILTERS}
        self._marked = widgets.Dropdown(description="my marks", options=MARKED)
        self._text = widgets.Text(description="search", continuous_update=False)
        self._where, self._page, self._said = widgets.Label(), widgets.HTML(), widgets.HTML()
        self.note = widgets.Text(placeholder="why (optional)", layout={"width": "24rem"})
        narrow: dict[str, Any] = {"indent": False, "layout": {"width": "auto"}}
        self._raw = widgets.Checkbox(description="raw responses", value=viewer.raw, **narrow)
        self._near = widgets.Checkbox(
            description="accepted neighbours", value=viewer.show_neighbours, **narrow
        )
        button = self.buttons = {
            "previous": self._button("← previous", lambda: self._go(-1)),
            "next": self._button("next →", lambda: self._go(1)),
            AGREE: self._button("agree: rightly rejected", lambda: self._mark(True), "success"),
            DISAGREE: self._button("disagree: it is good", lambda: self._mark(False), "danger"),
            "take back": self._button("take back", lambda: self._mark(None)),
        }
        lines = [
            [*self._filters.values(), self._marked, self._text],
            [button["previous"], button["next"], self._where, self._raw, self._near],
            [button[AGREE], button[DISAGREE], button["take back"], self.note, self._said],
        ]
        wrapped = widgets.Layout(flex_flow="row wrap")
        boxes = [widgets.HBox(line, layout=wrapped) for line in lines]
        self.box = widgets.VBox([*boxes, self._page])
        for control in lines[0]:
            control.observe(lambda _: self._do(self._refilter), "value")
        for control in (self._raw, self._near):
            control.observe(lambda _: self._do(self._show), "value")
        self._do(self._turn)

    def _filter(self, column: str) -> Any:
        import ipywidgets as widgets

        by_value = counts(self._viewer.inspection.rows, column)
        options = [(f"{value} ({count:,})", value) for value, count in by_value.items()]
        return widgets.Dropdown(description=column, options=[(ALL, ""), *options])

    def _button(self, label: str, work: Callable[[], None], style: str = "") -> Any:
        import ipywidgets as widgets

        button = widgets.Button(description=label, button_style=style, layout={"width": "auto"})
        button.on_click(lambda _: self._do(work))
        return button

    def _do(self, work: Callable[[], None]) -> None:
        """Do it; an error that a person can act on is shown where a mark is confirmed."""
        self._say("")
        try:
            work()
        except ToolloomError as error:
            self._say(visible(error))

    def _say(self, text: str) -> None:
        # The classes keep `$…$` in an id or a path from being read as a formula.
        page = Markup('<span class="mathjax_ignore tex2jax_ignore">{}</span>')
        self._said.value = page.format(text) if text else ""

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
        state = {True: AGREE, False: DISAGREE, None: "taken back"}[kept.agrees]
        self._say(f"Kept: {state} ({visible(kept.id)}).")
