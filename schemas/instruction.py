"""Instructions at five granularities (ToolPlanner, sections 3 and B.3)."""

from __future__ import annotations

from enum import StrEnum

from pydantic import Field, field_validator

from toolloom.schemas.api import Api
from toolloom.schemas.base import Provenance, Record
from toolloom.schemas.splits import Split

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


class RewritePlan(Record):
    """How instructions are rewritten at five granularities."""

    seeds: tuple[str, ...] = Field(
        default=(), description="ToolBench solution trees and queries: files or folders."
    )
    votes: int | None = Field(
        default=None,
        ge=0,
        le=15,
        description="Ratings of each instruction: odd, or 0 for none; without it the tester's.",
    )
    coarse: float = Field(
        default=0.5,
        ge=0,
        le=1,
        description="Share of statement and category instructions that are trained on.",
    )
    splits: tuple[Split, ...] = Field(
        default=(), description="The splits that are rewritten; empty: all of them."
    )

    @field_validator("votes")
    @classmethod
    def _is_odd(cls, value: int | None) -> int | None:
        if value and value % 2 == 0:
            raise ValueError("must be odd, so that there is a median, or 0")
        return value
