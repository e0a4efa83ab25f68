"""Audit rows that others made: read each, hold it to the checks it can be held to, count.

What a row is, it tells itself: OpenAI's messages (TRL's, Axolotl's and verl's too), turns of
ShareGPT (LLaMA-Factory's and Hermes'), or API-Bank's dialogues and training rows.

A row is held to those certain checks that need nothing it leaves out. Left out for all, since
nobody tells the intent of others' data: `opening_request`, `mentioned_values`, `asked_first`,
`intended_calls`, `dependent_calls`, `planned_faults`, `admitted_limits`. Left out because people
differ: `natural_requests`, `helpful_replies`, `bearable_lengths`, and all that judges replies by
what was observed, as people and models add what they know. Three checks have a variant that finds
only what is certain in others' data: `turn_order`, `leaked_calls` and `kept_values`; each says how
it differs.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import nullcontext
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path
from typing import Any, NamedTuple

from toolloom.pipeline.checks import calls, contradictions, form, inspect
from toolloom.pipeline.checks.transcript import Check, Findings
from toolloom.pipeline.formats import api_bank
from toolloom.pipeline.formats.chat import messages_row
from toolloom.pipeline.formats.conversation import Reading, excess, refused
from toolloom.pipeline.formats.import_log import text
from toolloom.pipeline.formats.rows import foreign_rows
from toolloom.pipeline.formats.sharegpt import conversation_row, is_conversation
from toolloom.pipeline.render.section import Section, counted
from toolloom.pipeline.store.files import replacing
from toolloom.schemas import Dialogue, Finding, JsonObject, StoreError

KNOWN = "OpenAI's messages, ShareGPT's conversations, API-Bank's dialogues and training rows"
_LONGEST = 300  # letters of a detail that is shown
_UNMAPPED = 12  # rows of the table of what was not read
_LOOKED_AT = 20  # rows, of which one tells the form
_PATIENCE = 200  # rows without one dialogue, after which the file is taken to hold none

# Groups as in `checks.CHECKS`: check → the flag of a Reading that it needs, if any.
TABLE: tuple[dict[Check[Dialogue], str], ...] = (
    {form.plain_values: ""},
    {form.turn_order: "", form.answered_calls: "has_results", form.readable_calls: ""},
    {
        form.leaked_calls: "has_reply",
        calls.known_names: "",
        calls.searched_first: "has_results",
        calls.fitting_arguments: "",
        calls.fitting_observations: "has_results",
        contradictions.kept_values: "",
    },
)


class Audited(NamedTuple):
    """A row with all that is wrong with it."""

    reading: Reading
    findings: tuple[Finding, ...]

    def as_json(self) -> JsonObject:
        return {
            "place": self.reading.place,
            "findings": [f.model_dump(mode="json") for f in self.findings],
            "row": self.reading.raw,
        }


def read(path: Path) -> Iterator[Reading]:
    """Every row of a file, or of the files of a folder, in its own form. Raises StoreError."""
    first = [row.value for row in islice(foreign_rows(path), _LOOKED_AT)]
    if any(map(api_bank.is_bank_row, first)):
        yield from api_bank.dialogues(path)
        return
    for row in foreign_rows(path):
        if why := row.fault or excess(row.value):
            yield refused(row, why)
        elif not isinstance(row.value, dict):
            yield refused(row, "it is not a JSON object")
        else:
            take = conversation_row if is_conversation(row.value) else messages_row
            yield take(row.value, row)


def expected(reading: Reading) -> tuple[tuple[Check[Dialogue], ...], ...]:
    """The checks a row is held to, in the groups in which they run."""
    return tuple(
        tuple(check for check, flag in group.items() if not flag or getattr(reading, flag))
        for group in (TABLE if reading.dialogue else ())
    )


def judged(reading: Reading) -> Audited:
    """The findings on a row: its reader's own, then those of the checks that apply to it."""
    found = inspect(reading.dialogue, expected(reading)) if reading.dialogue else ()
    return Audited(reading, (*reading.faults, *found))


def audited(path: Path) -> Iterator[Audited]:
    """Every row of the file with its findings, one at a time. Raises StoreError."""
    rows = dialogues = 0
    first = None
    for rows, reading in enumerate(read(path), 1):
        dialogues += reading.dialogue is not None
        first = first or reading
        if not dialogues and rows == _PATIENCE:
            break
        yield judged(reading)
    if first is None:
        raise StoreError(f"{path} has no rows to audit.")
    if not dialogues:
        why = first.faults[0].detail if first.faults else "it is not a dialogue"
        looked = f"none of its {'first ' if rows == _PATIENCE else ''}{rows:,} rows is a dialogue"
        raise StoreError(
            f"{path} cannot be audited: {looked if rows > 1 else 'its one row is not a dialogue'}. "
            f"{first.place}: {why}. What can be read: {KNOWN}."
        )


