"""Files in trainers' forms, checked: the shape of rows, renderings, loading."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from support.shop import Shop

from toolloom.pipeline.dataset.export.checking import Checked, check, detect, lost
from toolloom.pipeline.dataset.export.exporting import export
from toolloom.pipeline.dataset.export.formats import NAMES, format_named
from toolloom.pipeline.dataset.export.templates import choose
from toolloom.pipeline.dataset.rows import CONFIGS, SFT, sft_row
from toolloom.pipeline.store.tables import VersionWriter, read_rows
from toolloom.schemas import ExportError, NothingFound, Sample


def written(
    name: str, samples: dict[str, Sample], tmp_path: Path, form: Any = None
) -> dict[str, Path]:
    """The files of an export, by the ends of their names."""
    report = export(Shop({"train": samples.values()}), format_named(name), tmp_path / name, form)
    return {path.relative_to(tmp_path / name).as_posix(): path for path in report.files}


def fared(checked: Checked) -> dict[str, tuple[int, int]]:
    return {one.template.name: (one.rendered, one.failed) for one in checked.templates}


@pytest.mark.parametrize("name", NAMES)
def test_every_export_passes_its_own_check(
    name: str, samples: dict[str, Sample], tmp_path: Path
) -> None:
    """Its rows have the documented shape, load as they are, and are told by their keys."""
    for path in written(name, samples, tmp_path).values():
        assert detect(path) == name
        checked = check(path, name, choose(["qwen3"]))
        assert (checked.wrong, checked.first, checked.loaded) == (0, "", "")
        assert checked.is_sound


def test_templates_differ_in_what_arguments_may_be(
    samples: dict[str, Sample], tmp_path: Path
) -> None:
    """Qwen 2.5 needs objects, DeepSeek text, Qwen 3 takes both, Gemma 4 refuses text."""
    templates = choose(["qwen2_5", "qwen3", "deepseekv3", "gemma4_v5"])
    objects = written("trl", samples, tmp_path / "o", "object")["train.parquet"]
    assert fared(check(objects, "trl", templates)) == {
        "qwen2_5": (7, 0),
        "qwen3": (7, 0),
        "deepseekv3": (1, 6),  # what calls nothing
        "gemma4_v5": (7, 0),
    }
    text = written("trl", samples, tmp_path / "s", "string")["train.parquet"]
    assert fared(check(text, "trl", templates)) == {
        "qwen2_5": (1, 6),
        "qwen3": (7, 0),
        "deepseekv3": (7, 0),
        "gemma4_v5": (1, 6),
    }


def test_the_config_sft_of_a_version_passes(samples: dict[str, Sample], tmp_path: Path) -> None:
    """What a version holds for TRL is in TRL's form, with columns of its own."""
    with VersionWriter(tmp_path, CONFIGS) as tables:
        for sample in samples.values():
            tables.add(SFT, "train", SFT.encode(sft_row(sample.model_dump(mode="json"))))
        (path,) = tables.finish()["sft"]["train"]["files"]
    assert detect(tmp_path / path) == "trl"
    checked = check(tmp_path / path, "trl", choose(["qwen3"]))
    assert checked.is_sound and fared(checked) == {"qwen3": (7, 0)}


def test_a_call_that_a_template_drops_is_a_failure(
    samples: dict[str, Sample], tmp_path: Path
) -> None:
    """LFM's first template never reads calls, GPT-OSS's only the first of a turn."""
    path = written("trl", samples, tmp_path)["train.parquet"]
    lfm, gpt, llama = check(path, "trl", choose(["lfm2", "gptoss", "llama3_1"])).templates
    assert (lfm.failed, gpt.failed, llama.failed) == (6, 1, 1)
    assert "the call of current_weather is lost" in lfm.first
    assert gpt.first.startswith("row 2: ") and "lost" in gpt.first
    assert "single tool-calls" in llama.first


def test_axolotl_is_rendered_as_axolotl_reads_it(
    samples: dict[str, Sample], tmp_path: Path
) -> None:
    """It parses arguments that are text, so a template that needs objects is no trouble."""
    path = written("axolotl", samples, tmp_path)["train.jsonl"]
    assert fared(check(path, "axolotl", choose(["qwen2_5"]))) == {"qwen2_5": (7, 0)}


def test_both_sides_of_a_pair_are_rendered(samples: dict[str, Sample], tmp_path: Path) -> None:
    """A row counts once, and only if chosen and rejected both survive."""
    path = written("trl-dpo", samples, tmp_path)["train.parquet"]
    checked = check(path, "trl-dpo", choose(["qwen3"]))
    assert fared(checked) == {"qwen3": (checked.rows, 0)}


USER = {"role": "user", "content": "a"}
TALK = {"messages": [USER, {"role": "assistant", "content": "b"}], "tools": []}


