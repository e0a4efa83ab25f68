"""Ways to spoil a dialogue, each with the reason under which the checks have to find it.

`PLANTED` holds them all. Most spoil one thing, and stand in tables by what that is: a value of a
call, a call, an observation, the messages, the answer, the request; the others (`planted`) take the
dialogue as a whole.
"""

from __future__ import annotations

import datetime as dt
import json
import re
from collections.abc import Callable, Iterable, Iterator
from itertools import pairwise
from typing import Any

from support.conversations import called
from toolloom.schemas import Dialogue, Message, Reason, Scenario, ToolCall

Mutation = Callable[[Dialogue], Iterator[Dialogue]]
R = Reason
PLANTED: list[tuple[Mutation, Reason]] = []


def planted(reason: Reason) -> Callable[[Mutation], Mutation]:
    def add(mutate: Mutation) -> Mutation:
        PLANTED.append((mutate, reason))
        return mutate

    return add


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


def given(dialogue: Dialogue, kind: type) -> Iterator[tuple[ToolCall, str, Any]]:
    """Arguments of a kind that the intent fixes."""
    for _, call in api_calls(dialogue):
        for name, value in call.function.arguments.items():
            fixed = any(name in i.arguments for i in dialogue.query.intent)
            if type(value) is kind and fixed:
                yield call, name, value


def each(
    reason: Reason, over: Callable[[Dialogue], Iterable[Any]], **mutations: Callable[..., Any]
) -> None:
    """Mutations by name: of a dialogue and each thing in it another dialogue, or None."""

    def plant(name: str, spoil: Callable[..., Any]) -> None:
        def mutate(d: Dialogue) -> Iterator[Dialogue]:
            yield from filter(None, (spoil(d, thing) for thing in over(d)))

        mutate.__name__ = name
        PLANTED.append((mutate, reason))

    for name, spoil in mutations.items():
        plant(name, spoil)


# --- values of calls -------------------------------------------------------------------------


def argument(reason: Reason, *kinds: type, **others: Callable[[Any, dict[str, Any]], Any]) -> None:
    """Mutations of each given argument of these kinds, from functions of its value and schema that
    give another value, or None."""

    def plant(name: str, other: Callable[[Any, dict[str, Any]], Any]) -> None:
        def spoil(d: Dialogue, found: tuple[ToolCall, str, Any]) -> Dialogue | None:
            call, parameter, value = found
            changed = other(value, schemas_of(d, call)[parameter])
            return None if changed is None else with_argument(d, call, parameter, changed)

        each(reason, lambda d: (one for kind in kinds for one in given(d, kind)), **{name: spoil})

    for name, other in others.items():
        plant(name, other)


def other_time(value: str, schema: dict[str, Any]) -> str | None:
    if schema.get("format") == "time":
        return f"{(int(value[:2]) + 5) % 24:02}:41"
    return f"{value[:11]}04:41:00" if schema.get("format") == "date-time" else None


def other_day(value: str, schema: dict[str, Any]) -> str | None:
    if schema.get("format") != "date":
        return None
    return (dt.date.fromisoformat(value) + dt.timedelta(days=51)).isoformat()


def other_leaf(value: Any, _: Any) -> Any:
    if isinstance(value, dict):
        return {**value, "city": "Ulaanbaatar"}
    last = value[-1]
    return [*value[:-1], {**last, "quantity": 17} if isinstance(last, dict) else "Ulaanbaatar"]


argument(
    R.INVALID_INPUT_PARAMETERS,
    *(str, int, list),
    wrong_type=lambda value, _: 4711 if isinstance(value, str) else json.dumps(value),
)
argument(
    R.INVALID_INPUT_PARAMETERS,
    str,
    off_enum=lambda value, schema: f"{value}_plus" if "enum" in schema else None,
    off_format=lambda _, schema: "whenever it suits" if "format" in schema else None,
)
argument(R.UNGROUNDED_ARGUMENT, int, float, unsaid_number=lambda value, _: value + 37)
argument(R.UNGROUNDED_ARGUMENT, list, dict, unsaid_leaf=other_leaf)
argument(
    R.UNGROUNDED_ARGUMENT,
    str,
    unsaid_string=lambda _, s: None if {"enum", "format"} & s.keys() else "Reykjavik Harbour",
    unsaid_date=other_day,
    unsaid_time=other_time,
)