@dataclass
class AuditReport:
    """What an audit found."""

    source: str
    findings: Findings[str, tuple[str, Finding]]  # by reason, with the place
    rows: int = 0
    dialogues: int = 0
    calls: int = 0
    flagged: int = 0
    reasons: Counter[str] = field(default_factory=Counter)  # rows
    found_by: dict[str, Counter[str]] = field(default_factory=dict)  # of a reason: checks, findings
    checks: Counter[str] = field(default_factory=Counter)  # rows they ran on
    unmapped: Counter[str] = field(default_factory=Counter)

    def take(self, row: Audited) -> None:
        """Count a row."""
        dialogue = row.reading.dialogue
        self.rows += 1
        self.dialogues += dialogue is not None
        self.calls += sum(len(m.tool_calls) for m in dialogue.messages) if dialogue else 0
        self.checks.update(check.__name__ for group in expected(row.reading) for check in group)
        self.unmapped.update(row.reading.unmapped)
        self.flagged += bool(row.findings)
        self.reasons.update(list(dict.fromkeys(f.reason.value for f in row.findings)))
        for found in row.findings:
            self.found_by.setdefault(found.reason.value, Counter())[found.check] += 1
            self.findings.add(found.reason.value, (row.reading.place, found))

    def as_json(self) -> JsonObject:
        reasons = {
            name: {
                "findings": self.findings.counts[name],
                "rows": rows,
                "checks": dict(self.found_by[name]),
                "examples": [
                    {"place": place, **finding.model_dump(mode="json")}
                    for place, finding in self.findings.kept[name]
                ],
            }
            for name, rows in self.reasons.items()
        }
        counts = {name: getattr(self, name) for name in ("rows", "dialogues", "calls", "flagged")}
        unmapped = dict(self.unmapped.most_common())
        told = {"reasons": reasons, "checks": dict(self.checks), "unmapped": unmapped}
        return {"source": self.source, **counts, **told}


def audit(
    path: Path,
    *,
    examples: int = 3,
    flagged: Path | None = None,
    tell: Callable[[AuditReport], None] | None = None,
) -> AuditReport:
    """Audit a file in one pass. `flagged`: where flagged rows are written, as JSON lines, once all
    are known; `tell` is given the report after each row. Raises StoreError."""
    report = AuditReport(path.name, Findings(examples))
    if flagged:
        check_target(flagged, path)
    with replacing(flagged) if flagged else nullcontext() as file:
        for row in audited(path):
            report.take(row)
            if file and row.findings:
                file.write(f"{dumped(row.as_json())}\n".encode())
            if tell:
                tell(report)
    return report


def dumped(value: Any, indent: int | None = None) -> str:
    """JSON of a report or a flagged row; what JSON does not have (dates of Parquet) as text."""
    try:
        return text(json.dumps(value, ensure_ascii=False, default=str, indent=indent))
    except (ValueError, RecursionError):  # a row no JSON can be made of again
        return dumped({**value, "row": None})


def sections(report: AuditReport) -> list[Section]:
    """Counts, findings by reason with examples, what was not read, which checks ran."""
    share = 100 * report.flagged / report.rows if report.rows else 0
    number = f"{report.flagged:,} of the rows ({share:.1f} %)" if report.flagged else "No row"
    faulty = f"{number} {'have findings' if report.flagged > 1 else 'has a finding'}"
    shown = [
        Section(
            note=f"{report.source}: {counted(report.rows, 'row')}, "
            f"{counted(report.dialogues, 'dialogue')}, {counted(report.calls, 'call')}. {faulty}."
        )
    ]
    if report.reasons:
        ranked = report.reasons.most_common()
        counts, kept = report.findings.counts, report.findings.kept
        rows = [(name, n, counts[name], ", ".join(report.found_by[name])) for name, n in ranked]
        shown.append(Section(head=("reason", "rows", "findings", "checks"), rows=rows))
        lists = ((name, [_example(*example) for example in kept[name]]) for name, _ in ranked)
        shown += [Section(name, items=items) for name, items in lists if items]
    if report.unmapped:
        common = report.unmapped.most_common(_UNMAPPED)
        more = len(report.unmapped) - len(common)
        note = f"and {more:,} more: --json names them all" if more else ""
        head = ("not read, as our record has no place for it", "rows")
        shown.append(Section(head=head, rows=common, note=note))
    ran = ", ".join(f"{name} {rows:,}" for name, rows in report.checks.items())
    return [*shown, Section(note=f"Checks, with the rows they ran on: {ran or 'none'}.")]


def _example(place: str, finding: Finding) -> str:
    turn = "" if finding.turn is None else f", message {finding.turn}"
    detail = finding.detail[:_LONGEST] + ("…" if len(finding.detail) > _LONGEST else "")
    return f"{place}{turn}: {detail}"


def check_target(path: Path, source: Path) -> None:
    """Raises StoreError for a file to write that is what is audited, or a folder."""
    if path.exists() and source.exists() and path.samefile(source):
        raise StoreError(f"{path} is what is audited. Name another file to write to.")
    if path.is_dir():
        raise StoreError(f"{path} is a folder. Name a file to write to.")
