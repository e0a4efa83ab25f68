"""What a card says of each run: models, prompts, requests, tokens, cost."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from toolloom.pipeline.dataset.report import API_BANK, Counts, StageCount, dollars, percent
from toolloom.pipeline.render.markdown import cell, table
from toolloom.schemas import JsonObject


def run_parts(manifest: JsonObject) -> Iterator[str]:
    for name, run in manifest["runs"].items():
        counts = Counts.model_validate(run["counts"])
        yield f"### Run `{name}`, seed {run['seed']}"
        yield _spending(counts)
        yield _asked(counts)
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


def _asked(counts: Counts) -> str:
    """A row for each stage that the run did; a column of costs where prices are known."""
    head = [
        *("Stage", "Agent", "Accepted", "Rejected", "Requests"),
        *("Sent", "Cached", "Received"),
    ]
    priced = counts.priced
    done = [_row(stage, priced) for stage in counts.stages if not stage.given]
    return table([*head, *(["Cost"] if priced else [])], done)


def _row(stage: StageCount, priced: bool) -> list[Any]:
    use = stage.use
    tokens = [use.prompt_tokens, percent(use.cached_share), use.completion_tokens]
    done = [stage.name, stage.agent, stage.accepted, stage.rejected, use.requests]
    return [*done, *tokens, *([dollars(use.cost)] if priced else [])]
