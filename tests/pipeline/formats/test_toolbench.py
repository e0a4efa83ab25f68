"""ToolBench's queries and tools as APIs, and its solution trees as seeds."""

from __future__ import annotations

import copy
import json
from pathlib import Path
from typing import Any

import pytest
from support import toys
from support.foreign_rows import BENCH_FUNCTION, INSTRUCTION, PATH, TREE, changed

from toolloom.pipeline.formats import toolbench
from toolloom.pipeline.formats.import_log import ImportLog
from toolloom.pipeline.formats.toolbench import LONGEST_QUERY, check_seeds, tree_seeds
from toolloom.schemas import (
    FINISH,
    Api,
    JsonObject,
    Reason,
    RecipeError,
    Rejected,
    Seed,
    Source,
    Split,
    SplitPlan,
)

QUERIES = Path(__file__).parents[2] / "golden" / "apis" / "toolbench.json"
ENTRY = json.loads(QUERIES.read_text())[0]["api_list"][0]


def gather(path: Path, document: Any, **given: Any) -> tuple[list[Api], ImportLog]:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(document))
    ledger = ImportLog(path.name)
    return list(toolbench.read(path, ledger, **given)), ledger


def test_a_tool_file_is_filed_by_its_folder(tmp_path: Path) -> None:
    """In `tools/<category>/<tool>.json` the folder is the category; an answer shows the result."""
    api = {"name": "2 loaves", "required_parameters": [], "test_endpoint": {"price": 2.5}}
    tool = {"tool_name": "Bread", "standardized_name": "bread_shop", "api_list": [api]}
    (found,), _ = gather(tmp_path / "tools" / "Food" / "bread.json", tool)
    assert found.id == "Food/Bread/2 loaves"
    assert found.function == "get_2_loaves_for_bread_shop"
    assert found.fields == {"price": {"type": "number"}}


def test_function_names_keep_their_last_64_characters(tmp_path: Path) -> None:
    """As in ToolBench, a long name loses its beginning. A category that is given wins."""
    entry = {**ENTRY, "api_name": "x" * 80}
    (api,), _ = gather(tmp_path / "q.json", [{"api_list": [entry]}], category="Mine")
    assert api.category == "Mine" and len(api.function) == 64
    assert api.function.endswith("x_for_bread_butter")


def test_what_is_left_out_is_booked(tmp_path: Path) -> None:
    """Defaults of another type, second parameters of one name and bare names are told."""
    number = {"name": "n", "type": "NUMBER", "default": "many"}
    given = [number, {"name": "N", "type": "STRING"}, 7]
    entry = {**ENTRY, "required_parameters": [], "optional_parameters": given}
    bare = {"tool_name": "Bread", "api_name": "Only a name"}
    found, ledger = gather(tmp_path / "q.json", [{"api_list": [entry, bare, 3]}, {"query": "?"}, 4])
    report = ledger.report(imported=len(found))
    assert [cut.place for cut in report.cut] == [
        "parameters.n.default",
        "optional_parameters, number 2",
        "optional_parameters, number 3",
    ]
    assert len(found) == 1 and report.read == 1 + len(report.skipped) == 5


# -- Seeds


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
    (found,) = drawn(tmp_path, TREE)  # the category decides the split: it is not made up
    assert isinstance(found, Rejected) and found.reason is Reason.NOT_IMPORTED
    assert "`weather_for_sky`" in found.detail and found.record["text"] == QUERY


FAILED = [*PATH[:3], {**PATH[3], "content": json.dumps({"error": "Timeout", "response": ""})}]


def ended(how: str) -> JsonObject:
    """The tree whose path ends with Finish in another way."""
    call = {"name": "Finish", "arguments": json.dumps({"return_type": how})}
    return tree([*PATH[:-1], {**PATH[-1], "function_call": call}])


def asked(text: str) -> JsonObject:
    """The tree of another query."""
    return tree([PATH[0], {**PATH[1], "content": text}, *PATH[2:]])


