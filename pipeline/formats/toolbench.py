"""ToolBench: its API documents as APIs, its solution trees as seeds, and ToolLLaMA's rows, written.

API documents stand in query files (`api_list`) and in tool files. Function names, argument names
and types are those ToolBench's own code gives its models (rapidapi.py, `api_json_to_openai_json`),
so that its solution paths fit the imported APIs.

A tree's rightmost path is the solution (ToolPlanner, section 3.2), and the longest of its
`train_messages` is that path. `Finish` is no API: its `final_answer` is the reply. Results are
ToolBench's envelope, whose `error` is empty on success (ToolLLM, section 2.3).
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any

from toolloom.pipeline.checks.form import odd_request
from toolloom.pipeline.checks.instructions import values_of
from toolloom.pipeline.checks.schema import as_dict, as_list
from toolloom.pipeline.formats import base
from toolloom.pipeline.formats.conversation import excess, opened, turns_in
from toolloom.pipeline.formats.import_log import LONGEST, ImportLog, line, reference, text
from toolloom.pipeline.formats.json_schema import TYPES, first, schema_of, to_api
from toolloom.pipeline.formats.rows import UNREAD, ForeignRow, files, foreign_rows, rows
from toolloom.schemas import (
    FINISH,
    Api,
    JsonObject,
    Message,
    Reason,
    RecipeError,
    Rejected,
    Sample,
    Seed,
    Source,
    SplitPlan,
    Step,
    StoreError,
    digest,
)
from toolloom.schemas.splits import split_of, stray

_TYPES = {"NUMBER": "integer", "BOOLEAN": "boolean"}
_TAKEN = {"from", "class", "return", "false", "true", "id", "and"}
_TEMPLATE_TYPES = {**TYPES, "NoneType": "null", "empty list": "array", "empty dict": "object"}
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
    source: Path, ledger: ImportLog, *, category: str = "", document: Any = UNREAD
) -> Iterator[Api]:
    """The APIs of a file, each once. `document`: its content, if it was loaded before."""
    ledger.format = "toolbench"
    filed = source.parent.name if source.parent.parent.name == "tools" else ""
    known = Source(kind="toolbench", reference=reference(source))
    for place, row in rows(source, ledger, document):
        for each in row if isinstance(row, list) else [row]:
            if not isinstance(each, dict) or not isinstance(each.get("api_list"), list):
                query = line(each.get("query_id")) if isinstance(each, dict) else ""
                ledger.refuse(f"{place} {query}".strip(), "It has no list of APIs.")
                continue
            for entry in each["api_list"]:
                if isinstance(entry, dict):
                    yield from _api({**each, **entry}, known, ledger, category, filed)
                else:
                    ledger.refuse(place, "An entry of its list of APIs is not an object.")


def _api(
    entry: JsonObject, source: Source, ledger: ImportLog, category: str, filed: str
) -> Iterator[Api]:
    """An API. `entry`: its document on top of its tool's; `filed`: its folder's category."""
    tool = line(entry.get("tool_name"))
    name = line(entry["api_name"] if "api_name" in entry else entry.get("name"))
    if name and not any(key in entry for key in ("required_parameters", "optional_parameters")):
        return ledger.refuse(f"{tool}/{name}", "Only its name is given, without its parameters.")
    standard = line(entry.get("standardized_name")) or standardised(tool)
    parameters, lost = _parameters(entry)
    for api in to_api(
        ledger,
        source,
        category=category or line(entry.get("category_name")) or filed,
        tool=tool,
        name=name,
        description=first(entry, "api_description", "description") or "",
        parameters=parameters,
        returns=_returns(entry),
        wanted=f"{renamed(standardised(name))}_for_{standard}"[-LONGEST:],
    ):
        for place in lost:
            ledger.cut(api.id, place, "invalid")
        yield api
    return None


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
            if value is not None:
                schema |= {"examples": [value]} if name in required else {"default": value}
            elif one.get("default") not in (None, "", [], {}):
                lost.append(f"parameters.{name}.default")
            properties[name] = schema
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


# Seeds: solution trees, and the queries that tell where their APIs belong


_LABEL = "Message error..."  # of every response in which the word "error" stands anywhere
_CUT = re.compile(
    r'\A\s*\{"error":\s*"(?P<error>(?:[^"\\]|\\.)*)",\s*"response":\s*"(?P<rest>.)', re.S
)
LONGEST_QUERY = 4_000  # letters
_LOOKED_AT = 50  # rows of a path until a tree is found


@dataclass
class NotASeed(Exception):
    """A tree that is no seed."""

    reason: Reason
    detail: str


def is_tree(value: Any) -> bool:
    return isinstance(value, dict) and isinstance(value.get("answer_generation"), dict)


def solution(answer: JsonObject) -> list[tuple[str, JsonObject]]:
    """Function and arguments of each call that came to something on a tree's winning path.

    `answer`: its `answer_generation`, whose `train_messages` are prefixes of that path; the longest
    is the whole. Raises NotASeed.
    """
    listed = answer.get("train_messages")
    paths = [p for p in listed if isinstance(p, list)] if isinstance(listed, list) else []
    if isinstance(listed, list) and not any(paths):
        raise NotASeed(Reason.UNHELPFUL_ANSWER, f"the search ended without {FINISH}.")
    path = turns_in(max(paths, key=len, default=None))
    if isinstance(path, str):
        raise NotASeed(Reason.NOT_IMPORTED, f"no solution tree that can be read: {path}.")
    calls: list[tuple[str, Any]] = []
    failed: set[int] = set()
    ending: Any = None
    for turn in path:
        asked = turn.get("function_call")
        if turn.get("role") == "function" and calls and not _came(turn.get("content")):
            failed.add(len(calls) - 1)
        elif turn.get("role") == "assistant" and isinstance(asked, dict):
            name, given = text(asked.get("name")), opened(asked.get("arguments"), mend=True)[0]
            if name == FINISH:
                ending = as_dict(given)
            else:
                calls.append((name, {} if given in (None, "") else given))
    answered = ending is not None and text(ending.get("final_answer")).strip()
    if ending is not None and not answered:
        if ending.get("return_type") == "give_up_and_restart":
            raise NotASeed(Reason.UNHELPFUL_ANSWER, "the assistant gives up without an answer.")
        raise NotASeed(Reason.FALSE_API_CALL_FORMAT, f"{FINISH} without a `final_answer`.")
    if not calls:
        raise NotASeed(Reason.NO_API_CALL, "its path calls no API.")
    if not answered or answer.get("valid_data") is False:
        raise NotASeed(Reason.UNHELPFUL_ANSWER, "its path ends without an answer.")
    made = [call for number, call in enumerate(calls) if number not in failed]
    if not made:
        raise NotASeed(Reason.HAS_EXCEPTION, "every call of its path fails.")
    known = _offered(answer)
    for name, given in made:
        if name not in known:
            detail = f"it calls `{name[:80]}`, which it was not offered."
            raise NotASeed(Reason.API_HALLUCINATION, detail)
        if not isinstance(given, dict):
            raise NotASeed(Reason.FALSE_API_CALL_FORMAT, "arguments of its path are not an object.")
    return made


def _offered(answer: JsonObject) -> list[str]:
    """The functions that a tree's model was given."""
    listed = as_list(opened(answer.get("function"))[0])
    return [text(f.get("name")) for f in listed if isinstance(f, dict)]


