"""Each kind of defect, planted into every good dialogue that can have it, is found.

A mutation yields a spoilt dialogue where it applies and nothing elsewhere. `PLANTED` names the
reason under which each kind must be found.
"""

from __future__ import annotations

import datetime as dt
import json
import re
from collections.abc import Callable, Iterator
from itertools import pairwise
from typing import Any

import pytest

from toolloom.pipeline.checks import inspect
from toolloom.schemas import (
    Dialogue,
    FunctionCall,
    Message,
    Observation,
    Reason,
    Scenario,
    ToolCall,
)

Mutation = Callable[[Dialogue], Iterator[Dialogue]]


# -- Ways to change a dialogue ------------------------------------------------------------------


def with_messages(dialogue: Dialogue, messages: list[Message]) -> Dialogue:
    return dialogue.model_copy(update={"messages": tuple(messages)})


def with_message(dialogue: Dialogue, place: int, **changes: Any) -> Dialogue:
    messages = list(dialogue.messages)
    messages[place] = messages[place].model_copy(update=changes)
    return with_messages(dialogue, messages)


def with_answer(dialogue: Dialogue, text: str) -> Dialogue:
    return with_message(dialogue, len(dialogue.messages) - 1, content=text)


def with_request(dialogue: Dialogue, text: str) -> Dialogue:
    query = dialogue.query.model_copy(update={"text": text})
    return with_message(dialogue.model_copy(update={"query": query}), 1, content=text)


def api_calls(dialogue: Dialogue) -> list[tuple[int, ToolCall]]:
    """Calls other than API Search whose arguments are objects."""
    return [(i, c) for i, c in dialogue.calls() if c.function.name != "api_search"]


def with_call(dialogue: Dialogue, call: ToolCall, **changes: Any) -> Dialogue:
    """The call with a changed name or arguments, and its observation's name to match."""
    changed = call.model_copy(update={"function": call.function.model_copy(update=changes)})
    messages = []
    for message in dialogue.messages:
        calls = tuple(changed if c.id == call.id else c for c in message.tool_calls)
        update: dict[str, Any] = {"tool_calls": calls}
        if message.tool_call_id == call.id:
            update["name"] = changed.function.name
        messages.append(message.model_copy(update=update))
    return with_messages(dialogue, messages)


def with_argument(dialogue: Dialogue, call: ToolCall, name: str, value: Any) -> Dialogue:
    return with_call(dialogue, call, arguments={**call.function.arguments, name: value})


def with_observation(dialogue: Dialogue, call: ToolCall, **content: Any) -> Dialogue:
    place, _ = dialogue.results()[call.id]
    return with_message(dialogue, place, content=json.dumps({"response": None, **content}))


def response_of(dialogue: Dialogue, call: ToolCall) -> Any:
    return dialogue.results()[call.id][1].observation().response


def schemas_of(dialogue: Dialogue, call: ToolCall) -> dict[str, Any]:
    return next(a.properties for a in dialogue.query.pool if a.function == call.function.name)


def block(dialogue: Dialogue, place: int) -> list[Message]:
    """A message with calls and the observations that answer it."""
    return list(dialogue.messages[place : place + 1 + len(dialogue.messages[place].tool_calls)])


def without(dialogue: Dialogue, places: set[int]) -> Dialogue:
    return with_messages(dialogue, [m for i, m in enumerate(dialogue.messages) if i not in places])


def made_call(name: str, arguments: dict[str, Any], response: Any) -> list[Message]:
    call = ToolCall(id="call_extra", function=FunctionCall(name=name, arguments=arguments))
    content = Observation(response=response).model_dump_json()
    return [
        Message(role="assistant", tool_calls=(call,)),
        Message(role="tool", content=content, tool_call_id=call.id, name=name),
    ]


def given(dialogue: Dialogue, kind: type) -> Iterator[tuple[ToolCall, str, Any]]:
    """Arguments of a kind that the intent fixes."""
    for _, call in api_calls(dialogue):
        for name, value in call.function.arguments.items():
            fixed = any(name in i.arguments for i in dialogue.query.intent)
            if type(value) is kind and fixed:
                yield call, name, value


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


# -- Answers ----------------------------------------------------------------------------------------


def wrong_number(d: Dialogue) -> Iterator[Dialogue]:
    answer = d.messages[-1].content or ""
    for number in re.findall(r"(?<![\w.,:/-])\d+(?:\.\d+)?(?![\w.,:/-]*\d)(?!\w)", answer):
        yield with_answer(
            d, re.sub(rf"(?<![\w.,]){re.escape(number)}(?!\w)", f"{number}77", answer)
        )


def wrong_name(d: Dialogue) -> Iterator[Dialogue]:
    answer = d.messages[-1].content or ""
    for name in re.findall(r"(?<=[a-z] )[A-Z][a-zé]{3,}", answer):
        yield with_answer(d, answer.replace(name, "Zanzibar"))


def wrong_date(d: Dialogue) -> Iterator[Dialogue]:
    answer = d.messages[-1].content or ""
    pattern = r"(?:November|December|March) \d+|\d+(?:st|nd|rd|th) of (?:November|March)|tomorrow"
    if re.search(pattern, answer):
        yield with_answer(d, re.sub(pattern, "August 17", answer))


