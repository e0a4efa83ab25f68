"""A key is read from the environment and goes to the endpoint: it is found nowhere else."""

from __future__ import annotations

import json
import os
import sqlite3
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
from support.processes import TOOLLOOM

from toolloom import FakeServer
from toolloom.llm.scripted import Scripted, ScriptedFailure, ScriptedReply, improvise
from toolloom.schemas import JsonObject, digest

KEY = "sk-toolloom-0123456789abcdefghij"
WRONG = "sk-wrong-9876543210zyxwvutsrq"
DEBUG = ("--log-json", "--log-level", "debug")
RUN = [*TOOLLOOM, "run", "leaky.yaml"]
CRASH = """
from toolloom.cli import main
from toolloom.llm import client as connection
connection.fault = lambda status, headers, body, *more: {}[body]
main()
"""
RECIPE = """
name: leaky
model: {base_url: "%s", model: fake}
apis: {domains: 2, per_domain: 3, worlds: false}
queries: {count: 8}
"""


@pytest.fixture
def told(tmp_path: Path) -> Iterator[Counter[str]]:
    """What the endpoint that the recipe names has told: it repeats the key in one failure of each
    kind, and in some answers."""
    told = Counter[str]()

    def script(body: JsonObject) -> Scripted:
        chance = int(digest([body["messages"], body["seed"]]), 16) % 12
        kind = {0: "fails", 1: "is refused", 2: "says it", 3: "is cut off"}.get(chance, "")
        told[kind] += 1
        error = json.dumps({"error": {"message": f"the key {KEY} is fine"}})
        if kind == "is refused" or (kind == "fails" and told[kind] % 2):
            return ScriptedFailure(400 if kind == "is refused" else 500, body=error)
        if kind in ("says it", "is cut off"):
            reason = "length" if kind == "is cut off" else "stop"
            return ScriptedReply(f"Authorization: Bearer {KEY}", reason)
        return improvise(body)

    with FakeServer(script, key=KEY).serve_in_thread() as serving:
        (tmp_path / "leaky.yaml").write_text(RECIPE % serving.base_url)
        yield told


def run(folder: Path, key: str, *arguments: str, command: list[str] = RUN) -> tuple[int, str]:
    """The status of a run, and all that it printed."""
    environment = {**os.environ, "OPENAI_API_KEY": key, "OPENAI_LOG": "debug"}
    options: Any = {"cwd": folder, "env": environment, "text": True}
    options |= {"stdout": subprocess.PIPE, "stderr": subprocess.STDOUT}
    ran = subprocess.run([*command, "--engine", "local", *arguments], **options)
    return ran.returncode, ran.stdout


def kept(outputs: Path) -> Iterator[tuple[Path, str]]:
    """The text of every file, of databases and tables also as it is read from them."""
    for path in outputs.rglob("*"):
        if path.is_file():
            yield path, path.read_bytes().decode("utf-8", "replace")
        if path.suffix == ".sqlite":
            with sqlite3.connect(path) as database:
                rows = database.execute("SELECT * FROM responses").fetchall()
            database.close()
            yield path, repr(rows)
        if path.suffix == ".parquet":
            yield path, repr(pq.read_table(path).to_pylist())


def test_a_run_keeps_and_prints_no_key(told: Counter[str], tmp_path: Path) -> None:
    """Neither the log of the client library nor what the endpoint repeats has it."""
    status, printed = run(tmp_path, KEY, *DEBUG)
    assert status == 0, printed
    assert KEY not in printed
    assert "Bearer sk-" not in printed
    assert "HTTP Request: POST" in printed  # by the library that sends the key
    found = [path for path, text in kept(tmp_path / "outputs") if KEY in text]
    assert found == []
    assert {*told} >= {"fails", "is refused", "says it", "is cut off"}


@pytest.mark.usefixtures("told")
def test_a_wrong_key_is_not_repeated(tmp_path: Path) -> None:
    """The endpoint says which key it does not accept; we name its variable."""
    status, printed = run(tmp_path, WRONG, *DEBUG)
    assert status == 2
    assert WRONG not in printed
    assert "does not accept the key in OPENAI_API_KEY" in printed
    assert [path for path, text in kept(tmp_path / "outputs") if WRONG in text] == []


@pytest.mark.slow
@pytest.mark.usefixtures("told")
def test_a_crash_shows_its_traceback_without_the_key(tmp_path: Path) -> None:
    """What the endpoint said, which repeats the key, is part of the traceback."""
    command = [sys.executable, "-c", CRASH, "run", "leaky.yaml"]
    status, printed = run(tmp_path, WRONG, command=command)
    assert status == 1
    assert "KeyError" in printed
    assert "Incorrect API key provided: [key]" in printed
    assert WRONG not in printed
