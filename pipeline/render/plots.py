"""The plots of a dataset card, as SVG. Equal figures make equal bytes."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

from toolloom.pipeline.dataset.figures import LEVELS, added, instructions_of
from toolloom.pipeline.store.files import replacing
from toolloom.schemas import JsonObject

MOST_BARS = 16
_GOOD, _BAD, _INK = "#2f6f9f", "#c8653b", "#333333"


@dataclass(frozen=True)
class Plot:
    """Horizontal bars; `second` is drawn on at their ends."""

    name: str
    title: str
    labels: Sequence[str]
    first: Sequence[int]
    second: Sequence[int] = ()
    legend: tuple[str, ...] = ()
    color: str = _GOOD


def plots(manifest: JsonObject) -> Iterator[Plot]:
    """The plots of a version; none of what it has nothing of."""
    splits = manifest["splits"]
    told = [one for one in splits.values() if one["rows"]]
    names = [name for name, one in splits.items() if one["rows"]]
    if told:
        yield Plot(
            "splits",
            "Dialogues by split",
            names,
            [one["rows"] for one in told],
            [one["rejected"] for one in told],
            ("accepted", "rejected"),
        )
    for name, title in (("scenarios", "Scenario"), ("calls", "Number of calls")) if told else ():
        counts = added(told, name)
        yield Plot(name, f"Dialogues by {title.lower()}", [*counts], [*counts.values()])
    if counted := instructions_of(manifest):
        levels = [level for level in LEVELS if level in counted.levels or level in counted.rejected]
        fallen = [counted.rejected[x].total() if x in counted.rejected else 0 for x in levels]
        yield Plot(
            "levels",
            "Instructions by level",
            levels,
            [counted.levels[level] for level in levels],
            fallen,
            ("accepted", "rejected"),
        )
    if reasons := added(splits.values(), "reasons"):
        yield Plot("reasons", "Rejected because", [*reasons], [*reasons.values()], color=_BAD)


def draw(manifest: JsonObject, folder: Path) -> None:
    """Write the plots to `<folder>/<name>.svg`."""
    for plot in plots(manifest):
        _draw(plot, folder / f"{plot.name}.svg")


def _draw(plot: Plot, path: Path) -> None:
    from matplotlib import rc_context
    from matplotlib.backends.backend_svg import FigureCanvasSVG
    from matplotlib.figure import Figure
    from matplotlib.ticker import MaxNLocator

    labels = [str(label) for label in plot.labels[:MOST_BARS]]
    first, second = plot.first[:MOST_BARS], plot.second[:MOST_BARS]
    # No time of day, no random ids, and text as text: the viewer's own font shows it.
    with rc_context({"svg.hashsalt": "toolloom", "svg.fonttype": "none", "text.color": _INK}):
        figure = Figure(figsize=(7, 0.9 + 0.32 * len(labels)), layout="constrained")
        axes = figure.subplots()
        places = range(len(labels))
        axes.barh(places, first, color=plot.color, label=(*plot.legend, "")[0])
        if second:
            axes.barh(places, second, left=first, color=_BAD, label=plot.legend[1])
            figure.legend(frameon=False, loc="outside upper right", ncols=2, fontsize=8)
        for place, (end, count) in enumerate(_counts(first, second)):
            axes.annotate(
                count,
                (end, place),
                xytext=(3, 0),
                textcoords="offset points",
                va="center",
                fontsize=8,
            )
        axes.set_yticks(places, labels)
        axes.invert_yaxis()
        axes.spines[["top", "right"]].set_visible(False)
        axes.set_title(plot.title, loc="left", fontsize=11)
        axes.xaxis.set_major_locator(MaxNLocator(integer=True))
        axes.set_xlim(0, 1.15 * max(1, *(end for end, _ in _counts(first, second))))
        with replacing(path) as file:
            FigureCanvasSVG(figure)
            figure.savefig(file, format="svg", metadata={"Date": None, "Creator": None})


def _counts(first: Sequence[int], second: Sequence[int]) -> Iterator[tuple[int, str]]:
    """Where each bar ends, and what stands there: `32`, or `32 + 4` with what is drawn on."""
    for one, more in zip(first, second or [0] * len(first), strict=True):
        yield one + more, f"{one:,} + {more:,}" if more else f"{one:,}"


def image(plot: Plot) -> bytes:
    """A plot as SVG, for where there is no file."""
    with TemporaryDirectory() as folder:
        path = Path(folder) / f"{plot.name}.svg"
        _draw(plot, path)
        return path.read_bytes()
