"""The stage `templates`: what is mined, and what is written."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any

from support import expanded_dataset, mined_dataset
from support.mined_dataset import HOTELS, NUMBER, ROOM, TABLE, TEXT, api

from toolloom.pipeline.stage import StageInput
from toolloom.pipeline.templates.expand import draw_templates
from toolloom.schemas import Api, JsonObject, Split, Template

CITY = {"type": "string", "description": "Name of the city"}
RAIN = api("rain", {"city": CITY}, {"amount": NUMBER}, "Tells the rain of a city.")
SECRET = api("secret", {"blob": TEXT}, {"done": TEXT}, "Does something.")


def find(city: str, hotel: str, number: int) -> JsonObject:
    return mined_dataset.sample(
        f"Find me a hotel in {city} for 3 nights.",
        (HOTELS, {"city": city, "nights": 3}, {"hotel": hotel, "price": 80.25}),
        f"{hotel} in {city} costs 80.25.",
        id=f"train-0-{number:06d}",
    )


def given(
    folder: Path, rows: Iterable[JsonObject], apis: Iterable[Api] = (), **fields: Any
) -> StageInput:
    return expanded_dataset.given(folder, rows=rows, apis=apis, **{"expand": {}, **fields})


def drawn(of: StageInput) -> list[Template]:
    return [Template.model_validate_json(m) for m in draw_templates(of) if isinstance(m, bytes)]


def test_samples_are_mined_with_the_values_of_each_other(tmp_path: Path) -> None:
    """The second pass knows what the first one saw."""
    rows = [find("Lisbon", "Casa Azul", 0), find("Porto", "Rio Verde", 1)]
    made = drawn(given(tmp_path, rows, [HOTELS]))
    assert len(made) == 2
    assert "Porto" in str(made[0])
    assert all(m.split is Split.TRAIN for m in made)
    validation = given(tmp_path, rows, [HOTELS], expand={"splits": ["validation"]})
    assert not drawn(validation)  # a split without rows gives neither templates nor values
    assert not drawn(given(tmp_path, rows, [HOTELS], expand={"mine": False}))


def test_written_templates_come_too(tmp_path: Path) -> None:
    """With distractors that their split may show."""
    sea = TABLE.model_copy(update={"category": "sea", "function": "sea_table"})
    path = tmp_path / "t.yaml"
    call = 'calls: [{api: rain, arguments: {city: "{{ city }}"}, response: {amount: 3.5}}]'
    path.write_text(
        "templates:\n- name: rain\n  goal: How much does it rain in {{ city }}?\n"
        f"  {call}\n  pools: {{city: [Lisbon, Porto]}}\n"
    )
    splits = {"seen": ["travel"], "unseen": ["sea"]}
    plan = {"templates": [str(path)]}
    (one,) = drawn(given(tmp_path, [], [RAIN, ROOM, sea], expand=plan, splits=splits))
    assert one.kind == "written"
    assert {a["category"] for a in one.sample["dialogue"]["query"]["pool"]} == {"travel"}
