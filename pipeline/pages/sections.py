"""The tables that a person sees: of runs and versions with their counts, differences and exports,
then of what there is before rows: a recipe, a forecast, the preview of a template."""

from __future__ import annotations

import json
import os
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, get_args

from toolloom.pipeline.dataset.figures import (
    API_BANK,
    SHOWN,
    Counts,
    StageCount,
    Summary,
    TemplateCoverage,
    added,
    worlds_told,
)
from toolloom.pipeline.render.section import (
    Cell,
    Section,
    counted,
    dollars,
    first_lines,
    percent,
    short,
)
from toolloom.schemas import AgentName, Choice, JsonObject, Recipe, Rejected, Split, Template, Usage
from toolloom.schemas.derived import CLOSE, OPEN, marker
from toolloom.schemas.recipe import public

if TYPE_CHECKING:
    from toolloom.pipeline.dataset.demonstrations import ComplexityReport
    from toolloom.pipeline.dataset.diff import Diff
    from toolloom.pipeline.dataset.exporting import ExportReport
    from toolloom.pipeline.dataset.verify import VerifyReport
    from toolloom.pipeline.estimate import Forecast
    from toolloom.pipeline.store.version import Version
    from toolloom.pipeline.templates.filling import TemplatePreview

KINDS = ("before", "after", "same", "renamed", "changed", "removed", "added")  # of a diff's rows
ALIKE = ("alike in one", "alike in two")  # of two rows of one script, and of two scripts
ADDED = (("samples", "rows"), ("instructions", "instructions"))
EXAMPLES = 3  # values shown of a template's choice


def summary_sections(summary: Summary) -> list[Section]:
    """The end of a run."""
    minutes, seconds = divmod(summary.seconds, 60)
    took = f"{int(minutes)} min {seconds:.0f} s" if minutes else f"{seconds:.1f} s"
    line = f"This time: {_spent(summary)}, in {took}."
    return [*counts_sections(summary.counts, f"Run {summary.run}"), Section(note=line)]


def _spent(did: Summary) -> str:
    """What a process sent, and what it cost."""
    cost = f" for {dollars(did.cost)}" if did.counts.priced else ""
    cached = f"{did.cached:,} answered by the cache"
    return f"{counted(did.asked, 'request')} sent, {cached}, {did.tokens:,} tokens{cost}"


def counts_sections(counts: Counts, title: str = "") -> list[Section]:
    """The tables of a run's counts, and a sentence."""
    stages = []
    for stage in counts.stages:
        state = "" if stage.finished else " (not finished)"
        name = stage.name + (" (published)" if stage.given else state)
        stages.append((name, stage.accepted, stage.rejected))
    reasons = [(s.name, why, n) for s in counts.stages for why, n in s.reasons.items()]
    sections = [
        Section(title, ("stage", "accepted", "rejected"), stages),
        *table(("stage", "rejected because", "records"), reasons),
    ]
    kinds = {"ability": counts.abilities, "scenario": counts.scenarios, "level": counts.levels}
    for kind, tallies in kinds.items():
        rows = [(value, tally.accepted, tally.rejected) for value, tally in tallies.items()]
        sections += table((kind, "accepted", "rejected"), rows)
    if coverage := counts.coverage:
        rows = [(f"APIs of the pool's {coverage.pool:,}", coverage.drawn, coverage.accepted)]
        for level, known in coverage.combinations.items():
            rows.append((f"combinations: {level}", known.drawn, known.accepted))
        sections += table(("different", "drawn", "accepted"), rows)
    sections.append(_use_section(counts, (s for s in counts.stages if not (s.sifts or s.given))))
    words, rewrites = "", {stage.name for stage in counts.stages} >= {"rewritten"}
    if counts.accepted or not (counts.made or rewrites):
        words = (
            f"{counted(counts.accepted, 'dialogue')} accepted, {counts.several_turns:,} with "
            f"several user turns, from {counted(len(counts.categories), 'category')} and "
            f"{counted(counts.apis, 'API')}."
        )
    if counts.expanded:
        words += f" {counts.expanded:,} of them came from {counted(counts.templates, 'template')}."
    if counts.instructions or (rewrites and not words):
        of = counted(counts.rewritten, "request")
        words += f" {counted(counts.instructions, 'instruction')} of {of}."
    if counts.cost_of_one is not None:
        words += f" {dollars(counts.cost_of_one)} for each (API-Bank's agents: ${API_BANK:g})."
    return [*sections, Section(note=words.lstrip() + lacking(counts))]


