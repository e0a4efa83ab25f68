"""Good dialogues, written by hand in good/*.yaml, and how they are built."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import yaml
from support.conversations import api, fields

from toolloom.schemas import API_SEARCH, Dialogue, FunctionCall, Message, Query, ToolCall

GOOD = Path(__file__).parent / "good"
APIS = {
    function: api(path, fields(**takes), fields(**gives), about, function=function)
    for function, (path, about, takes, gives) in yaml.safe_load(
        (GOOD / "apis.yaml").read_text()
    ).items()
}


def _intention(entry: dict[str, Any]) -> dict[str, Any]:
    """`{function: {argument: value}}`, `turn`; a value `[from, call, field]` is a reference."""
    ((function, values),) = ((k, v) for k, v in entry.items() if k != "turn")
    drawn = {n: v for n, v in values.items() if isinstance(v, list) and v[:1] == ["from"]}
    return {
        "api": APIS[function].id,
        "turn": entry.get("turn", 0),
        "arguments": {n: v for n, v in values.items() if n not in drawn},
        "references": {n: {"call": v[1], "field": v[2]} for n, v in drawn.items()},
    }


def _play(messages: list[Message], step: dict[str, Any]) -> None:
    """One step: `user`, `say`, `search`+`finds`, or `calls`."""
    if "user" in step:
        messages.append(Message(role="user", content=step["user"]))
        return
    rows = step.get("calls", [])
    if "search" in step:
        documents = [APIS[name].document() for name in step["finds"]]
        rows = [[API_SEARCH.function, {"keywords": step["search"]}, documents]]
    done = sum(len(message.tool_calls) for message in messages)
    made = [
        ToolCall(id=f"call_{number}", function=FunctionCall(name=name, arguments=asked))
        for number, (name, asked, *_) in enumerate(rows, done + 1)
    ]
    said = step.get("say") or None
    messages.append(Message(role="assistant", content=said, tool_calls=tuple(made)))
    for call, (name, _, *seen) in zip(made, rows, strict=True):
        held = {"response": seen[0], "error": seen[1] if len(seen) > 1 else None}
        content = json.dumps(held, ensure_ascii=False)
        messages.append(Message(role="tool", content=content, tool_call_id=call.id, name=name))


def build(data: dict[str, Any]) -> Dialogue:
    """A dialogue from its YAML form."""
    now = data.get("now", "2026-11-21T10:00:00")
    plain = ("ability", "scenario", "language", "withheld", "fault")
    query = Query(
        id=data["name"],
        now=now,
        pool=tuple(APIS[name] for name in data["pool"]),
        outside=APIS[data["outside"]] if "outside" in data else None,
        intent=tuple(_intention(entry) for entry in data["intent"]),  # type: ignore[misc]
        text=data["steps"][0]["user"],
        **{name: data[name] for name in plain if name in data},
    )
    messages = [Message(role="system", content=f"You can call tools. It is now {now}.")]
    for step in data["steps"]:
        _play(messages, step)
    return Dialogue(query=query, messages=tuple(messages))


DOCUMENTS = [
    document
    for path in sorted(GOOD.glob("*.yaml"))
    if path.name != "apis.yaml"
    for document in yaml.safe_load_all(path.read_text())
]
ALL_GOOD = {document["name"]: build(document) for document in DOCUMENTS}
assert len(ALL_GOOD) == len(DOCUMENTS), "two dialogues share a name"


@pytest.fixture
def all_good() -> list[Dialogue]:
    """Every good dialogue."""
    return list(ALL_GOOD.values())
