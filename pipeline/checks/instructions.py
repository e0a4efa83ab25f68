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
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import lru_cache, partial
from itertools import islice
from statistics import median_low
from textwrap import shorten
from typing import Any, TypeAlias

from toolloom.pipeline.checks.form import odd_request
from toolloom.pipeline.checks.schema import leaves
from toolloom.pipeline.checks.text.quantities import dates, quantities
from toolloom.pipeline.checks.text.words import (
    STOP,
    exact,
    letters,
    listed,
    runs,
    spaced,
    stem,
    words,
)
from toolloom.schemas import Finding, Granularity, Metric, Rating, Reason, Seed

NAMING = (Granularity.CATEGORY, Granularity.TOOL, Granularity.API)  # coarse to fine
LONGEST = 2_000  # letters of an instruction
POOR = 1  # of a metric: a median that is no better rejects
LONGEST_NAME = 120  # letters of a name that are said
_LONGEST_TAG = 4 * LONGEST_NAME  # of a tag that is looked for
_LONGEST_VALUE, _MOST_VALUES = 300, 60  # letters of a value that is looked for; values of a seed
_cut = partial(shorten, width=80, placeholder="…")  # a text in a detail

Texts: TypeAlias = Mapping[Granularity, str]


# Tags. They are written for programs (`hotel_details_v2`, `/v4/sports`, `getHotels`), and such
# names make requests that no user would write (section B.3.1).

_ACRONYMS = listed("acronyms")
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
    is_address = "/" in text and " " not in _METHOD.sub("", text)
    if is_address:  # it goes by its last slot
        said = _METHOD.sub(lambda m: m[0].lower(), text)
        said = _SLOT.sub(lambda m: f" by {m[1] or m[2] or m[3]}" if m[4] is not None else " ", said)
    found = []
    for word in said.split():
        if not (word[0].isupper() or word[1:2] == "-"):  # API-Ninjas, e-mail
            word = word.replace("-", " ")
        word = _JOINTS.sub(" ", word)
        if is_address or kind is Granularity.API or not word[:1].isupper():
            word = _HUMPS.sub(" ", word)
        found += _DIGITS.sub(r"\1 ", word).translate(_EDGES).split()
    kept = [word for word in found if not _NOISE.fullmatch(word)] or found
    cased = any(word != word.lower() for word in kept)
    for number, word in enumerate(kept):
        root, plural = (word, "") if word in _ACRONYMS else (word.removesuffix("s"), "s")
        if root in _ACRONYMS:
            kept[number] = root.upper() + plural
        elif word == word.lower() and (word not in _SMALL or (number == 0 and not cased)):
            kept[number] = word[:1].upper() + word[1:]
    return (" ".join(kept)[:LONGEST_NAME].strip() or text.strip() or tag)[:LONGEST_NAME]


def tags_of(seed: Seed, level: Granularity) -> tuple[str, ...]:
    """A level's tags, one for each call; none for the levels that name none."""
    tags = seed.tags
    return dict(zip(NAMING, (tags.categories, tags.tools, tags.apis), strict=True)).get(level, ())


def spoken_tags(seed: Seed, level: Granularity) -> tuple[str, ...]:
    """The names of a level's tags as people say them, each once, in order."""
    return tuple(dict.fromkeys(spoken(tag, level) for tag in tags_of(seed, level)))


def values_of(calls: Iterable[Any]) -> tuple[str, ...]:
    """The values in the arguments of calls, as text, each once, in order; no flags and nulls."""
    given = leaves([call for call in calls if isinstance(call, dict)])
    told = (str(leaf)[:_LONGEST_VALUE] for leaf in given if not isinstance(leaf, bool | None))
    return tuple(dict.fromkeys(islice(filter(str.strip, told), 10 * _MOST_VALUES)))[:_MOST_VALUES]


# Where a text says a name or a value

