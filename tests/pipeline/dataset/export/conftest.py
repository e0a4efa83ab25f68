"""Small samples, one of each kind, that the certain checks find no fault in."""

from __future__ import annotations

from typing import Any

import pytest
from support import conversations
from support.conversations import api, fields

from toolloom.schemas import API_SEARCH, Ability, Intention, PlannedFault, Sample, Scenario

UNIT = {"type": "string", "enum": ["celsius", "kelvin"], "default": "celsius"}
WEATHER = api(
    "weather/station/current",
    fields(city={"type": "string", "description": "Name of the city."}, unit=UNIT),
    {"type": "object", "properties": {"degrees": {"type": "number"}}},
    "Current weather of a city.",
    function="current_weather",
)
TRAINS = api(
    "travel/rail/trains",
    fields(city="string", seats="integer"),
    None,
    "Trains to a city.",
    function="find_trains",
)
TRANSLATE = api("text/words/translate", fields(), None, "Translate a text.")

ASKED, ANSWER = "What is the weather in Zürich?", "It is 7 degrees in Zürich."
ZURICH = (WEATHER, {"city": "Zürich"}, {"degrees": 7})
OSLO = (WEATHER, {"city": "Oslo"}, {"degrees": -2})


def sample(number: int, *steps: Any, **query: Any) -> Sample:
    known = {"id": f"train-7-{number:06d}", "pool": (WEATHER, TRAINS)}
    return conversations.sample(*steps, **known, **query)


@pytest.fixture(scope="session")
def samples() -> dict[str, Sample]:
    """A sample of each kind."""
    return {
        "single": sample(1, ASKED, ZURICH, ANSWER),
        "parallel": sample(
            2,
            "What is the weather in Zürich, and what is it in Oslo?",
            [ZURICH, OSLO],
            "It is 7 degrees in Zürich and -2 degrees in Oslo.",
            scenario=Scenario.PARALLEL,
        ),
        "clarification": sample(
            3,
            "What is the weather like?",
            "In which city?",
            "In Zürich.",
            ZURICH,
            ANSWER,
            scenario=Scenario.CLARIFICATION,
            intent=(Intention(api=WEATHER.id, arguments={"city": "Zürich"}),),
            withheld=("city",),
        ),
        "irrelevance": sample(
            4,
            "Please translate a letter into French.",
            "I am sorry, I cannot translate a letter.",
            scenario=Scenario.IRRELEVANCE,
            outside=TRANSLATE,
            intent=(Intention(api=TRANSLATE.id, arguments={}),),
        ),
        "recovery": sample(
            5,
            ASKED,
            (*ZURICH[:2], "!503 Service Unavailable"),
            ZURICH,
            ANSWER,
            scenario=Scenario.ERROR_RECOVERY,
            fault=PlannedFault(call=0, error="503 Service Unavailable", transient=True),
        ),
        "search": sample(
            6,
            ASKED,
            (API_SEARCH, {"keywords": "weather"}, [WEATHER.document()]),
            ZURICH,
            ANSWER,
            ability=Ability.RETRIEVE_CALL,
        ),
        "multi_turn": sample(
            7,
            ASKED,
            ZURICH,
            ANSWER,
            "And what is the weather in Oslo?",
            OSLO,
            "It is -2 degrees in Oslo.",
            scenario=Scenario.MULTI_TURN,
        ),
    }
