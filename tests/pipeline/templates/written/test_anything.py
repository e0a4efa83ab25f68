"""Files of templates that hold anything, too much, or what no API is."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from support.template_files import APIS, told, weather

from toolloom.pipeline.templates.written.files import Given, check_files, load_templates
from toolloom.schemas import TemplateFileError

WORDS = st.sampled_from(
    [
        "{city}",
        "{",
        "{{",
        "city",
        "get_weather",
        "of",
        "range",
        "schema",
        "faker",
        "2026-03-02",
        "é",
    ]
)
ANYTHING = st.recursive(
    st.none() | st.booleans() | st.integers(-9, 9) | st.floats(allow_nan=True) | WORDS | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(WORDS, inner, max_size=3),
    max_leaves=6,
)
FIELDS = ["name", "goal", "goals", "calls", "answer", "pools", "together", "now", "language"]


@given(st.dictionaries(st.sampled_from(FIELDS), ANYTHING, max_size=4))
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_no_value_anywhere_breaks_the_reader(tmp_path: Path, changes: dict[str, Any]) -> None:
    """Whatever stands in a field: templates come of it, or mistakes in words."""
    call = {"api": "get_weather", "arguments": {"city": "{city}"}}
    whole = {"name": "one", "goal": "Weather in {city}?", "calls": [call], **changes}
    path = tmp_path / "t.yaml"
    path.write_text(yaml.safe_dump({"templates": [whole]}, allow_unicode=True), encoding="utf-8")
    with suppress(TemplateFileError):
        load_templates([path], Given(APIS))


@given(ANYTHING, ANYTHING, ANYTHING)
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_no_pool_or_response_breaks_the_reader(
    tmp_path: Path, pool: Any, response: Any, argument: Any
) -> None:
    """The same, deeper in the file."""
    call = {"api": "add_note", "arguments": {"text": argument}, "response": response}
    whole = {"name": "one", "goal": "Note {city}.", "calls": [call], "pools": {"city": pool}}
    path = tmp_path / "t.yaml"
    path.write_text(yaml.safe_dump({"templates": [whole]}, allow_unicode=True), encoding="utf-8")
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
