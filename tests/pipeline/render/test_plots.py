"""Plots can be read: counts are whole."""

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
