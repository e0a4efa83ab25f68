from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest
from support.rewriting_seed import checked_by

from toolloom.agents import rewriter
from toolloom.agents.ask import BadAnswer
from toolloom.llm.fake.script import improvise
from toolloom.schemas import Finding, Granularity, Reason, Seed, Split, Step

SPANS = ("I need to know the score.", "We want the score of the game.")
SEED = Seed(
    id="q1",
    split=Split.TRAIN,
    hybrid=" ".join(SPANS),
    steps=(Step(category="Sports", tool="scores", api="find", function="find"),),
)


def faults(
    seed: Seed, level: Granularity, text: str, others: Mapping[Granularity, str]
) -> tuple[Finding, ...]:
    """Toy checks: nobody may say «secret»."""
    found = "secret" in text
    return (Finding(check="toy", reason=Reason.SAYS_TOO_MUCH, detail="Secret."),) * found


@pytest.fixture(autouse=True)
def toy_checks(monkeypatch: pytest.MonkeyPatch) -> None:
    checked_by(
        monkeypatch, lambda seed: SPANS, lambda seed, level: (f"The {level.title()}",), faults
    )


def script(*aims: str, situation: str = SPANS[1]) -> Any:
    """Answers: a situation, then for each aim a request with the last opening on offer."""
    coming = iter(aims)

    def answer(body: Any) -> dict[str, Any]:
        offered = body["response_format"]["json_schema"]["schema"]["properties"]
        if "situation" in offered:
            return {"situation": situation}
        return {"opening": offered["opening"]["enum"][-1], "aim": next(coming)}

    return answer


def asked_by(opening: str) -> str:
    """How a request with this beginning ends."""
    return "?" if opening.startswith(("Can", "Could")) else "."


async def test_choices_and_a_few_words_make_five_levels(working: Any) -> None:
    """The model chooses the statement and each beginning, and words each aim."""
    said = script("to tell me the score", "to follow the game", "to find the score")
    async with working(said, "rewriter", small=True, concurrency=1) as (job, server):
        outcome = await rewriter.run(SEED, job, None, 0)
    texts = {i.level: i.text for i in outcome.accepted}  # type: ignore[attr-defined]
    assert texts["statement"] == SPANS[1]
    assert texts["category"].startswith(f"{SPANS[1]} ")
    assert "use tools for The Category to tell me the score" in texts["category"]
    assert "use The Tool to follow the game" in texts["tool"]
    assert all(t.endswith(asked_by(t.removeprefix(f"{SPANS[1]} "))) for t in texts.values())
    assert (len(texts), server.received) == (5, 4)


async def test_a_small_model_chooses_among_spans_alone(working: Any) -> None:
    """What it makes up is no statement, whatever it says."""
    async with working(script(situation="I am the king."), "rewriter", small=True) as (job, _):
        outcome = await rewriter.run(SEED, job, None, 0)
    assert [i.level for i in outcome.accepted] == ["hybrid"]  # type: ignore[attr-defined]
    assert outcome.rejected[0].reason is Reason.UNUSABLE_RESPONSE


async def test_the_scripted_endpoint_plays_a_small_model(working: Any) -> None:
    """Its unscripted answers fit the small questions too."""
    async with working(improvise, "rewriter", small=True) as (job, _):
        outcome = await rewriter.run(SEED, job, None, 0)
    assert len(outcome.accepted) == 5


@pytest.mark.parametrize(
    ("aim", "reason"),
    [
        ("to go", Reason.UNUSABLE_RESPONSE),
        ("to score to score to score", Reason.UNUSABLE_RESPONSE),
        ("to see the score in this town and in all of those other towns", Reason.UNUSABLE_RESPONSE),
        ("to meet your score", Reason.UNNATURAL_QUERY),
        ("to give me a job", Reason.OFF_PATH),
    ],
)
def test_an_aim_is_short_and_on_the_subject(aim: str, reason: Reason) -> None:
    """Small models ramble, change sides and drift: such an aim is a misfit."""
    with pytest.raises(BadAnswer) as caught:
        rewriter.read_aim(aim, "I need to know the score. Bowl Team Statistics")
    assert caught.value.reason is reason


def test_openings_on_offer_vary_by_seed() -> None:
    """A small model would take the same beginning each time; so it is offered few, drawn anew."""
    offered = [tuple(rewriter.shaped(seed)["properties"]["opening"]["enum"]) for seed in range(20)]
    assert len(set(offered)) > 5
    assert rewriter.shaped(3) == rewriter.shaped(3)


@pytest.mark.parametrize(
    ("spoken", "said"),
    [(("A",), "A"), (("A", "B"), "A and B"), (("A", "B", "C", "A"), "A, B and C")],
)
def test_names_are_listed_as_people_do(spoken: tuple[str, ...], said: str) -> None:
    """With «and» before the last; categories are of tools."""
    assert rewriter.named(Granularity.API, spoken) == said
    assert rewriter.named(Granularity.CATEGORY, spoken) == f"tools for {said}"
