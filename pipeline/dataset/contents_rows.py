"""Rows on their way into a version's tables: what they become, and their figures."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Iterator
from itertools import chain
from typing import TypeAlias

from toolloom.pipeline.dataset.configs import (
    INSTRUCTIONS,
    PLANNING,
    REJECTED,
    SAMPLES,
    SFT,
    encoded,
    instruction_row,
    rejected_row,
    samples_row,
    sft_row,
)
from toolloom.pipeline.dataset.instruction_counts import InstructionCounts
from toolloom.pipeline.dataset.report import count
from toolloom.pipeline.dataset.tallies import BEFORE_QUERIES, RowCounts, place_of_rejected
from toolloom.pipeline.dataset.unfolding import unfolded
from toolloom.pipeline.store.run import RunFolder
from toolloom.pipeline.store.tables import Tables, delicate, reads_back
from toolloom.schemas import Expansion, JsonObject, PublishError, Split, SplitPlan
from toolloom.schemas.recipe import public_recipe
from toolloom.schemas.splits import api_id, shown, split_of, stray

ORDER = (*(split.value for split in Split), BEFORE_QUERIES)  # of splits, as they are told


class Rows:
    """Rows on their way into tables, with the figures of their splits."""

    def __init__(self, sheets: Tables, plan: SplitPlan) -> None:
        self._tables = sheets
        self._plan = plan
        self.counted: dict[str, RowCounts] = {}
        self.instructions: dict[str, InstructionCounts] = {}
        self.expanded = Counter[str]()  # rows of templates, by split
        self.makers: set[Maker] = set()

    def take(self, run: RunFolder) -> None:
        """All that a run made, but for rows of the version that it adds to."""
        if not run.adds:
            for sample in run.samples():
                self.accept(sample)
        for expansion in run.expansions():
            self.expand(expansion, run.recipe.seed)
        coarse = run.recipe.rewrite.coarse if run.recipe.rewrite else 1.0
        for instruction in run.instructions():
            self.instruct(instruction.model_dump(mode="json"), coarse)
        for record in run.rejected():
            self.reject(record)

    def accept(self, sample: JsonObject) -> None:
        """A sample, as JSON. Raises PublishError if it shows an API that its split must not."""
        split = self._checked(sample)
        row, whole = encoded(SFT, sft_row(sample)), samples_row(sample)
        if not delicate(whole["dialogue"]) or reads_back(row):
            self._tables.add(SFT, split, row)
        else:
            self._tables.leave_out(SFT, split)
        self._tables.add(SAMPLES, split, whole)
        self._count(split, sample)

    def _checked(self, sample: JsonObject) -> str:
        need = sample["dialogue"]["query"]
        split = split_of(self._plan, need)
        if api := stray(self._plan, need, split):
            raise PublishError(
                f"{need['id']}: is of the split {split} and shows {api}, whose tool or category "
                "is held out of it. Queries were not drawn by the recipe's `splits`."
            )
        return split.value

    def _count(self, split: str, sample: JsonObject, times: int = 1) -> None:
        self.counts(split).add(sample, times)
        self.makers |= makers(sample)

    def expand(self, expansion: Expansion, seed: int) -> None:
        """Rows of a template. What is not a slot is the same in all of them, so one is counted
        for all. Raises PublishError like `accept`."""
        from toolloom.pipeline.dataset.unfolding.writing import write_expansion

        if not expansion.rows:
            return
        first, split = next(unfolded(expansion, seed)), expansion.split.value
        if self._checked(first) != split:
            raise PublishError(f"{expansion.id}: its rows are not of the split {split}.")
        write_expansion(expansion, self._tables, seed)
        self._count(split, first, len(expansion.rows))
        self.expanded[split] += len(expansion.rows)

    def instruct(self, instruction: JsonObject, coarse: float) -> None:
        """An instruction, as JSON, and its training rows.

        `coarse`: the share of statements and categories that have any.
        """
        from toolloom.pipeline.dataset.instructions.planning import planning_rows

        self._add_instruction(instruction)
        for row in planning_rows(instruction, coarse):
            self.train(instruction["split"], row)

    def keep_instructions(self, rows: Iterable[JsonObject]) -> set[str]:
        """Rows of another version's `instructions`; the ids that their training rows may have."""
        from toolloom.pipeline.dataset.instructions.planning import planning_rows

        ids: set[str] = set()
        for row in rows:
            instruction = json.loads(row["record"])
            self._add_instruction(instruction)
            ids.update(row["id"] for row in planning_rows(instruction, 1.0))
        return ids

    def _add_instruction(self, instruction: JsonObject) -> None:
        split = instruction["split"]
        self.counts(split)  # the split is told, also if it has no dialogue
        self._tables.add(INSTRUCTIONS, split, instruction_row(instruction))
        self._instructions(split).add(instruction)
        self.makers |= set(map(maker, instruction["provenance"]))

    def train(self, split: str, row: JsonObject) -> None:
        """A row of `planning`."""
        stored = encoded(PLANNING, row)
        if reads_back({**stored, "tools": ()}):
            self._tables.add(PLANNING, split, stored)
            self._instructions(split).train(row)
        else:
            self._tables.leave_out(PLANNING, split)

    def _instructions(self, split: str) -> InstructionCounts:
        return self.instructions.setdefault(split, InstructionCounts())

    def reject(self, record: JsonObject) -> None:
        split = place_of_rejected(self._plan, record["record"])
        self._tables.add(REJECTED, split, rejected_row(record))
        self.counts(split).reject(record["reason"])
        self._instructions(split).reject(record)

    def counts(self, split: str) -> RowCounts:
        return self.counted.setdefault(split, RowCounts())

    def told(self, runs: Iterable[str]) -> JsonObject:
        """The figures by split; those of rejects without a split are last."""
        ids = list(runs)
        return {
            split: {"runs": ids, **self.counted[split].told()}
            for split in ORDER
            if split in self.counted
        }

    def told_instructions(self) -> JsonObject:
        """The figures of instructions by split."""
        found = self.instructions
        return {split: found[split].told() for split in ORDER if found.get(split)}


