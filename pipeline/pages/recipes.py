"""What a person sees before there are rows: a recipe, a forecast, the preview of a template."""

from __future__ import annotations

import json
import os
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, get_args

from toolloom.pipeline.dataset.run_report import API_BANK
from toolloom.pipeline.pages.sections import lacking, use_cells
from toolloom.pipeline.render.section import Section, counted, dollars, short
from toolloom.schemas import AgentName, Recipe, WorldPlan
from toolloom.schemas.endpoint import public
from toolloom.schemas.template import CLOSE, OPEN, marker

if TYPE_CHECKING:
    from toolloom.pipeline.estimate import Forecast, Limit
    from toolloom.pipeline.templates.filling import TemplatePreview
    from toolloom.schemas import Choice, Rejected, Template

EXAMPLES = 3  # values shown of a template's choice


def forecast_sections(forecast: Forecast) -> list[Section]:
    """The table by stage with its range, and what it comes to."""
    lines = [_rows_in_words(forecast)]
    if forecast.unseen:
        names = ", ".join(forecast.unseen)
        lines.append(
            f"No record of the sample reached {names}, so that is missing: try a larger -n."
        )
    lines += [*map(_limit, forecast.limits), _sample_in_words(forecast)]
    priced = forecast.sample.counts.priced
    head = ["stage", "agent", "records", "accepted", "requests", "tokens sent", "cached"]
    rows: list[tuple[str | int, ...]] = [
        (s.name, s.agent, s.records, s.accepted, *use_cells(s.use, priced)) for s in forecast.stages
    ]
    for name, total in (
        ("in all", forecast.expected),
        ("at least", forecast.low),
        ("at most", forecast.high),
    ):
        requests, sent, cached, *rest = use_cells(total.use, priced)
        share = cached if total is forecast.expected else ""  # the two are not of one sample
        rows.append((name, "", "", total.accepted, requests, sent, share, *rest))
    columns = [*head, "received", *(["cost"] if priced else [])]
    return [
        Section(f"Run {forecast.run}, about:", columns, rows),
        *(Section(note=line) for line in lines),
    ]


def _rows_in_words(forecast: Forecast) -> str:
    """Rows, and where prices are known what each of them costs."""
    low, high = forecast.low.accepted, forecast.high.accepted
    words = f"About {forecast.expected.accepted:,} rows ({low:,} to {high:,})"
    counts = forecast.sample.counts
    if counts.priced and forecast.expected.accepted:
        each = forecast.expected.use.cost / forecast.expected.accepted
        words += f", at {dollars(each)} for each (API-Bank's agents: ${API_BANK:g})"
    words += f".{lacking(counts)}"
    if all(stage.agent for stage in forecast.stages):
        return words
    return f"{words} A sample does not tell how many of them curation will drop."


def _limit(limit: Limit) -> str:
    """Whether a limit of the budget would stop the run."""
    amount = dollars if limit.name == "max_cost" else "{:,.0f}".format
    name = f"budget.{limit.name} ({amount(limit.limit)})"
    takes = f"about {amount(limit.expected)} ({amount(limit.low)} to {amount(limit.high)})"
    if limit.low > limit.limit:
        return f"{name} will stop the run, which takes {takes}."
    if limit.high > limit.limit:
        return f"{name} may stop the run, which takes {takes}."
    return f"{name} has room for the run, which takes {takes}."


def _sample_in_words(forecast: Forecast) -> str:
    did, counts = forecast.sample, forecast.sample.counts
    cost = f" for {dollars(did.cost)}" if counts.priced else ""
    return (
        f"From a sample of {counted(forecast.queries, 'query')}: "
        f"{counted(did.asked, 'request')} sent, {did.cached:,} answered by the cache, "
        f"{did.tokens:,} tokens{cost}, in {did.seconds:.1f} s. Running it again costs nothing."
    )


