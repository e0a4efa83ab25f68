from __future__ import annotations

import re

import jsonschema

from toolloom.pipeline.apis.search import _examples


def test_operations_are_legal() -> None:
    """Inputs and outputs are JSON Schema under legal names, and examples fit their types."""
    for operation in (o for a in _examples()[0] for o in a.operations):
        for fields in (operation.parameters, operation.returns):
            assert len({f.name for f in fields}) == len(fields)
            for field in fields:
                assert re.fullmatch(r"[a-z][a-z0-9_]{0,63}", field.name)
                shape = field.json_schema()
                jsonschema.Draft202012Validator.check_schema(shape)
                for value in (*shape.get("examples", ()), *shape.get("enum", ())):
                    jsonschema.validate(value, shape)