# --- calls and observations ------------------------------------------------------------------


def made(d: Dialogue) -> list[ToolCall]:
    return [call for _, call in api_calls(d)]


def respond(d: Dialogue, call: ToolCall, change: Callable[[Any], Any]) -> Dialogue | None:
    """The response with other fields, where it is an object."""
    response = response_of(d, call)
    return with_observation(d, call, response=change(response)) if type(response) is dict else None


def but_the_first(fields: dict[str, Any]) -> dict[str, Any]:
    return dict(list(fields.items())[1:])


each(
    R.API_HALLUCINATION,
    lambda d: made(d)[:1],
    renamed_api=lambda d, call: with_call(d, call, name=f"{call.function.name}_v2"),
)
each(
    R.MISSING_INPUT_PARAMETERS,
    made,
    dropped_required=lambda d, call: with_call(
        d, call, arguments=but_the_first(call.function.arguments)
    ),
)
each(
    R.INVALID_INPUT_PARAMETERS,
    made,
    invented_parameter=lambda d, call: with_argument(d, call, "priority_level", "high"),
)
each(
    R.FALSE_API_CALL_FORMAT,
    made,
    arguments_as_text=lambda d, call: with_call(
        d, call, arguments=json.dumps(call.function.arguments)[:-1]
    ),
)
each(
    R.OBSERVATION_OFF_SCHEMA,
    made,
    field_missing=lambda d, call: respond(d, call, but_the_first),
    field_of_wrong_type=lambda d, call: respond(
        d, call, lambda fields: {k: {"x": v} for k, v in fields.items()}
    ),
)
each(
    R.HAS_EXCEPTION,
    lambda d: [] if d.query.fault else made(d),
    unplanned_error=lambda d, call: with_observation(d, call, error="Internal error"),
)


@planted(R.API_HALLUCINATION)
def search_not_on_offer(d: Dialogue) -> Iterator[Dialogue]:
    if not d.query.ability.searches:
        search = called(("api_search", {"keywords": "x"}, []), first=99)
        yield with_messages(d, [*d.messages[:2], *search, *d.messages[2:]])


@planted(R.INTENT_MISMATCH)
def values_swapped(d: Dialogue) -> Iterator[Dialogue]:
    for _, call in api_calls(d):
        arguments = call.function.arguments
        names = [n for n, v in arguments.items() if schemas_of(d, call)[n] == {"type": "string"}]
        if len(names) > 1:
            a, b = names[:2]
            yield with_call(d, call, arguments={**arguments, a: arguments[b], b: arguments[a]})


@planted(R.INTENT_MISMATCH)
def option_nobody_wanted(d: Dialogue) -> Iterator[Dialogue]:
    for _, call in api_calls(d):
        for name, schema in schemas_of(d, call).items():
            if name not in call.function.arguments and schema.get("type") == "boolean":
                yield with_argument(d, call, name, False)
            elif name not in call.function.arguments and "enum" in schema:
                yield with_argument(d, call, name, schema["enum"][0])


@planted(R.INTENT_MISMATCH)
def option_left_out(d: Dialogue) -> Iterator[Dialogue]:
    for _, call in api_calls(d):
        api = next(a for a in d.query.pool if a.function == call.function.name)
        for name in call.function.arguments:
            if name not in api.required:
                rest = {k: v for k, v in call.function.arguments.items() if k != name}
                yield with_call(d, call, arguments=rest)


@planted(R.UNNEEDED_API_CALL)
def repeated_call(d: Dialogue) -> Iterator[Dialogue]:
    for place in {p for p, _ in api_calls(d)[-1:]}:
        again = []
        for message in block(d, place):
            ids = tuple(c.model_copy(update={"id": f"{c.id}b"}) for c in message.tool_calls)
            back = message.tool_call_id and f"{message.tool_call_id}b"
            again.append(message.model_copy(update={"tool_calls": ids, "tool_call_id": back}))
        if not d.query.fault or d.query.fault.transient:
            end = place + len(again)
            yield with_messages(d, [*d.messages[:end], *again, *d.messages[end:]])


@planted(R.NO_API_CALL)
def dropped_calls(d: Dialogue) -> Iterator[Dialogue]:
    places = {q for p, _ in api_calls(d) for q in range(p, p + len(block(d, p)))}
    if places and not (d.query.fault and not d.query.fault.transient):
        bare = without(d, places)
        if all(a.role != b.role for a, b in pairwise(bare.messages)):
            yield bare


