"""Seeds: what the rewriter begins with, from samples and from ToolBench's solution trees."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from toolloom.pipeline.checks.tags import values_of
from toolloom.pipeline.formats.toolbench_seeds import came, tree_seeds
from toolloom.pipeline.stage import Sifting
from toolloom.schemas import (
    FINISH,
    Api,
    Expansion,
    Granularity,
    Instruction,
    JsonObject,
    Rejected,
    Seed,
    Split,
    Step,
)
from toolloom.schemas.splits import split_of


def draw_seeds(given: Sifting) -> Iterator[Seed | Rejected]:
    """A seed of each sample that calls something, then one of each ToolBench solution tree.

    Samples in which nothing fits the request have no path, hence no tag that a level could name:
    they yield nothing.
    """
    plan = given.recipe.splits
    for sample in _samples(given):
        seed = seed_of(sample, split_of(plan, sample["dialogue"]["query"]))
        if seed:
            yield seed
    wanted = given.recipe.rewrite
    if wanted and wanted.seeds:
        apis = (Api.model_validate(api) for _, api in given.earlier("apis").objects())
        yield from tree_seeds(wanted.seeds, plan, given.stage, apis, given.rows.check)


def _samples(given: Sifting) -> Iterator[JsonObject]:
    for _, sample in given.rows.objects():
        yield sample
    wanted = given.recipe.rewrite
    if not wanted or not wanted.expanded:
        return
    from toolloom.pipeline.dataset.unfolding import (
        unfolded,  # late: few recipes want rows rewritten
    )

    for _, expansion in given.earlier("expanded").objects():
        yield from unfolded(Expansion.model_validate(expansion), given.recipe.seed)


def seed_of(sample: JsonObject, split: Split) -> Seed | None:
    """The seed of a sample, as JSON; None if none of its calls succeeds.

    The request is all that the user says, answers to questions included; the path holds the calls
    whose observation is no error, without API Search.
    """
    dialogue = sample["dialogue"]
    query, messages = dialogue["query"], dialogue["messages"]
    pool = {api["function"]: api for api in query["pool"]}
    made = [call for call in _successful(messages) if call["name"] in pool]
    said = [(m["content"] or "").strip() for m in messages if m["role"] == "user"]
    hybrid = " ".join(filter(None, said))
    if not made or not hybrid:
        return None
    return Seed(
        id=query["id"],
        split=split,
        hybrid=hybrid,
        steps=tuple(step_of(pool[call["name"]]) for call in made),
        values=values_of(call["arguments"] for call in made),
        pool=tuple(Api.model_validate({**api, "provenance": ()}) for api in query["pool"]),
    )


def step_of(api: JsonObject) -> Step:
    """The call of an API, as JSON."""
    return Step(
        category=api["category"], tool=api["tool"], api=api["name"], function=api["function"]
    )


def _successful(messages: Sequence[JsonObject]) -> Iterator[JsonObject]:
    """The calls that came to something, as function and arguments."""
    results = {m.get("tool_call_id"): m["content"] for m in messages if m["role"] == "tool"}
    for message in messages:
        for call in message.get("tool_calls") or ():
            if came(results.get(call["id"])):
                yield call["function"]


def seed_of_rows(rows: Sequence[Instruction]) -> Seed | None:
    """A seed of what the instructions of a sample tell, for those whose source is not there.

    Values and pool are unknown, so fewer faults can be found. None without its full request, or
    if lists and path do not belong together.
    """
    whole = next((row for row in rows if row.level is Granularity.HYBRID), None)
    if whole is None or whole.path[-1:] != (FINISH,):
        return None
    tags, functions = whole.tags, whole.path[:-1]
    lists = (tags.categories, tags.tools, tags.apis, functions)
    if not functions or len({len(each) for each in lists}) > 1:
        return None
    return Seed(
        id=whole.sample,
        split=whole.split,
        hybrid=whole.text,
        steps=tuple(
            Step(category=category, tool=tool, api=api, function=function)
            for category, tool, api, function in zip(*lists, strict=True)
        ),
        source=whole.source,
        licence=whole.licence,
    )
