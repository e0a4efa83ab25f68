"""Templates that people write: what comes of a file."""

from __future__ import annotations

import json
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from support.json_values import SCALARS, json_values
from support.template_files import APIS, choice, load, messages, template, told, weather

from toolloom.pipeline.templates.written.files import Given, check_files, load_templates
from toolloom.schemas import Scenario, SplitPlan, TemplateFileError


def test_a_slot_without_a_pool_takes_the_examples_of_its_argument(tmp_path: Path) -> None:
    """The schema of the argument is the pool of a slot that has none."""
    (one,) = load(tmp_path, weather())
    assert (one.kind, one.id, one.split) == ("written", "written-one", None)
    assert one.goal == "How is the weather in {city}?"
    assert one.apis == ("Travel/hotels/get_weather",)
    assert choice(one, "city").rows == (("Paris",), ("Rome",), ("Oslo",))
    assert choice(one, "city").sources == {"examples": 3}


def test_a_response_is_drawn_and_its_values_are_slots(tmp_path: Path) -> None:
    """Without `response` and `answer` both are made: arguments come back, the rest varies."""
    (one,) = load(tmp_path, weather())
    seen = messages(one)
    response = json.loads(seen[-2].content)["response"]
    assert response["city"] == "Paris"
    assert seen[-1].content == (
        f"The celsius is {response['celsius']}. The sky is {response['sky']}."
    )
    assert choice(one, "sky").sources == {"enum": 2}


def test_a_field_takes_the_pool_of_its_name(tmp_path: Path) -> None:
    """A pool that is named like a field of a drawn response holds the field's values."""
    rest = "  answer: It has {celsius} degrees.\n  pools: {celsius: {range: [3, 5]}}\n"
    (one,) = load(tmp_path, weather(rest=rest))
    assert choice(one, "celsius").rows == ((3,), (4,), (5,))
    assert messages(one)[-1].content == "It has 3 degrees."


def test_a_field_that_means_something_else_is_a_slot_of_its_own(tmp_path: Path) -> None:
    """A slot of the goal whose values do not fit a field of its name is not that field."""
    text = weather("Is it {sky} in {city}?", "  pools: {sky: [bright, grey]}\n")
    (one,) = load(tmp_path, text.replace("name: one", "name: one\n  answer: It is {sky_2}."))
    assert choice(one, "sky").rows == (("bright",), ("grey",))
    assert set(choice(one, "sky_2").rows) == {("clear",), ("cloudy",)}


def test_what_an_earlier_call_finds_out_is_a_reference(tmp_path: Path) -> None:
    """A value that the goal does not say comes from a field of an earlier response."""
    calls = (
        '[{api: book_room, arguments: {city: "{city}", guests: 2}}, '
        '{api: cancel_room, arguments: {booking_id: "{booking_id}"}}]'
    )
    (one,) = load(tmp_path, template("Book a room in {city} for 2, then cancel it.", calls))
    query = one.sample["dialogue"]["query"]
    assert query["scenario"] == Scenario.SEQUENTIAL
    assert query["intent"][1]["arguments"] == {}
    assert query["intent"][1]["references"] == {"booking_id": {"call": 0, "field": "booking_id"}}
    assert len(messages(one)) == 7


def test_calls_that_do_not_need_each_other_are_made_at_once(tmp_path: Path) -> None:
    """Two calls of one API in one act; each result has values of its own."""
    calls = (
        '[{api: get_weather, arguments: {city: "{here}"}}, '
        '{api: get_weather, arguments: {city: "{there}"}}]'
    )
    rest = "  pools: {here: [Bern, Basel], there: [Lyon, Nice]}\n"
    (one,) = load(tmp_path, template("Weather in {here} and in {there}?", calls, rest))
    assert one.sample["dialogue"]["query"]["scenario"] == Scenario.PARALLEL
    assert len(messages(one)[2].tool_calls) == 2
    assert choice(one, "celsius") is not choice(one, "celsius_2")
    assert messages(one)[-1].content.startswith("For Bern, the celsius is ")


