"""The recipe: one YAML file that says what to make, with which models, and how it is read: errors
name the field and what was probably meant.
"""

from __future__ import annotations

import difflib
import os
import re
import shlex
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any, Literal, TypeAlias, get_args

from pydantic import Field, ValidationError, field_validator, model_validator

from toolloom.schemas.api import ApiSource
from toolloom.schemas.base import LAYOUT, JsonObject, Record, digest, empty
from toolloom.schemas.endpoint import (
    EXECUTION,
    NO_MODEL,
    SCRIPTED,
    Budget,
    Endpoint,
    Prices,
    public,
)
from toolloom.schemas.errors import RecipeError
from toolloom.schemas.instruction import RewritePlan
from toolloom.schemas.plans import ApiPlan, CurationPlan, QueryPlan, SearchPlan, TestPlan, WorldPlan
from toolloom.schemas.splits import Extension, Regeneration, SplitPlan
from toolloom.schemas.template import ExpansionPlan
from toolloom.schemas.yaml_reader import UnreadableYaml, YamlDocument, read_yaml

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


def _line(text: YamlDocument, path: tuple[Any, ...]) -> int:
    """That of a place, or of the nearest one around it that the file has; else 0."""
    there = tuple(part for part in path if part != "[key]")
    while there and there not in text.lines:
        there = there[:-1]
    return text.lines[there] if there else 0


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
        errors = [
            each
            for found in error.errors()
            for each in list(getattr(found.get("ctx", {}).get("error"), "details", [found]))
        ]
        told = []
        for each in errors:
            origin = _origin(each["loc"], overrides)
            line = _line(text, each["loc"]) if text and not origin else 0
            told.append((line, f"  {f'line {line}: ' if line else ''}{_explain(each, origin)}"))
        lines = [words for _, words in sorted(told, key=lambda one: one[0])]
        both = " with the overrides" if overrides else ""
        raise RecipeError(f"{where}{both} is not a valid recipe:\n" + "\n".join(lines)) from error


def load_recipe(path: str | Path, **changes: Any) -> Recipe:
    """Read a recipe file; `changes` replace top-level fields. Raises RecipeError.

    Paths in it are relative to its folder; the recipe that comes of it has them from the current
    one.
    """
    fields, text = _read_fields(path)
    if isinstance(fields, Mapping):
        made = {name: value for name, value in changes.items() if value is not None}
        fields = {**fields, **made}
    return parse_recipe(fields, str(path), text=text)


def readable_sources(path: str | Path) -> list[ApiSource]:
    """Those sources of a recipe's file that can be told, however wrong the rest is."""
    fields, _ = _read_fields(path)
    apis = fields.get("apis") if isinstance(fields, Mapping) else None
    found: list[ApiSource] = []
    for each in (apis.get("sources") if isinstance(apis, Mapping) else None) or ():
        with suppress(ValidationError):
            found.append(ApiSource.model_validate(each))
    return found


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


def placed(fields: Mapping[str, Any], folder: Path) -> JsonObject:
    """A recipe's fields with its paths, which are relative to `folder`, from the current one.

    What may be a name as well (of a pool, a module, a world, a benchmark) is a path if there is
    such a file or folder, or if it has a file's ending.
    """
    found = {**fields}
    if os.path.abspath(folder) == os.getcwd():
        return found

    def path(value: Any) -> Any:
        if not isinstance(value, str) or not value or value[0] in "/~" or "\0" in value:
            return value
        there = folder / value
        is_path = value.lower().endswith(FILES) or os.path.exists(there)
        return Path(os.path.relpath(there)).as_posix() if is_path else value

    def paths(values: Any) -> Any:
        return [path(value) for value in values] if isinstance(values, list) else path(values)

    def command(value: Any) -> Any:
        if not isinstance(value, str) or value.startswith(("http://", "https://")):
            return value
        try:
            parts = shlex.split(value)
        except ValueError:
            return value
        moved = [path(part) if os.path.isfile(folder / part) else part for part in parts]
        return value if moved == parts else shlex.join(moved)

    def within(section: str, name: str, change: Callable[[Any], Any]) -> None:
        if isinstance(inner := found.get(section), Mapping) and name in inner:
            found[section] = {**inner, name: change(inner[name])}

    def sources(values: Any) -> Any:
        kinds = {"path": path, "mcp": command, "prepare": command}
        return [
            {**each, **{name: move(each[name]) for name, move in kinds.items() if name in each}}
            if isinstance(each, Mapping)
            else each
            for each in (values if isinstance(values, list) else [])
        ] or values

    within("apis", "sources", sources)
    within("worlds", "use", paths)
    within("worlds", "tasks", path)
    within(
        "worlds",
        "states",
        lambda by: {k: path(v) for k, v in by.items()} if isinstance(by, Mapping) else by,
    )
    within("expand", "templates", paths)
    within("rewrite", "seeds", paths)
    within("curation", "against", paths)
    for name in ("worlds", "prices"):
        if isinstance(found.get(name), list | str):
            found[name] = paths(found[name])
    return found


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
    except OSError as error:
        raise RecipeError(f"{path}: cannot be read ({error.strerror}).") from error
    except UnicodeDecodeError as error:
        raise RecipeError(f"{path}: is not UTF-8 text ({error.reason}).") from error
    except UnreadableYaml as error:
        raise RecipeError(f"{path}: {error}") from error
    except ValueError as error:  # NUL in a path
        raise RecipeError(f"{path}: cannot be read ({error}).") from error
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
