"""The stage `templates`: what is mined, written and asked for, and what a model's words become."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import pytest
from support import expanded_dataset, mined_dataset, toys
from support.mined_dataset import HOTELS, NUMBER, ROOM, TABLE, TEXT, api

from toolloom.llm import FakeServer, Gateway
from toolloom.pipeline.stage import Context, StageInput
from toolloom.pipeline.templates.templates import draw_templates, make_template
from toolloom.schemas import Api, JsonObject, Need, Outcome, Reason, Rejected, Split, Template
from toolloom.schemas.splits import split_of_need

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


def test_samples_are_mined_with_the_values_of_each_other(tmp_path: Path) -> None:
    """The second pass knows what the first one saw."""
    rows = [find("Lisbon", "Casa Azul", 0), find("Porto", "Rio Verde", 1)]
    made = list(draw_templates(given(tmp_path, rows, [HOTELS])))
    assert [type(m) for m in made] == [Template, Template]
    assert "Porto" in str(made[0]) and "Rio Verde" in str(made[0])
    assert all(isinstance(m, Template) and m.split is Split.TRAIN for m in made)


UNSEEN = {**toys.ALL_IN_TRAIN, "unseen": ["travel"]}


@pytest.mark.parametrize(
    ("rows", "fields"),
    [
        pytest.param(
            [find("Lisbon", "Casa Azul", 0)],
            {"expand": {"splits": ["validation"], "ask": False}},
            id="a split without rows gives neither templates nor values",
        ),
        pytest.param([], {"expand": {"ask": False}}, id="asking can be left out"),
        pytest.param([], {"splits": UNSEEN}, id="an API of a test is called in its split alone"),
    ],
)
def test_nothing_is_drawn(rows: list[JsonObject], fields: dict[str, Any], tmp_path: Path) -> None:
    """Where nothing may be."""
    assert not list(draw_templates(given(tmp_path, rows, [RAIN], **fields)))


def test_mining_can_be_left_out(tmp_path: Path) -> None:
    """Then an API with samples is asked for like any other."""
    rows = [find("Lisbon", "Casa Azul", 0)]
    (need,) = draw_templates(given(tmp_path, rows, [HOTELS], expand={"mine": False}))
    assert isinstance(need, Need)


def test_api_without_a_template_is_asked_for(tmp_path: Path) -> None:
    """A need of one call, of a wanted split, with distractors; the same every time."""
    rows, apis = [find("Lisbon", "Casa Azul", 0)], [HOTELS, RAIN, ROOM, TABLE]
    setting = given(tmp_path, rows, apis, queries={"distractors": 2})
    made = list(draw_templates(setting))
    need = next(m for m in made if isinstance(m, Need) and m.intent[0].api == RAIN.id)
    assert list(need.intent[0].arguments) == ["city"]
    assert len(need.pool) == 3
    assert split_of_need(setting.recipe.splits, need) is Split.TRAIN
    assert made == list(draw_templates(setting))


def test_written_templates_come_too(tmp_path: Path) -> None:
    """With distractors that their split may show; what they call is not asked for."""
    sea = TABLE.model_copy(update={"category": "sea", "function": "sea_table"})
    path = tmp_path / "t.yaml"
    call = 'calls: [{api: rain, arguments: {city: "{city}"}, response: {amount: 3.5}}]'
    path.write_text(
        "templates:\n- name: rain\n  goal: How much does it rain in {city}?\n"
        f"  {call}\n  pools: {{city: [Lisbon, Porto]}}\n"
    )
    splits = {"seen": ["travel"], "unseen": ["sea"]}
    plan = {"templates": [str(path)]}
    made = list(draw_templates(given(tmp_path, [], [RAIN, ROOM, sea], expand=plan, splits=splits)))
    (one,) = [m for m in made if isinstance(m, Template)]
    assert one.kind == "written"
    assert RAIN.id not in {m.intent[0].api for m in made if isinstance(m, Need)}
    assert {a["category"] for a in one.sample["dialogue"]["query"]["pool"]} == {"travel"}


def test_api_without_values_is_rejected(tmp_path: Path) -> None:
    """Where nothing says what to pass, nobody is asked."""
    (made,) = draw_templates(given(tmp_path, [], [SECRET]))
    assert isinstance(made, Rejected)
    assert made.reason is Reason.NOTHING_TO_DRAW
    assert SECRET.id in made.detail


def worded(tmp_path: Path, write: Callable[[Need], str]) -> tuple[Need, Outcome]:
    """What becomes of the need for RAIN, in the words that a model writes."""
    setting = given(tmp_path, [], [RAIN])
    (need,) = draw_templates(setting)
    assert isinstance(need, Need)

    async def run() -> Outcome:
        async with (
            FakeServer(lambda body: write(need)) as server,
            Gateway(tmp_path / "cache.sqlite") as gateway,
        ):
            model = {"base_url": server.base_url, "model": "fake", "retry": {"tries": 1}}
            recipe = toys.recipe(expand={}, model=model)
            return await make_template(need, Context.of(recipe, gateway))

    return need, asyncio.run(run())


def test_worded_need_becomes_a_template(tmp_path: Path) -> None:
    """What the model's words cost is told where the template comes from."""
    need, outcome = worded(
        tmp_path, lambda n: f"How much rain falls in {n.intent[0].arguments['city']} today?"
    )
    (made,) = outcome.accepted
    assert isinstance(made, Template)
    assert (made.id, made.kind, made.goal) == (
        need.id,
        "asked",
        "How much rain falls in {city} today?",
    )
    assert made.provenance[0].requests == 1
    assert made.provenance[0].parents == (RAIN.id,)
    good, said = mined_dataset.accepted(made, 20)
    assert good >= 19, said


def test_words_without_the_value_are_rejected(tmp_path: Path) -> None:
    """With all that the model said and what it cost."""
    need, outcome = worded(tmp_path, lambda n: "How much rain falls today?")
    (made,) = outcome.rejected
    assert made.reason is Reason.VALUE_NOT_MENTIONED
    assert made.record["id"] == need.id
    assert made.raw
    assert made.provenance[0].requests
