"""All-shot rows: goals of a category in one sequence, with a loss on every call."""

from __future__ import annotations

import json
import tracemalloc
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import pytest
from pydantic import ValidationError

from toolloom.pipeline.dataset.export.exporting import export
from toolloom.pipeline.dataset.export.formats import format_named
from toolloom.pipeline.dataset.export.shots import (
    LONGEST,
    OF_CATEGORY,
    AllShotRow,
    AllShots,
    all_shot,
    read_lines,
)
from toolloom.pipeline.formats.base import ExportPlace, NotRepresentable
from toolloom.schemas import Api, JsonObject, Sample


class Shop:
    """The same samples in two splits."""

    name = "shop"

    def __init__(self, samples: Iterable[Sample]) -> None:
        self._samples = samples

    def splits(self, config: str) -> list[str]:
        return ["train", "validation"]

    def samples(self, split: str | None = None) -> Iterator[Sample]:
        yield from self._samples


def many(sample: Sample, ids: Iterable[str]) -> Iterator[Sample]:
    """The sample under other ids, each for a city of its own."""
    text = sample.model_dump_json()
    for place, identity in enumerate(ids):
        yield Sample.model_validate_json(
            text.replace(sample.id, identity).replace("Zürich", f"City {place}")
        )


def with_pool(sample: Sample, pool: tuple[Api, ...], **more: Any) -> Sample:
    query = sample.dialogue.query.model_copy(update={"pool": pool, **more})
    dialogue = sample.dialogue.model_copy(update={"query": query})
    return sample.model_copy(update={"dialogue": dialogue})


def woven(samples: Iterable[Sample]) -> list[JsonObject]:
    weaver = AllShots()
    made = [row for one in samples for _, row in weaver.rows(one, "object").rows]
    return [*made, *(row for _, row in weaver.rest())]


def text(row: JsonObject) -> str:
    return "".join(segment["text"] for segment in row["segments"])


def test_documents_come_first_then_goals_with_their_calls(samples: dict[str, Sample]) -> None:
    """Nothing stands between them, and the label is true for calls alone."""
    one, two = many(samples["single"], ["a-1", "a-2"])
    (row,) = woven([one, two])
    assert row["ids"] == ["a-1", "a-2"]
    assert row["apis"] == ["weather/station/current", "travel/rail/trains"]
    labels = [segment["label"] for segment in row["segments"]]
    assert labels == [False, True, False, True]
    documents, _, goals = text(row).partition("\n\n")
    head, *lines = documents.split("\n")
    assert head == "API functions:"
    assert [json.loads(line)["name"] for line in lines] == ["current_weather", "find_trains"]
    assert goals == "".join(
        f"Now: Monday 2026-03-02 09:30\nGoal: What is the weather in City {i}?\n"
        f"Actions: [current_weather(city='City {i}')]\n"
        for i in range(2)
    )


def test_a_loss_falls_on_every_call_and_on_nothing_else(samples: dict[str, Sample]) -> None:
    """As Axolotl masks, with a token for each character."""
    (row,) = woven(many(samples["parallel"], ["a-1", "a-2", "a-3"]))
    masked = "".join(s["text"] if s["label"] else "·" * len(s["text"]) for s in row["segments"])
    learnt = [line for line in masked.replace("·", "\n").split("\n") if line]
    assert len(learnt) == 3 and all(line.startswith(" [current_weather(") for line in learnt)
    (alone,) = all_shot(samples["irrelevance"], "object").rows
    assert alone[1]["segments"][1] == {"label": True, "text": " []\n"}


def test_each_sample_is_in_one_row_and_no_row_is_too_long(
    samples: dict[str, Sample], tmp_path: Path
) -> None:
    """Rows are whole, of one split, and of one category."""
    ids = [f"train-7-{number:06d}" for number in range(200)]
    shop = Shop(list(many(samples["single"], ids)))
    report = export(shop, format_named("all-shot"), tmp_path)
    assert report.held == 400 and report.rows < 20
    for split in ("train", "validation"):
        lines = (tmp_path / f"{split}.jsonl").read_text(encoding="utf-8").splitlines()
        rows = [json.loads(line) for line in lines]
        assert sorted(i for row in rows for i in row["ids"]) == ids
        assert all(len(text(row).encode()) <= 4 * LONGEST for row in rows)
        for row in rows:
            AllShotRow.model_validate(row)


def test_rows_of_one_template_are_spread(samples: dict[str, Sample]) -> None:
    """While few sequences wait, each has one of them; then they fill up."""
    ids = [f"t-{template}-x{row:06d}" for template in range(4) for row in range(10)]
    rows = woven(many(samples["single"], ids))
    assert len(rows) == 10
    for row in rows:
        assert len({i.partition("-x")[0] for i in row["ids"]}) == len(row["ids"]) == 4
    crowded = woven(many(samples["single"], [f"t-0-x{row:06d}" for row in range(100)]))
    assert OF_CATEGORY <= len(crowded) < 25


def test_categories_stay_apart(samples: dict[str, Sample]) -> None:
    """What is called decides, not what is on offer beside it."""
    single = samples["single"]
    pool = single.dialogue.query.pool
    other = pool[0].model_copy(update={"category": "climate"})
    rows = woven([single, with_pool(samples["parallel"], (other, pool[1]))])
    assert [row["apis"][0] for row in rows] == [
        "weather/station/current",
        "climate/station/current",
    ]


