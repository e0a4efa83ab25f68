"""ToolBench: its API documents, solution trees, ToolLLaMA's conversations and instructions.

API documents stand in query files (`api_list`) and in tool files. Function names, argument names
and types are those ToolBench's own code gives its models (rapidapi.py, `api_json_to_openai_json`),
so that its solution paths fit the imported APIs.

A tree (`answer_generation`) holds prefixes of its winning path in `train_messages`; the longest is
the dialogue. Where the search found none, the tree's own nodes tell its last try. `Finish` is no
API: its `final_answer` is the reply, and thoughts, which no user sees, are left out. Results are
ToolBench's envelope, whose `error` is empty on success and whose `response` is text, often as
Python writes it and cut off (ToolLLM, section 2.3).
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

from toolloom.pipeline.formats.conversation import (
    MOST_TURNS,
    Conversation,
    RowCall,
    identity,
    opened,
    readings,
    turns_in,
)
from toolloom.pipeline.formats.files import UNREAD, ForeignRow, rows
from toolloom.pipeline.formats.import_log import LONGEST, ImportLog
from toolloom.pipeline.formats.intake import ApiBuilder, Seen, line, reference, text
from toolloom.pipeline.formats.json_schema import schema_of
from toolloom.pipeline.formats.reading import Reading, refused
from toolloom.pipeline.formats.sharegpt import speaker
from toolloom.schemas import Api, JsonObject, Reason, Scenario

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
        category=category or line(entry.get("category_name")) or filed,
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
    """The arguments' schema, and the places of what does not fit in it.

    The default of a parameter that is needed is only an example of a value.
    """
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
            kind = _TYPES.get(line(one.get("type")).upper(), "string")
            value = _value(one.get("default"), kind)
            # ToolBench says integer to all numbers: its own value shows otherwise.
            schema: JsonObject = {"type": "number" if isinstance(value, float) else kind}
            if about := text(one.get("description")).strip():
                schema["description"] = about
            if key == "required_parameters":
                required.append(name)
                schema |= {} if value is None else {"examples": [value]}
            else:
                schema |= {} if value is None else {"default": value}
            properties[name] = schema
            if value is None and one.get("default") not in (None, "", [], {}):
                lost.append(f"parameters.{name}.default")
    return {"type": "object", "properties": properties, "required": required}, lost


def _value(default: Any, kind: str) -> Any:
    """A default as a value of its type; none where it is empty or of another type."""
    written = str(default).strip() if isinstance(default, str | int | float) else ""
    if kind == "boolean":
        return {"true": True, "false": False}.get(written.lower())
    if kind != "integer":
        return written or None
    if re.fullmatch(r"[+-]?\d{1,18}", written):
        return int(written)
    return float(written) if re.fullmatch(r"[+-]?\d{1,18}\.\d{1,18}", written) else None


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
        inner = {str(k): _shape(v, depth + 1) for k, v in template.items() if k != "_list_length"}
        return {"type": "object", **({"properties": inner} if inner else {})}
    if isinstance(template, list):
        items = _shape(template[0], depth + 1) if template else {}
        return {"type": "array", **({"items": items} if items else {})}
    name = text(template)
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


FINISH = "Finish"
_LABEL = "Message error..."
_AGAIN = "This is not the first time you try this task"
_STEP = re.compile(
    r"^[ \t]*Action:[ \t]*(?P<name>[^\n]*)\n\s*Action Input:(?P<input>.*)\Z",
    re.DOTALL | re.MULTILINE,
)
_ACTION = re.compile(r"^[ \t]*Action(?: Input)?:", re.MULTILINE)
_CUT = re.compile(r'\A\s*\{"error":\s*("(?:[^"\\]|\\.)*"),\s*"response":\s*"(?P<rest>.*)\Z', re.S)
_HALF = re.compile(r"\\(?:u[0-9a-fA-F]{0,3})?\Z")
_FUNCTIONS = re.compile(r":\s*(?=\[\s*\{)")
_INSTRUCTION = {"api_list", "query", "relevant APIs", "query_id"}


def is_tree(value: Any) -> bool:
    return isinstance(value, dict) and isinstance(value.get("answer_generation"), dict)


def _only_tree(value: JsonObject, row: ForeignRow) -> Reading:
    return _tree(value, row) if is_tree(value) else refused(row, "it has no `answer_generation`")


read_trees = partial(readings, take=_only_tree)
"""The solution trees alone; every other row is refused unread, for there may be many."""


def _dialogue(value: JsonObject, row: ForeignRow) -> Reading:
    if is_tree(value):
        return _tree(value, row)
    if "conversations" in value:
        return _conversations(value, row)
    if isinstance(value.get("api_list"), list):
        return _instruction(value, row)
    return refused(row, "it has neither `answer_generation` nor `conversations` nor `api_list`")


dialogues = partial(readings, take=_dialogue)
"""Every row of a file, or of the files of a folder, whichever of the three it is."""


# Solution trees


def _tree(value: JsonObject, row: ForeignRow) -> Reading:
    answer = value["answer_generation"]
    taken = Conversation("toolbench", row)
    _offer(taken, answer.get("function"))
    listed = answer.get("train_messages")
    if paths := [p for p in listed if isinstance(p, list)] if isinstance(listed, list) else []:
        said = turns_in(max(paths, key=len))
        if isinstance(said, str):
            return refused(row, f"its longest path: {said}")
        for turn in said:
            role, content = turn.get("role"), turn.get("content")
            if role == "system":
                taken.system(content)
            elif role == "user":
                _user(taken, content)
            elif role == "function":
                _observed(taken, content, turn.get("name"))
            elif role == "assistant":
                asked = turn.get("function_call")
                if isinstance(asked, dict):
                    _call(taken, asked.get("name"), asked.get("arguments"))
                _thought(taken, content, trained=not isinstance(asked, dict))
            else:
                taken.left_out("message", line(role))
    elif nodes := _last_try(value.get("tree")):
        taken.note("tree: all tries but the last; none was finished")
        taken.user(answer.get("query"))
        _nodes(taken, nodes)
        taken.fault(Reason.UNHELPFUL_ANSWER, f"the search ended without {FINISH}")
    else:
        return refused(row, "it has neither `train_messages` nor a tree with a call")
    return taken.reading(line(answer.get("query"))[:80] or row.place)


def _last_try(tree: Any) -> list[JsonObject]:
    """The nodes from the root to the last leaf that was tried, if one of them acts."""
    node = tree.get("tree") if isinstance(tree, dict) else None
    nodes: list[JsonObject] = []
    while isinstance(node, dict) and len(nodes) < MOST_TURNS:
        nodes.append(node)
        children = node.get("children")
        node = children[-1] if isinstance(children, list) and children else None
    return nodes if any(n.get("node_type") == "Action" for n in nodes) else []


def _user(taken: Conversation, content: Any) -> None:
    """The query. What the search itself told the model to try another way is no user's turn."""
    said = text(content)
    if said.startswith(_AGAIN):
        taken.note("messages of the search that ask for another try")
    else:
        taken.user(said.strip().removesuffix("Begin!").strip())


