"""BFCL: function documents, questions with their functions, gold calls; and its rows written.

A dotted name is split: what stands before its last dot is the tool. The types `dict`, `float`,
`tuple` and `any` are put right with all other foreign schemas.

A gold argument is a list of the values that are allowed; `""` or null in it says that the argument
may be left out. The first value that fits becomes the call; all of them must fit the schema.
In a dict, and in each dict of a list, every key has such a list of its own. A string where
another type is asked for is the name of a variable (`ast_checker.py` of bfcl-eval).
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from toolloom.pipeline.checks.transcript import shown
from toolloom.pipeline.formats.base import (
    Arguments,
    Exported,
    calls,
    first_calls,
    given,
    lost_after_calls,
    number_of,
    system_of,
)
from toolloom.pipeline.formats.conversation import excess
from toolloom.pipeline.formats.files import UNREAD, ForeignRow, files, foreign_rows, rows
from toolloom.pipeline.formats.import_log import ImportLog
from toolloom.pipeline.formats.intake import UNSORTED, ApiBuilder, Seen, line, reference, words
from toolloom.pipeline.formats.reading import (
    Reading,
    Script,
    Toolbox,
    dialogue,
    fault,
    leaves,
    refused,
)
from toolloom.schemas import Api, Finding, JsonObject, Reason, Sample


def fits(document: Any) -> bool:
    """Whether a row, or a list of rows, is a function document or a question with some."""
    if isinstance(document, list):
        return any(fits(row) for row in document[:20] if isinstance(row, dict))
    if not isinstance(document, dict):
        return False
    if "question" in document and isinstance(document.get("function"), list | dict):
        return True
    parameters = document.get("parameters")
    typed = isinstance(parameters, dict) and parameters.get("type") == "dict"
    return typed and isinstance(document.get("name"), str)


def read(
    source: Path,
    ledger: ImportLog,
    *,
    category: str = "",
    document: Any = UNREAD,
    seen: Seen | None = None,
) -> Iterator[Api]:
    """The APIs of a file. `document`: its content, if it was loaded before."""
    ledger.format = "bfcl"
    intake = ApiBuilder(ledger, "bfcl", reference(source), seen)
    for place, row in rows(source, ledger, document):
        for entry in row if isinstance(row, list) else [row]:
            yield from _row(entry, place, intake, words(source.stem), category)
    intake.close()


def _row(row: Any, place: str, intake: ApiBuilder, tool: str, category: str) -> Iterator[Api]:
    if not isinstance(row, dict):
        return intake.refuse(place, "It is neither a function nor a question.")
    label = f"{place} {line(row.get('id'))}".strip()
    if "function" not in row and "parameters" not in row:
        return intake.refuse(label, "It carries no functions.")
    inner = row.get("function", row)
    functions = inner if isinstance(inner, list) else [inner]
    if not functions:
        return intake.refuse(label, "Its list of functions is empty.")
    for function in functions:
        yield from _api(function, label, intake, tool, category)
    return None


def _api(function: Any, place: str, intake: ApiBuilder, tool: str, category: str) -> Iterator[Api]:
    if not isinstance(function, dict):
        return intake.refuse(place, "Its function is no object.")
    called = line(function.get("name"))
    before, _, last = called.rpartition(".")
    yield from intake.api(
        category=category or UNSORTED,
        tool=before or tool,
        name=last or called,
        description=function.get("description"),
        parameters=function.get("parameters"),
        returns=function.get("response"),
        wanted=called,
        operation=called,
    )
    return None


_TYPES = {
    **dict.fromkeys(("arraylist", "queue", "stack", "set", "tuple"), "array"),
    **dict.fromkeys(("hashmap", "hashtable", "dict"), "object"),
    **dict.fromkeys(("byte", "short", "long", "bigint"), "integer"),
    **dict.fromkeys(("float", "double"), "number"),
    "char": "string",
}
_VARIABLE = re.compile(r"[A-Za-z_$][\w$.]*(?:\(.*\)|\[.*\])?[\w$.]*")
_GOLD = "possible_answer"
_KNOWN = {"id", "question", "function", "ground_truth"}


def dialogues(path: Path) -> Iterator[Reading]:
    """Questions with their gold answers, where the file of those is found beside them."""
    for file in files(path):
        if file.parent.name == _GOLD:
            if path == file:
                questions = f"{file.parent.parent.name or '..'}/{file.name}"
                why = f"this is the file of gold answers; name {questions}, the file of questions"
                yield refused(ForeignRow(file.name), why)
            continue
        gold = _answers(file)
        for row in foreign_rows(file):
            yield _dialogue(row, gold)
        if gold:
            left = f"{len(gold)} gold answers have no question: {', '.join(list(gold)[:3])}"
            yield refused(ForeignRow(f"{_GOLD}/{file.name}"), left)


def _answers(questions: Path) -> dict[str, ForeignRow] | None:
    """The gold answers by id, or None where there is no such file."""
    beside = [
        questions.parent / _GOLD / questions.name,
        questions.parent.parent / _GOLD / questions.name,
        questions.with_name(f"{questions.stem}_{_GOLD}{questions.suffix}"),
    ]
    file = next((f for f in beside if f.is_file() and f != questions), None)
    if file is None:
        return None
    found = {}
    for row in foreign_rows(file):
        value = row.value if isinstance(row.value, dict) else {}
        found[str(value.get("id", row.place))] = row
    return found


def _dialogue(row: ForeignRow, gold: dict[str, ForeignRow] | None) -> Reading:
    value = row.value
    if row.fault:
        return refused(row)
    if why := excess(value):
        return refused(row, why)
    if not isinstance(value, dict) or "question" not in value:
        return refused(row, "it is no question of BFCL: it has no `question`")
    if "function" not in value:
        why = "it names no functions in `function`"
        if "involved_classes" in value:
            why += ": rows of several turns are judged by the state they end in, not by calls"
        return refused(row, why)
    answer = gold.pop(str(value.get("id")), None) if gold is not None else None
    return _question(row, value, answer, gold is not None)


def _question(
    row: ForeignRow, value: JsonObject, answer: ForeignRow | None, expected: bool
) -> Reading:
    tools, unmapped = Toolbox("bfcl"), [f"field `{k}`" for k in value if k not in _KNOWN]
    faults: list[Finding] = []
    listed = value["function"]
    for one in listed if isinstance(listed, list) else [listed]:
        one = one if isinstance(one, dict) else {}
        why = tools.add(
            one.get("name"), one.get("description"), _plain_types(one.get("parameters"))
        )
        if why:
            faults.append(fault(Reason.ILLEGAL_SCHEMA, why))
    script = Script()
    if not _said(value["question"], script):
        return refused(row, "its `question` is no list of messages, or one of several turns")
    raw = value
    if answer is None and "ground_truth" in value:
        answer = ForeignRow(row.place, value)
    if answer is not None:
        faults += _gold(answer, tools, script)
        held = answer.value if isinstance(answer.value, dict) else {}
        raw = {**value, "ground_truth": held.get("ground_truth")}
    elif expected:
        faults.append(fault(Reason.NO_API_CALL, "the file of gold answers has none for it"))
    else:
        unmapped.append("no file of gold answers: there are no calls to judge")
    made = dialogue(str(value.get("id", row.place)), script.messages(), tools.pool)
    return Reading(row.place, raw, made, (*unmapped, *tools.unmapped), tuple(faults))


def _said(question: Any, script: Script) -> bool:
    """The messages of the one turn; False if there is none, or more than one."""
    if isinstance(question, list) and len(question) == 1 and isinstance(question[0], list):
        question = question[0]
    if not isinstance(question, list) or not question:
        return False
    for message in question:
        role = message.get("role") if isinstance(message, dict) else None
        if role not in ("system", "user", "assistant"):
            return False
        if not isinstance(message.get("content"), str):
            return False
        getattr(script, role)(message["content"])
    return True


def _plain_types(schema: Any) -> Any:
    """BFCL's names of types, which are Python's, Java's and JavaScript's, as JSON's."""
    if isinstance(schema, list):
        return [_plain_types(part) for part in schema]
    if not isinstance(schema, dict):
        return schema
    return {
        key: _TYPES.get(part.lower(), part)
        if key == "type" and isinstance(part, str)
        else _plain_types(part)
        for key, part in schema.items()
    }


