"""How well APIs are found, and what importing OpenAPI descriptions costs and survives.

    python benchmarks/apis.py search --run latest [--embeddings local]
    python benchmarks/apis.py search --api-bank DIALOGUES --embeddings http://127.0.0.1:8000/v1 \\
        --model NAME --key-env NAME_OF_VARIABLE
    python benchmarks/apis.py import specs/*.json
    python benchmarks/apis.py fuzz specs/*.json --inputs 1000 --seed 1

`search`: NDCG@1 and NDCG@5 (ToolLLM, section 3.1) of BM25 and of embeddings. Of a run, or of a
version of a dataset, each accepted query's first turn is searched for, what it needs is relevant,
and all APIs of the run (of the dataset's pools) are candidates. Of API-Bank's dialogues: the
keywords of each annotated search, the API it was meant to find, all APIs of the dialogues.
Embeddings are kept in the response cache: a second time costs nothing.

`import`: each file is read in a process of its own, its APIs written to a temporary file one by
one; in brackets stands how much memory that added. Afterwards, untimed, every schema and function
name is checked.

`fuzz`: descriptions are changed at random places by a seeded generator: cut short, parts deleted
or replaced by odd values, moved into each other, nested, and referred to from everywhere. Each must
end in legal APIs or in ImportFailed, and soon. What fails is printed with its number, so that it
can be made again with --only.
"""

from __future__ import annotations

import argparse
import asyncio
import copy
import json
import random
import re
import subprocess
import sys
import tempfile
import time
import traceback
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import islice
from pathlib import Path
from typing import Any, NamedTuple

import yaml
from jsonschema import Draft202012Validator
from measure import Json, alone, answer, memory, show
from pydantic import ValidationError

from toolloom.llm import Embedder, Gateway
from toolloom.pipeline.apis.search import Finder, ndcg
from toolloom.pipeline.dataset.unfold import accepted
from toolloom.pipeline.formats import api_bank
from toolloom.pipeline.formats.files import load
from toolloom.pipeline.formats.import_log import ImportLog
from toolloom.pipeline.formats.openapi import read
from toolloom.pipeline.store.run import find_run
from toolloom.pipeline.store.version import find_version
from toolloom.schemas import (
    Api,
    Endpoint,
    ImportFailed,
    NothingFound,
    Sample,
    SearchPlan,
    ToolloomError,
)

DEPTHS = (1, 5)
LEGAL = re.compile(r"[a-zA-Z0-9_-]{1,64}")
SLOW = 10.0  # seconds for one input, checks included
LARGEST = 400_000  # bytes of a file that is changed
ODD: list[Any] = [
    *(None, True, False, 0, -1, 10**30, 1e308, "", "x", "\x00", "\ud800", "é" * 300, "a" * 200_000),
    *([], {}, [[]], [None], {"": None}, {"$ref": 5}, {"$ref": "#"}, {"$ref": "#/"}),
    *("string", "object", "array", "null", "any", "#/paths", ["string", 5], {"type": "object"}),
    *([{"$ref": "#"}], {"type": ["array", "object"]}, {"allOf": [{"$ref": "#"}]}),
    *({"required": True}, {"properties": {"$ref": {"$ref": "#"}}}, {"pattern": "(((a+)+)+"}),
    {"enum": list(range(5_000))},
]
REFERENCES = [
    *("#", "#/", "#/paths", "#/components/schemas", "#/paths/~1", "../secret.json", "/etc/passwd"),
    *("http://zoo.example/a.json", "//zoo.example", "file:///etc/passwd", "", "#x", "%00", "~"),
    *(".", "root.json", "root.json#/paths", "%2e%2e/%2e%2e/etc/passwd", "#/info/title"),
    "#" + "/a" * 5_000,
]


class Search(NamedTuple):
    """A text that is searched for, and the ids of the APIs it ought to find."""

    text: str
    relevant: frozenset[str]


class Task(NamedTuple):
    """Searches among the same candidates."""

    name: str
    apis: Sequence[Api]
    searches: Sequence[Search]


