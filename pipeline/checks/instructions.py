"""Instructions: tags as people say them, statements, and the certain checks of each granularity.

ToolPlanner, sections 3.1, 3.2 and B.3. The statement is whole sentences of the full request, in
which the user tells of their situation. Each level between goes on from the statement, names every
tag of its own and nothing that only a finer one knows. Each fault has a reason code and says what
to do about it, for the model that tries again as for people. Nothing here asks a model, and nothing
raises for what one wrote. Statements are found in English alone.
"""

from __future__ import annotations

import datetime as dt
import re
from collections.abc import Iterable, Iterator, Mapping
from functools import lru_cache
from itertools import chain, islice
from typing import Any, NamedTuple, TypeAlias

from toolloom.pipeline.checks.form import odd_request
from toolloom.pipeline.checks.grounding import leaves
from toolloom.pipeline.checks.schema import as_dict, as_strings
from toolloom.pipeline.checks.text.dates import dates
from toolloom.pipeline.checks.text.numbers import SMALL, quantities
from toolloom.pipeline.checks.text.words import STOP, exact, fold, letters, plain, stem, words
from toolloom.schemas import Finding, Granularity, Reason, Seed

NAMING = (Granularity.CATEGORY, Granularity.TOOL, Granularity.API)  # coarse to fine
LONGEST = 2_000  # letters of an instruction
LONGEST_NAME = 120  # letters of a name that are said
_LONGEST_TAG = 4 * LONGEST_NAME  # of a tag that is looked for
_LONGEST_VALUE, _MOST_VALUES = 300, 60  # letters of a value that is looked for; values of a seed
_SHOWN = 80  # letters of a text in a detail

Texts: TypeAlias = Mapping[Granularity, str]


# Tags. They are written for programs (`hotel_details_v2`, `/v4/sports`, `getHotels`), and such
# names make requests that no user would write (section B.3.1).

_ACRONYMS = frozenset(
    """
    ai api apis atp bmi cpi crm csv dns ean eta eu faq fifa gdp gps html http https iata iban id
    ids iex imdb ip isbn json mlb nba ncaa nfl nft nhl ocr pdf pga qr rss seo sha sms sql ssl swot
    tv ufc uk un upc uri url urls usa usd utc vat vin vpn xml
    """.split()  # noqa: SIM905 - a table of words
)
_SMALL = frozenset("a an and at by for from in of on or per the to with".split())  # noqa: SIM905
_METHOD = re.compile(r"(get|post|put|patch|delete|head|options)\s+(?=/)", re.IGNORECASE)
_SLOT = re.compile(r"\{([^{}]{1,60})\}|(?<=/):(\w{1,60})|<(\w{1,60})>")
_ASIDE = re.compile(r"[(\[]\s*(?:deprecated|deprecation|beta|alpha|legacy|old|new)\s*[)\]]", re.I)
_VERSION = re.compile(r"v\d{1,3}(?:[._]\d{1,3}){0,2}", re.IGNORECASE)
_NUMBERED = re.compile(r"\d{5,}|(?=[0-9a-f]*\d)(?=[0-9a-f]*[a-f])[0-9a-f]{8,}", re.IGNORECASE)
_HUMPS = re.compile(r"(?<=[a-z0-9][a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z]{2})")  # but eCommerce
_DIGITS = re.compile(r"(?<![^\W_])(\d+)(?=[A-Z][a-z]|[a-z]{3})")  # 16Day, but not 3rd, and not mp3
_EDGES = str.maketrans(dict.fromkeys('"`{}<>|*#?!;,', " "))


