"""OpenAPI 3 and Swagger 2, from a file that may refer to others beside it.

An operation's path, query, header and body become the properties of one object.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

from toolloom.pipeline.formats import keywords
from toolloom.pipeline.formats.files import UNREAD, load
from toolloom.pipeline.formats.import_log import ImportLog, legible, sentence, shortened
from toolloom.pipeline.formats.intake import Seen, reference
from toolloom.pipeline.formats.json_schema import (
    RETURNS,
    Scoped,
    arguments,
    keywords_of,
    plain,
    schema_of,
)
from toolloom.pipeline.formats.references import Resolve, Resolver, settled
from toolloom.schemas import Api, ImportFailed, JsonObject, Source

METHODS = ("get", "post", "put", "patch", "delete", "head", "options", "trace", "query")
_TEXT, _NAME, _SHORT = 1_024, 200, 100
_EXAMPLE, _PARTS = 20_000, 2_000  # characters and values of an example that is read as a schema


def fits(document: Any) -> bool:
    """Whether a document says that it is OpenAPI 3 or Swagger 2."""
    if not isinstance(document, dict):
        return False
    return _version(document.get("openapi")).startswith("3") or _is_swagger(document)


def _is_swagger(document: dict[str, Any]) -> bool:
    return _version(document.get("swagger")).startswith("2")


def _version(given: Any) -> str:
    return str(given)[:20] if isinstance(given, str | int | float) else ""


def read(
    source: Path,
    ledger: ImportLog,
    *,
    category: str = "",
    document: Any = UNREAD,
    seen: Seen | None = None,
) -> Iterator[Api]:
    """The APIs of a description, one for each operation that can be read.

    Raises ImportFailed for a source that is none. Nothing is fetched from other machines.
    """
    document = load(source, ledger) if document is UNREAD else document
    if not fits(document):
        raise ImportFailed(
            f"{source} is no OpenAPI description: it has no key `openapi` of version 3 or "
            "`swagger` of version 2. Name the file that has."
        )
    ledger.format = "openapi"
    ledger.version = legible(_version(document.get("openapi")) or _version(document["swagger"]))
    yield from _Description(source, document, ledger, category).apis()


class _Description:
    """One description: what all its operations share, and the names given out in it."""

    def __init__(
        self, file: Path, document: dict[str, Any], ledger: ImportLog, category: str
    ) -> None:
        info = document.get("info")
        self._info: dict[str, Any] = info if isinstance(info, dict) else {}
        self._document = document
        self._ledger = ledger
        self._resolve = Resolver(file, document, ledger).root
        self._swagger = _is_swagger(document)
        given = self._info.get("x-apisguru-categories")
        words = sentence(given[0] if isinstance(given, list) and given else "")
        words = words.replace("_", " ")[:_SHORT]
        own = words[:1].upper() + words[1:]
        self._tool = shortened(sentence(self._info.get("title")), _SHORT) or legible(file.stem)
        self._category = shortened(sentence(category), _SHORT) or own or self._tool
        self._file = reference(file)
        self._names: set[str] = set()
        self._remarks = Remarks()

    def apis(self) -> Iterator[Api]:
        given = self._info.get("license")
        terms = given if isinstance(given, dict) else {}
        licence = sentence(terms.get("identifier")) or sentence(terms.get("name"))
        licence = licence if len(licence) <= 60 else ""
        for operation in self._operations():
            self._ledger.read += 1
            own, ledger = operation.own, self._ledger
            name, wanted = self._name(operation)
            api = f"{self._category}/{self._tool}/{name}"
            schema = request(operation, ledger, self._remarks)
            tags = own.get("tags")
            labels = [sentence(tag)[:_SHORT] for tag in tags[:20]] if isinstance(tags, list) else []
            yield Api(
                category=self._category,
                tool=self._tool,
                name=name,
                function=ledger.function(wanted, api),
                description=self._description(own, api),
                parameters=arguments(schema, ledger=ledger, api=api, resolve=operation.resolve),
                returns=self._returns(operation, api),
                collections=tuple(dict.fromkeys(filter(None, labels))),
                deprecated=own.get("deprecated") is True,
                source=Source(
                    kind="openapi",
                    reference=self._file,
                    licence=licence,
                    operation=operation.called,
                ),
            )
        self._remarks.book(self._ledger)
        webhooks = self._document.get("webhooks")
        if isinstance(webhooks, dict) and webhooks:
            self._ledger.note(
                f"{len(webhooks)} webhooks are left out: the service calls them, nobody else does."
            )
        if not self._ledger.read:
            self._ledger.note("The description has no operations.")

    # Finding operations

    def _operations(self) -> Iterator[OpenApiOperation]:
        paths, resolve = settled(self._document.get("paths"), self._resolve, "paths")
        if paths is not None and not isinstance(paths, dict):
            self._ledger.note("`paths` is no object, so there are no operations in it.")
        for path, given in paths.items() if isinstance(paths, dict) else ():
            if path.startswith("x-"):
                continue
            item, inner = settled(given, resolve, path)
            if not isinstance(item, dict):
                self._ledger.refuse(
                    legible(path), "This path's item is no object, or a reference to nothing."
                )
                continue
            beside = given if item is not given else {}
            yield from self._methods(path, {**item, **beside}, inner)

    def _methods(self, path: str, item: dict[str, Any], resolve: Any) -> Iterator[OpenApiOperation]:
        shared = item.get("parameters")
        given = {key.lower(): value for key, value in item.items() if isinstance(key, str)}
        more = item.get("additionalOperations")  # OpenAPI 3.2
        given |= more if isinstance(more, dict) else {}
        for method, found in given.items():
            if method not in METHODS and not (isinstance(more, dict) and method in more):
                continue
            own, inner = settled(found, resolve, f"{method.upper()} {path}")
            if isinstance(own, dict):
                yield OpenApiOperation(method, path, own, shared, inner, resolve, self._swagger)
            else:
                self._ledger.refuse(
                    legible(f"{method.upper()} {path}"), "It is no object with a description."
                )

    # One operation

    def _name(self, operation: OpenApiOperation) -> tuple[str, str]:
        """Its name and the function name to try: from the operationId if it has one of its own."""
        given = operation.own.get("operationId")
        name = " ".join(legible(given).split()) if isinstance(given, str) else ""
        if name in self._names:
            self._remarks.add(
                "An operationId stands twice; these are named by method and path",
                f"`{name[:80]}` of {operation.called}",
            )
        if 0 < len(name) <= _NAME and name not in self._names:
            self._names.add(name)
            return name, name
        name, number = operation.called, 2
        while name in self._names:
            name = f"{operation.called} ({number})"
            number += 1
        self._names.add(name)
        return name, f"{operation.method} {legible(operation.path[:300])}"

    def _description(self, own: dict[str, Any], api: str) -> str:
        summary, text = sentence(own.get("summary")), sentence(own.get("description"))
        if summary and not text.startswith(summary.rstrip(".")):
            end = "" if summary[-1] in ".!?:" or not text else "."
            text = f"{summary}{end} {text}".strip()
        return self._ledger.shortened(text, _TEXT, api)

    def _returns(self, operation: OpenApiOperation, api: str) -> JsonObject | None:
        schema = next(self._answers(operation), None)
        if schema is None:
            return None
        return plain(schema, ledger=self._ledger, api=api, place="returns", budget=RETURNS) or None

    def _answers(self, operation: OpenApiOperation) -> Iterator[Scoped]:
        """Schemas of the JSON that success brings, the likeliest first."""
        responses, resolve = settled(
            operation.own.get("responses"), operation.resolve, operation.called
        )
        if not isinstance(responses, dict):
            return
        codes = sorted(c for c in responses if len(c) == 3 and c.startswith("2"))
        for code in [*codes, "default"]:
            found, inner = settled(responses.get(code), resolve, operation.called)
            if not isinstance(found, dict):
                continue
            if self._swagger:
                schema, example = found.get("schema"), _json_one(found.get("examples"))
            else:
                media, inner = settled(_json_one(found.get("content")), inner, operation.called)
                schema = media.get("schema") if isinstance(media, dict) else None
                example = _example(media, inner)
            if isinstance(schema, dict) and schema:
                yield Scoped(schema, inner)
            elif example is not None:
                text, value = keywords.small(example, _EXAMPLE, _PARTS)
                if text:
                    yield Scoped(schema_of([value]), inner)


def _json_one(content: Any) -> Any:
    name, value = preferred(content)
    return value if is_json(name) else None


def _example(media: Any, resolve: Any) -> Any:
    if not isinstance(media, dict):
        return None
    several = media.get("examples")
    if "example" in media or not isinstance(several, dict) or not several:
        return media.get("example")
    first, _ = settled(next(iter(several.values())), resolve, "examples")
    return first.get("value") if isinstance(first, dict) else None


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
        where = _word(found.get("in")) or (
            "path" if f"{{{_word(found.get('name'))}}}" in operation.path else "query"
        )
        if where == "body":
            required = found.get("required") is not False
            body = Scoped(found.get("schema"), resolve), _word(found.get("description")), required
        elif _is_argument(found, where, operation, remarks):
            schema = Scoped(_schema(found, resolve, operation.swagger), resolve)
            required = where == "path" or found.get("required") is True
            arguments.add(found["name"], schema, _WHERE.get(where, where[:20]), required)
    for name in _IN_PATH.findall(operation.path[:2_000]):
        if name not in arguments.properties:
            remarks.add(
                "Path parameters the source does not describe are taken as texts",
                f"`{legible(name)}` of {operation.called}",
            )
            text = Scoped({"type": "string"}, operation.resolve)
            arguments.add(name, text, "path", True)
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
    own = keywords_of(body, ledger)
    named = {k: v for k, v in own.get("properties", {}).items() if isinstance(k, str) and k}
    if not named:
        schema = body.schema if isinstance(body.schema, dict) else {}
        whole = {**schema, "description": text} if text else schema
        arguments.add("body", body._replace(schema=whole), "body", required)
        return False
    needed = set(own.get("required", ())) if required else set()
    for group in own.get("groups", ()):
        for variant in group[:8]:
            for name, each in keywords_of(variant, ledger).get("properties", {}).items():
                if isinstance(name, str) and name:
                    named.setdefault(name, each)
    for name, each in list(named.items())[:_MOST]:
        arguments.add(name, each, "body", name in needed)
    return own.get("additionalProperties") is False