@planted(R.INTENT_MISMATCH)
def dropped_one_of_several(d: Dialogue) -> Iterator[Dialogue]:
    places = sorted({p for p, _ in api_calls(d)})
    if len(places) > 1 and d.query.turns == 1 and not d.query.fault:
        yield without(d, set(range(places[-1], places[-1] + len(block(d, places[-1])))))
    for place in places:
        if len(calls := d.messages[place].tool_calls) > 1:
            message = d.messages[place].model_copy(update={"tool_calls": calls[:-1]})
            rest = [m for m in d.messages if m.tool_call_id != calls[-1].id]
            yield with_messages(d, [*rest[:place], message, *rest[place + 1 :]])


@planted(R.UNNEEDED_API_CALL)
def undue_call(d: Dialogue) -> Iterator[Dialogue]:
    if d.query.scenario is Scenario.IRRELEVANCE:
        weather = {"condition": "rain", "high": 1, "low": 0}
        made: tuple[str, dict[str, Any], Any] = ("get_weather", {"city": "Lima"}, weather)
        if d.query.ability.searches:
            api = d.query.pool[0]
            made = (api.function, dict.fromkeys(api.required, "x"), {})
        yield with_messages(d, [*d.messages[:-1], *called(made, first=99), d.messages[-1]])


# --- order and course of the dialogue --------------------------------------------------------


@planted(R.SEARCH_SKIPPED)
def search_skipped(d: Dialogue) -> Iterator[Dialogue]:
    found = [p for p, c in d.calls() if c.function.name == "api_search"]
    if found and api_calls(d):
        yield without(d, {q for p in found for q in (p, p + 1)})


@planted(R.WRONG_ORDER)
def dependent_call_first(d: Dialogue) -> Iterator[Dialogue]:
    places = sorted({p for p, _ in api_calls(d)})
    if any(i.references for i in d.query.due) and len(places) > 1 and d.query.turns == 1:
        blocks = [block(d, p) for p in places[:2]]
        between = list(d.messages[places[0] + len(blocks[0]) : places[1]])
        rest = d.messages[places[1] + len(blocks[1]) :]
        yield with_messages(d, [*d.messages[: places[0]], *blocks[1], *between, *blocks[0], *rest])


@planted(R.WRONG_ORDER)
def value_not_from_observation(d: Dialogue) -> Iterator[Dialogue]:
    for intention in d.query.due:
        for name in intention.references:
            for _, call in api_calls(d):
                old = call.function.arguments.get(name)
                if d.query.api(intention.api).function == call.function.name and old is not None:
                    new = f"{old}9" if isinstance(old, str) else old + 3
                    yield with_argument(d, call, name, new)


@planted(R.INTENT_MISMATCH)
def call_too_early(d: Dialogue) -> Iterator[Dialogue]:
    users = [i for i, m in enumerate(d.messages) if m.role == "user"]
    late = [p for p, _ in api_calls(d) if len(users) > 1 and p > users[1]]
    if d.query.turns > 1 and late:
        moved = block(d, late[0])
        rest = [m for m in d.messages if m not in moved]
        at = next(i for i, m in enumerate(rest) if m.role == "assistant" and not m.tool_calls)
        yield with_messages(d, [*rest[:at], *moved, *rest[at:]])


@planted(R.INTENT_MISMATCH)
def no_question(d: Dialogue) -> Iterator[Dialogue]:
    for place, message in enumerate(d.messages):
        asks = message.role == "assistant" and message.content and not message.tool_calls
        before = with_messages(d, list(d.messages[:place]))
        if d.query.withheld and asks and not api_calls(before):
            yield with_message(d, place, content="All right, one moment.")


@planted(R.NO_API_CALL)
def not_tried_again(d: Dialogue) -> Iterator[Dialogue]:
    if d.query.fault and d.query.fault.transient:
        place = api_calls(d)[-1][0]
        yield without(d, set(range(place, place + len(block(d, place)))))


# --- form ------------------------------------------------------------------------------------

