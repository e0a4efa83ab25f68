"""What toolloom writes and says stays as it was recorded, byte for byte.

    TOOLLOOM_GOLDEN=record pytest tests/test_golden.py     record anew, on purpose
    TOOLLOOM_GOLDEN=FOLDER pytest tests/test_golden.py     also write all that is compared there

Texts are kept whole below golden/, so that a change of them shows what it is; of larger things
golden/hashes.json has the hashes. To see what changed in those, write them at two commits into two
folders and compare these.
"""

from __future__ import annotations

import difflib
import json
import os
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
from support.pinned import GOLDEN, Pins, digest, everything

HASHES = GOLDEN / "hashes.json"
KEPT = GOLDEN / "texts"
TEXTS = ("told/", "cards/", "help/", "imports/", "audits/", "mistakes/", "ids/")
LARGEST = 16_000  # bytes of a text that is kept whole
LINES = 40
ASKED = os.environ.get("TOOLLOOM_GOLDEN", "")

RECORDED: dict[str, str] = json.loads(HASHES.read_text()) if HASHES.exists() else {}


def subject(name: str) -> str:
    return name.rpartition("/")[0]


@pytest.fixture(scope="module")
def made(built_once: Callable[..., Path], tmp_path_factory: pytest.TempPathFactory) -> Pins:
    """What there is now."""
    folder = built_once("golden", lambda part: keep(part, tmp_path_factory.mktemp("golden")))
    files = (path for path in folder.rglob("*") if path.is_file())
    return {path.relative_to(folder).as_posix(): path.read_bytes() for path in files}


def keep(folder: Path, home: Path) -> None:
    """Make everything, and keep it in a folder that all workers read."""
    pins = everything(home)
    if ASKED == "record":
        record(pins)
    for root in (folder, *([Path(ASKED)] if ASKED not in ("", "record") else [])):
        for name, content in pins.items():
            path = root / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(content)


def record(pins: Pins) -> None:
    shutil.rmtree(KEPT, ignore_errors=True)
    for name, content in pins.items():
        if is_kept(name, content):
            path = KEPT / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(content)
    RECORDED.clear()
    RECORDED.update({name: digest(pins[name]) for name in sorted(pins)})
    HASHES.write_text(json.dumps(RECORDED, indent=0) + "\n")


def is_kept(name: str, content: bytes) -> bool:
    """Whether it is a text that shows by itself what changed in it."""
    return name.startswith(TEXTS) and not name.endswith(".jsonl") and len(content) <= LARGEST


@pytest.mark.parametrize("about", sorted(set(map(subject, RECORDED))))
def test_all_is_as_it_was_recorded(about: str, made: Pins) -> None:
    """Nothing is missing, new or changed."""
    now = {name: digest(content) for name, content in made.items() if subject(name) == about}
    then = {name: known for name, known in RECORDED.items() if subject(name) == about}
    faults = [f"missing: {name}" for name in sorted(then.keys() - now.keys())]
    faults += [f"new: {name}" for name in sorted(now.keys() - then.keys())]
    for name in sorted(now.keys() & then.keys()):
        if now[name] != then[name]:
            faults.append("\n".join((f"changed: {name}", *changes(name, made[name]))))
    assert not faults, "\n".join(faults)


def test_no_subject_is_new(made: Pins) -> None:
    """All that is made is compared."""
    assert set(map(subject, made)) == set(map(subject, RECORDED))


def changes(name: str, content: bytes) -> list[str]:
    """The first lines that differ, where the text is kept."""
    kept = KEPT / name
    if not kept.exists():
        return []
    before, after = kept.read_text().splitlines(), content.decode().splitlines()
    return list(difflib.unified_diff(before, after, "recorded", "now", lineterm="", n=1))[:LINES]
