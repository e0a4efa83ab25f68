"""What trainers ask of a row, after their documentation, and the chat templates that TRL ships.

A shape is a closed pydantic model for each format; what a model alone cannot say (JSON within text,
turns that alternate, results that answer calls) its validator does.
"""

from __future__ import annotations

import json
import re
from datetime import datetime
from importlib.util import find_spec
from pathlib import Path
from typing import Annotated, Literal, Self

from jinja2 import TemplateError, nodes
from jinja2.ext import Extension
from jinja2.parser import Parser
from jinja2.sandbox import ImmutableSandboxedEnvironment
from pydantic import AfterValidator, BaseModel, ConfigDict, Field, TypeAdapter, model_validator

from toolloom.schemas import JsonObject


class Shape(BaseModel):
    """A row, or a part of one: unknown keys are errors, and nothing is converted."""

    model_config = ConfigDict(extra="forbid", strict=True)


def _object(text: str) -> str:
    assert isinstance(json.loads(text), dict), "no JSON object"
    return text


ObjectText = Annotated[str, AfterValidator(_object)]
FunctionName = Annotated[str, Field(pattern=r"^[a-zA-Z0-9_-]{1,64}$")]


class Called(Shape):
    name: str
    arguments: JsonObject | ObjectText


class Call(Shape):
    id: str | None = None
    type: Literal["function"]
    function: Called


class Function(Shape):
    name: FunctionName
    description: str
    parameters: JsonObject | ObjectText


class Tool(Shape):
    type: Literal["function"]
    function: Function


class Turn(Shape):
    """A message; typed columns of Parquet pad what a turn does not have with null."""

    role: Literal["system", "user", "assistant", "tool"]
    content: str | None = None
    tool_calls: list[Call] | None = None
    tool_call_id: str | None = None
    name: str | None = None


class Messages(Shape):
    messages: list[Turn] = Field(min_length=1)
    tools: list[Tool] = []

    @model_validator(mode="after")
    def _results_answer_calls(self) -> Self:
        waiting: list[str | None] = []
        for turn in self.messages:
            if turn.role == "tool":
                assert waiting, "a result without a call"
                waiting.remove(turn.tool_call_id or waiting[0])
            else:
                assert not waiting, "a call without a result"
                waiting = [call.id for call in turn.tool_calls or ()]
        return self


class OpenAi(Messages):
    tools: list[Tool] = Field(max_length=128)
    parallel_tool_calls: bool | None = None

    @model_validator(mode="after")
    def _has_ids_and_text(self) -> Self:
        assert self.messages[-1].role == "assistant"
        for turn in self.messages:
            assert turn.name is None and (turn.role != "tool" or turn.tool_call_id)
            for call in turn.tool_calls or ():
                assert call.id and isinstance(call.function.arguments, str)
        return self


class Pair(Shape):
    prompt: list[Turn] = Field(min_length=1)
    chosen: list[Turn] = Field(min_length=1, max_length=1)
    rejected: list[Turn] = Field(min_length=1, max_length=1)
    tools: list[Tool]
    defect: str
    reason: str


class Decision(Shape):
    """verl's row for reinforcement: a prompt, and the right calls as the ground truth."""

    data_source: Literal["toolloom"]
    prompt: list[Turn] = Field(min_length=1)
    ability: str
    reward_model: dict[Literal["style", "ground_truth"], str]
    extra_info: JsonObject


class Said(Shape):
    """A turn of ShareGPT's forms."""

    speaker: str = Field(alias="from")
    value: str


class Factory(Shape):
    """LLaMA-Factory drops a row whose turns do not alternate, and says so only in its log."""

    conversations: list[Said] = Field(min_length=2)
    system: str
    tools: str

    @model_validator(mode="after")
    def _alternates(self) -> Self:
        assert len(self.conversations) % 2 == 0, "the last turn is not the assistant's"
        for place, turn in enumerate(self.conversations):
            assert turn.speaker in (("human", "observation"), ("gpt", "function_call"))[place % 2]
            if turn.speaker == "function_call":
                made = json.loads(turn.value)
                TypeAdapter(list[Called]).validate_python(
                    made if isinstance(made, list) else [made]
                )
        TypeAdapter(list[Function]).validate_python(json.loads(self.tools or "[]"))
        return self


