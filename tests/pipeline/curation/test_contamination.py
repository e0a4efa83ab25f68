from __future__ import annotations

import json
import logging
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support import toys
from support.curation_rows import fallen, kept, row, sift

from toolloom.pipeline.curation.contamination import (
    Gold,
    benchmark_files,
    benchmark_row,
    benchmark_rows,
    check_benchmarks,
    decontaminate,
    finding,
    fits,
)
from toolloom.pipeline.dataset.figures import overlap, pairs
from toolloom.pipeline.formats.import_log import ImportLog
from toolloom.schemas import FunctionCall, JsonObject, Reason, RecipeError, Sample, ToolCall

TEXT = (
    "Please find me a quiet room with a desk near the old station "
    "for three nights from Monday, and tell me what it costs."
)
QUESTION = {"id": "room_1", "question": [[{"role": "user", "content": TEXT}]], "function": []}


def benchmark(folder: Path, *rows: JsonObject, name: str = "bench.jsonl") -> dict[str, Any]:
    """The part of a recipe that names a benchmark of these rows."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / name).write_text("".join(f"{json.dumps(each)}\n" for each in rows))
    return {"against": [str(folder / name)]}


def calling(name: str, *calls: tuple[str, JsonObject], text: str = "") -> Sample:
    """A row that makes these calls."""
    sample = row(name, text or f"A wish of its own, {name}")
    made = tuple(
        ToolCall(id=f"c{n}", function=FunctionCall(name=called, arguments=arguments))
        for n, (called, arguments) in enumerate(calls)
    )
    messages = list(sample.dialogue.messages)
    messages[1] = messages[1].model_copy(update={"tool_calls": made})
    dialogue = sample.dialogue.model_copy(update={"messages": tuple(messages)})
    return sample.model_copy(update={"dialogue": dialogue})


def test_thirteen_words_in_a_row_are_contamination(tmp_path: Path) -> None:
    """However they are written; twelve are none. The pair is shown with file, row and words."""
    words = TEXT.split()
    rows = [
        row("all", TEXT.upper()),
        row("part", f"Well now: {' '.join(words[3:16])} if you can"),
        row("less", f"Well now: {' '.join(words[3:15])} if you can"),
        row("other", "Find me a noisy room without a desk far from the new station."),
    ]
    found = sift(decontaminate, rows, tmp_path, curation=benchmark(tmp_path / "b", QUESTION))
    assert kept(found) == ["less", "other"]
    seen = fallen(found)["part"]
    assert (seen.check, seen.reason) == ("overlap_words", Reason.CONTAMINATED)
    match = overlap(seen.check, seen.detail)
    assert (match["benchmark"], match["place"]) == ("bench.jsonl", "bench.jsonl:1 room_1")
    assert match["match"] == "a quiet room with a desk near the old station for three nights"
    assert (match["row"], match["theirs"]) == (rows[1].dialogue.query.text, TEXT)


def test_a_call_with_values_of_its_own_is_contamination(tmp_path: Path) -> None:
    """Names and values are compared however they are written."""
    gold = {"id": "x_1", "ground_truth": [{"music.play": {"artist": ["Björk"], "minutes": [20]}}]}
    rows = [
        calling("same", ("music_play", {"minutes": "20", "artist": "bjork"})),
        calling("less", ("music_play", {"artist": "Björk"})),
        calling("other", ("music_play", {"artist": "Björk", "minutes": 25})),
        calling("elsewhere", ("radio_play", {"artist": "Björk", "minutes": 20})),
    ]
    found = sift(decontaminate, rows, tmp_path, curation=benchmark(tmp_path / "b", gold))
    assert kept(found) == ["less", "other", "elsewhere"]
    match = overlap("overlap_calls", fallen(found)["same"].detail)
    assert match["row"] == 'music_play(minutes="20", artist="bjork")'
    assert match["theirs"] == 'music.play(artist=["Björk"], minutes=[20])'


BALANCE = [{"role": "User", "text": t} for t in ("Can you tell me my balance?", "Yes, please.")]
BRAZIL, PERU = ("capital", {"of": "Brazil"}), ("capital", {"of": "Peru"})


@pytest.mark.parametrize(
    ("gold", "rows", "left"),
    [
        pytest.param(
            BALANCE,
            [
                row("same", "can you tell me my balance"),
                row("more", "Can you tell me my balance now?"),
                row("yes", "Yes, please!"),
            ],
            ["more", "yes"],
            id="a short text counts as a whole, if two of its four words mean something",
        ),
        pytest.param(
            [
                {"ground_truth": [{"now": {}}]},
                {"ground_truth": [{"factorial": {"number": [5]}}]},
                {"ground_truth": [{"capital": {"country": ["Brazil"]}}]},
                {"ground_truth": [{"on": {"light": [True], "level": [3]}}]},
            ],
            [
                calling("a", ("now", {})),
                calling("b", ("factorial", {"number": 5})),
                calling("c", ("capital", {"country": "Brazil"})),
                calling("d", ("on", {"light": True, "level": 3})),
            ],
            ["a", "b", "c", "d"],
            id="anybody makes a call of no arguments, a small number or one name",
        ),
        pytest.param(
            [{"ground_truth": [{"capital": {"of": ["Brazil"]}}, {"capital": {"of": ["Peru"]}}]}],
            [
                calling("both", PERU, BRAZIL),
                calling("one", BRAZIL),
                calling("more", BRAZIL, PERU, ("capital", {"of": "Chile"})),
            ],
            ["one", "more"],
            id="calls that say little count together, if they are all of a gold answer",
        ),
    ],
)
def test_what_says_little_counts_as_a_whole(
    gold: list[JsonObject], rows: list[Sample], left: list[str], tmp_path: Path
) -> None:
    """Texts and calls that are no chance together."""
    found = sift(decontaminate, rows, tmp_path, curation=benchmark(tmp_path / "b", *gold))
    assert kept(found) == left


def test_rows_are_dropped_or_flagged(tmp_path: Path) -> None:
    """Those that are flagged stay, with all that was found; the others keep their bytes. Of both
    are told row, split, benchmark, place and both texts, to be published."""
    plan, splits = benchmark(tmp_path / "b", QUESTION), toys.recipe().splits
    rows = [row("a", TEXT), row("b", "Is it cold in Rome?")]
    for contaminated in ("drop", "flag"):
        chosen = {**plan, "contaminated": contaminated}
        found, other = sift(decontaminate, rows, tmp_path, curation=chosen)
        assert other == (tmp_path / "rows.jsonl").read_bytes().splitlines(keepends=True)[1]
        made = json.loads(found) if isinstance(found, bytes) else found.model_dump(mode="json")
        (pair,) = pairs([made], splits)
        assert (pair["id"], pair["split"], pair["check"]) == ("a", "train", "words")
        assert pair["dropped"] == (contaminated == "drop")
        assert (pair["benchmark"], pair["place"]) == ("bench.jsonl", "bench.jsonl:1 room_1")
        assert (pair["row"], pair["theirs"]) == (TEXT, TEXT)
    flagged = Sample.model_validate(made)
    assert [flag.check for flag in flagged.flags] == ["overlap_words"]
    assert flagged.model_copy(update={"flags": ()}) == rows[0]


def test_what_cannot_be_read_is_told(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """Malformed lines and calls are counted in a warning; the others are looked for."""
    truth = {"ground_truth": [["sort('a.txt')"]]}
    plan = benchmark(tmp_path / "b", QUESTION, truth)
    with (tmp_path / "b" / "bench.jsonl").open("a") as file:
        file.write('{"id": \n[[[\n')
    with caplog.at_level(logging.INFO, logger="toolloom"):
        found = sift(decontaminate, [row("a", TEXT)], tmp_path, curation=plan)
    assert kept(found) == []
    assert "2 rows or files and 1 calls could not be read" in caplog.text
    assert caplog.records[-1].levelno == logging.WARNING


@given(st.lists(st.text(), min_size=5, max_size=5))
def test_a_finding_is_read_back(texts: list[str]) -> None:
    """Whatever the texts hold, the detail tells them exactly."""
    seen = finding("words", *texts)
    assert [*overlap(seen.check, seen.detail).values()] == ["words", *texts]


def test_right_values_are_lists() -> None:
    """Each argument is one of its right values; what may be left out has an empty one."""
    right = {"a": [1, 2], "b": ["", "x"], "c": [{"d": ["u", "v"], "e": ["", 5]}]}
    assert fits({"a": 2, "c": {"d": "V"}}, right)
    assert fits({"a": 1, "b": "X", "c": {"d": "u", "e": 5.0}}, right)
    assert not fits({"a": 3, "c": {"d": "u"}}, right)
    assert not fits({"a": 1}, right)
    assert not fits({"a": 1, "c": {"d": "u"}, "z": 1}, right)
    assert fits({"l": [1, 2]}, {"l": [[1, 2], [3]]})


def texts_and_calls(row: Any) -> tuple[list[str], list[str]]:
    item = benchmark_row(row)
    return item.texts, [f"{gold.name} {json.dumps(gold.arguments)}" for gold in item.calls]


def test_bfcl_questions_and_answers() -> None:
    """What users say, not the documents of functions; gold calls with their right values."""
    said = {"role": "user", "content": "Play it."}
    question = {"id": "a", "question": [[said], [said]], "function": [{"name": "f", "x": "long"}]}
    assert texts_and_calls(question) == (["user", "Play it."] * 2, [])
    answer = benchmark_row(
        {"id": "a", "ground_truth": [{"f": {"x": [1, 2]}}, {"g": {}}]}, "x.json:1"
    )
    assert answer.calls == [Gold("f", {"x": [1, 2]}, True), Gold("g", {}, True)]
    assert answer.place == "x.json:1 a"
    turns = benchmark_row({"ground_truth": [["mv(a='x', b=2)", "sort('x')"], ["ls()"]]})
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
    assert [p.name for p in benchmark_files(str(tmp_path))] == [
        "1.json",
        "3.txt",
        "2.jsonl",
        "broken.json",
    ]
    found = list(benchmark_rows(str(tmp_path), log))
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
        check_benchmarks(toys.recipe(curation={"against": [str(tmp_path / "gone")]}))
    with pytest.raises(RecipeError, match=r"curation\.against: .* holds no file that ends in"):
        check_benchmarks(toys.recipe(curation={"against": [str(tmp_path)]}))
