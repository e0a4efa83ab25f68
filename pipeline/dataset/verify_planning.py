"""Every row of `planning` of a version again: it is what its instruction makes."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator

from toolloom.pipeline.dataset.configs import INSTRUCTIONS, PLANNING, encoded
from toolloom.pipeline.dataset.instruction_counts import InstructionCounts
from toolloom.pipeline.dataset.instructions.planning import planning_rows
from toolloom.pipeline.dataset.verify_reading import Rows, differing_column, short
from toolloom.pipeline.dataset.verify_report import Kind
from toolloom.pipeline.store.tables import reads_back
from toolloom.schemas import JsonObject


class Planning:
    """The rows of `planning`, read in step with the instructions: the same order.

    Of coarse instructions only a share has any: of which, the shares of the runs decide.
    """

    def __init__(self, rows: Rows, split: str) -> None:
        self._rows, self._split = rows, split
        self._there = rows.rows(PLANNING.name, split)
        self._waiting: deque[tuple[str, JsonObject]] = deque()
        self._shares = _shares(rows)
        rows.left_out.setdefault((PLANNING.name, split), 0)

    def _next(self) -> tuple[str, JsonObject] | None:
        if not self._waiting:
            self._waiting.extend(found for found in [next(self._there, None)] if found)
        return self._waiting[0] if self._waiting else None

    def hold_against(self, raw: JsonObject, file: str) -> None:
        """An instruction's rows are the next ones, and equal to what is made of it."""
        full = planning_rows(raw, 1.0)
        wanted = {len(planning_rows(raw, share)) for share in self._shares}
        there = sum(self._is_there(row, may_lack=0 in wanted) for row in full)
        if there not in wanted and (PLANNING.name, self._split) not in self._rows.broken:
            detail = f"has {there} rows in `planning` at its place, not {max(wanted)}"
            self._rows.findings.add(Kind.TRAINING, file, detail, raw["id"])

    def _is_there(self, row: JsonObject, may_lack: bool) -> bool:
        """Take the next row, if it is this one; one that cannot be stored need not be there."""
        made, found = encoded(PLANNING, row), self._next()
        if found is None or found[1].get("id") != row["id"]:
            if may_lack or reads_back({**made, "tools": ()}):
                return False
            self._rows.left_out[PLANNING.name, self._split] += 1
            return True
        file, there = self._waiting.popleft()
        counted = self._rows.instructions.setdefault(self._split, InstructionCounts())
        counted.train(row)
        if name := differing_column(made, there):
            detail = f"`{name}` has {short(there.get(name))}, not {short(made.get(name))}"
            self._rows.findings.add(Kind.TRAINING, file, detail, row["id"])
        return True

    def skip(self, name: str) -> None:
        """The rows of an instruction that cannot be read."""
        while (found := self._next()) and str(found[1].get("id")).startswith(name):
            self._waiting.popleft()

    def finish(self) -> None:
        lacking = (INSTRUCTIONS.name, self._split) in self._rows.broken
        while (found := self._next()) and not lacking:
            self._waiting.popleft()
            detail = "has no instruction in `instructions` at its place"
            self._rows.findings.add(Kind.TRAINING, found[0], detail, found[1].get("id"))


def _shares(rows: Rows) -> set[float]:
    """The shares of coarse instructions that the runs trained on."""
    found = [plan.get("coarse") for plan, _ in _plans(rows)]
    return {float(share) for share in found if isinstance(share, int | float)} or {1.0}


def votes_of(rows: Rows) -> set[int]:
    """The numbers of votes that the runs asked for on an instruction."""
    found = [
        tester.get("votes") if plan.get("votes") is None else plan["votes"]
        for plan, tester in _plans(rows)
    ]
    return {votes for votes in found if isinstance(votes, int)} or {0}


def _plans(rows: Rows) -> Iterator[tuple[JsonObject, JsonObject]]:
    """What the runs' recipes say of rewriting, and of the tester."""
    for run in rows.told.runs.values():
        recipe = run.get("recipe")
        if isinstance(recipe, dict) and isinstance(recipe.get("rewrite"), dict):
            tester = recipe.get("tester")
            yield recipe["rewrite"], tester if isinstance(tester, dict) else {}
