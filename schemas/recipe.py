"""The recipe: one YAML file that says what to make, with which models."""

from __future__ import annotations

import math
from collections.abc import Mapping
from enum import StrEnum
from typing import Any, Literal, TypeAlias, get_args

from pydantic import Field, ValidationError, field_validator, model_validator

from toolloom.schemas.api import ApiSource
from toolloom.schemas.base import JsonObject, Record, digest
from toolloom.schemas.endpoint import EXECUTION, Budget, Endpoint, Prices, public
from toolloom.schemas.instruction import RewritePlan
from toolloom.schemas.query import Ability, Level, Scenario
from toolloom.schemas.splits import Extension, Regeneration, SplitPlan
from toolloom.schemas.template import ExpansionPlan


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


AgentName: TypeAlias = Literal["domain", "api", "query", "simulator", "tester", "rewriter"]


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
    per_domain: int = Field(default=2, ge=1, le=20, description="APIs to design for a domain.")

    @model_validator(mode="before")
    @classmethod
    def _sources_suffice(cls, data: Any) -> Any:
        if isinstance(data, Mapping) and data.get("sources"):
            return {"domains": 0, **data}
        return data

    @model_validator(mode="after")
    def _has_apis(self) -> ApiPlan:
        if not self.sources and not self.domains:
            raise ValueError("`domains` must be above 0 where there are no `sources`")
        return self


class SearchPlan(Record):
    """How API Search finds APIs."""

    found: int = Field(default=2, ge=1, le=20, description="APIs that a search returns.")
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
        default_factory=lambda: dict.fromkeys(Scenario, 1.0),
        min_length=1,
        description="Scenarios and their weights.",
    )

    levels: dict[Level, float] = Field(
        default_factory=lambda: dict.fromkeys(Level, 1.0),
        min_length=1,
        description="Where several APIs of one query come from, with weights: one tool, several "
        "tools of a category, several of a collection.",
    )

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


class _AgentMisfit(ValueError):
    """What an agent changes does not make an endpoint; `details` are pydantic's, put in place."""

    def __init__(self, agent: str, error: ValidationError) -> None:
        super().__init__(f"agents.{agent} does not fit an endpoint")
        self.details = [{**e, "loc": ("agents", agent, *e["loc"])} for e in error.errors()]


class Recipe(Record):
    """What to generate, from what, with which models."""

    name: str = Field(pattern=r"^[a-z0-9][a-z0-9-]{0,63}$", description="Name of the dataset.")
    description: str = Field(default="", description="What the dataset is for; on its card.")
    seed: int = Field(default=0, ge=0, description="The seed of every draw.")
    languages: tuple[str, ...] = Field(
        default=("English",), min_length=1, description="Languages of the dialogues."
    )
    model: Endpoint = Field(default_factory=Endpoint, description="The endpoint agents use.")
    agents: dict[AgentName, dict[str, Any]] = Field(
        default_factory=dict,
        description="Fields of `model` that differ for an agent, such as its model or base_url.",
    )
    apis: ApiPlan = Field(default_factory=ApiPlan, description="Where APIs come from.")
    search: SearchPlan = Field(default_factory=SearchPlan, description="How APIs are searched.")
    observation_tokens: int = Field(
        default=1024,
        ge=32,
        description="Longer observations are compressed by their schema (estimated tokens).",
    )
    queries: QueryPlan = Field(default_factory=QueryPlan, description="Queries to draw.")
    tester: TestPlan = Field(default_factory=TestPlan, description="How samples are judged.")
    curation: CurationPlan = Field(
        default_factory=CurationPlan, description="What is sorted out of accepted rows."
    )
    splits: SplitPlan = Field(default_factory=SplitPlan, description="How rows are split.")
    expand: ExpansionPlan | None = Field(
        default=None, description="Whether and how templates are expanded into more rows."
    )
    rewrite: RewritePlan | None = Field(
        default=None, description="Whether and how instructions are rewritten at five levels."
    )
    regenerate: Regeneration | None = Field(
        default=None, description="The version and split to make anew; `toolloom regenerate`."
    )
    extend: Extension | None = Field(
        default=None,
        description="The version to add to; `toolloom expand` and `toolloom rewrite`.",
    )
    shard_size: int = Field(default=64, ge=1, le=10_000, description="Records in a shard.")
    prices: Prices = Field(
        default_factory=dict,
        description="Prices of models by their name, or the path of a YAML file that holds them.",
    )
    budget: Budget = Field(default_factory=Budget, description="What the run may use at most.")

    @model_validator(mode="after")
    def _agents_fit(self) -> Recipe:
        for agent in self.agents:
            try:
                self.endpoint(agent)
            except ValidationError as error:
                raise _AgentMisfit(agent, error) from error
        return self

    @model_validator(mode="after")
    def _costs_are_known(self) -> Recipe:
        """A limit in dollars means nothing for models without a price."""
        if self.budget.max_cost is not None:
            models = {e.model for e in self.endpoints if not e.local}
            if unknown := sorted(models - set(self.prices)):
                raise ValueError(
                    f"budget.max_cost needs `prices` of every model; missing: {', '.join(unknown)}"
                )
        return self

    @property
    def endpoints(self) -> tuple[Endpoint, ...]:
        """Every endpoint the recipe uses: the agents', then the search's."""
        found = [self.endpoint(agent) for agent in get_args(AgentName)]
        return (*found, *([self.search.embeddings] if self.search.embeddings else ()))

    def endpoint(self, agent: AgentName) -> Endpoint:
        """The endpoint of an agent: `model`, with what `agents` changes in it."""
        changes = self.agents.get(agent, {})
        shared = self.model.model_dump()
        if self.model.local and changes.get("base_url", "local") != "local":
            for name in ("small", "candidates", "concurrency"):  # they suit the embedded model
                shared.pop(name)
        return Endpoint.model_validate({**shared, **changes})

    @property
    def identity(self) -> JsonObject:
        """What decides the records: the recipe without how, how fast and for how much it is run."""
        dumped: JsonObject = self.model_dump(mode="json", exclude={"budget"})
        for name in ("expand", "rewrite", "extend"):  # what is not asked for changes no id
            if dumped[name] is None:
                del dumped[name]
        if dumped["regenerate"] and not dumped["regenerate"]["keep"]:
            del dumped["regenerate"]["keep"]
        found = (dumped["model"], *dumped["agents"].values(), dumped["search"]["embeddings"] or {})
        for endpoint in found:
            for name in EXECUTION & set(endpoint):
                del endpoint[name]
        used = {endpoint.model for endpoint in self.endpoints}
        dumped["prices"] = {name: p for name, p in dumped["prices"].items() if name in used}
        return dumped

    @property
    def run_id(self) -> str:
        """Name and hash of the recipe's identity: the same recipe goes on with the same run."""
        return f"{self.name}-{digest(self.identity, 8)}"


def public_recipe(recipe: Recipe) -> JsonObject:
    """The recipe's fields without what in its addresses may be secret."""
    return public_fields(recipe.model_dump(mode="json"))


def public_fields(dumped: JsonObject) -> JsonObject:
    """A dumped recipe, in place, with the public form of every address in it."""
    embeddings = dumped["search"]["embeddings"]
    for endpoint in (dumped["model"], *dumped["agents"].values(), embeddings or {}):
        for place in (endpoint, *(endpoint.get("replicas") or ())):
            if place.get("base_url"):
                place["base_url"] = public(place["base_url"])
    return dumped
