"""TRL's preference pairs: an accepted turn, and the same turn with one planted defect.

Defects are those of a calling turn after API-Bank's error types; each changes one thing in one
turn. It counts only if the certain checks find it, under its own reason and in that turn.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from functools import partial
from random import Random
from typing import Any, NamedTuple, TypeAlias

from toolloom.pipeline.checks import inspect
from toolloom.pipeline.checks.schema import is_number
from toolloom.pipeline.checks.transcript import known_functions
from toolloom.pipeline.formats.base import Arguments, Exported, NotRepresentable, tools
from toolloom.pipeline.formats.chat import chat
from toolloom.schemas import (
    API_SEARCH,
    Api,
    Dialogue,
    JsonObject,
    Message,
    Reason,
    Sample,
    ToolCall,
)
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
    for defect in chance.sample(DEFECTS, len(DEFECTS)):
        message = defect.spoil(turn, chance)
        if message and message != turn.message:
            findings = inspect(_dialogue(turn, message))
            if any(f.reason is defect.reason and f.turn in (None, turn.place) for f in findings):
                return defect, message
    return None


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


class Turn(NamedTuple):
    """A calling turn of a sample, to be spoilt."""

    sample: Sample
    place: int  # its index

    @property
    def message(self) -> Message:
        return self.sample.dialogue.messages[self.place]

    @property
    def known(self) -> list[str]:
        """Functions that could be called in this turn."""
        messages = self.sample.dialogue.messages[: self.place]
        return known_functions(self.sample.dialogue.query, messages)

    def api(self, function: str) -> Api | None:
        apis = (*self.sample.dialogue.query.pool, API_SEARCH)
        return next((api for api in apis if api.function == function), None)

    def schemas(self, function: str) -> dict[str, JsonObject]:
        """Schema of each argument; of one whose schema is just `true`, an empty one."""
        found = api.properties if (api := self.api(function)) else {}
        return {name: schema if isinstance(schema, dict) else {} for name, schema in found.items()}


Spoil: TypeAlias = Callable[[Turn, Random], Message | None]
"""Gives the spoilt turn, or nothing where the defect does not apply."""
Spoilt: TypeAlias = tuple[str, JsonObject] | None
Change: TypeAlias = Callable[[Turn, str, JsonObject, Random], Spoilt]


class Defect(NamedTuple):
    """A kind of defect."""

    name: str
    reason: Reason
    spoil: Spoil


def _with_call(turn: Turn, place: int, name: str, values: JsonObject) -> Message:
    calls = list(turn.message.tool_calls)
    function = calls[place].function.model_copy(update={"name": name, "arguments": values})
    calls[place] = calls[place].model_copy(update={"function": function})
    return turn.message.model_copy(update={"tool_calls": tuple(calls)})


def _values(call: ToolCall) -> JsonObject:
    """The arguments, to be changed; text that was never read has none."""
    found = call.function.arguments
    return json.loads(json.dumps(found)) if isinstance(found, dict) else {}


def no_call(turn: Turn, chance: Random) -> Message | None:
    """The dialogue's last answer, before anything was called: facts out of nowhere."""
    last = turn.sample.dialogue.messages[-1]
    words = last.content if last.role == "assistant" else None
    return Message(role="assistant", content=words) if words else None


def search_skipped(turn: Turn, chance: Random) -> Message | None:
    """The call that the search was to find, before it is found."""
    if [c.function.name for c in turn.message.tool_calls] != [API_SEARCH.function]:
        return None
    for message in turn.sample.dialogue.messages[turn.place + 1 :]:
        wanted = [c for c in message.tool_calls if c.function.name not in turn.known]
        if wanted:
            return _with_call(turn, 0, wanted[0].function.name, _values(wanted[0]))
    return None


# One call of the turn, drawn: its function and arguments in, others out.


def unknown_function(turn: Turn, name: str, values: JsonObject, chance: Random) -> Spoilt:
    """A name like the right one that nobody offers."""
    words = name.split("_")
    made = ["_".join(reversed(words)), f"{name}_info", f"get_{name}", name.replace("_", "")]
    taken = {api.function for api in turn.sample.dialogue.query.pool} | {API_SEARCH.function}
    free = [one[:64] for one in made if one[:64] not in taken]
    return (chance.choice(free), values) if free else None


