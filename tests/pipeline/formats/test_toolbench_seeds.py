"""Seeds from ToolBench's solution trees and queries."""

from __future__ import annotations

import copy
import json
from pathlib import Path
from typing import Any

import pytest
from support import toys
from support.foreign_rows import BENCH_FUNCTION, INSTRUCTION, PATH, TREE, changed

from toolloom.pipeline.formats.toolbench_seeds import LONGEST, check, tree_seeds
from toolloom.schemas import (
    FINISH,
    JsonObject,
    Reason,
    RecipeError,
    Rejected,
    Seed,
    Source,
    Split,
    SplitPlan,
)

SEEN = SplitPlan(validation=0, test_instruction=0, test_tool=0, test_category=0)
QUERY = INSTRUCTION["query"]


def drawn(folder: Path, *rows: Any, plan: SplitPlan = SEEN, apis: Any = ()) -> list[Any]:
    """What comes of rows that lie in files of their own, as ToolBench has them."""
    for number, row in enumerate(rows):
        (folder / f"{number}.json").write_text(json.dumps(row))
    return list(tree_seeds([str(folder)], plan, "rewritten", apis))


def tree(path: list[JsonObject], **fields: Any) -> JsonObject:
    made: JsonObject = copy.deepcopy(TREE)
    made["answer_generation"] |= {"train_messages": [path], **fields}
    return made


def test_a_solved_tree_is_a_seed(tmp_path: Path) -> None:
    """The query with the same words tells category, tool and the API's own name."""
    (seed,) = drawn(tmp_path, TREE, [INSTRUCTION])
    assert isinstance(seed, Seed)
    assert (seed.hybrid, seed.source, seed.licence) == (QUERY, "toolbench", "")
    assert seed.path == ("weather_for_sky", FINISH) and seed.values == ("Bern",)
    (step,) = seed.steps
    assert (step.category, step.tool, step.api) == ("Weather", "Sky", "Weather")
    assert [api.function for api in seed.pool] == ["weather_for_sky"]
    assert seed.id.startswith("toolbench-") and seed.split is Split.TRAIN


def test_other_queries_and_imported_apis_tell_the_category_too(tmp_path: Path) -> None:
    """A function is known by its name, wherever it is listed."""
    other = {**INSTRUCTION, "query": "Something else."}
    assert drawn(tmp_path, TREE, [other])[0].steps[0].tool == "Sky"
    known = toys.api("Weather", "Weather").model_copy(
        update={"function": "weather_for_sky", "source": Source(kind="toolbench")}
    )
    (tmp_path / "1.json").unlink()
    assert drawn(tmp_path, TREE, apis=[known])[0].steps[0].category == "Weather"


def test_a_tree_without_a_category_is_rejected(tmp_path: Path) -> None:
    """The category decides the split and is a level: it is not made up."""
    (found,) = drawn(tmp_path, TREE)
    assert isinstance(found, Rejected) and found.reason is Reason.NOT_IMPORTED
    assert "`weather_for_sky`" in found.detail and "rewrite.seeds" in found.detail
    assert found.record["text"] == QUERY


FAILED = [*PATH[:3], {**PATH[3], "content": json.dumps({"error": "Timeout", "response": ""})}]


def ended(how: str) -> JsonObject:
    """The tree whose path ends with Finish in another way."""
    call = {"name": "Finish", "arguments": json.dumps({"return_type": how})}
    return tree([*PATH[:-1], {**PATH[-1], "function_call": call}])


@pytest.mark.parametrize(
    ("row", "reason"),
    [
        (tree([*PATH[:2], PATH[-1]]), Reason.NO_API_CALL),
        (ended("give_up_and_restart"), Reason.UNHELPFUL_ANSWER),
        (ended("give_answer"), Reason.FALSE_API_CALL_FORMAT),
        (tree(PATH[:4]), Reason.UNHELPFUL_ANSWER),
        (tree([*FAILED, PATH[-1]]), Reason.HAS_EXCEPTION),
        (tree(PATH, valid_data=False), Reason.UNHELPFUL_ANSWER),
        (tree(PATH, function=[{**BENCH_FUNCTION, "name": "other"}]), Reason.API_HALLUCINATION),
        (
            tree([PATH[0], {**PATH[1], "content": "a" * (LONGEST + 1)}, *PATH[2:]]),
            Reason.UNNATURAL_QUERY,
        ),
        ({"answer_generation": {}}, Reason.NOT_IMPORTED),
        ({"answer_generation": None}, Reason.NOT_IMPORTED),
        ([1, 2], Reason.NOT_IMPORTED),
    ],
)
def test_trees_that_solve_nothing_are_rejected(tmp_path: Path, row: Any, reason: Reason) -> None:
    """Each with a reason, as nothing is lost."""
    found = drawn(tmp_path, row, [INSTRUCTION])
    assert {r.reason for r in found if isinstance(r, Rejected)} == {reason}
    assert not any(isinstance(r, Seed) for r in found)


