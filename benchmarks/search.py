"""How well API Search finds: NDCG@1 and NDCG@5 of BM25 and of embeddings (ToolLLM, section 3.1).

    python benchmarks/search.py --run latest
    python benchmarks/search.py --run latest --embeddings local
    python benchmarks/search.py --api-bank DIALOGUES --embeddings http://127.0.0.1:8000/v1 \\
        --model NAME --key-env NAME_OF_VARIABLE

Of a run, or of a version of a dataset: each accepted query's first turn is searched for, what it
needs is relevant, and all APIs of the run (of the dataset's pools) are candidates. Of API-Bank's
dialogues: the keywords of each annotated search, the API it was meant to find, all APIs of the
dialogues. Embeddings are kept in the response cache: a second time costs nothing.
"""

from __future__ import annotations

import argparse
import asyncio
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from pydantic import ValidationError

from toolloom.llm import Embedder, Gateway
from toolloom.pipeline.apis.search import Finder, ndcg
from toolloom.pipeline.dataset.unfold import accepted
from toolloom.pipeline.store.run import find_run
from toolloom.pipeline.store.version import find_version
from toolloom.schemas import Api, Endpoint, NothingFound, Sample, SearchPlan, ToolloomError

DEPTHS = (1, 5)


@dataclass(frozen=True)
class Search:
    """A text that is searched for, and the ids of the APIs it ought to find."""

    text: str
    relevant: frozenset[str]


@dataclass(frozen=True)
class Task:
    """Searches among the same candidates; `left_out` have nothing relevant among them."""

    name: str
    apis: Sequence[Api]
    searches: Sequence[Search]
    left_out: int = 0


def of_run(outputs: Path, name: str) -> Task:
    """The accepted queries of a run, or of a version of a dataset. Raises NothingFound."""
    try:
        version = find_version(outputs, name)
    except NothingFound:
        run = find_run(outputs, name)
        samples = [Sample.model_validate(row) for row in accepted(run)]
        return task(run.id, _unique(run.stage("apis").records(Api)), queries(samples))
    samples = list(version.samples())
    offered = _unique(api for s in samples for api in (*s.dialogue.query.pool, *_needed(s)))
    return task(version.label, offered, queries(samples))


def queries(samples: Sequence[Sample]) -> list[Search]:
    return [Search(s.dialogue.query.text, frozenset(api.id for api in _needed(s))) for s in samples]


def _needed(sample: Sample) -> tuple[Api, ...]:
    return sample.dialogue.query.needed


def of_api_bank(path: Path) -> Task:
    """API-Bank's annotated searches. Raises ImportFailed."""
    from toolloom.pipeline.formats import api_bank
    from toolloom.pipeline.formats.import_log import ImportLog

    apis = _unique(api_bank.read(path, ImportLog(str(path))))
    ids = {api.name: api.id for api in apis}
    pairs = api_bank.searches(path)
    meant = [Search(keywords, frozenset({ids.get(name, name)})) for keywords, name in pairs]
    return task("API-Bank", apis, meant)


def _unique(apis: Iterator[Api]) -> list[Api]:
    return list({api.id: api for api in apis}.values())


def task(name: str, apis: Sequence[Api], searches: Sequence[Search]) -> Task:
    known = {api.id for api in apis}
    kept = [s for s in searches if s.relevant and s.relevant <= known]
    return Task(name, apis, kept, len(searches) - len(kept))


async def measure(given: Task, embedder: Embedder | None) -> tuple[list[float], float]:
    """Mean NDCG at each depth, and milliseconds a search, the index and its vectors included."""
    finder, began = Finder(SearchPlan(), embedder), time.perf_counter()
    gains = []
    for search in given.searches:
        ranked = [api.id for api in await finder.rank(given.apis, search.text, max(DEPTHS))]
        gains.append([ndcg(ranked, search.relevant, k) for k in DEPTHS])
    count = len(gains) or 1
    means = [sum(column) / count for column in zip(*gains, strict=True)] or [0.0] * len(DEPTHS)
    return means, 1000 * (time.perf_counter() - began) / count


async def compare(tasks: Sequence[Task], endpoint: Endpoint | None, cache: Path) -> None:
    depths = " | ".join(f"NDCG@{k}" for k in DEPTHS)
    print(f"| searches of | ranked by | queries | candidates | {depths} | ms a search |")
    print("|---|---|---:|---:|---:|---:|---:|")
    async with Gateway(cache) as gateway:
        ways: dict[str, Embedder | None] = {"BM25": None}
        if endpoint:
            ways[endpoint.model] = gateway.embedder(endpoint)
        for given in tasks:
            for name, embedder in ways.items():
                means, spent = await measure(given, embedder)
                shown = " | ".join(f"{100 * mean:.1f}" for mean in means)
                sizes = f"{len(given.searches)} | {len(given.apis)}"
                print(f"| {given.name} | {name} | {sizes} | {shown} | {spent:.1f} |", flush=True)
    for given in tasks:
        if given.left_out:
            print(f"\n{given.name}: {given.left_out} searches for APIs that are no candidates.")


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
        tasks = [of_run(chosen.outputs, chosen.run)] if chosen.run else []
        tasks += [of_api_bank(chosen.api_bank)] if chosen.api_bank else []
        fields = {"base_url": chosen.embeddings, "model": chosen.model, "key_env": chosen.key_env}
        endpoint = Endpoint.model_validate(fields) if chosen.embeddings else None
        asyncio.run(compare(tasks, endpoint, chosen.outputs / "cache.sqlite"))
    except ValidationError as error:
        parser.error(f"--embeddings: {error.errors()[0]['msg']}")
    except ToolloomError as error:
        raise SystemExit(str(error)) from error


if __name__ == "__main__":
    main()
