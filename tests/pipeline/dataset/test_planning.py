"""Seeds of samples and of instructions, and the training rows that instructions make."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support import curation_rows, finished_runs, toys

from toolloom.pipeline.dataset.configs import PLANNING, is_trained, seed_of, seed_of_rows
from toolloom.pipeline.stage import StageInput
from toolloom.pipeline.stages import check_seeds, feed_seeds
from toolloom.pipeline.store.files import Rows, record_line, to_line, write_lines
from toolloom.schemas import (
    API_SEARCH,
    FINISH,
    Granularity,
    Instruction,
    JsonObject,
    RecipeError,
    Sample,
    Split,
    Tags,
)

NAMES = st.lists(st.text(min_size=1, max_size=30), min_size=1, max_size=5)


def sample(**changes: Any) -> JsonObject:
    made = curation_rows.row("s1", "I'm off to Bern. Will it rain?", "Bern", **changes)
    return made.model_dump(mode="json")


def call(name: str, number: int, arguments: JsonObject) -> JsonObject:
    function = {"name": name, "arguments": arguments}
    made = {"id": f"c{number}", "type": "function", "function": function}
    return {"role": "assistant", "content": None, "tool_calls": [made]}


def result(number: int, error: str | None = None) -> JsonObject:
    content = to_line({"response": None if error else {}, "error": error}).decode()
    return {"role": "tool", "content": content, "tool_call_id": f"c{number}"}


def user(text: str) -> JsonObject:
    return {"role": "user", "content": text}


def sifting(folder: Path, rows: list[Sample], **fields: Any) -> StageInput:
    path = folder / "rows.jsonl"
    count, _ = write_lines(path, map(record_line, rows))
    recipe = toys.recipe(**fields)
    return StageInput(recipe, "rewritten", Rows(path, count), Rows(path, 0))


def test_a_seed_is_the_first_request_and_the_calls_that_served_it() -> None:
    """What is asked later is another request; API Search and failed calls are no steps."""
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
    assert seed and seed.hybrid == "I'm off to Bern."
    assert seed.path == (name, FINISH) and seed.split is Split.VALIDATION
    assert seed.tags.categories == ("weather",) and seed.tags.tools[0] == "station"
    assert seed.values == ("Bern", "2", "3.5")
    assert [api.id for api in seed.pool] == [toys.api().id, toys.api(name="forecast").id]


ASKS = {"role": "assistant", "content": "For how many days?"}
SAYS_NO = {"role": "assistant", "content": "No."}


@pytest.mark.parametrize(
    "messages",
    [
        [user("Rain?"), ASKS, user("Two."), call("weather_current", 2, {"days": 2}), result(2)],
        [
            *(user("Rain?"), call("weather_current", 1, {}), result(1), ASKS, user("Two.")),
            *(call("weather_current", 2, {"days": 2}), result(2)),
        ],
        [user("Sing for me."), SAYS_NO],
        *(
            [user("Rain?"), call("weather_current", 1, {}), {**result(1), "content": broken}]
            for broken in ("", "{", "[]", "null")
        ),
    ],
)
def test_what_is_no_seed(messages: list[JsonObject], tmp_path: Path) -> None:
    """A request that the assistant asks back about, one that calls nothing, and one whose results
    are no envelopes; the samples around it are seeds."""
    row = sample()
    row["dialogue"]["messages"] = messages
    assert seed_of(row, Split.TRAIN) is None
    first = curation_rows.row("a", "I'm off. Rain?")
    last = curation_rows.row("b", "I'm back. Snow?")
    seeds = feed_seeds(sifting(tmp_path, [first, Sample.model_validate(row), last]))
    assert [seed.id for seed in seeds] == ["a", "b"]


def test_small_models_are_refused_as_rewriters() -> None:
    """Before anything is asked: what they word names nothing that was asked for."""
    check_seeds(toys.recipe(rewrite={}, model={"base_url": "http://127.0.0.1:9/v1", "model": "m"}))
    with pytest.raises(RecipeError, match="small model.*--recipe"):
        check_seeds(toys.recipe(rewrite={}, model={"base_url": "local"}))


def test_a_seed_can_be_made_of_its_instructions() -> None:
    """Of what comes from a solution tree the dataset has the instructions alone."""
    made = seed_of(sample(), Split.TRAIN)
    assert made
    same: Any = {"sample": made.id, "split": made.split, "tags": made.tags, "path": made.path}
    texts = {Granularity.STATEMENT: "I'm off.", Granularity.HYBRID: made.hybrid}
    rows = [Instruction(id=f"s1-{n}", level=n, text=text, **same) for n, text in texts.items()]
    assert seed_of_rows(rows) == made.model_copy(update={"values": (), "pool": ()})
    assert seed_of_rows(rows[:1]) is None
    cut = rows[1].model_copy(update={"path": ("one", "two", FINISH)})
    assert seed_of_rows([cut]) is None


def an_instruction(level: str = "tool", number: int = 0, **changes: Any) -> Any:
    made = finished_runs.instruction(Granularity(level), f"train-7-{number:06d}", **changes)
    return made.model_dump(mode="json")


def answer(row: Any) -> str:
    return row["messages"][-1]["content"]


def test_coarse_levels_are_kept_for_a_share() -> None:
    """The paper trains on half of the statement and category rows; the others stay whole."""
    trained = is_trained
    for level in Granularity:
        kept = sum(trained(an_instruction(level, n), 0.5) for n in range(400))
        coarse = level in {Granularity.STATEMENT, Granularity.CATEGORY}
        assert 160 < kept < 240 if coarse else kept == 400
    assert not trained(an_instruction("statement"), 0.0)
    assert trained(an_instruction("statement"), 1.0)
    few, more = (
        {n for n in range(100) if trained(an_instruction("category", n), share)}
        for share in (0.2, 0.6)
    )
    assert few < more  # the id decides, and nothing else


@given(NAMES, st.data())
def test_answers_can_be_read_back(categories: list[str], data: Any) -> None:
    """Whatever the names are: commas, quotes, line breaks, brackets."""
    size = len(categories)
    some = st.lists(st.text(max_size=30), min_size=size, max_size=size)
    lists = {"categories": categories, "tools": data.draw(some), "apis": data.draw(some)}
    path = data.draw(st.lists(st.text(max_size=30).filter(lambda t: t != FINISH), max_size=4))
    names = {"tags": Tags(**lists), "path": (*path, FINISH)}
    tags_row, path_row = PLANNING.row.of(an_instruction("api", **names))
    wanted = {"Categories": categories, "Tools": lists["tools"], "APIs": lists["apis"]}
    assert read(tags_row) == wanted
    assert read(path_row) == {"Path": [*path, FINISH]}


def read(row: JsonObject) -> JsonObject:
    """The lists of an answer, a line each for every reader, by their names."""
    parted = (line.partition(": ") for line in answer(row).splitlines())
    return {name: json.loads(names) for name, _, names in parted}
