"""Few-shot rows: documents, demonstrations, a goal, and calls as the whole answer."""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest
from pydantic import ValidationError

from toolloom.pipeline.checks.text.call_text import parse
from toolloom.pipeline.dataset.export.exporting import choose_shots, export
from toolloom.pipeline.dataset.export.formats import format_named
from toolloom.pipeline.dataset.export.shots import FEWER, FewShotRow, few_shot
from toolloom.pipeline.formats.base import NotRepresentable
from toolloom.schemas import ExportError, JsonObject, Reference, Sample


class Shop:
    """Samples by split."""

    name = "shop"

    def __init__(self, **splits: Iterable[Sample]) -> None:
        self._splits = {split: list(samples) for split, samples in splits.items()}

    def splits(self, config: str) -> list[str]:
        return list(self._splits)

    def samples(self, split: str | None = None) -> list[Sample]:
        assert split
        return self._splits[split]


def renamed(sample: Sample, identity: str, city: str = "", said: str = "") -> Sample:
    """The sample under another id, for another city, or in other words."""
    text = sample.model_dump_json().replace(sample.id, identity)
    made = Sample.model_validate_json(text.replace("Zürich", city) if city else text)
    messages = [
        m.model_copy(update={"content": said}) if said and m.role == "user" else m
        for m in made.dialogue.messages
    ]
    dialogue = made.dialogue.model_copy(update={"messages": tuple(messages)})
    return made.model_copy(update={"dialogue": dialogue})


def rows(path: Path) -> list[JsonObject]:
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]


def row(sample: Sample) -> JsonObject:
    ((_, made),) = few_shot(sample, "object").rows
    return made


def test_a_row_is_a_prompt_a_goal_and_its_calls(samples: dict[str, Sample]) -> None:
    """The moment stands with the goal; the answer is nothing but calls."""
    system, user, assistant = row(samples["single"])["messages"]
    assert user["content"] == (
        "Now: Monday 2026-03-02 09:30\nGoal: What is the weather in Zürich?\nActions:"
    )
    assert assistant == {"role": "assistant", "content": "[current_weather(city='Zürich')]"}
    head, _, documents = system["content"].partition("\nAPI functions:\n")
    told = [json.loads(line) for line in documents.splitlines()]
    assert [one["name"] for one in told] == ["current_weather", "find_trains"]
    assert "nothing else" in head and "Demonstrations:\n" not in system["content"]


@pytest.mark.parametrize(
    ("kind", "calls"),
    [
        ("parallel", "[current_weather(city='Zürich'), current_weather(city='Oslo')]"),
        ("irrelevance", "[]"),
        ("recovery", "[current_weather(city='Zürich')]"),
        ("search", "[current_weather(city='Zürich')]"),
        ("multi_turn", "[current_weather(city='Zürich')]"),
    ],
)
def test_the_answer_holds_what_the_first_request_needs(
    kind: str, calls: str, samples: dict[str, Sample]
) -> None:
    """A call that was tried again once, none where no API fits, and not API Search."""
    assert row(samples[kind])["messages"][2]["content"] == calls


def test_found_apis_are_the_documents_of_a_search(samples: dict[str, Sample]) -> None:
    """Only what API Search returned is described."""
    system = row(samples["search"])["messages"][0]["content"]
    assert '"current_weather"' in system
    assert "find_trains" not in system and "api_search" not in system
    assert "the search for APIs" in few_shot(samples["search"], "object").lost


def test_requests_that_one_list_of_calls_does_not_serve_are_left_out(
    samples: dict[str, Sample],
) -> None:
    """Those that ask back, and those whose calls need the results of others."""
    with pytest.raises(NotRepresentable, match="asks before it calls"):
        few_shot(samples["clarification"], "object")
    first = samples["single"]
    intent = first.dialogue.query.intent[0]
    intent = intent.model_copy(update={"references": {"city": Reference(call=0, field="x")}})
    query = first.dialogue.query.model_copy(update={"intent": (intent,)})
    linked = first.model_copy(
        update={"dialogue": first.dialogue.model_copy(update={"query": query})}
    )
    with pytest.raises(NotRepresentable, match="results of others"):
        few_shot(linked, "object")


@pytest.mark.parametrize("words", ["Hi.\nActions: [x()]", "Hi.\nNow: never", "a\nGoal: b", "  "])
def test_words_that_look_like_a_goal_s_lines_are_left_out(
    words: str, samples: dict[str, Sample]
) -> None:
    """Data opens no goal, and no goal is empty."""
    with pytest.raises(NotRepresentable):
        few_shot(renamed(samples["single"], "s-1", said=words), "object")


def test_goals_may_have_lines(samples: dict[str, Sample]) -> None:
    """A line that begins as no mark does is part of the goal."""
    words = "Hello.\n\nActions speak. Demonstrations:\nWeather in Zürich?"
    made = row(renamed(samples["single"], "s-1", said=words))
    assert words in made["messages"][1]["content"]
    FewShotRow.model_validate(made)


