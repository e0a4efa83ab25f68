import contextlib
import json
import os
import time
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from toolloom.pipeline.formats.importers import documents
from toolloom.pipeline.formats.importers.documents import load
from toolloom.pipeline.formats.importers.ledger import ImportLog
from toolloom.schemas import ImportFailed


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "zoo.yaml"


def read(file: Path, text: str | bytes) -> Any:
    file.write_bytes(text if isinstance(text, bytes) else text.encode())
    return load(file)


def test_yaml_values_stay_what_a_person_wrote(file: Path) -> None:
    """Only true and false are booleans; dates, times, `NO` and numbers with zeros are texts."""
    text = """
    day: 2024-05-01
    countries: [NO, SE, yes, on, off]
    time: 12:30
    code: 007
    open: true
    number: -12
    half: .5
    none: ~
    empty:
    quoted: "true"
    tagged: !!str 5
    endless: .inf
    """
    assert read(file, text) == {
        "day": "2024-05-01",
        "countries": ["NO", "SE", "yes", "on", "off"],
        "time": "12:30",
        "code": "007",
        "open": True,
        "number": -12,
        "half": 0.5,
        "none": None,
        "empty": None,
        "quoted": "true",
        "tagged": "5",
        "endless": ".inf",
    }


def test_keys_are_text(file: Path) -> None:
    """Response codes are numbers in YAML, and JSON has only texts as keys."""
    assert read(file, "200: a\ntrue: b\n1.5: c\n~: d\n? [x]\n: e\n") == {
        "200": "a",
        "true": "b",
        "1.5": "c",
        "null": "d",
        "?": "e",
    }


def test_merge_keys_fill_the_gaps(file: Path) -> None:
    """An object's own entries win over those it merges."""
    found = read(file, "base: &b {a: 1, b: 2}\nnew:\n  <<: *b\n  b: 3\n")
    assert found["new"] == {"a": 1, "b": 3}


def test_tags_build_nothing(file: Path) -> None:
    """A tag that would call a function in an unsafe loader is passed over."""
    text = "a: !!python/object/apply:os.system ['touch gone']\nb: !wombat {c: 1}\n"
    assert read(file, text) == {"a": ["touch gone"], "b": {"c": 1}}
    assert not Path("gone").exists()


def test_tabs_are_read(file: Path) -> None:
    """The faster parser refuses some tabs that YAML allows."""
    assert read(file, "a:\tone\nb: \t2\n") == {"a": "one", "b": 2}


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
        (b"a: [1\nb: 2", "line 2"),
        (b'{"a": "\xff\xfe"}', "Save it as UTF-8"),
        ('{"a": "ü"}'.encode("latin-1"), "Save it as UTF-8"),
        (b'{"a": ' * 100_000, "nested too deeply"),
        (b"[" * 100_000, "nested too deeply"),
        (b"- " * 5_000 + b"a", "nested too deeply"),
        (b"a: " + b"[" * 5_000, "nested too deeply"),
        (b"a: *nobody", "no anchor `nobody`"),
        (b"a: {b: }}", "line 1"),
        (b"a: \x00", "zoo.yaml is no YAML"),
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
    monkeypatch.setattr(documents, "LARGEST", 50)
    for name in (".", "pipe.json", "missing.json", "big.json", "nul\0.json"):
        with pytest.raises(ImportFailed):
            load(tmp_path / name)


def test_json_with_comments_is_read_as_yaml(file: Path) -> None:
    """A last comma or a comment in braces is no reason to refuse a file."""
    assert read(file, '{\n  "a": 1, # one\n  "b": [2,],\n}\n') == {"a": 1, "b": [2]}


def test_aliases_share_and_may_be_cyclic(file: Path) -> None:
    """Nine levels of nine aliases are one object each, not hundreds of millions."""
    lines = ["a0: &a0 {x: 1}"]
    lines += [f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 9)}]" for n in range(1, 10)]
    start = time.perf_counter()
    found = read(file, "\n".join([*lines, "me: &me {self: *me, <<: *me}"]))
    assert time.perf_counter() - start < 20
    assert found["a9"][0] is found["a8"]
    assert found["me"]["self"] is found["me"]


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


VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-(10**9), 10**9) | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=10,
)


@given(st.dictionaries(st.text(), VALUES))
def test_json_reads_as_json_does(tmp_path_factory: pytest.TempPathFactory, value: Any) -> None:
    """A file of legal JSON means what the standard library says."""
    file = tmp_path_factory.getbasetemp() / "any.json"
    file.write_text(json.dumps(value))
    assert load(file) == value


@given(st.text(alphabet="ab:-?&*!|>'\"{}[],#% \n\t<~1.", max_size=40))
def test_any_text_is_read_or_refused(tmp_path_factory: pytest.TempPathFactory, text: str) -> None:
    """Whatever stands in a file: a value or ImportFailed."""
    file = tmp_path_factory.getbasetemp() / "any.yaml"
    file.write_text(text)
    try:
        load(file)
    except ImportFailed as error:
        assert "any.yaml" in str(error)
