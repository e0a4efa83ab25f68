"""Certain checks of instructions at each granularity (ToolPlanner, sections 3.1 and B.3).

A coarser level keeps the statement's words, names every tag of its own level and nothing that only
a finer one knows. Each fault has a reason code and says what to do about it, for the model that
tries again as for people. Nothing here asks a model, and nothing raises for what one wrote.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import TypeAlias

from toolloom.pipeline.checks.statements import begins, ending, sentences, situates, stands
from toolloom.pipeline.checks.tags import (
    GENERIC,
    NAMING,
    KnownNames,
    hard_values,
    parts,
    places,
    said_values,
    spoken,
    spoken_tags,
    tags_of,
    within,
)
from toolloom.pipeline.checks.text.numbers import quantities
from toolloom.pipeline.checks.text.words import Word, exact, letters, stem, words
from toolloom.pipeline.checks.transcript import Check, Fault
from toolloom.pipeline.checks.wording import odd_request
from toolloom.schemas import Finding, Granularity, Reason, Seed

LONGEST = 2_000  # letters of an instruction
_FEWEST = 2  # words of a request besides the names
_SHOWN = 80  # letters of a text in a detail

Texts: TypeAlias = Mapping[Granularity, str]


@dataclass(frozen=True)
class LevelText:
    """A text on trial: at which level, and what the other levels say."""

    seed: Seed
    level: Granularity
    text: str
    others: Texts

    @cached_property
    def known(self) -> KnownNames:
        return KnownNames.of(self.seed)

    @cached_property
    def request(self) -> str:
        """The text without the statement's words, which are judged at their own level. What is
        taken out leaves room, so that places stay."""
        left = self.text
        for sentence in sentences(self.others.get(Granularity.STATEMENT, "")):
            if spot := _span(sentence, left):
                left = _blank(left, [spot])
        return left


def inspect_level(seed: Seed, level: Granularity, text: str, others: Texts) -> tuple[Finding, ...]:
    """What is wrong with a text at a level. `others`: the texts of other levels, among them the
    statement that a coarser level goes on from. Never raises."""
    draft = LevelText(seed, level, text, {k: v for k, v in others.items() if k is not level})
    if len(text) > LONGEST and level is not Granularity.HYBRID:
        detail = f"It has {len(text):,} letters: keep it under {LONGEST:,}."
        return (Finding(check="natural_wording", reason=Reason.UNNATURAL_QUERY, detail=detail),)
    return tuple(
        Finding(check=check.__name__, reason=reason, detail=detail)
        for check in _CHECKS[level]
        for reason, _, detail in check(draft)
    )


def inspect_levels(seed: Seed, texts: Texts) -> dict[Granularity, tuple[Finding, ...]]:
    """The faults of the instructions of one seed, by level; levels without any are left out."""
    findings = {level: inspect_level(seed, level, text, texts) for level, text in texts.items()}
    return {level: faults for level, faults in findings.items() if faults}


# Checks. Each yields reasons, with a sentence that says what to do.


def natural_wording(draft: LevelText) -> Iterator[Fault]:
    """It is what a user would say."""
    if odd := odd_request(draft.text):
        yield Fault(Reason.UNNATURAL_QUERY, None, f"No user would say this: the text {odd}.")
    elif not words(draft.text):
        yield Fault(Reason.UNNATURAL_QUERY, None, "It has no words.")


def own_words(draft: LevelText) -> Iterator[Fault]:
    """The full request is the user's, word by word."""
    if draft.text.strip() != draft.seed.hybrid.strip():
        detail = "The full request must stay as the user made it."
        yield Fault(Reason.STATEMENT_NOT_CONTAINED, None, detail)


def contained_statement(draft: LevelText) -> Iterator[Fault]:
    """Each sentence of a statement stands in the full request word by word, in its order: a whole
    sentence there, or a beginning that can stand alone."""
    start = 0
    for sentence in sentences(draft.text):
        spot = _span(sentence, draft.seed.hybrid, start)
        if spot is None:
            detail = f"«{_short(sentence)}» is not in the full request: take its own words."
            yield Fault(Reason.STATEMENT_NOT_CONTAINED, None, detail)
            return
        if not begins(draft.seed.hybrid, spot[0]):
            detail = f"«{_short(sentence)}» begins in the middle of a sentence: take its beginning."
            yield Fault(Reason.STATEMENT_NOT_CONTAINED, None, detail)
        rest = ending(draft.seed.hybrid, spot[1])
        if rest and not stands(sentence, rest):
            detail = f"«{_short(sentence)}» stops before its sentence is one: «{_short(rest)}»."
            yield Fault(Reason.UNNATURAL_QUERY, None, detail)
        start = spot[1]


