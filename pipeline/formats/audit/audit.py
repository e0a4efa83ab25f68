"""Audit a file that others made: read each row, hold it to the checks it can be held to, count."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from importlib import import_module
from pathlib import Path
from typing import Any, TypeAlias

from toolloom.pipeline.checks import inspect
from toolloom.pipeline.formats.audit.checks import expected
from toolloom.pipeline.formats.audit.reading import Reading
from toolloom.pipeline.formats.importers.ledger import writable
from toolloom.pipeline.render.section import Section
from toolloom.schemas import Finding, JsonObject, NothingFound, StoreError

Read: TypeAlias = Callable[[Path], Iterator[Reading]]

# Format → module of this package and its function.
FORMATS: dict[str, tuple[str, str]] = {
    "trl": ("chat", "trl"),
    "openai": ("chat", "openai"),
    "sharegpt": ("sharegpt", "read"),
    "hermes": ("hermes", "read"),
    "xlam": ("xlam", "read"),
    "bfcl": ("bfcl", "read"),
    "api-bank": ("api_bank", "read"),
    "toolbench": ("toolbench", "read"),
}
_LONGEST = 300  # letters of a detail that is shown
_UNMAPPED = 12  # rows of the table of what was not read
_PATIENCE = 200  # rows without one dialogue, after which the format is taken to be another


@dataclass(frozen=True)
class Audited:
    """A row with all that is wrong with it."""

    reading: Reading
    findings: tuple[Finding, ...]

    def as_json(self) -> JsonObject:
        return {
            "place": self.reading.place,
            "findings": [f.model_dump(mode="json") for f in self.findings],
            "row": self.reading.raw,
        }


@dataclass
class ReasonTally:
    """One reason: how many findings and rows, and the first few."""

    findings: int = 0
    rows: int = 0
    checks: Counter[str] = field(default_factory=Counter)
    examples: list[tuple[str, Finding]] = field(default_factory=list)


@dataclass
class AuditReport:
    """What an audit found."""

    source: str
    format: str
    rows: int = 0
    dialogues: int = 0
    calls: int = 0
    flagged: int = 0
    reasons: dict[str, ReasonTally] = field(default_factory=dict)
    checks: Counter[str] = field(default_factory=Counter)
    unmapped: Counter[str] = field(default_factory=Counter)

    def take(self, row: Audited, ran: Iterable[str], examples: int) -> None:
        """Count a row."""
        self.rows += 1
        dialogue = row.reading.dialogue
        if dialogue is not None:
            self.dialogues += 1
            self.calls += sum(len(m.tool_calls) for m in dialogue.messages)
        self.checks.update(ran)
        self.unmapped.update(set(row.reading.unmapped))
        self.flagged += bool(row.findings)
        for reason in dict.fromkeys(f.reason.value for f in row.findings):
            self.reasons.setdefault(reason, ReasonTally()).rows += 1
        for found in row.findings:
            tally = self.reasons[found.reason.value]
            tally.findings += 1
            tally.checks[found.check] += 1
            if len(tally.examples) < examples:
                tally.examples.append((row.reading.place, found))

    def as_json(self) -> JsonObject:
        return {
            "source": self.source,
            "format": self.format,
            "rows": self.rows,
            "dialogues": self.dialogues,
            "calls": self.calls,
            "flagged": self.flagged,
            "reasons": {name: _told(tally) for name, tally in self.reasons.items()},
            "checks": dict(self.checks),
            "unmapped": dict(self.unmapped.most_common()),
        }


def _told(tally: ReasonTally) -> JsonObject:
    return {
        "findings": tally.findings,
        "rows": tally.rows,
        "checks": dict(tally.checks),
        "examples": [
            {"place": place, **found.model_dump(mode="json")} for place, found in tally.examples
        ],
    }


def reader(format: str) -> Read:
    """The reader of a format. Raises NothingFound."""
    if format not in FORMATS:
        known = ", ".join(FORMATS)
        raise NothingFound(f"There is no format `{format}`. Formats are: {known}.")
    module, function = FORMATS[format]
    found: Read = getattr(import_module(f"toolloom.pipeline.formats.audit.{module}"), function)
    return found


def audited(path: Path, format: str) -> Iterator[Audited]:
    """Every row of the file with its findings, one at a time. Raises NothingFound, StoreError."""
    rows = dialogues = 0
    first = None
    for reading in reader(format)(path):
        rows += 1
        dialogues += reading.dialogue is not None
        first = first or reading
        if not dialogues and rows == _PATIENCE:
            break
        yield judged(reading)
    if first is None:
        raise StoreError(f"{path} has no rows to audit.")
    if not dialogues:
        why = first.faults[0].detail if first.faults else "it is no dialogue"
        looked = f"none of its {'first ' if rows == _PATIENCE else ''}{rows:,} rows is a dialogue"
        raise StoreError(
            f"{path} does not look like {format}: {looked if rows > 1 else 'its one row is none'}. "
            f"{first.place}: {why}. Is it in another format? Known are {', '.join(FORMATS)}."
        )


def judged(reading: Reading) -> Audited:
    """The findings on a row: its reader's own, then those of the checks that apply to it."""
    if reading.dialogue is None:
        return Audited(reading, reading.faults)
    return Audited(reading, (*reading.faults, *inspect(reading.dialogue, expected(reading))))


