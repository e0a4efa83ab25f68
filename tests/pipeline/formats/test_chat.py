"""Rows of OpenAI's messages as dialogues, however trainers write them; and tools as APIs: ids are
unique, repeats are told, losses are booked."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from support.foreign_rows import (
    OPENAI,
    TOOL,
    TRL,
    Take,
    calls,
    changed,
    findings,
    reasons,
    said,
    with_turn,
)

from toolloom.pipeline.formats import chat
from toolloom.pipeline.formats.import_log import ImportLog
from toolloom.pipeline.formats.json_schema import LONGEST_TEXT, to_api
from toolloom.schemas import Api, JsonObject, Source


def with_arguments(*given: object, row: JsonObject = TRL, place: int = 1) -> JsonObject:
    """The row with other arguments in its first calls."""
    made = changed(row)
    for call, arguments in zip(made["messages"][place]["tool_calls"], given, strict=False):
        call["function"]["arguments"] = arguments
    return made


def padded() -> JsonObject:
    row = with_arguments({"city": "Bern", "x": None})
    row["tools"][0]["function"]["parameters"]["properties"]["other"] = None
    return row


SPLIT = {"prompt": TRL["messages"][:1], "tools": TRL["tools"]}


@pytest.mark.parametrize(
    "row",
    [
        changed(with_arguments('{"city": "Bern"}'), tools=json.dumps([json.dumps(TOOL)])),
        padded(),
        {**SPLIT, "completion": TRL["messages"][1:]},
        {**SPLIT, "chosen": TRL["messages"][1:]},
    ],
    ids=[
        "arguments, the column of tools and each of them as JSON text",
        "keys that Arrow padded with null, which TRL drops too",
        "a prompt and its completion",
        "the better answer of a preference",
    ],
)
def test_trl_has_several_ways_to_write_a_dialogue(take: Take, row: JsonObject) -> None:
    """All of them are read as the same messages and tools."""
    found = take(row)
    plain = take(TRL)
    assert found.dialogue and plain.dialogue and findings(found) == []
    assert found.dialogue.messages == plain.dialogue.messages
    assert found.dialogue.query.pool == plain.dialogue.query.pool


@pytest.mark.parametrize(
    ("column", "more"),
    [("chosen", {"rejected": TRL["messages"]}), ("completion", {"label": False})],
)
def test_what_is_meant_to_be_wrong_is_told_and_not_judged(
    take: Take, column: str, more: JsonObject
) -> None:
    """The rejected answer of a preference is no fault; an undesirable completion is marked."""
    row = {**SPLIT, column: TRL["messages"][1:], **more}
    (name,) = more
    assert any(name in note for note in take(row).unmapped)


@pytest.mark.parametrize(
    ("row", "why"),
    [
        ({"prompt": "Rain?", "completion": "No."}, "text"),
        ({"text": "Rain?"}, "neither"),
        ({"messages": []}, "no turns"),
        ({"messages": [{"role": "system", "content": "x"}]}, "no messages"),
        (["x"], "not a JSON object"),
    ],
)
def test_a_row_that_is_no_conversation_is_refused_in_words(
    take: Take, row: object, why: str
) -> None:
    """What cannot be mapped has no dialogue, but a reason."""
    found = take(row)
    assert found.dialogue is None and why in found.faults[0].detail


def test_arguments_that_are_nearly_json_are_read_and_told(take: Take) -> None:
    """Python's way to write a dict is parsed, broken JSON mended, and both are noted; text that is
    no JSON reaches the checks as it is."""
    assert reasons(take(with_arguments("Bern"))) == ["false_api_call_format"]
    found = take(with_arguments("{'city': 'Bern'}", '{"city": "Oslo"'))
    assert calls(found) == calls(take(TRL))
    assert [note for note in found.unmapped if note.startswith("arguments")] == [
        "arguments: text that is written as Python, not as JSON",
        "arguments: text that is not JSON and was mended",
    ]


@pytest.mark.parametrize(
    ("row", "why"),
    [
        (with_turn(OPENAI, 0, role="critic"), "critic"),
        (changed(OPENAI, parallel_tool_calls=False), "parallel_tool_calls"),
        (with_turn(OPENAI, 4, tool_call_id="call_z"), "answers no open call"),
    ],
)
def test_roles_ids_and_single_calls_are_held_to(take: Take, row: object, why: str) -> None:
    """Each is a fault of the dialogue's form."""
    found = findings(take(row))
    assert any(why in f.detail and f.reason == "malformed_dialogue" for f in found)


def test_a_preference_of_openai_is_read_up_to_its_better_answer(take: Take) -> None:
    """`input` holds what a row has otherwise, `preferred_output` goes on from there."""
    messages = OPENAI["messages"]
    worse = [{"role": "assistant", "content": "No."}]
    row = {"preferred_output": messages[2:], "non_preferred_output": worse}
    found = take({"input": {**OPENAI, "messages": messages[:2]}, **row})
    plain = take(OPENAI)
    assert found.dialogue and plain.dialogue
    assert found.dialogue.messages == plain.dialogue.messages and findings(found) == []
    assert "non_preferred_output" in found.unmapped[0]


