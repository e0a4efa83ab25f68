"""What every record has in common, where it came from and what it cost."""

from __future__ import annotations

import hashlib
import json
from collections import defaultdict
from collections.abc import Iterable
from typing import Any, TypeAlias, TypeVar

from pydantic import BaseModel, ConfigDict, Field, ValidationError

# Of the files of versions and runs: raised when they change so that older readers fail.
LAYOUT = 3
_K = TypeVar("_K")
_V = TypeVar("_V")

# A JSON Schema or any other JSON object. pydantic's own JsonValue re-validates deep trees
# on every construction; the checks validate these objects where it matters.
JsonObject: TypeAlias = dict[str, Any]


class Record(BaseModel):
    """A frozen, closed record: unknown fields are errors, nothing is changed in place."""

    model_config = ConfigDict(frozen=True, extra="forbid")


def empty(value: Any) -> bool:
    """`exclude_if` of fields that came later: records without them keep their bytes and ids."""
    return not value


def first_error(error: ValidationError, whole: str = "") -> str:
    """The first fault of a record after the field it is in, or `whole` if it is in no field."""
    first = error.errors(include_url=False, include_input=False)[0]
    return f"{'.'.join(map(str, first['loc'])) or whole}: {first['msg']}"


def canonical(value: Any) -> str:
    """JSON with sorted keys and no spaces: equal values give equal text."""
    return json.dumps(value, sort_keys=True, ensure_ascii=False, separators=(",", ":"))


def digest(value: Any, length: int = 12) -> str:
    """The first `length` hex digits of the SHA-256 of a JSON value, whatever it holds."""
    return hashlib.sha256(canonical(value).encode("utf-8", "surrogatepass")).hexdigest()[:length]


def grouped(pairs: Iterable[tuple[_K, _V]]) -> defaultdict[_K, list[_V]]:
    """The second ones of pairs by the first ones, each list in the order in which they came."""
    found = defaultdict[_K, list[_V]](list)
    for key, value in pairs:
        found[key].append(value)
    return found


def seed_for(*parts: Any) -> int:
    """A seed of 31 bits from (recipe seed, stage, record id, …): never from order of arrival."""
    return int(digest(list(parts), 8), 16) >> 1


class Usage(Record):
    """What answers took, cached ones included, so that a resumed run reports the same."""

    requests: int = 0
    prompt_tokens: int = 0
    cached_tokens: int = 0  # of the prompts', those the endpoint had cached
    completion_tokens: int = 0
    cost: float = 0.0  # US dollars, at the recipe's prices

    def __add__(self, other: Usage) -> Usage:
        return Usage.model_validate({name: own + getattr(other, name) for name, own in self})

    def __sub__(self, other: Usage) -> Usage:
        return Usage.model_validate({name: own - getattr(other, name) for name, own in self})

    @property
    def tokens(self) -> int:
        """Tokens sent and received."""
        return self.prompt_tokens + self.completion_tokens

    @property
    def cached_share(self) -> float:
        """How much of what was sent the endpoint says it had cached: 0 to 1."""
        return self.cached_tokens / self.prompt_tokens if self.prompt_tokens else 0.0


class Provenance(Record):
    """One agent's share in a record. Holds nothing that differs between two equal runs."""

    stage: str = Field(description="The stage that made the record.")
    agent: str = Field(description="The agent that was asked.")
    model: str = Field(description="The model that answered; empty if none was asked.")
    prompts: tuple[str, ...] = Field(default=(), description="Hashes of the templates used.")
    seed: int = Field(description="The seed the requests of this record start from.")
    requests: int = Field(default=0, description="Model requests made, cached ones included.")
    prompt_tokens: int = Field(default=0, description="Tokens sent.")
    cached_tokens: int = Field(
        default=0, description="Tokens sent that the endpoint had cached, as it reports."
    )
    completion_tokens: int = Field(default=0, description="Tokens received.")
    cost: float = Field(default=0.0, description="US dollars, at the recipe's prices.")
    repairs: tuple[str, ...] = Field(default=(), description="What was mended in a response.")
    parents: tuple[str, ...] = Field(default=(), description="Ids of the records it was made of.")
