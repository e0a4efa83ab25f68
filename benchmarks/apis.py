"""How well APIs are found.

    python benchmarks/apis.py --run latest [--embeddings local]
    python benchmarks/apis.py --api-bank DIALOGUES --embeddings http://127.0.0.1:8000/v1 \\
        --model NAME --key-env NAME_OF_VARIABLE

NDCG@1 and NDCG@5 (ToolLLM, section 3.1) of BM25 and of embeddings. Of a run, or of a
version of a dataset, each accepted query's first turn is searched for, what it needs is relevant,
and all APIs of the run (of the dataset's pools) are candidates. Of API-Bank's dialogues: the
keywords of each annotated search, the API it was meant to find, all APIs of the dialogues.
Embeddings are kept in the response cache: a second time costs nothing.
"""

from __future__ import annotations

import argparse
import asyncio
import time
from pathlib import Path
from typing import NamedTuple

from measure import Json, show

from toolloom.llm import Embedder, Gateway
from toolloom.pipeline.apis.search import Finder, ndcg
from toolloom.pipeline.formats import api_bank
from toolloom.pipeline.formats.import_log import ImportLog
from toolloom.pipeline.store.run_folder import find_run
from toolloom.pipeline.store.version import find_version
from toolloom.schemas import Api, Endpoint, NothingFound, Sample, SearchPlan

DEPTHS = (1, 5)


class Task(NamedTuple):
    """Searches among the same candidates: a text, and the ids of the APIs it ought to find."""

    name: str
    apis: dict[str, Api]
    searches: list[tuple[str, set[str]]]


def of_run(outputs: Path, name: str) -> Task:
    """The accepted queries of a run, or of a version of a dataset. Raises NothingFound."""
    try:
        version = find_version(outputs, name)
        label, samples = version.label, list(version.samples())
        queries = [sample.dialogue.query for sample in samples]
        offered = [api for query in queries for api in (*query.pool, *query.needed)]
    except NothingFound:
        run = find_run(outputs, name)
        label, samples = run.id, [Sample.model_validate(row) for row in run.rows()]
        queries = [sample.dialogue.query for sample in samples]
        offered = [*run.stage("apis").records(Api)]
    searches = [(query.text, {api.id for api in query.needed}) for query in queries]
    return Task(label, {api.id: api for api in offered}, searches)


def of_api_bank(path: Path) -> Task:
    """API-Bank's annotated searches. Raises ImportFailed."""
    apis = {api.id: api for api in api_bank.read(path, ImportLog(str(path)))}
    ids = {api.name: api.id for api in apis.values()}
    searches = [(words, {ids.get(name, name)}) for words, name in api_bank.searches(path)]
    return Task("API-Bank", apis, searches)


async def rank(task: Task, embedder: Embedder | None) -> Json:
    """Mean NDCG at each depth, and milliseconds a search, the index and its vectors included."""
    finder, began = Finder(SearchPlan(), embedder), time.perf_counter()
    apis, gains = [*task.apis.values()], []
    for words, relevant in task.searches:
        if relevant and relevant <= {*task.apis}:
            ranked = [api.id for api in await finder.rank(apis, words, max(DEPTHS))]
            gains.append({k: ndcg(ranked, relevant, k) for k in DEPTHS})
    count = len(gains) or 1
    means = {f"ndcg{k}": 100 * sum(gain[k] for gain in gains) / count for k in DEPTHS}
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


RANKED = {"of": "searches of", "by": "ranked by", "queries": "queries", "candidates": "candidates"}
RANKED |= {f"ndcg{k}": f"NDCG@{k}" for k in DEPTHS} | {"ms": "ms a search"}
RANKED |= {"lacking": "for APIs that are no candidates"}


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--run", help="a run or a dataset's version: id, path or `latest`")
    parser.add_argument("--api-bank", type=Path, help="a file or folder of API-Bank's dialogues")
    parser.add_argument("--outputs", "-o", type=Path, default=Path("outputs"))
    parser.add_argument("--embeddings", help="address up to and with /v1, or `local`")
    parser.add_argument("--model", default=Endpoint().model, help="the embedding model there")
    parser.add_argument("--key-env", default=Endpoint().key_env, help="variable with its key")
    chosen = parser.parse_args()
    if not chosen.run and not chosen.api_bank:
        parser.error("give --run, --api-bank or both")
    show("Search", asyncio.run(search(chosen)), RANKED)


if __name__ == "__main__":
    main()