def of_run(outputs: Path, name: str) -> Task:
    """The accepted queries of a run, or of a version of a dataset. Raises NothingFound."""
    try:
        version = find_version(outputs, name)
        label, samples = version.label, list(version.samples())
        offered: Iterable[Api] = (
            api
            for sample in samples
            for api in (*sample.dialogue.query.pool, *sample.dialogue.query.needed)
        )
    except NothingFound:
        run = find_run(outputs, name)
        label, samples = run.id, [Sample.model_validate(row) for row in accepted(run)]
        offered = run.stage("apis").records(Api)
    queries = [sample.dialogue.query for sample in samples]
    searches = [Search(q.text, frozenset(api.id for api in q.needed)) for q in queries]
    return Task(label, _unique(offered), searches)


def of_api_bank(path: Path) -> Task:
    """API-Bank's annotated searches. Raises ImportFailed."""
    apis = _unique(api_bank.read(path, ImportLog(str(path))))
    ids = {api.name: api.id for api in apis}
    pairs = api_bank.searches(path)
    meant = [Search(keywords, frozenset({ids.get(name, name)})) for keywords, name in pairs]
    return Task("API-Bank", apis, meant)


def _unique(apis: Iterable[Api]) -> list[Api]:
    return list({api.id: api for api in apis}.values())


async def rank(task: Task, embedder: Embedder | None) -> Json:
    """Mean NDCG at each depth, and milliseconds a search, the index and its vectors included."""
    finder, began = Finder(SearchPlan(), embedder), time.perf_counter()
    candidates, gains = {api.id for api in task.apis}, []
    for search in task.searches:
        if search.relevant and search.relevant <= candidates:
            ranked = [api.id for api in await finder.rank(task.apis, search.text, max(DEPTHS))]
            gains.append([ndcg(ranked, search.relevant, k) for k in DEPTHS])
    count = len(gains) or 1
    columns = zip(*gains, strict=True) if gains else [[0.0]] * len(DEPTHS)
    means = {f"ndcg{k}": 100 * sum(c) / count for k, c in zip(DEPTHS, columns, strict=True)}
    each = 1000 * (time.perf_counter() - began) / count
    counts = {"queries": len(gains), "lacking": len(task.searches) - len(gains)}
    return {"of": task.name, "candidates": len(task.apis), **counts, **means, "ms": each}


async def search(chosen: argparse.Namespace) -> list[Json]:
    tasks = [of_run(chosen.outputs, chosen.run)] if chosen.run else []
    tasks += [of_api_bank(chosen.api_bank)] if chosen.api_bank else []
    ways: dict[str, Embedder | None] = {"BM25": None}
    async with Gateway(chosen.outputs / "cache.sqlite") as gateway:
        if chosen.embeddings:
            at = {"base_url": chosen.embeddings, "model": chosen.model, "key_env": chosen.key_env}
            ways[chosen.model] = gateway.embedder(Endpoint.model_validate(at))
        return [{"by": name, **await rank(t, by)} for t in tasks for name, by in ways.items()]


def imported(source: str) -> Json:
    """What came of one file, and what it cost."""
    path, before, number = Path(source), memory("VmHWM"), 0
    ledger = ImportLog(path.name)
    with tempfile.TemporaryFile("w+", encoding="utf-8") as lines:
        start = time.perf_counter()
        try:
            for api in read(path, ledger):
                lines.write(api.model_dump_json() + "\n")
                number += 1
        except ImportFailed as error:
            return {"file": f"{path.name}: not imported: {error}"}
        seconds, after = time.perf_counter() - start, memory("VmHWM")
        lines.seek(0)
        check(map(Api.model_validate_json, lines))
    report = ledger.report(imported=number, seconds=seconds)
    assert report.read == number + len(report.skipped), "operations that are not accounted for"
    return {
        "file": f"{path.parent.name}/{path.name}",
        "size": report.bytes / 1e6,
        "version": report.version,
        "read": report.read,
        "imported": number,
        **{name: len(getattr(report, name)) for name in ("renamed", "cut", "unresolved")},
        "seconds": seconds,
        "memory": f"{after:.0f} (+{after - before:.0f})",
    }


