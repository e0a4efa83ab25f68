"""The one reader of YAML: values as they are written, with their lines, and everything bounded."""

from __future__ import annotations

import time
from typing import Any

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st
from support.json_values import json_values

from toolloom.schemas.yaml_reader import UnreadableYaml, read_yaml

TEXT = """\
name: shop   # a comment
tables:
  - key: order_id
    rows:
      - {n: 1, "yes": no}
note: |
  two
  lines
"""


def test_every_value_has_its_line() -> None:
    """A mistake can be told where it stands, also in lists and in braces."""
    found = read_yaml(TEXT)
    assert found.value == {
        "name": "shop",
        "tables": [{"key": "order_id", "rows": [{"n": 1, "yes": "no"}]}],
        "note": "two\nlines\n",
    }
    assert found.lines[("tables", 0, "key")] == 3
    assert found.lines[("tables", 0, "rows", 0, "n")] == found.lines[("tables", 0, "rows", 0)] == 5
    assert found.lines[("note",)] == 6
    assert read_yaml("a: 3\nb: true\n", plain=False).value == {"a": "3", "b": "true"}
    assert read_yaml(TEXT, shared=False).value["note"] == "two\nlines"


LAUGHS = "\n".join(
    ["a0: &a0 [1]", *(f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 9)}]" for n in range(1, 12))]
)


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("[" * 100_000, "nested too deeply"),
        ("- " * 100_000, "nested too deeply"),
        ("\n".join(" " * n + "a:" for n in range(2_000)), "nested too deeply"),
        (LAUGHS, "more than 100,000 values"),
        ("- 1\n" * 200_000, "more than 100,000 values"),
        ("a: &a {b: *a}", "refers to itself"),
        ("a: *b", "has no anchor"),
        ("a: b: c", "line 1: is not valid YAML: mapping values are not allowed"),
        ("a: 1\n\t- b", "line 2: is not valid YAML.*tab"),
        ("a: \x00", "is not valid YAML"),
    ],
)
def test_hostile_text_ends_soon_with_a_sentence(text: str, told: str) -> None:
    """Depth, number and aliases are bounded; nothing else than UnreadableYaml comes through."""
    began = time.thread_time()
    with pytest.raises(UnreadableYaml, match=told):
        read_yaml(text)
    assert time.thread_time() - began < 10


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("a: &b 1", "anchors and aliases are not read"),
        ("a: !!str 5", "the tag"),
        ("a: !x {}", "the tag"),
        ("a: 1\n---\nb: 2", "a second document"),
        ("{[1]: 2}", "a key must be plain text"),
    ],
)
def test_what_people_do_without_is_refused_where_asked(text: str, told: str) -> None:
    """Files of one's own hold plain values; others' documents may hold the rest."""
    with pytest.raises(UnreadableYaml, match=told):
        read_yaml(text, shared=False)
    read_yaml(text)


VALUES = json_values(
    st.none() | st.booleans() | st.integers(-(10**9), 10**9) | st.text(), st.text(max_size=9)
)


@given(VALUES)
def test_what_is_dumped_is_read_as_pyyaml_reads_it(value: Any) -> None:
    """Whatever PyYAML writes of plain values means here what it means there; it loses a U+0085."""
    dumped = yaml.safe_dump(value, allow_unicode=True)
    assert read_yaml(dumped).value == yaml.safe_load(dumped)
