"""The stage `templates`: mined, written, and asked of a model where an API has none."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import chain

from toolloom.agents import query
from toolloom.agents.ask import Answer, BadAnswer, Job, NoUsableAnswer
from toolloom.pipeline.checks import inspect
from toolloom.pipeline.sampling.draw import SplitPools, executed_by
from toolloom.pipeline.sampling.needs import Distractors, NeedBuilder, NeedKind, moment
from toolloom.pipeline.sampling.values import NoValue, rng_for
from toolloom.pipeline.stage import Context, StageInput
from toolloom.pipeline.templates.mining.mining import STAGE, mine
from toolloom.pipeline.templates.mining.survey import SeenValues
from toolloom.pipeline.templates.redraws import Scripts, script_of
from toolloom.pipeline.templates.written.files import Given, load_templates
from toolloom.pipeline.templates.written.sample import play
from toolloom.schemas import (
    Ability,
    Api,
    Dialogue,
    ExpansionPlan,
    JsonObject,
    Level,
    Need,
    Outcome,
    Reason,
    Recipe,
    Rejected,
    Scenario,
    Split,
    Template,
    World,
    digest,
    seed_for,
)
from toolloom.schemas.splits import SEEN, split_of, split_of_need, zone

_TRIES = 24  # needs drawn for an API until one falls into a wanted split


def draw_templates(given: StageInput) -> Iterator[Template | Rejected | Need]:
    """Templates of the samples of the wanted splits, written ones, and what is to be asked for.

    Reads the samples twice: other samples of a split tell what its values may be. Raises
    TemplateFileError for written templates that do not fit the APIs of the run.
    """
    plan = given.recipe.expand or ExpansionPlan()
    called: set[str] = set()
    worlds = [World.model_validate(row) for _, row in given.earlier("worlds").objects()]
    apis = [Api.model_validate(row) for _, row in given.earlier("apis").objects()]
    for made in chain(
        _mined(given, plan, worlds) if plan.mine else (), _written(given.recipe, plan, apis)
    ):
        called |= set(made.apis if isinstance(made, Template) else ())
        yield made
    if plan.ask:
        zones = SplitPools(given.recipe, apis)
        for api in sorted(apis, key=lambda a: a.id):
            place = zone(given.recipe.splits, api.category, api.tool)
            wanted = set(plan.splits) & ({place} if place.unseen else set(SEEN))
            in_world = api.source.kind == "world"  # whose dialogues are written
            if wanted and not in_world and api.id not in called:
                yield _need(given.recipe, api, wanted, zones.offers(place))


def _mined(
    given: StageInput, plan: ExpansionPlan, worlds: Iterable[World]
) -> Iterator[Template | Rejected]:
    known: dict[Split, SeenValues] = {split: SeenValues() for split in plan.splits}
    for split, sample in _samples(given, plan):
        if script_of(sample) is None:
            known[split].add(sample)
    scripts = Scripts(list(worlds), given.recipe)
    for split, sample in _samples(given, plan):
        if script_of(sample) is None:
            yield mine(sample, known[split], split)
        elif made := scripts.template(sample, split):
            yield made


def _samples(given: StageInput, plan: ExpansionPlan) -> Iterator[tuple[Split, JsonObject]]:
    for _, sample in given.rows.objects():
        split = split_of(given.recipe.splits, sample["dialogue"]["query"])
        if split in plan.splits:
            yield split, sample


def _written(recipe: Recipe, plan: ExpansionPlan, apis: Sequence[Api]) -> Iterator[Template]:
    language, distractors = recipe.languages[0], recipe.queries.distractors
    given = Given(apis, recipe.seed, language, distractors, recipe.splits)
    yield from load_templates(plan.templates, given)  # read once what is mined was taken


def _need(
    recipe: Recipe, api: Api, wanted: Iterable[Split], offers: Distractors
) -> Need | Rejected:
    """A need of one call whose values fall into a wanted split; or why there is none."""
    name = f"asked-{recipe.seed}-{digest(api.id, 10)}"
    if executed_by(recipe, api):
        why = "it really runs here: other values would need an execution, which no template has"
        return _undrawn(name, api, Reason.EXECUTED_RESULT, why)
    rng = rng_for(recipe.seed, STAGE, api.id)
    kind = NeedKind(Ability.CALL, Scenario.SINGLE, Level.SINGLE_TOOL)
    drawable = False
    for _ in range(_TRIES):
        draft = NeedBuilder(recipe, kind, rng, moment(rng), recipe.languages[0], {})
        try:
            need = draft.need(name, offers, [api], draft.calls([api], None))
        except NoValue:
            continue
        drawable = True
        if need.intent[0].arguments and split_of_need(recipe.splits, need) in wanted:
            return need
    why = "no values are known for what it requires"
    if drawable:
        why = f"none of {_TRIES} draws has values that fall into {', '.join(sorted(wanted))}"
    return _undrawn(name, api, Reason.NOTHING_TO_DRAW, why)


def _undrawn(name: str, api: Api, reason: Reason, why: str) -> Rejected:
    """An API for which no request can be drawn."""
    detail = f"{api.id}: {why}"
    record = api.bare().model_dump(mode="json")
    return Rejected.of(record, STAGE, reason, detail, id=name)


async def make_template(record: Template | Rejected | Need, context: Context) -> Outcome:
    """A template as it came; a need as a template of the request that a model words for it."""
    if isinstance(record, Template):
        return Outcome((record,))
    if isinstance(record, Rejected):
        return Outcome((), (record,))
    seed = seed_for(context.recipe.seed, STAGE, record.id)
    job = Job(STAGE, "query", record.id, seed, context.model("query"))
    try:
        answer = await query.word(record, job)
    except NoUsableAnswer as why:
        return Outcome((), (job.reject(record, why),))
    made = _worded(record, answer, job, context.recipe)
    return Outcome((made,)) if isinstance(made, Template) else Outcome((), (made,))


def _worded(need: Need, answer: Answer[str], job: Job, recipe: Recipe) -> Template | Rejected:
    """A worded need, answered with drawn values and mined like any other sample."""
    own = job.provenance(answer.costs, [api.id for api in need.needed])
    try:
        sample = play(need, answer.value, job.seed, own)
    except NoValue as why:
        detail = f"nothing says what a response of {need.intent[0].api} looks like ({why})"
        return job.reject(need, BadAnswer(Reason.NOTHING_TO_DRAW, detail), answer.costs)
    found = inspect(Dialogue.model_validate(sample["dialogue"]))
    if found:
        return job.reject(sample, found, answer.costs)
    made = mine(sample, SeenValues(), split_of_need(recipe.splits, need), "asked")
    if isinstance(made, Rejected):
        return job.reject(sample, made.findings, answer.costs)
    return made.model_copy(update={"provenance": own})
