"""The frame of an audit: what is read, what is written, and what hostile rows cost."""

from __future__ import annotations

import copy
import json
import time
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support import foreign_rows
from support.json_values import SCALARS, json_values, places

from toolloom.pipeline.formats.api_bank import is_bank_row
from toolloom.pipeline.formats.audit import (
    AuditReport,
    audit,
    audited,
    dumped,
    judged,
)
from toolloom.schemas import StoreError


def test_a_large_file_of_another_format_is_not_read_to_its_end(tmp_path: Path) -> None:
    """After some hundred rows without a dialogue the audit stops."""
    path = tmp_path / "a.jsonl"
    path.write_text('{"n": 1}\n' * 5_000)
    seen = 0
    with pytest.raises(StoreError, match="its first 200 rows"):
        for _ in audited(path):
            seen += 1
    assert seen < 300


def test_flagged_rows_are_there_when_all_are_written(tmp_path: Path) -> None:
    """An audit that ends early leaves no half file."""
    out, path = tmp_path / "out" / "flagged.jsonl", tmp_path / "rows.jsonl"
    rows = [{"n": "\ud800"}, foreign_rows.TRL, {"n": 2}]
    path.write_text("".join(f"{json.dumps(row)}\n" for row in rows))

    def end_early(so_far: AuditReport) -> None:
        if so_far.flagged == 2:
            raise KeyError

    with pytest.raises(KeyError):
        audit(path, flagged=out, tell=end_early)
    assert [*out.parent.iterdir()] == []
    audit(path, flagged=out)
    written = [json.loads(line)["row"]["n"] for line in out.read_text().splitlines()]
    assert written == ["?", 2]


KEYS = """
    from value role content name arguments parameters function tool_calls tool_call_id id
    function_call conversations messages tools system chosen rejected prompt
    completion description type properties required functions parallel_tool_calls response
    error text api_name param_dict result output input instruction
"""
WORDS = [
    *("system", "user", "assistant", "tool", "function", "human", "gpt", "function_call"),
    *("observation", "User", "AI", "API", "ToolSearcher", "api_search", "[Do(", "dict"),
    *("get_weather", "", "{", "[]", "{}", "{'a': 1}", '{"name": "f", "arguments": {}}', "\ud800"),
    *("<tool_call>", "</tool_call>", "<tools>[{}]</tools>", "<tool_response>1</tool_response>"),
    "<think>x</think>",
]
NAMES = st.sampled_from(KEYS.split()) | st.text(max_size=5)
VALUES = json_values(SCALARS | st.floats() | st.sampled_from(WORDS), NAMES, size=5, most=30)
ROWS = st.dictionaries(NAMES, VALUES, max_size=8)


@st.composite
def mutations(draw: st.DrawFn, row: Any) -> Any:
    """A good row in which a few values are others, gone, or JSON text."""
    made = copy.deepcopy(row)
    for _ in range(draw(st.integers(1, 3))):
        if not (found := list(places(made))):
            break
        inner, key = draw(st.sampled_from(found))
        how = draw(st.sampled_from(["other", "gone", "text", "repr"]))
        if how == "other":
            inner[key] = draw(VALUES)
        elif how == "gone":
            del inner[key]
        else:
            inner[key] = (json.dumps if how == "text" else repr)(inner[key])
    return made


def judge(folder: Path, rows: list[Any]) -> None:
    """Every row comes back, in order and judged, and can be written down."""
    found = foreign_rows.readings(folder, rows)
    is_bank = any(is_bank_row(row) for row in rows)  # where several rows are a dialogue
    assert len(found) == len(rows) or is_bank
    for each in found:
        row = judged(each)
        assert each.dialogue is not None or row.findings
        json.dumps([f.model_dump(mode="json") for f in row.findings])
        assert dumped(row.as_json())


@given(rows=st.lists(ROWS, min_size=1, max_size=3))
def test_any_rows_are_read_or_refused(
    tmp_path_factory: pytest.TempPathFactory, rows: list[Any]
) -> None:
    """No reader raises for a JSON object, and none leaves a row out."""
    judge(tmp_path_factory.getbasetemp(), rows)


@pytest.mark.parametrize("format", foreign_rows.GOOD)
@given(data=st.data())
def test_damaged_rows_are_read_or_refused(
    tmp_path_factory: pytest.TempPathFactory, format: str, data: st.DataObject
) -> None:
    """A good row of which parts are wrong, gone or text is no reason to raise."""
    rows = [data.draw(mutations(row)) for row in foreign_rows.GOOD[format]]
    judge(tmp_path_factory.getbasetemp(), rows)


def nested(depth: int) -> Any:
    value: Any = 1
    for _ in range(depth):
        value = [value]
    return value


DEEP = "[" * 900 + "]" * 900
CALL = '{"name": "f", "arguments": {}}'
NAMELESS = {"function": {"name": "f"}}
HALF = '{"' * 1_000
BROKEN = {"function": {"name": "f", "arguments": HALF}}
SEARCH = {"name": "api_search", "parameters": {"properties": 5}}
SPACED = {"name": "f", "parameters": {f"p{n}": {"type": f"a{' ' * 197}b"} for n in range(50)}}
MANY_VALUES = {f"p{n}": {"example_value": 1} for n in range(40_000)}
MANY_NEEDED = [f"q{n}" for n in range(40_000)]
MANY = {"name": "f", "parameters": {"properties": MANY_VALUES, "required": MANY_NEEDED}}
MANY_CALLS = {"from": "function_call", "value": f"[{CALL}{f', {CALL}' * 900}]"}
HUGE = '{"' * 100_000
ASKED = {"role": "user", "content": "x"}
COSTLY = [
    {"conversations": [{"from": "human", "value": "<tool_call>" * 200_000}] * 3},
    {"conversations": [{"from": "gpt", "value": "<tool_call>{'" * 50_000 + "</tool_call>"}] * 3},
    {"conversations": [{"from": "gpt", "value": f"<tool_call>{CALL}</tool_call>" * 99}] * 400},
    {"conversations": [{"from": "function_call", "value": HUGE}], "tools": HUGE},
    {"conversations": [MANY_CALLS, {"from": "observation", "value": "x" * 3_000_000}]},
    {"conversations": [{"from": r, "value": "\n" * 500_000} for r in ("system", "user", "gpt")]},
    {"messages": [ASKED] * 100_000, "tools": [{}] * 100_000},
    {"messages": [{"role": "tool", "content": DEEP}], "tools": DEEP, "conversations": DEEP},
    {"messages": [{"role": "assistant", "tool_calls": [NAMELESS] * 20_000}]},
    {"messages": [{"role": "assistant", "tool_calls": [NAMELESS] * 99}] * 400},
    {"messages": [{"role": "assistant", "tool_calls": [BROKEN] * 99}] * 3},
    {"messages": [{"role": "system", "content": "Today is " * 50_000 + " " * 500_000}]},
    {"instruction": "The current time is 2039-13-09 18:56.", "output": "AI: Yes."},
    {"messages": [ASKED], "tools": [SEARCH, *[SPACED] * 20, MANY]},
    {"messages": [{**ASKED, "content": nested(500)}]},
]


@pytest.mark.parametrize("number", range(len(COSTLY)))
def test_a_hostile_row_costs_little(tmp_path: Path, number: int) -> None:
    """Size, nesting and broken brackets are bounded: no row takes more than seconds."""
    began = time.process_time()
    judge(tmp_path, [COSTLY[number]])
    assert time.process_time() - began < 10
