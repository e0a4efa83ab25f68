"""APIs of a harbour, and `toolloom apis`, called on pools of them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from typer.testing import CliRunner, Result

from support import conversations
from support.conversations import fields
from toolloom.cli import app
from toolloom.pipeline.apis.pool import PoolFolder
from toolloom.schemas import Api, Source

HOSTILE = "\x1b[2J\x07\u202egnp.exe"


def api(name: str, **changes: Any) -> Api:
    kinds = {"type": "array", "items": {"type": "string"}}
    place = {"type": "string", "description": "name of a town"}
    takes = {"place": place, "kinds?": kinds, "day?": {"enum": ["today", "tomorrow"]}}
    known: dict[str, Any] = {
        "source": Source(kind="openai", reference="sea.json", licence="CC0-1.0"),
        "collections": ("coast",),
    }
    about = f"Tell the {name} of a harbour."
    returns = {"type": "object", "properties": {"answer": {"type": "string"}}}
    made = conversations.api(f"Sea/Harbour/{name}", fields(**takes), returns, about)
    return made.model_copy(update={**known, **changes})


def call(*arguments: str) -> Result:
    return CliRunner().invoke(app, ["apis", *arguments])


def pool(name: str) -> PoolFolder:
    return PoolFolder(Path("outputs/pools") / name)
