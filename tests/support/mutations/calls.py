"""Mutations of what is asked and called: calls, their order, and what they return."""

from __future__ import annotations

import datetime as dt
import json
from collections.abc import Iterator
from itertools import pairwise
from typing import Any

from support.mutations import (
    Mutation,
    api_calls,
    block,
    given,
    made_call,
    response_of,
    schemas_of,
    with_argument,
    with_call,
    with_message,
    with_messages,
    with_observation,
    with_request,
    without,
)
from toolloom.schemas import Dialogue, Reason, Scenario

# -- Calls ----------------------------------------------------------------------------------------


def renamed_api(d: Dialogue) -> Iterator[Dialogue]:
    for _, call in api_calls(d)[:1]:
        yield with_call(d, call, name=f"{call.function.name}_v2")


def search_not_on_offer(d: Dialogue) -> Iterator[Dialogue]:
    if not d.query.ability.searches:
        yield with_messages(
            d, [*d.messages[:2], *made_call("api_search", {"keywords": "x"}, []), *d.messages[2:]]
        )


def dropped_required(d: Dialogue) -> Iterator[Dialogue]:
    for _, call in api_calls(d):
        rest = dict(list(call.function.arguments.items())[1:])
        yield with_call(d, call, arguments=rest)


def invented_parameter(d: Dialogue) -> Iterator[Dialogue]:
    for _, call in api_calls(d):
        yield with_argument(d, call, "priority_level", "high")


def wrong_type(d: Dialogue) -> Iterator[Dialogue]:
    for call, name, _ in given(d, str):
        yield with_argument(d, call, name, 4711)
    for call, name, value in given(d, int):
        yield with_argument(d, call, name, str(value))
    for call, name, value in given(d, list):
        yield with_argument(d, call, name, json.dumps(value))


def off_enum(d: Dialogue) -> Iterator[Dialogue]:
    for call, name, value in given(d, str):
        if "enum" in schemas_of(d, call)[name]:
            yield with_argument(d, call, name, f"{value}_plus")


def off_format(d: Dialogue) -> Iterator[Dialogue]:
    for call, name, _ in given(d, str):
        if "format" in schemas_of(d, call)[name]:
            yield with_argument(d, call, name, "whenever it suits")


def unsaid_string(d: Dialogue) -> Iterator[Dialogue]:
    for call, name, _ in given(d, str):
        if not {"enum", "format"} & schemas_of(d, call)[name].keys():
            yield with_argument(d, call, name, "Reykjavik Harbour")


def unsaid_number(d: Dialogue) -> Iterator[Dialogue]:
    for kind in (int, float):
        for call, name, value in given(d, kind):
            yield with_argument(d, call, name, value + 37)


def unsaid_date(d: Dialogue) -> Iterator[Dialogue]:
    for call, name, value in given(d, str):
        if schemas_of(d, call)[name].get("format") == "date":
            later = dt.date.fromisoformat(value) + dt.timedelta(days=51)
            yield with_argument(d, call, name, later.isoformat())


def unsaid_time(d: Dialogue) -> Iterator[Dialogue]:
    for call, name, value in given(d, str):
        if schemas_of(d, call)[name].get("format") == "time":
            yield with_argument(d, call, name, f"{(int(value[:2]) + 5) % 24:02}:41")
        if schemas_of(d, call)[name].get("format") == "date-time":
            yield with_argument(d, call, name, f"{value[:11]}04:41:00")


def unsaid_leaf(d: Dialogue) -> Iterator[Dialogue]:
    for call, name, value in given(d, list):
        yield with_argument(d, call, name, [*value[:-1], _spoilt(value[-1])])
    for call, name, value in given(d, dict):
        yield with_argument(d, call, name, {**value, "city": "Ulaanbaatar"})


def _spoilt(item: Any) -> Any:
    return {**item, "quantity": 17} if isinstance(item, dict) else "Ulaanbaatar"


def values_swapped(d: Dialogue) -> Iterator[Dialogue]:
    for _, call in api_calls(d):
        arguments = call.function.arguments
        names = [n for n, v in arguments.items() if schemas_of(d, call)[n] == {"type": "string"}]
        if len(names) > 1:
            a, b = names[:2]
            yield with_call(d, call, arguments={**arguments, a: arguments[b], b: arguments[a]})


