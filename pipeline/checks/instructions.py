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
from itertools import islice
from typing import Any, NamedTuple, TypeAlias

from toolloom.pipeline.checks.form import odd_request
from toolloom.pipeline.checks.grounding import leaves
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
_METHOD = re.compile(r"(?:get|post|put|patch|delete|head|options)\s+(?=/)", re.IGNORECASE)
_SLOT = re.compile(r"(?:\{([^{}]{1,60})\}|(?<=/):(\w{1,60})|<(\w{1,60})>)(/*\Z)?")
_ASIDE = re.compile(r"[(\[]\s*(?:deprecated|deprecation|beta|alpha|legacy|old|new)\s*[)\]]", re.I)
_NOISE = re.compile(  # versions, long numbers, hashes
    r"v\d{1,3}(?:[._]\d{1,3}){0,2}|\d{5,}|(?=[0-9a-f]*\d)(?=[0-9a-f]*[a-f])[0-9a-f]{8,}", re.I
)
_JOINTS = re.compile(r"[_/:\\]+|(?<!\d)\.+|\.+(?!\d)|(?<![^\W\d_])-|-(?![^\W\d_])")
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
    text = said = _ASIDE.sub(" ", " ".join(shown.split()))[:_LONGEST_TAG]
    brands = kind in (Granularity.TOOL, Granularity.CATEGORY)
    if "/" in text and " " not in _METHOD.sub("", text):  # an address goes by its last slot
        said = _METHOD.sub(lambda m: m[0].lower(), text)
        said = _SLOT.sub(lambda m: f" by {m[1] or m[2] or m[3]}" if m[4] is not None else " ", said)
        brands = False
    found = []
    for word in said.split():
        if not (word[0].isupper() or word[1:2] == "-"):  # API-Ninjas, e-mail
            word = word.replace("-", " ")
        word = _JOINTS.sub(" ", word)
        word = word if brands and word[:1].isupper() else _HUMPS.sub(" ", word)
        found += _DIGITS.sub(r"\1 ", word).translate(_EDGES).split()
    kept = [word for word in found if not _NOISE.fullmatch(word)] or found
    cased = any(word != word.lower() for word in kept)
    for number, word in enumerate(kept):
        if word in _ACRONYMS:
            kept[number] = (
                f"{word[:-1].upper()}s" if word in ("ids", "urls", "apis") else word.upper()
            )
        elif word == word.lower() and (word not in _SMALL or (number == 0 and not cased)):
            kept[number] = word[:1].upper() + word[1:]
    return (
        " ".join(kept)[:LONGEST_NAME].strip() or text[:LONGEST_NAME].strip() or tag[:LONGEST_NAME]
    )


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
_BREAK = re.compile(r"[.!?;:…][\"'”’)\]]*\s|\n")
_NUMBER = re.compile(r"[-+]?[$€£]?\d+(?:[.,]\d+)*%?")
_DATE = re.compile(r"(?:1\d|20)\d\d-(?:0\d|1[0-2])(?:-\d\d)?(?:[T ].*)?")
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
    ends = _BREAK.search(name) is None
    whole = tuple(
        "".join(each) for each in zip(*((p.letters, p.stem) for p in wanted), strict=True)
    )
    found = parts(text)
    for first, part in enumerate(found if wanted else ()):
        joined = ("", "")
        for last in found[first:]:
            joined = (joined[0] + last.letters, joined[1] + last.stem)
            if joined[0] == whole[0] or joined[1] == whole[1]:
                if not (ends and _BREAK.search(text, part.start, last.end)):
                    yield part.start, last.end
                break
            if not any(map(str.startswith, whole, joined)):
                break


def _weight(name: str) -> frozenset[str]:
    """The stems of a name that tell it from plain words."""
    return frozenset(p.stem for p in parts(name) if p.letters not in STOP) - _GENERIC


