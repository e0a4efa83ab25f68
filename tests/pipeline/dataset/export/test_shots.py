"""Few-shot and all-shot rows: goals as lines of text, answered by calls alone."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import pytest
from support.shop import Shop, changed, lines, with_arguments

from toolloom.pipeline.checks.text.call_text import parse
from toolloom.pipeline.dataset.demonstrations import (
    FEWER,
    LONGEST,
    OF_CATEGORY,
    OPEN,
    AllShots,
    all_shot,
    few_shot,
)
from toolloom.pipeline.dataset.exporting import FORMATS, export
from toolloom.pipeline.formats.base import NotRepresentable
from toolloom.schemas import Api, ExportError, JsonObject, Reference, Sample

Samples = dict[str, Sample]


def renamed(sample: Sample, identity: str, city: str = "", said: str = "") -> Sample:
    """The sample under another id, for another city, or in other words."""
    text = sample.model_dump_json().replace(sample.id, identity)
    made = Sample.model_validate_json(text.replace("Zürich", city) if city else text)
    words = {"content": said} if said else {}
    turns = made.dialogue.messages
    return changed(made, [m.model_copy(update=words if m.role == "user" else {}) for m in turns])


def row(sample: Sample) -> JsonObject:
    ((_, made),) = few_shot(sample, "object").rows
    return made


# -- Few-shot --------------------------------------------------------------------------------------


ZURICH = "[current_weather(city='Zürich')]"
BOTH = "[current_weather(city='Zürich'), current_weather(city='Oslo')]"


def test_the_answer_holds_what_the_first_request_needs(samples: Samples) -> None:
    """A call that was tried again once, none where no API fits, and not API Search."""
    wanted = dict.fromkeys(("recovery", "search", "multi_turn"), ZURICH)
    wanted |= {"parallel": BOTH, "irrelevance": "[]"}
    told = {kind: row(samples[kind])["messages"][2]["content"] for kind in wanted}
    assert told == wanted


def test_requests_that_one_list_of_calls_does_not_serve_are_left_out(samples: Samples) -> None:
    """Those that ask back, need the results of other calls, or call what is not described."""
    with pytest.raises(NotRepresentable, match="asks before it calls"):
        few_shot(samples["clarification"], "object")
    (intent,) = samples["single"].dialogue.query.intent
    intent = intent.model_copy(update={"references": {"city": Reference(call=0, field="x")}})
    with pytest.raises(NotRepresentable, match="results of others"):
        few_shot(changed(samples["single"], intent=(intent,)), "object")
    with pytest.raises(NotRepresentable, match="not among those given"):
        few_shot(changed(samples["single"], pool=()), "object")


@pytest.mark.parametrize("words", ["Hi.\nActions: [x()]", "Hi.\nNow: never", "a\nGoal: b", "  "])
def test_words_that_look_like_a_goal_s_lines_are_left_out(words: str, samples: Samples) -> None:
    """Data opens no goal, and no goal is empty."""
    with pytest.raises(NotRepresentable):
        few_shot(renamed(samples["single"], "s-1", said=words), "object")


def test_the_most_similar_demonstrations_of_train_are_shown(
    samples: Samples, tmp_path: Path
) -> None:
    """In all splits; the best first, with the column of their ids."""
    single = samples["single"]
    bern, rome = (renamed(single, f"train-7-{n}", city) for n, city in ((1, "Bern"), (9, "Rome")))
    train = [bern, samples["parallel"], rome]
    shop = Shop({"train": train, "test_tool": [renamed(single, "test-7-1")]})
    report = export(shop, FORMATS["few-shot"], tmp_path, shots=1)
    assert report.lost[FEWER] == 1  # a sample that is itself the only demonstration
    (made,) = lines(tmp_path / "test_tool.jsonl")
    assert made["demonstrations"] == [bern.id]
    assert made["messages"][0]["content"].endswith(
        "\n\nDemonstrations:\nNow: Monday 2026-03-02 09:30\n"
        "Goal: What is the weather in Bern?\nActions: [current_weather(city='Bern')]"
    )
    told = [one["demonstrations"] for one in lines(tmp_path / "train.jsonl")]
    assert told == [[], [bern.id], [bern.id]]


def test_without_train_there_are_no_demonstrations(samples: Samples, tmp_path: Path) -> None:
    """The error says what to do, and that works."""
    shop = Shop({"test_tool": [samples["single"]]})
    with pytest.raises(ExportError, match="Choose --shots 0"):
        export(shop, FORMATS["few-shot"], tmp_path)
    assert not list(tmp_path.iterdir())
    report = export(shop, FORMATS["few-shot"], tmp_path, shots=0)
    assert report.rows == 1 and not report.lost[FEWER]


def test_calls_of_the_answer_read_back(samples: Samples) -> None:
    """Quotes, line ends and nested values are kept, or the sample is left out."""
    arguments = {"city": 'O\'Hara\n"x"', "more": [{"a": None}, 1.5, True]}
    made = row(with_arguments(samples["single"], arguments))
    assert [call.arguments for call in parse(made["messages"][2]["content"])] == [arguments]
    with pytest.raises(NotRepresentable, match="cannot hold"):
        few_shot(with_arguments(samples["single"], {"n": 10**5000}), "object")


# -- All-shot --------------------------------------------------------------------------------------


def many(sample: Sample, ids: Iterable[str]) -> Iterator[Sample]:
    """The sample under other ids, each for a city of its own."""
    for place, identity in enumerate(ids):
        yield renamed(sample, identity, f"City {place}")


def woven(samples: Iterable[Sample]) -> list[JsonObject]:
    weaver = AllShots()
    made = [row for one in samples for _, row in weaver.rows(one, "object").rows]
    return [*made, *(row for _, row in weaver.rest())]


def text(row: JsonObject) -> str:
    return "".join(segment["text"] for segment in row["segments"])


def pool(samples: Samples, **weather: Any) -> tuple[Api, ...]:
    """The APIs of all samples, with other fields in that of the weather."""
    first, *others = samples["single"].dialogue.query.pool
    return first.model_copy(update=weather), *others


def test_each_sample_is_in_one_row_and_no_row_is_too_long(samples: Samples, tmp_path: Path) -> None:
    """Rows are whole, of one split, and of one category."""
    ids = [f"train-7-{number:06d}" for number in range(200)]
    same = list(many(samples["single"], ids))
    shop = Shop({"train": same, "validation": same})
    report = export(shop, FORMATS["all-shot"], tmp_path)
    assert report.held == 400 and report.rows < 20
    for split in ("train", "validation"):
        rows = lines(tmp_path / f"{split}.jsonl")
        assert sorted(i for row in rows for i in row["ids"]) == ids
        assert all(len(text(row).encode()) <= 4 * LONGEST for row in rows)


def test_rows_of_one_template_are_spread(samples: Samples) -> None:
    """While few sequences wait, each has one of them; then they fill up."""
    ids = [f"t-{template}-x{row:06d}" for template in range(4) for row in range(10)]
    rows = woven(many(samples["single"], ids))
    assert len(rows) == 10
    for row in rows:
        assert len({i.partition("-x")[0] for i in row["ids"]}) == len(row["ids"]) == 4
    crowded = woven(many(samples["single"], [f"t-0-x{row:06d}" for row in range(100)]))
    assert OF_CATEGORY <= len(crowded) < 25


def test_no_row_has_the_api_that_a_goal_lacks(samples: Samples) -> None:
    """A goal that no API serves stays so: the document of the one it lacks is kept away."""
    lacking = samples["irrelevance"]
    outside = lacking.dialogue.query.outside
    assert outside
    served = changed(samples["single"], pool=(*pool(samples), outside))
    for order in ([lacking, served], [served, lacking]):
        assert len(woven(order)) == 2
    assert len(woven([lacking, samples["single"]])) == 1


def test_one_name_is_one_api_in_a_row(samples: Samples) -> None:
    """Two APIs of one category that share a function's name are never told together."""
    twin = changed(samples["parallel"], pool=pool(samples, tool="buoy"))
    assert len(woven([samples["single"], twin])) == 2


def test_what_is_longer_than_a_sequence_is_left_out(samples: Samples) -> None:
    """And told: nothing is cut."""
    wordy = changed(samples["single"], pool=pool(samples, description="word " * 2_000))
    with pytest.raises(NotRepresentable, match="longer than a sequence of 2,048 tokens"):
        all_shot(wordy, "object")


def test_what_waits_is_bounded(samples: Samples) -> None:
    """Sequences of many categories do not pile up."""
    weaver = AllShots()
    for number in range(600):
        one = changed(samples["single"], pool=pool(samples, category=f"c{number}"))
        weaver.rows(one, "object")
    assert len([*weaver.rest()]) == OPEN
