"""The notebook of rejected samples, as a script and as a notebook of equal content; and its copies.

A copy belongs to its user: once made it is never written to. Its name has the hash of the cells
that it was made of, so that another toolloom's notebook gets a copy of its own beside it.
"""

from __future__ import annotations

import json
from importlib.resources import files
from pathlib import Path

from toolloom.pipeline.store.files import write_lines
from toolloom.schemas import digest

NAME = "rejected_samples"


def copy_notebook(outputs: Path) -> tuple[Path, bool]:
    """The copy in `<outputs>/notebooks/`, and whether it is new. Raises StoreError."""
    shipped = files(__name__).joinpath(f"{NAME}.ipynb").read_text(encoding="utf-8")
    cells = [[cell["cell_type"], "".join(cell["source"])] for cell in json.loads(shipped)["cells"]]
    path = outputs / "notebooks" / f"{NAME}-{digest(cells, 8)}.ipynb"
    if path.exists():
        return path, False
    write_lines(path, [shipped.encode()])
    return path, True


def write_settings(outputs: Path) -> Path:
    """A folder for JUPYTER_CONFIG_PATH. JupyterLab would ask each user whether to fetch news."""
    folder = outputs / "notebooks" / ".jupyter"
    settings = {"@jupyterlab/apputils-extension:notification": {"fetchNews": "false"}}
    path = folder / "labconfig" / "default_setting_overrides.json"
    write_lines(path, [json.dumps(settings).encode() + b"\n"])
    return folder