@lru_cache(maxsize=8192)
def spoken(tag: str, kind: Granularity = Granularity.API) -> str:
    """How people say a tag: `hotel_details_v2` is Hotel Details, `GET /pets/{id}` Get Pets by ID.

    Versions, ids and remarks are left out where anything else is left; acronyms and the numbers
    that tell something stay. Names of tools and categories that begin with a capital may be
    brands (YouTube), so they are not taken apart.
    """
    shown = "".join(c if c.isprintable() else " " for c in tag)
    text = _ASIDE.sub(" ", " ".join(shown.split()))[:_LONGEST_TAG]
    brands = kind in (Granularity.TOOL, Granularity.CATEGORY)
    if "/" in text and " " not in _METHOD.sub("", text):
        parts = _of_path(text)
    else:
        cut = (_cut(word, not (brands and word[:1].isupper())) for word in text.split())
        parts = list(chain.from_iterable(cut))
    kept = [p for p in parts if not _VERSION.fullmatch(p) and not _NUMBERED.fullmatch(p)] or parts
    cased = any(part != part.lower() for part in kept)
    said = []
    for number, word in enumerate(kept):
        if word in ("ids", "urls", "apis"):
            word = f"{word[:-1].upper()}s"
        elif word in _ACRONYMS:
            word = word.upper()
        elif word == word.lower() and (word not in _SMALL or (number == 0 and not cased)):
            word = word[:1].upper() + word[1:]
        said.append(word)
    return (
        " ".join(said)[:LONGEST_NAME].strip() or text[:LONGEST_NAME].strip() or tag[:LONGEST_NAME]
    )


def _of_path(text: str) -> list[str]:
    """The words of an address: its method, its steps, and its last slot as what it goes by."""
    method = _METHOD.match(text)
    slots = [next(filter(None, found.groups())) for found in _SLOT.finditer(text)]
    bare = _SLOT.sub(" ", _METHOD.sub("", text))
    steps = [word for step in bare.split("/") for word in _cut(step, apart=True)]
    last = text.rstrip("/ ").rsplit("/", 1)[-1]
    by = ["by", *_cut(slots[-1], apart=True)] if slots and _SLOT.search(f"/{last}") else []
    return [*([method[1].lower()] if method else []), *steps, *by]


def _cut(word: str, apart: bool) -> list[str]:
    """An identifier's words. `apart`: also where its letters change their case."""
    version = _VERSION.fullmatch(word.strip("._-()[]"))
    text = word if version else re.sub(r"[_\-./:\\]+", _between, word)
    text = _HUMPS.sub(" ", text) if apart else text
    return _DIGITS.sub(r"\1 ", text).translate(_EDGES).split()


def _between(found: re.Match[str]) -> str:
    """A space, but decimal points and the hyphens of API-Ninjas and e-mail stay."""
    before, after = found.string[: found.start()], found.string[found.end() :]
    if found[0] == "." and before[-1:].isdigit() and after[:1].isdigit():
        return "."
    hyphened = found[0] == "-" and before[-1:].isalpha() and after[:1].isalpha()
    return "-" if hyphened and (before[0].isupper() or len(before) == 1) else " "


def tags_of(seed: Seed, level: Granularity) -> tuple[str, ...]:
    """A level's tags, one for each call; none for the levels that name none."""
    tags = seed.tags
    return dict(zip(NAMING, (tags.categories, tags.tools, tags.apis), strict=True)).get(level, ())


def spoken_tags(seed: Seed, level: Granularity) -> tuple[str, ...]:
    """The names of a level's tags as people say them, each once, in order."""
    return tuple(dict.fromkeys(spoken(tag, level) for tag in tags_of(seed, level)))


def values_of(calls: Iterable[Any]) -> tuple[str, ...]:
    """The values in the arguments of calls, as text, each once, in order; no flags and nulls."""
    found = (
        leaf[:_LONGEST_VALUE] if isinstance(leaf, str) else str(leaf)
        for given in calls
        if isinstance(given, dict)
        for leaf in leaves(given)
        if leaf is not None and not isinstance(leaf, bool) and str(leaf).strip()
    )
    return tuple(dict.fromkeys(islice(found, 10 * _MOST_VALUES)))[:_MOST_VALUES]


# Where a text says a name or a value

_PART = re.compile(r"(?P<own>['’][sS]\b)|[A-Z]+(?=[A-Z][a-z]{2})|[A-Z]?[a-z]+|[A-Z]+|\d+|[^\W\d_]+")
_BREAK = re.compile(r"[.!?;:…]\s|\n")
_GENERIC = frozenset(
    """
    api check creat data delet fetch find get info inform list look other post put read retriev
    search servic show tool updat
    """.split()  # noqa: SIM905 - a table of stems
)
"""Stems that tell no name from plain words."""