def in_order(splits: JsonObject) -> JsonObject:
    """Figures by split, in the order in which splits are told."""
    return {split: splits[split] for split in sorted(splits, key=ORDER.index)}


def apis_of(run: RunFolder) -> Iterator[JsonObject]:
    """The APIs of a run; of one that did not make any, those its rows show."""
    if "apis" in {stage.name for stage in run.plan}:
        yield from run.stage("apis").objects("accepted")
        return
    seen: set[str] = set()
    queries = (sample["dialogue"]["query"] for sample in run.samples())
    moulds = (e.template.sample["dialogue"]["query"] for e in run.expansions())
    for api in chain.from_iterable(map(shown, chain(queries, moulds))):
        if api_id(api) not in seen:
            seen.add(api_id(api))
            yield api


def told_run(run: RunFolder, counted: RowCounts, made_by: set[Maker]) -> JsonObject:
    """What the manifest tells of a run. `counted` and `made_by`: of its accepted rows."""
    return {
        "seed": run.recipe.seed,
        "recipe": public_recipe(run.recipe),
        "counts": count(run, counted).model_dump(mode="json"),
        "agents": _agents(run, made_by),
    }


Maker: TypeAlias = tuple[str, str, str, tuple[str, ...]]
"""Stage, agent, model and the hashes of the prompts."""


def makers(sample: JsonObject) -> set[Maker]:
    """Who made a sample, its dialogue and its query."""
    dialogue = sample["dialogue"]
    return set(map(maker, chain(*(r["provenance"] for r in (sample, dialogue, dialogue["query"])))))


def maker(share: JsonObject) -> Maker:
    return share["stage"], share["agent"], share["model"], tuple(share["prompts"])


def _agents(run: RunFolder, made_by: set[Maker]) -> list[JsonObject]:
    """Who made the accepted rows, their templates and the APIs they call."""
    order = [stage.name for stage in run.plan]
    found = set(made_by)
    for stage in run.plan:
        if stage.name in ("domains", "apis", "templates") and not stage.given:
            for row in run.stage(stage.name).objects("accepted"):
                found |= set(map(maker, row["provenance"]))
    ranked = sorted(found, key=lambda f: (order.index(f[0]) if f[0] in order else -1, *f[1:]))
    names = ("stage", "agent", "model", "prompts")
    return [dict(zip(names, one, strict=True)) for one in ranked]