def table(head: Sequence[str], rows: Sequence[Sequence[Cell]]) -> list[Section]:
    """A table without a title, or nothing if it has no rows."""
    return [Section(head=head, rows=rows)] if rows else []


def _use_section(counts: Counts, stages: Iterable[StageCount]) -> Section:
    """What models were asked by stage and agent; a column of dollars where prices are known."""
    head = ["stage", "agent", "requests", "tokens sent", "cached", "received"]
    rows = [(s.name, s.agent, *use_cells(s.use, counts.priced)) for s in stages]
    rows.append(("in all", "", *use_cells(counts.use, counts.priced)))
    return Section(head=[*head, *(["cost"] if counts.priced else [])], rows=rows)


def use_cells(use: Usage, priced: bool) -> tuple[int | str, ...]:
    """Requests, tokens sent, the share of them that was cached, tokens received, and the cost."""
    cost = (dollars(use.cost),) if priced else ()
    share = percent(use.cached_share)
    return (use.requests, use.prompt_tokens, share, use.completion_tokens, *cost)


def lacking(counts: Counts) -> str:
    """A sentence on models without a price, or nothing."""
    models = ", ".join(counts.unpriced) if counts.priced else ""
    return f" Costs lack {models}, for which `prices` has no price." if models else ""


def coverage_sections(coverage: TemplateCoverage) -> list[Section]:
    """APIs and templates by kind, then what was refused."""
    rows = [(sort, count, coverage.kinds[sort]) for sort, count in coverage.templates.items()]
    total = ("all", sum(coverage.templates.values()), coverage.covered)
    words = f"{counted(coverage.samples, 'sample')} read, {counted(coverage.rows, 'row')} made."
    head = ("templates", "count", f"APIs of {coverage.apis:,}")
    sections = [Section(head=head, rows=[*rows, total], note=words)]
    for title, counts in (("became no template", coverage.refused), ("value kept", coverage.kept)):
        sections += table((title, "count"), list(counts.items()))
    if coverage.without:
        without = coverage.apis - coverage.covered
        more = [f"… and {without - SHOWN:,} more"] if len(coverage.without) > SHOWN else []
        items = [*coverage.without[:SHOWN], *more]
        title = f"APIs without a template, {without:,} in all:"
        sections.append(Section(note=title, items=items))
    return sections


def version_sections(version: Version) -> list[Section]:
    """The tables of a version: its splits, what is in them, what was rejected, what it took."""
    manifest = version.manifest
    splits = {name: figures for name, figures in manifest["splits"].items() if figures["rows"]}
    rows = [
        (name, split["rows"], split["rejected"], split["apis"], " ".join(split["runs"]))
        for name, split in manifest["splits"].items()
    ]
    sections = [Section(head=("split", "dialogues", "rejected", "APIs called", "run"), rows=rows)]
    for title, name in (("ability", "abilities"), ("scenario", "scenarios"), ("calls", "calls")):
        cells = [
            (value, count, *(split[name].get(value, 0) for split in splits.values()))
            for value, count in added(splits.values(), name).items()
        ]
        sections.append(Section(head=(title, "all", *splits), rows=cells))
    sections += worlds_sections(manifest)
    reasons = added(manifest["splits"].values(), "reasons")
    sections += table(("rejected because", "records"), [*reasons.items()])
    for name, run in manifest["runs"].items():
        counts = Counts.model_validate(run["counts"])
        asked = (s for s in counts.stages if not s.sifts)
        sections += [Section(f"Run {name}"), _use_section(counts, asked)]
    accepted = sum(split["rows"] for split in splits.values())
    several = sum(split["several_turns"] for split in splits.values())
    words = f"{counted(accepted, 'dialogue')} accepted, {several:,} with several user turns."
    return [*sections, Section(note=words)]


def worlds_sections(manifest: JsonObject) -> list[Section]:
    """What came of the scripts of worlds; nothing of a version without any."""
    head = ("world", "rows", "scripts with rows", "without", "rows a script", "most", *ALIKE)
    rows: list[tuple[str | int, ...]] = []
    for world in worlds_told(manifest):
        counts = (world.rows, len(world.scripts), len(world.dry), f"{world.median:g}", world.most)
        alike = ("–" if n is None else percent(n) for n in (world.same, world.other))
        rows.append((world.name, *counts, *alike))
    note = "Alike: words that two rows have in common, of one script and of two; means of a sample."
    return [Section(head=head, rows=rows, note=note)] if rows else []


