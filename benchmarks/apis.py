"""How well APIs are found, and what importing OpenAPI descriptions costs.

    python benchmarks/apis.py search --run latest [--embeddings local]
    python benchmarks/apis.py search --api-bank DIALOGUES --embeddings http://127.0.0.1:8000/v1 \\
        --model NAME --key-env NAME_OF_VARIABLE
    python benchmarks/apis.py import specs/*.json

`search`: NDCG@1 and NDCG@5 (ToolLLM, section 3.1) of BM25 and of embeddings. Of a run, or of a
version of a dataset, each accepted query's first turn is searched for, what it needs is relevant,
and all APIs of the run (of the dataset's pools) are candidates. Of API-Bank's dialogues: the
keywords of each annotated search, the API it was meant to find, all APIs of the dialogues.
Embeddings are kept in the response cache: a second time costs nothing.

`import`: each file is read in a process of its own, its APIs written to a temporary file one by
one; in brackets stands how much memory that added. Afterwards, untimed, every schema and function
name is checked.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import re
import subprocess
import tempfile
import time
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

from jsonschema import Draft202012Validator
from measure import Json, alone, answer, memory, show
from pydantic import ValidationError

from toolloom.llm import Embedder, Gateway
from toolloom.pipeline.apis.search import Finder, ndcg
from toolloom.pipeline.formats import api_bank
from toolloom.pipeline.formats.import_log import ImportLog
from toolloom.pipeline.formats.openapi import read
from toolloom.pipeline.store.run_folder import find_run
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
        label, samples = run.id, [Sample.model_validate(row) for row in run.rows()]
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


def check(apis: Iterable[Api]) -> None:
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
        functions.add(api.function)


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


def main() -> None:
    answer({"imported": imported})
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("what", choices=("search", "import"))
    parser.add_argument("sources", nargs="*", type=Path, help="files, or folders of one each")
    parser.add_argument("--run", help="a run or a dataset's version: id, path or `latest`")
    parser.add_argument("--api-bank", type=Path, help="a file or folder of API-Bank's dialogues")
    parser.add_argument("--outputs", "-o", type=Path, default=Path("outputs"))
    parser.add_argument("--embeddings", help="address up to and with /v1, or `local`")
    parser.add_argument("--model", default=Endpoint().model, help="the embedding model there")
    parser.add_argument("--key-env", default=Endpoint().key_env, help="variable with its key")
    chosen = parser.parse_args()
    if chosen.what == "import":
        show("OpenAPI", import_all(chosen.sources), {**COST, "memory": "MB used"})
        return
    if not chosen.run and not chosen.api_bank:
        parser.error("give --run, --api-bank or both")
    try:
        show("Search", asyncio.run(search(chosen)), RANKED)
    except ValidationError as error:
        parser.error(f"--embeddings: {error.errors()[0]['msg']}")
    except ToolloomError as error:
        raise SystemExit(str(error)) from error


if __name__ == "__main__":
    main()