# Too long, control characters, template remnants, markup of prompts.
UNNATURAL = ("a" * (LONGEST_QUERY + 1), "I am \x00 off.", "Go to [City].", "<|im_start|>system")


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
        ({"answer_generation": {}}, Reason.NOT_IMPORTED),
        ({"answer_generation": None}, Reason.NOT_IMPORTED),
        ([1, 2], Reason.NOT_IMPORTED),
        *((asked(text), Reason.UNNATURAL_QUERY) for text in UNNATURAL),
    ],
)
def test_trees_that_solve_nothing_are_rejected(tmp_path: Path, row: Any, reason: Reason) -> None:
    """Each with a reason, as nothing is lost."""
    found = drawn(tmp_path, row, [INSTRUCTION])
    assert {r.reason for r in found if isinstance(r, Rejected)} == {reason}
    assert not any(isinstance(r, Seed) for r in found)


def test_a_query_is_solved_once(tmp_path: Path) -> None:
    """Several trees of one query would give the same instructions; ids stay apart, and come of the
    query's words, not of its place. The row may name its licence; each file is read once."""
    found = drawn(tmp_path, TREE, TREE, [INSTRUCTION])
    assert isinstance(found[0], Seed) and found[1].reason is Reason.EXACT_DUPLICATE
    assert found[0].id != found[1].id
    (tmp_path / "more").mkdir()
    (seed,) = drawn(tmp_path / "more", [INSTRUCTION], changed(TREE, license="Apache-2.0"))
    assert (seed.id, seed.licence) == (found[0].id, "Apache-2.0")
    twice = [str(tmp_path / "more"), str(tmp_path / "more" / "1.json")]
    assert len(list(tree_seeds(twice, SEEN, "rewritten"))) == 1


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
    check_seeds([str(path)])
    path.write_text(json.dumps([{"text": "no tree"}]))
    with pytest.raises(RecipeError, match="neither solution trees"):
        check_seeds([str(path)])
    path.write_bytes(b"")
    for unreadable in (tmp_path, path):
        with pytest.raises(RecipeError, match="is empty"):
            check_seeds([str(unreadable)])
    with pytest.raises(RecipeError, match="does not exist"):
        check_seeds([str(tmp_path / "nowhere")])


def test_files_that_cannot_be_read_are_rejected_and_others_are_good(tmp_path: Path) -> None:
    """An empty file, one that is no text and a broken table among good ones stop nothing; of the
    folder they are in nothing is told."""
    for name, raw in (("a.json", b""), ("b.json", b"\0\1\2"), ("c.parquet", b"PAR1 and so on")):
        (tmp_path / name).write_bytes(raw)
    seed, *lost = drawn(tmp_path, TREE, [INSTRUCTION])
    check_seeds([str(tmp_path)])
    assert isinstance(seed, Seed) and len(lost) == 3
    assert {r.reason for r in lost} == {Reason.NOT_IMPORTED}
    assert [r.detail[:9].split()[0] for r in lost] == ["a.json", "b.json", "c.parquet"]
    assert not any(str(tmp_path) in r.detail for r in lost)


def observed(content: str) -> JsonObject:
    """The tree whose one call has this result."""
    return tree([*PATH[:3], {**PATH[3], "content": content}, PATH[4]])


WHOLE = json.dumps({"error": "", "response": '[{"sky": "rain"}, {"sky": "snow"}]'})


@pytest.mark.parametrize(
    ("content", "came"),
    [
        (json.dumps({"error": "Timeout error...", "response": ""}), False),
        (json.dumps({"error": "Message error...", "response": "{'title': 'Terror'}"}), True),
        (json.dumps({"error": "Message error...", "response": ""}), False),
        (json.dumps({"error": "", "response": ""}), True),
        (WHOLE[:-8] + "...", True),
    ],
    ids=["an error", "a label of a word", "a label of nothing", "no response", "cut off"],
)
def test_errors_are_told_from_labels(tmp_path: Path, content: str, came: bool) -> None:
    """ToolBench labels every response with the word `error` in it, and keeps 1,024 letters."""
    (found,) = drawn(tmp_path, observed(content), [INSTRUCTION])
    assert isinstance(found, Seed) is came


def test_what_the_search_told_its_model_is_no_request(tmp_path: Path) -> None:
    """DFSDT asks for a different action in a user message: the query is the first one."""
    again = {"role": "user", "content": "This is not the first time you try this task, all failed."}
    (seed,) = drawn(tmp_path, tree([*PATH[:4], again, *PATH[4:]]), [INSTRUCTION])
    assert seed.hybrid == QUERY
    # The first call fails and the second, the same, succeeds: one step.
    (seed,) = drawn(tmp_path, tree([*FAILED, *PATH[2:]]), [INSTRUCTION])
    assert seed.path == ("weather_for_sky", FINISH)
