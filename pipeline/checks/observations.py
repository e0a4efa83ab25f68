"""Observations: they fit the API's `returns`, and fail only where a fault was planned."""

from __future__ import annotations

from collections.abc import Iterator

from toolloom.pipeline.checks.evidence import says_no
from toolloom.pipeline.checks.pairing import fits
from toolloom.pipeline.checks.schema import UncheckableSchema, violations
from toolloom.pipeline.checks.transcript import CallMade, Fault, made, replies, shown
from toolloom.schemas import Dialogue, Intention, PlannedFault, Reason


def fitting_observations(dialogue: Dialogue) -> Iterator[Fault]:
    """A successful response fits the schema its API promises."""
    for call in made(dialogue):
        if call.api is None or call.api.returns is None or call.failed or _cut(dialogue, call):
            continue
        try:
            for fault in violations(call.api.returns, call.response):
                yield Fault(Reason.OBSERVATION_OFF_SCHEMA, call.back, f"{call.name}: {fault}")
        except UncheckableSchema as error:
            yield Fault(Reason.ILLEGAL_SCHEMA, None, f"returns of {call.api.id}: {error}")


def _cut(dialogue: Dialogue, call: CallMade) -> bool:
    """Of a response far over the token limit only the beginning of its text is left."""
    execution = dialogue.messages[call.back].execution if call.back is not None else None
    compressed = execution is not None and execution.whole_tokens is not None
    return compressed and isinstance(call.response, str)


def planned_faults(dialogue: Dialogue) -> Iterator[Fault]:
    """Only the planned call fails; a passing fault is overcome, a lasting one is admitted."""
    fault = dialogue.query.fault
    planned = _faulty(dialogue, fault)
    failed = [c for c in made(dialogue) if c.observation and c.observation.error is not None]
    for call in failed:
        if not (planned and fits(planned, call)):
            error = call.observation.error if call.observation else None
            detail = f"{call.name} failed where no fault was planned: {shown(error)}"
            yield Fault(Reason.HAS_EXCEPTION, call.back, detail)
    if fault and planned:
        hit = [c for c in failed if fits(planned, c)]
        yield from _overcome(dialogue, fault, planned, hit)


def _faulty(dialogue: Dialogue, fault: PlannedFault | None) -> Intention | None:
    due = dialogue.query.due
    return due[fault.call] if fault and fault.call < len(due) else None


def _overcome(
    dialogue: Dialogue, fault: PlannedFault, planned: Intention, hit: list[CallMade]
) -> Iterator[Fault]:
    worked = [c for c in made(dialogue) if fits(planned, c) and not c.failed]
    if not hit:
        detail = f"the planned fault of {planned.api} never showed"
        if fault.real and worked:
            detail = f"{planned.api} works with the value on which it was to fail"
        yield Fault(Reason.INTENT_MISMATCH, None, detail)
    elif fault.transient and not any(c.place > hit[0].place for c in worked):
        detail = f"{hit[0].name} failed for once and was not tried again with success"
        yield Fault(Reason.NO_API_CALL, hit[0].place, detail)
    elif not fault.transient and worked:
        detail = f"{worked[0].name} works although its fault is planned to last"
        yield Fault(Reason.INTENT_MISMATCH, worked[0].place, detail)
    elif not fault.transient:
        last = [(place, text) for place, text, _ in replies(dialogue) if place > hit[-1].place]
        if last and dialogue.query.language == "English" and not any(says_no(t) for _, t in last):
            detail = f"does not say that {hit[0].name} failed ({shown(fault.error)})"
            yield Fault(Reason.UNGROUNDED_ANSWER, last[0][0], detail)
