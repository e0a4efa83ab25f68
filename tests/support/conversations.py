"""APIs and dialogues by hand, written as what is said, what is called and what comes of it."""

from __future__ import annotations

import datetime as dt
import json
from typing import Any

from toolloom.schemas import (
    API_SEARCH,
    Ability,
    Api,
    Dialogue,
    Execution,
    FunctionCall,
    Intention,
    JsonObject,
    Message,
    Query,
    Reference,
    Sample,
    Scenario,
    ToolCall,
    Verdict,
)

NOW = dt.datetime(2026, 3, 2, 9, 30)
SYSTEM = "You call APIs. The present moment is Monday 2026-03-02 09:30."
FORMATS = ("date", "time", "date-time", "email")


def fields(**kinds: Any) -> JsonObject:
    """An object schema. A field is a schema, or the name of a type or a format; one that has a
    default, or whose name ends with `?`, may be left out."""
    properties = {name.rstrip("?"): _schema(kind) for name, kind in kinds.items()}
    needed = [n for n in kinds if n in properties and "default" not in properties[n]]
    return {"type": "object", "properties": properties, "required": needed}


def _schema(kind: Any) -> Any:
    if not isinstance(kind, str):
        return kind
    return {"type": "string", "format": kind} if kind in FORMATS else {"type": kind}


def api(
    path: str, parameters: JsonObject, returns: JsonObject | None, about: str = "", **changes: Any
) -> Api:
    """An API of a path `category/tool/name`."""
    category, tool, name = path.split("/", 2)
    known = {"category": category, "tool": tool, "name": name, "function": name}
    known["description"] = about or f"{name.replace('_', ' ').capitalize()}."
    return Api(**{**known, "parameters": parameters, "returns": returns, **changes})


def called(*calls: Any, first: int = 0, kind: Any = None, **message: Any) -> list[Message]:
    """An assistant's turn of calls (function, arguments, response), and what is observed of each: a
    response that begins with `!` is an error. Ids are numbered on from `first`."""
    made = tuple(
        ToolCall(id=f"call_{number}", function=FunctionCall(name=name, arguments=arguments))
        for number, (name, arguments, _) in enumerate(calls, first)
    )
    turn = [Message(role="assistant", tool_calls=made, **message)]
    for call, (name, _, response) in zip(made, calls, strict=True):
        failed = isinstance(response, str) and response.startswith("!")
        seen = {"response": None if failed else response, "error": response[1:] if failed else None}
        content = json.dumps(seen, ensure_ascii=False)
        execution = kind and Execution(kind="planned" if failed else kind)
        more = {"tool_call_id": call.id, "name": name, "execution": execution}
        turn.append(Message(role="tool", content=content, **more))
    return turn


def sample(
    *steps: Any,
    scenario: Scenario = Scenario.SINGLE,
    kind: Any = None,
    references: Any = None,
    **query: Any,
) -> Sample:
    """A sample of steps: a text of the user, (API, arguments, response) or a list of them for
    calls, and after them a text of the assistant. What succeeds is the intent, but for searches;
    `references` are given by number of the call, `kind` is how calls were executed."""
    messages, intent = [Message(role="system", content=SYSTEM)], list[Intention]()
    turn, count, pool = -1, 0, dict[str, Api]()
    for step in steps:
        if isinstance(step, str):
            user = messages[-1].role in ("system", "assistant")
            turn += user
            messages.append(Message(role="user" if user else "assistant", content=step))
            continue
        made = step if isinstance(step, list) else [step]
        for which, arguments, response in made:
            if which != API_SEARCH:
                pool[which.id] = which
                if not str(response).startswith("!"):
                    own = (references or {}).get(len(intent), {})
                    told = {k: v for k, v in arguments.items() if k not in own}
                    links = {k: Reference(call=c, field=f) for k, (c, f) in own.items()}
                    intent.append(
                        Intention(api=which.id, turn=turn, arguments=told, references=links)
                    )
        named = [(which.function, *rest) for which, *rest in made]
        messages += called(*named, first=count, kind=kind)
        count += len(made)
    known = {
        "id": "train-0-000001",
        "ability": Ability.CALL,
        "scenario": scenario,
        "now": NOW,
        "pool": tuple(pool.values()),
        "intent": tuple(intent),
        "text": next(step for step in steps if isinstance(step, str)),
    }
    asked = Query(**{**known, **query})
    return Sample(dialogue=Dialogue(query=asked, messages=tuple(messages)), verdict=Verdict())