def test_rows_of_a_table_stay_together(tmp_path: Path) -> None:
    """`together` is one choice, and what is derived from one of its slots joins it; a value keeps
    its type where it stands alone."""
    calls = '[{api: book_room, arguments: {city: "{city}", guests: "{guests}"}}]'
    rest = (
        "  together: [{slots: [city, guests], rows: [[Oslo, 2], [Rome, 5]]}]\n"
        "  pools: {shout: {of: city, as: upper}}\n  answer: '{shout}! Booking {booking_id}.'\n"
    )
    (one,) = load(tmp_path, template("{guests} people want a room in {city}.", calls, rest))
    assert choice(one, "city").slots == ("city", "guests", "shout")
    assert choice(one, "city").rows[1] == ("Rome", 5, "ROME")
    assert messages(one)[2].tool_calls[0].function.arguments == {"city": "Oslo", "guests": 2}


def test_pools_of_the_file_serve_every_template(tmp_path: Path) -> None:
    """A template's own pool goes before the file's."""
    call = '  calls: [{api: get_weather, arguments: {city: "{city}"}}]\n'
    text = (
        "pools: {city: [Bonn]}\ntemplates:\n"
        f"- name: a\n  goal: Weather in {{city}}?\n{call}"
        f"- name: b\n  goal: Is it nice in {{city}}?\n{call}  pools: {{city: [Kiel]}}\n"
    )
    first, second = load(tmp_path, text)
    assert choice(first, "city").rows == (("Bonn",),)
    assert choice(second, "city").rows == (("Kiel",),)


def test_doubled_braces_are_braces(tmp_path: Path) -> None:
    """`{{` and `}}` are letters of the text."""
    calls = '[{api: add_note, arguments: {text: "{{{text}}}"}}]'
    rest = "  pools: {text: [buy milk, call Ada]}\n"
    (one,) = load(tmp_path, template("Note this: {text}", calls, rest))
    arguments = one.sample["dialogue"]["query"]["intent"][0]["arguments"]
    assert arguments["text"].startswith("{")
    assert arguments["text"].endswith("}")


def test_no_api_that_is_held_out_is_a_distractor(tmp_path: Path) -> None:
    """A template of seen APIs is shown with seen ones alone, one of unseen ones with all."""
    sea = APIS[2].model_copy(update={"category": "Sea", "function": "sea_cancel"})
    path = tmp_path / "t.yaml"
    path.write_text(weather())
    for seen, unseen, count in (("Travel", "Sea", len(APIS)), ("Sea", "Travel", len(APIS) + 1)):
        splits = SplitPlan(seen=(seen,), unseen=(unseen,))
        (one,) = load_templates([path], Given((*APIS, sea), distractors=9, splits=splits))
        assert len(one.sample["dialogue"]["query"]["pool"]) == count


def test_the_same_seed_draws_the_same_templates(tmp_path: Path) -> None:
    """Values depend on the seed and the names, not on what else is in the file."""
    assert load(tmp_path, weather(), seed=3) == load(tmp_path, weather(), seed=3)
    assert load(tmp_path, weather(), seed=3) != load(tmp_path, weather(), seed=4)


WORDS = st.sampled_from(["{city}", "{", "{{", "city", "get_weather", "of", "range", "faker", "é"])
ANYTHING = json_values(SCALARS | st.floats() | WORDS, WORDS)
FIELDS = ["name", "goal", "goals", "calls", "answer", "pools", "together", "now", "language"]


@given(st.dictionaries(st.sampled_from(FIELDS), ANYTHING, max_size=4), ANYTHING, ANYTHING, ANYTHING)
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_no_value_anywhere_breaks_the_reader(
    tmp_path: Path, changes: dict[str, Any], pool: Any, response: Any, argument: Any
) -> None:
    """Whatever stands in a field, a pool or a response: templates, or mistakes in words."""
    asked = {"api": "get_weather", "arguments": {"city": "{city}"}}
    noted = {"api": "add_note", "arguments": {"text": argument}, "response": response}
    wholes = [
        {"name": "one", "goal": "Weather in {city}?", "calls": [asked], **changes},
        {"name": "two", "goal": "Note {city}.", "calls": [noted], "pools": {"city": pool}},
    ]
    path = tmp_path / "t.yaml"
    path.write_text(yaml.safe_dump({"templates": wholes}, allow_unicode=True), encoding="utf-8")
    with suppress(TemplateFileError):
        load_templates([path], Given(APIS))