def test_no_row_has_the_api_that_a_goal_lacks(samples: dict[str, Sample]) -> None:
    """A goal that no API serves stays so: the document of the one it lacks is kept away."""
    lacking = samples["irrelevance"]
    outside = lacking.dialogue.query.outside
    assert outside
    served = with_pool(samples["single"], (*samples["single"].dialogue.query.pool, outside))
    for order in ([lacking, served], [served, lacking]):
        assert len(woven(order)) == 2
    assert len(woven([lacking, samples["single"]])) == 1


def test_one_name_is_one_api_in_a_row(samples: dict[str, Sample]) -> None:
    """Two APIs of one category that share a function's name are never told together."""
    single = samples["single"]
    pool = single.dialogue.query.pool
    twin = pool[0].model_copy(update={"tool": "buoy"})
    assert len(woven([single, with_pool(samples["parallel"], (twin, pool[1]))])) == 2


def test_what_is_longer_than_a_sequence_is_left_out(samples: dict[str, Sample]) -> None:
    """And told: nothing is cut."""
    single = samples["single"]
    pool = single.dialogue.query.pool
    wordy = pool[1].model_copy(update={"description": "word " * 2_000})
    with pytest.raises(NotRepresentable, match="longer than a sequence of 2,048 tokens"):
        all_shot(with_pool(single, (pool[0], wordy)), "object")


def test_what_waits_is_bounded(samples: dict[str, Sample]) -> None:
    """Sequences of many categories do not pile up."""
    single = samples["single"]
    pool = single.dialogue.query.pool

    def peak(count: int) -> int:
        weaver = AllShots()
        tracemalloc.start()
        for number in range(count):
            api = pool[0].model_copy(update={"category": f"c{number}"})
            weaver.rows(with_pool(single, (api, pool[1])), "object")
        most = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        return most

    peak(10)
    assert peak(2_000) < 1.3 * peak(400)


def test_axolotl_is_told_where_the_rows_are(tmp_path: Path) -> None:
    """What is validated is not trained on."""
    made = format_named("all-shot").notes(ExportPlace("shop", ("train", "validation"), "/x"))
    assert made["axolotl.yaml"].splitlines() == [
        "sequence_len: 2048",
        "sample_packing: false",
        "train_on_inputs: false",
        "datasets:",
        '  - path: "/x/train.jsonl"',
        "    ds_type: json",
        "    type: input_output",
        "test_datasets:",
        '  - path: "/x/validation.jsonl"',
        "    ds_type: json",
        "    type: input_output",
    ]


def relabelled(row: JsonObject, place: int, **changes: Any) -> JsonObject:
    segments = [dict(segment) for segment in row["segments"]]
    segments[place] |= changes
    return {**row, "segments": segments}


def test_an_argument_that_no_document_has(samples: dict[str, Sample]) -> None:
    """Where a function takes no other arguments, a call with one is found."""
    (row,) = woven(many(samples["single"], ["a-1"]))
    told = row["segments"][0]["text"]
    closed = told.replace('"type": "object"', '"type": "object", "additionalProperties": false', 1)
    row = relabelled(row, 0, text=closed)
    AllShotRow.model_validate(row)
    with pytest.raises(ValidationError, match="has no argument 'town'"):
        AllShotRow.model_validate(relabelled(row, 1, text=" [current_weather(town='Rome')]\n"))


@pytest.mark.parametrize(
    ("place", "changes", "why"),
    [
        (1, {"label": False}, "not every call has a loss"),
        (2, {"label": True}, "not every call has a loss"),
        (0, {"text": "API functions:\n\nNow: x\nGoal: y\nActions:"}, "0 API functions"),
        (0, {"text": "Functions:\n\nGoal: y\nActions:"}, "does not begin"),
        (1, {"text": " [current_wether(city='Rome')]\n"}, "no API function describes"),
        (1, {"text": " Sure!\n"}, "no list of calls"),
        (1, {"text": " [current_weather(city='Rome')]\nBye.\n"}, "out of place"),
        (3, {"text": "\n"}, "has no actions"),
    ],
)
def test_the_check_finds_what_was_changed(
    place: int, changes: dict[str, Any], why: str, samples: dict[str, Sample]
) -> None:
    """Labels and text must tell the same goals and calls."""
    (row,) = woven(many(samples["single"], ["a-1", "a-2"]))
    AllShotRow.model_validate(row)
    with pytest.raises(ValidationError, match=why):
        AllShotRow.model_validate(relabelled(row, place, **changes))


def test_goals_and_calls_read_back(samples: dict[str, Sample]) -> None:
    """The text of a row holds what its samples said and called."""
    (row,) = woven(many(samples["parallel"], ["a-1", "a-2"]))
    found = read_lines(text(row).partition("\n\n")[2])
    assert [one.goal for one in found] == [
        f"What is the weather in City {i}, and what is it in Oslo?" for i in range(2)
    ]
    assert [call.arguments for one in found for call in one.calls or ()] == [
        {"city": city} for i in range(2) for city in (f"City {i}", "Oslo")
    ]
