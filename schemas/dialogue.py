"""Dialogues in OpenAI's chat form."""

from __future__ import annotations

from collections.abc import Iterator
from enum import StrEnum
from typing import Any, Literal

from pydantic import Field

from toolloom.schemas.base import JsonObject, Provenance, Record
from toolloom.schemas.query import Query


class FunctionCall(Record):
    """Name and arguments of a call."""

    name: str = Field(description="Function name as the model wrote it.")
    arguments: JsonObject | str = Field(
        description="An object; text only where the model's text could not be read as one."
    )


class ToolCall(Record):
    """One call in an assistant message."""

    id: str = Field(description="Unique in its dialogue.")
    type: Literal["function"] = "function"
    function: FunctionCall


class Observation(Record):
    """The envelope every execution's result comes in; `error` is None on success."""

    response: Any = None
    error: str | None = None


class Failure(StrEnum):
    """How an execution failed. An MCP server's call fails in three ways that look different."""

    TOOL_ERROR = "tool_error"  # the tool says that it failed (MCP: isError), or a function raised
    PROTOCOL_ERROR = "protocol_error"  # the server refuses the call, such as an unknown tool
    ERROR_TEXT = "error_text"  # a result that claims success and says in words that it failed
    TIME_LIMIT = "time_limit"
    CRASH = "crash"  # the process ended, or never began


class Execution(Record):
    """How an observation came about."""

    kind: Literal["executed", "simulated", "planned", "search"] = Field(
        description="Really executed, played by a model, a planned fault, or API Search."
    )
    by: str = Field(default="", description="What executed it, such as `mcp:time`.")
    failure: Failure | None = Field(default=None, description="How it failed, if it did.")
    digest: str = Field(default="", description="SHA-256 of the whole observation, if executed.")
    whole_tokens: int | None = Field(
        default=None, description="If it was compressed: how long it was, in tokens (estimated)."
    )


class Message(Record):
    """One chat message."""

    role: Literal["system", "user", "assistant", "tool"]
    content: str | None = Field(default=None, description="Text; of a tool: an Observation.")
    tool_calls: tuple[ToolCall, ...] = Field(default=(), description="Calls of an assistant.")
    tool_call_id: str | None = Field(default=None, description="The call a tool answers.")
    name: str | None = Field(default=None, description="Function a tool message comes from.")
    execution: Execution | None = Field(
        default=None, description="Of a tool: how its observation came about."
    )

    def observation(self) -> Observation:
        """The observation a tool message holds. Raises pydantic.ValidationError if it does not."""
        return Observation.model_validate_json(self.content or "")


class Dialogue(Record):
    """A query with the conversation that serves it, before any verdict."""

    query: Query
    messages: tuple[Message, ...]
    provenance: tuple[Provenance, ...] = Field(default=(), description="How it was made.")

    @property
    def id(self) -> str:
        return self.query.id

    def calls(self) -> Iterator[tuple[int, ToolCall]]:
        """Every call with the index of its message, in order."""
        for index, message in enumerate(self.messages):
            for call in message.tool_calls:
                yield index, call

    def results(self) -> dict[str, tuple[int, Message]]:
        """Tool messages by the id of the call they answer, with their index."""
        return {
            m.tool_call_id: (i, m)
            for i, m in enumerate(self.messages)
            if m.role == "tool" and m.tool_call_id
        }
