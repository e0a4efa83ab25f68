from __future__ import annotations

import re

import jsonschema
import pytest

from toolloom.pipeline.apis.catalogue import categories, category, public_apis
from toolloom.schemas import RecipeError


def test_the_catalogue_has_some_hundred_real_apis() -> None:
    """Each once, of a known category, most with operations to learn from."""
    names = [a.name for a in public_apis()]
    assert len(names) >= 100
    assert len(names) == len(set(names))
    assert {a.category for a in public_apis()} <= {c.name for c in categories()}
    assert sum(bool(a.operations) for a in public_apis()) >= 50


def test_operations_are_legal() -> None:
    """Inputs and outputs are JSON Schema under legal names, and examples fit their types."""
    for operation in (o for a in public_apis() for o in a.operations):
        for fields in (operation.parameters, operation.returns):
            assert len({f.name for f in fields}) == len(fields)
            for field in fields:
                assert re.fullmatch(r"[a-z][a-z0-9_]{0,63}", field.name)
                shape = field.json_schema()
                jsonschema.Draft202012Validator.check_schema(shape)
                for value in (*shape.get("examples", ()), *shape.get("enum", ())):
                    jsonschema.validate(value, shape)


def test_categories_are_found_by_name() -> None:
    """In whatever case; an unknown one is an error that lists the known ones."""
    assert category("weather").name == "Weather"
    with pytest.raises(RecipeError, match="no category «Wether».*Weather"):
        category("Wether")


def test_categories_say_what_they_are_about() -> None:
    """Each once, with examples that show the grain."""
    found = categories()
    assert len({c.name for c in found}) == len(found) >= 30
    assert all(c.about and c.examples for c in found)