def says(text: str, value: str) -> bool:
    """Does a text say a value: word for word, or as another form of the number or the date?"""
    known = value.strip()[:_LONGEST_VALUE]
    found = words(known)
    if found and all(word.folded in STOP for word in found):
        return False
    if exact(known, text):
        return True
    if _NUMBER.fullmatch(known):
        wanted = {q.value for q in quantities(known)} - {0, 1}  # «one of my friends»
        return not wanted.isdisjoint(q.value for q in quantities(text))
    return bool(_DATE.fullmatch(known) and dates(text, dt.date(2024, 1, 1)))  # no present is known


# Statements. Which one tells the situation best is the model's to say.

_END = re.compile(r"(?<![A-Z][a-z]\.)(?<!\b[A-Za-z]\.)(?<=[.!?…])[\"'”’)\]]*\s+|\n+")
_LINK = re.compile(
    r"(?:(?:also|additionally|besides|furthermore|moreover|so|and|but|plus|well|hi|hello|hey|now"
    r"|first|second|secondly|finally|lastly|then|next|in addition)\b(?: there)?[,!]?\s+)+",
    re.IGNORECASE,
)
_SELF = re.compile(r"\b(?:i|i'm|i'd|i've|i'll|we|we're|we'd|we've|we'll|my|our|me|us)\b", re.I)
_WANT = re.compile(r"\b(?:need|want|like|love|wish|hope|interested|looking for)\b", re.IGNORECASE)
_VERBS = (
    "(?:add|book|buy|call|cancel|check|compare|convert|create|find|get|give|help|include|list|look"
    "|make sure|open|order|pay|play|provide|recommend|return|run|search|send|set|show|suggest|take"
    "|tell|track|translate|use|write)"
)
_ASKS = re.compile(
    r"\?|\b(?:please|thanks?)\b|\b(?:can|could|would|will|do|did|may|might|should) (?:you|i|we)\b"
    rf"|\b(?:let|{_VERBS}) (?:me|us)\b|\byou (?:to|can|could|should|must)\b|[{{}}<>\[\]|]"
    # An order: at the beginning, or set off by a mark or a word.
    rf"|(?:\A|[,;:]|\b(?:and|so|but|then))\s*(?:(?:also|then|just)\s+)*{_VERBS}\s+"
    r"(?:an?|the|my|our|it|them|this|that|these|those|all|any|some|if|for|up|\d+)\b",
    re.IGNORECASE,
)
MOST = 12  # statements that are offered
_FEWEST, _TOGETHER = 4, 4  # words of a sentence; sentences that make one statement


def sentences(text: str) -> list[str]:
    """The sentences of a text with the marks they end with."""
    return [part.strip() for part in _END.split(text) if part and part.strip()]


def _own(sentence: str) -> str:
    """A sentence without the words that link it to the one before."""
    link = _LINK.match(sentence)
    return sentence[link.end() :] if link else sentence


def situates(sentence: str) -> bool:
    """Does a sentence tell something of the user, and ask for nothing?"""
    text = plain(sentence).strip()
    if len(words(text)) < _FEWEST or not text.rstrip("\"')]").endswith((".", "!", "…")):
        return False
    return bool(_SELF.search(text)) and not _ASKS.search(text)


def statements(seed: Seed) -> tuple[str, ...]:
    """What of the full request may be its statement, what the user does or has before what they
    want; none if it tells nothing of them. Each is one sentence or several."""
    own = [f"{own[:1].upper()}{own[1:]}" for own in map(_own, sentences(seed.hybrid))]
    found = [each for each in own if situates(each) and not any(_too_precise(seed, each))]
    facts = [each for each in found if not _WANT.search(each)]
    together = [" ".join(facts)] if 1 < len(facts) <= _TOGETHER else []
    whole = letters(seed.hybrid)
    unique = dict.fromkeys([*together, *facts, *found])
    return tuple(each for each in unique if letters(each) != whole)[:MOST]


