"""Where a record came from and what it cost."""

from __future__ import annotations

from pydantic import Field

from toolloom.schemas.base import Record


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
