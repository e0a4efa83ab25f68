"""A file's records: one document, or one JSON value a line."""

from pathlib import Path

import pytest

from toolloom.pipeline.formats.importers.ledger import ImportLog
from toolloom.pipeline.formats.importers.rows import in_lines, rows


@pytest.mark.parametrize(
    ("name", "content", "expected"),
    [
        ("a.json", '{"a": 1}\n{"a": 2}\n', True),
        ("a.json", "\n\n[1]\n[2]\n", True),
        ("a.json", '{"a": 1}\n', False),
        ("a.json", '{\n  "a": 1\n}\n', False),
        ("a.jsonl", '{"a": 1}\n', True),
        ("a.yaml", "a: 1\nb: 2\n", False),
    ],
)
def test_lines_are_told_from_a_document(
    tmp_path: Path, name: str, content: str, expected: bool
) -> None:
    """Lines are lines when the first is whole JSON and another follows, or the file says so."""
    path = tmp_path / name
    path.write_text(content)
    assert in_lines(path) is expected


def test_a_broken_line_is_booked(tmp_path: Path) -> None:
    """A line that is no JSON is skipped with its number; the others are read."""
    path = tmp_path / "a.jsonl"
    path.write_text('{"a": 1}\n{"a": \n\n{"a": 3}\n')
    ledger = ImportLog("a.jsonl")
    assert [place for place, _ in rows(path, ledger)] == ["a.jsonl:1", "a.jsonl:4"]
    (skipped,) = ledger.report(imported=0).skipped
    assert skipped.what == "a.jsonl:2" and ledger.bytes == path.stat().st_size


def test_a_document_that_was_loaded_is_not_read_again(tmp_path: Path) -> None:
    """With its content at hand the file is not opened."""
    assert list(rows(tmp_path / "gone.json", ImportLog("x"), [1])) == [("gone.json", [1])]


def test_a_line_that_is_too_long_is_booked_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its rest is passed over, and the lines after it keep their numbers."""
    monkeypatch.setattr("toolloom.pipeline.formats.importers.rows.LONGEST_LINE", 20)
    path = tmp_path / "a.jsonl"
    path.write_text('{"a": 1}\n{"a": "' + 90 * "x" + '"}\n{"a": 3}\n')
    ledger = ImportLog("a.jsonl")
    assert [place for place, _ in rows(path, ledger)] == ["a.jsonl:1", "a.jsonl:3"]
    (skipped,) = ledger.report(imported=0).skipped
    assert (skipped.what, skipped.why) == ("a.jsonl:2", "The line has more than 20 bytes.")
