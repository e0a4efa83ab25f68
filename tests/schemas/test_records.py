from __future__ import annotations

import inspect

import toolloom.schemas
import toolloom.schemas.api
from toolloom.schemas import Provenance, Recipe, Record


def test_records_are_closed_and_frozen() -> None:
    """Unknown fields are errors and nothing is changed in place; each field that reaches a user's
    files has a description."""
    things = [*vars(toolloom.schemas).values(), *vars(toolloom.schemas.api).values()]
    for record in filter(inspect.isclass, things):
        if issubclass(record, Record) and record is not Record:
            kept = record.model_config["extra"], record.model_config["frozen"]
            assert (record, *kept) == (record, "forbid", True)
    fields = {**Provenance.model_fields, **Recipe.model_fields}
    assert [name for name, field in fields.items() if not field.description] == []
