"""A value is called wrong in others' data only where it stands in place of one that was said."""

from __future__ import annotations

import datetime as dt
import time
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.json_values import SCALARS, json_values

from toolloom.pipeline.checks.contradictions import kept_values
from toolloom.pipeline.checks.form import leaked_calls, turn_order
from toolloom.pipeline.formats.conversation import Conversation, RowCall
from toolloom.pipeline.formats.rows import ForeignRow
from toolloom.schemas import Dialogue, Reason


def row(
    said: str,
    arguments: dict[str, Any],
    schema: dict[str, Any] | None = None,
    now: dt.datetime | None = None,
    reply: str = "",
    response: Any = None,
) -> Dialogue:
    """A request with a call of an API that takes these arguments, maybe after another's response."""
    properties = {name: schema or {} for name in arguments}
    parameters = {"type": "object", "properties": properties, "required": [*arguments]}
    taken = Conversation("openai", ForeignRow("a row"))
    taken.tool("order", "", parameters)
    taken.system("", now)
    taken.user(said)
    if response:
        taken.assistant("", [RowCall("order", {})])
        taken.observed(response, None)
    taken.assistant("", [RowCall("order", arguments)])
    if reply:
        taken.assistant(reply)
    dialogue = taken.reading().dialogue
    assert dialogue
    return dialogue


def wrong(*arguments: Any, **more: Any) -> bool:
    reasons = {reason for reason, _, _ in kept_values(row(*arguments, **more))}
    assert reasons <= {Reason.UNGROUNDED_ARGUMENT}
    return bool(reasons)


def test_a_good_dialogue_keeps_all_values(all_good: list[Dialogue]) -> None:
    """What a careful person wrote passes the audit's variants, too."""
    for good in all_good:
        for check in (kept_values, turn_order, leaked_calls):
            assert list(check(good)) == [], good.id


@pytest.mark.parametrize(
    ("said", "arguments"),
    [
        ("Order 40 tulips.", {"count": 46}),
        ("Two lists: 12, 24, 36 and 15, 30, 45.", {"a": [12, 48, 36], "b": [15, 30, 45]}),
        ("A box of width 12 and depth 5, and one of width 5.", {"width": 31}),
        ("Deliver on 3 May 2024.", {"day": "2024-05-09"}),
        ("Deliver at 6:30 pm.", {"at": "17:15"}),
        ("Deliver on 3 May at 6:30 pm.", {"at": "2024-05-03 11:10:00"}),
        ("Write to ann@corp.example.", {"to": "bob@corp.example"}),
        ("See https://a.example/one.", {"link": "https://b.example/two"}),
        ("My parcel is AB-1207.", {"parcel": "AB-1208"}),
        ("I run Windows 10 with two screens.", {"system": "Windows 7", "screens": 2}),
        ("The patient with the number 4711002.", {"patient": "Jane Roe"}),
        ("Integrate 3x^2 from 1 to 2.", {"of": "5x**2", "from": 1, "to": 2}),
        ("Take 5 apples.", {"grams": 5000}),
    ],
)
def test_what_stands_for_something_else_is_found(said: str, arguments: dict[str, Any]) -> None:
    """The user said one value, and the call has another of its kind in its place."""
    assert wrong(said, arguments)


