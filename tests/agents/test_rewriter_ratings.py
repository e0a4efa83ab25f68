"""The votes of a tester beside the rewriter: what they cost, and which levels fall by them."""

from __future__ import annotations

import dataclasses
from typing import Any

import pytest
from support.rewriting_seed import GOOD, SEED, checked_by, level_of, lost, made, says

from toolloom.agents import rewriter
from toolloom.llm.fake.script import improvise
from toolloom.pipeline.stage import use_of
from toolloom.schemas import Granularity, Reason


@pytest.fixture(autouse=True)
def toy_checks(monkeypatch: pytest.MonkeyPatch) -> None:
    checked_by(monkeypatch)


def rated(**marks: int) -> dict[str, Any]:
    return {**GOOD["rating"], **marks}


def rater(job: Any) -> Any:
    """The tester's job beside the rewriter's, as a stage would make it."""
    return dataclasses.replace(job, agent="tester", seed=2)


async def test_ratings_are_stored_and_counted(working: Any) -> None:
    """Every level that stands is rated, the full request too, each vote on its own."""
    async with working(says(), "rewriter") as (job, server):
        outcome = await rewriter.run(SEED, job, rater(job), 3)
    assert [len(i.ratings) for i in made(outcome).values()] == [3] * 5
    assert made(outcome)["hybrid"].ratings[0].conciseness == 2
    assert [p.agent for p in made(outcome)["api"].provenance] == ["rewriter", "tester"]
    seeds = {b["seed"] for b in server.bodies if level_of(b) == "rating"}
    assert len(seeds) == 15
    assert use_of("stage", outcome).requests == server.received == 4 + 15


async def test_a_poor_median_rejects(working: Any) -> None:
    """Two of three that call it unreal are enough, whatever the other metrics."""
    said = [rated(realness=1), rated(), rated(realness=1)] + [rated()] * 12
    async with working(says(rating=said), "rewriter", concurrency=1) as (job, server):
        outcome = await rewriter.run(SEED, job, rater(job), 3)
    (row,) = outcome.rejected
    assert (row.reason, row.agent, len(outcome.accepted)) == (Reason.POORLY_RATED, "tester", 4)
    assert row.detail == "realness: 1, 3, 1. Fine."
    assert [p.agent for p in row.provenance] == ["rewriter", "tester"]
    assert use_of("stage", outcome).requests == server.received


async def test_what_failed_a_check_is_not_rated(working: Any) -> None:
    """Votes cost money: only texts without faults get them."""
    async with working(says(tool="Please use Weather."), "rewriter") as (job, server):
        await rewriter.run(SEED, job, rater(job), 1)
    assert sum(level_of(b) == "rating" for b in server.bodies) == 4


async def test_unreadable_ratings_reject_with_what_was_said(working: Any) -> None:
    """A tester that cannot be read rejects; nothing that was said is lost."""
    async with working(says(rating="no idea"), "rewriter") as (job, server):
        outcome = await rewriter.run(SEED, job, rater(job), 3)
    assert set(lost(outcome).values()) == {Reason.UNUSABLE_RESPONSE}
    assert sum(len(r.raw) for r in outcome.rejected) == server.received == 4 + 30
    assert use_of("stage", outcome).requests == server.received


async def test_requests_for_a_seed_are_bounded(working: Any) -> None:
    """At worst the statement, three levels and every vote take all candidates and a mended try."""
    said = {"category": "?", "tool": "?", "api": "?", "rating": "?"}
    async with working(says(**said), "rewriter", candidates=2) as (job, server):
        outcome = await rewriter.run(SEED, job, rater(job), 3)
    assert server.received == 1 + 3 * 3 + 2 * 3 * 3
    assert use_of("stage", outcome).requests == server.received


async def test_the_scripted_endpoint_plays_the_rewriter(working: Any) -> None:
    """Its unscripted answers make levels that the real checks let pass, ratings included."""
    async with working(improvise, "rewriter") as (job, _):
        outcome = await rewriter.run(SEED, job, rater(job), 3)
    assert set(made(outcome)) | set(lost(outcome)) == set(Granularity)
    assert len(outcome.accepted) >= 3
    assert set(lost(outcome).values()) <= {Reason.POORLY_RATED, Reason.TAG_NOT_NAMED}
