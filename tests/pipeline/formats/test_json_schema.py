"""Schemas of any dialect, and schemas told from values."""

from __future__ import annotations

import json
import time
from functools import reduce
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from jsonschema import Draft202012Validator
from support.json_values import SCALARS, json_values

from toolloom.pipeline.formats.import_log import ImportLog
from toolloom.pipeline.formats.json_schema import (
    PARAMETERS,
    RETURNS,
    Resolver,
    SchemaBudget,
    arguments,
    plain,
    schema_of,
)
from toolloom.schemas import canonical

API = "Zoo/zoo/find"
WORDS = """
    type properties required items anyOf oneOf allOf $ref enum const default example examples
    additionalProperties pattern format minimum exclusiveMinimum multipleOf maxLength uniqueItems
    nullable readOnly description title not patternProperties prefixItems definitions
"""
VALUES = ["string", "int", "dict", "object", "array", "any", "#", "#/definitions/a", "#/", "(", ""]
KEYS = st.sampled_from(WORDS.split()) | st.text(max_size=5)
SCHEMAS = json_values(SCALARS | st.floats() | st.sampled_from(VALUES), KEYS, size=5, most=40)


def ledger() -> ImportLog:
    return ImportLog("zoo.json")


def read(schema: Any, budget: SchemaBudget = PARAMETERS, place: str = "parameters") -> Any:
    return plain(schema, ledger=ledger(), api=API, place=place, budget=budget)


def booked(schema: Any, budget: SchemaBudget = PARAMETERS) -> list[tuple[str, str]]:
    book = ledger()
    plain(schema, ledger=book, api=API, place="parameters", budget=budget)
    return [(cut.why, cut.place) for cut in book.report(imported=1).cut]


@given(SCHEMAS, st.sampled_from([PARAMETERS, RETURNS, SchemaBudget(bytes=150, depth=2)]))
def test_whatever_goes_in_a_valid_schema_within_the_budget_comes_out(
    schema: Any, budget: SchemaBudget
) -> None:
    """The result is JSON, a legal schema of 2020-12, and never over the budget."""
    found = read(schema, budget)
    Draft202012Validator.check_schema(found)
    text = canonical(found)
    assert json.loads(text) == found
    assert len(text.encode()) <= budget.bytes
    assert "$ref" not in found
    whole = arguments(schema, ledger=ledger(), api=API)
    Draft202012Validator.check_schema(whole)
    assert whole["type"] == "object"
    assert set(whole.get("required", ())) <= set(whole["properties"])


def case(rule: str, schema: Any, expected: Any, *cuts: tuple[str, str]) -> Any:
    return pytest.param(schema, expected, [*cuts], id=rule)


NAMES = ["$ref", "type", "enum", "required", "allOf", "properties", "description"]
NAMED = {"type": "object", "properties": {name: {"type": "string"} for name in NAMES}}
TEXT, WHOLE = {"type": "string"}, {"type": "integer"}


def object_of(**properties: Any) -> Any:
    return {"type": "object", "properties": properties, "required": [*properties]}


CYCLE = {"properties": {"name": TEXT, "mother": {"$ref": "#/$defs/Animal"}}}
TITLES = {"start_date": "Start Date", "a": "AnimalModel", "b": "Born after this day"}
DEEP: Any = reduce(lambda s, name: {"type": "object", "properties": {name: s}}, "fedcba", TEXT)
CUT: Any = reduce(
    lambda s, name: {"type": "object", "properties": {name: s}}, "dcba", {"type": "object"}
)


