"""Verifying on one core, against hashing and reading the same files and nothing else.

    python benchmarks/verify.py --rows 10000 100000 [--small] [--apis N] [--outputs FOLDER]

A version of so many dialogues of about 6 kB is published: three kinds of them, each with words and
values of its own (of 5,000 cities, 20,000 hosts, and an API for every two rows), so that no cache
holds the answers. With `--small` they are single calls with two APIs, of about 3 kB.
Each way is a process of its own on one core:

- `verify` is `toolloom verify`: hashes, tables, every record, all certain checks, training rows,
  splits, figures, the card;
- `read` takes the SHA-256 of the same files and reads all tables with bare pyarrow.

Printed are wall and CPU seconds, peak memory and the ratio.
"""

from __future__ import annotations

import argparse
import datetime as dt
import gc
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from toolloom.pipeline.checks import inspect
from toolloom.pipeline.dataset.publish import publish, sha256
from toolloom.pipeline.dataset.verify import verify
from toolloom.pipeline.store.files import record_line
from toolloom.pipeline.store.run import PlannedStage, RunFolder
from toolloom.schemas import (
    API_SEARCH,
    Ability,
    Api,
    Dialogue,
    FunctionCall,
    Intention,
    Message,
    Observation,
    Query,
    Reference,
    Sample,
    Scenario,
    ToolCall,
    Usage,
    Verdict,
    parse_recipe,
)

NOW = dt.datetime(2026, 11, 21, 10)
SYLLABLES = ("ba", "de", "fi", "go", "ku", "la", "me", "ni", "po", "ru", "sa", "te", "vi", "zo")
CATEGORIES = ("Travel", "Music", "Food", "Events", "Sports", "Health", "Weather", "Finance")
RECIPE = {
    "name": "benchmark",
    "splits": {
        "train": 8,
        "validation": 1,
        "test_instruction": 1,
        "test_tool": 0,
        "test_category": 0,
    },
}
SECONDS = 120  # in which 100,000 rows are to be verified


def word(number: int) -> str:
    """A word for a number, and no other number's."""
    size, parts = len(SYLLABLES), [SYLLABLES[number % len(SYLLABLES)]]
    while number := number // size:
        parts.append(SYLLABLES[number % size])
    return "".join(parts) + "n"


def fields(**kinds: str) -> dict[str, Any]:
    """An object schema; the kind is a type, a colon and what is told of the field."""
    properties: dict[str, Any] = {}
    for name, kind in kinds.items():
        form, about = kind.split(": ")
        properties[name] = {"type": form.removesuffix("*"), "description": about}
        if form.endswith("*"):
            properties[name]["format"] = "date"
    made = {"type": "object", "properties": properties, "required": list(kinds)}
    return {**made, "additionalProperties": False}


def apis(topic: int) -> tuple[Api, Api]:
    """Two APIs: the second takes what the first finds."""
    thing = word(topic)
    common: dict[str, Any] = {
        "category": CATEGORIES[topic % len(CATEGORIES)],
        "tool": f"{thing}_desk",
    }
    find = Api(
        **common,
        name="find",
        function=f"find_{thing}",
        description=f"Find the best {thing} of a city on a day.",
        parameters=fields(
            city=f"string: City in which the {thing} is",
            day=f"string*: Day of the {thing}",
            guests=f"integer: How many want the {thing}",
        ),
        returns=fields(
            host=f"string: Who offers the {thing}",
            price="number: Price in euros",
            offer_code=f"string: Code of the {thing}",
        ),
    )
    book = Api(
        **common,
        name="book",
        function=f"book_{thing}",
        description=f"Book the {thing} that an offer is for.",
        parameters=fields(offer_code=f"string: Code of the {thing}"),
        returns=fields(ticket_code=f"string: Ticket for the {thing}"),
    )
    return find, book


class Talk:
    """A dialogue, as it is written."""

    def __init__(self, number: int) -> None:
        self.messages = [
            Message(
                role="system",
                content="You are an assistant that can call APIs. "
                f"The present moment is {NOW:%A %Y-%m-%d %H:%M}.",
            )
        ]
        self._number, self._calls = number, 0

    def say(self, role: Any, text: str) -> None:
        self.messages.append(Message(role=role, content=text))

    def call(self, *made: tuple[str, dict[str, Any], Any]) -> None:
        """Calls in one message, each with its response."""
        calls = []
        for name, arguments, _ in made:
            self._calls += 1
            function = FunctionCall(name=name, arguments=arguments)
            calls.append(ToolCall(id=f"call_{self._calls}", function=function))
        self.messages.append(Message(role="assistant", tool_calls=tuple(calls)))
        for call, (name, _, response) in zip(calls, made, strict=True):
            content = Observation(response=response).model_dump_json()
            message = Message(role="tool", content=content, tool_call_id=call.id, name=name)
            self.messages.append(message)


