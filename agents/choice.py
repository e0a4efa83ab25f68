"""Choosing among candidates that are all right: all that a small model is asked in worlds.

Where there is no model, and where its answer cannot be read, the seed chooses: either way nothing
but a right candidate can be chosen.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from string import ascii_uppercase

from toolloom.agents.ask import Answer, Costs, Job, NoUsableAnswer, ask, one
from toolloom.prompts import render
from toolloom.schemas import seed_for

MOST = 6  # candidates of one question


async def choose(
    job: Job,
    what: str,
    candidates: Sequence[str],
    *about: object,
    ask_model: bool = True,
    drawn: int | None = None,
) -> Answer[int]:
    """The place of one candidate. `what` says what is chosen, `about` tells questions of one job
    apart; without `ask_model` the seed chooses, or has chosen what is `drawn`."""
    seed = seed_for(job.seed, "choice", *about)
    if drawn is None:
        drawn = random.Random(seed).randrange(len(candidates))
    if len(candidates) == 1 or not (ask_model and job.model.endpoint.small):
        return Answer(drawn, Costs())
    offered = sorted(random.Random(seed).sample(range(len(candidates)), min(MOST, len(candidates))))
    letters = ascii_uppercase[: len(offered)]
    options = [(letter, candidates[i]) for letter, i in zip(letters, offered, strict=True)]
    try:
        return await ask(
            job.model,
            render("choice", {"what": what, "options": options}),
            lambda answer: offered[letters.index(answer["choice"])],
            schema=one("choice", {"enum": list(letters)}),
            seed=seed,
            max_tokens=12,
        )
    except NoUsableAnswer as why:
        return Answer(drawn, why.costs)
