"""ToolBench's queries, tools and trees."""

from __future__ import annotations

import copy
import json
from pathlib import Path
from typing import Any

import pytest
from support import foreign_rows
from support.foreign_rows import INSTRUCTION, PATH, TOOLLLAMA, TREE, changed, with_turn

from toolloom.pipeline.formats import toolbench
from toolloom.pipeline.formats.import_log import ImportLog
from toolloom.schemas import Api

QUERIES = Path(__file__).parents[2] / "golden" / "apis" / "toolbench.json"
ENTRY = json.loads(QUERIES.read_text())[0]["api_list"][0]


def gather(path: Path, document: Any, **given: Any) -> tuple[list[Api], ImportLog]:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(document))
    ledger = ImportLog(path.name)
    return list(toolbench.read(path, ledger, **given)), ledger


def test_types_and_defaults_follow_toolbench(tmp_path: Path) -> None:
    """NUMBER is an integer, or a number where its default shows it; names are standardised.

    The values of `template_response` are names of types; lists keep their items.
    """
    (api,), _ = gather(tmp_path / "q.json", [{"api_list": [ENTRY]}])
    bakery = {"type": "integer", "description": "Which one.", "examples": [12]}
    assert api.properties["bakeryid"] == bakery
    assert api.properties["fresh_only"] == {"type": "boolean", "default": True}
    assert api.properties["lat"] == {"type": "number", "default": 48.2}
    assert api.properties["sort"] == {"type": "string", "default": "price"}
    assert api.required == ("bakeryid", "is_id")
    loaf = {"name": {"type": "string"}, "grams": {"type": "integer"}}
    assert api.fields["loaves"]["items"]["properties"] == loaf
    assert api.fields["tags"] == {"type": "array", "items": {"type": "string"}}


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


CALL = ("weather_for_sky", {"city": "Bern"})


def tree(path: list[Any]) -> Any:
    """A solution tree with this winning path."""
    made = copy.deepcopy(TREE)
    made["answer_generation"]["train_messages"] = [path[:3], path]
    return made


def ended(arguments: Any) -> Any:
    """The tree whose path ends with these arguments of Finish."""
    path = copy.deepcopy(PATH)
    path[-1]["function_call"]["arguments"] = json.dumps(arguments)
    return tree(path)


def result(content: str) -> Any:
    path = copy.deepcopy(PATH)
    path[3]["content"] = content
    return tree(path)


def renamed(name: str) -> Any:
    """The tree whose call is to this function."""
    path = copy.deepcopy(PATH)
    path[2]["function_call"]["name"] = path[3]["name"] = name
    return tree(path)


NEEDS_OTHERS = [["Sky", "Weather"], ["Sky", "Wind"], 3]
TWO_ACTIONS = "\nThought: I plan.\nAction: look it up\n\nAction: weather_for_sky\nAction Input: {}"


@pytest.mark.parametrize(
    ("row", "reasons"),
    [
        (ended({"return_type": "give_up_and_restart"}), ["unhelpful_answer"]),
        (ended({"return_type": "give_answer"}), ["false_api_call_format"]),
        (renamed("sky"), ["api_hallucination"]),
        (with_turn(TOOLLLAMA, 2, "conversations", value=TWO_ACTIONS), ["false_api_call_format"]),
        (with_turn(TOOLLLAMA, 2, "conversations", value="\nThought: No."), ["no_api_call"]),
        (with_turn(TOOLLLAMA, 0, "conversations", value="Functions: f"), ["illegal_schema"]),
        (changed(INSTRUCTION, **{"relevant APIs": NEEDS_OTHERS}), ["api_hallucination"] * 2),
        ({"query": "x"}, ["malformed_dialogue"]),
        ({"answer_generation": {}}, ["malformed_dialogue"]),
        ({"answer_generation": {"train_messages": [[1]]}}, ["malformed_dialogue"]),
    ],
    ids=[
        "giving up is no fault of the calls",
        "an end without an answer",
        "a name that only ends like one on offer, which ToolBench ran",
        "a thought that writes an action, which a reader takes as the call",
        "a step without an action",
        "a system turn without functions",
        "an instruction that needs what it does not list",
        "a row of another kind",
        "a tree of nothing",
        "a path of no messages",
    ],
)
def test_faults_are_told_under_their_reasons(tmp_path: Path, row: Any, reasons: list[str]) -> None:
    """What a reader finds, and what the checks find in what it read."""
    found = foreign_rows.reading(tmp_path, "toolbench", row)
    assert foreign_rows.reasons(found)[: len(reasons)] == reasons
    assert (found.dialogue is None) == (reasons == ["malformed_dialogue"])


