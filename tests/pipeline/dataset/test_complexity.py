"""The complexity score of appendix D against its definition; golden/ has those of whole versions."""

from __future__ import annotations

import datetime as dt
import json
import math
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support import toys
from support.shop import changed

from toolloom.pipeline.dataset.demonstrations import (
    Combination,
    Demonstration,
    Retriever,
    complexity,
    demonstration,
    measure,
    repository,
)
from toolloom.pipeline.store.version import Version, find_version
from toolloom.schemas import (
    Dialogue,
    FunctionCall,
    Message,
    NothingFound,
    Sample,
    ToolCall,
    Verdict,
)

LN2 = math.log(2)
CALLS = st.lists(st.sampled_from("abcd"), min_size=1, max_size=4).map(
    lambda found: tuple(sorted(found))
)


@pytest.fixture(scope="module")
def version(outputs: Path) -> Version:
    """A dataset that the scripted endpoint played."""
    return find_version(outputs, "toy/1.0.0")


def distance(test: Sequence[str], example: Sequence[str], apis: int) -> float:
    """-ln p(t|e, D), by the paper's definition."""
    lacking = (Counter(test) - Counter(example)).total()
    return len(example) * LN2 + lacking * math.log(apis)


def reversed_f1(test: Sequence[str], example: Sequence[str]) -> float:
    """(1 - F1) * 100, on multisets."""
    shared = (Counter(test) & Counter(example)).total()
    return (1 - 2 * shared / (len(test) + len(example))) * 100


def test_the_example_of_the_paper() -> None:
    """D.1.1: two calls are lacking, of ten APIs: 7.3778."""
    assert distance("abfde", "abcd", 10) == pytest.approx(7.3778, abs=1e-4)
    figures = measure(Counter([tuple("abdef")]), Counter([tuple("abcd")]), 10)
    found = (figures["score"], figures["reversed_f1"])
    assert found == pytest.approx((7.3778, 100 / 3), abs=1e-4)


@given(st.lists(CALLS, min_size=1, max_size=8), st.lists(CALLS, min_size=1, max_size=8))
def test_the_nearest_example_is_that_of_the_definition(
    tests: list[Combination], examples: list[Combination]
) -> None:
    """Both scores are means of minima over all pairs, however often a combination occurs."""
    figures = measure(Counter(tests), Counter(examples), 7)
    far = [min(distance(t, e, 7) for e in examples) for t in tests]
    f1 = [min(reversed_f1(t, e) for e in examples) for t in tests]
    assert figures["score"] == pytest.approx(sum(far) / len(far))
    assert figures["reversed_f1"] == pytest.approx(sum(f1) / len(f1), abs=1e-9)
    assert figures["seen_samples"] == sum(t in examples for t in tests) / len(tests)
    assert figures["seen"] == len({*tests} & {*examples}) / len({*tests})
    for hard in figures["hardest"]:
        assert hard.distance == pytest.approx(distance(hard.apis, hard.nearest, 7))
        assert hard.lacking == tuple(
            sorted((Counter(hard.apis) - Counter(hard.nearest)).elements())
        )


@pytest.mark.parametrize("choice", [{"test": "dev"}, {"examples": "dev"}])
def test_a_split_without_samples_is_refused(version: Version, choice: dict[str, Any]) -> None:
    """The message lists those that have some."""
    with pytest.raises(NothingFound, match="'dev'.*train, validation, test_instruction"):
        complexity(version, **choice)


def test_a_version_without_apis_is_refused(version: Version) -> None:
    """|D| would not be known."""
    configs = {**version.manifest["configs"], "apis": {}}
    bare = Version(version.path, {**version.manifest, "configs": configs})
    with pytest.raises(NothingFound, match="its config `apis` is empty"):
        complexity(bare)


# -- Demonstrations: every API occurs, with few samples, and none gives an answer away ----------------


NAMES = ("current", "forecast", "history", "alerts", "tides")


def sample(identity: str, *names: str, said: tuple[str, ...] = ("Do it.",), **more: Any) -> Sample:
    """A sample that calls these APIs, one after the other, after the user's turns."""
    pool = tuple(toys.api(name=name) for name in NAMES)
    query = toys.query(0, id=identity, pool=pool, text=said[0], **more)
    messages = [Message(role="user", content=text) for text in said]
    for place, name in enumerate(names):
        messages += called(f"c{place}", f"weather_{name}", city=identity)
    return Sample(dialogue=Dialogue(query=query, messages=tuple(messages)), verdict=Verdict())


