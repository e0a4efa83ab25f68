"""API-Bank's call text is written, read back and, where people wrote it, understood."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.json_values import SCALARS, json_values

from toolloom.pipeline.checks.text.call_text import CallTextError, parse, write
from toolloom.schemas import FunctionCall

names = st.from_regex(r"\A[A-Za-z_][A-Za-z0-9_-]{0,20}\Z")
odd = st.sampled_from(["a', key='b", "f(x=1)]", 'it\'s "so"', "", "],[", "\\", "\\n", "é\n\u2028"])
values = json_values(SCALARS | odd | st.floats(allow_nan=False, allow_infinity=False))
calls = st.builds(
    FunctionCall, name=names, arguments=st.dictionaries(st.text(max_size=12), values, max_size=4)
)


@given(st.lists(calls, max_size=3).map(tuple))
def test_what_is_written_is_read_back_exactly(written: tuple[FunctionCall, ...]) -> None:
    """parse(write(calls)) is calls, types included, whatever the values hold."""
    read = parse(write(written))
    assert read == written
    assert repr(read) == repr(written)  # 1, 1.0 and True are equal, but not the same


signs = st.text(alphabet="[]()='\",{}: \\aA1", max_size=60)


@given(st.text(max_size=60) | signs | signs.map(lambda text: f"[Name(a='{text}')]"))
def test_any_text_is_read_or_refused(text: str) -> None:
    """Arbitrary text gives calls or CallTextError with a place in the text, nothing else."""
    try:
        parsed = parse(text)
    except CallTextError as error:
        assert 0 <= error.position <= len(text)
    else:
        assert parse(write(parsed)) == parsed


SLOPPY = [
    ("[A(x='it's fine', y='2')]", [("A", {"x": "it's fine", "y": "2"})]),
    ("[A(x='a, b, c')]", [("A", {"x": "a, b, c"})]),
    ("[A(x=''quoted' word', y='')]", [("A", {"x": "'quoted' word", "y": ""})]),
    ("[A(x='[{'name': 'Bob', 'n': 1}]')]", [("A", {"x": "[{'name': 'Bob', 'n': 1}]"})]),
    ("[A(items=['a', 'b'], n=3)]", [("A", {"items": ["a", "b"], "n": 3})]),
    ("API-Request: [A(token=a9s8d7, time='11:00')]", [("A", {"token": "a9s8d7", "time": "11:00"})]),
    ("A(x=\"y\")", [("A", {"x": "y"})]),
    ("[A(x=1), B(), C(ok=True, no=None)]",
     [("A", {"x": 1}), ("B", {}), ("C", {"ok": True, "no": None})]),
    ("[A(f='(5+3)*6')]", [("A", {"f": "(5+3)*6"})]),
    ("[A(date=2023-01-05, note=two words)]", [("A", {"date": "2023-01-05", "note": "two words"})]),
    ("[]", []),
]  # fmt: skip


@pytest.mark.parametrize(("text", "expected"), SLOPPY)
def test_calls_as_people_write_them(
    text: str, expected: list[tuple[str, dict[str, object]]]
) -> None:
    """A value ends only before the next `, key=` or the closing bracket."""
    assert [(c.name, c.arguments) for c in parse(text)] == expected


@pytest.mark.parametrize(
    ("text", "position"),
    [("", 0), ("hello", 0), ("[A(x)]", 3), ("[A(x=1)", 7), ("[A(x=1)] and", 8), ("[A(x='", 5)],
)
def test_refused_text_names_the_place(text: str, position: int) -> None:
    """The error's position is where the text stops being a call."""
    with pytest.raises(CallTextError) as caught:
        parse(text)
    assert caught.value.position == position


def test_deep_nesting_is_kept_as_text() -> None:
    """A value nested past the limit does not exhaust the stack; it is read as plain text."""
    (call,) = parse(f"[A(x={'[' * 5000}{']' * 5000})]")
    assert isinstance(call.arguments, dict) and isinstance(call.arguments["x"], str)


def test_unread_arguments_cannot_be_written() -> None:
    """Arguments that are text have no form as a call."""
    with pytest.raises(CallTextError):
        write([FunctionCall(name="A", arguments="{broken")])
