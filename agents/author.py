"""The API agent writes a world: its tables, then one operation a question, then promises from the
documentation alone (the worlds of generated APIs; who writes them by hand reads docs/worlds.md).

An answer is YAML, read with the line of every mistake; the model has one chance to mend them. What
random calls find in the whole is for those who can run it: pipeline/worlds/authoring.py.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeAlias

import yaml

from toolloom.agents.api import snake
from toolloom.agents.ask import Answer, BadAnswer, Job, ask
from toolloom.pipeline.checks.world.reading import MOST, read_world
from toolloom.pipeline.store.documents import Place, read_text
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
        """The whole file, read; without policies and promises of operations that are not there."""

        def stands(policy: Any) -> bool:
            named = [*_listed(policy, "calls"), *_listed(policy, "first")]
            return isinstance(policy, dict) and all(name in self.operations for name in named)

        return {
            **self.frame,
            "operations": self.operations,
            "policies": [policy for policy in self.policies if stands(policy)],
            "promises": {n: p for n, p in self.promises.items() if n in self.operations},
        }

    def text(self) -> str:
        """The file."""
        return _dumped(self.raw())

    def without(self, name: str) -> None:
        """Drop an operation, and what names it."""
        self.operations.pop(name, None)
        for operation in self.operations.values():
            for step in _listed(operation, "steps"):
                for each in (step, *_listed(step, "do")):
                    if isinstance(each, dict) and each.get("fix") == name:
                        del each["fix"]


def _listed(value: Any, key: str) -> list[Any]:
    """The list under a key of what a model wrote; none if it is no mapping, or that no list."""
    found = value.get(key) if isinstance(value, dict) else None
    return found if isinstance(found, list) else []


def _dumped(value: Any) -> str:
    return yaml.safe_dump(value, sort_keys=False, allow_unicode=True, width=110)


# --- questions -------------------------------------------------------------------------------


def _prompt(part: str, domain: Domain, draft: Draft | None = None, **more: Any) -> Prompt:
    told: JsonObject = {"plan": (), "name": "", "apis": "", "piece": "", "findings": ()}
    told |= {"category": domain.category, "domain": domain.name, "entities": "", "actor": ""}
    told["description"] = domain.description
    if draft:
        # The entities without the rows that are written out: what an operation is written for.
        kept = ("key", "called", "fields", "rules")
        entities = draft.frame["entities"].items()
        shown = {name: {k: spec[k] for k in kept if k in spec} for name, spec in entities}
        told |= {"domain": draft.frame.get("about") or domain.name}
        told |= {"entities": _dumped({"entities": shown}), "actor": draft.frame.get("actor", "")}
    return render("world_author", {"part": part, **told, **more})


def documentation(spec: JsonObject, names: Iterable[str]) -> str:
    """What a reader of the API's documentation sees of operations that were read."""
    lines = []
    for name in names:
        operation = spec["operations"][name]
        arguments = [
            f"{argument}: {'-> ' * ('entity' in kind)}{kind.get('entity', kind['type'])}"
            f"{'?' * bool(kind.get('optional'))}"
            for argument, kind in operation["args"].items()
        ]
        lines += [f"{name}({', '.join(arguments)})", f"  {operation['about']}"]
        lines += [f"  {code}: {error['text']}" for code, error in operation["errors"].items()]
        lines.append(f"  returns {_shape(operation['shape'])}")
    return "\n".join(lines)


def _shape(kind: Mapping[str, Any]) -> str:
    """The names of what is returned."""
    if kind["type"] == "list":
        return f"a list of {_shape(kind['of'])}"
    if kind["type"] != "object":
        return str(kind["type"])
    parts = (
        f"{name} {_shape(inner)}" if inner["type"] in ("list", "object") else name
        for name, inner in kind["fields"].items()
    )
    return f"[{', '.join(parts)}]"


# --- answers ---------------------------------------------------------------------------------


class _Reply:
    """An answer as YAML, also in a fence, with its mistakes. Raises BadAnswer for what is none."""

    def __init__(self, text: str) -> None:
        fenced = _FENCE.search(text)
        try:
            self.document = read_text(
                fenced[1] if fenced else text, Path("answer"), WorldError, plain=False
            )
        except WorldError as error:
            raise BadAnswer(Reason.WORLD_UNSOUND, str(error)) from error
        self.fault = self.document.fault
        if not isinstance(self.document.value, dict):
            self.fault((), "A mapping is needed here, with nothing before or behind it.")
            self.refuse()
        self.value: JsonObject = self.document.value

    def check(self, raw: JsonObject, inside: Place, top: Place = ()) -> None:
        """Find the mistakes of a part of a world, `top` of which is the answer's."""

        def fault(place: Place, what: str) -> None:
            if place[: len(inside)] == inside:
                self.fault((*top, *place[len(inside) :]), what)

        read_world(raw, fault)
        self.refuse()

    def refuse(self) -> None:
        """Raise BadAnswer for the mistakes so far; one that comes again is told once."""
        document = self.document
        first = {fault.what: fault for fault in reversed(document.faults)}
        document.faults = [fault for fault in document.faults if first[fault.what] is fault]
        if lines := document.mistakes():
            raise BadAnswer(Reason.WORLD_UNSOUND, "\n".join(lines[: TOLD + 1]))


