"""The seed catalogue that ships with toolloom: a taxonomy and real public APIs."""

from __future__ import annotations

from functools import cache
from importlib.resources import files
from typing import Any

from toolloom.schemas import RecipeError
from toolloom.schemas.api import Category, PublicApi
from toolloom.schemas.yaml_reader import read_yaml


def _read(name: str) -> Any:
    text = files(__package__).joinpath(name).read_text(encoding="utf-8")
    return read_yaml(text, located=False).value


@cache
def categories() -> tuple[Category, ...]:
    """The seed taxonomy, in its own order."""
    return tuple(Category.model_validate(c) for c in _read("categories.yaml"))


@cache
def public_apis() -> tuple[PublicApi, ...]:
    """Real public APIs, in their own order."""
    return tuple(PublicApi.model_validate(a) for a in _read("public_apis.yaml"))


def category(name: str) -> Category:
    """The category of this name. Raises RecipeError that lists the known ones."""
    for known in categories():
        if known.name.lower() == name.lower():
            return known
    names = ", ".join(c.name for c in categories())
    raise RecipeError(f"apis.categories: there is no category «{name}». Known are: {names}.")
