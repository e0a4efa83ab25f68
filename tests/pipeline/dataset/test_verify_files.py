from __future__ import annotations

from toolloom.pipeline.dataset.verify_files import FaultKind, Findings, VersionFault


def test_findings_are_kept_in_bounds() -> None:
    """All are counted; of each kind the first are kept, kind by kind in their order."""
    findings = Findings(most=3)
    for number in range(50):
        findings.add(VersionFault(kind=FaultKind.RECORD, file="row", detail=str(number)))
    findings.add(VersionFault(kind=FaultKind.FILE, file="row", detail="gone"))
    assert findings.counts == {FaultKind.RECORD: 50, FaultKind.FILE: 1}
    assert [fault.detail for fault in findings.kept] == ["gone", "0", "1", "2"]
