"""The report of a version: one HTML file that needs nothing else, and asks no network.

Figures are the manifest's (`toolloom verify` holds them to the rows). Rows are read once, for the
samples that are shown and for what the manifest does not tell: lengths, diversity, coverage.
"""

from __future__ import annotations

import hashlib
import json
import re
from base64 import b64encode
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from heapq import nsmallest
from itertools import groupby, islice
from math import ceil
from os.path import isdir
from pathlib import Path
from statistics import fmean
from typing import NamedTuple

from toolloom.pipeline.curation.duplicates import folded
from toolloom.pipeline.dataset.configs import REJECTED, SAMPLES
from toolloom.pipeline.dataset.figures import EXPANDED, LEVELS, StageCount, added
from toolloom.pipeline.pages.dialogue import dialogue_html
from toolloom.pipeline.pages.sections import use_cells, worlds_sections
from toolloom.pipeline.render.section import (
    Bar,
    Label,
    Section,
    counted,
    dollars,
    percent,
    render,
    source,
    words,
)
from toolloom.pipeline.store.version import DAMAGE, Version
from toolloom.pipeline.worlds.scripts import script_name
from toolloom.schemas import JsonObject, StoreError, Usage
from toolloom.schemas.splits import api_id, fraction, need_of, needed

MARK = b"<!doctype html>\n<!-- a toolloom report -->\n"  # how a report of ours begins
MOST = 24  # bars of one chart
SHOWN = 8  # samples of a kind
REASONS = 16  # of which rejected records are shown, the most frequent ones
SHEETS = 24  # scripts of which rows are shown side by side
LONGEST = 20_000  # characters of a text that are shown
RAW, RAW_LONGEST = 12, 2_000  # raw responses of a record that are shown, and characters of each
DRAWN, LETTERS = 2_000, 1_000  # requests that are compared, each with each; letters of each
NEAR = 80  # from here on two requests are told to be alike
# Of scripts that do not part words each letter is one.
_LONE = "\u3040-\u30ff\u3400-\u9fff\uac00-\ud7af"
_WORD = re.compile(f"[{_LONE}]|[^\\W{_LONE}]+")
TALLIES = {
    "abilities": "Ability",
    "scenarios": "Scenario",
    "categories": "Category",
    "calls": "Calls in a dialogue",
    "observations": "How observations came about",
}
INSTRUCTIONS = ("instructions",)
SPEAKERS = ("user", "assistant")
OPENINGS = 10  # of turns, the most frequent ones
SHAPES = {
    "asks back": re.compile(r"\?\s*$"),
    "a list": re.compile(r"^\s*[-*•] ", re.MULTILINE),
    "It’s …, That’s …": re.compile(r"^(?:It|That|There)(?:['’]s| is) "),
    "what was done": re.compile(r"^(?:I|We)['’]ve |^(?:I|We) have |^(?:Done|OK)\b"),
    "what cannot be": re.compile(r"^(?:No\b|Sorry|I['’]m (?:sorry|afraid)|I can(?:['’]t|not))"),
}
"""Forms of replies: the first that fits."""
LEGEND = (("good", "accepted"), ("bad", "rejected"))


class Draw:
    """So many items at random, in memory that does not grow: those whose ids have the lowest
    hashes, so that the same ones are drawn in whatever order they come."""

    def __init__(self, size: int = SHOWN) -> None:
        self.size, self.seen = size, 0
        self._kept: list[tuple[float, int, JsonObject]] = []

    def offer(self, name: str, item: JsonObject) -> None:
        self.seen += 1  # which decides between equal names, so that items are never compared
        self._kept.append((fraction("report", name), self.seen, item))
        if len(self._kept) > 4 * self.size:
            self._kept = nsmallest(self.size, self._kept)

    def __iter__(self) -> Iterator[JsonObject]:
        return (item for *_, item in nsmallest(self.size, self._kept))


