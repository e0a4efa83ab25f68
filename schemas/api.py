"""APIs, generated or imported: the one form every stage works on."""

from __future__ import annotations

from typing import Any, Literal, TypeAlias

from pydantic import Field

from toolloom.schemas.base import JsonObject, Record
from toolloom.schemas.provenance import Provenance

SourceKind: TypeAlias = Literal[
    "generated", "openapi", "mcp", "python", "openai", "toolbench", "bfcl", "api-bank", "builtin"
]


class Source(Record):
    """Where an API's description comes from."""

    kind: SourceKind = Field(default="generated", description="The kind of source.")
    reference: str = Field(
        default="",
        description="What it was read from: a file, a module, an address without its query, or "
        "the name of a server. Never a whole command: that may hold secrets.",
    )
    operation: str = Field(
        default="", description="What it is called there, such as `GET /pets/{id}`."
    )
    licence: str = Field(default="", description="SPDX identifier, where known.")


class Api(Record):
    """One callable operation. `category/tool/name` is ToolBench's RapidAPI hierarchy."""

    category: str = Field(description="Category; for a generated API its domain's category.")
    tool: str = Field(description="The tool (service) it belongs to.")
    name: str = Field(description="The operation's own name, as its source writes it.")
    function: str = Field(
        pattern=r"^[a-zA-Z0-9_-]{1,64}$",
        description="Name models call it by: legal for OpenAI and unique in its pool.",
    )
    description: str = Field(description="What it does, for the model that may call it.")
    parameters: JsonObject = Field(description="JSON Schema (2020-12) of the arguments object.")
    returns: JsonObject | None = Field(
        default=None, description="JSON Schema of `response` in an observation, where known."
    )
    collections: tuple[str, ...] = Field(
        default=(), description="Collections it belongs to, across tools (ToolLLM, section 2.2)."
    )
    deprecated: bool = Field(default=False, description="Its source advises against using it.")
    repeatable: bool = Field(
        default=True,
        description="The same calls from the same state give the same results: neither the "
        "clock nor chance decides.",
    )
    source: Source = Field(default_factory=Source, description="Where it comes from.")
    provenance: tuple[Provenance, ...] = Field(default=(), description="How it was made.")

    @property
    def id(self) -> str:
        return f"{self.category}/{self.tool}/{self.name}"

    @property
    def properties(self) -> dict[str, JsonObject]:
        """Schema of each argument by name."""
        found: dict[str, JsonObject] = self.parameters.get("properties", {})
        return found

    @property
    def required(self) -> tuple[str, ...]:
        return tuple(self.parameters.get("required", ()))

    @property
    def fields(self) -> dict[str, JsonObject]:
        """Schema of each top-level field of the response, if it is an object."""
        found: dict[str, JsonObject] = (self.returns or {}).get("properties", {})
        return found

    def document(self) -> JsonObject:
        """What API Search returns for it, and what its own prompt turns show."""
        shown: JsonObject = {
            "name": self.function,
            "description": self.description,
            "parameters": self.parameters,
        }
        return shown if self.returns is None else {**shown, "returns": self.returns}

    def as_tool(self) -> JsonObject:
        """An entry of the `tools` array of OpenAI's chat completions."""
        described: dict[str, Any] = {
            "name": self.function,
            "description": self.description,
            "parameters": self.parameters,
        }
        return {"type": "function", "function": described}

    def bare(self) -> Api:
        """The same API without its provenance, for embedding in other records."""
        return self.model_copy(update={"provenance": ()})


API_SEARCH = Api(
    category="toolloom",
    tool="search",
    name="api_search",
    function="api_search",
    description=(
        "Search the API library with a few keywords. Returns the documentation of the best "
        "matching APIs. Search for an API before you call it."
    ),
    parameters={
        "type": "object",
        "properties": {
            "keywords": {"type": "string", "description": "A few words for what is needed."}
        },
        "required": ["keywords"],
        "additionalProperties": False,
    },
    returns={"type": "array", "items": {"type": "object"}},
    source=Source(kind="builtin"),
)
"""API-Bank's API Search (section 3.1), the only tool shown in the retrieve abilities."""
