"""The API agent writes a world: its tables, then one operation a question, then promises from the
documentation alone (who writes them by hand reads docs/worlds.md); and scripts of its dialogues.

An answer is YAML, read with the line of every mistake; the model has one chance to mend them. A
world that is written from an API's document keeps the signatures and words of its operations. What
random calls find in the whole is for those who can run it: pipeline/worlds/authoring.py.
"""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml

from toolloom.agents.api import snake
from toolloom.agents.ask import Answer, BadAnswer, Job, ask
from toolloom.pipeline.checks.schema import as_dict
from toolloom.pipeline.checks.world.grammar import near, said
from toolloom.pipeline.checks.world.reading import read_world
from toolloom.pipeline.checks.world.signatures import unlike
from toolloom.pipeline.store.documents import Place, read_text
from toolloom.prompts import Prompt, render
from toolloom.schemas import Api, Domain, JsonObject, Reason, WorldError, canonical

OPERATIONS = 10  # of a world: more are not asked for
SENTENCE = 200  # characters of a description in a document's list
TOLD = 12  # mistakes of an answer that are told to who wrote it
_FENCE = re.compile(r"```[a-z]*\n(.*?)(?:```|\Z)", re.DOTALL)
_FRAME = ("world", "about", "currency", "actor", "entities")


@dataclass
class Draft:
    """A world while it is written, as the YAML of its file: every scalar is a text."""

    frame: JsonObject  # `world`, `about`, `currency`, `actor`, `entities`
    plan: dict[str, str] = field(default_factory=dict)  # a sentence on each operation, by name
    operations: JsonObject = field(default_factory=dict)
    promises: JsonObject = field(default_factory=dict)
    policies: list[Any] = field(default_factory=list)
    document: Mapping[str, Api] = field(default_factory=dict)  # operations that it keeps to
    left: dict[str, str] = field(default_factory=dict)  # those that have no place in it, and why

    def raw(self) -> JsonObject:
        """The whole file, read; promises and policies name the operations that are there. A policy
        goes with the last of those that it is about, or that may come first."""
        policies = []
        for policy in self.policies:
            named = {key: _listed(policy, key) for key in ("calls", "first") if key in policy}
            left = {k: [n for n in names if n in self.operations] for k, names in named.items()}
            if all(left[key] for key in named if named[key]):
                policies.append({**policy, **left})
        return {
            **self.frame,
            "operations": self.operations,
            "policies": policies,
            "promises": {n: p for n, p in self.promises.items() if n in self.operations},
        }

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
    found = as_dict(value).get(key)
    return found if isinstance(found, list) else []


def dumped(value: Any) -> str:
    """A world or a part of it as the text of a file."""
    return yaml.safe_dump(value, sort_keys=False, allow_unicode=True, width=110)


# --- questions -------------------------------------------------------------------------------


def _prompt(part: str, domain: Domain, draft: Draft | None = None, **more: Any) -> Prompt:
    told: JsonObject = {"plan": (), "name": "", "apis": "", "piece": "", "findings": ()}
    told |= {"category": domain.category, "domain": domain.name, "entities": "", "actor": ""}
    told |= {"description": domain.description, "document": ""}
    if draft:
        # The entities without the rows that are written out: what an operation is written for.
        kept = ("key", "called", "fields", "rules")
        entities = draft.frame["entities"].items()
        shown = {name: {k: spec[k] for k in kept if k in spec} for name, spec in entities}
        told |= {"domain": draft.frame.get("about") or domain.name}
        told |= {"entities": dumped({"entities": shown}), "actor": draft.frame.get("actor", "")}
        if api := draft.document.get(more.get("name", "")):
            schemas = {"parameters": api.parameters, "returns": api.returns}
            told["document"] = f"{api.description}\n{canonical(schemas)}"
    return render("world_author", {"part": part, **told, **more})


def documentation(spec: JsonObject, names: Iterable[str]) -> str:
    """What a reader of the API's documentation sees of operations that were read."""
    lines = []
    for name in names:
        operation = spec["operations"][name]
        arguments = [
            f"{argument}{'?' * bool(kind.get('optional'))}: {said(kind)}"
            for argument, kind in operation["args"].items()
        ]
        lines += [f"{name}({', '.join(arguments)})", f"  {operation['about']}"]
        lines += [f"  {code}: {error['text']}" for code, error in operation["errors"].items()]
        lines.append(f"  returns {_shape(operation['shape'])}")
    return "\n".join(lines)


def offered(document: Mapping[str, Api]) -> str:
    """A line on each operation of a document; a response that several return is told once."""
    lines, seen = list[str](), dict[str, str]()
    for name, api in document.items():
        found = as_dict((api.returns or {}).get("items")) or api.returns or {}
        fields = ", ".join(as_dict(found.get("properties")))
        same = seen.setdefault(fields, name)
        shown = f" Returns {fields if same == name else f'the same as {same}'}" if fields else ""
        takes = ", ".join(f"{each}{'?' * (each not in api.required)}" for each in api.properties)
        lines.append(f"{name}({takes}): {api.description[:SENTENCE]}{shown}")
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


class Reply:
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


