"""The tester: judges what the certain checks let pass (API-Bank, section 4, fifth agent).

Independent votes with a majority, and one self-validation of each rejecting vote (LLift's
self-validation and majority voting, in `toolllm-and-llift`).
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import Any

from toolloom.agents.outcome import Job, Outcome
from toolloom.agents.plan import transcript
from toolloom.agents.query import moment
from toolloom.agents.shapes import shape
from toolloom.llm import Answer, Misfit, Unusable, Usage, ask
from toolloom.prompts import Prompt, render
from toolloom.schemas import (
    Dialogue,
    Finding,
    JsonObject,
    Reason,
    Rejected,
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

Inspect = Callable[[Dialogue], Sequence[Finding]]
Replay = Callable[[Dialogue], Awaitable[Sequence[Finding]]]


def question(dialogue: Dialogue) -> Prompt:
    """The prompt for one vote."""
    query = dialogue.query
    # Where no API fits, the one that would is not on offer: the tester must not see it either.
    shown = query.pool if query.scenario is Scenario.IRRELEVANCE else query.needed
    return render(
        "tester",
        {
            "category": ", ".join(dict.fromkeys(a.category for a in shown)),
            "apis": [a.document() for a in shown],
            "transcript": transcript(dialogue.messages),
            "now": moment(query.now),
        },
    )


def read_vote(answer: Any) -> Vote:
    """A vote. Raises Misfit for a rejection without a principle."""
    if not answer["accept"] and answer["broken"] == "none":
        raise Misfit(Reason.UNUSABLE_RESPONSE, "A rejection names the principle that is broken.")
    return Vote(
        accept=answer["accept"],
        reason=None if answer["accept"] else Reason(answer["broken"]),
        explanation=answer["explanation"].strip(),
    )


async def vote(dialogue: Dialogue, job: Job, number: int) -> Answer[Vote]:
    """One independent vote; a rejecting one is validated once."""
    seed = seed_for(job.seed, number)
    cast = await ask(
        job.model, question(dialogue), read_vote, schema=VOTE, seed=seed, max_tokens=200
    )
    if cast.value.accept:
        return cast
    try:
        checked = await _validate(dialogue, job, cast.value, seed_for(seed, "validate"))
    except Unusable as why:
        usage, raw = cast.usage + why.usage, (*cast.raw, *why.raw)
        raise Unusable(why.reason, why.detail, raw, usage) from why
    judged = cast.value.model_copy(update={"upheld": checked.value})
    return Answer(judged, cast.usage + checked.usage, (*cast.raw, *checked.raw))


async def _validate(dialogue: Dialogue, job: Job, cast: Vote, seed: int) -> Answer[bool]:
    """Whether a rejecting vote stands."""
    return await ask(
        job.model,
        render(
            "tester_validate",
            {
                "transcript": transcript(dialogue.messages),
                "broken": cast.reason,
                "explanation": cast.explanation,
            },
        ),
        lambda a: bool(a["upheld"]),
        schema=VALIDATION,
        seed=seed,
        max_tokens=200,
    )


async def _settled(dialogue: Dialogue, job: Job, number: int) -> Answer[Vote] | Unusable:
    """A vote, or why there is none: all are waited for, so that order of arrival cannot show."""
    try:
        return await vote(dialogue, job, number)
    except Unusable as why:
        return why


def majority(votes: Sequence[Vote]) -> tuple[Finding, ...]:
    """Nothing if the majority accepts, else a finding for each rejecting vote."""
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
    dialogue: Dialogue, job: Job, inspect: Inspect, replay: Replay, votes: int
) -> Outcome:
    """The dialogue as a sample, or rejected: certain checks, then executed calls again, then votes.

    `replay` runs the calls that were really executed from a fresh state and tells which results
    do not repeat.
    """
    findings = tuple(inspect(dialogue)) or tuple(await replay(dialogue))
    if findings:
        return Outcome(rejected=(_reject(dialogue, job, findings, Usage(), ()),))
    cast = await asyncio.gather(*(_settled(dialogue, job, n) for n in range(votes)))
    usage = sum((c.usage for c in cast), Usage())
    raw = [r for c in cast for r in c.raw]
    failed = [c for c in cast if isinstance(c, Unusable)]
    if failed:
        return Outcome(rejected=(job.reject(dialogue, failed[0], usage=usage, raw=raw),))
    counted = tuple(c.value for c in cast if isinstance(c, Answer))
    findings = majority(counted)
    if findings:
        return Outcome(rejected=(_reject(dialogue, job, findings, usage, raw),))
    verdict = Verdict(votes=counted)
    provenance = job.provenance(usage, [dialogue.id])
    return Outcome((Sample(dialogue=dialogue, verdict=verdict, provenance=provenance),))


def _reject(
    dialogue: Dialogue, job: Job, findings: Sequence[Finding], usage: Usage, raw: Sequence[str]
) -> Rejected:
    return job.reject(dialogue, findings[0], usage=usage, raw=raw, findings=findings)
