"""What a person sees of an audit. Text of the data is shown as data, whatever it holds."""

from __future__ import annotations

from collections.abc import Iterator

from rich.console import Group, RenderableType
from rich.text import Text

from toolloom.pipeline.formats.audit.audit import Report, Tally
from toolloom.pipeline.render.terminal import grid, text

_LONGEST = 300  # letters of a detail
_UNMAPPED = 12  # rows of that table


def report_view(report: Report) -> RenderableType:
    """Counts, findings by reason with examples, what was not read, which checks ran."""
    parts: list[RenderableType] = [text(_head(report))]
    if report.reasons:
        ranked = sorted(report.reasons.items(), key=lambda item: -item[1].rows)
        found = [(name, t.rows, t.findings, ", ".join(t.checks)) for name, t in ranked]
        parts += [text(""), grid(("reason", "rows", "findings", "checks"), found)]
        for name, tally in ranked:
            parts += _examples(name, tally)
    if report.unmapped:
        common = report.unmapped.most_common(_UNMAPPED)
        parts += [text(""), grid(("not read, as our record has no place for it", "rows"), common)]
        if more := len(report.unmapped) - len(common):
            parts.append(text(f"and {more:,} more: --json names them all"))
    ran = ", ".join(f"{name} {rows:,}" for name, rows in report.checks.items())
    parts += [text(""), text(f"Checks, with the rows they ran on: {ran or 'none'}.", "dim")]
    return Group(*parts)


def _head(report: Report) -> str:
    share = 100 * report.flagged / report.rows if report.rows else 0
    number = f"{report.flagged:,} of the rows ({share:.1f} %)" if report.flagged else "No row"
    told = f"{number} {'have findings' if report.flagged > 1 else 'has a finding'}"
    return (
        f"{report.source} as {report.format}: {report.rows:,} rows, {report.dialogues:,} of them "
        f"dialogues, with {report.calls:,} calls. {told}."
    )


def _examples(name: str, tally: Tally) -> Iterator[Text]:
    if tally.examples:
        yield text("")
        yield text(name, "bold")
    for place, found in tally.examples:
        turn = "" if found.turn is None else f", message {found.turn}"
        detail = found.detail[:_LONGEST] + ("…" if len(found.detail) > _LONGEST else "")
        yield text(f"  {place}{turn}: {detail}")