class NamePart(NamedTuple):
    """A word of a text, or of an identifier in it: its letters, its stem, and where it stands."""

    letters: str
    stem: str
    start: int
    end: int


@lru_cache(maxsize=2048)
def parts(text: str) -> tuple[NamePart, ...]:
    """The words of a text; identifiers are taken apart, so that all ways to write a name agree.

    Numbers in words are figures: a sixteen day forecast.
    """
    found = []
    for match in _PART.finditer(text):
        if not match["own"]:
            folded = fold(match[0])
            number = SMALL.get(folded, 0)
            root = str(number) if number > 1 else stem(folded)
            found.append(NamePart(folded, root, *match.span()))
    return tuple(found)


def places(text: str, name: str) -> Iterator[tuple[int, int]]:
    """Where a text says a name: whatever its case, hyphens, plural, or spaces between its words.

    Never over the end of a sentence, but where the name has such a mark itself (St. Moritz).
    """
    wanted = parts(name) if len(name) <= _LONGEST_TAG else ()
    if not wanted:
        return
    stems, joined = [part.stem for part in wanted], "".join(part.letters for part in wanted)
    apart = None if _BREAK.search(name) else _BREAK
    found = parts(text)
    for first, part in enumerate(found):
        end = 0
        if [p.stem for p in found[first : first + len(stems)]] == stems:
            end = found[first + len(stems) - 1].end
        elif joined.startswith(part.letters):  # in one word, or in more («hotelfinder»)
            at = ""
            for last in found[first:]:
                at += last.letters
                if at == joined:
                    end = last.end
                if len(at) >= len(joined) or not joined.startswith(at):
                    break
        if end and not (apart and apart.search(text, part.start, end)):
            yield part.start, end


def _weight(name: str) -> frozenset[str]:
    """The stems of a name that tell it from plain words."""
    return frozenset(p.stem for p in parts(name) if p.letters not in STOP) - _GENERIC


def says(text: str, value: str) -> bool:
    """Does a text say a value: word for word, or as another form of the number or the date?"""
    known = value.strip()[:_LONGEST_VALUE]
    if all(word.folded in STOP for word in words(known)):
        return bool(known) and not words(known) and known in text
    if re.fullmatch(r"[-+]?[$€£]?\d+(?:[.,]\d+)*%?", known):
        wanted = {q.value for q in quantities(known)} - {0, 1}  # «one of my friends»
        return any(q.value in wanted for q in quantities(text)) or exact(known, text)
    if re.fullmatch(
        r"(?:1\d|20)\d\d-(?:0\d|1[0-2])(?:-\d\d)?(?:[T ].*)?", known
    ):  # by any day: no present is known
        return bool(dates(text, dt.date(2024, 1, 1))) or exact(known, text)
    return exact(known, text)


# Statements

