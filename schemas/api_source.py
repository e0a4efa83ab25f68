"""A place that real APIs come from."""

from __future__ import annotations

from typing import Any, Literal, TypeAlias

from pydantic import Field, model_validator

from toolloom.schemas.base import Record

Format: TypeAlias = Literal[
    "auto",
    "openapi",
    "mcp",
    "python",
    "openai",
    "bfcl",
    "toolbench",
    "api-bank",
    "public-apis",
    "pool",
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
    only: tuple[str, ...] = Field(default=(), description="APIs to take; empty: all.")
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
        default=(), description="Those whose results the clock or chance decides."
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