def _came(content: Any) -> bool:
    """Whether a result holds no error. It is ToolBench's envelope, cut off after 1,024 letters."""
    value, _ = opened(content)
    if isinstance(value, str) and (cut := _CUT.match(value)):
        value = {"error": cut["error"], "response": cut["rest"].strip('"')}
    if not isinstance(value, dict) or not value.get("error"):
        return True
    return value["error"] == _LABEL and value.get("response") not in (None, "")


class Documents:
    """The APIs that queries and tool documents list, by function; each is held once."""

    def __init__(self, apis: Iterable[Api] = ()) -> None:
        self._apis: dict[tuple[str, str], Api] = {}
        self._functions: dict[str, Api] = {}  # the first that was read
        self._queries: dict[str, tuple[Api, ...]] = {}  # by a query's words
        for api in apis:
            if api.source.kind == "toolbench":
                self._keep(api)

    def take(self, row: ForeignRow) -> None:
        """Learn from a row, if it is a query or a tool document."""
        value = row.value
        if isinstance(value, dict) and fits(value):
            found = read(Path(row.place), ImportLog(row.place), document=value)
            kept = tuple(self._keep(api) for api in found)
            if isinstance(value.get("query"), str):
                self._queries[_folded(value["query"])] = kept

    def _keep(self, api: Api) -> Api:
        """What is needed of it: neither its responses nor how it was made."""
        bare = api.model_copy(update={"returns": None, "provenance": ()})
        bare = self._apis.setdefault((api.id, api.function), bare)
        self._functions.setdefault(api.function, bare)
        return bare

    def pool(self, query: str, functions: Iterable[str]) -> dict[str, Api]:
        """The APIs of a tree by function: those of its own query, then of any."""
        found = {api.function: api for api in self._queries.get(_folded(query), ())}
        for name in functions:
            if name not in found and (api := self._functions.get(name)):
                found[name] = api
        return found