def test_failed_calls_are_no_part_of_the_path(tmp_path: Path) -> None:
    """The first call fails and the second, the same, succeeds: one step."""
    (seed,) = drawn(tmp_path, tree([*FAILED, *PATH[2:]]), [INSTRUCTION])
    assert seed.path == ("weather_for_sky", FINISH)


def test_a_query_is_solved_once(tmp_path: Path) -> None:
    """Several trees of one query would give the same instructions; their ids stay apart."""
    found = drawn(tmp_path, TREE, TREE, TREE, [INSTRUCTION])
    assert isinstance(found[0], Seed)
    assert [r.reason for r in found[1:]] == [Reason.EXACT_DUPLICATE] * 2
    assert len({r.id for r in found}) == 3


def test_seeds_stay_out_of_splits_their_apis_are_kept_from(tmp_path: Path) -> None:
    """A tree of an unseen category is a test, and a seen one's pool shows no unseen API."""
    unseen = SEEN.model_copy(update={"unseen": ("Weather",), "test_category": 0.2})
    (seed,) = drawn(tmp_path, TREE, [INSTRUCTION], plan=unseen)
    assert seed.split is Split.TEST_CATEGORY
    (known,) = INSTRUCTION["api_list"]
    apis = [known, {**known, "category_name": "Held", "tool_name": "Out"}]
    held = SEEN.model_copy(update={"unseen": ("Held",), "seen": ("Weather",)})
    (seed,) = drawn(tmp_path, TREE, [{**INSTRUCTION, "api_list": apis}], plan=held)
    assert seed.split is Split.TRAIN and [api.category for api in seed.pool] == ["Weather"]


def test_files_without_trees_and_queries_are_told_at_once(tmp_path: Path) -> None:
    """Before anything is asked of a model."""
    path = tmp_path / "rows.json"
    path.write_text(json.dumps([TREE]))
    check([str(path)])
    path.write_text(json.dumps([{"text": "no tree"}]))
    with pytest.raises(RecipeError, match="neither solution trees"):
        check([str(path)])
    path.write_bytes(b"")
    for unreadable in (tmp_path, path):
        with pytest.raises(RecipeError, match="is empty"):
            check([str(unreadable)])
    with pytest.raises(RecipeError, match="does not exist"):
        check([str(tmp_path / "nowhere")])


def test_changed_trees_have_names_of_their_own(tmp_path: Path) -> None:
    """A seed's id comes of the query's words, not of its place; the row may name its licence."""
    one = drawn(tmp_path, TREE, [INSTRUCTION])[0].id
    (tmp_path / "more").mkdir()
    other = changed(TREE, win=False, license="Apache-2.0")
    (seed,) = drawn(tmp_path / "more", [INSTRUCTION], other)
    assert (seed.id, seed.licence) == (one, "Apache-2.0")


def test_files_that_cannot_be_read_are_rejected_and_others_are_good(tmp_path: Path) -> None:
    """An empty file, one that is no text and a broken table among good ones stop nothing; of the
    folder they are in nothing is told."""
    for name, raw in (("a.json", b""), ("b.json", b"\0\1\2"), ("c.parquet", b"PAR1 and so on")):
        (tmp_path / name).write_bytes(raw)
    seed, *lost = drawn(tmp_path, TREE, [INSTRUCTION])
    check([str(tmp_path)])
    assert isinstance(seed, Seed) and len(lost) == 3
    assert {r.reason for r in lost} == {Reason.NOT_IMPORTED}
    assert [r.detail[:9].split()[0] for r in lost] == ["a.json", "b.json", "c.parquet"]
    assert not any(str(tmp_path) in r.detail for r in lost)


def test_a_file_that_is_named_twice_is_read_once(tmp_path: Path) -> None:
    """As a folder, and as a file in it."""
    drawn(tmp_path, TREE, [INSTRUCTION])
    paths = [str(tmp_path), str(tmp_path / "0.json")]
    (seed,) = tree_seeds(paths, SEEN, "rewritten")
    assert isinstance(seed, Seed)


@pytest.mark.parametrize("text", ["I am \x00 off.", "I am off to [City].", "<|im_start|>system"])
def test_queries_that_no_user_wrote_are_rejected(tmp_path: Path, text: str) -> None:
    """Control characters, template remnants and markup of prompts."""
    said = [{**PATH[1], "content": text} if m["role"] == "user" else m for m in PATH]
    (found,) = drawn(tmp_path, tree(said), [{**INSTRUCTION, "query": text}])
    assert isinstance(found, Rejected) and found.reason is Reason.UNNATURAL_QUERY
