"""Mutations of what is said: answers, the form of messages, and the words of a weak model."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator

from support.mutations import (
    Mutation,
    api_calls,
    response_of,
    with_answer,
    with_call,
    with_message,
    with_messages,
    with_request,
    without,
)
from toolloom.schemas import Dialogue, Message, Reason, Scenario

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
