"""The arguments of an operation: its parameters and its body as one object's properties."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterator
from typing import Any, NamedTuple

from toolloom.pipeline.formats.importers.dialect import Scoped, opened
from toolloom.pipeline.formats.importers.ledger import ImportLog
from toolloom.pipeline.formats.importers.prose import legible
from toolloom.pipeline.formats.importers.references import Resolve, settled
from toolloom.schemas import JsonObject

IGNORED_HEADERS = {"accept", "authorization", "content-type"}
"""OpenAPI 3.1, section 4.8.12.1: parameters of these names shall be ignored."""
_MOST = 2_000  # parameters or properties of one operation
_TOLD = 10  # examples in a note
_JSON = re.compile(r"(?:application|text)/(?:[\w.+-]+\+)?json\s*(?:;.*)?", re.I)
_FORMS = ("application/x-www-form-urlencoded", "multipart/form-data")
_IN_PATH = re.compile(r"\{([^{}/?]{1,100})\}")


class OpenApiOperation(NamedTuple):
    """One method of one path."""

    method: str
    path: str
    own: dict[str, Any]
    shared: Any  # the parameters of its path
    resolve: Resolve
    shared_resolve: Resolve
    swagger: bool  # version 2

    @property
    def called(self) -> str:
        return f"{self.method.upper()} {legible(self.path[:300])}"


class Remarks:
    """What happens in many operations of a file and is said in one note each."""

    def __init__(self) -> None:
        self._found: dict[str, list[str]] = defaultdict(list)

    def add(self, what: str, where: str) -> None:
        self._found[what].append(legible(where[:200]))

    def book(self, ledger: ImportLog) -> None:
        for what, places in self._found.items():
            more = f" and {len(places) - _TOLD} more" if len(places) > _TOLD else ""
            ledger.note(f"{what}: {'; '.join(places[:_TOLD])}{more}.")


class _Arguments:
    """Arguments under names of their own."""

    def __init__(self, called: str, remarks: Remarks) -> None:
        self.properties: dict[str, Scoped] = {}
        self.required: list[str] = []
        self._called = called
        self._remarks = remarks

    def add(self, name: str, schema: Scoped, where: str, required: bool) -> None:
        """Of two places that use a name the later one gets its own: `id` and `id_query`."""
        free, number = name, 2
        while free in self.properties:
            free = f"{name}_{where}" if number == 2 else f"{name}_{where}{number - 1}"
            number += 1
        if free != name:
            self._remarks.add(
                "Arguments with another name than in the source, where two places use one name",
                f"{self._called}: `{name}` of the {where} is `{free}`",
            )
        self.properties[free] = schema
        if required:
            self.required.append(free)


def request(operation: OpenApiOperation, ledger: ImportLog, remarks: Remarks) -> JsonObject:
    """An object schema whose properties are Scoped: path, query, header, then the body's."""
    arguments = _Arguments(operation.called, remarks)
    body: tuple[Scoped, str, bool] | None = None
    for found, resolve in _parameters(operation):
        where = _word(found.get("in")) or ("path" if _is_in_path(found, operation) else "query")
        if where == "body":
            required = found.get("required") is not False
            body = Scoped(found.get("schema"), resolve), _word(found.get("description")), required
        elif _is_argument(found, where, operation, remarks):
            schema = Scoped(_schema(found, resolve, operation.swagger), resolve)
            required = where == "path" or found.get("required") is True
            arguments.add(found["name"], schema, _WHERE.get(where, where[:20]), required)
    _undescribed(operation, arguments, remarks)
    body = body or _request_body(operation)
    closed = _spread(*body, arguments, ledger) if body else False
    whole: JsonObject = {"type": "object", "properties": arguments.properties}
    whole["required"] = arguments.required
    return {**whole, "additionalProperties": False} if closed else whole


_WHERE = {"formData": "form", "querystring": "query"}


def _parameters(operation: OpenApiOperation) -> Iterator[tuple[dict[str, Any], Resolve]]:
    """The operation's own parameters replace those of its path with the same name and place."""
    chosen: dict[tuple[Any, ...], tuple[dict[str, Any], Resolve]] = {}
    given = (
        (operation.shared, operation.shared_resolve),
        (operation.own.get("parameters"), operation.resolve),
    )
    for parameters, resolve in given:
        if isinstance(parameters, dict):  # as Swagger 2 keeps them under `definitions`
            parameters = list(parameters.values())
        for each in parameters[:_MOST] if isinstance(parameters, list) else ():
            found, inner = settled(each, resolve, operation.called)
            if isinstance(found, dict):
                where = _word(found.get("in"))
                key = (where,) if where == "body" else (where, _word(found.get("name")))
                chosen[key] = (found, inner)
    yield from chosen.values()


