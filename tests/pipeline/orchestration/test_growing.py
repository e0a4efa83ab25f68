"""Runs of a served deployment on a real Prefect server: what they make, say and show."""

from __future__ import annotations

import datetime as dt
import re
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any

import pytest
from support import prefect_loopback
from support.prefect_loopback import KEY, Served, write_recipe
from support.waiting import PATIENCE

from toolloom.llm import FakeServer
from toolloom.llm.scripted import ScriptedFailure, improvise
from toolloom.pipeline.orchestration.growth import FlowClaim, read_claim, write_claim
from toolloom.pipeline.store.locks import hold_dataset


def accepted(served: Served, run: str) -> dict[str, Any]:
    """A flow run that has ended well."""
    found = served.server.ended(run)
    assert found["state_type"] == "COMPLETED", found["state"]["message"]
    return found


def test_the_form_has_descriptions_and_defaults(served: Served) -> None:
    """The server gives back each parameter with its description, and what it is without one."""
    found = served.server.deployment("served")
    assert found
    fields = found["parameter_openapi_schema"]["properties"]
    assert all(field["description"] for field in fields.values())
    defaults = {name: field.get("default") for name, field in fields.items()}
    assert defaults == {
        "recipe": None,
        "overrides": {},
        "outputs": "outputs",
        "split": "train",
        "engine": "prefect",
        "address": "",
        "unfinished": False,
    }
    assert Path(found["parameters"]["recipe"]).is_absolute()
    assert found["parameters"]["outputs"] == str(served.outputs)


def test_each_run_adds_a_version(served: Served, fake: FakeServer, tmp_path: Path) -> None:
    """Triggered by API it makes the first version, then one with more rows; the page tells."""
    recipe = write_recipe(tmp_path, fake, "grown")
    first = accepted(served, served.grow(recipe))
    assert re.fullmatch(r"grown grows, \d{4}-\d\d-\d\d \d\d:\d\d UTC", first["name"])
    assert re.fullmatch(r"grown/1\.0\.0: its first \d+ rows", first["state"]["message"])
    second = accepted(served, served.grow(recipe, overrides={"queries": {"count": 8}}))
    assert re.fullmatch(r"grown/1\.1\.0: \d+ rows more", second["state"]["message"])
    assert served.versions("grown") == ["1.0.0", "1.1.0"]
    shown = served.server.artifacts(second["id"])
    assert shown["markdown"]["key"] == "toolloom-grown"
    for part in ("grown/1.1.0", "load_dataset", "| queries | query |"):
        assert part in shown["markdown"]["data"]
    assert (served.outputs / "datasets/grown/1.1.0").as_uri() in shown["markdown"]["data"]
    assert shown["progress"]["data"] == 100.0
    assert "- tested: " in shown["progress"]["description"]
    assert not (served.outputs / "datasets/grown/growing.json").exists()


@pytest.mark.slow
def test_it_runs_by_its_schedule(served: Served, fake: FakeServer, tmp_path: Path) -> None:
    """The server starts a run when it is due; its name tells when that was."""
    recipe = write_recipe(tmp_path, fake, "nightly")
    before = dt.datetime.now(dt.UTC) - dt.timedelta(seconds=27)
    schedule = {"interval": 30, "anchor_date": before.isoformat()}
    given = {"schedule": schedule, "active": True, "parameters": {"recipe": str(recipe)}}
    path = f"deployments/{served.id}/schedules"
    (added,) = served.server.request("POST", path, [given])

    def due_run() -> dict[str, Any] | None:
        runs = [r for r in served.server.runs(served.id) if r["auto_scheduled"]]
        return next((r for r in runs if r["state_name"] == "Completed"), None)

    try:
        found = prefect_loopback.look(due_run, "the scheduled run ends")
    finally:
        served.server.request("DELETE", f"{path}/{added['id']}")
    when = dt.datetime.fromisoformat(found["expected_start_time"])
    assert found["name"] == f"nightly grows, {when:%Y-%m-%d %H:%M} UTC"
    assert "1.0.0" in served.versions("nightly")


