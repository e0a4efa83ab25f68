"""The API agent writes a world: its tables, then one operation a question, then promises from the
documentation alone (the worlds of generated APIs; who writes them by hand reads docs/worlds.md).

An answer is YAML, read with the line of every mistake; the model has one chance to mend them. What
random calls find in the whole is for those who can run it: pipeline/worlds/authoring.py.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any, TypeAlias

import yaml

from toolloom.agents.api import snake
from toolloom.agents.ask import Answer, BadAnswer, Job, ask
from toolloom.pipeline.checks.world.reading import MOST, read_world
from toolloom.pipeline.store.documents import Place, WrittenDocument, read_text
from toolloom.prompts import Prompt, render
from toolloom.schemas import Domain, JsonObject, Reason, WorldError

OPERATIONS = 10  # of a world: more are not asked for
TOLD = 12  # mistakes of an answer that are told to who wrote it
Check: TypeAlias = Callable[["Draft"], None]
"""Raises BadAnswer for a draft that cannot be what it should."""

_FENCE = re.compile(r"```[a-z]*\n(.*?)(?:```|\Z)", re.DOTALL)
_FRAME = ("world", "about", "actor", "entities")


@dataclass
class Draft:
    """A world while it is written, as the YAML of its file: every scalar is a text."""

    frame: JsonObject  # `world`, `about`, `actor`, `entities`
    plan: dict[str, str] = field(default_factory=dict)  # a sentence on each operation, by name
    operations: JsonObject = field(default_factory=dict)
    promises: JsonObject = field(default_factory=dict)
    policies: list[Any] = field(default_factory=list)

    def raw(self) -> JsonObject:
        """The whole file, read."""
        kept = [policy for policy in self.policies if _stands(policy, self.operations)]
        parts = {
            "operations": self.operations,
            "policies": kept,
            "promises": {n: p for n, p in self.promises.items() if n in self.operations},
        }
        return {**self.frame, **parts}

    def text(self) -> str:
        """The file."""
        return _dumped(self.raw())

    def without(self, name: str) -> None:
        """Drop an operation, and what names it."""
        self.operations.pop(name, None)
        for operation in self.operations.values():
            for step in _steps(operation):
                if step.get("fix") == name:
                    del step["fix"]


def _stands(policy: Any, operations: Mapping[str, Any]) -> bool:
    """Whether all operations that a policy names are there."""
    if not isinstance(policy, dict):
        return False
    named = [*_listed(policy.get("calls")), *_listed(policy.get("first"))]
    return all(name in operations for name in named)


def _listed(value: Any) -> list[Any]:
    return value if isinstance(value, list) else []


def _steps(operation: Any) -> Iterable[JsonObject]:
    """The steps of an operation, those of an `each` too."""
    for step in _listed(operation.get("steps")) if isinstance(operation, dict) else ():
        if isinstance(step, dict):
            yield step
            yield from (inner for inner in _listed(step.get("do")) if isinstance(inner, dict))


def _dumped(value: Any) -> str:
    return yaml.safe_dump(value, sort_keys=False, allow_unicode=True, width=110)


# --- questions -------------------------------------------------------------------------------


def _prompt(part: str, domain: Domain, draft: Draft | None = None, **more: Any) -> Prompt:
    nothing = {"plan": (), "name": "", "apis": "", "piece": "", "findings": ()}
    told = {
        "part": part,
        "category": domain.category,
        "domain": domain.name,
        "description": domain.description,
        "entities": "",
        "actor": "",
    }
    if draft:
        told |= {"domain": draft.frame.get("about") or domain.name, "entities": _tables(draft)}
        told["actor"] = draft.frame.get("actor", "")
    return render("world_author", {**nothing, **told, **more})


def _tables(draft: Draft) -> str:
    """The entities without the rows that are written out: what an operation is written for."""
    entities = draft.frame["entities"]
    kept = ("key", "called", "fields", "rules")
    shown = {name: {k: spec[k] for k in kept if k in spec} for name, spec in entities.items()}
    return _dumped({"entities": shown})


def documentation(machine_world: JsonObject, names: Iterable[str]) -> str:
    """What a reader of the API's documentation sees of operations that were read."""
    lines = []
    for name in names:
        spec = machine_world["operations"][name]
        lines.append(f"{name}({', '.join(_argument(*each) for each in spec['args'].items())})")
        lines.append(f"  {spec['about']}")
        lines += [f"  {code}: {error['text']}" for code, error in spec["errors"].items()]
        lines.append(f"  returns {_shape(spec['shape'])}")
    return "\n".join(lines)


