from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from support import toys

from toolloom.pipeline.curation.benchmarks import Gold, check, files, items, read
from toolloom.pipeline.formats.import_log import ImportLog
from toolloom.schemas import RecipeError


def texts_and_calls(row: Any) -> tuple[list[str], list[str]]:
    item = read(row)
    return item.texts, [f"{gold.name} {json.dumps(gold.arguments)}" for gold in item.calls]


def test_bfcl_questions_and_answers() -> None:
    """What users say, not the documents of functions; gold calls with their right values."""
    said = {"role": "user", "content": "Play it."}
    question = {"id": "a", "question": [[said], [said]], "function": [{"name": "f", "x": "long"}]}
    assert texts_and_calls(question) == (["user", "Play it."] * 2, [])
    answer = read({"id": "a", "ground_truth": [{"f": {"x": [1, 2]}}, {"g": {}}]}, "x.json:1")
    assert answer.calls == [Gold("f", {"x": [1, 2]}, True), Gold("g", {}, True)]
    assert answer.place == "x.json:1 a"
    turns = read({"ground_truth": [["mv(a='x', b=2)", "sort('x')"], ["ls()"]]})
    assert turns.calls == [Gold("mv", {"a": "x", "b": 2}), Gold("ls", {})]
    assert turns.unread == 1
    assert texts_and_calls({"ground_truth": ["thirty five"]}) == (["thirty five"], [])


def test_api_bank() -> None:
    """Turns of dialogues, training rows with calls as text, and scenes."""
    assert texts_and_calls({"role": "User", "text": "Hi"})[0] == ["User", "Hi"]
    turn = {"role": "API", "api_name": "F", "param_dict": {"k": "v"}, "result": {"output": "x"}}
    assert texts_and_calls(turn) == ([], ['F {"k": "v"}'])
    training = {"instruction": "i", "input": "User: Hi", "output": "API-Request: [F(k='v')]"}
    assert texts_and_calls(training)[1] == ['F {"k": "v"}']


def test_toolbench() -> None:
    """A query without its APIs; a solution tree's actions with their inputs."""
    query = {"query": "Find it", "query_id": 3, "api_list": [{"api_description": "long"}]}
    assert texts_and_calls(query) == (["Find it"], [])
    action = {"node_type": "Action", "description": "f"}
    leaf = {"node_type": "Action Input", "description": '{"q": 1}', "children": []}
    tree = {"tree": {"tree": {"node_type": "x", "children": [{**action, "children": [leaf]}]}}}
    answer = {"answer_generation": {"query": "Find it", "function": ["long"]}, **tree}
    assert texts_and_calls(answer) == (["Find it"], ['f {"q": 1}'])


def test_any_other_rows() -> None:
    """All texts, and calls wherever they are, also in JSON that is kept as text."""
    call = {"name": "f", "arguments": '{"a": 1}'}
    row = {"messages": [{"content": "Hi"}, {"tool_calls": [{"function": call}]}], "n": 3}
    assert texts_and_calls(row) == (["Hi", "f"], ['f {"a": 1}'])
    xlam = {"query": "Hi", "answers": json.dumps([{"name": "g", "arguments": {"b": 2}}])}
    assert texts_and_calls(xlam)[1] == ['g {"b": 2}']
    assert texts_and_calls([1, None]) == ([], [])


def test_files_of_a_folder(tmp_path: Path) -> None:
    """All of its JSON and text files, below too, by name; places name them within it. One that
    cannot be read is counted."""
    (tmp_path / "b").mkdir()
    (tmp_path / "b" / "2.jsonl").write_text('{"a": "x"}\n\n{"a": "y"}\n')
    (tmp_path / "1.json").write_text('[{"a": "z", "id": "one"}]')
    (tmp_path / "3.txt").write_text("Scene\nF(k='v')\n")
    (tmp_path / "readme.md").write_text("no")
    (tmp_path / "b" / "broken.json").write_text("{ no")
    log = ImportLog("x")
    assert [p.name for p in files(str(tmp_path))] == ["1.json", "3.txt", "2.jsonl", "broken.json"]
    found = list(items(str(tmp_path), log))
    assert [item.place for item in found] == [
        "1.json[1] one",
        "3.txt:1",
        "3.txt:2",
        "b/2.jsonl:1",
        "b/2.jsonl:3",
    ]
    assert found[2].calls == [Gold("F", {"k": "v"})]
    assert [each.what for each in log.report(imported=0).skipped] == ["b/broken.json"]


def test_a_benchmark_that_is_not_there_is_named(tmp_path: Path) -> None:
    """Told before anything is asked: the field, the path and what to do."""
    with pytest.raises(RecipeError, match=r"curation\.against: .*gone does not exist\. Name"):
        check(toys.recipe(curation={"against": [str(tmp_path / "gone")]}))
    with pytest.raises(RecipeError, match=r"curation\.against: there are no files"):
        check(toys.recipe(curation={"against": [str(tmp_path)]}))
