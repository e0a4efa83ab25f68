"""OpenAPI 3 and Swagger 2, from one file or from a folder of files that refer to each other."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from toolloom.pipeline.formats.importers import constraints
from toolloom.pipeline.formats.importers.dialect import RETURNS, Scoped, arguments, plain
from toolloom.pipeline.formats.importers.documents import documents, load
from toolloom.pipeline.formats.importers.inference import schema_of
from toolloom.pipeline.formats.importers.intake import reference
from toolloom.pipeline.formats.importers.ledger import ImportLog
from toolloom.pipeline.formats.importers.openapi_request import (
    OpenApiOperation,
    Remarks,
    is_json,
    preferred,
    request,
)
from toolloom.pipeline.formats.importers.prose import legible, sentence, shortened
from toolloom.pipeline.formats.importers.references import Resolver, settled
from toolloom.schemas import Api, ImportFailed, JsonObject, Source

METHODS = ("get", "post", "put", "patch", "delete", "head", "options", "trace", "query")
_ROOTS = ("index", "openapi", "swagger")  # what the first file of several is called
_FILES = 500  # files of a folder that are looked into
_TEXT, _NAME, _SHORT = 1_024, 200, 100
_EXAMPLE, _PARTS = 20_000, 2_000  # characters and values of an example that is read as a schema


def is_openapi(document: Any) -> bool:
    """Whether a document says that it is OpenAPI 3 or Swagger 2."""
    if not isinstance(document, dict):
        return False
    return _version(document.get("openapi")).startswith("3") or _is_swagger(document)


def _is_swagger(document: dict[str, Any]) -> bool:
    return _version(document.get("swagger")).startswith("2")


def _version(given: Any) -> str:
    return str(given)[:20] if isinstance(given, str | int | float) else ""


def read(source: Path, ledger: ImportLog, *, category: str = "") -> Iterator[Api]:
    """The APIs of a description, one for each operation that can be read.

    Raises ImportFailed for a source that is none. Nothing is fetched from other machines.
    """
    file = _root_file(source) if source.is_dir() else source
    document = load(file, ledger)
    if not is_openapi(document):
        raise ImportFailed(
            f"{file} is no OpenAPI description: it has no key `openapi` of version 3 or "
            "`swagger` of version 2. Name the file that has."
        )
    ledger.format = "openapi"
    ledger.version = legible(_version(document.get("openapi")) or _version(document["swagger"]))
    yield from _Description(file, document, ledger, category).apis()


def _root_file(folder: Path) -> Path:
    """The one file of a folder that begins the description; the others are referred to."""
    files = list(documents(folder))[:_FILES]
    first = [f for f in files if f.stem.lower() in _ROOTS]
    for several in (first, [f for f in files if f not in first]):
        roots = [f for f in several if _begins(f)]
        if len(roots) > 1:
            names = ", ".join(f.name for f in roots[:8])
            raise ImportFailed(f"{folder} holds several descriptions: {names}. Name one of them.")
        if roots:
            return roots[0]
    raise ImportFailed(
        f"{folder} holds no OpenAPI description: no JSON or YAML file in it has a key `openapi` "
        "or `swagger`. Name the file or its own folder."
    )


def _begins(file: Path) -> bool:
    try:
        return is_openapi(load(file))
    except ImportFailed:
        return False


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
        self._category = shortened(sentence(category), _SHORT) or self._own_category()
        self._tool = shortened(sentence(self._info.get("title")), _SHORT) or legible(file.stem)
        self._file = reference(file)
        self._names: set[str] = set()
        self._remarks = Remarks()

    def _own_category(self) -> str:
        given = self._info.get("x-apisguru-categories")
        first = given[0] if isinstance(given, list) and given else ""
        words = sentence(first).replace("_", " ")[:_SHORT]
        return words[:1].upper() + words[1:] or "Imported"

    def _licence(self) -> str:
        licence = self._info.get("license")
        if not isinstance(licence, dict):
            return ""
        name = sentence(licence.get("identifier")) or sentence(licence.get("name"))
        return name if len(name) <= 60 else ""

    def apis(self) -> Iterator[Api]:
        licence = self._licence()
        for operation in self._operations():
            self._ledger.read += 1
            yield self._api(operation, licence)
        self._remarks.book(self._ledger)
        webhooks = self._document.get("webhooks")
        if isinstance(webhooks, dict) and webhooks:
            self._ledger.note(
                f"{len(webhooks)} webhooks are left out: the service calls them, nobody else does."
            )
        if not self._ledger.read:
            self._ledger.note("The description has no operations.")

    def _refuse(self, what: str, why: str) -> None:
        self._ledger.read += 1
        self._ledger.skip(legible(what), why)

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
                self._refuse(path, "This path's item is no object, or a reference to nothing.")
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
                self._refuse(f"{method.upper()} {path}", "It is no object with a description.")

    # One operation

    def _api(self, operation: OpenApiOperation, licence: str) -> Api:
        own, ledger = operation.own, self._ledger
        name, wanted = self._name(operation)
        api = f"{self._category}/{self._tool}/{name}"
        schema = request(operation, ledger, self._remarks)
        tags = own.get("tags")
        labels = [sentence(tag)[:_SHORT] for tag in tags[:20]] if isinstance(tags, list) else []
        return Api(
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
        short = shortened(text, _TEXT)
        if short != text:
            self._ledger.cut(api, "description", "text", len(text) - len(short))
        return short

    def _returns(self, operation: OpenApiOperation, api: str) -> JsonObject | None:
        for schema in self._answers(operation):
            found = plain(schema, ledger=self._ledger, api=api, place="returns", budget=RETURNS)
            return found or None
        return None

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
                text, value = constraints.small(example, _EXAMPLE, _PARTS)
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
