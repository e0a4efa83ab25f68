"""Runs of a served deployment on a real Prefect server: what they make, say and show."""

from __future__ import annotations

import re
import threading
from pathlib import Path
from typing import Any

import pytest
from support import prefect_loopback
from support.prefect_loopback import KEY, Served, write_recipe
from support.waiting import PATIENCE

from toolloom import FakeServer
from toolloom.llm.scripted import ScriptedFailure, improvise

pytestmark = pytest.mark.slow


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
    defaults = {name: field["default"] for name, field in fields.items() if "default" in field}
    texts = {"outputs": "outputs", "split": "train", "engine": "prefect", "address": ""}
    assert defaults == {"overrides": {}, **texts}
    assert Path(found["parameters"]["recipe"]).is_absolute()
    assert found["parameters"]["outputs"] == str(served.outputs)


def test_each_run_adds_a_version(served: Served, tmp_path: Path) -> None:
    """Triggered by API it makes the first version, then one with more rows; the page tells."""
    with FakeServer().serve_in_thread() as fake:
        recipe = write_recipe(tmp_path, fake, "grown")
        first = accepted(served, served.grow(recipe))
        second = accepted(served, served.grow(recipe, overrides={"queries": {"count": 8}}))
    assert re.fullmatch(r"grown grows, \d{4}-\d\d-\d\d \d\d:\d\d UTC", first["name"])
    assert re.fullmatch(r"grown/1\.0\.0: its first \d+ rows", first["state"]["message"])
    assert re.fullmatch(r"grown/1\.1\.0: \d+ rows more", second["state"]["message"])
    assert served.versions("grown") == ["1.0.0", "1.1.0"]
    found = served.server.ask("artifacts/filter", flow_runs={"id": {"any_": [second["id"]]}})
    (page,) = [each for each in found if each["type"] == "markdown"]
    assert page["key"] == "toolloom-grown"
    where = (served.outputs / "datasets/grown/1.1.0").as_uri()
    for part in ("grown/1.1.0", "load_dataset", "| queries | query |", where):
        assert part in page["data"]


def test_a_dataset_never_grows_twice_at_once(served: Served, tmp_path: Path) -> None:
    """Of two runs that overlap one does no work, and says who is at work."""
    go = threading.Event()

    def script(body: Any) -> Any:
        go.wait(PATIENCE)
        return improvise(body)

    with FakeServer(script).serve_in_thread() as fake:
        recipe = write_recipe(tmp_path, fake, "twice")
        one, other = served.grow(recipe), served.grow(recipe)

        def skipped() -> list[dict[str, Any]]:
            runs = map(served.server.flow_run, (one, other))
            return [run for run in runs if run["state_name"] == "Skipped"]

        (run,) = prefect_loopback.look(skipped, "one is skipped")
        go.set()
        assert "another process is working on its next version" in run["state"]["message"]
        for each in (one, other):
            accepted(served, each)
        assert fake.repeats == 0
    assert served.versions("twice") == ["1.0.0"]


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
