"""Templates for tests of expansion, made by hand: a room is looked for, and booked."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from support import mined_dataset, toys
from support.mined_dataset import DAY, NUMBER, TEXT, WHOLE, api
from toolloom.pipeline.stage import Sifted, StageInput
from toolloom.pipeline.store.files import Rows, record_line, to_line, write_lines
from toolloom.schemas import (
    Api,
    Choice,
    JsonObject,
    Rejected,
    Sample,
    Scenario,
    Template,
    marker,
)

FIND = api(
    "find",
    {"city": TEXT, "day": DAY, "guests": WHOLE},
    {"host": TEXT, "price": NUMBER, "offer": TEXT},
    "Find a room.",
)
BOOK = api("book", {"offer": TEXT}, {"status": TEXT, "ticket": TEXT}, "Book a room.")


def skeleton(
    *turns: tuple[str, list[tuple[Api, JsonObject, JsonObject]], str],
    scenario: Scenario = Scenario.SINGLE,
    references: dict[int, dict[str, tuple[int, str]]] | None = None,
) -> JsonObject:
    """A sample in which `<city>` is a slot.

    A turn: what the user says, calls and their responses, the reply.
    """
    steps = [step for said, calls, reply in turns for step in (said, *calls, reply)]
    fields = {"scenario": scenario, "references": references or {}, "pool": (FIND, BOOK)}
    row = json.dumps(mined_dataset.sample(*steps, **fields), ensure_ascii=False)
    made: JsonObject = json.loads(re.sub("<([a-z]+[12]?)>", lambda slot: marker(slot[1]), row))
    return made


def template(sample: JsonObject, name: str = "t0", **pools: Any) -> Template:
    """A mined template, with values by slot."""
    sample = json.loads(json.dumps(sample))
    query = sample["dialogue"]["query"]
    query["id"] = name
    kind, split = pools.pop("kind", "mined"), pools.pop("split", None)
    return Template(
        id=name,
        kind=kind,
        goal="A room.",
        apis=tuple(call["api"] for call in query["intent"]),
        split=split,
        sample=sample,
        choices=tuple(
            Choice(slots=(slot,), rows=tuple((value,) for value in pool), about=slot)
            for slot, pool in pools.items()
        ),
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
    templates: Iterable[Template] = (),
    rows: Iterable[JsonObject] = (),
    known: Iterable[JsonObject] = (),
    apis: Iterable[Api] = (),
    **fields: Any,
) -> StageInput:
    """What the stages `templates` and `expanded` are given; `fields` are the recipe's."""
    folder.mkdir(parents=True, exist_ok=True)

    def written(name: str, lines: Iterable[bytes]) -> Rows:
        path = folder / f"{name}.jsonl"
        return Rows(path, write_lines(path, lines)[0])

    samples = written("rows", map(to_line, rows))
    others = written("known", map(to_line, known))
    nothing = written("none", ())
    earlier = {
        "templates": written("templates", map(record_line, templates)),
        "apis": written("apis", map(record_line, apis)),
    }
    return StageInput(
        toys.recipe(**fields),
        "expanded",
        samples,
        others,
        lambda name: earlier.get(name, nothing),
    )


def parted(found: list[Sifted]) -> tuple[list[Sample], list[Rejected]]:
    """Rows and rejects of a stage."""
    lines = [each for each in found if isinstance(each, bytes)]
    fell = [each for each in found if isinstance(each, Rejected)]
    return [Sample.model_validate_json(line) for line in lines], fell
