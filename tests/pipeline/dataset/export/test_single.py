"""xLAM's and BFCL's rows, written out by hand after their dataset cards."""

from __future__ import annotations

import json
from typing import Any

import pytest
from support.shop import changed

from toolloom.pipeline.formats import bfcl as reader
from toolloom.pipeline.formats.base import NotRepresentable, number_of
from toolloom.pipeline.formats.bfcl import _allowed, _dialect, bfcl
from toolloom.pipeline.formats.import_log import ImportLog
from toolloom.pipeline.formats.xlam import xlam
from toolloom.schemas import Sample

SYSTEM = "You call APIs. The present moment is Monday 2026-03-02 09:30."


def test_xlam_has_text_of_json_and_flat_parameters(samples: dict[str, Sample]) -> None:
    """xLAM-60k's four fields: types as in Python, optional ones marked, defaults given."""
    exported = xlam(samples["parallel"], "object")
    assert exported.rows == (
        (
            "sft",
            {
                "id": 7000002,
                "query": "What is the weather in Zürich, and what is it in Oslo?",
                "tools": '[{"name": "current_weather", "description": "Current weather of a city.",'
                ' "parameters": {"city": {"description": "Name of the city.", "type": "str"}, '
                '"unit": {"description": "", "type": "str, optional", "default": "celsius"}}}, '
                '{"name": "find_trains", "description": "Trains to a city.", "parameters": '
                '{"city": {"description": "", "type": "str"}, '
                '"seats": {"description": "", "type": "int"}}}]',
                "answers": '[{"name": "current_weather", "arguments": {"city": "Zürich"}}, '
                '{"name": "current_weather", "arguments": {"city": "Oslo"}}]',
            },
        ),
    )
    assert "observations" in exported.lost


def test_bfcl_has_a_question_and_possible_answers(samples: dict[str, Sample]) -> None:
    """BFCL v4's two files: its type names, and lists of allowed values with "" for leaving out."""
    city = {"type": "string", "description": "Name of the city."}
    unit = {"type": "string", "enum": ["celsius", "kelvin"], "default": "celsius"}
    weather = {"properties": {"city": city, "unit": unit}, "required": ["city"]}
    seats = {"city": {"type": "string"}, "seats": {"type": "integer"}}
    trains = {"properties": seats, "required": ["city", "seats"]}
    asked = [
        {"role": "system", "content": SYSTEM},
        {"role": "user", "content": "What is the weather in Zürich?"},
    ]
    functions = [
        {"name": name, "description": text, "parameters": {"type": "dict", **parameters}}
        for name, text, parameters in (
            ("current_weather", "Current weather of a city.", weather),
            ("find_trains", "Trains to a city.", trains),
        )
    ]
    identity, allowed = "multiple_7000001", {"city": ["Zürich"], "unit": ["celsius", ""]}
    question = {"id": identity, "question": [asked], "function": functions}
    answers = {"id": identity, "ground_truth": [{"current_weather": allowed}]}
    rows = (("multiple", question), ("multiple answers", answers))
    assert bfcl(samples["single"], "object").rows == rows


def test_no_call_is_an_answer_too(samples: dict[str, Sample]) -> None:
    """Irrelevance: xLAM's answers are empty, BFCL has a question and no answer."""
    ((_, row),) = xlam(samples["irrelevance"], "object").rows
    assert row["answers"] == "[]"
    assert [part for part, _ in bfcl(samples["irrelevance"], "object").rows] == ["irrelevance"]


@pytest.mark.parametrize("write", [xlam, bfcl])
@pytest.mark.parametrize(
    ("kind", "why"),
    [("search", "searched for before"), ("clarification", "asks before it calls")],
)
def test_more_than_one_round_has_no_place(
    write: Any, kind: str, why: str, samples: dict[str, Sample]
) -> None:
    """What needs more than one round of calls is left out, with its reason."""
    with pytest.raises(NotRepresentable, match=why):
        write(samples[kind], "object")


@pytest.mark.parametrize("write", [xlam, bfcl])
def test_later_turns_are_told_as_lost(write: Any, samples: dict[str, Sample]) -> None:
    """Of several turns the first is held; of an error the first call."""
    assert "the user's later turns" in write(samples["multi_turn"], "object").lost
    assert "what follows an error" in write(samples["recovery"], "object").lost


def test_bfcl_types_are_its_own_at_every_depth() -> None:
    """A property called `type` is no type, and values are left as they are."""
    schema = {
        "type": "object",
        "properties": {
            "type": {"type": "number", "enum": [1]},
            "many": {"type": "array", "items": {"type": ["object", "null"], "properties": {}}},
            "any": {"type": ["string", "integer"], "default": {"type": "object"}},
        },
    }
    assert _dialect(schema) == {
        "type": "dict",
        "properties": {
            "type": {"type": "float", "enum": [1]},
            "many": {"type": "array", "items": {"type": "dict", "properties": {}}},
            "any": {"type": "any", "default": {"type": "object"}},
        },
    }


def test_bfcl_lists_the_values_of_an_objects_keys() -> None:
    """As in BFCL's own answers: an object's keys have lists, and so have those of a list's."""
    call = {"name": "f", "arguments": {"a": {"x": 1}, "b": [{"y": [2]}], "c": [3, 4]}}
    assert _allowed(call, None) == {"f": {"a": [{"x": [1]}], "b": [[{"y": [[2]]}]], "c": [[3, 4]]}}


def test_bfcl_functions_import_again(samples: dict[str, Sample], tmp_path: Any) -> None:
    """The importer of BFCL's files reads the schemas back as they were."""
    path = tmp_path / "BFCL_v4_multiple.json"
    path.write_text(json.dumps(bfcl(samples["single"], "object").rows[0][1]) + "\n")
    apis = list(reader.read(path, ImportLog(str(path))))
    assert [(api.function, api.parameters) for api in apis] == [
        (api.function, api.parameters) for api in samples["single"].dialogue.query.pool
    ]


@pytest.mark.parametrize("seed", ["7", "1700000000", str(2**63)])
def test_samples_have_numbers_of_their_own(seed: str, samples: dict[str, Sample]) -> None:
    """Whatever the length of the seed: BFCL pairs questions with answers by them."""
    sample = samples["single"]
    numbers = {number_of(changed(sample, id=f"train-{seed}-{n:06d}")) for n in range(30)}
    assert len(numbers) == 30
    assert max(numbers) < 10**15


def test_a_parameter_may_have_a_schema_that_is_just_true(samples: dict[str, Sample]) -> None:
    """JSON Schema has `true` for a schema; it has no default that could be left out."""
    (first, _) = samples["single"].dialogue.query.pool
    api = first.model_copy(update={"parameters": {"properties": {"city": True}}})
    call = {"name": api.function, "arguments": {}}
    assert _allowed(call, api) == {api.function: {}}
