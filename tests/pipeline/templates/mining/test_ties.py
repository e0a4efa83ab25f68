"""Values that are drawn together because their order means something."""

from __future__ import annotations

import random
from typing import Any

import pytest
from support.mined_dataset import NUMBER, TEXT

from toolloom.pipeline.templates.mining.mining import rows, tied
from toolloom.pipeline.templates.mining.options import MOST, ValueOptions
from toolloom.pipeline.templates.mining.survey import SampleValue
from toolloom.pipeline.templates.mining.variables import Variable


def pool(name: str, *values: Any, number: int = 0) -> ValueOptions:
    schema = TEXT if isinstance(values[0], str) else NUMBER
    leaf = SampleValue("call", (name,), "a/b/c", (name,), values[0], schema, 2, number)
    return ValueOptions(Variable(leaf, [(leaf, "")]), [], [(value, "sample") for value in values])


@pytest.mark.parametrize(
    ("one", "other", "together"),
    [
        (("check_in", "2026-05-03"), ("check_out", "2026-05-06"), True),
        (("opens", "08:00"), ("closes", "18:00"), True),
        (("min_price", 20), ("max_price", 90), True),
        (("high", 24), ("low", 18), True),
        (("nights", 3), ("guests", 2), False),
        (("city", "Lisbon"), ("hotel", "Azul"), False),
    ],
)
def test_what_is_tied(one: Any, other: Any, together: bool) -> None:
    """Days, times of a call, and numbers that are the ends of a range."""
    assert len(tied([pool(*one), pool(*other)])) == (1 if together else 2)


def test_numbers_of_two_calls_are_free() -> None:
    """One call's low has nothing to do with another's high."""
    assert len(tied([pool("low", 3), pool("high", 9, number=1)])) == 2


def test_order_is_kept() -> None:
    """Every row is ordered as the original, which comes first; none comes twice."""
    low, high = pool("low", 3, *range(10, 40)), pool("high", 9, *range(40, 70), 1)
    found = rows([low, high], random.Random(1))
    assert found[0] == ((3, "sample"), (9, "sample"))
    assert all(a[0] < b[0] for a, b in found)
    assert len(found) == len(set(found)) == MOST
