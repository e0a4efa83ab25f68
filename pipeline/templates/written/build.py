"""A whole sample of a need and what is said and observed in it: the form the simulator plays.

Of the values any may be slots: what is built of them is the skeleton of a template.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from toolloom.agents.simulator import system_turn
from toolloom.pipeline.sampling.chance import rng_for
from toolloom.pipeline.templates.written.responses import respond, tell
from toolloom.schemas import (
    Ability,
    Api,
    Dialogue,
    Execution,
    FunctionCall,
    Intention,
    JsonObject,
    Level,
    Message,
    Need,
    Observation,
    Provenance,
    Query,
    Sample,
    Scenario,
    ToolCall,
    Verdict,
)

__all__ = ["build", "level_of", "play", "respond", "scenario_of", "tell"]

MOST_AT_ONCE = 8  # calls of one act, as the simulator is held to


def build(
    need: Need,
    text: str,
    responses: Sequence[Any],
    answer: str,
    provenance: tuple[Provenance, ...] = (),
) -> JsonObject:
    """The Sample, as JSON, of a need whose calls are all answered: one response for each.

    Calls that refer to nothing that is still to come are made at once, as in a parallel dialogue.
    Raises ValueError for a need that searches, or that has more than one turn.
    """
    if need.ability is not Ability.CALL or need.turns > 1 or need.withheld or need.fault:
        raise ValueError(f"{need.id}: only calls of one turn can be built")
    query = Query(
        **{name: getattr(need, name) for name in Need.model_fields},
        text=text,
        provenance=provenance,
    )
    messages = (
        system_turn(query),
        Message(role="user", content=text),
        *_played(need, responses),
        Message(role="assistant", content=answer),
    )
    sample = Sample(dialogue=Dialogue(query=query, messages=messages), verdict=Verdict())
    return sample.model_dump(mode="json")


def play(need: Need, text: str, seed: int, provenance: tuple[Provenance, ...] = ()) -> JsonObject:
    """The sample of a need whose responses are drawn and told plainly.

    Raises NoValue where nothing says what a response looks like.
    """
    responses: list[Any] = []
    for index, intention in enumerate(need.intent):
        api, rng = need.api(intention.api), rng_for(seed, "response", index)
        given = _arguments(intention, responses)
        responses.append(respond(api, given, rng, need.now, need.language))
    return build(need, text, responses, tell(need, responses), provenance)


def scenario_of(intent: Sequence[Intention]) -> Scenario:
    """What a dialogue of these calls exercises."""
    if any(i.references for i in intent):
        return Scenario.SEQUENTIAL
    return Scenario.PARALLEL if len(intent) > 1 else Scenario.SINGLE


def level_of(apis: Sequence[Api]) -> Level:
    """Where they come from, as far as they tell."""
    if len({(a.category, a.tool) for a in apis}) == 1:
        return Level.SINGLE_TOOL
    same = len({a.category for a in apis}) == 1
    return Level.CATEGORY if same else Level.COLLECTION


def _played(need: Need, responses: Sequence[Any]) -> Iterator[Message]:
    """The calls and their observations, act by act."""
    for act in _acts(need.intent):
        yield Message(role="assistant", tool_calls=tuple(_call(need, i, responses) for i in act))
        for index in act:
            yield Message(
                role="tool",
                tool_call_id=f"call_{index}",
                name=need.api(need.intent[index].api).function,
                content=Observation(response=responses[index]).model_dump_json(),
                execution=Execution(kind="simulated"),
            )


def _acts(intent: Sequence[Intention]) -> Iterator[list[int]]:
    """Calls that are made at once: until one needs what its own act would only find out."""
    act: list[int] = []
    for index, intention in enumerate(intent):
        needs = {r.call for r in intention.references.values()}
        if needs & set(act) or len(act) == MOST_AT_ONCE:
            yield act
            act = []
        act.append(index)
    yield act


def _call(need: Need, index: int, responses: Sequence[Any]) -> ToolCall:
    intention = need.intent[index]
    called = FunctionCall(
        name=need.api(intention.api).function, arguments=_arguments(intention, responses)
    )
    return ToolCall(id=f"call_{index}", function=called)


def _arguments(intention: Intention, responses: Sequence[Any]) -> JsonObject:
    """What the user knows, and what earlier responses give. Raises ValueError."""
    found: JsonObject = {}
    for name, reference in intention.references.items():
        earlier = responses[reference.call]
        earlier = earlier[0] if isinstance(earlier, list) and earlier else earlier
        if not isinstance(earlier, dict) or reference.field not in earlier:
            raise ValueError(f"no response of call {reference.call} has a {reference.field}")
        found[name] = earlier[reference.field]
    return {**intention.arguments, **found}
