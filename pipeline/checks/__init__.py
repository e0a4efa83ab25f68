"""The certain checks: what a text says, and what is wrong with a dialogue or an instruction.

Pure functions from records to findings, cheap ones first. They never raise, whatever a model
wrote, and end in bounded time. `text/` reads words, numbers, dates and times in all their readings;
`instructions.py` judges the five levels of a request. Agents, the tester, the audit of other
people's data and `verify` all run this same code, so that a row is judged alike wherever it comes
from.

May touch: nothing but its arguments; schemas.
Begin below, with the tuple of checks and `inspect`; then `transcript.py`, which they all read.
"""

from __future__ import annotations

from functools import partial

from toolloom.pipeline.checks import calls, form, replies
from toolloom.pipeline.checks.transcript import Check
from toolloom.pipeline.checks.world.interpreter import Machine
from toolloom.pipeline.checks.world.outcome import outcome
from toolloom.schemas import Dialogue, Finding

_ANYWHERE: tuple[Check[Dialogue], ...] = (
    calls.known_names,
    calls.searched_first,
    calls.plain_keywords,
    calls.fitting_arguments,
    calls.fitting_observations,
    form.natural_requests,
    form.helpful_replies,
)

# Cheap first. A group is run only if the ones before it found nothing: what has no readable form
# cannot be judged by its content.
CHECKS: tuple[tuple[Check[Dialogue], ...], ...] = (
    (form.plain_values, form.bearable_lengths),
    (form.message_order, form.answered_calls, form.readable_calls, form.spoken_calls),
    (
        *_ANYWHERE,
        calls.opening_request,
        calls.mentioned_values,
        calls.grounded_arguments,
        calls.asked_first,
        calls.intended_calls,
        calls.dependent_calls,
        calls.planned_faults,
        replies.founded_replies,
        replies.told_results,
        replies.consistent_replies,
        replies.admitted_limits,
    ),
)


# In a world what came of the calls says whether they were right, and the facts of its goal what has
# to be told: both are certain, where the rest of the last group compares words with what was drawn.
IN_WORLDS: tuple[tuple[Check[Dialogue], ...], ...] = (
    *CHECKS[:2],
    (*_ANYWHERE, replies.founded_replies),
)


def inspect(
    dialogue: Dialogue,
    checks: tuple[tuple[Check[Dialogue], ...], ...] | None = None,
    world: Machine | None = None,
) -> tuple[Finding, ...]:
    """Every fault the certain checks find, in the order of `checks`; none: all is well.

    Never raises, whatever a model wrote into the dialogue. `checks`: groups to run in place of
    all, for data that do not hold what some of them need. A dialogue in a world is judged by what
    came of it, by running its calls in `world` again.
    """
    if checks is None:
        checks = IN_WORLDS if dialogue.query.setting else CHECKS
        if world is not None:
            checks = (*checks, (partial(outcome, machine=world),))
    for group in checks:
        found = tuple(
            Finding(
                check=(check.func if isinstance(check, partial) else check).__name__,
                reason=reason,
                turn=turn,
                detail=detail,
            )
            for check in group
            for reason, turn, detail in check(dialogue)
        )
        if found:
            return found
    return ()