def read_tables(text: str, domain: Domain, document: Mapping[str, Api]) -> Draft:
    """Tables and plan, which is made of the document's operations if there is one. Raises
    BadAnswer."""
    reply = Reply(text)
    value = reply.value
    left = value.pop("left_out", None) if document else None
    fewest = min(3, len(document)) if document else 3
    frame = {key: value[key] for key in _FRAME if key in value}
    frame["world"] = snake(str(value.get("world", ""))) or snake(domain.name) or "world"
    for key in value.keys() - {*_FRAME, "plan"}:
        reply.fault((key,), f"is not asked for: answer with {', '.join((*_FRAME, 'plan'))}.")
    if not as_dict(value.get("entities")):
        reply.fault(("entities",), "A mapping of 3 to 6 entities is needed.")
        reply.refuse()
    plan = as_dict(value.get("plan"))
    if len(plan) < fewest:
        reply.fault(("plan",), "A mapping of 8 to 10 operations, each with a sentence, is needed.")
        plan = {}
    for name in plan:
        if document and name not in document:
            reply.fault(("plan", name), f"is not in the document{near(str(name), document)}.")
    named = {name: {"about": "x"} for name in plan}
    reply.check({**frame, "operations": named}, ("operations",), ("plan",))
    reply.check({**frame, "operations": {}}, ())
    extra = {"category": domain.category or frame["world"], "tool": frame["world"]}
    if api := next(iter(document.values()), None):
        extra = {"category": api.category, "tool": api.tool}
    draft = Draft({"world": frame["world"], **extra, **frame}, document=document)
    why = {n: " ".join(str(line).split()) for n, line in as_dict(left).items()}
    draft.left = {n: why.get(n, "the model chose others") for n in document if n not in plan}
    draft.plan = {name: " ".join(str(line).split()) for name, line in plan.items()}
    return draft


def read_operation(text: str, draft: Draft, name: str) -> JsonObject:
    """An operation as it is written. Raises BadAnswer."""
    reply = Reply(text)
    value, top = reply.value, tuple[str | int, ...]()
    for key in ("operations", name):  # some answer with its name around it
        if set(value) == {key} and isinstance(value[key], dict):
            value, top = value[key], (*top, key)
    planned = {each: {"about": "Comes yet."} for each in draft.plan}  # what a `fix` may name
    with_it = {**planned, **draft.operations, name: value}
    reply.check({**draft.frame, "operations": with_it}, ("operations", name), top)
    return _documented(reply, draft, name, value, top)


def _documented(
    reply: Reply, draft: Draft, name: str, operation: JsonObject, top: Place
) -> JsonObject:
    """An operation with what its document says of it, before the author's words. Raises BadAnswer
    for another signature than the document's."""
    api = draft.document.get(name)
    if api is None:
        return operation
    raw = {**draft.frame, "operations": {name: operation}}
    read = read_world(raw, lambda *_: None)["operations"][name]
    takes = {"type": "object", "fields": read["args"]}
    for what in unlike(takes, {"properties": {}, **api.parameters}, "args", taken=True):
        reply.fault((*top, "args"), what)
    for what in unlike(read["shape"], api.returns or {}, "returns"):
        reply.fault((*top, "returns"), what)
    reply.refuse()
    about, args = str(operation["about"]), dict(operation.get("args") or {})
    for each, form in args.items():
        words = " ".join(str(api.properties[each].get("description", "")).split())
        if words and isinstance(form, dict):
            args[each] = {"about": words, **form}
        elif words and " -- " not in form:
            args[each] = f"{form} -- {words}"
    if not about.startswith(api.description):
        stop = "" if api.description.endswith((".", "!", "?", ":")) else "."
        about = f"{api.description}{stop} {about}"
    return {**operation, "about": about, **({"args": args} if args else {})}


def read_promises(
    text: str, draft: Draft, wanted: Collection[str], strict: bool
) -> tuple[JsonObject, list[Any]]:
    """Promises of these operations, as what others promise is settled, and policies; unless
    `strict`, without those that cannot be read. Raises BadAnswer."""
    reply = Reply(text)
    written = as_dict(reply.value.get("promises", reply.value))
    promises = {n: p for n, p in written.items() if n in wanted}
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
    reply = Reply(text)
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
    kept = {**draft.raw(), "operations": raw["operations"]}  # a policy may name an argument of it
    reply.check(kept, ("policies",), ("operation",))
    return _documented(reply, draft, name, operation, ("operation",)), promise


# --- the only awaits -------------------------------------------------------------------------


async def tables(
    domain: Domain, job: Job, check: Callable[[Draft], None], document: Mapping[str, Api]
) -> Answer[Draft]:
    """What the world holds, and what its API is to do: what the document says, if there is one.
    `check` raises BadAnswer for a draft that cannot be what it should. Raises NoUsableAnswer."""

    def read(text: str) -> Draft:
        draft = read_tables(text, domain, document)
        check(draft)
        return draft

    prompt = _prompt("tables", domain, apis=offered(document))
    # Without tables there is no world: form first, then what cannot be drawn.
    return await ask(job.model, prompt, read, seed=job.seed, max_tokens=6000, mends=3)


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
    piece = dumped({"operation": draft.operations[name], "promise": draft.promises.get(name, {})})
    return await ask(
        job.model,
        _prompt("mend", domain, draft, piece=piece, name=name, findings=list(findings)),
        lambda text: read_mended(text, draft, name),
        seed=job.seed,
        max_tokens=2500,
    )


async def script(
    draft: Draft,
    spec: JsonObject,
    dialogue: str,
    job: Job,
    check: Callable[[Reply], Awaitable[JsonObject]],
) -> Answer[JsonObject]:
    """A script of a solved task in a world, which is shown as a dialogue without words. Raises
    NoUsableAnswer."""
    apis, rules = documentation(spec, spec["operations"]), [p["says"] for p in spec["policies"]]
    domain = Domain(category="", name=spec["name"])
    prompt = _prompt("script", domain, draft, apis=apis, findings=rules, piece=dialogue)
    return await ask(
        job.model, prompt, lambda text: check(Reply(text)), seed=job.seed, max_tokens=2500
    )