def _folded(query: str) -> str:
    return digest(" ".join(query.casefold().split()), 32)


def check_seeds(paths: Iterable[str]) -> None:
    """Raises RecipeError for a path in whose first rows no tree and no document is."""
    for path in paths:
        lost: dict[str, str] = {}
        try:
            found = files(Path(path).expanduser())
        except StoreError as error:
            raise RecipeError(f"rewrite.seeds: {error}") from error
        first = islice(_rows(found, lost), _LOOKED_AT)
        if not any(is_tree(row.value) or fits(row.value) for row in first):
            raise RecipeError(
                f"rewrite.seeds: {path} has neither solution trees (`answer_generation`) nor "
                "queries (`api_list`) of ToolBench. Name its `answer` and `instruction` folders."
                + "".join(f" {why}" for why in islice(lost.values(), 1))
            )


def _rows(found: Iterable[Path], lost: dict[str, str]) -> Iterator[ForeignRow]:
    """The rows of files. One that cannot be read is noted in `lost`; others may be good. Of the
    folders it is in nothing is told: records are published."""
    for file in found:
        try:
            yield from foreign_rows(file)
        except StoreError as error:
            lost[str(file)] = str(error).replace(str(file), file.name)


def tree_seeds(
    paths: Iterable[str],
    plan: SplitPlan,
    stage: str,
    apis: Iterable[Api] = (),
    carry_on: Callable[[], None] = lambda: None,
) -> Iterator[Seed | Rejected]:
    """A seed of each solved tree, or why it is none; files that cannot be read come last.

    The tree knows functions only; category, tool and the API's own name are those that the query
    with the same words lists, else any query or tool document among the files, else an imported API
    of the run (`apis`). Without them a tree is rejected: its category decides its split, and is a
    level of its own. `carry_on` is called for each row, and raises to stop. Raises StoreError for a
    path that is not there.
    """
    known, taken = Documents(apis), Counter[str]()
    found = dict.fromkeys(file for path in paths for file in files(Path(path).expanduser()))
    lost: dict[str, str] = {}

    def rejected(query: str, reason: Reason, detail: str) -> Rejected:
        name = _name(query or detail)
        taken[f"{name} "] += 1  # with a space, which no seed's id has
        record = {"split": "", "seed": {}, "level": "", "text": query[:LONGEST_QUERY]}
        return Rejected.of(record, stage, reason, detail, id=f"{name}-{taken[f'{name} ']}")

    for row in _rows(found, lost):
        carry_on()
        known.take(row)
    for row in _rows(found, lost):
        carry_on()
        if isinstance(row.value, dict) and fits(row.value):
            continue  # a query or a document, which was read before
        query = _query(row.value["answer_generation"] if is_tree(row.value) else {})
        try:
            seed = _seed(row, query, known, plan)
            if seed.id in taken:
                raise NotASeed(Reason.EXACT_DUPLICATE, "another tree solves the same query.")
            taken[seed.id] += 1
            yield seed
        except NotASeed as why:
            yield rejected(query, why.reason, f"{row.place}: {why.detail}")
    for told in lost.values():
        yield rejected("", Reason.NOT_IMPORTED, told)


def _name(told: str) -> str:
    return f"toolbench-{_folded(told)[:12]}"


def _query(tree: JsonObject) -> str:
    """What the user asks: the first user message of the path, without ToolBench's `Begin!`."""
    for path in as_list(tree.get("train_messages")):
        for turn in as_list(path):
            if isinstance(turn, dict) and turn.get("role") == "user":
                return text(turn.get("content")).strip().removesuffix("Begin!").strip()
    return text(tree.get("query")).strip()


