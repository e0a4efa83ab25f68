from __future__ import annotations

from typing import Any

import pytest
from support import conversations, toys

from toolloom.agents.plan import (
    LONGEST,
    MOST,
    Act,
    Due,
    due,
    observation,
    reference_values,
    told_by,
)
from toolloom.schemas import (
    Ability,
    Intention,
    Message,
    Observation,
    PlannedFault,
    Query,
    Reference,
    Scenario,
)

NOW, NEXT = toys.api().function, toys.api(name="forecast").function
USER = Message(role="user", content="Rain?")
REPLY = Message(role="assistant", content="No.")


def called(name: str, response: Any = None) -> list[Message]:
    """A call with its observation; an error begins with `!`."""
    return conversations.called((name, {}, response))


def ask(scenario: Scenario = Scenario.SINGLE, **changes: Any) -> Query:
    return toys.query(0, scenario=scenario, **changes)


def two(turn: int = 0, **references: Reference) -> tuple[Intention, ...]:
    later = Intention(
        api=toys.api(name="forecast").id, turn=turn, arguments={}, references=references
    )
    return (*toys.query().intent, later)


FOUND = [USER, *called("api_search", [toys.api().document()])]
LATER = (*toys.query().intent, Intention(api=toys.api().id, turn=1, arguments={"city": "Zürich"}))
AGAIN = (*toys.query().intent, Intention(api=toys.api().id, arguments={"city": "Basel"}))
SEEN = called(NOW, {"celsius": 7})
FAILED = [USER, *called(NOW, "!503")]
PASSING, LASTING, REAL = (
    PlannedFault(call=0, error="" if real else "503", transient=transient, real=real)
    for transient, real in ((True, False), (False, False), (False, True))
)
SEARCHED = ask(ability=Ability.RETRIEVE_CALL)
MISSING = ask(Scenario.CLARIFICATION, withheld=("city",))
NOTHING = ask(Scenario.IRRELEVANCE, ability=Ability.RETRIEVE_CALL)
BOTH = ask(Scenario.PARALLEL, intent=two())
TURNS = ask(Scenario.MULTI_TURN, intent=two(turn=1))
TRIED = ask(Scenario.ERROR_RECOVERY, fault=PASSING)
BROKEN = ask(Scenario.ERROR_RECOVERY, fault=LASTING)
MENDED = ask(Scenario.ERROR_RECOVERY, intent=LATER, fault=REAL)
TWICE = ask(Scenario.PARALLEL, intent=AGAIN)
CALL, SECOND = Due(Act.CALL, (0,)), Due(Act.CALL, (1,))
ANSWER, EXPLAIN = Due(Act.ANSWER), Due(Act.EXPLAIN)
DUE = {
    "a call is due": (ask(), [USER], CALL),
    "until it has succeeded": (ask(), [USER, *SEEN], ANSWER),
    "search comes before a call": (SEARCHED, [USER], Due(Act.SEARCH, (0,))),
    "what was found is called": (SEARCHED, FOUND, CALL),
    "parallel calls go together": (BOTH, [USER], Due(Act.CALL, (0, 1))),
    "a later turn's call is not due before it": (TURNS, [USER, *SEEN], ANSWER),
    "a later turn brings its own call": (TURNS, [USER, *SEEN, REPLY, USER], SECOND),
    "a missing value is asked for": (MISSING, [USER], Due(Act.ASK, (0,))),
    "asking is due once": (MISSING, [USER, REPLY, USER], CALL),
    "nothing fits": (ask(Scenario.IRRELEVANCE), [USER], EXPLAIN),
    "what may fit is searched for": (NOTHING, [USER], Due(Act.SEARCH)),
    "nothing fits after one search": (NOTHING, [USER, *called("api_search", [])], EXPLAIN),
    "a passing error is tried again": (TRIED, FAILED, CALL),
    "the second try succeeds": (TRIED, [*FAILED, *SEEN], ANSWER),
    "a lasting error is explained": (BROKEN, FAILED, EXPLAIN),
    "a real failure is explained": (MENDED, FAILED, EXPLAIN),
    "a real failure ends its turn only": (MENDED, [*FAILED, REPLY, USER], SECOND),
    "the next turn's call succeeds": (MENDED, [*FAILED, REPLY, USER, *SEEN], ANSWER),
    "calls of one API serve its intentions in order": (TWICE, [USER, *SEEN], SECOND),
}


@pytest.mark.parametrize(("query", "messages", "expected"), DUE.values(), ids=DUE)
def test_what_is_due(query: Query, messages: list[Message], expected: Due) -> None:
    """What the assistant has to do follows from the plan and from what has happened."""
    assert due(query, messages) == expected


def test_a_dependent_call_waits_for_its_value() -> None:
    """The second call is due when the first has told what it needs."""
    query = ask(Scenario.SEQUENTIAL, intent=two(city=Reference(call=0, field="near")))
    assert due(query, [USER]) == CALL
    after = [USER, *called(NOW, {"near": "Basel"})]
    assert due(query, after) == SECOND
    assert reference_values(query, 1, after) == {"city": "Basel"}


def test_what_is_no_envelope_is_an_empty_observation() -> None:
    """A tool message that cannot be read does not raise."""
    assert observation(Message(role="tool", content="oops")) == Observation()


def test_a_nested_value_is_named_by_its_path() -> None:
    """A fact's name is the path to it, and its description that of the inner schema."""
    login = {"type": "string", "description": "name of the account"}
    owner = {"type": "object", "properties": {"login": login}}
    returns = {"type": "object", "properties": {"owner": owner}}
    api = toys.api().model_copy(update={"returns": returns})
    (fact,) = told_by(api, {"owner": {"login": "ada"}})
    assert (fact.name, fact.about, fact.value) == ("owner_login", "name of the account", "ada")


TOLD: dict[str, tuple[Any, list[tuple[str, Any]]]] = {
    "of a list of objects the first": (
        [{"title": "Emma"}, {"title": "Dune"}],
        [("title", "Emma")],
    ),
    "a list of scalars is one fact": ({"tags": ["a", "b"]}, [("tags", ["a", "b"])]),
    "a text line by line, without its headings": (
        "Commit history:\nAuthor: Ada\nnothing to commit",
        [("author", "Ada"), ("result", "nothing to commit")],
    ),
    "few": ({f"f{i}": i for i in range(20)}, [(f"f{i}", i) for i in range(MOST)]),
    "none longer than a sentence holds": (
        {"long": "x" * (LONGEST + 1), "short": "y"},
        [("short", "y")],
    ),
    "nothing of nothing": ({"a": None, "b": "", "c": []}, []),
    "nothing of null": (None, []),
}


@pytest.mark.parametrize(("response", "expected"), TOLD.values(), ids=TOLD)
def test_what_a_response_tells(response: Any, expected: list[tuple[str, Any]]) -> None:
    """A handful of short facts, each with a name."""
    assert [(f.name, f.value) for f in told_by(toys.api(), response)] == expected
