"""Application domains."""

from __future__ import annotations

from pydantic import Field

from toolloom.schemas.base import Record
from toolloom.schemas.provenance import Provenance


class Brief(Record):
    """An order to the domain agent: `count` domains of one category of the taxonomy."""

    category: str = Field(description="A category of the seed taxonomy.")
    about: str = Field(description="What belongs to the category, in a few words.")
    examples: tuple[str, ...] = Field(default=(), description="Domains that show the grain.")
    count: int = Field(ge=1, description="How many domains to name.")

    @property
    def id(self) -> str:
        return self.category


class Domain(Record):
    """An application domain, such as «dental procedure cost estimates» (API-Bank, section 4)."""

    category: str = Field(description="The taxonomy category it belongs to.")
    name: str = Field(description="The domain in two to six words.")
    description: str = Field(default="", description="What people do there, in one sentence.")
    provenance: tuple[Provenance, ...] = Field(default=(), description="How it was made.")

    @property
    def id(self) -> str:
        return f"{self.category}/{self.name}"
