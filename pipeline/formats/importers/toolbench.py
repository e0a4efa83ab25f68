"""ToolBench's API documents: in its query files (`api_list`) and in its tool files.

The function names, argument names and types are those ToolBench's own code gives its models
(rapidapi.py, `api_json_to_openai_json`), so that its solution paths fit the imported APIs.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from toolloom.pipeline.formats.importers.inference import schema_of
from toolloom.pipeline.formats.importers.intake import (
    UNSORTED,
    ApiBuilder,
    Seen,
    line,
    reference,
    text,
)
from toolloom.pipeline.formats.importers.ledger import LONGEST, ImportLog
from toolloom.pipeline.formats.importers.rows import UNREAD, rows
from toolloom.schemas import Api
from toolloom.schemas.base import JsonObject

_TYPES = {"NUMBER": "integer", "BOOLEAN": "boolean"}
_TAKEN = {"from", "class", "return", "false", "true", "id", "and"}
_TEMPLATE_TYPES = {
    "str": "string",
    "int": "integer",
    "float": "number",
    "bool": "boolean",
    "NoneType": "null",
    "empty list": "array",
    "empty dict": "object",
}
_DEPTH = 6


def fits(document: Any) -> bool:
    """Whether a document is a list of queries, one query or one tool."""
    if isinstance(document, list):
        return any(fits(row) for row in document[:20] if isinstance(row, dict))
    if not isinstance(document, dict) or not isinstance(document.get("api_list"), list):
        return False
    return "tool_name" in document or any(
        isinstance(entry, dict) and "api_name" in entry for entry in document["api_list"][:20]
    )


def read(
    source: Path,
    ledger: ImportLog,
    *,
    category: str = "",
    document: Any = UNREAD,
    seen: Seen | None = None,
) -> Iterator[Api]:
    """The APIs of a file, each once. `document`: its content, if it was loaded before."""
    ledger.format = "toolbench"
    intake = ApiBuilder(ledger, "toolbench", reference(source), seen)
    filed = source.parent.name if source.parent.parent.name == "tools" else ""
    for place, row in rows(source, ledger, document):
        for entry in row if isinstance(row, list) else [row]:
            yield from _row(entry, place, intake, category, filed)
    intake.close()


def _row(row: Any, place: str, intake: ApiBuilder, category: str, filed: str) -> Iterator[Api]:
    """The APIs of a query or of a tool. `filed`: the category its folder stands for."""
    if not isinstance(row, dict) or not isinstance(row.get("api_list"), list):
        query = line(row.get("query_id")) if isinstance(row, dict) else ""
        return intake.refuse(f"{place} {query}".strip(), "It has no list of APIs.")
    for entry in row["api_list"]:
        if isinstance(entry, dict):
            yield from _api({**row, **entry}, intake, category, filed)
        else:
            intake.refuse(place, "An entry of its list of APIs is no object.")
    return None


def _api(entry: dict[str, Any], intake: ApiBuilder, category: str, filed: str) -> Iterator[Api]:
    """An API. `entry`: its document on top of its tool's."""
    tool = line(entry.get("tool_name"))
    name = line(entry["api_name"] if "api_name" in entry else entry.get("name"))
    described = any(key in entry for key in ("required_parameters", "optional_parameters"))
    if name and not described:
        return intake.refuse(f"{tool}/{name}", "Only its name is given, without its parameters.")
    standard = line(entry.get("standardized_name")) or standardised(tool)
    parameters, lost = _parameters(entry)
    for api in intake.api(
        category=category or line(entry.get("category_name")) or filed or UNSORTED,
        tool=tool,
        name=name,
        description=_first(entry, "api_description", "description"),
        parameters=parameters,
        returns=_returns(entry),
        wanted=f"{renamed(standardised(name))}_for_{standard}"[-LONGEST:],
        operation=name,
    ):
        for place in lost:
            intake.ledger.cut(api.id, place, "invalid")
        yield api
    return None


