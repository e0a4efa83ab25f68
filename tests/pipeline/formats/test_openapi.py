"""OpenAPI descriptions become APIs: files, operations, what they return, and what is odd."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from support.api_specs import INFO, imported, one, spec

from toolloom.pipeline.formats.import_log import ImportLog
from toolloom.pipeline.formats.openapi import read
from toolloom.schemas import ImportFailed


def test_an_operation_is_filed_by_its_source(file: Path) -> None:
    """The first category that the description names is its own, each tag a collection, once."""
    operation = {"operationId": "findAnimals", "tags": ["animals", "search", "animals"]}
    info = {**INFO, "x-apisguru-categories": ["open_data"]}
    (api,), _ = imported(file, spec({"/animals": {"get": operation}}, info=info))
    assert api.id == "Open data/Zoo/findAnimals"
    assert api.collections == ("animals", "search")
    source = {"kind": "openapi", "reference": "zoo.json", "operation": "GET /animals"}
    assert api.source.model_dump() == {**source, "licence": "MIT"}


def test_operations_without_an_id_of_their_own_are_named_by_method_and_path(file: Path) -> None:
    """Missing and repeated ids; names with characters no function name has, and collisions."""
    paths = {
        "/pets/{id}": {"get": {}, "put": {"operationId": "pets/put"}},
        "/pets": {"get": {"operationId": "pets.put"}, "post": {"operationId": "pets/put"}},
        "/" + "long/" * 30: {"get": {}, "post": {"operationId": "x" * 100}},
    }
    apis, report = imported(file, spec(paths))
    assert [(api.name, api.function) for api in apis[:4]] == [
        ("GET /pets/{id}", "get_pets_id"),
        ("pets/put", "pets_put"),
        ("pets.put", "pets_put_2"),
        ("POST /pets", "post_pets"),
    ]
    assert len(report.renamed) == 6
    assert any("`pets/put` of POST /pets" in note for note in report.notes)


def typed(kind: str) -> dict[str, Any]:
    return {"schema": {"type": "object", "properties": {"a": {"type": kind}}}}


@pytest.mark.parametrize(
    ("responses", "expected"),
    [
        ({"204": None, "201": typed("integer"), "200": typed("string")}, "string"),
        ({"404": typed("integer"), "default": typed("boolean")}, "boolean"),
        ({"2XX": typed("number")}, "number"),
        ({"404": typed("integer")}, None),
        ({"201": {"description": "Null"}, "default": typed("boolean")}, None),
        ({"200": {"example": {"a": 1}}}, "integer"),
        ({"200": {"examples": {"x": {"value": {"a": 1}}}}}, "integer"),
    ],
)
def test_the_first_success_says_what_is_returned(
    file: Path, responses: Any, expected: str | None
) -> None:
    """Else the default response; an error's schema is never taken, an example stands for one."""
    described = {
        code: {"content": {"application/json": media}} if media else {}
        for code, media in responses.items()
    }
    api = one(file, {"responses": described})
    assert (api.fields["a"]["type"] if api.returns else None) == expected


def test_files_that_refer_to_each_other(tmp_path: Path) -> None:
    """A path's item, a parameter and a schema may stand in files beside the description."""
    (tmp_path / "index.yml").write_text(
        "swagger: '2.0'\ninfo: {title: Zoo}\npaths:\n  /a/{id}:\n    $ref: paths/a.json\n"
    )
    (tmp_path / "paths").mkdir()
    (tmp_path / "paths" / "a.json").write_text(
        '{"get": {"parameters": [{"$ref": "../shared.yaml#/id"}],'
        ' "responses": {"200": {"schema": {"$ref": "../shared.yaml#/Animal"}}}}}'
    )
    (tmp_path / "shared.yaml").write_text(
        "id: {name: id, in: path, required: true, type: integer}\n"
        "Animal: {properties: {mother: {$ref: '#/Name'}}}\nName: {type: string}\n"
    )
    ledger = ImportLog("zoo")
    (api,) = read(tmp_path / "index.yml", ledger)
    assert api.properties == {"id": {"type": "integer"}}
    assert api.fields == {"mother": {"type": "string"}}
    assert api.source.reference == "index.yml"
    assert ledger.report(imported=1).unresolved == ()


def test_what_is_no_operation_is_skipped_with_a_reason(file: Path) -> None:
    """Paths and operations of the wrong kind are counted; extensions are nothing."""
    paths = {
        "/a": {"get": 5, "post": {}, "x-note": {}, "summary": "A"},
        "/b": 7,
        "/c": {"$ref": "#/nothing"},
        "x-paths": {},
    }
    apis, report = imported(file, spec(paths))
    assert [api.name for api in apis] == ["POST /a"]
    assert [skipped.what for skipped in report.skipped] == ["GET /a", "/b", "/c"]


@pytest.mark.parametrize("text", ["", "hello", "[1]", "{}", '{"swagger": "1.2"}', "openapi: [3]"])
def test_what_is_no_description_says_so(file: Path, text: str) -> None:
    """A file of something else fails with what it lacks, not with zero APIs."""
    with pytest.raises(ImportFailed, match=r"zoo\.json is not an OpenAPI description"):
        imported(file, text)


@pytest.mark.parametrize(
    ("document", "word"),
    [
        *((spec(paths), "") for paths in (None, 5, [], {"/a": {}}, {"/a": []})),
        ({"openapi": "3.1.0", "info": INFO, "webhooks": {"born": {"post": {}}}}, "1 webhooks"),
    ],
)
def test_descriptions_without_operations_are_noted(file: Path, document: Any, word: str) -> None:
    """Zero APIs never come without a word; webhooks are no operations."""
    apis, report = imported(file, document)
    assert apis == []
    assert report.skipped or word in report.notes[0]