def _is_in_path(found: dict[str, Any], operation: OpenApiOperation) -> bool:
    return f"{{{_word(found.get('name'))}}}" in operation.path


def _word(value: Any) -> str:
    """Only a text: writing anything else out may take forever, as aliases of YAML multiply."""
    return value if isinstance(value, str) else ""


def _is_argument(
    found: dict[str, Any], where: str, operation: OpenApiOperation, remarks: Remarks
) -> bool:
    name = found.get("name")
    if not isinstance(name, str) or not name:
        remarks.add("Parameters without a name are left out", operation.called)
        return False
    if where == "header" and name.lower() in IGNORED_HEADERS:
        return False
    if where == "cookie":
        remarks.add("Cookies are left out", f"`{legible(name)[:80]}` of {operation.called}")
        return False
    return True


def _schema(found: dict[str, Any], resolve: Resolve, swagger: bool) -> dict[str, Any]:
    """A parameter's schema with what stands beside it: description, example, deprecated."""
    inner = found.get("schema")
    content = found.get("content")
    if inner is None and isinstance(content, dict) and content:
        media = next(iter(content.values()))
        inner = media.get("schema") if isinstance(media, dict) else None
    if isinstance(inner, dict):
        schema = dict(inner)
    elif swagger or inner is None:  # the parameter is its own schema
        schema = {k: v for k, v in found.items() if k not in ("required", "schema", "content")}
    else:
        schema = {}
    for key in ("description", "example"):
        if isinstance(found.get(key), str | int | float) and found[key] != "":
            schema[key] = found[key]
    several = found.get("examples")
    if isinstance(several, dict) and several:
        first, _ = settled(next(iter(several.values())), resolve, "examples")
        if isinstance(first, dict) and "value" in first:
            schema.setdefault("example", first["value"])
    if found.get("deprecated") is True:
        schema["deprecated"] = True
    return schema


def _undescribed(operation: OpenApiOperation, arguments: _Arguments, remarks: Remarks) -> None:
    """A path that cannot be built without a value nobody described."""
    for name in _IN_PATH.findall(operation.path[:2_000]):
        if name not in arguments.properties:
            remarks.add(
                "Path parameters the source does not describe are taken as texts",
                f"`{legible(name)}` of {operation.called}",
            )
            text = Scoped({"type": "string"}, operation.resolve)
            arguments.add(name, text, "path", True)


def _request_body(operation: OpenApiOperation) -> tuple[Scoped, str, bool] | None:
    """Schema, description and whether it is needed. Most sources that say nothing need it."""
    found, resolve = settled(operation.own.get("requestBody"), operation.resolve, operation.called)
    if not isinstance(found, dict):
        return None
    _, media = preferred(found.get("content"))
    if media is None:
        return None
    media, resolve = settled(media, resolve, operation.called)
    schema = media.get("schema") if isinstance(media, dict) else None
    required = found.get("required") is not False
    return Scoped(schema, resolve), _word(found.get("description")), required


def preferred(content: Any) -> tuple[str, Any]:
    """Of several media types JSON, then forms, then what comes first."""
    if not isinstance(content, dict) or not content:
        return "", None
    names = [name for name in content if isinstance(name, str)]
    ranked = [name for name in names if is_json(name)]
    ranked += [name for form in _FORMS for name in names if name.lower().startswith(form)]
    chosen = (ranked or names or [""])[0]
    return chosen, content.get(chosen)


def is_json(media: str) -> bool:
    return len(media) < 200 and (media == "*/*" or _JSON.fullmatch(media) is not None)


def _spread(
    body: Scoped, text: str, required: bool, arguments: _Arguments, ledger: ImportLog
) -> bool:
    """The properties of an object become arguments, any other body is `body`.

    Returns whether nothing else may be given.
    """
    own = opened(body, ledger)
    named = {k: v for k, v in own.get("properties", {}).items() if isinstance(k, str) and k}
    if not named:
        schema = body.schema if isinstance(body.schema, dict) else {}
        whole = {**schema, "description": text} if text else schema
        arguments.add("body", body._replace(schema=whole), "body", required)
        return False
    needed = set(own.get("required", ())) if required else set()
    for group in own.get("groups", ()):
        for variant in group[:8]:
            for name, each in opened(variant, ledger).get("properties", {}).items():
                if isinstance(name, str) and name:
                    named.setdefault(name, each)
    for name, each in list(named.items())[:_MOST]:
        arguments.add(name, each, "body", name in needed)
    return own.get("additionalProperties") is False