@pytest.mark.parametrize(
    ("schema", "expected", "cuts"),
    [
        *(
            case(f"{name} is {types}", {"type": name}, {"type": types})
            for name, types in {
                "dict": "object", "float": "number", "int": "integer", "bool": "boolean",
                "tuple": "array", "String": "string", "file": "string",
            }.items()
        ),
        case("two types", {"type": ["integer", "null"]}, {"type": ["integer", "null"]}),
        case("any is not a type", {"type": "any"}, {}),
        case("an unknown type is left out", {"type": "Wombat"}, {}, ("invalid", "parameters.type")),
        case(
            "null beside the type is null in it and among the choices",
            {"type": "string", "nullable": True, "enum": ["a"]},
            {"type": ["string", "null"], "enum": ["a", None]},
        ),
        case(
            "null beside alternatives is null in the type",
            {"oneOf": [TEXT], "x-nullable": True},
            {"type": ["string", "null"]},
        ),
        case(
            "properties may be named like keywords",
            {**NAMED, "required": ["$ref"]},
            {**NAMED, "required": ["$ref"]},
        ),
        case(
            "a description beside a reference is about this place and wins",
            {
                "properties": {"home": {"$ref": "#/$defs/Place", "description": "Its home."}},
                "$defs": {"Place": {**TEXT, "description": "A place."}},
            },
            {"type": "object", "properties": {"home": {**TEXT, "description": "Its home."}}},
        ),
        case(
            "a schema that holds itself is without parts the second time",
            {"$ref": "#/$defs/Animal", "$defs": {"Animal": CYCLE}},
            {"type": "object", "properties": {"name": TEXT, "mother": {"type": "object"}}},
            ("cycle", "parameters.mother"),
        ),
        case(
            "the parts of allOf are one object",
            {"allOf": [object_of(a=TEXT), object_of(b=WHOLE)], "properties": {"a": {"maxLength": 3}}},
            object_of(a={**TEXT, "maxLength": 3}, b=WHOLE),
        ),
        case(
            "oneOf is anyOf, as what is cut may make two of them fit",
            {"oneOf": [TEXT, {"properties": {"id": WHOLE}}]},
            {"anyOf": [TEXT, {"type": "object", "properties": {"id": WHOLE}}]},
        ),
        case(
            "more than eight alternatives become their types",
            {"oneOf": [{"type": "string", "maxLength": n} for n in range(20)]},
            TEXT,
            ("enum", "parameters.anyOf"),
        ),
        case(
            "a number that YAML read among the choices of a text is text",
            {"type": "string", "enum": [1, True, "on"]},
            {"type": "string", "enum": ["1", "true", "on"]},
        ),
        case(
            "a text among choices of a boolean is one",
            {"type": "boolean", "enum": ["true"]},
            {"type": "boolean", "enum": [True]},
        ),
        case(
            "64 choices are enough to offer",
            {"type": "string", "enum": [f"c{n}" for n in range(900)]},
            {"type": "string", "enum": [f"c{n}" for n in range(64)]},
            ("enum", "parameters.enum"),
        ),
        case(
            "a boolean exclusiveMinimum says how minimum is meant",
            {**WHOLE, "minimum": 0, "exclusiveMinimum": True, "maximum": 9, "exclusiveMaximum": False},
            {"type": "integer", "exclusiveMinimum": 0, "maximum": 9},
        ),
        case(
            "required on a property, as in draft 3, is lifted",
            {"properties": {"a": {"type": "string", "required": True}, "b": {"required": False}}},
            {"type": "object", "properties": {"a": TEXT, "b": {}}, "required": ["a"]},
        ),
        case("four levels are written out", DEEP, CUT, ("depth", "parameters.a.b.c.d")),
        case(
            "a rule without a counterpart goes, and so does that nothing else may stand there",
            {"patternProperties": {"^x": {}}, "additionalProperties": False, "properties": {"a": {}}},
            {"type": "object", "properties": {"a": {}}},
            ("invalid", "parameters.patternProperties"),
        ),
        case(
            "a title describes only what the name does not say",
            {"properties": {n: {"type": "string", "title": t} for n, t in TITLES.items()}},
            {
                "type": "object",
                "properties": {**dict.fromkeys(TITLES, TEXT), "b": {**TEXT, "description": TITLES["b"]}},
            },
        ),
    ],
)  # fmt: skip
def test_a_schema_of_any_dialect_is_one_of_2020_12(schema: Any, expected: Any, cuts: Any) -> None:
    """Names of types of Python, BFCL and Swagger, older keywords, references; all loss is booked."""
    assert read(schema) == expected
    assert booked(schema) == cuts


def soon(schema: Any) -> Any:
    start = time.perf_counter()
    found = read(schema)
    assert time.perf_counter() - start < 20  # without a bound: hours
    return found


def test_objects_that_multiply_stay_within_the_budget() -> None:
    """Nine levels of nine aliases are 387 million schemas, and a few kilobytes here."""
    laugh: Any = {"type": "string"}
    for _ in range(9):
        laugh = {"allOf": [laugh] * 9, "properties": {f"a{n}": laugh for n in range(9)}}
    laughing = soon({"properties": {"ha": laugh}, "default": laugh})
    assert len(canonical(laughing)) <= PARAMETERS.bytes


@pytest.mark.parametrize("pattern", [r"\p{L}+", "(", "a" * 201, "[[a]", 5])
def test_patterns_that_python_reads_otherwise_are_left_out(pattern: Any) -> None:
    """Such a pattern would break or mislead whoever checks with the schema."""
    assert "pattern" not in read({"type": "string", "pattern": pattern})


def test_the_byte_budget_gives_up_depth_first_and_then_properties() -> None:
    """What is required stays longest, and every reason is booked once, with the first place."""
    inner = {"properties": {f"p{n}": {**TEXT, "description": "x" * 90} for n in range(20)}}
    schema = {"properties": {f"q{n}": inner for n in range(5)}, "required": ["q4"]}
    assert booked(schema, SchemaBudget(bytes=2_000))[0][0] == "bytes"
    found = read(schema, SchemaBudget(bytes=400))
    assert "q4" in found["properties"]
    assert found["required"] == ["q4"]


def test_a_reading_property_is_no_argument_and_a_writing_one_no_result() -> None:
    """`readOnly` values come from the server, `writeOnly` ones never do."""
    schema = {
        "properties": {"id": {"readOnly": True}, "key": {"writeOnly": True}},
        "required": ["id", "key"],
    }
    assert list(read(schema)["properties"]) == ["key"]
    assert list(read(schema, RETURNS)["properties"]) == ["id"]