def audit(
    path: Path,
    format: str,
    *,
    examples: int = 3,
    flag: Callable[[JsonObject], None] | None = None,
    tell: Callable[[AuditReport], None] | None = None,
) -> AuditReport:
    """Audit a file in one pass. `flag` takes each flagged row, `tell` the report after each row.

    Raises NothingFound, StoreError.
    """
    report = AuditReport(path.name, format)
    for row in audited(path, format):
        ran = [c.__name__ for group in expected(row.reading) for c in group]
        report.take(row, ran, examples)
        if flag and row.findings:
            flag(row.as_json())
        if tell:
            tell(report)
    return report


def dumped(value: Any, indent: int | None = None) -> str:
    """JSON of a report or a flagged row; what JSON does not have (dates of Parquet) as text."""
    try:
        return writable(json.dumps(value, ensure_ascii=False, default=str, indent=indent))
    except (ValueError, RecursionError):  # a row no JSON can be made of again
        return dumped({**value, "row": None})


def sections(report: AuditReport) -> list[Section]:
    """Counts, findings by reason with examples, what was not read, which checks ran."""
    shown = [Section(note=_head(report))]
    if report.reasons:
        ranked = sorted(report.reasons.items(), key=lambda item: -item[1].rows)
        rows = [(name, t.rows, t.findings, ", ".join(t.checks)) for name, t in ranked]
        shown.append(Section(head=("reason", "rows", "findings", "checks"), rows=rows))
        shown += [
            Section(name, items=[_example(*example) for example in tally.examples])
            for name, tally in ranked
            if tally.examples
        ]
    if report.unmapped:
        common = report.unmapped.most_common(_UNMAPPED)
        more = len(report.unmapped) - len(common)
        note = f"and {more:,} more: --json names them all" if more else ""
        head = ("not read, as our record has no place for it", "rows")
        shown.append(Section(head=head, rows=common, note=note))
    ran = ", ".join(f"{name} {rows:,}" for name, rows in report.checks.items())
    words = f"Checks, with the rows they ran on: {ran or 'none'}."
    return [*shown, Section(note=words)]


def _head(report: AuditReport) -> str:
    share = 100 * report.flagged / report.rows if report.rows else 0
    number = f"{report.flagged:,} of the rows ({share:.1f} %)" if report.flagged else "No row"
    faulty = f"{number} {'have findings' if report.flagged > 1 else 'has a finding'}"
    return (
        f"{report.source} as {report.format}: {report.rows:,} rows, {report.dialogues:,} of them "
        f"dialogues, with {report.calls:,} calls. {faulty}."
    )


def _example(place: str, finding: Finding) -> str:
    turn = "" if finding.turn is None else f", message {finding.turn}"
    detail = finding.detail[:_LONGEST] + ("…" if len(finding.detail) > _LONGEST else "")
    return f"{place}{turn}: {detail}"