@pytest.mark.slow
def test_a_dataset_never_grows_twice_at_once(served: Served, tmp_path: Path) -> None:
    """Of two runs that overlap one does no work, and says who is at work."""
    go = threading.Event()

    def script(body: Any) -> Any:
        go.wait(PATIENCE)
        return improvise(body)

    with FakeServer(script).serve_in_thread() as fake:
        recipe = write_recipe(tmp_path, fake, "twice")
        one, other = served.grow(recipe), served.grow(recipe)
        runs = prefect_loopback.look(
            lambda: [
                r for r in map(served.server.flow_run, (one, other)) if r["state_name"] == "Skipped"
            ],
            "one is skipped",
        )
        go.set()
        assert len(runs) == 1
        assert "“twice grows, " in runs[0]["state"]["message"]
        for run in (one, other):
            accepted(served, run)
        assert fake.repeats == 0
    assert served.versions("twice") == ["1.0.0"]


@pytest.mark.slow
def test_a_failed_run_is_gone_on_with_by_the_next(served: Served, tmp_path: Path) -> None:
    """Its state tells what is wrong, without a traceback; the next asks nothing again.

    One of which nothing is accepted is complete, and tells what the dataset stays at, and why.
    """
    answers, silly = 0, False

    def script(body: Any) -> Any:
        nonlocal answers
        answers += 1
        if silly:
            return "I would rather not."
        return ScriptedFailure(503) if answers > 40 else improvise(body)

    with FakeServer(script).serve_in_thread() as fake:
        recipe = write_recipe(tmp_path, fake, "broken")
        failed = served.server.ended(served.grow(recipe))
        assert failed["state_type"] == "FAILED"
        assert fake.base_url in failed["state"]["message"]
        assert not [line for line in served.server.logs(failed["id"]) if "Traceback" in line]
        (run,) = served.outputs.glob("runs/broken-*")
        answers = -1000
        accepted(served, served.grow(recipe))
        assert fake.repeats == 0
        assert [path.name for path in served.outputs.glob("runs/broken-*")] == [run.name]
        silly = True
        message = accepted(served, served.grow(recipe))["state"]["message"]
    assert re.match(r"broken stays at 1\.0\.0: nothing was accepted, .*\(\d+ [a-z_]+", message)
    assert served.versions("broken") == ["1.0.0"]


@pytest.mark.slow
def test_runs_that_make_no_version(served: Served, tmp_path: Path) -> None:
    """A first run of which nothing is accepted is complete and tells why.

    What the command line would say of a wrong recipe is the message of a failed one.
    """
    (tmp_path / "wrong.yaml").write_text("nome: toy")
    with FakeServer(lambda body: "I would rather not.").serve_in_thread() as fake:
        runs = (write_recipe(tmp_path, fake, "barren"), tmp_path / "wrong.yaml")
        barren, failed = map(served.server.ended, [served.grow(recipe) for recipe in runs])
    assert barren["state_type"] == "COMPLETED"
    message = barren["state"]["message"]
    assert re.match(r"barren has no version yet: nothing was accepted, .*\(\d+ [a-z_]+", message)
    assert served.versions("barren") == []
    assert failed["state_type"] == "FAILED"
    assert "is not a valid recipe" in failed["state"]["message"]
    assert failed["name"].startswith("wrong grows, ")


@pytest.mark.slow
def test_an_endpoint_that_repeats_the_key_tells_nobody(served: Served, tmp_path: Path) -> None:
    """It is in no table of Prefect's server: no state, log, artifact or parameter."""
    with FakeServer(key=KEY + "-another").serve_in_thread() as fake:
        recipe = write_recipe(tmp_path, fake, "denied")
        recipe.write_text(recipe.read_text().replace("{base_url", "{key_env: PLAIN_NAME, base_url"))
        run = served.server.ended(served.grow(recipe))
    assert run["state_type"] == "FAILED"
    assert "[key]" in run["state"]["message"]
    assert any("[key]" in line for line in served.server.logs(run["id"]))
    assert "[key]" in served.server.everything()
    assert KEY not in served.server.everything()


REVIVE = """
import asyncio, sys
from prefect.client.orchestration import get_client
from toolloom.pipeline.orchestration import growth

async def main():
    growth.STARTING = 0.0
    async with get_client() as client:
        print(await growth.revive(client, sys.argv[1]))

asyncio.run(main())
"""


def revive_at_once(served: Served) -> None:
    """As `toolloom serve` does once a minute, but for runs of any age."""
    command = [sys.executable, "-c", REVIVE, served.id]
    environment = served.server.environment
    found = subprocess.run(command, env=environment, check=True, capture_output=True, text=True)
    assert found.stdout != "[]\n"


