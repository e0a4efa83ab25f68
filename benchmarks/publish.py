"""Publishing against writing the same rows with bare pyarrow.

    python benchmarks/publish.py --rows 10000 1000000 [--rounds 3]

A finished run of so many samples of about 2 kB is written to a temporary folder. Each way is a
process of its own, and the two take turns:

- `publish` makes the version: rows split, counted, checked and written in every config, the card,
  the plots, the manifest and all hashes;
- `pyarrow` reads the same lines with `json`, makes the same columns of them, and writes the two
  configs of accepted rows with `ParquetWriter` in groups of the same size, and nothing else.

Printed are wall and CPU seconds, peak memory and the ratio of the medians.
"""

from __future__ import annotations

import argparse
import datetime as dt
import json
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from typing import Any

from toolloom.pipeline.dataset.publish import publish
from toolloom.pipeline.store.files import record_line, to_line
from toolloom.pipeline.store.run import PlannedStage, RunFolder
from toolloom.schemas import (
    Ability,
    Api,
    Dialogue,
    Execution,
    FunctionCall,
    Intention,
    Message,
    Query,
    Sample,
    Scenario,
    ToolCall,
    Usage,
    Verdict,
    parse_recipe,
)

GROUP = 1_000
CITIES, TOPICS = 5_000, 40


def run_folder(outputs: Path) -> RunFolder:
    recipe = parse_recipe({"name": "benchmark"}, "the benchmark")
    return RunFolder(outputs / "runs" / recipe.run_id)


def prepare(outputs: Path, rows: int) -> float:
    """Write a finished run; bytes of a row on average."""
    folder = run_folder(outputs)
    recipe = parse_recipe({"name": "benchmark"}, "the benchmark")
    names = {"apis": ("api", "Api"), "tested": ("tester", "Sample")}
    folder.open(recipe, [PlannedStage(name=n, agent=a, writes=w) for n, (a, w) in names.items()])
    apis = folder.stage("apis")
    pools = (sample(topic).dialogue.query.pool for topic in range(TOPICS))
    apis.write_shard(0, (record_line(api) for pool in pools for api in pool), (), Usage())
    apis.finish(1, Api, None)
    stage = folder.stage("tested")
    stage.write_shard(0, lines(rows), (), Usage())
    stage.finish(1, Sample, None)
    return (stage.path / "accepted.jsonl").stat().st_size / rows


def lines(rows: int) -> Iterator[bytes]:
    """Samples as lines: one record of each topic, with other words and values in every row."""
    kinds = [sample(topic).model_dump(mode="json") for topic in range(TOPICS)]
    texts = [json.dumps(kind) for kind in kinds]
    for number in range(rows):
        city = f"City {number % CITIES}"
        text = texts[number % TOPICS].replace("Q000000", f"q{number:07d}")
        yield to_line(json.loads(text.replace("Zurich", city)))


def sample(topic: int) -> Sample:
    apis = tuple(
        Api(
            category=f"Category {topic % 20}",
            tool=f"tool_{topic}",
            name=name,
            function=f"tool_{topic}_{name}",
            description=f"Returns the {name} of a city, in the units that are asked for.",
            parameters={
                "type": "object",
                "properties": {"city": {"type": "string", "description": "Name of the city."}},
                "required": ["city"],
            },
        )
        for name in ("weather", "traffic")
    )
    query = Query(
        id="Q000000",
        ability=Ability.CALL,
        scenario=Scenario.SINGLE,
        now=dt.datetime(2026, 3, 2, 9, 30),
        pool=apis,
        intent=(Intention(api=apis[0].id, arguments={"city": "Zurich"}),),
        text="What is the weather like in Zurich today, and will it stay as it is?",
    )
    call = FunctionCall(name=apis[0].function, arguments={"city": "Zurich"})
    observed = '{"response":{"celsius":7.5,"sky":"overcast","wind":12},"error":null}'
    messages = (
        Message(role="system", content="It is Monday, 2 March 2026, 09:30. You may call tools."),
        Message(role="user", content=query.text),
        Message(role="assistant", tool_calls=(ToolCall(id="call_1", function=call),)),
        Message(
            role="tool",
            content=observed,
            tool_call_id="call_1",
            name=call.name,
            execution=Execution(kind="simulated"),
        ),
        Message(role="assistant", content="It is 7.5 degrees and overcast in Zurich, wind 12."),
    )
    return Sample(dialogue=Dialogue(query=query, messages=messages), verdict=Verdict())


