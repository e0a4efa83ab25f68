"""The stages, in order: each wires an agent to its inputs.

What needs numpy or templates is imported when a run comes to it: they take some 0.2 s.
"""

from __future__ import annotations

import asyncio
import dataclasses
from collections.abc import Iterator, Sequence
from functools import partial
from itertools import chain
from operator import attrgetter
from pathlib import Path

from toolloom.agents import api, domain, query, rewriter, simulator, tester
from toolloom.agents.ask import BadAnswer, Costs, Job, duplicate, twin
from toolloom.pipeline.apis.search import categories, category, examples_for
from toolloom.pipeline.apis.sources import NOT_WANTED, imported, mended_by, shown
from toolloom.pipeline.checks import inspect
from toolloom.pipeline.curation.contamination import check_benchmarks, decontaminate
from toolloom.pipeline.curation.duplicates import balance, deduplicate
from toolloom.pipeline.dataset.configs import seed_of
from toolloom.pipeline.environments.environment import Script, WorldSession, moment_of
from toolloom.pipeline.environments.executed import Session, check_executed, replay
from toolloom.pipeline.formats import toolbench
from toolloom.pipeline.render.section import counted
from toolloom.pipeline.sampling.draw import draw_needs, shares, split_counts
from toolloom.pipeline.sampling.values import rng_for
from toolloom.pipeline.stage import Context, Stage, StageInput, job_of, late
from toolloom.pipeline.worlds.authoring import write_world
from toolloom.pipeline.worlds.library import apis_of, named_worlds, world_of
from toolloom.pipeline.worlds.library import names as worlds_named
from toolloom.pipeline.worlds.sampler import (
    as_lines,
    check_worlds,
    draw_world_needs,
    expect_rows,
    replayed_need,
)
from toolloom.pipeline.worlds.scripts import moves
from toolloom.schemas import (
    API_SEARCH,
    Ability,
    Api,
    ApiSource,
    Brief,
    Dialogue,
    Domain,
    Instruction,
    Need,
    Outcome,
    Query,
    Reason,
    Recipe,
    RecipeError,
    Record,
    Rejected,
    RewritePlan,
    Sample,
    Seed,
    Template,
    ToolloomError,
    Turn,
    World,
    WorldPlan,
    absent,
)
from toolloom.schemas.splits import split_of


def feed_domains(given: StageInput) -> Iterator[Brief]:
    """The recipe's domains, parted over its categories."""
    recipe = given.recipe
    chosen = [category(name) for name in recipe.apis.categories]
    if not chosen:
        chosen = list(categories())
        rng_for(recipe.seed, "domains").shuffle(chosen)
        chosen = chosen[: recipe.apis.domains]
    parts = shares({c.name: 1.0 for c in chosen}, recipe.apis.domains)
    for each in chosen:
        if parts[each.name]:
            yield Brief(
                category=each.name, about=each.about, examples=each.examples, count=parts[each.name]
            )


def expect_briefs(recipe: Recipe, _: int) -> int:
    return sum(1 for _ in feed_domains(StageInput(recipe, "domains")))


async def name_domains(brief: Brief, context: Context) -> Outcome:
    return await domain.run(brief, job_of(context, "domains", "domain", brief.id))


def settle_named(found: Sequence[Domain | World]) -> Outcome:
    """Reject domains that another category has already, and worlds whose name another has."""
    kept: dict[str, Domain | World] = {}
    rejected: list[Rejected] = []
    for each in found:
        is_domain = isinstance(each, Domain)
        near = twin(each.name, kept) if is_domain else None
        if near or each.name in kept:
            stage = "domains" if is_domain else "worlds"
            rejected.append(duplicate(each, near or each.name, stage))
        else:
            kept[each.name] = each
    return Outcome(tuple(kept.values()), tuple(rejected))


def feed_worlds(given: StageInput) -> Iterator[WorldPlan | Domain]:
    """What worlds come of: the recipe's list of them, then the domains."""
    plan = given.recipe.worlds
    if plan and plan.use:
        yield plan
    if given.recipe.writes_worlds:
        yield from given.records()


def expect_worlds(recipe: Recipe, domains: int) -> int:
    return bool(recipe.worlds and recipe.worlds.use) + (domains if recipe.writes_worlds else 0)


