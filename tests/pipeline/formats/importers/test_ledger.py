from __future__ import annotations

import json

from hypothesis import given
from hypothesis import strategies as st

from toolloom.pipeline.formats.importers.ledger import LONGEST, ImportLog, legal


@given(st.lists(st.text(max_size=80), max_size=12))
def test_names_are_legal_and_given_once(wanted: list[str]) -> None:
    """Whatever a source calls its functions, models can call each, and no two are the same."""
    ledger = ImportLog("a source")
    given = [ledger.function(name, f"t/{name}") for name in wanted]
    assert len(set(given)) == len(given)
    assert all(legal(name) == name and 0 < len(name) <= LONGEST for name in given)
    renamed = ledger.report(imported=0).renamed
    assert len(renamed) == sum(a != b for a, b in zip(wanted, given, strict=True))


def test_thousands_of_equal_names_take_no_time() -> None:
    """Each number is tried once, not all of them for each name."""
    ledger = ImportLog("a source")
    names = [ledger.function("list", "t/list") for _ in range(20_000)]
    assert names[-1] == "list_20000"


def test_a_report_can_always_be_written() -> None:
    """Half a character, as a damaged file may hold it, does not keep the report from the disk."""
    ledger, half = ImportLog("a source"), "\ud800"
    ledger.function(half, half)
    ledger.cut(half, half, "bytes")
    ledger.skip(half, half)
    ledger.note(half)
    ledger.unresolved(half, half, "missing")
    assert json.loads(ledger.report(imported=0).model_dump_json())["skipped"][0]["what"] == "?"