_END = re.compile(r"(?<![A-Z][a-z]\.)(?<!\b[A-Za-z]\.)(?<=[.!?…])[\"'”’)\]]*\s+|\n+")
_LINK = re.compile(
    r"(?:also|additionally|besides|furthermore|moreover|so|and|but|plus|well|hi|hello|hey|now"
    r"|first|second|secondly|finally|lastly|then|next|in addition)\b(?: there)?[,!]?\s+",
    re.IGNORECASE,
)
_SELF = re.compile(r"\b(?:i|i'm|i'd|i've|i'll|we|we're|we'd|we've|we'll|my|our|me|us)\b", re.I)
_WANT = re.compile(
    r"\b(?:need|want|like|love|wish|hope|require|looking for|interested|curious|wondering)\b", re.I
)
_POINTS = re.compile(r"\b(?:their|them|they|those|these|it|its|one)\b", re.IGNORECASE)
_VERBS = (
    r"(?:find|get|give|tell|fetch|bring|provide|send|recommend|suggest|remind|notify|inform|convert"
    r"|calculate|compute|compare|translate|retrieve|generate|analy[sz]e|summari[sz]e|determine"
    r"|identify|verify|ensure|make sure|look|turn|sign up|choose|select|explain|describe|extract"
    r"|download|cancel|delete|remove|add|ask|book|buy|call|change|check|create|display|do|estimate"
    r"|help|include|let|list|open|order|pay|pick|play|post|register|rent|report|request|reserve"
    r"|return|run|save|schedule|search|set|share|show|start|stop|take|track|update|use|warn|watch"
    r"|write)"
)
_ASKS = re.compile(
    r"\?|\bplease\b|\b(?:can|could|would|will|do|did|may|might|should) (?:you|i|we)\b"
    rf"|\b(?:let|{_VERBS}|advise|teach|walk) (?:me|us)\b|\byou (?:to|can|could|should|must)\b"
    r"|\bthank(?:s| you)\b|\b(?:i|we) (?:ask|request|demand)\b"
    r"|\b(?:i|we)(?:'d| would) (?:appreciate|be (?:glad|happy))|[{}<>\[\]|]"
    # An order: at the beginning, or set off by a mark or a word.
    rf"|(?:\A|[,;:]|\s-|\b(?:and|so|but|then))\s*(?:(?:also|then|just|now|kindly)\s+)*{_VERBS}"
    r"(?=\s+(?:a|an|the|my|our|me|us|it|its|them|their|his|her|this|that|these|those|all|any|some"
    r"|every|each|both|for|if|whether|what|which|who|how|when|where|up|\d)\b)",
    re.IGNORECASE,
)
MOST = 12  # statements that are offered
_FEWEST, _TOGETHER = 4, 4  # words of a sentence; sentences that make one statement


def sentences(text: str) -> list[str]:
    """The sentences of a text with the marks they end with."""
    return [part.strip() for part in _END.split(text) if part and part.strip()]


def situates(sentence: str) -> bool:
    """Does a sentence tell something of the user, and ask for nothing?"""
    text = plain(sentence).strip()
    if len(words(text)) < _FEWEST or not text.rstrip("\"')]").endswith((".", "!", "…")):
        return False
    return bool(_SELF.search(text)) and not _ASKS.search(text)


def statements(seed: Seed) -> tuple[str, ...]:
    """What of the full request may be its statement, the best first; none if it tells nothing.

    Each is one sentence or several. What the user does or has comes before what they want, and
    before what points at something that was said.
    """
    found = []
    for number, sentence in enumerate(sentences(seed.hybrid)):
        while link := _LINK.match(sentence):
            sentence = sentence[link.end() :]
        if situates(sentence) and not any(_too_precise(seed, sentence)):
            lacks = 2 * bool(number and _POINTS.search(sentence)) + bool(_WANT.search(sentence))
            found.append((lacks, f"{sentence[:1].upper()}{sentence[1:]}"))
    facts = [sentence for lacks, sentence in found if not lacks]
    together = [" ".join(facts)] if 1 < len(facts) <= _TOGETHER else []
    ranked = [sentence for _, sentence in sorted(found, key=lambda pair: pair[0])]
    whole = letters(seed.hybrid)
    return tuple(s for s in dict.fromkeys([*together, *ranked]) if letters(s) != whole)[:MOST]


def _too_precise(seed: Seed, sentence: str) -> Iterator[str]:
    """Names and values in a sentence that belong to no situation: of tools, of calls."""
    for kind, tag, form, _ in _names(seed):
        if kind is not Granularity.CATEGORY and len(_weight(form)) > 1:
            yield from (tag for _ in islice(places(sentence, form), 1))
    path = {step.function for step in seed.steps}
    schemas = [as_dict(s) for a in seed.pool if a.function in path for s in a.properties.values()]
    listed = (
        as_strings(s.get("enum")) for one in schemas for s in (one, as_dict(one.get("items")))
    )
    chosen = {fold(value) for values in listed for value in values}
    for value in seed.values[:_MOST_VALUES]:
        # No plain words, as a place or a person is, but a number, a date or a code.
        code = any(not (c.isalpha() or c in " '’.-") for c in value) or value.isupper()
        if (code or fold(value) in chosen) and says(sentence, value):
            yield value


# Checks. Each fault is a reason with a sentence that says what to do.

