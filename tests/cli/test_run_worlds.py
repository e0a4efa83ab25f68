"""Mistakes in recipes with worlds, as users meet them: one message that says where and what to do."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
from support import lending
from support.commands import call

from toolloom.pipeline.worlds.library import shipped, world_of

RECIPE = "name: lent\nmodel: none\nworlds: {use: [%s], per_script: 1}\n"
NEVER = """
- name: never
  find: [{x: books where title = 'Ulysses'}]
  turns: [{user: "Is it in?"}, {assistant: "No."}]
"""


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with a world of the user's own, and a recipe of it."""
    monkeypatch.chdir(tmp_path)
    for path in lending.LIBRARY.parent.glob("library*.yaml"):
        shutil.copyfile(path, tmp_path / path.name)
    (tmp_path / "lent.yaml").write_text(RECIPE % "library.yaml")
    return tmp_path


def edit(path: Path, old: str, new: str) -> None:
    text = path.read_text()
    assert old in text
    path.write_text(text.replace(old, new))


def script(old: str, new: str) -> Callable[[Path], None]:
    return lambda home: edit(home / "library.scripts.yaml", old, new)


def world(old: str, new: str) -> Callable[[Path], None]:
    return lambda home: edit(home / "library.yaml", old, new)


def use(*names: str) -> Callable[[Path], object]:
    return lambda home: (home / "lent.yaml").write_text(RECIPE % ", ".join(names))


def without_scripts(home: Path) -> None:
    (home / "library.scripts.yaml").unlink()


def twins(home: Path) -> None:
    for path in home.glob("library*.yaml"):
        shutil.copyfile(path, home / path.name.replace("library", "other"))
    use("library.yaml", "other.yaml")(home)


def shared(home: Path) -> None:
    """Another world with the same tool and operations."""
    twins(home)
    other = home / "other.yaml"
    other.write_text(other.read_text().replace("world: library", "world: other"))


def bomb(home: Path) -> None:
    levels = "".join(f"a{n}: &a{n} [{f'*a{n - 1}, ' * 9}]\n" for n in range(1, 9))
    (home / "library.yaml").write_text(f"world: library\na0: &a0 [x]\n{levels}")


def bytes_of_it(home: Path) -> None:
    with (home / "library.scripts.yaml").open("a") as file:
        file.write("# filled up\n" * 100_000)


def held_out(home: Path) -> None:
    with (home / "lent.yaml").open("a") as file:
        file.write("splits: {test_category: 1000}\n")


MISTAKES: list[tuple[str, Callable[[Path], object], str]] = [
    ("near name", use("clinc"), "is neither a world that ships nor a file (looked for in /"),
    ("names that ship", use("zzzzzz"), "calendar, clinic"),
    ("a folder", use('"."'), "worlds.use: '.' is neither a world that ships nor a file"),
    ("no scripts", without_scripts, "library.yaml: has no scripts, and so no dialogues without"),
    (
        "slot",
        script('"Renew {l.book.title}."', '"Renew {l.book.titel}."'),
        "library.scripts.yaml has 1 mistake:\n  line 9: [0].turns[0].user: a row of books has no "
        "field `titel` in 'l.book.titel'; title can stand here.",
    ),
    ("condition", script("and me.fines <= 5\n", "and me.fine <= 5\n"), "line 6: [0].find[1].need"),
    ("call", script("- why: renew(", "- why: renevv("), "renevv"),
    (
        "never met",
        lambda home: (home / "library.scripts.yaml").write_text(NEVER),
        "worlds: nothing can be drawn in library: no state meets a script",
    ),
    ("two of one name", twins, "worlds.use: two of the worlds are called 'library': rename one."),
    ("one operation in two worlds", shared, "library and other both have the operation Library/"),
    ("bomb", bomb, "library.yaml: line 2: `&a0`: anchors and aliases are not read."),
    (
        "a million rows",
        world("rows: 7", "rows: 1000000"),
        "line 10: entities.members.rows: '1000000' is not a number of rows up to 200.",
    ),
    ("a file without end", bytes_of_it, "at most 1,000,000 are read. Split it."),
    (
        "not text",
        lambda home: (home / "library.yaml").write_bytes(b"a: \xff"),
        "no UTF-8 text: byte 3",
    ),
    ("rule", world("fines >= 0", "fines > 100"), "No row of members keeps `fines > 100`"),
    ("all held out", held_out, "splits: library would be held out, and nothing be left to train"),
]
WHEN_RUN = {"never met", "rule"}
"""What shows only when states are drawn."""


