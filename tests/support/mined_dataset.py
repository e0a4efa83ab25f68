"""Small samples to mine, and what mining makes of them."""

from __future__ import annotations

import importlib.util
import json
import random
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from support import conversations
from support.conversations import fields
from toolloom.pipeline.checks import inspect
from toolloom.pipeline.templates.filling import TemplateRenderer
from toolloom.pipeline.templates.mine import SeenValues, mine
from toolloom.schemas import (
    Api,
    Dialogue,
    Finding,
    JsonObject,
    PlannedFault,
    Rejected,
    Sample,
    Template,
    Verdict,
)

GOOD = Path(__file__).parents[1] / "pipeline" / "checks" / "conftest.py"


def api(name: str, parameters: JsonObject, returns: JsonObject, about: str = "") -> Api:
    """An API of the tool `travel/desk`; fields are schemas by name."""
    about = about or f"Serves {name.replace('_', ' ')}."
    return conversations.api(f"travel/desk/{name}", fields(**parameters), fields(**returns), about)


TEXT, WHOLE, NUMBER = {"type": "string"}, {"type": "integer"}, {"type": "number"}
DAY = {"type": "string", "format": "date"}
HOTELS = api("find_hotels", {"city": TEXT, "nights": WHOLE}, {"hotel": TEXT, "price": NUMBER})
ROOM = api("book_room", {"hotel": TEXT, "guest": TEXT}, {"reference": TEXT})
TABLE = api("book_table", {"place": TEXT, "seats": WHOLE, "day": DAY}, {"code": TEXT})


def sample(*steps: Any, kind: Any = "simulated", **changes: Any) -> JsonObject:
    """A sample of steps, as `conversations` has them, in JSON."""
    return conversations.sample(*steps, kind=kind, **changes).model_dump(mode="json")


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
    return TemplateRenderer(made).sample(tuple(row), made.id)


def accepted(made: Template, count: int, seed: int = 0) -> tuple[int, list[str]]:
    """How many of some random rows the certain checks accept, and what they say of the others."""
    rng, mould, said = random.Random(seed), TemplateRenderer(made), list[str]()
    for _ in range(count):
        row = tuple(rng.randrange(len(choice.rows)) for choice in made.choices)
        dialogue = Dialogue.model_validate(mould.sample(row, "x")["dialogue"])
        said += [f"{made.id}: {f.detail}" for f in inspect(dialogue)[:1]]
    return count - len(said), said


def good_samples() -> list[JsonObject]:
    """The hand-written dialogues that the checks are tested with, as samples."""
    spec = importlib.util.spec_from_file_location("good_dialogues", GOOD)
    assert spec and spec.loader
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    found = [Sample(dialogue=d, verdict=Verdict()) for d in module.ALL_GOOD.values()]
    return [each.model_dump(mode="json") for each in found]
