"""Parameters and bodies of OpenAPI operations become arguments."""

from pathlib import Path
from typing import Any

import pytest
from support.api_specs import INFO, imported, one, spec

OK: Any = {"200": {"description": "Fine."}}


def swagger(paths: Any, **more: Any) -> dict[str, Any]:
    return {"swagger": "2.0", "info": INFO, "paths": paths, **more}


def test_parameters_of_the_path_are_shared_and_overridden(file: Path) -> None:
    """An operation's parameter replaces its path's with the same name and place."""
    item = {
        "parameters": [
            {"$ref": "#/components/parameters/id"},
            {"name": "full", "in": "query", "schema": {"type": "boolean"}},
        ],
        "get": {
            "parameters": [{"name": "full", "in": "query", "schema": {"type": "string"}}],
            "responses": OK,
        },
    }
    shared = {"id": {"name": "id", "in": "path", "required": True, "schema": {"type": "integer"}}}
    document = spec({"/a/{id}": item}, components={"parameters": shared})
    (api,), _ = imported(file, document)
    assert api.properties == {"id": {"type": "integer"}, "full": {"type": "string"}}
    assert api.required == ("id",)


def test_a_name_used_in_two_places_becomes_two_names(file: Path) -> None:
    """Both arguments are kept, and a note says which is which."""
    operation = {
        "parameters": [
            {"name": "id", "in": "path", "required": True, "schema": {"type": "string"}},
            {"name": "id", "in": "query", "schema": {"type": "integer"}},
        ],
        "requestBody": {
            "required": True,
            "content": {
                "application/json": {
                    "schema": {"properties": {"id": {"type": "boolean"}}, "required": ["id"]}
                }
            },
        },
    }
    (api,), report = imported(file, spec({"/a/{id}": {"post": operation}}))
    assert {n: s["type"] for n, s in api.properties.items()} == {
        "id": "string",
        "id_query": "integer",
        "id_body": "boolean",
    }
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


def test_a_path_parameter_nobody_describes_is_a_text(file: Path) -> None:
    """Without it the path could not be built; a note says that it was added."""
    (api,), report = imported(file, spec({"/a/{b}": {"get": {}}}))
    assert api.parameters["properties"] == {"b": {"type": "string"}}
    assert api.required == ("b",)
    assert "`b` of GET /a/{b}" in report.notes[0]


def body(media: str, schema: Any, **more: Any) -> dict[str, Any]:
    return {"requestBody": {"content": {media: {"schema": schema}}, **more}}


@pytest.mark.parametrize(
    "media",
    [
        "application/json",
        "application/vnd.zoo.v2+json; charset=utf-8",
        "application/x-www-form-urlencoded",
        "multipart/form-data",
        "application/xml",
    ],
)
@pytest.mark.parametrize("method", ["get", "post"])
def test_the_properties_of_a_body_become_arguments(file: Path, media: str, method: str) -> None:
    """Whatever its media type, and even where HTTP gives a body no meaning."""
    schema = {"type": "object", "properties": {"a": {"type": "string"}}, "required": ["a"]}
    api = one(file, body(media, schema, required=True), method=method)
    assert api.parameters == schema


def test_json_is_preferred_to_forms(file: Path) -> None:
    """One form of the body is enough, and JSON says most."""
    content = {
        "multipart/form-data": {"schema": {"properties": {"a": {}}}},
        "application/json": {"schema": {"properties": {"b": {}}}},
    }
    assert list(one(file, {"requestBody": {"content": content}}).properties) == ["b"]


def test_a_body_that_is_no_object_is_one_argument(file: Path) -> None:
    """A list, a text and alternatives stay whole under the name `body`."""
    schema = {"type": "array", "items": {"type": "string"}}
    api = one(file, body("application/json", schema, required=True, description="Names."))
    assert api.properties == {"body": {**schema, "description": "Names."}}
    assert api.required == ("body",)


def test_a_body_one_may_leave_out_requires_nothing(file: Path) -> None:
    """`required` of its schema holds only if there is a body."""
    schema = {"properties": {"a": {"type": "string"}}, "required": ["a"]}
    assert one(file, body("application/json", schema, required=False)).required == ()


def test_alternatives_of_a_body_are_all_offered(file: Path) -> None:
    """Properties of `oneOf` beside the body's own are arguments too, none required."""
    schema = {
        "properties": {"a": {"type": "string"}},
        "oneOf": [{"properties": {"b": {"type": "string"}}, "required": ["b"]}],
    }
    assert list(one(file, body("application/json", schema)).properties) == ["a", "b"]


def test_swagger_2_bodies_and_forms(file: Path) -> None:
    """`in: body` has a schema, `in: formData` is one; parameters carry their own types."""
    pet = {"type": "object", "properties": {"name": {"type": "string"}}, "required": ["name"]}
    paths = {
        "/a": {
            "post": {
                "parameters": [
                    {"name": "pet", "in": "body", "schema": {"$ref": "#/definitions/Pet"}},
                    {"name": "n", "in": "query", "type": "integer", "required": True},
                ],
                "responses": {"201": {"schema": {"$ref": "#/definitions/Pet"}}},
            },
            "put": {
                "parameters": [
                    {"name": "photo", "in": "formData", "type": "file", "required": True},
                    {"name": "tags", "in": "formData", "type": "array", "items": {"type": "bool"}},
                ]
            },
        }
    }
    (post, put), report = imported(file, swagger(paths, definitions={"Pet": pet}))
    assert report.version == "2.0"
    assert post.properties == {"n": {"type": "integer"}, "name": {"type": "string"}}
    assert set(post.required) == {"n", "name"}
    assert post.returns == pet
    assert put.properties == {
        "photo": {"type": "string"},
        "tags": {"type": "array", "items": {"type": "boolean"}},
    }
    assert put.required == ("photo",)
