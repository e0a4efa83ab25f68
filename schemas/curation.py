"""What is sorted out of accepted rows before they are published."""

from __future__ import annotations

import math
from enum import StrEnum
from typing import Literal

from pydantic import Field, field_validator

from toolloom.schemas.base import Record


class Dimension(StrEnum):
    """A property of rows that can be balanced."""

    ABILITY = "ability"
    SCENARIO = "scenario"
    CATEGORY = "category"
    CALLS = "calls"  # the number of calls


class CurationPlan(Record):
    """Duplicates, contamination by benchmarks, balance."""

    near: float = Field(
        default=0.8,
        gt=0,
        le=1,
        description="Jaccard similarity from which two instructions, or the calls of two rows, "
        "are near duplicates. 1: only equal ones.",
    )
    same_calls: int = Field(
        default=3,
        ge=1,
        description="Rows of one ability and scenario that may make the same, or nearly the same, "
        "calls.",
    )
    against: tuple[str, ...] = Field(
        default=(),
        description="Benchmarks whose rows must not be in the dataset: files or folders of BFCL, "
        "API-Bank, ToolBench or any JSON lines.",
    )
    contaminated: Literal["drop", "flag"] = Field(
        default="drop", description="What becomes of rows that overlap with a benchmark."
    )
    balance: dict[Dimension, float] = Field(
        default_factory=dict,
        description="By dimension: how many times as many rows of one value as of the median "
        "value a split may have, 1 or more.",
    )

    @field_validator("balance")
    @classmethod
    def _leaves_the_median(cls, value: dict[Dimension, float]) -> dict[Dimension, float]:
        for dimension, factor in value.items():
            if not (math.isfinite(factor) and factor >= 1):
                raise ValueError(f"{dimension.value} must be a finite number of 1 or more")
        return value