def wrong_time(d: Dialogue) -> Iterator[Dialogue]:
    answer = d.messages[-1].content or ""
    pattern = r"\b\d{1,2}:\d\d(?: ?[ap]m)?|\b\d{1,2} ?[apAP][mM]\b"
    if re.search(pattern, answer):
        yield with_answer(d, re.sub(pattern, "3:33 am", answer))


OTHER_WORDS = {
    "snow": "rain", "rain": "snow", "sunny": "cloudy", "confirmed": "cancelled",
    "shipped": "returned", "delivered": "returned", "pending": "confirmed",
}  # fmt: skip


def wrong_choice(d: Dialogue) -> Iterator[Dialogue]:
    answer = d.messages[-1].content or ""
    for _, call in api_calls(d)[-1:]:
        for value in (response_of(d, call) or {}).values():
            other = OTHER_WORDS.get(value) if isinstance(value, str) else None
            if other and value in answer and other not in d.query.text:
                yield with_answer(d, answer.replace(value, other))


FLIPPED = {
    r"not available": "available", r"are available": "are not available",
    r"is open": "is closed", r"is closed": "is open", r"not safe": "safe",
    r"is confirmed": "is not confirmed", r"has been set": "could not be set because it failed",
    r"are \d+ espresso machines available": "are no espresso machines available",
    r"No, it is closed": "Yes, it is open",
}  # fmt: skip


def wrong_polarity(d: Dialogue) -> Iterator[Dialogue]:
    answer = d.messages[-1].content or ""
    for words, opposite in FLIPPED.items():
        if re.search(words, answer):
            flipped = re.sub(words, opposite, answer)
            yield with_answer(d, re.sub(r"^(?:Unfortunately|No), ", "", flipped))


def answer_without_facts(d: Dialogue) -> Iterator[Dialogue]:
    told = response_of(d, api_calls(d)[-1][1]) if api_calls(d) else None
    values = list(told.values()) if isinstance(told, dict) else []
    flags = [v for v in values if isinstance(v, bool)]
    if not flags and any(isinstance(v, int | float | list) and v for v in values):
        yield with_answer(d, "I have taken care of that for you, enjoy.")


def answer_adds_a_fact(d: Dialogue) -> Iterator[Dialogue]:
    for fact in (
        "It was founded in 1987.",
        "See https://zanzibar.example/info for details.",
        "Ask for Gregory at the desk.",
        "Your code is ZX-90210.",
        "You can pay 43.20 more.",
    ):
        if d.query.language != "German" or re.search(r"\d", fact):  # German nouns are capitals
            yield with_answer(d, f"{d.messages[-1].content} {fact}")


def claims_success(d: Dialogue) -> Iterator[Dialogue]:
    lasting = d.query.fault and not d.query.fault.transient
    if lasting or d.query.scenario is Scenario.IRRELEVANCE:
        yield with_answer(d, "Everything has been done as you wished.")


def claims_nothing_found(d: Dialogue) -> Iterator[Dialogue]:
    flags = [c for _, c in api_calls(d) if response_of(d, c) == {"success": True}]
    if flags:
        yield with_answer(d, "I'm sorry, I was unable to do that for you.")


# -- Form -------------------------------------------------------------------------------------------


def arguments_as_text(d: Dialogue) -> Iterator[Dialogue]:
    for _, call in api_calls(d):
        yield with_call(d, call, arguments=json.dumps(call.function.arguments)[:-1])


def call_in_words(d: Dialogue) -> Iterator[Dialogue]:
    answer = d.messages[-1].content or ""
    for text in (
        "[BookHotel(name='Ritz')]",
        "API-Request: [BookHotel(name='Ritz')]",
        '<tool_call>{"name": "book_hotel", "arguments": {}}</tool_call>',
        '{"name": "book_hotel", "arguments": {"name": "Ritz"}}',
        "Action: book_hotel\nAction Input: {}",
    ):
        yield with_answer(d, text)
        yield with_answer(d, f"{answer} {text}")


def no_answer(d: Dialogue) -> Iterator[Dialogue]:
    yield with_messages(d, list(d.messages[:-1]))


def empty_answer(d: Dialogue) -> Iterator[Dialogue]:
    yield with_answer(d, " ")


def orphan_observation(d: Dialogue) -> Iterator[Dialogue]:
    stray = Message(role="tool", content='{"response": 1}', tool_call_id="call_none")
    yield with_messages(d, [*d.messages[:-1], stray, d.messages[-1]])


def unanswered_call(d: Dialogue) -> Iterator[Dialogue]:
    for place, message in enumerate(d.messages):
        if message.role == "tool":
            yield without(d, {place})


def duplicate_ids(d: Dialogue) -> Iterator[Dialogue]:
    found = list(d.calls())
    if len(found) > 1:
        first, second = found[0][1].id, found[1][1].id
        data = d.model_dump_json().replace(f'"{second}"', f'"{first}"')
        yield Dialogue.model_validate_json(data)


