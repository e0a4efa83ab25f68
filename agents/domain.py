"""The domain agent: names application domains (API-Bank, section 4, first agent)."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from toolloom.agents.ask import BadAnswer, Job, NoUsableAnswer, ask, keep_new, shape
from toolloom.prompts import Prompt, render
from toolloom.schemas import Brief, Domain, JsonObject, Outcome, Reason, Rejected, seed_for

ROUND = 20  # domains asked for at once; more, and models begin to repeat themselves
SPARE = 2  # rounds beyond those needed, to make up for near-duplicates


def question(brief: Brief, known: Sequence[str], count: int) -> Prompt:
    """The prompt that asks for `count` domains that are not among `known`."""
    field = {"category": brief.category, "about": brief.about, "examples": list(brief.examples)}
    # `describe` is always true: without it the template's hash, which versions hold, would change.
    return render("domain", {**field, "known": list(known), "count": count, "describe": True})


def schema(count: int) -> JsonObject:
    """Shape of an answer with at most `count` domains."""
    fields = {"name": {"type": "string"}, "description": {"type": "string"}}
    domains = {"type": "array", "items": shape(fields), "minItems": 1, "maxItems": count}
    return shape({"domains": domains})


def read(answer: Any, brief: Brief) -> list[Domain]:
    """The domains of an answer. Raises BadAnswer for a name that is not one."""
    found = [
        Domain(
            category=brief.category,
            name=" ".join(d["name"].split()),
            description=d["description"].strip(),
        )
        for d in answer["domains"]
    ]
    for domain in found:
        words = re.findall(r"[^\W\d_]+", domain.name.lower())
        if not 2 <= len(words) <= 8 or len(set(words)) < len(words):
            raise BadAnswer(
                Reason.UNUSABLE_RESPONSE,
                f"«{domain.name}» is not a domain in two to six different words.",
            )
    return found


async def run(brief: Brief, job: Job) -> Outcome:
    """Name `brief.count` domains, in rounds that each show what is named already."""
    kept: list[Domain] = []
    rejected: list[Rejected] = []
    for number in range(-(-brief.count // ROUND) + SPARE):
        count = min(ROUND, brief.count - len(kept))
        if count <= 0:
            break
        known = [d.name for d in kept]
        turn = replace(job, seed=seed_for(job.seed, number))
        try:
            answer = await ask(
                job.model,
                question(brief, known, count),
                lambda a: read(a, brief),
                schema=schema(count),
                seed=turn.seed,
                max_tokens=60 * count + 40,
            )
        except NoUsableAnswer as why:
            rejected.append(turn.reject(brief, why))
            continue
        keep_new(turn, brief, answer.value, answer.costs, kept, rejected)
    return Outcome(tuple(kept), tuple(rejected))
