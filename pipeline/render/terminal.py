"""What a person sees of runs and records. Text of models is shown as data, whatever it holds."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from toolloom.pipeline.dataset.report import (
    API_BANK,
    Counts,
    Coverage,
    StageCount,
    Summary,
    Tally,
    dollars,
    percent,
)
from toolloom.schemas import Instruction, JsonObject, Sample
from toolloom.schemas.splits import need_of

if TYPE_CHECKING:
    from toolloom.schemas import Usage

# Control characters can move the cursor or set colours; bidirectional ones can reorder a line.
UNSAFE = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\u200e\u200f\u202a-\u202e\u2066-\u2069\ud800-\udfff]"
)
FIGURE = re.compile(r"\d+|\$[\d.,]+|\d+ %")
COLOURS = {"system": "dim", "user": "cyan", "assistant": "green", "tool": "yellow"}


def safe(value: object) -> str:
    """Text with what a terminal would obey written as `\\x1b`."""
    return UNSAFE.sub(lambda found: ascii(found[0])[1:-1], str(value))


def text(value: object, style: str = "") -> Text:
    """Safe text without markup."""
    return Text(safe(value), style=style)


def indented(value: object) -> Text:
    return text("\n".join(f"  {line}" for line in str(value).split("\n")))


def grid(head: Sequence[str], rows: Iterable[Sequence[object]]) -> Table:
    """A table without lines; numbers, shares and dollars to the right."""
    shown = list(rows)
    made = Table(box=None, pad_edge=False, header_style="dim", padding=(0, 3, 0, 0))
    for place, name in enumerate(head):
        number = bool(shown) and FIGURE.fullmatch(str(shown[0][place]))
        made.add_column(name, justify="right" if number else "left")
    for row in shown:
        made.add_row(*(text(f"{v:,}" if isinstance(v, int) else v) for v in row))
    return made


def counts_view(counts: Counts) -> RenderableType:
    """The tables of a run's or dataset's counts."""
    stages = [(_named(s), s.accepted, s.rejected) for s in counts.stages]
    reasons = [(s.name, why, n) for s in counts.stages for why, n in s.reasons.items()]
    parts: list[RenderableType] = [grid(("stage", "accepted", "rejected"), stages)]
    if reasons:
        parts.append(grid(("stage", "rejected because", "records"), reasons))
    for title, tallies in (
        ("ability", counts.abilities),
        ("scenario", counts.scenarios),
        ("level", counts.levels),
    ):
        if tallies:
            parts.append(_tallies(title, tallies))
    if counts.coverage:
        parts.append(_coverage_view(counts.coverage))
    rows = [(s.name, s.agent, s.use) for s in counts.stages if not (s.sifts or s.given)]
    parts.append(use_grid([*rows, ("in all", "", counts.use)], counts.priced))
    parts.append(text(_in_words(counts)))
    return Group(*(line for part in parts for line in (part, text(""))))


def _named(stage: StageCount) -> str:
    if stage.given:
        return f"{stage.name} (published)"
    return stage.name if stage.finished else f"{stage.name} (not finished)"


def use_grid(rows: Iterable[tuple[str, str, Usage]], priced: bool) -> Table:
    """What models were asked by stage and agent; a column of dollars where prices are known."""
    head = ["stage", "agent", "requests", "tokens sent", "cached", "received"]
    return grid(
        [*head, *(["cost"] if priced else [])],
        [(stage, agent, *asked(use, priced)) for stage, agent, use in rows],
    )


def asked(use: Usage, priced: bool) -> tuple[int | str, ...]:
    """The cells of what models were asked."""
    cost = (dollars(use.cost),) if priced else ()
    share = percent(use.cached_share)
    return (use.requests, use.prompt_tokens, share, use.completion_tokens, *cost)


def _tallies(title: str, tallies: dict[str, Tally]) -> Table:
    rows = [(kind, tally.accepted, tally.rejected) for kind, tally in tallies.items()]
    return grid((title, "accepted", "rejected"), rows)


def _coverage_view(coverage: Coverage) -> Table:
    """How much of the pool was drawn and accepted; combinations by level."""
    rows: list[tuple[str, int, int]] = [
        (f"APIs of the pool's {coverage.pool:,}", coverage.drawn, coverage.accepted)
    ]
    for level, found in coverage.combinations.items():
        rows.append((f"combinations: {level}", found.drawn, found.accepted))
    return grid(("different", "drawn", "accepted"), rows)


def _in_words(counts: Counts) -> str:
    words, rewrites = "", {stage.name for stage in counts.stages} >= {"rewritten"}
    if counts.accepted or not (counts.made or rewrites):
        words = (
            f"{counts.accepted:,} dialogues accepted, {counts.several_turns:,} with several user "
            f"turns, from {len(counts.categories):,} categories and {counts.apis:,} APIs."
        )
    if counts.expanded:
        words += f" {counts.expanded:,} of them are rows of {counts.templates:,} templates."
    if counts.instructions or (rewrites and not words):
        words += f" {counts.instructions:,} instructions of {counts.rewritten:,} requests."
    if counts.cost_of_one is not None:
        words += f" {dollars(counts.cost_of_one)} for each (API-Bank's agents: ${API_BANK:g})."
    return words.lstrip() + lacking(counts.unpriced if counts.priced else ())


def lacking(models: Sequence[str]) -> str:
    """A sentence on models without a price, or nothing."""
    return f" Costs lack {', '.join(models)}, for which `prices` has no price." if models else ""


def summary_view(summary: Summary) -> RenderableType:
    """The end of a run."""
    minutes, seconds = divmod(summary.seconds, 60)
    took = f"{int(minutes)} min {seconds:.0f} s" if minutes else f"{seconds:.1f} s"
    cost = f" for {dollars(summary.cost)}" if summary.counts.priced else ""
    line = (
        f"This time: {summary.asked:,} requests sent, {summary.cached:,} answered by the cache, "
        f"{summary.tokens:,} tokens{cost}, in {took}."
    )
    return Group(text(f"Run {summary.run}", "bold"), counts_view(summary.counts), text(line))


def sample_view(sample: Sample) -> RenderableType:
    """A dialogue as a person reads it."""
    row = sample.model_dump(mode="json")
    return Group(_title(sample.id, need_of(row)), messages_view(row["dialogue"]["messages"]))


def instruction_view(instruction: Instruction) -> RenderableType:
    """A request at one granularity, in a line."""
    return text(f"{instruction.id}: {instruction.text}")


def rejected_view(row: JsonObject, verbatim: bool = False) -> RenderableType:
    """A rejected record: what was found, the dialogue as far as it came, what the model said.

    `verbatim`: the endpoint's whole responses in place of the model's text in them.
    """
    need = need_of(row["record"])
    agent = f" ({row['agent']})" if row["agent"] else ""
    parts: list[RenderableType] = [
        _title(row["id"], need),
        text(f"rejected by {row['stage']}{agent}: {row['reason']}", "red"),
        text(row["detail"]),
        *(text("  " + _finding(finding)) for finding in row["findings"]),
        _record_view(row["record"], need),
    ]
    for number, raw in enumerate(row["raw"], 1):
        parts.append(text(f"response {number}", "dim"))
        parts.append(indented(raw if verbatim else spoken(raw)))
    return Group(*parts)


def spoken(raw: str) -> str:
    """The model's text in a chat completion, and why it stopped if it was cut off; else `raw`."""
    try:
        choice = json.loads(raw)["choices"][0]
        said, stopped = choice["message"]["content"], choice.get("finish_reason")
    except (ValueError, KeyError, IndexError, TypeError):
        return raw
    if not isinstance(said, str):
        return raw
    return said if stopped in (None, "stop") else f"{said} [{stopped}]"