_BREAK = re.compile(r"[.!?;:…][\"'”’)\]]*\s|\n")
_NUMBER = re.compile(r"[-+]?[$€£]?\d+(?:[.,]\d+)*%?")
_DATE = re.compile(r"[12]\d{3}-[01]\d(?:-\d\d)?(?:[T ].*)?")
_GENERIC = listed("stems of requests")  # that tell no name from plain words


def places(text: str, name: str) -> Iterator[tuple[int, int]]:
    """Where a text says a name: whatever its case, hyphens, plural, or spaces between its words.

    Never over the end of a sentence, but where the name has such a mark itself (St. Moritz).
    """
    for form in (name, f"{name}s", name.removesuffix("s")) if len(name) <= _LONGEST_TAG else ():
        for start, end in runs(form, text):
            if _BREAK.search(name) or not _BREAK.search(text, start, end):
                yield start, end


def _weight(name: str) -> frozenset[str]:
    """The stems of a name that tell it from plain words."""
    told = (word.folded for word in words(spaced(name)))
    return frozenset(stem(word) for word in told if word not in STOP) - _GENERIC


def says(text: str, value: str) -> bool:
    """Does a text say a value: word for word, or as another form of the number or the date?"""
    known = value.strip()[:_LONGEST_VALUE]
    if words(known) and STOP.issuperset(word.folded for word in words(known)):
        return False
    if exact(known, text):
        return True
    if _NUMBER.fullmatch(known):
        wanted = {q.value for q in quantities(known)} - {0, 1}  # «one of my friends»
        return not wanted.isdisjoint(q.value for q in quantities(text))
    return bool(_DATE.fullmatch(known) and dates(text, dt.date(2024, 1, 1)))  # no present is known


# Statements. Which one tells the situation best is the model's to say.

_END = re.compile(r"(?<![A-Z][a-z]\.)(?<!\b[A-Za-z]\.)(?<=[.!?…])[\"'”’)\]]*\s+|\n+")
_LINK = re.compile(  # to the sentence before
    r"\A(?:(?:also|additionally|besides|furthermore|moreover|so|and|but|plus|well|hi|hello|hey|now"
    r"|first|second|secondly|finally|lastly|then|next|in addition)\b(?: there)?[,!]?\s+)+",
    re.IGNORECASE,
)
_SELF = re.compile(r"\b(?:i|we|my|our|me|us)\b", re.IGNORECASE)
_WANT = re.compile(r"\b(?:need|want|like|love|wish|hope|interested|looking for)\b", re.IGNORECASE)
_VERBS = f"(?:{'|'.join(sorted(listed('verbs of requests')))})"
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


def situates(sentence: str) -> bool:
    """Does a sentence tell something of the user, and ask for nothing?"""
    told = sentence.rstrip("\"'”’)] ").endswith((".", "!", "…")) and len(words(sentence)) >= _FEWEST
    return told and bool(_SELF.search(sentence)) and not _ASKS.search(sentence)


def statements(seed: Seed) -> tuple[str, ...]:
    """What of the full request may be its statement, what the user does or has before what they
    want; none if it tells nothing of them. Each is one sentence or several."""
    unlinked = (_LINK.sub("", sentence) for sentence in sentences(seed.hybrid))
    told = [f"{each[:1].upper()}{each[1:]}" for each in unlinked if situates(each)]
    found = [each for each in told if not any(_too_precise(seed, each))]
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
_MARKED = re.compile(  # quoted, or a name as programs write them
    r"\"([^\"\n]{1,200})\"|[“«]([^”»\n]{1,200})[”»]|(?<!\w)'([^'\n]{1,200})'(?!\w)|(\w+_\w+)"
)
_COMMON = listed("no names in requests")  # capital or not
# Stems that ask for nothing by themselves: «Could you tell me what Shopping is?»
_EMPTY = _COMMON | frozenset("explain help know mean tell thing tool use want".split())  # noqa: SIM905


def inspect_level(seed: Seed, level: Granularity, text: str, others: Texts) -> tuple[Finding, ...]:
    """What is wrong with a text at a level. `others`: the texts of other levels, among them the
    statement that a coarser level goes on from. Never raises."""
    beside = {Granularity.HYBRID: seed.hybrid, **others}
    beside.pop(level, None)
    told = dict.fromkeys(_faults(seed, level, text, beside))
    return tuple(Finding(check=check, reason=why, detail=detail) for check, why, detail in told)