def _call(taken: Conversation, name: Any, given: Any) -> None:
    """A call, or the end."""
    if name != FINISH:
        taken.assistant("", [RowCall(name, given)])
        return
    ending = taken.mended(given)[0]
    ending = ending if isinstance(ending, dict) else {}
    reply = ending.get("final_answer")
    if isinstance(reply, str) and reply.strip():
        taken.assistant(reply)
    elif ending.get("return_type") == "give_up_and_restart":
        taken.fault(Reason.UNHELPFUL_ANSWER, f"{FINISH}: the assistant gives up without an answer")
    else:
        taken.fault(Reason.FALSE_API_CALL_FORMAT, f"{FINISH} without a `final_answer`")


def _thought(taken: Conversation, thought: Any, trained: bool) -> None:
    """Left out. `trained`: it is part of the text in which the call stands."""
    said = text(thought)
    if said.strip():
        taken.note("thoughts")
    if trained and _ACTION.search(said):
        detail = "the thought holds a line `Action:`, which is read as the call"
        taken.fault(Reason.FALSE_API_CALL_FORMAT, detail)


def _observed(taken: Conversation, content: Any, name: Any = None) -> None:
    value, _ = opened(content)
    if isinstance(value, str) and (cut := _cut(value)):
        taken.note("results: text that was cut off")
        value = cut
    if not isinstance(value, dict) or not {"response", "error"} & value.keys():
        taken.result(content, None, name)
        return
    response, how = opened(value.get("response"))
    if how:
        taken.note(f"results: text that {how}")
    error = value.get("error")
    if error == _LABEL and response not in (None, ""):
        # ToolBench labels every response so in which the word "error" stands anywhere.
        taken.note(f"results: the label `{_LABEL}` of a response that came")
        error = None
    taken.observed(response, str(error) if error else None, None, name)


def _cut(written: str) -> JsonObject | None:
    """An envelope that ends in the middle: ToolBench keeps the first 1,024 letters and `...`."""
    found = _CUT.match(written)
    if not found:
        return None
    kept = found["rest"].removesuffix("...")
    for rest in (kept, _HALF.sub("", kept)):
        try:
            error, response = json.loads(found[1]), json.loads(f'"{rest}"', strict=False)
        except ValueError:
            continue
        return {"error": error, "response": response}
    return None


