"""xlam-function-calling-60k: a query, the tools and the calls that answer it, as JSON text.

Parameters are flat: by name a description, a type as Python writes it (`int`, `List[str]`,
`str, optional`) and a default. What has a default or is optional may be left out. Nothing comes
after the calls.
"""

from __future__ import annotations

import re
from functools import partial
from typing import Any

from toolloom.pipeline.formats.base import (
    Arguments,
    Exported,
    calls,
    first_calls,
    given,
    kind_of,
    lost_after_calls,
    number_of,
    spaced,
    system_of,
    text_of,
)
from toolloom.pipeline.formats.conversation import Conversation, identity, opened, readings
from toolloom.pipeline.formats.files import ForeignRow
from toolloom.pipeline.formats.hints import Hints
from toolloom.pipeline.formats.intake import line
from toolloom.pipeline.formats.reading import Reading, refused
from toolloom.pipeline.formats.sharegpt import calls_in
from toolloom.schemas import Api, JsonObject, Reason, Sample

_KNOWN = {"id", "query", "tools", "answers"}
_OPTIONAL = re.compile(r"\s*,?\s*\boptional\b\s*$|\s*,\s*default\b.*$", re.IGNORECASE)
_PLAIN = re.compile(r"[a-z_]+")
_LONGEST_TYPE = 200


def _row(value: JsonObject, row: ForeignRow) -> Reading:
    asked, answers = value.get("query"), opened(value.get("answers"))[0]
    if not isinstance(asked, str) or not asked.strip():
        return refused(row, "it has no `query`")
    if "answers" not in value:
        return refused(row, "it has no `answers`")
    taken = Conversation("openai", row)
    taken.fields(value, _KNOWN)
    tools, how = opened(value.get("tools"))
    if how:
        taken.note(f"tools: the list {how}")
    is_list = isinstance(tools, list)
    taken.offer([_tool(taken, opened(tool)[0]) for tool in tools] if is_list else tools)
    taken.user(asked)
    made = calls_in(taken, answers)
    if made:
        taken.assistant("", made)
    elif answers != []:
        detail = "its `answers` are no list of calls with a name and arguments"
        taken.fault(Reason.FALSE_API_CALL_FORMAT, detail)
    return taken.reading(identity(value, row))


dialogues = partial(readings, take=_row)


def _tool(taken: Conversation, tool: Any) -> Any:
    """A tool with its flat parameters as a JSON Schema; one that has a schema as it is."""
    inner = tool.get("function", tool) if isinstance(tool, dict) else None
    flat = opened(inner.get("parameters"))[0] if isinstance(inner, dict) else None
    if not isinstance(inner, dict) or not isinstance(flat, dict):
        return tool
    if isinstance(flat.get("properties"), dict) and isinstance(flat.get("type", ""), str):
        return tool
    properties, required = {}, []
    for name, about in flat.items():
        about = about if isinstance(about, dict) else {"type": about}
        kind = about.get("type")
        # Runs of space are one: what `_OPTIONAL` takes on them grows with their square and more.
        written = " ".join(kind[:_LONGEST_TYPE].split()) if isinstance(kind, str) else ""
        bare = _OPTIONAL.sub("", written).strip()
        schema = {**_schema(taken, bare), "description": about.get("description", "")}
        if isinstance(about.get("enum"), list):
            schema["enum"] = about["enum"]
        if about.get("default") not in (None, ""):
            schema["default"] = about["default"]
        properties[name] = schema
        if bare == written and "default" not in about and about.get("required") is not False:
            required.append(name)
    schema = {"type": "object", "properties": properties, "required": required}
    return {**inner, "parameters": schema}


def _schema(taken: Conversation, written: str) -> JsonObject:
    """A type's schema. A plain word is told by the importers' names of types, a hint is parsed."""
    if _PLAIN.fullmatch(written) and written not in {"set", "frozenset"}:
        return {"type": written}
    unknown: list[str] = []
    hint = re.sub(r"\s+or\s+", " | ", written)
    schema = Hints({}, {}, {}, unknown.append).schema(hint) if hint else {}
    for one in unknown:
        taken.note(f"tools: the type `{line(one)[:60]}`")
    return schema


def xlam(sample: Sample, form: Arguments) -> Exported:
    asked, rounds = first_calls(sample)
    row = {
        "id": number_of(sample),
        "query": asked.content or "",
        "tools": spaced([_flat(api) for api in given(sample)]),
        "answers": spaced([call for message in rounds for call in calls(message)]),
    }
    extra = ("the system turn, which tells the present moment",) if system_of(sample) else ()
    return Exported(
        (("sft", row),), lost_after_calls(sample, *extra, "what flat parameters cannot say")
    )


def _flat(api: Api) -> JsonObject:
    """Parameters by name, with types as Python writes them and optional ones marked so."""
    parameters = {}
    for name, schema in api.properties.items():
        optional = "" if name in api.required else ", optional"
        about: JsonObject = {"description": "", "type": f"{_python(schema)}{optional}"}
        if isinstance(schema, dict):
            about["description"] = text_of(schema.get("description", ""))
            about |= {"default": schema["default"]} if "default" in schema else {}
        parameters[name] = about
    return {"name": api.function, "description": api.description, "parameters": parameters}


def _python(schema: Any) -> str:
    kind = kind_of(schema)
    inner = schema.get("items") if isinstance(schema, dict) else None
    return f"List[{kind_of(inner)}]" if kind == "list" and inner else kind
