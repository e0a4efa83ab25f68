"""The dataset card: README.md with the YAML header that maps configs to files.

It is made of the manifest alone, so that it can be made again and compared. Each section is a
function of the manifest that gives its paragraphs, none where a version has nothing of it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import yaml

from toolloom.pipeline.dataset import rows as row_models
from toolloom.pipeline.dataset.figures import (
    LEVELS,
    TOOLBENCH,
    VOTES,
    InstructionCounts,
    added,
    instructions_of,
    ranked,
)
from toolloom.pipeline.dataset.plays import worlds_told
from toolloom.pipeline.dataset.report import API_BANK, KINDS, Counts
from toolloom.pipeline.render.markdown import cell, table
from toolloom.pipeline.render.plots import BAD, Plot, svg
from toolloom.pipeline.render.section import counted, dollars, percent
from toolloom.pipeline.store.files import write_lines
from toolloom.schemas import JsonObject, Metric

SIZES = (
    (1_000, "n<1K"),
    (10_000, "1K<n<10K"),
    (100_000, "10K<n<100K"),
    (1_000_000, "100K<n<1M"),
    (10_000_000, "1M<n<10M"),
)
MOST_SOURCES = 50  # of APIs, that are listed
NAMED = 10  # APIs without a template
COUNTS = {
    "Ability": "abilities",
    "Scenario": "scenarios",
    "Calls": "calls",
    "Category": "categories",
    "Observations": "observations",
}
TESTS = {
    "train": "to train on",
    "validation": "to validate on: APIs that are seen in `train`, other calls",
    "test_instruction": "new instructions for APIs that are seen in `train`",
    "test_tool": "tools that are unseen, of categories that are seen in `train`",
    "test_category": "categories that are unseen",
    "apis": "rejected before there were queries",
}


def card(manifest: JsonObject) -> str:
    """The text of README.md. Holds no time of day: equal versions make equal cards."""
    header = yaml.safe_dump(_header(manifest), sort_keys=False, allow_unicode=True)
    recipe = manifest["runs"][manifest["apis"]["run"]]["recipe"]  # says what the dataset is for
    splits = [told for told in manifest["splits"].values() if told["rows"]]
    parts = [
        f"---\n{header}---",
        f"# {manifest['name']} {manifest['version']}",
        cell(recipe["description"]) or "Training data for language models that use tools.",
        _what(splits, manifest),
        "## Load it",
        _loading(manifest),
        "## Splits",
        _splits(manifest),
        "## What is in it",
        *(f"![{plot.title}](plots/{plot.name}.svg)" for plot in plots(manifest)),
        *(_counts(title, name, manifest) for title, name in COUNTS.items()),
        *_worlds(manifest),
        *_expansion(manifest),
        *_instructions(manifest),
        "## How it was made",
        _origin(manifest),
        *_runs(manifest),
        "## What was rejected",
        table(("Reason", "Records"), added(manifest["splits"].values(), "reasons").items())
        or "Nothing.",
        "## Contamination" if manifest.get("contamination") else "",
        _contamination(manifest.get("contamination")),
        "## APIs",
        _apis(manifest),
        "## Limits",
        _limits(manifest, splits),
        "## Columns",
        *_columns(manifest),
    ]
    return "\n\n".join(part for part in parts if part) + "\n"


def _header(manifest: JsonObject) -> JsonObject:
    dialogues = sum(told["rows"] for told in manifest["splits"].values())
    counted = instructions_of(manifest)
    rows = dialogues or (counted.levels.total() if counted else 0)
    # A version of digits that no other dataset has: `datasets` caches what it loads from a folder
    # under the folder's name, the config and this version alone. Without it, two datasets in
    # folders called `1.0.0` would be one to it.
    version = f"0.0.{int(manifest['content'][:12], 16)}"
    configs: list[JsonObject] = []
    for name, splits in _loadable(manifest):
        files = [{"split": split, "path": f"{name}/{split}-*.parquet"} for split in splits]
        first = {} if configs else {"default": True}
        configs.append({"config_name": name, "version": version, "data_files": files, **first})
    return {
        "pretty_name": manifest["name"],
        "license": "unknown",  # the terms of the models and APIs it was made with decide
        "task_categories": ["text-generation"],
        "tags": ["function-calling", "tool-use", "synthetic", "toolloom"],
        "size_categories": [next((s for n, s in SIZES if rows < n), "n>10M")],
        "configs": configs,
    }


def _loadable(manifest: JsonObject) -> list[tuple[str, JsonObject]]:
    """The configs with those of their splits that have files.

    One config without any in the header, and `datasets` loads none of the others either.
    """
    configs = [
        (name, {split: table for split, table in splits.items() if table["files"]})
        for name, splits in manifest["configs"].items()
    ]
    return [(name, splits) for name, splits in configs if splits]


def _what(splits: list[JsonObject], manifest: JsonObject) -> str:
    counted = instructions_of(manifest)
    if not splits and counted:
        return (
            f"{counted.levels.total():,} instructions at five granularities, each with the "
            "solution path that serves it, checked without a model; what did not pass is in the "
            "config `rejected` with its reason and the model's raw responses."
        )
    rows, several = (sum(told[name] for told in splits) for name in ("rows", "several_turns"))
    return (
        f"{rows:,} dialogues, {several:,} of them with several user turns. "
        "Each call was checked against its API's JSON Schema, "
        "against what the user said and what the APIs answered; what did not pass is in the "
        "config `rejected` with its reason and the model's raw responses."
    )


def _loading(manifest: JsonObject) -> str:
    lines = [
        f'{name} = load_dataset("<this folder or repository>", "{name}", split="{split}")'
        f"  # {made['rows']:,} rows"
        for name, splits in _loadable(manifest)
        for split, made in list(splits.items())[:1]
    ]
    code = "\n".join(["from datasets import load_dataset", "", *lines])
    objects = [n for n in ("sft", "planning") if n in dict(_loadable(manifest))]
    named = " and ".join(f"`{name}`" for name in objects)
    hold = "hold" if len(objects) > 1 else "holds"
    need = "JSON columns, which need `datasets` 4.7 or newer; all other configs are text."
    notes = [f"{named} {hold} {need}"] if objects else []
    if left := sum(made["left_out"] for made in manifest["configs"].get("sft", {}).values()):
        notes.append(
            f"{left:,} dialogues with numbers that `datasets` cannot hold exactly are left out of "
            "it; `samples` has them."
        )
    notes.append("`SHA256SUMS` holds the sums of all files, for `sha256sum --check`.")
    return f"```python\n{code}\n```\n\n{' '.join(notes)}"


def _splits(manifest: JsonObject) -> str:
    found: JsonObject = (manifest.get("instructions") or {"splits": {}})["splits"]
    also = {n: sum(each["levels"].values()) for n, each in found.items()}
    rows = [
        (
            *(name, TESTS[name], told["rows"], *([also.get(name, 0)] if also else [])),
            *(told["rejected"], told["apis"], " ".join(told["runs"])),
        )
        for name, told in manifest["splits"].items()
    ]
    plan = manifest["plan"]
    weights = ", ".join(f"{name} {plan[name]:g}" for name in list(TESTS)[:5])
    intro = (
        "The tests are ToolLLM's three levels of generalisation. A hash of an API's category and "
        "tool decides whether it is held out, and a hash of its calls in which of the other "
        f"splits a dialogue is (weights: {weights}): no API of an unseen split is in another, not "
        "even as a distractor, and a larger dataset keeps every row in its split."
    )
    more = ["Instructions"] if also else []
    head = ("Split", "What it holds", "Dialogues", *more, "Rejected", "APIs", "Run")
    return f"{intro}\n\n{table(head, rows)}"


def _counts(title: str, name: str, manifest: JsonObject) -> str:
    """One kind of count: a row for each value, a column for each split."""
    splits = {split: told for split, told in manifest["splits"].items() if told["rows"]}
    total = added(splits.values(), name)
    rows = [
        (value, count, *(told[name].get(value, 0) for told in splits.values()))
        for value, count in total.items()
    ]
    return table((title, "All", *splits), rows)


def _worlds(manifest: JsonObject) -> Iterator[str]:
    """The worlds, what came of their scripts, and how to replay it; nothing of a version without
    any."""
    if not manifest.get("worlds"):
        return
    worlds = worlds_told(manifest)
    yield "## Worlds"
    yield (
        f"{counted(sum(world.rows for world in worlds), 'dialogue')} of "
        f"{counted(len(worlds), 'world')}: APIs with a state that "
        "can be run. Each begins in a state of its own; what came of its calls was held against "
        "its goal, and its calls against the policies. `worlds` and `environments` hold them for "
        "training in the world itself, and `replay/` has what runs a world as one file that needs "
        "Python's standard library alone."
    )
    yield table(
        ("World", "Operations", "Policies", "Scripts with rows", "Rows", *_SPREAD, *_ALIKE),
        [
            (
                *(world.name, world.operations, world.policies, len(world.scripts), world.rows),
                *(f"{world.median:g}", world.most),
                *("–" if n is None else percent(n) for n in (world.same, world.other)),
            )
            for world in worlds
        ],
    )
    yield (
        "How alike rows are is the share of their words that two have in common, its mean over a "
        "sample: of two rows of one script, and of two scripts."
    )
    for world in worlds:
        if world.dry:
            named = ", ".join(f"«{cell(script)}»" for script in world.dry[:NAMED])
            rest = f" and {more:,} more" if (more := len(world.dry) - NAMED) > 0 else ""
            yield f"Scripts of `{world.name}` that gave no row: {named}{rest}."


_SPREAD = ("Rows a script, median", "Most")
_ALIKE = ("Alike, one script", "Alike, two scripts")


def _expansion(manifest: JsonObject) -> Iterator[str]:
    """Where expanded rows come from; nothing of a version without any."""
    told: JsonObject = manifest.get("expansion") or {}
    if not told:
        return
    expanded = sum(sum(each["rows"].values()) for each in told.values())
    rows = sum(split["rows"] for split in manifest["splits"].values())
    yield "## Rows of templates"
    yield (
        f"{expanded:,} of {rows:,} dialogues are rows of templates. A template is a dialogue in "
        "which values are slots; its rows differ in values that request, calls, results and "
        "answer share, and in nothing else. Each row passed the certain checks. **They repeat "
        "their template's words**: they show which value goes where, not another way to ask, and "
        "they were not held against the near-duplicate rules that other dialogues passed. The id "
        "of such a row is that of its template, then `-x` and a number, so that they can be told "
        "apart or left out."
    )
    if manifest.get("worlds"):
        yield "Rows of a world's script are the script played again, in another start state."
    yield table(
        ("Run", *map(str.title, KINDS), "With rows", "Rows"),
        [
            (
                *(name, *(each["templates"].get(kind, 0) for kind in KINDS)),
                *(each["used"], sum(each["rows"].values())),
            )
            for name, each in told.items()
        ],
    )
    for title, key in (
        ("Samples of which no template was made", "refused"),
        ("Values that are no slots", "values"),
        ("Values that a check objected to", "rejected"),
    ):
        counts = sum((Counter[str](each[key]) for each in told.values()), Counter[str]())
        yield table((title, "Count"), ranked(counts).items())
    yield from filter(None, map(_templates_coverage, told.values()))


def _templates_coverage(told: JsonObject) -> str:
    """How many APIs have a template."""
    coverage = told.get("coverage")
    if not coverage:
        return ""
    covered, apis = coverage["covered"], coverage["apis"]
    text = f"{covered:,} of {apis:,} APIs that may be called in its splits have a template."
    if lacking := coverage["without"][:NAMED]:
        more = apis - covered - len(lacking)
        text += f" Without: {', '.join(map(cell, lacking))}{f' and {more:,} more' if more else ''}."
    return text


def _instructions(manifest: JsonObject) -> Iterator[str]:
    """The five levels side by side, what was accepted and how it was rated."""
    counted = instructions_of(manifest)
    if counted is None:
        return
    yield "## Instructions"
    told = (
        f"{counted.levels.total():,} instructions say at five granularities what a dialogue was "
        "asked: the user's situation alone, then with the categories, the tools or the APIs that "
        "would serve it, and the full request (ToolPlanner). All levels of a request have the same "
        "solution path."
    )
    if foreign := counted.sources[TOOLBENCH]:
        told += (
            f" {foreign:,} of them are of ToolBench's queries, whose dialogues are not in "
            "`samples`; their source's licence is theirs."
        )
    yield told
    if shown := manifest["instructions"]["example"]:
        yield f"The levels of `{shown['sample']}`:"
        yield table(("Level", "Instruction"), shown["levels"].items())
    rated = bool(counted.ratings)
    means = ", and the means of the tester's votes, from 1 to 3" if rated else "; none was rated"
    yield f"What was accepted{means}:"
    metrics = [metric.value for metric in Metric] if rated else []
    named = ["Votes", *(metric.capitalize() for metric in metrics)] if rated else []
    yield table(
        ("Level", "Accepted", "Rejected", *named),
        [_level_line(level, counted, metrics) for level in LEVELS],
    )
    total = sum(counted.rejected.values(), Counter[str]())
    levels = [level for level in LEVELS if level in counted.rejected]
    rows = [
        (reason, count, *(counted.rejected[level][reason] for level in levels))
        for reason, count in ranked(total).items()
    ]
    yield table(("Rejected because", "All", *levels), rows)
    plans = [run["recipe"].get("rewrite") for run in manifest["runs"].values()]
    shares = sorted({plan["coarse"] for plan in plans if plan})
    each = ", ".join(f"{count:,} of `{task}`" for task, count in sorted(counted.planning.items()))
    share = " or ".join(f"{100 * share:g} %" for share in shares)
    yield (
        f"`planning` has them as training rows of two tasks: {each or 'none'}. Of the levels "
        f"statement and category {share} are trained on, chosen by a hash of their ids; all are "
        "in `instructions`."
    )


def _level_line(level: str, counted: InstructionCounts, metrics: list[str]) -> list[Any]:
    fallen = counted.rejected[level].total() if level in counted.rejected else 0
    votes = [counted.ratings[level][VOTES] if level in counted.ratings else 0]
    means = [counted.mean(level, metric) for metric in metrics]
    shown = ["–" if mean is None else f"{mean:.2f}" for mean in means]
    return [level, counted.levels[level], fallen, *(votes if metrics else []), *shown]


def _origin(manifest: JsonObject) -> str:
    made = f"By toolloom {manifest['toolloom']} (code {manifest['code'][:12]})."
    if before := manifest["parent"]:
        split, extended = manifest["regenerated"], manifest.get("extended")
        how = f"with the split `{split}` made anew" if split else "with all splits made anew"
        if extended:
            sums = {c: sum(splits.values()) for c, splits in extended["rows"].items()}
            more = [f"{n:,} in `{config}`" for config, n in sums.items() if n and config != "sft"]
            how = f"and has all of its rows, with {', '.join(more)} more"
            wanted = manifest["runs"][extended["run"]]["recipe"].get("regenerate") or {}
            if grown := (wanted["split"] if wanted.get("keep") else None):
                how += f": the split `{grown}` was grown by new queries"
        made += f" It follows version {before['version']}, {how}."
    return (
        f"{made} `manifest.json` holds the recipe and the counts of each run, and the hashes of "
        "all files."
    )


def _runs(manifest: JsonObject) -> Iterator[str]:
    for name, run in manifest["runs"].items():
        counts = Counts.model_validate(run["counts"])
        yield f"### Run `{name}`, seed {run['seed']}"
        yield _spending(counts)
        head = ["Stage", "Agent", "Accepted", "Rejected", "Requests", "Sent", "Cached", "Received"]
        lines: list[list[Any]] = []
        for stage in counts.stages:
            if not stage.given:
                use, done = stage.use, [stage.name, stage.agent, stage.accepted, stage.rejected]
                sent = [use.requests, use.prompt_tokens, percent(use.cached_share)]
                cost = [dollars(use.cost)] if counts.priced else []
                lines.append([*done, *sent, use.completion_tokens, *cost])
        yield table([*head, *(["Cost"] if counts.priced else [])], lines)
        yield table(
            ("Stage", "Agent", "Model", "Prompts (hashes)"),
            [(a["stage"], a["agent"], a["model"], " ".join(a["prompts"])) for a in run["agents"]],
        )


def _spending(counts: Counts) -> str:
    """What the models were sent, and what that cost where prices are known."""
    use, each = counts.use, counts.cost_of_one
    told = (
        f"Models were sent {use.prompt_tokens:,} tokens, {percent(use.cached_share)} of them "
        f"cached by the endpoint, and wrote {use.completion_tokens:,}."
    )
    if not counts.priced or not counts.made:
        return told
    lacking = ", ".join(map(cell, counts.unpriced))
    told += f" That cost {dollars(use.cost)}{f', without {lacking}' if lacking else ''}"
    if each is None:
        return f"{told}."
    return f"{told}: {dollars(each)} for each accepted dialogue (API-Bank's agents: ${API_BANK:g})."


def _contamination(told: JsonObject | None) -> str:
    """What curation found of benchmarks in accepted rows."""
    if not told:
        return ""
    head = ("Row", "Benchmark", "Where", "What matches", "Row's words", "Benchmark's words")
    keys = ("id", "benchmark", "place", "match", "row", "theirs")
    rows = [[str(pair[key])[:200] for key in keys] for pair in told["examples"]]
    return (
        f"{told['dropped']:,} overlaps with benchmarks were dropped with their rows, "
        f"{told['flagged']:,} are flagged and stay. `contamination.jsonl` has every pair; the "
        f"first are:\n\n{table(head, rows)}"
    )


def _apis(manifest: JsonObject) -> str:
    """Where they come from, with the licence of each source."""
    apis = manifest["apis"]
    seen = {split: made["rows"] for split, made in manifest["configs"].get("apis", {}).items()}
    if not seen:
        return "None of its own: the instructions name those of their source."
    parts = ", ".join(f"{rows:,} in `{split}`" for split, rows in seen.items())
    intro = (
        f"{apis['count']:,} APIs: {parts}. The config `apis` has each with its source and licence."
    )
    rows = [
        (s["kind"], s["reference"] or "–", s["licence"] or "not stated", s["apis"])
        for s in apis["sources"][:MOST_SOURCES]
    ]
    more = len(apis["sources"]) - MOST_SOURCES
    rest = f"And {more:,} more sources." if more > 0 else ""
    listed = table(("Source", "Read from", "Licence", "APIs"), rows)
    return "\n\n".join(part for part in (intro, listed, rest) if part)


def _limits(manifest: JsonObject, splits: list[JsonObject]) -> str:
    """What the data cannot be held to."""
    runs = [run["recipe"] for run in manifest["runs"].values()]
    languages = sorted({language for recipe in runs for language in recipe["languages"]})
    models = sorted({a["model"] for run in manifest["runs"].values() for a in run["agents"]} - {""})
    played = added(splits, "observations") if splits else {}
    real, worlds = played.get("executed", 0), bool(manifest.get("worlds"))
    writers = [*map(cell, models), *(["those who wrote the worlds' scripts"] if worlds else [])]
    invented = ", or from worlds, which are invented" if worlds else ""
    lines = [
        f"Words are written by {', '.join(writers) or 'no model'}, in "
        f"{', '.join(map(cell, languages))}: their errors and manners are in it. The checks of "
        "words are made for English.",
        f"{real:,} of {sum(played.values()):,} observations come from APIs that were "
        f"really executed{invented}; the others were played, and are no facts about the world."
        if played
        else "",
        "Checks find what contradicts a schema, the user or an observation. They do not show "
        "that a request is interesting, nor that an answer is the best one.",
        "People, places and accounts are invented; a likeness is chance.",
        "The licence depends on the terms of the models and of the APIs it was made with.",
    ]
    return "\n".join(f"- {line}" for line in lines if line)


def _columns(manifest: JsonObject) -> Iterable[str]:
    for config in row_models.CONFIGS:
        if config.name in manifest["configs"]:
            yield f"### `{config.name}`: {config.about}"
            yield "\n".join(f"- `{name}`: {c.about}" for name, c in config.columns.items())


def plots(manifest: JsonObject) -> Iterator[Plot]:
    """The plots of a version; none of what it has nothing of."""
    sides = ("accepted", "rejected")
    told = {split: figures for split, figures in manifest["splits"].items() if figures["rows"]}
    if told:
        good, fallen = ([one[side] for one in told.values()] for side in ("rows", "rejected"))
        yield Plot("splits", "Dialogues by split", [*told], good, fallen, sides)
    for name, title in (("scenarios", "scenario"), ("calls", "number of calls")) if told else ():
        counts = added(told.values(), name)
        yield Plot(name, f"Dialogues by {title}", [*counts], [*counts.values()])
    if counted := instructions_of(manifest):
        levels = [level for level in LEVELS if level in counted.levels or level in counted.rejected]
        fallen = [counted.rejected[x].total() if x in counted.rejected else 0 for x in levels]
        good = [counted.levels[level] for level in levels]
        yield Plot("levels", "Instructions by level", levels, good, fallen, sides)
    if reasons := added(manifest["splits"].values(), "reasons"):
        yield Plot("reasons", "Rejected because", [*reasons], [*reasons.values()], color=BAD)


def draw(manifest: JsonObject, folder: Path) -> None:
    """Write the plots to `<folder>/<name>.svg`."""
    for plot in plots(manifest):
        write_lines(folder / f"{plot.name}.svg", [svg(plot)])
