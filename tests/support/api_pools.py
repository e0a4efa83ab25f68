"""APIs of a harbour, and pools of them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from toolloom.pipeline.apis.pool import PoolFolder
from toolloom.schemas import Api, Source

HOSTILE = "\x1b[2J\x07\u202egnp.exe"


def api(name: str, **changes: Any) -> Api:
    fields: dict[str, Any] = {
        "category": "Sea",
        "tool": "Harbour",
        "name": name,
        "function": name,
        "description": f"Tell the {name} of a harbour.",
        "parameters": {
            "type": "object",
            "properties": {
                "place": {"type": "string", "description": "name of a town"},
                "kinds": {"type": "array", "items": {"type": "string"}},
                "day": {"enum": ["today", "tomorrow"]},
            },
            "required": ["place"],
        },
        "returns": {"type": "object", "properties": {"answer": {"type": "string"}}},
        "source": Source(kind="openai", reference="sea.json", licence="CC0-1.0"),
        "collections": ("coast",),
    }
    return Api(**{**fields, **changes})


def pool(name: str) -> PoolFolder:
    return PoolFolder(Path("outputs/pools") / name)
