from __future__ import annotations

import pytest
from support import toys

from toolloom.pipeline.cluster import WorkerShare, most_shares, share_of
from toolloom.schemas import Endpoint, Recipe


def limited(**limits: int) -> Recipe:
    return toys.recipe(model={"base_url": "http://127.0.0.1:9/v1", "model": "m", **limits})


@pytest.mark.parametrize("name", ["concurrency", "requests_per_minute", "tokens_per_minute"])
def test_shares_add_up(name: str) -> None:
    """All shares of a limit are the limit, whatever the number of workers."""
    recipe = limited(**{name: 40_003})
    for shares in (1, 2, 7):
        parts = [share_of(recipe, share, shares) for share in range(shares)]
        assert sum(getattr(part.endpoint("query"), name) for part in parts) == 40_003
        assert {part.run_id for part in parts} == {recipe.run_id}


def test_an_agents_own_limit_is_shared_too() -> None:
    """Agents and search keep what the recipe says of them, each in parts."""
    embeddings = {"base_url": "http://127.0.0.1:9/v1", "model": "e", "requests_per_minute": 9}
    recipe = toys.recipe(
        model={"base_url": "http://127.0.0.1:9/v1", "model": "m"},
        agents={"tester": {"concurrency": 6, "model": "judge"}},
        search={"embeddings": embeddings},
    )
    part = share_of(recipe, 0, 2)
    tester, searched = part.endpoint("tester"), part.search.embeddings
    assert (tester.concurrency, tester.model, part.endpoint("query").concurrency) == (
        3,
        "judge",
        16,
    )
    assert searched
    assert (searched.requests_per_minute, searched.concurrency) == (5, 16)


@pytest.mark.parametrize(
    ("limits", "most"),
    [
        ({"concurrency": 5}, 5),
        ({"requests_per_minute": 3}, 3),
        ({"tokens_per_minute": 80_000}, 2),
        ({"tokens_per_minute": 100}, 1),
    ],
)
def test_no_share_is_too_small_for_a_request(limits: dict[str, int], most: int) -> None:
    """There are no more workers than each limit has parts."""
    assert most_shares(limited(**limits)) == most


def test_the_embedded_model_is_not_shared() -> None:
    """Each worker starts one of its own."""
    recipe = toys.recipe(model={"base_url": "local"})
    assert most_shares(recipe) is None
    local: Endpoint = share_of(recipe, 1, 4).endpoint("query")
    assert local.concurrency == recipe.endpoint("query").concurrency


def test_a_slot_remembers_what_left_within_the_minute() -> None:
    """The next worker of a share begins with what the last one sent; after a lost one, with all
    that may have been sent."""
    slot = WorkerShare(limited(requests_per_minute=60))
    key = ("http://127.0.0.1:9/v1", "OPENAI_API_KEY", "m")
    slot.remember({key: {"requests": ((50.0, 2.0), (3.0, 1.0))}})
    (old, new) = slot.recall()[key]["requests"]
    assert (round(old[0]), old[1], round(new[0]), new[1]) == (50, 2.0, 3, 1.0)
    slot.lose()
    ((ago, amount),) = slot.recall()[key]["requests"]
    assert (round(ago), amount) == (0, 60.0)
