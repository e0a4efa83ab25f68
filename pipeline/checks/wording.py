"""Words no user or assistant would say: template remnants, prompt leaks, swapped roles, loops.

Small models write all of these into dialogues that are otherwise formally right.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator

from rapidfuzz import fuzz

from toolloom.pipeline.checks.text.words import fold, lowered, plain, sentences, words
from toolloom.pipeline.checks.transcript import Fault, replies, said_before, shown
from toolloom.schemas import Dialogue, Reason

_REMNANT = re.compile(
    r"\{\{?\s*[A-Za-z_][\w .-]{0,40}\s*\}\}?|<[A-Za-z_][\w .-]{0,40}>|\$\{\w+\}"
    r"|\[(?:[A-Z][\w' ]{0,40}|[a-z_]+(?: [a-z_]+){0,4})\](?!\()|%\(\w+\)s|\bLorem ipsum\b"
    r"|<\|?(?:im_start|im_end|endoftext|end_of_text)\|?>|\bTODO\b|_{3,}|\bXXX+\b"
)
_LEAK = re.compile(
    r"(?:^|\n)[\s*#>-]*(?:values?|requests?|query|user|assistant|system|input|output|instructions?"
    r"|answer|response|facts?|example|observation|tool|api|arguments|parameters|function)\s*:"
    r"|\bas an? (?:ai|language model)\b|\bthe (?:user|assistant) (?:says?|asks?|wants?|is asking)\b",
    re.IGNORECASE,
)
_AS_ASSISTANT = re.compile(
    r"^\W*(?:sure|certainly|of course|absolutely|no problem|here (?:is|are)|i(?:'ve| have) (?:found"
    r"|booked|sent|scheduled)|i can help|i'd be happy to help|i'm here to|how (?:can|may) i (?:help"
    r"|assist)|thank you for (?:contacting|reaching|your (?:request|question)))\b"
    r"|\b(?:how (?:can|may) i (?:help|assist) you|i(?:'d| would) be happy to (?:help|assist)"
    r"|i can (?:help|assist) you|is there anything else)\b",
    re.IGNORECASE,
)
_AS_USER = re.compile(
    r"^\W*(?:i want(?: to)?|i(?:'d| would) like to (?!(?:know|ask|confirm))|i'm looking for"
    r"|i need to (?!know|ask|confirm)|can you|could you|please (?:find|book|show|give me|get me"
    r"|check|search|help|send|set|create|schedule|order|translate|convert))\b",
    re.IGNORECASE,
)
# Without these letters the expressions above match nothing, and take long to find that out.
_REMNANT_SIGN = re.compile(r"\{|<|\[|%\(|___|XXX|TODO|Lorem")
_LEAK_SIGN = re.compile(r":|as an? |the (?:user|assistant) ")
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
        for name in sorted(
            n for n in names if n in text and bool(re.search(rf"(?<!\w){re.escape(n)}(?!\w)", text))
        ):
            yield Fault(Reason.UNNATURAL_QUERY, place, f"says the technical name {shown(name)}")


def helpful_replies(dialogue: Dialogue) -> Iterator[Fault]:
    """Final replies tell something: no remnants, leaks, loops, bare questions, user's phrases."""
    last = len(dialogue.messages) - 1
    for place, text, final in replies(dialogue):
        swapped = _AS_USER if place == last else None
        for fault in _faults(text, swapped, "speaks as the user"):
            yield Fault(Reason.UNHELPFUL_ANSWER, place, fault)
        if place == last and _only_asks(text):
            yield Fault(Reason.UNHELPFUL_ANSWER, place, "the last reply only asks")
        heard = said_before(dialogue, place)
        if final and any(
            (len(request) > 15 and fuzz.ratio(fold(text), fold(request)) > 92) for request in heard
        ):
            detail = "repeats the request instead of answering it"
            yield Fault(Reason.UNHELPFUL_ANSWER, place, detail)


def odd_request(text: str) -> str | None:
    """What no user would say in this text, or None."""
    return next(_faults(text, _AS_ASSISTANT, "speaks as the assistant"), None)


def _faults(text: str, swapped: re.Pattern[str] | None, role: str) -> Iterator[str]:
    flat = plain(text)
    small = lowered(flat)
    if _REMNANT_SIGN.search(flat) and (found := _REMNANT.search(flat)):
        yield f"holds the template remnant {shown(found.group())}"
    if (small is None or _LEAK_SIGN.search(small)) and (found := _LEAK.search(flat)):
        yield f"holds words of the prompt: {shown(found.group().strip())}"
    if swapped and (found := swapped.search(flat)):
        yield f"{role}: {shown(found.group())}"
    if said := _looped(flat):
        yield f"says {shown(said)} over and over"


def _looped(text: str) -> str | None:
    """A sentence said twice over, or a run of words said three times."""
    parts = list(map(fold, sentences(text)))
    if len(set(parts)) < len(parts):
        whole = Counter(fold(s) for s in sentences(text) if len(words(s)) > 3)
        for sentence, times in whole.items():
            if times > 1:
                return sentence
    found = [w.folded for w in words(text)]
    if len(found) - len(set(found)) < _GRAM * (_LOOP - 1) - (_GRAM - 1):
        return None
    runs = list(zip(*(found[i:] for i in range(_GRAM)), strict=False))
    if len(runs) - len(set(runs)) < _LOOP - 1:
        return None
    grams = Counter(runs)
    return next((" ".join(gram) for gram, times in grams.items() if times >= _LOOP), None)


def _only_asks(text: str) -> bool:
    parts = re.findall(r"[^.!?\n]*\w[^.!?\n]*[.!?]*", text)
    return bool(parts) and all(part.rstrip().endswith("?") for part in parts)
