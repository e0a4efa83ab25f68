"""Validated expansion against a script that fills in values and checks nothing.

    python benchmarks/expand.py --rows 100000 1000000 [--rounds 3] [--templates 5] [--values 80]

Templates are made of the dialogues of `benchmarks/verify.py` (single, parallel and chained calls
of APIs with several arguments, five APIs in a row): every value of the user and of an observation
is a slot, with a pool of so many values. The two ways take turns, each in a process of its own on
one core:

- `expand` does what `toolloom expand` does of an expansion once there are templates: rows are
  drawn, checked and noted in the run, and published in the configs `sft` and `samples` as Parquet;
- `format`, the floor, draws values, puts them into rows made beforehand with `str.format`, and
  dumps the two rows with orjson. It checks nothing and writes nothing.

Loading libraries is not counted. Rows of both hold the same: the bytes of a row are printed, as
is the ratio of rows a second, of which a fifth is asked for. The more rows a template has, the
less proving its values costs each: without `--templates` there are 5, or one for 50,000 rows.
"""

from __future__ import annotations

import argparse
import gc
import json
import os
import random
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from threading import Event
from typing import Any

sys.path.insert(0, str(Path(__file__).parent))
import verify as dialogues

from toolloom.pipeline.dataset.rows import CONFIGS, SFT, samples_row, sft_row
from toolloom.pipeline.dataset.unfold import MARK, TemplateRenderer, text_of, write_expansion
from toolloom.pipeline.stage import StageInput
from toolloom.pipeline.store.files import Rows, read_lines, read_records, record_line, write_lines
from toolloom.pipeline.store.tables import VersionWriter
from toolloom.pipeline.templates.expand import expand
from toolloom.schemas import Choice, Expansion, Rejected, Template, marker, parse_recipe

SEED = 7
FLOOR = 5  # the floor may be so many times as fast


def template(number: int, values: int) -> Template:
    """A dialogue in which each value is a slot. Its chosen values are of other dialogues."""
    sample = dialogues.sample(number, 40).model_dump(mode="json")
    slots = [
        (f"{name}_{place}", name, place)
        for place in range(2 if number % 3 == 1 else 1)
        for name in ("city", "day", "guests", "host", "price", "offer_code")
    ]
    own = {slot: _value(number, name, place) for slot, name, place in slots}
    if number % 3 == 2:
        own["ticket"] = f"TK{number + 30_000}"
    dialogue = sample["dialogue"]
    query = dialogue["query"]
    query["text"] = _marked(query["text"], own)
    query["intent"] = _marked(query["intent"], own)
    for message in dialogue["messages"][1:]:
        if message["role"] == "tool" and "find_" not in message["content"]:
            message["content"] = json.dumps(_marked(json.loads(message["content"]), own))
        elif message["role"] != "tool":
            message["content"] = message["content"] and _marked(message["content"], own)
            message["tool_calls"] = _marked(message["tool_calls"], own)
    rng = random.Random(number)
    pools = {slot: [own[slot]] for slot in own}
    for slot, pool in pools.items():
        for _ in range(values * 20):
            other = rng.randrange(10**6)
            name = slot.partition("_")[0] if slot != "ticket" else slot
            name = "offer_code" if name == "offer" else name
            value = f"TK{other}" if name == "ticket" else _value(other, name, 0)
            if len(pool) < values and value not in pool:
                pool.append(value)
    return Template(
        id=f"row-7-{number:06d}",
        kind="mined",
        goal=query["text"],
        apis=tuple(call["api"] for call in query["intent"]),
        sample=sample,
        choices=tuple(
            Choice(slots=(slot,), rows=tuple((v,) for v in pool), about=slot)
            for slot, pool in pools.items()
        ),
    )


def _value(number: int, name: str, place: int) -> Any:
    asked, found = dialogues.wish(number, place)
    return {**asked, **found}[name]


def _marked(value: Any, own: dict[str, Any]) -> Any:
    """A part of a sample with slots in place of its values; small numbers only before a word."""
    if isinstance(value, dict):
        return {key: _marked(part, own) for key, part in value.items()}
    if isinstance(value, list):
        return [_marked(part, own) for part in value]
    for slot, known in own.items():
        if type(value) is type(known) and value == known:
            return marker(slot)
        if isinstance(value, str):
            text = text_of(known)
            for before, after in (("for ", " guests"), ("be ", " of us"), ("", "")):
                if after or not slot.startswith("guests"):
                    value = value.replace(before + text + after, before + marker(slot) + after)
    return value


def prepare(folder: Path, count: int, values: int) -> None:
    made = (template(number, values) for number in range(count))
    write_lines(folder / "templates.jsonl", map(record_line, made))


def by_expand(folder: Path, rows: int) -> tuple[int, float]:
    """What a run and its publication do."""
    fields = {
        "name": "benchmark",
        "seed": SEED,
        "expand": {"rows": rows},
        "splits": dict.fromkeys(
            ("validation", "test_instruction", "test_tool", "test_category"), 0
        ),
    }
    path = folder / "templates.jsonl"
    count = sum(1 for _ in read_lines(path))
    nothing = Rows(folder, 0)
    given = StageInput(
        parse_recipe(fields, "the benchmark"),
        "expanded",
        nothing,
        nothing,
        folder,
        lambda _: Rows(path, count, Event()),
    )
    write_lines(folder / "accepted.jsonl", _accepted(expand(given)))
    made = 0
    with VersionWriter(folder / "tables", CONFIGS) as tables:
        for expansion in read_records(folder / "accepted.jsonl", Expansion):
            made += len(expansion.rows)
            write_expansion(expansion, tables, SEED)
        tables.finish()
    return made, 0.0


