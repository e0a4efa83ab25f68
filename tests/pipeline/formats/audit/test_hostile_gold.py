"""Nothing in a row of BFCL or API-Bank makes its reader raise."""

from __future__ import annotations

import copy
import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from toolloom.pipeline.formats.audit.audit import dumped, judged, reader

FUNCTION = {
    "name": "a.b",
    "description": "Does it.",
    "parameters": {
        "type": "dict",
        "properties": {
            "n": {"type": "integer", "default": 3},
            "of": {"type": "array", "items": {"type": "dict", "properties": {"k": {}}}},
        },
        "required": ["n"],
    },
}
GOOD: dict[str, list[Any]] = {
    "bfcl": [
        {
            "id": "q",
            "question": [[{"role": "user", "content": "Do 3 on 2024-05-03."}]],
            "function": [FUNCTION],
            "ground_truth": [{"a.b": {"n": [3, ""], "of": [[{"k": ["v"]}]]}}],
        }
    ],
    "api-bank": [
        {"role": "User", "text": "Do 3 on May 3rd."},
        {
            "role": "API",
            "api_name": "ToolSearcher",
            "param_dict": {"keywords": "do"},
            "result": {
                "api_name": "ToolSearcher",
                "input": {"keywords": "do"},
                "output": [{"name": "Do", "input_parameters": {"n": {"type": "int"}}}],
                "exception": None,
            },
        },
        {"role": "API", "api_name": "Do", "param_dict": {"n": "3"}, "result": {"output": 1}},
        {"role": "AI", "text": "Done."},
    ],
}
TRAINING = {
    "instruction": "The current time is 2039-03-09 18:56:09.",
    "input": '{"name": "Do", "input_parameters": {"n": {"type": "int"}}}\nUser: Do 3.\n',
    "output": "API-Request: [Do(n='3')]->{'output': 1, 'exception': None}",
}
NAMES = st.sampled_from(
    ["role", "text", "api_name", "output", "n", "k", "a.b", "type", "properties", "items"]
)
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats()
    | st.sampled_from(["", "User", "ToolSearcher", "api_search", "[Do(", "dict", "\ud800", "2024-05-03"])
    | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(NAMES, inner, max_size=4),
    max_leaves=12,
)  # fmt: skip


def places(value: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    found = [path]
    listed = enumerate(value) if isinstance(value, list) else ()
    for key, part in value.items() if isinstance(value, dict) else listed:
        found += places(part, (*path, key))
    return found


@st.composite
def damaged(draw: st.DrawFn, rows: list[Any]) -> list[Any]:
    """Good rows in which a few values are others, or gone."""
    made = copy.deepcopy(rows)
    for _ in range(draw(st.integers(1, 3))):
        *before, last = draw(st.sampled_from(places(made)[1:] or [(0,)]))
        inner: Any = made
        for key in before:
            inner = inner[key]
        if draw(st.booleans()) and len(before) > 0:
            del inner[last]
        elif made:
            inner[last] = draw(VALUES)
    return made


def judge(folder: Path, format: str, lines: list[str]) -> None:
    """Every row is read or refused, judged, and can be written down."""
    path = folder / "rows.jsonl"
    path.write_text("\n".join(lines), "utf-8", "surrogatepass")
    for reading in reader(format)(path):
        row = judged(reading)
        assert reading.dialogue is not None or row.findings
        assert dumped(row.as_json())


@pytest.mark.parametrize("format", GOOD)
@given(data=st.data())
def test_damaged_rows_are_read_or_refused(
    tmp_path_factory: pytest.TempPathFactory, format: str, data: st.DataObject
) -> None:
    """A good row of which parts are wrong or gone is no reason to raise."""
    rows = data.draw(damaged(GOOD[format]))
    judge(tmp_path_factory.getbasetemp(), format, [json.dumps(row) for row in rows])


@given(
    st.dictionaries(
        st.sampled_from([*TRAINING]),
        st.text(max_size=40) | st.sampled_from([*TRAINING.values()]) | VALUES,
        min_size=1,
    )
)
def test_any_training_row_is_read_or_refused(
    tmp_path_factory: pytest.TempPathFactory, row: dict[str, Any]
) -> None:
    """Whatever text stands where calls are looked for."""
    judge(tmp_path_factory.getbasetemp(), "api-bank", [json.dumps({**TRAINING, **row})])


@pytest.mark.parametrize("format", GOOD)
@pytest.mark.parametrize("depth", [70, 900])
def test_a_row_too_deep_to_judge_is_refused(tmp_path: Path, format: str, depth: int) -> None:
    """It is counted with the reason, and the audit goes on."""
    good = [json.dumps(row) for row in GOOD[format]]
    deep = "[" * depth + "]" * depth
    extra = '{"id": "d", "question": %s, "role": "AI"}' % deep  # noqa: UP031 - braces of JSON
    judge(tmp_path, format, [*good, extra])
