"""Templates for tests of expansion, made by hand: a room is looked for, and booked."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from support import mined_dataset, toys
from toolloom.pipeline.stage import Sifted, StageInput
from toolloom.pipeline.store.files import Rows, record_line, to_line, write_lines
from toolloom.schemas import (
    Api,
    Choice,
    Expansion,
    JsonObject,
    Rejected,
    Sample,
    Scenario,
    Template,
    marker,
)


def fields(**kinds: str) -> JsonObject:
    """An object schema of fields, each of which is needed; `date` is a format."""
    properties = {
        name: {"type": "string", "format": "date"} if kind == "date" else {"type": kind}
        for name, kind in kinds.items()
    }
    return {"type": "object", "properties": properties, "required": list(kinds)}


def api(name: str, parameters: JsonObject, returns: JsonObject) -> Api:
    return Api(
        category="Travel",
        tool="rooms",
        name=name,
        function=f"{name}_room",
        description=f"{name.title()} a room.",
        parameters=parameters,
        returns=returns,
    )


FIND = api(
    "find",
    fields(city="string", day="date", guests="integer"),
    fields(host="string", price="number", offer="string"),
)
BOOK = api("book", fields(offer="string"), fields(status="string", ticket="string"))


def slots(text: str) -> str:
    """A text in which `<city>` is a slot; one that is nothing else is the slot itself."""
    for name in _SLOTS:
        text = text.replace(f"<{name}>", marker(name))
    return text


_SLOTS = (
    *"city day guests host price offer ticket status".split(),  # noqa: SIM905 - a table of words
    *(
        f"{name}{number}"
        for name in ("city", "day", "guests", "host", "price")
        for number in (1, 2)
    ),
)


def skeleton(
    *turns: tuple[str, list[tuple[Api, JsonObject, JsonObject]], str],
    scenario: Scenario = Scenario.SINGLE,
    references: dict[int, dict[str, tuple[int, str]]] | None = None,
    name: str = "t0",
) -> JsonObject:
    """A sample with slots. A turn: what the user says, calls and their responses, the reply."""
    steps = [step for said, calls, reply in turns for step in (said, *calls, reply)]
    fields = {"scenario": scenario, "references": references or {}, "pool": (FIND, BOOK)}
    row = mined_dataset.sample(*steps, id=name, **fields)
    made: JsonObject = json.loads(slots(json.dumps(row, ensure_ascii=False)))
    return made


def template(sample: JsonObject, name: str = "t0", **pools: Any) -> Template:
    """A mined template. A pool: values of a slot, or by `a__b` pairs of two that go together."""
    sample = json.loads(json.dumps(sample))
    sample["dialogue"]["query"]["id"] = name
    choices = []
    for key, pool in pools.items():
        if key in ("kind", "split"):
            continue
        names = tuple(key.split("__"))
        rows = tuple(value if len(names) > 1 else (value,) for value in pool)
        choices.append(Choice(slots=names, rows=rows, about=key))
    query = sample["dialogue"]["query"]
    return Template(
        id=name,
        kind=pools.get("kind", "mined"),
        goal="A room.",
        apis=tuple(call["api"] for call in query["intent"]),
        split=pools.get("split"),
        sample=sample,
        choices=tuple(choices),
    )


ASKED = {"city": "<city>", "day": "<day>", "guests": "<guests>"}
FOUND = {"host": "<host>", "price": "<price>", "offer": "<offer>"}
SINGLE = skeleton(
    (
        "Please find me a room in <city> on <day> for <guests> guests.",
        [(FIND, ASKED, FOUND)],
        "I found one at <host> for <price> euros, the offer is <offer>.",
    )
)
CITIES = ["Zurich", "Oslo", "Palo Alto", "São Paulo"]
DAYS = ["2026-04-05", "2026-05-17", "2026-11-09"]
HOSTS = ["Casa Verde", "Blue Lodge", "Inn Altona"]
PLAIN: dict[str, Any] = {
    "city": CITIES,
    "day": DAYS,
    "guests": [2, 3, 6],
    "host": HOSTS,
    "price": [81.5, 120, 249.9],
    "offer": ["QX7781", "LM4302"],
}
MANY: dict[str, Any] = {
    **PLAIN,
    "city": [*CITIES, "Bergen", "Turin", "Quito", "Lima", "Kyoto", "Dakar", "Riga", "Hanoi"],
    "day": [*DAYS, "2026-06-21", "2026-07-25", "2026-12-13"],
    "guests": [2, 3, 6, 8],
}
"""288 rows that say something of their own."""


def given(
    folder: Path,
    templates: list[Template],
    rows: list[Sample] | None = None,
    known: list[JsonObject] | None = None,
    **fields: Any,
) -> StageInput:
    """What the stage `expanded` is given; `fields` are the recipe's."""
    folder.mkdir(parents=True, exist_ok=True)
    made, samples, others = (folder / n for n in ("templates.jsonl", "rows.jsonl", "known.jsonl"))
    count, _ = write_lines(made, map(record_line, templates))
    write_lines(samples, map(record_line, rows or []))
    write_lines(others, map(to_line, known or []))
    return StageInput(
        toys.recipe(**fields),
        "expanded",
        Rows(samples, len(rows or [])),
        Rows(others, len(known or [])),
        folder,
        lambda name: Rows(made, count if name == "templates" else 0),
    )


def parted(found: list[Sifted]) -> tuple[list[Expansion], list[Rejected]]:
    """Expansions and rejects of a stage."""
    lines = [each for each in found if isinstance(each, bytes)]
    fell = [each for each in found if isinstance(each, Rejected)]
    return [Expansion.model_validate_json(line) for line in lines], fell
