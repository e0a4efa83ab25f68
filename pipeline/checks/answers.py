"""Replies: founded in what was observed, telling what came of it, contradicting none of it."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

from toolloom.pipeline.checks.claims import number_held, unfounded
from toolloom.pipeline.checks.evidence import Evidence, evidence_at, gives_up, says_no
from toolloom.pipeline.checks.grounding import leaves, same, says
from toolloom.pipeline.checks.pairing import pair
from toolloom.pipeline.checks.polarity import claimed, is_status, negative, other_choices, stated
from toolloom.pipeline.checks.text.numbers import quantities
from toolloom.pipeline.checks.text.phrases import is_code
from toolloom.pipeline.checks.text.words import content, stem, words
from toolloom.pipeline.checks.transcript import (
    CallMade,
    Fault,
    asked,
    made,
    replies,
    said_before,
    shown,
)
from toolloom.schemas import Dialogue, Reason, Scenario

_AFFIRMS = re.compile(
    r"\b(?:done|all set|success\w*|confirm\w*|completed?|ready|sure|yes|ok|okay)\b"
    r"|(?:\b(?:has|have|had|was|were|is|are|been|i|we|it)|'ve|'s) (?:\w+ ){0,2}"
    r"(?:\w{2,}ed|set|sent|put|made|on|off|in)\b",
    re.IGNORECASE,
)
_SUMMARY = 0.4  # share of a long text's words that a summary of it must hold
_PROSE = 6  # content words from which a text is summarised rather than quoted
_NAMES_SMALL = frozenset({"German"})  # languages that write every noun with a capital


def founded_replies(dialogue: Dialogue) -> Iterator[Fault]:
    """Every number, date, time, address, code, quotation and name was said or observed."""
    query = dialogue.query
    for place, text, final in replies(dialogue):
        if not (_has_observed(dialogue, place) or (final and place == len(dialogue.messages) - 1)):
            continue  # a question or an announcement before anything is known
        evidence = evidence_at(dialogue, place)
        for claim in unfounded(text, evidence, names=query.language not in _NAMES_SMALL):
            detail = f"the {claim.kind} {shown(claim.text)} was neither said nor observed"
            yield Fault(Reason.UNGROUNDED_ANSWER, place, detail)


def _has_observed(dialogue: Dialogue, place: int) -> bool:
    turn = asked(dialogue, place)
    return any(
        c.back is not None and c.back < place and c.turn == turn and not c.is_search
        for c in made(dialogue)
    )


def told_results(dialogue: Dialogue) -> Iterator[Fault]:
    """The reply tells at least one thing that each call found out, or that it worked.

    A call whose result feeds a later call of the same turn need not be told.
    """
    due, paired = dialogue.query.due, pair(dialogue)
    feeding = {(r.call, i.turn) for i in due for r in i.references.values()}
    silent = {c.back for index, c in paired.calls.items() if (index, due[index].turn) in feeding}
    for call in made(dialogue):
        if call.is_search or call.failed or call.api is None or call.back in silent:
            continue
        place, reply = _reply_after(dialogue, call)
        if reply and (fault := _untold(dialogue, call, reply, place)):
            yield Fault(Reason.UNGROUNDED_ANSWER, place, fault)


def _reply_after(dialogue: Dialogue, call: CallMade) -> tuple[int, str]:
    """The replies of the call's turn that come after its observation, as one text."""
    turn = [
        (place, text)
        for place, text, _ in replies(dialogue)
        if call.back is not None and place > call.back and asked(dialogue, place) == call.turn
    ]
    return (turn[-1][0], "\n".join(text for _, text in turn)) if turn else (0, "")


def _untold(dialogue: Dialogue, call: CallMade, reply: str, place: int) -> str | None:
    """Why the reply does not tell what the call found out; None if it does."""
    english = dialogue.query.language == "English"
    if call.response in ([], {}, "") or _holds_empty_list(call.response):
        return None if says_no(reply) or not english else f"{call.name} found nothing; not said"
    heard = "\n".join(said_before(dialogue, place))
    facts = [v for v in _told_apart(call.response) if _is_news(v, call, heard, dialogue)]
    if not english:
        facts = [v for v in facts if isinstance(v, int | float)]
    if not all(isinstance(v, str) and is_code(v) for v in facts):
        if any(_tells(reply, v, dialogue) for v in facts) or _counts(reply, call.response):
            return None
        if any(claimed(reply, s, frozenset()) == {s.holds} for s in stated(call.response)):
            return None
        return f"tells nothing of what {call.name} found: {shown(call.response)}"
    return _status_untold(call, reply) if english else None


