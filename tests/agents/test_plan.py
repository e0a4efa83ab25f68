from __future__ import annotations

import json
from typing import Any

import pytest
from support import toys

from toolloom.agents.plan import (
    LONGEST,
    MOST,
    Act,
    Due,
    due,
    observation,
    outcomes,
    reference_values,
    told_by,
    transcript,
)
from toolloom.pipeline.checks.transcript import known_functions
from toolloom.schemas import (
    Ability,
    FunctionCall,
    Intention,
    Message,
    Observation,
    PlannedFault,
    Query,
    Reference,
    Scenario,
    ToolCall,
)

NOW, NEXT = toys.api().function, toys.api(name="forecast").function
USER = Message(role="user", content="Rain?")
REPLY = Message(role="assistant", content="No.")


def called(name: str, response: Any = None, error: str | None = None) -> list[Message]:
    """A call with its observation."""
    call = ToolCall(id=f"{name}-{error}", function=FunctionCall(name=name, arguments={}))
    seen = json.dumps({"response": response, "error": error})
    return [
        Message(role="assistant", tool_calls=(call,)),
        Message(role="tool", name=name, tool_call_id=call.id, content=seen),
    ]


def ask(scenario: Scenario = Scenario.SINGLE, **changes: Any) -> Query:
    return toys.query(0, scenario=scenario, **changes)


def two(turn: int = 0, **references: Reference) -> tuple[Intention, ...]:
    later = Intention(
        api=toys.api(name="forecast").id, turn=turn, arguments={}, references=references
    )
    return (*toys.query().intent, later)


def test_a_call_then_an_answer() -> None:
    """A call is due until it has succeeded."""
    assert due(ask(), [USER]) == Due(Act.CALL, (0,))
    assert due(ask(), [USER, *called(NOW, {"celsius": 7})]) == Due(Act.ANSWER)


def test_search_comes_before_a_call() -> None:
    """In the retrieve abilities only what API Search has returned is known."""
    query = ask(ability=Ability.RETRIEVE_CALL)
    assert due(query, [USER]) == Due(Act.SEARCH, (0,))
    found = [USER, *called("api_search", [toys.api().document()])]
    assert known_functions(query, found) == ["api_search", NOW]
    assert due(query, found) == Due(Act.CALL, (0,))


def test_parallel_calls_go_together() -> None:
    """Calls that wait for nothing are due at once."""
    assert due(ask(Scenario.PARALLEL, intent=two()), [USER]) == Due(Act.CALL, (0, 1))


def test_a_dependent_call_waits_for_its_value() -> None:
    """The second call is due when the first has told what it needs."""
    query = ask(Scenario.SEQUENTIAL, intent=two(city=Reference(call=0, field="near")))
    assert due(query, [USER]) == Due(Act.CALL, (0,))
    after = [USER, *called(NOW, {"near": "Basel"})]
    assert due(query, after) == Due(Act.CALL, (1,))
    assert reference_values(query, 1, after) == {"city": "Basel"}


def test_a_later_turn_brings_its_own_call() -> None:
    """What a later turn asks for is not due before it."""
    query = ask(Scenario.MULTI_TURN, intent=two(turn=1))
    first = [USER, *called(NOW, {})]
    assert due(query, first) == Due(Act.ANSWER)
    assert due(query, [*first, REPLY, USER]) == Due(Act.CALL, (1,))


def test_a_missing_value_is_asked_for() -> None:
    """Asking is due once; the answer makes the call due."""
    query = ask(Scenario.CLARIFICATION, withheld=("city",))
    assert due(query, [USER]) == Due(Act.ASK, (0,))
    assert due(query, [USER, REPLY, USER]) == Due(Act.CALL, (0,))


def test_nothing_fits_after_one_search() -> None:
    """An irrelevant request is searched for, where searching is possible, then turned down."""
    assert due(ask(Scenario.IRRELEVANCE), [USER]) == Due(Act.EXPLAIN)
    query = ask(Scenario.IRRELEVANCE, ability=Ability.RETRIEVE_CALL)
    assert due(query, [USER]) == Due(Act.SEARCH)
    assert due(query, [USER, *called("api_search", [])]) == Due(Act.EXPLAIN)


