"""Rows and their models: columns and their types."""

from __future__ import annotations

import pytest
from support import finished_runs, toys

from toolloom.pipeline.dataset.configs import CONFIGS, configs_of
from toolloom.pipeline.store.parquet import Config
from toolloom.schemas import Api, Instruction, Reason, Record, Rejected, Sample

RECORDS: list[tuple[type[Record], Record]] = [
    (Sample, toys.sample()),
    (Instruction, finished_runs.levels()[0]),
    (Rejected, toys.rejected(toys.query(), "tested", Reason.UNHELPFUL_ANSWER)),
    (Api, toys.api()),
]


@pytest.mark.parametrize(("origin", "record"), RECORDS)
def test_rows_have_the_columns_of_their_model(origin: type[Record], record: Record) -> None:
    """In any order when they are made, and of its types."""
    for config in configs_of(origin):
        for row in config.row.of(record.model_dump(mode="json")):
            assert {*row} == {*config.columns}
            config.row.model_validate(row, strict=True)


@pytest.mark.parametrize("config", CONFIGS, ids=lambda config: config.name)
def test_columns_are_known_without_datasets(config: Config) -> None:
    """`types` are those of `schema`, which only `datasets` can tell to the last letter."""
    assert config.types.equals(config.schema)