Told: TypeAlias = tuple[str, Reason, str]  # the check, and what it found
_ASSISTANT = re.compile(
    r"\b(?:help|assist) you\b|\byour (?:request|question|situation)\b|\bas an (?:ai|assistant)\b"
    r"|\b(?:i can|i will|i'll|let me) (?:help|assist)\b",
    re.IGNORECASE,
)
_QUOTED = re.compile(
    r"\"([^\"\n]{1,200})\"|[“«]([^”»\n]{1,200})[”»]|(?<!\w)'([^'\n]{1,200})'(?!\w)"
)
_FIGURE = re.compile(r"(?<![\w.,])[$€£#]?\w*\d[\w.,:/%-]*\w|\d+")
_IDENTIFIER = re.compile(r"(?<![\w/])(?:\w+_\w+|[a-z]{2,}[A-Z]\w*|/?\w+(?:/[\w{}:-]+){2,}|/\w{2,})")
_STARTS = re.compile(r"(?:\A|[.!?…:\n])[\s\"'“‘«(*-]*\Z")
# Words that name nothing, capital or not.
_COMMON = frozenset(
    """
    i i'm i'd i've i'll api apis tool tools category categories ai id ids ok okay tv url urls faq
    asap fyi pdf app apps hi hello thanks thank mr mrs ms dr vs dj diy
    """.split()  # noqa: SIM905 - a table of words
)
# Stems that ask for nothing by themselves: «Could you tell me what Shopping is?»
_EMPTY = _COMMON | frozenset("explain help know mean tell thing tool use want".split())  # noqa: SIM905


def inspect_level(seed: Seed, level: Granularity, text: str, others: Texts) -> tuple[Finding, ...]:
    """What is wrong with a text at a level. `others`: the texts of other levels, among them the
    statement that a coarser level goes on from. Never raises."""
    beside = {Granularity.HYBRID: seed.hybrid, **others}
    beside.pop(level, None)
    if level is Granularity.HYBRID:
        detail = "The full request must stay as the user made it."
        is_own = text.strip() == seed.hybrid.strip()
        told = [] if is_own else [("own_words", Reason.STATEMENT_NOT_CONTAINED, detail)]
    elif len(text) > LONGEST:
        detail = f"It has {len(text):,} letters: keep it under {LONGEST:,}."
        told = [("natural_wording", Reason.UNNATURAL_QUERY, detail)]
    else:
        told = [*_unnatural(text, beside.get(Granularity.STATEMENT, ""))]
        if level is Granularity.STATEMENT:
            told += _of_statement(seed, text)
        else:
            told += _of_named_level(seed, level, text, beside.get(Granularity.STATEMENT))
        if alike := [one for one in beside if letters(beside[one]) == letters(text)]:
            detail = f"The level {alike[0]} says the same."
            told.append(("differing_levels", Reason.LEVELS_ALIKE, detail))
    return tuple(Finding(check=check, reason=why, detail=detail) for check, why, detail in told)


def inspect_levels(seed: Seed, texts: Texts) -> dict[Granularity, tuple[Finding, ...]]:
    """The faults of the instructions of one seed, by level; levels without any are left out."""
    findings = {level: inspect_level(seed, level, text, texts) for level, text in texts.items()}
    return {level: faults for level, faults in findings.items() if faults}


def _unnatural(text: str, statement: str) -> Iterator[Told]:
    """It is what a user would say, as a whole and after the statement."""
    check = "natural_wording"
    if odd := odd_request(text) or odd_request(text.removeprefix(statement)):
        yield check, Reason.UNNATURAL_QUERY, f"No user would say this: the text {odd}."
    elif not words(text):
        yield check, Reason.UNNATURAL_QUERY, "It has no words."
    elif found := _ASSISTANT.search(plain(text)):
        detail = f"«{found[0]}» is what an assistant says: word what the person says."
        yield check, Reason.UNNATURAL_QUERY, detail


