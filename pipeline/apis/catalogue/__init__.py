"""The seed catalogue that ships with toolloom: a taxonomy and real public APIs."""

from __future__ import annotations

from functools import cache
from importlib.resources import files
from typing import Any

from toolloom.pipeline.apis.search import SearchIndex
from toolloom.schemas import Domain, RecipeError
from toolloom.schemas.api import Category, PublicApi
from toolloom.schemas.yaml_reader import read_yaml

SHOWN = 5  # real APIs in the API agent's prompt


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


@cache
def _examples() -> tuple[tuple[PublicApi, ...], SearchIndex]:
    known = tuple(a for a in public_apis() if a.operations)
    texts = [
        f"{a.name} {a.category} {a.does} " + " ".join(f"{o.name} {o.does}" for o in a.operations)
        for a in known
    ]
    return known, SearchIndex(texts)


def examples_for(subject: Domain) -> list[PublicApi]:
    """Real APIs that ground a domain's: those of its category, then the most alike."""
    known, index = _examples()
    alike = [known[i] for i in index.top(f"{subject.name} {subject.category}", len(known))]
    return sorted(alike, key=lambda a: a.category != subject.category)[:SHOWN]
