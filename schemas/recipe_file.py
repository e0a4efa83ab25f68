"""Reads recipes, from files and mappings; errors name the field and what was probably meant."""

from __future__ import annotations

import difflib
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any, get_args

import yaml
from pydantic import ValidationError

from toolloom.schemas.base import JsonObject
from toolloom.schemas.endpoint import Endpoint
from toolloom.schemas.errors import RecipeError
from toolloom.schemas.recipe import Recipe

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
