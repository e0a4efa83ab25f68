from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from toolloom.schemas import Price, Recipe, RecipeError, load_recipe, parse_recipe

ROOT = Path(__file__).parents[2]
PLACE = {"base_url": "http://127.0.0.1:1/v1", "model": "m"}
PRICES = {"m": {"prompt": 2, "completion": 8}}


def recipe(**fields: Any) -> Recipe:
    return parse_recipe({"name": "toy", "model": PLACE, **fields}, "toy.yaml")


@pytest.mark.parametrize(
    ("price", "batch", "dollars"),
    [
        ({}, False, 2 * 1.0 + 8 * 0.5),
        ({"cached": 0.5}, False, 2 * 0.6 + 0.5 * 0.4 + 8 * 0.5),
        ({"cached": 0.5}, True, 2 * 0.6 + 0.5 * 0.4 + 8 * 0.5),
        ({"batch_prompt": 1, "batch_completion": 4}, True, 1 * 1.0 + 4 * 0.5),
        ({"batch_prompt": 1, "cached": 0.5}, True, 1 * 0.6 + 0.5 * 0.4 + 8 * 0.5),
        ({"batch_prompt": 1, "batch_cached": 0.1}, True, 1 * 0.6 + 0.1 * 0.4 + 8 * 0.5),
    ],
)
def test_a_price_counts_cached_tokens_and_batches(
    price: dict[str, float], batch: bool, dollars: float
) -> None:
    """Cached tokens are among those sent; what has no price of its own has the nearest one. An
    endpoint that miscounts does not make a cost negative."""
    made = Price(prompt=2, completion=8, **price)
    assert made.cost(1_000_000, 500_000, 400_000, batch=batch) == pytest.approx(dollars)
    assert made.cost(10, 0, 99, batch=batch) >= 0


def test_prices_come_from_the_recipe_or_a_file(tmp_path: Path) -> None:
    """`prices` is a mapping or a path, and both are the same recipe; the file that ships is one."""
    (tmp_path / "prices.yaml").write_text("m: {prompt: 2, completion: 8}")
    named = recipe(prices=str(tmp_path / "prices.yaml"))
    assert named == recipe(prices=PRICES)
    assert named.prices["m"].completion == 8
    example = recipe(prices=str(ROOT / "recipes" / "examples" / "prices.yaml"))
    assert example.prices["example-large"].cost(0, 1_000_000, batch=True) == 4


def test_a_file_of_prices_that_is_none_is_told(tmp_path: Path) -> None:
    """The message names the file or the field."""
    path = tmp_path / "prices.yaml"
    for name, text, message in (
        (path, "m: [", "is not valid YAML"),
        (path, "m: {prompt: x}", r"prices\.m\.prompt: Input should be a valid number"),
        ("none.yaml", "", r"none\.yaml: cannot be read"),
        ("\0", "", "cannot be read .embedded null byte"),
    ):
        path.write_text(text)
        with pytest.raises(RecipeError, match=message):
            recipe(prices=str(name))


def test_a_limit_in_dollars_needs_prices() -> None:
    """Without a price nothing could be held against it; the embedded model costs nothing."""
    with pytest.raises(RecipeError, match=r"budget\.max_cost needs `prices`.*missing: m"):
        recipe(budget={"max_cost": 1})
    assert recipe(budget={"max_cost": 1}, prices=PRICES).budget.max_cost == 1
    assert recipe(model={}, budget={"max_cost": 1}).budget.max_cost == 1


def test_a_budget_and_prices_of_others_make_no_other_run() -> None:
    """What a run may cost is not what it makes; what its models cost stands in its records."""
    plain, priced = recipe(), recipe(prices=PRICES)
    assert recipe(budget={"max_requests": 9}).run_id == plain.run_id
    assert recipe(prices={"other": {"prompt": 1}}).run_id == plain.run_id
    assert priced.run_id != plain.run_id


def test_a_recipe_that_was_written_out_is_read_back(tmp_path: Path) -> None:
    """The recipe in a run's folder holds the prices themselves, not the way to them."""
    made = recipe(prices=PRICES, budget={"max_cost": 1})
    (tmp_path / "recipe.yaml").write_text(made.model_dump_json())
    assert load_recipe(tmp_path / "recipe.yaml") == made