def recipe_sections(recipe: Recipe) -> list[Section]:
    """What a recipe amounts to."""
    from toolloom.pipeline.sampling.draw import counted as needs_of  # loads all checks, 2 s
    from toolloom.pipeline.worlds.library import expect_rows

    apis, queries = recipe.apis, recipe.queries
    head = f"{recipe.name}, run {recipe.run_id}, seed {recipe.seed}, {', '.join(recipe.languages)}"
    drawn = bool(apis.sources or apis.domains)
    domains = (
        f"{counted(apis.domains, 'domain')} with {counted(apis.per_domain, 'API')} each, then "
    )
    if recipe.writes_worlds:
        domains = f"{counted(apis.domains, 'domain')}, each with a world that is written for it, "
        drawn = bool(apis.sources)
    wanted = (
        [f"{domains if apis.domains else ''}{counted(queries.count, 'query')}"] if drawn else []
    )
    if recipe.played:
        rows = counted(expect_rows(recipe), "dialogue")
        own = domains if recipe.writes_worlds and not drawn else ""
        few = "" if own else f", at most {recipe.played.per_script} from each script,"
        wanted.append(f"{own}{rows} in worlds{few}")
    votes = 0 if recipe.endpoint("tester").absent else recipe.tester.votes
    plan = (
        f"{' and '.join(wanted)} with {counted(queries.distractors, 'distractor')}, in shards of "
        f"{recipe.shard_size:,}. Each passes the certain checks"
        + (f", then {counted(votes, 'vote')} of the tester." if votes else "; no model votes.")
    )
    sections = [
        Section(note="\n".join(filter(None, (head, recipe.description)))),
        Section(note="\n".join((plan, *_beside(recipe)))),
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
    asked: list[AgentName] = [
        name for name in get_args(AgentName) if recipe.rewrite or name != "rewriter"
    ]
    sections.append(
        Section(head=("agent", "asks", "requests at once"), rows=[_agent(recipe, a) for a in asked])
    )
    kinds = needs_of(recipe) if drawn else {}
    if recipe.worlds and recipe.worlds.use:
        sections.append(_worlds(recipe, recipe.worlds))
    for title, part in (("ability", 0), ("scenario", 1)) if drawn else ():
        sums: Counter[str] = Counter()
        for kind, number in kinds.items():
            sums[kind[part]] += number
        sections.append(Section(head=(title, "queries"), rows=list(sums.items())))
    notes = "\n".join(filter(None, (too_small(recipe), *_missing_keys(recipe, asked))))
    if budget := _budget(recipe):
        return [*sections, Section(note="\n".join(filter(None, (budget, notes))))]
    return [*sections[:-1], replace(sections[-1], note=notes)]


def _worlds(recipe: Recipe, plan: WorldPlan) -> Section:
    """What each world holds. Raises RecipeError and WorldError."""
    from toolloom.pipeline.worlds.library import check_worlds, held, named_worlds

    check_worlds(recipe)
    return held(named_worlds(plan))


def too_small(recipe: Recipe) -> str:
    """What to expect where a model that is to write rows is small; worlds are written already."""
    if not recipe.apis.sources and not recipe.apis.domains:
        return ""
    writing: list[AgentName] = ["domain", "api", "query", "simulator"]
    endpoints = [recipe.endpoint(name) for name in writing]
    names = " and ".join(sorted({endpoint.model for endpoint in endpoints if endpoint.small}))
    if not names:
        return ""
    words = "writes hardly anything usable by itself; worlds, whose words are written, are for it."
    return f"Note: a model as small as {names} {words}"


def _beside(recipe: Recipe) -> Iterator[str]:
    """What is made beside the samples, if the recipe says it."""
    if plan := recipe.expand:
        yield f"Then {counted(plan.rows, 'row')} of templates, in {', '.join(plan.splits)}."
    if recipe.rewrite:
        wanted = recipe.rewrite.votes
        votes = recipe.tester.votes if wanted is None else wanted
        rated = f", each rated by {counted(votes, 'vote')}" if votes else ""
        yield f"Then requests at five granularities{rated}."


def _agent(recipe: Recipe, name: AgentName) -> tuple[str, str, int]:
    endpoint = recipe.endpoint(name)
    if endpoint.absent:
        return name, "no model: words come from scripts, chosen by the seed", 0
    where = "the embedded model's server" if endpoint.local else public(endpoint.base_url)
    return name, f"{endpoint.model} at {where}", endpoint.concurrency


def _budget(recipe: Recipe) -> str:
    """What the run may use, if the recipe says it."""
    budget = recipe.budget
    limits = [
        *([dollars(budget.max_cost)] if budget.max_cost is not None else []),
        *([f"{budget.max_tokens:,} tokens"] if budget.max_tokens is not None else []),
        *([f"{budget.max_requests:,} requests"] if budget.max_requests is not None else []),
    ]
    return f"The run stops before it passes {' or '.join(limits)}." if limits else ""


def _missing_keys(recipe: Recipe, asked: Iterable[AgentName]) -> Iterator[str]:
    endpoints = map(recipe.endpoint, asked)
    asking = (each for each in endpoints if not (each.local or each.absent))
    wanted = sorted({each.key_env for each in asking if each.key_env not in os.environ})
    for name in wanted:
        yield f"Note: {name} is not set; endpoints that ask for a key will refuse."


def preview_sections(preview: TemplatePreview) -> list[Section]:
    """A template with its values; its rows are dialogues."""
    template = preview.template
    title = f"{template.id} · {template.kind} · {counted(preview.possible, 'row')}"
    words = [f"goal  {template.goal}", *(f"call  {call}" for call in _calls(template))]
    return [
        Section(title, note="\n".join(words)),
        Section(
            head=("slots", "values", "from", "examples"),
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


def _choice(choice: Choice) -> tuple[str, int, str, str]:
    def said(value: Any) -> str:
        return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)

    rows = [", ".join(map(said, row)) for row in choice.rows[:EXAMPLES]]
    more = " …" if len(choice.rows) > EXAMPLES else ""
    sources = ", ".join(choice.sources)
    return (
        short(", ".join(choice.slots), 68),
        len(choice.rows),
        sources or "–",
        short(" | ".join(rows), 68) + more,
    )


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
