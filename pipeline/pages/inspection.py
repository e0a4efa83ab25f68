"""What the notebook of rejected samples opens: a table of them, a viewer, and curators' marks.

Marks are lines of `<outputs>/datasets/<name>/judgements.jsonl`, beside the versions, which never
change. The last mark of a curator on a record counts; its key is made of id, stage and content, so
that it holds in each version that still has the record.
"""

from __future__ import annotations

import datetime as dt
import getpass
import json
import os
from collections import defaultdict
from collections.abc import Callable
from functools import cached_property, partial
from importlib.resources import files
from itertools import islice
from math import sqrt
from pathlib import Path
from statistics import fmean
from typing import TYPE_CHECKING, Any

from markupsafe import Markup
from pydantic import Field

from toolloom import prompts
from toolloom.pipeline.pages.dialogue import dialogue_html, readable
from toolloom.pipeline.render.html import notebook_html
from toolloom.pipeline.render.section import visible
from toolloom.pipeline.store.files import hold, read_lines, read_records, record_line, write_lines
from toolloom.pipeline.store.sync import local_outputs
from toolloom.pipeline.store.version import PARTS, Version, dotted, find_version, numbers
from toolloom.schemas import JsonObject, NothingFound, Record, ToolloomError, digest
from toolloom.schemas.splits import api_id, need_of, needed

if TYPE_CHECKING:
    import pandas as pd
    from pandas.io.formats.style import Styler

NOTEBOOK = "rejected_samples"
FILTERS = ("agent", "reason", "check", "model", "ability", "category", "prompt", "split")
MANY = " · "  # between the categories, or the prompts, of one record
KEPT = 400  # characters of a text in the table
MOST = 10_000  # accepted dialogues among which the nearest one is sought
INNER = ("findings", "record", "dialogue", "verdict", "flags", "provenance")  # columns of JSON
Z = 1.959963984540054  # of the normal distribution, for 95 %


class Judgement(Record):
    """A curator's mark on a rejected record."""

    key: str
    id: str
    stage: str
    agent: str
    reason: str
    version: str
    agrees: bool | None = Field(description="Rightly rejected? None: the mark is taken back.")
    note: str = ""
    curator: str
    time: dt.datetime


def copy_notebook(outputs: Path) -> tuple[Path, bool]:
    """The notebook's copy in `<outputs>/notebooks/`, and whether it is new. Raises StoreError.

    A copy belongs to its user: once made it is never written to. Its name has the hash of the
    cells that it was made of, so that another toolloom's notebook gets a copy of its own beside it.
    """
    shipped = files("toolloom.pipeline.pages").joinpath(f"{NOTEBOOK}.ipynb").read_bytes()
    cells = [[cell["cell_type"], "".join(cell["source"])] for cell in json.loads(shipped)["cells"]]
    path = outputs / "notebooks" / f"{NOTEBOOK}-{digest(cells, 8)}.ipynb"
    if path.exists():
        return path, False
    write_lines(path, [shipped])
    return path, True


def newest_dataset(outputs: Path) -> str:
    """The dataset whose latest version was published last. Raises NothingFound."""
    latest = [
        (manifest.stat().st_mtime, folder.name)
        for folder in (outputs / "datasets").glob("*")
        for number in numbers(folder)[-1:]
        if (manifest := folder / dotted(number) / "manifest.json").exists()
    ]
    if not latest:
        raise NothingFound(
            f"There is no dataset in {outputs / 'datasets'}. `toolloom run RECIPE` makes one; "
            "--outputs names another folder."
        )
    return max(latest)[1]


def open_dataset(outputs: str | Path = "outputs", name: str = "", curator: str = "") -> Inspection:
    """The newest version of a dataset (or `name/1.2.0`); of the newest one, if none is named.

    `curator`: who marks; else TOOLLOOM_CURATOR, else who is logged in. Raises NothingFound,
    StoreError.
    """
    import pandas as pd

    pd.set_option("display.html.use_mathjax", False)  # two prices are no formula
    pd.set_option("styler.html.mathjax", False)
    folder = local_outputs(outputs)
    version = find_version(folder, name or newest_dataset(folder))
    try:
        user = curator or os.environ.get("TOOLLOOM_CURATOR", "") or getpass.getuser()
    except (KeyError, OSError):  # a container's user may have no name
        user = "curator"
    return Inspection(version, user.strip() or "curator")


