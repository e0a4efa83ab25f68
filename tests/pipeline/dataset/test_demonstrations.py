"""Demonstrations: every API occurs, with few samples, and none gives an answer away."""

from __future__ import annotations

import datetime as dt
import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support import toys

from toolloom.pipeline.dataset.complexity import (
    Demonstration,
    Retriever,
    demonstration,
    repository,
    signature,
    stem,
)
from toolloom.schemas import Dialogue, FunctionCall, Message, Sample, ToolCall, Verdict

NAMES = ("current", "forecast", "history", "alerts", "tides")


def sample(identity: str, *names: str, said: tuple[str, ...] = ("Do it.",), **more: Any) -> Sample:
    """A sample that calls these APIs, one after the other, after the user's turns."""
    pool = tuple(toys.api(name=name) for name in NAMES)
    query = toys.query(0, id=identity, pool=pool, text=said[0], **more)
    messages = [Message(role="user", content=text) for text in said]
    for place, name in enumerate(names):
        call = FunctionCall(name=f"weather_{name}", arguments={"city": identity})
        messages.append(
            Message(role="assistant", tool_calls=(ToolCall(id=f"c{place}", function=call),))
        )
        messages.append(result(f"c{place}", call.name))
    return Sample(dialogue=Dialogue(query=query, messages=tuple(messages)), verdict=Verdict())


def result(call: str, name: str, error: str | None = None) -> Message:
    seen = json.dumps({"response": None if error else 7, "error": error})
    return Message(role="tool", content=seen, tool_call_id=call, name=name)


def ids(*names: str) -> tuple[str, ...]:
    return tuple(f"weather/station/{name}" for name in names)


def shown(goal: str, identity: str = "d", **arguments: Any) -> Demonstration:
    call = FunctionCall(name="f", arguments=arguments or {"goal": goal})
    return Demonstration(identity, goal, dt.datetime(2026, 3, 2), (call,), ("f",), True)


def test_every_api_occurs_with_few_samples() -> None:
    """Whoever shows most new APIs comes first, and nobody who shows none."""
    found = repository(
        [
            sample("a", "current"),
            sample("b", "current", "forecast", "history"),
            sample("c", "forecast"),
            sample("d", "alerts", "history"),
        ],
        ids(*NAMES),
    )
    assert [one.id for one in found.demonstrations] == ["b", "d"]
    assert found.uncovered == ids("tides")


def test_samples_of_one_turn_come_first() -> None:
    """Others serve only for APIs that none of one turn calls."""
    long = sample("a", "current", "forecast", "history", said=("Do it.", "And more."))
    found = repository([long, sample("b", "current"), sample("c", "forecast")])
    assert [one.id for one in found.demonstrations] == ["b", "c", "a"]
    assert found.demonstrations[-1].goal == "Do it.\nAnd more."
    twice = [sample("a", "current", said=("Do it.", "Now.")), sample("b", "current")]
    assert [one.id for one in repository(twice).demonstrations] == ["b"]


def test_calls_that_failed_and_searches_are_no_calls() -> None:
    """A sample without a successful call demonstrates nothing."""
    one = sample("a", "current")
    messages = (*one.dialogue.messages[:-1], result("c0", "weather_current", "503"))
    failed = one.model_copy(
        update={"dialogue": one.dialogue.model_copy(update={"messages": messages})}
    )
    assert demonstration(failed) is None
    found = demonstration(sample("b", "current", "current"))
    assert found and found.apis == ids("current", "current")


@given(st.lists(st.lists(st.sampled_from(NAMES), min_size=1, max_size=4), max_size=12))
def test_there_are_at_most_as_many_as_apis(calls: list[list[str]]) -> None:
    """Each shows an API that those before do not, and all that is called is shown."""
    samples = [sample(f"s{place}", *names) for place, names in enumerate(calls)]
    found = repository(samples, ids(*NAMES))
    called = {name for names in calls for name in names}
    assert len(found.demonstrations) <= len(called)
    assert {api for one in found.demonstrations for api in one.apis} == {*ids(*called)}
    assert found.uncovered == tuple(sorted({*ids(*NAMES)} - {*ids(*called)}))
    assert repository(samples, ids(*NAMES)) == found


@pytest.mark.parametrize(
    ("identity", "wanted"),
    [
        ("train-7-000001-x000004", "train-7-000001"),
        ("train-7-000001-x000004-x000002", "train-7-000001"),
        ("train-7-000001", "train-7-000001"),
        ("max-xx1", "max-xx1"),
    ],
)
def test_rows_of_a_template_share_a_stem(identity: str, wanted: str) -> None:
    """It is the template's id."""
    assert stem(identity) == wanted


def test_the_most_similar_come_first() -> None:
    """As many as are asked for, and none without a common word."""
    found = Retriever([shown("weather in Oslo"), shown("a train to Rome"), shown("trains, Oslo")])
    wanted = [one.goal for one in found.similar("Which train goes to Oslo?", 5)]
    assert wanted == ["a train to Rome", "trains, Oslo", "weather in Oslo"]
    assert len(found.similar("Which train goes to Oslo?", 1)) == 1
    assert found.similar("Bonjour", 3) == found.similar("Oslo", 0) == found.similar("?", 3) == []
    assert Retriever([]).similar("Oslo", 3) == []


def test_nothing_that_gives_the_answer_away_is_shown() -> None:
    """Not the sample, not its template's rows, not the same calls in another order."""
    near = [
        shown("weather in Oslo today", "t-1", city="Oslo"),
        shown("weather in Oslo now", "t-2-x000001", city="Rome"),
        shown("the weather in Oslo", "t-3", city="Bern"),
        shown("weather, Turin", "t-4", city="Turin"),
    ]
    found = Retriever(near)
    calls = [FunctionCall(name="f", arguments={"city": "Bern"})]
    wanted = found.similar("weather in Oslo", 2, "t-1-x000007", calls)
    assert [one.id for one in wanted] == ["t-2-x000001", "t-4"]
    again = found.similar("weather in Oslo", 9, "t-2-x000009")
    assert "t-2-x000001" not in {one.id for one in again} and len(again) == 3


def test_calls_have_one_signature_in_any_order() -> None:
    """Keys of arguments have no order either."""
    one = FunctionCall(name="f", arguments={"a": 1, "b": 2})
    other = FunctionCall(name="g", arguments={})
    turned = FunctionCall(name="f", arguments={"b": 2, "a": 1})
    assert signature([one, other]) == signature([other, turned]) != signature([other])