def called(call: str, name: str, error: str | None = None, **arguments: Any) -> list[Message]:
    """A call and its result."""
    made = ToolCall(id=call, function=FunctionCall(name=name, arguments=arguments))
    seen = json.dumps({"response": None if error else 7, "error": error})
    return [
        Message(role="assistant", tool_calls=(made,)),
        Message(role="tool", content=seen, tool_call_id=call, name=name),
    ]


def ids(*names: str) -> tuple[str, ...]:
    return tuple(f"weather/station/{name}" for name in names)


def example(goal: str, identity: str = "d", **arguments: Any) -> Demonstration:
    call = FunctionCall(name="f", arguments=arguments or {"goal": goal})
    return Demonstration(identity, goal, dt.datetime(2026, 3, 2), (call,), ("f",), True)


def test_samples_of_one_turn_come_first() -> None:
    """Others serve only for APIs that none of one turn calls."""
    long = sample("a", "current", "forecast", "history", said=("Do it.", "And more."))
    found = repository([long, sample("b", "current"), sample("c", "forecast")])
    assert [one.id for one in found] == ["b", "c", "a"]
    assert found[-1].goal == "Do it.\nAnd more."
    twice = [sample("a", "current", said=("Do it.", "Now.")), sample("b", "current")]
    assert [one.id for one in repository(twice)] == ["b"]


def test_what_a_sample_needs_are_its_successful_calls() -> None:
    """A call that failed and was tried again counts once, API Search and open calls not at all; of
    these alone nothing is demonstrated."""
    vain = [
        *called("0", "api_search"),
        *called("1", "weather_current", "503"),
        called("2", "weather_forecast")[0],
        Message(role="tool", tool_call_id="3", name="weather_tides", content="no JSON"),
    ]
    done = [*called("4", "weather_current"), *called("5", "weather_forecast")]
    bare = sample("a", "current")
    for first, more, apis in ((1, vain, ()), (3, [*vain, *done], ids("current", *NAMES[:2]))):
        one = changed(bare, [*bare.dialogue.messages[:first], *more])
        assert demonstration(one).apis == apis


@given(st.lists(st.lists(st.sampled_from(NAMES), min_size=1, max_size=4), max_size=12))
def test_there_are_at_most_as_many_as_apis(calls: list[list[str]]) -> None:
    """Each shows an API that those before do not, and all that is called is shown."""
    samples = [sample(f"s{place}", *names) for place, names in enumerate(calls)]
    found = repository(samples)
    called = {name for names in calls for name in names}
    assert len(found) <= len(called)
    assert {api for one in found for api in one.apis} == {*ids(*called)}


def test_the_most_similar_come_first() -> None:
    """As many as are asked for, and none without a common word."""
    found = Retriever(
        [example("weather in Oslo"), example("a train to Rome"), example("trains, Oslo")]
    )
    wanted = [one.goal for one in found.similar("Which train goes to Oslo?", 5)]
    assert wanted == ["a train to Rome", "trains, Oslo", "weather in Oslo"]
    assert len(found.similar("Which train goes to Oslo?", 1)) == 1
    assert found.similar("Bonjour", 3) == found.similar("Oslo", 0) == found.similar("?", 3) == []
    assert Retriever([]).similar("Oslo", 3) == []


def test_nothing_that_gives_the_answer_away_is_shown() -> None:
    """Not the sample, not its template's rows, not the same calls in another order."""
    near = [
        example("weather in Oslo today", "t-1", city="Oslo"),
        example("weather in Oslo now", "t-2-x000001", city="Rome"),
        example("the weather in Oslo", "t-3", city="Bern"),
        example("weather, Turin", "t-4", city="Turin"),
    ]
    found = Retriever(near)
    calls = [FunctionCall(name="f", arguments={"city": "Bern"})]
    wanted = found.similar("weather in Oslo", 2, "t-1-x000007", calls)
    assert [one.id for one in wanted] == ["t-2-x000001", "t-4"]
    again = found.similar("weather in Oslo", 9, "t-2-x000009")
    assert "t-2-x000001" not in {one.id for one in again} and len(again) == 3
