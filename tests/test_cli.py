import io
import signal
import subprocess
import sys
from importlib.metadata import version
from pathlib import Path
from typing import Any

import jinja2
import pytest
from rich.console import Console
from support import toys
from support.processes import TOOLLOOM
from typer.testing import CliRunner, Result

from toolloom import FakeServer, prompts
from toolloom.cli import app
from toolloom.pipeline import run as runner
from toolloom.pipeline.pages.dialogue import rejected_view
from toolloom.pipeline.render.section import visible
from toolloom.pipeline.stage import Context, Stage
from toolloom.schemas import Outcome, Query, Reason

RECIPE = (
    "name: toy\nshard_size: 4\nqueries: {count: 21}\napis: {domains: 6}\n"
    "splits: {validation: 0, test_instruction: 0, test_tool: 0, test_category: 0}\n"
)


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A working folder with a recipe, in which toy stages stand in for the real ones."""
    (tmp_path / "toy.yaml").write_text(RECIPE)
    monkeypatch.chdir(tmp_path)
    use(monkeypatch, toys.test_queries)
    return tmp_path


def use(monkeypatch: pytest.MonkeyPatch, work: Any) -> None:
    stages = (*toys.STAGES[:2], Stage("tested", "tester", Query, toys.Sample, work))
    monkeypatch.setattr(runner, "STAGES", stages)


def call(*arguments: str) -> Result:
    return CliRunner().invoke(app, arguments)


def run_toy(*more: str) -> Result:
    return call("run", "toy.yaml", "--engine", "local", *more)


async def fail(query: Query, context: Context) -> Outcome:
    raise KeyError("a bug")


async def reject(query: Query, context: Context) -> Outcome:
    return Outcome((), (toys.rejected(query, "tested", Reason.UNHELPFUL_ANSWER),))


def test_a_run_tells_its_progress_and_once_more_asks_nothing(home: Path) -> None:
    """The summary is on standard output, the progress on standard error; the same command sums the
    finished run up again, and `--seed` replaces the recipe's."""
    ran = run_toy()
    assert ran.exit_code == 0
    assert "17 dialogues accepted, 0 with several user turns, from 5 categories" in ran.stdout
    assert "tested: 17 accepted, 2 rejected" in ran.stderr
    assert ran.stderr.count("writes hardly anything usable by itself") == 1  # its model is local
    again = run_toy().stdout
    assert "Published before, unchanged: toy/1.0.0" in again
    assert "0 requests sent" in again
    assert "New version: toy/1.0.1" in run_toy("--seed", "3").stdout


def test_nothing_accepted_is_exit_code_1(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The reasons are shown, and there is no dataset."""
    use(monkeypatch, reject)
    ran = run_toy()
    assert ran.exit_code == 1
    assert "unhelpful_answer" in ran.stdout
    assert "Nothing was accepted." in ran.stderr
    assert not (home / "outputs" / "datasets").exists()


def test_a_bug_shows_its_traceback(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What is not the user's doing is not dressed up as if it were."""
    use(monkeypatch, fail)
    ran = run_toy()
    assert (ran.exit_code, ran.stderr.splitlines()[-1]) == (1, "KeyError: 'a bug'")
    assert "Traceback" in ran.stderr


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["validate", "."], "cannot be read (Is a directory)"),
        (["validate", sys.executable], "is not UTF-8 text"),
        (["preview", "wrong.yaml"], "did you mean `queries`?"),
        (["run", "toy.yaml", "--engine", "local", "-o", "toy.yaml"], "Choose another folder"),
        (["show"], "There is none yet."),
        (["rejected", "nothing"], "There is no run 'nothing'"),
    ],
)
def test_mistakes_are_exit_code_2(home: Path, arguments: list[str], message: str) -> None:
    """Each says what is wrong, in one message without a traceback."""
    (home / "wrong.yaml").write_text("name: toy\nquerys: {}\n")
    ran = call(*arguments)
    assert (ran.exit_code, ran.stdout) == (2, "")
    assert message in ran.stderr
    assert "Traceback" not in ran.stderr


BROKEN = {"domain.j2": "{% block user %}{{ nobody }}{% endblock %}"}