def _first(entry: dict[str, Any], *keys: str) -> Any:
    return next((entry[key] for key in keys if entry.get(key) is not None), "")


def _parameters(entry: dict[str, Any]) -> tuple[JsonObject, list[str]]:
    """The arguments' schema, and the places of what does not fit in it."""
    properties: JsonObject = {}
    required: list[str] = []
    lost: list[str] = []
    for key in ("required_parameters", "optional_parameters"):
        listed = entry.get(key) or []
        for number, one in enumerate(listed if isinstance(listed, list) else [listed], 1):
            name = renamed(standardised(line(one.get("name")))) if isinstance(one, dict) else ""
            if not name or name in properties:
                lost.append(f"{key}, number {number}")
                continue
            properties[name], fitting = _property(one, key == "required_parameters")
            required += [name] if key == "required_parameters" else []
            lost += [] if fitting else [f"parameters.{name}.default"]
    return {"type": "object", "properties": properties, "required": required}, lost


def _property(one: dict[str, Any], needed: bool) -> tuple[JsonObject, bool]:
    """A parameter, and whether its default fits. A needed one's is only an example of a value."""
    kind = _TYPES.get(line(one.get("type")).upper(), "string")
    default = one.get("default")
    value = _value(default, kind)
    if isinstance(value, float):
        kind = "number"  # ToolBench says integer to all numbers: its own value shows otherwise
    made: JsonObject = {"type": kind}
    if about := text(one.get("description")).strip():
        made["description"] = about
    if value is not None:
        made |= {"examples": [value]} if needed else {"default": value}
    return made, value is not None or default in (None, "", [], {})


def _value(default: Any, kind: str) -> Any:
    """A default as a value of its type; none where it is empty or of another type."""
    given = str(default).strip() if isinstance(default, str | int | float) else ""
    if kind == "boolean":
        return {"true": True, "false": False}.get(given.lower())
    if kind == "integer":
        return _number(given)
    return given or None


def _number(given: str) -> int | float | None:
    if re.fullmatch(r"[+-]?\d{1,18}", given):
        return int(given)
    return float(given) if re.fullmatch(r"[+-]?\d{1,18}\.\d{1,18}", given) else None


def _returns(entry: dict[str, Any]) -> JsonObject | None:
    """Its response's schema: of a template of type names, or of one real response."""
    if template := entry.get("template_response"):
        return _shape(template, 0)
    example = entry.get("test_endpoint")
    return schema_of([example]) if isinstance(example, dict | list) and example else None


def _shape(template: Any, depth: int) -> JsonObject:
    if depth > _DEPTH:
        return {}
    if isinstance(template, dict):
        inner = {
            str(key): _shape(value, depth + 1)
            for key, value in template.items()
            if key != "_list_length"
        }
        return {"type": "object", **({"properties": inner} if inner else {})}
    if isinstance(template, list):
        items = _shape(template[0], depth + 1) if template else {}
        return {"type": "array", **({"items": items} if items else {})}
    return _leaf(text(template))


def _leaf(name: str) -> JsonObject:
    listed = re.fullmatch(r"list of (\w+) with length \d+", name)
    kind = _TEMPLATE_TYPES.get(listed[1] if listed else name)
    return {"type": kind} if kind else {}


def standardised(name: str) -> str:
    """A name as ToolBench writes it: lower case, underscores, no digit first."""
    cleaned = re.sub(r"[^\u4e00-\u9fa5^a-z^A-Z^0-9^_]", "_", name)
    cleaned = re.sub(r"_{2,}", "_", cleaned).lower().strip("_")
    return f"get_{cleaned}" if cleaned[:1].isdigit() else cleaned


def renamed(name: str) -> str:
    """A name out of the way of Python's words, as ToolBench does it."""
    return f"is_{name}" if name in _TAKEN else name
