"""The commands for worlds, run as users run them."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest
import yaml
from support import lending
from support.author import Author
from support.commands import call
from typer.testing import CliRunner

from toolloom import FakeServer
from toolloom.cli import app
from toolloom.pipeline.worlds import soundness
from toolloom.pipeline.worlds.library import apis_of

SHOP = Path(__file__).parents[2] / "recipes" / "worlds" / "shop.yaml"
SHIPPED = sorted(path for path in SHOP.parent.glob("*.yaml") if "scripts" not in path.name)
LIBRARY = Path(__file__).parents[1] / "support" / "library.yaml"
RENEWAL = ("--seed", 4, "--task", 1)  # a task that looks a loan up and renews it


@pytest.fixture
def few_calls(monkeypatch: pytest.MonkeyPatch) -> None:
    """The library is small: fewer random calls reach all of it."""
    monkeypatch.setattr(soundness, "WALKS", 30)
    monkeypatch.setattr(soundness, "OF_MUTANTS", (3, 40))


@pytest.mark.slow
@pytest.mark.parametrize("world", SHIPPED, ids=[path.stem for path in SHIPPED])
def test_a_shipped_world_is_sound(world: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Every promise kept, nothing unreached, 85 of 100 planted faults found even by fewer calls."""
    monkeypatch.setattr(soundness, "OF_MUTANTS", (4, 60))
    result = call("world", "check", world)
    assert result.exit_code == 0, result.output[-2000:]
    assert float(re.findall(r"(?m)^([\d.]+) of \d+ planted", result.output)[0]) >= 0.85


@pytest.mark.usefixtures("few_calls")
def test_findings_are_told_and_no_fault_is_planted(tmp_path: Path) -> None:
    """An operation that breaks its promise: what, with an example, and exit code 1."""
    broken = tmp_path / "library.yaml"
    broken.write_text(LIBRARY.read_text().replace("renewals: renewals + 1", "renewals: renewals"))
    result = call("world", "check", broken)
    assert result.exit_code == 1
    assert "After renew" in result.output
    assert "Planted faults" not in result.output


@pytest.mark.parametrize(
    ("old", "new", "says"),
    [
        ("loan.renewals < 2\n        else", "loan.renewal < 2\n        else", "line 53"),
        ("world: library", "world: [library", "not valid YAML"),
    ],
)
def test_a_mistake_is_one_message(tmp_path: Path, old: str, new: str, says: str) -> None:
    """With its line and what to do, exit code 2, and no traceback."""
    broken = tmp_path / "library.yaml"
    broken.write_text(LIBRARY.read_text().replace(old, new))
    result = call("world", "check", broken)
    assert result.exit_code == 2
    assert says in result.output
    assert "Traceback" not in result.output


@pytest.mark.slow
@pytest.mark.parametrize("world", SHIPPED, ids=[path.stem for path in SHIPPED])
def test_each_script_is_shown_in_several_states(world: Path) -> None:
    """What a proof-reader needs: the same words beside other values; no policy is broken."""
    result = call("world", "proof", world, "-n", 2)
    assert result.exit_code == 0, result.output[-500:]
    assert result.output.count("[202") >= 2 * result.output.count("\n# ") + 2


def test_one_plays_in_a_world() -> None:
    """A result, what it changed, the way back, and an error for what is not there."""
    lines = "list_holds\npay_fines amount=0.5\nback\nburn {x\n\n"
    result = CliRunner().invoke(app, ["world", "play", str(LIBRARY), "--seed", "3"], input=lines)
    assert result.exit_code == 0
    assert "✗ invalid_arguments" in result.output
    assert "There is no operation 'burn'" in result.output


BREAKS = """
- name: at the desk
  find:
    - l: loans where member_id = me and renewals = 0
    - need: me.fines > 5 and me.fines <= 10
    - need: count(holds where book_id = l.book_id and status = 'waiting') = 0
  turns:
    - user: "Renew {l.book.title}."
    - done: renew(loan_id = l.loan_id)
    - assistant: "It is due {done.due|on}."
- name: never
  find: [{x: books where title = 'Ulysses'}]
  turns: [{user: "Hello?"}]
"""


