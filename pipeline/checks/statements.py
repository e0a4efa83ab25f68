"""Statements: what a full request tells of the user's situation (ToolPlanner, section 3.2).

Cut from the request and never written anew, so that a statement says nothing its user did not.
English alone is understood: in a request in another language no situation is found.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from toolloom.pipeline.checks.tags import KnownNames, hard_values
from toolloom.pipeline.checks.text.words import letters, plain, words
from toolloom.schemas import Seed

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


MOST = 12  # spans that are offered
_LONGEST = 400  # letters of one
_FEWEST = 4  # words of one
_TOGETHER = 4  # sentences that make one statement

_END = re.compile(r"(?<![A-Z][a-z]\.)(?<!\b[A-Za-z]\.)(?<=[.!?…])[\"'”’)\]]*\s+|\n+")
_LINK = re.compile(
    r"(?:also|additionally|besides|furthermore|moreover|so|and|but|plus|well|hi|hello|hey|now"
    r"|first|second|secondly|finally|lastly|then|next|in addition)\b(?: there)?[,!]?\s+",
    re.IGNORECASE,
)
# Who a situation is about. The user, or what is the user's; somebody else where the user is told of
# within the same clause («The kids of my sister are …», «It's my birthday …»).
_SELF = r"(?:i|i'm|i'd|i've|i'll|we|we're|we'd|we've|we'll)"
_OWN = rf"(?:{_SELF}|my|our|me|us|mine|ours|myself|ourselves)"
_OPENING = re.compile(
    rf"{_SELF}\b|(?:my|our)\s|(?:it|it's|there|there's|this|that|these|those|the|a|an|as|for|since"
    r"|because|with|without|after|before|next|last|today|tonight|tomorrow|yesterday|recently|on|in"
    r"|at|every|each|one|some|someone|somebody|while|when|if|being|having|during|lately|currently"
    r"|both|all|two|three|to)\b",
    re.IGNORECASE,
)
_ABOUT_SELF = re.compile(rf"\b{_OWN}\b", re.IGNORECASE)
_WANT = re.compile(
    r"\b(?:need|want|like|love|wish|hope|require|looking for|interested|curious|wondering)\b", re.I
)
_POINTS = re.compile(r"\b(?:their|them|they|those|these|it|its|one)\b", re.IGNORECASE)
_AND_I = re.compile(r"[A-Z][\w']*(?:,? [A-Z][\w']*){0,2},? and (?:I|we|my|our)\b")
_NO_SITUATION = re.compile(
    r"\?|\bplease\b|\b(?:can|could|would|will|do|did|may|might|should) (?:you|i|we)\b"
    r"|\b(?:let|tell|give|show|send|get|find|help|provide|fetch|bring|remind|suggest|recommend"
    r"|advise|teach|walk) (?:me|us)\b|\byou (?:to|can|could|should|must)\b|\bthank(?:s| you)\b"
    r"|\b(?:i|we) (?:ask|request|demand)\b|\b(?:i|we)(?:'d| would) (?:appreciate|be (?:glad|happy))"
    r"|[{}<>\[\]|]",
    re.IGNORECASE,
)
_CUT = re.compile(
    r"[,;:—–(]\s*|\s-\s|\s+(?=(?:and|so|but|because|which|who|that|while|where|with|on|at|from|for"
    r"|between|until|till|by|around|starting|beginning|via|through|using|in|to|of)\b)",
    re.IGNORECASE,
)


def statements(seed: Seed) -> tuple[str, ...]:
    """What of the full request may be its statement, the best first; none if it tells nothing.

    Each is one sentence or several, or as much of a beginning as names no API, tool or parameter
    value. What the user does or has comes before what he wants, and all of it before a part.
    """
    known = KnownNames.of(seed)
    cut = [_clean(seed, known, sentence) for sentence in sentences(seed.hybrid)]
    # What a statement lacks: it points at what was said before it, or only wants something.
    found = [
        (2 * bool(n and _POINTS.search(span)) + bool(_WANT.search(span)), span)
        for n, span in enumerate(cut)
        if span
    ]
    ranked = [span for _, span in sorted(found, key=lambda pair: pair[0])]
    facts = [span for lacks, span in found if not lacks]
    together = [" ".join(spans) for spans in (facts,) if 1 < len(spans) <= _TOGETHER]
    whole = letters(seed.hybrid)
    return tuple(s for s in dict.fromkeys([*together, *ranked]) if letters(s) != whole)[:MOST]


def sentences(text: str) -> list[str]:
    """The sentences of a text with the marks they end with."""
    return [part.strip() for part in _END.split(text) if part and part.strip()]


def begins(text: str, place: int) -> bool:
    """Does a sentence begin here, but for words that link it to the one before?"""
    lead = f"{_END.split(text[:place])[-1].strip()} "
    while link := _LINK.match(lead):
        lead = lead[link.end() :]
    return not words(lead)


def ending(text: str, place: int) -> str:
    """What is left of the sentence at a place, without the marks that end it."""
    rest = _END.split(text[place:], maxsplit=1)[0]
    return rest if words(rest) else ""


def situates(sentence: str) -> bool:
    """Does a sentence tell something of the user, and ask for nothing?"""
    text = plain(sentence).strip()
    if _NO_SITUATION.search(text) or len(words(text)) < _FEWEST:
        return False
    if not (_OPENING.match(text) or _AND_I.match(text)):
        return False
    if ends_open(text) or orders(text):
        return False
    return bool(_ABOUT_SELF.search(text))


def _clean(seed: Seed, known: KnownNames, sentence: str) -> str:
    """The longest beginning of a sentence that may be a statement, as a sentence; or nothing."""
    text = sentence[: 4 * _LONGEST]
    while link := _LINK.match(text):
        text = text[link.end() :]
    if text.lower().startswith("to "):  # what it is for, and then most often a request
        return ""
    for part in _beginnings(text):
        if len(part) > _LONGEST or not situates(part):
            continue
        if not known.finer(part) and not hard_values(seed, part):
            return f"{part[:1].upper()}{part[1:]}."
    return ""


def _beginnings(text: str) -> Iterator[str]:
    """The sentence without its last mark, then its beginnings up to a clause or a phrase."""
    whole = text.rstrip().rstrip(".!…\"'”’)]")
    ends = [found.start() for found in _CUT.finditer(whole)]
    for end in (len(whole), *reversed(ends)):
        part = whole[:end].rstrip(" ,;:-—–(")
        if end == len(whole) or stands(part, whole[end:]):
            yield part
