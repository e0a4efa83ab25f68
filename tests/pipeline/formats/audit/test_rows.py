"""Rows of files of any form, size and state."""

from __future__ import annotations

import json
import tracemalloc
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from toolloom.pipeline.formats.audit.rows import ForeignRow, rows
from toolloom.pipeline.formats.importers.rows import LONGEST_LINE
from toolloom.schemas import StoreError

VALUES = [{"id": n, "text": f"say «{n}» }}]\\"} for n in range(5)]


def read(path: Path, content: str | bytes) -> list[ForeignRow]:
    path.write_bytes(content.encode() if isinstance(content, str) else content)
    return list(rows(path))


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("a.json", json.dumps(VALUES)),
        ("b.json", json.dumps(VALUES, indent=2)),
        ("c.jsonl", "\n".join(map(json.dumps, VALUES))),
        ("d.json", "\n".join(map(json.dumps, VALUES)) + "\n\n"),
        ("e.json", "\ufeff" + json.dumps(VALUES)),
    ],
)
def test_every_form_gives_the_same_rows(tmp_path: Path, name: str, content: str) -> None:
    """A list, JSON lines under either ending, with or without a byte order mark."""
    found = read(tmp_path / name, content)
    assert [row.value for row in found] == VALUES
    assert found[2].place == f"{name}, row 3"


def test_parquet_gives_the_same_rows(tmp_path: Path) -> None:
    """Cells keep their values."""
    pq.write_table(pa.Table.from_pylist(VALUES), tmp_path / "a.parquet")
    assert [row.value for row in rows(tmp_path / "a.parquet")] == VALUES


def test_a_folder_is_read_file_by_file(tmp_path: Path) -> None:
    """In the order of names; files of other kinds are passed over."""
    (tmp_path / "b.jsonl").write_text('{"n": 2}')
    (tmp_path / "a.json").write_text('[{"n": 1}]')
    (tmp_path / "notes.txt").write_text("not data")
    assert [row.value["n"] for row in rows(tmp_path)] == [1, 2]


def test_a_list_is_read_in_pieces(tmp_path: Path) -> None:
    """Memory holds a piece of a large file, wherever its rows are cut."""
    path = tmp_path / "large.json"
    row = json.dumps({"text": "x" * 1_000})
    path.write_text("[" + ",\n".join([row] * 20_000) + "]")
    tracemalloc.start()
    assert sum(1 for _ in rows(path)) == 20_000
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 8_000_000


def test_a_broken_line_is_a_row_with_a_fault(tmp_path: Path) -> None:
    """The lines after it are read."""
    found = read(tmp_path / "a.jsonl", '{"n": 1}\n{"n": 2,,}\n\n{"n": 3}\n')
    assert [row.value for row in found] == [{"n": 1}, None, {"n": 3}]
    assert "no JSON" in found[1].fault and found[1].raw == '{"n": 2,,}'


@pytest.mark.parametrize("content", ['[{"n": 1}, {"n": ', '[{"n": 1}', '[{"n": 1}, nonsense]'])
def test_a_list_that_ends_too_soon_gives_what_it_has(tmp_path: Path, content: str) -> None:
    """What can be read is read; the rest is one fault."""
    first, second = read(tmp_path / "a.json", content)
    assert first.value == {"n": 1}
    assert "no JSON" in second.fault


def test_a_line_without_end_is_one_fault(tmp_path: Path) -> None:
    """It is passed over without being held."""
    path = tmp_path / "a.jsonl"
    with path.open("wb") as file:
        file.write(b'{"n": 1}\n"' + b"x" * (LONGEST_LINE + 10) + b'"\n{"n": 2}\n')
    found = list(rows(path))
    assert [row.value for row in found] == [{"n": 1}, None, {"n": 2}]
    assert "bytes" in found[1].fault


def test_half_a_character_is_a_fault_of_its_line(tmp_path: Path) -> None:
    """Bytes that are no UTF-8 harm nothing else."""
    found = read(tmp_path / "a.jsonl", b'{"n": 1}\n{"n": "\xff"}\n{"n": 3}\n')
    assert [bool(row.fault) for row in found] == [False, True, False]


@pytest.mark.parametrize(
    ("name", "content", "told"),
    [
        ("a.json", b"", "is empty"),
        ("a.jsonl", b" \n ", "is empty"),
        ("a.json", b"\x7fELF\x00\x00", "is no text"),
        ("a.json", b"\x1f\x8b\x08zipped", "Unpack it"),
        ("a.json", b"PAR1....PAR1", "`.parquet`"),
        ("a.parquet", b"PAR1 no more", "as Parquet"),
        ("a.parquet", b"", "as Parquet"),
    ],
)
def test_what_is_no_file_of_rows_is_refused(
    tmp_path: Path, name: str, content: bytes, told: str
) -> None:
    """With what it is, and what to do."""
    with pytest.raises(StoreError, match=told):
        read(tmp_path / name, content)


def test_what_is_not_there_is_refused(tmp_path: Path) -> None:
    """A missing file, and a folder without any."""
    with pytest.raises(StoreError, match="does not exist"):
        list(rows(tmp_path / "none.json"))
    with pytest.raises(StoreError, match="holds no file"):
        list(rows(tmp_path))
