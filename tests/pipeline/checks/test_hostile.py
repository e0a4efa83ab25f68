"""Nothing a model or an API document holds makes the checks raise or stall."""

from __future__ import annotations

import contextlib
import datetime as dt
import time
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from support.json_values import SCALARS, json_values
from support.mutations import with_answer, with_call, with_observation

from toolloom.pipeline.checks import inspect
from toolloom.pipeline.checks.grounding import founded, mentions
from toolloom.pipeline.checks.schema import UncheckableSchema, oddity, violations
from toolloom.schemas import (
    Ability,
    Api,
    Dialogue,
    FunctionCall,
    Intention,
    Message,
    PlannedFault,
    Query,
    Reference,
    Scenario,
    ToolCall,
)


def nested(depth: int) -> Any:
    value: Any = 1
    for _ in range(depth):
        value = [value]
    return value


CYCLE: dict[str, Any] = {}
CYCLE["self"] = CYCLE
# Drawn by index, since hypothesis would print what cannot be printed.
ODD: list[Any] = [
    float("nan"), float("inf"), 10**5000, -(10**400), nested(5000), CYCLE, "\ud800", "\x00", "",
    {"a": {"$ref": "#"}}, b"bytes", object(), "((((", "a" * 50_000, {1: 2}, {"": ""}, [[]],
    "9" * 5000, "in 9999 years", "99:99", "2026-99-99", "P" * 50, "1/0 of 0/0", "½ ⅔ ٣ 三",
]  # fmt: skip
SCHEMAS: list[Any] = [
    {"type": 5},
    {"properties": 3},
    {"required": "x"},
    {"$ref": "#"},
    {"$ref": "http://localhost:1/schema.json"},
    {"$ref": "#/nowhere"},
    {"allOf": [{"$ref": "#"}, {"$ref": "#"}]},
    *(
        {"properties": {"x": {"pattern": p}}}
        for p in ("(a+)+$", "(a|aa)+$", "(aa?)+$", "(.*a){12}", "a*a*a*a*b", "((a*)*)*b")
    ),
    {"properties": {"x": {"pattern": "((((((("}}},
    {"properties": {"x": {"pattern": "a{99999999999}"}}},
    {"properties": {"x": {"enum": 7, "type": ["integer", 3], "default": []}}},
    {"properties": {"x": True, "y": False}},
    {"patternProperties": {"(a+)+$": {}}, "additionalProperties": False},
    {"properties": {"x": {"multipleOf": 0}}},
    {"properties": {"x": {"format": "date-time", "minimum": "low"}}},
    {"properties": {"x": {"items": 3, "description": 4, "title": []}}},
    nested(400),
    {"x": float("nan")},
    {"$id": "::::", "$schema": "nonsense", "$dynamicRef": "#x"},
]
KEYS = st.sampled_from(["x", "name", "status", "a"]) | st.text(max_size=4)
INDICES = st.integers(0, len(ODD) - 1)  # the values themselves have no text
values = json_values(SCALARS | st.floats() | INDICES.map(lambda i: ODD[i]), KEYS)
objects = st.dictionaries(
    st.sampled_from(["x", "y", "city"]) | st.text(max_size=4), values, max_size=3
)
contents = st.one_of(
    st.none(),
    st.text(max_size=60),
    st.sampled_from(
        ["What is 5 in words?", "[A(x=1)]", "no", '{"response": {"x": [1, "a"]}}', '{"response": NaN}',
         '{"response": ' + "[" * 400 + "]" * 400 + "}", '{"error": "bad"}', "in 3 days at 7pm", "." * 3000]
    ),
)  # fmt: skip
names = st.sampled_from(["f", "g", "api_search", "nope", ""])


@st.composite
def apis(draw: st.DrawFn, name: str) -> Api:
    known = [s for s in SCHEMAS if isinstance(s, dict)]
    schema = st.integers(0, len(known) - 1).map(lambda i: known[i]) | objects
    return Api(
        category="c", tool="t", name=name, function=name, description=draw(st.text(max_size=9)),
        parameters=draw(schema), returns=draw(st.none() | schema),
    )  # fmt: skip


