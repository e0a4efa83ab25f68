"""toolloom: verified training data for tool-using language models, made from APIs.

from toolloom import load_recipe, run
made = run("recipes/quickstart.yaml", outputs="outputs")
print(made.published.load_line)
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from toolloom.llm import Gateway, LocalServer
    from toolloom.llm.scripted import FakeServer
    from toolloom.pipeline.dataset.publish import publish
    from toolloom.pipeline.run import make_dataset
    from toolloom.pipeline.run import preview_recipe as preview
    from toolloom.pipeline.run import run_recipe as run
    from toolloom.schemas import Recipe, Sample, ToolloomError, load_recipe, parse_recipe

__all__ = [
    "FakeServer",
    "Gateway",
    "LocalServer",
    "Recipe",
    "Sample",
    "ToolloomError",
    "load_recipe",
    "make_dataset",
    "parse_recipe",
    "preview",
    "publish",
    "run",
]

_RENAMED = {"preview": "preview_recipe", "run": "run_recipe"}
_HOMES = {
    "toolloom.schemas": ("Recipe", "Sample", "ToolloomError", "load_recipe", "parse_recipe"),
    "toolloom.llm": ("Gateway", "LocalServer"),
    "toolloom.llm.scripted": ("FakeServer",),
    "toolloom.pipeline.run": ("make_dataset", "preview", "run"),
    "toolloom.pipeline.dataset.publish": ("publish",),
}


def __getattr__(name: str) -> Any:
    """Load what is heavy when it is first used, so that the command line answers at once."""
    from importlib import import_module

    for module, names in _HOMES.items():
        if name in names:
            return getattr(import_module(module), _RENAMED.get(name, name))
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