def _accepted(lines: Iterator[bytes | Rejected]) -> Iterator[bytes]:
    for line in lines:
        if isinstance(line, bytes):
            yield line


def by_format(folder: Path, rows: int) -> tuple[int, float]:
    """What a script would do at least."""
    import orjson

    rng, made, size = random.Random(SEED), 0, 0
    templates = list(read_records(folder / "templates.jsonl", Template))
    for number, each in enumerate(templates):
        wanted = rows // len(templates) + (number < rows % len(templates))
        pools = [(c.slots[0], [row[0] for row in c.rows]) for c in each.choices]
        sft, samples, whole, parts = _bare(each)
        for _ in range(wanted):
            values = {slot: pool[int(rng.random() * len(pool))] for slot, pool in pools}
            for place, key, slot in whole:
                place[key] = values[slot]
            for place, key, form in parts:
                place[key] = form(**values)
            size += len(orjson.dumps(sft)) + len(orjson.dumps(samples))
            made += 1
    return made, size / made


def _bare(each: Template) -> tuple[Any, Any, list[Any], list[Any]]:
    """The two rows as objects, where a value stands alone in them, and where in a text."""
    sample = each.sample
    sft = json.loads(json.dumps(sft_row(sample)))
    row = samples_row(sample)
    samples = {**row, "dialogue": json.loads(row["dialogue"])}
    whole: list[Any] = []
    parts: list[Any] = []
    stack: list[Any] = [sft, samples]
    while stack:
        place = stack.pop()
        for key, part in list(place.items() if isinstance(place, dict) else enumerate(place)):
            if isinstance(part, dict | list):
                stack.append(part)
            elif isinstance(part, str) and (found := MARK.fullmatch(part)):
                whole.append((place, key, found[1]))
            elif isinstance(part, str) and "\ue000" in part:
                text = part.replace("{", "{{").replace("}", "}}")
                parts.append((place, key, MARK.sub(r"{\1}", text).format))
    return sft, samples, whole, parts


WAYS = {"expand": by_expand, "format": by_format}


def bytes_of_a_row(folder: Path) -> float:
    """Letters of the texts of a row in the tables, on average of the templates."""
    sizes = []
    for each in read_records(folder / "templates.jsonl", Template):
        mould, row = TemplateRenderer(each), [(0,) * len(each.choices)]
        columns = [mould.sft_columns(row, ["x" * 20]), mould.samples_columns(row, ["x" * 20], SEED)]
        values = [column[0] for told in columns for column in told.values()]
        sizes.append(sum(len(v) if isinstance(v, str) else sum(map(len, v)) for v in values))
    return statistics.mean(sizes)


def one_way(way: str, folder: Path, rows: int) -> None:
    os.sched_setaffinity(0, {max(os.sched_getaffinity(0))})
    import orjson  # noqa: F401 - libraries are loaded before the clock starts, for both ways

    assert SFT.schema  # made once
    gc.set_threshold(20_000, 20, 20)  # as `toolloom` sets it
    started = time.perf_counter()
    made, size = WAYS[way](folder, rows)
    wall = time.perf_counter() - started
    # Not ru_maxrss: a process inherits it from the one that started it.
    status = Path("/proc/self/status").read_text()
    peak = int(status.partition("VmHWM:")[2].split()[0]) / 1024
    print(json.dumps({"wall": wall, "mb": peak, "rows": made, "bytes": size}))


def measure(way: str, folder: Path, rows: int) -> Any:
    command = [sys.executable, __file__, "--way", way, "--folder", str(folder), "--rows", str(rows)]
    done = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True)
    return json.loads(done.stdout.splitlines()[-1])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rows", type=int, nargs="+", default=[100_000])
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--templates", type=int, help="Without it 5, or one for 50,000 rows.")
    parser.add_argument("--values", type=int, default=80)
    parser.add_argument("--way", choices=WAYS)
    parser.add_argument("--folder", type=Path)
    given = parser.parse_args()
    if given.way:
        one_way(given.way, given.folder, given.rows[0])
        return
    for rows in given.rows:
        templates = given.templates or max(5, rows // 50_000)
        compare(rows, given.rounds, templates, given.values)


def compare(rows: int, rounds: int, templates: int, values: int) -> None:
    import shutil

    with tempfile.TemporaryDirectory(prefix="toolloom-expand-") as name:
        folder = Path(name)
        prepare(folder, templates, values)
        found: dict[str, list[Any]] = {way: [] for way in WAYS}
        for _ in range(rounds):
            for way, each in found.items():
                shutil.rmtree(folder / "tables", ignore_errors=True)
                each.append(measure(way, folder, rows))
        size = bytes_of_a_row(folder)
    speed = {
        way: statistics.median(e["rows"] / e["wall"] for e in each) for way, each in found.items()
    }
    print(f"{rows:,} rows of {templates} templates, {size:,.0f} letters a row in both configs")
    for way, each in found.items():
        last = each[-1]
        print(
            f"  {way:8} {last['rows']:>9,} rows, {speed[way]:>9,.0f} rows/s, "
            f"{max(e['mb'] for e in each):,.0f} MB"
            + (f", {last['bytes']:,.0f} bytes a row" if last["bytes"] else "")
        )
    print(f"  {speed['expand'] / speed['format']:.2f} of the floor; asked for: {1 / FLOOR}")


if __name__ == "__main__":
    main()
