from pathlib import Path
from typing import Any

import curating
import toys

from toolloom.pipeline.dataset.instructions import seed_of, seed_of_rows
from toolloom.pipeline.stage import Sifting
from toolloom.pipeline.stages_beside import draw_seeds
from toolloom.pipeline.store.files import Rows, record_line, to_line, write_lines
from toolloom.schemas import (
    API_SEARCH,
    FINISH,
    Granularity,
    Instruction,
    JsonObject,
    Sample,
    Scenario,
    Seed,
    Split,
)


def sample(**changes: Any) -> JsonObject:
    made = curating.row("s1", "I'm off to Bern. Will it rain?", "Bern", **changes)
    row: JsonObject = made.model_dump(mode="json")
    return row


def call(name: str, number: int, arguments: JsonObject) -> JsonObject:
    function = {"name": name, "arguments": arguments}
    made = {"id": f"c{number}", "type": "function", "function": function}
    return {"role": "assistant", "content": None, "tool_calls": [made]}


def result(number: int, error: str | None = None) -> JsonObject:
    content = to_line({"response": None if error else {}, "error": error}).decode()
    return {"role": "tool", "content": content, "tool_call_id": f"c{number}"}


def user(text: str) -> JsonObject:
    return {"role": "user", "content": text}


def given(folder: Path, rows: list[Sample], **fields: Any) -> Sifting:
    path = folder / "rows.jsonl"
    count, _ = write_lines(path, map(record_line, rows))
    recipe = toys.recipe(**fields)
    return Sifting(recipe, "rewritten", Rows(path, count), Rows(path, 0), folder)


def test_a_seed_is_what_the_user_says_and_the_calls_that_succeed() -> None:
    """Answers to questions belong to the request; API Search and failed calls are no steps."""
    row, name = sample(), toys.api().function
    row["dialogue"]["messages"] = [
        user("I'm off to Bern."),
        call(API_SEARCH.function, 1, {"keywords": "rain"}),
        result(1),
        call(name, 2, {"city": "Berne"}),
        result(2, error="unknown city"),
        call(name, 3, {"city": "Bern", "days": [2, 3.5, True, None]}),
        result(3),
        user(" And in Basel?"),
        call(name, 4, {"city": "Basel", "near": {"to": "Bern"}}),
        result(4),
    ]
    seed = seed_of(row, Split.VALIDATION)
    assert seed and seed.hybrid == "I'm off to Bern. And in Basel?"
    assert seed.path == (name, name, FINISH) and seed.split is Split.VALIDATION
    assert seed.tags.categories == ("weather", "weather") and seed.tags.tools[0] == "station"
    assert seed.values == ("Bern", "2", "3.5", "Basel")
    assert [api.id for api in seed.pool] == [toys.api().id, toys.api(name="forecast").id]


def test_what_calls_nothing_is_no_seed(tmp_path: Path) -> None:
    """Where no API fits there is no path, so there is nothing that a level could name."""
    row = sample()
    row["dialogue"]["messages"] = [user("Sing for me."), {"role": "assistant", "content": "No."}]
    assert seed_of(row, Split.TRAIN) is None
    unserved = Sample.model_validate(row)
    rows = [curating.row("a", "I'm off. Rain?"), unserved, curating.row("b", "I'm back. Snow?")]
    found = list(draw_seeds(given(tmp_path, rows)))
    assert [seed.id for seed in found] == ["a", "b"]


def test_broken_observations_are_no_success() -> None:
    """A result that is no envelope tells nothing."""
    row = sample(scenario=Scenario.SINGLE)
    for content in ("", "{", "[]", "null"):
        row["dialogue"]["messages"] = [
            user("Rain?"),
            call(toys.api().function, 1, {}),
            {**result(1), "content": content},
        ]
        assert seed_of(row, Split.TRAIN) is None


def test_a_seed_is_in_the_split_of_its_sample(tmp_path: Path) -> None:
    """The calls decide, as for the sample."""
    row = curating.in_split(Split.TEST_INSTRUCTION, "a", "I'm off. Rain?")
    (seed,) = draw_seeds(given(tmp_path, [row], splits=curating.SPLITS))
    assert isinstance(seed, Seed) and seed.split is Split.TEST_INSTRUCTION


def test_a_seed_can_be_made_of_its_instructions() -> None:
    """Of what comes from a solution tree the dataset has the instructions alone."""
    made = seed_of(sample(), Split.TRAIN)
    assert made
    rows = [
        Instruction(
            id=f"s1-{level}",
            sample=made.id,
            split=made.split,
            level=level,
            text=text,
            tags=made.tags,
            path=made.path,
        )
        for level, text in ((Granularity.STATEMENT, "I'm off."), (Granularity.HYBRID, made.hybrid))
    ]
    found = seed_of_rows(rows)
    assert found == made.model_copy(update={"values": (), "pool": ()})
    assert seed_of_rows(rows[:1]) is None
    cut = rows[1].model_copy(update={"path": ("one", "two", FINISH)})
    assert seed_of_rows([cut]) is None
