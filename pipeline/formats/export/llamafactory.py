"""LLaMA-Factory's sharegpt form: user and observation turns alternate with the assistant's."""

from __future__ import annotations

import json

from toolloom.pipeline.formats.export.base import (
    Arguments,
    Exported,
    ExportPlace,
    called,
    given,
    spaced,
    spoken,
    system_of,
    turns,
    words_beside_calls,
)
from toolloom.schemas import JsonObject, Message, Sample

COLUMNS = {"messages": "conversations", "system": "system", "tools": "tools"}


def llamafactory(sample: Sample, form: Arguments) -> Exported:
    said = spoken(sample.dialogue.messages)
    described = [api.as_tool()["function"] for api in given(sample)]
    row = {
        "conversations": [_turn(group) for group in turns(said)],
        "system": system_of(sample),
        "tools": spaced(described) if described else "",
    }
    return Exported((("sft", row),), words_beside_calls(said))


def _turn(group: list[Message]) -> JsonObject:
    """One turn; the results of one turn's calls are one observation, a list in their order."""
    first = group[0]
    if first.role == "tool":
        seen = [message.content or "" for message in group]
        value = seen[0] if len(seen) == 1 else f"[{', '.join(seen)}]"
        return {"from": "observation", "value": value}
    if first.tool_calls:
        return {"from": "function_call", "value": called(first)}
    return {"from": "human" if first.role == "user" else "gpt", "value": first.content or ""}


def dataset_info(place: ExportPlace) -> dict[str, str]:
    """The entries for LLaMA-Factory's `dataset_info.json`, one for each split."""
    entries = {
        f"{place.dataset}_{split}": {
            "file_name": f"{split}.jsonl",
            "formatting": "sharegpt",
            "columns": COLUMNS,
        }
        for split in place.splits
    }
    return {"dataset_info.json": json.dumps(entries, indent=2, ensure_ascii=False) + "\n"}
