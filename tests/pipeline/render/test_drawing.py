from hypothesis import given
from hypothesis import strategies as st

from toolloom.pipeline.render.drawing import Draw, Spread


def drawn(names: list[str], size: int) -> list[str]:
    draw = Draw[str](size)
    for name in names:
        draw.offer(name, name)
    return draw.items()


@given(st.permutations([f"row {n}" for n in range(40)]))
def test_the_order_of_rows_decides_nothing(names: list[str]) -> None:
    """The same rows are drawn, in the same order, whoever came first."""
    assert drawn(names, 7) == drawn(sorted(names), 7)


def test_a_draw_keeps_no_more_than_it_was_told() -> None:
    """Of a thousand rows seven, each once; of four rows all."""
    many = drawn([f"row {n}" for n in range(1000)], 7)
    assert len({*many}) == 7
    assert sorted(drawn(["a", "b", "c", "d"], 7)) == ["a", "b", "c", "d"]


def test_rows_of_one_name_are_both_there() -> None:
    """Ids may repeat among rejected records; the first ones stay, and items are not compared."""
    draw = Draw[dict[str, int]](2)
    for n in range(3):
        draw.offer("same", {"n": n})
    assert draw.items() == [{"n": 0}, {"n": 1}]


def test_a_kind_is_spread_over_its_sorts() -> None:
    """A rare sort is among the few that are shown, however frequent another one is."""
    spread = Spread[str](4)
    for n in range(100):
        spread.offer("call", "single", f"single {n}", "single")
    spread.offer("call", "parallel", "p", "parallel")
    spread.offer("search", "single", "s", "other kind")
    assert sorted(spread.items("call")) == ["parallel", "single", "single", "single"]
    assert spread.seen() == {"call": 101, "search": 1}
    assert spread.items("unknown") == []
