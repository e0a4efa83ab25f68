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

from toolloom.pipeline.checks.calls import (
    asked_first,
    dependent_calls,
    fitting_arguments,
    fitting_observations,
    grounded_arguments,
    intended_calls,
    known_names,
    mentioned_values,
    opening_request,
    plain_keywords,
    planned_faults,
    searched_first,
)
from toolloom.pipeline.checks.contradictions import kept_values
from toolloom.pipeline.checks.form import (
    answered_calls,
    bearable_lengths,
    helpful_replies,
    leaked_calls,
    message_order,
    natural_requests,
    plain_values,
    readable_calls,
    spoken_calls,
    turn_order,
)
from toolloom.pipeline.checks.replies import (
    admitted_limits,
    consistent_replies,
    founded_replies,
    told_results,
)
from toolloom.pipeline.checks.transcript import Check
from toolloom.pipeline.checks.world.interpreter import Machine
from toolloom.pipeline.checks.world.outcome import outcome
from toolloom.schemas import Dialogue, Finding

__all__ = [
    "CHECKS",
    "Check",
    "answered_calls",
    "fitting_arguments",
    "fitting_observations",
    "grounded_arguments",
    "inspect",
    "kept_values",
    "known_names",
    "leaked_calls",
    "plain_values",
    "readable_calls",
    "searched_first",
    "turn_order",
]

_ANYWHERE: tuple[Check[Dialogue], ...] = (
    known_names,
    searched_first,
    plain_keywords,
    fitting_arguments,
    fitting_observations,
    natural_requests,
    helpful_replies,
)

# Cheap first. A group is run only if the ones before it found nothing: what has no readable form
# cannot be judged by its content.
CHECKS: tuple[tuple[Check[Dialogue], ...], ...] = (
    (plain_values, bearable_lengths),
    (message_order, answered_calls, readable_calls, spoken_calls),
    (
        *_ANYWHERE,
        opening_request,
        mentioned_values,
        grounded_arguments,
        asked_first,
        intended_calls,
        dependent_calls,
        planned_faults,
        founded_replies,
        told_results,
        consistent_replies,
        admitted_limits,
    ),
)


# In a world what came of the calls says whether they were right, and the facts of its goal what has
# to be told: both are certain, where the rest of the last group compares words with what was drawn.
IN_WORLDS: tuple[tuple[Check[Dialogue], ...], ...] = (
    *CHECKS[:2],
    (*_ANYWHERE, founded_replies),
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