def check(apis: Iterable[Api]) -> int:
    """Schemas are legal and small, function names legal and unique, required names exist."""
    functions: set[str] = set()
    for api in apis:
        for schema, most in ((api.parameters, 8_100), (api.returns or {}, 4_000)):
            Draft202012Validator.check_schema(schema)
            text = json.dumps(schema, ensure_ascii=False, separators=(",", ":"))
            size = len(text.encode("utf-8", "replace"))
            assert size <= most, f"{api.id}: a schema of {size} bytes"
        assert LEGAL.fullmatch(api.function), f"{api.id}: the function name {api.function}"
        assert api.function not in functions, f"{api.id}: another {api.function}"
        assert set(api.required) <= set(api.properties), "required names that do not exist"
        assert len(api.model_dump_json()) < 40_000, "a large API"
        assert "root:x:0" not in api.model_dump_json(), "a file from outside"
        functions.add(api.function)
    return len(functions)


Place = tuple[Any, Any]  # (object or list, key or position)


def places(document: Any, most: int = 60_000) -> list[Place]:
    """Every place of a document, by what holds it."""
    found: list[Place] = []
    stack, seen = [document], set()
    while stack and len(found) < most:
        part = stack.pop()
        if not isinstance(part, dict | list) or id(part) in seen:
            continue
        seen.add(id(part))
        for key, value in list(part.items() if isinstance(part, dict) else enumerate(part)):
            found.append((part, key))
            stack.append(value)
    return found


def change(chance: random.Random, document: Any) -> None:
    """One place of a document becomes something else."""
    some = places(document) or [({}, "a")]
    place = chance.choice(some)
    (holder, key), value = place, held(place)
    match chance.choice(("delete", *("odd", "refer") * 2, "move", "swap", "nest", "rename")):
        case "delete" if isinstance(holder, dict):
            holder.pop(key, None)
        case "delete" if holder:
            holder.pop()
        case "odd":
            put(place, copy.deepcopy(chance.choice(ODD)))
        case "refer":
            put(place, {"$ref": chance.choice(REFERENCES)})
        case "move":  # one part becomes another's: often a cycle, which only YAML can write down
            put(chance.choice(some), value)
        case "swap" if isinstance(value, dict):
            put(place, list(value.values()))
        case "swap" if isinstance(value, list):
            put(place, {str(number): each for number, each in enumerate(value)})
        case "swap":
            put(place, [value] if chance.random() < 0.5 else {"type": value})
        case "nest":
            put(place, nested(chance, value))
        case "rename" if isinstance(holder, dict) and key in holder:
            names = ["$ref", "type", "allOf", "properties", "", "a/b~c", "x" * 300, "\ud800", "get"]
            holder[chance.choice(names)] = holder.pop(key)


def nested(chance: random.Random, value: Any) -> Any:
    around: list[Callable[[Any], Any]] = [
        lambda v: {"allOf": [v, v]},
        lambda v: {"anyOf": [v, {"type": "string"}, v]},
        lambda v: {"type": "object", "properties": {"a": v, "b": v}},
        lambda v: {"type": "array", "items": v},
        lambda v: [v],
    ]
    wrap = chance.choice(around)
    for _ in range(chance.choice([1, 3, 12, 90])):
        value = wrap(value)
    return value


def held(place: Place) -> Any:
    holder, key = place
    if isinstance(holder, dict):
        return holder.get(key)
    return holder[key] if key < len(holder) else None


def put(place: Place, value: Any) -> None:
    holder, key = place
    if isinstance(holder, dict) or key < len(holder):
        holder[key] = value


def written(document: Any, chance: random.Random) -> bytes:
    """As JSON, or as YAML where it holds itself; one in eight is damaged as text."""
    try:
        if len(list(islice(values(document), 200_001))) > 200_000:
            raise ValueError("shared parts that would multiply")
        text = json.dumps(document)
    except (ValueError, RecursionError):
        try:
            text = yaml.dump(document, Dumper=yaml.CSafeDumper, allow_unicode=False)
        except (RecursionError, UnicodeEncodeError, yaml.YAMLError):
            text = "openapi: 3.0.0\npaths: &p {/a: *p}\n"
    raw = text.encode("utf-8", "replace")
    if chance.random() < 0.125:
        at = chance.randrange(1, len(raw))
        junk = chance.choice([b"", b"", b"\xff", b"\x00", b"\t", b'"', b"{", b"*a", b"<<: [1]\n"])
        raw = raw[:at] + junk + (raw[at + 1 :] if junk else b"")
    return raw


def values(document: Any) -> Iterator[None]:
    """Once for each value that would be written, shared ones each time."""
    stack = [document]
    while stack:
        part = stack.pop()
        yield
        if isinstance(part, dict | list):
            inner = part.values() if isinstance(part, dict) else part
            stack.extend(islice(inner, 200_001))


