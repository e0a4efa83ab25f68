"""What goes to standard error, in both forms."""

from __future__ import annotations

import json
import logging
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from support import toys
from typer.testing import CliRunner, Result

from toolloom.cli import app
from toolloom.llm.messages import note
from toolloom.pipeline import run as runner
from toolloom.pipeline.stage import Context, Stage
from toolloom.pipeline.store.secrets import SHORTEST, Secrets
from toolloom.schemas import EndpointDown, Outcome, Query

RECIPE = "name: toy\nshard_size: 4\nqueries: {count: 21}\napis: {domains: 6}\n"
Run = Callable[..., Result]


async def noting(query: Query, context: Context) -> Outcome:
    note(logging.DEBUG, "sent", request="r1")
    if query.id == "q1":
        note(logging.WARNING, "odd", "an \x1b[31modd answer", request="r2")
        logging.getLogger("other").warning("a word of %s", "another library")
    return await toys.test_queries(query, context)


async def failing(query: Query, context: Context) -> Outcome:
    raise EndpointDown("nobody answers")


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Run:
    """Runs toy stages, the last of which does `work`."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "toy.yaml").write_text(RECIPE)

    def call(*arguments: str, work: Any = noting) -> Result:
        last = Stage("tested", "tester", Query, toys.Sample, work)
        monkeypatch.setattr(runner, "STAGES", (*toys.STAGES[:2], last))
        return CliRunner().invoke(app, ["run", "toy.yaml", "--engine", "local", *arguments])

    return call


def lines(ran: Result) -> list[dict[str, Any]]:
    return [json.loads(line) for line in ran.stderr.splitlines()]


def test_every_line_is_an_object(run: Run) -> None:
    """With --log-json standard error holds nothing else; the results stay on standard output. A
    record names what is worked on, and the last figures are those of the run."""
    ran = run("--log-json")
    told = {line["event"]: line for line in lines(ran)}
    assert all(list(line)[:4] == ["time", "level", "event", "message"] for line in lines(ran))
    assert next(iter(told)) == "run"
    assert {*told} == {"run", "model", "planned", "progress", "stage", "odd", "log"}
    assert "17 dialogues accepted" in ran.stdout
    odd, last = told["odd"], told["progress"]
    assert odd["run"].startswith("toy-")
    named = [odd[name] for name in ("level", "stage", "agent", "record", "request")]
    assert named == ["warning", "tested", "tester", "q1", "r2"]
    counts = [(s["stage"], s["done"], s["accepted"], s["rejected"]) for s in last["stages"]]
    assert counts == [("domains", 6, 5, 1), ("queries", 21, 19, 2), ("tested", 19, 17, 2)]
    assert last["requests"] == 0
    assert "cost" not in last


@pytest.mark.parametrize(("level", "seen"), [("debug", True), ("info", False)])
def test_the_level_decides_what_is_logged(run: Run, level: str, seen: bool) -> None:
    """Requests and shards are told at debug only."""
    events = {line["event"] for line in lines(run("--log-json", "--log-level", level))}
    assert ({"sent", "shard"} <= events) is seen


def test_an_error_is_an_object_too(run: Run) -> None:
    """Programs that read the log learn why it ended."""
    ran = run("--log-json", work=failing)
    assert ran.exit_code == 2
    assert lines(ran)[-1]["event"] == "error"
    assert lines(ran)[-1]["message"] == "nobody answers"


def test_people_see_warnings(run: Run) -> None:
    """A warning stands between the lines of progress, and cannot command the terminal."""
    said = run().stderr
    expected = "warning: an \\x1b[31modd answer (stage tested, agent tester, record q1, request r2)"
    assert expected in said.splitlines()
    assert "warning: a word of another library" in said
    assert "sent" not in said


def test_a_command_leaves_logging_as_it_was(run: Run) -> None:
    """Whoever calls it from Python keeps the handlers and levels of before."""
    root, ours = logging.getLogger(), logging.getLogger("toolloom")
    before = (root.handlers[:], root.level, ours.level)
    run("--log-json", "--log-level", "debug")
    assert (root.handlers, root.level, ours.level) == before


def test_secrets_are_struck_out_of_texts_and_of_nothing_else(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Keys that are told, those of the environment, and whatever follows `Bearer`."""
    secrets = Secrets()
    secrets.learn(["a-known-key", "a-known-key-and-more", "x" * (SHORTEST - 1)])
    hidden = secrets.hide("a-known-key-and-more, a-known-key, xxxxx, Authorization: Bearer abcdef1")
    assert hidden == "[key], [key], xxxxx, Authorization: [key]"
    monkeypatch.setenv("SOME_API_KEY", "known-by-its-name")  # a variable is secret by its name
    assert Secrets().hide("is known-by-its-name") == "is [key]"