@pytest.mark.parametrize(
    ("served", "templates", "said"),
    [
        (None, {}, ["127.0.0.1:9/v1", "run the same command again"]),
        ({"models": ["tiny"]}, {}, ["fake", "tiny"]),
        (None, BROKEN, ["prompts/domain.j2", "'nobody' is undefined"]),
    ],
    ids=["a dead endpoint", "a model that is not there", "an undefined variable"],
)
def test_what_stops_a_run_is_one_message(
    served: dict[str, Any] | None,
    templates: dict[str, str],
    said: list[str],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Exit code 2, what is wrong with what to do."""
    known = prompts.environment(prompts.FOLDER)
    loaders = [jinja2.DictLoader(templates), known.loader]
    monkeypatch.setattr(known, "loader", jinja2.ChoiceLoader(loaders))
    with FakeServer(**(served or {})).serve_in_thread() as server:
        address = server.base_url if served else "http://127.0.0.1:9/v1"
        model = f"model: {{base_url: '{address}', model: fake, retry: {{tries: 2}}}}\n"
        (tmp_path / "toy.yaml").write_text(RECIPE + model)
        ran = call("run", str(tmp_path / "toy.yaml"), "--engine", "local", "-o", str(tmp_path))
    [message] = [
        line
        for line in ran.stderr.splitlines()
        if line and not line.startswith(("Run ", "domains: "))
    ]
    assert ran.exit_code == 2
    assert all(words in message for words in said)


def test_validate_names_keys_that_are_not_set(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A key that will be missing is a note before it is an error."""
    monkeypatch.delenv("SOME_KEY", raising=False)
    model = "model: {base_url: 'https://host/v1', key_env: SOME_KEY}\n"
    (home / "toy.yaml").write_text(RECIPE + model)
    assert "SOME_KEY is not set" in call("validate", "toy.yaml").stdout


def test_preview_prints_dialogues_and_keeps_nothing(home: Path) -> None:
    """Rows and rejects are printed so that a person can judge them."""
    seen = call("preview", "toy.yaml", "-n", "2")
    assert seen.exit_code == 0
    assert '→ weather_current({"city": "Zürich"})' in seen.stdout
    assert "2 accepted (shown last)" in seen.stdout
    assert not (home / "outputs").exists()


def test_show_and_rejected_print_what_a_curator_needs(home: Path) -> None:
    """Runs and datasets are shown alike; of what fell the finding, the dialogue and the raw
    response, filtered by reason and agent."""
    run_toy()
    for what in ("latest", "toy-", "toy", "toy/1.0.0", "outputs/datasets/toy/latest"):
        seen = call("show", what)
        assert seen.exit_code == 0
        assert "17 dialogues accepted" in seen.stdout
        assert "It is 7 °C." in seen.stdout
    seen = call("rejected", "latest", "--reason", "ungrounded_argument", "--agent", "tester")
    assert "toy, message 1: ungrounded_argument: A toy fault." in seen.stdout
    assert '{"raw": "answer"}' in seen.stdout
    assert "2 of 2 matching rejected records" in seen.stdout
    assert "0 of 0 matching" in call("rejected", "latest", "--agent", "domain").stdout


def test_text_of_models_cannot_command_the_terminal() -> None:
    """Escape sequences, markup and characters that reorder text are shown, not obeyed."""
    assert visible("\x1b[31m\r\u202eab\u200f\n") == "\\x1b[31m\\r\\u202eab\\u200f\n"
    query = toys.query(text="\x1b]0;x\x07[red]r[/] :bomb:")
    evil = toys.rejected(query, "queries", Reason.NEAR_DUPLICATE)
    console = Console(force_terminal=True, width=200, record=True, file=io.StringIO())
    console.print(rejected_view(evil.model_dump(mode="json")))
    shown = console.export_text()
    assert "[red]r[/] :bomb:" in shown
    assert "\x07" not in shown


def test_help_is_quick() -> None:
    """Help loads none of the heavy libraries."""
    code = (
        "import sys; from toolloom import cli; "
        "print({'prefect', 'datasets', 'openai', 'pandas', 'pydantic'} & {*sys.modules})"
    )
    ran = subprocess.run([sys.executable, "-c", code], stdout=-1, check=True)
    assert ran.stdout == b"set()\n"


@pytest.mark.parametrize("command", [["verify", "toy", "--json", "-"], ["run", "--help"]])
def test_a_closed_pipe_is_no_error(home: Path, command: list[str]) -> None:
    """`toolloom verify | head -1` ends quietly, with the status of an end by SIGPIPE."""
    run_toy()
    with subprocess.Popen([*TOOLLOOM, *command], stdout=-1, stderr=-1, cwd=home) as process:
        assert process.stdout and process.stderr
        process.stdout.close()
        assert process.stderr.read() == b""
    assert process.returncode == 128 + signal.SIGPIPE


def test_the_version_is_told() -> None:
    """As everywhere: `toolloom --version`."""
    assert call("--version").stdout == f"toolloom {version('toolloom')}\n"
