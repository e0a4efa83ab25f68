"""Form: plain JSON, the order of messages, calls that can be read, and words of nobody.

Small models write template remnants, words of the prompt, the other's role and loops into dialogues
that are otherwise formally right.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator

from rapidfuzz import fuzz

from toolloom.pipeline.checks.schema import oddity, schema_oddity
from toolloom.pipeline.checks.text.call_text import CallTextError, parse
from toolloom.pipeline.checks.text.words import fold, plain, sentences, words
from toolloom.pipeline.checks.transcript import Fault, observations, replies, said_before, shown
from toolloom.schemas import Dialogue, Message, Reason

_LONGEST = 8_000  # letters of a user's or assistant's message
_CALL_LIKE = re.compile(  # as the others, it looks first at what it may begin with: that is quick
    r"(?=[<af`{\[])(?:<\|?/?(?:tool_call|function_call|functioncall|tool_response|python_tag)"
    r"|\bAPI[- ]?(?:Request|Call)\s*:|\bAction(?: Input)?\s*:|```\s?tool_(?:code|call)"
    r"|\{\s*[\"'](?:name|function|tool|arguments|parameters)[\"']\s*:\s*[\"'{]"
    r"|\bfunctions?\.[A-Za-z_]\w*\s*\(|\[\s*[A-Za-z_][\w-]*\()",
    re.IGNORECASE,
)

_MARK = re.compile(
    r"<\|?/?(?:tool_call|function_call|functioncall|python_tag)\b|\bAPI-Request\s*:\s*\[",
    re.IGNORECASE,
)


def _malformed(place: int | None, detail: str) -> Fault:
    return Fault(Reason.MALFORMED_DIALOGUE, place, detail)


def plain_values(dialogue: Dialogue) -> Iterator[Fault]:
    """Every value and schema is plain JSON of bearable size: the other checks rely on it."""
    query = dialogue.query
    apis = (*query.pool, *([query.outside] if query.outside else []))
    for api in apis:
        for schema in (api.parameters, api.returns):
            if fault := schema_oddity(schema):
                yield Fault(Reason.ILLEGAL_SCHEMA, None, f"{api.id}: {fault}")
    for intention in query.intent:
        if fault := oddity(intention.arguments):
            yield _malformed(None, f"intent for {intention.api}: {fault}")
    for missing in sorted({i.api for i in query.intent} - {api.id for api in apis}):
        yield _malformed(None, f"the intent asks for {missing}, not in the pool")
    for place, call in dialogue.calls():
        if fault := oddity(call.function.arguments):
            name = call.function.name
            yield Fault(Reason.INVALID_INPUT_PARAMETERS, place, f"arguments of {name}: {fault}")
    for place, message in enumerate(dialogue.messages):
        if message.role != "tool":
            fault = oddity(message.content or "")
        elif seen := observations(dialogue)[place]:
            fault = oddity(seen.response) or oddity(seen.error)
        else:
            fault = f"no observation envelope: {shown(message.content)}"
        if fault:
            yield _malformed(place, f"{message.role} message: {fault}")


def bearable_lengths(dialogue: Dialogue) -> Iterator[Fault]:
    """No user or assistant writes a book."""
    for place, message in enumerate(dialogue.messages):
        if message.role != "tool" and len(message.content or "") > _LONGEST:
            yield _malformed(place, f"{message.role} message: over {_LONGEST} letters")


def message_order(dialogue: Dialogue) -> Iterator[Fault]:
    """System, user, then turns that end in a reply; every call is answered once, in its place."""
    roles = [m.role for m in dialogue.messages]
    if roles[:2] != ["system", "user"]:
        yield _malformed(0, "must begin with a system and a user message")
    if "system" in roles[1:]:
        yield _malformed(roles.index("system", 1), "a second system message")
    last = dialogue.messages[-1] if dialogue.messages else None
    if not last or last.role != "assistant" or last.tool_calls or not (last.content or "").strip():
        yield _malformed(len(roles) - 1, "must end with a reply in words")
    for place, message in enumerate(dialogue.messages[1:], start=1):
        if fault := _misplaced(dialogue.messages[place - 1], message):
            yield _malformed(place, fault)
    turns, spare = dialogue.query.turns, len(dialogue.query.withheld)
    in_world = dialogue.query.setting is not None  # where people answer as often as they are asked
    if not in_world and not turns + bool(spare) <= roles.count("user") <= turns + spare:
        wanted = f"{turns + bool(spare)} to {turns + spare}" if spare > 1 else turns + spare
        yield _malformed(None, f"{roles.count('user')} user messages where the query has {wanted}")


def _misplaced(before: Message, message: Message) -> str | None:
    empty = not message.tool_calls and not (message.content or "").strip()
    if message.tool_calls and message.role != "assistant":
        return f"a {message.role} message with calls"
    if message.role == "user" and empty:
        return "an empty user message"
    if message.role == "user" and before.role not in {"system", "assistant"}:
        return f"a user message right after a {before.role} message"
    if message.role == "assistant" and before.role in {"system", "assistant"}:
        return f"an assistant message right after a {before.role} message"
    return "an empty assistant message" if message.role == "assistant" and empty else None


def answered_calls(dialogue: Dialogue) -> Iterator[Fault]:
    """Call ids are unique, and each call gets one observation before the next message."""
    ids = Counter(call.id for _, call in dialogue.calls())
    for repeated in sorted(i for i, n in ids.items() if n > 1):
        yield _malformed(None, f"call id {shown(repeated)} is used twice")
    waiting: dict[str, str] = {}
    for place, message in enumerate(dialogue.messages):
        if message.role == "tool":
            name = waiting.pop(message.tool_call_id or "", None)
            if name is None:
                yield _malformed(place, "an observation that answers no open call")
            elif message.name not in {None, name}:
                yield _malformed(place, f"named {message.name}, answers {name}")
            continue
        if waiting:
            yield _malformed(place, f"{next(iter(waiting.values()))} got no answer")
        waiting = {call.id: call.function.name for call in message.tool_calls}
    if waiting and not dialogue.messages[-1].tool_calls:  # that is `message_order`'s to find
        yield _malformed(len(dialogue.messages) - 1, f"{', '.join(waiting.values())} got no answer")


def readable_calls(dialogue: Dialogue) -> Iterator[Fault]:
    """Arguments are objects (API-Bank, appendix A.1)."""
    for place, call in dialogue.calls():
        if isinstance(call.function.arguments, str):
            detail = f"arguments are text: {shown(call.function.arguments)}"
            yield Fault(Reason.FALSE_API_CALL_FORMAT, place, detail)


def spoken_calls(dialogue: Dialogue) -> Iterator[Fault]:
    """No call is written into the words, nor anything that looks like one."""
    names = {api.function for api in dialogue.query.pool}
    for place, text, _ in replies(dialogue):
        match = _CALL_LIKE.search(text)
        named = any(n in text and re.search(rf"\b{re.escape(n)}\s*\(", text) for n in names)
        if match or named or _called(text):
            seen = text[match.start() : match.start() + 60] if match else text
            yield Fault(Reason.FALSE_API_CALL_FORMAT, place, f"a call in the words: {shown(seen)}")


def leaked_calls(dialogue: Dialogue) -> Iterator[Fault]:
    """No reply holds a model's mark of a call, or is nothing but calls of what is on offer.

    The audit's variant of `spoken_calls`: an assistant may show JSON or code when it is asked to.
    """
    names = {api.function for api in dialogue.query.pool}
    for place, text, _ in replies(dialogue):
        if match := _MARK.search(text):
            seen = shown(text[match.start() : match.start() + 60])
        elif "(" in text and names & set(_called(text)):
            seen = shown(text, 60)
        else:
            continue
        yield Fault(Reason.FALSE_API_CALL_FORMAT, place, f"a call in the words: {seen}")


def _called(text: str) -> list[str]:
    """Names of the calls, where the text is nothing but calls."""
    try:
        return [call.name for call in parse(text.strip())]
    except (CallTextError, RecursionError):
        return []


def turn_order(dialogue: Dialogue) -> Iterator[Fault]:
    """Only an assistant calls, and neither users nor assistants send empty messages.

    The audit's variant of `message_order`: who speaks first and last is each format's own affair.
    """
    for place, message in enumerate(dialogue.messages):
        empty = not message.tool_calls and not (message.content or "").strip()
        if message.tool_calls and message.role != "assistant":
            yield _malformed(place, f"a {message.role} message with calls")
        elif empty and message.role in {"user", "assistant"}:
            yield _malformed(place, f"an empty {message.role} message")


_REMNANT = re.compile(
    r"(?=[{<$\[%LT_X])(?:\{\{?\s*[A-Za-z_][\w .-]{0,40}\s*\}\}?|<[A-Za-z_][\w .-]{0,40}>|\$\{\w+\}"
    r"|\[(?:[A-Z][\w' ]{0,40}|[a-z_]+(?: [a-z_]+){0,4})\](?!\()|%\(\w+\)s|\bLorem ipsum\b"
    r"|<\|?(?:im_start|im_end|endoftext|end_of_text)\|?>|\bTODO\b|_{3,}|\bXXX+\b)"
)
_LEAK = re.compile(
    r"(?:^|\n)[\s*#>-]*(?:values?|requests?|query|user|assistant|system|input|output|instructions?"
    r"|answer|response|facts?|example|observation|tool|api|arguments|parameters|function)\s*:"
    r"|\bas an? (?:ai|language model)\b"
    r"|\bthe (?:user|assistant) (?:says?|asks?|wants?|is asking)\b",
    re.IGNORECASE,
)
_AS_ASSISTANT = re.compile(
    r"^\W*(?:sure|certainly|of course|absolutely|no problem|here (?:is|are)|i(?:'ve| have) (?:found"
    r"|booked|sent|scheduled)|i can help|i'd be happy to help|i'm here to|how (?:can|may) i (?:help"
    r"|assist)|thank you for (?:contacting|reaching|your (?:request|question)))\b"
    r"|(?=[hi])\b(?:how (?:can|may) i (?:help|assist) you|i can (?:help|assist) you"
    r"|i(?:'d| would) be happy to (?:help|assist)|is there anything else)\b",
    re.IGNORECASE,
)
_AS_USER = re.compile(
    r"^\W*(?:i want(?: to)?|i(?:'d| would) like to (?!(?:know|ask|confirm))|i'm looking for"
    r"|i need to (?!know|ask|confirm)|can you|could you|please (?:find|book|show|give me|get me"
    r"|check|search|help|send|set|create|schedule|order|translate|convert))\b",
    re.IGNORECASE,
)
_LOOP, _GRAM = 3, 4  # a run of four words said three times over is a loop


def natural_requests(dialogue: Dialogue) -> Iterator[Fault]:
    """Users speak as users: no remnants, leaks, loops, technical names or assistant's phrases."""
    names = {n for api in dialogue.query.pool for n in (api.function, *api.properties) if "_" in n}
    for place, message in enumerate(dialogue.messages):
        text = message.content or ""
        if message.role != "user":
            continue
        # Who answers a question may begin with "Sure", as in worlds most later turns do.
        answers = dialogue.query.setting is not None and place > 1
        swapped = None if answers else _AS_ASSISTANT
        for fault in _faults(text, swapped, "speaks as the assistant"):
            yield Fault(Reason.UNNATURAL_QUERY, place, fault)
        told = [n for n in names if n in text]
        for name in sorted(n for n in told if re.search(rf"(?<!\w){re.escape(n)}(?!\w)", text)):
            yield Fault(Reason.UNNATURAL_QUERY, place, f"says the technical name {shown(name)}")


