"""TRL's preference pairs: an accepted turn, and the same turn with one planted defect.

A defect counts only if the certain checks find it, under its own reason and in that turn.
"""

from __future__ import annotations

from random import Random

from toolloom.pipeline.checks import inspect
from toolloom.pipeline.formats.export.base import Arguments, Exported, NotRepresentable, tools
from toolloom.pipeline.formats.export.chat import chat
from toolloom.pipeline.formats.export.defects import Defect, Turn, drawn
from toolloom.schemas import Dialogue, Message, Sample
from toolloom.schemas.base import seed_for


def trl_dpo(sample: Sample, form: Arguments) -> Exported:
    """A pair for each turn that calls."""
    messages = sample.dialogue.messages
    rows = []
    calling = [place for place, message in enumerate(messages) if message.tool_calls]
    for place in calling:
        found = _spoilt(Turn(sample, place))
        if found is None:
            continue
        defect, spoilt = found
        row = {
            "prompt": chat(messages[:place], form),
            "chosen": chat([messages[place]], form),
            "rejected": chat([spoilt], form),
            "tools": tools(sample),
            "defect": defect.name,
            "reason": defect.reason.value,
        }
        rows.append(("pairs", row))
    if not rows:
        why = "no planted defect is found by the checks" if calling else "nothing is called"
        raise NotRepresentable(why)
    lost = ["what follows the turn that is compared"]
    if len(rows) < len(calling):
        lost.append("turns in which no planted defect is found by the checks")
    return Exported(tuple(rows), tuple(lost))


def _spoilt(turn: Turn) -> tuple[Defect, Message] | None:
    """The first defect, in a drawn order, that the checks find."""
    chance = Random(seed_for("pairs", turn.sample.id, turn.place))
    for defect in drawn(chance):
        message = defect.spoil(turn, chance)
        if message and message != turn.message and _is_found(turn, defect, message):
            return defect, message
    return None


def _is_found(turn: Turn, defect: Defect, message: Message) -> bool:
    """Whether the checks name this defect in a dialogue that has it."""
    findings = inspect(_dialogue(turn, message))
    return any(f.reason is defect.reason and (f.turn in (None, turn.place)) for f in findings)


def _dialogue(turn: Turn, message: Message) -> Dialogue:
    """The accepted dialogue with this turn in place of its own: all else is free of faults.

    Results answer the calls they answered; if nothing is called, what led from them goes too.
    """
    dialogue = turn.sample.dialogue
    before, after = dialogue.messages[: turn.place], dialogue.messages[turn.place + 1 :]
    if not message.tool_calls:
        users = [place for place, m in enumerate(after) if m.role == "user"]
        after = after[users[0] :] if users else ()
    names = {call.id: call.function.name for call in message.tool_calls}
    renamed = tuple(
        m.model_copy(update={"name": names[m.tool_call_id]}) if m.tool_call_id in names else m
        for m in after
    )
    return dialogue.model_copy(update={"messages": (*before, message, *renamed)})
