from __future__ import annotations

from typing import Any

import pytest

from toolloom.agents import tester_rate
from toolloom.schemas import Metric, Rating, Reason

MARKS: dict[str, Any] = {"plausibility": 3, "conciseness": 3, "relevance": 3, "realness": 3}


def votes(*marks: int, of: str = "realness") -> list[Rating]:
    """Ratings that differ in one metric."""
    return [Rating(**{**MARKS, of: mark, "explanation": f"It is {mark}."}) for mark in marks]


@pytest.mark.parametrize("metric", list(Metric))
@pytest.mark.parametrize(
    ("marks", "rejected"),
    [((), 0), ((1,), 1), ((2,), 0), ((1, 1, 3), 1), ((1, 2, 3), 0), ((1, 1, 1, 3, 3), 1)],
)
def test_a_median_of_one_rejects(metric: Metric, marks: tuple[int, ...], rejected: int) -> None:
    """The middle mark decides, for each metric alone."""
    found = list(tester_rate.poor(votes(*marks, of=metric.value)))
    assert [f.reason for f in found] == [Reason.POORLY_RATED] * rejected
    assert all(f.detail.startswith(f"{metric}: ") for f in found)


def test_the_poorest_vote_says_why() -> None:
    """The finding lists the marks and gives the words of the vote that is poorest."""
    (found,) = tester_rate.poor(votes(1, 3, 1))
    assert found.detail == "realness: 1, 3, 1. It is 1."


async def test_each_vote_has_a_seed_of_its_own(working: Any) -> None:
    """The same question, asked independently; the ratings stand in the order of the votes."""
    coming = iter((1, 2, 3))

    def script(body: Any) -> dict[str, Any]:
        return {**MARKS, "explanation": " Fine. ", "realness": next(coming)}

    async with working(script, "tester", concurrency=1) as (job, server):
        rated = await tester_rate.rate("Find me a hotel.", job, 3)
    assert [r.realness for r in rated.ratings] == [1, 2, 3]
    assert rated.ratings[0].explanation == "Fine."
    assert len({b["seed"] for b in server.bodies}) == 3
    assert (rated.provenance[0].requests, rated.findings) == (3, ())


async def test_a_mark_may_be_written_as_a_float(working: Any) -> None:
    """JSON Schema takes 2.0 for 2, and so does a rating."""
    answer = {**MARKS, "explanation": "Fine.", "realness": 2.0}
    async with working(lambda body: answer, "tester") as (job, _):
        rated = await tester_rate.rate("Find me a hotel.", job, 1)
    assert (rated.ratings[0].realness, rated.findings) == (2, ())


@pytest.mark.parametrize("mark", [0, 4, "3", None, True, 2.5])
async def test_marks_are_one_two_or_three(working: Any, mark: Any) -> None:
    """Any other mark is asked for again, and then no rating."""
    answer = {**MARKS, "explanation": "Fine.", "realness": mark}
    async with working(lambda body: answer, "tester") as (job, server):
        rated = await tester_rate.rate("Find me a hotel.", job, 1)
    assert [f.reason for f in rated.findings] == [Reason.UNUSABLE_RESPONSE]
    assert (len(rated.raw), rated.ratings) == (server.received, ())
