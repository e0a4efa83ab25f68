"""What a person sees before there are rows: a recipe, a forecast, the preview of a template."""

from __future__ import annotations

import json
import os
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, get_args

from toolloom.pipeline.dataset.run_report import API_BANK
from toolloom.pipeline.pages.sections import lacking, use_cells
from toolloom.pipeline.render.section import Section, counted, dollars, short
from toolloom.schemas import AgentName, Recipe
from toolloom.schemas.endpoint import public
from toolloom.schemas.template import CLOSE, OPEN, marker

if TYPE_CHECKING:
    from toolloom.pipeline.estimate import Forecast
    from toolloom.pipeline.templates.filling import TemplatePreview
    from toolloom.schemas import Choice, Rejected, Template

EXAMPLES = 3  # values shown of a template's choice


def forecast_sections(forecast: Forecast) -> list[Section]:
    """The table by stage with its range, and what it comes to."""
    did, low, most, middle = forecast.sample, forecast.low, forecast.high, forecast.expected
    counts, priced = did.counts, did.counts.priced
    words = f"About {middle.accepted:,} rows ({low.accepted:,} to {most.accepted:,})"
    if priced and middle.accepted:
        each = dollars(middle.use.cost / middle.accepted)
        words += f", at {each} for each (API-Bank's agents: ${API_BANK:g})"
    words += f".{lacking(counts)}"
    if not all(stage.agent for stage in forecast.stages):
        words += " A sample does not tell how many of them curation will drop."
    lines = [words]
    if forecast.unseen:
        names = ", ".join(forecast.unseen)
        lines.append(
            f"No record of the sample reached {names}, so that is missing: try a larger -n."
        )
    for limit in forecast.limits:
        amount = dollars if limit.name == "max_cost" else "{:,.0f}".format
        does = "has room for"
        if limit.high > limit.limit:
            does = "will stop" if limit.low > limit.limit else "may stop"
        lines.append(
            f"budget.{limit.name} ({amount(limit.limit)}) {does} the run, which takes about "
            f"{amount(limit.expected)} ({amount(limit.low)} to {amount(limit.high)})."
        )
    cost = f" for {dollars(did.cost)}" if priced else ""
    lines.append(
        f"From a sample of {counted(forecast.queries, 'query')}: "
        f"{counted(did.asked, 'request')} sent, {did.cached:,} answered by the cache, "
        f"{did.tokens:,} tokens{cost}, in {did.seconds:.1f} s. Running it again costs nothing."
    )
    rows: list[tuple[str | int, ...]] = [
        (s.name, s.agent, s.records, s.accepted, *use_cells(s.use, priced)) for s in forecast.stages
    ]
    for name, total in (("in all", middle), ("at least", low), ("at most", most)):
        requests, sent, cached, *rest = use_cells(total.use, priced)
        share = cached if total is middle else ""  # the two are not of one sample
        rows.append((name, "", "", total.accepted, requests, sent, share, *rest))
    head = ["stage", "agent", "records", "accepted", "requests", "tokens sent", "cached"]
    columns = [*head, "received", *(["cost"] if priced else [])]
    notes = [Section(note=line) for line in lines]
    return [Section(f"Run {forecast.run}, about:", columns, rows), *notes]


def recipe_sections(recipe: Recipe) -> list[Section]:
    """What a recipe amounts to. Raises RecipeError and WorldError."""
    from toolloom.pipeline.sampling.draw import counted as needs_of  # loads all checks, 2 s
    from toolloom.pipeline.worlds.library import check_worlds, expect_rows, held, named_worlds

    apis = recipe.apis
    head = f"{recipe.name}, run {recipe.run_id}, seed {recipe.seed}, {', '.join(recipe.languages)}"
    asked = [name for name in get_args(AgentName) if recipe.rewrite or name != "rewriter"]
    sections = [
        Section(note="\n".join(filter(None, (head, recipe.description)))),
        Section(note="\n".join(_plan(recipe, expect_rows(recipe) if recipe.played else 0))),
    ]
    sources = [
        (
            s.path or s.name or s.mcp.split()[0],
            "MCP server" if s.mcp else s.format,
            (", ".join(s.execute) or "none: played by the model"),
        )
        for s in apis.sources
    ]
    if sources:
        sections.append(Section(head=("real APIs from", "format", "really executed"), rows=sources))
    agents: list[tuple[str, str, int]] = []
    for name in asked:
        endpoint, at_once = recipe.endpoint(name), recipe.endpoint(name).concurrency
        where = "the embedded model's server" if endpoint.local else public(endpoint.base_url)
        what = f"{endpoint.model} at {where}"
        if endpoint.absent:
            what, at_once = "no model: words come from scripts, chosen by the seed", 0
        agents.append((name, what, at_once))
    sections.append(Section(head=("agent", "asks", "requests at once"), rows=agents))
    if recipe.worlds and recipe.worlds.use:
        check_worlds(recipe)
        sections.append(held(named_worlds(recipe.worlds)))
    if apis.sources or (apis.domains and not recipe.writes_worlds):
        kinds = needs_of(recipe)
        for title, part in (("ability", 0), ("scenario", 1)):
            sums: Counter[str] = Counter()
            for kind, number in kinds.items():
                sums[kind[part]] += number
            sections.append(Section(head=(title, "queries"), rows=list(sums.items())))
    budget = recipe.budget
    limits = [
        *([dollars(budget.max_cost)] if budget.max_cost is not None else []),
        *([f"{budget.max_tokens:,} tokens"] if budget.max_tokens is not None else []),
        *([f"{budget.max_requests:,} requests"] if budget.max_requests is not None else []),
    ]
    endpoints = [e for e in map(recipe.endpoint, asked) if not (e.local or e.absent)]
    lacking = sorted({e.key_env for e in endpoints} - os.environ.keys())
    notes = [
        too_small(recipe),
        *(f"Note: {key} is not set; endpoints that ask for a key will refuse." for key in lacking),
    ]
    if limits:
        stops = f"The run stops before it passes {' or '.join(limits)}."
        return [*sections, Section(note="\n".join(filter(None, (stops, *notes))))]
    return [*sections[:-1], replace(sections[-1], note="\n".join(filter(None, notes)))]


