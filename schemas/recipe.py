"""The recipe: one YAML file that says what to make, with which models, and how it is read: errors
name the field and what was probably meant.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal, TypeAlias, get_args

import yaml
from pydantic import Field, ValidationError, field_validator, model_validator

from toolloom.schemas.base import JsonObject, Record, digest
from toolloom.schemas.endpoint import EXECUTION, NO_MODEL, Budget, Endpoint, Prices, public
from toolloom.schemas.errors import RecipeError
from toolloom.schemas.instruction import RewritePlan
from toolloom.schemas.plans import ApiPlan, CurationPlan, QueryPlan, SearchPlan, TestPlan, WorldPlan
from toolloom.schemas.splits import Extension, Regeneration, SplitPlan
from toolloom.schemas.template import ExpansionPlan

AgentName: TypeAlias = Literal["domain", "api", "query", "simulator", "tester", "rewriter"]


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
        exclude_if=lambda value: value is None,
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
        default=None,
        description="The version to add to; `toolloom expand` and `toolloom rewrite`.",
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
    def infers_worlds(self) -> bool:
        """Whether there are worlds behind its documents."""
        return bool(self.worlds and self.worlds.infer)

    @property
    def makes_worlds(self) -> bool:
        """Whether worlds are made in its run, which nothing else holds."""
        return self.writes_worlds or self.infers_worlds

    @property
    def _no_author(self) -> str:
        """Why no model of the recipe can write worlds and the words in them, if so."""
        if self.languages != ("English",):
            return "what is said in worlds is English"
        return self._no_writer("api") or self._no_writer("query")

    def _no_writer(self, agent: AgentName) -> str:
        endpoint = self.endpoint(agent)
        lacking = endpoint.small or endpoint.absent
        return f"the model of the {agent} agent is small or none" if lacking else ""

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
    def _may_be_none(cls, value: Any) -> Any:
        return {"base_url": NO_MODEL, "model": NO_MODEL} if value == NO_MODEL else value

    @model_validator(mode="after")
    def _has_apis(self) -> Recipe:
        if not self.apis.sources and not self.apis.domains and self.worlds is None:
            raise ValueError(
                "`apis.domains` must be above 0 where there are neither `apis.sources` nor `worlds`"
            )
        if self.infers_worlds:
            if not self.apis.sources:
                raise ValueError("`worlds.infer` needs documents among `apis.sources`")
            if why := self._no_writer("query"):
                raise ValueError(f"`worlds.infer` cannot be true: {why}")
        elif self.worlds and not self.worlds.use and not self.writes_worlds:
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
        return f"{self.name}-{digest(self.identity, 8)}"


def public_recipe(recipe: Recipe) -> JsonObject:
    """The recipe's fields without what in its addresses may be secret; `begun` reads them."""
    dumped: JsonObject = recipe.model_dump(mode="json")
    if recipe.writes_worlds:
        dumped["apis"]["worlds"] = True
    return public_fields(dumped)


def begun(recipe: Recipe) -> Recipe:
    """The recipe that a run or a version tells: of one that does not speak of worlds for its
    domains none were written, as there was no such thing."""
    apis = recipe.apis.model_copy(update={"worlds": bool(recipe.apis.worlds)})
    return recipe.model_copy(update={"apis": apis})


def public_fields(dumped: JsonObject) -> JsonObject:
    """A dumped recipe, in place, with the public form of every address in it."""
    embeddings = dumped["search"]["embeddings"]
    for endpoint in (dumped["model"], *dumped["agents"].values(), embeddings or {}):
        for place in (endpoint, *(endpoint.get("replicas") or ())):
            if place.get("base_url"):
                place["base_url"] = public(place["base_url"])
    return dumped


LOGIN = re.compile(r"//[^/\s]*@")  # user and password of an address
LONGEST = 80  # characters of a value that a message repeats


