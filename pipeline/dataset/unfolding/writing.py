"""Expansions on their way into the tables of a version: column by column, not row by row."""

from __future__ import annotations

import re
from collections.abc import Sequence
from itertools import compress
from typing import Any

from toolloom.pipeline.dataset.configs import SAMPLES, SFT
from toolloom.pipeline.dataset.unfolding.mould import Mould
from toolloom.pipeline.dataset.unfolding.pieces import Indices, Text
from toolloom.pipeline.store.tables import ODD, Tables, delicate, reads_back
from toolloom.schemas import Expansion

AT_ONCE = 1_000  # rows in memory
_AROUND = 12  # letters beside a value that may be part of a long number with it
_OF_NUMBERS = re.compile(r"[\d.e+-]*")


def write_expansion(
    expansion: Expansion, tables: Tables, seed: int, mould: Mould | None = None
) -> None:
    """Add the rows of an expansion to `sft` and `samples`, as `accept` would add their samples.

    A row that `datasets` would not give back exactly is left out of `sft`.
    """
    made = mould or Mould(expansion.template)
    readable, split = Readable(made), expansion.split.value
    for start in range(0, len(expansion.rows), AT_ONCE):
        rows = expansion.rows[start : start + AT_ONCE]
        names = [expansion.sample_id(place) for place in range(start, start + len(rows))]
        tables.add_many(SAMPLES, split, made.samples_columns(rows, names, seed))
        told = made.sft_columns(rows, names)
        kept = readable.kept(rows, told["messages"])
        if not all(kept):
            tables.leave_out(SFT, split, len(kept) - sum(kept))
            told = {name: list(compress(column, kept)) for name, column in told.items()}
        tables.add_many(SFT, split, told)


class Readable:
    """Which rows of a template `datasets` reads back.

    What is the same in every row is looked at once, and so is each value with what stands beside
    it. That finds all that `tables.delicate` finds in a message, unless two slots have nothing
    between them that ends a number or a word of that.
    """

    def __init__(self, mould: Mould) -> None:
        self._all = not reads_back({"messages": mould.constant_texts, "tools": ()})
        self._texts = [
            (place, *_delicate(text)) for place, text in enumerate(mould.messages) if text.slots
        ]

    def kept(self, rows: Sequence[Sequence[int]], messages: Sequence[Sequence[str]]) -> list[bool]:
        """For each row whether `sft` can hold it. `messages`: its messages, encoded."""
        if self._all:
            return [False] * len(rows)
        places: Indices = list(zip(*rows, strict=True))
        kept = [True] * len(rows)
        for message, always, tables in self._texts:
            odd: Any = range(len(rows)) if always else _found(tables, places)
            for row in odd:
                kept[row] &= reads_back({"messages": [messages[row][message]], "tools": ()})
        return kept


def _found(tables: list[tuple[int, list[bool]]], places: Indices) -> set[int]:
    """Rows with a value that is delicate."""
    return {
        row
        for choice, odd in tables
        if any(odd)
        for row, place in enumerate(places[choice])
        if odd[place]
    }


def _delicate(text: Text) -> tuple[bool, list[tuple[int, list[bool]]]]:
    """Whether every row has to be looked at; if not, for each slot which of its values have."""
    always = any(map(delicate, text.constants)) or any(map(_is_open, text.constants[1:-1]))
    beside = zip(text.slots, text.constants, text.constants[1:], strict=False)
    tables = [
        (choice, [delicate(f"{before[-_AROUND:]}{own}{after[:_AROUND]}") for own in texts])
        for (choice, texts), before, after in beside
    ]
    return always, tables


def _is_open(between: str) -> bool:
    """Whether a number, or an odd word, may reach from one slot to the next."""
    return bool(_OF_NUMBERS.fullmatch(between)) or any(between in odd for odd in ODD)