def _too_precise(seed: Seed, sentence: str) -> Iterator[str]:
    """Names and values in a sentence that belong to no situation: of tools, of calls."""
    for kind, tag, form, _ in _names(seed):
        if kind is not Granularity.CATEGORY and any(_mentions(sentence, form)):
            yield tag
    for value in seed.values[:_MOST_VALUES]:
        # No plain words, as a place or a person is, but a number, a date or a code.
        code = any(not (c.isalpha() or c in " '’.-") for c in value) or value.isupper()
        if code and says(sentence, value):
            yield value


# Checks. Each fault is a reason with a sentence that says what to do.

Told: TypeAlias = tuple[str, Reason, str]  # the check, and what it found
_ASSISTANT = re.compile(
    r"\b(?:help|assist) you\b|\byour (?:request|question|situation)\b|\bas an (?:ai|assistant)\b"
    r"|\b(?:i can|i will|i'll|let me) (?:help|assist)\b",
    re.IGNORECASE,
)
_MARKED = re.compile(  # quoted words, names as programs write them, figures
    r"\"([^\"\n]{1,200})\"|[“«]([^”»\n]{1,200})[”»]|(?<!\w)'([^'\n]{1,200})'(?!\w)"
    r"|(?<![\w/])(?:\w+_\w+|[a-z]{2,}[A-Z]\w*|/?\w+(?:/[\w{}:-]+){2,}|/[^\W\d]\w+)"
    r"|(?<![\w.,])[$€£#]?\w*\d[\w.,:/%-]*\w|\d+"
)
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


def _key(sentence: str) -> list[str]:
    """What makes two sentences one: their words, however they are linked and marked."""
    return [word.folded for word in words(_own(sentence))]


def _of_statement(seed: Seed, text: str) -> Iterator[Told]:
    """Sentences of the full request, word by word and in its order, that tell a situation, ask for
    nothing and name nothing that serves it."""
    whole = map(_key, sentences(seed.hybrid))
    for sentence in sentences(text):
        if _key(sentence) not in whole:  # from where the last one was found
            detail = f"«{_short(sentence)}» is no sentence of the full request: take its own words."
            yield "contained_statement", Reason.STATEMENT_NOT_CONTAINED, detail
            return
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
    statement = statement or ""
    rest = sentences(text.removeprefix(statement))
    for sentence in [] if text.startswith(statement) else sentences(statement):
        same = [each for each in rest if _key(each) == _key(sentence)]
        if not same:
            detail = f"It must hold the statement's words: «{_short(sentence)}»."
            yield "kept_statement", Reason.STATEMENT_NOT_CONTAINED, detail
        else:
            rest.remove(same[0])
    left = others = "\n".join(rest)  # without all names, and without those of others alone
    own = tags_of(seed, level)
    mentioned = []
    for kind, tag, form, on_path in _names(seed):
        if tag in own:
            left = _blank(left, places(left, form))
        elif spots := list(_mentions(left, form)):
            left, others = _blank(left, spots), _blank(others, spots)
            mentioned.append((kind, tag, on_path))
    for name in spoken_tags(seed, level):
        forms = [name, *(tag for tag in own if spoken(tag, level) == name)]
        if not any(any(places(others, form)) for form in forms):
            what = "API" if level is Granularity.API else level.value
            detail = f"It must name the {what} «{_short(name)}»."
            yield "named_tags", Reason.TAG_NOT_NAMED, detail
    for kind, tag, on_path in dict.fromkeys(mentioned):
        if _is_part(spoken(tag, kind), own):
            continue
        if not on_path:
            detail = f"It names «{_short(tag)}», which is not used: leave it out."
            yield "on_path", Reason.OFF_PATH, detail
        elif NAMING.index(kind) > NAMING.index(level):
            detail = f"It names «{_short(tag)}»: at this level leave it out."
            yield "no_finer_level", Reason.FINER_LEVEL_NAMED, detail
    for value in seed.values[:_MOST_VALUES]:
        if says(left, value) and not says(statement, value) and not _is_part(value, own):
            detail = f"It says «{_short(value)}», a value of the calls: leave it out."
            yield "no_finer_level", Reason.FINER_LEVEL_NAMED, detail
    for thing in invented(seed, level, left):
        detail = f"It says «{_short(thing)}», which the full request does not."
        yield "nothing_invented", Reason.INVENTED_VALUE, detail
    if not _weight(left) - _EMPTY:
        detail = "It names its tags and asks for nothing: word a request."
        yield "real_request", Reason.UNNATURAL_QUERY, detail