@pytest.mark.parametrize(
    ("name", "act", "says"), MISTAKES, ids=[name.replace(" ", "_") for name, _, _ in MISTAKES]
)
def test_a_mistake_is_one_message(
    home: Path, name: str, act: Callable[[Path], object], says: str
) -> None:
    """Exit code 2 and no traceback."""
    act(home)
    command = ("run", "--engine", "local") if name in WHEN_RUN else ("validate",)
    result = call(*command, "lent.yaml")
    assert result.exit_code == 2, result.output
    assert says in result.output and "Traceback" not in result.output
    assert not (home / "outputs" / "datasets").exists()


def test_a_single_world_is_trained_on(home: Path) -> None:
    """Unless the recipe says otherwise: the category of the only world is not held out."""
    assert call("run", "--engine", "local", "lent.yaml").exit_code == 0
    (version,) = (home / "outputs" / "datasets").glob("*/1.0.0")
    names = {path.name.split("-")[0] for path in (version / "sft").iterdir()}
    assert "train" in names and not {"test_tool", "test_category"} & names


def test_a_world_without_scripts_is_for_a_capable_model(home: Path) -> None:
    """Which words tasks that are solved before: nothing is missing."""
    without_scripts(home)
    capable = "model: {base_url: 'http://127.0.0.1:9/v1', model: large}"
    recipe = (RECIPE % "library.yaml").replace("model: none", capable)
    (home / "lent.yaml").write_text(recipe.replace(", per_script: 1", ", rows: 12"))
    result = call("validate", "lent.yaml")
    assert result.exit_code == 0, result.output
    assert "12 dialogues in worlds" in result.output


@pytest.mark.slow
def test_all_stands_for_each_world_that_ships(home: Path) -> None:
    """Beside one's own, each once; the list shows them with what they are."""
    edit(home / "library.yaml", "world: library", "world: lending")
    use("all", "shop", "library.yaml")(home)
    planned, listed = call("validate", "lent.yaml"), call("world", "list")
    assert planned.exit_code == listed.exit_code == 0, planned.output
    for name, world in ((path.stem, world_of(path.stem)) for path in shipped().values()):
        counts = [len(world.spec["operations"]), len(world.spec["policies"]), len(world.scripts)]
        for page, more in ((planned, ""), (listed, world.about[:20])):
            (line,) = (line for line in page.output.splitlines() if line.startswith(f"{name} "))
            assert line.split()[1:4] == [str(count) for count in counts] and more in line
    assert "\nlending " in planned.output and "\nlending " not in listed.output


def test_a_world_that_was_changed_since_is_said(home: Path) -> None:
    """The run keeps what it has, and goes on when the change is undone."""
    (home / "lent.yaml").write_text(RECIPE.replace("{use", "{rows: 2, use") % "library.yaml")
    assert call("run", "--engine", "local", "lent.yaml").exit_code == 0
    (run,) = (home / "outputs" / "runs").iterdir()
    shutil.rmtree(home / "outputs" / "datasets")
    for stage in ("dialogues", "tested", "deduplicated"):
        shutil.rmtree(run / stage)
    before = (home / "library.yaml").read_text()
    edit(home / "library.yaml", "14 days", "21 days")
    result = call("run", "--engine", "local", "lent.yaml")
    assert result.exit_code == 2 and "Traceback" not in result.output
    assert "library: what this world does is another since the run drew its" in result.output
    (home / "library.yaml").write_text(before)
    assert call("run", "--engine", "local", "lent.yaml").exit_code == 0


def test_no_key_is_missed_where_nobody_is_asked(
    home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The plan tells who is asked: nobody."""
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    result = call("validate", "lent.yaml")
    assert result.exit_code == 0, result.output
    assert "OPENAI_API_KEY" not in result.output
    assert "no model: words come from scripts, chosen by the seed" in result.output
