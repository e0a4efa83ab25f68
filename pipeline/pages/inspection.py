"""What the notebook of rejected samples opens: a table of them, a viewer, and curators' marks.

Marks are lines of `<outputs>/datasets/<name>/judgements.jsonl`, beside the versions, which never
change. The last mark of a curator on a record counts; its key is made of id, stage and content, so
that it holds in each version that still has the record.
"""

from __future__ import annotations

import datetime as dt
import getpass
import os
from collections.abc import Callable
from contextlib import suppress
from functools import cached_property, partial
from importlib.resources import files
from itertools import islice
from pathlib import Path
from typing import Any

import pandas as pd
import pyarrow.dataset
from ipywidgets import HTML, Button, Checkbox, Dropdown, HBox, Label, Layout, Text, VBox
from markupsafe import Markup
from pydantic import Field
from rapidfuzz import fuzz, process

from toolloom import prompts
from toolloom.pipeline.dataset.configs import REJECTED, SAMPLES
from toolloom.pipeline.dataset.figures import added
from toolloom.pipeline.pages.dialogue import dialogue_html
from toolloom.pipeline.render.section import notebook_html, visible
from toolloom.pipeline.store.files import hold, read_lines, read_records, record_line, write_lines
from toolloom.pipeline.store.sync import local_outputs
from toolloom.pipeline.store.version import Config, Version, find_version, versions
from toolloom.schemas import JsonObject, NothingFound, Record, ToolloomError, digest
from toolloom.schemas.splits import need_of, needed

NOTEBOOK = "rejected_samples"
FILTERS = ("agent", "reason", "check", "model", "ability", "category", "prompt", "split")
MANY = " · "  # between the categories, or the prompts, of one record
KEPT = 400  # characters of a text in the table
MOST = 10_000  # accepted dialogues among which the nearest one is sought


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
    path = outputs / "notebooks" / f"{NOTEBOOK}-{digest(shipped.decode(), 8)}.ipynb"
    if path.exists():
        return path, False
    write_lines(path, [shipped])
    return path, True


def newest_dataset(outputs: Path) -> str:
    """The dataset that had a version published last. Raises NothingFound."""
    manifests = [*(outputs / "datasets").glob("*/[0-9]*.*.*/manifest.json")]
    if not manifests:
        raise NothingFound(
            f"There is no dataset in {outputs / 'datasets'}. `toolloom run RECIPE` makes one; "
            "--outputs names another folder."
        )
    return max(manifests, key=lambda path: path.stat().st_mtime).parts[-3]


def open_dataset(outputs: str | Path = "outputs", name: str = "", curator: str = "") -> Inspection:
    """The newest version of a dataset (or `name/1.2.0`); of the newest one, if none is named.

    `curator`: who marks; else TOOLLOOM_CURATOR, else who is logged in. Raises NothingFound,
    StoreError.
    """
    pd.set_option("display.html.use_mathjax", False)  # two prices are no formula
    folder, user = local_outputs(outputs), curator or os.environ.get("TOOLLOOM_CURATOR", "")
    with suppress(KeyError, OSError):  # a container's user may have no name
        user = user or getpass.getuser()
    version = find_version(folder, name or newest_dataset(folder))
    return Inspection(version, user.strip() or "curator")


