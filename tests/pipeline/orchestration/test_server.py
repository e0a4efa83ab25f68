"""Prefect's server: `toolloom serve` refuses what cannot be served before it registers anything; what
a page is given, and never a secret; and the API where no server is set, by real runs."""

from __future__ import annotations

import contextlib
import logging
import os
import sqlite3
import subprocess
from pathlib import Path

import pytest
from prefect.settings import PREFECT_API_URL, temporary_settings
from support import toys
from support.prefect_loopback import family, write_recipe
from support.processes import TOOLLOOM
from support.waiting import wait_for

from toolloom import FakeServer
from toolloom.pipeline.orchestration.server import (
    check_deployment,
    check_server,
    hidden,
    hiding,
    summary,
)
from toolloom.pipeline.run import Made, run_recipe
from toolloom.pipeline.store.secrets import SECRETS
from toolloom.schemas import EndpointDown, RecipeError, ToolloomError

KEY = "sesame-0123456789"


@pytest.mark.slow
@pytest.mark.parametrize(
    ("recipe", "url", "told"),
    [
        ("nome: toy", "http://127.0.0.1:9/api", "is not a valid recipe"),
        ("name: toy", None, "export PREFECT_API_URL=http://127.0.0.1:4200/api"),
        ("name: toy", "http://127.0.0.1:9/api", "does not answer"),
    ],
)
def test_what_cannot_be_served_is_refused(
    recipe: str, url: str | None, told: str, tmp_path: Path
) -> None:
    """One message that says what to do, no traceback, exit code 2."""
    (tmp_path / "toy.yaml").write_text(recipe)
    found = {**os.environ, "PREFECT_HOME": str(tmp_path), "PREFECT_API_URL": url}
    ran = subprocess.run(
        [*TOOLLOOM, "serve", "toy.yaml"],
        env={name: value for name, value in found.items() if value is not None},
        cwd=tmp_path,
        capture_output=True,
        text=True,
    )
    assert (ran.returncode, ran.stdout) == (2, "")
    assert told in ran.stderr
    assert "Traceback" not in ran.stderr


@pytest.mark.parametrize(
    ("name", "cron", "zone", "told"),
    [
        ("a/b", None, "UTC", "no `/` and no `%`"),
        ("toy", "0 2 * * *", "Vienna", "no such zone"),
        ("toy", "0 2 * *", "UTC", "is not a schedule"),
        ("toy", "* * * * * *", "UTC", "has 6 fields"),
    ],
)
def test_a_deployment_is_checked_first(name: str, cron: str | None, zone: str, told: str) -> None:
    """Name, zone and schedule, each with a message of its own."""
    with pytest.raises(RecipeError, match=told):
        check_deployment(name, cron, zone)


async def test_an_address_that_is_none_is_told_before_the_server_is_blamed() -> None:
    """The variable is to be mended, not the server to be started."""
    with (
        temporary_settings({PREFECT_API_URL: "127.0.0.1:4200"}),
        pytest.raises(ToolloomError, match="begins with http://"),
    ):
        await check_server()


def test_the_summary_tells_counts_reasons_and_how_to_load(tmp_path: Path) -> None:
    """Each stage and each reason is a row, and no cost is told without prices. Whatever stands in a
    message or the name of a stage is shown as it is."""
    made = run_recipe(toys.recipe(), tmp_path, stages=toys.STAGES)
    assert made.published
    text = summary("toy/1.0.0: its first 17 rows", made)
    assert "| tested | 17 | 2 |" in text
    assert "| value_not_mentioned | 2 |" in text
    assert made.published.load_line in text
    assert f"](<{made.published.path.as_uri()}>)" in text
    assert "$" not in text.replace("datasets.", "")
    hostile = "<img src=x> | [a](javascript:b)\n# c"
    counts = made.summary.counts
    stage = counts.stages[-1].model_copy(update={"name": hostile})
    counts = counts.model_copy(update={"stages": (*counts.stages[:-1], stage)})
    told = made.summary.model_copy(update={"counts": counts})
    text = summary(hostile, Made(told, made.published))
    shown = r"\<img src=x\> \| \[a\](javascript:b) # c"
    assert text.startswith(f"# {shown}\n")
    assert f"| {shown} |" in text
    assert "<img" not in text.replace(r"\<img", "")


def test_an_error_that_holds_a_secret_is_raised_without_it() -> None:
    """What a user can act on keeps its kind; no traceback leads to the first one."""
    SECRETS.learn([KEY])
    with pytest.raises(EndpointDown, match=r"^\[key\] is refused$") as told, hidden():
        raise EndpointDown(f"{KEY} is refused")
    assert told.value.__suppress_context__
    with pytest.raises(RuntimeError, match=r"^ValueError: a \[key\]$"), hidden():
        raise ValueError(f"a {KEY}")
    fault = KeyError("a")  # a fault of ours is seen whole
    with pytest.raises(KeyError) as seen, hidden():
        raise fault
    assert seen.value is fault


@pytest.mark.parametrize(
    ("error", "traceback"), [(ValueError(KEY), True), (EndpointDown("nobody answers"), False)]
)
def test_log_records_hold_no_secret(error: Exception, traceback: bool) -> None:
    """Neither the message nor the traceback, which is for our faults alone."""
    SECRETS.learn([KEY])
    try:
        raise error
    except type(error) as raised:
        info = (type(raised), raised, raised.__traceback__)
    record = logging.LogRecord("x", logging.ERROR, __file__, 1, "failed: %r", (error,), info)
    assert hiding(record)
    text = logging.Formatter().format(record)
    assert text.startswith("failed: ") and KEY not in text
    assert ("Traceback" in text) is traceback


@pytest.mark.slow
def test_a_killed_run_leaves_no_process(tmp_path: Path) -> None:
    """Prefect's server ends with the run, however that ends, and has what was recorded."""
    with FakeServer(latency=0.5).serve_in_thread() as fake:
        recipe = write_recipe(tmp_path, fake, "killed")
        home = tmp_path / "home"
        unset = {name: v for name, v in os.environ.items() if name != "PREFECT_API_URL"}
        with subprocess.Popen(
            [*TOOLLOOM, "run", recipe, "--engine", "prefect", "-o", tmp_path / "outputs"],
            env={**unset, "PREFECT_HOME": str(home)},
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        ) as process:
            cache = tmp_path / "outputs" / "cache.sqlite"
            wait_for(lambda: process.poll() is not None or cache.exists(), "the run has begun")
            assert process.poll() is None
            left = family(process.pid)
            process.kill()
    for pid in left:
        wait_for(lambda pid=pid: not Path(f"/proc/{pid}").exists(), f"{pid} ends")
    with contextlib.closing(sqlite3.connect(home / "prefect.db")) as database:
        (name,) = database.execute("SELECT name FROM flow_run").fetchone()
    assert name.startswith("killed-")
