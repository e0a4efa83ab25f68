"""OpenAPI 3 and Swagger 2, from a file that may refer to others beside it.

An operation's path, query, header and body become the properties of one object.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterator
from itertools import chain, count
from pathlib import Path
from typing import Any, NamedTuple

from toolloom.pipeline.checks.schema import as_dict, as_list
from toolloom.pipeline.formats.import_log import (
    LONGEST_NAME,
    ImportLog,
    legible,
    reference,
    sentence,
    shortened,
)
from toolloom.pipeline.formats.json_schema import (
    LONGEST_TEXT,
    Resolver,
    Scoped,
    arguments,
    flattened,
    plain,
    schema_of,
    small,
)
from toolloom.pipeline.formats.rows import UNREAD, load
from toolloom.schemas import Api, ImportFailed, JsonObject, Source

METHODS = ("get", "post", "put", "patch", "delete", "head", "options", "trace", "query")
IGNORED_HEADERS = {"accept", "authorization", "content-type"}
"""OpenAPI 3.1, section 4.8.12.1: parameters of these names shall be ignored."""
_SHORT = 100  # characters of a category, tool or tag
_EXAMPLE = 20_000  # characters of an example that is read as a schema
_MOST = 2_000  # parameters or properties of one operation
_NAMED = 10  # places that a note names
_JSON = re.compile(r"(?:application|text)/(?:[\w.+-]+\+)?json\s*(?:;.*)?", re.I)
_FORMS = ("application/x-www-form-urlencoded", "multipart/form-data")
_IN_PATH = re.compile(r"\{([^{}/?]{1,100})\}")


def fits(document: Any) -> bool:
    """Whether a document says that it is OpenAPI 3 or Swagger 2."""
    return isinstance(document, dict) and bool(_version(document))


def _version(document: dict[str, Any]) -> str:
    for key, major in (("openapi", "3"), ("swagger", "2")):
        version = document.get(key)
        if isinstance(version, str | int | float) and str(version).startswith(major):
            return str(version)[:20]
    return ""


def read(
    source: Path, ledger: ImportLog, *, category: str = "", document: Any = UNREAD
) -> Iterator[Api]:
    """The APIs of a description, one for each operation that can be read.

    Raises ImportFailed for a source that is none. Nothing is fetched from other machines.
    """
    document = load(source, ledger) if document is UNREAD else document
    if not fits(document):
        raise ImportFailed(
            f"{source} is not an OpenAPI description: it has no key `openapi` of version 3 or "
            "`swagger` of version 2. Name the file that has."
        )
    ledger.format, ledger.version = "openapi", legible(_version(document))
    info = as_dict(document.get("info"))
    filed = info.get("x-apisguru-categories")
    words = sentence(filed[0] if isinstance(filed, list) and filed else "").replace("_", " ")
    tool = shortened(sentence(info.get("title")), _SHORT) or legible(source.stem)
    own = (words[:1].upper() + words[1:])[:_SHORT] or tool
    terms = as_dict(info.get("license"))
    licence = sentence(terms.get("identifier")) or sentence(terms.get("name"))
    category = shortened(sentence(category), _SHORT) or own
    description = _Description(Resolver(document, ledger, source), ledger)
    for operation in description.operations():
        ledger.read += 1
        name, wanted = description.named(operation)
        api = f"{category}/{tool}/{name}"
        request = description.request(operation)
        told = [sentence(tag)[:_SHORT] for tag in as_list(operation.own.get("tags"))[:20]]
        yield Api(
            category=category,
            tool=tool,
            name=name,
            function=ledger.function(wanted, api),
            description=ledger.shortened(_text(operation.own), LONGEST_TEXT, api),
            parameters=arguments(request, ledger=ledger, api=api, resolver=description.resolver),
            returns=description.returns(operation, api),
            collections=tuple(dict.fromkeys(filter(None, told))),
            deprecated=operation.own.get("deprecated") is True,
            source=Source(
                kind="openapi",
                reference=reference(source),
                operation=operation.called,
                licence=licence if len(licence) <= 60 else "",
            ),
        )
    for what, places in description.remarks.items():
        more = f" and {len(places) - _NAMED} more" if len(places) > _NAMED else ""
        ledger.note(f"{what}: {'; '.join(places[:_NAMED])}{more}.")
    if webhooks := as_dict(document.get("webhooks")):
        ledger.note(
            f"{len(webhooks)} webhooks are left out: the service calls them, nobody else does."
        )
    if not ledger.read:
        ledger.note("The description has no operations.")


def _text(own: dict[str, Any]) -> str:
    summary, text = sentence(own.get("summary")), sentence(own.get("description"))
    if not summary or text.startswith(summary.rstrip(".")):
        return text
    return f"{summary}{'' if summary[-1] in '.!?:' or not text else '.'} {text}".strip()


class OpenApiOperation(NamedTuple):
    """One method of one path."""

    method: str
    path: str
    own: dict[str, Any]
    at: Scoped
    shared: Scoped  # the parameters of its path

    @property
    def called(self) -> str:
        return f"{self.method.upper()} {legible(self.path[:300])}"


class _Description:
    """What all operations of one description share: references, names, what is said in notes."""

    def __init__(self, resolver: Resolver, ledger: ImportLog) -> None:
        self.resolver = resolver
        self.remarks: dict[str, list[str]] = defaultdict(list)
        self._ledger = ledger
        self._swagger = _version(resolver.root.value).startswith("2")
        self._names: set[str] = set()

    def _settled(self, node: Scoped, value: Any, place: str) -> tuple[Scoped, dict[str, Any]]:
        """A part of a node behind its references, and its value if that is an object. Else the
        second is a new empty one, so that `found.value is own` tells."""
        found = self.resolver.settled(node.inner(value), place)
        return found, as_dict(found.value)

    def _remark(self, what: str, where: str) -> None:
        self.remarks[what].append(legible(where[:200]))

    def operations(self) -> Iterator[OpenApiOperation]:
        root = self.resolver.root
        paths, items = self._settled(root, root.value.get("paths"), "paths")
        if paths.value is not items and paths.value is not None:
            self._ledger.note("`paths` is not an object, so there are no operations in it.")
        for path, given in items.items():
            if path.startswith("x-"):
                continue
            item, whole = self._settled(paths, given, path)
            if item.value is not whole:
                why = "This path's item is not an object, or a reference to nothing."
                self._ledger.refuse(legible(path), why)
                continue
            if given is not whole:
                whole = {**whole, **{k: v for k, v in given.items() if k != "$ref"}}
            more = as_dict(whole.get("additionalOperations"))  # OpenAPI 3.2
            for key, value in {**whole, **more}.items():
                method = key if key in more else key.lower() if isinstance(key, str) else ""
                if method in METHODS or method in more:
                    at, own = self._settled(item, value, f"{method.upper()} {path}")
                    if at.value is own:
                        shared = item.inner(whole.get("parameters"))
                        yield OpenApiOperation(method, path, own, at, shared)
                    else:
                        called = legible(f"{method.upper()} {path}")
                        self._ledger.refuse(called, "It is not an object with a description.")

    def named(self, operation: OpenApiOperation) -> tuple[str, str]:
        """Its name and the function name to try: from the operationId if it has one of its own."""
        name = wanted = " ".join(legible(_word(operation.own.get("operationId"))).split())
        if name in self._names:
            what = "An operationId stands twice; these are named by method and path"
            self._remark(what, f"`{name[:80]}` of {operation.called}")
        if not 0 < len(name) <= LONGEST_NAME or name in self._names:
            wanted = f"{operation.method} {legible(operation.path[:300])}"
            others = (f"{operation.called} ({number})" for number in count(2))
            name = next(n for n in chain([operation.called], others) if n not in self._names)
        self._names.add(name)
        return name, wanted

    # What it takes

    def request(self, operation: OpenApiOperation) -> JsonObject:
        """An object schema whose properties are Scoped: path, query, header, then the body's."""
        properties: dict[str, Scoped] = {}
        required: list[str] = []

        def add(name: str, schema: Scoped, where: str, needed: bool) -> None:
            """Of two places that use a name the later one gets its own: `id` and `id_query`."""
            others = (f"{name}_{where}{number}" for number in chain([""], count(2)))
            free = next(n for n in chain([name], others) if n not in properties)
            if free != name:
                self._remark(
                    "Arguments with another name than in the source, where two places use one name",
                    f"{operation.called}: `{name}` of the {where} is `{free}`",
                )
            properties[free] = schema
            if needed:
                required.append(free)

        body: tuple[Scoped, str, bool] | None = None
        for found in self._parameters(operation):
            given = found.value
            name, where = _word(given.get("name")), _word(given.get("in"))
            where = where or ("path" if f"{{{name}}}" in operation.path else "query")
            if where == "body":
                needed = given.get("required") is not False
                body = found.inner(given.get("schema")), _word(given.get("description")), needed
            elif not name:
                self._remark("Parameters without a name are left out", operation.called)
            elif where == "cookie":
                said = f"`{legible(name)[:80]}` of {operation.called}"
                self._remark("Cookies are left out", said)
            elif where != "header" or name.lower() not in IGNORED_HEADERS:
                needed = where == "path" or given.get("required") is True
                short = {"formData": "form", "querystring": "query"}.get(where, where[:20])
                add(name, found.inner(self._schema(found)), short, needed)
        for name in _IN_PATH.findall(operation.path[:2_000]):
            if name not in properties:
                self._remark(
                    "Path parameters the source does not describe are taken as texts",
                    f"`{legible(name)}` of {operation.called}",
                )
                add(name, operation.at.inner({"type": "string"}), "path", True)
        whole: JsonObject = {"type": "object", "properties": properties, "required": required}
        body = body or self._body(operation)
        if body is None:
            return whole
        schema, text, needed = body
        own = flattened(schema, self.resolver)
        named = {k: v for k, v in own.get("properties", {}).items() if isinstance(k, str) and k}
        if not named:  # no object, so it is one argument
            told = {**as_dict(schema.value), **({"description": text} if text else {})}
            add("body", schema.inner(told), "body", needed)
            return whole
        for variant in (v for group in own.get("groups", ()) for v in group[:8]):
            for name, each in flattened(variant, self.resolver).get("properties", {}).items():
                if isinstance(name, str) and name:
                    named.setdefault(name, each)
        wanted = set(own.get("required", ())) if needed else set()
        for name, each in list(named.items())[:_MOST]:
            add(name, each, "body", name in wanted)
        if own.get("additionalProperties") is False:
            whole["additionalProperties"] = False
        return whole

    def _parameters(self, operation: OpenApiOperation) -> Iterator[Scoped]:
        """The operation's own parameters replace those of its path with the same name and place."""
        chosen: dict[tuple[str, str], Scoped] = {}
        for several in (operation.shared, operation.at.inner(operation.own.get("parameters"))):
            given = several.value
            if isinstance(given, dict):  # as Swagger 2 keeps them under `definitions`
                given = list(given.values())
            for each in as_list(given)[:_MOST]:
                found, own = self._settled(several, each, operation.called)
                if found.value is own:
                    where = _word(own.get("in"))
                    chosen[where, "" if where == "body" else _word(own.get("name"))] = found
        yield from chosen.values()

    def _schema(self, found: Scoped) -> JsonObject:
        """A parameter's schema with what stands beside it: description, example, deprecated."""
        given = found.value
        inner = given.get("schema")
        if inner is None and (content := as_dict(given.get("content"))):
            inner = as_dict(next(iter(content.values()))).get("schema")
        schema = dict(as_dict(inner))
        if self._swagger or inner is None:  # the parameter is its own schema
            own = {k: v for k, v in given.items() if k not in ("required", "schema", "content")}
            schema = schema or own
        for key in ("description", "example"):
            if isinstance(given.get(key), str | int | float) and given[key] != "":
                schema[key] = given[key]
        if (example := self._example(found)) is not None:
            schema.setdefault("example", example)
        if given.get("deprecated") is True:
            schema["deprecated"] = True
        return schema

    def _body(self, operation: OpenApiOperation) -> tuple[Scoped, str, bool] | None:
        """Schema, description and whether it is needed. Most sources that say nothing need it."""
        given = operation.own.get("requestBody")
        found, body = self._settled(operation.at, given, operation.called)
        _, media = preferred(body.get("content"))
        if media is None:
            return None
        told, own = self._settled(found, media, operation.called)
        needed = body.get("required") is not False
        return told.inner(own.get("schema")), _word(body.get("description")), needed

    # What it gives

    def returns(self, operation: OpenApiOperation, api: str) -> JsonObject | None:
        """The JSON that success brings, by the first response that has a schema or an example."""
        called = operation.called
        found, responses = self._settled(operation.at, operation.own.get("responses"), called)
        codes = sorted(c for c in responses if len(c) == 3 and c.startswith("2"))
        for code in codes or ["default"]:  # beside a success, the default is for errors
            told, own = self._settled(found, responses.get(code), called)
            if self._swagger:
                name, example = preferred(own.get("examples"))
                example = example if is_json(name) else None
            else:
                name, media = preferred(own.get("content"))
                told, own = self._settled(told, media if is_json(name) else None, called)
                example = self._example(told)
            node = told.inner(own["schema"]) if as_dict(own.get("schema")) else None
            if node is None and example is not None:
                text, value = small(example, _EXAMPLE)
                node = told.inner(schema_of([value])) if text else None
            if node is not None:
                return plain(node, ledger=self._ledger, api=api, resolver=self.resolver) or None
        return None

    def _example(self, found: Scoped) -> Any:
        """The example, or the first of several."""
        given = as_dict(found.value)
        many = as_dict(given.get("examples"))
        if "example" in given or not many:
            return given.get("example")
        return self._settled(found, next(iter(many.values())), "examples")[1].get("value")


def _word(value: Any) -> str:
    """Only a text: writing anything else out may take forever, as aliases of YAML multiply."""
    return value if isinstance(value, str) else ""


def preferred(content: Any) -> tuple[str, Any]:
    """Of several media types JSON, then forms, then what comes first."""
    if not isinstance(content, dict) or not content:
        return "", None
    ranked = [name for name in content if is_json(name)]
    ranked += [name for form in _FORMS for name in content if name.lower().startswith(form)]
    chosen = (ranked or list(content))[0]
    return chosen, content[chosen]


def is_json(media: str) -> bool:
    return len(media) < 200 and (media == "*/*" or _JSON.fullmatch(media) is not None)