class Inspection:
    """A version's rejected records as a table, and what curators say of them."""

    def __init__(self, version: Version, curator: str) -> None:
        self.version, self.curator = version, visible(curator)
        self.marks_file = version.path.parent / "judgements.jsonl"

    @cached_property
    def rows(self) -> pd.DataFrame:
        """A line for each rejected record. `category` and `prompt` may hold several values."""
        paths = prompts.environment().list_templates(extensions=["j2"])
        known = {prompts.source_hash(name): name for name in (p.removesuffix(".j2") for p in paths)}
        lines = [
            {**self._line(row, known), "split": split, "index": index}
            for split in self.version.splits("rejected")
            for index, row in enumerate(self.version.rows("rejected", split))
        ]
        names = ("id", "stage", *FILTERS, "detail", "text", "key", "index")
        return pd.DataFrame(lines, columns=names).sort_values("key", ignore_index=True)

    def _line(self, row: JsonObject, templates: dict[str, str]) -> JsonObject:
        with self.version.readable(row):
            whole = REJECTED.row.record_of(row)
            record, findings = whole["record"], whole["findings"]
            need, dialogue = need_of(record), record.get("dialogue", record)
            # What checks or curation reject is a finished dialogue: the work of its writer.
            made = dialogue.get("provenance") if "messages" in dialogue else None
            maker = (made or whole["provenance"] or [{}])[-1]
            steps = (*needed(need), *(record.get("seed") or {}).get("steps", ()), record)
            categories = dict.fromkeys(step.get("category") for step in steps)
            used = [f"{templates.get(h, 'earlier text')} {h}" for h in maker.get("prompts") or ()]
            line = {name: row[name] for name in ("id", "stage", "agent", "reason", "detail")}
            key = digest([line, findings, record], 16)
            line |= {
                "model": maker.get("model"),
                "check": findings[0]["check"] if findings else "answer",  # as it was read
                "ability": need.get("ability"),
                "text": request_of(record),
                "category": MANY.join(filter(None, categories)),
                "prompt": MANY.join(used),
            }
            shown = {name: visible((value or "–")[:KEPT]) for name, value in line.items()}
            return {**shown, "key": key}

    def whole(self, config: Config, split: str, index: int) -> JsonObject:
        """A row of `rejected` or `samples` with all it holds. Raises StoreError."""
        paths = [str(path) for path in self.version.files(config.name, split)]
        with self.version.readable({"id": f"{index} of {config.name}/{split}"}):
            (row,) = pyarrow.dataset.dataset(paths, format="parquet").take([index]).to_pylist()
            return {"id": row["id"], **config.row.record_of(row)}

    def counts(self, column: str) -> pd.Series[int]:
        """Rejected records by what they have in a column, the most frequent first."""
        return self.rows[column].str.split(MANY).explode().value_counts().rename("records")

    def versions(self) -> pd.DataFrame:
        """Rejected records by version and reason, as the manifests tell them."""
        known = versions(self.version.path.parent)[-24:]
        found = {one.number: added(one.manifest["splits"].values(), "reasons") for one in known}
        return pd.DataFrame(found).T.fillna(0).astype(int).rename_axis("version")

    @property
    def marks(self) -> pd.DataFrame:
        """The marks that count. Others may be adding to them."""
        marks = read_records(self.marks_file, Judgement) if self.marks_file.exists() else ()
        table = pd.DataFrame([vars(mark) for mark in marks], columns=[*Judgement.model_fields])
        return table.drop_duplicates(["key", "curator"], keep="last").dropna(subset="agrees")

    def mark(self, row: Any, agrees: bool | None, note: str = "") -> Judgement:
        """Keep a mark; it is on the disk when this returns. Raises StoreError."""
        mark = Judgement(
            **{name: row[name] for name in ("key", "id", "stage", "agent", "reason")},
            version=self.version.number,
            agrees=agrees,
            note=visible(note.strip()),
            curator=self.curator,
            time=dt.datetime.now(dt.UTC).replace(microsecond=0),
        )
        with hold(self.marks_file.with_name(".judgements.lock")):
            before = [*read_lines(self.marks_file)] if self.marks_file.exists() else []
            write_lines(self.marks_file, [*before, record_line(mark)])
        return mark

    def precision(self, column: str = "agent") -> pd.DataFrame:
        """Of what was rejected and judged, how much is rightly rejected, with 95 % intervals. Equal
        records count once, a tie of curators not at all."""
        rows, votes = self.rows.drop_duplicates("key"), self.marks.astype({"agrees": float})
        agree = votes.groupby("key")["agrees"].mean()
        rightly = rows["key"].map((agree[agree != 0.5] > 0.5).astype(float)).astype(float)
        rows = rows.assign(rightly=rightly, **{column: rows[column].str.split(MANY)})
        counts = {"rejected": "size", "judged": "count", "rightly": "sum"}
        table = rows.explode(column).groupby(column)["rightly"].agg(**counts).astype(int)
        part = table["rightly"] / table["judged"]
        for name, share in {"precision": part, **wilson(part, table["judged"])}.items():
            table[name] = share.map("{:.0%}".format).where(part.notna(), "")
        return table

    @cached_property
    def _accepted(self) -> dict[tuple[str, int], str]:
        """The requests of accepted dialogues, by split and number."""
        return {
            (split, index): request_of(self.version.parsed(row, "dialogue"))[:KEPT]
            for split in self.version.splits("samples")
            for index, row in enumerate(islice(self.version.rows("samples", split), MOST))
        }

    def nearest(self, text: str) -> JsonObject | None:
        """The accepted dialogue whose request is most like a text."""
        best = process.extractOne(text, self._accepted, scorer=fuzz.token_sort_ratio)
        return self.whole(SAMPLES, *best[2]) if best else None


def request_of(record: JsonObject) -> str:
    """What the user says first in a record of any stage; of a domain or an API what it is."""
    hybrid = (record.get("seed") or {}).get("hybrid")
    texts = (need_of(record).get("text"), record.get("text"), hybrid, record.get("name"))
    return next((text for text in texts if isinstance(text, str) and text), "")


