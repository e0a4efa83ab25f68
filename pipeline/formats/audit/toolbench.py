"""ToolBench: solution trees, ToolLLaMA's conversations and the rows of its instructions.

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
from pathlib import Path
from typing import Any

from toolloom.pipeline.formats.audit.conversation import Conversation, RowCall, identity, readings
from toolloom.pipeline.formats.audit.reading import Reading, refused
from toolloom.pipeline.formats.audit.rows import ForeignRow
from toolloom.pipeline.formats.audit.sharegpt import speaker
from toolloom.pipeline.formats.audit.values import MOST_TURNS, opened, turns
from toolloom.pipeline.formats.importers import toolbench as importer
from toolloom.pipeline.formats.importers.intake import line, text
from toolloom.pipeline.formats.importers.ledger import ImportLog
from toolloom.schemas import JsonObject, Reason, Scenario

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


def read(path: Path) -> Iterator[Reading]:
    """Every row of a file, or of the files of a folder, whichever of the three it is."""
    return readings(path, _row)


def read_trees(path: Path) -> Iterator[Reading]:
    """The solution trees alone; every other row is refused unread, for there may be many."""
    return readings(path, _only_tree)


def _only_tree(value: JsonObject, row: ForeignRow) -> Reading:
    if isinstance(value.get("answer_generation"), dict):
        return _tree(value, row)
    return refused(row, "it has no `answer_generation`")


def _row(value: JsonObject, row: ForeignRow) -> Reading:
    if isinstance(value.get("answer_generation"), dict):
        return _tree(value, row)
    if "conversations" in value:
        return _conversations(value, row)
    if isinstance(value.get("api_list"), list):
        return _instruction(value, row)
    return refused(row, "it has neither `answer_generation` nor `conversations` nor `api_list`")


# Solution trees


def _tree(value: JsonObject, row: ForeignRow) -> Reading:
    answer = value["answer_generation"]
    taken = Conversation("toolbench", row)
    _offer(taken, answer.get("function"))
    paths = answer.get("train_messages")
    found = [p for p in paths if isinstance(p, list)] if isinstance(paths, list) else []
    if found:
        said = turns(max(found, key=len))
        if isinstance(said, str):
            return refused(row, f"its longest path: {said}")
        for turn in said:
            _message(taken, turn)
    else:
        nodes = _last_try(value.get("tree"))
        if not nodes:
            return refused(row, "it has neither `train_messages` nor a tree with a call")
        taken.note("tree: all tries but the last; none was finished")
        taken.user(answer.get("query"))
        _nodes(taken, nodes)
        taken.fault(Reason.UNHELPFUL_ANSWER, f"the search ended without {FINISH}")
    return taken.reading(line(answer.get("query"))[:80] or row.place)


def _message(taken: Conversation, turn: JsonObject) -> None:
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
        detail = f"a message of the role `{line(role)[:60]}`, which is left out"
        taken.fault(Reason.MALFORMED_DIALOGUE, detail)


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


def _last_try(tree: Any) -> list[JsonObject]:
    """The nodes from the root to the last leaf that was tried."""
    node = tree.get("tree") if isinstance(tree, dict) else None
    found: list[JsonObject] = []
    while isinstance(node, dict) and len(found) < MOST_TURNS:
        found.append(node)
        children = node.get("children")
        node = children[-1] if isinstance(children, list) and children else None
    return found if any(n.get("node_type") == "Action" for n in found) else []


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
    said = turns(value["conversations"])
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
            detail = f"a turn of the role `{role[:60]}`, which is left out"
            taken.fault(Reason.MALFORMED_DIALOGUE, detail)
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
            function = {**function, "parameters": _parameters(function["parameters"])}
        taken.offer([function])
    if not isinstance(found, list):
        taken.offer(found)


def _parameters(schema: JsonObject) -> JsonObject:
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
    for api in importer.read(Path(row.place), ledger, document=value):
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
