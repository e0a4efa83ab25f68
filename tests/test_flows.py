"""Prefect runs in a process of its own: it leaves sockets open, and here warnings are errors."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml
from support import toys

SCRIPT = """
import asyncio, importlib.util, json, sys
from pathlib import Path
from support import growing_dataset as beside
from support import toys
from prefect.client.orchestration import get_client
from prefect.client.schemas.sorting import FlowRunSort, TaskRunSort
from prefect.flows import load_flow_from_entrypoint
from prefect.settings import PREFECT_API_URL, temporary_settings
from prefect.testing.utilities import prefect_test_harness
from toolloom import flows
from toolloom.schemas import EndpointDown

FIELDS = {"name": "toy", "shard_size": 4, "queries": {"count": 21}, "apis": {"domains": 6}}
outputs, calls = sys.argv[1], []

async def fails(record, context):
    calls.append(record.id)
    raise EndpointDown("nobody answers")

async def recorded(ends):
    # Task runs are recorded from events, a moment after they end.
    async with get_client() as client:
        for _ in range(3000):
            runs = await client.read_task_runs(limit=99, sort=TaskRunSort.NAME_ASC)
            if len(runs) == ends and all(run.state and run.state.is_final() for run in runs):
                break
            await asyncio.sleep(0.1)
        flow_runs = await client.read_flow_runs(limit=9, sort=FlowRunSort.NAME_ASC)
        return {
            "flows": sorted([f.name, f.state.type.value, f.run_count] for f in flow_runs),
            "parameters": [f.parameters for f in flow_runs],
            "tasks": sorted([r.name, r.state.type.value, r.run_count] for r in runs),
        }

def told(call, *arguments, **more):
    try:
        return call(*arguments, **more)
    except Exception as error:
        return f"{type(error).__name__}: {error}"

def start(stages=None, **parameters):
    return asyncio.run(flows.start(parameters, stages=stages))

def change(stages=None, **made):
    return start(stages, dataset="parts", outputs="parts", change=made).published.label

with prefect_test_harness(server_startup_timeout=120):
    made = start(toys.STAGES, recipe=FIELDS, outputs=outputs)
    one = toys.Stage("only", "query", toys.Query, toys.Query, fails,
                     feed=lambda given: iter([toys.query()]))
    file = Path("recipe.yaml")
    model = {"base_url": "https://me:pass@host/v1", "model": "m"}
    file.write_text(json.dumps({**FIELDS, "model": model}))
    error = told(start, (one,), recipe=str(file.resolve()), outputs=outputs, seed=9)
    with temporary_settings({PREFECT_API_URL: "http://127.0.0.1:9/api"}):
        dead = told(start, toys.STAGES, recipe=FIELDS, outputs=outputs)
    wrong = told(start, recipe={"nome": "toy"}, outputs=outputs)
    found = importlib.util.find_spec("toolloom.flows").origin
    loaded = load_flow_from_entrypoint(f"{found}:make_dataset")
    kept = asyncio.run(recorded(15))
    fields = {**FIELDS, "name": "parts", "splits": {"unseen": ["c1"]}}
    start(toys.SPLIT_STAGES, recipe=fields, outputs="parts")
    part = change(toys.SPLIT_STAGES, regenerate={"split": "test_category"})
    none = told(change, regenerate={"split": "nope"})
    stages = (*toys.SPLIT_STAGES, *beside.BESIDE)
    added = [change(stages, expand={"rows": 3}), change(stages, rewrite={"votes": 0})]
    wrong_plan = told(change, stages, expand={"rowz": 3})
    print(json.dumps({
        **kept, "wrong_plan": wrong_plan, "published": str(made.published.path), "error": error,
        "part": part, "added": added, "none": none, "wrong": wrong, "dead": dead, "calls": calls,
        "run": made.summary.run, "loaded": [loaded.name, sorted(loaded.parameters.properties)],
    }))
"""


@pytest.fixture(scope="module")
def seen(tmp_path_factory: pytest.TempPathFactory) -> Any:
    """What a real Prefect server recorded of a good run and a failing one."""
    folder = tmp_path_factory.mktemp("prefect")
    environment = {
        **os.environ,
        "PYTHONPATH": os.pathsep.join(
            [str(Path(toys.__file__).parents[1]), os.environ.get("PYTHONPATH", "")]
        ),
        "PREFECT_HOME": str(folder / "home"),
        "PREFECT_LOGGING_LEVEL": "CRITICAL",
    }
    command = [sys.executable, "-c", SCRIPT, folder / "outputs"]
    ran = subprocess.run(command, env=environment, cwd=folder, stdout=-1, text=True, check=True)
    return json.loads(ran.stdout.splitlines()[-1])


def test_a_task_run_is_a_shard_of_a_stage(seen: Any) -> None:
    """Each shard of each stage is one task run under its name, tried once; the run's id is the same
    on Prefect's page and in the outputs folder."""
    assert [seen["run"], "COMPLETED", 1] in seen["flows"]
    assert Path(seen["published"]).parts[-3:] == ("datasets", "toy", "1.0.0")
    shards = {"domains": 2, "queries": 6, "tested": 6}
    names = [f"{stage}-{shard:05d}" for stage, count in shards.items() for shard in range(count)]
    done = [task for task in seen["tasks"] if not task[0].startswith("only")]
    assert done == [[name, "COMPLETED", 1] for name in names]


def test_a_failing_shard_is_tried_once(seen: Any) -> None:
    """Prefect does not try again."""
    assert seen["calls"] == ["q0"]
    assert ["only-00000", "FAILED", 1] in seen["tasks"]


def test_a_seed_goes_beside_the_path(seen: Any) -> None:
    """A server that keeps the parameters of a run learns where its recipe is, and the seed."""
    given = next(p for p in seen["parameters"] if p.get("seed") == 9)
    assert Path(given["recipe"]).name == "recipe.yaml"
    assert "pass@" not in json.dumps(seen["parameters"])
    folder = Path(given["outputs"]) / "runs"
    seeds = {yaml.safe_load(p.read_text())["seed"] for p in folder.glob("*/recipe.yaml")}
    assert seeds == {0, 9}


def test_any_worker_can_load_the_flow_and_add_to_versions(seen: Any) -> None:
    """The file works by its path, away from the repository's root. A split made anew, rows and
    instructions each make the next version."""
    parameters = ["address", "engine", "outputs", "recipe", "seed"]
    assert seen["loaded"] == ["make-dataset", parameters]
    assert seen["part"] == "parts/2.0.0"
    assert seen["added"] == ["parts/2.1.0", "parts/2.2.0"]


@pytest.mark.parametrize(
    ("key", "begin", "words"),
    [
        ("error", "EndpointDown: nobody answers", ""),
        ("none", "NothingFound: parts/2.0.0 has no split 'nope'", ""),
        ("wrong_plan", "RecipeError: ", "rowz"),
        ("wrong", "RecipeError: the parameter `recipe`", ""),
        ("dead", "ToolloomError: Prefect's API cannot be reached", "--engine local"),
    ],
    ids=["a stage", "a split", "a plan", "a recipe", "a server that is not there"],
)
def test_an_error_comes_out_of_a_flow_as_it_is(seen: Any, key: str, begin: str, words: str) -> None:
    """A flow's parameters are checked like a file, and an error says what to do."""
    assert seen[key].startswith(begin)
    assert words in seen[key]