def laughing(levels: int) -> str:
    """A schema that holds nine of a schema that holds nine of …, everywhere in a description."""
    lines = [
        "openapi: 3.0.0",
        "info: {title: Zoo}",
        "x0: &x0 {type: object, properties: {a: {type: string}}}",
    ]
    for n in range(1, levels):
        nine = ", ".join(f"p{k}: *x{n - 1}" for k in range(9))
        lines.append(f"x{n}: &x{n} {{type: object, properties: {{{nine}}}, default: *x{n - 1}}}")
    last = f"*x{levels - 1}"
    lines.append(f"paths: {{/a: {{post: {{parameters: [{{name: {last}, in: {last}}}, {{name: q}}],")
    lines.append(f"  operationId: {last}, tags: [{last}], summary: {last},")
    lines.append(f"  requestBody: {{content: {{application/json: {{schema: {last}}}}}}},")
    lines.append(
        f"  responses: {{200: {{content: {{application/json: {{example: {last}}}}}}}}}}}}}}}"
    )
    return "\n".join(lines)


def test_laughter_in_yaml_ends_soon(tmp_path: Path) -> None:
    """Aliases that are some hundred thousand schemas come within the budget; more are refused, and
    so are those that hold themselves."""
    (api,), report = imported(tmp_path / "zoo.yaml", laughing(5))
    assert len(json.dumps(api.parameters)) < 10_000
    assert report.cut
    for hostile in (laughing(12), "openapi: 3.0.0\ninfo: &i {title: Zoo, license: *i}"):
        with pytest.raises(ImportFailed, match="values|refers to itself"):
            imported(tmp_path / "zoo.yaml", hostile)


def test_parameters_of_the_path_are_shared_and_overridden(file: Path) -> None:
    """An operation's parameter replaces its path's with the same name and place."""
    shared = {"id": {"name": "id", "in": "path", "required": True, "schema": {"type": "integer"}}}
    full = {"name": "full", "in": "query"}
    of_path = [{"$ref": "#/components/parameters/id"}, {**full, "schema": {"type": "boolean"}}]
    own = [{**full, "schema": {"type": "string"}}]
    item = {"parameters": of_path, "get": {"parameters": own}}
    (api,), _ = imported(file, spec({"/a/{id}": item}, components={"parameters": shared}))
    assert api.properties == {"id": {"type": "integer"}, "full": {"type": "string"}}
    assert api.required == ("id",)


def test_a_name_used_in_two_places_becomes_two_names(file: Path) -> None:
    """Both arguments are kept, and a note says which is which."""
    parameters = [
        {"name": "id", "in": "path", "required": True, "schema": {"type": "string"}},
        {"name": "id", "in": "query", "schema": {"type": "integer"}},
    ]
    schema = {"properties": {"id": {"type": "boolean"}}, "required": ["id"]}
    operation = {"parameters": parameters, **body("application/json", schema, required=True)}
    (api,), report = imported(file, spec({"/a/{id}": {"post": operation}}))
    kinds = {"id": "string", "id_query": "integer", "id_body": "boolean"}
    assert {n: s["type"] for n, s in api.properties.items()} == kinds
    assert api.required == ("id", "id_body")
    assert "`id` of the query is `id_query`" in report.notes[0]


def test_headers_that_are_not_a_callers_and_cookies_are_left_out(file: Path) -> None:
    """Authorization, Accept and Content-Type belong to the transport; cookies get a line."""
    names = ["Authorization", "accept", "Content-Type", "X-Trace"]
    parameters = [{"name": n, "in": "header", "schema": {"type": "string"}} for n in names]
    parameters.append({"name": "session", "in": "cookie", "schema": {"type": "string"}})
    (api,), report = imported(file, spec({"/a": {"get": {"parameters": parameters}}}))
    assert list(api.properties) == ["X-Trace"]
    assert "`session` of GET /a" in report.notes[0]


def body(media: str, schema: Any, **more: Any) -> dict[str, Any]:
    return {"requestBody": {"content": {media: {"schema": schema}}, **more}}


LISTED = {"type": "array", "items": {"type": "string"}}
NAMED = {"properties": {"a": {"type": "string"}}}
EITHER = {**NAMED, "oneOf": [{"properties": {"b": {"type": "string"}}, "required": ["b"]}]}
MEDIA = (
    *("application/vnd.zoo.v2+json; charset=utf-8", "application/x-www-form-urlencoded"),
    *("multipart/form-data", "application/xml"),
)
FORMS = {
    "multipart/form-data": {"schema": {"properties": {"a": {}}}},
    "application/json": {"schema": {"properties": {"b": {}}}},
}


@pytest.mark.parametrize(
    ("operation", "properties", "required"),
    [
        ({"requestBody": {"content": FORMS}}, {"b": {}}, ()),
        (
            body("application/json", LISTED, required=True, description="Names."),
            {"body": {**LISTED, "description": "Names."}},
            ("body",),
        ),
        (
            body("application/json", {**NAMED, "required": ["a"]}, required=False),
            NAMED["properties"],
            (),
        ),
        (body("application/json", EITHER), {key: {"type": "string"} for key in "ab"}, ()),
        *((body(media, NAMED), NAMED["properties"], ()) for media in MEDIA),
    ],
    ids=[
        "JSON says more than forms",
        "a body that is not an object is one argument",
        "a body one may leave out requires nothing",
        "properties of alternatives are arguments too",
        *MEDIA,
    ],
)
def test_a_body_becomes_arguments(
    file: Path, operation: Any, properties: Any, required: tuple[str, ...]
) -> None:
    """One form of it is enough; what it requires holds only if there is one."""
    api = one(file, operation)
    assert (api.properties, api.required) == (properties, required)