def _told_apart(response: Any) -> Iterator[Any]:
    """The leaves of a response; a text of several lines is one for each line, `Author: Ada` too."""
    for leaf in leaves(response):
        if isinstance(leaf, str) and "\n" in leaf:
            for line in filter(None, map(str.strip, leaf.splitlines())):
                yield line
                if ": " in line:
                    yield line.split(": ", 1)[1]
        else:
            yield leaf


def _status_untold(call: CallMade, reply: str) -> str | None:
    """The same for a response that holds nothing but a status or ids, which may go untold."""
    if any(claimed(reply, s, frozenset()) == {s.holds} for s in stated(call.response)):
        return None
    if negative(call.response):
        return None if says_no(reply) else f"{call.name} reports failure; not said"
    if gives_up(reply):
        return f"says it did not work, but {call.name} did: {shown(call.response)}"
    return None if _AFFIRMS.search(reply) else f"does not say that {call.name} worked"


def _holds_empty_list(response: Any) -> bool:
    """An object whose only content is an empty list: a search without results."""
    if not isinstance(response, dict):
        return False
    lists = [v for v in response.values() if isinstance(v, list)]
    rest = [v for v in response.values() if not isinstance(v, list) and v not in (0, None, "")]
    return bool(lists) and not any(lists) and not [v for v in rest if not is_status(v)]


def _is_news(leaf: Any, call: CallMade, heard: str, dialogue: Dialogue) -> bool:
    """A leaf that is neither empty nor a status, nor an echo of the call or of the user."""
    if leaf is None or leaf == "" or is_status(leaf):
        return False
    if any(same(leaf, given) for given in leaves(call.arguments)):
        return False
    return isinstance(leaf, int | float) or not says(heard, leaf, None, dialogue.query.now)


def _tells(reply: str, leaf: Any, dialogue: Dialogue) -> bool:
    if isinstance(leaf, str) and len(wanted := content(leaf)) >= _PROSE:
        there = {stem(w.folded) for w in words(reply)}
        return sum(w in there for w in wanted) >= _SUMMARY * len(wanted)
    if isinstance(leaf, str):
        return says(reply, leaf, None, dialogue.query.now)
    lone = Evidence((), (leaf,), (), dialogue.query.now)
    return any(number_held(q, reply, lone) for q in quantities(reply))


def _counts(reply: str, response: Any) -> bool:
    """Does the reply say how many there are?"""
    sizes = {len(v) for v in (response, *_values(response)) if isinstance(v, list) and v}
    return any(q.value in sizes for q in quantities(reply))


def _values(response: Any) -> list[Any]:
    return list(response.values()) if isinstance(response, dict) else []


def consistent_replies(dialogue: Dialogue) -> Iterator[Fault]:
    """No reply says the opposite of an observed status or tells another choice of an enum."""
    for call in made(dialogue):
        if call.is_search or call.failed or call.api is None:
            continue
        place, reply = _reply_after(dialogue, call)
        if not reply:
            continue
        others = [c.response for c in made(dialogue) if c.turn == call.turn and not c.is_search]
        heard = "\n".join(said_before(dialogue, place))
        told = [v for r in others for v in leaves(r) if isinstance(v, str)]
        for field, value, choice in other_choices(
            call.response, call.api.returns, reply, "\n".join([heard, *told])
        ):
            detail = f"says {choice!r}, but {field} of {call.name} is {value!r}"
            yield Fault(Reason.UNGROUNDED_ANSWER, place, detail)
        facts = list(stated(call.response))
        said = "\n".join([heard, *told]) if facts else ""
        known = frozenset(stem(w.folded) for w in words(said))
        for fact in facts:
            agreed = {s.holds for r in others for s in stated(r) if s.yes & fact.yes} == {
                fact.holds
            }
            if agreed and claimed(reply, fact, known) == {not fact.holds}:
                detail = f"says the opposite of {fact.field} of {call.name} ({shown(fact.holds)})"
                yield Fault(Reason.UNGROUNDED_ANSWER, place, detail)


def admitted_limits(dialogue: Dialogue) -> Iterator[Fault]:
    """Where no API fits, the reply says that it cannot serve the request."""
    query = dialogue.query
    last = list(replies(dialogue))[-1:]
    if query.scenario is Scenario.IRRELEVANCE and query.language == "English" and last:
        place, text, _ = last[0]
        if not says_no(text):
            yield Fault(
                Reason.UNGROUNDED_ANSWER, place, "does not say that it cannot serve the request"
            )