def _argument(name: str, kind: Mapping[str, Any]) -> str:
    form = f"-> {kind['entity']}" if kind["type"] == "ref" else kind["type"]
    return f"{name}: {form}{'?' if kind.get('optional') else ''}"


def _shape(kind: Mapping[str, Any]) -> str:
    """The names of what is returned."""
    if kind["type"] == "list":
        return f"a list of {_shape(kind['of'])}"
    if kind["type"] == "object":
        inner = kind["fields"].items()
        return f"[{', '.join(n + _inner(k) for n, k in inner)}]"
    return str(kind["type"])


def _inner(kind: Mapping[str, Any]) -> str:
    return f" {_shape(kind)}" if kind["type"] in ("list", "object") else ""


# --- answers ---------------------------------------------------------------------------------


def _document(text: str) -> WrittenDocument:
    """The YAML of an answer, also in a fence. Raises BadAnswer."""
    fenced = _FENCE.search(text)
    try:
        return read_text(fenced[1] if fenced else text, Path("answer"), WorldError, plain=False)
    except WorldError as error:
        raise BadAnswer(Reason.WORLD_UNSOUND, str(error)) from error


def _refuse(document: WrittenDocument, raw: JsonObject, inside: Place, top: Place = ()) -> None:
    """Raise BadAnswer for the mistakes of a part of a world, `top` of which is the answer's."""

    def fault(place: Place, what: str) -> None:
        if place[: len(inside)] == inside:
            document.fault((*top, *place[len(inside) :]), what)

    read_world(raw, fault)
    _told(document)


def _told(document: WrittenDocument) -> None:
    """Raise BadAnswer for the mistakes of an answer; one that comes again is told once."""
    often = Counter(fault.what for fault in document.faults)
    document.faults = [*{fault.what: fault for fault in reversed(document.faults)}.values()]
    document.faults = [
        replace(fault, what=f"{fault.what} ({often[fault.what]} times)")
        if often[fault.what] > 1
        else fault
        for fault in document.faults
    ]
    if lines := document.mistakes():
        raise BadAnswer(Reason.WORLD_UNSOUND, "\n".join(lines[: TOLD + 1]))


def _mapping(document: WrittenDocument) -> JsonObject:
    if not isinstance(document.value, dict):
        document.fault((), "A mapping is needed here, with nothing before or behind it.")
        _told(document)
    found: JsonObject = document.value
    return found


def read_tables(text: str, domain: Domain) -> Draft:
    """Tables and plan. Raises BadAnswer."""
    document = _document(text)
    value = _mapping(document)
    frame = {key: value[key] for key in _FRAME if key in value}
    frame["world"] = snake(str(value.get("world", ""))) or snake(domain.name) or "world"
    for key in value.keys() - {*_FRAME, "plan"}:
        document.fault((key,), "is not asked for: answer with world, about, actor, entities, plan.")
    if not isinstance(value.get("entities"), dict) or not value["entities"]:
        document.fault(("entities",), "A mapping of 3 to 6 entities is needed.")
        _told(document)
    plan = value.get("plan")
    if not isinstance(plan, dict) or len(plan) < 3:
        document.fault(
            ("plan",), "A mapping of 8 to 10 operations, each with a sentence, is needed."
        )
        plan = {}
    bare = {"about": "x"}
    named = dict.fromkeys(plan, bare)
    _refuse(document, {**frame, "operations": named}, ("operations",), ("plan",))
    _refuse(document, {**frame, "operations": {}}, ())
    extra = {"category": domain.category or frame["world"], "tool": frame["world"]}
    draft = Draft({"world": frame["world"], **extra, **frame})
    draft.plan = {name: " ".join(str(line).split()) for name, line in plan.items()}
    return draft


def read_operation(text: str, draft: Draft, name: str) -> JsonObject:
    """An operation as it is written. Raises BadAnswer."""
    document = _document(text)
    value = _mapping(document)
    top: Place = ()
    for key in ("operations", name):  # some answer with its name around it
        if set(value) == {key} and isinstance(value[key], dict):
            value, top = value[key], (*top, key)
    planned = {each: {"about": "Comes yet."} for each in draft.plan}  # what a `fix` may name
    with_it = {**planned, **draft.operations, name: value}
    _refuse(document, {**draft.frame, "operations": with_it}, ("operations", name), top)
    return value