def _of_statement(seed: Seed, text: str) -> Iterator[Told]:
    """Sentences of the full request, word by word and in its order, that tell a situation, ask for
    nothing and name nothing that serves it."""
    start = 0
    for sentence in sentences(text):
        spot = _span(sentence, seed.hybrid, start)
        if spot is None or not _is_whole(seed.hybrid, spot):
            detail = f"«{_short(sentence)}» is no sentence of the full request: take its own words."
            yield "contained_statement", Reason.STATEMENT_NOT_CONTAINED, detail
            return
        start = spot[1]
        if not situates(sentence):
            detail = f"«{_short(sentence)}» asks for something, or tells nothing of the user."
            yield "only_situation", Reason.SAYS_TOO_MUCH, detail
    for name in dict.fromkeys(_too_precise(seed, text)):
        detail = f"It says «{_short(name)}», which belongs to no situation."
        yield "only_situation", Reason.SAYS_TOO_MUCH, detail


def _of_named_level(
    seed: Seed, level: Granularity, text: str, statement: str | None
) -> Iterator[Told]:
    """The statement kept, each tag named, nothing finer and nothing invented."""
    if statement is None:
        detail = "There is no statement that it could go on from."
        yield "kept_statement", Reason.NO_STATEMENT, detail
    request = text  # without the statement's words; what is taken out leaves room
    for sentence in sentences(statement or ""):
        spot = _span(sentence, text)
        if spot is None or not _is_whole(text, spot):
            detail = f"It must hold the statement's words: «{_short(sentence)}»."
            yield "kept_statement", Reason.STATEMENT_NOT_CONTAINED, detail
        else:
            request = _blank(request, [spot])
    own, spots = tags_of(seed, level), list[tuple[int, int]]()
    mentioned = _mentions(seed, request)
    for name in spoken_tags(seed, level):
        forms = [name, *(tag for tag in own if spoken(tag, level) == name)]
        said = [spot for form in forms for spot in places(request, form)]
        longer = [(m.start, m.end) for m in mentioned if m.tag not in own]
        if all(any(a <= x and y <= b and (a, b) != (x, y) for a, b in longer) for x, y in said):
            kind = "API" if level is Granularity.API else level.value
            detail = f"It must name the {kind} «{_short(name)}»."
            yield "named_tags", Reason.TAG_NOT_NAMED, detail
        spots += said
    limit = NAMING.index(level)
    for one in dict.fromkeys(m[2:] for m in mentioned):
        kind, tag, on_path = one
        if (on_path and NAMING.index(kind) <= limit) or _is_part(spoken(tag, kind), own):
            continue
        if on_path:
            detail = f"It names «{_short(tag)}»: at this level leave it out."
            yield "no_finer_level", Reason.FINER_LEVEL_NAMED, detail
        else:
            detail = f"It names «{_short(tag)}», which is not used: leave it out."
            yield "on_path", Reason.OFF_PATH, detail
    rest = _blank(request, [*spots, *((m.start, m.end) for m in mentioned)])
    for value in seed.values[:_MOST_VALUES]:
        told = says(statement or "", value) or _is_part(value, own)
        if not told and says(_blank(request, spots), value):
            detail = f"It says «{_short(value)}», a value of the calls: leave it out."
            yield "no_finer_level", Reason.FINER_LEVEL_NAMED, detail
    for thing in invented(seed, level, rest):
        detail = f"It says «{_short(thing)}», which the full request does not."
        yield "nothing_invented", Reason.INVENTED_VALUE, detail
    if not _weight(rest) - _EMPTY:
        detail = "It names its tags and asks for nothing: word a request."
        yield "real_request", Reason.UNNATURAL_QUERY, detail


class Mention(NamedTuple):
    """A name of weight that a text says."""

    start: int
    end: int
    kind: Granularity
    tag: str
    on_path: bool


def _names(seed: Seed) -> Iterator[tuple[Granularity, str, str, bool]]:
    """The names around a seed as (kind, tag, form, whether on its path): as said, as written, as
    called."""
    path = [(s.category, s.tool, s.api, s.function) for s in seed.steps]
    pool = [(a.category, a.tool, a.name, a.function) for a in seed.pool]
    found: dict[tuple[Granularity, str, str], bool] = {}
    for rows, on_path in ((path, True), (pool, False)):
        for category, tool, api, function in rows:
            for kind, tag in zip(NAMING, (category, tool, api), strict=True):
                for form in (spoken(tag, kind), tag):
                    found.setdefault((kind, tag, form), on_path)
            found.setdefault((Granularity.API, api, function), on_path)
    yield from ((*key, on_path) for key, on_path in found.items())


