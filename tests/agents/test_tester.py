from __future__ import annotations

from typing import Any

import pytest
from support import toys

from toolloom.agents import tester
from toolloom.agents.ask import BadAnswer
from toolloom.pipeline.checks.instructions import poorly_rated
from toolloom.schemas import Finding, Intention, Metric, Rating, Reason, Scenario

YES = {"explanation": "Fine.", "accept": True, "broken": "none"}
NO = {"explanation": "It sounds stiff.", "accept": False, "broken": "unnatural_query"}
UPHELD = {"explanation": "It does.", "upheld": True}
DROPPED = {"explanation": "It does not.", "upheld": False}
DIALOGUE = toys.sample().dialogue


@pytest.fixture(autouse=True)
def no_findings(monkeypatch: pytest.MonkeyPatch) -> None:
    """The certain checks have tests of their own: here they find nothing."""
    monkeypatch.setattr(tester, "inspect", lambda dialogue, world=None: ())


def panel(*votes: Any, upheld: Any) -> Any:
    """A script: votes in the order they are asked for, one answer for every validation."""
    coming = iter(votes)

    def script(body: Any) -> Any:
        voting = body["messages"][0]["content"].startswith("You test training data")
        return next(coming) if voting else upheld

    return script


async def judge(
    working: Any, script: Any, votes: int = 3, repeated: tuple[Finding, ...] = ()
) -> tuple[Any, Any]:
    """What the tester says of a good dialogue, and the server that it asked."""

    async def repeat(dialogue: Any) -> tuple[Finding, ...]:
        return repeated

    async with working(script, "tester") as (job, server):
        return await tester.run(DIALOGUE, job, repeat, votes), server


@pytest.mark.parametrize("reason", [Reason.SEARCH_SKIPPED, Reason.NOT_REPEATABLE])
async def test_a_finding_saves_the_votes(
    working: Any, monkeypatch: pytest.MonkeyPatch, reason: Reason
) -> None:
    """What the certain checks find, or executing once more, is not paid for: no model is asked."""
    fault = (Finding(check="toy", reason=reason, turn=2, detail="Look."),)
    certain = reason is Reason.SEARCH_SKIPPED
    monkeypatch.setattr(tester, "inspect", lambda dialogue, world=None: fault if certain else ())
    outcome, server = await judge(working, panel(upheld=UPHELD), repeated=fault)
    (rejected,) = outcome.rejected
    assert (rejected.reason, rejected.findings, server.received) == (reason, fault, 0)


@pytest.mark.parametrize(
    ("votes", "upheld", "rejecting"),
    [
        ("yny", True, 0),
        ("nyn", True, 2),
        ("nnn", False, 0),
        ("n", True, 1),
        ("yn", True, 0),
        ("nnnyy", True, 3),
    ],
)
async def test_more_than_half_of_the_votes_reject(
    working: Any, votes: str, upheld: bool, rejecting: int
) -> None:
    """Each upheld objection of a majority is a finding in the model's words; a tie accepts, and
    self-validation drops objections, even all of them."""
    script = panel(
        *({"y": YES, "n": NO}[vote] for vote in votes), upheld=UPHELD if upheld else DROPPED
    )
    outcome, server = await judge(working, script, len(votes))
    (found,) = outcome.rejected or outcome.accepted
    assert found.provenance[0].requests == server.answered == len(votes) + votes.count("n")
    if rejecting:
        assert found.reason is Reason.UNNATURAL_QUERY
        assert [f.detail for f in found.findings] == ["It sounds stiff."] * rejecting
        assert len(found.raw) == server.answered
    else:
        assert found.verdict.accepted
        assert sorted(v.accept for v in found.verdict.votes) == sorted(v == "y" for v in votes)


async def test_without_votes_no_model_is_asked(working: Any) -> None:
    """The certain checks may judge alone."""
    outcome, server = await judge(working, panel(upheld=UPHELD), votes=0)
    (sample,) = outcome.accepted
    assert (sample.verdict.votes, server.received) == ((), 0)
    assert sample.provenance[0].model == ""


async def test_votes_are_independent(working: Any) -> None:
    """Each vote has its own seed and does not see the others."""
    _, server = await judge(working, panel(YES, YES, YES, upheld=UPHELD))
    assert len({body["seed"] for body in server.bodies}) == 3
    assert len({str(body["messages"]) for body in server.bodies}) == 1


async def test_garbage_votes_reject_with_everything_that_was_said(working: Any) -> None:
    """A tester that cannot be read rejects the dialogue; no usage of other votes is lost."""
    outcome, server = await judge(working, lambda body: "no idea")
    (rejected,) = outcome.rejected
    assert rejected.reason is Reason.UNUSABLE_RESPONSE
    assert rejected.provenance[0].requests == len(rejected.raw) == server.answered == 6


def test_a_rejection_names_its_principle() -> None:
    """A rejecting vote without one is a misfit, and is asked for again."""
    with pytest.raises(BadAnswer, match="names the principle"):
        tester.read_vote({"explanation": "Hm.", "accept": False, "broken": "none"})


def test_the_tester_sees_the_apis_and_the_whole_dialogue() -> None:
    """Category, documentation, calls and results: what was on offer, not what would have fitted."""
    text = tester.question(DIALOGUE).messages[-1]["content"]
    for part in ("Category: weather", "weather_current", "Zürich", "Result of", "It is 7 °C."):
        assert part in text
    outside = toys.api("boats", "rent")
    intent = (Intention(api=outside.id, arguments={}),)
    query = toys.query(scenario=Scenario.IRRELEVANCE, outside=outside, intent=intent)
    assert "boats" not in tester.question(toys.sample(query).dialogue).messages[-1]["content"]


MARKS: dict[str, Any] = {"plausibility": 3, "conciseness": 3, "relevance": 3, "realness": 3}


def ratings(*marks: int, of: str = "realness") -> list[Rating]:
    """Ratings that differ in one metric."""
    return [Rating(**{**MARKS, of: mark, "explanation": f"It is {mark}."}) for mark in marks]


@pytest.mark.parametrize("metric", list(Metric))
@pytest.mark.parametrize(
    ("marks", "rejected"),
    [((), 0), ((1,), 1), ((3, 1, 1), 1), ((1, 2, 3), 0)],
)
def test_a_median_of_one_rejects(metric: Metric, marks: tuple[int, ...], rejected: int) -> None:
    """The middle mark decides, for each metric alone; the finding lists the marks and gives the
    words of the vote that is poorest."""
    poor = [(f.reason, f.detail) for f in poorly_rated(ratings(*marks, of=metric.value))]
    told = f"{metric}: {', '.join(map(str, marks))}. It is 1."
    assert poor == [(Reason.POORLY_RATED, told)] * rejected


@pytest.mark.parametrize("mark", [0, 4, "3", None, True, 2.5, 2.0])
async def test_marks_are_one_two_or_three(working: Any, mark: Any) -> None:
    """Any other mark is asked for again, and then no rating; JSON Schema takes 2.0 for 2."""
    answer = {**MARKS, "explanation": "Fine.", "realness": mark}
    async with working(lambda body: answer, "tester") as (job, server):
        rated = await tester.rate("Find me a hotel.", job, 1)
    good = mark == 2.0
    assert [f.reason for f in rated.findings] == [Reason.UNUSABLE_RESPONSE] * (not good)
    assert [r.realness for r in rated.ratings] == [2] * good
    assert server.received == (1 if good else len(rated.raw))
