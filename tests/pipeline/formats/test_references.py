"""References between and within files."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from toolloom.pipeline.formats.import_log import ImportLog
from toolloom.pipeline.formats.references import Resolver, settled


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """`zoo/` with a root and what it refers to, and a secret beside it."""
    zoo = tmp_path / "zoo"
    (zoo / "parts").mkdir(parents=True)
    (zoo / "parts" / "animal.json").write_text(
        json.dumps({"Animal": {"$ref": "food.yaml#/Food"}, "Name": {"$ref": "#/Plain"}, "Plain": 1})
    )
    (zoo / "parts" / "food.yaml").write_text("Food:\n  type: string\n")
    (zoo / "notes.md").write_text("# Notes\n")
    (zoo / "broken.json").write_text("{")
    (zoo / "word.yaml").write_text("just a word\n")
    (tmp_path / "secret.json").write_text('{"key": 1}')
    (zoo / "link.json").symlink_to(tmp_path / "secret.json")
    return zoo


ROOT: Any = {
    "paths": {"/a/{id}": {"get": {"x~y": 5}, "list": [{"z": 6}]}},
    "also": {"$ref": "#/paths/~1a~1{id}"},
    "loop": {"$ref": "#/loop"},
    "ping": {"$ref": "#/pong"},
    "pong": {"$ref": "#/ping"},
}


def look(folder: Path, reference: str) -> tuple[Any, list[str]]:
    ledger = ImportLog("zoo")
    found = Resolver(folder / "root.yaml", ROOT, ledger).root(reference, "here")
    why = [each.why for each in ledger.report(imported=0).unresolved]
    return (found.value if found else None), list(why)


@pytest.mark.parametrize(
    ("reference", "value"),
    [
        ("#/paths/~1a~1{id}/get/x~0y", 5),
        ("#/paths/~1a~1%7Bid%7D/get/x~0y", 5),
        ("#/paths/~1a~1{id}/list/0/z", 6),
        ("#/also/get/x~0y", 5),
        ("parts/animal.json#/Plain", 1),
        ("./parts/../parts/food.yaml#/Food/type", "string"),
        ("parts/animal.json#/Animal/type", "string"),
    ],
)
def test_references_within_the_folder_are_followed(
    folder: Path, reference: str, value: Any
) -> None:
    """Escaped slashes, list positions, other files, and pointers through other references."""
    assert look(folder, reference) == (value, [])


@pytest.mark.parametrize(
    ("reference", "why"),
    [
        ("http://zoo.example/a.json", "remote"),
        ("HTTPS://zoo.example/a.json#/x", "remote"),
        ("file:///etc/passwd", "remote"),
        ("//zoo.example/a.json", "remote"),
        ("/etc/passwd", "outside"),
        ("../secret.json", "outside"),
        ("%2e%2e/secret.json", "outside"),
        ("parts/../../secret.json", "outside"),
        ("..\\secret.json", "outside"),
        ("link.json", "outside"),
        ("#/nothing/here", "missing"),
        ("#/paths/~1a~1{id}/list/7", "missing"),
        ("#/paths/~1a~1{id}/list/-1", "missing"),
        ("#name", "missing"),
        ("gone.json", "missing"),
        ("nul%00.json", "missing"),
        ("x" * 5_000, "missing"),
        ("#/loop/deeper", "missing"),
        ("#/ping/deeper", "missing"),
        ("notes.md", "unreadable"),
        ("broken.json", "unreadable"),
        ("word.yaml", "unreadable"),
    ],
)
def test_what_is_not_followed_is_booked_with_its_reason(
    folder: Path, reference: str, why: str
) -> None:
    """Nothing is fetched, nothing outside the folder is read, and the report says so."""
    assert look(folder, reference) == (None, [why])


def test_references_that_never_arrive_are_nothing(folder: Path) -> None:
    """A reference to itself, and two to each other."""
    resolve = Resolver(folder / "root.yaml", ROOT, ImportLog("zoo")).root
    assert settled({"$ref": "#/loop"}, resolve, "here")[0] is None
    assert settled({"$ref": "#/ping"}, resolve, "here")[0] is None


def test_the_same_place_has_one_key(folder: Path) -> None:
    """Cycles are told by the place, however it was reached."""
    resolve = Resolver(folder / "root.yaml", ROOT, ImportLog("zoo")).root
    first = resolve("parts/animal.json#/Plain", "here")
    second = resolve("./parts/%61nimal.json#/Plain", "here")
    assert first is not None
    assert second is not None
    assert first.key == second.key