def test_a_passing_error_is_tried_again_and_a_lasting_one_explained() -> None:
    """What to do after an error depends on its kind."""
    failed = [USER, *called(NOW, error="503")]
    passing = ask(Scenario.ERROR_RECOVERY, fault=PlannedFault(call=0, error="503", transient=True))
    lasting = ask(Scenario.ERROR_RECOVERY, fault=PlannedFault(call=0, error="503", transient=False))
    assert due(passing, failed) == Due(Act.CALL, (0,))
    assert due(lasting, failed) == Due(Act.EXPLAIN)
    assert due(passing, [*failed, *called(NOW, {})]) == Due(Act.ANSWER)


def test_calls_of_one_api_count_in_order() -> None:
    """The second call of an API serves its second intention."""
    intent = (*toys.query().intent, Intention(api=toys.api().id, arguments={"city": "Basel"}))
    query = ask(Scenario.PARALLEL, intent=intent)
    messages = [USER, *called(NOW, {"n": 1})]
    assert outcomes(query, messages) == {0: Observation(response={"n": 1})}
    assert due(query, messages) == Due(Act.CALL, (1,))


def test_a_transcript_leaves_the_system_turn_out() -> None:
    """Speakers and words, calls with their arguments."""
    system = Message(role="system", content="secret")
    lines = transcript([system, USER, *called(NOW, {"celsius": 7}), REPLY])
    assert lines == [
        ("User", "Rain?"),
        ("Call", f"{NOW}({{}})"),
        (f"Result of {NOW}", '{"response": {"celsius": 7}, "error": null}'),
        ("Assistant", "No."),
    ]


def test_what_is_no_envelope_is_an_empty_observation() -> None:
    """A tool message that cannot be read does not raise."""
    assert observation(Message(role="tool", content="oops")) == Observation()


def test_a_real_failure_ends_its_turn_only() -> None:
    """The failed call is explained; what the user asks for next is due, also of the same API."""
    right = Intention(api=toys.api().id, turn=1, arguments={"city": "Zürich"})
    fault = PlannedFault(call=0, error="", transient=False, real=True)
    query = ask(Scenario.ERROR_RECOVERY, intent=(*toys.query().intent, right), fault=fault)
    failed = [USER, *called(NOW, error="no such city")]
    assert due(query, failed) == Due(Act.EXPLAIN)
    again = [*failed, REPLY, USER]
    assert due(query, again) == Due(Act.CALL, (1,))
    assert due(query, [*again, *called(NOW, {"celsius": 7})]) == Due(Act.ANSWER)


RETURNS = {
    "type": "object",
    "properties": {
        "owner": {
            "type": "object",
            "properties": {"login": {"type": "string", "description": "name of the account"}},
        }
    },
}


def told(response: Any) -> list[tuple[str, Any]]:
    return [(f.name, f.value) for f in told_by(toys.api(), response)]


def test_a_nested_value_is_named_by_its_path() -> None:
    """A fact's name is the path to it, and its description that of the inner schema."""
    (fact,) = told_by(
        toys.api().model_copy(update={"returns": RETURNS}), {"owner": {"login": "ada"}}
    )
    assert (fact.name, fact.about, fact.value) == ("owner_login", "name of the account", "ada")


def test_of_a_list_of_objects_the_first_is_told() -> None:
    """Lists of objects give the facts of their first item, lists of scalars are one fact."""
    assert told([{"title": "Emma"}, {"title": "Dune"}]) == [("title", "Emma")]
    assert told({"tags": ["a", "b"]}) == [("tags", ["a", "b"])]


def test_a_text_is_told_line_by_line() -> None:
    """`Name: value` names its fact, a heading is passed over, another line is a result."""
    text = "Commit history:\nAuthor: Ada\nnothing to commit"
    assert told(text) == [("author", "Ada"), ("result", "nothing to commit")]


@pytest.mark.parametrize("empty", [None, "", {}, [], {"a": None}, {"a": ""}, {"a": []}])
def test_what_is_empty_tells_nothing(empty: Any) -> None:
    """No fact is made of nothing."""
    assert told(empty) == []


def test_few_and_short_facts_are_told() -> None:
    """At most a handful of facts, none of them longer than a sentence can hold."""
    assert len(told({f"f{i}": i for i in range(20)})) == MOST
    assert told({"long": "x" * (LONGEST + 1), "short": "y"}) == [("short", "y")]
