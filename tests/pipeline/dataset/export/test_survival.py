"""What a rendering may not lose."""

from __future__ import annotations

from typing import Any

import pytest

from toolloom.pipeline.dataset.export.checking import lost


def talk(arguments: Any, result: str = '{"response": 7}') -> list[dict[str, Any]]:
    call = {"type": "function", "function": {"name": "weather", "arguments": arguments}}
    return [
        {"role": "system", "content": "Moved away."},
        {"role": "user", "content": "Weather in Zürich?"},
        {"role": "assistant", "content": "", "tool_calls": [call]},
        {"role": "tool", "content": result, "name": "weather"},
        {"role": "assistant", "content": "It is 7."},
    ]


WHOLE = 'user: Weather in Zürich? call: weather {"city": "Zürich"} result: {"response": 7} It is 7.'


@pytest.mark.parametrize(
    "text",
    [
        WHOLE,
        WHOLE.replace('{"city": "Zürich"}', "(city='Zürich')"),
        WHOLE.replace('{"city": "Zürich"}', '{"city": "Z\\u00fcrich"}'),
        WHOLE.replace('{"response": 7}', '"{\\"response\\": 7}"'),
    ],
)
def test_every_way_to_write_it_is_seen(text: str) -> None:
    """As it is, escaped as in JSON, or as Python writes it."""
    assert lost(text, talk({"city": "Zürich"})) is None


@pytest.mark.parametrize(
    ("gone", "why"),
    [
        ("Weather in Zürich?", "what the user says in message 1"),
        ("weather", "the call of weather"),
        ("city", "'city' of the call"),
        ('"Zürich"}', "'Zürich' of the call"),
        ('{"response": 7}', "the observation in message 3"),
        ("It is 7.", "what the assistant says in message 4"),
    ],
)
def test_what_is_lost_is_named(gone: str, why: str) -> None:
    """A value the user said does not stand in for the argument: order counts."""
    assert str(lost(WHOLE.replace(gone, ""), talk({"city": "Zürich"}))).startswith(why) or (
        why in str(lost(WHOLE.replace(gone, ""), talk({"city": "Zürich"})))
    )


def test_a_longer_name_does_not_stand_in() -> None:
    """`weather_of_city` is another function than `weather`."""
    text = WHOLE.replace("call: weather", "call: weather_of_city")
    assert "the call of weather is lost" in str(lost(text, talk({"city": "Zürich"})))


def test_text_arguments_stand_as_they_are() -> None:
    """Quoted once more, a model would learn to write a text in place of an object."""
    assert lost(WHOLE, talk('{"city": "Zürich"}')) is None
    quoted = WHOLE.replace('{"city": "Zürich"}', '"{\\"city\\": \\"Zürich\\"}"')
    assert "quoted text" in str(lost(quoted, talk('{"city": "Zürich"}')))
    empty = WHOLE.replace('{"city": "Zürich"}', '"{}"')
    assert "quoted text" in str(lost(empty, talk("{}")))
    assert "arguments of weather are lost" in str(lost(WHOLE, talk('{"town": 1}')))


@pytest.mark.parametrize(
    ("value", "written"), [(True, "True"), (True, "true"), (None, "null"), (2.5, "2.5")]
)
def test_values_of_other_types_are_seen(value: Any, written: str) -> None:
    """In JSON's words or in Python's."""
    text = WHOLE.replace('"Zürich"}', f"{written}}}")
    assert lost(text, talk({"city": value})) is None


def test_keys_may_come_in_another_order() -> None:
    """Some templates sort them."""
    text = WHOLE.replace('{"city": "Zürich"}', "{a: 1, city: Zürich, z: {b: 2}}")
    assert lost(text, talk({"z": {"b": 2}, "city": "Zürich", "a": 1})) is None
