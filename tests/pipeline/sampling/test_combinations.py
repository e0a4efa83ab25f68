from __future__ import annotations

import random
from collections import Counter

from hypothesis import given
from hypothesis import strategies as st
from support import toys

from toolloom.pipeline.sampling.draw import ApiRotation
from toolloom.pipeline.sampling.groups import Group
from toolloom.pipeline.sampling.needs import scattered
from toolloom.schemas import Ability, Level, Scenario


@given(st.integers(0, 60), st.integers())
def test_all_numbers_come_once(count: int, seed: int) -> None:
    """In an order that the seed decides."""
    assert sorted(scattered(count, random.Random(seed))) == list(range(count))
    assert [*scattered(count, random.Random(seed))] == [*scattered(count, random.Random(seed))]


def test_the_first_few_of_many_cost_little() -> None:
    """Nothing is made for the numbers that are not taken."""
    numbers = scattered(10**12, random.Random(0))
    assert len({next(numbers) for _ in range(100)}) == 100


def test_orders_are_equally_likely() -> None:
    """None of the six orders of three numbers is preferred."""
    rng = random.Random(0)
    found = Counter(tuple(scattered(3, rng)) for _ in range(6000))
    assert len(found) == 6
    assert max(found.values()) < 1150


def test_who_waited_longest_comes_first() -> None:
    """What was drawn goes to the end; what cannot be drawn leaves the line."""
    apis = [toys.api(name=name) for name in "abcd"]
    pool = ApiRotation(Group(apis, servable=lambda api: api.name != "c"), random.Random(0))
    first, second, third = pool.waiting()
    pool.took([second])
    assert list(pool.waiting()) == [first, third, second]
    assert "c" not in {api.name for api in pool.waiting()}


def test_partners_that_were_least_often_there_come_first() -> None:
    """Whichever of the two came first, and at whatever level."""
    group = Group([toys.api(name=name) for name in "abcd"])
    pool = ApiRotation(group, random.Random(0))
    a, b, c, d = group.apis
    rng = random.Random(1)
    for other, times in ((b, 2), (c, 1)):
        for _ in range(times):
            pool.took([other, a])
    kind = (Scenario.PARALLEL, Ability.CALL, Level.SINGLE_TOOL)
    assert [pair[1] for pair, _ in pool.combinations(a, *kind, rng)] == [d, c, b]
