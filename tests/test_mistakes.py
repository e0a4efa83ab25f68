"""What goes wrong from the command line ends in one plain message and an exit code."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from support.processes import TOOLLOOM

from toolloom.llm import FakeServer

RECIPE = """
name: wrong
model: {base_url: "%s", model: fake, retry: {tries: 2}}
apis: {domains: 2}
queries: {count: 4}
"""
DEAD = "http://127.0.0.1:9/v1"
BROKEN_TEMPLATE = """
from toolloom import prompts
known = prompts.environment(prompts.FOLDER).loader
import jinja2
broken = jinja2.DictLoader({"domain.j2": "{% block user %}{{ nobody }}{% endblock %}"})
prompts.environment(prompts.FOLDER).loader = jinja2.ChoiceLoader([broken, known])
from toolloom.cli import main
main()
"""


def run(folder: Path, base_url: str, *command: str, **environment: str) -> Any:
    """`toolloom run` in a process of its own; never a traceback."""
    (folder / "wrong.yaml").write_text(RECIPE % base_url)
    options = ["run", "wrong.yaml", "--engine", "local"]
    told = {k: v for k, v in os.environ.items() if k != "OPENAI_API_KEY"} | environment
    ran = subprocess.run(
        [*(command or TOOLLOOM), *options], cwd=folder, env=told, capture_output=True, text=True
    )
    assert "Traceback" not in ran.stdout + ran.stderr
    return ran


def said(ran: Any) -> str:
    """The one message, without the lines that say what is being run."""
    lines = [x for x in ran.stderr.splitlines() if x and not x.startswith(("Run ", "domains: "))]
    assert len(lines) == 1, ran.stderr
    return lines[0]


def test_a_dead_endpoint(tmp_path: Path) -> None:
    """Nobody answers: the address, and that the same command goes on."""
    ran = run(tmp_path, DEAD)
    assert ran.returncode == 2
    assert DEAD in said(ran)
    assert "run the same command again" in said(ran)


def test_a_wrong_key(tmp_path: Path) -> None:
    """The variable that holds the key is named, the key is not shown."""
    with FakeServer(key="right").serve_in_thread() as server:
        ran = run(tmp_path, server.base_url, OPENAI_API_KEY="sk-wrong")
    assert ran.returncode == 2
    assert "OPENAI_API_KEY" in said(ran)
    assert "sk-wrong" not in ran.stdout + ran.stderr


def test_a_model_that_does_not_exist(tmp_path: Path) -> None:
    """The models that are there are offered."""
    with FakeServer(models=["tiny", "large"]).serve_in_thread() as server:
        ran = run(tmp_path, server.base_url)
    assert ran.returncode == 2
    assert "fake" in said(ran)
    assert "tiny" in said(ran)


def test_an_undefined_template_variable(tmp_path: Path) -> None:
    """Template and variable are named."""
    ran = run(tmp_path, DEAD, sys.executable, "-c", BROKEN_TEMPLATE)
    assert ran.returncode == 2
    assert "prompts/domain.j2" in said(ran)
    assert "'nobody' is undefined" in said(ran)


def test_outputs_that_cannot_be_written(tmp_path: Path) -> None:
    """The folder is named, with what to do."""
    (tmp_path / "outputs").write_text("a file, not a folder")
    ran = run(tmp_path, DEAD)
    assert ran.returncode == 2
    assert "--outputs" in said(ran)


@pytest.mark.parametrize("answer", ["", "no json { here"])
def test_a_model_that_never_makes_sense(tmp_path: Path, answer: str) -> None:
    """Everything is rejected with its reason, the run ends, and the exit code is 1."""
    with FakeServer(lambda body: answer).serve_in_thread() as server:
        ran = run(tmp_path, server.base_url)
    assert ran.returncode == 1
    assert "unusable_response" in ran.stdout
    assert said(ran).startswith("Nothing was accepted. `toolloom rejected wrong-")