def _names(seed: Seed) -> list[tuple[Granularity, str, str, bool]]:
    """The names around a seed as (kind, tag, form, whether on its path), the longest first: as
    said, as written, as called."""
    path = [(s.category, s.tool, s.api, s.function) for s in seed.steps]
    pool = [(a.category, a.tool, a.name, a.function) for a in seed.pool]
    found: dict[tuple[Granularity, str, str], bool] = {}
    for on_path, rows in ((True, path), (False, pool)):
        for category, tool, api, function in rows:
            for kind, tag in zip(NAMING, (category, tool, api), strict=True):
                for form in (spoken(tag, kind), tag):
                    found.setdefault((kind, tag, form), on_path)
            found.setdefault((Granularity.API, api, function), on_path)
    names = ((*key, on_path) for key, on_path in found.items())
    return sorted(names, key=lambda n: (-len(letters(n[2])), not n[3], NAMING.index(n[0])))


def _mentions(text: str, name: str) -> Iterator[tuple[int, int]]:
    """Where a text says a name that cannot be chance: one of several words of weight, or one that
    is written as programs do."""
    weighs = len(_weight(name)) > 1
    for start, end in places(text, name):
        if weighs or re.search(r"[_/]|[a-z][A-Z]", text[start:end]):
            yield start, end


def _is_part(name: str, own: Iterable[str]) -> bool:
    """Are the words of a name all words of one of the level's tags? It says nothing more then: the
    tool Weather of the category Weather, or Get Hotels of the tool Hotels."""
    said = _weight(name) or frozenset(part.stem for part in parts(name))
    return any(said <= {part.stem for part in parts(tag)} for tag in own)


def invented(seed: Seed, level: Granularity, text: str) -> list[str]:
    """Figures, quoted words, identifiers and proper names that neither the full request nor the
    level's tags hold. `text`: the request without the statement and the tags."""
    told = " ".join([seed.hybrid, *tags_of(seed, level)])
    known = _COMMON | {word.folded for word in words(told)} | {part.letters for part in parts(told)}
    amounts = {q.value for q in quantities(seed.hybrid)}
    found = []
    for match in _MARKED.finditer(text):
        thing = (match[1] or match[2] or match[3] or match[0]).strip()
        if any(match.groups()) or not any(map(str.isdigit, thing)):
            is_told = letters(thing) in letters(told)
        else:
            figure = thing.strip("$€£#%")
            is_amount = figure[0] in "123456789" and {q.value for q in quantities(figure)} & amounts
            is_told = bool(is_amount) or exact(figure, told)
        found += [] if is_told else [thing]
    for sentence in _BREAK.split(text):
        for number, word in enumerate(words(sentence)):
            inner = any(letter.isupper() for letter in word.raw[1:])
            if (inner or (word.capital and number)) and word.folded not in known:
                found += [word.raw] if stem(word.folded) not in _GENERIC else []
    return list(dict.fromkeys(found))


def _blank(text: str, spots: Iterable[tuple[int, int]]) -> str:
    """The text with spaces in these places."""
    left = list(text)
    for start, end in spots:
        left[start:end] = " " * (end - start)
    return "".join(left)


def _short(text: str) -> str:
    flat = " ".join(text.split())
    return flat if len(flat) <= _SHOWN else f"{flat[: _SHOWN - 1]}…"