def _gold(answer: ForeignRow, tools: Toolbox, script: Script) -> Iterator[Finding]:
    """Adds the gold calls to the script; what is wrong with the answer itself."""
    value = answer.value if isinstance(answer.value, dict) else {}
    truth = None if excess(value) else value.get("ground_truth")
    if answer.fault or not isinstance(truth, list):
        why = answer.fault or "its gold answer has no list `ground_truth`"
        yield fault(Reason.MALFORMED_DIALOGUE, why)
        return
    calls: list[tuple[str, Any]] = []
    for one in truth:
        if not isinstance(one, dict) or len(one) != 1:
            detail = f"a gold call that is not {{name: arguments}}: {shown(one)}"
            yield fault(Reason.FALSE_API_CALL_FORMAT, detail)
            continue
        ((name, allowed),) = one.items()
        api = tools.api(name)
        if not isinstance(allowed, dict) or api is None:
            calls.append((tools.called(name), allowed))
            continue
        said = script.said()  # a gold value may be the name of a variable the user said
        properties = {
            name: _opened_up(schema, list(_values(allowed.get(name, []), schema)), said)
            for name, schema in api.properties.items()
        }
        api = api.model_copy(update={"parameters": {**api.parameters, "properties": properties}})
        tools.replace(api)
        calls.append((api.function, _first(allowed, api)))
        yield from _misfits(api, allowed)
    if calls:
        script.assistant("", calls)