def test_scripts_that_break_a_policy_or_run_dry_are_named(tmp_path: Path) -> None:
    """What a reader would find in the rows, said before anybody has to read them."""
    world = tmp_path / "library.yaml"
    world.write_text(LIBRARY.read_text())
    world.with_suffix(".scripts.yaml").write_text(BREAKS)
    result = call("world", "proof", world, "-n", 1)
    assert result.exit_code == 1
    assert "Run dry: never." in result.output
    assert "at the desk: Members with fines above 5 renew at the desk." in result.output


def test_a_task_is_shown_with_its_solution() -> None:
    """Below the state that it begins in: what is said, the calls, what changes or is told."""
    result = call("world", "show", LIBRARY, "--seed", 3, "--task", 2)
    assert result.exit_code == 0
    state, _, task = result.output.partition("\nUser: ")
    assert "members, 7 rows" in state
    assert " → " in task or "does not call" in task


def asking(home: Path, script: Any, *command: Any) -> Any:
    """What a command prints, of a model that a script plays."""
    home.mkdir(exist_ok=True)
    with (server := FakeServer(script)).serve_in_thread():
        model = {"base_url": server.base_url, "model": "large"}
        (home / "recipe.yaml").write_text(yaml.safe_dump({"name": "any", "model": model}))
        return call("world", *command, "--recipe", home / "recipe.yaml", "--outputs", home)


def written(home: Path, author: Author, *more: Any) -> Any:
    """What `toolloom world write` prints, of a model that the author plays."""
    return asking(home, author, "write", "a city library", *more)


@pytest.mark.usefixtures("few_calls")
def test_a_world_is_written_for_a_domain(tmp_path: Path) -> None:
    """Its file can be checked and played in; asked again the answers are there, and a file that
    somebody changed is not written over."""
    result = written(tmp_path, Author())
    file = tmp_path / "worlds" / "library.yaml"
    assert result.exit_code == 0, result.output
    assert "share of planted faults found" in result.output and str(file) in result.output
    assert call("world", "check", "--no-mutants", file).exit_code == 0
    file.write_text(f"# mine\n{file.read_text()}")
    result = written(tmp_path, Author())
    assert result.exit_code == 2 and "--to" in result.output and "# mine" in file.read_text()
    other = tmp_path / "other.yaml"
    assert written(tmp_path, Author(), "--to", other).exit_code == 0 and other.exists()


@pytest.mark.usefixtures("few_calls")
def test_what_is_dropped_is_kept_with_its_answers(tmp_path: Path) -> None:
    """And told, with the reason; a domain of which nothing comes ends with exit code 1."""
    change = {"renew": lambda answer: {**answer, "steps": [{"delete": "loan"}]}}
    result = written(tmp_path, Author({**change, "mend renew": lambda _: "no"}))
    assert result.exit_code == 0 and "renew is dropped" in result.output
    kept = (tmp_path / "worlds" / "library.rejected.jsonl").read_text().splitlines()
    assert [json.loads(line)["record"]["operation"] for line in kept] == ["renew"]
    result = written(tmp_path / "none", Author({"tables": lambda _: "I cannot help with that."}))
    assert result.exit_code == 1 and "world_unsound" in result.output
    (left,) = (tmp_path / "none" / "worlds").glob("*.rejected.jsonl")
    assert "I cannot help with that." in left.read_text()


def test_a_small_model_writes_no_world() -> None:
    """The embedded one is told apart before anything is asked."""
    result = call("world", "write", "a city library")
    assert result.exit_code == 2 and "--recipe" in result.output