class ReadRows:
    """What the rows tell."""

    def __init__(self) -> None:
        self.samples = defaultdict[tuple[str, ...], Draw](Draw)
        self.samples[INSTRUCTIONS] = Draw(SHOWN * len(LEVELS))
        self.requests = defaultdict[str, Draw](lambda: Draw(DRAWN))
        self.lengths = defaultdict[str, Counter[int]](Counter)
        self.rejected = Counter[tuple[str, str]]()  # reason, stage
        self.levels = Counter[str]()  # of instructions
        self.apis: dict[str, str] = {}  # category by id
        self.called = set[str]()  # ids of APIs
        self.voices: dict[tuple[str, str], str] = {}  # of a world's scripts
        self.openings = defaultdict[str, Counter[str]](Counter)  # of turns, by speaker
        self.shapes = Counter[str]()  # of replies
        self.spoken = defaultdict[str, Counter[int]](Counter)  # words of user turns, by voice

    def add(self, config: str, row: JsonObject) -> None:
        """A row, with its split."""
        if config == "samples":
            self._add_sample(row)
        elif config == "rejected":
            self.rejected[row["reason"], row["stage"]] += 1
            self.samples["rejected", row["reason"], row["stage"]].offer(row["id"], row)
        elif config == "instructions":
            self.levels[row["level"]] += 1
            # All levels of one request have one hash: they are drawn, or not, together.
            self.samples[INSTRUCTIONS].offer(row["sample"], row)
            self.requests["instructions"].offer(row["id"], {"text": row["instruction"][:LETTERS]})
        elif config == "worlds":
            for number, script in enumerate(json.loads(row["record"])["scripts"]):
                voice = str(script.get("voice", "")).partition(",")[0]
                self.voices[row["name"], script_name(script, number)] = voice
        else:
            self.apis[row["id"]] = row["category"]

    def _add_sample(self, row: JsonObject) -> None:
        dialogue = json.loads(row["dialogue"])
        need, messages = dialogue["query"], dialogue["messages"]
        if need["scenario"] != "irrelevance":  # its API is not there to call
            self.called.update(map(api_id, needed(need)))
        setting = need.get("setting") or {}
        voice = self.voices.get((setting.get("world", ""), setting.get("script", "")), "")
        for message in messages:
            self._add_words(message["role"], message.get("content") or "", voice)
        self.lengths["words of the request"][len(need["text"].split())] += 1
        self.lengths["messages"][len(messages)] += 1
        text = json.dumps([[m.get("content"), m.get("tool_calls")] for m in messages])
        self.lengths["tokens of the dialogue, about"][len(text) // 4] += 1
        is_expanded = EXPANDED in {share["stage"] for share in json.loads(row["provenance"])}
        maker = "rows of templates" if is_expanded else "written by agents"
        if script := setting.get("script"):
            maker = "of worlds' scripts"
            self.samples["scripts", setting["world"], "".join(script)].offer(row["id"], row)
        self.requests[maker].offer(row["id"], {"text": need["text"][:LETTERS]})
        kinds = ("templates",) if is_expanded else ("accepted", row["ability"], row["scenario"])
        self.samples[kinds].offer(row["id"], row)

    def _add_words(self, role: str, text: str, voice: str) -> None:
        if role in SPEAKERS and (said := _WORD.findall(text)):
            begin = " ".join(text.split()[:2]).lower().rstrip(".,:;!?")
            self.openings[role][begin] += 1
            if role == "user":
                self.spoken[voice or "–"][len(said)] += 1
            else:
                shapes = (name for name, form in SHAPES.items() if form.search(text))
                self.shapes[next(shapes, "anything else")] += 1


def read(version: Version, tick: Callable[[int, int], None] = lambda done, of: None) -> ReadRows:
    """Read all rows, one at a time; `tick` is told how many of how many. Raises StoreError."""
    seen, done, configs = ReadRows(), 0, ("worlds", "samples", "rejected", "instructions", "apis")
    tables = [version.manifest["configs"].get(config, {}) for config in configs]
    total = sum(int(made.get("rows", 0)) for splits in tables for made in splits.values())
    for config in configs:
        for split in version.splits(config):
            for row in version.rows(config, split):
                with version.readable(row):
                    seen.add(config, {"split": split, **row})
                done += 1
                tick(done, total)
    return seen


class Chapter(NamedTuple):
    """A part of the page about what is counted."""

    id: str
    heading: str
    about: str
    sections: Sequence[Section]
    layout: str = "wide"


def page(version: Version, seen: ReadRows) -> str:
    """The HTML. Equal versions make equal pages: there is no time of day and no path in it. Raises
    StoreError for what is damaged."""
    style, script = source("report.css") + source("style.css"), source("report.js")

    def hashed(text: str) -> str:
        return f"'sha256-{b64encode(hashlib.sha256(text.encode()).digest()).decode()}'"

    try:
        return MARK.decode() + render(
            "report.html.j2",
            version=version,
            style=style,
            script=script,
            # What the browser may run and load: this style, this script, and nothing else.
            policy=(
                f"default-src 'none'; style-src {hashed(style)}; script-src {hashed(script)}; "
                "img-src data:; base-uri 'none'; form-action 'none'"
            ),
            cards=[*_cards(version, seen)],
            facts=[*_facts(version)],
            splits=_splits(version),
            chapters=[*_chapters(version, seen)],
            samples=[*samples(version, seen)],
            shown=SHOWN,
            most_reasons=REASONS,
        )
    except DAMAGE as error:
        raise StoreError(
            f"{version.path / 'manifest.json'}: is damaged ({type(error).__name__}: {error}). "
            f"`toolloom verify {version.label}` tells more."
        ) from error


def _cards(version: Version, seen: ReadRows) -> Iterator[tuple[str, int, str]]:
    """Figures that are shown large: what, how many, and a remark."""
    splits = version.manifest["splits"].values()
    rows, several = (sum(split[name] for split in splits) for name in ("rows", "several_turns"))
    if rows or not seen.levels:
        yield "dialogues", rows, f"{several:,} with several user turns"
    if seen.levels:
        yield "instructions", seen.levels.total(), f"at {counted(len(seen.levels), 'level')}"
    if seen.apis:
        yield "APIs", len(seen.apis), f"in {len({*seen.apis.values()}):,} categories"
    reasons = len({reason for reason, _ in seen.rejected})
    remark = f"for {counted(reasons, 'reason')}" if reasons else ""
    yield "rejected records", seen.rejected.total(), remark


def _facts(version: Version) -> Iterator[tuple[str, str]]:
    manifest, runs = version.manifest, [*version.manifest["runs"].values()]
    if before := manifest.get("parent"):
        split, more = manifest.get("regenerated"), manifest.get("extended")
        how = f"with `{split}` made again" if split else "with more rows" if more else "made again"
        yield "Follows", f"{before['version']}, {how}"
    models = {agent["model"] for run in runs for agent in run.get("agents", ())} - {""}
    yield "Models", ", ".join(sorted(models)) or "none"
    spoken = {language for run in runs for language in run.get("recipe", {}).get("languages", ())}
    yield "Languages", ", ".join(sorted(spoken))
    if sources := (manifest.get("apis") or {}).get("sources", ()):
        listed = (
            f"{one['kind']} {one['reference']} "
            f"({one['apis']:,}, {one['licence'] or 'licence not stated'})".replace("  ", " ")
            for one in sources[:MOST]
        )
        yield "APIs from", "; ".join(listed)
    yield "Made by", f"toolloom {manifest.get('toolloom', '')}, in {counted(len(runs), 'run')}"
    yield "Content", str(manifest["content"])[:16]


def _splits(version: Version) -> Section:
    """Rows of each split, and how many APIs its dialogues call."""
    there, rows = version.manifest["configs"].get("instructions", {}), []
    for name, split in version.manifest["splits"].items():
        made = [int(there.get(name, {}).get("rows", 0))] if there else []
        rows.append([name, split["rows"], *made, split["rejected"], split["apis"]])
    also = ["Instructions"] if there else []
    return Section("Rows by split", ["Split", "Dialogues", *also, "Rejected", "APIs called"], rows)


def _chapters(version: Version, seen: ReadRows) -> Iterator[Chapter]:
    """What is counted, in the order of the page."""
    runs = [*version.manifest["runs"].values()][::-1]  # the manifest tells of the last run first
    stages: dict[str, list[StageCount]] = {}
    for run in runs:
        for stage in map(StageCount.model_validate, run["counts"]["stages"]):
            if not stage.given:
                stages.setdefault(stage.name, []).append(stage)
    about = (
        "What each stage accepted and rejected. The bars stand for different things: a domain "
        "becomes several APIs, and queries are drawn over the APIs."
    )
    if len(runs) > 1:
        about += f" {len(runs):,} runs made this version; later ones added rows, or replaced some."
    yield Chapter("funnel", "From domains to accepted dialogues", about, [_funnel(stages)])
    about = (
        "The first reason of each rejected record, and the stages it was rejected in. Select a "
        "reason to see samples."
    )
    if not seen.rejected:
        about = "Nothing was rejected."
    yield Chapter("reasons", "Why records were rejected", about, _reasons(seen))
    yield Chapter("distributions", "What is in it", "", [*_charts(version, seen)], "charts")
    if worlds := worlds_sections(version.manifest):
        yield Chapter("worlds", "Worlds", "", worlds)
    yield Chapter("diversity", "Diversity", *_diversity(seen))
    yield Chapter("wording", "Wording", "", [*_wording(seen)])
    dialogues = sum(split["rows"] for split in version.manifest["splits"].values())
    yield Chapter("cost", "What it took", *_cost(stages, runs, dialogues + seen.levels.total()))


def _funnel(stages: Mapping[str, Sequence[StageCount]]) -> Section:
    sums = {
        name: (sum(one.accepted for one in parts), sum(one.rejected for one in parts))
        for name, parts in stages.items()
    }
    most, rows = max(map(sum, sums.values()), default=0), []
    for name, (accepted, rejected) in sums.items():
        text = f"{accepted:,} accepted"
        if rejected:
            text += f", {rejected:,} rejected ({share(rejected / (accepted + rejected))})"
        bar = Bar((("good", accepted), ("bad", rejected)), most)
        rows.append((Label(name, stages[name][0].agent), bar, text))
    return Section("Accepted and rejected records by stage", rows=rows, legend=LEGEND)


def _by_reason(seen: ReadRows) -> list[tuple[str, Counter[str]]]:
    """How many records fell for a reason in each stage, the most frequent reason first."""
    stages: dict[str, Counter[str]] = defaultdict(Counter)
    for (reason, stage), count in sorted(seen.rejected.items()):
        stages[reason][stage] = count
    return sorted(stages.items(), key=lambda item: (-item[1].total(), item[0]))


def _reasons(seen: ReadRows) -> list[Section]:
    """A reason opens its samples, if it is among those of which some are shown."""
    ranked = _by_reason(seen)
    rows = [
        (
            Label(words(reason), reason=reason if number < REASONS else ""),
            Bar((("bad", counts.total()),), ranked[0][1].total()),
            f"{counts.total():,} in {', '.join(stage for stage, _ in counts.most_common())}",
        )
        for number, (reason, counts) in enumerate(ranked)
    ]
    return [Section("Rejected because", rows=rows)] if rows else []


def _charts(version: Version, seen: ReadRows) -> Iterator[Section]:
    splits = [split for split in version.manifest["splits"].values() if split["rows"]]
    rows = sum(split["rows"] for split in splits)
    for name, title in TALLIES.items() if splits else ():
        counts = {words(key): count for key, count in added(splits, name).items()}
        if name != "calls":
            counts = dict(sorted(counts.items(), key=lambda item: (-item[1], item[0])))
        yield chart(title, counts, sum(counts.values()) if name == "observations" else rows)
    if seen.levels:
        levels = {level: seen.levels[level] for level in LEVELS if seen.levels[level]}
        yield chart("Level of instructions", levels, seen.levels.total())
    if seen.lengths:
        lengths = [
            (what, quantile(counts, 0.5), quantile(counts, 0.9), max(counts))
            for what, counts in seen.lengths.items()
        ]
        yield Section("Lengths", ("", "Half have at most", "9 of 10", "All"), lengths)


def chart(title: str, counts: Mapping[str, int], of: int) -> Section:
    """Bars in the order given, each with its share; of very many the first ones."""
    most = max(counts.values(), default=0) or 1
    rows = [
        (Label(label), Bar((("good", count),), most), f"{count:,} ({share(count / of)})")
        for label, count in counts.items()
    ]
    rest = [*counts.values()][MOST:]
    note = f"{len(rest):,} more, with {sum(rest):,} in all." if rest else ""
    return Section(title, rows=rows[:MOST], note=note)


def share(part: float) -> str:
    """A share that is read in one piece; what there is, is never `0 %`."""
    return ("<1 %" if 0 < part <= 0.005 else percent(part)).replace(" ", "\u00a0")


def quantile(counts: Counter[int], share: float) -> int:
    """The smallest number that at least this share of all do not pass. There must be one."""
    return sorted(counts.elements())[ceil(share * counts.total()) - 1]


def _diversity(seen: ReadRows) -> tuple[str, list[Section]]:
    """How unlike requests are, and how many of the APIs dialogues call."""
    head = ("Requests", "Compared", *(f"distinct-{n}" for n in (1, 2, 3)), "Nearest", "Alike")
    rows, sections = [], []
    for kind, draw in sorted(seen.requests.items()):
        texts = [folded(item["text"]) for item in draw]
        parts = [f"{distinct([_WORD.findall(text) for text in texts], n):.3f}" for n in (1, 2, 3)]
        near = nearest(texts)
        of = f"{len(texts):,}" + (f" of {draw.seen:,}" if draw.seen > len(texts) else "")
        mean = f"{fmean(near):.0f}\u00a0%" if near else "–"
        alike = share(fmean(one >= NEAR for one in near)) if near else "–"
        rows.append((kind, of, *parts, mean, alike))
    if rows:
        note = (
            "distinct-n: different sequences of n words, as a share of all. Nearest: how much the "
            f"nearest other request is like one, on average. Alike: requests with another that is "
            f"{NEAR} % like them. Rows of templates repeat their template's words."
        )
        sections.append(Section("Requests", head, rows, note=note))
    there = Counter(seen.apis.values())
    called = Counter(category for name, category in seen.apis.items() if name in seen.called)
    if not there:
        return "" if rows else "It has no requests and no APIs.", sections
    most = max(there.values())
    bars = [
        (
            Label(one),
            Bar((("good", called[one]), ("rest", there[one] - called[one])), most),
            f"{called[one]:,} of {there[one]:,}",
        )
        for one in sorted(there, key=lambda category: (-there[category], category))[:MOST]
    ]
    note = f"{len(there) - MOST:,} more categories." if len(there) > MOST else ""
    sections.append(Section("APIs that are called, by category", rows=bars, note=note))
    about = f"Accepted dialogues call {called.total():,} of {counted(len(seen.apis), 'API')}."
    return about, sections


def _wording(seen: ReadRows) -> Iterator[Section]:
    """How turns begin, what form replies have, and how long users of each voice speak."""
    for role, counts in seen.openings.items():
        known = {f"“{opening} …”": n for opening, n in counts.most_common(OPENINGS)}
        yield chart(f"How turns of the {role} begin", known, counts.total())
    if seen.shapes:
        yield chart("Form of replies", dict(seen.shapes.most_common()), seen.shapes.total())
    rows = [
        (voice, counts.total(), quantile(counts, 0.5), quantile(counts, 0.9))
        for voice, counts in sorted(seen.spoken.items(), key=lambda it: (-it[1].total(), it[0]))
    ]
    if rows:
        head = ("Voice", "Turns", "Half have at most", "9 of 10")
        more = f"{len(rows) - MOST:,} more voices." if len(rows) > MOST else ""
        yield Section("Words of a user turn", head, rows[:MOST], note=more)


def distinct(texts: Sequence[Sequence[str]], n: int) -> float:
    """Distinct-n: different n-grams as a share of all n-grams (Li et al. 2016); 0 without any."""
    grams = [tuple(words[at : at + n]) for words in texts for at in range(len(words) - n + 1)]
    return len(set(grams)) / len(grams) if grams else 0.0


def nearest(texts: Sequence[str]) -> list[int]:
    """Of each text the likeness of the nearest other one: 100 less the share of letters to delete
    and insert."""
    import numpy as np
    from rapidfuzz import fuzz, process

    if len(texts) < 2:
        return []
    likeness = process.cdist(texts, texts, scorer=fuzz.ratio, dtype=np.uint8, workers=-1)
    np.fill_diagonal(likeness, 0)
    return [int(one) for one in likeness.max(axis=1)]


def _cost(
    stages: Mapping[str, Sequence[StageCount]], runs: Sequence[JsonObject], made: int
) -> tuple[str, list[Section]]:
    """Requests, tokens and dollars by stage; `made`: rows that they are divided by."""
    use = {name: sum((one.use for one in parts), Usage()) for name, parts in stages.items()}
    asked = {name: one for name, one in use.items() if one.requests}
    if not asked:
        return "No model was asked.", []
    priced = any(run["counts"].get("priced") for run in runs)
    unpriced = {m for run in runs for m in run["counts"].get("unpriced", ())} if priced else ()
    total = sum(asked.values(), Usage())
    about = (
        "Answers that records were made of, those from the cache included. Cached is the share of "
        "the tokens sent that the endpoint says it had cached."
    )
    if not priced:
        about += " The recipe has no prices, so there is no cost."
    elif made:
        about += f" {dollars(total.cost / made)} for each row, rejected records included."
    if unpriced:
        about += f" The cost lacks {', '.join(sorted(unpriced))}, which have no price."
    most = max(one.prompt_tokens for one in asked.values())
    rows = [
        (
            Label(name, stages[name][0].agent),
            *use_cells(one, priced),
            Bar((("good", one.prompt_tokens),), most),
        )
        for name, one in asked.items()
    ]
    columns = ["Stage", "Requests", "Tokens sent", "Cached", "Received"]
    head = [*columns, *(["Cost"] if priced else []), "Share of the tokens sent"]
    sums = ("In all", *use_cells(total, priced), "")
    return about, [Section("Requests, tokens and cost by stage", head, rows, sums)]


def samples(version: Version, seen: ReadRows) -> Iterator[tuple[str, str, dict[str, str]]]:
    """The samples on the page: their group, HTML, and what they can be found by. Raises StoreError
    for a row that is damaged."""
    frequent = {reason for reason, _ in _by_reason(seen)[:REASONS]}
    scripts = (k for k, draw in seen.samples.items() if k[0] == "scripts" and draw.seen > 1)
    sheets = sorted(scripts, key=lambda kind: fraction("report", *kind[1:]))[:SHEETS]
    for kind, draw in sorted(seen.samples.items()):
        group = kind[0]
        if group == "scripts" and kind in sheets:
            rows = [_sample(version, row)[0] for row in [*draw][:3]]
            html = render("sheet.html.j2", world=kind[1], script=kind[2], rows=rows)
            yield group, html, {"world": kind[1]}
        elif kind == INSTRUCTIONS:
            by_request = groupby(draw, key=lambda row: row["sample"])
            for request, levels in islice(by_request, SHOWN):
                said = sorted(levels, key=lambda row: LEVELS.index(row["level"]))
                html = render("instructions.html.j2", id=request, said=said, longest=LONGEST)
                yield group, html, {name: said[0][name] for name in ("split", "source")}
        elif group != "scripts" and (group != "rejected" or kind[1] in frequent):
            yield from ((group, *_sample(version, row)) for row in draw)


def _sample(version: Version, row: JsonObject) -> tuple[str, dict[str, str]]:
    """An accepted dialogue or a rejected record, as it is stored."""
    with version.readable(row):
        if "reason" in row:
            note = "… (cut here: the config `rejected` has it whole)"
            raw = [r if len(r) <= RAW_LONGEST else r[:RAW_LONGEST] + note for r in row["raw"][:RAW]]
            record = {**REJECTED.row.record_of(row), "raw": raw}
        else:
            record = {"id": row["id"], **SAMPLES.row.record_of(row)}
        need = need_of(record.get("record", record))
        setting = need.get("setting") or {}
        whose = "of a model" if not setting.get("script") else "of a script, free to use again"
        facets = {
            **{name: row.get(name) for name in ("reason", "stage", "split")},
            **{name: need.get(name) for name in ("ability", "scenario")},
            "words": whose if setting else "",
        }
        html = dialogue_html(record, raw=True, longest=LONGEST)
        return html, {name: str(value) for name, value in facets.items() if value}


def path_of(version: Version, output: Path | None) -> Path:
    """Where a report goes: `<name>-<version>.html` here, or in the folder that is named. Raises
    StoreError rather than to write over a file that is no report."""
    name = f"{version.name}-{version.number}.html"
    path = Path(name) if output is None else output
    path = path / name if isdir(path) else path  # no method of it, which raises at odd names
    if not isdir(path.parent):
        raise StoreError(
            f"{path.parent}: there is no such folder. Make it, or choose another place with "
            "--output."
        )
    try:
        with path.open("rb") as file:
            is_other = file.read(len(MARK)) != MARK
    except FileNotFoundError:
        return path
    except (OSError, ValueError) as error:
        raise StoreError(f"{path}: cannot be read ({error}). Choose another --output.") from error
    if is_other:
        raise StoreError(
            f"{path}: exists, and is not a report of toolloom's. Choose another file with --output."
        )
    return path
