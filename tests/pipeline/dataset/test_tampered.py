"""Whatever is changed in a version is found, and nothing in it crashes verification."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st
from support.json_values import json_values
from support.tampered import Row, fix, read_manifest, rows_of, write_rows

from toolloom.pipeline.dataset.verify import VerifyReport, verify
from toolloom.schemas import StoreError

MADE_OF_OTHERS = ("sft", "planning", "environments")
NUMBERS = {"toy": "1.1.0", "small": "1.0.0"}


@pytest.fixture(scope="module", params=NUMBERS)
def version(
    grown: Path,
    in_a_world: Path,
    tmp_path_factory: pytest.TempPathFactory,
    request: pytest.FixtureRequest,
) -> Path:
    """A copy of a version of five agents with instructions, or of dialogues in a world, beside the
    one that it follows."""
    home = tmp_path_factory.mktemp("tampered") / request.param
    outputs = grown if request.param == "toy" else in_a_world
    shutil.copytree(outputs / "datasets" / request.param, home, symlinks=True)
    return home / NUMBERS[request.param]


@contextmanager
def restored(version: Path) -> Iterator[None]:
    """Whatever is done to the files in between, they are afterwards as they were."""
    kept = version.with_name("kept")
    shutil.copytree(version, kept)
    try:
        yield
    finally:
        shutil.rmtree(version)
        kept.rename(version)


def forged(value: Any) -> Any:
    """A cell of the same type that holds something else."""
    if isinstance(value, int):
        return value + 1
    return "x" if isinstance(value, str) else [*value[:-1], "x", "x"]


def table(version: Path, data: st.DataObject, configs: Iterable[str]) -> tuple[str, str, list[Row]]:
    """The rows of a table that is drawn from these configs."""
    known = read_manifest(version)["configs"]
    drawn = st.sampled_from([(c, split) for c in known if c in configs for split in known[c]])
    config, split = data.draw(drawn)
    return config, split, rows_of(version, config, split)


def verified(version: Path, config: str, split: str, rows: list[Row]) -> VerifyReport:
    """What is found in the version with these rows, and all hashes made right."""
    with restored(version):
        write_rows(version, config, split, rows)
        fix(version)
        return verify(version)


few = settings(max_examples=6, suppress_health_check=[HealthCheck.too_slow])


@few
@given(data=st.data())
def test_a_flipped_bit_is_found_in_its_file(version: Path, data: st.DataObject) -> None:
    """Any bit of any file, and the file is named."""
    names = sorted(p.relative_to(version).as_posix() for p in version.rglob("*") if p.is_file())
    path = version / data.draw(st.sampled_from(names))
    raw = path.read_bytes()
    edited = bytearray(raw)
    edited[data.draw(st.integers(0, len(raw) - 1))] ^= 1 << data.draw(st.integers(0, 7))
    path.write_bytes(edited)
    try:
        faults = verify(version).faults
    finally:
        path.write_bytes(raw)
    name = path.relative_to(version).as_posix()
    assert any(name == fault.file or name in fault.detail for fault in faults)


def missing(rows: list[Row], data: st.DataObject) -> None:
    assume(len(rows) > 1)
    del rows[data.draw(st.integers(0, len(rows) - 1))]


def swapped(rows: list[Row], data: st.DataObject) -> None:
    assume(len(rows) > 1)
    place = data.draw(st.integers(0, len(rows) - 2))
    rows[place], rows[place + 1] = rows[place + 1], rows[place]


def edited(rows: list[Row], data: st.DataObject) -> None:
    row = data.draw(st.sampled_from(rows))
    column = data.draw(st.sampled_from(sorted(row)))
    row[column] = forged(row[column])


# What was rejected is not looked into; rows that are made of records stand in the order of these.
RECORDS = ("samples", "instructions", "apis", "worlds")
TAMPERED = [
    (missing, (*RECORDS, *MADE_OF_OTHERS, "rejected")),
    (swapped, ("samples", *MADE_OF_OTHERS)),
    (edited, (*RECORDS, *MADE_OF_OTHERS)),
]


@few
@given(data=st.data())
def test_tampered_rows_are_found(version: Path, data: st.DataObject) -> None:
    """Missing, swapped or edited, though all hashes and numbers of rows are made right again."""
    tamper, configs = data.draw(st.sampled_from(TAMPERED))
    config, split, rows = table(version, data, configs)
    tamper(rows, data)
    assert not verified(version, config, split, rows).good


def put(tree: Any, data: st.DataObject) -> Any:
    """The tree with something else at a place that is drawn."""
    if isinstance(tree, dict | list) and tree and data.draw(st.integers(0, 9)):
        keys = list(tree) if isinstance(tree, dict) else list(range(len(tree)))
        key = data.draw(st.sampled_from(keys))
        tree[key] = put(tree[key], data)
        return tree
    return data.draw(json_values())


@few
@given(data=st.data())
def test_no_record_crashes_verification(version: Path, data: st.DataObject) -> None:
    """Whatever JSON stands in the place of a part of it."""
    config, split, rows = table(version, data, (*RECORDS, "rejected"))
    row = data.draw(st.sampled_from(rows))
    columns = [n for n, text in row.items() if isinstance(text, str) and text[:1] in ("{", "[")]
    column = data.draw(st.sampled_from(columns))
    row[column] = json.dumps(put(json.loads(row[column]), data))
    verified(version, config, split, rows)


@few
@given(data=st.data())
def test_no_manifest_crashes_verification(version: Path, data: st.DataObject) -> None:
    """Whatever it says; but for another layout, which is told."""
    manifest = put(read_manifest(version), data)
    with restored(version):
        (version / "manifest.json").write_text(json.dumps(manifest, indent=2))
        try:
            assert not verify(version).good
        except StoreError as error:
            assert "layout" in str(error)