def lines(path: Path, *rows: Any) -> Path:
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path


def changed(base: Any, **changes: Any) -> Any:
    return {**json.loads(json.dumps(base)), **changes}


CALL = {"id": "c", "type": "function", "function": {"name": "f", "arguments": "{}"}}
TOOL = {"type": "function", "function": {"name": "a.b", "parameters": {}}}


def turns(*said: tuple[str, str]) -> list[dict[str, str]]:
    return [{"from": role, "value": text} for role, text in said]


def said(*messages: Any) -> Any:
    """The talk with these messages."""
    return changed(TALK, messages=[*messages])


SYSTEM, ASKED = ("system", "s"), ("user", "u")
ASK = [[{"role": "user", "content": "a"}]]
PLAIN = {"name": "f", "description": "", "parameters": {"type": "object"}}
BANK = {"instruction": "i", "input": ""}
WRONG: list[tuple[str, Any, str]] = [
    ("trl", changed(TALK, extra=1), "extra: Extra inputs"),
    ("trl", said({"role": "ai", "content": "a"}), "messages.0"),
    ("trl", said({"role": "tool", "content": "a"}), "a result without a call"),
    ("trl", said({"role": "assistant", "tool_calls": [CALL]}, USER), "has no result"),
    ("openai", said(USER), "the last message"),
    ("openai", changed(TALK, tools=[TOOL]), "tools.0.function.name"),
    ("llamafactory", {"conversations": turns(("gpt", "a"), ("human", "b"))}, "turn 0 is gpt"),
    (
        "llamafactory",
        {"conversations": turns(("human", "a"), ("function_call", "b"))},
        "a function_call is no JSON",
    ),
    (
        "hermes",
        {"id": "1", "conversations": turns(("gpt", "<tool_call>\n{}\n</tool_call>"))},
        "no call with name",
    ),
    ("hermes", {"id": "1", "conversations": turns(("gpt", "<tool_call>{"))}, "not closed"),
    (
        "xlam",
        {"id": 1, "query": "q", "tools": "[]", "answers": '[{"name":"f","arguments":{}}]'},
        "'f'",
    ),
    ("bfcl", {"id": "multiple_1", "question": ASK, "function": [PLAIN]}, "other than `dict`"),
    ("bfcl", {"id": "multiple_1", "ground_truth": [{"f": {"a": 1}}]}, "ground_truth.0.f.a"),
    ("api-bank", {**BANK, "output": "f()"}, "output is neither"),
    ("api-bank", {**BANK, "output": "API-Request: [f(]"}, "output: "),
    ("toolllama", {"id": "1", "conversations": turns(SYSTEM, ASKED, SYSTEM)}, "ends with the"),
    (
        "toolllama",
        {"id": "1", "conversations": turns(SYSTEM, ASKED, ("assistant", "Hello"))},
        "not Thought",
    ),
    ("trl", "text", "the row"),
]


@pytest.mark.parametrize(("name", "row", "why"), WRONG)
def test_a_row_of_another_shape_is_named(name: str, row: Any, why: str, tmp_path: Path) -> None:
    """The first one with its number and what is wrong; the models are closed."""
    checked = check(lines(tmp_path / "a.jsonl", row), name, [])
    assert checked.wrong == 1 and not checked.is_sound
    assert checked.first.startswith("row 1: ") and why in checked.first


def test_a_file_that_does_not_load_as_it_is_is_told(tmp_path: Path) -> None:
    """`datasets` would round this number without a word."""
    call = {"type": "function", "function": {"name": "f", "arguments": {"x": 0.12345678901234567}}}
    calling = {"role": "assistant", "content": "", "tool_calls": [call]}
    row = said(USER, calling, {"role": "tool", "content": "{}"})
    checked = check(lines(tmp_path / "a.jsonl", row, TALK), "trl", [])
    assert checked.wrong == 0 and not checked.is_sound
    assert "gives another row 1" in checked.loaded


@pytest.mark.parametrize(
    ("content", "why"),
    [
        (b"", "holds no rows"),
        (b"{", "line 1: is no JSON"),
        (b'[{"a": 1}', "is no JSON"),
        (b'{"a": 1}\n', "no format has rows with a"),
        (b"PAR1 and no more", "damaged"),
        (b"[" * 100_000, "is no JSON"),
        (b'"text"\n', "holds no rows"),
    ],
)
def test_what_cannot_be_read_is_told(content: bytes, why: str, tmp_path: Path) -> None:
    """Damaged, empty and foreign files are errors with a message."""
    path = tmp_path / "a.json"
    path.write_bytes(content)
    with pytest.raises(Exception, match=why) as raised:
        detect(path)
    assert "Error" in type(raised.value).__name__


