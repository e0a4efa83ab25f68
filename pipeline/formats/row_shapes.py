"""The shape of a row in each format: closed models, after the trainers' documentation.

What a model alone cannot say (JSON within text, turns that alternate) its validators do, with the
rules of the trainer's own loader where there is one.
"""

from __future__ import annotations

import json
import re
from typing import Annotated, Any, Literal, Self

from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator

from toolloom.pipeline.checks.text.call_text import CallTextError, parse
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


class MessagesRow(RowShape):
    messages: list[Message] = Field(min_length=1)

    @model_validator(mode="after")
    def _pairs(self) -> Self:
        in_order(list(self.messages))
        return self


class TrlRow(MessagesRow):
    tools: Tools = []

    @model_validator(mode="after")
    def _lists(self) -> Self:
        reads(self.tools)
        return self


class ChatShape(TrlRow):
    """A row of a version's own config `sft`, which TRL takes as well."""

    id: str
    ability: str
    scenario: str
    observations: list[str]
    flags: list[str]


class AxolotlRow(MessagesRow):
    tools: list[ToolShape | TextTool] = []


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


class VerlRow(MessagesRow):
    tools: list[TextTool]


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


_TAGGED = re.compile(r"<tool_call>\n?(.*?)\n?</tool_call>", re.DOTALL)
_ANSWERED = re.compile(r"<tool_response>\n?(.*?)\n?</tool_response>", re.DOTALL)
_ACTION = re.compile(r"\nThought: ?(.*)\nAction: (\S+)\nAction Input: (.*)", re.DOTALL)
BFCL_TYPES = {"dict", "float", "integer", "string", "boolean", "array", "tuple", "any"}


def _called(value: Any) -> Called:
    """A call. Raises ValueError in few words."""
    try:
        return Called.model_validate(value)
    except ValidationError as error:
        raise ValueError(f"no call with name and arguments: {error.errors()[0]['msg']}") from error


class HermesTurn(RowShape):
    from_: Literal["system", "human", "gpt", "tool"] = Field(alias="from")
    value: str

    @model_validator(mode="after")
    def _reads(self) -> HermesTurn:
        if self.from_ == "gpt":
            found = _TAGGED.findall(self.value)
            if len(found) != self.value.count("<tool_call>"):
                raise ValueError("a <tool_call> is not closed")
            for text in found:
                _called(parsed(text, "a <tool_call>"))
        if self.from_ == "tool" and not _ANSWERED.search(self.value):
            raise ValueError("a tool's turn has no <tool_response>")
        return self


class HermesRow(RowShape):
    id: str
    conversations: list[HermesTurn] = Field(min_length=1)
    tools: str = ""

    @model_validator(mode="after")
    def _reads(self) -> HermesRow:
        if self.tools:
            parsed(self.tools, "tools")
        return self


class FactoryTurn(RowShape):
    from_: Literal["human", "gpt", "observation", "function_call"] = Field(alias="from")
    value: str

    @model_validator(mode="after")
    def _reads(self) -> FactoryTurn:
        if self.from_ == "function_call":
            made = parsed(self.value, "a function_call")
            for one in made if isinstance(made, list) else [made]:
                if isinstance(_called(one).arguments, str):
                    raise ValueError("arguments of a function_call are text, not an object")
        return self


class FactoryRow(RowShape):
    """LLaMA-Factory drops a row whose turns do not alternate, and says so only in its log."""

    conversations: list[FactoryTurn] = Field(min_length=2)
    system: str = ""
    tools: str = ""

    @model_validator(mode="after")
    def _alternates(self) -> FactoryRow:
        for place, turn in enumerate(self.conversations):
            allowed = ("human", "observation") if place % 2 == 0 else ("gpt", "function_call")
            if turn.from_ not in allowed:
                raise ValueError(f"turn {place} is {turn.from_}, and should be {allowed[0]}")
        if len(self.conversations) % 2:
            raise ValueError("the last turn is not the assistant's")
        for tool in listed(self.tools, "tools") if self.tools else ():
            Function.model_validate(tool)
        return self


class XlamRow(RowShape):
    id: int
    query: str = Field(min_length=1)
    tools: str
    answers: str

    @model_validator(mode="after")
    def _reads(self) -> XlamRow:
        names = {FlatFunction.model_validate(t).name for t in listed(self.tools, "tools")}
        for answer in listed(self.answers, "answers"):
            if _called(answer).name not in names:
                raise ValueError(f"answers call {answer['name']!r}, which tools do not have")
        return self


class FlatParameter(RowShape):
    description: str
    type: str = Field(min_length=1)
    default: Any = None


class FlatFunction(RowShape):
    name: str
    description: str
    parameters: dict[str, FlatParameter]


class BfclSaid(RowShape):
    role: Literal["system", "user", "assistant"]
    content: str


class BfclFunction(RowShape):
    name: str
    description: str
    parameters: JsonObject

    @model_validator(mode="after")
    def _speaks(self) -> BfclFunction:
        if self.parameters.get("type") != "dict":
            raise ValueError("parameters are of a type other than `dict`")
        properties = self.parameters.get("properties", {})
        if not isinstance(properties, dict):
            raise ValueError("properties are no object")
        for name, schema in properties.items():
            kind = schema.get("type") if isinstance(schema, dict) else None
            if kind is not None and str(kind) not in BFCL_TYPES:
                raise ValueError(f"{self.name}: {name} has the type {kind!r}, which BFCL has not")
        return self


class BfclRow(RowShape):
    id: str = Field(pattern=r"^[a-z_]+_\d+$")
    question: list[list[BfclSaid]] = Field(min_length=1)
    function: list[BfclFunction] = Field(min_length=1)


class BfclAnswers(RowShape):
    id: str = Field(pattern=r"^[a-z_]+_\d+$")
    ground_truth: list[dict[str, dict[str, list[Any]]]] = Field(min_length=1)

    @model_validator(mode="after")
    def _one_each(self) -> BfclAnswers:
        if any(len(call) != 1 for call in self.ground_truth):
            raise ValueError("an entry of ground_truth is not one call")
        return self


class BankRow(RowShape):
    instruction: str = Field(min_length=1)
    input: str
    output: str

    @model_validator(mode="after")
    def _reads(self) -> BankRow:
        if self.output.startswith("AI: "):
            return self
        if not self.output.startswith("API-Request: ["):
            raise ValueError("output is neither `API-Request: […]` nor `AI: …`")
        try:
            if not parse(self.output):
                raise ValueError("output has no call")
        except CallTextError as error:
            raise ValueError(f"output: {error}") from error
        return self


class LlamaTurn(RowShape):
    from_: Literal["system", "user", "assistant", "function"] = Field(alias="from")
    value: str

    @model_validator(mode="after")
    def _acts(self) -> LlamaTurn:
        if self.from_ == "assistant":
            found = _ACTION.fullmatch(self.value)
            if not found:
                raise ValueError("an assistant's turn is not Thought, Action, Action Input")
            if not isinstance(parsed(found[3], "an Action Input"), dict):
                raise ValueError("an Action Input is no JSON object")
        return self


class LlamaRow(RowShape):
    id: str = Field(min_length=1)
    conversations: list[LlamaTurn] = Field(min_length=3)

    @model_validator(mode="after")
    def _order(self) -> LlamaRow:
        roles = [turn.from_ for turn in self.conversations]
        if roles[:2] != ["system", "user"] or roles[-1] != "assistant":
            raise ValueError("a row begins with system and user, and ends with the assistant")
        return self