def _nodes(taken: Conversation, nodes: list[JsonObject]) -> None:
    name = None
    for node in nodes:
        kind, told = node.get("node_type"), node.get("description")
        if kind == "Thought":
            _thought(taken, told, trained=False)  # no row is made of an unfinished search
        elif kind == "Action":
            name = told
        elif kind == "Action Input" and name is not None:
            _call(taken, name, told)
            if name != FINISH and node.get("observation") is not None:
                _observed(taken, node["observation"], name)
            name = None


# ToolLLaMA's conversations


def _conversations(value: JsonObject, row: ForeignRow) -> Reading:
    said = turns_in(value["conversations"])
    if isinstance(said, str):
        return refused(row, f"its `conversations`: {said}")
    taken = Conversation("toolbench", row)
    taken.fields(value, {"id", "conversations"})
    for turn in said:
        who, role, content = speaker(turn)
        if who == "system":
            taken.system(_with_functions(taken, text(content)))
        elif who == "user":
            _user(taken, content)
        elif who == "assistant":
            _step(taken, text(content))
        elif who in {"function", "result"}:
            _observed(taken, content)
        else:
            taken.left_out("turn", role)
    return taken.reading(identity(value, row))


def _with_functions(taken: Conversation, told: str) -> str:
    """Offer the functions that the system turn lists, and the turn without the list."""
    start = _FUNCTIONS.search(told)
    end = told.rfind("]") + 1
    found = opened(told[start.end() : end])[0] if start else None
    if not start or not isinstance(found, list):
        taken.fault(Reason.ILLEGAL_SCHEMA, "no list of functions can be read in the system turn")
        return told
    _offer(taken, found)
    return told[: start.end()] + told[end:]


def _step(taken: Conversation, said: str) -> None:
    """Thought, Action and Action Input. Words alone are read as words: checks may find a call."""
    found = _STEP.search(said)
    if found:
        thought = said[: found.start()].strip().removeprefix("Thought:")
        _call(taken, found["name"].strip(), found["input"].strip())
        _thought(taken, thought, trained=True)
    else:
        taken.assistant(said)
        taken.fault(Reason.NO_API_CALL, "a step without an Action and its Action Input")


# Functions, and instructions


def _offer(taken: Conversation, listed: Any) -> None:
    """ToolBench's functions: a parameter's `example_value` is its default if it is optional."""
    found = opened(listed)[0]
    for function in found if isinstance(found, list) else []:
        if isinstance(function, dict) and function.get("name") == FINISH:
            continue
        if isinstance(function, dict) and isinstance(function.get("parameters"), dict):
            function = {**function, "parameters": _offered_parameters(function["parameters"])}
        taken.offer([function])
    if not isinstance(found, list):
        taken.offer(found)


def _offered_parameters(schema: JsonObject) -> JsonObject:
    properties, required = schema.get("properties"), schema.get("required")
    if not isinstance(properties, dict):
        return schema
    listed = required if isinstance(required, list) else []
    needed = {name for name in listed if isinstance(name, str)}
    made = {}
    for name, about in properties.items():
        example = about.get("example_value") if isinstance(about, dict) else None
        if isinstance(about, dict) and example not in (None, ""):
            kept = {k: v for k, v in about.items() if k != "example_value"}
            about = {
                **kept,
                **({"examples": [example]} if name in needed else {"default": example}),
            }
        made[name] = about
    return {**schema, "properties": made}


def _instruction(value: JsonObject, row: ForeignRow) -> Reading:
    taken = Conversation("toolbench", row)
    taken.fields(value, _INSTRUCTION)
    ledger = ImportLog(row.place)
    for api in read(Path(row.place), ledger, document=value):
        taken.tool(api.function, api.description, api.parameters, api.returns)
    report = ledger.report(imported=0)
    for skipped in report.skipped:
        taken.fault(Reason.ILLEGAL_SCHEMA, f"{skipped.what}: {skipped.why}")
    for cut in report.cut:
        taken.note(f"tools: schema keywords left out ({cut.why})")
    taken.user(value.get("query"))
    taken.note("no calls: an instruction has its answer in another file")
    if not text(value.get("query")).strip():
        taken.fault(Reason.MALFORMED_DIALOGUE, "its `query` is empty")
    needed = value.get("relevant APIs")
    needed = needed if isinstance(needed, list) else []
    listed = {
        (line(e.get("tool_name")), line(e.get("api_name")))
        for e in value["api_list"]
        if isinstance(e, dict)
    }
    for pair in needed:
        if not isinstance(pair, list) or len(pair) != 2 or tuple(map(line, pair)) not in listed:
            named = "/".join(map(line, pair)) if isinstance(pair, list) else line(pair)
            detail = f"`relevant APIs` names {named[:120]}, which is not in `api_list`"
            taken.fault(Reason.API_HALLUCINATION, detail)
    scenario = Scenario.SEQUENTIAL if len(needed) > 1 else Scenario.SINGLE
    return taken.reading(line(value.get("query_id")) or row.place, scenario)
