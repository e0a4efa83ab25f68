"""What importers find becomes APIs: ids are unique, repeats are told, losses are booked."""

from __future__ import annotations

from typing import Any

from hypothesis import example, given
from hypothesis import strategies as st
from jsonschema import Draft202012Validator
from support.json_values import SCALARS, json_values

from toolloom.pipeline.formats.import_log import ImportLog
from toolloom.pipeline.formats.intake import LONGEST_TEXT, ApiBuilder, line
from toolloom.schemas import Api

anything = json_values(SCALARS | st.floats())


def take(intake: ApiBuilder, **given_values: Any) -> list[Api]:
    values = {"category": "", "tool": "shop", "description": "", "parameters": None}
    return list(intake.api(**{**values, **given_values}))


def test_the_same_description_counts_once() -> None:
    """A repeat is no further operation: it is told in a note, not in `read`."""
    ledger = ImportLog("shop.json")
    intake = ApiBuilder(ledger, "openai")
    made = [*take(intake, name="buy"), *take(intake, name="buy"), *take(intake, name="sell")]
    intake.close()
    assert [api.name for api in made] == ["buy", "sell"]
    report = ledger.report(imported=2)
    assert report.read == 2
    assert report.notes == ("shop.json: descriptions that stand again and count once: 1.",)


def test_namesakes_get_ids_of_their_own() -> None:
    """Two descriptions under one name become two APIs, whose rename is booked."""
    ledger = ImportLog("shop.json")
    intake = ApiBuilder(ledger, "openai")
    first = take(intake, name="buy", description="Buys a book.")
    second = take(intake, name="buy", description="Buys a car.")
    ids = [api.id for api in first + second]
    assert ids == ["shop/shop/buy", "shop/shop/buy (2)"]
    assert [api.function for api in first + second] == ["buy", "buy_2"]
    assert [renamed.why for renamed in ledger.report(imported=2).renamed] == ["taken"]


def test_a_namesake_gets_no_id_that_another_name_has() -> None:
    """Ids are unique, whatever order the names come in."""
    intake = ApiBuilder(ImportLog("shop.json"), "openai")
    wanted = [("buy", "1"), ("buy", "2"), ("buy (2)", "3"), ("sell (2)", "4"), ("sell", "5")]
    found = [take(intake, name=n, description=d) for n, d in [*wanted, ("sell", "6")]]
    assert len({api.id for (api,) in found}) == len(found)


def test_what_has_no_name_is_booked() -> None:
    """An entry without a name is counted and skipped with a reason."""
    ledger = ImportLog("shop.json")
    assert take(ApiBuilder(ledger, "openai"), name=None, description="Lost and found.") == []
    (skipped,) = ledger.report(imported=0).skipped
    assert skipped.what == "shop: Lost and found." and ledger.read == 1


def test_long_descriptions_are_cut_and_booked() -> None:
    """A description keeps at most 1,024 characters; what is left out is told."""
    ledger = ImportLog("shop.json")
    (api,) = take(ApiBuilder(ledger, "openai"), name="buy", description="many words " * 300)
    (cut,) = ledger.report(imported=1).cut
    assert len(api.description) <= LONGEST_TEXT and cut.why == "text" and cut.bytes > 2000


@given(anything, anything, anything, anything, anything)
@example("shop", "buy", None, "parameters that are no object", None)
def test_whatever_comes_is_an_api_or_a_reason(
    tool: Any, name: Any, description: Any, parameters: Any, returns: Any
) -> None:
    """Values of any type give one API with valid schemas, or one skipped line."""
    ledger = ImportLog("x")
    described = {"description": description, "parameters": parameters, "returns": returns}
    made = take(ApiBuilder(ledger, "openai"), tool=tool, name=name, **described)
    for api in made:
        Draft202012Validator.check_schema(api.parameters)
        Draft202012Validator.check_schema(api.returns or {})
        assert api.parameters["type"] == "object"
        api.model_dump_json()
    assert len(made) + len(ledger.report(imported=0).skipped) == ledger.read == 1


def test_names_are_one_line() -> None:
    """Line breaks in a name become spaces; anything but text and numbers is no name."""
    assert line(" a\n b\t") == "a b"
    assert line(7) == "7"
    assert line(["a"]) == "" and len(line("x" * 5000)) == 200