@pytest.mark.slow
def test_killed_beside_its_work(served: Served, fake: FakeServer, tmp_path: Path) -> None:
    """One killed before its claim is started again; one killed after publishing tells that."""
    server, recipe = served.server, write_recipe(tmp_path, fake, "beside")
    early = server.run(served.id, state="RUNNING", recipe=str(recipe))
    revive_at_once(served)
    assert server.flow_run(early)["id"] == early
    assert accepted(served, early)["state"]["message"].startswith("beside/1.0.0: its first ")
    late = server.run(served.id, state="RUNNING", recipe=str(recipe))
    (made,) = served.outputs.glob("runs/beside-*")
    claim = FlowClaim(flow_run=late, name="the late one", run=made.name)
    write_claim(served.outputs, "beside", claim)
    looks = accepted(served, served.grow(recipe, unfinished=True))
    assert looks["state"]["message"] == "“the late one” was killed at its work and goes on with it."
    assert accepted(served, late)["state"]["message"].startswith("beside/1.0.0: its first ")
    assert served.versions("beside") == ["1.0.0"]
    assert read_claim(served.outputs, "beside") is None


@pytest.mark.slow
@pytest.mark.parametrize(("state", "attempt"), [("PENDING", 1), ("RUNNING", 0)])
def test_a_killed_run_is_scheduled_again_only_once(
    served: Served, fake: FakeServer, tmp_path: Path, state: str, attempt: int
) -> None:
    """The next run that finds its claim leaves it to begin, and does not call it killed again: nor
    if it has begun since, and not claimed the dataset yet."""
    server, name = served.server, f"once-{state.lower()}"
    recipe = write_recipe(tmp_path, fake, name)
    killed = server.run(served.id, state=state, recipe=str(recipe))
    claim = FlowClaim(flow_run=killed, name="the killed one", run="", attempt=attempt)
    write_claim(served.outputs, name, claim)
    next_one = accepted(served, served.grow(recipe))
    assert next_one["state"]["message"].startswith("“the killed one” was killed at its work")
    assert server.flow_run(killed)["state_type"] == state
    revive_at_once(served)
    assert accepted(served, killed)["state"]["message"].startswith(f"{name}/1.0.0: its first ")
    assert served.versions(name) == ["1.0.0"]


def at_its_work(served: Served, run: str) -> None:
    """Wait until a flow run has begun, and has found its dataset held."""
    prefect_loopback.look(lambda: served.server.flow_run(run)["state_name"] == "Running", "it runs")
    time.sleep(3)


def test_who_only_looks_keeps_no_run_from_its_work(
    served: Served, fake: FakeServer, tmp_path: Path
) -> None:
    """A process that looks after killed runs holds the dataset for a moment, and claims nothing: it
    is waited for."""
    recipe = write_recipe(tmp_path, fake, "looked")
    with hold_dataset(served.outputs, "looked"):
        run = served.grow(recipe)
        at_its_work(served, run)
        assert served.server.flow_run(run)["state_name"] == "Running"
    assert accepted(served, run)["state"]["message"].startswith("looked/1.0.0: its first ")


def test_two_processes_of_one_flow_run_make_one_version(
    served: Served, fake: FakeServer, tmp_path: Path
) -> None:
    """One that was slow to begin was begun again: the second waits for the first, and repeats how
    it ended."""
    recipe = write_recipe(tmp_path, fake, "doubled")
    with hold_dataset(served.outputs, "doubled"):
        run = served.grow(recipe)
        claim = FlowClaim(flow_run=run, name="the first process", attempt=1)
        write_claim(served.outputs, "doubled", claim)
        at_its_work(served, run)
        ended = {"type": "COMPLETED", "name": "Completed", "message": "doubled/7.0.0"}
        served.server.ask(f"flow_runs/{run}/set_state", state=ended, force=True)
        (served.outputs / "datasets/doubled/growing.json").unlink()
    another = accepted(served, served.grow(recipe))  # so that the second has had its time
    assert another["state"]["message"].startswith("doubled/1.0.0: its first ")
    assert accepted(served, run)["state"]["message"] == "doubled/7.0.0"
    assert served.versions("doubled") == ["1.0.0"]