def test_a_file_that_is_not_there_is_told(tmp_path: Path) -> None:
    """And so is a folder, or a name that no file can have."""
    for path in (tmp_path / "none.jsonl", tmp_path, Path("a" * 5_000)):
        with pytest.raises(NothingFound, match="no such file"):
            detect(path)
    with pytest.raises(NothingFound, match="no such file"):
        choose(["a" * 5_000])
    with pytest.raises(ExportError, match="no rows"):
        detect(lines(tmp_path / "empty.jsonl"))


def test_the_table_of_another_may_hold_nulls(tmp_path: Path) -> None:
    """A column of JSON that is null is read as null, and judged as any other value."""
    texts = pa.ExtensionArray.from_storage(pa.json_(), pa.array(["{}", None]))
    offsets = pa.array([0, 2, 2], pa.int32())
    tools = pa.ListArray.from_arrays(offsets, texts, mask=pa.array([False, True]))
    said = [{"role": "user", "content": "x"}]
    path = tmp_path / "a.parquet"
    pq.write_table(pa.table({"messages": [said, said], "tools": tools}), path)
    assert [row["tools"] for row in read_rows(path)] == [[{}, None], None]
    assert check(path, "trl", []).wrong == 2


def test_a_files_name_is_no_pattern(tmp_path: Path) -> None:
    """`datasets` would load `ab.jsonl` for `a*.jsonl`, or find nothing for `a[1].jsonl`."""
    row = {"messages": [{"role": "user", "content": "x"}]}
    (tmp_path / "ab.jsonl").write_text("1")
    for name in ("a*.jsonl", "a[1].jsonl"):
        (tmp_path / name).write_text(json.dumps(row))
        assert check(tmp_path / name, "trl", []).loaded == ""


# -- What a rendering may not lose -----------------------------------------------------------------


def talk(arguments: Any, result: str = '{"response": 7}') -> list[dict[str, Any]]:
    call = {"type": "function", "function": {"name": "weather", "arguments": arguments}}
    return [
        {"role": "system", "content": "Moved away."},
        {"role": "user", "content": "Weather in Zürich?"},
        {"role": "assistant", "content": "", "tool_calls": [call]},
        {"role": "tool", "content": result, "name": "weather"},
        {"role": "assistant", "content": "It is 7."},
    ]


WHOLE = 'user: Weather in Zürich? call: weather {"city": "Zürich"} result: {"response": 7} It is 7.'


ZURICH = {"city": "Zürich"}


@pytest.mark.parametrize(
    ("arguments", "written"),
    [
        (ZURICH, '{"city": "Zürich"}'),
        (ZURICH, "(city='Zürich')"),
        (ZURICH, '{"city": "Z\\u00fcrich"}'),
        ({"z": {"b": 2}, "city": "Zürich", "a": 1}, "{a: 1, city: Zürich, z: {b: 2}}"),
        ({"city": True}, "{city: True}"),
        ({"city": True}, "{city: true}"),
        ({"city": None}, "{city: null}"),
        ({"city": 2.5}, "{city: 2.5}"),
    ],
)
def test_every_way_to_write_it_is_seen(arguments: Any, written: str) -> None:
    """As it is, escaped as in JSON, as Python writes it, or with keys in another order."""
    text = WHOLE.replace('{"city": "Zürich"}', written)
    for result in ('{"response": 7}', '"{\\"response\\": 7}"'):
        assert lost(text.replace('{"response": 7}', result), talk(arguments)) is None


@pytest.mark.parametrize(
    ("gone", "left", "why"),
    [
        ("Weather in Zürich?", "", "what the user says in message 1"),
        ("weather", "", "the call of weather"),
        ("weather {", "weather_of_city {", "the call of weather is lost"),
        ("city", "", "'city' of the call"),
        ('"Zürich"}', "", "'Zürich' of the call"),
        ('{"response": 7}', "", "the observation in message 3"),
        ("It is 7.", "", "what the assistant says in message 4"),
    ],
)
def test_what_is_lost_is_named(gone: str, left: str, why: str) -> None:
    """A value the user said does not stand in for the argument, nor a longer name for a name."""
    assert why in str(lost(WHOLE.replace(gone, left), talk(ZURICH)))


def test_text_arguments_stand_as_they_are() -> None:
    """Quoted once more, a model would learn to write a text in place of an object."""
    assert lost(WHOLE, talk('{"city": "Zürich"}')) is None
    quoted = WHOLE.replace('{"city": "Zürich"}', '"{\\"city\\": \\"Zürich\\"}"')
    assert "quoted text" in str(lost(quoted, talk('{"city": "Zürich"}')))
    empty = WHOLE.replace('{"city": "Zürich"}', '"{}"')
    assert "quoted text" in str(lost(empty, talk("{}")))
    assert "arguments of weather are lost" in str(lost(WHOLE, talk('{"town": 1}')))