async def take_worlds(subject: WorldPlan | Domain, context: Context) -> Outcome:
    """The recipe's worlds, or one that the API agent writes for a domain."""
    if isinstance(subject, Domain):
        return (await write_world(subject, job_of(context, "worlds", "api", subject.id))).outcome
    provenance = job_of(context, "worlds", "domain", subject.name).provenance(Costs())
    worlds = named_worlds(subject)
    return Outcome(tuple(each.model_copy(update={"provenance": provenance}) for each in worlds))


def worlds_of(given: StageInput) -> list[World]:
    """The worlds of a run."""
    return [World.model_validate(world) for _, world in given.earlier("worlds").objects()]


def offer_world(world: World, context: Context) -> Outcome:
    """A world's operations as APIs, of one collection with those of another world, which stand
    beside them."""
    named = worlds_named(context.recipe.worlds) if context.recipe.worlds else ()
    others = [other for name in named if (other := world_of(name)).name != world.name]
    job = job_of(context, "apis", "api", world.id)
    beside = (rng_for(job.seed, "choice").choice(others).name,) if others else ()
    made = {
        "collections": (world.name, *beside),
        "provenance": job.provenance(Costs(), [world.name]),
    }
    return Outcome(tuple(api.model_copy(update=made) for api in apis_of(world)))


def feed_apis(given: StageInput) -> Iterator[Record]:
    """What APIs come of: the recipe's sources of real ones, worlds, then the domains."""
    yield from given.recipe.apis.sources
    yield from worlds_of(given)
    if not given.recipe.writes_worlds:
        yield from given.records()


def expect_subjects(recipe: Recipe, domains: int) -> int:
    worlds = len(worlds_named(recipe.worlds)) if recipe.worlds else 0
    return len(recipe.apis.sources) + worlds + domains


async def take_apis(source: ApiSource, job: Job) -> Outcome:
    """A source's APIs. What was cut or renamed is in their provenance, what was skipped is
    rejected. Raises ImportFailed, which stops the run: without its APIs a recipe is another one."""
    items, report = await asyncio.to_thread(imported, source)
    mended = mended_by(report)
    kept = [
        item.model_copy(
            update={"provenance": job.provenance(Costs(repairs=tuple(mended.get(item.id, ()))))}
        )
        for item in items
    ]
    skipped = [
        job.reject(source, BadAnswer(Reason.NOT_IMPORTED, f"{s.what}: {s.why}"))
        for s in report.skipped
        if s.why != NOT_WANTED  # left out by the recipe itself
    ]
    return Outcome(tuple(kept), tuple(skipped))


async def make_apis(subject: ApiSource | World | Domain, context: Context) -> Outcome:
    if isinstance(subject, World):
        return offer_world(subject, context)
    if isinstance(subject, ApiSource):
        return await take_apis(subject, job_of(context, "apis", "api", shown(subject)))
    job = job_of(context, "apis", "api", subject.id)
    plan = context.recipe.apis
    return await api.run(subject, job, count=plan.per_domain, examples=examples_for(subject))


def settle_apis(found: Sequence[Api]) -> Outcome:
    """Reject a generated API that does what one of its category does, and an imported one that is
    there already. Functions keep their names, also where two APIs have the same one (a row offers
    only one of them), but none takes that of API Search."""
    kept: list[Api] = []
    rejected: list[Rejected] = []
    ids: set[str] = set()
    generated: dict[str, list[str]] = {}
    for each in found:
        invented = each.source.kind == "generated"
        others = generated.setdefault(each.category, [])
        near = twin(each.name, others) if invented else None
        if near is not None or each.id in ids:
            rejected.append(duplicate(each, near or each.name, "apis"))
            continue
        if invented:
            others.append(each.name)
        ids.add(each.id)
        taken = each.function == API_SEARCH.function
        kept.append(each.model_copy(update={"function": f"{each.function}_2"}) if taken else each)
    return Outcome(tuple(kept), tuple(rejected))


