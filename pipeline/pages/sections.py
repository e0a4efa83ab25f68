"""What a person sees of runs and of versions: their counts, differences and exports."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from toolloom.pipeline.dataset.figures import added, worlds_told
from toolloom.pipeline.dataset.run_report import API_BANK
from toolloom.pipeline.render.section import (
    Section,
    counted,
    dollars,
    first_lines,
    percent,
)
from toolloom.schemas import Split

if TYPE_CHECKING:
    from toolloom.pipeline.dataset.complexity import ComplexityReport
    from toolloom.pipeline.dataset.diff import Diff
    from toolloom.pipeline.dataset.exporting import ExportReport
    from toolloom.pipeline.dataset.run_report import Counts, Summary, TemplateCoverage
    from toolloom.pipeline.dataset.verify import VerifyReport
    from toolloom.pipeline.store.version import Version
    from toolloom.schemas import JsonObject, Usage

KINDS = ("before", "after", "same", "renamed", "changed", "removed", "added")  # of a diff's rows
FIGURES = {
    "abilities": "ability",
    "scenarios": "scenario",
    "categories": "category",
    "calls": "calls",
    "reasons": "rejected because",
}
ALIKE = ("alike in one", "alike in two")  # of two rows of one script, and of two scripts
ADDED = (("samples", "rows"), ("instructions", "instructions"))


def summary_sections(summary: Summary) -> list[Section]:
    """The end of a run."""
    minutes, seconds = divmod(summary.seconds, 60)
    took = f"{int(minutes)} min {seconds:.0f} s" if minutes else f"{seconds:.1f} s"
    cost = f" for {dollars(summary.cost)}" if summary.counts.priced else ""
    line = (
        f"This time: {counted(summary.asked, 'request')} sent, "
        f"{summary.cached:,} answered by the cache, {summary.tokens:,} tokens{cost}, in {took}."
    )
    return [*counts_sections(summary.counts, f"Run {summary.run}"), Section(note=line)]


def counts_sections(counts: Counts, title: str = "") -> list[Section]:
    """The tables of a run's counts, and a sentence."""
    stages = []
    for stage in counts.stages:
        state = "" if stage.finished else " (not finished)"
        name = stage.name + (" (published)" if stage.given else state)
        stages.append((name, stage.accepted, stage.rejected))
    reasons = [(s.name, why, n) for s in counts.stages for why, n in s.reasons.items()]
    sections = [Section(title, ("stage", "accepted", "rejected"), stages)]
    if reasons:
        sections.append(Section(head=("stage", "rejected because", "records"), rows=reasons))
    kinds = {"ability": counts.abilities, "scenario": counts.scenarios, "level": counts.levels}
    for kind, tallies in kinds.items():
        rows = [(value, tally.accepted, tally.rejected) for value, tally in tallies.items()]
        sections += [Section(head=(kind, "accepted", "rejected"), rows=rows)] if rows else []
    if coverage := counts.coverage:
        rows = [(f"APIs of the pool's {coverage.pool:,}", coverage.drawn, coverage.accepted)]
        for level, known in coverage.combinations.items():
            rows.append((f"combinations: {level}", known.drawn, known.accepted))
        sections.append(Section(head=("different", "drawn", "accepted"), rows=rows))
    asked = [(s.name, s.agent, s.use) for s in counts.stages if not (s.sifts or s.given)]
    sections.append(_use_section([*asked, ("in all", "", counts.use)], counts.priced))
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


