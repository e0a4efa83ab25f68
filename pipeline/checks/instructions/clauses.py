"""Parts of sentences: whether one orders something, and whether one stands without what follows."""

from __future__ import annotations

import re

from toolloom.pipeline.checks.text.words import plain, words

_ORDERS = (
    r"(?:find|get|give|tell|fetch|bring|provide|send|recommend|suggest|remind|notify|inform|convert"
    r"|calculate|compute|compare|translate|retrieve|generate|analy[sz]e|summari[sz]e|determine"
    r"|identify|verify|ensure|make sure|look up|look for|look into|turn on|turn off|sign up|choose"
    r"|select|explain|describe|extract|download|cancel|delete|remove)"
)
# These are nouns as well, so that a word after them must tell.
_OR_THINGS = (
    r"(?:add|ask|book|buy|call|change|check|create|display|do|estimate|help|include|let|list|look"
    r"|open|order|pay|pick|plan|play|post|register|rent|report|request|reserve|return|run|save"
    r"|schedule|search|set|share|show|start|stop|take|track|turn|update|use|warn|watch|write)"
)
_OBJECT = (
    r"(?=\s+(?:a|an|the|my|our|me|us|it|its|them|their|his|her|this|that|these|those|all|any|some"
    r"|every|each|both|for|if|whether|what|which|who|how|when|where|up|\d)\b)"
)
_ORDER = rf"(?:{_ORDERS}\b|{_OR_THINGS}\b{_OBJECT})"
_FILLED = r"(?:(?:and|then|so|but|also|please|now|just|kindly)\s+){0,3}"
_SET_OFF = re.compile(rf"(?:[;:,]|\s-+)\s*{_FILLED}{_ORDER}", re.IGNORECASE)
_JOINED = re.compile(
    rf"\s(?:and|then|so|but)\s+{_FILLED}(?:{_ORDERS}|{_OR_THINGS})\b{_OBJECT}", re.I
)
_INFINITIVE = re.compile(r"\b(?:to|i|we|you|they|who|that)\s+\w+", re.IGNORECASE)
# «Since I am ill, order medicine», «For my trip find a room»: after what leads to it an order may
# come without any sign.
_LED = re.compile(
    r"(?:as|after|at|because|before|during|for|if|in|on|once|since|when|while|with|today|tonight"
    r"|tomorrow)\b[^.;]*?"
    rf"(?:,\s*{_FILLED}(?:{_ORDERS}|{_OR_THINGS})\b(?!\s*(?:,|and\b|or\b|\w+s\b))"
    rf"|(?<!\bi)(?<!\bwe)(?<!\byou)(?<!\bthey)(?<!\bto)\s(?:{_ORDERS}|book)\b{_OBJECT})",
    re.IGNORECASE,
)

_OPEN_ENDED = re.compile(
    r"\b(?:a|an|the|and|or|but|because|if|whether|than|my|our|your|to|of|you)\W*\Z", re.IGNORECASE
)
_ASKS_OF = re.compile(
    r"\b(?:wants?|wanted|likes?|love|wish|expects?|asks?|asked|asking|tells?|told|teach|helps?"
    r"|allows?|enables?|advised?|invited?|hired?|requires?|prefers?|for)\s+(?:\S+\s+){0,3}?\S+\Z",
    re.IGNORECASE,
)
_LEADS = re.compile(
    r"(?:after|although|as|because|before|if|once|since|though|unless|until|when|while)\b[^,]*\Z",
    re.IGNORECASE,
)
_PLACEHOLDER = re.compile(r"(?:it|this|that)(?:'s| is| was| seems| would be)\b", re.IGNORECASE)
_EXPLAINED = re.compile(r"(?:to|that|if|whether)\b", re.IGNORECASE)
_UNFINISHED = frozenset(
    """
    a an the and or but so because to of in on at from for with without by about into than as if
    that which who whose when where while how what why is are am was were be been being do does did
    have has had will would can could should must may might i'm i'd i've i'll we're we'd we've we'll
    it's i we my our your their his her its this these those looking searching waiting asking
    hoping trying going need want like know planning interested wondering also very really some any
    between using via heading flying driving traveling travelling moving organizing organising
    working thinking find get see check learn buy book try plan love wish search compare
    calculate use make told said heard read noticed sure aware afraid certain wonder able unable
    supposed ready eager keen glad happy decided lives live located based consists depends
    called named titled set equal priced worth reside resides belongs refers according instead
    such less more least most under over above below within per each every all both only mood
    you
    """.split()  # noqa: SIM905 - a table of words
)


def orders(sentence: str) -> bool:
    """Does a part of a sentence order something? «I own a dog, list the vets»; but not «I plan to
    eat and book a tour»."""
    text = plain(sentence)
    if _SET_OFF.search(text) or _LED.match(text):
        return True
    joined = _JOINED.search(text)
    return joined is not None and not _INFINITIVE.search(text, 2, joined.start())


def ends_open(sentence: str) -> bool:
    """Does a sentence end in a word that another must follow, or in «you»?"""
    return _OPEN_ENDED.search(plain(sentence).rstrip(" .!…")) is not None


def stands(part: str, rest: str) -> bool:
    """Is the beginning of a sentence one of its own? `rest`: what it goes on with.

    «I would like you», of a sentence that goes on with «to look», is none, nor is «We are a team»
    before «of twelve».
    """
    text, after = plain(part).strip(), plain(rest).lstrip(" ,;:-")
    last = words(text)[-1:]
    if not last or last[0].folded in _UNFINISHED or ends_open(text) or _LEADS.match(text):
        return False
    if re.match(r"of\b", after, re.IGNORECASE):
        return False
    if re.match(r"(?:to|be)\b", after, re.IGNORECASE) and _ASKS_OF.search(text):
        return False
    return not (_PLACEHOLDER.match(text) and _EXPLAINED.match(after))