def inspect_levels(seed: Seed, texts: Texts) -> dict[Granularity, tuple[Finding, ...]]:
    """The faults of the instructions of one seed, by level; levels without any are left out."""
    findings = {level: inspect_level(seed, level, text, texts) for level, text in texts.items()}
    return {level: faults for level, faults in findings.items() if faults}


def _faults(seed: Seed, level: Granularity, text: str, beside: Texts) -> Iterator[Told]:
    statement = beside.get(Granularity.STATEMENT)
    if level is Granularity.HYBRID:
        if text.strip() != seed.hybrid.strip():
            detail = "The full request must stay as the user made it."
            yield "own_words", Reason.STATEMENT_NOT_CONTAINED, detail
        return
    if len(text) > LONGEST:
        detail = f"It has {len(text):,} letters: keep it under {LONGEST:,}."
        yield "natural_wording", Reason.UNNATURAL_QUERY, detail
        return
    odd = odd_request(text) or odd_request(text.removeprefix(statement or ""))
    if odd or not words(text):
        detail = f"No user would say this: the text {odd or 'has no words'}."
        yield "natural_wording", Reason.UNNATURAL_QUERY, detail
    if level is Granularity.STATEMENT:
        yield from _of_statement(seed, text)
    else:
        if statement is None:
            detail = "There is no statement that it could go on from."
            yield "kept_statement", Reason.NO_STATEMENT, detail
        yield from _of_named_level(seed, level, text, statement or "")
    if alike := [other for other in beside if letters(beside[other]) == letters(text)]:
        yield "differing_levels", Reason.LEVELS_ALIKE, f"The level {alike[0]} says the same."


def _key(sentence: str) -> str:
    """What makes two sentences one: their letters, however they are linked and marked."""
    return letters(_LINK.sub("", sentence))


def _of_statement(seed: Seed, text: str) -> Iterator[Told]:
    """Sentences of the full request, word by word and in its order, that tell a situation, ask for
    nothing and name nothing that serves it."""
    whole = map(_key, sentences(seed.hybrid))
    for sentence in sentences(text):
        if _key(sentence) not in whole:  # from where the last one was found
            detail = f"«{_cut(sentence)}» is no sentence of the full request: take its own words."
            yield "contained_statement", Reason.STATEMENT_NOT_CONTAINED, detail
            return
        if not situates(sentence):
            detail = f"«{_cut(sentence)}» asks for something, or tells nothing of the user."
            yield "only_situation", Reason.SAYS_TOO_MUCH, detail
    for name in _too_precise(seed, text):
        detail = f"It says «{_cut(name)}», which belongs to no situation."
        yield "only_situation", Reason.SAYS_TOO_MUCH, detail


