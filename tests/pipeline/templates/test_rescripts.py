"""Files of scripts, to which those of dialogues are added."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml

from toolloom.pipeline.templates.rescripts import append
from toolloom.schemas import WorldError

SCRIPT = {"name": "new", "turns": [{"user": "yes"}]}


@pytest.mark.parametrize("text", ["", "# mine\n", "- name: old\n  turns: []\n", "---\n- name: old"])
def test_a_script_is_added_once(tmp_path: Path, text: str) -> None:
    """After what the file has, which stays as it is written."""
    file = tmp_path / "a.yaml"
    file.write_text(text)
    assert [append(file, [SCRIPT]), append(file, [SCRIPT])] == [1, 0]
    assert file.read_text().startswith(text)
    assert yaml.safe_load(file.read_text()) == [*(yaml.safe_load(text) or []), SCRIPT]


@pytest.mark.parametrize(
    "text",
    [
        "world: shop\nentities: {}\n",
        "hello\n",
        "[{name: old, turns: []}]\n",
        "  - name: old\n    turns: []\n",
        "- name: old\n...\n",
        "- name: old\n  about: |+\n    kept\n\n\n",
    ],
)
def test_a_file_to_which_nothing_can_be_added_stays(tmp_path: Path, text: str) -> None:
    """A world, a text, and lists that would be no lists with a script after them."""
    file = tmp_path / "a.yaml"
    file.write_text(text)
    with pytest.raises(WorldError, match=r"a\.yaml: .* Choose another file"):
        append(file, [SCRIPT])
    assert [file.read_text()] == [each.read_text() for each in tmp_path.iterdir()] == [text]


def test_links_and_permissions_are_kept(tmp_path: Path) -> None:
    """What a link leads to is added to, with its mode; what is read-only is left alone."""
    file, link = tmp_path / "a.yaml", tmp_path / "b.yaml"
    file.write_text("- name: old\n")
    file.chmod(0o600)
    link.symlink_to(file)
    assert append(link, [SCRIPT]) == 1
    assert link.is_symlink() and file.stat().st_mode & 0o777 == 0o600
    file.chmod(0o444)
    with pytest.raises(WorldError, match="cannot be written"):
        append(link, [{**SCRIPT, "name": "newer"}])
