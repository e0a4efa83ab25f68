"""Goals and the calls that serve them as lines of text: what few-shot and all-shot rows hold.

    Now: Monday 2026-03-02 09:30
    Goal: What is the weather in Oslo?
    Actions: [current_weather(city='Oslo')]

Goals may have several lines; those in which a line begins as one of these do not fit. An answer
begins with the space after `Actions:`, as tokenizers part words.
"""

from __future__ import annotations

import datetime as dt
import json
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from toolloom.agents.query import moment
from toolloom.pipeline.checks.text.call_text import parse, write
from toolloom.pipeline.formats.base import (
    NotRepresentable,
    arguments,
    envelope,
    spaced,
    spoken,
)
from toolloom.schemas import API_SEARCH, Api, FunctionCall, Message, Sample, Scenario

NOW, GOAL, ACTIONS = "Now: ", "Goal: ", "Actions:"
_MARK = re.compile(rf"\n(?:{NOW}|{GOAL}|{ACTIONS})")


@dataclass(frozen=True)
class Served:
    """A sample's first request, the APIs it may use, and the calls that serve it."""

    text: str
    now: dt.datetime
    apis: tuple[Api, ...]  # given, or found by API Search
    calls: tuple[FunctionCall, ...]  # none if no API fits
    lost: tuple[str, ...]  # parts of the sample that are not here


@dataclass(frozen=True)
class GoalLines:
    """What was read from text."""

    goal: str
    calls: tuple[FunctionCall, ...] | None  # None where they are yet to be written


def served(sample: Sample) -> Served:
    """The first request of a sample, to be served by calls that are made at once.

    Raises Unfit if it is not: something is asked back, or a call needs the result of another.
    """
    query, said = sample.dialogue.query, spoken(sample.dialogue.messages)
    if any(i.references for i in query.due if i.turn == 0):
        raise NotRepresentable("calls need the results of others")
    ends = [place for place, m in enumerate(said) if m.role == "user" and place]
    first = said[: ends[0]] if ends else said
    calls = _calls(first)
    if not calls and query.scenario is not Scenario.IRRELEVANCE:
        raise NotRepresentable("the assistant asks before it calls")
    found = _found(first, query.pool) if query.ability.searches else query.pool
    if {call.name for call in calls} - {api.function for api in found}:
        raise NotRepresentable("an API is called that is not among those given")
    lost: tuple[str, ...] = ("the search for APIs",) if query.ability.searches else ()
    lost += ("observations", "answers") if calls else ("answers",)
    lost += ("the user's later turns",) if ends else ()
    return Served(said[0].content or "", query.now, found, calls, lost)


def _calls(messages: Sequence[Message]) -> tuple[FunctionCall, ...]:
    """Calls in order, API Search apart; one that failed and was tried again counts once."""
    results = {m.tool_call_id: m for m in messages if m.role == "tool"}
    made = [(call, arguments(call)) for m in messages for call in m.tool_calls]
    found: list[FunctionCall] = []
    for place, (call, values) in enumerate(made):
        one = FunctionCall(name=call.function.name, arguments=values)
        failed = call.id not in results or envelope(results[call.id]).error is not None
        again = any(later.function == call.function for later, _ in made[place + 1 :])
        if one.name != API_SEARCH.function and not (failed and again):
            found.append(one)
    return tuple(found)


def _found(messages: Sequence[Message], pool: Sequence[Api]) -> tuple[Api, ...]:
    """The APIs that API Search returned, in order."""
    apis = {api.function: api for api in pool}
    names: list[Any] = []
    for message in messages:
        if message.role == "tool" and message.name == API_SEARCH.function:
            shown = envelope(message).response
            names += [one.get("name") for one in shown or () if isinstance(one, dict)]
    return tuple({n: apis[n] for n in names if isinstance(n, str) and n in apis}.values())


def document(api: Api) -> str:
    """An API in one line of JSON."""
    return spaced(api.as_tool()["function"])


def goal_lines(text: str, now: dt.datetime) -> str:
    """A goal, up to where its calls begin. Raises Unfit for text that looks like further lines."""
    if not text.strip():
        raise NotRepresentable("the user says nothing")
    if _MARK.search(text):
        raise NotRepresentable("words look like the beginning of another goal")
    return f"{NOW}{moment(now)}\n{GOAL}{text}\n{ACTIONS}"


def action_text(calls: Sequence[FunctionCall]) -> str:
    """Calls as text in one line. Raises Unfit if they would not be read back as they are."""
    try:
        text = write(calls)
        if "\n" not in text and parse(text) == tuple(calls):
            return text
    except (ValueError, RecursionError):  # numbers too long to write, values too deep
        pass
    raise NotRepresentable("calls that this syntax cannot hold")


def read_lines(text: str) -> list[GoalLines]:
    """The goals and calls in a text. Raises ValueError that says which line is wrong."""
    found: list[GoalLines] = []
    goal: list[str] | None = None
    for number, line in enumerate(text.split("\n"), 1):
        if line.startswith(NOW) and goal is None:
            continue
        if line.startswith(GOAL) and goal is None:
            goal = [line.removeprefix(GOAL)]
        elif line.startswith(ACTIONS) and goal is not None:
            found.append(
                GoalLines("\n".join(goal), _read_calls(line.removeprefix(ACTIONS), number))
            )
            goal = None
        elif goal is not None and not line.startswith((NOW, GOAL)):
            goal.append(line)
        elif line or goal is not None:
            raise ValueError(f"line {number} of the goals is out of place: {line[:60]!r}")
    if goal is not None:
        raise ValueError("the last goal has no actions")
    return found


def _read_calls(text: str, number: int) -> tuple[FunctionCall, ...] | None:
    if not text.strip():
        return None
    if not text.startswith(" ["):
        raise ValueError(f"line {number} of the goals: the actions are no list of calls")
    return parse(text)


def read_documents(lines: Sequence[str]) -> dict[str, frozenset[str] | None]:
    """The functions that lines describe, with their arguments, where no others may be given.

    Raises ValueError for a line that describes none.
    """
    functions = dict[str, frozenset[str] | None]()
    for line in lines:
        try:
            told = json.loads(line)
            name = told.get("name")
        except (ValueError, AttributeError, RecursionError) as error:
            raise ValueError(f"no document of an API function: {line[:60]!r}") from error
        if not isinstance(name, str):
            raise ValueError(f"a document of an API function without its name: {line[:60]!r}")
        functions[name] = _closed(told.get("parameters"))
    return functions


def _closed(schema: Any) -> frozenset[str] | None:
    """The arguments of a schema that knows no others."""
    if not isinstance(schema, dict) or schema.get("additionalProperties") is not False:
        return None
    fields = schema.get("properties")
    return (
        frozenset(fields)
        if isinstance(fields, dict) and "patternProperties" not in schema
        else None
    )