@pytest.mark.parametrize(
    ("said", "arguments"),
    [
        ("Order 40 tulips.", {"count": 40, "currency": "EUR", "shop": "Flora Ltd"}),
        ("How fast is a stone after 5 seconds?", {"seconds": 5, "gravity": 9.81}),
        ("A wall of 3 metres.", {"centimetres": 300}),
        ("I am 5 feet 10 inches tall.", {"inches": 70}),
        ("A coil of 50mH at 100µF.", {"henry": 0.05, "farad": 0.0001}),
        ("Interest of 5% compounded monthly on 900.", {"rate": 0.05, "n": 12, "sum": 900}),
        ("The points (3,4) and (1,2).", {"a": [3, 4], "b": [1, 2]}),
        ("From 1e-9 to 1,200 for 5 apples and 3 pears.", {"a": 1e-9, "b": 1200, "fruit": 8}),
        ("Where do 3x^2 + 2x - 4 and 0 meet?", {"polynomial": [3.0, 2.0, -4.0]}),
        ("A wave from 0 to 2 pi.", {"end": 6.2832}),
        ("Pies with less than 5 ingredients.", {"most": 4}),
        ("A table for a family of four.", {"adults": 2, "children": 2}),
        ("5 moles at 2800 kJ each.", {"energy": 14000}),
        ("Readings from 22 to 30, each 2 more.", {"of": [22, 24, 26, 28, 30]}),
        ("1% in the first year, 2% in the second, and so on.", {"of": [0.01, 0.02, 0.03]}),
        ("A cube of 500 grams and 100 cc.", {"mass": 0.5, "volume": 0.0001}),
        ("Songs from '19.", {"year": 2019}),
        ("Remind me 10 minutes before my talk at 2pm.", {"at": "13:50"}),
        ("Deliver tomorrow.", {"day": "2024-05-09"}),
        ("Deliver on March 17th.", {"day": "2023-03-17"}),
        ("Deliver from June 1st 2022 for 3 nights.", {"end": "2022-06-04"}),
        ("Use utf-8 for /var/log/db.log.", {"encoding": "utf-8", "file": "/var/log/db.log"}),
        ("Ask https://{name}.example/pets on shop.", {"page": "https://shop.example/pets"}),
    ],
)
def test_what_a_person_infers_is_not_called_wrong(said: str, arguments: dict[str, Any]) -> None:
    """Units, constants, defaults, sums, dates without a year: no words hold them, and all is well."""
    assert not wrong(said, arguments)


def test_the_schema_may_give_the_value() -> None:
    """A default, or a code that the description explains, is nobody's invention."""
    schema = {"description": "Pages to print. Default is 7. Use 3 for all."}
    assert not wrong("Print 40 copies.", {"pages": 7}, schema)
    assert not wrong("Print 40 copies.", {"pages": 3}, schema)
    assert not wrong("Send $45.", {"sum": 4500}, {"description": "In cents."})
    assert wrong("Print 40 copies.", {"pages": 9}, schema)


def test_a_result_that_is_not_taken_up_is_found() -> None:
    """The token of a log-in goes into the call that needs one, letter by letter."""
    for token, wrongly in (("k7p2m9q4", False), ("k7p2m9q5", True)):
        logged_in = {"token": "k7p2m9q4"}
        assert wrong("Log in as ann.", {"token": token}, response=logged_in) is wrongly


def test_a_present_that_is_told_leaves_no_day_open() -> None:
    """«Tomorrow» is one day as soon as today is known."""
    now = dt.datetime(2024, 5, 8, 9, 0)
    assert not wrong("Deliver tomorrow.", {"day": "2024-05-09"}, now=now)
    assert wrong("Deliver tomorrow.", {"day": "2024-05-12"}, now=now)


def test_a_leaked_call_is_found_and_code_is_not() -> None:
    """A model's mark or a whole reply of calls is a leak; JSON and code may be shown."""
    for leak in ('<tool_call>{"name": "order"}', "order(count=4)", "[order(count=4)]"):
        assert list(leaked_calls(row("Hi.", {}, reply=leak))), leak
    for words in ('{"name": "Ann"}', "Call `order(count=4)` for that.", "print(4)"):
        assert not list(leaked_calls(row("Hi.", {}, reply=words))), words


def test_an_empty_message_is_out_of_turn() -> None:
    """Whoever speaks says something."""
    assert [reason for reason, _, _ in turn_order(row(" ", {}))] == [Reason.MALFORMED_DIALOGUE]


DATES = st.from_regex(r"\d{1,4}[-/:. ]\d{1,3}([-/: ]\d{1,4})?", fullmatch=True)
VALUES = json_values(SCALARS | st.floats() | DATES)


@given(st.text(max_size=80), VALUES)
def test_nothing_makes_it_raise(said: str, value: Any) -> None:
    """Whatever others wrote into a row."""
    list(kept_values(row(said, {"x": value})))


def test_a_text_full_of_numbers_takes_bounded_time() -> None:
    """Numbers are not compared each with each without end."""
    said = " ".join(f"{n} km and 2{n}:15 on {n % 28 + 1}/3/2024" for n in range(1_000))
    started = time.thread_time()
    list(kept_values(row(said, {f"a{n}": 987_654.25 + n for n in range(3)})))
    assert time.thread_time() - started < 20