def test_references_without_a_source_are_booked() -> None:
    """A schema that came alone can refer to nothing but itself."""
    book = ledger()
    places = {"a": "http://x.example/a", "b": "b.json", "c": "#/c"}
    schema = {"properties": {name: {"$ref": place} for name, place in places.items()}}
    plain(schema, ledger=book, api=API, place="parameters")
    found = book.report(imported=1).unresolved
    assert [each.why for each in found] == ["remote", "outside", "missing"]


def test_alternatives_at_the_top_of_arguments_become_one_object() -> None:
    """OpenAI allows no `anyOf` there: all properties, and what all alternatives require."""
    other = {"properties": {"id": TEXT, "y": {}}, "required": ["id"]}
    found = arguments({"oneOf": [object_of(id=TEXT, x={}), other]}, ledger=ledger(), api=API)
    assert found == {**other, "type": "object", "properties": {"id": TEXT, "x": {}, "y": {}}}


def test_choices_that_multiply_are_left_out() -> None:
    """A choice that is large is not written out to find that it is."""

    def laugh() -> Any:
        return reduce(lambda inner, _: [inner] * 9, range(12), ["ha"])

    schema = {"enum": ["a", laugh()], "allOf": [{"enum": [laugh(), "a", "b"]}]}
    assert soon(schema) == {"enum": ["a"]}


values = json_values()


@given(st.lists(values, max_size=4))
def test_all_values_fit_their_schema(seen: list[Any]) -> None:
    """A schema is valid and accepts every value it was told from, shallow ones at least."""
    schema = schema_of(seen)
    Draft202012Validator.check_schema(schema)
    assert all(Draft202012Validator(schema).is_valid(value) for value in seen)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """`zoo/` with a root and what it refers to, and a secret beside it."""
    zoo = tmp_path / "zoo"
    (zoo / "parts").mkdir(parents=True)
    (zoo / "parts" / "animal.json").write_text(
        json.dumps({"Animal": {"$ref": "food.yaml#/Food"}, "Name": {"$ref": "#/Plain"}, "Plain": 1})
    )
    (zoo / "parts" / "food.yaml").write_text("Food:\n  type: string\n")
    (zoo / "notes.md").write_text("# Notes\n")
    (zoo / "broken.json").write_text("{")
    (zoo / "word.yaml").write_text("just a word\n")
    (tmp_path / "secret.json").write_text('{"key": 1}')
    (zoo / "link.json").symlink_to(tmp_path / "secret.json")
    return zoo


ROOT: Any = {
    "paths": {"/a/{id}": {"get": {"x~y": 5}, "list": [{"z": 6}]}},
    "also": {"$ref": "#/paths/~1a~1{id}"},
    "loop": {"$ref": "#/loop"},
    "ping": {"$ref": "#/pong"},
    "pong": {"$ref": "#/ping"},
}


def look(folder: Path, reference: str) -> tuple[Any, list[str]]:
    ledger = ImportLog("zoo")
    resolver = Resolver(ROOT, ledger, folder / "root.yaml")
    found = resolver.target(reference, resolver.root, "here")
    why = [each.why for each in ledger.report(imported=0).unresolved]
    return (found.value if found else None), list(why)


FOLLOWED = {
    "#/paths/~1a~1{id}/get/x~0y": 5,
    "#/paths/~1a~1%7Bid%7D/get/x~0y": 5,
    "#/paths/~1a~1{id}/list/0/z": 6,
    "#/also/get/x~0y": 5,
    "parts/animal.json#/Plain": 1,
    "./parts/../parts/food.yaml#/Food/type": "string",
    "parts/animal.json#/Animal/type": "string",
}
BOOKED = {
    "remote": """
        http://zoo.example/a.json HTTPS://zoo.example/a.json#/x file:///etc/passwd
        //zoo.example/a.json
    """,
    "outside": r"""
        /etc/passwd ../secret.json %2e%2e/secret.json parts/../../secret.json ..\secret.json
        link.json
    """,
    "missing": f"""
        #/nothing/here #/paths/~1a~1{{id}}/list/7 #/paths/~1a~1{{id}}/list/-1 #name gone.json
        nul%00.json {"x" * 5_000} #/loop/deeper #/ping/deeper
    """,
    "unreadable": "notes.md broken.json word.yaml",
}


@pytest.mark.parametrize("reference", FOLLOWED)
def test_references_within_the_folder_are_followed(folder: Path, reference: str) -> None:
    """Escaped slashes, list positions, other files, and pointers through other references."""
    assert look(folder, reference) == (FOLLOWED[reference], [])


@pytest.mark.parametrize("why", BOOKED)
def test_what_is_not_followed_is_booked_with_its_reason(folder: Path, why: str) -> None:
    """Nothing is fetched, nothing outside the folder is read, and the report says so."""
    for reference in BOOKED[why].split():
        assert look(folder, reference) == (None, [why]), reference