def attempt(file: Path) -> str:
    """What came of one input. Anything but legal APIs or ImportFailed is an exception."""
    ledger, start = ImportLog("root"), time.perf_counter()
    try:
        number = check(read(file, ledger))
    except ImportFailed as error:
        assert str(error), "an error without a word"
        return "refused"
    report = ledger.report(imported=number)
    report.model_dump_json()
    assert report.read == number + len(report.skipped), "operations that are not accounted for"
    assert time.perf_counter() - start < SLOW, f"{time.perf_counter() - start:.1f} s"
    return "imported" if number else "no operations"


def fuzz(chosen: argparse.Namespace) -> int:
    files = [s for s in chosen.sources if s.is_file() and s.stat().st_size < LARGEST]
    originals = [load(file) for file in files]
    outcomes: Counter[str] = Counter()
    slowest, end = 0.0, time.monotonic() + chosen.seconds
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "inner" / "root.json"
        file.parent.mkdir()
        for number in range(chosen.inputs) if chosen.only is None else [chosen.only]:
            if time.monotonic() > end:
                break
            chance = random.Random(f"{chosen.seed} {number}")
            document = copy.deepcopy(chance.choice(originals))
            for _ in range(chance.choice([1, 2, 5, 20])):
                change(chance, document)
            file.write_bytes(written(document, chance))
            start = time.perf_counter()
            try:
                outcomes[attempt(file)] += 1
            except Exception:  # noqa: BLE001  # whatever fails is what is looked for
                outcomes["failed"] += 1
                print(f"input {number} of seed {chosen.seed}:\n{traceback.format_exc()[-1500:]}")
            slowest = max(slowest, time.perf_counter() - start)
    counts = ", ".join(f"{number} {what}" for what, number in sorted(outcomes.items()))
    print(f"{outcomes.total()} inputs from {len(files)} files: {counts}; slowest {slowest:.2f} s")
    return 1 if outcomes["failed"] else 0


def import_all(sources: Sequence[Path]) -> Iterator[Json]:
    for source in sources:
        try:
            yield alone(__file__, "imported", source=source)
        except subprocess.CalledProcessError as error:
            yield {"file": f"{source.name}: ended with status {error.returncode}"}


COST = {"file": "file", "size": "MB", "version": "version", "read": "operations"}
COST |= {name: name for name in ("imported", "renamed", "cut", "unresolved", "seconds")}
RANKED = {"of": "searches of", "by": "ranked by", "queries": "queries", "candidates": "candidates"}
RANKED |= {f"ndcg{k}": f"NDCG@{k}" for k in DEPTHS} | {"ms": "ms a search"}
RANKED |= {"lacking": "for APIs that are no candidates"}


def main() -> int:
    answer({"imported": imported})
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("what", choices=("search", "import", "fuzz"))
    parser.add_argument("sources", nargs="*", type=Path, help="files, or folders of one each")
    parser.add_argument("--run", help="a run or a dataset's version: id, path or `latest`")
    parser.add_argument("--api-bank", type=Path, help="a file or folder of API-Bank's dialogues")
    parser.add_argument("--outputs", "-o", type=Path, default=Path("outputs"))
    parser.add_argument("--embeddings", help="address up to and with /v1, or `local`")
    parser.add_argument("--model", default=Endpoint().model, help="the embedding model there")
    parser.add_argument("--key-env", default=Endpoint().key_env, help="variable with its key")
    parser.add_argument("--inputs", type=int, default=500)
    parser.add_argument("--seconds", type=float, default=300)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--only", type=int, help="make this one again")
    chosen = parser.parse_args()
    if chosen.what == "fuzz":
        return fuzz(chosen)
    if chosen.what == "import":
        show("OpenAPI", import_all(chosen.sources), {**COST, "memory": "MB used"})
        return 0
    if not chosen.run and not chosen.api_bank:
        parser.error("give --run, --api-bank or both")
    try:
        show("Search", asyncio.run(search(chosen)), RANKED)
    except ValidationError as error:
        parser.error(f"--embeddings: {error.errors()[0]['msg']}")
    except ToolloomError as error:
        raise SystemExit(str(error)) from error
    return 0


if __name__ == "__main__":
    sys.exit(main())
