"""The domain agent: names application domains (API-Bank, section 4, first agent)."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from toolloom.agents.ask import BadAnswer, Job, NoUsableAnswer, ask, one, shape
from toolloom.agents.wording import keep_new, stems
from toolloom.prompts import Prompt, render
from toolloom.schemas import Brief, Domain, JsonObject, Outcome, Reason, Rejected, seed_for

ROUND = 20  # domains asked for at once; more, and models begin to repeat themselves
SPARE = 2  # rounds beyond those needed, to make up for near-duplicates


def question(brief: Brief, known: Sequence[str], count: int, *, small: bool) -> Prompt:
    """The prompt that asks for `count` domains that are not among `known`."""
    field = {"category": brief.category, "about": brief.about, "examples": list(brief.examples)}
    return render("domain", {**field, "known": list(known), "count": count, "describe": not small})


def schema(count: int, *, small: bool) -> JsonObject:
    """Shape of the answer; a small model's names are held to plain words, one at a time."""
    name: JsonObject = {"type": "string"}
    if small:
        name["pattern"] = "^[a-z]+( [a-z]+){1,4}$"
    fields = {"name": name} if small else {"name": name, "description": {"type": "string"}}
    domains = {"type": "array", "items": shape(fields), "minItems": 1, "maxItems": count}
    return one("domains", domains)


def read(answer: Any, brief: Brief, *, small: bool = False) -> list[Domain]:
    """The domains of an answer. Raises BadAnswer for a name that is not one.

    A small model's must share a word with what is known of the category.
    """
    found = [
        Domain(
            category=brief.category,
            name=" ".join(d["name"].split()),
            description=d.get("description", "").strip(),
        )
        for d in answer["domains"]
    ]
    field = set(stems(f"{brief.category} {brief.about} {' '.join(brief.examples)}"))
    for domain in found:
        if small and not field & set(stems(domain.name)):
            raise BadAnswer(Reason.DOMAIN_MISMATCH, f"«{domain.name}» is not of {brief.category}.")
        words = re.findall(r"[^\W\d_]+", domain.name.lower())
        if not 2 <= len(words) <= 8 or len(set(words)) < len(words):
            raise BadAnswer(
                Reason.UNUSABLE_RESPONSE,
                f"«{domain.name}» is not a domain in two to six different words.",
            )
    return found


async def run(brief: Brief, job: Job) -> Outcome:
    """Name `brief.count` domains, in rounds that each show what is named already."""
    small = job.model.endpoint.small
    batch = 1 if small else ROUND
    kept: list[Domain] = []
    rejected: list[Rejected] = []
    for number in range(-(-brief.count // batch) + SPARE):
        count = min(batch, brief.count - len(kept))
        if count <= 0:
            break
        known = [d.name for d in kept]
        turn = replace(job, seed=seed_for(job.seed, number))
        try:
            answer = await ask(
                job.model,
                question(brief, known, count, small=small),
                lambda a: read(a, brief, small=small),
                schema=schema(count, small=small),
                seed=turn.seed,
                max_tokens=40 if small else 60 * count + 40,
            )
        except NoUsableAnswer as why:
            rejected.append(turn.reject(brief, why))
            continue
        keep_new(turn, brief, answer.value, answer.costs, kept, rejected)
    return Outcome(tuple(kept), tuple(rejected))
