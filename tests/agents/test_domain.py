from __future__ import annotations

from typing import Any

import pytest

from toolloom.agents import domain
from toolloom.agents.ask import BadAnswer
from toolloom.schemas import Brief, Reason

BRIEF = Brief(category="Weather", about="forecasts and alerts", examples=("frost alerts",), count=2)


def named(*names: str) -> dict[str, Any]:
    return {"domains": [{"name": n, "description": f"About {n}."} for n in names]}


async def test_domains_carry_category_and_provenance(working: Any) -> None:
    """A domain is of its brief's category, and the usage of a round is booked once."""
    async with working([named("hail damage reports", "ski slope snow depth")]) as (job, _):
        outcome = await domain.run(BRIEF, job)
    ids = ["Weather/hail damage reports", "Weather/ski slope snow depth"]
    assert [d.id for d in outcome.accepted] == ids
    assert [d.provenance[0].requests for d in outcome.accepted] == [1, 0]


async def test_a_near_duplicate_is_dropped_and_made_up_for(working: Any) -> None:
    """A domain that says what another says is rejected with that one's name; a round replaces it."""
    rounds = [named("bike rental", "rental of bikes"), named("tide tables")]
    async with working(rounds) as (job, server):
        outcome = await domain.run(BRIEF, job)
    assert [d.name for d in outcome.accepted] == ["bike rental", "tide tables"]
    assert outcome.rejected[0].reason is Reason.NEAR_DUPLICATE
    assert outcome.rejected[0].detail == "«rental of bikes» is nearly «bike rental»."
    again = server.bodies[1]["messages"][-1]["content"]
    assert "Already named: bike rental\nName 1 new domain." in again


async def test_empties_for_ever_end_in_rejects(working: Any) -> None:
    """A model that says nothing is asked a bounded number of times; the raw responses are kept."""
    async with working(lambda body: "") as (job, server):
        outcome = await domain.run(BRIEF, job)
    assert not outcome.accepted
    assert server.received == 2 * len(outcome.rejected) == 2 * (1 + domain.SPARE)
    assert {r.reason for r in outcome.rejected} == {Reason.UNUSABLE_RESPONSE}
    assert all(len(r.raw) == 2 for r in outcome.rejected)


@pytest.mark.parametrize("name", ["weather", "Weather", "rain rain", "a b c d e f g h i", "1 2"])
def test_what_is_no_domain_is_a_misfit(name: str) -> None:
    """A domain has two to eight different words."""
    with pytest.raises(BadAnswer):
        domain.read(named(name), BRIEF)
