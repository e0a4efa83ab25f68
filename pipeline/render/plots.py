"""Plots as SVG, for files and pages without a style of their own. Equal figures, equal bytes."""

from __future__ import annotations

import io
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

MOST_BARS = 16
GOOD, BAD, INK = "#2f6f9f", "#c8653b", "#333333"


@dataclass(frozen=True)
class Plot:
    """Horizontal bars; `second` is drawn on at their ends."""

    name: str
    title: str
    labels: Sequence[str]
    first: Sequence[int]
    second: Sequence[int] = ()
    legend: tuple[str, ...] = ()
    color: str = GOOD


def svg(plot: Plot) -> bytes:
    from matplotlib import rc_context
    from matplotlib.backends.backend_svg import FigureCanvasSVG
    from matplotlib.figure import Figure
    from matplotlib.ticker import MaxNLocator

    labels = [str(label) for label in plot.labels[:MOST_BARS]]
    first, second = plot.first[:MOST_BARS], plot.second[:MOST_BARS]
    # No time of day, no random ids, and text as text: the viewer's own font shows it.
    with rc_context({"svg.hashsalt": "toolloom", "svg.fonttype": "none", "text.color": INK}):
        figure = Figure(figsize=(7, 0.9 + 0.32 * len(labels)), layout="constrained")
        axes = figure.subplots()
        places = range(len(labels))
        axes.barh(places, first, color=plot.color, label=(*plot.legend, "")[0])
        if second:
            axes.barh(places, second, left=first, color=BAD, label=plot.legend[1])
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
        file = io.BytesIO()
        FigureCanvasSVG(figure)
        figure.savefig(file, format="svg", metadata={"Date": None, "Creator": None})
    return file.getvalue()


def _counts(first: Sequence[int], second: Sequence[int]) -> Iterator[tuple[int, str]]:
    """Where each bar ends, and what stands there: `32`, or `32 + 4` with what is drawn on."""
    for one, more in zip(first, second or [0] * len(first), strict=True):
        yield one + more, f"{one:,} + {more:,}" if more else f"{one:,}"