def _seed(row: ForeignRow, query: str, known: Documents, plan: SplitPlan) -> Seed:
    """Raises NotASeed."""
    odd = row.fault or excess(row.value)
    if odd or not is_tree(row.value):
        detail = f"no solution tree that can be read. {odd or 'It has no `answer_generation`.'}"
        raise NotASeed(Reason.NOT_IMPORTED, detail)
    calls = solution(row.value["answer_generation"])
    if not 1 < len(query) <= LONGEST_QUERY:
        raise NotASeed(Reason.UNNATURAL_QUERY, f"its query has {len(query):,} letters.")
    if odd := odd_request(query):
        raise NotASeed(Reason.UNNATURAL_QUERY, f"its query {odd}.")
    if control := re.search(r"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f]", query):
        told = f"its query has the control character {control[0]!a}."
        raise NotASeed(Reason.UNNATURAL_QUERY, told)
    pool = known.pool(query, [*_offered(row.value["answer_generation"]), *(n for n, _ in calls)])
    if lost := next((name for name, _ in calls if name not in pool), None):
        raise NotASeed(
            Reason.NOT_IMPORTED,
            f"no query and no tool document tells the category of `{lost}`. Add the file that "
            "lists it to `rewrite.seeds`.",
        )
    intent = [{"api": pool[n].id, "arguments": given, "references": {}} for n, given in calls]
    belongs = {f: {"category": a.category, "tool": a.tool, "name": a.name} for f, a in pool.items()}
    # The calls decide it, and where their APIs belong.
    split = split_of(plan, {"intent": intent, "pool": [*belongs.values()]})
    return Seed(
        id=_name(query),
        split=split,
        hybrid=query,
        steps=tuple(
            Step(category=a.category, tool=a.tool, api=a.name, function=a.function)
            for a in (pool[name] for name, _ in calls)
        ),
        values=values_of(given for _, given in calls),
        pool=tuple(
            api
            for name, api in pool.items()
            if stray(plan, {"intent": (), "pool": [belongs[name]]}, split) is None
        ),
        source="toolbench",
        # Only what the row itself names.
        licence=" ".join(text(first(row.value, "licence", "license")).split())[:60],
    )


# ToolLLaMA's training rows


_FINISH_FUNCTION: JsonObject = {
    "name": FINISH,
    "description": "End the task: give the final answer, or give up and start again.",
    "parameters": {
        "type": "object",
        "properties": {
            "return_type": {"type": "string", "enum": ["give_answer", "give_up_and_restart"]},
            "final_answer": {"type": "string", "description": "The answer the user reads."},
        },
        "required": ["return_type"],
    },
}
_HOW = (
    "Solve the task with the functions below. In each step write a short thought and one call, "
    "in this form:\nThought:\nAction:\nAction Input:\nThen you see what it returns. When the "
    "task is done, or cannot be done, call Finish."
)


def toolllama(sample: Sample, form: base.Arguments) -> base.Exported:
    """A row for each action, with the dialogue before it; a dialogue ends with a call of Finish.

    An assistant that speaks in between is not foreseen.
    """
    first, later = base.first_task(base.spoken(sample.dialogue.messages))
    if later and not any(m.tool_calls for m in first):
        raise base.NotRepresentable("the assistant asks before it calls")
    functions = [_function(api) for api in base.given(sample)]
    parts = [
        base.system_of(sample),
        _HOW,
        f"You have access to these functions: {[*functions, _FINISH_FUNCTION]}",
    ]
    system = {"from": "system", "value": "\n\n".join(part for part in parts if part)}
    turned = [system, {"from": "user", "value": f"\n{first[0].content or ''}\nBegin!\n"}]
    rows: list[tuple[str, JsonObject]] = []
    for turn in _steps(first[1:]):
        turned = [*turned, turn]
        if turn["from"] == "assistant":
            step = {"id": f"Step {len(turned) - 1}: {first[0].content}", "conversations": turned}
            rows.append(("sft", step))
    lost = ["the user's later turns"] if later else []
    if any(len(m.tool_calls) > 1 for m in first):
        lost.append("that calls are made at once")
    return base.Exported(tuple(rows), (*lost, *base.words_beside_calls(first)))


def _function(api: Api) -> JsonObject:
    optional = [name for name in api.properties if name not in api.required]
    parameters = {**api.parameters, "required": list(api.required), "optional": optional}
    return {"name": api.function, "description": api.description, "parameters": parameters}


def _steps(messages: list[Message]) -> Iterator[JsonObject]:
    """Action and result in turn; calls that are made at once follow one another."""
    for message in messages:
        for call in message.tool_calls:
            yield _act(call.function.name, base.arguments(call))
            seen = base.outcome(call, messages)
            value = base.spaced({"error": seen.error or "", "response": seen.response})
            yield {"from": "function", "value": value}
        if message.role == "assistant" and not message.tool_calls:
            ending = {"return_type": "give_answer", "final_answer": message.content or ""}
            yield _act(FINISH, ending)


def _act(name: str, values: JsonObject) -> JsonObject:
    value = f"\nThought: \nAction: {name}\nAction Input: {base.spaced(values)}"
    return {"from": "assistant", "value": value}
