"""What every record has in common."""

from __future__ import annotations

import hashlib
import json
from typing import Any, TypeAlias

from pydantic import BaseModel, ConfigDict

# A JSON Schema or any other JSON object. pydantic's own JsonValue re-validates deep trees
# on every construction; the checks validate these objects where it matters.
JsonObject: TypeAlias = dict[str, Any]


class Record(BaseModel):
    """A frozen, closed record: unknown fields are errors, nothing is changed in place."""

    model_config = ConfigDict(frozen=True, extra="forbid")


def canonical(value: Any) -> str:
    """JSON with sorted keys and no spaces: equal values give equal text."""
    return json.dumps(value, sort_keys=True, ensure_ascii=False, separators=(",", ":"))


def digest(value: Any, length: int = 12) -> str:
    """The first `length` hex digits of the SHA-256 of a JSON value."""
    return hashlib.sha256(canonical(value).encode()).hexdigest()[:length]


def seed_for(*parts: Any) -> int:
    """A seed of 31 bits from (recipe seed, stage, record id, …): never from order of arrival."""
    return int(digest(list(parts), 8), 16) >> 1
