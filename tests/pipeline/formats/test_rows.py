"""Files of any quality: documents, lines, rows."""

from __future__ import annotations

import contextlib
import json
import os
import time
import tracemalloc
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from toolloom.pipeline.formats import rows as rows_module
from toolloom.pipeline.formats.import_log import ImportLog
from toolloom.pipeline.formats.rows import (
    LONGEST_LINE,
    ForeignRow,
    foreign_rows,
    load,
    rows,
)
from toolloom.schemas import ImportFailed, StoreError


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "zoo.yaml"


def read(file: Path, text: str | bytes) -> Any:
    file.write_bytes(text if isinstance(text, bytes) else text.encode())
    return load(file)


WRITTEN = {
    "2024-05-01": "2024-05-01", "[NO, SE, yes, on, off]": ["NO", "SE", "yes", "on", "off"],
    "12:30": "12:30", "007": "007", "true": True, "-12": -12, ".5": 0.5, "~": None, "": None,
    '"true"': "true", "!!str 5": "5", ".inf": ".inf",
}  # fmt: skip


@pytest.mark.parametrize(
    ("text", "value"),
    [
        *((f"a: {text}", {"a": value}) for text, value in WRITTEN.items()),
        ("200: a\ntrue: b\n1.5: c\n~: d\n", {"200": "a", "true": "b", "1.5": "c", "~": "d"}),
        ("? [x]\n: e\n", {"?": "e"}),
        ("b: &b {a: 1}\nn: {<<: *b, c: 3}", {"b": {"a": 1}, "n": {"a": 1, "c": 3}}),
        ("a: !!python/object/apply:os.system ['touch gone']", {"a": ["touch gone"]}),
        ("b: !wombat {c: 1}", {"b": {"c": 1}}),
        ("a:\tone\nb: \t2\n", {"a": "one", "b": 2}),
        ('{\n  "a": 1, # one\n  "b": [2,],\n}\n', {"a": 1, "b": [2]}),
    ],
)
def test_yaml_is_what_a_person_wrote(file: Path, text: str, value: Any) -> None:
    """Only true and false are booleans; dates, times, `NO` and numbers with zeros are texts.

    Keys are text, as in JSON; an object's own entries win over those it merges; tags build
    nothing; tabs that the faster parser refuses, and comments in braces, are read.
    """
    assert read(file, text) == value
    assert not Path("gone").exists()


@pytest.mark.parametrize("text", ['{"a": 1, "b": 2, "a": 3}', "a: 1\nb: 2\na: 3\n"])
def test_a_key_twice_is_noted(file: Path, text: str) -> None:
    """The last value counts, and the report says that there was another."""
    file.write_text(text)
    ledger = ImportLog("zoo")
    assert load(file, ledger) == {"a": 3, "b": 2}
    report = ledger.report(imported=0)
    assert "`a`" in report.notes[0]
    assert report.bytes == len(text)


@pytest.mark.parametrize("coding", ["utf-8", "utf-8-sig", "utf-16", "utf-32"])
def test_byte_order_marks_tell_the_encoding(file: Path, coding: str) -> None:
    """Files saved on Windows are read as they are."""
    assert read(file, '{"näme": "Größe"}'.encode(coding)) == {"näme": "Größe"}


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (b'{"a": [1, 2', "line 1, column 12. It ends too early"),
        (b'{"a": 1,\n "b" 2}' * 2, "line 2"),
        (b'{"a": "\xff\xfe"}', "Save it as UTF-8"),
        ('{"a": "ü"}'.encode("latin-1"), "Save it as UTF-8"),
        (b'{"a": ' * 100_000, "nested too deeply"),
        (b"- " * 5_000 + b"a", "nested too deeply"),
        (b"a: {b: }}", "line 1"),
    ],
)
def test_what_cannot_be_read_says_where_and_why(file: Path, text: bytes, expected: str) -> None:
    """The message names the file and the place; no other exception comes through."""
    with pytest.raises(ImportFailed) as caught:
        read(file, text)
    assert "zoo.yaml" in str(caught.value)
    assert expected in str(caught.value)