@pytest.mark.usefixtures("few_calls")
def test_a_world_is_written_from_a_document(tmp_path: Path) -> None:
    """A list of tools, whose descriptions and names the world has; what is left out is told."""
    tools = [api.as_tool() for api in apis_of(lending.world())]
    extra = {"type": "function", "function": {"name": "export", "description": "A file."}}
    (tmp_path / "tools.json").write_text(json.dumps([*tools, extra]))
    told = {"tables": lambda answer: {**answer, "left_out": {"export": "returns a file"}}}
    result = asking(tmp_path, Author(told), "write", "--from", tmp_path / "tools.json")
    assert result.exit_code == 0, result.output
    assert "1 of the document left out, returns a file: export." in result.output
    assert call("world", "check", "--no-mutants", tmp_path / "worlds/library.yaml").exit_code == 0


@pytest.mark.parametrize(
    ("given", "says"),
    [
        ((), "--from"),
        (("--from", "nowhere.yaml"), "does not exist"),
        (("--from", SHOP), "holds no APIs that can be read"),
    ],
)
def test_a_document_that_is_none_is_told(given: tuple[Any, ...], says: str) -> None:
    """In a sentence, with exit code 2, before any model is asked."""
    result = call("world", "write", *given)
    assert result.exit_code == 2 and says in " ".join(result.output.split())
    assert "Traceback" not in result.output


@pytest.mark.usefixtures("few_calls")
def test_a_world_without_tasks_is_a_finding(tmp_path: Path) -> None:
    """With the reason: here nothing shows the keys that the change takes."""
    raw = lending.raw_library()
    renew = {"renew": raw["operations"]["renew"]}
    del renew["renew"]["steps"][1]["fix"]
    raw |= {"operations": renew, "promises": {"renew": raw["promises"]["renew"]}, "policies": []}
    (tmp_path / "bare.yaml").write_text(yaml.safe_dump(raw))
    result = call("world", "check", tmp_path / "bare.yaml")
    assert result.exit_code == 1
    assert "No task can be drawn: renew takes loan_id, and no read shows a key" in result.output


def renewing(said: str, called: str = "renew(loan_id = x.loan_id)") -> Any:
    """A model that writes a script of a renewal."""
    fit = "count(loans where member_id = me and book_id = l.book_id) = 1 and me.fines <= 5"
    waits = "book_id = l.book_id and status = 'waiting'"
    script = {
        "name": "one more time",
        "voice": "terse",
        "find": [
            {"l": "loans where member_id = me and renewals < 2"},
            {"need": f"{fit} and count(holds where {waits}) = 0"},
        ],
        "turns": [
            {"user": "Renew {l.book.title}."},
            {"mine": "list_loans(title = l.book.title)"},
            {"x": "first(mine where loan_id = l.loan_id)"},
            {"done": called},
            {"assistant": said},
        ],
    }
    return lambda body: yaml.safe_dump(script, sort_keys=False)


def test_a_script_is_written_and_added(tmp_path: Path) -> None:
    """It makes the task's calls, is true in other states, and says who wrote it."""
    world = tmp_path / "library.yaml"
    world.write_text(LIBRARY.read_text())
    command = ("script", world, *RENEWAL, "--write")
    right = "It is due {done.due|date} now, and not {x.due|date}."
    result = asking(tmp_path, renewing(right), *command)
    assert result.exit_code == 0, result.output
    (script,) = yaml.safe_load(world.with_suffix(".scripts.yaml").read_text())
    assert script["written"] == "large"
    again = asking(tmp_path / "again", renewing(right), *command)
    assert again.exit_code == 1 and "a name that no other script has" in again.output


@pytest.mark.parametrize(
    ("model", "says"),
    [
        (renewing("{x.titles} is yours."), "turns[4]"),
        (renewing("It is due {done.due|date} now, which costs $7."), "Played in"),
        (renewing("Done.", "list_holds()"), "and the task"),
        (renewing("Done.", "renew(loan_id = x.loan_id) fails twice"), "`turns[3]` does not hold"),
        (lambda body: "I cannot do that.", "mapping"),
    ],
)
def test_a_script_that_is_not_true_is_none(tmp_path: Path, model: Any, says: str) -> None:
    """A name that there is not, words of one state, other calls than the task's, no script."""
    result = asking(tmp_path, model, "script", LIBRARY, *RENEWAL)
    assert result.exit_code == 1 and says in result.output, result.output
