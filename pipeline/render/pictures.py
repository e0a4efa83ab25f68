"""Plots for the notebook, as PNG: sharp on dense screens, and the same in every front end."""

from __future__ import annotations

import io
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from toolloom.pipeline.pages.rejections.precision import API_BANK, Precision

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

MOST_BARS = 16
MOST_PARTS = 7  # of a stacked bar; the rest is one part
OTHERS = "others"
WIDTH = 8.0  # inches
DENSITY = 2  # dots of the file for one on the page
DOTS = 96  # to the inch, on the page
# Okabe and Ito's colours, which most people can tell apart; the last one is for the rest.
COLOURS = ("#d55e00", "#0072b2", "#e69f00", "#009e73", "#cc79a7", "#56b4e9", "#8c6d31", "#999999")
INK, FAINT = "#333333", "#8a8f98"


@dataclass(frozen=True)
class Picture:
    """A plot as a notebook shows it."""

    png: bytes
    size: tuple[int, int]
    told: str  # what it shows, for those who do not see it

    def _repr_png_(self) -> tuple[bytes, dict[str, int]]:
        width, height = self.size
        return self.png, {"width": width, "height": height}

    def __repr__(self) -> str:
        return self.told


def bars(title: str, counts: Mapping[str, int]) -> Picture:
    """Horizontal bars, in the order given; what is beyond `MOST_BARS` as one."""
    shown = _shortened(counts, MOST_BARS)
    figure, axes = _canvas(title, len(shown))
    axes.barh(range(len(shown)), list(shown.values()), color=COLOURS[0])
    for place, count in enumerate(shown.values()):
        axes.text(count, place, f" {count:,}", va="center", fontsize=9)
    _name(axes, list(shown))
    return _picture(figure, _in_words(title, shown))


def stacked(title: str, counts: Mapping[str, Mapping[str, int]]) -> Picture:
    """A bar for each key (a version), in parts; the commonest parts have colours of their own."""
    sums: dict[str, int] = {}
    for parts in counts.values():
        for part, count in parts.items():
            sums[part] = sums.get(part, 0) + count
    ranked = sorted(sums, key=lambda part: (-sums[part], part))
    figure, axes = _canvas(title, max(len(counts), 5))
    ends = [0] * len(counts)
    for number, part in enumerate([*ranked[:MOST_PARTS], OTHERS]):
        named = ranked[MOST_PARTS:] if part is OTHERS else [part]
        found = [sum(each.get(one, 0) for one in named) for each in counts.values()]
        if any(found):
            axes.barh(range(len(ends)), found, left=ends, color=COLOURS[number], label=_short(part))
            ends = [end + count for end, count in zip(ends, found, strict=True)]
    for place, end in enumerate(ends):
        axes.text(end, place, f" {end:,}", va="center", fontsize=9)
    _name(axes, list(counts))
    if any(ends):
        legend = figure.legend(loc="outside right upper", frameon=False, fontsize=9)
        for label in legend.get_texts():
            label.set_parse_math(False)
    return _picture(figure, _in_words(title, dict(zip(counts, ends, strict=True))))


def intervals(title: str, found: Sequence[Precision]) -> Picture:
    """Shares with their 95 % intervals, of groups that have any; API-Bank's 78 % as a line."""
    judged = [one for one in found if one.judged][:MOST_BARS]
    figure, axes = _canvas(title, len(judged), whole=False)
    axes.axvline(API_BANK, color=FAINT, linestyle="--", linewidth=1)
    note = f"API-Bank's tester: {API_BANK:.0%}"
    axes.text(API_BANK, 1.01, note, ha="center", fontsize=8, transform=axes.get_xaxis_transform())
    for place, one in enumerate(judged):
        low, high = one.interval
        axes.plot([low, high], [place, place], color=COLOURS[1], linewidth=2)
        axes.plot([one.share or 0.0], [place], "o", color=COLOURS[1])
    _name(axes, [f"{one.group} ({one.agreed} of {one.judged})" for one in judged])
    axes.set_xlim(0, 1)
    axes.xaxis.set_major_formatter(lambda share, _: f"{share:.0%}")
    shares = {one.group: round(100 * (one.share or 0)) for one in judged}
    return _picture(figure, _in_words(title, shares, " %"))


def _canvas(title: str, lines: int, whole: bool = True) -> tuple[Figure, Axes]:
    from matplotlib.figure import Figure
    from matplotlib.ticker import MaxNLocator

    height = 1.0 + 0.32 * max(lines, 1)
    figure = Figure(figsize=(WIDTH, height), dpi=DOTS, layout="constrained", facecolor="white")
    axes = figure.subplots()
    axes.spines[["top", "right"]].set_visible(False)
    axes.set_title(title, loc="left", fontsize=11, color=INK, pad=16, parse_math=False)
    axes.margins(x=0.12)
    axes.xaxis.set_major_locator(MaxNLocator(integer=whole))
    return figure, axes


def _name(axes: Axes, labels: Sequence[str]) -> None:
    """Name the bars, from the top down; without any say so."""
    # Labels may be a model's words: `$` begins no formula.
    axes.set_yticks(range(len(labels)), [_short(one) for one in labels], parse_math=False)
    axes.invert_yaxis()
    if not labels:
        axes.set_xticks([])
        axes.text(0.5, 0.5, "nothing to show yet", ha="center", transform=axes.transAxes)


def _short(label: str) -> str:
    # matplotlib leaves out of a legend what begins with an underscore.
    text = label if len(label) <= 48 else f"{label[:47]}…"
    return f" {text}" if text.startswith("_") else text


def _shortened(counts: Mapping[str, int], most: int) -> dict[str, int]:
    """The first ones, and the others as one."""
    names = list(counts)
    if len(names) <= most:
        return dict(counts)
    rest = names[most - 1 :]
    shown = {name: counts[name] for name in names[: most - 1]}
    return {**shown, f"{OTHERS} ({len(rest)})": sum(counts[name] for name in rest)}


def _in_words(title: str, counts: Mapping[str, int], unit: str = "") -> str:
    told = ", ".join(f"{name} {count:,}{unit}" for name, count in counts.items())
    return f"{title}: {told or 'nothing'}"


def _picture(figure: Figure, told: str) -> Picture:
    file = io.BytesIO()
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "Glyph .* missing")  # letters that its font has not
        figure.savefig(file, format="png", dpi=DOTS * DENSITY)
    width, height = figure.get_size_inches()
    return Picture(file.getvalue(), (round(width * DOTS), round(height * DOTS)), told)