def sample(number: int, topics: int, small: bool = False) -> Sample:
    """One of three kinds of dialogue, with values of this number; small ones are single calls."""
    ways = (single, parallel, chain)
    drawn = [apis((number + step * 7) % topics) for step in range(3)]
    find, book = drawn[0]
    pool = (find, book) if small else (find, book, *drawn[1], drawn[2][0])
    talk = Talk(number)
    kind = 0 if small else number % len(ways)
    ability, scenario, intent = ways[kind](talk, number, find, book)
    query = Query(
        id=f"row-7-{number:06d}",
        ability=ability,
        scenario=scenario,
        now=NOW,
        pool=pool,
        intent=tuple(intent),
        text=str(talk.messages[1].content),
    )
    dialogue = Dialogue(query=query, messages=tuple(talk.messages))
    return Sample(dialogue=dialogue, verdict=Verdict())


def wish(number: int, place: int = 0) -> tuple[dict[str, Any], dict[str, Any]]:
    """Arguments of a search, and what it finds."""
    seed = number * 2 + place
    day = NOW.date() + dt.timedelta(days=3 + seed % 300)
    asked = {
        "city": word(9_000 + seed % 5_000).title(),
        "day": day.isoformat(),
        "guests": 2 + seed % 7,
    }
    found = {
        "host": f"{word(70_000 + seed % 20_000).title()} House",
        "price": 20 + seed % 977 + 0.5,
        "offer_code": f"OF{seed + 10_000}",
    }
    return asked, found


def single(talk: Talk, number: int, find: Api, book: Api) -> Any:
    (asked, found), thing = wish(number), find.tool.removesuffix("_desk")
    request = "Hello, please find a {} in {} on {}. There will be {} of us, and we are curious."
    talk.say("user", request.format(thing, asked["city"], asked["day"], asked["guests"]))
    talk.call((find.function, asked, found))
    talk.say(
        "assistant",
        f"I found a {thing} at {found['host']} for {found['price']} euros. "
        f"Its code is {found['offer_code']}.",
    )
    return Ability.CALL, Scenario.SINGLE, [Intention(api=find.id, arguments=asked)]


def parallel(talk: Talk, number: int, find: Api, book: Api) -> Any:
    pairs, thing = [wish(number), wish(number, 1)], find.tool.removesuffix("_desk")
    wishes = [f"one in {a['city']} on {a['day']} for {a['guests']} guests" for a, _ in pairs]
    talk.say("user", f"I need a {thing} twice: {wishes[0]}, and {wishes[1]}.")
    talk.call(*((find.function, asked, found) for asked, found in pairs))
    told = [f"{f['host']} offers one for {f['price']} euros" for _, f in pairs]
    talk.say("assistant", f"In {pairs[0][0]['city']}, {told[0]}. The other: {told[1]}.")
    intent = [Intention(api=find.id, arguments=asked) for asked, _ in pairs]
    return Ability.CALL, Scenario.PARALLEL, intent


def chain(talk: Talk, number: int, find: Api, book: Api) -> Any:
    (asked, found), thing = wish(number), find.tool.removesuffix("_desk")
    ticket = f"TK{number + 30_000}"
    talk.say(
        "user",
        f"Find a {thing} in {asked['city']} on {asked['day']} for {asked['guests']} guests and "
        "then book it, please.",
    )
    documents = [api.document() for api in (find, book)]
    talk.call((API_SEARCH.function, {"keywords": f"find and book a {thing}"}, documents))
    talk.call((find.function, asked, found))
    given = {"offer_code": found["offer_code"]}
    talk.call((book.function, given, {"ticket_code": ticket}))
    talk.say(
        "assistant",
        f"Your {thing} at {found['host']} is booked for {found['price']} euros; "
        f"the ticket is {ticket}.",
    )
    reference = Reference(call=0, field="offer_code")
    intent = [
        Intention(api=find.id, arguments=asked),
        Intention(api=book.id, arguments={}, references={"offer_code": reference}),
    ]
    return Ability.PLAN_RETRIEVE_CALL, Scenario.SEQUENTIAL, intent