@given(st.binary(max_size=200) | st.text(alphabet="a{}[]:-\n &*!|>'\"#%@,?", max_size=60))
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_no_text_breaks_the_reader(tmp_path: Path, text: bytes | str) -> None:
    """Any bytes: mistakes in words, never anything else."""
    path = tmp_path / "t.yaml"
    path.write_bytes(text.encode() if isinstance(text, str) else text)
    with pytest.raises(TemplateFileError):
        load_templates([path], Given(APIS))


def test_all_mistakes_of_all_files_are_told_at_once(tmp_path: Path) -> None:
    """One run tells everything that is to be mended, whatever file it is in."""
    (tmp_path / "a.yaml").write_text(weather("{x}{y}"))
    (tmp_path / "b.yaml").write_text("a: b: c\n")
    with pytest.raises(TemplateFileError) as raised:
        load_templates([tmp_path], Given(APIS))
    text = str(raised.value)
    assert "a.yaml has 3 mistakes" in text
    assert "b.yaml: line 1: is not valid YAML" in text


def test_a_name_is_given_once_across_files(tmp_path: Path) -> None:
    """Ids are unique in a run; the numbers of paraphrases count too."""
    (tmp_path / "a.yaml").write_text(weather())
    (tmp_path / "b.yml").write_text(weather())
    with pytest.raises(TemplateFileError, match=r"`one` is the name of the template in line 2 of"):
        load_templates([tmp_path], Given(APIS))


def test_files_that_cannot_be_read_are_told(tmp_path: Path) -> None:
    """Missing, no text, too large, a folder without any: each in words."""
    (tmp_path / "bytes.yaml").write_bytes(b"\xff\xfe\xfa")
    (tmp_path / "large.yaml").write_text("# " + "x" * 1_000_001)
    (tmp_path / "none").mkdir()
    for path, told_as in {
        "missing.yaml": "cannot be read",
        "bytes.yaml": "is not UTF-8 text",
        "large.yaml": "has 1,000,003 bytes; at most 1,000,000 are read",
        "none": "the folder holds no .yaml file",
    }.items():
        with pytest.raises(TemplateFileError, match=told_as):
            load_templates([tmp_path / path], Given(APIS))


def test_a_file_of_too_many_values_is_refused(tmp_path: Path) -> None:
    """A file within the size may still hold more values than a person writes."""
    text = told(tmp_path, "a: [" + "1," * 200_000 + "]\n")
    assert text == "FILE: line 1: more than 100,000 values. Split the file."


@pytest.mark.parametrize(
    ("named", "message"),
    [
        ("", "line 1: apis: missing: the file names no `apis`, and no dataset was given."),
        ("apis: nowhere.json\n", "line 1: apis: there is no {folder}/nowhere.json."),
        ("apis: t.yaml\n", "line 1: apis: "),
    ],
)
def test_apis_that_a_file_names_must_be_there(tmp_path: Path, named: str, message: str) -> None:
    """Without a dataset each file tells where its APIs are."""
    path = tmp_path / "t.yaml"
    path.write_text(named + weather())
    with pytest.raises(TemplateFileError) as raised:
        load_templates([path])
    assert message.format(folder=tmp_path) in str(raised.value)


def test_the_form_of_a_file_is_checked_without_apis(tmp_path: Path) -> None:
    """Before a run begins, when nobody knows its APIs yet."""
    path = tmp_path / "t.yaml"
    path.write_text(weather())
    check_files([path])
    path.write_text(weather(rest="  awnser: x\n"))
    with pytest.raises(TemplateFileError, match="did you mean `answer`"):
        check_files([path])
