"""ToolBench's queries and tools, with the names its own code gives."""

import json
from pathlib import Path
from typing import Any

import pytest

from toolloom.pipeline.formats.importers import toolbench
from toolloom.pipeline.formats.importers.ledger import ImportLog
from toolloom.schemas import Api

ENTRY = {
    "category_name": "Food",
    "tool_name": "Bread & Butter",
    "api_name": "List loaves",
    "api_description": "Lists the loaves of a bakery.",
    "required_parameters": [
        {"name": "bakeryId", "type": "NUMBER", "description": "Which one.", "default": "12"},
        {"name": "id", "type": "STRING", "description": "", "default": ""},
    ],
    "optional_parameters": [
        {"name": "fresh only", "type": "BOOLEAN", "description": "", "default": "true"},
        {"name": "lat", "type": "NUMBER", "description": "", "default": "48.2"},
        {"name": "sort", "type": "ENUM", "description": "", "default": "price"},
    ],
    "method": "GET",
    "template_response": {
        "loaves": [{"name": "str", "grams": "int", "_list_length": 3}],
        "tags": ["list of str with length 5"],
        "next": "NoneType",
    },
}


def gather(path: Path, document: Any, **given: Any) -> tuple[list[Api], ImportLog]:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(document))
    ledger = ImportLog(path.name)
    return list(toolbench.read(path, ledger, **given)), ledger


def test_a_query_file_gives_each_api_once(tmp_path: Path) -> None:
    """An API that stands in several queries is one API, and the repeats are told."""
    query = {"api_list": [ENTRY], "query": "Which bread is there?", "query_id": 1}
    (api,), ledger = gather(tmp_path / "queries.json", [query, query])
    assert api.id == "Food/Bread & Butter/List loaves"
    assert api.function == "list_loaves_for_bread_butter"
    assert ledger.read == 1 and "count once: 1." in ledger.report(imported=1).notes[0]


def test_types_and_defaults_follow_toolbench(tmp_path: Path) -> None:
    """NUMBER is an integer, or a number where its default shows it; names are standardised."""
    (api,), _ = gather(tmp_path / "q.json", [{"api_list": [ENTRY]}])
    bakery = {"type": "integer", "description": "Which one.", "examples": [12]}
    assert api.properties["bakeryid"] == bakery
    assert api.properties["fresh_only"] == {"type": "boolean", "default": True}
    assert api.properties["lat"] == {"type": "number", "default": 48.2}
    assert api.properties["sort"] == {"type": "string", "default": "price"}
    assert api.required == ("bakeryid", "is_id")


def test_a_template_of_type_names_is_what_it_returns(tmp_path: Path) -> None:
    """The values of `template_response` are names of types; lists keep their items."""
    (api,), _ = gather(tmp_path / "q.json", [{"api_list": [ENTRY]}])
    loaf = {"name": {"type": "string"}, "grams": {"type": "integer"}}
    assert api.fields["loaves"]["items"]["properties"] == loaf
    assert api.fields["tags"] == {"type": "array", "items": {"type": "string"}}
    assert api.fields["next"] == {"type": "null"}


def test_a_tool_file_is_filed_by_its_folder(tmp_path: Path) -> None:
    """In `tools/<category>/<tool>.json` the folder is the category; an answer shows the result."""
    api = {"name": "2 loaves", "description": "Two.", "required_parameters": []}
    tool = {
        "tool_name": "Bread",
        "standardized_name": "bread_shop",
        "api_list": [{**api, "test_endpoint": {"price": 2.5}}],
    }
    (found,), _ = gather(tmp_path / "tools" / "Food" / "bread.json", tool)
    assert found.id == "Food/Bread/2 loaves"
    assert found.function == "get_2_loaves_for_bread_shop"
    assert found.fields == {"price": {"type": "number"}}


def test_function_names_keep_their_last_64_characters(tmp_path: Path) -> None:
    """As in ToolBench, a long name loses its beginning."""
    entry = {**ENTRY, "api_name": "x" * 80}
    (api,), _ = gather(tmp_path / "q.json", [{"api_list": [entry]}])
    assert len(api.function) == 64 and api.function.endswith("x_for_bread_butter")


def test_what_is_left_out_is_booked(tmp_path: Path) -> None:
    """Defaults of another type, second parameters of one name and bare names are told."""
    entry = {
        **ENTRY,
        "required_parameters": [],
        "optional_parameters": [
            {"name": "n", "type": "NUMBER", "default": "many"},
            {"name": "N", "type": "STRING"},
            7,
        ],
    }
    bare = {"tool_name": "Bread", "api_name": "Only a name"}
    found, ledger = gather(tmp_path / "q.json", [{"api_list": [entry, bare, 3]}, {"query": "?"}, 4])
    report = ledger.report(imported=len(found))
    assert [cut.place for cut in report.cut] == [
        "parameters.n.default",
        "optional_parameters, number 2",
        "optional_parameters, number 3",
    ]
    assert len(found) == 1 and report.read == 1 + len(report.skipped) == 5


@pytest.mark.parametrize("document", [None, [], 5, {}, {"api_list": 5}, {"api_list": [5]}, [[]]])
def test_other_json_does_not_fit(document: Any) -> None:
    """Values of other forms are told apart, whatever their types."""
    assert not toolbench.fits(document)


def test_a_given_category_wins(tmp_path: Path) -> None:
    """What the user says goes before what the file says."""
    (api,), _ = gather(tmp_path / "q.json", [{"api_list": [ENTRY]}], category="Mine")
    assert api.category == "Mine"