class Hermes(Shape):
    id: str
    conversations: list[Said]
    tools: str

    @model_validator(mode="after")
    def _tags_hold_json(self) -> Self:
        for turn in self.conversations[1:]:
            for tag, speaker in (("tool_call", "gpt"), ("tool_response", "tool")):
                inside = re.findall(rf"<{tag}>\n(.*?)\n</{tag}>", turn.value, re.DOTALL)
                if turn.speaker == speaker:
                    assert len(inside) == turn.value.count(f"<{tag}>")
                    assert all(isinstance(json.loads(text), dict) for text in inside)
        return self


class Bank(Shape):
    instruction: str = Field(min_length=1)
    input: str
    output: str = Field(pattern=r"^(AI: |API-Request: \[)")


class Llama(Shape):
    id: str
    conversations: list[Said] = Field(min_length=3)

    @model_validator(mode="after")
    def _acts(self) -> Self:
        roles = [turn.speaker for turn in self.conversations]
        assert roles[:2] == ["system", "user"] and roles[-1] == "assistant"
        for turn in self.conversations:
            if turn.speaker == "assistant":
                found = re.fullmatch(
                    r"\nThought: (.*)\nAction: \S+\nAction Input: (.*)", turn.value
                )
                assert found and isinstance(json.loads(found[2]), dict)
        return self


class FewShot(Shape):
    id: str
    messages: list[Turn] = Field(min_length=3, max_length=3)
    demonstrations: list[str]


class Segment(Shape):
    label: bool
    text: str = Field(min_length=1)


class AllShot(Shape):
    ids: list[str] = Field(min_length=1)
    apis: list[str]
    segments: list[Segment] = Field(min_length=2)


SHAPES: dict[tuple[str, str], type[Shape]] = {
    **dict.fromkeys([("trl", "sft"), ("axolotl", "sft"), ("verl", "sft")], Messages),
    ("trl-dpo", "pairs"): Pair,
    ("llamafactory", "sft"): Factory,
    ("verl", "rl"): Decision,
    ("openai", "sft"): OpenAi,
    ("hermes", "sft"): Hermes,
    ("api-bank", "sft"): Bank,
    ("toolllama", "sft"): Llama,
    ("few-shot", "sft"): FewShot,
    ("all-shot", "sft"): AllShot,
}
"""The shape of a format's rows, by the format's name and the part."""


class _Generation(Extension):
    """The tag `{% generation %}`, which marks what the assistant said; here it is just text."""

    tags = {"generation"}  # noqa: RUF012 jinja2's own form

    def parse(self, parser: Parser) -> list[nodes.Node]:
        next(parser.stream)
        return parser.parse_statements(("name:endgeneration",), drop_needle=True)


def _raise(message: str) -> None:
    raise TemplateError(message)


def rendered(template: str, messages: list[JsonObject], tools: list[JsonObject]) -> str:
    """A dialogue as one of TRL's chat templates writes it, run as `transformers` runs them."""
    made = ImmutableSandboxedEnvironment(
        trim_blocks=True, lstrip_blocks=True, extensions=[_Generation, "jinja2.ext.loopcontrols"]
    )
    made.filters["tojson"] = lambda value, ensure_ascii=False, **how: json.dumps(
        value, ensure_ascii=ensure_ascii, **how
    )
    made.globals |= {"raise_exception": _raise, "strftime_now": datetime(2026, 1, 1).strftime}
    spec = find_spec("trl")
    assert spec and spec.submodule_search_locations
    folder = Path(next(iter(spec.submodule_search_locations))) / "chat_templates"
    source = (folder / f"{template}.jinja").read_text("utf-8")
    text = made.from_string(source).render(
        messages=messages, tools=tools or None, bos_token="<s>", eos_token="</s>"
    )
    return str(text)