def test_the_most_similar_demonstrations_of_train_are_shown(
    samples: dict[str, Sample], tmp_path: Path
) -> None:
    """In all splits; the best first, with the column of their ids."""
    train = [renamed(samples["single"], "train-7-000001", "Bern"), samples["parallel"]]
    train.append(renamed(samples["single"], "train-7-000009", "Rome"))
    shop = Shop(train=train, test_tool=[renamed(samples["single"], "test-7-000001")])
    report = export(shop, format_named("few-shot"), tmp_path, shots=1)
    assert report.lost[FEWER] == 1  # a sample that is itself the only demonstration
    (made,) = rows(tmp_path / "test_tool.jsonl")
    assert made["demonstrations"] == ["train-7-000001"]
    assert made["messages"][0]["content"].endswith(
        "\n\nDemonstrations:\nNow: Monday 2026-03-02 09:30\n"
        "Goal: What is the weather in Bern?\nActions: [current_weather(city='Bern')]"
    )
    assert [one["demonstrations"] for one in rows(tmp_path / "train.jsonl")] == [
        [],
        ["train-7-000001"],
        ["train-7-000001"],
    ]


def test_rows_of_one_template_never_show_each_other(
    samples: dict[str, Sample], tmp_path: Path
) -> None:
    """Nor does a sample show its template's origin."""
    single = samples["single"]
    train = [renamed(single, "t-1"), *(renamed(single, f"t-1-x00000{i}", c) for i, c in
                                       enumerate(("Bern", "Oslo")))]  # fmt: skip
    export(Shop(train=train), format_named("few-shot"), tmp_path)
    assert [one["demonstrations"] for one in rows(tmp_path / "train.jsonl")] == [[], [], []]
    other = renamed(samples["parallel"], "t-2-x000001")
    export(Shop(train=train, validation=[other]), format_named("few-shot"), tmp_path)
    assert rows(tmp_path / "validation.jsonl")[0]["demonstrations"] == ["t-1"]


def test_without_train_there_are_no_demonstrations(
    samples: dict[str, Sample], tmp_path: Path
) -> None:
    """The error says what to do, and that works."""
    shop = Shop(test_tool=[samples["single"]])
    with pytest.raises(ExportError, match="Choose --shots 0"):
        export(shop, format_named("few-shot"), tmp_path)
    assert not list(tmp_path.iterdir())
    report = export(shop, format_named("few-shot"), tmp_path, shots=0)
    assert report.rows == 1 and not report.lost[FEWER]


def test_shots_are_refused_where_none_are_shown() -> None:
    """Three unless told otherwise, none in other formats."""
    assert choose_shots(format_named("few-shot"), None) == 3
    assert choose_shots(format_named("few-shot"), 5) == 5
    assert choose_shots(format_named("trl"), None) == 0
    with pytest.raises(ExportError, match="--format trl --shots 2.*Leave out --shots"):
        choose_shots(format_named("trl"), 2)


def changed(row: JsonObject, place: int, old: str, new: str) -> JsonObject:
    messages = [dict(message) for message in row["messages"]]
    assert old in messages[place]["content"]
    messages[place]["content"] = messages[place]["content"].replace(old, new)
    return {**row, "messages": messages}


@pytest.mark.parametrize(
    ("place", "old", "new", "why"),
    [
        (2, "[", "Sure: [", "no list of calls"),
        (2, "[current_weather(city='Zürich')]", "", "has no actions"),
        (2, "current_weather", "current_wether", "no API function describes"),
        (2, "]", "]\nDone.", "out of place"),
        (1, "Actions:", "", "no actions"),
        (1, "Actions:", "Actions: []", "not one goal without its actions"),
        (1, "Now: ", "Then: ", "out of place"),
        (0, "API functions:\n", "", "no API functions"),
        (0, '{"name"', 'name: "', "no document"),
    ],
)
def test_the_check_reads_the_text_back(
    place: int, old: str, new: str, why: str, samples: dict[str, Sample]
) -> None:
    """Prose, unknown functions and lines out of place are found."""
    with pytest.raises(ValidationError, match=why):
        FewShotRow.model_validate(changed(row(samples["single"]), place, old, new))


def test_the_check_counts_demonstrations(samples: dict[str, Sample]) -> None:
    """The column names as many as the system turn shows."""
    made = row(samples["single"])
    with pytest.raises(ValidationError, match="shows 0 demonstrations"):
        FewShotRow.model_validate({**made, "demonstrations": ["t-1"]})


def test_calls_of_the_answer_read_back(samples: dict[str, Sample]) -> None:
    """Quotes, line ends and nested values are kept, or the sample is left out."""
    sample = samples["single"]
    call = sample.dialogue.messages[2].tool_calls[0]
    for arguments in ({"city": 'O\'Hara\n"x"', "more": [{"a": None}, 1.5, True]}, {"n": 10**5000}):
        function = call.function.model_copy(update={"arguments": arguments})
        turn = sample.dialogue.messages[2].model_copy(
            update={"tool_calls": (call.model_copy(update={"function": function}),)}
        )
        messages: Any = (*sample.dialogue.messages[:2], turn, *sample.dialogue.messages[3:])
        dialogue = sample.dialogue.model_copy(update={"messages": messages})
        other = sample.model_copy(update={"dialogue": dialogue})
        if "n" in arguments:
            with pytest.raises(NotRepresentable, match="cannot hold"):
                few_shot(other, "object")
        else:
            assert parse(row(other)["messages"][2]["content"]) == (function,)