def show(*things: object) -> None:
    """Show them below a notebook's cell, one under the other."""
    from IPython.display import display

    display(*things)  # type: ignore[no-untyped-call]


def whole(version: Version, config: str, split: str, index: int) -> JsonObject:
    """A row of `rejected` or `samples` with all it holds. Raises StoreError."""
    import pyarrow.dataset

    files = [str(path) for path in version.files(config, split)]
    with readable(version, {"id": f"{index} of {config}/{split}"}):
        row = pyarrow.dataset.dataset(files, format="parquet").take([index]).to_pylist()[0]
    return {key: version.parsed(row, key) if key in INNER else row[key] for key in row}


class Inspection:
    """A version's rejected records as a table, and what curators say of them."""

    def __init__(self, version: Version, curator: str) -> None:
        self.version, self.curator = version, curator
        self.marks_file = version.path.parent / "judgements.jsonl"

    @cached_property
    def rows(self) -> pd.DataFrame:
        """A line for each rejected record. `category` and `prompt` may hold several values."""
        import pandas as pd

        lines = [
            self._line(split, index, row)
            for split in self.version.splits("rejected")
            for index, row in enumerate(self.version.rows("rejected", split))
        ]
        names = ("id", "stage", *FILTERS, "detail", "text", "key", "index", "apis")
        return pd.DataFrame(lines, columns=names).sort_values("key", ignore_index=True)

    def _line(self, split: str, index: int, row: JsonObject) -> JsonObject:
        with readable(self.version, row):
            record, findings = (self.version.parsed(row, name) for name in ("record", "findings"))
            need, dialogue = need_of(record), record.get("dialogue", record)
            # What checks or curation reject is a finished dialogue: the work of its writer.
            made = dialogue.get("provenance") if "messages" in dialogue else None
            maker = (made or self.version.parsed(row, "provenance") or [{}])[-1]
            steps = (*needed(need), *(record.get("seed") or {}).get("steps", ()), record)
            categories = dict.fromkeys(step.get("category") for step in steps)
            known = {name: row[name] for name in ("id", "stage", "agent", "reason", "detail")}
            shown = {
                **known,
                "detail": row["detail"][:KEPT],
                "split": split,
                "model": maker.get("model"),
                "check": findings[0]["check"] if findings else "answer",  # as it was read
                "ability": need.get("ability"),
                "text": request_of(record)[:KEPT],
                "category": MANY.join(filter(None, categories)),
                "prompt": MANY.join(map(_prompt_name, maker.get("prompts") or ())),
            }
            line = {name: visible(value or "–") for name, value in shown.items()}
            apis = {*map(api_id, needed(need))}
            return {
                **line,
                "key": digest([known, findings, record], 16),
                "index": index,
                "apis": apis,
            }

    def counts(self, column: str) -> pd.Series[int]:
        """Rejected records by what they have in a column, the most frequent first."""
        if column not in (*FILTERS, "stage"):
            raise NothingFound(f"There is no column {column!r}: {', '.join(FILTERS)}, stage.")
        return self.rows[column].str.split(MANY).explode().value_counts().rename("records")

    def by(self, column: str) -> Styler:
        """The counts with bars."""
        counts = self.counts(column).to_frame()
        return _harmless(counts.style.bar(subset=["records"], color="#e9b8a4", vmin=0))

    def versions(self) -> pd.DataFrame:
        """Rejected records by version and reason, as the manifests tell them."""
        import pandas as pd

        folder, found = self.version.path.parent, {}
        for name in map(dotted, numbers(folder)[-24:]):
            splits = find_version(folder, str(folder / name)).told("splits").values()
            found[name] = pd.DataFrame([split["reasons"] for split in splits]).sum()
        return pd.DataFrame(found).T.fillna(0).astype(int).rename_axis("version")

    @property
    def marks(self) -> dict[str, dict[str, Judgement]]:
        """The marks that count, by record and curator. Others may be adding to them."""
        found: dict[str, dict[str, Judgement]] = defaultdict(dict)
        for mark in read_records(self.marks_file, Judgement) if self.marks_file.exists() else ():
            found[mark.key].pop(mark.curator, None)
            if mark.agrees is not None:
                found[mark.key][mark.curator] = mark
        return found

    def mark(self, row: Any, agrees: bool | None, note: str = "") -> Judgement:
        """Keep a mark; it is on the disk when this returns. Raises StoreError."""
        named = {name: row[name] for name in ("key", "id", "stage", "agent", "reason")}
        mark = Judgement(
            **named,
            version=self.version.number,
            agrees=agrees,
            note=visible(note.strip()),
            curator=visible(self.curator),
            time=dt.datetime.now(dt.UTC).replace(microsecond=0),
        )
        with hold(self.marks_file.with_name(".judgements.lock")):
            before = [*read_lines(self.marks_file)] if self.marks_file.exists() else []
            write_lines(self.marks_file, [*before, record_line(mark)])
        return mark

    def precision(self, column: str = "agent") -> Styler:
        """Of what was rejected and judged, how much is rightly rejected, with 95 % intervals.

        Equal records count once, a tie of curators not at all.
        """
        import pandas as pd

        verdicts = {}
        for key, marks in self.marks.items():
            agree = sum(bool(mark.agrees) for mark in marks.values())
            if 2 * agree != len(marks):
                verdicts[key] = 2 * agree > len(marks)
        lines, rows = [], self.rows.drop_duplicates("key")
        groups = rows.assign(group=rows[column].str.split(MANY)).explode("group").groupby("group")
        for group, keys in groups["key"]:
            judged = [verdicts[key] for key in keys if key in verdicts]
            low, high = wilson(sum(judged), len(judged))
            figures = (f"{fmean(judged):.0%}", f"{low:.0%} to {high:.0%}") if judged else ("", "")
            lines.append((group, len(keys), len(judged), sum(judged), *figures))
        head = (column, "rejected", "judged", "rightly", "precision", "95 % interval")
        return _harmless(pd.DataFrame(lines, columns=head).set_index(column).style)

    def nearest(self, row: Any) -> JsonObject | None:
        """The accepted dialogue whose request is most like a record's, of the same APIs if any."""
        from rapidfuzz import fuzz

        same = [one for one in self._accepted if one[3] & row["apis"]] or self._accepted
        if not same:
            return None
        best = max(same, key=lambda one: (fuzz.token_sort_ratio(row["text"], one[2]), one[:2]))
        stored = whole(self.version, "samples", *best[:2])
        return {part: stored[part] for part in ("id", *PARTS)}

    @cached_property
    def _accepted(self) -> list[tuple[str, int, str, set[str]]]:
        """Split, number, request and APIs of accepted dialogues."""
        found = []
        for split in self.version.splits("samples"):
            for index, row in enumerate(islice(self.version.rows("samples", split), MOST)):
                dialogue = self.version.parsed(row, "dialogue")
                apis = {*map(api_id, needed(need_of(dialogue)))}
                found.append((split, index, request_of(dialogue)[:KEPT], apis))
        return found

    def viewer(self) -> Any:
        """Read records one at a time and mark them: Jupyter widgets."""
        return Viewer(self).box