def bare_observation(d: Dialogue) -> Iterator[Dialogue]:
    for place, message in enumerate(d.messages):
        if message.role == "tool":
            yield with_message(d, place, content="It worked.")


def no_system(d: Dialogue) -> Iterator[Dialogue]:
    yield with_messages(d, list(d.messages[1:]))


def user_twice(d: Dialogue) -> Iterator[Dialogue]:
    yield with_messages(d, [*d.messages[:2], d.messages[1], *d.messages[2:]])


# -- Words of a weak model --------------------------------------------------------------------------


def remnant_in_answer(d: Dialogue) -> Iterator[Dialogue]:
    for remnant in ("{city}", "[Your Name]", "<name>", "[value]", "{{ total }}"):
        yield with_answer(d, f"{d.messages[-1].content} Best wishes, {remnant}")


def answer_loops(d: Dialogue) -> Iterator[Dialogue]:
    answer = d.messages[-1].content or ""
    last = re.split(r"(?<=[.!?])\s", answer)[-1]
    if len(last.split()) > 3:
        yield with_answer(d, " ".join([answer, *[last] * 3]))


def answer_only_asks(d: Dialogue) -> Iterator[Dialogue]:
    yield with_answer(d, "Would you like me to look into that for you?")


def answer_as_the_user(d: Dialogue) -> Iterator[Dialogue]:
    yield with_answer(d, f"I want to know something. {d.messages[-1].content}")


def answer_repeats_request(d: Dialogue) -> Iterator[Dialogue]:
    users = [m.content or "" for m in d.messages if m.role == "user"]
    if len(users[-1]) > 15:
        yield with_answer(d, users[-1])


def prompt_leaks_into_answer(d: Dialogue) -> Iterator[Dialogue]:
    yield with_answer(d, f"Answer: {d.messages[-1].content}")


def request_as_the_assistant(d: Dialogue) -> Iterator[Dialogue]:
    yield with_request(d, f"Sure, I can help you with that! {d.query.text}")


def prompt_leaks_into_request(d: Dialogue) -> Iterator[Dialogue]:
    yield with_request(d, f"Request: {d.query.text}")
    yield with_request(d, f"{d.query.text}\nValues: city, day")


def remnant_in_request(d: Dialogue) -> Iterator[Dialogue]:
    yield with_request(d, f"{d.query.text} My name is [Your Name].")


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
    (wrong_number, {R.UNGROUNDED_ANSWER}),
    (wrong_name, {R.UNGROUNDED_ANSWER}),
    (wrong_date, {R.UNGROUNDED_ANSWER}),
    (wrong_time, {R.UNGROUNDED_ANSWER}),
    (wrong_choice, {R.UNGROUNDED_ANSWER}),
    (wrong_polarity, {R.UNGROUNDED_ANSWER}),
    (answer_without_facts, {R.UNGROUNDED_ANSWER}),
    (answer_adds_a_fact, {R.UNGROUNDED_ANSWER}),
    (claims_success, {R.UNGROUNDED_ANSWER}),
    (claims_nothing_found, {R.UNGROUNDED_ANSWER}),
    (arguments_as_text, {R.FALSE_API_CALL_FORMAT}),
    (call_in_words, {R.FALSE_API_CALL_FORMAT}),
    (no_answer, {R.MALFORMED_DIALOGUE}),
    (empty_answer, {R.MALFORMED_DIALOGUE}),
    (orphan_observation, {R.MALFORMED_DIALOGUE}),
    (unanswered_call, {R.MALFORMED_DIALOGUE}),
    (duplicate_ids, {R.MALFORMED_DIALOGUE}),
    (bare_observation, {R.MALFORMED_DIALOGUE}),
    (no_system, {R.MALFORMED_DIALOGUE}),
    (user_twice, {R.MALFORMED_DIALOGUE}),
    (remnant_in_answer, {R.UNHELPFUL_ANSWER}),
    (answer_loops, {R.UNHELPFUL_ANSWER}),
    (answer_only_asks, {R.UNHELPFUL_ANSWER}),
    (answer_as_the_user, {R.UNHELPFUL_ANSWER}),
    (answer_repeats_request, {R.UNHELPFUL_ANSWER}),
    (prompt_leaks_into_answer, {R.UNHELPFUL_ANSWER}),
    (request_as_the_assistant, {R.UNNATURAL_QUERY}),
    (prompt_leaks_into_request, {R.UNNATURAL_QUERY}),
    (remnant_in_request, {R.UNNATURAL_QUERY}),
]


@pytest.mark.parametrize(("mutate", "expected"), PLANTED, ids=[m.__name__ for m, _ in PLANTED])
def test_a_planted_defect_is_found_wherever_it_applies(
    mutate: Mutation, expected: set[Reason], all_good: list[Dialogue]
) -> None:
    """Every planted defect is found under its reason, in at least three dialogues."""
    spoilt = [(good.id, bad) for good in all_good for bad in mutate(good)]
    judged = [(name, inspect(bad)) for name, bad in spoilt]
    assert [(n, found) for n, found in judged if not expected & {f.reason for f in found}] == []
    assert len({name for name, _ in spoilt}) >= 3
