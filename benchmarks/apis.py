"""How well APIs are found.

    python benchmarks/apis.py --run latest [--embeddings local]
    python benchmarks/apis.py --api-bank DIALOGUES --embeddings ADDRESS --model NAME

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
from collections.abc import Iterable
from pathlib import Path
from typing import NamedTuple

from measure import Json, show

from toolloom.llm import Embedder, Gateway
from toolloom.pipeline.apis.search import Finder, ndcg
from toolloom.pipeline.formats import api_bank
from toolloom.pipeline.formats.import_log import ImportLog
from toolloom.pipeline.store.run_folder import find_run
from toolloom.pipeline.store.version import find_version
from toolloom.schemas import Api, Endpoint, NothingFound, Sample, SearchPlan, ToolloomError

DEPTHS = (1, 5)


class Task(NamedTuple):
    """Searches among the same candidates, each a text with the ids of what it ought to find."""

    name: str
    apis: dict[str, Api]
    searches: list[tuple[str, set[str]]]


def of_run(outputs: Path, name: str) -> Task:
    """The accepted queries of a run, or of a version of a dataset. Raises NothingFound."""
    try:
        version = find_version(outputs, name)
        label, queries = version.label, [sample.dialogue.query for sample in version.samples()]
        offered: Iterable[Api] = (api for q in queries for api in (*q.pool, *q.needed))
    except NothingFound:
        run = find_run(outputs, name)
        label = run.id
        queries = [Sample.model_validate(row).dialogue.query for row in run.rows()]
        offered = run.stage("apis").records(Api)
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
    found = [one for one in task.searches if one[1] and one[1] <= task.apis.keys()]
    apis, gains = list(task.apis.values()), []
    for text, relevant in found:
        ranked = [api.id for api in await finder.rank(apis, text, max(DEPTHS))]
        gains.append([ndcg(ranked, relevant, k) for k in DEPTHS])
    count = len(gains) or 1
    means = {f"ndcg{k}": 100 * sum(g[n] for g in gains) / count for n, k in enumerate(DEPTHS)}
    counts = {"queries": len(found), "lacking": len(task.searches) - len(found)}
    each = 1000 * (time.perf_counter() - began) / count
    return {"of": task.name, "candidates": len(apis), **counts, **means, "ms": each}


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
    try:
        show("Search", asyncio.run(search(chosen)), RANKED)
    except (ToolloomError, ValueError) as error:
        raise SystemExit(str(error)) from error


if __name__ == "__main__":
    main()
