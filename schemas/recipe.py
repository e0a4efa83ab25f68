"""The recipe: one YAML file that says what to make, with which models."""

from __future__ import annotations

import difflib
import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal, TypeAlias, get_args
from urllib.parse import urlsplit

import yaml
from pydantic import Field, ValidationError, field_validator, model_validator

from toolloom.schemas.api_source import ApiSource
from toolloom.schemas.base import Record, digest
from toolloom.schemas.errors import RecipeError
from toolloom.schemas.query import Ability, Level, Scenario

AgentName: TypeAlias = Literal["domain", "api", "query", "simulator", "tester"]


class Endpoint(Record):
    """An OpenAI-compatible endpoint and how to use it."""

    base_url: str = Field(
        default="local",
        description="Address up to and with /v1, or `local` for the embedded model.",
    )
    model: str = Field(default="smollm2-135m-instruct", description="Name of the model there.")
    key_env: str = Field(
        default="OPENAI_API_KEY", description="Environment variable that holds the key."
    )
    small: bool = Field(
        default=False,
        description="A small model: smaller questions, and schemas narrowed to what was said. "
        "True for `local`, with 6 candidates and concurrency 4, unless the recipe says otherwise.",
    )
    candidates: int = Field(
        default=1, ge=1, le=32, description="Answers tried, with new seeds, until one is usable."
    )
    temperature: float = Field(default=0.7, ge=0, le=2, description="Sampling temperature.")
    concurrency: int = Field(default=16, ge=1, le=1024, description="Requests under way at once.")
    timeout: float = Field(default=120, gt=0, description="Seconds to wait for one response.")
    tries: int = Field(default=5, ge=1, le=20, description="Tries of a request that fails.")
    prompt_price: float = Field(default=0, ge=0, description="US dollars per million tokens sent.")
    completion_price: float = Field(
        default=0, ge=0, description="US dollars per million tokens received."
    )

    @model_validator(mode="before")
    @classmethod
    def _suits_the_embedded_model(cls, data: Any) -> Any:
        if isinstance(data, Mapping) and data.get("base_url", "local") == "local":
            return {"small": True, "candidates": 6, "concurrency": 4, **data}
        return data

    @property
    def local(self) -> bool:
        return self.base_url == "local"

    @field_validator("base_url")
    @classmethod
    def _is_an_address(cls, value: str) -> str:
        if value != "local" and not value.startswith(("http://", "https://")):
            raise ValueError("must be `local` or begin with http:// or https://")
        try:
            parts = urlsplit(value)
            whole = value == "local" or (parts.hostname and parts.port is not False)
        except ValueError as error:  # such as a port that is no number, or half an IPv6 address
            raise ValueError(f"is no address: {error}") from error
        if not whole:
            raise ValueError("names no host")
        return value.rstrip("/")


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
    shard_size: int = Field(default=64, ge=1, le=10_000, description="Records in a shard.")

    @model_validator(mode="after")
    def _agents_fit(self) -> Recipe:
        for agent in self.agents:
            try:
                self.endpoint(agent)
            except ValidationError as error:
                raise _AgentMisfit(agent, error) from error
        return self

    def endpoint(self, agent: AgentName) -> Endpoint:
        """The endpoint of an agent: `model`, with what `agents` changes in it."""
        changes = self.agents.get(agent, {})
        shared = self.model.model_dump()
        if self.model.local and changes.get("base_url", "local") != "local":
            for name in ("small", "candidates", "concurrency"):  # they suit the embedded model
                shared.pop(name)
        return Endpoint.model_validate({**shared, **changes})

    @property
    def run_id(self) -> str:
        """Name and hash of the whole recipe: the same recipe goes on with the same run."""
        return f"{self.name}-{digest(self.model_dump(mode='json'), 8)}"


def parse_recipe(data: Any, where: str) -> Recipe:
    """Validate a mapping. Raises RecipeError that names each field and the nearest known one."""
    if not isinstance(data, Mapping):
        raise RecipeError(f"{where}: a recipe is a mapping of fields, such as `name: my-dataset`.")
    try:
        return Recipe.model_validate(data)
    except ValidationError as error:
        lines = [f"  {_explain(e)}" for found in error.errors() for e in _unfolded(found)]
        raise RecipeError(f"{where} is not a valid recipe:\n" + "\n".join(lines)) from error


def load_recipe(path: str | Path, **changes: Any) -> Recipe:
    """Read a recipe file; `changes` replace top-level fields. Raises RecipeError."""
    try:
        data = yaml.safe_load(Path(path).read_text(encoding="utf-8"))
    except OSError as error:
        raise RecipeError(f"{path}: cannot be read ({error.strerror}).") from error
    except UnicodeDecodeError as error:
        raise RecipeError(f"{path}: is not UTF-8 text ({error.reason}).") from error
    except yaml.YAMLError as error:
        raise RecipeError(f"{path} is not valid YAML: {error}") from error
    if isinstance(data, Mapping):
        data = {**data, **{k: v for k, v in changes.items() if v is not None}}
    return parse_recipe(data, str(path))


def _unfolded(error: Any) -> list[Any]:
    """The errors of an agent's endpoint in place of the one that wraps them."""
    return list(getattr(error.get("ctx", {}).get("error"), "details", [error]))


def _explain(error: Any) -> str:
    """One pydantic error as a line: where, what, and the nearest known name."""
    where = ".".join(str(part) for part in error["loc"] if part != "[key]") or "recipe"
    if error["type"] == "extra_forbidden":
        known = _fields_at(error["loc"][:-1])
        near = difflib.get_close_matches(str(error["loc"][-1]), known, n=1, cutoff=0.5)
        hint = f"did you mean `{near[0]}`?" if near else f"known here: {', '.join(known)}."
        return f"{where}: unknown field; {hint}"
    if error["type"] == "missing":
        return f"{where}: missing; every recipe needs it."
    given = error["input"]
    shown = f" (given: {given!r})" if isinstance(given, str | int | float | bool) else ""
    return f"{where}: {error['msg'].removeprefix('Value error, ')}{shown}"


def _fields_at(path: tuple[Any, ...]) -> list[str]:
    if len(path) == 2 and path[0] == "agents":
        return sorted(Endpoint.model_fields)
    model: Any = Recipe
    for part in path:
        if isinstance(part, int):  # an item of a list of sections
            model = get_args(model)[0]
            continue
        field = getattr(model, "model_fields", {}).get(part)
        model = field.annotation if field else Recipe
        if type(None) in get_args(model):
            model = get_args(model)[0]
    return sorted(getattr(model, "model_fields", {}))
