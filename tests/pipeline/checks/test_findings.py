from __future__ import annotations

from dataclasses import dataclass

from toolloom.pipeline.checks.findings import Findings


@dataclass(frozen=True)
class Odd:
    kind: str
    detail: str


def test_findings_are_kept_in_bounds() -> None:
    """All are counted; of each kind the first are kept, kind by kind in their order."""
    findings = Findings[Odd](["file", "row"], most=3)
    for number in range(50):
        findings.add(Odd("row", str(number)))
    findings.add(Odd("file", "gone"))
    assert findings.counts == {"row": 50, "file": 1}
    assert [odd.detail for odd in findings.kept] == ["gone", "0", "1", "2"]
    assert findings.left_out == 47
