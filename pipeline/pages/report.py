"""The report of a version: one HTML file that needs nothing else, and asks no network."""

from __future__ import annotations

import hashlib
from base64 import b64encode
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from toolloom.pipeline.dataset.figures import LEVELS, added
from toolloom.pipeline.pages.dialogue import REASONS, samples
from toolloom.pipeline.pages.reading import (
    INSTRUCTED,
    SCRIPTED,
    SHOWN,
    TEMPLATES,
    WRITTEN,
    Funnel,
    FunnelStep,
    ReadRows,
    diversity,
    funnel,
    manifest_readable,
)
from toolloom.pipeline.pages.sections import use_cells, worlds_sections
from toolloom.pipeline.render.html import render, source, words
from toolloom.pipeline.render.section import Bar, Label, Section, counted, dollars, percent
from toolloom.pipeline.store.files import FULL, replacing
from toolloom.pipeline.store.version import Version
from toolloom.schemas import JsonObject, StoreError

MARK = b"<!doctype html>\n<!-- a toolloom report -->\n"  # how a report of ours begins
MOST = 24  # bars of one chart
BINS = 10
TALLIES = {
    "abilities": "Ability",
    "scenarios": "Scenario",
    "categories": "Category",
    "calls": "Calls in a dialogue",
    "observations": "How observations came about",
}
LEGEND = (("good", "accepted"), ("bad", "rejected"))


@dataclass(frozen=True)
class Block:
    """Sections of a chapter under a heading of their own. `layout`: a class of the style."""

    sections: Sequence[Section] = ()
    heading: str = ""
    about: str = ""
    layout: str = "wide"


@dataclass(frozen=True)
class Chapter:
    """What the menu leads to."""

    id: str
    menu: str
    heading: str
    blocks: Sequence[Block]


def page(version: Version, seen: ReadRows) -> str:
    """The HTML. Equal versions make equal pages: there is no time of day and no path in it.

    Raises StoreError for what is damaged.
    """
    style, script = source("report.css") + source("style.css"), source("report.js")
    with manifest_readable(version):
        overview, chapters = figures(version, seen), [*chapters_of(version, seen)]
    return MARK.decode() + render(
        "report.html.j2",
        version=version,
        style=style,
        script=script,
        # What the browser may run and load: this style, this script, and nothing else.
        policy=(
            f"default-src 'none'; style-src {_hash(style)}; script-src {_hash(script)}; "
            "img-src data:; base-uri 'none'; form-action 'none'"
        ),
        samples=[*samples(version, seen)],
        shown=SHOWN,
        most_reasons=REASONS,
        chapters=chapters,
        **overview,
    )


def _hash(text: str) -> str:
    digest = hashlib.sha256(text.encode()).digest()
    return f"'sha256-{b64encode(digest).decode()}'"


def figures(version: Version, seen: ReadRows) -> JsonObject:
    """What stands on top, and is no chart."""
    return {
        "cards": [*_cards(version, seen)],
        "about": _about(version),
        "facts": [*_facts(version)],
        "splits": _splits(version),
    }


def chapters_of(version: Version, seen: ReadRows) -> Iterator[Chapter]:
    """All that is counted, in the order of the page. Raises StoreError for what is damaged."""
    stages = funnel(version)
    yield Chapter(
        "funnel", "Funnel", "From domains to accepted dialogues", [*_funnel(stages, seen)]
    )
    yield Chapter("reasons", "Reasons", "Why records were rejected", [_reasons(seen)])
    charts = Block([*_charts(version, seen)], layout="charts")
    worlds = [Block([section], "Worlds") for section in worlds_sections(version.manifest)]
    yield Chapter("distributions", "Distributions", "What is in it", [charts, *worlds])
    diverse = [*_diversity(seen), *_coverage(seen)]
    nothing = Block(about="There are no requests and no APIs in it.")
    yield Chapter("diversity", "Diversity", "Diversity", diverse or [nothing])
    yield Chapter("cost", "Cost", "What it took", [_cost(stages, seen)])


def _cards(version: Version, seen: ReadRows) -> Iterator[tuple[str, int, str]]:
    """Figures that are shown large: what, how many, and a remark."""
    whole = seen.all
    rejected = sum(seen.fallen.values())
    if whole.rows or not seen.levels:
        made = f"{seen.expanded:,} of them rows of templates" if seen.expanded else ""
        yield "dialogues", whole.rows, made or f"{whole.several_turns:,} with several user turns"
    if seen.levels:
        yield "instructions", seen.levels.total(), f"at {len(seen.levels)} levels"
    if seen.apis:
        yield "APIs", len(seen.apis), f"in {len({*seen.apis.values()}):,} categories"
    yield "rejected records", rejected, f"for {len({r for r, _ in seen.fallen})} reasons"


