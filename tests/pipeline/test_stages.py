from __future__ import annotations

import json
import random
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from support import toys
from support.toys import Before
from support.toys import whole as recipe

from toolloom import FakeServer
from toolloom.llm.scripted import improvise
from toolloom.pipeline.run import run
from toolloom.pipeline.sampling.draw import Group, distinct
from toolloom.pipeline.stages import (
    feed_domains,
    feed_queries,
    settle_apis,
    settle_named,
)
from toolloom.schemas import Domain, Reason, RecipeError, ToolloomError


def rows(outputs: Path, stage: str, kind: str) -> list[dict[str, Any]]:
    (path,) = outputs.glob(f"runs/*/{stage}/{kind}.jsonl")
    return [json.loads(line) for line in path.read_text().splitlines()]


def test_apis_that_serve_no_query_stop_the_run() -> None:
    """No queries and no rejected record would tell nobody why; without APIs there are reasons."""
    schema = {"type": "object", "properties": {"zzz": {"type": "string"}}, "required": ["zzz"]}
    odd = toys.api().model_copy(update={"parameters": schema})
    with pytest.raises(ToolloomError, match="of 1 API none can serve"):
        list(feed_queries(Before.of(toys.recipe(), odd)))
    assert list(feed_queries(Before.of(toys.recipe()))) == []
    drawn = feed_queries(Before.of(toys.recipe(), toys.api()))
    assert next(drawn).id == "train-0-000000"


def test_briefs_part_the_domains_over_categories() -> None:
    """As many domains as the recipe says, over its categories, in whatever case, or the taxonomy's."""
    chosen = toys.recipe(apis={"domains": 5, "categories": ["weather", "Health"]})
    assert [(b.category, b.count) for b in feed_domains(Before.of(chosen))] == [
        ("Weather", 3),
        ("Health", 2),
    ]
    free = list(feed_domains(Before.of(toys.recipe(apis={"domains": 7}))))
    assert [b.count for b in free] == [1] * 7
    assert sum(b.count for b in feed_domains(Before.of(toys.recipe(apis={"domains": 500})))) == 500
    with pytest.raises(RecipeError, match="no category «Wether».*Weather"):
        list(feed_domains(Before.of(toys.recipe(apis={"categories": ["Wether"]}))))


@pytest.mark.parametrize(
    ("name", "other", "same"),
    [
        ("bike rental", "rental of bikes", True),
        ("booking of hotels", "hotel bookings service", True),
        ("bike rental", "car rental", False),
    ],
)
def test_domains_of_two_categories_may_not_say_the_same(name: str, other: str, same: bool) -> None:
    """The later one is rejected; order, number and empty words make no other domain."""
    found = [Domain(category="A", name=name), Domain(category="B", name=other)]
    settled = settle_named(found)
    assert settled.accepted == tuple(found[: 2 - same])
    assert [each.reason for each in settled.rejected] == [Reason.NEAR_DUPLICATE] * same


def test_functions_keep_their_names_and_apis_of_a_category_differ() -> None:
    """But for that of API Search; of one category the second is rejected. A row offers one of those
    whose names are equal, and tells two that it needs apart by a number."""
    one, two = toys.api("a"), toys.api("b")
    same = [a.model_copy(update={"function": "current"}) for a in (one, two)]
    assert list(settle_apis(same).accepted) == same
    taken = one.model_copy(update={"function": "api_search"})
    assert settle_apis([taken]).accepted[0].function == "api_search_2"
    assert Group(same).offer(same[:1], 1, random.Random(1)) == (same[0],)
    assert [api.function for api in distinct(same)] == ["current", "current_2"]
    again = settle_apis([one, one.model_copy(update={"tool": "other"})])
    assert len(again.accepted) == 1
    assert again.rejected[0].reason is Reason.NEAR_DUPLICATE


async def test_each_agent_may_have_its_own_model(tmp_path: Path) -> None:
    """The model of an agent reaches the endpoint as such, and stands in the provenance."""
    asked: Counter[tuple[str, str]] = Counter()

    def script(body: Any) -> Any:
        asked[body["messages"][0]["content"].split(".")[0][:18], body["model"]] += 1
        return improvise(body)

    agents = {"query": {"model": "poet"}, "tester": {"model": "judge", "temperature": 0}}
    async with FakeServer(script) as server:
        await run(recipe(server, agents=agents), outputs=tmp_path)
    assert {m for what, m in asked if what.startswith("You write what")} == {"poet"}
    assert {m for what, m in asked if what.startswith("You test")} == {"judge"}
    assert {m for what, m in asked if what.startswith("You play")} == {"fake"}
    (share,) = rows(tmp_path, "queries", "accepted")[0]["provenance"]
    assert share["model"] == "poet"


@pytest.mark.parametrize("said", ["", "blah blah {"])
async def test_garbage_for_ever_is_all_rejected(tmp_path: Path, said: str) -> None:
    """The run ends, nothing is accepted, and the raw responses are kept."""
    async with FakeServer(lambda body: said) as server:
        made = await run(recipe(server), outputs=tmp_path)
    assert made.counts.accepted == 0
    assert made.counts.reasons.keys() == {"unusable_response"}
    assert all(row["raw"] for row in rows(tmp_path, "domains", "rejected"))
