"""Rows as others write them, made by hand after each format's documentation; those that the golden
run audits are read from there."""

from __future__ import annotations

import copy
import json
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any, TypeAlias

from toolloom.pipeline.formats.audit import judged, read
from toolloom.pipeline.formats.conversation import Reading
from toolloom.schemas import Finding, JsonObject


def _golden(form: str) -> list[JsonObject]:
    lines = (Path(__file__).parents[1] / "golden" / "foreign" / f"{form}.jsonl").read_text()
    return [json.loads(line) for line in lines.splitlines()]


TRL, HERMES, SHAREGPT = (_golden(form)[0] for form in ("trl", "hermes", "sharegpt"))
OPENAI, OLDER, *_ = _golden("openai")
TOOL = TRL["tools"][0]
REPLY = "Rain in Bern, snow in Oslo."
FINISH: JsonObject = {
    "name": "Finish",
    "description": "End.",
    "parameters": {"type": "object", "properties": {"return_type": {"type": "string"}}},
}
BENCH_FUNCTION: JsonObject = {
    "name": "weather_for_sky",
    "description": "Weather.",
    "parameters": {
        "type": "object",
        "properties": {
            "city": {"type": "string", "description": "", "example_value": "Paris"},
            "unit": {"type": "string", "description": "", "example_value": "metric"},
        },
        "required": ["city"],
        "optional": ["unit"],
    },
}
PATH: list[JsonObject] = [
    {"role": "system", "content": "You are a model with tools."},
    {"role": "user", "content": "\nWill it rain in Bern?\nBegin!\n"},
    {
        "role": "assistant",
        "content": "I look it up.",
        "function_call": {"name": "weather_for_sky", "arguments": '{\n  "city": "Bern"\n}'},
    },
    {
        "role": "function",
        "name": "weather_for_sky",
        "content": json.dumps({"error": "", "response": "{'sky': 'rain', 'wind': None}"}),
    },
    {
        "role": "assistant",
        "content": None,
        "function_call": {
            "name": "Finish",
            "arguments": '{"return_type": "give_answer", "final_answer": "Yes, rain."}',
        },
    },
]
TREE: JsonObject = {
    "win": True,
    "answer_generation": {
        "valid_data": True,
        "query": "Will it rain in Bern?",
        "function": [BENCH_FUNCTION, FINISH],
        "train_messages": [PATH[:3], PATH],
        "finish_type": "give_answer",
    },
}
INSTRUCTION: JsonObject = {
    "query_id": 3,
    "query": "Will it rain in Bern?",
    "api_list": [
        {
            "category_name": "Weather",
            "tool_name": "Sky",
            "api_name": "Weather",
            "api_description": "Weather.",
            "required_parameters": [{"name": "city", "type": "STRING", "description": ""}],
            "optional_parameters": [],
            "method": "GET",
        }
    ],
    "relevant APIs": [["Sky", "Weather"]],
}
API_BANK: list[JsonObject] = [
    *_golden("api-bank"),
    {
        "instruction": "The current time is 2039-03-09 18:56:09.",
        "input": '{"name": "Do", "input_parameters": {"n": {"type": "int"}}}\nUser: Do 3.\n',
        "output": "API-Request: [Do(n='3')]->{'output': 1, 'exception': None}",
    },
]
GOOD: dict[str, list[JsonObject]] = {
    "messages": [TRL, OPENAI, OLDER],
    "sharegpt": [SHAREGPT],
    "hermes": [HERMES],
    "api-bank": API_BANK,
}


def readings(folder: Path, rows: Iterable[Any]) -> list[Reading]:
    """Rows written as JSON lines and read back."""
    file = folder / "rows.jsonl"
    file.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return list(read(file))


Take: TypeAlias = Callable[[Any], Reading]


def reading(folder: Path, row: Any) -> Reading:
    (found,) = readings(folder, [row])
    return found


def findings(found: Reading) -> list[Finding]:
    return list(judged(found).findings)


def reasons(found: Reading) -> list[str]:
    return [finding.reason.value for finding in findings(found)]


def calls(found: Reading) -> list[tuple[str, Any]]:
    """Function names and arguments of all calls."""
    assert found.dialogue
    return [(call.function.name, call.function.arguments) for _, call in found.dialogue.calls()]


def answers(found: Reading) -> list[tuple[str, Any, str | None]]:
    """Arguments' city, response and error of each call, in order of the calls."""
    assert found.dialogue
    results = found.dialogue.results()
    made = []
    for _, call in found.dialogue.calls():
        seen = results[call.id][1].observation()
        made.append((call.function.name, seen.response, seen.error))
    return made


def said(found: Reading, role: str) -> list[str]:
    assert found.dialogue
    return [m.content for m in found.dialogue.messages if m.role == role and m.content]


def changed(row: JsonObject, **fields: Any) -> JsonObject:
    """A copy of a row with other columns."""
    return {**copy.deepcopy(row), **fields}


def with_turn(row: JsonObject, place: int, column: str = "messages", **fields: Any) -> JsonObject:
    """A copy of a row in which one turn has other fields; None takes a field away."""
    made = copy.deepcopy(row)
    turn = {**made[column][place], **fields}
    made[column][place] = {key: value for key, value in turn.items() if value is not None}
    return made