def _about(version: Version) -> str:
    """What the recipe of its APIs says it is for."""
    run = version.told("runs").get((version.told("apis") or {}).get("run"), {})
    said = run.get("recipe", {}).get("description")
    return said or "Training data for language models that use tools."


def _facts(version: Version) -> Iterator[tuple[str, str]]:
    manifest, runs = version.manifest, [*version.told("runs").values()]
    if before := manifest.get("parent"):
        split, more = manifest.get("regenerated"), manifest.get("extended")
        how = f"with `{split}` made anew" if split else "with more rows" if more else "made anew"
        yield "Follows", f"{before['version']}, {how}"
    models = {agent["model"] for run in runs for agent in run.get("agents", ())} - {""}
    yield "Models", ", ".join(sorted(models)) or "none"
    spoken = {language for run in runs for language in run.get("recipe", {}).get("languages", ())}
    yield "Languages", ", ".join(sorted(spoken))
    yield "Licence", "that of the models and APIs it was made with"
    if sources := (manifest.get("apis") or {}).get("sources", ()):
        yield "APIs from", "; ".join(map(_source, sources[:MOST]))
    yield "Made by", f"toolloom {manifest.get('toolloom', '')}, in {counted(len(runs), 'run')}"
    yield "Content", str(manifest["content"])[:16]


def _source(source: JsonObject) -> str:
    where = f" {source['reference']}" if source["reference"] else ""
    licence = source["licence"] or "licence not stated"
    return f"{source['kind']}{where} ({source['apis']:,}, {licence})"


def _splits(version: Version) -> Section:
    """Rows of each config by split."""
    configs, splits = version.manifest["configs"], version.told("splits")

    def rows(config: str, split: str) -> int:
        return int(configs.get(config, {}).get(split, {}).get("rows", 0))

    also = ["Instructions"] if any(rows("instructions", split) for split in splits) else []
    return Section(
        "Rows by split",
        ("Split", "Dialogues", *also, "Rejected", "APIs"),
        [
            (
                name,
                split["rows"],
                *(rows("instructions", name) for _ in also),
                split["rejected"],
                rows("apis", name),
            )
            for name, split in splits.items()
        ],
    )


def _funnel(stages: Funnel, seen: ReadRows) -> Iterator[Block]:
    """The stages that lead to dialogues, and those beside them."""
    runs = f", the {stages.runs:,} runs that made this version together" if stages.runs > 1 else ""
    beyond = stages.beyond(seen.all.rows, seen.levels.total(), seen.fallen.total())
    gone = ", ".join(counted(count, what) for what, count in beyond.items() if count > 0)
    about = (
        f"What each stage accepted and rejected{runs}. A domain becomes several APIs, and queries "
        "are drawn over the APIs, so the bars of these stages are of different things."
    )
    if gone:
        about += (
            f" Of what they made, {gone} are not in this version any more: a later run put others "
            "in their place."
        )
    rows = [_step(step, stages.most) for step in stages.steps if not step.beside]
    title = "Accepted and rejected records by stage"
    note = "" if rows else "Its runs made no dialogues."
    beside = [_step(step, stages.most) for step in stages.steps if step.beside]
    legend = () if beside else LEGEND
    yield Block([Section(title, rows=rows, note=note, legend=legend)], about=about)
    if beside:
        kinds = (
            "templates, the rows they were expanded into, and requests rewritten as instructions."
        )
        worlds = (
            "the worlds in which they play, "
            if any(step.name == "worlds" for step in stages.steps)
            else ""
        )
        about = worlds + kinds
        yield Block(
            [Section(f"{title} beside the dialogues", rows=beside, legend=LEGEND)],
            "Beside the dialogues",
            about[:1].upper() + about[1:],
        )


def _step(step: FunnelStep, most: int) -> tuple[Label, Bar, str]:
    text = f"{step.accepted:,} accepted"
    if step.rejected:
        text += f", {step.rejected:,} rejected ({share(step.share)})"
    parts = (("good", step.accepted), ("bad", step.rejected))
    return Label(step.name, step.agent), Bar(parts, most), text


