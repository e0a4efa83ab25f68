"""What real APIs need of the language: a small exchange uses each form once."""

from __future__ import annotations

import operator
import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support import lending

from toolloom.pipeline.checks.world.interpreter import (
    BROKEN,
    Machine,
    State,
    calculated,
    difference,
)
from toolloom.pipeline.checks.world.outcome import Acted, broken_policies
from toolloom.pipeline.checks.world.reading import Place, constant
from toolloom.pipeline.checks.world.signatures import returns
from toolloom.pipeline.worlds import soundness
from toolloom.pipeline.worlds.library import load_world
from toolloom.pipeline.worlds.states import draw_state
from toolloom.schemas import WorldError

EXCHANGE = Path(__file__).with_name("exchange.yaml")
NOW = "2026-01-20T10:00"


@pytest.fixture(scope="module")
def exchange() -> Machine:
    return Machine(load_world(EXCHANGE))


@pytest.fixture(scope="module")
def state(exchange: Machine) -> State:
    """Two wallets, `WAL-1` in euros with 5 and `WAL-2` in dollars with nothing."""
    drawn = draw_state(exchange, random.Random(1), NOW)
    wallets = {
        f"WAL-{n}": {"wallet_id": f"WAL-{n}", "currency_id": currency, "amount": amount}
        | {"emptied": None}
        for n, currency, amount in ((1, "EUR", 5), (2, "USD", 0))
    }
    tables = {**drawn["tables"], "wallets": type(drawn["tables"]["wallets"])(wallets)}
    return {**drawn, "tables": tables, "next": {**drawn["next"], "wallets": 3}}


def test_the_exchange_is_sound(exchange: Machine, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each form is drawn, run, promised and compared like any other."""
    monkeypatch.setattr(soundness, "WALKS", 20)
    assert not soundness.examine(exchange).findings


@pytest.mark.parametrize(
    ("name", "args", "error", "response"),
    [
        ("get_rates", {}, None, {"EUR": 1.1, "USD": 1, "CHF": 1.2}),
        ("list_names", {"hours": "09:00"}, None, ["Dollar", "Euro", "Franc"]),
        ("list_names", {"hours": "open, day (and night)"}, None, ["Dollar"]),
        ("get_wallet", {"wallet_id": "WAL-1"}, None,
         {"wallet_id": "WAL-1", "amount": "5.00 Euro", "note": "", "emptied": None}),
        ("get_wallet", {"wallet_id": "WAL-2"}, None,
         {"wallet_id": "WAL-2", "amount": "0.00 Dollar", "emptied": None}),
        ("get_wallet", {"wallet_id": "W"}, "not_found", "We hold no wallet W."),
        ("open_wallet", {"name": "holidays", "currency_id": "CHF", "note": ""}, None,
         {"wallet_id": "holidays", "greeting": "Welcome, holidays!", "emptied": None}),
        ("open_wallet", {"name": "WAL-1", "currency_id": "CHF", "note": ""}, "taken",
         "There is a wallet WAL-1 already."),
        ("open_wallet", {"name": "x", "currency_id": "DM", "note": ""}, "unknown_currency",
         "There is no currency DM."),
        ("pay_in", {"wallet_ids": ["WAL-2", "WAL-1"], "amounts": [2, 3]}, None, [2, 8]),
        ("pay_in", {"wallet_ids": ["WAL-2", "WAL-1"], "amounts": [2]}, BROKEN,
         "This would break a rule of wallets: amount is missing."),
        ("pay_in", {"wallet_ids": ["WAL-1"], "amounts": [0]}, "invalid_arguments",
         "The argument 'amounts' holds an item that must be from 1 to 9."),
        ("calculate", {"fee": "2 * (3 + 0.5)"}, None, {"value": 7}),
        ("calculate", {"fee": "1 +"}, "unreadable", "1 + is no sum."),
    ],
)  # fmt: skip
def test_each_form_does_what_it_says(
    exchange: Machine, state: State, name: str, args: Any, error: str | None, response: Any
) -> None:
    """Mappings by key, bare values, null, empty texts, texts of terms, lists side by side, choices
    with signs, keys that callers choose, sums in texts, and errors of one's own for a key."""
    assert exchange.apply(state, name, args, NOW)[1:] == (response, error)


def test_a_key_that_the_caller_chose_is_part_of_what_changed(
    exchange: Machine, state: State
) -> None:
    """It is no matter of the order of calls; the keys that the world gives are."""
    args = {"name": "mine", "currency_id": "EUR", "note": ""}
    after, _, _ = exchange.apply(state, "open_wallet", args, NOW)
    ((*_, row),) = difference(exchange, state, after)
    assert row["wallet_id"] == "mine"


def test_policies_compare_calls(exchange: Machine, state: State) -> None:
    """`one`: the same in all calls; `once`: another each time. Calls that fail are not counted."""
    opened = [
        Acted("open_wallet", {"name": name, "currency_id": currency, "note": ""})
        for name, currency in (("a", "EUR"), ("a", "USD"), ("b", "USD"), ("c", "EUR"))
    ]
    wallets = [Acted("get_wallet", {"wallet_id": f"WAL-{n}"}) for n in (1, 1, 3, 2)]
    looked = [Acted("get_rates", {}), Acted("list_names", {"hours": "09:00"})]
    for calls, broken in ((opened, [3]), (wallets, [3]), (looked, [1])):
        found = broken_policies(exchange, state, NOW, calls)
        assert [each.call for each in found] == broken


def test_schemas_tell_of_null_and_of_keys(exchange: Machine) -> None:
    """A model that is shown the response's schema knows that both can be."""
    shapes = {name: returns(spec["shape"]) for name, spec in exchange.world["operations"].items()}
    assert shapes["get_rates"] == {
        "type": "object",
        "properties": {},
        "additionalProperties": {"type": "number"},
    }
    assert shapes["get_wallet"]["properties"]["emptied"] == {
        "anyOf": [{"type": "string", "format": "date"}, {"type": "null"}]
    }


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("1 + 2 * 3", 7),
        ("-(2 - 5) * - 2", -6),
        ("8 / 4 / 2 - 1", 0),
        ("0.1 + 0.2", 0.3),
        ("1 / 3", 1 / 3),
        ("1 / 0", None),
        ("1000000000000 * 10", None),
        ("9 * " * 1_300 + "9", None),
        ("(" * 2_000 + "1" + ")" * 2_000, 1),
        ("-" * 3_999 + "1", -1),
        *(
            (wrong, None)
            for wrong in ("", " ", "1 2", "()", "(1", "1)", "* 2", "2 ** 3", "x", "1e9")
        ),
    ],
)
def test_sums_in_texts_are_exact_and_bounded(text: str, value: float | None) -> None:
    """Read in one pass: neither depth nor length makes it fail, and what is no sum is nothing."""
    assert calculated(text) == value