def option_nobody_wanted(d: Dialogue) -> Iterator[Dialogue]:
    for _, call in api_calls(d):
        for name, schema in schemas_of(d, call).items():
            if name not in call.function.arguments and schema.get("type") == "boolean":
                yield with_argument(d, call, name, False)
            elif name not in call.function.arguments and "enum" in schema:
                yield with_argument(d, call, name, schema["enum"][0])


def option_left_out(d: Dialogue) -> Iterator[Dialogue]:
    for _, call in api_calls(d):
        api = next(a for a in d.query.pool if a.function == call.function.name)
        for name in call.function.arguments:
            if name not in api.required:
                rest = {k: v for k, v in call.function.arguments.items() if k != name}
                yield with_call(d, call, arguments=rest)


def repeated_call(d: Dialogue) -> Iterator[Dialogue]:
    for place in {p for p, _ in api_calls(d)[-1:]}:
        again = [
            m.model_copy(
                update={
                    "tool_calls": tuple(
                        c.model_copy(update={"id": c.id + "b"}) for c in m.tool_calls
                    ),
                    "tool_call_id": m.tool_call_id and m.tool_call_id + "b",
                }
            )
            for m in block(d, place)
        ]
        if not d.query.fault or d.query.fault.transient:
            end = place + len(again)
            yield with_messages(d, [*d.messages[:end], *again, *d.messages[end:]])


def dropped_calls(d: Dialogue) -> Iterator[Dialogue]:
    places = {q for p, _ in api_calls(d) for q in range(p, p + len(block(d, p)))}
    if places and not (d.query.fault and not d.query.fault.transient):
        bare = without(d, places)
        kept = list(bare.messages)
        if all(a.role != b.role for a, b in pairwise(kept)):
            yield bare


def dropped_one_of_several(d: Dialogue) -> Iterator[Dialogue]:
    places = sorted({p for p, _ in api_calls(d)})
    if len(places) > 1 and d.query.turns == 1 and not d.query.fault:
        yield without(d, set(range(places[-1], places[-1] + len(block(d, places[-1])))))
    for place in places:
        if len(calls := d.messages[place].tool_calls) > 1:
            message = d.messages[place].model_copy(update={"tool_calls": calls[:-1]})
            rest = [m for m in d.messages if m.tool_call_id != calls[-1].id]
            yield with_messages(d, [*rest[:place], message, *rest[place + 1 :]])


def undue_call(d: Dialogue) -> Iterator[Dialogue]:
    if d.query.scenario is Scenario.IRRELEVANCE and not d.query.ability.searches:
        call = made_call(
            "get_weather", {"city": "Lima"}, {"condition": "rain", "high": 1, "low": 0}
        )
        yield with_messages(d, [*d.messages[:-1], *call, d.messages[-1]])
    elif d.query.scenario is Scenario.IRRELEVANCE:
        api = d.query.pool[0]
        call = made_call(api.function, dict.fromkeys(api.required, "x"), {})
        yield with_messages(d, [*d.messages[:-1], *call, d.messages[-1]])


# -- Order and course of the dialogue ---------------------------------------------------------------


def search_skipped(d: Dialogue) -> Iterator[Dialogue]:
    found = [p for p, c in d.calls() if c.function.name == "api_search"]
    if found and api_calls(d):
        yield without(d, {q for p in found for q in (p, p + 1)})


def dependent_call_first(d: Dialogue) -> Iterator[Dialogue]:
    places = sorted({p for p, _ in api_calls(d)})
    if any(i.references for i in d.query.due) and len(places) > 1 and d.query.turns == 1:
        blocks = [block(d, p) for p in places[:2]]
        between = list(d.messages[places[0] + len(blocks[0]) : places[1]])
        rest = d.messages[places[1] + len(blocks[1]) :]
        yield with_messages(d, [*d.messages[: places[0]], *blocks[1], *between, *blocks[0], *rest])


def value_not_from_observation(d: Dialogue) -> Iterator[Dialogue]:
    for intention in d.query.due:
        for name in intention.references:
            for _, call in api_calls(d):
                old = call.function.arguments.get(name)
                if d.query.api(intention.api).function == call.function.name and old is not None:
                    new = f"{old}9" if isinstance(old, str) else old + 3
                    yield with_argument(d, call, name, new)


def call_too_early(d: Dialogue) -> Iterator[Dialogue]:
    users = [i for i, m in enumerate(d.messages) if m.role == "user"]
    late = [p for p, _ in api_calls(d) if len(users) > 1 and p > users[1]]
    if d.query.turns > 1 and late:
        moved = block(d, late[0])
        rest = [m for m in d.messages if m not in moved]
        at = next(i for i, m in enumerate(rest) if m.role == "assistant" and not m.tool_calls)
        yield with_messages(d, [*rest[:at], *moved, *rest[at:]])


