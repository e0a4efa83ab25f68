"""The shape of rows whose calls are text, or stand alone."""

from __future__ import annotations

import re
from typing import Any, Literal

from pydantic import Field, ValidationError, model_validator

from toolloom.pipeline.checks.text.call_text import CallTextError, parse
from toolloom.pipeline.formats.export.shapes import Called, Function, RowShape, listed, parsed
from toolloom.schemas import JsonObject

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
