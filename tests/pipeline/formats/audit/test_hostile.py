import copy
import json
import time
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support import foreign_rows

from toolloom.pipeline.formats.audit.audit import dumped, judged

KEYS = " ".join(
    [
        "from value role content name arguments parameters function tool_calls tool_call_id id",
        "function_call conversations messages tools system query answers chosen rejected prompt",
        "completion answer_generation train_messages tree node_type description children type",
        "observation api_list properties required functions parallel_tool_calls response error",
    ]
)
WORDS = [
    *("system", "user", "assistant", "tool", "function", "human", "gpt", "function_call"),
    *("observation", "Finish"),
    *("get_weather", "", "{", "[]", "{}", "{'a': 1}", '{"name": "f", "arguments": {}}', "\ud800"),
    *("<tool_call>", "</tool_call>", "<tools>[{}]</tools>", "<tool_response>1</tool_response>"),
    *(
        "\nThought: x\nAction: f\nAction Input: {",
        ": [{'name': 'f'}]",
        "<think>x</think>",
        "Action:",
    ),
]
SCALARS = (
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats()
    | st.sampled_from(WORDS)
    | st.text(max_size=8)
)
NAMES = st.sampled_from(KEYS.split()) | st.text(max_size=5)
VALUES = st.recursive(
    SCALARS,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(NAMES, inner, max_size=6),
    max_leaves=30,
)
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


def judge(folder: Path, format: str, rows: list[Any]) -> None:
    """Every row comes back, in order and judged, and can be written down."""
    found = foreign_rows.readings(folder, format, rows)
    assert len(found) == len(rows)
    for each in found:
        row = judged(each)
        assert each.dialogue is not None or row.findings
        json.dumps([f.model_dump(mode="json") for f in row.findings])
        assert dumped(row.as_json())


@pytest.mark.parametrize("format", foreign_rows.GOOD)
@given(rows=st.lists(ROWS, min_size=1, max_size=6))
def test_any_rows_are_read_or_refused(
    tmp_path_factory: pytest.TempPathFactory, format: str, rows: list[Any]
) -> None:
    """No reader raises for a JSON object, and none leaves a row out."""
    judge(tmp_path_factory.getbasetemp(), format, rows)


@pytest.mark.parametrize("format", foreign_rows.GOOD)
@given(data=st.data())
def test_damaged_rows_are_read_or_refused(
    tmp_path_factory: pytest.TempPathFactory, format: str, data: st.DataObject
) -> None:
    """A good row of which parts are wrong, gone or text is no reason to raise."""
    rows = [data.draw(mutations(row)) for row in foreign_rows.GOOD[format]]
    judge(tmp_path_factory.getbasetemp(), format, rows)


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
MANY = {
    "properties": {f"p{n}": {"example_value": 1} for n in range(40_000)},
    "required": [f"q{n}" for n in range(40_000)],
}
COSTLY = [
    {"conversations": [{"from": "human", "value": "<tool_call>" * 200_000}] * 3},
    {"conversations": [{"from": "gpt", "value": "<tool_call>{'" * 50_000 + "</tool_call>"}] * 3},
    {"conversations": [{"from": "gpt", "value": f"<tool_call>{CALL}</tool_call>" * 99}] * 400},
    {
        "conversations": [{"from": "function_call", "value": '{"' * 100_000}],
        "tools": '{"' * 100_000,
    },
    {
        "conversations": [
            {"from": "function_call", "value": f"[{CALL}{f', {CALL}' * 900}]"},
            {"from": "observation", "value": "x" * 3_000_000},
        ]
    },
    {"conversations": [{"from": "system", "value": ": [{" * 100_000}]},
    {"conversations": [{"from": r, "value": "\n" * 500_000} for r in ("system", "user", "gpt")]},
    {"conversations": [{"from": "gpt", "value": "Action:\n" * 50_000 + " " * 50_000}] * 2},
    {"messages": [{"role": "user", "content": "x"}] * 100_000, "tools": [{}] * 100_000},
    {"messages": [{"role": "tool", "content": DEEP}], "tools": DEEP, "conversations": DEEP},
    {"messages": [{"role": "assistant", "tool_calls": [NAMELESS] * 20_000}]},
    {"messages": [{"role": "assistant", "tool_calls": [NAMELESS] * 99}] * 400},
    {"messages": [{"role": "assistant", "tool_calls": [BROKEN] * 99}] * 9},
    {"conversations": [{"from": "gpt", "value": f"<tool_call>{HALF}</tool_call>" * 400}]},
    {"conversations": [{"from": "function_call", "value": HALF}] * 400},
    {"messages": [{"role": "system", "content": "Today is " * 50_000 + " " * 500_000}]},
    {"query": "x", "answers": DEEP, "tools": "[" + '{"parameters": ' * 300 + "1" + "}" * 300 + "]"},
    {"query": "x", "answers": "{'a': " * 10_000, "tools": [{"parameters": {"a": "List[" * 5_000}}]},
    {"query": "x", "answers": [], "tools": [{"name": "f", "parameters": {"a": " " * 500_000}}]},
    {"answer_generation": {"train_messages": [[{"role": "user", "content": nested(500)}]]}},
    {"messages": [{"role": "user", "content": "x"}], "tools": [SEARCH]},
    {"query": "x", "answers": [], "tools": [SPACED] * 20},
    {
        "answer_generation": {
            "function": [{"name": "f", "parameters": MANY}],
            "train_messages": [[{"role": "user", "content": "x"}]],
        }
    },
]


@pytest.mark.parametrize("format", foreign_rows.GOOD)
@pytest.mark.parametrize("number", range(len(COSTLY)))
def test_a_hostile_row_costs_little(tmp_path: Path, format: str, number: int) -> None:
    """Size, nesting and broken brackets are bounded: no row takes more than seconds."""
    began = time.process_time()
    judge(tmp_path, format, [COSTLY[number]])
    assert time.process_time() - began < 10
