"""The stages, in order: each wires an agent to its inputs and senses."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from functools import cache

from toolloom.agents import api, domain, query, simulator, tester
from toolloom.agents.likeness import twin
from toolloom.agents.outcome import Job
from toolloom.agents.wording import Senses
from toolloom.pipeline.catalogue import categories, category, public_apis
from toolloom.pipeline.checks import inspect
from toolloom.pipeline.checks.grounding import mentions, same, spans
from toolloom.pipeline.checks.wording import odd_reply, odd_request
from toolloom.pipeline.retrieval import Index, search
from toolloom.pipeline.sampling import draw_needs, rng_for, shares
from toolloom.pipeline.stage import Context, Outcome, Stage
from toolloom.schemas import (
    API_SEARCH,
    AgentName,
    Api,
    Brief,
    Dialogue,
    Domain,
    Need,
    Query,
    Recipe,
    Rejected,
    Sample,
    seed_for,
)
from toolloom.schemas.catalogue import PublicApi

SHOWN = 5  # real APIs in the API agent's prompt


def _job(context: Context, stage: str, agent: AgentName, record_id: str) -> Job:
    seed = seed_for(context.recipe.seed, stage, record_id)
    return Job(stage, agent, record_id, seed, context.model(agent))


def draw_briefs(recipe: Recipe, _: Iterable[Domain]) -> Iterator[Brief]:
    """The recipe's domains, parted over its categories."""
    chosen = [category(name) for name in recipe.apis.categories]
    if not chosen:
        chosen = list(categories())
        rng_for(recipe.seed, "domains").shuffle(chosen)
        chosen = chosen[: recipe.apis.domains]
    parts = shares({c.name: 1.0 for c in chosen}, recipe.apis.domains)
    for each in chosen:
        if parts[each.name]:
            yield Brief(
                category=each.name,
                about=each.about,
                examples=each.examples,
                count=parts[each.name],
            )


async def name_domains(brief: Brief, context: Context) -> Outcome:
    return await domain.run(brief, _job(context, "domains", "domain", brief.id))


def settle_domains(found: Sequence[Domain]) -> Outcome:
    """Reject domains that another category has already."""
    kept: dict[str, Domain] = {}
    rejected: list[Rejected] = []
    for each in found:
        other = twin(each.name, kept)
        if other is None:
            kept[each.name] = each
        else:
            rejected.append(domain.duplicate(each, other, "domains"))
    return Outcome(tuple(kept.values()), tuple(rejected))


@cache
def _examples() -> tuple[tuple[PublicApi, ...], Index]:
    known = tuple(a for a in public_apis() if a.operations)
    texts = [
        f"{a.name} {a.category} {a.does} " + " ".join(f"{o.name} {o.does}" for o in a.operations)
        for a in known
    ]
    return known, Index(texts)


def examples_for(subject: Domain) -> list[PublicApi]:
    """Real APIs that ground a domain's: those of its category, then the most alike."""
    known, index = _examples()
    alike = [known[i] for i in index.top(f"{subject.name} {subject.category}", len(known))]
    ranked = sorted(alike, key=lambda a: a.category != subject.category)
    return ranked[:SHOWN]


async def design_apis(subject: Domain, context: Context) -> Outcome:
    job = _job(context, "apis", "api", subject.id)
    count = context.recipe.apis.per_domain
    return await api.run(subject, job, count=count, examples=examples_for(subject))


def settle_apis(found: Sequence[Api]) -> Outcome:
    """Make function names unique; reject an API that does what one of its category does."""
    kept: list[Api] = []
    rejected: list[Rejected] = []
    functions = {API_SEARCH.function}  # no API may take its name
    for each in found:
        near = twin(each.name, (k.name for k in kept if k.category == each.category))
        if near is not None or any(k.id == each.id for k in kept):
            rejected.append(api.duplicate(each, near or each.name, "apis"))
            continue
        name, number = each.function, 2
        while name in functions:
            name, number = f"{each.function[:60]}_{number}", number + 1
        functions.add(name)
        kept.append(each.model_copy(update={"function": name}))
    return Outcome(tuple(kept), tuple(rejected))


async def word_queries(need: Need, context: Context) -> Outcome:
    return await query.run(need, _job(context, "queries", "query", need.id), SENSES)


async def play_dialogues(asked: Query, context: Context) -> Outcome:
    job = _job(context, "dialogues", "simulator", asked.id)
    return await simulator.run(asked, job, SENSES, search)


async def test_dialogues(played: Dialogue, context: Context) -> Outcome:
    job = _job(context, "tested", "tester", played.id)
    return await tester.run(played, job, inspect, context.recipe.tester.votes)


SENSES = Senses(
    mentions=mentions,
    spans=spans,
    same=same,
    odd_request=odd_request,
    odd_reply=odd_reply,
)

STAGES: tuple[Stage, ...] = (
    Stage("domains", "domain", Brief, Domain, name_domains, draw_briefs, settle_domains),
    Stage("apis", "api", Domain, Api, design_apis, settle=settle_apis),
    Stage("queries", "query", Need, Query, word_queries, draw_needs),
    Stage("dialogues", "simulator", Query, Dialogue, play_dialogues),
    Stage("tested", "tester", Dialogue, Sample, test_dialogues),
)