STRAY = Message(role="tool", content='{"response": 1}', tool_call_id="call_none")
each(
    R.MALFORMED_DIALOGUE,
    lambda d: [list(d.messages)],
    no_answer=lambda d, all_: with_messages(d, all_[:-1]),
    orphan_observation=lambda d, all_: with_messages(d, [*all_[:-1], STRAY, all_[-1]]),
    no_system=lambda d, all_: with_messages(d, all_[1:]),
    user_twice=lambda d, all_: with_messages(d, [*all_[:2], all_[1], *all_[2:]]),
)
each(
    R.MALFORMED_DIALOGUE,
    lambda d: [place for place, message in enumerate(d.messages) if message.role == "tool"],
    unanswered_call=lambda d, place: without(d, {place}),
    bare_observation=lambda d, place: with_message(d, place, content="It worked."),
)


@planted(R.MALFORMED_DIALOGUE)
def duplicate_ids(d: Dialogue) -> Iterator[Dialogue]:
    found = list(d.calls())
    if len(found) > 1:
        first, second = found[0][1].id, found[1][1].id
        data = d.model_dump_json().replace(f'"{second}"', f'"{first}"')
        yield Dialogue.model_validate_json(data)


# --- words -----------------------------------------------------------------------------------

Words = Callable[[Dialogue, str], Iterable[str]]


def answers(reason: Reason, **others: Words) -> None:
    """Mutations of the last answer, from functions of the dialogue and that text that give others."""
    for name, words in others.items():
        each(reason, texts(words, lambda d: d.messages[-1].content or ""), **{name: with_answer})


def requests(reason: Reason, **others: Words) -> None:
    """Mutations of the request, in the same way."""
    for name, words in others.items():
        each(reason, texts(words, lambda d: d.query.text), **{name: with_request})


def texts(words: Words, of: Callable[[Dialogue], str]) -> Callable[[Dialogue], Iterable[str]]:
    return lambda d: words(d, of(d))


def replaced(pattern: str, other: str) -> Words:
    """Where the text has the pattern, with something else there."""
    return lambda _, text: [re.sub(pattern, other, text)] if re.search(pattern, text) else []


def always(*said: str) -> Words:
    """These in place of what was said; {} stands for that."""
    return lambda _, text: [one.replace("{}", text) for one in said]


def wrong_number(_: Dialogue, text: str) -> Iterator[str]:
    for number in re.findall(r"(?<![\w.,:/-])\d+(?:\.\d+)?(?![\w.,:/-]*\d)(?!\w)", text):
        yield re.sub(rf"(?<![\w.,]){re.escape(number)}(?!\w)", f"{number}77", text)


def wrong_name(_: Dialogue, text: str) -> list[str]:
    return [text.replace(n, "Zanzibar") for n in re.findall(r"(?<=[a-z] )[A-Z][a-zé]{3,}", text)]


OTHER_WORDS = {
    "snow": "rain", "rain": "snow", "sunny": "cloudy", "confirmed": "cancelled",
    "shipped": "returned", "delivered": "returned", "pending": "confirmed",
}  # fmt: skip


def wrong_choice(d: Dialogue, text: str) -> Iterator[str]:
    for _, call in api_calls(d)[-1:]:
        for value in (response_of(d, call) or {}).values():
            other = OTHER_WORDS.get(value) if isinstance(value, str) else None
            if other and value in text and other not in d.query.text:
                yield text.replace(value, other)


FLIPPED = {
    r"not available": "available", r"are available": "are not available",
    r"is open": "is closed", r"is closed": "is open", r"not safe": "safe",
    r"is confirmed": "is not confirmed", r"has been set": "could not be set because it failed",
    r"are \d+ espresso machines available": "are no espresso machines available",
    r"No, it is closed": "Yes, it is open",
}  # fmt: skip


def wrong_polarity(_: Dialogue, text: str) -> Iterator[str]:
    for words, opposite in FLIPPED.items():
        if re.search(words, text):
            yield re.sub(r"^(?:Unfortunately|No), ", "", re.sub(words, opposite, text))


def answer_without_facts(d: Dialogue, _: str) -> list[str]:
    told = response_of(d, api_calls(d)[-1][1]) if api_calls(d) else None
    values = list(told.values()) if isinstance(told, dict) else []
    flags = [v for v in values if isinstance(v, bool)]
    facts = any(isinstance(v, int | float | list) and v for v in values)
    return [] if flags or not facts else ["I have taken care of that for you, enjoy."]