def _of_named_level(seed: Seed, level: Granularity, text: str, statement: str) -> Iterator[Told]:
    """The statement kept, each tag named, nothing finer and nothing invented."""
    rest = sentences(text.removeprefix(statement))
    for sentence in [] if text.startswith(statement) else sentences(statement):
        same = [each for each in rest if _key(each) == _key(sentence)]
        if not same:
            detail = f"It must hold the statement's words: «{_cut(sentence)}»."
            yield "kept_statement", Reason.STATEMENT_NOT_CONTAINED, detail
        else:
            rest.remove(same[0])
    left = others = "\n".join(rest)  # without all names; without those of others
    own = tags_of(seed, level)
    for kind, tag, form, on_path in _names(seed):
        if tag in own:
            left = _blank(left, places(left, form))
        elif spots := list(_mentions(left, form)):
            left, others = _blank(left, spots), _blank(others, spots)
            if _is_part(spoken(tag, kind), own):
                continue
            if not on_path:
                detail = f"It names «{_cut(tag)}», which is not used: leave it out."
                yield "on_path", Reason.OFF_PATH, detail
            elif NAMING.index(kind) > NAMING.index(level):
                detail = f"It names «{_cut(tag)}»: at this level leave it out."
                yield "no_finer_level", Reason.FINER_LEVEL_NAMED, detail
    for name in spoken_tags(seed, level):
        forms = [name, *(tag for tag in own if spoken(tag, level) == name)]
        if not any(any(places(others, form)) for form in forms):
            what = "API" if level is Granularity.API else level.value
            yield "named_tags", Reason.TAG_NOT_NAMED, f"It must name the {what} «{_cut(name)}»."
    for value in seed.values[:_MOST_VALUES]:
        if says(left, value) and not says(statement, value) and not _is_part(value, own):
            detail = f"It says «{_cut(value)}», a value of the calls: leave it out."
            yield "no_finer_level", Reason.FINER_LEVEL_NAMED, detail
    for thing in invented(seed, level, left):
        detail = f"It says «{_cut(thing)}», which the full request does not."
        yield "nothing_invented", Reason.INVENTED_VALUE, detail
    if not _weight(left) - _EMPTY:
        detail = "It names its tags and asks for nothing: word a request."
        yield "real_request", Reason.UNNATURAL_QUERY, detail


def _names(seed: Seed) -> list[tuple[Granularity, str, str, bool]]:
    """The names around a seed as (kind, tag, form, whether on its path), the longest first: as
    said, as written, as called."""
    rows = [(s.category, s.tool, s.api, s.function, True) for s in seed.steps]
    rows += [(a.category, a.tool, a.name, a.function, False) for a in seed.pool]
    found: dict[tuple[Granularity, str, str], bool] = {}
    for category, tool, api, function, on_path in rows:
        for kind, tag in zip(NAMING, (category, tool, api), strict=True):
            for form in (spoken(tag, kind), tag, function if kind is Granularity.API else tag):
                found.setdefault((kind, tag, form), on_path)
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
    return any(_weight(name) <= _weight(tag) for tag in own)


def invented(seed: Seed, level: Granularity, text: str) -> list[str]:
    """Figures, quoted words, identifiers and proper names that neither the full request nor the
    level's tags hold. `text`: the request without the statement and the tags."""
    told = " ".join([seed.hybrid, *tags_of(seed, level)])
    known = {word.folded for word in words(f"{told} {spaced(told)}")}
    amounts = {q.value for q in quantities(seed.hybrid)}
    marked = ["".join(filter(None, found)).strip() for found in _MARKED.findall(text)]
    found = [thing for thing in marked if letters(thing) not in letters(told)]
    for sentence in _BREAK.split(text):
        for number, word in enumerate(words(sentence)):
            if word.raw[0].isdigit():  # but 0041 is no amount
                same = {q.value for q in quantities(word.raw)} & amounts
                is_told = bool(same) and word.raw[0] != "0"
            else:
                is_name = any(map(str.isupper, word.raw[1:])) or (word.capital and number)
                is_told = not is_name or word.folded in _COMMON or stem(word.folded) in _GENERIC
            if not is_told and word.folded not in known:
                found.append(word.raw)
    return list(dict.fromkeys(found))


def _blank(text: str, spots: Iterable[tuple[int, int]]) -> str:
    """The text with spaces in these places."""
    left = list(text)
    for start, end in spots:
        left[start:end] = " " * (end - start)
    return "".join(left)


# Ratings: four metrics, 1 to 3 (ToolPlanner, section D.2).


def poorly_rated(ratings: Sequence[Rating]) -> Iterator[Finding]:
    """A finding for each metric whose median is poor, in the words of the poorest vote."""
    for metric in Metric:
        given = [getattr(rating, metric) for rating in ratings]
        if given and median_low(given) <= POOR:
            why = ratings[given.index(min(given))].explanation or "The vote gives no explanation."
            detail = f"{metric}: {', '.join(map(str, given))}. {why}"
            yield Finding(check="rating", reason=Reason.POORLY_RATED, detail=detail)