def read_tables(text: str, domain: Domain) -> Draft:
    """Tables and plan. Raises BadAnswer."""
    reply = _Reply(text)
    value = reply.value
    frame = {key: value[key] for key in _FRAME if key in value}
    frame["world"] = snake(str(value.get("world", ""))) or snake(domain.name) or "world"
    for key in value.keys() - {*_FRAME, "plan"}:
        reply.fault((key,), "is not asked for: answer with world, about, actor, entities, plan.")
    if not isinstance(value.get("entities"), dict) or not value["entities"]:
        reply.fault(("entities",), "A mapping of 3 to 6 entities is needed.")
        reply.refuse()
    plan = value.get("plan")
    if not isinstance(plan, dict) or len(plan) < 3:
        reply.fault(("plan",), "A mapping of 8 to 10 operations, each with a sentence, is needed.")
        plan = {}
    named = {name: {"about": "x"} for name in plan}
    reply.check({**frame, "operations": named}, ("operations",), ("plan",))
    reply.check({**frame, "operations": {}}, ())
    extra = {"category": domain.category or frame["world"], "tool": frame["world"]}
    draft = Draft({"world": frame["world"], **extra, **frame})
    draft.plan = {name: " ".join(str(line).split()) for name, line in plan.items()}
    return draft


def read_operation(text: str, draft: Draft, name: str) -> JsonObject:
    """An operation as it is written. Raises BadAnswer."""
    reply = _Reply(text)
    value, top = reply.value, tuple[str | int, ...]()
    for key in ("operations", name):  # some answer with its name around it
        if set(value) == {key} and isinstance(value[key], dict):
            value, top = value[key], (*top, key)
    planned = {each: {"about": "Comes yet."} for each in draft.plan}  # what a `fix` may name
    with_it = {**planned, **draft.operations, name: value}
    reply.check({**draft.frame, "operations": with_it}, ("operations", name), top)
    return value


def read_promises(
    text: str, draft: Draft, wanted: Collection[str], strict: bool
) -> tuple[JsonObject, list[Any]]:
    """Promises of these operations, as what others promise is settled, and policies; unless
    `strict`, without those that cannot be read. Raises BadAnswer."""
    reply = _Reply(text)
    promises = reply.value.get("promises", reply.value)
    promises = promises if isinstance(promises, dict) else {}
    promises = {n: p for n, p in promises.items() if n in wanted}
    policies = _listed(reply.value, "policies")
    faulty: set[Place] = set()

    def fault(place: Place, what: str) -> None:
        if place[:1] in (("promises",), ("policies",)):
            faulty.add(tuple(place[:2]))
            reply.fault(place, what)

    whole = {**draft.frame, "operations": draft.operations}
    read_world({**whole, "promises": promises, "policies": policies}, fault)
    for name in sorted(set(wanted) - promises.keys()):
        reply.fault(("promises",), f"`{name}` has none.")
    if strict:
        reply.refuse()
    return (
        {n: p for n, p in promises.items() if ("promises", n) not in faulty},
        [p for at, p in enumerate(policies) if ("policies", at) not in faulty],
    )


def read_mended(text: str, draft: Draft, name: str) -> tuple[JsonObject, JsonObject]:
    """An operation and its promise. Raises BadAnswer."""
    reply = _Reply(text)
    parts = []
    for key in ("operation", "promise"):
        part = reply.value.get(key)
        if not isinstance(part, dict):
            reply.fault((), f"`{key}:` is needed, a mapping.")
            reply.refuse()
            continue
        parts.append(part.get(name, part))
    operation, promise = parts
    raw = {**draft.frame, "operations": {**draft.operations, name: operation}}
    reply.check(raw, ("operations", name), ("operation",))
    reply.check({**raw, "promises": {name: promise}}, ("promises", name), ("promise",))
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
    """Promises of these operations, whose documentation is told, and policies: right at first, at
    last those that can be read, which are all that count unless `strict`. Raises
    NoUsableAnswer."""
    left = job.model.endpoint.candidates if strict else 0  # answers that have to be right

    def read(text: str) -> tuple[JsonObject, list[Any]]:
        nonlocal left
        left -= 1
        return read_promises(text, draft, names, left >= 0)

    prompt = _prompt("promises", domain, draft, apis=apis)
    return await ask(job.model, prompt, read, seed=job.seed, max_tokens=6000)


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