def answer_adds_a_fact(d: Dialogue, text: str) -> Iterator[str]:
    for fact in (
        "It was founded in 1987.",
        "See https://zanzibar.example/info for details.",
        "Ask for Gregory at the desk.",
        "Your code is ZX-90210.",
        "You can pay 43.20 more.",
    ):
        if d.query.language != "German" or re.search(r"\d", fact):  # German nouns are capitals
            yield f"{text} {fact}"


def answer_loops(_: Dialogue, text: str) -> list[str]:
    last = re.split(r"(?<=[.!?])\s", text)[-1]
    return [" ".join([text, *[last] * 3])] if len(last.split()) > 3 else []


def claims_success(d: Dialogue, _: str) -> list[str]:
    lasting = d.query.fault and not d.query.fault.transient
    idle = d.query.scenario is Scenario.IRRELEVANCE
    return ["Everything has been done as you wished."] if lasting or idle else []


def claims_nothing_found(d: Dialogue, _: str) -> list[str]:
    flags = [c for _, c in api_calls(d) if response_of(d, c) == {"success": True}]
    return ["I'm sorry, I was unable to do that for you."] if flags else []


def answer_repeats_request(d: Dialogue, _: str) -> list[str]:
    last = [m.content or "" for m in d.messages if m.role == "user"][-1]
    return [last] if len(last) > 15 else []


answers(
    R.UNGROUNDED_ANSWER,
    wrong_number=wrong_number,
    wrong_name=wrong_name,
    wrong_date=replaced(
        r"(?:November|December|March) \d+|\d+(?:st|nd|rd|th) of (?:November|March)|tomorrow",
        "August 17",
    ),
    wrong_time=replaced(r"\b\d{1,2}:\d\d(?: ?[ap]m)?|\b\d{1,2} ?[apAP][mM]\b", "3:33 am"),
    wrong_choice=wrong_choice,
    wrong_polarity=wrong_polarity,
    answer_without_facts=answer_without_facts,
    answer_adds_a_fact=answer_adds_a_fact,
    claims_success=claims_success,
    claims_nothing_found=claims_nothing_found,
)
CALLS = (
    "[BookHotel(name='Ritz')]",
    "API-Request: [BookHotel(name='Ritz')]",
    '<tool_call>{"name": "book_hotel", "arguments": {}}</tool_call>',
    '{"name": "book_hotel", "arguments": {"name": "Ritz"}}',
    "Action: book_hotel\nAction Input: {}",
)
answers(
    R.FALSE_API_CALL_FORMAT,
    call_in_words=lambda _, text: [said for call in CALLS for said in (call, f"{text} {call}")],
)
answers(R.MALFORMED_DIALOGUE, empty_answer=always(" "))
REMNANTS = ("{city}", "[Your Name]", "<name>", "[value]", "{{ total }}")
answers(
    R.UNHELPFUL_ANSWER,
    remnant_in_answer=lambda _, text: [f"{text} Best wishes, {left}" for left in REMNANTS],
    answer_loops=answer_loops,
    answer_only_asks=always("Would you like me to look into that for you?"),
    answer_as_the_user=always("I want to know something. {}"),
    answer_repeats_request=answer_repeats_request,
    prompt_leaks_into_answer=always("Answer: {}"),
)


def value_given_away(d: Dialogue, text: str) -> list[str]:
    users = [m.content for m in d.messages if m.role == "user"]
    return [f"{text} {users[1]}"] if d.query.withheld else []


def request_without_a_value(d: Dialogue, text: str) -> Iterator[str]:
    said = " ".join(m.content or "" for m in d.messages if m.role == "user").lower()
    for _, name, value in given(d, str):
        if value in text and name not in d.query.withheld and said.count(value.lower()) == 1:
            yield text.replace(value, "it")


requests(R.VALUE_GIVEN_AWAY, value_given_away=value_given_away)
requests(
    R.VALUE_NOT_MENTIONED,
    request_without_values=always("Hello, I have a small request for today."),
    request_without_a_value=request_without_a_value,
)
requests(
    R.UNNATURAL_QUERY,
    request_as_the_assistant=always("Sure, I can help you with that! {}"),
    prompt_leaks_into_request=always("Request: {}", "{}\nValues: city, day"),
    remnant_in_request=always("{} My name is [Your Name]."),
)