def test_content_in_parts_and_thoughts_are_told(take: Take) -> None:
    """Text parts are one text; other parts and thoughts have no place, and are named."""
    text = {"type": "text", "text": "Rain"}
    row = with_turn(TRL, 0, content=[text, "?"])
    assert said(take(row), "user") == ["Rain?"]
    row = with_turn(TRL, 0, content=[text, {"type": "image_url", "image_url": {"url": "x"}}])
    assert "content that is not text" in take(row).unmapped
    row = with_turn(TRL, 4, content="<think>hm</think>Rain.", reasoning_content="hm", weight=0)
    found = take(row)
    assert said(found, "assistant") == ["Rain."]
    assert {*found.unmapped} == {
        "what stands in <think>",
        "messages: field `reasoning_content`",
        "messages: field `weight`",
    }


def test_apis_that_no_search_found_are_unknown(take: Take) -> None:
    """Where API Search is the only tool, nothing else may be called but what it found."""
    keywords = {"type": "object", "properties": {"keywords": {"type": "string"}}}
    search = {"type": "function", "function": {"name": "api_search", "parameters": keywords}}
    found = take(changed(TRL, tools=[search]))
    assert found.dialogue and found.dialogue.query.ability == "retrieve_call"
    assert "api_hallucination" in reasons(found)


# Tools


def take(log: ImportLog, **given_values: Any) -> list[Api]:
    values = {"category": "", "tool": "shop", "description": "", "parameters": None}
    return list(to_api(log, Source(kind="openai"), **{**values, **given_values}))


def test_the_same_description_counts_once() -> None:
    """A repeat is no further operation: it is told in a note, not in `read`."""
    log, source = ImportLog("shop.json"), Source(kind="openai", reference="shop.json")
    known = {"category": "", "tool": "shop", "description": "", "parameters": None}
    made = [api for n in ("buy", "buy", "sell") for api in to_api(log, source, name=n, **known)]
    assert [api.name for api in made] == ["buy", "sell"]
    report = log.report(imported=2)
    assert report.read == 2
    assert report.notes == ("shop.json: descriptions that stand again and count once: 1.",)


def test_namesakes_get_ids_of_their_own() -> None:
    """Whatever order the names come in; the rename is booked."""
    log = ImportLog("shop.json")
    wanted = [("buy", "1"), ("buy", "2"), ("buy (2)", "3"), ("sell (2)", "4"), ("sell", "5")]
    found = [take(log, name=n, description=d) for n, d in [*wanted, ("sell", "6")]]
    assert len({api.id for (api,) in found}) == len(found)
    assert [api.id for (api,) in found][:2] == ["shop/shop/buy", "shop/shop/buy (2)"]
    assert [api.function for (api,) in found][:2] == ["buy", "buy_2"]
    assert log.report(imported=2).renamed[0].why == "taken"


def test_losses_are_booked() -> None:
    """What has no name is skipped with a reason; of a long description the cut is told."""
    log = ImportLog("shop.json")
    assert take(log, name=None, description="Lost and found.") == []
    (api,) = take(log, name="buy", description="many words " * 300)
    report = log.report(imported=1)
    assert (report.skipped[0].what, report.read) == ("shop: Lost and found.", 2)
    assert len(api.description) <= LONGEST_TEXT
    assert report.cut[0].why == "text" and report.cut[0].bytes > 2000


SCHEMA = {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}
CHAT = {"type": "function", "function": {"name": "weather", "parameters": SCHEMA}}
FLAT = {"type": "function", "name": "weather", "parameters": SCHEMA, "strict": True}
BARE = {"name": "weather", "description": "Tells the weather.", "parameters": SCHEMA}
INPUT = {"name": "weather", "input_schema": SCHEMA}
LISTED = {"name": "weather", "inputSchema": SCHEMA, "outputSchema": {"type": "string"}}


def gather(path: Path, content: Any) -> tuple[list[Api], ImportLog]:
    path.write_text(json.dumps(content))
    log = ImportLog(path.name)
    return list(chat.read(path, log)), log


@pytest.mark.parametrize(
    "document",
    [
        *([CHAT], [FLAT], [BARE], [INPUT], CHAT, BARE, {"tools": [LISTED]}, {"functions": [BARE]}),
        {"model": "any", "messages": [], "tools": [CHAT]},
    ],
)
def test_each_form_gives_the_same_function(tmp_path: Path, document: Any) -> None:
    """Nested, flat and bare entries, alone, listed or in a request, are one API."""
    assert chat.fits(document)
    (api,), log = gather(tmp_path / "city_tools.json", document)
    assert (api.id, api.function) == ("city tools/city tools/weather", "weather")
    assert api.parameters == SCHEMA
    assert api.returns == ({"type": "string"} if document == {"tools": [LISTED]} else None)
    assert log.read == 1


def test_other_tools_are_skipped_with_their_type(tmp_path: Path) -> None:
    """What is no function tool is named by its place and type."""
    found, log = gather(tmp_path / "t.json", [CHAT, {"type": "web_search"}, 5])
    skipped = log.report(imported=1).skipped
    assert (len(found), log.read) == (1, 3)
    assert [line.what for line in skipped] == ["t.json, tool 2", "t.json, tool 3"]
    assert "web_search" in skipped[0].why