def _first(allowed: JsonObject, api: Api) -> JsonObject:
    """The gold call: of each argument the first value that fits its schema, or the first."""
    made = {}
    for name, values in allowed.items():
        schema = api.properties.get(name)
        told = list(_values(values, schema))
        if told:
            made[name] = min(told, key=lambda v: (leaves(schema, v), _misfit(v, schema) or ""))
    return made


def _values(values: Any, schema: Any) -> Iterator[Any]:
    """The allowed values of an argument. `""` and null say that it may be left out."""
    for value in values if isinstance(values, list) else [values]:
        if value is not None and not (isinstance(value, str) and value == ""):
            yield _opened(value, schema if isinstance(schema, dict) else {})


def _opened(value: Any, schema: JsonObject) -> Any:
    """A value whose dicts hold lists of allowed values, with the first of each."""
    if isinstance(value, dict):
        known = schema.get("properties")
        known = known if isinstance(known, dict) else {}
        return {k: told[0] for k, v in value.items() if (told := list(_values(v, known.get(k))))}
    if isinstance(value, list) and any(isinstance(item, dict) for item in value):
        items = schema.get("items")
        return [_opened(item, items if isinstance(items, dict) else {}) for item in value]
    return value


def _misfits(api: Api, allowed: JsonObject) -> Iterator[Finding]:
    """Allowed values that no call can have: all but those the checks of the call see."""
    called = _first(allowed, api)
    for name, values in allowed.items():
        schema = api.properties.get(name)
        for value in _values(values, schema) if schema else ():
            wrong = None if value == called.get(name) else _misfit(value, schema)
            if wrong:
                detail = f"{api.function}: `{name}`: an allowed value does not fit: {wrong}"
                yield fault(Reason.INVALID_INPUT_PARAMETERS, detail)


def _misfit(value: Any, schema: Any) -> str | None:
    """Why a value does not fit, as BFCL compares: case and punctuation of a choice do not count,
    and a `format` is only a hint."""
    wrong = isinstance(schema, dict) and leaves(_loose(schema), _standard(value))
    return f"{shown(value)} is not what the schema asks for" if wrong else None


def _loose(schema: Any) -> Any:
    if isinstance(schema, list):
        return [_loose(part) for part in schema]
    if not isinstance(schema, dict):
        return schema
    kept = {k: v for k, v in schema.items() if k not in {"format", "pattern", "const"}}
    return {k: _standard(v) if k == "enum" else _loose(v) for k, v in kept.items()}