def feed_queries(given: StageInput) -> Iterator[Need]:
    """The recipe's needs. Raises ToolloomError if there are APIs, and none serves any need, or
    none is executed by a source that is to execute some."""
    recipe = given.recipe
    every = list(given.records())
    if recipe.played:
        yield from draw_world_needs(recipe, worlds_of(given), every)
    known = [api for api in every if api.source.kind != "world"]
    if known:
        check_executed(recipe.apis.sources, known)
    needs = draw_needs(recipe, known)
    first = next(needs, None)
    if first is not None:
        yield first
        yield from needs
    elif known and recipe.regenerate:
        raise ToolloomError(
            f"queries: the recipe draws none for the split {recipe.regenerate.split}: raise "
            f"`queries.count` ({recipe.queries.count}), of which the split has its part, or "
            "weight other `scenarios`."
        )
    elif known:
        raise ToolloomError(
            f"queries: of {counted(len(known), 'API')} none can serve any `scenarios`: no values "
            "are known for what they require, or no `wrong_values` that fit. Give their source "
            "`values`, or weight other scenarios; `toolloom apis show` tells what an API requires."
        )


def expect_needs(recipe: Recipe, _: int) -> int:
    anew, expected = recipe.regenerate, expect_rows(recipe)
    if recipe.apis.sources or (recipe.apis.domains and not recipe.writes_worlds):
        counts = split_counts(recipe, lambda _: True)
        expected += counts[anew.split] if anew else recipe.queries.count
    return expected


async def word_queries(need: Need, context: Context) -> Outcome:
    job, setting = job_of(context, "queries", "query", need.id), need.setting
    if setting is None or not setting.plan:
        return await query.run(need, job)

    async def problem(words: tuple[Turn, ...]) -> str:
        """What the calls do not bear out, or is not told, if all tools are at hand."""
        worded = setting.model_copy(update={"words": words})
        fields = {**dict(need), "ability": Ability.CALL, "setting": worded, "text": words[0].user}
        played = await play_settled(Query(**fields), context, job)
        machine = context.worlds.machine(setting)
        rows = (row for row in played.accepted if isinstance(row, Dialogue))
        found = (each for row in rows for each in inspect(row, world=machine))
        return "; ".join(each.detail for each in found if each.reason in IN_REPLIES)

    lines = as_lines(replayed_need(need, context.worlds.machine(setting), setting.plan))
    return await query.run(need, job, lines, problem)


IN_REPLIES = (Reason.UNGROUNDED_ANSWER, Reason.FACT_NOT_TOLD)  # faults that other words mend


async def play_dialogues(asked: Query, context: Context) -> Outcome:
    job, setting = job_of(context, "dialogues", "simulator", asked.id), asked.setting
    search, limit = context.finder.search, context.recipe.observation_tokens
    if setting is None:
        async with Session(context.executions, asked.id) as executed:
            return await simulator.run(asked, job, [executed], search, limit)
    if setting.words and context.recipe.played and context.recipe.played.solution == "played":
        session = WorldSession(context.worlds.machine(setting), setting, moment_of(asked))
        return await simulator.run(asked, job, [session], search, limit)
    return await play_settled(asked, context, job)


async def play_settled(asked: Query, context: Context, job: Job) -> Outcome:
    """A dialogue in a world whose calls stand: of its script, or of a task that was solved."""
    assert asked.setting
    setting, machine = asked.setting, context.worlds.machine(asked.setting)
    words = setting.words
    row = replayed_need(asked, machine, words) if words else context.worlds.play(asked)
    messages = [simulator.system_turn(asked)]
    model = simulator.Simulator(asked, job, messages)
    script = Script(moves(row, machine, asked), model.keywords)
    session = WorldSession(machine, setting, moment_of(asked))
    search, limit = context.finder.search, context.recipe.observation_tokens
    environment = simulator.environment_of(asked, [session], search, limit)
    return await simulator.played(asked, job, messages, script, environment, model.costs)


async def test_dialogues(played: Dialogue, context: Context) -> Outcome:
    job, setting = job_of(context, "tested", "tester", played.id), played.query.setting
    return await tester.run(
        played,
        job,
        lambda dialogue: replay(dialogue, context.executions),
        context.recipe.tester.votes,
        context.worlds.machine(setting) if setting else None,
    )


def check_templates(recipe: Recipe) -> None:
    """Raises RecipeError or TemplateFileError for written templates that are not there or no
    templates, and RecipeError for benchmarks that are not there."""
    if recipe.expand:
        from toolloom.pipeline.templates.written import check_files

        for name in recipe.expand.templates:
            if not Path(name).expanduser().exists():
                raise RecipeError(f"expand.templates: {absent(name)}.")
        check_files(recipe.expand.templates)
        check_benchmarks(recipe)


