"""What the report tells of a version, as the template takes it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from toolloom.pipeline.dataset.figures import LEVELS, added
from toolloom.pipeline.dataset.report import dollars, percent
from toolloom.pipeline.pages.diversity import Diversity, diversity
from toolloom.pipeline.pages.funnel import Funnel, Step, funnel
from toolloom.pipeline.pages.reading import INSTRUCTED, TEMPLATES, WRITTEN, Seen
from toolloom.pipeline.render.histogram import binned, quantile
from toolloom.pipeline.store.version import Version
from toolloom.schemas import JsonObject

MOST = 24  # bars of one chart


@dataclass(frozen=True)
class Bar:
    """A line of a chart: two lengths in percent of the longest, and what is said beside them."""

    label: str
    count: int
    told: str = ""
    good: float = 0.0
    bad: float = 0.0
    shows: str = ""  # the reason whose samples a click shows


@dataclass(frozen=True)
class Chart:
    title: str
    bars: tuple[Bar, ...]
    note: str = ""


def figures(version: Version, seen: Seen) -> JsonObject:
    """All that the template needs but the samples."""
    stages, rejected = funnel(version), seen.fallen.total()
    return {
        "cards": [*_cards(version, seen)],
        "about": _about(version),
        "facts": [*_facts(version)],
        "splits": [*_splits(version)],
        "funnel": [_step(step, stages.most) for step in stages.steps],
        "runs": stages.runs,
        "replaced": _replaced(stages.beyond(seen.all.rows, seen.levels.total(), rejected)),
        "reasons": _reasons(seen),
        "charts": [*_charts(version, seen)],
        "diversity": [*_diversity(seen)],
        "coverage": _coverage(seen),
        "cost": _cost(stages, seen),
    }


def _cards(version: Version, seen: Seen) -> Iterator[tuple[str, int, str]]:
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
    sources = (manifest.get("apis") or {}).get("sources", ())
    if sources:
        yield "APIs from", "; ".join(map(_source, sources[:MOST]))
    yield "Made by", f"toolloom {manifest.get('toolloom', '')}, in {_some(len(runs), 'run')}"
    yield "Content", str(manifest["content"])[:16]


def _source(told: JsonObject) -> str:
    where = f" {told['reference']}" if told["reference"] else ""
    licence = told["licence"] or "licence not stated"
    return f"{told['kind']}{where} ({told['apis']:,}, {licence})"


def _some(count: int, what: str) -> str:
    return f"{count:,} {what}{'' if count == 1 else 's'}"


def _replaced(gone: Mapping[str, int]) -> str:
    return ", ".join(_some(count, what) for what, count in gone.items() if count > 0)


def _splits(version: Version) -> Iterator[JsonObject]:
    """Rows of each config by split."""
    configs = version.manifest["configs"]
    for split, told in version.told("splits").items():
        said = configs.get("instructions", {}).get(split, {}).get("rows", 0)
        counts = {"dialogues": told["rows"], "instructions": said, "rejected": told["rejected"]}
        yield {
            "name": split,
            **counts,
            "apis": configs.get("apis", {}).get(split, {}).get("rows", 0),
        }


def _step(step: Step, most: int) -> JsonObject:
    length = 100 / most if most else 0.0
    return {
        "bar": Bar(
            step.name,
            step.accepted,
            f"{step.accepted:,} accepted"
            + (f", {step.rejected:,} rejected ({share(step.share)})" if step.rejected else ""),
            round(step.accepted * length, 2),
            round(step.rejected * length, 2),
        ),
        "agent": step.agent,
        "beside": step.beside,
    }


def _reasons(seen: Seen) -> Chart:
    stages: dict[str, dict[str, int]] = {}
    for (reason, stage), count in sorted(seen.fallen.items()):
        stages.setdefault(reason, {})[stage] = count
    ranked = sorted(stages.items(), key=lambda item: (-sum(item[1].values()), item[0]))
    most = max((sum(found.values()) for _, found in ranked), default=0)
    bars = [
        Bar(
            reason,
            sum(found.values()),
            f"{sum(found.values()):,} in {', '.join(sorted(found, key=lambda s: -found[s]))}",
            bad=round(100 * sum(found.values()) / most, 2),
            shows=reason,
        )
        for reason, found in ranked
    ]
    return Chart("Rejected because", tuple(bars))


def _charts(version: Version, seen: Seen) -> Iterator[Chart]:
    told = [one for one in version.told("splits").values() if one["rows"]]
    for name, title in _TALLIES.items() if told else ():
        counts = added(told, name)
        ranked = counts if name == "calls" else _ranked(counts)
        rows = sum(one["rows"] for one in told)
        yield _chart(title, ranked, sum(counts.values()) if name == "observations" else rows)
    if seen.levels:
        levels = {
            level: seen.levels[level] for level in (*LEVELS, *seen.levels) if seen.levels[level]
        }
        yield _chart("Level of instructions", levels, seen.levels.total())
    for what, lengths in seen.lengths.items():
        yield _chart(what.capitalize(), binned(lengths), lengths.total(), _in_words(lengths))


_TALLIES = {
    "abilities": "Ability",
    "scenarios": "Scenario",
    "categories": "Category",
    "calls": "Calls in a dialogue",
    "observations": "How observations came about",
}


def _ranked(counts: Mapping[str, int]) -> dict[str, int]:
    return dict(sorted(counts.items(), key=lambda item: (-item[1], item[0])))


def _chart(title: str, counts: Mapping[str, int], of: int, note: str = "") -> Chart:
    most = max(counts.values(), default=0) or 1
    shown = [*counts.items()][:MOST]
    if rest := len(counts) - len(shown):
        more = sum(counts.values()) - sum(count for _, count in shown)
        note = f"{note} And {rest:,} more, with {more:,}.".strip()
    bars = (
        Bar(label, count, f"{count:,} ({share(count / of)})", round(100 * count / most, 2))
        for label, count in shown
    )
    return Chart(title, tuple(bars), note)


def share(part: float) -> str:
    """A share that is read in one piece; what there is, is never `0 %`."""
    told = "<1 %" if 0 < part <= 0.005 else percent(part)
    return told.replace(" ", "\u00a0")


def _in_words(lengths: Counter[int]) -> str:
    middle, long = quantile(lengths, 0.5), quantile(lengths, 0.9)
    return (
        f"Half have at most {middle:,}, nine of ten at most {long:,}; the most is {max(lengths):,}."
    )


def _diversity(seen: Seen) -> Iterator[tuple[str, Diversity, Chart]]:
    """Of each group of requests the figures, and how near the nearest other ones are."""
    for group in (WRITTEN, TEMPLATES, INSTRUCTED):
        if draw := seen.requests.get(group):
            found = diversity(draw.items(), draw.seen)
            tens = Counter(min(near, 99) // 10 for near in found.nearest)
            counts = {f"{10 * n}–{10 * n + 9 + (n == 9)} %": tens[n] for n in range(10)}
            yield group, found, _chart("Likeness", counts, max(1, len(found.nearest)))


def _coverage(seen: Seen) -> JsonObject:
    """APIs that accepted dialogues call, by category."""
    whole = seen.all
    there, called = Counter(seen.apis.values()), Counter[str]()
    for name in whole.covered.apis & seen.apis.keys():
        called[seen.apis[name]] += 1
    length = 100 / max(there.values(), default=1)
    bars = [
        Bar(
            category,
            called[category],
            f"{called[category]:,} of {there[category]:,}",
            round(called[category] * length, 2),
            round((there[category] - called[category]) * length, 2),
        )
        for category in sorted(there, key=lambda c: (-there[c], c))
    ]
    combinations = sum(len(found) for found in whole.covered.combinations.values())
    return {
        "bars": bars[:MOST],
        "more": len(bars) - len(bars[:MOST]),
        "called": called.total(),
        "apis": len(seen.apis),
        "categories": len(there),
        "reached": sum(n > 0 for n in called.values()),
        "combinations": combinations,
    }


def _cost(stages: Funnel, seen: Seen) -> JsonObject:
    asked = [step for step in stages.steps if step.use.requests]
    most = max((step.use.prompt_tokens for step in asked), default=0) or 1
    made = seen.all.rows + seen.levels.total()
    lines = [
        (step.name, step.agent, _use(step.use), round(100 * step.use.prompt_tokens / most, 2))
        for step in asked
    ]
    of_one = dollars(stages.use.cost / made) if stages.priced and made else ""
    return {
        "lines": lines,
        "total": _use(stages.use),
        "priced": stages.priced,
        "unpriced": ", ".join(stages.unpriced),
        "of_one": of_one,
    }


def _use(use: Any) -> dict[str, str]:
    return {
        "requests": f"{use.requests:,}",
        "sent": f"{use.prompt_tokens:,}",
        "cached": percent(use.cached_share),
        "received": f"{use.completion_tokens:,}",
        "dollars": dollars(use.cost),
    }
