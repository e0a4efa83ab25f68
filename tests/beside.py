"""Toy stages whose records stand beside the samples: templates, their rows, instructions."""

from __future__ import annotations

import json
from collections.abc import Iterator

import toys

from toolloom.pipeline.dataset.unfold import unfolded
from toolloom.pipeline.stage import Context, Outcome, Sifted, Sifting, Stage
from toolloom.pipeline.store.files import record_line
from toolloom.schemas import (
    Choice,
    Expansion,
    Granularity,
    Instruction,
    JsonObject,
    Reason,
    Record,
    Rejected,
    Seed,
    Split,
    Step,
    Template,
)
from toolloom.schemas.split_plan import split_of
from toolloom.schemas.template import marker

CITIES = ("Zürich", "Bern", "Basel", "Genève", "Lugano")


def template(sample: JsonObject) -> Template:
    """A sample with its city as a slot."""
    text = json.dumps(sample, ensure_ascii=False).replace(CITIES[0], marker("city"))
    query = sample["dialogue"]["query"]
    choice = Choice(slots=("city",), rows=tuple((city,) for city in CITIES), about="a city")
    return Template(
        id=query["id"],
        kind="mined",
        goal="What is the weather in {city}?",
        apis=tuple(one["api"] for one in query["intent"]),
        sample=json.loads(text),
        choices=(choice,),
        provenance=(toys.share("templates", query["id"]),),
    )


def gather_templates(given: Sifting) -> Iterator[Record]:
    """Of every sample a template, but of the first."""
    for number, (_, sample) in enumerate(given.rows.objects()):
        if number:
            yield template(sample)
        else:
            yield Rejected(
                id=sample["dialogue"]["query"]["id"],
                stage=given.stage,
                agent="",
                reason=Reason.NOTHING_TO_VARY,
                detail="A toy fault.",
                record=sample,
            )


async def pass_on(record: Template | Rejected, context: Context) -> Outcome:
    return Outcome((), (record,)) if isinstance(record, Rejected) else Outcome((record,))


def expand(given: Sifting) -> Iterator[Sifted]:
    """A row of each template, as long as more are wanted; the next city where one is published."""
    assert given.recipe.expand
    known = [row["id"] for _, row in given.known.objects()]
    for number, (_, line) in enumerate(given.earlier("templates").objects()):
        if number == given.recipe.expand.rows:
            return
        made = Template.model_validate(line)
        first = sum(name.startswith(f"{made.id}-x") for name in known)
        row = Expansion(
            id=f"{made.id}-x{first}",
            template=made,
            split=Split.TRAIN,
            first=first,
            rows=((1 + first,),),
            inspected=1,
        )
        (sample,) = unfolded(row, 0)
        split = split_of(given.recipe.splits, sample["dialogue"]["query"])
        yield record_line(row.model_copy(update={"split": split}))


def gather_seeds(given: Sifting) -> Iterator[Record]:
    """A seed of every sample."""
    for _, sample in given.rows.objects():
        query = sample["dialogue"]["query"]
        split = split_of(given.recipe.splits, query)
        step = Step(category="weather", tool="station", api="current", function="weather_current")
        yield Seed(id=query["id"], split=split, hybrid=query["text"], steps=(step,))


async def tell(seed: Seed, context: Context) -> Outcome:
    """The full request, and the API's level; of every second request this is rejected."""
    hybrid, api = (
        Instruction(
            id=f"{seed.id}-{level}",
            sample=seed.id,
            split=seed.split,
            level=level,
            text=f"{seed.hybrid} ({level})",
            tags=seed.tags,
            path=seed.path,
            provenance=(toys.share("rewritten", f"{seed.id}-{level}"),),
        )
        for level in (Granularity.HYBRID, Granularity.API)
    )
    if int(seed.id[-1]) % 2:
        return Outcome((hybrid, api))
    fallen = toys.rejected(api, "rewritten", Reason.TAG_NOT_NAMED)
    draft = {"split": seed.split, "level": api.level, "text": api.text}
    return Outcome((hybrid,), (fallen.model_copy(update={"record": draft}),))


TEMPLATES = Stage(
    "templates",
    "query",
    Record,
    Template,
    pass_on,
    when=lambda recipe: recipe.expand is not None,
    beside=True,
    gather=gather_templates,
)
EXPANDED = Stage(
    "expanded",
    "",
    Template,
    Expansion,
    sift=expand,
    when=lambda recipe: recipe.expand is not None,
    beside=True,
)
REWRITTEN = Stage(
    "rewritten",
    "rewriter",
    Record,
    Instruction,
    tell,
    when=lambda recipe: recipe.rewrite is not None,
    beside=True,
    gather=gather_seeds,
)
BESIDE = (TEMPLATES, EXPANDED, REWRITTEN)