def wilson(part: Any, of: Any) -> JsonObject:
    """The 95 % score interval of a share, or of a column of shares (E. B. Wilson, JASA 22, 1927):
    honest for few marks."""
    spread = 1.959963984540054**2 / of
    half = (spread * (part * (1 - part) + spread / 4)) ** 0.5
    ends = {"at least": part + spread / 2 - half, "at most": part + spread / 2 + half}
    return {name: end / (1 + spread) for name, end in ends.items()}


class Viewer:
    """Rejected records in the order of their keys, which is fixed and has nothing to do with what
    is in them: the first hundred that a curator marks are a fair sample of what filters let by."""

    def __init__(self, data: Inspection) -> None:
        self.data, self.rows, self.at = data, data.rows, 0
        self.filters = {}
        for column in FILTERS:
            options = [(f"{value} ({n:,})", value) for value, n in data.counts(column).items()]
            self.filters[column] = Dropdown(description=column, options=[("all", ""), *options])
        self.search = Text(description="search", continuous_update=False)
        self.unmarked = Checkbox(description="only those I have not marked", indent=False)
        chosen = (*self.filters.values(), self.search, self.unmarked)
        for control in chosen:
            control.observe(lambda _: self._do(self._filter), "value")
        self.note = Text(placeholder="why (optional)")
        self.place, self.page, self.said = Label(), HTML(), HTML()
        self.buttons = {}
        for label, style, work in (
            ("← previous", "", partial(self._show, -1)),
            ("next →", "", partial(self._show, 1)),
            ("agree: rightly rejected", "success", partial(self._mark, True)),
            ("disagree: it is good", "danger", partial(self._mark, False)),
            ("take back", "", partial(self._mark, None)),
        ):
            button = Button(description=label, button_style=style, layout={"width": "auto"})
            button.on_click(lambda _, work=work: self._do(work))
            self.buttons[label] = button
        previous, following, *marks = self.buttons.values()
        lines = (chosen, (previous, following, self.place), (*marks, self.note, self.said))
        wrapped = Layout(flex_flow="row wrap")
        self.box = VBox([*(HBox(line, layout=wrapped) for line in lines), self.page])
        self._do(partial(self._show, 0))

    def _do(self, work: Callable[[], str | None]) -> None:
        """What a click asks for. What it says, or an error that a person can act on, stands beside
        the buttons; the classes keep `$…$` in an id or a path from being read as a formula."""
        try:
            said = work()
        except ToolloomError as error:
            said = str(error)
        page = Markup('<span class="mathjax_ignore tex2jax_ignore">{}</span>')
        self.said.value = page.format(visible(said)) if said else ""

    def _filter(self) -> None:
        rows = self.data.rows
        for column, box in self.filters.items():
            rows = rows[[box.value in ("", *has) for has in rows[column].str.split(MANY)]]
        said = rows["id"] + "\n" + rows["text"] + "\n" + rows["detail"]
        rows = rows[said.str.contains(self.search.value, case=False, regex=False)]
        if self.unmarked.value:
            marks = self.data.marks
            rows = rows[~rows["key"].isin(marks.loc[marks["curator"] == self.data.curator, "key"])]
        self.rows, self.at = rows, 0
        self._show(0)

    def _show(self, by: int) -> None:
        """Another record, with the note that its curator has kept."""
        self.page.value = self.note.value = ""  # none rather than the one before
        if not len(self.rows):
            self.place.value = "No rejected record fits."
            return
        self.at = (self.at + by) % len(self.rows)
        row, version = self.rows.iloc[self.at], self.data.version
        self.place.value = f"{self.at + 1:,} of {len(self.rows):,}"
        marks = self.data.marks.query("key == @row.key")
        self.note.value = "".join(marks.loc[marks["curator"] == self.data.curator, "note"])
        told = (f"{m.curator}: {'dis' * (not m.agrees)}agrees {m.note}" for m in marks.itertuples())
        record = self.data.whole(REJECTED, row["split"], row["index"])
        near = self.data.nearest(row["text"])
        with version.readable(record):
            rejected = Markup(dialogue_html(record, raw=True))
        accepted = Markup(dialogue_html(near)) if near else "There is none."
        page = Markup(
            '<div class="toolloom-beside"><section><h4>Rejected</h4><p>{}</p>{}</section>'
            "<section><h4>Accepted, and most like it</h4>{}</section></div>"
        )
        self.page.value = notebook_html(page.format("; ".join(told), rejected, accepted))

    def _mark(self, agrees: bool | None) -> str:
        if not self.page.value:
            raise NothingFound("No record is shown that could be marked.")
        kept = self.data.mark(self.rows.iloc[self.at], agrees, self.note.value)
        self._show(0)
        state = {True: "rightly rejected", False: "good", None: "not marked"}[agrees]
        return f"Kept: {state} ({kept.id})."