@pytest.mark.parametrize("row", [TREE, TOOLLLAMA])
def test_a_tree_and_its_training_row_are_the_same_dialogue(tmp_path: Path, row: Any) -> None:
    """The longest path is read; Finish is the reply; `Begin!` and thoughts are no one's words."""
    found = foreign_rows.reading(tmp_path, "toolbench", row)
    assert foreign_rows.calls(found) == [CALL]
    assert foreign_rows.answers(found) == [("weather_for_sky", {"sky": "rain", "wind": None}, None)]
    assert foreign_rows.said(found, "user") == ["Will it rain in Bern?"]
    assert foreign_rows.said(found, "assistant") == ["Yes, rain."]
    assert found.dialogue and [a.function for a in found.dialogue.query.pool] == ["weather_for_sky"]
    assert foreign_rows.findings(found) == [] and "thoughts" in found.unmapped


def test_the_value_of_an_example_is_an_optional_parameter_s_default(tmp_path: Path) -> None:
    """ToolBench took example values from RapidAPI's defaults; a needed one's is only an example."""
    found = foreign_rows.reading(tmp_path, "toolbench", TREE)
    assert found.dialogue
    properties = found.dialogue.query.pool[0].properties
    assert properties["city"] == {"type": "string", "examples": ["Paris"]}
    assert properties["unit"] == {"type": "string", "default": "metric"}


def test_a_response_that_was_cut_off_is_read_as_text(tmp_path: Path) -> None:
    """ToolBench keeps 1,024 letters of an envelope: what is left is its response."""
    whole = json.dumps({"error": "", "response": '[{"sky": "rain"}, {"sky": "snow\u00e4"}]'})
    found = foreign_rows.reading(tmp_path, "toolbench", result(whole[:-8] + "..."))
    ((_, seen, error),) = foreign_rows.answers(found)
    assert seen.startswith('[{"sky": "rain"}') and "\\" not in seen and error is None
    assert "results: text that was cut off" in found.unmapped


@pytest.mark.parametrize(
    ("envelope", "error"),
    [
        ({"error": "Timeout error...", "response": ""}, "Timeout error..."),
        ({"error": "Message error...", "response": "{'title': 'Terror'}"}, None),
        ({"error": "Message error...", "response": ""}, "Message error..."),
        ({"error": "", "response": ""}, None),
    ],
)
def test_errors_are_told_from_labels(tmp_path: Path, envelope: Any, error: str | None) -> None:
    """ToolBench labels every response with the word `error` in it: that is no failure."""
    found = foreign_rows.reading(tmp_path, "toolbench", result(json.dumps(envelope)))
    assert foreign_rows.answers(found)[0][2] == error


def test_what_the_search_told_its_model_is_no_user_turn(tmp_path: Path) -> None:
    """DFSDT asks for a different action in a user message: it is named and left out."""
    again = {"role": "user", "content": "This is not the first time you try this task, all failed."}
    found = foreign_rows.reading(tmp_path, "toolbench", tree([*PATH[:4], again, *PATH[4:]]))
    assert len(foreign_rows.said(found, "user")) == 1 and foreign_rows.findings(found) == []
    assert "messages of the search that ask for another try" in found.unmapped


def test_an_unfinished_search_is_read_from_its_tree(tmp_path: Path) -> None:
    """Without a winning path the last try is read, hallucinated functions and all."""
    refusal = '{"error": "No such function name: login_for_sky", "response": ""}'
    node: Any = {"node_type": "Action Input", "description": "{}", "observation": refusal}
    for kind, told in (
        ("Action", "login_for_sky"),
        ("Thought", "I log in.\nAction: login"),
        ("Action Input", ""),
    ):
        node = {"node_type": kind, "description": told, "children": [node]}
    answer = {**TREE["answer_generation"], "train_messages": [], "valid_data": False}
    row = {"tree": {"tree": node}, "answer_generation": answer}
    found = foreign_rows.reading(tmp_path, "toolbench", row)
    assert foreign_rows.calls(found) == [("login_for_sky", {})]
    assert foreign_rows.reasons(found) == ["unhelpful_answer", "api_hallucination"]