def _use_section(rows: Iterable[tuple[str, str, Usage]], priced: bool) -> Section:
    """What models were asked by stage and agent; a column of dollars where prices are known."""
    head = ["stage", "agent", "requests", "tokens sent", "cached", "received"]
    cells = [(stage, agent, *use_cells(use, priced)) for stage, agent, use in rows]
    return Section(head=[*head, *(["cost"] if priced else [])], rows=cells)


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
    from toolloom.pipeline.dataset.run_report import SHOWN

    rows = [(sort, count, coverage.kinds[sort]) for sort, count in coverage.templates.items()]
    total = ("all", sum(coverage.templates.values()), coverage.covered)
    words = f"{counted(coverage.samples, 'sample')} read, {counted(coverage.rows, 'row')} made."
    head = ("templates", "count", f"APIs of {coverage.apis:,}")
    sections = [Section(head=head, rows=[*rows, total], note=words)]
    for title, counts in (("became no template", coverage.refused), ("value kept", coverage.kept)):
        if counts:
            sections.append(Section(head=(title, "count"), rows=list(counts.items())))
    if coverage.without:
        without = coverage.apis - coverage.covered
        items = [*coverage.without[:SHOWN]]
        if len(coverage.without) > SHOWN:
            items.append(f"… and {without - SHOWN:,} more")
        title = f"APIs without a template, {without:,} in all:"
        sections.append(Section(note=title, items=items))
    return sections


def version_sections(version: Version) -> list[Section]:
    """The tables of a version: its splits, what is in them, what was rejected, what it took."""
    from toolloom.pipeline.dataset.run_report import Counts

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
    if reasons := added(manifest["splits"].values(), "reasons"):
        sections.append(Section(head=("rejected because", "records"), rows=[*reasons.items()]))
    for name, run in manifest["runs"].items():
        counts = Counts.model_validate(run["counts"])
        asked = [(s.name, s.agent, s.use) for s in counts.stages if not s.sifts]
        sections.append(Section(f"Run {name}"))
        sections.append(_use_section([*asked, ("in all", "", counts.use)], counts.priced))
    accepted, several = (
        sum(s[name] for s in splits.values()) for name in ("rows", "several_turns")
    )
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
    tables = [version.told("splits") for version in versions]
    words = [
        sum(t["rows"] for t in version.told("configs").get("instructions", {}).values())
        for version in versions
    ]
    splits = [s for s in Split if any(s in table and table[s]["rows"] for table in tables)]
    rows = []
    for version, table, count in zip(versions, tables, words, strict=True):
        split, extended = version.manifest.get("regenerated"), version.manifest.get("extended")
        runs = version.told("runs")
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
                (version.told("parent") or {}).get("version", ""),
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
    from toolloom.pipeline.dataset.diff import summed

    sections = [Section(note=f"From {diff.before} to {diff.after}")]
    for title, table in (("split", diff.rows), ("instructions", diff.instructions)):
        kinds = [kind for kind in KINDS if (title, kind) != ("instructions", "renamed")]
        rows = [(r.split, *(getattr(r, kind) for kind in kinds)) for r in table]
        sections += [Section(head=(title, *kinds), rows=rows)] if rows or title == "split" else []
    for name, title in FIGURES.items():
        moved = [
            (value, before, after, f"{after - before:+,}" if after != before else "=")
            for value, (before, after) in summed(diff.figures, name).items()
        ]
        if moved:
            sections.append(Section(head=(title, "before", "after", "change"), rows=moved))
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
    total = sum(report.counts.values())
    words = (
        f"{counted(total, 'finding')}." if total else "Nothing has changed, and every check passes."
    )
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
        farthest = ("distance", "samples", "calls", "nearest example", "which lacks")
        hardest = [
            (
                f"{far.distance:.2f}",
                far.samples,
                ", ".join(far.apis) or "no call",
                ", ".join(far.nearest) or "no call",
                ", ".join(far.lacking) or "–",
            )
            for far in one.hardest
        ]
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

    def near(path: Path) -> str:
        inside = path.resolve().is_relative_to(Path.cwd())
        return str(path.resolve().relative_to(Path.cwd()) if inside else path)

    tables = {
        ("file", "rows"): [(near(path), rows) for path, rows in report.files.items()],
        ("left out because", "samples"): report.unfit.most_common(),
        ("rows do not hold", "samples"): report.lost.most_common(),
    }
    return [Section(head=head, rows=rows) for head, rows in tables.items() if rows]
