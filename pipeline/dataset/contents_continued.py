"""Tables that begin with what a version has: its rows stay as they are, and others come after."""

from __future__ import annotations

import json
from collections.abc import Container, Iterator
from pathlib import Path
from typing import Any, cast

from toolloom.pipeline.dataset.configs import INSTRUCTIONS, SAMPLES, Config
from toolloom.pipeline.dataset.tallies import RowCounts
from toolloom.pipeline.store.files import explain
from toolloom.pipeline.store.tables import Tables
from toolloom.pipeline.store.version import PARTS, Version
from toolloom.schemas import JsonObject, PublishError, StoreError


class Continued(Tables):
    """Tables that begin with the rows of a version, where they get any; or `only` some of them."""

    def __init__(
        self, folder: Path, before: Version, only: Container[tuple[str, str]] | None = None
    ) -> None:
        super().__init__(folder)
        self._before, self._only = before, only
        self._ids: dict[str, set[str]] = {}  # of the version's rows that others may not have
        self.counted: dict[str, RowCounts] = {}  # the version's dialogues, by split

    def add(self, config: Config, split: str, row: JsonObject) -> None:
        self._check(config, split, [row["id"]])
        super().add(config, split, row)

    def add_many(self, config: Config, split: str, columns: dict[str, list[Any]]) -> None:
        self._check(config, split, columns["id"])
        super().add_many(config, split, columns)

    def _check(self, config: Config, split: str, ids: list[str]) -> None:
        self._sheet(config, split)  # before the ids are compared
        known = self._ids.get(config.name, set())
        if known and (there := next((name for name in ids if name in known), None)):
            raise PublishError(
                f"{there}: is in `{config.name}` of {self._before.label} already, so it cannot "
                "be added. Add to that version with another seed."
            )

    def _sheet(self, config: Config, split: str) -> Any:
        known = (config.name, split) in self._sheets
        sheet = super()._sheet(config, split)
        if not known and (self._only is None or (config.name, split) in self._only):
            before = self._before.manifest["configs"].get(config.name, {}).get(split)
            sheet.left_out = before["left_out"] if before else 0
            for path in self._before.files(config.name, split):
                for row in stored_rows(path):
                    self._look_at(config, split, row)
                    sheet.add(row)
        return sheet

    def _look_at(self, config: Config, split: str, row: JsonObject) -> None:
        if config.name in (SAMPLES.name, INSTRUCTIONS.name):
            self._ids.setdefault(config.name, set()).add(row["id"])
        if config.name == SAMPLES.name:
            counted = self.counted.setdefault(split, RowCounts())
            counted.add({key: json.loads(row[key]) for key in PARTS})


def stored_rows(path: Path, size: int = 64) -> Iterator[JsonObject]:
    """The rows of a Parquet file as they are stored: objects as their JSON. Raises StoreError."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    try:
        with pq.ParquetFile(path, arrow_extensions_enabled=False, pre_buffer=False) as file:
            for batch in file.iter_batches(size):
                yield from cast(list[JsonObject], batch.to_pylist())
    except FileNotFoundError as error:
        raise explain(path, error, "read") from error
    except (OSError, pa.ArrowException, ValueError) as error:
        why = str(error).partition("\n")[0][:200]
        raise StoreError(f"{path}: is damaged ({why}).") from error
