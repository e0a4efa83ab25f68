"""The tester's ratings of instructions: four metrics, 1 to 3 (ToolPlanner, section D.2)."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from statistics import median_low

from toolloom.agents.outcome import Job
from toolloom.agents.shapes import shape
from toolloom.llm import Answer, Unusable, Usage, ask
from toolloom.prompts import render
from toolloom.schemas import (
    Finding,
    JsonObject,
    Metric,
    Provenance,
    Rating,
    Reason,
    seed_for,
)

POOR = 1  # a metric whose median is no better rejects
RATING: JsonObject = shape(
    {"explanation": {"type": "string"}, **{m.value: {"enum": [1, 2, 3]} for m in Metric}}
)


@dataclass(frozen=True)
class Rated:
    """The votes on one text, and what they find."""

    agent: str
    ratings: tuple[Rating, ...]
    findings: tuple[Finding, ...]
    raw: tuple[str, ...]
    provenance: tuple[Provenance, ...]


async def rate(text: str, job: Job, votes: int) -> Rated:
    """Independent ratings of a text; all are waited for, so that order of arrival cannot show."""
    cast = await asyncio.gather(*(_settled(text, job, number) for number in range(votes)))
    usage = sum((c.usage for c in cast), Usage())
    ratings = tuple(c.value for c in cast if isinstance(c, Answer))
    failed = [
        Finding(check="rating", reason=c.reason, detail=c.detail)
        for c in cast
        if isinstance(c, Unusable)
    ]
    return Rated(
        agent=job.agent,
        ratings=ratings,
        findings=tuple(failed or poor(ratings)),
        raw=tuple(r for c in cast for r in c.raw),
        provenance=job.provenance(usage, [job.record]),
    )


async def _settled(text: str, job: Job, number: int) -> Answer[Rating] | Unusable:
    """One rating, or why there is none."""
    try:
        return await ask(
            job.model,
            render("tester_rate", {"instruction": text}),
            _read,
            schema=RATING,
            seed=seed_for(job.seed, number),
            max_tokens=200,
        )
    except Unusable as why:
        return why


def _read(answer: JsonObject) -> Rating:
    return Rating(**{**answer, "explanation": answer["explanation"].strip()})


def poor(ratings: Sequence[Rating]) -> Iterator[Finding]:
    """A finding for each metric whose median is poor, in the words of the poorest vote."""
    for metric in Metric:
        given = [getattr(rating, metric) for rating in ratings]
        if given and median_low(given) <= POOR:
            worst = ratings[given.index(min(given))]
            marks = ", ".join(map(str, given))
            why = worst.explanation or "The vote gives no explanation."
            yield Finding(
                check="rating", reason=Reason.POORLY_RATED, detail=f"{metric}: {marks}. {why}"
            )
