"""What a person sees of a verification."""

from __future__ import annotations

from collections.abc import Iterator

from rich.console import RenderableType

from toolloom.pipeline.dataset.verify_files import ABOUT, Fault, Report
from toolloom.pipeline.render.terminal import grid, indented, text

MOST = 10  # findings of a kind that are printed


def report_view(report: Report) -> Iterator[RenderableType]:
    """What was verified, or the findings by kind."""
    rows = ", ".join(f"{count:,} of {config}" for config, count in report.rows.items())
    done = [
        ("files", f"{report.files:,} with {report.size:,} bytes"),
        ("rows", rows or "none"),
        ("dialogues", f"{report.inspected:,} through {report.checks} certain checks"),
        ("time", f"{report.seconds:.1f} s"),
    ]
    yield text(f"{report.version} in {report.path}", "bold")
    yield grid(("verified", ""), done)
    for note in report.notes:
        yield text(f"Note: {note}")
    for kind, count in report.counts.items():
        yield ""
        yield text(f"{count:,} {kind}: {ABOUT[kind]}", "bold")
        found = [fault for fault in report.faults if fault.kind is kind]
        yield from (indented(_line(fault)) for fault in found[:MOST])
        if count > MOST:
            yield indented(f"… and {count - MOST:,} more (--json FILE has the first {len(found)})")
    yield ""
    total = sum(report.counts.values())
    yield f"{total:,} findings." if total else "All is as it was published, and all of it holds."


def _line(fault: Fault) -> str:
    where = fault.file if fault.row is None else f"{fault.file}, {fault.row}"
    return " ".join(f"{where}: {fault.detail}".split())
