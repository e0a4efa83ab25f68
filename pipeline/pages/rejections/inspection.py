"""What the notebook opens: a version with its rejected records, and what curators say of them."""

from __future__ import annotations

import getpass
import os
from collections.abc import Sequence
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

from toolloom.pipeline.pages.rejections.judgements import Judgements, Marks
from toolloom.pipeline.pages.rejections.neighbours import Neighbourhood
from toolloom.pipeline.pages.rejections.precision import API_BANK, Precision, precision
from toolloom.pipeline.pages.rejections.table import (
    counts,
    frame,
    known_column,
    over_versions,
    rows_of,
)
from toolloom.pipeline.render import pictures
from toolloom.pipeline.render.pictures import Picture
from toolloom.pipeline.store.outputs import opened
from toolloom.pipeline.store.version import Version, dotted, find_version, numbers
from toolloom.schemas import NothingFound

if TYPE_CHECKING:
    import pandas as pd

    from toolloom.pipeline.pages.rejections.viewer import Viewer


def newest_dataset(outputs: Path) -> str:
    """The dataset whose latest version was published last. Raises NothingFound."""
    made: list[tuple[float, str]] = []
    for folder in (outputs / "datasets").glob("*"):
        if known := numbers(folder):
            manifest = folder / dotted(known[-1]) / "manifest.json"
            made.append((manifest.stat().st_mtime if manifest.exists() else 0.0, folder.name))
    if not made:
        raise NothingFound(
            f"There is no dataset in {outputs / 'datasets'}. `toolloom run RECIPE` makes one; "
            "--outputs names another folder."
        )
    return max(made)[1]


def open_dataset(outputs: str | Path = "outputs", name: str = "", curator: str = "") -> Inspection:
    """The newest version of a dataset (or `name/1.2.0`); of the newest one, if none is named.

    `curator`: who marks; else who is logged in. Raises NothingFound, StoreError.
    """
    import pandas as pd

    pd.set_option("display.html.use_mathjax", False)  # two prices are no formula
    folder = opened(outputs)
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
    """A version's rejected records: tables, plots, a viewer, and the precision of rejections."""

    def __init__(self, version: Version, curator: str) -> None:
        self.version = version
        self.curator = curator
        self.rows = rows_of(version)
        self.judgements = Judgements(version.path.parent)

    def __repr__(self) -> str:
        told = self.version.told("splits").values()
        accepted, fallen = sum(one["rows"] for one in told), len(self.rows)
        return f"{self.version.label}: {accepted:,} dialogues accepted, {fallen:,} records rejected"

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

        told = self.version.told("splits")
        lines = [(split, one["rows"], one["rejected"]) for split, one in told.items()]
        lines.append(("all", sum(line[1] for line in lines), sum(line[2] for line in lines)))
        return pd.DataFrame(lines, columns=["split", "accepted", "rejected"]).set_index("split")

    def records(self) -> pd.DataFrame:
        """All rejected records, a line each, to filter and group as one likes."""
        return frame(self.rows)

    def table(self, column: str) -> pd.DataFrame:
        """Rejected records by what they have in a column, with their share of all."""
        import pandas as pd

        found = counts(self.rows, known_column(column))
        shares = [f"{count / len(self.rows):.1%}" for count in found.values()]
        lines = {"records": list(found.values()), "share": shares}
        return pd.DataFrame(lines, index=pd.Index(list(found), name=column))

    def plot(self, column: str) -> Picture:
        title = f"Rejected records of {self.version.label} by {column}"
        return pictures.bars(title, counts(self.rows, known_column(column)))

    def versions(self, column: str = "reason") -> pd.DataFrame:
        """Rejected records by version and what they have in a column, the commonest first."""
        import pandas as pd

        found = over_versions(self.version.path.parent, known_column(column))
        table = pd.DataFrame.from_dict(found, orient="index").fillna(0).astype(int)
        commonest = table.sum().sort_values(ascending=False, kind="stable").index
        return table[commonest].rename_axis("version")

    def plot_versions(self, column: str = "reason") -> Picture:
        found = over_versions(self.version.path.parent, known_column(column))
        title = f"Rejected records of {self.version.name} by version and {column}"
        return pictures.stacked(title, found)

    def precisions(self, column: str | None = None, agent: str | None = None) -> list[Precision]:
        """The precision by a column, or over all; of the work of one agent, or of all."""
        chosen = [row for row in self.rows if agent in (None, row.agent)]
        return precision(chosen, self.marks, known_column(column) if column else None)

    def precision(self, column: str | None = None, agent: str | None = None) -> pd.DataFrame:
        """`precisions` as a table, with 95 % intervals."""
        import pandas as pd

        lines = [_line(one) for one in self.precisions(column, agent)]
        head = [column or "rejections", *_HEAD]
        return pd.DataFrame(lines, columns=head).set_index(head[0])

    def plot_precision(self, column: str | None = None, agent: str | None = None) -> Picture:
        whose = f"the {agent}" if agent else "all agents"
        title = f"Rightly rejected, as curators see it: {whose}{f', by {column}' if column else ''}"
        return pictures.intervals(title, self.precisions(column, agent))

    def against_api_bank(self) -> str:
        """The tester's precision beside API-Bank's, in a sentence."""
        lost = self.marks.damaged
        told = f" {lost} damaged lines of {self.judgements.path.name} are passed over."
        return self._beside_api_bank() + (told if lost else "")

    def _beside_api_bank(self) -> str:
        found = next(iter(self.precisions(agent="tester")), None)
        if found is None or found.share is None:
            return f"Nothing that the tester rejected is judged yet (API-Bank: {API_BANK:.0%})."
        low, high = found.interval
        place = "below" if low > API_BANK else "above" if high < API_BANK else "within"
        return (
            f"Of {found.judged} judged rejections of the tester {found.agreed} are right: "
            f"{found.share:.0%}, with 95% confidence {low:.0%} to {high:.0%}. "
            f"API-Bank's {API_BANK:.0%} lies {place} that."
        )

    def viewer(self, **filters: str) -> Viewer:
        """Read records one by one, and mark them. `filters`: a column with a value."""
        from toolloom.pipeline.pages.rejections.viewer import Viewer

        return Viewer(self, filters)


_HEAD = ("rejected", "judged", "agreed", "undecided", "precision", "from", "to")


def _line(one: Precision) -> Sequence[str | int]:
    if one.share is None:
        return one.group, one.rejected, 0, 0, one.tied, "", "", ""
    shown = [f"{share:.0%}" for share in (one.share, *one.interval)]
    return one.group, one.rejected, one.judged, one.agreed, one.tied, *shown
