"""The recipe: one YAML file that says what to make, with which models. Its dials part by part, then
the whole, then how it is read: errors name the field and what was probably meant.
"""

from __future__ import annotations

import difflib
import os
import re
import shlex
from collections.abc import Iterator, Mapping
from enum import StrEnum
from functools import lru_cache, reduce
from pathlib import Path
from typing import Annotated, Any, Literal, TypeAlias, get_args
from urllib.parse import urlsplit

from pydantic import AfterValidator, Field, ValidationError, field_validator, model_validator

from toolloom.schemas.api import ApiSource
from toolloom.schemas.base import LAYOUT, JsonObject, Record, digest, empty
from toolloom.schemas.errors import RecipeError, absent
from toolloom.schemas.query import Ability, Level, Scenario
from toolloom.schemas.splits import Split, SplitPlan, Weight
from toolloom.schemas.yaml_reader import UnreadableYaml, YamlDocument, line_of, read_yaml

# --- an OpenAI-compatible endpoint: where it is, how it is used, what it costs

# Fields that decide how a run is done, not what it makes: changing them goes on with the run.
EXECUTION = frozenset(
    {"concurrency", "key_env", "requests_per_minute", "retry", "timeout", "tokens_per_minute"}
)


NO_MODEL, LOCAL, SCRIPTED = "none", "local", "scripted"
"""In place of an address: nobody is asked; the embedded model; the endpoint that plays a script."""


class Retry(Record):
    """How often and for how long a request that fails is tried again."""

    tries: int = Field(default=10, ge=1, le=100, description="Tries of a request that fails.")
    patience: float = Field(
        default=900, gt=0, description="Seconds for one request, all tries and waits included."
    )


def address(value: str) -> str:
    """An address without its last slash. Raises ValueError if it is none."""
    if value in (NO_MODEL, LOCAL, SCRIPTED):
        return value
    if not value.startswith(("http://", "https://")):
        raise ValueError("must be `local`, `scripted`, or begin with http:// or https://")
    try:
        parts = urlsplit(value)
        whole = parts.hostname and parts.port is not False
    except ValueError as error:  # such as a port that is no number, or half an IPv6 address
        raise ValueError(f"is not an address: {error}") from error
    if not whole:
        raise ValueError("names no host")
    return value.rstrip("/")


@lru_cache(maxsize=64)
def public(base_url: str) -> str:
    """The address without user, password and query, which may hold secrets."""
    parts = urlsplit(base_url)
    return parts._replace(netloc=parts.netloc.rpartition("@")[2], query="", fragment="").geturl()


BaseUrl: TypeAlias = Annotated[str, AfterValidator(address)]


class Endpoint(Record):
    """An OpenAI-compatible endpoint and how to use it."""

    base_url: BaseUrl = Field(
        default="local",
        description="Address up to and with /v1; `local` for the embedded model, `scripted` for an "
        "endpoint that plays the agents without a model.",
    )
    model: str = Field(default="smollm2-135m-instruct", description="Name of the model there.")
    key_env: str = Field(
        default="OPENAI_API_KEY", description="Environment variable that holds the key."
    )
    small: bool = Field(
        default=False,
        description="A model too small to write rows by itself, as `validate` and `run` say; "
        "dialogues in worlds then have the words of scripts. True for `local`, with 6 "
        "candidates and concurrency 4, unless the recipe says otherwise.",
    )
    candidates: int = Field(
        default=1, ge=1, le=32, description="Answers tried, with new seeds, until one is usable."
    )
    temperature: float = Field(default=0.7, ge=0, le=2, description="Sampling temperature.")
    mode: Literal["direct", "batch"] = Field(
        default="direct",
        description="`batch` sends requests through the Batch API: cheaper, within a day.",
    )
    concurrency: int = Field(
        default=32,
        ge=1,
        le=50_000,
        description="Requests under way at once, at most: fewer while the endpoint says that "
        "there are too many. With `mode: batch`, requests in one batch.",
    )
    requests_per_minute: int | None = Field(
        default=None, ge=1, description="Requests sent within any minute, at most."
    )
    tokens_per_minute: int | None = Field(
        default=None, ge=1, description="Tokens sent and received within any minute, at most."
    )
    timeout: float = Field(default=120, gt=0, description="Seconds to wait for one response.")
    retry: Retry = Field(default_factory=Retry, description="What is tried again, and how often.")

    @model_validator(mode="before")
    @classmethod
    def _suits_the_embedded_model(cls, data: Any) -> Any:
        if isinstance(data, Mapping) and data.get("base_url", "local") == "local":
            return {"small": True, "candidates": 6, "concurrency": 4, **data}
        return data

    @model_validator(mode="after")
    def _can_be_reached(self) -> Endpoint:
        if self.named and self.mode == "batch":
            raise ValueError(f"`{self.base_url}` has no `mode: batch`")
        return self

    @property
    def batched(self) -> bool:
        return self.mode == "batch"

    @property
    def local(self) -> bool:
        return self.base_url == LOCAL

    @property
    def named(self) -> bool:
        """Whether a server of our own is asked, which is started in this process."""
        return self.base_url in (LOCAL, SCRIPTED)

    @property
    def absent(self) -> bool:
        """No model: written words alone, and choices by seed."""
        return self.base_url == NO_MODEL


