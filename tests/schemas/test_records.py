from __future__ import annotations

import inspect
from typing import Any

import pytest

import toolloom.schemas
import toolloom.schemas.api
from toolloom.schemas import Provenance, Recipe, Record


def records() -> list[type[Record]]:
    """Every record of the vocabulary."""
    found = {
        thing
        for module in (toolloom.schemas, toolloom.schemas.api)
        for thing in vars(module).values()
        if inspect.isclass(thing) and issubclass(thing, Record) and thing is not Record
    }
    return sorted(found, key=lambda r: r.__name__)


@pytest.mark.parametrize("record", records(), ids=lambda r: r.__name__)
def test_records_are_closed_and_frozen(record: Any) -> None:
    """Unknown fields are errors and nothing is changed in place."""
    assert record.model_config["extra"] == "forbid"
    assert record.model_config["frozen"] is True
    assert record.__doc__


@pytest.mark.parametrize("record", [Provenance, Recipe])
def test_fields_say_what_they_mean(record: Any) -> None:
    """Each field that reaches a user's files has a description."""
    bare = [name for name, field in record.model_fields.items() if not field.description]
    assert bare == []