def only_situation(draft: LevelText) -> Iterator[Fault]:
    """A statement tells a situation: it asks for nothing and names nothing that serves it."""
    for sentence in sentences(draft.text):
        if not situates(sentence):
            detail = f"«{_short(sentence)}» asks for something, or tells nothing of the user."
            yield Fault(Reason.SAYS_TOO_MUCH, None, detail)
    for name in dict.fromkeys(draft.known.finer(draft.text)):
        detail = f"It names «{_short(name)}», which a situation does not."
        yield Fault(Reason.SAYS_TOO_MUCH, None, detail)
    for value in hard_values(draft.seed, draft.text):
        yield Fault(Reason.SAYS_TOO_MUCH, None, f"It says «{_short(value)}», a value of the calls.")


def kept_statement(draft: LevelText) -> Iterator[Fault]:
    """The sentences of the statement are kept."""
    statement = draft.others.get(Granularity.STATEMENT)
    if statement is None:
        yield Fault(Reason.NO_STATEMENT, None, "There is no statement that it could go on from.")
        return
    for sentence in sentences(statement):
        spot = _span(sentence, draft.text)
        if spot is None or ending(draft.text, spot[1]) or not begins(draft.text, spot[0]):
            detail = f"It must hold the statement's words: «{_short(sentence)}»."
            yield Fault(Reason.STATEMENT_NOT_CONTAINED, None, detail)


def named_tags(draft: LevelText) -> Iterator[Fault]:
    """Each tag of the level is named, as people say it or exactly, and not as a part of another."""
    found = draft.known.named(draft.request, draft.level)
    named = {spoken(tag, draft.level) for tag in found}
    for name in spoken_tags(draft.seed, draft.level):
        if name not in named:
            detail = f"It must name the {_called(draft.level)} «{_short(name)}»."
            yield Fault(Reason.TAG_NOT_NAMED, None, detail)


def real_request(draft: LevelText) -> Iterator[Fault]:
    """Besides the names there is something that asks."""
    left = [part.stem for part in parts(draft.request)]
    named = {p.stem for tag in tags_of(draft.seed, draft.level) for p in parts(tag)}
    if sum(stem not in named for stem in left) < _FEWEST:
        detail = "It lists names and asks for nothing: word a request."
        yield Fault(Reason.UNNATURAL_QUERY, None, detail)


def on_path(draft: LevelText) -> Iterator[Fault]:
    """It names nothing that its path does not use."""
    leaks = draft.known.leaks(draft.request, draft.level, draft.seed)
    unused = [leak.tag for leak in leaks if not leak.on_path]
    for name in (*unused, *strangers(draft.seed, draft.level, draft.request, draft.known)):
        detail = f"It names «{_short(name)}», which is not used: leave it out."
        yield Fault(Reason.OFF_PATH, None, detail)


def no_finer_level(draft: LevelText) -> Iterator[Fault]:
    """It names no tag of a finer level, and no value that its statement does not say."""
    leaks = draft.known.leaks(draft.request, draft.level, draft.seed)
    for leak in (each for each in leaks if each.on_path):
        detail = (
            f"It names the {_called(leak.kind)} «{_short(leak.tag)}»: at this level leave it out."
        )
        yield Fault(Reason.FINER_LEVEL_NAMED, None, detail)
    told = set(said_values(draft.seed, draft.others.get(Granularity.STATEMENT, "")))
    tags = tags_of(draft.seed, draft.level)
    forms = [form for tag in dict.fromkeys(tags) for form in (spoken(tag, draft.level), tag)]
    # Without the names that the level must say.
    spots = [spot for form in forms for spot in places(draft.request, form)]
    unnamed = _blank(draft.request, spots)
    for value in said_values(draft.seed, unnamed):
        if value not in told and not within(value, draft.level, tags):
            detail = f"It says «{_short(value)}», a value of the calls: leave it out."
            yield Fault(Reason.FINER_LEVEL_NAMED, None, detail)


def nothing_invented(draft: LevelText) -> Iterator[Fault]:
    """Numbers, quoted words and proper names are those of the full request or of the tags."""
    spots = [(m.start, m.end) for m in draft.known.mentions(draft.request)]
    for thing in invented(draft.seed, draft.level, _blank(draft.request, spots)):
        detail = f"It says «{_short(thing)}», which the full request does not."
        yield Fault(Reason.INVENTED_VALUE, None, detail)


def differing_levels(draft: LevelText) -> Iterator[Fault]:
    """No other level says the same."""
    own = letters(draft.text)
    others = {Granularity.HYBRID: draft.seed.hybrid, **draft.others}
    for level, text in others.items():
        if level is not draft.level and letters(text) == own:
            yield Fault(Reason.LEVELS_ALIKE, None, f"The level {level} says the same.")
            return


_NAMED: tuple[Check[LevelText], ...] = (
    natural_wording,
    kept_statement,
    named_tags,
    on_path,
    no_finer_level,
    nothing_invented,
    real_request,
    differing_levels,
)
_CHECKS: dict[Granularity, tuple[Check[LevelText], ...]] = {
    Granularity.HYBRID: (own_words,),
    Granularity.STATEMENT: (natural_wording, contained_statement, only_situation, differing_levels),
    **dict.fromkeys(NAMING, _NAMED),
}