def _mentions(seed: Seed, text: str) -> list[Mention]:
    """The names of several words of weight that a text says, or that it writes as programs do: of
    those that overlap the longest, of equal ones the path's own and then the coarsest."""
    found = [
        Mention(start, end, kind, tag, on_path)
        for kind, tag, form, on_path in _names(seed)
        for start, end in places(text, form)
        if len(_weight(form)) > 1 or re.search(r"[_/]|[a-z][A-Z]", text[start:end])
    ]
    found.sort(key=lambda m: (m.start - m.end, not m.on_path, NAMING.index(m.kind), m.start))
    kept: list[Mention] = []
    for each in found:
        if all(each.end <= other.start or other.end <= each.start for other in kept):
            kept.append(each)
    return kept


def _is_part(name: str, own: Iterable[str]) -> bool:
    """Are the words of a name all words of one of the level's tags? It says nothing more then: the
    tool Weather of the category Weather, or Get Hotels of the tool Hotels."""
    said = _weight(name) or frozenset(part.stem for part in parts(name))
    return any(said <= {part.stem for part in parts(tag)} for tag in own)


def invented(seed: Seed, level: Granularity, text: str) -> list[str]:
    """Figures, quoted words, identifiers and proper names that neither the full request nor the
    level's tags hold. `text`: the request without the statement and the tags."""
    own = tags_of(seed, level)
    said = letters(seed.hybrid) + "".join(map(letters, own))
    known = _COMMON | _GENERIC | {word.folded for word in words(seed.hybrid)}
    known |= {part.letters for tag in own for part in parts(tag)}
    found = []
    amounts = {q.value for q in quantities(seed.hybrid)}
    for match in _FIGURE.finditer(text):
        figure = match[0].strip("$€£#%")
        is_amount = figure[:1] in "123456789" and {q.value for q in quantities(figure)} & amounts
        if any(map(str.isdigit, figure)) and not is_amount and not exact(figure, seed.hybrid):
            found.append(match[0])
    quoted = (next(filter(None, m.groups())) for m in _QUOTED.finditer(text))
    marked = [*quoted, *(m[0] for m in _IDENTIFIER.finditer(text))]
    found += [thing.strip() for thing in marked if letters(thing) and letters(thing) not in said]
    for word in words(text):
        before = text[max(0, word.start - 40) : word.start]
        starts = _STARTS.search(before) is not None or not before.strip()
        inner = len(word.raw) > 1 and any(letter.isupper() for letter in word.raw[1:])
        if ((word.capital and not starts) or inner) and word.folded not in known:
            found += [word.raw] if stem(word.folded) not in _GENERIC else []
    return list(dict.fromkeys(found))


def _span(sentence: str, text: str, start: int = 0) -> tuple[int, int] | None:
    """Where the words of a sentence stand together in a text, from a place on."""
    wanted = [word.folded for word in words(sentence)]
    found = [word for word in words(text) if word.start >= start]
    whole, inner = f" {' '.join(w.folded for w in found)} ", f" {' '.join(wanted)} "
    at = whole.find(inner) if wanted else -1
    if at < 0:
        return None
    first = whole.count(" ", 0, at)
    return found[first].start, found[first + len(wanted) - 1].end


def _is_whole(text: str, spot: tuple[int, int]) -> bool:
    """Does a sentence begin here, but for words that link it to the one before, and end there?"""
    lead = f"{_END.split(text[: spot[0]])[-1].strip()} "
    while link := _LINK.match(lead):
        lead = lead[link.end() :]
    return not words(lead) and not words(_END.split(text[spot[1] :], maxsplit=1)[0])


def _blank(text: str, spots: Iterable[tuple[int, int]]) -> str:
    """The text with spaces in these places."""
    left = list(text)
    for start, end in spots:
        left[start:end] = " " * (end - start)
    return "".join(left)


def _short(text: str) -> str:
    flat = " ".join(text.split())
    return flat if len(flat) <= _SHOWN else f"{flat[: _SHOWN - 1]}…"