def request_of(record: JsonObject) -> str:
    """What the user says first in a record of any stage; of a domain or an API what it is."""
    hybrid = (record.get("seed") or {}).get("hybrid")
    texts = (need_of(record).get("text"), record.get("text"), hybrid, record.get("name"))
    return next((text for text in texts if isinstance(text, str) and text), "")


def _prompt_name(hashed: str) -> str:
    """A template's hash with its name, if it is one of today's."""
    for name in prompts.environment().list_templates(extensions=["j2"]):
        if prompts.source_hash(name.removesuffix(".j2")) == hashed:
            return f"{name.removesuffix('.j2')} {hashed}"
    return f"earlier text {hashed}"


def _harmless(style: Styler) -> Styler:
    return style.format(escape="html").format_index(escape="html")


def wilson(hits: int, of: int) -> tuple[float, float]:
    """The 95 % score interval of a share (E. B. Wilson, JASA 22, 1927): honest for few marks."""
    if not of:
        return 0.0, 1.0
    part, spread = hits / of, Z * Z / of
    half = Z * sqrt(part * (1 - part) / of + spread / (4 * of))
    low, high = ((part + spread / 2 + sign * half) / (1 + spread) for sign in (-1, 1))
    return max(low, 0.0), min(high, 1.0)


class Viewer:
    """Rejected records in the order of their keys, which is fixed and has nothing to do with what
    is in them: the first hundred that a curator marks are a fair sample of what filters let by."""

    def __init__(self, data: Inspection) -> None:
        import ipywidgets as widgets

        self.data, self.rows, self.at = data, data.rows, 0
        self.filters = {}
        for column in FILTERS:
            options = [(f"{value} ({n:,})", value) for value, n in data.counts(column).items()]
            self.filters[column] = widgets.Dropdown(
                description=column, options=[("all", ""), *options]
            )
        self.search = widgets.Text(description="search", continuous_update=False)
        self.unmarked = widgets.Checkbox(description="only those I have not marked", indent=False)
        self.note = widgets.Text(placeholder="why (optional)")
        self.place, self.page, self.said = widgets.Label(), widgets.HTML(), widgets.HTML()
        self.buttons = {}
        for label, style, work in (
            ("← previous", "", partial(self._show, -1)),
            ("next →", "", partial(self._show, 1)),
            ("agree: rightly rejected", "success", partial(self._mark, True)),
            ("disagree: it is good", "danger", partial(self._mark, False)),
            ("take back", "", partial(self._mark, None)),
        ):
            button = widgets.Button(description=label, button_style=style, layout={"width": "auto"})
            button.on_click(lambda _, work=work: self._do(work))
            self.buttons[label] = button
        previous, following, *marks = self.buttons.values()
        chosen = (*self.filters.values(), self.search, self.unmarked)
        for control in chosen:
            control.observe(lambda _: self._do(self._filter), "value")
        lines = (chosen, (previous, following, self.place), (*marks, self.note, self.said))
        wrapped = widgets.Layout(flex_flow="row wrap")
        self.box = widgets.VBox(
            [*(widgets.HBox(line, layout=wrapped) for line in lines), self.page]
        )
        self._do(partial(self._show, 0))

    def _do(self, work: Callable[[], None]) -> None:
        """What a click asks for; an error that a person can act on stands beside the buttons."""
        self._say("")
        try:
            work()
        except ToolloomError as error:
            self._say(str(error))

    def _say(self, text: str) -> None:
        # The classes keep `$…$` in an id or a path from being read as a formula.
        page = Markup('<span class="mathjax_ignore tex2jax_ignore">{}</span>')
        self.said.value = page.format(visible(text)) if text else ""

    def _filter(self) -> None:
        rows, wanted = self.data.rows, self.search.value
        for column, box in self.filters.items():
            rows = rows[[box.value in ("", *has) for has in rows[column].str.split(MANY)]]
        said = rows["id"] + "\n" + rows["text"] + "\n" + rows["detail"]
        rows = rows[said.str.contains(wanted, case=False, regex=False)]
        if self.unmarked.value:
            marks = self.data.marks
            rows = rows[[self.data.curator not in marks.get(key, ()) for key in rows["key"]]]
        self.rows, self.at = rows, 0
        self._show(0)

    def _show(self, by: int) -> None:
        """Another record, with the note that its curator has kept."""
        self.page.value = self.note.value = ""  # none rather than the one before
        if not len(self.rows):
            everything = len(self.data.rows)
            self.place.value = "No rejected record fits." if everything else "Nothing was rejected."
            return
        self.at = (self.at + by) % len(self.rows)
        row, version = self.rows.iloc[self.at], self.data.version
        self.place.value = f"{self.at + 1:,} of {len(self.rows):,}"
        marks = self.data.marks[row["key"]]
        self.note.value = marks[self.data.curator].note if self.data.curator in marks else ""
        told = (f"{who}: {'dis' * (not m.agrees)}agrees {m.note}" for who, m in marks.items())
        record = whole(version, "rejected", row["split"], row["index"])
        near = self.data.nearest(row)
        with readable(version, record):
            rejected = Markup(dialogue_html(record, raw=True))
        accepted = Markup(dialogue_html(near)) if near else "There is none."
        page = Markup(
            '<div class="toolloom-beside"><section><h4>Rejected</h4><p>{}</p>{}</section>'
            "<section><h4>Accepted, and most like it</h4>{}</section></div>"
        )
        self.page.value = notebook_html(page.format("; ".join(told), rejected, accepted))

    def _mark(self, agrees: bool | None) -> None:
        if not self.page.value:
            raise NothingFound("No record is shown that could be marked.")
        kept = self.data.mark(self.rows.iloc[self.at], agrees, self.note.value)
        self._show(0)
        state = {True: "rightly rejected", False: "good", None: "not marked"}[agrees]
        self._say(f"Kept: {state} ({kept.id}).")
