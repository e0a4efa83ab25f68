"""Formats of one request with its calls, and nothing after: xLAM-60k and BFCL v4."""

from __future__ import annotations

from typing import Any

from toolloom.pipeline.formats.export.api_bank import kind_of
from toolloom.pipeline.formats.export.base import (
    Arguments,
    Exported,
    NotRepresentable,
    calls,
    given,
    number_of,
    spaced,
    spoken,
    system_of,
    text_of,
)
from toolloom.schemas import Api, JsonObject, Message, Sample, Scenario

TYPES = {"object": "dict", "number": "float", "null": "any"}
# What names a schema or a property, and not a keyword: it is passed on with its keys.
_NAMED = {"properties", "patternProperties", "$defs", "definitions"}
_VALUES = {"enum", "const", "default", "examples", "required"}


def first_calls(sample: Sample) -> tuple[Message, list[Message]]:
    """The user's first turn and the messages that make its calls: one, or none at all.

    Raises Unfit if one round of calls is not all the request needs.
    """
    query, said = sample.dialogue.query, spoken(sample.dialogue.messages)
    if query.ability.searches:
        raise NotRepresentable("APIs are searched for before they are called")
    ends = [place for place, m in enumerate(said) if m.role == "user" and place]
    first = said[: ends[0]] if ends else said
    rounds = [m for m in first if m.tool_calls]
    if not rounds and query.scenario is not Scenario.IRRELEVANCE:
        raise NotRepresentable("the assistant asks before it calls")
    if len(rounds) > 1 and query.scenario is not Scenario.ERROR_RECOVERY:
        raise NotRepresentable("calls need the results of others")
    return said[0], rounds[:1]


def _lost(sample: Sample, extra: tuple[str, ...] = ()) -> tuple[str, ...]:
    """The parts that neither format holds."""
    said = spoken(sample.dialogue.messages)
    lost = [*extra]
    if any(m.role == "tool" for m in said):
        lost.append("observations")
    lost.append("answers")
    if any(m.role == "user" for m in said[1:]):
        lost.append("the user's later turns")
    if sample.dialogue.query.scenario is Scenario.ERROR_RECOVERY:
        lost.append("what follows an error")
    return tuple(lost)


def xlam(sample: Sample, form: Arguments) -> Exported:
    asked, rounds = first_calls(sample)
    row = {
        "id": number_of(sample),
        "query": asked.content or "",
        "tools": spaced([_flat(api) for api in given(sample)]),
        "answers": spaced([call for message in rounds for call in calls(message)]),
    }
    extra = ("the system turn, which tells the present moment",) if system_of(sample) else ()
    return Exported((("sft", row),), _lost(sample, (*extra, "what flat parameters cannot say")))


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


def bfcl(sample: Sample, form: Arguments) -> Exported:
    """A question, and its possible answers unless the right act is not to call."""
    asked, rounds = first_calls(sample)
    made = [call for message in rounds for call in calls(message)]
    system = [{"role": "system", "content": system_of(sample)}] if system_of(sample) else []
    category = _category(len(given(sample)), len(made))
    identity = f"{category}_{number_of(sample)}"
    question = {
        "id": identity,
        "question": [[*system, {"role": "user", "content": asked.content or ""}]],
        "function": [_function(api) for api in given(sample)],
    }
    rows = [(category, question)]
    if made:
        apis = {api.function: api for api in given(sample)}
        truth = [_allowed(call, apis.get(call["name"])) for call in made]
        rows.append((f"{category} answers", {"id": identity, "ground_truth": truth}))
    return Exported(tuple(rows), _lost(sample))


def _category(offered: int, made: int) -> str:
    if not made:
        return "irrelevance"
    if made == 1:
        return "simple_python" if offered == 1 else "multiple"
    return "parallel" if offered == 1 else "parallel_multiple"


def _function(api: Api) -> JsonObject:
    return {
        "name": api.function,
        "description": api.description,
        "parameters": _dialect(
            {"type": "object", "properties": {}, "required": [], **api.parameters}
        ),
    }


def _dialect(schema: Any) -> Any:
    """A JSON Schema in BFCL's types: `dict`, `float`, `any`."""
    if isinstance(schema, list):
        return [_dialect(one) for one in schema]
    if not isinstance(schema, dict):
        return schema
    made: JsonObject = {}
    for key, value in schema.items():
        if key == "type":
            made[key] = _type(value)
        elif key in _NAMED and isinstance(value, dict):
            made[key] = {name: _dialect(inner) for name, inner in value.items()}
        else:
            made[key] = value if key in _VALUES else _dialect(value)
    return made


def _type(kind: Any) -> str:
    """One type: BFCL has no lists of types."""
    if isinstance(kind, list):
        some = [one for one in kind if one != "null"]
        kind = some[0] if len(some) == 1 else "null"
    return TYPES.get(str(kind), str(kind))


def _allowed(call: JsonObject, api: Api | None) -> JsonObject:
    """The values each argument may have; an empty text stands for leaving it out."""
    allowed = {name: [_leaf(value)] for name, value in call["arguments"].items()}
    for name, schema in api.properties.items() if api else ():
        required = api is not None and name in api.required
        optional = not required and isinstance(schema, dict)  # one may be just `true`
        if name not in allowed and optional and "default" in schema:
            allowed[name] = [_leaf(schema["default"]), ""]
    return {call["name"]: allowed}


def _leaf(value: Any) -> Any:
    """The keys of an object have lists of values too; what is deeper is compared as it is."""
    if isinstance(value, dict):
        return {key: [inner] for key, inner in value.items()}
    if isinstance(value, list):
        return [_leaf(inner) if isinstance(inner, dict) else inner for inner in value]
    return value
