"""Lists of public APIs in Markdown and JSON."""

from __future__ import annotations

import json
from pathlib import Path

from toolloom.pipeline.formats import public_apis
from toolloom.pipeline.formats.import_log import ImportLog
from toolloom.schemas.api import PublicApi

TABLE = (Path(__file__).parents[2] / "golden" / "apis" / "public_apis.md").read_text()


def gather(path: Path, content: str) -> tuple[list[PublicApi], ImportLog]:
    path.write_text(content)
    ledger = ImportLog(path.name)
    return list(public_apis.read(path, ledger)), ledger


def test_tables_are_read_under_their_headings(tmp_path: Path) -> None:
    """Each row is a public API of the heading's category, without the marks of Markdown.

    Rows that become nothing, as they have no name or stand again, are named by their line.
    """
    found, ledger = gather(tmp_path / "README.md", TABLE)
    assert [(api.category, api.name, api.does) for api in found] == [
        ("Birds", "Nests", "Where birds nest | breed"),
        ("Birds", "Nests (2)", "Photos of nests"),
        ("Arts & Crafts", "Looms", "Patterns for weaving"),
    ]
    report = ledger.report(imported=len(found))
    assert [line.what for line in report.skipped] == ["README.md:9: Nests", "README.md:10"]
    assert report.read == 5


def test_entries_of_json(tmp_path: Path) -> None:
    """The entries of the project's JSON give the same, odd ones are booked."""
    entry = {"API": "Nests", "Description": "Where birds nest", "Category": "Birds", "Auth": ""}
    document = {"count": 3, "entries": [entry, 5, {"API": 5, "Description": ["x"]}]}
    assert public_apis.fits(document)
    found, ledger = gather(tmp_path / "entries.json", json.dumps(document))
    assert [(api.category, api.name) for api in found] == [("Birds", "Nests"), ("Imported", "5")]
    assert ledger.read == 3


def test_only_tables_of_apis_fit() -> None:
    """A Markdown text is a list of APIs if a table's head says so."""
    assert public_apis.fits_text(TABLE)
    assert not public_apis.fits_text("# API\n\nDescription of it.\n\n| Name | Use |\n")
