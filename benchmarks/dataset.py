"""What is done with finished rows, on one core, each beside a floor that does the least possible.

    python benchmarks/dataset.py curate --rows 10000 1000000
    python benchmarks/dataset.py publish --rows 10000 1000000
    python benchmarks/dataset.py verify --rows 10000 100000

Rows are dialogues of one call, 4 kB each, with words and values of their own (of 5,000 cities,
20,000 hosts, and an API for every two rows), so that no cache holds the answers. The two ways of a
subject take turns, each in a process of its own; the medians of `--rounds` are printed, with the
seconds of the first as parts of those of the floor.

- `curate` looks for near duplicates; the floor for rows whose text is equal.
- `publish` makes a version: rows split, counted, checked and written in every config, with card,
  manifest and hashes. The floor reads the same lines with `json` and writes the same columns with
  bare pyarrow.
- `verify` is `toolloom verify`; the floor takes the SHA-256 of the same files and reads all tables
  with bare pyarrow. 100,000 rows are to be verified in 120 seconds.
"""

from __future__ import annotations

import argparse
import datetime as dt
import hashlib
import json
import shutil
import tempfile
from collections.abc import Callable
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Any

from measure import COSTS, Json, alone, answer, in_turns, show
from support import conversations
from support.conversations import NOW, fields

from toolloom.pipeline.checks import inspect
from toolloom.pipeline.curation.duplicates import deduplicate, instruction
from toolloom.pipeline.dataset.figures import sha256
from toolloom.pipeline.dataset.publish import publish
from toolloom.pipeline.dataset.verify import verify
from toolloom.pipeline.stage import StageInput
from toolloom.pipeline.store.files import Rows, record_line
from toolloom.pipeline.store.run_folder import PlannedStage, RunFolder
from toolloom.schemas import Api, Sample, Split, Usage, parse_recipe

SEED = 7
SYLLABLES = ("ba", "de", "fi", "go", "ku", "la", "me", "ni", "po", "ru", "sa", "te", "vi", "zo")
CATEGORIES = ("Travel", "Music", "Food", "Events", "Sports", "Health", "Weather", "Finance")
RECIPE = {
    "name": "benchmark",
    "seed": SEED,
    "splits": {**dict.fromkeys(Split, 0), "train": 8, "validation": 1, "test_instruction": 1},
}
GROUP = 1_000  # rows of a Parquet group


def word(number: int) -> str:
    """A word for a number, and no other number's."""
    size, parts = len(SYLLABLES), [SYLLABLES[number % len(SYLLABLES)]]
    while number := number // size:
        parts.append(SYLLABLES[number % size])
    return "".join(parts) + "n"


def apis(topic: int) -> tuple[Api, Api]:
    """Two APIs: the second takes what the first finds."""
    thing = word(topic)
    tool = f"{CATEGORIES[topic % len(CATEGORIES)]}/{thing}_desk"
    finds = fields(city="string", day="date", guests="integer")
    offer = fields(host="string", price="number", offer_code="string")
    about = f"Find the best {thing} of a city on a day."
    find = conversations.api(f"{tool}/find_{thing}", finds, offer, about)
    code, ticket = fields(offer_code="string"), fields(ticket_code="string")
    about = f"Book the {thing} that an offer is for."
    return find, conversations.api(f"{tool}/book_{thing}", code, ticket, about)


def sample(number: int, topics: int) -> Sample:
    """A dialogue of one call, with values of this number."""
    drawn = [apis((number + step * 7) % topics) for step in range(3)]
    find, book = drawn[0]
    thing, city = find.name.removeprefix("find_"), word(9_000 + number % 5_000).title()
    day = (NOW.date() + dt.timedelta(days=3 + number % 300)).isoformat()
    asked: Json = {"city": city, "day": day, "guests": 2 + number % 7}
    host, price = f"{word(70_000 + number % 20_000).title()} House", 20 + number % 977 + 0.5
    code = f"OF{number + 10_000}"
    return conversations.sample(
        f"Please find a {thing} in {city} on {day}. There will be {asked['guests']} of us.",
        (find, asked, {"host": host, "price": price, "offer_code": code}),
        f"I found a {thing} at {host} for {price} euros, code {code}.",
        id=f"row-7-{number:06d}",
        pool=(find, book, *drawn[1], drawn[2][0]),
    )


def finished(outputs: Path) -> RunFolder:
    return RunFolder(outputs / "runs" / parse_recipe(RECIPE, "the benchmark").run_id)


def samples_of_run(folder: Path, rows: int, topics: int) -> None:
    """Write a finished run of so many rows."""
    run = finished(folder)
    for number in range(30):
        if findings := inspect(sample(number, topics).dialogue):
            raise SystemExit(f"row {number}: {findings}")
    names = {"apis": ("api", "Api"), "tested": ("tester", "Sample")}
    plan = [PlannedStage(name=n, agent=a, writes=w) for n, (a, w) in names.items()]
    run.open(parse_recipe(RECIPE, "the benchmark"), plan)
    pools, stage = run.stage("apis"), run.stage("tested")
    offered = (record_line(api) for topic in range(topics) for api in apis(topic))
    pools.write_shard(0, offered, (), Usage())
    pools.finish(1, Api, None)
    lines = (record_line(sample(number, topics)) for number in range(rows))
    stage.write_shard(0, lines, (), Usage())
    stage.finish(1, Sample, None)