@st.composite
def dialogues(draw: st.DrawFn) -> Dialogue:
    """Dialogues that are well-formed for pydantic and otherwise anything."""
    intents = st.builds(
        Intention,
        api=st.sampled_from(["c/t/f", "c/t/g", "c/t/none"]),
        turn=st.integers(0, 3),
        arguments=objects,
        references=st.dictionaries(st.sampled_from(["x", "y"]), st.builds(
            Reference, call=st.integers(0, 3), field=st.sampled_from(["x", ""])), max_size=1),
    )  # fmt: skip
    query = Query(
        id="q",
        ability=draw(st.sampled_from(Ability)),
        scenario=draw(st.sampled_from(Scenario)),
        now=draw(st.datetimes()),
        pool=(draw(apis("f")), draw(apis("g"))),
        intent=tuple(draw(st.lists(intents, max_size=3))),
        withheld=tuple(draw(st.lists(st.sampled_from(["x", "zz"]), max_size=2))),
        fault=draw(st.none() | st.builds(PlannedFault, call=st.integers(0, 4), error=st.text(max_size=9),
                                         transient=st.booleans())),
        text=draw(st.text(min_size=1, max_size=30)),
    )  # fmt: skip
    calls = st.builds(
        ToolCall,
        id=st.sampled_from(["1", "2", "3"]),
        function=st.builds(FunctionCall, name=names, arguments=objects | st.text(max_size=9)),
    )
    messages = st.builds(
        Message,
        role=st.sampled_from(["user", "assistant", "tool", "system"]),
        content=contents,
        tool_calls=st.lists(calls, max_size=2).map(tuple),
        tool_call_id=st.none() | st.sampled_from(["1", "2", "3"]),
        name=st.none() | names,
    )
    opening = [Message(role="system", content="s"), Message(role="user", content=query.text)]
    return Dialogue(query=query, messages=(*opening, *draw(st.lists(messages, max_size=6))))


@settings(suppress_health_check=list(HealthCheck))
@given(dialogues())
def test_inspect_never_raises(dialogue: Dialogue) -> None:
    """Whatever pydantic lets through gives findings, not an exception."""
    for finding in inspect(dialogue):
        assert finding.detail


@settings(suppress_health_check=list(HealthCheck))
@given(good=st.data(), value=values)
def test_good_dialogues_with_one_hostile_value_never_raise(
    good: st.DataObject, value: Any, all_good: list[Dialogue]
) -> None:
    """Arguments and observations of a well-formed dialogue may be anything at all."""
    dialogue = good.draw(st.sampled_from(all_good))
    for _, call in dialogue.calls():
        dialogue = with_call(dialogue, call, arguments={"x": value})
        dialogue = with_observation(dialogue, call, response=str(type(value)))
    inspect(dialogue)


@given(st.text(max_size=60), values, values, st.datetimes())
def test_grounding_never_raises(text: str, value: Any, schema: Any, now: dt.datetime) -> None:
    """Any text, any value and any schema get an answer."""
    mentions(text, value, schema, now)
    if not oddity(value) and not oddity(schema):  # as `plain_values` has it
        founded(value, [text], [{"a": text}], schema, now)


@pytest.mark.parametrize("schema", SCHEMAS, ids=range(len(SCHEMAS)))
def test_a_hostile_schema_is_refused_or_checked(schema: Any) -> None:
    """An invalid, endless or remote schema ends in UncheckableSchema, no address is fetched, and a
    pattern that may backtrack without end is not tried."""
    value = {"x": "a" * 300 + "!", "y": [1]}
    start = time.thread_time()
    with contextlib.suppress(UncheckableSchema):
        violations(schema, value)
    assert time.thread_time() - start < 10


@pytest.mark.parametrize(
    "letter", ["a", "a ", "A", "1", "1 ", "1,", ".", "?", "\n", '"', "(", "[", "é", "x@", "the ", "1/2 ", "at 7 "]
)  # fmt: skip
def test_long_monotonous_text_is_judged_in_time(letter: str, all_good: list[Dialogue]) -> None:
    """The longest reply that is read at all takes seconds at the very most, whatever it holds."""
    good = next(d for d in all_good if d.id == "two-cities")
    long = with_answer(good, (letter * 8_000)[:8_000])
    start = time.thread_time()
    inspect(long)
    assert time.thread_time() - start < 10
