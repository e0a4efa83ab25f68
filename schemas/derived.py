"""What is made of samples and stands beside them: templates (tool manipulation, sections 4.1 and
C.1), and instructions at five granularities (ToolPlanner, sections 3 and B.3)."""

from __future__ import annotations

from enum import StrEnum
from typing import Any, Literal

from pydantic import Field, model_validator

from toolloom.schemas.api import Api
from toolloom.schemas.base import JsonObject, Provenance, Record
from toolloom.schemas.sample import Finding
from toolloom.schemas.splits import Split

# Slots in a skeleton stand between these two: private characters, which no text of ours holds.
OPEN, CLOSE = "\ue000", "\ue001"


def marker(slot: str) -> str:
    """A slot as it stands in a skeleton."""
    return f"{OPEN}{slot}{CLOSE}"


class Choice(Record):
    """Slots that are filled together: one of the rows is drawn for each row of data.

    A value with others derived from it (Palo Alto → palo+alto) and values that belong together
    (a city and its country) are slots of one choice. Choices are independent of each other.
    """

    slots: tuple[str, ...] = Field(min_length=1, description="Names, unique in their template.")
    rows: tuple[tuple[Any, ...], ...] = Field(
        min_length=1, description="Values of the slots, row by row; the first is the original."
    )
    about: str = Field(description="What is chosen, such as `argument city of Travel/hotels/find`.")

    @model_validator(mode="after")
    def _rows_fit(self) -> Choice:
        if any(len(row) != len(self.slots) for row in self.rows):
            raise ValueError("each row needs a value for each slot")
        return self


class Template(Record):
    """A sample in which values are slots, and the values that may fill them.

    In `sample`, a string that is one marker and nothing else stands for the value itself, of any
    type; a marker inside a longer string for the value's text. The content of a tool message is
    JSON text, and its strings follow the same rule.
    """

    id: str = Field(description="Unique in its run; of one made of a sample, the sample's.")
    kind: Literal["mined", "written"]
    goal: str = Field(description="The first user turn, with {slots}.")
    apis: tuple[str, ...] = Field(description="Ids of the APIs its calls go to, in order.")
    split: Split | None = Field(
        default=None, description="The split of its sample; None: any split its rows fall into."
    )
    sample: JsonObject = Field(description="A Sample as JSON, with slots.")
    choices: tuple[Choice, ...] = Field(min_length=1)
    texts: dict[str, str] = Field(
        default_factory=dict,
        description="Slots that are rendered of the others, with their Jinja, in order.",
    )
    refused: tuple[Finding, ...] = Field(
        default=(), description="Values that stay as they are, and why they are no slots."
    )
    provenance: tuple[Provenance, ...] = Field(default=(), description="How it was made.")

    @property
    def combination(self) -> tuple[str, ...]:
        """The APIs its calls go to, whatever their order; one that is called twice is there twice
        (C.1)."""
        return tuple(sorted(self.apis))


FINISH = "Finish"  # ends every solution path


class Granularity(StrEnum):
    """How much an instruction tells, from little to all."""

    STATEMENT = "statement"  # the user's situation alone
    CATEGORY = "category"
    TOOL = "tool"
    API = "api"
    HYBRID = "hybrid"  # the full request


class Metric(StrEnum):
    """What instructions are rated for (ToolPlanner, section D.2)."""

    PLAUSIBILITY = "plausibility"
    CONCISENESS = "conciseness"
    RELEVANCE = "relevance"
    REALNESS = "realness"


class Rating(Record):
    """One vote of the tester: each metric from 1 to 3, 3 the best (ToolPlanner, Table 3)."""

    plausibility: int = Field(ge=1, le=3)
    conciseness: int = Field(ge=1, le=3)
    relevance: int = Field(ge=1, le=3)
    realness: int = Field(ge=1, le=3)
    explanation: str = Field(default="", description="The model's own words.")


class Step(Record):
    """A call of a solution path."""

    category: str
    tool: str
    api: str = Field(description="The API's own name.")
    function: str = Field(description="The name models call it by.")


class Tags(Record):
    """Tag lists of a solution path: a tag for each call, in order; repeated ones stay."""

    categories: tuple[str, ...]
    tools: tuple[str, ...]
    apis: tuple[str, ...]


class Seed(Record):
    """What the rewriter begins with: a full request and its solution path."""

    id: str = Field(description="Id of the sample, or of the ToolBench query.")
    split: Split
    hybrid: str = Field(description="The full request: all that the user says.")
    steps: tuple[Step, ...] = Field(min_length=1, description="The calls of the solution.")
    values: tuple[str, ...] = Field(
        default=(), description="Argument values of the calls, as text: what is no situation."
    )
    pool: tuple[Api, ...] = Field(
        default=(), description="The APIs on offer, distractors included."
    )
    source: str = Field(default="sample", description="`sample` or `toolbench`.")
    licence: str = Field(default="", description="SPDX identifier, where known.")

    @property
    def tags(self) -> Tags:
        return Tags(
            categories=tuple(s.category for s in self.steps),
            tools=tuple(s.tool for s in self.steps),
            apis=tuple(s.api for s in self.steps),
        )

    @property
    def path(self) -> tuple[str, ...]:
        """The solution path: functions in order, then Finish."""
        return (*(s.function for s in self.steps), FINISH)


class Instruction(Record):
    """An instruction at one granularity, with the path that serves it."""

    id: str = Field(description="Id of the sample and the level: `train-7-000001-tool`.")
    sample: str = Field(description="Id of the sample, or of the ToolBench query.")
    split: Split
    level: Granularity
    text: str = Field(min_length=1, description="The instruction.")
    spoken: tuple[str, ...] = Field(
        default=(), description="The names of the level's tags as the text says them, in order."
    )
    tags: Tags
    path: tuple[str, ...] = Field(description="Functions in order, ending in Finish.")
    ratings: tuple[Rating, ...] = Field(default=(), description="The tester's votes.")
    source: str = Field(default="sample", description="`sample` or `toolbench`.")
    licence: str = Field(default="", description="SPDX identifier, where known.")
    provenance: tuple[Provenance, ...] = Field(default=(), description="How it was made.")