def versions_section(versions: Sequence[Version], latest: str) -> Section:
    """A line for each version."""
    tables = [version.manifest["splits"] for version in versions]
    words = [
        sum(t["rows"] for t in version.manifest["configs"].get("instructions", {}).values())
        for version in versions
    ]
    splits = [s for s in Split if any(s in table and table[s]["rows"] for table in tables)]
    rows = []
    for version, table, count in zip(versions, tables, words, strict=True):
        split, extended = version.manifest.get("regenerated"), version.manifest.get("extended")
        runs = version.manifest["runs"]
        name = table[split]["runs"][-1] if split else next(iter(runs))
        name = extended["run"] if extended else name  # made what is new in the version
        counts, made_by = runs[name]["counts"], f"{split} anew, {name}" if split else name
        if extended:
            wanted = runs[name]["recipe"].get("regenerate") or {}
            grown = f"{wanted['split']} grown: " if wanted.get("keep") else ""
            new = ((sum(extended["rows"].get(config, {}).values()), what) for config, what in ADDED)
            made_by = f"{grown}{', '.join(f'{n:,} {what}' for n, what in new if n)} more, {name}"
        rows.append(
            (
                version.number + (" (latest)" if version.number == latest else ""),
                (version.manifest["parent"] or {}).get("version", ""),
                made_by,
                *(table.get(split, {}).get("rows", 0) for split in splits),
                *([count] if any(words) else []),
                sum(split["rejected"] for split in table.values()),
                dollars(counts["use"]["cost"]) if counts["priced"] else "",
            )
        )
    also = ["instructions"] if any(words) else []
    head = ("version", "from", "made by", *splits, *also, "rejected", "cost")
    return Section(head=head, rows=rows)


def diff_sections(diff: Diff) -> list[Section]:
    """Tables of rows and figures; the examples are dialogues, and are shown as such."""
    from toolloom.pipeline.dataset.diff import DIMENSIONS, summed

    sections = [Section(note=f"From {diff.before} to {diff.after}")]
    for title, splits in (("split", diff.rows), ("instructions", diff.instructions)):
        kinds = [kind for kind in KINDS if (title, kind) != ("instructions", "renamed")]
        rows = [(r.split, *(getattr(r, kind) for kind in kinds)) for r in splits]
        sections += [Section(head=(title, *kinds), rows=rows)] if rows or title == "split" else []
    for name, title in DIMENSIONS.items():
        moved = [
            (value, before, after, f"{after - before:+,}" if after != before else "=")
            for value, (before, after) in summed(diff.figures, name).items()
        ]
        sections += table((title, "before", "after", "change"), moved)
    return sections


def verify_sections(report: VerifyReport) -> list[Section]:
    """What was verified, or the findings by kind."""
    from toolloom.pipeline.dataset.verify import ABOUT

    rows = ", ".join(f"{count:,} of {config}" for config, count in report.rows.items())
    done = [
        ("files", f"{report.files:,} with {report.size:,} bytes"),
        ("rows", rows or "none"),
        ("dialogues", f"{report.inspected:,} through {report.checks} certain checks"),
        ("time", f"{report.seconds:.1f} s"),
    ]
    notes = "\n".join(f"Note: {note}" for note in report.notes)
    sections = [Section(f"{report.version} in {report.path}", ("verified", ""), done, notes)]
    for kind, count in report.counts.items():
        faults = []
        for fault in report.faults:
            if fault.kind is kind:
                where = fault.file if fault.row is None else f"{fault.file}, {fault.row}"
                faults.append(" ".join(f"{where}: {fault.detail}".split()))
        items = first_lines(faults)
        if count > len(items):
            items[10:] = [f"… and {count - 10:,} more (--json FILE has the first {len(faults)})"]
        sections.append(Section(f"{count:,} {kind}: {ABOUT[kind]}", items=items))
    words = "Nothing has changed, and every check passes."
    if report.counts:
        words = f"{counted(sum(report.counts.values()), 'finding')}."
    return [*sections, Section(note=words)]


