"""The shape of a row in each format: closed models, after the trainers' documentation.

What a model alone cannot say (JSON within text, turns that alternate) its validators do, with the
rules of the trainer's own loader where there is one.
"""

from __future__ import annotations

import json
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, model_validator

from toolloom.schemas import JsonObject

NAME = r"^[a-zA-Z0-9_-]{1,64}$"


class RowShape(BaseModel):
    """A row, or a part of one: unknown keys are errors, and nothing is converted."""

    model_config = ConfigDict(extra="forbid", strict=True, frozen=True)


def parsed(text: str, what: str) -> Any:
    """The JSON in a text. Raises ValueError that names it."""
    try:
        return json.loads(text)
    except (ValueError, RecursionError) as error:
        raise ValueError(f"{what} is no JSON: {error}") from error


def listed(text: str, what: str) -> list[Any]:
    """The JSON list in a text. Raises ValueError that names it."""
    found = parsed(text, what)
    if not isinstance(found, list):
        raise ValueError(f"{what} is no list")
    return found


class Called(RowShape):
    name: str = Field(min_length=1)
    arguments: JsonObject | str

    @model_validator(mode="after")
    def _reads(self) -> Called:
        if isinstance(self.arguments, str) and not isinstance(
            parsed(self.arguments, "arguments"), dict
        ):
            raise ValueError("arguments are no JSON object")
        return self


class CallShape(RowShape):
    type: Literal["function"]
    function: Called
    id: str | None = None


class CallWithId(CallShape):
    id: str


class Function(RowShape):
    name: str = Field(min_length=1)
    description: str = ""
    parameters: JsonObject
    strict: bool | None = None


class ToolShape(RowShape):
    type: Literal["function"]
    function: Function


class LegalFunction(Function):
    name: str = Field(pattern=NAME)


class LegalTool(ToolShape):
    function: LegalFunction


class TextFunction(Function):
    """Parameters as the text of their JSON, so that Arrow has nothing to pad."""

    parameters: str  # type: ignore[assignment]

    @model_validator(mode="after")
    def _reads(self) -> TextFunction:
        if not isinstance(parsed(self.parameters, "parameters"), dict):
            raise ValueError("parameters are no JSON object")
        return self


class TextTool(ToolShape):
    function: TextFunction


class SaidShape(RowShape):
    role: Literal["system", "user", "developer"]
    content: str


class Answered(RowShape):
    role: Literal["assistant"]
    content: str | None = None
    tool_calls: list[CallShape] | None = None

    @model_validator(mode="after")
    def _says_or_calls(self) -> Answered:
        if not self.tool_calls and self.content is None:
            raise ValueError("an assistant's message has neither content nor calls")
        return self


class Observed(RowShape):
    role: Literal["tool"]
    content: str
    tool_call_id: str | None = None
    name: str | None = None


Message = Annotated[SaidShape | Answered | Observed, Field(discriminator="role")]


class OpenAiAnswered(Answered):
    tool_calls: list[CallWithId] | None = None  # type: ignore[assignment]
    weight: Literal[0, 1] | None = None

    @model_validator(mode="after")
    def _as_text(self) -> OpenAiAnswered:
        if any(not isinstance(call.function.arguments, str) for call in self.tool_calls or ()):
            raise ValueError("arguments are no text")
        return self


class OpenAiObserved(RowShape):
    role: Literal["tool"]
    content: str
    tool_call_id: str


OpenAiMessage = Annotated[SaidShape | OpenAiAnswered | OpenAiObserved, Field(discriminator="role")]


def in_order(messages: list[Any]) -> None:
    """Results answer calls of the turn before them, each once. Raises ValueError."""
    open_calls: list[str] = []
    for place, message in enumerate(messages):
        if message.role == "tool":
            identity = message.tool_call_id
            if not open_calls:
                raise ValueError(f"message {place}: a result without a call")
            if identity is not None and identity not in open_calls:
                raise ValueError(f"message {place}: no open call has the id {identity!r}")
            open_calls.remove(identity if identity is not None else open_calls[0])
            continue
        if open_calls:
            raise ValueError(f"message {place}: a call before it has no result")
        calls = getattr(message, "tool_calls", None) or []
        open_calls = [call.id or "" for call in calls]


Tools = list[ToolShape] | str  # TRL parses a text


def reads(tools: Tools) -> None:
    """Tools that are text are a list of tools. Raises ValueError."""
    for tool in listed(tools, "tools") if isinstance(tools, str) else ():
        ToolShape.model_validate(tool)


class TrlRow(RowShape):
    messages: list[Message] = Field(min_length=1)
    tools: Tools = []

    @model_validator(mode="after")
    def _pairs(self) -> TrlRow:
        in_order(list(self.messages))
        reads(self.tools)
        return self


class ChatShape(TrlRow):
    """A row of a version's own config `sft`, which TRL takes as well."""

    id: str
    ability: str
    scenario: str
    observations: list[str]
    flags: list[str]


class AxolotlRow(RowShape):
    messages: list[Message] = Field(min_length=1)
    tools: list[ToolShape | TextTool] = []

    @model_validator(mode="after")
    def _pairs(self) -> AxolotlRow:
        in_order(list(self.messages))
        return self


class PairRow(RowShape):
    prompt: list[Message] = Field(min_length=1)
    chosen: list[Message] = Field(min_length=1)
    rejected: list[Message] = Field(min_length=1)
    tools: Tools = []
    defect: str = ""
    reason: str = ""

    @model_validator(mode="after")
    def _differ(self) -> PairRow:
        if self.chosen == self.rejected:
            raise ValueError("chosen and rejected are the same")
        in_order(list(self.prompt))
        reads(self.tools)
        return self


class VerlRow(RowShape):
    messages: list[Message] = Field(min_length=1)
    tools: list[TextTool]

    @model_validator(mode="after")
    def _pairs(self) -> VerlRow:
        in_order(list(self.messages))
        return self


class Reward(RowShape):
    style: Literal["rule", "model"]
    ground_truth: str


class Prompted(RowShape):
    role: Literal["system", "user", "assistant", "tool"]
    content: str


class VerlRlRow(RowShape):
    data_source: str = Field(min_length=1)
    prompt: list[Prompted] = Field(min_length=1)
    ability: str
    reward_model: Reward
    extra_info: JsonObject


class OpenAiRow(RowShape):
    messages: list[OpenAiMessage] = Field(min_length=1)
    tools: list[LegalTool] = Field(default=[], max_length=128)
    parallel_tool_calls: bool | None = None

    @model_validator(mode="after")
    def _ends(self) -> OpenAiRow:
        in_order(list(self.messages))
        if self.messages[-1].role != "assistant":
            raise ValueError("the last message is not the assistant's")
        return self