def no_question(d: Dialogue) -> Iterator[Dialogue]:
    for place, message in enumerate(d.messages):
        if (
            d.query.withheld
            and message.role == "assistant"
            and message.content
            and not message.tool_calls
            and not api_calls(with_messages(d, list(d.messages[:place])))
        ):
            yield with_message(d, place, content="All right, one moment.")


def value_given_away(d: Dialogue) -> Iterator[Dialogue]:
    if d.query.withheld:
        answer = [m.content for m in d.messages if m.role == "user"][1]
        yield with_request(d, f"{d.query.text} {answer}")


def request_without_values(d: Dialogue) -> Iterator[Dialogue]:
    yield with_request(d, "Hello, I have a small request for today.")


def request_without_a_value(d: Dialogue) -> Iterator[Dialogue]:
    for _call, name, value in given(d, str):
        text = d.query.text
        if value in text and name not in d.query.withheld:
            said = " ".join(m.content or "" for m in d.messages if m.role == "user")
            if said.lower().count(value.lower()) == 1:
                yield with_request(d, text.replace(value, "it"))


# -- Observations ---------------------------------------------------------------------------------


def field_missing(d: Dialogue) -> Iterator[Dialogue]:
    for _, call in api_calls(d):
        if isinstance(response := response_of(d, call), dict):
            yield with_observation(d, call, response=dict(list(response.items())[1:]))


def field_of_wrong_type(d: Dialogue) -> Iterator[Dialogue]:
    for _, call in api_calls(d):
        if isinstance(response := response_of(d, call), dict):
            yield with_observation(d, call, response={k: {"x": v} for k, v in response.items()})


def unplanned_error(d: Dialogue) -> Iterator[Dialogue]:
    for _, call in api_calls(d):
        if not d.query.fault:
            yield with_observation(d, call, error="Internal error")


def not_tried_again(d: Dialogue) -> Iterator[Dialogue]:
    if d.query.fault and d.query.fault.transient:
        place = api_calls(d)[-1][0]
        yield without(d, set(range(place, place + len(block(d, place)))))


R = Reason
PLANTED: list[tuple[Mutation, set[Reason]]] = [
    (renamed_api, {R.API_HALLUCINATION}),
    (search_not_on_offer, {R.API_HALLUCINATION}),
    (dropped_required, {R.MISSING_INPUT_PARAMETERS}),
    (invented_parameter, {R.INVALID_INPUT_PARAMETERS}),
    (wrong_type, {R.INVALID_INPUT_PARAMETERS}),
    (off_enum, {R.INVALID_INPUT_PARAMETERS}),
    (off_format, {R.INVALID_INPUT_PARAMETERS}),
    (unsaid_string, {R.UNGROUNDED_ARGUMENT}),
    (unsaid_number, {R.UNGROUNDED_ARGUMENT}),
    (unsaid_date, {R.UNGROUNDED_ARGUMENT}),
    (unsaid_time, {R.UNGROUNDED_ARGUMENT}),
    (unsaid_leaf, {R.UNGROUNDED_ARGUMENT}),
    (values_swapped, {R.INTENT_MISMATCH}),
    (option_nobody_wanted, {R.INTENT_MISMATCH}),
    (option_left_out, {R.INTENT_MISMATCH}),
    (repeated_call, {R.UNNEEDED_API_CALL}),
    (dropped_calls, {R.NO_API_CALL}),
    (dropped_one_of_several, {R.INTENT_MISMATCH}),
    (undue_call, {R.UNNEEDED_API_CALL}),
    (search_skipped, {R.SEARCH_SKIPPED}),
    (dependent_call_first, {R.WRONG_ORDER}),
    (value_not_from_observation, {R.WRONG_ORDER}),
    (call_too_early, {R.INTENT_MISMATCH}),
    (no_question, {R.INTENT_MISMATCH}),
    (value_given_away, {R.VALUE_GIVEN_AWAY}),
    (request_without_values, {R.VALUE_NOT_MENTIONED}),
    (request_without_a_value, {R.VALUE_NOT_MENTIONED}),
    (field_missing, {R.OBSERVATION_OFF_SCHEMA}),
    (field_of_wrong_type, {R.OBSERVATION_OFF_SCHEMA}),
    (unplanned_error, {R.HAS_EXCEPTION}),
    (not_tried_again, {R.NO_API_CALL}),
]
