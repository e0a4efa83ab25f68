from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from toolloom.pipeline.dataset import instructions
from toolloom.schemas import FINISH, Granularity, Instruction, Split, Tags

NAMES = st.lists(st.text(min_size=1, max_size=30), min_size=1, max_size=5)


def an_instruction(level: str = "tool", number: int = 0, tags: Any = None, path: Any = None) -> Any:
    lists = tags or {"categories": ["Food"], "tools": ["Soup, Ltd."], "apis": ["/soups/{id}"]}
    made = Instruction(
        id=f"train-7-{number:06d}-{level}",
        sample=f"train-7-{number:06d}",
        split=Split.TRAIN,
        level=Granularity(level),
        text="I have leeks at home. Let Soup Ltd. think of something.",
        tags=Tags(**lists),
        path=(*(path or ("get_soup",)), FINISH),
    )
    return made.model_dump(mode="json")


def answer(row: Any) -> str:
    content: str = row["messages"][-1]["content"]
    return content


def test_an_instruction_makes_a_row_of_each_task() -> None:
    """Tags are told from the instruction alone, the path from instruction and tags."""
    given_ = an_instruction()
    tags, path = instructions.planning_rows(given_)
    assert [tags["id"], path["id"]] == [f"{given_['id']}-tags", f"{given_['id']}-path"]
    assert [tags["task"], path["task"]] == [instructions.TAGS, instructions.PATH]
    for row in (tags, path):
        assert [m["role"] for m in row["messages"]] == ["system", "user", "assistant"]
        assert row["level"] == "tool"
    assert tags["messages"][1]["content"] == given_["text"]
    shown = path["messages"][1]["content"]
    assert given_["text"] in shown and shown.endswith(answer(tags))
    assert answer(path) == 'Path: ["get_soup", "Finish"]'


def test_coarse_levels_are_kept_for_a_share() -> None:
    """The paper trains on half of the statement and category rows; the others stay whole."""
    trained = instructions.is_trained
    for level in Granularity:
        kept = sum(trained(an_instruction(level, n), 0.5) for n in range(400))
        coarse = level in {Granularity.STATEMENT, Granularity.CATEGORY}
        assert 160 < kept < 240 if coarse else kept == 400
    assert not trained(an_instruction("statement"), 0.0)
    assert trained(an_instruction("statement"), 1.0)


def test_a_larger_share_keeps_the_rows_of_a_smaller_one() -> None:
    """The id decides, and nothing else."""
    kept = [
        {n for n in range(100) if instructions.is_trained(an_instruction("category", n), share)}
        for share in (0.2, 0.6)
    ]
    assert kept[0] < kept[1]


@given(NAMES, st.data())
def test_answers_can_be_read_back(categories: list[str], data: Any) -> None:
    """Whatever the names are: commas, quotes, line breaks, brackets."""
    size = len(categories)
    some = st.lists(st.text(max_size=30), min_size=size, max_size=size)
    lists = {"categories": categories, "tools": data.draw(some), "apis": data.draw(some)}
    path = data.draw(st.lists(st.text(max_size=30).filter(lambda t: t != FINISH), max_size=4))
    tags_row, path_row = instructions.planning_rows(an_instruction("api", 0, lists, path))
    assert instructions.read_tags(answer(tags_row)) == Tags(**lists)
    assert instructions.read_path(answer(path_row)) == (*(path or ["get_soup"]), FINISH)
    assert len(answer(tags_row).splitlines()) == 3 and len(answer(path_row).splitlines()) == 1


@pytest.mark.parametrize(
    "text",
    [
        "",
        "Path: get_soup, Finish",
        'Path: ["get_soup"]',
        'Path: ["Finish", "Finish"]',
        "Path: [1]",
        'Categories: ["A"]\nTools: ["B"]',
        'Categories: ["A"]\nTools: ["B"]\nAPIs: ["C", "D"]',
        "Categories: []\nTools: []\nAPIs: []",
        f"Path: {'[' * 9000}",
    ],
)
def test_what_is_not_of_the_form_is_not_read(text: str) -> None:
    """An answer of a model is read or refused, never guessed at."""
    assert instructions.read_tags(text) is None and instructions.read_path(text) is None


@given(st.text(max_size=300))
def test_reading_never_raises(text: str) -> None:
    """Whatever a model answers."""
    instructions.read_tags(text)
    instructions.read_path(f"Path: {text}")
