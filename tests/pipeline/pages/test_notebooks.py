import json
from pathlib import Path

from toolloom.pipeline.pages.notebooks import copy_notebook


def test_a_copy_is_made_and_never_written_to_again(tmp_path: Path) -> None:
    """The first start makes it; outputs and edits of its user stay, whatever he made of it."""
    path, is_new = copy_notebook(tmp_path)
    assert is_new
    assert json.loads(path.read_bytes())["cells"]
    path.write_bytes(b"mine")
    assert copy_notebook(tmp_path) == (path, False)
    assert path.read_bytes() == b"mine"