def helpful_replies(dialogue: Dialogue) -> Iterator[Fault]:
    """Final replies tell something: no remnants, leaks, loops, bare questions, user's phrases."""
    last = len(dialogue.messages) - 1
    for place, text, final in replies(dialogue):
        for fault in _faults(text, _AS_USER if place == last else None, "speaks as the user"):
            yield Fault(Reason.UNHELPFUL_ANSWER, place, fault)
        parts = re.findall(r"[^.!?\n]*\w[^.!?\n]*[.!?]*", text)
        if place == last and parts and all(part.rstrip().endswith("?") for part in parts):
            yield Fault(Reason.UNHELPFUL_ANSWER, place, "the last reply only asks")
        heard = [request for request in said_before(dialogue, place) if len(request) > 15]
        if final and any(fuzz.ratio(fold(text), fold(request)) > 92 for request in heard):
            detail = "repeats the request instead of answering it"
            yield Fault(Reason.UNHELPFUL_ANSWER, place, detail)


def odd_request(text: str) -> str | None:
    """What no user would say in this text, or None."""
    return next(_faults(text, _AS_ASSISTANT, "speaks as the assistant"), None)


def _faults(text: str, swapped: re.Pattern[str] | None, role: str) -> Iterator[str]:
    flat = plain(text)
    if found := _REMNANT.search(flat):
        yield f"holds the template remnant {shown(found.group())}"
    if found := _LEAK.search(flat):
        yield f"holds words of the prompt: {shown(found.group().strip())}"
    if swapped and (found := swapped.search(flat)):
        yield f"{role}: {shown(found.group())}"
    if said := _looped(flat):
        yield f"says {shown(said)} over and over"


def _looped(text: str) -> str | None:
    """A sentence said twice over, or a run of words said three times."""
    for sentence, times in Counter(map(fold, sentences(text))).items():
        if times > 1 and len(words(sentence)) > 3:
            return sentence
    found = [w.folded for w in words(text)]
    grams = Counter(zip(*(found[i:] for i in range(_GRAM)), strict=False))
    return next((" ".join(gram) for gram, times in grams.items() if times >= _LOOP), None)