def prepare(
    outputs: Path, rows: int, small: bool = False, apis_in_all: int = 0
) -> tuple[Path, float]:
    """Publish a version of so many rows; its folder and the bytes of a row."""
    recipe, topics = parse_recipe(RECIPE, "the benchmark"), max(50, apis_in_all // 2 or rows // 4)
    for number in range(30):
        if faults := inspect(sample(number, topics, small).dialogue):
            raise SystemExit(f"row {number}: {faults}")
    folder = RunFolder(outputs / "runs" / recipe.run_id)
    names = {"apis": ("api", "Api"), "tested": ("tester", "Sample")}
    folder.open(recipe, [PlannedStage(name=n, agent=a, writes=w) for n, (a, w) in names.items()])
    pools = folder.stage("apis")
    pools.write_shard(
        0, (record_line(api) for topic in range(topics) for api in apis(topic)), (), Usage()
    )
    pools.finish(1, Api, None)
    stage = folder.stage("tested")
    stage.write_shard(0, lines(rows, topics, small), (), Usage())
    stage.finish(1, Sample, None)
    size = (stage.path / "accepted.jsonl").stat().st_size / rows
    return publish(folder, outputs).path, size


def lines(rows: int, topics: int, small: bool = False) -> Iterator[bytes]:
    for number in range(rows):
        yield record_line(sample(number, topics, small))


def read(path: Path) -> int:
    """Hash every file and read every table, as one must at least."""
    import pyarrow.parquet as pq

    found = 0
    for each in sorted(path.rglob("*")):
        if each.is_file():
            sha256(each)
        if each.suffix == ".parquet":
            with pq.ParquetFile(each) as file:
                found += sum(batch.num_rows for batch in file.iter_batches(64))
    return found


def measure(way: str, path: Path) -> dict[str, Any]:
    """What one way takes, in this process on one core."""
    os.sched_setaffinity(0, {max(os.sched_getaffinity(0))})
    gc.set_threshold(20_000, 20, 20)  # as `toolloom` sets it
    started, cpu, findings = time.perf_counter(), time.process_time(), 0
    if way == "verify":
        report = verify(path)
        findings = sum(report.counts.values())
    else:
        read(path)
    # Not ru_maxrss: a process inherits it from the one that started it.
    status = Path("/proc/self/status").read_text()
    peak = int(status.partition("VmHWM:")[2].split()[0]) / 1024
    return {
        "wall": time.perf_counter() - started,
        "cpu": time.process_time() - cpu,
        "peak": peak,
        "findings": findings,
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, nargs="+", default=[10_000, 100_000])
    parser.add_argument("--small", action="store_true", help="Single calls with two APIs.")
    parser.add_argument("--apis", type=int, default=0, help="As many APIs, however many rows.")
    parser.add_argument("--outputs", type=Path, help="Where versions are made, and kept.")
    parser.add_argument("--measure", nargs=2, metavar=("WAY", "FOLDER"), help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.measure:
        print(json.dumps(measure(args.measure[0], Path(args.measure[1]))))
        return
    with tempfile.TemporaryDirectory() as temporary:
        for rows in args.rows:
            told(rows, args.outputs or Path(temporary), args.small, args.apis)


def told(rows: int, folder: Path, small: bool, apis_in_all: int) -> None:
    path, size = prepare(folder / f"{rows}", rows, small, apis_in_all)
    print(f"{rows:,} rows of {size:,.0f} bytes", flush=True)
    taken = {}
    for way in ("read", "verify"):
        command = [sys.executable, __file__, "--measure", way, str(path)]
        done = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True)
        taken[way] = found = json.loads(done.stdout)
        print(
            f"  {way:8} {found['wall']:7.1f} s wall, {found['cpu']:7.1f} s CPU, "
            f"{found['peak']:6.0f} MB, {found['findings']} findings",
            flush=True,
        )
    ratio = taken["verify"]["wall"] / taken["read"]["wall"]
    each = taken["verify"]["wall"] / rows * 1000
    wanted = f" (100,000 rows: at most {SECONDS} s)" if rows == 100_000 else ""
    print(f"  {ratio:.0f} times as long as reading; {each:.2f} ms a row{wanted}", flush=True)


if __name__ == "__main__":
    main()
