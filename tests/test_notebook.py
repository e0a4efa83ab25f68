"""The notebook of rejected samples, run by a real kernel and opened by the command."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import nbformat
import pytest
from nbclient import NotebookClient
from support import toys
from support.finished_runs import published
from support.waiting import wait_for
from typer.testing import CliRunner

from toolloom.cli import app
from toolloom.pipeline.dataset.figures import added
from toolloom.pipeline.run import make_dataset
from toolloom.pipeline.stage import Context, Stage
from toolloom.pipeline.store.version import Version, find_version
from toolloom.schemas import Outcome, Query, Reason, Sample

ROOT = Path(__file__).parents[1]
NOTEBOOK = ROOT / "pipeline" / "pages" / "rejected_samples.ipynb"
COMMAND = (
    "import signal, sys; from toolloom.cli import main; sys.argv[0] = 'toolloom'; "
    # A shell's background jobs ignore Ctrl-C, and so would what they start.
    "signal.signal(signal.SIGINT, signal.default_int_handler); main()"
)
HOSTILE = "<script>alert(1)</script><img src=x onerror=alert(2)>\x1b[31m **bold** ${\\frac{1}{"


async def judge(query: Query, context: Context) -> Outcome:
    """Some dialogues fall under several reasons, with hostile words in every text a model writes."""
    number, seed = int(query.id[1:]), context.recipe.seed
    if number % 5 > 2:
        return Outcome((toys.sample(query, answer=f"It is {number} °C, says {seed}."),))
    mean = query.model_copy(update={"text": f"{HOSTILE} {number} {seed}"})
    made = toys.sample(mean, {"city": HOSTILE}, HOSTILE)
    fallen = toys.rejected(made, "tested", [*Reason][number % 5], f"Not so: {HOSTILE}")
    return Outcome((), (fallen.model_copy(update={"raw": (HOSTILE,)}),))


TESTED = Stage("tested", "tester", Query, Sample, judge)


async def two_versions(outputs: Path) -> Version:
    """A dataset of two versions, with rejected records of several reasons and agents."""
    for seed in (1, 2):
        recipe = toys.recipe(seed=seed)
        await make_dataset(recipe, outputs=outputs, stages=(*toys.STAGES[:2], TESTED))
    return find_version(outputs, "toy")


def executed(outputs: Path, *more: str) -> Any:
    """The notebook after a kernel has run it from top to bottom, and some cells more."""
    notebook = nbformat.reads(NOTEBOOK.read_text(encoding="utf-8"), as_version=4)
    nbformat.validate(notebook)
    notebook.cells += [nbformat.v4.new_code_cell(source) for source in more]
    environment = {
        **os.environ,
        "TOOLLOOM_OUTPUTS": str(outputs),
        "TOOLLOOM_CURATOR": "anna",
        "IPYTHONDIR": str(outputs / "ipython"),
    }
    client = NotebookClient(notebook, timeout=300, kernel_name="python3")
    client.execute(env=environment)
    return notebook


def outputs_of(notebook: Any, kind: str) -> list[str]:
    shown = (out for cell in notebook.cells for out in cell.get("outputs", ()))
    return [out["data"][kind] for out in shown if kind in out.get("data", {})]


def table(notebook: Any, index: str) -> dict[str, int]:
    """The records by what they have in a column, as the notebook shows them first."""
    html = next(
        one
        for one in outputs_of(notebook, "text/html")
        if re.search(rf">{index}</th>", one) and ">records</th>" in one
    )
    return {k: int(v) for k, v in re.findall(r">([^<]+)</th>\s*<td[^>]*>(\d+)</td>", html)}


async def test_the_notebook_runs_from_top_to_bottom(tmp_path: Path) -> None:
    """Tables tell what the manifest tells, and marks change the precision."""
    version = await two_versions(tmp_path)
    click = (
        "panel = Viewer(data)\n"
        "panel.filters['agent'].value = 'tester'\n"
        "press = lambda word: next(b for n, b in panel.buttons.items() if word in n).click()\n"
        "panel.note.value = 'nobody said it'\n"
        "press('agree')\n"
        "press('next')\n"
        "press('disagree')\n"
        "print(panel.place.value, panel.said.value)"
    )
    run = executed(tmp_path, click, "display(data.precision('agent'))")
    told = version.manifest["splits"].values()
    reasons = added(told, "reasons")
    assert len(reasons) >= 3
    assert table(run, "reason") == reasons
    assert sum(table(run, "agent").values()) == sum(one["rejected"] for one in told)
    lines = (tmp_path / "datasets/toy/judgements.jsonl").read_text().splitlines()
    marks = [json.loads(line) for line in lines]
    assert [(m["curator"], m["agrees"], m["note"]) for m in marks] == [
        ("anna", True, "nobody said it"),
        ("anna", False, ""),
    ]
    assert re.search(
        r"tester</th>.*?>2</td>.*?>1</td>.*?>50%</td>", outputs_of(run, "text/html")[-1], re.DOTALL
    )
    assert_harmless(run)


def assert_harmless(run: Any) -> None:
    """What models wrote is shown as text: no markup of theirs, nothing a terminal obeys."""
    state = run.metadata["widgets"]["application/vnd.jupyter.widget-state+json"]["state"]
    pages = [*outputs_of(run, "text/html")]
    pages += [
        s["state"]["value"] for s in state.values() if "<article" in str(s["state"].get("value"))
    ]
    assert sum("&lt;script&gt;alert(1)" in page for page in pages) >= 3
    for page in pages:
        assert "<script" not in page
        assert not re.search(r"<img|\x1b", page)
        assert "mathjax_ignore" in page or "<article" not in page


@contextmanager
def command(*arguments: str) -> Iterator[subprocess.Popen[str]]:
    """`toolloom notebook` in a process of its own, whose end is waited for."""
    started = subprocess.Popen(
        [sys.executable, "-c", COMMAND, "notebook", "--no-browser", *arguments],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    with started as process:
        try:
            yield process
        finally:
            process.kill()


def answer(url: str) -> int:
    """The status of a page; waits until somebody listens."""

    def status() -> int:
        try:
            return int(urllib.request.urlopen(url, timeout=30).status)
        except urllib.error.HTTPError as error:
            error.close()
            return error.code
        except OSError:
            return 0

    return int(wait_for(status, f"somebody answers at {url}"))


@pytest.mark.slow
async def test_the_command_serves_the_notebook(tmp_path: Path) -> None:
    """JupyterLab answers on loopback, to those who have the token, until Ctrl-C."""
    await two_versions(tmp_path)
    with command("toy", "--outputs", str(tmp_path)) as process:
        assert process.stdout and process.stderr
        assert "newest version of toy, now toy/1.1.0" in process.stdout.readline()
        address = next(line for line in process.stderr if "?token=" in line).strip()
        page, _, token = address.partition("?token=")
        api = page.replace("/lab/tree/", "/api/contents/")
        assert page.startswith("http://127.0.0.1:")
        assert answer(api) == 403
        assert answer(f"{api}?token={token}") == 200
        process.send_signal(signal.SIGINT)
        assert process.wait(60) == 0


@pytest.mark.slow
async def test_a_version_may_be_named(tmp_path: Path) -> None:
    """The message does not call it the newest, and the notebook, which works in another folder,
    finds it."""
    await two_versions(tmp_path)
    with command("toy/1.0.0", "--outputs", str(tmp_path)) as process:
        assert process.stdout
        assert ": opens toy/1.0.0. It is a new copy" in process.stdout.readline()
        environment = Path(f"/proc/{process.pid}/environ")
        given = wait_for(
            lambda: re.search(rb"TOOLLOOM_DATASET=([^\0]+)", environment.read_bytes()), "Jupyter"
        )
    assert find_version(tmp_path, given[1].decode()).label == "toy/1.0.0"
    assert Path(given[1].decode()).is_absolute()


def test_what_is_missing_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A dataset, and Jupyter; each is one message, exit code 2."""

    def told(*more: str) -> str:
        ended = CliRunner().invoke(app, ["notebook", "--outputs", str(tmp_path), *more])
        assert ended.exit_code == 2
        return ended.stderr

    assert "There is no dataset in" in told()
    published(tmp_path, toys.sample())
    monkeypatch.setitem(sys.modules, "jupyterlab", None)
    assert "pip install 'toolloom[notebook]'" in told()