@dataclass
class PromiseReader:
    """Reads promises and policies: strictly at first, at last without those that cannot be read."""

    draft: Draft
    wanted: Collection[str]  # operations: what others promise is settled
    strict: int  # answers that have to be right
    dropped: list[str] = field(default_factory=list)

    def __call__(self, text: str) -> tuple[JsonObject, list[Any]]:
        document = _document(text)
        value = _mapping(document)
        promises = value.get("promises", value)
        promises = promises if isinstance(promises, dict) else {}
        promises = {n: p for n, p in promises.items() if n in self.wanted}
        policies = _listed(value.get("policies"))
        whole = {**self.draft.frame, "operations": self.draft.operations}
        faulty: set[Place] = set()
        for part in ("promises", "policies"):
            raw = {**whole, "promises": promises, "policies": policies}
            read_world(raw, partial(self._note, document, faulty, part))
        for name in sorted(set(self.wanted) - promises.keys()):
            document.fault(("promises",), f"`{name}` has none.")
        self.strict -= 1
        if self.strict >= 0:
            _told(document)
        self.dropped = [" ".join(document.mistakes()[1:])] if document.faults else []
        return (
            {n: p for n, p in promises.items() if ("promises", n) not in faulty},
            [p for at, p in enumerate(policies) if ("policies", at) not in faulty],
        )

    @staticmethod
    def _note(
        document: WrittenDocument, faulty: set[Place], part: str, place: Place, what: str
    ) -> None:
        if place[:1] == (part,):
            faulty.add(tuple(place[:2]))
            document.fault(place, what)


def read_mended(text: str, draft: Draft, name: str) -> tuple[JsonObject, JsonObject]:
    """An operation and its promise. Raises BadAnswer."""
    document = _document(text)
    value = _mapping(document)
    for key in ("operation", "promise"):
        if not isinstance(value.get(key), dict):
            document.fault((), f"`{key}:` is needed, a mapping.")
            _told(document)
    operation, promise = value["operation"], value["promise"]
    operation, promise = operation.get(name, operation), promise.get(name, promise)
    raw = {**draft.frame, "operations": {**draft.operations, name: operation}}
    _refuse(document, raw, ("operations", name), ("operation",))
    _refuse(document, {**raw, "promises": {name: promise}}, ("promises", name), ("promise",))
    return operation, promise


# --- the only awaits -------------------------------------------------------------------------


async def tables(domain: Domain, job: Job, check: Check) -> Answer[Draft]:
    """What the world holds, and what its API is to do. Raises NoUsableAnswer."""

    def read(text: str) -> Draft:
        draft = read_tables(text, domain)
        check(draft)
        return draft

    return await ask(job.model, _prompt("tables", domain), read, seed=job.seed, max_tokens=6000)


async def operation(domain: Domain, draft: Draft, name: str, job: Job) -> Answer[JsonObject]:
    """One operation of the plan. Raises NoUsableAnswer."""
    prompt = _prompt("operation", domain, draft, name=name, plan=list(draft.plan.items()))
    return await ask(
        job.model,
        prompt,
        lambda text: read_operation(text, draft, name),
        seed=job.seed,
        max_tokens=1500,
    )


async def promises(
    domain: Domain, draft: Draft, names: Collection[str], apis: str, job: Job, strict: bool = True
) -> Answer[tuple[JsonObject, list[Any]]]:
    """Promises of these operations, whose documentation is told, and policies; unless `strict`,
    those that can be read, without a second question. Raises NoUsableAnswer."""
    reader = PromiseReader(draft, names, job.model.endpoint.candidates if strict else 0)
    prompt = _prompt("promises", domain, draft, apis=apis)
    return await ask(job.model, prompt, reader, seed=job.seed, max_tokens=6000)


async def mended(
    domain: Domain, draft: Draft, name: str, findings: Sequence[str], job: Job
) -> Answer[tuple[JsonObject, JsonObject]]:
    """An operation and its promise, after what random calls found. Raises NoUsableAnswer."""
    piece = _dumped({"operation": draft.operations[name], "promise": draft.promises.get(name, {})})
    return await ask(
        job.model,
        _prompt("mend", domain, draft, piece=piece, findings=list(findings)),
        lambda text: read_mended(text, draft, name),
        seed=job.seed,
        max_tokens=2500,
    )


assert MOST["operations"] >= OPERATIONS
