"""Plots can be read: nothing lies on a bar, and counts are whole."""

from __future__ import annotations

import re

import pytest

from toolloom.pipeline.render.plots import Plot, svg


def texts(plot: Plot) -> list[str]:
    return re.findall(r"<text[^>]*>([^<]*)</text>", svg(plot).decode())


@pytest.mark.parametrize("counts", [[0], [1], [1, 2], [3, 0, 1]])
def test_ticks_are_whole(counts: list[int]) -> None:
    """Half a record there is none, however few there are."""
    found = texts(Plot("x", "Few", ["row"] * len(counts), counts))
    numbers = [text for text in found if text not in ("row", "Few")]
    assert numbers
    assert all(text.isdigit() for text in numbers)


def test_a_bar_tells_both_of_its_parts() -> None:
    """At its end, where it lies on neither."""
    plot = Plot("x", "Stages", ["a", "b"], [1200, 7], [30, 0], ("accepted", "rejected"))
    found = texts(plot)
    assert {"1,200 + 30", "7", "accepted", "rejected"} <= set(found)


def test_equal_figures_make_equal_bytes() -> None:
    """The card of a version is made again byte for byte."""
    plot = Plot("x", "Stages", ["a"], [1], [1], ("accepted", "rejected"))
    assert svg(plot) == svg(plot)
