"""The frame of an audit: which checks run, what is counted, what is written."""

from __future__ import annotations

import copy
import json
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support import foreign_rows
from support.json_values import SCALARS, json_values

from toolloom.pipeline.checks import CHECKS
from toolloom.pipeline.formats.api_bank import is_bank_row
from toolloom.pipeline.formats.audit import (
    TABLE,
    audit,
    audited,
    dumped,
    flagged_rows,
    judged,
    write_report,
)
from toolloom.schemas import StoreError

PRICE = {
    "name": "shop.price",
    "description": "What items cost.",
    "parameters": {
        "type": "object",
        "properties": {"item": {"type": "string"}, "count": {"type": "integer"}},
        "required": ["item"],
    },
}


def question(number: int, said: str, **arguments: Any) -> dict[str, Any]:
    """A row of OpenAI messages that ends with a call."""
    called = {"name": "shop.price", "arguments": json.dumps(arguments)}
    call = {"id": "c1", "type": "function", "function": called}
    return {
        "id": f"q{number}",
        "messages": [
            {"role": "user", "content": said},
            {"role": "assistant", "tool_calls": [call]},
        ],
        "tools": [{"type": "function", "function": PRICE}],
    }


@pytest.fixture
def file(tmp_path: Path) -> Path:
    """Two good rows, one with two faults, one that is none."""
    rows: list[Any] = [
        question(1, "What are 3 tulips?", item="tulip", count=3),
        question(2, "What is a rose?", item="rose"),
        question(3, "What are 3 tulips?", kind="tulip", count=3),
        ["no row"],
    ]
    path = tmp_path / "questions.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path


def test_findings_are_counted_by_reason(file: Path) -> None:
    """Rows and findings are two numbers; examples name the row, checks the rows they ran on."""
    flagged: list[Any] = []
    report = audit(file, examples=1, flag=flagged.append)
    assert (report.rows, report.dialogues, report.calls, report.flagged) == (4, 3, 3, 2)
    assert report.checks["fitting_arguments"] == 3 and "fitting_observations" not in report.checks
    told = report.as_json()["reasons"]
    counts = {name: (reason["rows"], reason["findings"]) for name, reason in told.items()}
    names = ("missing_input_parameters", "invalid_input_parameters", "malformed_dialogue")
    assert counts == dict.fromkeys(names, (1, 1))
    example = told["missing_input_parameters"]["examples"][0]
    assert example["place"] == "questions.jsonl, row 3" and "`item`" in example["detail"]
    assert [row["row"] for row in flagged] == [
        question(3, "What are 3 tulips?", kind="tulip", count=3),
        ["no row"],
    ]


def test_checks_of_the_intent_are_in_no_audit() -> None:
    """Nobody tells the intent of others' data."""
    audits = {check.__name__ for group in TABLE for check, _ in group}
    generated = {check.__name__ for group in CHECKS for check in group}
    assert not audits & {"intended_calls", "mentioned_values", "opening_request"}
    assert audits - generated == {"turn_order", "leaked_calls", "kept_values"}


def test_rows_that_are_no_dialogues_are_told(tmp_path: Path) -> None:
    """A file of which no row is a dialogue is a mistake of the command, not of the data."""
    path = tmp_path / "a.json"
    path.write_text('[{"n": 1}, {"n": 2}]')
    with pytest.raises(StoreError, match="none of its 2 rows is a dialogue.*OpenAI's messages"):
        audit(path)


def test_each_row_tells_its_form(tmp_path: Path) -> None:
    """Messages and conversations may stand in one file; nobody names a format."""
    found = foreign_rows.readings(tmp_path, [foreign_rows.TRL, foreign_rows.SHAREGPT])
    assert [foreign_rows.findings(one) for one in found] == [[], []]
    assert foreign_rows.calls(found[0]) == foreign_rows.calls(found[1])


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
    out = tmp_path / "flagged.jsonl"

    def write_all(rows: Iterator[dict[str, Any]]) -> None:
        with flagged_rows(out, tmp_path / "in") as write:
            for row in rows:
                write(row)

    def ends_early() -> Iterator[dict[str, Any]]:
        yield {"n": 1}
        raise KeyError

    with pytest.raises(KeyError):
        write_all(ends_early())
    assert [*tmp_path.iterdir()] == []
    write_all(iter([{"n": "\ud800"}, {"n": 2}]))
    assert [json.loads(line)["n"] for line in out.read_text().splitlines()] == ["?", 2]


def test_nothing_is_written_over_what_is_audited(file: Path, tmp_path: Path) -> None:
    """Neither by the flagged rows nor by the report, nor is a folder taken for a file."""
    with pytest.raises(StoreError, match="is what is audited"), flagged_rows(file, file):
        pass
    report = audit(file)
    with pytest.raises(StoreError, match="is what is audited"):
        write_report(file, report, file)
    with pytest.raises(StoreError, match="is a folder"):
        write_report(tmp_path, report, file)
    with pytest.raises(StoreError, match="cannot be written"):
        write_report(file / "report.json", report, file)


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


def places(value: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    """The path of every value within a row."""
    found = [path]
    listed = enumerate(value) if isinstance(value, list) else ()
    for key, part in value.items() if isinstance(value, dict) else listed:
        found += places(part, (*path, key))
    return found


@st.composite
def mutations(draw: st.DrawFn, row: Any) -> Any:
    """A good row in which a few values are others, gone, or JSON text."""
    made = copy.deepcopy(row)
    for _ in range(draw(st.integers(1, 3))):
        path = draw(st.sampled_from(places(made)[1:] or [()]))
        if not path:
            break
        inner = made
        for key in path[:-1]:
            inner = inner[key]
        how = draw(st.sampled_from(["other", "gone", "text", "repr"]))
        if how == "other":
            inner[path[-1]] = draw(VALUES)
        elif how == "gone":
            del inner[path[-1]]
        else:
            inner[path[-1]] = (json.dumps if how == "text" else repr)(inner[path[-1]])
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
    {"conversations": [{"from": "gpt", "value": f"<tool_call>{HALF}</tool_call>" * 100}]},
    {"conversations": [{"from": "function_call", "value": HALF}] * 100},
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
