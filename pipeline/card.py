"""The dataset card: README.md with the YAML header that maps configs to files."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import yaml

from toolloom.pipeline.report import API_BANK, Counts, StageCount, Tally, dollars, percent
from toolloom.pipeline.tables import CONFIGS
from toolloom.schemas import JsonObject, digest

SIZES = (
    (1_000, "n<1K"),
    (10_000, "1K<n<10K"),
    (100_000, "10K<n<100K"),
    (1_000_000, "100K<n<1M"),
    (10_000_000, "1M<n<10M"),
)


def card(manifest: JsonObject, counts: Counts) -> str:
    """The text of README.md. Holds no time of day: equal runs make equal cards."""
    header = yaml.safe_dump(_header(manifest, counts), sort_keys=False, allow_unicode=True)
    recipe = manifest["recipe"]
    parts = [
        f"---\n{header}---",
        f"# {recipe['name']} {manifest['version']}",
        cell(recipe["description"]) or "Training data for language models that use tools.",
        _what(counts),
        "## Load it",
        _loading(manifest),
        "## What is in it",
        _tallies("Ability", counts.abilities),
        _tallies("Scenario", counts.scenarios),
        table(("Category", "Dialogues"), counts.categories.items()),
        "## How it was made",
        _making(manifest, counts),
        "## What was rejected",
        table(("Reason", "Records"), counts.reasons.items()) or "Nothing.",
        "## Columns",
        *_columns(manifest),
    ]
    return "\n\n".join(part for part in parts if part) + "\n"


def table(head: Iterable[Any], rows: Iterable[Iterable[Any]]) -> str:
    """A Markdown table; empty without rows. Cells are data and cannot break out of it."""
    names = list(head)
    lines = [names, ["---"] * len(names), *rows]
    if len(lines) == 2:
        return ""
    return "\n".join("| " + " | ".join(cell(v) for v in line) + " |" for line in lines)


def cell(value: Any) -> str:
    """One line of Markdown without HTML, links or table bars."""
    text = " ".join(str(value).split())
    for character in "\\|<>[]":
        text = text.replace(character, f"\\{character}")
    return text


def _header(manifest: JsonObject, counts: Counts) -> JsonObject:
    return {
        "pretty_name": manifest["recipe"]["name"],
        "license": "unknown",  # the terms of the models and APIs it was made with decide
        "task_categories": ["text-generation"],
        "tags": ["function-calling", "tool-use", "synthetic", "toolloom"],
        "size_categories": [next((s for n, s in SIZES if counts.accepted < n), "n>10M")],
        "configs": [
            _config(name, _cache_version(manifest), place == 0)
            for place, name in enumerate(manifest["configs"])
        ],
    }


def _cache_version(manifest: JsonObject) -> str:
    """A version of digits that no other dataset has.

    `datasets` caches what it loads from a folder under the folder's name, the config and this
    version alone: without it, two datasets in folders called `v1` would be one to it.
    """
    return f"0.0.{int(digest(manifest), 16)}"


def _config(name: str, version: str, default: bool) -> JsonObject:
    files = [{"split": "train", "path": f"{name}/train-*.parquet"}]
    made: JsonObject = {"config_name": name, "version": version, "data_files": files}
    return {**made, "default": True} if default else made


def _what(counts: Counts) -> str:
    return (
        f"{counts.accepted} dialogues, {counts.several_turns} of them with several user turns, "
        f"that call {counts.apis} APIs. Each call was checked against its API's JSON Schema, "
        "against what the user said and what the APIs answered; what did not pass is in the "
        "config `rejected` with its reason and the model's raw responses."
    )


def _loading(manifest: JsonObject) -> str:
    lines = [
        f'{name} = load_dataset("<this folder or repository>", "{name}", split="train")'
        f"  # {made['rows']} rows"
        for name, made in manifest["configs"].items()
    ]
    code = "\n".join(["from datasets import load_dataset", "", *lines])
    notes = ["`training` holds JSON columns, which need `datasets` 4.7 or newer."]
    if left := manifest["configs"].get("training", {}).get("left_out", 0):
        notes.append(
            f"{left} dialogues with numbers that `datasets` cannot hold exactly are left out of "
            "it; `samples` has them."
        )
    return f"```python\n{code}\n```\n\n{' '.join(notes)}"


def _tallies(title: str, tallies: dict[str, Tally]) -> str:
    rows = [(kind, tally.accepted, tally.rejected) for kind, tally in tallies.items()]
    return table((title, "Accepted", "Rejected"), rows)


def _making(manifest: JsonObject, counts: Counts) -> str:
    agents = table(
        ("Stage", "Agent", "Model", "Prompts (hashes)"),
        [(a["stage"], a["agent"], a["model"], " ".join(a["prompts"])) for a in manifest["agents"]],
    )
    intro = (
        f"By toolloom {manifest['toolloom']}, run `{manifest['run']}`, seed "
        f"{manifest['recipe']['seed']}. `manifest.json` holds the whole recipe and the "
        "hashes of all files."
    )
    return "\n\n".join(part for part in (intro, _spending(counts), _asked(counts), agents) if part)


def _spending(counts: Counts) -> str:
    """What the models were sent, and what that cost where prices are known."""
    use, each = counts.use, counts.cost_of_one
    told = (
        f"Models were sent {use.prompt_tokens:,} tokens, {percent(use.cached_share)} of them "
        f"cached by the endpoint, and wrote {use.completion_tokens:,}."
    )
    if each is None:
        return told
    lacking = ", ".join(map(cell, counts.unpriced))
    return (
        f"{told} That cost {dollars(use.cost)}{f', without {lacking}' if lacking else ''}: "
        f"{dollars(each)} for each accepted dialogue (API-Bank's agents: ${API_BANK:g})."
    )


def _asked(counts: Counts) -> str:
    """A row for each stage; a column of costs where prices are known."""
    head = [
        *("Stage", "Agent", "Accepted", "Rejected", "Requests"),
        *("Sent", "Cached", "Received"),
    ]
    priced = counts.priced
    return table([*head, *(["Cost"] if priced else [])], [_row(s, priced) for s in counts.stages])


def _row(stage: StageCount, priced: bool) -> list[Any]:
    use = stage.use
    tokens = [use.prompt_tokens, percent(use.cached_share), use.completion_tokens]
    done = [stage.name, stage.agent, stage.accepted, stage.rejected, use.requests]
    return [*done, *tokens, *([dollars(use.cost)] if priced else [])]


def _columns(manifest: JsonObject) -> Iterable[str]:
    for config in CONFIGS:
        if config.name in manifest["configs"]:
            yield f"### `{config.name}`: {config.about}"
            yield "\n".join(f"- `{name}`: {c.about}" for name, c in config.columns.items())
