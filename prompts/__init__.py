"""All words that models are told: a Jinja template for each question, and one environment.

A template is a file of blocks. `system` and `user` become the turns of those names; blocks
called `shot1_user`, `shot1_assistant`, `shot2_user` … between them become example turns. Each
block is rendered on its own, in a sandbox, so that data can never open a new turn. Its header
comment lists its variables. What is the same for every record comes first, for prefix caches.
The hash of a template stands in the provenance of what was made with it.

May touch: its own files; schemas.
Begin with query.j2, then `render` below.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import jinja2
from jinja2.sandbox import ImmutableSandboxedEnvironment

from toolloom.schemas import TemplateError, canonical, digest

FOLDER = Path(__file__).parent
FAILED = (jinja2.TemplateError, ArithmeticError, AttributeError, LookupError, TypeError, ValueError)
"""What goes wrong where a template is rendered."""


class Prompt(NamedTuple):
    """Chat messages `({"role", "content"}, …)` and the hash of the template they come from."""

    template_hash: str
    messages: tuple[dict[str, str], ...]


@cache
def environment(folder: Path = FOLDER) -> jinja2.Environment:
    """The sandboxed environment: undefined variables are errors, nothing is escaped."""
    made = ImmutableSandboxedEnvironment(
        loader=jinja2.FileSystemLoader(folder),
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        autoescape=False,  # prompts are plain text, not HTML
    )
    made.filters["json"] = canonical
    return made


@cache
def source_hash(name: str, folder: Path = FOLDER) -> str:
    """Hash of a template's text: a changed prompt shows in the provenance."""
    return digest((folder / f"{name}.j2").read_text(encoding="utf-8"))


def render(name: str, variables: Mapping[str, Any], folder: Path = FOLDER) -> Prompt:
    """Render every block of template `name`. Raises TemplateError that names the variable."""
    try:
        template = environment(folder).get_template(f"{name}.j2")
        context = template.new_context(dict(variables))
        texts = {block: "".join(part(context)).strip() for block, part in template.blocks.items()}
    except jinja2.UndefinedError as error:
        raise TemplateError(
            f"prompts/{name}.j2 uses a variable that it is not given: {error.message}. "
            f"Given are: {', '.join(sorted(variables))}."
        ) from error
    except FAILED as error:
        kind = type(error).__name__
        raise TemplateError(f"prompts/{name}.j2 cannot be rendered: {kind}: {error}") from error
    said = ((block, text) for block, text in texts.items() if text)
    messages = tuple({"role": block.rpartition("_")[2], "content": text} for block, text in said)
    return Prompt(source_hash(name, folder), messages)
