"""What a recipe plans, part by part: APIs, worlds, search, queries, tests, curation."""

from __future__ import annotations

import math
from collections.abc import Mapping
from enum import StrEnum
from pathlib import Path
from typing import Any, Literal

from pydantic import Field, field_validator, model_validator

from toolloom.schemas.api import ApiSource
from toolloom.schemas.base import Record, empty
from toolloom.schemas.endpoint import Endpoint
from toolloom.schemas.query import Ability, Level, Scenario


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


class ApiPlan(Record):
    """Where APIs come from."""

    sources: tuple[ApiSource, ...] = Field(
        default=(), description="Real APIs: files, folders, modules, MCP servers, pools."
    )
    categories: tuple[str, ...] = Field(
        default=(), description="Categories of the seed taxonomy to use; empty: as many as needed."
    )
    domains: int = Field(
        default=20,
        ge=0,
        description="Application domains to name and design APIs for. 0 where there are "
        "`sources`, unless the recipe says otherwise.",
    )
    per_domain: int = Field(
        default=2, ge=1, le=20, description="APIs to design for a domain that has no world."
    )
    worlds: bool | None = Field(
        default=None,
        exclude_if=lambda value: value is None,
        description="Whether the API agent writes a world for each domain, whose operations are "
        "its APIs. Unless told, it does where the models of the API and query agents are not "
        "`small`.",
    )

    @model_validator(mode="before")
    @classmethod
    def _sources_suffice(cls, data: Any) -> Any:
        if isinstance(data, Mapping) and data.get("sources"):
            return {"domains": 0, **data}
        return data


class WorldPlan(Record):
    """Which worlds dialogues play in, and how many are drawn."""

    use: tuple[str, ...] = Field(
        default=(),
        description="Worlds that ship, by name or `all` of them, or paths of YAML files.",
    )
    rows: int | None = Field(
        default=None,
        ge=1,
        description="Dialogues to draw of all worlds together. Unless told, as many as the scripts "
        "give, and where a model writes as many as `queries.count`.",
    )
    words: Literal["auto", "scripts", "model"] = Field(
        default="auto",
        description="Who writes: people, in `scripts`, or the query agent's `model`, for tasks "
        "that are solved first. `auto`: the model, unless it is small or there is none.",
    )
    solution: Literal["replayed", "played"] = Field(
        default="replayed",
        exclude_if=lambda value: value == "replayed",
        description="Where a model writes: the calls of the solved task are made again, or the "
        "simulator plays live and only what comes of it counts.",
    )
    states: dict[str, str] = Field(
        default_factory=dict,
        exclude_if=empty,
        description="Files with start states of worlds, by the world's name; else they are drawn.",
    )
    tasks: str = Field(
        default="",
        exclude_if=empty,
        description="File of tasks that are worded, instead of drawn ones: a line of JSON each.",
    )
    per_script: int = Field(
        default=5, ge=1, le=10_000, description="Dialogues that one script gives at most."
    )
    calls: tuple[int, int] = Field(
        default=(0, 32), description="Least and most calls of a dialogue."
    )
    turns: tuple[int, int] = Field(
        default=(1, 16), description="Least and most user turns of a dialogue."
    )
    scenarios: tuple[Scenario, ...] = Field(
        default=(), description="Scenarios that are drawn; empty: all there are."
    )

    @model_validator(mode="before")
    @classmethod
    def _may_be_a_list(cls, data: Any) -> Any:
        return data if isinstance(data, Mapping) else {"use": data}

    @model_validator(mode="after")
    def _names_each_once(self) -> WorldPlan:
        if twice := [name for name in self.use if self.use.count(name) > 1]:
            raise ValueError(f"`use` names {twice[0]} twice")
        for name in ("calls", "turns"):
            least, most = getattr(self, name)
            if least > most:
                raise ValueError(f"`{name}` must be the least and the most, as in [1, 4]")
        return self

    @property
    def name(self) -> str:
        return "worlds"

    def state_of(self, world: str) -> Path | None:
        """The file with the start state of a world, if one is named."""
        return Path(self.states[world]).expanduser() if world in self.states else None

    def lets_in(self, calls: int, turns: int) -> bool:
        """Whether a dialogue has neither too few nor too many."""
        (least, most), (fewest, longest) = self.calls, self.turns
        return least <= calls <= most and fewest <= turns <= longest

    def at_most(self, rows: int) -> WorldPlan:
        """The plan for no more than so many dialogues."""
        return self.model_copy(update={"rows": min(self.rows or rows, rows)})


class SearchPlan(Record):
    """How API Search finds APIs."""

    found: int = Field(default=5, ge=1, le=20, description="APIs that a search returns.")
    embeddings: Endpoint | None = Field(
        default=None,
        description="Endpoint whose /v1/embeddings ranks APIs by meaning; without it, BM25.",
    )


class QueryPlan(Record):
    """How many queries, and of which kinds."""

    count: int = Field(default=100, ge=1, description="Queries to draw.")
    distractors: int = Field(
        default=3, ge=0, le=64, description="APIs in a query's pool that it does not need."
    )
    abilities: dict[Ability, float] = Field(
        default_factory=lambda: dict.fromkeys(Ability, 1.0),
        min_length=1,
        description="Abilities and their weights.",
    )
    scenarios: dict[Scenario, float] = Field(
        default_factory=lambda: {s: 1.0 for s in Scenario if not s.of_worlds},
        min_length=1,
        description="Scenarios and their weights, where no world is played.",
    )
    levels: dict[Level, float] = Field(
        default_factory=lambda: dict.fromkeys(Level, 1.0),
        min_length=1,
        description="Where several APIs of one query come from, with weights: one tool, several "
        "tools of a category, several of a collection.",
    )

    @field_validator("scenarios")
    @classmethod
    def _needs_no_world(cls, value: dict[Scenario, float]) -> dict[Scenario, float]:
        if there := [scenario.value for scenario in value if scenario.of_worlds]:
            raise ValueError(f"{there[0]} is drawn in worlds alone: see `worlds.scenarios`")
        return value

    @field_validator("abilities", "scenarios", "levels")
    @classmethod
    def _has_weight(cls, value: dict[Any, float]) -> dict[Any, float]:
        if not all(math.isfinite(v) for v in value.values()):
            raise ValueError("weights must be finite numbers")
        if min(value.values()) < 0 or sum(value.values()) <= 0:
            raise ValueError("weights must not be negative, and one must be above 0")
        return value


class TestPlan(Record):
    """How the tester judges what the certain checks let pass."""

    __test__ = False  # not a test class, whatever its name says to pytest

    votes: int = Field(
        default=3, ge=0, le=15, description="Independent votes of the model: odd, or 0 for none."
    )

    @field_validator("votes")
    @classmethod
    def _is_odd(cls, value: int) -> int:
        if value and value % 2 == 0:
            raise ValueError("must be odd, so that there is a majority, or 0")
        return value
