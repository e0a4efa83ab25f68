"""The user's copy of the shipped notebook: made, renewed, and never taken from him.

A copy remembers in its metadata what it was made of. So one that nobody has edited can be told
from one that somebody has, whatever its outputs.
"""

from __future__ import annotations

import json
from enum import Enum
from importlib.resources import files
from pathlib import Path
from typing import Any

from toolloom.pipeline.store.files import explain, write_lines
from toolloom.schemas import JsonObject, digest

NAME = "rejected_samples.ipynb"


class Copied(Enum):
    """What became of the copy; the value says it to the user."""

    MADE = "It is a new copy of toolloom's notebook: change it as you like."
    KEPT = "It is your copy, as you left it."
    RENEWED = "Your copy was of an older notebook and unchanged: it is renewed."
    EDITED = (
        "It is your own version of an older notebook, and is kept; move or rename it, and the "
        "same command makes a copy of today's."
    )


def copy_notebook(outputs: Path) -> tuple[Path, Copied]:
    """Put the notebook into `<outputs>/notebooks/`. An edited copy stays. Raises StoreError."""
    path = outputs / "notebooks" / NAME
    shipped: JsonObject = json.loads(
        files("toolloom.pipeline.pages.notebooks").joinpath(NAME).read_bytes()
    )
    now = _cells(shipped)
    try:
        there = path.read_bytes()
    except FileNotFoundError:
        _write(path, shipped, now)
        return path, Copied.MADE
    except OSError as error:
        raise explain(path, error, "read") from error
    found, made_of = _told(there)
    if made_of == now or found == now:
        return path, Copied.KEPT
    if found == made_of:
        _write(path, shipped, now)
        return path, Copied.RENEWED
    return path, Copied.EDITED


def write_settings(outputs: Path) -> Path:
    """A folder for JUPYTER_CONFIG_PATH. JupyterLab would ask each user whether to fetch news."""
    folder = outputs / "notebooks" / ".jupyter"
    settings = {"@jupyterlab/apputils-extension:notification": {"fetchNews": "false"}}
    path = folder / "labconfig" / "default_setting_overrides.json"
    write_lines(path, [json.dumps(settings).encode() + b"\n"])
    return folder


def _write(path: Path, notebook: JsonObject, made_of: str) -> None:
    metadata = {**notebook["metadata"], "toolloom": {"made_of": made_of}}
    text = json.dumps({**notebook, "metadata": metadata}, indent=1, ensure_ascii=False)
    write_lines(path, [text.encode(), b"\n"])


def _told(content: bytes) -> tuple[str, str]:
    """The hash of a copy's cells and of those it was made of; of what is no notebook neither."""
    try:
        notebook = json.loads(content)
        return _cells(notebook), str(notebook["metadata"]["toolloom"]["made_of"])
    except (ValueError, KeyError, TypeError, AttributeError):
        return "unknown", ""


def _cells(notebook: Any) -> str:
    """The hash of what the cells say, without what came out of them."""
    told = [(cell["cell_type"], "".join(cell["source"])) for cell in notebook["cells"]]
    return digest([list(one) for one in told])