def _reasons(seen: ReadRows) -> Block:
    """A reason opens its samples, if it is among those of which some are shown."""
    stages: dict[str, Counter[str]] = {}
    for (reason, stage), count in sorted(seen.fallen.items()):
        stages.setdefault(reason, Counter())[stage] = count
    ranked = sorted(stages.items(), key=lambda item: (-item[1].total(), item[0]))
    if not ranked:
        return Block(about="Nothing was rejected.")
    most = ranked[0][1].total()
    rows = [
        (
            Label(words(reason), reason=reason if number < REASONS else ""),
            Bar((("bad", counts.total()),), most),
            f"{counts.total():,} in {', '.join(stage for stage, _ in counts.most_common())}",
        )
        for number, (reason, counts) in enumerate(ranked)
    ]
    about = (
        "The first reason of each rejected record, and the stages it fell in. A reason opens its "
        "samples."
    )
    return Block([Section("Rejected because", rows=rows)], about=about)


def _charts(version: Version, seen: ReadRows) -> Iterator[Section]:
    splits = [split for split in version.told("splits").values() if split["rows"]]
    rows = sum(split["rows"] for split in splits)
    for name, title in TALLIES.items() if splits else ():
        counts = {words(key): count for key, count in added(splits, name).items()}
        if name != "calls":
            counts = dict(sorted(counts.items(), key=lambda item: (-item[1], item[0])))
        yield chart(title, counts, sum(counts.values()) if name == "observations" else rows)
    if seen.levels:
        levels = {
            level: seen.levels[level] for level in (*LEVELS, *seen.levels) if seen.levels[level]
        }
        yield chart("Level of instructions", levels, seen.levels.total())
    for what, lengths in seen.lengths.items():
        middle, long = quantile(lengths, 0.5), quantile(lengths, 0.9)
        note = (
            f"Half have at most {middle:,}, nine of ten at most {long:,}; "
            f"the most is {max(lengths):,}."
        )
        yield chart(what.capitalize(), binned(lengths), lengths.total(), note)


def chart(
    title: str, counts: Mapping[str, int], of: int, note: str = "", kind: str = "good"
) -> Section:
    """Bars in the order given, each with its share; of very many the first ones."""
    shown = [*counts.items()][:MOST]
    if rest := len(counts) - len(shown):
        more = sum(counts.values()) - sum(count for _, count in shown)
        note = f"{note} And {rest:,} more, with {more:,}.".strip()
    most = max(counts.values(), default=0) or 1
    rows = [
        (Label(label), Bar(((kind, count),), most), f"{count:,} ({share(count / of)})")
        for label, count in shown
    ]
    return Section(title, rows=rows, note=note)


def share(part: float) -> str:
    """A share that is read in one piece; what there is, is never `0 %`."""
    text = "<1 %" if 0 < part <= 0.005 else percent(part)
    return text.replace(" ", "\u00a0")