def _standard(value: Any) -> Any:
    """Texts as BFCL compares them (`standardize_string`)."""
    if isinstance(value, list):
        return [_standard(part) for part in value]
    if isinstance(value, dict):
        return {key: _standard(part) for key, part in value.items()}
    return re.sub(r"[ ,./\-_*^]", "", value).lower() if isinstance(value, str) else value


def _opened_up(schema: Any, values: list[Any], said: str) -> Any:
    if not isinstance(schema, dict):
        return schema
    kind = schema.get("type")
    if kind != "string" and any(_is_variable(v, said) for v in values):
        return (
            {"description": schema.get("description", ""), "type": [kind, "string"]}
            if isinstance(kind, str)
            else schema
        )
    known = schema.get("properties")
    if not isinstance(known, dict):
        return schema
    inner = [v for v in values if isinstance(v, dict)]
    opened = {k: _opened_up(s, [v[k] for v in inner if k in v], said) for k, s in known.items()}
    return {**schema, "properties": opened}


def _is_variable(value: Any, said: str) -> bool:
    """A name the user marked as one, or a constant such as `ResultSet.TYPE_FORWARD_ONLY`."""
    if not isinstance(value, str) or not _VARIABLE.fullmatch(value):
        return False
    if value.lower() in {"true", "false", "null", "none"}:
        return False
    if re.fullmatch(r"(?:[A-Z]\w*\.)+[A-Z][A-Z0-9_]+", value):
        return True
    marked = re.search(rf"[`'\"]{re.escape(value)}[`'\"]", said)
    return bool(marked) or (value in said and bool(re.search(r"[_.\[(]|[a-z][A-Z]", value)))


TYPES = {"object": "dict", "number": "float", "null": "any"}
# What names a schema or a property, and not a keyword: it is passed on with its keys.
_NAMED = {"properties", "patternProperties", "$defs", "definitions"}
_VALUES = {"enum", "const", "default", "examples", "required"}


def bfcl(sample: Sample, form: Arguments) -> Exported:
    """A question, and its possible answers unless the right act is not to call."""
    asked, rounds = first_calls(sample)
    made = [call for message in rounds for call in calls(message)]
    system = [{"role": "system", "content": system_of(sample)}] if system_of(sample) else []
    apis = {api.function: api for api in given(sample)}
    category = _category(len(given(sample)), len(made))
    identity = f"{category}_{number_of(sample)}"
    whole = {"type": "object", "properties": {}, "required": []}
    question = {
        "id": identity,
        "question": [[*system, {"role": "user", "content": asked.content or ""}]],
        "function": [
            {
                "name": api.function,
                "description": api.description,
                "parameters": _dialect({**whole, **api.parameters}),
            }
            for api in given(sample)
        ],
    }
    rows = [(category, question)]
    if made:
        truth = [_allowed(call, apis.get(call["name"])) for call in made]
        rows.append((f"{category} answers", {"id": identity, "ground_truth": truth}))
    return Exported(tuple(rows), lost_after_calls(sample))


def _category(offered: int, made: int) -> str:
    if not made:
        return "irrelevance"
    if made == 1:
        return "simple_python" if offered == 1 else "multiple"
    return "parallel" if offered == 1 else "parallel_multiple"


def _dialect(schema: Any) -> Any:
    """A JSON Schema in BFCL's types: `dict`, `float`, `any`; one each, for BFCL has no lists."""
    if isinstance(schema, list):
        return [_dialect(one) for one in schema]
    if not isinstance(schema, dict):
        return schema
    written: JsonObject = {}
    for key, value in schema.items():
        if key == "type":
            some = [one for one in value if one != "null"] if isinstance(value, list) else [value]
            kind = str(some[0] if len(some) == 1 else "null")
            written[key] = TYPES.get(kind, kind)
        elif key in _NAMED and isinstance(value, dict):
            written[key] = {name: _dialect(inner) for name, inner in value.items()}
        else:
            written[key] = value if key in _VALUES else _dialect(value)
    return written


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