MILLION = 1_000_000


class Price(Record):
    """One model's prices, in US dollars per million tokens."""

    prompt: float = Field(ge=0, description="Tokens sent.")
    completion: float = Field(default=0.0, ge=0, description="Tokens received.")
    cached: float | None = Field(
        default=None, ge=0, description="Tokens sent that the endpoint had cached; else `prompt`."
    )
    batch_prompt: float | None = Field(
        default=None, ge=0, description="Tokens sent in a batch; else `prompt`."
    )
    batch_completion: float | None = Field(
        default=None, ge=0, description="Tokens received in a batch; else `completion`."
    )
    batch_cached: float | None = Field(
        default=None, ge=0, description="Cached tokens in a batch; else the lower of the others."
    )

    def cost(self, prompt: int, completion: int, cached: int = 0, *, batch: bool = False) -> float:
        """US dollars. `prompt`: tokens sent, the `cached` ones among them."""
        sent, received = self.prompt, self.completion
        again = sent if self.cached is None else self.cached
        if batch:
            sent = sent if self.batch_prompt is None else self.batch_prompt
            received = received if self.batch_completion is None else self.batch_completion
            again = min(again, sent) if self.batch_cached is None else self.batch_cached
        known = min(cached, prompt)
        return ((prompt - known) * sent + known * again + completion * received) / MILLION


Prices: TypeAlias = dict[str, Price]


class Budget(Record):
    """What one run may use, all its starts together. It stops before it would pass a limit."""

    max_cost: float | None = Field(
        default=None, gt=0, description="US dollars, at the recipe's `prices`."
    )
    max_tokens: int | None = Field(default=None, ge=1, description="Tokens sent and received.")
    max_requests: int | None = Field(
        default=None, ge=1, description="Requests sent, each try counted."
    )


# --- what is made

