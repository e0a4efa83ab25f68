"""Whole numbers in bins that a person can read."""

from __future__ import annotations

from collections.abc import Mapping

BINS = 10


def binned(counts: Mapping[int, int]) -> dict[str, int]:
    """How many there are by range, such as `10–19`.

    Each number has its own bin if they are few; else bins are 2, 5, 10, 20 … wide, and the last
    one takes what lies far off. Empty bins between others are kept.
    """
    if not counts:
        return {}
    low, high = min(counts), max(counts)
    if high - low < BINS:
        return {str(n): counts.get(n, 0) for n in range(low, high + 1)}
    most = quantile(counts, 0.99)
    width = _width(most - low)
    start = low // width * width
    last = start + (most - start) // width * width
    found = {_range(edge, width): 0 for edge in range(start, last + 1, width)}
    for number, count in counts.items():
        edge = start + (number - start) // width * width
        name = _range(edge, width) if edge <= last else f"{last + width:,} and more"
        found[name] = found.get(name, 0) + count
    return found


def quantile(counts: Mapping[int, int], share: float) -> int:
    """The smallest number that at least this share of all do not pass. There must be one."""
    left = share * sum(counts.values())
    for number in sorted(counts):
        left -= counts[number]
        if left <= 0:
            return number
    return max(counts)


def _width(span: int) -> int:
    """The smallest of 1, 2, 5, 10, 20 … with which no more bins are needed than wanted."""
    width, steps = 1, 0
    while span // width >= BINS:
        steps += 1
        width = (1, 2, 5)[steps % 3] * 10 ** (steps // 3)
    return width


def _range(edge: int, width: int) -> str:
    return f"{edge:,}" if width == 1 else f"{edge:,}–{edge + width - 1:,}"