def version(folder: Path, rows: int, topics: int) -> None:
    """Publish such a run."""
    samples_of_run(folder, rows, topics)
    publish(finished(folder), folder)


def by_curate(folder: Path, rows: int) -> Json:
    of = StageInput(finished(folder).recipe, "deduplicated", rows_of(folder, rows))
    return {"gone": sum(not isinstance(each, bytes) for each in deduplicate(of))}


def by_equal_text(folder: Path, rows: int) -> Json:
    texts = (instruction(row).encode() for _, row in rows_of(folder, rows).objects())
    return {"gone": rows - len({hashlib.sha256(text).digest() for text in texts})}


def rows_of(folder: Path, rows: int) -> Rows:
    return Rows(finished(folder).stage("tested").path / "accepted.jsonl", rows)


def by_publish(folder: Path, rows: int) -> None:
    publish(finished(folder), folder)
    shutil.rmtree(folder / "datasets")


def by_pyarrow(folder: Path, rows: int) -> None:
    """What a script would do by hand."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    kinds = {name: pa.string() for name in ("id", "ability", "scenario")}
    texts = {name: pa.list_(pa.string()) for name in ("messages", "tools")}
    parts = {name: pa.string() for name in ("dialogue", "verdict", "flags", "provenance")}
    sft, samples = pa.schema({**kinds, **texts}), pa.schema({**kinds, **parts})

    def cells(row: Any) -> Json:
        query, messages = row["dialogue"]["query"], row["dialogue"]["messages"]
        tools = ({"type": "function", "function": api} for api in query["pool"])
        return {
            **{name: query[name] for name in kinds},
            **{name: json.dumps(row[name]) for name in parts},
            "messages": [*map(json.dumps, messages)],
            "tools": [*map(json.dumps, tools)],
        }

    with (
        (finished(folder).stage("tested").path / "accepted.jsonl").open("rb") as file,
        pq.ParquetWriter(folder / "sft.parquet", sft, compression="zstd") as one,
        pq.ParquetWriter(folder / "samples.parquet", samples, compression="zstd") as two,
    ):
        while group := [cells(json.loads(line)) for line in islice(file, GROUP)]:
            one.write_table(pa.Table.from_pylist(group, sft))
            two.write_table(pa.Table.from_pylist(group, samples))


def by_verify(folder: Path, rows: int) -> Json:
    return {"gone": sum(verify(*folder.glob("datasets/benchmark/*.0.0")).counts.values())}


def by_reading(folder: Path, rows: int) -> None:
    """Hash every file and read every table, as one must at least."""
    import pyarrow.parquet as pq

    for path in sorted(folder.glob("datasets/**/*")):
        if path.is_file():
            sha256(path)
        if path.suffix == ".parquet":
            with pq.ParquetFile(path) as file:
                assert sum(batch.num_rows for batch in file.iter_batches(64)) >= 0


Way = Callable[[Path, int], Json | None]
SUBJECTS: dict[str, tuple[Callable[[Path, int, int], None], Way, str, Way]] = {
    "curate": (samples_of_run, by_curate, "equal texts", by_equal_text),
    "publish": (samples_of_run, by_publish, "pyarrow", by_pyarrow),
    "verify": (version, by_verify, "read", by_reading),
}
FIGURES = {"rate": "rows/s", **COSTS, "gone": "found", "times": "× floor"}


def measure(subject: str, floor: bool, folder: str, rows: int) -> Json | None:
    _, way, _, least = SUBJECTS[subject]
    return (least if floor else way)(Path(folder), rows)


def compare(subject: str, rows: int, rounds: int) -> list[Json]:
    prepare, _, floor, _ = SUBJECTS[subject]
    with tempfile.TemporaryDirectory(prefix=f"toolloom-{subject}-") as folder:
        prepare(Path(folder), rows, max(50, rows // 4))
        task = {"subject": subject, "folder": folder, "rows": rows}
        ways = {
            name: partial(alone, __file__, "measure", **task, floor=name == floor)
            for name in (subject, floor)
        }
        taken = in_turns(rounds, ways)
    least = taken[floor]["wall"]
    return [
        {"rows": rows, "way": way, "rate": rows / row["wall"], **row, "times": row["wall"] / least}
        for way, row in taken.items()
    ]


def main() -> None:
    answer({"measure": measure}, cores=1)
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("subject", choices=SUBJECTS)
    parser.add_argument("--rows", type=int, nargs="+", default=[10_000])
    parser.add_argument("--rounds", type=int, default=3)
    chosen = parser.parse_args()
    found = [row for rows in chosen.rows for row in compare(chosen.subject, rows, chosen.rounds)]
    used = {name: head for name, head in FIGURES.items() if any(name in row for row in found)}
    show(chosen.subject, found, {"rows": "rows", "way": "way", **used})


if __name__ == "__main__":
    main()
