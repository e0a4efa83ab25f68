"""Documents that look like a known format and hold anything."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from jsonschema import Draft202012Validator

from toolloom.pipeline.formats import api_bank, bfcl, openai_tools, public_apis, toolbench
from toolloom.pipeline.formats.import_log import ImportLog
from toolloom.schemas import Api

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
IMPORTERS = [api_bank, bfcl, openai_tools, public_apis, toolbench]


@pytest.mark.parametrize("importer", IMPORTERS, ids=lambda module: module.__name__.split(".")[-1])
def test_any_document_is_read_or_booked(importer: Any) -> None:
    """Whatever a document holds, APIs are valid, names unique and the account is right."""
    reader: Callable[..., Iterator[Any]] = importer.read

    @given(documents)
    def check(document: Any) -> None:
        ledger = ImportLog("odd.json")
        importer.fits(document)
        found = list(reader(Path("odd.json"), ledger, document=document))
        report = ledger.report(imported=len(found))
        assert report.read == len(found) + len(report.skipped)
        apis = [api for api in found if isinstance(api, Api)]
        assert len({api.function for api in apis}) == len({api.id for api in apis}) == len(apis)
        for api in apis:
            Draft202012Validator.check_schema(api.parameters)
            Draft202012Validator.check_schema(api.returns or {})
        report.model_dump_json()
        assert all(one.model_dump_json() for one in found)

    check()


@pytest.mark.parametrize("importer", IMPORTERS, ids=lambda module: module.__name__.split(".")[-1])
@pytest.mark.parametrize(
    "document",
    [
        *(None, 5, [], {}, [5], [[]], {"tools": 5}, {"entries": 5}, {"entries": [5]}),
        *({"api_list": 5}, {"api_list": [5]}, [{"name": 5}], {"name": "x"}),
    ],
    ids=str,
)
def test_other_json_fits_no_format(importer: Any, document: Any) -> None:
    """Values of other forms are told apart, whatever their types."""
    assert not importer.fits(document)