def complexity_sections(report: ComplexityReport) -> list[Section]:
    """A line for each split; of one alone also its farthest combinations."""
    figures, one = report.figures, report.figures[0]
    kind = "demonstrations" if one.demonstrations else "samples"
    title = (
        f"{report.dataset}: calls against {one.shown:,} {kind} of {one.examples} "
        f"({counted(one.example_combinations, 'combination')}), |D| = {one.apis:,} APIs"
    )
    head = ("split", "S", "r-F1", "|T|", "combinations", "seen", "samples seen")
    rows = [
        (
            each.test,
            f"{each.score:.4f}",
            f"{each.reversed_f1:.2f}",
            each.tests,
            each.test_combinations,
            percent(each.seen),
            percent(each.seen_samples),
        )
        for each in figures
    ]
    sections = [Section(title, head, rows)]
    if one.hardest and len(figures) == 1:
        farthest, hardest = ("distance", "samples", "calls", "nearest example", "which lacks"), []
        for far in one.hardest:
            calls, nearest, lacking = map(", ".join, (far.apis, far.nearest, far.lacking))
            near = (nearest or "no call", lacking or "–")
            hardest.append((f"{far.distance:.2f}", far.samples, calls or "no call", *near))
        sections.append(Section("The farthest combinations", farthest, hardest))
    if any(each.test == each.examples for each in figures):
        note = (
            "A split against itself is the floor: ln 2 for each call of a sample, all of them kept."
        )
        sections.append(Section(note=note))
    idle = sum(each.idle_tests for each in figures)
    if one.examples not in {each.test for each in figures}:
        idle += one.idle_examples
    if idle:
        sections.append(Section(note=f"Left out, as they call no API: {counted(idle, 'sample')}."))
    if report.uncovered:
        note = f"Called by no sample of {one.examples}, {len(report.uncovered):,} in all:"
        items = first_lines(report.uncovered, " (--json FILE has all)")
        sections.append(Section(note=note, items=items))
    return sections


def export_sections(report: ExportReport) -> list[Section]:
    """The files with their rows, and what is not in them."""
    return [
        *table(("file", "rows"), [(str(path), rows) for path, rows in report.files.items()]),
        *table(("left out because", "samples"), report.unfit.most_common()),
        *table(("rows do not hold", "samples"), report.lost.most_common()),
    ]


def forecast_sections(forecast: Forecast) -> list[Section]:
    """The table by stage with its range, and what it comes to."""
    did, low, most, middle = forecast.sample, forecast.low, forecast.high, forecast.expected
    counts, priced = did.counts, did.counts.priced
    words = f"About {counted(middle.accepted, 'row')} ({low.accepted:,} to {most.accepted:,})"
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
    lines.append(
        f"From a sample of {counted(forecast.queries, 'query')}: {_spent(did)}, "
        f"in {did.seconds:.1f} s. Running it again costs nothing."
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
    from toolloom.pipeline.worlds.library import held, named_worlds
    from toolloom.pipeline.worlds.sampler import check_worlds, expect_rows

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
    sections += table(("real APIs from", "format", "really executed"), sources)
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
    forms = {"max_tokens": "{:,} tokens".format, "max_requests": "{:,} requests".format}
    budget = recipe.budget.model_dump(exclude_none=True)
    limits = [forms.get(name, dollars)(limit) for name, limit in budget.items()]
    endpoints = [e for e in map(recipe.endpoint, asked) if not (e.local or e.absent)]
    lacking = sorted({e.key_env for e in endpoints} - os.environ.keys())
    notes = [
        f"The run stops before it passes {' or '.join(limits)}." if limits else "",
        too_small(recipe),
        *(f"Note: {key} is not set; endpoints that ask for a key will refuse." for key in lacking),
    ]
    note = "\n".join(filter(None, notes))
    return [*sections, Section(note=note)] if note else sections


def _plan(recipe: Recipe, in_worlds: int) -> Iterator[str]:
    """What is made, how it is judged, and what is made beside it."""
    apis, queries = recipe.apis, recipe.queries
    domains = counted(apis.domains, "domain")
    drawn, wanted = bool(apis.sources or (apis.domains and not recipe.writes_worlds)), []
    if recipe.writes_worlds:
        domains += ", each with a world that is written for it: "
    elif apis.domains:
        domains += f" with {counted(apis.per_domain, 'API')} each, then "
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
