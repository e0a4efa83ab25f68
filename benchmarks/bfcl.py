"""BFCL's questions with their gold calls, as OpenAI messages that `toolloom audit` reads.

    python benchmarks/bfcl.py bfcl_eval/data/BFCL_v4_multiple.json > multiple.jsonl
    toolloom audit multiple.jsonl

A gold argument is a list of values that are allowed, of which the first is taken; `""` says that
the argument may be left out. Answers are sought in `possible_answer/` beside the questions.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

from toolloom.pipeline.formats import json_schema

TYPES = {**json_schema.TYPES, "arraylist": "array", "byte": "integer"}


def plain(schema: Any) -> Any:
    """A schema with JSON's names of types, where BFCL has those of Python, Java and JavaScript."""
    if isinstance(schema, list):
        return [plain(part) for part in schema]
    if not isinstance(schema, dict):
        return schema
    return {
        key: TYPES.get(value.lower(), value)
        if key == "type" and isinstance(value, str)
        else plain(value)
        for key, value in schema.items()
        if (key, value) != ("type", "any")
    }


def first(allowed: dict[str, list[Any]]) -> dict[str, Any]:
    """Of each argument the first value that is allowed; keys of objects have lists of their own."""
    values = {name: [v for v in listed if v not in ("", None)] for name, listed in allowed.items()}
    return {name: opened(found[0]) for name, found in values.items() if found}


def opened(value: Any) -> Any:
    if isinstance(value, dict):
        return first({k: v if isinstance(v, list) else [v] for k, v in value.items()})
    return [opened(one) for one in value] if isinstance(value, list) else value


def row_of(question: dict[str, Any], gold: list[dict[str, Any]]) -> dict[str, Any]:
    """A question of one turn with its calls. Dots in names become underscores, as OpenAI asks."""
    tools = [
        {
            "name": function["name"].replace(".", "_"),
            "description": function.get("description", ""),
            "parameters": plain(function.get("parameters", {})),
        }
        for function in question["function"]
    ]
    calls = [
        {"name": name.replace(".", "_"), "arguments": json.dumps(first(allowed))}
        for call in gold
        for name, allowed in call.items()
    ]
    made = [{"id": f"call_{n}", "type": "function", "function": c} for n, c in enumerate(calls)]
    answer = {"role": "assistant", "content": "", "tool_calls": made}
    return {
        "id": question["id"],
        "messages": [*question["question"][0], *([answer] if made else [])],
        "tools": [{"type": "function", "function": tool} for tool in tools],
    }


def main(path: Path) -> None:
    beside = path.parent / "possible_answer" / path.name
    lines = beside.read_text("utf-8").splitlines() if beside.exists() else []
    gold = {answer["id"]: answer["ground_truth"] for answer in map(json.loads, lines)}
    for question in map(json.loads, path.read_text("utf-8").splitlines()):
        print(json.dumps(row_of(question, gold.get(question["id"], [])), ensure_ascii=False))


if __name__ == "__main__":
    main(Path(sys.argv[1]))
