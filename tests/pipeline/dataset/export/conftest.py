"""Small samples, one of each kind, that the certain checks find no fault in."""

from __future__ import annotations

import datetime as dt
import json
from collections.abc import Iterable
from typing import Any

import pytest

from toolloom.schemas import (
    API_SEARCH,
    Ability,
    Api,
    Dialogue,
    FunctionCall,
    Intention,
    Message,
    PlannedFault,
    Query,
    Sample,
    Scenario,
    ToolCall,
    Verdict,
)

SYSTEM = "You call APIs. The present moment is Monday 2026-03-02 09:30."
WEATHER = Api(
    category="weather",
    tool="station",
    name="current",
    function="current_weather",
    description="Current weather of a city.",
    parameters={
        "type": "object",
        "properties": {
            "city": {"type": "string", "description": "Name of the city."},
            "unit": {"type": "string", "enum": ["celsius", "kelvin"], "default": "celsius"},
        },
        "required": ["city"],
    },
    returns={"type": "object", "properties": {"degrees": {"type": "number"}}},
)
TRAINS = Api(
    category="travel",
    tool="rail",
    name="trains",
    function="find_trains",
    description="Trains to a city.",
    parameters={
        "type": "object",
        "properties": {"city": {"type": "string"}, "seats": {"type": "integer"}},
        "required": ["city", "seats"],
    },
)

TRANSLATE = Api(
    category="text",
    tool="words",
    name="translate",
    function="translate",
    description="Translate a text.",
    parameters={"type": "object", "properties": {}},
)


def said(role: Any, content: str) -> Message:
    return Message(role=role, content=content)


def calls(*made: tuple[str, str, dict[str, Any]]) -> Message:
    """An assistant's turn of calls: id, function, arguments."""
    listed = tuple(
        ToolCall(id=i, function=FunctionCall(name=name, arguments=arguments))
        for i, name, arguments in made
    )
    return Message(role="assistant", tool_calls=listed)


def result(call: str, name: str, response: Any = None, error: str | None = None) -> Message:
    seen = json.dumps({"response": response, "error": error}, ensure_ascii=False)
    return Message(role="tool", content=seen, tool_call_id=call, name=name)


def sample(number: int, messages: Iterable[Message], **query: Any) -> Sample:
    turns = (said("system", SYSTEM), *messages)
    fields: dict[str, Any] = {
        "id": f"train-7-{number:06d}",
        "ability": Ability.CALL,
        "scenario": Scenario.SINGLE,
        "now": dt.datetime(2026, 3, 2, 9, 30),
        "pool": (WEATHER, TRAINS),
        "intent": (Intention(api=WEATHER.id, arguments={"city": "Zürich"}),),
        "text": turns[1].content,
    }
    asked = Query(**{**fields, **query})
    return Sample(dialogue=Dialogue(query=asked, messages=turns), verdict=Verdict())


@pytest.fixture(scope="session")
def samples() -> dict[str, Sample]:
    """A sample of each kind."""
    zurich = {"city": "Zürich"}
    ask = said("user", "What is the weather in Zürich?")
    call = calls(("call_0", "current_weather", zurich))
    back = result("call_0", "current_weather", {"degrees": 7})
    answer = said("assistant", "It is 7 degrees in Zürich.")
    to_oslo = ("call_1", "current_weather", {"city": "Oslo"})
    cold = result("call_1", "current_weather", {"degrees": -2})
    both = tuple(Intention(api=WEATHER.id, arguments={"city": c}) for c in ("Zürich", "Oslo"))
    return {
        "single": sample(1, [ask, call, back, answer]),
        "parallel": sample(
            2,
            [
                said("user", "What is the weather in Zürich, and what is it in Oslo?"),
                calls(("call_0", "current_weather", zurich), to_oslo),
                back,
                cold,
                said("assistant", "It is 7 degrees in Zürich and -2 degrees in Oslo."),
            ],
            scenario=Scenario.PARALLEL,
            intent=both,
        ),
        "clarification": sample(
            3,
            [
                said("user", "What is the weather like?"),
                said("assistant", "In which city?"),
                said("user", "In Zürich."),
                call,
                back,
                answer,
            ],
            scenario=Scenario.CLARIFICATION,
            withheld=("city",),
        ),
        "irrelevance": sample(
            4,
            [
                said("user", "Please translate a letter into French."),
                said("assistant", "I am sorry, I cannot translate a letter."),
            ],
            scenario=Scenario.IRRELEVANCE,
            outside=TRANSLATE,
            intent=(Intention(api="text/words/translate", arguments={}),),
        ),
        "recovery": sample(
            5,
            [
                ask,
                call,
                result("call_0", "current_weather", error="503 Service Unavailable"),
                calls(("call_1", "current_weather", zurich)),
                result("call_1", "current_weather", {"degrees": 7}),
                answer,
            ],
            scenario=Scenario.ERROR_RECOVERY,
            fault=PlannedFault(call=0, error="503 Service Unavailable", transient=True),
        ),
        "search": sample(
            6,
            [
                ask,
                calls(("call_0", "api_search", {"keywords": "weather"})),
                result("call_0", API_SEARCH.function, [WEATHER.document()]),
                calls(("call_1", "current_weather", zurich)),
                result("call_1", "current_weather", {"degrees": 7}),
                answer,
            ],
            ability=Ability.RETRIEVE_CALL,
        ),
        "multi_turn": sample(
            7,
            [
                ask,
                call,
                back,
                answer,
                said("user", "And what is the weather in Oslo?"),
                calls(to_oslo),
                cold,
                said("assistant", "It is -2 degrees in Oslo."),
            ],
            scenario=Scenario.MULTI_TURN,
            intent=(both[0], both[1].model_copy(update={"turn": 1})),
        ),
    }