def other_function(turn: Turn, name: str, values: JsonObject, chance: Random) -> Spoilt:
    """Another function that is on offer, with the arguments that it too has."""
    taken = {one.function.name for one in turn.message.tool_calls} | {API_SEARCH.function}
    others = [other for other in turn.known if other not in taken]
    if not others:
        return None
    other = chance.choice(others)
    shared = turn.schemas(other)
    return other, {key: value for key, value in values.items() if key in shared}


def missing_argument(turn: Turn, name: str, values: JsonObject, chance: Random) -> Spoilt:
    api = turn.api(name)
    present = [key for key in (api.required if api else ()) if key in values]
    if not present:
        return None
    del values[chance.choice(present)]
    return name, values


def unknown_argument(turn: Turn, name: str, values: JsonObject, chance: Random) -> Spoilt:
    """An argument under a name that the function does not have."""
    if turn.api(name) is None or not values:
        return None
    known = chance.choice(sorted(values))
    fresh = f"{known}_value"
    if fresh in turn.schemas(name):
        return None
    return name, {fresh if key == known else key: value for key, value in values.items()}


def wrong_type(turn: Turn, name: str, values: JsonObject, chance: Random) -> Spoilt:
    """Numbers as text, anything else in a list, lists without it: what models get wrong."""
    if not values:
        return None
    key = chance.choice(sorted(values))
    value = values[key]
    if isinstance(value, list) and value:
        values[key] = value[0]
    else:
        values[key] = str(value) if is_number(value) else [value]
    return name, values


def outside_enum(turn: Turn, name: str, values: JsonObject, chance: Random) -> Spoilt:
    schemas = turn.schemas(name).items()
    listed = [k for k, schema in schemas if k in values and isinstance(schema.get("enum"), list)]
    if not listed:
        return None
    key = chance.choice(listed)
    values[key] = f"other {values[key]}" if isinstance(values[key], str) else "other"
    return name, values


def unsaid_value(turn: Turn, name: str, values: JsonObject, chance: Random) -> Spoilt:
    """A value of the right type that nobody said."""
    schemas = turn.schemas(name).items()
    given = [k for k, schema in schemas if k in values and not {"enum", "const"} & schema.keys()]
    free = [key for key in given if _unsaid(values[key], chance) is not None]
    if not free:
        return None
    key = chance.choice(free)
    return name, {**values, key: _unsaid(values[key], chance)}


def _unsaid(value: Any, chance: Random) -> Any:
    """Another value of the same kind; None where there is none to be made."""
    if isinstance(value, bool):
        return None
    if isinstance(value, int):
        return value + chance.randrange(17, 97)
    if isinstance(value, float):
        return round(value + chance.randrange(17, 97), 2)
    if isinstance(value, str) and value.strip():
        digits = [c if not c.isdigit() else str((int(c) + 3) % 10) for c in value]
        return "".join(digits) if any(c.isdigit() for c in value) else f"{value} Ostrava"
    return None


def in_call(change: Change, turn: Turn, chance: Random) -> Message | None:
    """The turn with such a change of one of its calls."""
    place = chance.randrange(len(turn.message.tool_calls))
    call = turn.message.tool_calls[place]
    changed = change(turn, call.function.name, _values(call), chance)
    return _with_call(turn, place, *changed) if changed else None


DEFECTS = (
    Defect("no_call", Reason.NO_API_CALL, no_call),
    Defect("unknown_function", Reason.API_HALLUCINATION, partial(in_call, unknown_function)),
    Defect("other_function", Reason.UNNEEDED_API_CALL, partial(in_call, other_function)),
    Defect("missing_argument", Reason.MISSING_INPUT_PARAMETERS, partial(in_call, missing_argument)),
    Defect("unknown_argument", Reason.INVALID_INPUT_PARAMETERS, partial(in_call, unknown_argument)),
    Defect("wrong_type", Reason.INVALID_INPUT_PARAMETERS, partial(in_call, wrong_type)),
    Defect("outside_enum", Reason.INVALID_INPUT_PARAMETERS, partial(in_call, outside_enum)),
    Defect("unsaid_value", Reason.UNGROUNDED_ARGUMENT, partial(in_call, unsaid_value)),
    Defect("search_skipped", Reason.SEARCH_SKIPPED, search_skipped),
)
