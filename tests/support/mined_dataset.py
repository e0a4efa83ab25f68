"""Small samples to mine, written as what the user says, what is called and what comes of it."""

from __future__ import annotations

import datetime as dt
import importlib.util
import json
import random
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from toolloom.pipeline.checks import inspect
from toolloom.pipeline.dataset.unfold import TemplateRenderer
from toolloom.pipeline.templates.mining.mining import mine
from toolloom.pipeline.templates.mining.survey import SeenValues
from toolloom.schemas import (
    Ability,
    Api,
    Dialogue,
    Execution,
    Finding,
    FunctionCall,
    Intention,
    JsonObject,
    Message,
    PlannedFault,
    Query,
    Reference,
    Rejected,
    Sample,
    Scenario,
    Template,
    ToolCall,
    Verdict,
)

GOOD = Path(__file__).parents[1] / "pipeline" / "checks" / "conftest.py"
NOW = dt.datetime(2026, 3, 2, 9, 30)
SYSTEM = "You are an assistant that can call APIs. The present moment is Monday 2026-03-02 09:30."


def api(name: str, parameters: JsonObject, returns: JsonObject, about: str = "") -> Api:
    """An API of the tool `travel/desk`; fields are schemas by name."""
    return Api(
        category="travel",
        tool="desk",
        name=name,
        function=name,
        description=about or f"Serves {name.replace('_', ' ')}.",
        parameters={"type": "object", "properties": parameters, "required": [*parameters]},
        returns={"type": "object", "properties": returns, "required": [*returns]},
    )


TEXT, WHOLE, NUMBER = {"type": "string"}, {"type": "integer"}, {"type": "number"}
DAY = {"type": "string", "format": "date"}
HOTELS = api("find_hotels", {"city": TEXT, "nights": WHOLE}, {"hotel": TEXT, "price": NUMBER})
ROOM = api("book_room", {"hotel": TEXT, "guest": TEXT}, {"reference": TEXT})
TABLE = api("book_table", {"place": TEXT, "seats": WHOLE, "day": DAY}, {"code": TEXT})


def sample(*steps: Any, scenario: Scenario = Scenario.SINGLE, **changes: Any) -> JsonObject:
    """A sample of steps: a text of the user, (API, arguments, response) or a list of them for
    calls, and after them a text of the assistant.

    An error is a response that begins with `!`; `references` are given by number of the call.
    """
    references = changes.pop("references", {})
    messages, intent = [Message(role="system", content=SYSTEM)], list[Intention]()
    turn, asked, pool = -1, "", dict[str, Api]()
    for step in steps:
        if isinstance(step, str):
            user = len(messages) == 1 or messages[-1].role == "assistant"
            turn += user
            asked = asked or step
            messages.append(Message(role="user" if user else "assistant", content=step))
            continue
        made = step if isinstance(step, list) else [step]
        for which, arguments, response in made:
            pool[which.id] = which
            if not str(response).startswith("!"):
                own = references.get(len(intent), {})
                told = {k: v for k, v in arguments.items() if k not in own}
                links = {k: Reference(call=c, field=f) for k, (c, f) in own.items()}
                intent.append(Intention(api=which.id, turn=turn, arguments=told, references=links))
        messages += _called(made, len(messages), changes.get("kind", "simulated"))
    changes.pop("kind", None)
    query = Query(
        **{
            "id": "train-0-000001",
            "ability": Ability.CALL,
            "scenario": scenario,
            "now": NOW,
            "pool": tuple(pool.values()) or (HOTELS,),
            "intent": tuple(intent),
            "text": asked,
            **changes,
        }
    )
    dialogue = Dialogue(query=query, messages=tuple(messages))
    found: JsonObject = Sample(dialogue=dialogue, verdict=Verdict()).model_dump(mode="json")
    return found


def _called(made: Sequence[Any], number: int, kind: Any) -> Iterator[Message]:
    calls = [
        ToolCall(id=f"call_{number}_{i}", function=FunctionCall(name=a.function, arguments=given))
        for i, (a, given, _) in enumerate(made)
    ]
    yield Message(role="assistant", tool_calls=tuple(calls))
    for call, (_, _, response) in zip(calls, made, strict=True):
        failed = isinstance(response, str) and response.startswith("!")
        seen = {"response": None if failed else response, "error": response[1:] if failed else None}
        yield Message(
            role="tool",
            content=json.dumps(seen, ensure_ascii=False, separators=(",", ":")),
            tool_call_id=call.id,
            name=call.function.name,
            execution=Execution(kind="planned" if failed else kind),
        )


FAULT = PlannedFault(call=0, error="503 Service Unavailable: try again", transient=True)


def mined(row: JsonObject, *others: JsonObject) -> Template | Rejected:
    """What becomes of a sample, with the values of others of its split."""
    known = SeenValues()
    for other in (row, *others):
        known.add(other)
    return mine(row, known)


def template(row: JsonObject, *others: JsonObject) -> Template:
    made = mined(row, *others)
    assert isinstance(made, Template), made.findings
    return made


def kept(row: JsonObject) -> Sequence[Finding]:
    """What mining says of the values that stay as they are."""
    made = mined(row)
    return made.findings if isinstance(made, Rejected) else made.refused


def slots(made: Template) -> set[str]:
    return {slot for choice in made.choices for slot in choice.slots}


def bare(row: JsonObject) -> JsonObject:
    """A sample without how it was made, and its observations as objects."""
    found: JsonObject = json.loads(json.dumps(row))
    found |= {"provenance": [], "flags": [], "verdict": {}}
    found["dialogue"]["provenance"] = found["dialogue"]["query"]["provenance"] = []
    for message in found["dialogue"]["messages"]:
        if message["role"] == "tool":
            message["content"] = json.loads(message["content"])
    return found


def first_row(made: Template) -> JsonObject:
    """The sample that the original values give."""
    row = [0] * len(made.choices)
    return TemplateRenderer(made).sample(row, made.id, 0).model_dump(mode="json")


def accepted(made: Template, count: int, seed: int = 0) -> tuple[int, list[str]]:
    """How many of some random rows the certain checks accept, and what they say of the others."""
    rng, mould, said = random.Random(seed), TemplateRenderer(made), list[str]()
    for _ in range(count):
        row = [rng.randrange(len(choice.rows)) for choice in made.choices]
        said += [f"{made.id}: {f.detail}" for f in inspect(mould.sample(row, "x", 0).dialogue)[:1]]
    return count - len(said), said


def good_samples() -> list[JsonObject]:
    """The hand-written dialogues that the checks are tested with, as samples."""
    spec = importlib.util.spec_from_file_location("good_dialogues", GOOD)
    assert spec and spec.loader
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    found = [Sample(dialogue=d, verdict=Verdict()) for d in module.ALL_GOOD.values()]
    return [each.model_dump(mode="json") for each in found]