def binned(counts: Mapping[int, int]) -> dict[str, int]:
    """How many there are by range, such as `10–19`.

    Each number has its own bin if they are few; else bins are 2, 5, 10, 20 … wide, and the last
    one takes what lies far off. Empty bins between others are kept.
    """
    if not counts:
        return {}
    low, high = min(counts), max(counts)
    if high - low < BINS:
        return {str(n): counts.get(n, 0) for n in range(low, high + 1)}
    most = quantile(counts, 0.99)
    span = most - low
    width, steps = 1, 0  # of 1, 2, 5, 10, 20 … the first with which there are no more bins
    while span // width >= BINS:
        steps += 1
        width = (1, 2, 5)[steps % 3] * 10 ** (steps // 3)
    start = low // width * width
    last = start + (most - start) // width * width
    bins = {_range(edge, width): 0 for edge in range(start, last + 1, width)}
    for number, count in counts.items():
        edge = start + (number - start) // width * width
        name = _range(edge, width) if edge <= last else f"{last + width:,} and more"
        bins[name] = bins.get(name, 0) + count
    return bins


def quantile(counts: Mapping[int, int], share: float) -> int:
    """The smallest number that at least this share of all do not pass. There must be one."""
    left = share * sum(counts.values())
    for number in sorted(counts):
        left -= counts[number]
        if left <= 0:
            return number
    return max(counts)


def _range(edge: int, width: int) -> str:
    return f"{edge:,}" if width == 1 else f"{edge:,}–{edge + width - 1:,}"


def _diversity(seen: ReadRows) -> Iterator[Block]:
    """Of each group of requests the figures, and how near the nearest other ones are."""
    for group in (WRITTEN, SCRIPTED, TEMPLATES, INSTRUCTED):
        if not (draw := seen.requests.get(group)):
            continue
        measured = diversity(draw.items(), draw.seen)
        about = f"Of {measured.drawn:,}"
        about += f" drawn from {measured.of:,}." if measured.drawn < measured.of else "."
        if measured.mean is not None:
            about += (
                f" The nearest other request is {measured.mean:.0f}\u00a0% alike on average; "
                f"{100 * measured.near:.0f}\u00a0% have one that is 80\u00a0% alike or more."
            )
        if group == TEMPLATES:
            about += " They repeat their template's words: that is what they are for."
        shares = [f"{part:.3f}" for part in measured.distinct.values()]
        head = ("", *(counted(n, "word") for n in measured.distinct))
        title = "Different word sequences, as a share of all (distinct-n)"
        sections = [Section(title, head, [("share", *shares)])]
        if measured.nearest:
            tens = Counter(min(near, 99) // 10 for near in measured.nearest)
            counts = {f"{10 * n}–{10 * n + 9 + (n == 9)} %": tens[n] for n in range(10) if tens[n]}
            title = "Likeness of the nearest other request"
            sections.append(chart(title, counts, len(measured.nearest)))
        yield Block(sections, f"Requests: {group}", about, "halves")


def _coverage(seen: ReadRows) -> Iterator[Block]:
    """APIs that accepted dialogues call, by category."""
    covered = seen.all.covered
    there, called = Counter(seen.apis.values()), Counter[str]()
    for name in covered.apis & seen.apis.keys():
        called[seen.apis[name]] += 1
    if not there:
        return
    most = max(there.values())
    ranked = sorted(there, key=lambda category: (-there[category], category))
    rows = [
        (
            Label(category),
            Bar((("good", called[category]), ("rest", there[category] - called[category])), most),
            f"{called[category]:,} of {there[category]:,}",
        )
        for category in ranked[:MOST]
    ]
    reached = sum(count > 0 for count in called.values())
    about = (
        f"Accepted dialogues call {called.total():,} of {len(seen.apis):,} APIs, in {reached:,} of "
        f"{len(there):,} categories"
    )
    if combinations := sum(map(len, covered.combinations.values())):
        about += f", and {combinations:,} different combinations of several APIs"
    note = f"And {len(ranked) - MOST:,} more categories." if len(ranked) > MOST else ""
    section = Section("APIs that are called, by category", rows=rows, note=note)
    yield Block([section], "Coverage", f"{about}.")


def _cost(stages: Funnel, seen: ReadRows) -> Block:
    """Requests, tokens and dollars by stage."""
    asked = [step for step in stages.steps if step.use.requests]
    if not asked:
        return Block(about="No model was asked.")
    rows_made = seen.all.rows + seen.levels.total()
    about = (
        "Answers that were used for records, those from the cache included. Cached is the share of "
        "the tokens sent that the endpoint says it had cached."
    )
    if not stages.priced:
        about += " The recipe has no prices, so no dollars are told."
    elif rows_made:
        of_one = dollars(stages.use.cost / rows_made)
        about += f" {of_one} for each row, all that was rejected on the way included."
    if stages.priced and stages.unpriced:
        about += f" Costs lack {', '.join(stages.unpriced)}, which have no price."
    most = max(step.use.prompt_tokens for step in asked)
    rows = [
        (
            Label(step.name, step.agent),
            *use_cells(step.use, stages.priced),
            Bar((("good", step.use.prompt_tokens),), most),
        )
        for step in asked
    ]
    columns = ["Stage", "Requests", "Tokens sent", "Cached", "Received"]
    head = [*columns, *(["Cost"] if stages.priced else []), "Share of the tokens sent"]
    total = ("In all", *use_cells(stages.use, stages.priced), "")
    section = Section("Requests, tokens and cost by stage", head, rows, total)
    return Block([section], about=about)


def path_of(version: Version, output: Path | None) -> Path:
    """Where a report goes: `<name>-<version>.html` here, or in the folder that is named.

    Raises StoreError rather than to write over a file that is no report.
    """
    name = f"{version.name}-{version.number}.html"
    path = Path(name) if output is None else output
    try:
        path = path / name if path.is_dir() else path
        if not path.parent.is_dir():
            raise StoreError(
                f"{path.parent}: is no folder. Make it, or choose another place with --output."
            )
        if path.exists():
            with path.open("rb") as file:
                if file.read(len(MARK)) != MARK:
                    raise StoreError(
                        f"{path}: is there already, and is no report of toolloom's. "
                        "Choose another file with --output."
                    )
    except (OSError, ValueError) as error:
        raise StoreError(f"{path}: cannot be read ({error}). Choose another --output.") from error
    return path


def write(path: Path, text: str) -> int:
    """Write a report, whole or not at all; its bytes. Raises StoreError."""
    whole = text.encode()
    try:
        with replacing(path) as file:
            file.write(whole)
    except StoreError as error:
        cause = error.__cause__
        if isinstance(cause, OSError) and cause.errno not in FULL:
            why = cause.strerror or str(cause)
            raise StoreError(
                f"{path}: cannot be written ({why}). Choose another file with --output."
            ) from cause
        raise
    return len(whole)