def joined(parts: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    """Two sums in brackets with a sign between them, and what it makes of their values."""
    signs = st.sampled_from([("+", operator.add), ("-", operator.sub), ("*", operator.mul)])
    return st.builds(
        lambda one, two, sign: (f"({one[0]}){sign[0]}-({two[0]})", sign[1](one[1], -two[1])),
        *(parts, parts, signs),
    )


@given(st.recursive(st.integers(0, 9).map(lambda n: (str(n), n)), joined, max_leaves=8))
def test_a_sum_is_what_arithmetic_makes_of_it(sum: tuple[str, int]) -> None:
    """Nested as it may be."""
    assert calculated(sum[0]) == sum[1]


@given(st.text(alphabet="01.+-*/() ", max_size=30))
def test_any_text_is_a_number_or_nothing(text: str) -> None:
    """Whatever somebody sends."""
    assert isinstance(calculated(text), int | float | None)


@pytest.mark.parametrize(
    ("old", "new", "says"),
    [
        ("note: nothing, hours", "on: 60, note: nothing, hours", "has no field `on`"),
        ("emptied: date optional = nothing", "emptied: date = 60", "write `today + 60 days`"),
        ("emptied: date optional = nothing", "emptied: date(60)", "'60' is not a range"),
        ("{currency_id: rate for", "{currency_id: rate of", "`for` and a search are missing"),
        ("[name for currencies", "[currencies for currencies", "A row needs"),
        ("[name for", "[name, rate for", "An operator is missing"),
        ("{wallet_id: \"not_found", "{wallet: \"not_found", "no argument that names a row; wallet_id"),
        ("not_found: We", "We", "needs a code and a text"),
        ("Welcome, {$name}!", "Welcome, {$nam}!", "no argument `$nam` in"),
        ("set: {wallet_id: $name,", "set: {wallet_id: 3,", "a key of wallets is needed"),
        ("set: {note: $note}", "set: {currency_id: $name}", "no field `currency_id` to set"),
        ("zip($wallet_ids as", "zip($wallet_ids, $amounts as", "`as` is missing"),
        ("zip($wallet_ids as wallet_id,", "zip(wallets as wallet_id,", "is an entity"),
        ("calculate($fee) != nothing", "calculate(3) != nothing", "`calculate` takes text"),
        ('returns: "[wallet.amount for', "returns: [wallet.amount] # ", "stands in quotes"),
        ("one: wallet}", "one: walet}", "Nothing is called `walet`"),
    ],
)  # fmt: skip
def test_a_mistake_is_told_with_its_line(tmp_path: Path, old: str, new: str, says: str) -> None:
    """In the file, as whoever wrote it looks for it."""
    text = EXCHANGE.read_text()
    number = text[: text.index(old)].count("\n") + 1
    path = tmp_path / "wrong.yaml"
    path.write_text(text.replace(old, new, 1))
    with pytest.raises(WorldError) as error:
        load_world(path)
    told = [each for each in str(error.value).splitlines() if says in each]
    assert told and abs(int(told[0].split(":")[0].split()[1]) - number) <= 3, str(error.value)


def test_days_need_no_sign(mistakes: Callable[[Any], list[tuple[Place, str]]]) -> None:
    """`60` in a written row is in sixty days; `2026` is no day."""
    raw = lending.raw_library()
    raw["entities"]["loans"]["data"] = [{"since": 60}, {"since": "2026"}]
    ((place, text),) = mistakes(raw)
    assert place == ("entities", "loans", "data", 1, "since")
    assert text == "'2026' is not a date; write 2026-03-14, or days from today: `+3`."
    assert constant({"type": "date"}, 60) == "+60"
