"""The rows of `sft` held against what is made of their samples."""

from __future__ import annotations

from typing import Any

from toolloom.pipeline.dataset.configs import SAMPLES, SFT, encoded, sft_row
from toolloom.pipeline.dataset.verify_reading import Rows, is_text_of, short
from toolloom.pipeline.dataset.verify_report import Kind
from toolloom.pipeline.store.tables import delicate, reads_back
from toolloom.schemas import JsonObject


class Training:
    """The rows of `sft`, read in step with the samples: the same order, some left out."""

    def __init__(self, rows: Rows, split: str) -> None:
        self._rows, self._split = rows, split
        self._there = rows.rows(SFT.name, split)
        self._next = next(self._there, None)
        rows.left_out.setdefault((SFT.name, split), 0)

    def hold_against(self, raw: JsonObject, file: str) -> None:
        """The sample's row is the next one and equal to what is made of the sample."""
        findings, name = self._rows.findings, raw["dialogue"]["query"]["id"]
        made = sft_row(raw)
        if self._next is None or self._next[1].get("id") != name:
            made = encoded(SFT, made)
            texts = [*made["messages"], *made["tools"]]
            if any(map(delicate, texts)) and not reads_back(made):
                self._rows.left_out[SFT.name, self._split] += 1
            elif (SFT.name, self._split) not in self._rows.broken:
                findings.add(Kind.TRAINING, file, "has no row in `sft` at its place", name)
            return
        there, row = self._next
        self._next = next(self._there, None)
        if not all(map(_is_stored, made, made.values(), map(row.get, made))):
            made = encoded(SFT, made)
            if made != row:
                findings.add(Kind.TRAINING, there, _difference(made, row), name)

    def skip(self, name: str) -> None:
        """The row of a sample that cannot be read."""
        if self._next is not None and str(self._next[1].get("id")) == name:
            self._next = next(self._there, None)

    def finish(self) -> None:
        lacking = (SAMPLES.name, self._split) in self._rows.broken
        while self._next is not None and not lacking:
            file, row = self._next
            detail = "has no sample in `samples` at its place"
            self._rows.findings.add(Kind.TRAINING, file, detail, row.get("id"))
            self._next = next(self._there, None)


def _is_stored(name: str, value: Any, stored: Any) -> bool:
    """Is this what `sft` stores of a column? Yes is certain."""
    if SFT.columns[name].kind != "objects" or not isinstance(stored, list):
        return bool(value == stored)
    return len(value) == len(stored) and all(map(is_text_of, stored, value))


def _difference(made: JsonObject, row: JsonObject) -> str:
    """Where a row of `sft` leaves its sample: the column, and the item of a list."""
    name = next(key for key in {**made, **row} if made.get(key) != row.get(key))
    wanted, found = made.get(name), row.get(name)
    if isinstance(wanted, list) and isinstance(found, list) and len(wanted) == len(found):
        place = next(i for i, (a, b) in enumerate(zip(wanted, found, strict=True)) if a != b)
        name, wanted, found = f"{name}[{place}]", wanted[place], found[place]
    if isinstance(wanted, str) and isinstance(found, str):
        pairs = enumerate(zip(wanted, found, strict=False))
        at = next((i for i, (a, b) in pairs if a != b), min(len(wanted), len(found)))
        wanted, found = wanted[max(0, at - 20) :], found[max(0, at - 20) :]
    return f"`{name}` has {short(found)}, its sample {short(wanted)}"
