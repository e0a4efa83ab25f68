"""The tester: judges what the certain checks let pass (API-Bank, section 4, fifth agent).

Independent votes with a majority, and one self-validation of each rejecting vote (LLift's
self-validation and majority voting, in `toolllm-and-llift`).
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import Any, NamedTuple

from toolloom.agents.ask import Answer, BadAnswer, Costs, Job, NoUsableAnswer, ask, settled, shape
from toolloom.agents.query import moment, transcript
from toolloom.pipeline.checks import inspect
from toolloom.pipeline.checks.instructions import poorly_rated
from toolloom.pipeline.checks.transcript import known_functions
from toolloom.pipeline.checks.world.interpreter import Machine
from toolloom.prompts import Prompt, render
from toolloom.schemas import (
    Dialogue,
    Finding,
    JsonObject,
    Metric,
    Outcome,
    Provenance,
    Rating,
    Reason,
    Sample,
    Scenario,
    Verdict,
    Vote,
    seed_for,
)

PRINCIPLES = (
    Reason.DOMAIN_MISMATCH,
    Reason.UNAUTHENTIC_API,
    Reason.UNNATURAL_QUERY,
    Reason.UNSOLVABLE_QUERY,
    Reason.UNHELPFUL_ANSWER,
)
VOTE: JsonObject = shape(
    {
        "explanation": {"type": "string"},
        "accept": {"type": "boolean"},
        "broken": {"enum": ["none", *PRINCIPLES]},
    }
)
VALIDATION: JsonObject = shape({"explanation": {"type": "string"}, "upheld": {"type": "boolean"}})

Replay = Callable[[Dialogue], Awaitable[Sequence[Finding]]]


def question(dialogue: Dialogue) -> Prompt:
    """The prompt for one vote."""
    query = dialogue.query
    # Where no API fits, the one that would is not on offer: the tester must not see it either.
    world = query.setting.world if query.setting else None
    own = [a for a in query.pool if world and a.source.reference == world]
    known = known_functions(query, dialogue.messages)
    shown = [a for a in query.pool if a in query.needed or (a in own and a.function in known)]
    shown = [*query.pool] if query.scenario is Scenario.IRRELEVANCE else shown
    return render(
        "tester",
        {
            "category": ", ".join(dict.fromkeys(a.category for a in shown)),
            "apis": [a.document() for a in shown],
            "rules": _rules(dialogue),
            "transcript": transcript(dialogue.messages),
            "now": moment(query.now),
        },
    )


def _rules(dialogue: Dialogue) -> str:
    """What the assistant of a world is told, which its answers may rest on."""
    return dialogue.messages[0].content or "" if dialogue.query.setting else ""


def read_vote(answer: Any) -> Vote:
    """A vote. Raises BadAnswer for a rejection without a principle."""
    if not answer["accept"] and answer["broken"] == "none":
        raise BadAnswer(Reason.UNUSABLE_RESPONSE, "A rejection names the principle that is broken.")
    return Vote(
        accept=answer["accept"],
        reason=None if answer["accept"] else Reason(answer["broken"]),
        explanation=answer["explanation"].strip(),
    )


async def vote(dialogue: Dialogue, job: Job, number: int) -> Answer[Vote]:
    """One independent vote; a rejecting one is validated once, and counts only if it is upheld."""
    seed = seed_for(job.seed, number)
    cast = await ask(
        job.model, question(dialogue), read_vote, schema=VOTE, seed=seed, max_tokens=200
    )
    if cast.value.accept:
        return cast
    try:
        told = {"rules": _rules(dialogue), "transcript": transcript(dialogue.messages)}
        objection = {"broken": cast.value.reason, "explanation": cast.value.explanation}
        checked = await ask(
            job.model,
            render("tester_validate", {**told, **objection}),
            lambda a: bool(a["upheld"]),
            schema=VALIDATION,
            seed=seed_for(seed, "validate"),
            max_tokens=200,
        )
    except NoUsableAnswer as why:
        raise NoUsableAnswer(why.reason, why.detail, cast.costs + why.costs) from why
    judged = cast.value.model_copy(update={"upheld": checked.value})
    return Answer(judged, cast.costs + checked.costs)


def majority(votes: Sequence[Vote]) -> tuple[Finding, ...]:
    """A finding for each rejecting vote if more than half of all reject, else nothing."""
    rejecting = [v for v in votes if v.rejects]
    if len(rejecting) * 2 <= len(votes):
        return ()
    return tuple(
        Finding(
            check="vote",
            reason=v.reason or Reason.UNHELPFUL_ANSWER,
            detail=v.explanation or "The vote gives no explanation.",
        )
        for v in rejecting
    )


async def run(
    dialogue: Dialogue, job: Job, replay: Replay, votes: int, world: Machine | None = None
) -> Outcome:
    """The dialogue as a sample, or rejected: certain checks, then executed calls again, then votes.

    `replay` runs the calls that were really executed from a fresh state and tells which results
    do not repeat. `world`: the one that the dialogue plays in, if any; there nobody votes if no
    model is there, or one so small that its verdict would be chance: the checks know what came of
    it.
    """
    findings = inspect(dialogue, world=world) or tuple(await replay(dialogue))
    if findings:
        return Outcome(rejected=(job.reject(dialogue, findings),))
    if world and (job.model.endpoint.small or job.model.endpoint.absent):
        votes = 0
    # All votes are waited for, so that order of arrival cannot show.
    cast = await asyncio.gather(*(settled(vote(dialogue, job, n)) for n in range(votes)))
    costs = sum((c.costs for c in cast), Costs())
    failed = [c for c in cast if isinstance(c, NoUsableAnswer)]
    if failed:
        return Outcome(rejected=(job.reject(dialogue, failed[0], costs),))
    counted = tuple(c.value for c in cast if isinstance(c, Answer))
    if findings := majority(counted):
        return Outcome(rejected=(job.reject(dialogue, findings, costs),))
    verdict = Verdict(votes=counted)
    provenance = job.provenance(costs, [dialogue.id])
    return Outcome((Sample(dialogue=dialogue, verdict=verdict, provenance=provenance),))


# Ratings of instructions: four metrics, 1 to 3 (ToolPlanner, section D.2).

RATING: JsonObject = shape(
    {"explanation": {"type": "string"}, **{m.value: {"enum": [1, 2, 3]} for m in Metric}}
)


class Rated(NamedTuple):
    """The votes on one text, and what they find."""

    ratings: tuple[Rating, ...]
    findings: tuple[Finding, ...]
    raw: tuple[str, ...]
    provenance: tuple[Provenance, ...]


async def rate(text: str, job: Job, votes: int) -> Rated:
    """Independent ratings of a text; all are waited for, so that order of arrival cannot show."""

    def read(answer: JsonObject) -> Rating:
        return Rating(**{**answer, "explanation": answer["explanation"].strip()})

    async def rating(number: int) -> Answer[Rating]:
        prompt, seed = render("tester_rate", {"instruction": text}), seed_for(job.seed, number)
        return await ask(job.model, prompt, read, schema=RATING, seed=seed, max_tokens=200)

    cast = await asyncio.gather(*(settled(rating(number)) for number in range(votes)))
    costs = sum((c.costs for c in cast), Costs())
    ratings = tuple(c.value for c in cast if isinstance(c, Answer))
    failed = [
        Finding(check="rating", reason=c.reason, detail=c.detail)
        for c in cast
        if isinstance(c, NoUsableAnswer)
    ]
    return Rated(
        ratings=ratings,
        findings=tuple(failed or poorly_rated(ratings)),
        raw=costs.raw,
        provenance=job.provenance(costs, [job.record]),
    )
