"""Documents that look like a known format and hold anything, or are of none."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from copy import deepcopy
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from jsonschema import Draft202012Validator
from support.api_specs import imported, spec
from support.json_values import places

from toolloom.pipeline.formats import api_bank, chat, toolbench
from toolloom.pipeline.formats.import_log import ImportLog
from toolloom.schemas import Api, ImportFailed

NAMES = """
    type name function parameters properties required description tools functions question
    response api_list api_name tool_name category_name required_parameters optional_parameters
    default template_response test_endpoint input_parameters output_parameters role text param_dict
    result output instruction input entries API Description Category inputSchema items enum
"""
WORDS = ["function", "dict", "NUMBER", "API", "str", "object", "ToolSearcher", "\ud800", "a.b", ""]
leaves = st.none() | st.booleans() | st.integers() | st.floats() | st.sampled_from(WORDS)
documents = st.recursive(
    leaves,
    lambda inner: (
        st.lists(inner, max_size=4)
        | st.dictionaries(st.sampled_from(NAMES.split()), inner, max_size=6)
        | st.dictionaries(st.text(max_size=4), inner, max_size=3)
    ),
    max_leaves=25,
)
IMPORTERS = [api_bank, chat, toolbench]


@pytest.mark.parametrize("importer", IMPORTERS, ids=lambda module: module.__name__.split(".")[-1])
def test_any_document_is_read_or_booked(importer: Any) -> None:
    """Whatever a document holds, APIs are valid, names unique and the account is right."""
    reader: Callable[..., Iterator[Api]] = importer.read

    @given(documents)
    def check(document: Any) -> None:
        ledger = ImportLog("odd.json")
        importer.fits(document)
        found = list(reader(Path("odd.json"), ledger, document=document))
        report = ledger.report(imported=len(found))
        assert report.read == len(found) + len(report.skipped)
        assert len({api.function for api in found}) == len({api.id for api in found}) == len(found)
        for api in found:
            Draft202012Validator.check_schema(api.parameters)
            Draft202012Validator.check_schema(api.returns or {})
        report.model_dump_json()
        assert all(one.model_dump_json() for one in found)

    check()


OPERATION = {
    "operationId": "find",
    "summary": "Find animals",
    "tags": ["zoo"],
    "parameters": [{"name": "n", "in": "query", "schema": {"type": "integer", "enum": [1, 2]}}],
    "requestBody": {
        "content": {"application/json": {"schema": {"$ref": "#/components/schemas/A"}}}
    },
    "responses": {
        "200": {"content": {"application/json": {"schema": {"allOf": [{"type": "array"}]}}}}
    },
}
ANIMAL = {"properties": {"mate": {"$ref": "#/components/schemas/A"}}, "required": ["mate"]}
REFERENCES = """
    # #/ #/paths #/components/schemas #/components/schemas/A #/paths/~1a/post ../secret.json
    /etc/passwd http://zoo.example/a.json file:///etc/passwd %2e%2e/etc/passwd odd.json#/paths
"""
references = st.sampled_from(REFERENCES.split()).map(lambda to: {"$ref": to})
schemas = st.recursive(
    documents | references,
    lambda inner: st.sampled_from(["allOf", "anyOf", "items", "properties"]).flatmap(
        lambda key: inner.map(lambda value: {key: [value, value] if "Of" in key else value})
    ),
    max_leaves=4,
)


def test_a_broken_openapi_description_is_read_or_refused(tmp_path: Path) -> None:
    """Parts that are gone, odd, moved into each other or referred to from anywhere: what comes of
    it are legal APIs, all accounted for, or one message; and nothing of another file."""
    whole = spec({"/a": {"post": OPERATION}}, components={"schemas": {"A": ANIMAL}})

    @given(st.lists(st.tuples(st.integers(0, 999), schemas | st.integers(0, 999)), min_size=1))
    def check(changes: list[tuple[int, Any]]) -> None:
        document = deepcopy(whole)
        for place, value in changes:
            found = list(places(document)) or [(document, "a")]
            holder, key = found[place % len(found)]
            if isinstance(value, int):  # another part of it
                other, name = found[value % len(found)]
                value = deepcopy(other.get(name) if isinstance(other, dict) else other[name])
            holder[key] = value
        try:
            apis, _ = imported(tmp_path / "odd.json", document)
        except ImportFailed as error:
            assert str(error)
        else:
            assert not any("root:x:0" in api.model_dump_json() for api in apis)

    check()
