"""APIs: the one form every stage works on, where they come from, and what an import came to."""

from __future__ import annotations

from typing import Any, Literal, TypeAlias

from pydantic import Field, model_validator

from toolloom.schemas.base import JsonObject, Provenance, Record, empty

SourceKind: TypeAlias = Literal[
    "generated", "openapi", "mcp", "python", "openai", "toolbench", "api-bank", "world", "builtin"
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
        shown = self.as_tool()["function"]
        return shown if self.returns is None else {**shown, "returns": self.returns}

    def as_tool(self) -> JsonObject:
        """An entry of the `tools` array of OpenAI's chat completions."""
        described: JsonObject = {
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


Format: TypeAlias = Literal[
    "auto", "openapi", "mcp", "python", "openai", "toolbench", "api-bank", "pool"
]


class ApiSource(Record):
    """A place that APIs are imported from, and what of it may really be executed."""

    path: str = Field(default="", description="A file, a folder, a Python module or a pool.")
    mcp: str = Field(
        default="",
        description="An MCP server: a command with arguments, or a URL. Published with the "
        "recipe: secrets go into `environment`.",
    )
    name: str = Field(
        default="", description="Name of the MCP server; by default its program or host."
    )
    format: Format = Field(default="auto", description="What `path` holds; `auto` tells by itself.")
    category: str = Field(default="", description="Category of its APIs, in place of its own.")
    collection: str = Field(default="", description="A collection that its APIs belong to.")
    only: tuple[str, ...] = Field(
        default=(), description="APIs to take, by name, operation or function; empty: all."
    )
    without: tuple[str, ...] = Field(
        default=(), exclude_if=empty, description="APIs to leave out, by the same names."
    )
    values: dict[str, tuple[Any, ...]] = Field(
        default_factory=dict,
        description="Values users ask for, by parameter, where the source gives no examples. "
        "An empty list takes an optional parameter away.",
    )
    wrong_values: dict[str, tuple[Any, ...]] = Field(
        default_factory=dict,
        description="Values, by parameter, on which the execution fails: for error recovery.",
    )
    execute: tuple[str, ...] = Field(
        default=(), description="Functions or tools that may really be executed; others are played."
    )
    not_repeatable: tuple[str, ...] = Field(
        default=(), description="Those of them whose results the clock or chance decides."
    )
    environment: tuple[str, ...] = Field(
        default=(),
        description="Environment variables, by name, that executions see; all others are unset.",
    )
    prepare: str = Field(
        default="", description="Command run in each fresh working folder before anything else."
    )
    time_limit: float = Field(default=10, gt=0, le=600, description="Seconds one call may take.")

    @model_validator(mode="after")
    def _is_one_place(self) -> ApiSource:
        if bool(self.path) == bool(self.mcp):
            raise ValueError("give either `path` or `mcp`")
        return self


JsonType: TypeAlias = Literal["string", "integer", "number", "boolean", "array", "object"]


class ApiField(Record):
    """An input or output of an operation, flat; `json_schema()` is its JSON Schema."""

    name: str = Field(description="Name in snake_case.")
    type: JsonType = Field(description="JSON type.")
    description: str = Field(default="", description="What it means, with its unit.")
    required: bool = Field(default=True, description="Whether a call must give it.")
    example: Any = Field(default=None, description="A value, in the catalogue of real APIs.")
    examples: tuple[Any, ...] = Field(default=(), description="Values as they may occur.")
    enum: tuple[Any, ...] = Field(default=(), description="All values, where few are legal.")
    format: str = Field(default="", description="JSON Schema format, such as date.")
    items: JsonType | None = Field(default=None, description="Type of an array's items.")

    def json_schema(self) -> JsonObject:
        """The field as a JSON Schema (2020-12)."""
        made: JsonObject = {"type": self.type}
        if self.description:
            made["description"] = self.description
        if self.enum:
            made["enum"] = list(self.enum)
        if self.format and self.type == "string":
            made["format"] = self.format
        if self.examples and not self.enum and not self.format:
            made["examples"] = list(self.examples)
        if self.type == "array":
            made["items"] = {"type": self.items or "string"}
        return made


class Operation(Record):
    """One call of a real API."""

    name: str
    does: str
    parameters: tuple[ApiField, ...] = ()
    returns: tuple[ApiField, ...] = ()


class PublicApi(Record):
    """A real public API, described in our own words."""

    name: str
    category: str
    does: str
    operations: tuple[Operation, ...] = ()


class Category(Record):
    """A category of the seed taxonomy."""

    name: str
    about: str
    examples: tuple[str, ...] = ()


class Renamed(Record):
    """A name that models cannot call, or that another API of the pool has already."""

    api: str = Field(description="Id of the API.")
    old: str = Field(description="The name its source gives it.")
    new: str = Field(description="The function name it has now.")
    why: Literal["illegal", "taken"]


class Cut(Record):
    """Something of an API's description that was left out."""

    api: str = Field(description="Id of the API.")
    place: str = Field(description="Where in it, such as `parameters.filter.items`.")
    why: Literal["depth", "bytes", "cycle", "enum", "text", "invalid"] = Field(
        description="Nested too deep, over the byte budget, refers to itself, too many choices, "
        "too long a text, or no legal JSON Schema."
    )
    bytes: int = Field(default=0, description="How much was left out, where it can be told.")


class Unresolved(Record):
    """A reference that was not followed."""

    reference: str
    place: str = Field(description="Where it stands: an API's id or a place in the file.")
    why: Literal["remote", "missing", "outside", "unreadable"] = Field(
        description="On another machine, nothing there, outside the source's folder, or a file "
        "that cannot be read as JSON or YAML."
    )


class Skipped(Record):
    """Something that was read and is no API of the pool."""

    what: str = Field(description="An operation, a function, a row, a file.")
    why: str = Field(description="The reason, in a sentence.")


class ImportReport(Record):
    """One import of one source. `read` is `imported` plus the lines of `skipped`."""

    source: str = Field(description="What was imported, without secrets.")
    format: str = Field(description="The format it was read as.")
    version: str = Field(default="", description="Version of that format, such as 3.1.0.")
    read: int = Field(description="Operations, functions or tools found in it.")
    imported: int = Field(description="Those that became APIs.")
    replaced: int = Field(default=0, description="Of these, APIs the pool had from this source.")
    renamed: tuple[Renamed, ...] = ()
    cut: tuple[Cut, ...] = ()
    unresolved: tuple[Unresolved, ...] = ()
    skipped: tuple[Skipped, ...] = ()
    notes: tuple[str, ...] = Field(default=(), description="What else a user should know.")
    bytes: int = Field(default=0, description="Size of what was read.")
    seconds: float = Field(default=0, description="Time it took.")