def parse_recipe(data: Any, where: str, overrides: JsonObject | None = None) -> Recipe:
    """Validate a mapping. Raises RecipeError that names each field and the nearest known one.

    `overrides`: what of it came from elsewhere than `where`, for the message.
    """
    if not isinstance(data, Mapping):
        raise RecipeError(f"{where}: a recipe is a mapping of fields, such as `name: my-dataset`.")
    if isinstance(prices := data.get("prices"), str):
        data = {**data, "prices": _read_prices(prices)}
    try:
        return Recipe.model_validate(data)
    except ValidationError as error:
        errors = [
            each
            for found in error.errors()
            for each in list(getattr(found.get("ctx", {}).get("error"), "details", [found]))
        ]
        lines = [f"  {_explain(e, _origin(e['loc'], overrides))}" for e in errors]
        both = " with the overrides" if overrides else ""
        raise RecipeError(f"{where}{both} is not a valid recipe:\n" + "\n".join(lines)) from error


def load_recipe(path: str | Path, **changes: Any) -> Recipe:
    """Read a recipe file; `changes` replace top-level fields. Raises RecipeError."""
    data = _read_yaml(path)
    if isinstance(data, Mapping):
        data = {**data, **{k: v for k, v in changes.items() if v is not None}}
    return parse_recipe(data, str(path))


def overridden(recipe: str | Path | JsonObject, overrides: JsonObject) -> Recipe:
    """A recipe, as the path of its file or as its fields, with some fields replaced.

    Mappings are merged, however deep, as in `{"queries": {"count": 50}}`; all else takes the place
    of what was there. Raises RecipeError, which tells what of it came from the overrides.
    """
    if not isinstance(overrides, Mapping):
        raise RecipeError('overrides: are a mapping of fields, such as `{"seed": 3}`.')
    given = _read_yaml(recipe) if isinstance(recipe, str | Path) else recipe
    where = str(recipe) if isinstance(recipe, str | Path) else "the parameter `recipe`"
    if not isinstance(given, Mapping):
        return parse_recipe(given, where)
    if isinstance(overrides.get("prices"), Mapping) and isinstance(given.get("prices"), str):
        given = {**given, "prices": _read_prices(given["prices"])}
    return parse_recipe(_merged(given, overrides), where, overrides)


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


def _read_yaml(path: str | Path) -> Any:
    """What a YAML file holds. Raises RecipeError."""
    try:
        return yaml.safe_load(Path(path).read_text(encoding="utf-8"))
    except OSError as error:
        raise RecipeError(f"{path}: cannot be read ({error.strerror}).") from error
    except UnicodeDecodeError as error:
        raise RecipeError(f"{path}: is not UTF-8 text ({error.reason}).") from error
    except (yaml.YAMLError, ValueError) as error:  # a day such as 2026-13-01; NUL in a path
        raise RecipeError(f"{path} is not valid YAML: {error}") from error
    except RecursionError as error:
        raise RecipeError(f"{path}: is nested too deeply for a recipe.") from error


def _read_prices(path: str) -> Any:
    """The prices that a file holds. Raises RecipeError, which repeats nothing of another file."""
    found = _read_yaml(path)
    if not isinstance(found, Mapping):
        raise RecipeError(f"prices: {path} holds no prices by the name of a model.")
    return found


def _explain(error: Any, origin: str) -> str:
    """One pydantic error as a line: where, what, and the nearest known name."""
    where = ".".join(str(part) for part in error["loc"] if part != "[key]") or "recipe"
    where += origin
    if error["type"] == "extra_forbidden":
        path = error["loc"][:-1]
        kind: Any = Recipe
        for part in path:
            kind = _inside(kind, part)
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
    return f"{where}: {error['msg'].removeprefix('Value error, ')}{shown}"


def _inside(kind: Any, part: Any) -> Any:
    """The type of what stands under `part` in a value of type `kind`."""
    if field := getattr(kind, "model_fields", {}).get(part):
        inner = field.annotation
        return get_args(inner)[0] if type(None) in get_args(inner) else inner
    options = [one for one in get_args(kind) if one is not Ellipsis] or [None]
    # An agent's fields are a mapping that is an endpoint in part.
    return Endpoint if options[-1] == dict[str, Any] else options[-1]
