"""What a person sees of the complexity of splits."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from rich.console import RenderableType

from toolloom.pipeline.dataset.complexity import Complexity, Hard, Report
from toolloom.pipeline.dataset.report import percent
from toolloom.pipeline.render.terminal import grid, indented, text

NAMED = 10  # APIs without a demonstration that are named
NONE = "no call"


def report_view(report: Report) -> Iterator[RenderableType]:
    """One split in full, or a line for each."""
    first = report.figures[0]
    kind = "demonstrations" if first.demonstrations else "samples"
    title = f"{report.dataset}: calls against {first.shown:,} {kind} of {first.examples}"
    yield text(f"{title}, |D| = {first.apis:,} APIs", "bold")
    yield from _whole(first) if len(report.figures) == 1 else _lines(report.figures)
    idle = sum(one.idle_tests for one in report.figures)
    if first.examples not in {one.test for one in report.figures}:
        idle += first.idle_examples
    if idle:
        yield ""
        yield f"Left out, as they call nothing: {idle:,} samples."
    if report.uncovered:
        yield ""
        yield f"Called by no sample of {first.examples}, {len(report.uncovered):,} in all:"
        yield from map(indented, report.uncovered[:NAMED])
        if len(report.uncovered) > NAMED:
            yield indented(f"… and {len(report.uncovered) - NAMED:,} more (--json FILE has all)")


def _whole(one: Complexity) -> Iterator[RenderableType]:
    shown = f"{one.tests:,} samples, {one.test_combinations:,} combinations"
    against = f"{one.shown:,} samples, {one.example_combinations:,} combinations"
    rows = [
        ("complexity score S", f"{one.score:.4f}"),
        ("reversed F1", f"{one.reversed_f1:.2f}"),
        ("tests T", shown),
        ("examples X", against),
        ("combinations that examples have", percent(one.seen)),
        ("samples with such a combination", percent(one.seen_samples)),
    ]
    yield grid((one.test, ""), rows)
    if one.hardest:
        head = ("distance", "samples", "calls", "nearest example", "which lacks")
        yield ""
        yield text("The farthest combinations", "bold")
        yield grid(head, [_hard(each) for each in one.hardest])


def _hard(one: Hard) -> tuple[object, ...]:
    calls, nearest, lacking = map(", ".join, (one.apis, one.nearest, one.lacking))
    return f"{one.distance:.2f}", one.samples, calls or NONE, nearest or NONE, lacking or "–"


def _lines(figures: Sequence[Complexity]) -> Iterator[RenderableType]:
    head = ("split", "S", "r-F1", "|T|", "combinations", "seen", "samples seen")
    rows = [
        (
            one.test,
            f"{one.score:.4f}",
            f"{one.reversed_f1:.2f}",
            one.tests,
            one.test_combinations,
            percent(one.seen),
            percent(one.seen_samples),
        )
        for one in figures
    ]
    yield grid(head, rows)
    if any(one.test == one.examples for one in figures):
        yield ""
        yield text(
            "A split against itself is the floor: ln 2 for each call of a sample, all of them kept."
        )
