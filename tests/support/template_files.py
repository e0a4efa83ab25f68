"""APIs and files of templates, for the tests of what people write."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from support import conversations
from support.conversations import fields
from toolloom.pipeline.checks import inspect
from toolloom.pipeline.templates.filling import TemplateRenderer
from toolloom.pipeline.templates.written import Given, load_templates
from toolloom.schemas import Api, Dialogue, Template


def api(name: str, returns: Any = None, **properties: Any) -> Api:
    """An API of the tool `Travel/hotels`; a parameter is a schema or the name of a type."""
    return conversations.api(f"Travel/hotels/{name}", fields(**properties), returns)


CITY = {"type": "string", "description": "name of a city", "examples": ["Paris", "Rome", "Oslo"]}
WEATHER = fields(
    city="string",
    celsius={"type": "integer", "minimum": -20, "maximum": 40},
    sky={"enum": ["clear", "cloudy"]},
)
BOOKING = fields(booking_id="string", price="integer")
APIS = (
    api("get_weather", WEATHER, city=CITY),
    api("book_room", BOOKING, city=CITY, guests={"type": "integer", "minimum": 1, "maximum": 9}),
    api("cancel_room", None, booking_id="string"),
    api("set_language", None, language={"enum": ["en", "de"]}),
    api("add_note", None, text="string", urgent={"type": "boolean", "default": False}),
    api("read_note", {"type": "string"}, note="integer"),
)


def load(folder: Path, text: str, **given: Any) -> list[Template]:
    path = folder / "t.yaml"
    path.write_text(text, encoding="utf-8")
    return load_templates([path], Given(APIS, **given))


def template(goal: str, calls: str, rest: str = "") -> str:
    """A file of one template: the goal stands in line 3, calls in 4, the rest from 5 on."""
    return f"templates:\n- name: one\n  goal: {json.dumps(goal)}\n  calls: {calls}\n{rest}"


def weather(goal: str = "How is the weather in {{ city }}?", rest: str = "") -> str:
    return template(goal, '[{api: get_weather, arguments: {city: "{{ city }}"}}]', rest)


def messages(one: Template) -> list[Any]:
    renderer = TemplateRenderer(one)
    sample = renderer.sample((0,) * len(one.choices))
    dialogue = Dialogue.model_validate(sample["dialogue"])
    assert not inspect(dialogue)
    return [*dialogue.messages]


def choice(one: Template, slot: str) -> Any:
    return next(c for c in one.choices if slot in c.slots)