def _plan(recipe: Recipe, in_worlds: int) -> Iterator[str]:
    """What is made, how it is judged, and what is made beside it."""
    apis, queries = recipe.apis, recipe.queries
    domains = counted(apis.domains, "domain")
    drawn, wanted = bool(apis.sources or apis.domains), []
    if recipe.writes_worlds:
        domains, drawn = (
            f"{domains}, each with a world that is written for it: ",
            bool(apis.sources),
        )
    elif apis.domains:
        domains = f"{domains} with {counted(apis.per_domain, 'API')} each, then "
    if drawn:
        wanted.append(f"{domains if apis.domains else ''}{counted(queries.count, 'query')}")
    if recipe.played:
        own = domains if recipe.writes_worlds and not drawn else ""
        few = "" if own else f", at most {recipe.played.per_script} from each script,"
        wanted.append(f"{own}{counted(in_worlds, 'dialogue')} in worlds{few}")
    votes = 0 if recipe.endpoint("tester").absent else recipe.tester.votes
    yield (
        f"{' and '.join(wanted)} with {counted(queries.distractors, 'distractor')}, in shards of "
        f"{recipe.shard_size:,}. Each passes the certain checks"
        + (f", then {counted(votes, 'vote')} of the tester." if votes else "; no model votes.")
    )
    if plan := recipe.expand:
        yield f"Then {counted(plan.rows, 'row')} of templates, in {', '.join(plan.splits)}."
    if recipe.rewrite:
        own_votes = recipe.rewrite.votes
        votes = recipe.tester.votes if own_votes is None else own_votes
        rated = f", each rated by {counted(votes, 'vote')}" if votes else ""
        yield f"Then requests at five granularities{rated}."


def too_small(recipe: Recipe) -> str:
    """What to expect where a model that is to write rows is small; worlds are written already."""
    if not recipe.apis.sources and not recipe.apis.domains:
        return ""
    writing: list[AgentName] = ["domain", "api", "query", "simulator"]
    names = sorted({e.model for e in map(recipe.endpoint, writing) if e.small})
    if not names:
        return ""
    words = "writes hardly anything usable by itself; worlds, whose words are written, are for it."
    return f"Note: a model as small as {' and '.join(names)} {words}"


def preview_sections(preview: TemplatePreview) -> list[Section]:
    """A template with its values; its rows are dialogues."""
    template = preview.template
    title = f"{template.id} · {template.kind} · {counted(preview.possible, 'row')}"
    words = [f"goal  {template.goal}", *(f"call  {call}" for call in _calls(template))]
    return [
        Section(title, note="\n".join(words)),
        Section(
            head=("slots", "values", "examples"),
            rows=[*map(_choice, template.choices)],
            items=[f"kept as it is: {finding.detail}" for finding in template.refused],
        ),
    ]


def _calls(template: Template) -> Iterator[str]:
    """The calls as a person would write them, with {slots}."""
    for message in template.sample["dialogue"]["messages"]:
        for call in message.get("tool_calls") or ():
            arguments = json.dumps(call["function"]["arguments"], ensure_ascii=False)
            for slot, source in template.texts.items():
                arguments = arguments.replace(marker(slot), json.dumps(source)[1:-1])
            slotted = arguments.replace(OPEN, "{").replace(CLOSE, "}")
            yield f"{call['function']['name']}({slotted})"


def _choice(choice: Choice) -> tuple[str, int, str]:
    rows = [
        ", ".join(v if isinstance(v, str) else json.dumps(v, ensure_ascii=False) for v in row)
        for row in choice.rows[:EXAMPLES]
    ]
    more = " …" if len(choice.rows) > EXAMPLES else ""
    return short(", ".join(choice.slots), 68), len(choice.rows), short(" | ".join(rows), 68) + more


def previews_in_words(
    previews: Sequence[TemplatePreview], total: int, refused: Iterable[Rejected]
) -> str:
    """The last lines: how many templates and rows, what fails, what cannot be mined."""
    rows = [row for preview in previews for row in preview.rows]
    good = sum(not row.findings for row in rows)
    some = f"{len(previews):,} of " if total > len(previews) else ""
    lines = [
        f"{some}{counted(total, 'template')}, "
        f"{counted(sum(p.possible for p in previews), 'possible row')}; {good:,} of "
        f"{counted(len(rows), 'row')} shown pass the certain checks."
    ]
    failing = [preview.template.id for preview in previews if preview.fails]
    if failing:
        lines.append(f"No row of {', '.join(failing)} passes.")
    reasons = Counter(str(one.reason) for one in refused)
    if reasons:
        each = ", ".join(f"{reason} {count:,}" for reason, count in reasons.most_common())
        lines.append(
            f"{counted(sum(reasons.values()), 'sample')} could not become templates: {each}."
        )
    return "\n".join(lines)