def check_seeds(recipe: Recipe) -> None:
    """Raises RecipeError if no model can word requests, or files of solution trees hold none."""
    if recipe.rewrite:
        endpoint = recipe.endpoint("rewriter")
        if endpoint.small and not endpoint.absent:
            raise RecipeError(
                f"rewrite: {endpoint.model} is a small model, and what such models word names "
                "nothing that was asked for. Name a capable one: `agents: {rewriter: {base_url: "
                "…, model: …}}` in a recipe that is given with --recipe."
            )
        toolbench.check_seeds(recipe.rewrite.seeds)


def expect_all(_: Recipe, coming: int) -> int:
    """A record of each row: what cannot serve is known when it is read."""
    return coming


def feed_seeds(given: StageInput) -> Iterator[Record]:
    """A seed of each sample that calls something, then one of each ToolBench solution tree.

    Only of the splits that are wanted. Samples in which nothing fits the request have no path,
    hence no tag that a level could name: they yield nothing.
    """
    plan, wanted = given.recipe.splits, given.recipe.rewrite or RewritePlan()
    rows = (row for _, row in given.rows.objects())
    found = (seed_of(row, split_of(plan, row["dialogue"]["query"])) for row in rows)
    apis = (Api.model_validate(api) for _, api in given.earlier("apis").objects())
    trees = toolbench.tree_seeds(wanted.seeds, plan, given.stage, apis, given.rows.check)
    for seed in chain(filter(None, found), trees if wanted.seeds else ()):
        if not wanted.splits or isinstance(seed, Rejected) or seed.split in wanted.splits:
            yield seed


async def rewrite_requests(seed: Seed | Rejected, context: Context) -> Outcome:
    """The five levels of a seed; what cannot be one came rejected."""
    if isinstance(seed, Rejected):
        return Outcome((), (seed,))
    job = job_of(context, "rewritten", "rewriter", seed.id)
    rater = dataclasses.replace(job, agent="tester", model=context.model("tester"))
    wanted = context.recipe.rewrite.votes if context.recipe.rewrite else None
    votes = context.recipe.tester.votes if wanted is None else wanted  # ratings of an instruction
    return await rewriter.run(seed, job, rater if votes else None, votes)


TEMPLATES = "toolloom.pipeline.templates"

STAGES: tuple[Stage, ...] = (
    Stage(
        "domains",
        "domain",
        Brief,
        Domain,
        name_domains,
        feed=feed_domains,
        settle=settle_named,
        expects=expect_briefs,
    ),
    Stage(
        "worlds",
        "domain",
        Record,
        World,
        take_worlds,
        feed=feed_worlds,
        settle=settle_named,
        expects=expect_worlds,
        beside=True,
        when=attrgetter("played"),
        check=check_worlds,
        here=attrgetter("played"),
    ),
    Stage(
        "apis",
        "api",
        Record,
        Api,
        make_apis,
        feed=feed_apis,
        settle=settle_apis,
        expects=expect_subjects,
        here=attrgetter("apis.sources"),
    ),
    Stage("queries", "query", Need, Query, word_queries, feed=feed_queries, expects=expect_needs),
    Stage("dialogues", "simulator", Query, Dialogue, play_dialogues),
    Stage("tested", "tester", Dialogue, Sample, test_dialogues),
    Stage("deduplicated", "", Sample, Sample, sift=deduplicate),
    Stage(
        "templates",
        "",
        Sample,
        Template,
        sift=partial(late, f"{TEMPLATES}.expand:draw_templates"),
        beside=True,
        when=attrgetter("expand"),
        check=check_templates,
    ),
    Stage(
        "expanded",
        "",
        Template,
        Sample,
        sift=partial(late, f"{TEMPLATES}.expand:expand"),
        beside=True,
        when=attrgetter("expand"),
    ),
    Stage(
        "decontaminated",
        "",
        Sample,
        Sample,
        sift=decontaminate,
        when=attrgetter("curation.against"),
        check=check_benchmarks,
    ),
    Stage("balanced", "", Sample, Sample, sift=balance, when=attrgetter("curation.balance")),
    Stage(
        "rewritten",
        "rewriter",
        Record,
        Instruction,
        rewrite_requests,
        feed=feed_seeds,
        expects=expect_all,
        beside=True,
        when=attrgetter("rewrite"),
        check=check_seeds,
    ),
)
