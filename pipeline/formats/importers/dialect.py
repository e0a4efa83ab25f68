"""Schemas of any dialect and quality as small JSON Schemas of 2020-12, valid by construction.

What goes in is hostile: a schema of OpenAPI, Swagger, MCP, OpenAI or BFCL, or no schema at all.
References are written out down to a few levels; what is left out is booked in the ledger.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

from toolloom.pipeline.formats.importers.ledger import ImportLog
from toolloom.pipeline.formats.importers.reading import (
    PARAMETERS,
    RETURNS,
    OverBudget,
    SchemaBudget,
    SchemaReader,
    Scoped,
)
from toolloom.pipeline.formats.importers.references import Resolve, Resolver
from toolloom.schemas import JsonObject, canonical

__all__ = ["PARAMETERS", "RETURNS", "SchemaBudget", "Scoped", "arguments", "opened", "plain"]


def plain(
    schema: Any,
    *,
    ledger: ImportLog,
    api: str,
    place: str,
    resolve: Resolve | None = None,
    budget: SchemaBudget = PARAMETERS,
) -> JsonObject:
    """A valid schema of 2020-12 within the budget. Without `resolve`, `#/…` is the schema itself.

    `place` is `parameters` or `returns`; for arguments see `arguments`.
    """
    if not isinstance(schema, Scoped):
        schema = Scoped(schema, resolve or Resolver(None, schema, ledger).root)
    for depth, text, examples in _attempts(budget.depth):
        attempt = SchemaReader(ledger, place, replace(budget, depth=depth), text, examples)
        try:
            found = attempt.read(schema, place, 0, 0)
        except OverBudget:
            continue
        if len(canonical(found).encode()) <= budget.bytes:
            attempt.book(api, depth < budget.depth)
            return found
    attempt = SchemaReader(ledger, place, replace(budget, depth=1), 80, False)
    found = attempt.squeeze(schema)
    attempt.book(api, True)
    return found


def arguments(
    schema: Any,
    *,
    ledger: ImportLog,
    api: str,
    resolve: Resolve | None = None,
    budget: SchemaBudget = PARAMETERS,
) -> JsonObject:
    """`plain` for the arguments of a function: always an object that names its properties.

    Alternatives at the top, which OpenAI does not allow, become one object: the properties of
    all of them, of which those are required that all require.
    """
    found = plain(
        schema, ledger=ledger, api=api, place="parameters", resolve=resolve, budget=budget
    )
    variants = [v for v in found.get("anyOf", ()) if isinstance(v, dict)]
    if variants:
        ledger.cut(api, "parameters.anyOf", "invalid")
    properties = dict(found.get("properties", {}))
    for variant in variants:
        for name, each in variant.get("properties", {}).items():
            properties.setdefault(name, each)
    needed = [set(v.get("required", ())) for v in variants if v.get("type") != "null"]
    required = set(found.get("required", ())) | (set.intersection(*needed) if needed else set())
    whole: JsonObject = {"type": "object"}
    if "description" in found:
        whole["description"] = found["description"]
    whole["properties"] = properties
    if required & set(properties):
        whole["required"] = [name for name in properties if name in required]
    if "additionalProperties" in found:
        whole["additionalProperties"] = found["additionalProperties"]
    return whole


def opened(schema: Scoped, ledger: ImportLog) -> dict[str, Any]:
    """The keywords of a schema, references and `allOf` merged; the schemas in it are Scoped."""
    try:
        return SchemaReader(ledger, "", PARAMETERS, 0, False).settle(schema, "body")
    except OverBudget:
        return {}


def _attempts(depth: int) -> Iterator[tuple[int, int, bool]]:
    """Depths, lengths of descriptions and whether with examples, until the budget holds."""
    yield depth, 400, True
    for number in range(depth, 0, -1):
        yield number, 100 if number == 1 else 160, False