def _title(name: str, need: JsonObject) -> Text:
    kinds = [str(need[key]) for key in ("ability", "scenario") if key in need]
    return text(" · ".join([name, *kinds]), "bold")


def _finding(finding: JsonObject) -> str:
    turn = "" if finding["turn"] is None else f", message {finding['turn']}"
    return f"{finding['check']}{turn}: {finding['reason']}: {finding['detail']}"


def _record_view(record: JsonObject, need: JsonObject) -> RenderableType:
    if "seed" in record:
        return _draft_view(record)
    dialogue = record.get("dialogue", record)
    if isinstance(dialogue, dict) and dialogue.get("messages"):
        return messages_view(dialogue["messages"])
    shown = need or record
    hidden = {"provenance", "pool", "id", "ability", "scenario"}
    rest = {k: v for k, v in shown.items() if k not in hidden and v not in (None, "", [], {})}
    return text(json.dumps(rest, indent=2, ensure_ascii=False), "dim")


def _draft_view(record: JsonObject) -> RenderableType:
    """What became of a request at one granularity, beside the request."""
    seed = record["seed"]
    steps = [step.get("function") for step in seed.get("steps", ())]
    told = {"request": seed.get("hybrid"), "calls": steps, record.get("level"): record.get("text")}
    rest = {str(k): v for k, v in told.items() if k and v}
    return text(json.dumps(rest, indent=2, ensure_ascii=False), "dim")


def messages_view(messages: Iterable[JsonObject]) -> RenderableType:
    """Messages, numbered as findings number them."""
    lines: list[RenderableType] = []
    for number, message in enumerate(messages):
        style = COLOURS.get(message["role"], "")
        lines.append(text(f"{number} {message['role']}{_came_about(message)}", style))
        if message.get("content") is not None:
            lines.append(indented(message["content"]))
        for call in message.get("tool_calls") or ():
            function = call["function"]
            arguments = json.dumps(function["arguments"], ensure_ascii=False)
            lines.append(indented(f"→ {function['name']}({arguments})"))
    return Group(*lines)


def _came_about(message: JsonObject) -> str:
    """How a tool message came about, such as ` (executed by mcp:git)`."""
    execution = message.get("execution")
    if not execution or execution["kind"] == "search":
        return ""
    by = f" by {execution['by']}" if execution["by"] else ""
    failure = f", {execution['failure']}" if execution["failure"] else ""
    whole = execution["whole_tokens"]
    short = f", compressed from {whole:,} tokens" if whole else ""
    return f" ({execution['kind']}{by}{failure}{short})"