def test_only_files_of_a_bearable_size_are_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A folder, a pipe, a missing or huge file fail at once instead of hanging."""
    os.mkfifo(tmp_path / "pipe.json")
    (tmp_path / "big.json").write_text('{"a": "' + "x" * 100 + '"}')
    monkeypatch.setattr(rows_module, "LARGEST", 50)
    for name in (".", "pipe.json", "missing.json", "big.json", "nul\0.json"):
        with pytest.raises(ImportFailed):
            load(tmp_path / name)


@pytest.mark.parametrize(
    "text",
    ['{"a": "' + "x" * 10_000_000 + '"}', "a: " + "x" * 10_000_000, "[" + "1," * 3_000_000 + "1"],
    ids=["json", "yaml", "cut"],
)
def test_ten_megabytes_on_one_line_are_read_or_refused_soon(file: Path, text: str) -> None:
    """No line is too long for a bounded time."""
    start = time.perf_counter()
    with contextlib.suppress(ImportFailed):
        read(file, text)
    assert time.perf_counter() - start < 20


@pytest.mark.parametrize(
    ("line", "why"),
    [
        ('{"a": ', "The line is not JSON: Expecting value at character 7."),
        ("x" * 90, "The line is longer than 20 bytes."),
    ],
)
def test_a_line_that_cannot_be_read_is_booked_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, line: str, why: str
) -> None:
    """It is skipped with its number, of one too long also the rest; the lines after it are read."""
    monkeypatch.setattr(rows_module, "LONGEST_LINE", 20)
    path = tmp_path / "a.jsonl"
    path.write_text(f'{{"a": 1}}\n{line}\n\n{{"a": 3}}\n')
    ledger = ImportLog("a.jsonl")
    assert [place for place, _ in rows(path, ledger)] == ["a.jsonl:1", "a.jsonl:4"]
    (skipped,) = ledger.report(imported=0).skipped
    assert (skipped.what, skipped.why) == ("a.jsonl:2", why)


ROWS = [{"id": n, "text": f"say «{n}» }}]\\"} for n in range(5)]


def rows_of(path: Path, content: str | bytes) -> list[ForeignRow]:
    path.write_bytes(content.encode() if isinstance(content, str) else content)
    return list(foreign_rows(path))


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("a.json", json.dumps(ROWS)),
        ("b.json", json.dumps(ROWS, indent=2)),
        ("c.jsonl", "\n".join(map(json.dumps, ROWS))),
        ("d.json", "\n".join(map(json.dumps, ROWS)) + "\n\n"),
        ("e.json", "\ufeff" + json.dumps(ROWS)),
    ],
)
def test_every_form_gives_the_same_rows(tmp_path: Path, name: str, content: str) -> None:
    """A list, JSON lines under either ending, with a byte order mark or none, and Parquet."""
    pq.write_table(pa.Table.from_pylist(ROWS), tmp_path / "a.parquet")
    assert [row.value for row in foreign_rows(tmp_path / "a.parquet")] == ROWS
    found = rows_of(tmp_path / name, content)
    assert [row.value for row in found] == ROWS
    assert found[2].place == f"{name}, row 3"


def test_a_folder_is_read_file_by_file(tmp_path: Path) -> None:
    """In the order of names; files of other kinds are passed over."""
    (tmp_path / "b.jsonl").write_text('{"n": 2}')
    (tmp_path / "a.json").write_text('[{"n": 1}]')
    (tmp_path / "notes.txt").write_text("not data")
    assert [row.value["n"] for row in foreign_rows(tmp_path)] == [1, 2]


def test_a_list_is_read_in_pieces(tmp_path: Path) -> None:
    """Memory holds a piece of a large file, wherever its rows are cut."""
    path = tmp_path / "large.json"
    row = json.dumps({"text": "x" * 1_000})
    path.write_text("[" + ",\n".join([row] * 20_000) + "]")
    tracemalloc.start()
    assert sum(1 for _ in foreign_rows(path)) == 20_000
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 8_000_000


@pytest.mark.parametrize(
    ("line", "fault", "raw"),
    [
        (b'{"n": 2,,}', "not JSON", '{"n": 2,,}'),
        (b'{"n": "\xff"}', "not UTF-8", '{"n": "\ufffd"}'),
        (b'"' + b"x" * (LONGEST_LINE + 10) + b'"', "bytes", '"' + "x" * 199),
    ],
    ids=["broken JSON", "half a character", "a line without end, which is not held"],
)
def test_a_line_that_cannot_be_read_is_a_row_with_a_fault(
    tmp_path: Path, line: bytes, fault: str, raw: str
) -> None:
    """It harms nothing else: the lines after it are read."""
    found = rows_of(tmp_path / "a.jsonl", b'{"n": 1}\n' + line + b'\n\n{"n": 3}\n')
    assert [row.value for row in found] == [{"n": 1}, None, {"n": 3}]
    assert fault in found[1].fault and found[1].raw == raw


@pytest.mark.parametrize(
    "content",
    ['[{"n": 1}, {"n": ', '[{"n": 1}', '[{"n": 1}, nonsense]', '[\n{"n": 1}]\n[{"n": 2}]\n'],
)
def test_a_list_that_ends_too_soon_gives_what_it_has(tmp_path: Path, content: str) -> None:
    """What can be read is read; the rest is one fault."""
    first, second = rows_of(tmp_path / "a.json", content)
    assert first.value == {"n": 1}
    assert "not JSON" in second.fault


@pytest.mark.parametrize(
    ("name", "content", "told"),
    [
        ("a.json", b"", "is empty"),
        ("a.jsonl", b" \n ", "is empty"),
        ("a.json", b"\x7fELF\x00\x00", "is not text"),
        ("a.json", b"\x1f\x8b\x08zipped", "Unpack it"),
        ("a.json", b"PAR1....PAR1", "`.parquet`"),
        ("a.parquet", b"PAR1 no more", "as Parquet"),
        ("a.parquet", b"", "as Parquet"),
    ],
)
def test_what_is_no_file_of_rows_is_refused(
    tmp_path: Path, name: str, content: bytes, told: str
) -> None:
    """With what it is, and what to do; so is what is not there, and a folder without any."""
    with pytest.raises(StoreError, match="holds no file"):
        list(foreign_rows(tmp_path))
    with pytest.raises(StoreError, match="does not exist"):
        list(foreign_rows(tmp_path / "none.json"))
    with pytest.raises(StoreError, match=told):
        rows_of(tmp_path / name, content)
