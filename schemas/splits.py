"""The splits of a dataset, and what decides in which of them a row is."""

from __future__ import annotations

import math
from enum import StrEnum

from pydantic import Field, model_validator

from toolloom.schemas.base import Record


class Split(StrEnum):
    """A split. The tests are ToolLLM's three levels of generalisation (section 3.2)."""

    TRAIN = "train"
    VALIDATION = "validation"
    TEST_INSTRUCTION = "test_instruction"  # new instructions for APIs that are seen in training
    TEST_TOOL = "test_tool"  # unseen tools of categories that are seen
    TEST_CATEGORY = "test_category"  # unseen categories

    @property
    def unseen(self) -> bool:
        """Whether its APIs are kept out of every other split."""
        return self in (Split.TEST_TOOL, Split.TEST_CATEGORY)


class SplitPlan(Record):
    """Weights of the splits. A hash of names and values decides, so that a larger run keeps
    every row in its split."""

    train: float = Field(default=0.6, gt=0, description="Weight of the rows to train on.")
    validation: float = Field(default=0.1, ge=0, description="Weight of the rows to validate on.")
    test_instruction: float = Field(
        default=0.1, ge=0, description="Weight of the test rows whose APIs are seen in training."
    )
    test_tool: float = Field(
        default=0.1,
        ge=0,
        description="Weight of the test rows of unseen tools, and the share of tools held out.",
    )
    test_category: float = Field(
        default=0.1,
        ge=0,
        description="Weight of the test rows of unseen categories, and the share of categories "
        "held out.",
    )
    unseen: tuple[str, ...] = Field(
        default=(), description="Categories, or tools as `category/tool`, that are held out anyway."
    )
    seen: tuple[str, ...] = Field(
        default=(), description="Categories, or tools as `category/tool`, never held out."
    )

    @model_validator(mode="after")
    def _is_finite(self) -> SplitPlan:
        if not all(math.isfinite(self.weight(split)) for split in Split):
            raise ValueError("weights must be finite numbers")
        if both := sorted(set(self.unseen) & set(self.seen)):
            raise ValueError(f"{both[0]} is in `unseen` and in `seen`")
        return self

    def weight(self, split: Split) -> float:
        found: float = getattr(self, split.value)
        return found

    def share(self, split: Split) -> float:
        """Its part of all rows, 0 to 1."""
        return self.weight(split) / sum(map(self.weight, Split))


class Regeneration(Record):
    """The version whose split a run makes anew; written by `toolloom regenerate`."""

    version: str = Field(description="The version, such as `weather/1.2.0`.")
    content: str = Field(description="The hash of its content, from its manifest.")
    split: Split = Field(description="The split that is made anew.")
    only_rejected: bool = Field(
        default=False, description="Keep its rows, and try the queries that were rejected again."
    )
    keep: bool = Field(
        default=False, description="Keep all that it has, and add what comes of new queries."
    )

    @model_validator(mode="after")
    def _is_one_of_them(self) -> Regeneration:
        if self.only_rejected and self.keep:
            raise ValueError("`only_rejected` and `keep` exclude each other")
        return self


class Extension(Record):
    """The version that a run adds rows to; written by `toolloom expand` and `toolloom rewrite`."""

    version: str = Field(default="", description="The version, such as `weather/1.2.0`; or none.")
    content: str = Field(default="", description="The hash of its content, from its manifest.")