def by_publish(outputs: Path) -> None:
    publish(run_folder(outputs), outputs)


def by_pyarrow(outputs: Path) -> None:
    """What a script would do by hand."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    kinds = {"id": pa.string(), "ability": pa.string(), "scenario": pa.string()}
    texts = {name: pa.list_(pa.string()) for name in ("messages", "tools")}
    parts = {name: pa.string() for name in ("dialogue", "verdict", "flags", "provenance")}
    sft, samples = pa.schema({**kinds, **texts}), pa.schema({**kinds, **parts})
    source = run_folder(outputs).stage("tested").path / "accepted.jsonl"
    made = outputs / "bare"
    made.mkdir()
    with (
        source.open("rb") as file,
        pq.ParquetWriter(made / "sft.parquet", sft, compression="zstd") as one,
        pq.ParquetWriter(made / "samples.parquet", samples, compression="zstd") as two,
    ):
        while group := [json.loads(line) for line in islice(file, GROUP)]:
            one.write_table(pa.Table.from_pylist([_sft(row) for row in group], sft))
            two.write_table(pa.Table.from_pylist([_whole(row, parts) for row in group], samples))


def _sft(row: Any) -> Any:
    query = row["dialogue"]["query"]
    messages = [
        json.dumps({k: v for k, v in m.items() if v and k != "execution"})
        for m in row["dialogue"]["messages"]
    ]
    tools = [
        json.dumps(
            {
                "type": "function",
                "function": {
                    "name": api["function"],
                    "description": api["description"],
                    "parameters": api["parameters"],
                },
            }
        )
        for api in query["pool"]
    ]
    return {**_kinds(query), "messages": messages, "tools": tools}


def _whole(row: Any, parts: Any) -> Any:
    return {**_kinds(row["dialogue"]["query"]), **{name: json.dumps(row[name]) for name in parts}}


def _kinds(query: Any) -> Any:
    return {name: query[name] for name in ("id", "ability", "scenario")}


WAYS = {"publish": by_publish, "pyarrow": by_pyarrow}


def measure(way: str, outputs: Path) -> Any:
    """Wall and CPU seconds and peak MB of one way, in a process of its own."""
    command = [sys.executable, __file__, "--way", way, "--outputs", str(outputs)]
    done = subprocess.run(command, check=True, capture_output=True, text=True)
    return json.loads(done.stdout.splitlines()[-1])


def one_way(way: str, outputs: Path) -> None:
    started = time.monotonic()
    WAYS[way](outputs)
    wall = time.monotonic() - started
    used = resource.getrusage(resource.RUSAGE_SELF)
    # Not ru_maxrss: a process inherits it from the one that started it.
    status = Path("/proc/self/status").read_text()
    cpu, peak = used.ru_utime + used.ru_stime, int(status.partition("VmHWM:")[2].split()[0]) / 1024
    print(json.dumps({"wall": wall, "cpu": cpu, "mb": peak}))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rows", type=int, nargs="+", default=[10_000])
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--way", choices=WAYS)
    parser.add_argument("--outputs", type=Path)
    given = parser.parse_args()
    if given.way:
        one_way(given.way, given.outputs)
        return
    print(
        "| rows | bytes a row | way | wall s | CPU s | peak MB |",
        "|---|---|---|---|---|---|",
        sep="\n",
    )
    for rows in given.rows:
        compare(rows, given.rounds)


def compare(rows: int, rounds: int) -> None:
    import shutil

    with tempfile.TemporaryDirectory(prefix="toolloom-publish-") as name:
        outputs = Path(name)
        size = prepare(outputs, rows)
        found: dict[str, list[Any]] = {way: [] for way in WAYS}
        for _ in range(rounds):
            for way in WAYS:
                for made in ("datasets", "bare"):
                    shutil.rmtree(outputs / made, ignore_errors=True)
                found[way].append(measure(way, outputs))
    middle = {
        way: {key: statistics.median(one[key] for one in each) for key in ("wall", "cpu", "mb")}
        for way, each in found.items()
    }
    for way, told in middle.items():
        figures = f"{told['wall']:.1f} | {told['cpu']:.1f} | {told['mb']:.0f}"
        print(f"| {rows:,} | {size:,.0f} | {way} | {figures} |")
    ratio = middle["publish"]["wall"] / middle["pyarrow"]["wall"]
    print(f"{rows:,} rows: publishing takes {ratio:.2f} times as long as bare pyarrow.")


if __name__ == "__main__":
    main()