AgentName: TypeAlias = Literal["domain", "api", "query", "simulator", "tester", "rewriter"]


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
    balance: dict[Dimension, Annotated[float, Field(ge=1, allow_inf_nan=False)]] = Field(
        default_factory=dict,
        description="By dimension: how many times as many rows of one value as of the median "
        "value a split may have.",
    )


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
    abilities: dict[Ability, Weight] = Field(
        default_factory=lambda: dict.fromkeys(Ability, 1.0),
        min_length=1,
        description="Abilities and their weights.",
    )
    scenarios: dict[Scenario, Weight] = Field(
        default_factory=lambda: {s: 1.0 for s in Scenario if not s.of_worlds},
        min_length=1,
        description="Scenarios and their weights, where no world is played.",
    )
    levels: dict[Level, Weight] = Field(
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
        if not any(value.values()):
            raise ValueError("of the weights one must be above 0")
        return value


def odd(votes: int) -> int:
    """The number itself. Raises ValueError for one that may leave no majority."""
    if votes and votes % 2 == 0:
        raise ValueError("must be odd, so that there is a majority, or 0")
    return votes


Votes: TypeAlias = Annotated[int, Field(ge=0, le=15), AfterValidator(odd)]


class TestPlan(Record):
    """How the tester judges what the certain checks let pass."""

    __test__ = False  # not a test class, whatever its name says to pytest

    votes: Votes = Field(
        default=3, description="Independent votes of the model: odd, or 0 for none."
    )


class ExpansionPlan(Record):
    """What templates are expanded into."""

    rows: int = Field(default=100, ge=1, description="Rows to make, of all templates together.")
    templates: tuple[str, ...] = Field(
        default=(), description="Written templates: YAML files, or folders of them."
    )
    mine: bool = Field(default=True, description="Make templates of accepted samples.")
    splits: tuple[Split, ...] = Field(
        default=(Split.TRAIN,), min_length=1, description="The splits that get rows."
    )


class RewritePlan(Record):
    """How instructions are rewritten at five granularities."""

    seeds: tuple[str, ...] = Field(
        default=(), description="ToolBench solution trees and queries: files or folders."
    )
    votes: Votes | None = Field(
        default=None,
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


class Regeneration(Record):
    """The version whose split a run makes anew; written by `toolloom regenerate`."""

    version: str = Field(description="The version, such as `weather/1.2.0`.")
    content: str = Field(description="The hash of its content, from its manifest.")
    split: Split = Field(description="The split that is made anew.")
    keep: bool = Field(
        default=False, description="Keep all that it has, and add what comes of new queries."
    )


class Extension(Record):
    """The version that a run adds rows to; written by `toolloom expand` and `toolloom rewrite`."""

    version: str = Field(default="", description="The version, such as `weather/1.2.0`; or none.")
    content: str = Field(default="", description="The hash of its content, from its manifest.")


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
    worlds: WorldPlan | None = Field(
        default=None,
        exclude_if=empty,
        description="Worlds that dialogues play in: a list of them, or a mapping with dials.",
    )
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
        default=None, description="The version to add to; `toolloom expand` and `toolloom rewrite`."
    )
    shard_size: int = Field(default=64, ge=1, le=10_000, description="Records in a shard.")
    prices: Prices = Field(
        default_factory=dict,
        description="Prices of models by their name, or the path of a YAML file that holds them.",
    )
    budget: Budget = Field(default_factory=Budget, description="What the run may use at most.")

    @property
    def writes_worlds(self) -> bool:
        """Whether the API agent writes a world for each domain."""
        return bool(self.apis.domains) and self.apis.worlds is not False and not self._no_author

    @property
    def _no_author(self) -> str:
        """Why no model of the recipe can write worlds and the words in them, if so."""
        if self.languages != ("English",):
            return "what is said in worlds is English"
        writers: tuple[AgentName, ...] = ("api", "query")
        lacking = (who for who in writers if (e := self.endpoint(who)).small or e.absent)
        return next((f"the model of the {who} agent is small or none" for who in lacking), "")

    @property
    def played(self) -> WorldPlan | None:
        """How dialogues play in worlds, those among them that are written for its domains; None
        of a recipe without any."""
        return self.worlds or (WorldPlan() if self.writes_worlds else None)

    @model_validator(mode="before")
    @classmethod
    def _worlds_suffice(cls, data: Any) -> Any:
        """Worlds need no APIs beside them, and their scripts no model. Alone, they are so few that
        none is held out of training unless the recipe says so."""
        if not isinstance(data, Mapping) or data.get("worlds") is None:
            return data
        apis, splits = data.get("apis", {}), data.get("splits", {})
        if isinstance(apis, Mapping):
            apis = {"domains": 0, **apis}
            if isinstance(splits, Mapping) and not (apis["domains"] or apis.get("sources")):
                splits = {"test_tool": 0, "test_category": 0, **splits}
        return {"model": NO_MODEL, **data, "apis": apis, "splits": splits}

    @field_validator("model", mode="before")
    @classmethod
    def _may_be_a_word(cls, value: Any) -> Any:
        return {"base_url": value, "model": value} if value in (NO_MODEL, SCRIPTED) else value

    @model_validator(mode="after")
    def _has_apis(self) -> Recipe:
        if not self.apis.sources and not self.apis.domains and self.worlds is None:
            raise ValueError(
                "`apis.domains` must be above 0 where there are neither `apis.sources` nor `worlds`"
            )
        if self.worlds and not self.worlds.use and not self.writes_worlds:
            raise ValueError("`worlds.use` names no world, and none is written for `apis.domains`")
        if self.apis.worlds and self._no_author:
            raise ValueError(f"`apis.worlds` cannot be true: {self._no_author}")
        return self

    @model_validator(mode="after")
    def _has_who_writes(self) -> Recipe:
        """Without a model there are the written words of worlds, and nothing else."""
        if self.model.absent:
            wants = {
                "a list of `worlds`": self.worlds is None,
                "no `apis.sources`": bool(self.apis.sources),
                "`apis.domains: 0`": self.apis.domains > 0,
                "no `rewrite`": self.rewrite is not None,
            }
            if lacking := next((name for name, lacks in wants.items() if lacks), None):
                raise ValueError(f"`model: none` plays written worlds alone; it wants {lacking}")
        return self

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
            models = {e.model for e in self.endpoints if not (e.local or e.absent)}
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
        if self.model.local != (changes.get("base_url", self.model.base_url) == "local"):
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
        dumped["apis"].pop("worlds", None)
        if self.writes_worlds:  # runs of recipes before there was such a thing keep their ids
            dumped["apis"]["worlds"] = True
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
        return f"{self.name}-{digest([LAYOUT, self.identity], 8)}"


def public_recipe(recipe: Recipe) -> JsonObject:
    """The recipe's fields without what in its addresses may be secret."""
    dumped: JsonObject = recipe.model_dump(mode="json")
    if recipe.writes_worlds:
        dumped["apis"]["worlds"] = True
    return public_fields(dumped)


def public_fields(dumped: JsonObject) -> JsonObject:
    """A dumped recipe, in place, with the public form of every address in it."""
    embeddings = dumped["search"]["embeddings"]
    for endpoint in (dumped["model"], *dumped["agents"].values(), embeddings or {}):
        if endpoint.get("base_url"):
            endpoint["base_url"] = public(endpoint["base_url"])
    return dumped


LOGIN = re.compile(r"//[^/\s]*@")  # user and password of an address
LONGEST = 80  # characters of a value that a message repeats
LARGEST = 4_000_000  # characters of a recipe's file


def parse_recipe(
    data: Any, where: str, overrides: JsonObject | None = None, text: YamlDocument | None = None
) -> Recipe:
    """Validate a mapping. Raises RecipeError that names each field and the nearest known one.

    `overrides`: what of it came from elsewhere than `where`, for the message; `text`: the rest.
    """
    if not isinstance(data, Mapping):
        raise RecipeError(f"{where}: a recipe is a mapping of fields, such as `name: my-dataset`.")
    if "paths" in data and ("openapi" in data or "swagger" in data):
        raise RecipeError(
            f"{where}: is an OpenAPI document, not a recipe. A recipe names it, as "
            f"recipes/openapi.yaml does: `apis: {{sources: [{{path: {Path(where).name}}}]}}`. "
            f"To look at its APIs first: `toolloom apis import {where} --into NAME`."
        )
    if isinstance(prices := data.get("prices"), str):
        data = {**data, "prices": _read_prices(prices)}
    try:
        return Recipe.model_validate(data)
    except ValidationError as error:
        found = [
            (each["loc"], explain(each, _origin(each["loc"], overrides)))
            for one in error.errors()
            for each in list(getattr(one.get("ctx", {}).get("error"), "details", [one]))
        ]
        told = []
        for place, words in (*found, *_missing_sources(data)):
            there = tuple(part for part in place if part != "[key]")
            line = line_of(text.lines, there) if text and not _origin(place, overrides) else 0
            told.append((line, f"  {f'line {line}: ' if line else ''}{words}"))
        lines = [words for _, words in sorted(told, key=lambda one: one[0])]
        both = " with the overrides" if overrides else ""
        raise RecipeError(f"{where}{both} is not a valid recipe:\n" + "\n".join(lines)) from error


def _missing_sources(data: Mapping[str, Any]) -> Iterator[tuple[tuple[str | int, ...], str]]:
    """The files that a recipe names as sources and that are not there: where, and in words."""
    apis = data.get("apis")
    given = apis.get("sources") if isinstance(apis, Mapping) else None
    for number, source in enumerate(given if isinstance(given, list) else ()):
        path = source.get("path") if isinstance(source, Mapping) else None
        if isinstance(path, str) and path.lower().endswith(FILES) and not os.path.exists(path):
            words = f"apis.sources.{number}.path: {absent(path)}."
            yield ("apis", "sources", number, "path"), words


def load_recipe(path: str | Path, **changes: Any) -> Recipe:
    """Read a recipe file; `changes` replace top-level fields. Raises RecipeError.

    Paths in it are relative to its folder; the recipe that comes of it has them from the current
    one.
    """
    fields, text = _read_fields(path)
    if isinstance(fields, Mapping):
        fields = {**fields, **{name: v for name, v in changes.items() if v is not None}}
    return parse_recipe(fields, str(path), text=text)


def written_recipe(path: Path) -> Recipe:
    """The recipe of a run as its folder has it: nothing in it is relative to that folder."""
    return parse_recipe(_read_yaml(path).value, str(path))


def overridden(recipe: str | Path | JsonObject, overrides: JsonObject) -> Recipe:
    """A recipe, as the path of its file or as its fields, with some fields replaced.

    Mappings are merged, however deep, as in `{"queries": {"count": 50}}`; all else takes the place
    of what was there. Raises RecipeError, which tells what of it came from the overrides.
    """
    if not isinstance(overrides, Mapping):
        raise RecipeError('overrides: are a mapping of fields, such as `{"seed": 3}`.')
    fields: Any = recipe
    where, text = "the parameter `recipe`", None
    if isinstance(recipe, str | Path):
        where, (fields, text) = str(recipe), _read_fields(recipe)
    if not isinstance(fields, Mapping):
        return parse_recipe(fields, where)
    if isinstance(overrides.get("prices"), Mapping) and isinstance(fields.get("prices"), str):
        fields = {**fields, "prices": _read_prices(fields["prices"])}
    return parse_recipe(_merged(fields, overrides), where, overrides, text)


FILES = (".yaml", ".yml", ".json", ".jsonl", ".ndjson", ".parquet", ".py", ".txt")
PATHS = {
    *("apis.sources.path", "curation.against", "expand.templates", "prices", "rewrite.seeds"),
    *("worlds", "worlds.states", "worlds.tasks", "worlds.use"),
}
"""Where a recipe's paths stand, alone, in a list or by the name of a world."""
COMMANDS = {"apis.sources.mcp", "apis.sources.prepare"}


def placed(fields: Mapping[str, Any], folder: Path) -> JsonObject:
    """A recipe's fields with its paths, which are relative to `folder`, from the current one.

    What may be a name as well (of a pool, a module, a world, a benchmark) is a path if there is
    such a file or folder, or if it has a file's ending.
    """

    def path(value: str) -> str:
        if not value or value[0] in "/~" or "\0" in value:
            return value
        there = folder / value
        is_path = value.lower().endswith(FILES) or os.path.exists(there)
        return Path(os.path.relpath(there)).as_posix() if is_path else value

    def command(value: str) -> str:
        if value.startswith(("http://", "https://")):
            return value
        try:
            parts = shlex.split(value)
        except ValueError:
            return value
        there = [path(part) if os.path.isfile(folder / part) else part for part in parts]
        return value if there == parts else shlex.join(there)

    def moved(value: Any, place: str) -> Any:
        if isinstance(value, Mapping):
            named = place == "worlds.states"
            return {n: moved(each, place if named else f"{place}.{n}") for n, each in value.items()}
        if isinstance(value, list):
            return [moved(each, place) for each in value]
        if not isinstance(value, str):
            return value
        if place in COMMANDS:
            return command(value)
        return path(value) if place in PATHS else value

    if os.path.abspath(folder) == os.getcwd():
        return {**fields}
    return {name: moved(value, name) for name, value in fields.items()}


def _merged(given: Mapping[str, Any], over: Mapping[str, Any]) -> JsonObject:
    made = {**given}
    for name, value in over.items():
        both = isinstance(value, Mapping) and isinstance(made.get(name), Mapping)
        made[name] = _merged(made[name], value) if both else value
    return made


def _origin(path: tuple[Any, ...], overrides: JsonObject | None) -> str:
    """Whether what stands at a path came from the overrides, in words; empty if it did not."""
    found: Any = overrides or {}
    for part in path:
        if not isinstance(found, Mapping) or part == "[key]":
            break
        if part not in found:
            return ""
        found = found[part]
    return " (from the overrides)" if path and overrides else ""


def _read_fields(path: str | Path) -> tuple[Any, YamlDocument]:
    """The fields of a recipe's file, with paths from the current folder, and the file itself.
    Raises RecipeError."""
    text = _read_yaml(path)
    is_mapping = isinstance(text.value, Mapping)
    return placed(text.value, Path(path).parent) if is_mapping else text.value, text


def _read_yaml(path: str | Path) -> YamlDocument:
    """What a YAML file holds. Raises RecipeError."""
    try:
        with Path(path).open(encoding="utf-8") as file:
            text = file.read(LARGEST + 1)
        if len(text) > LARGEST:
            raise RecipeError(f"{path}: is too large for a recipe, of at most {LARGEST:,} letters.")
        found = read_yaml(text)
    except UnicodeDecodeError as error:
        raise RecipeError(f"{path}: is not UTF-8 text ({error.reason}).") from error
    except UnreadableYaml as error:
        raise RecipeError(f"{path}: {error}") from error
    except FileNotFoundError as error:
        raise RecipeError(f"{absent(path)}.") from error
    except (OSError, ValueError) as error:  # such as NUL in a path
        why = getattr(error, "strerror", None) or error
        raise RecipeError(f"{path}: cannot be read ({why}).") from error
    if found.repeated:
        place = found.repeated[0]
        name = ".".join(map(str, place))
        raise RecipeError(f"{path}: line {found.lines[place]}: {name} stands twice; give it once.")
    return found


def _read_prices(path: str) -> Any:
    """The prices that a file holds. Raises RecipeError, which repeats nothing of another file."""
    found = _read_yaml(path).value
    if not isinstance(found, Mapping):
        raise RecipeError(f"prices: {path} holds no prices by the name of a model.")
    return found


def explain(error: Any, origin: str = "") -> str:
    """One pydantic error as a line: where, what, and the nearest known name."""
    where = (".".join(str(part) for part in error["loc"] if part != "[key]") or "recipe") + origin
    if error["type"] == "extra_forbidden":
        kind = reduce(_inside, error["loc"][:-1], Recipe)
        known = sorted(getattr(kind, "model_fields", {}))
        name = str(error["loc"][-1])
        exchanged = [one for one in known if sorted(one) == sorted(name)]
        near = exchanged or difflib.get_close_matches(name, known, n=1, cutoff=0.5)
        hint = f"did you mean `{near[0]}`?" if near else f"known here: {', '.join(known)}."
        return f"{where}: unknown field; {hint}"
    if error["type"] == "missing":
        needed = "every recipe needs it" if len(error["loc"]) == 1 else "it has no default"
        return f"{where}: missing; {needed}."
    given = error["input"]
    if isinstance(given, str):
        given = LOGIN.sub("//", given)
        given = given if len(given) <= LONGEST else f"{given[:LONGEST]}…"
    shown = f" (given: {given!r})" if isinstance(given, str | int | float | bool) else ""
    return f"{where}: {error['msg'].removeprefix('Value error, ').replace('tuple', 'list')}{shown}"


def _inside(kind: Any, part: Any) -> Any:
    """The type of what stands under `part` in a value of type `kind`."""
    if field := getattr(kind, "model_fields", {}).get(part):
        inner = field.annotation
        return get_args(inner)[0] if type(None) in get_args(inner) else inner
    options = [one for one in get_args(kind) if one is not Ellipsis] or [None]
    # An agent's fields are a mapping that is an endpoint in part.
    return Endpoint if options[-1] == dict[str, Any] else options[-1]