def _span(sentence: str, text: str, start: int = 0) -> tuple[int, int] | None:
    """Where the words of a sentence stand together in a text, from a place on."""
    wanted = [word.folded for word in words(sentence)]
    found = [word for word in words(text) if word.start >= start]
    if not wanted:
        return None
    whole, inner = f" {' '.join(w.folded for w in found)} ", f" {' '.join(wanted)} "
    at = whole.find(inner)
    if at < 0:
        return None
    first = whole.count(" ", 0, at)
    return found[first].start, found[first + len(wanted) - 1].end


def _blank(text: str, spots: Iterable[tuple[int, int]]) -> str:
    """The text with spaces in these places."""
    left = list(text)
    for start, end in spots:
        left[start:end] = " " * (end - start)
    return "".join(left)


def _called(level: Granularity) -> str:
    return "API" if level is Granularity.API else level.value


def _short(text: str) -> str:
    flat = " ".join(text.split())
    return flat if len(flat) <= _SHOWN else f"{flat[: _SHOWN - 1]}…"


_QUOTED = re.compile(
    r"\"([^\"\n]{1,200})\"|[“«]([^”»\n]{1,200})[”»]|(?<!\w)'([^'\n]{1,200})'(?!\w)"
)
_FIGURE = re.compile(r"(?<![\w.,])[$€£#]?\w*\d[\w.,:/%-]*\w|\d+")
_IDENTIFIER = re.compile(r"(?<![\w/])(?:\w+_\w+|[a-z]{2,}[A-Z]\w*|/?\w+(?:/[\w{}:-]+){2,}|/\w{2,})")
_SENTENCE = re.compile(r"(?:\A|[.!?…:\n])[\s\"'“‘«(*-]*\Z")
_CALLED = re.compile(
    r"[\"'”’»`]?\s+(?:apis?|tools?|categor(?:y|ies)|endpoints?|functions?)\b", re.I
)
# Capitals that name nothing.
_COMMON = frozenset(
    """
    i i'm i'd i've i'll api apis tool tools category categories ai id ids ok okay tv url urls faq
    asap fyi pdf app apps hi hello thanks thank mr mrs ms dr vs dj diy
    """.split()  # noqa: SIM905 - a table of words
)


def invented(seed: Seed, level: Granularity, text: str) -> list[str]:
    """Figures, quoted words and proper names that neither the full request nor the level's tags
    hold. `text`: the request without the statement and the tags."""
    known = _words_of(seed, level)
    names = [w for w in _capitals(text) if w.folded not in known and stem(w.folded) not in GENERIC]
    things = [*_figures(seed, text), *_quotes(seed, level, text), *(name.raw for name in names)]
    return list(dict.fromkeys(things))


def _figures(seed: Seed, text: str) -> Iterator[str]:
    known = {q.value for q in quantities(seed.hybrid)}
    for found in _FIGURE.finditer(text):
        figure = found[0].strip("$€£#%")
        if not any(c.isdigit() for c in figure) or exact(figure, seed.hybrid):
            continue
        amounts = quantities(figure) if figure[0] in "123456789" else ()
        if not any(q.value in known for q in amounts):  # but 4200 of «4,200 dollars»
            yield found[0]


def _quotes(seed: Seed, level: Granularity, text: str) -> Iterator[str]:
    known = letters(seed.hybrid) + "".join(map(letters, tags_of(seed, level)))
    for found in _QUOTED.finditer(text):
        quoted = next(filter(None, found.groups()))
        if (wanted := letters(quoted)) and wanted not in known:
            yield quoted.strip()


def _words_of(seed: Seed, level: Granularity) -> frozenset[str]:
    tags = (part.letters for tag in tags_of(seed, level) for part in parts(tag))
    return _COMMON | {word.folded for word in words(seed.hybrid)} | frozenset(tags)


def _capitals(text: str) -> Iterator[Word]:
    """Words with a capital that begin no sentence."""
    for word in words(text):
        before = text[max(0, word.start - 40) : word.start]
        inner = any(letter.isupper() for letter in word.raw[1:])
        starts = _SENTENCE.search(before) is not None or not before.strip()
        if (word.capital and not starts) or (inner and len(word.raw) > 1):
            yield word


def strangers(seed: Seed, level: Granularity, text: str, known: KnownNames) -> list[str]:
    """What is written like an API or called one, and is none of those around the seed."""
    spots = [(m.start, m.end) for m in known.mentions(text)]
    found = [
        m[0]
        for m in _IDENTIFIER.finditer(text)
        if not _covered(m.span(), spots)
        and letters(m[0]) not in letters(seed.hybrid)
        and not letters(m[0]).isdigit()  # 11/10/2025
    ]
    allowed = _words_of(seed, level)
    for word in _capitals(text):
        called = _CALLED.match(text[word.end : word.end + 40])
        if called and word.folded not in allowed and not _covered((word.start, word.end), spots):
            found.append(word.raw)
    return list(dict.fromkeys(found))


def _covered(span: tuple[int, int], spots: list[tuple[int, int]]) -> bool:
    return any(start < span[1] and span[0] < end for start, end in spots)
