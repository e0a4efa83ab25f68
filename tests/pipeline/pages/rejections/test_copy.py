import json
from pathlib import Path

import pytest

from toolloom.pipeline.pages.rejections.copy import Copied, copy_notebook
from toolloom.schemas import digest


def edit(path: Path, made_of: str | None = None, source: str | None = None) -> bytes:
    """Change a copy as a user or an older toolloom would have; its bytes."""
    notebook = json.loads(path.read_bytes())
    if source is not None:
        notebook["cells"][0]["source"] = source
    if made_of == "itself":
        cells = [[cell["cell_type"], "".join(cell["source"])] for cell in notebook["cells"]]
        made_of = digest(cells)
    if made_of is not None:
        notebook["metadata"]["toolloom"]["made_of"] = made_of
    path.write_text(json.dumps(notebook))
    return path.read_bytes()


def test_a_copy_is_made_and_kept(tmp_path: Path) -> None:
    """The first start makes it; outputs and edits of its user stay."""
    path, copied = copy_notebook(tmp_path)
    assert copied is Copied.MADE
    notebook = json.loads(path.read_bytes())
    notebook["cells"][1]["outputs"] = [{"output_type": "stream", "name": "stdout", "text": "x"}]
    path.write_text(json.dumps(notebook))
    edited = edit(path, source="Mine.")
    assert copy_notebook(tmp_path) == (path, Copied.KEPT)
    assert path.read_bytes() == edited


def test_an_old_copy_is_renewed_if_nobody_edited_it(tmp_path: Path) -> None:
    """What a former toolloom wrote, and is still as it came, gives way to today's."""
    path, _ = copy_notebook(tmp_path)
    fresh = path.read_bytes()
    edit(path, source="Of a former toolloom.", made_of="itself")
    assert copy_notebook(tmp_path) == (path, Copied.RENEWED)
    assert path.read_bytes() == fresh


@pytest.mark.parametrize("content", [b"no notebook", b"[]", b'{"cells": 1, "metadata": {}}', None])
def test_an_edited_copy_is_never_replaced(content: bytes | None, tmp_path: Path) -> None:
    """Neither an edited copy of an older notebook nor what is no notebook at all."""
    path, _ = copy_notebook(tmp_path)
    if content is None:
        content = edit(path, source="Mine.", made_of="an older one")
    path.write_bytes(content)
    assert copy_notebook(tmp_path) == (path, Copied.EDITED)
    assert path.read_bytes() == content
