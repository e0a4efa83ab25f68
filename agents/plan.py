"""What is due next in a dialogue by the query's intent, and what a response tells. Pure."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from toolloom.agents.wording import Fact
from toolloom.pipeline.checks.schema import as_dict
from toolloom.pipeline.checks.transcript import known_functions, observation_of
from toolloom.schemas import API_SEARCH, Api, JsonObject, Message, Observation, Query, Scenario


class Act(StrEnum):
    """What an assistant does with its turn."""

    SEARCH = "search"
    CALL = "call"
    ASK = "ask"
    ANSWER = "answer"
    EXPLAIN = "explain"  # why it cannot be done: nothing fits, or the execution failed for good


@dataclass(frozen=True)
class Due:
    """An act, with the intended calls (by index) it concerns."""

    act: Act
    calls: tuple[int, ...] = ()


def outcomes(query: Query, messages: Sequence[Message]) -> dict[int, Observation]:
    """The latest observation of each intended call; calls of one API count in order."""
    found: dict[int, Observation] = {}
    results = {m.tool_call_id: m for m in messages if m.role == "tool"}
    for message in messages:
        for call in message.tool_calls:
            result = results.get(call.id)
            index = _next(query, call.function.name, found)
            if result is not None and index is not None:
                found[index] = observation(result)
    return found


def observation(message: Message) -> Observation:
    """The envelope of a tool message; an empty one where it cannot be read."""
    return observation_of(message) or Observation()


def _next(query: Query, name: str, found: dict[int, Observation]) -> int | None:
    """Which intended call a call by this name is: the first that may still succeed."""
    for index, intention in enumerate(query.due):
        seen = found.get(index)
        done = seen is not None and (seen.error is None or _final(query, seen))
        if not done and query.api(intention.api).function == name:
            return index
    return None


def observed(messages: Sequence[Message]) -> list[Any]:
    """Responses of all successful executions so far, API Search apart."""
    results = [m for m in messages if m.role == "tool" and m.name != API_SEARCH.function]
    return [observation(m).response for m in results]


def asks(messages: Sequence[Message]) -> int:
    """How many user turns there are."""
    return sum(m.role == "user" for m in messages)


def due(query: Query, messages: Sequence[Message]) -> Due:
    """What a good assistant does next."""
    if query.scenario is Scenario.IRRELEVANCE:
        searched = any(m.name == API_SEARCH.function for m in messages)
        return Due(Act.SEARCH if query.ability.searches and not searched else Act.EXPLAIN)
    found = outcomes(query, messages)
    turn = 0 if query.withheld else asks(messages) - 1
    if any(_final(query, o) and query.due[i].turn == turn for i, o in found.items()):
        return Due(Act.EXPLAIN)
    pending = [
        i
        for i, intention in enumerate(query.due)
        if intention.turn == turn and (i not in found or found[i].error)
    ]
    if not pending:
        return Due(Act.ANSWER)
    ready = [i for i in pending if all(r.call in found for r in query.due[i].references.values())]
    first = ready[0]
    known = known_functions(query, messages)
    if query.api(query.due[first].api).function not in known:
        return Due(Act.SEARCH, (first,))
    if query.withheld and asks(messages) == 1:
        return Due(Act.ASK, (first,))
    found_too = [i for i in ready if query.api(query.due[i].api).function in known]
    return Due(Act.CALL, tuple(found_too) if query.scenario is Scenario.PARALLEL else (first,))


def _final(query: Query, seen: Observation) -> bool:
    """Whether an execution failed in a way that trying again does not mend."""
    return seen.error is not None and not (query.fault is not None and query.fault.transient)


def reference_values(query: Query, index: int, messages: Sequence[Message]) -> dict[str, Any]:
    """Values that earlier observations give to an intended call's arguments."""
    found = outcomes(query, messages)
    values = {}
    for name, reference in query.due[index].references.items():
        response = found[reference.call].response if reference.call in found else None
        if isinstance(response, dict) and reference.field in response:
            values[name] = response[reference.field]
    return values


def transcript(messages: Sequence[Message]) -> list[tuple[str, str]]:
    """A dialogue as (speaker, text) lines for a prompt; the system turn is left out."""
    lines: list[tuple[str, str]] = []
    for message in messages:
        if message.role == "user":
            lines.append(("User", message.content or ""))
        elif message.role == "tool":
            lines.append((f"Result of {message.name}", message.content or ""))
        elif message.role == "assistant":
            for call in (c.function for c in message.tool_calls):
                arguments = json.dumps(call.arguments, ensure_ascii=False)
                lines.append(("Call", f"{call.name}({arguments})"))
            if message.content:
                lines.append(("Assistant", message.content))
    return lines


MOST = 4  # facts told of one response
LONGEST = 80  # characters of a value that is told


def told_by(api: Api, response: Any) -> list[Fact]:
    """The first few facts of a response: scalars at any depth, of a list its first item.

    A text is read as lines; `Author: Ada` names its fact, another line is a «result».
    """
    if isinstance(response, str):
        found = list(_lines(response))
    else:
        found = list(_leaves("", response, api.returns or {}))
    told = [f for f in found if f.value not in (None, "") and len(f.shown) <= LONGEST]
    return told[:MOST]


def _leaves(name: str, value: Any, schema: JsonObject) -> Iterator[Fact]:
    if isinstance(value, dict):
        for key, part in value.items():
            inner = as_dict(as_dict(schema.get("properties")).get(key))
            yield from _leaves(f"{name}_{key}" if name else key, part, inner)
    elif isinstance(value, list) and value and isinstance(value[0], dict | list):
        yield from _leaves(name, value[0], as_dict(schema.get("items")))
    elif value not in ([], {}):
        known = {"title": name, **schema} if name else schema
        yield Fact(name or "result", str(schema.get("description", "")), value, known)


def _lines(text: str) -> Iterator[Fact]:
    for line in text.splitlines():
        name, colon, value = line.partition(": ")
        if colon and re.fullmatch(r"[A-Za-z][A-Za-z ]{0,24}", name) and value.strip():
            yield Fact(name.lower().replace(" ", "_"), "", value.strip(), {"type": "string"})
        elif line.strip() and not line.rstrip().endswith(":"):
            yield Fact("result", "", line.strip(), {"type": "string"})
