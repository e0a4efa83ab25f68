"""Certain checks of instructions at each granularity (ToolPlanner, sections 3.1 and B.3).

A coarser level keeps the statement's words, names every tag of its own level and nothing that only
a finer one knows. Each fault has a reason code and says what to do about it, for the model that
tries again as for people. Nothing here asks a model, and nothing raises for what one wrote.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import TypeAlias

from toolloom.agents.rewriter import RewriteChecks
from toolloom.pipeline.checks.instructions.clauses import stands
from toolloom.pipeline.checks.instructions.inventions import invented, strangers
from toolloom.pipeline.checks.instructions.mentions import NAMING, Known, within
from toolloom.pipeline.checks.instructions.names import parts, places, spoken, spoken_tags, tags_of
from toolloom.pipeline.checks.instructions.statements import (
    begins,
    ending,
    sentences,
    situates,
    statements,
)
from toolloom.pipeline.checks.instructions.values import hard_values, said_values
from toolloom.pipeline.checks.text.words import letters, words
from toolloom.pipeline.checks.wording import odd_request
from toolloom.schemas import Finding, Granularity, Reason, Seed

LONGEST = 2_000  # letters of an instruction
_FEWEST = 2  # words of a request besides the names
_SHOWN = 80  # letters of a text in a detail

Found: TypeAlias = Iterator[tuple[Reason, str]]
Texts: TypeAlias = Mapping[Granularity, str]


@dataclass(frozen=True)
class Draft:
    """A text on trial: at which level, and what the other levels say."""

    seed: Seed
    level: Granularity
    text: str
    others: Texts

    @cached_property
    def known(self) -> Known:
        return Known.of(self.seed)

    @cached_property
    def request(self) -> str:
        """The text without the statement's words, which are judged at their own level. What is
        taken out leaves room, so that places stay."""
        left = self.text
        for sentence in sentences(self.others.get(Granularity.STATEMENT, "")):
            if spot := _span(sentence, left):
                left = _blank(left, [spot])
        return left


def faults(seed: Seed, level: Granularity, text: str, others: Texts) -> tuple[Finding, ...]:
    """What is wrong with a text at a level. `others`: the texts of other levels, among them the
    statement that a coarser level goes on from. Never raises."""
    draft = Draft(seed, level, text, {k: v for k, v in others.items() if k is not level})
    if len(text) > LONGEST and level is not Granularity.HYBRID:
        detail = f"It has {len(text):,} letters: keep it under {LONGEST:,}."
        return (Finding(check="natural_wording", reason=Reason.UNNATURAL_QUERY, detail=detail),)
    return tuple(
        Finding(check=check.__name__, reason=reason, detail=detail)
        for check in _CHECKS[level]
        for reason, detail in check(draft)
    )


def inspect_levels(seed: Seed, texts: Texts) -> dict[Granularity, tuple[Finding, ...]]:
    """The faults of the instructions of one seed, by level; levels without any are left out."""
    found = {}
    for level, text in texts.items():
        others = {other: words for other, words in texts.items() if other is not level}
        if faulty := faults(seed, level, text, others):
            found[level] = faulty
    return found


# Checks. Each yields reasons, with a sentence that says what to do.


def natural_wording(draft: Draft) -> Found:
    """It is what a user would say."""
    if odd := odd_request(draft.text):
        yield Reason.UNNATURAL_QUERY, f"No user would say this: the text {odd}."
    elif not words(draft.text):
        yield Reason.UNNATURAL_QUERY, "It has no words."


def own_words(draft: Draft) -> Found:
    """The full request is the user's, word by word."""
    if draft.text.strip() != draft.seed.hybrid.strip():
        detail = "The full request must stay as the user made it."
        yield Reason.STATEMENT_NOT_CONTAINED, detail


def contained_statement(draft: Draft) -> Found:
    """Each sentence of a statement stands in the full request word by word, in its order: a whole
    sentence there, or a beginning that can stand alone."""
    start = 0
    for sentence in sentences(draft.text):
        spot = _span(sentence, draft.seed.hybrid, start)
        if spot is None:
            detail = f"«{_short(sentence)}» is not in the full request: take its own words."
            yield Reason.STATEMENT_NOT_CONTAINED, detail
            return
        if not begins(draft.seed.hybrid, spot[0]):
            detail = f"«{_short(sentence)}» begins in the middle of a sentence: take its beginning."
            yield Reason.STATEMENT_NOT_CONTAINED, detail
        rest = ending(draft.seed.hybrid, spot[1])
        if rest and not stands(sentence, rest):
            detail = f"«{_short(sentence)}» stops before its sentence is one: «{_short(rest)}»."
            yield Reason.UNNATURAL_QUERY, detail
        start = spot[1]


def only_situation(draft: Draft) -> Found:
    """A statement tells a situation: it asks for nothing and names nothing that serves it."""
    for sentence in sentences(draft.text):
        if not situates(sentence):
            detail = f"«{_short(sentence)}» asks for something, or tells nothing of the user."
            yield Reason.SAYS_TOO_MUCH, detail
    for name in dict.fromkeys(draft.known.finer(draft.text)):
        yield Reason.SAYS_TOO_MUCH, f"It names «{_short(name)}», which a situation does not."
    for value in hard_values(draft.seed, draft.text):
        yield Reason.SAYS_TOO_MUCH, f"It says «{_short(value)}», a value of the calls."


def kept_statement(draft: Draft) -> Found:
    """The sentences of the statement are kept."""
    statement = draft.others.get(Granularity.STATEMENT)
    if statement is None:
        yield Reason.NO_STATEMENT, "There is no statement that it could go on from."
        return
    for sentence in sentences(statement):
        spot = _span(sentence, draft.text)
        if spot is None or ending(draft.text, spot[1]) or not begins(draft.text, spot[0]):
            detail = f"It must hold the statement's words: «{_short(sentence)}»."
            yield Reason.STATEMENT_NOT_CONTAINED, detail


def named_tags(draft: Draft) -> Found:
    """Each tag of the level is named, as people say it or exactly, and not as a part of another."""
    found = draft.known.named(draft.request, draft.level)
    named = {spoken(tag, draft.level) for tag in found}
    for name in spoken_tags(draft.seed, draft.level):
        if name not in named:
            yield Reason.TAG_NOT_NAMED, f"It must name the {_called(draft.level)} «{_short(name)}»."


def real_request(draft: Draft) -> Found:
    """Besides the names there is something that asks."""
    left = [part.stem for part in parts(draft.request)]
    named = {p.stem for tag in tags_of(draft.seed, draft.level) for p in parts(tag)}
    if sum(stem not in named for stem in left) < _FEWEST:
        yield Reason.UNNATURAL_QUERY, "It lists names and asks for nothing: word a request."


def on_path(draft: Draft) -> Found:
    """It names nothing that its path does not use."""
    leaks = draft.known.leaks(draft.request, draft.level, draft.seed)
    for leak in (each for each in leaks if not each.on_path):
        detail = f"It names «{_short(leak.tag)}», which is not used: leave it out."
        yield Reason.OFF_PATH, detail
    for name in strangers(draft.seed, draft.level, draft.request, draft.known):
        yield Reason.OFF_PATH, f"It names «{_short(name)}», which is not used: leave it out."


def no_finer_level(draft: Draft) -> Found:
    """It names no tag of a finer level, and no value that its statement does not say."""
    leaks = draft.known.leaks(draft.request, draft.level, draft.seed)
    for leak in (each for each in leaks if each.on_path):
        detail = (
            f"It names the {_called(leak.kind)} «{_short(leak.tag)}»: at this level leave it out."
        )
        yield Reason.FINER_LEVEL_NAMED, detail
    told = set(said_values(draft.seed, draft.others.get(Granularity.STATEMENT, "")))
    unnamed = _without_tags(draft)
    for value in said_values(draft.seed, unnamed):
        tags = tags_of(draft.seed, draft.level)
        if value not in told and not within(value, draft.level, tags):
            detail = f"It says «{_short(value)}», a value of the calls: leave it out."
            yield Reason.FINER_LEVEL_NAMED, detail


def nothing_invented(draft: Draft) -> Found:
    """Numbers, quoted words and proper names are those of the full request or of the tags."""
    spots = [(m.start, m.end) for m in draft.known.mentions(draft.request)]
    for thing in invented(draft.seed, draft.level, _blank(draft.request, spots)):
        detail = f"It says «{_short(thing)}», which the full request does not."
        yield Reason.INVENTED_VALUE, detail


def differing_levels(draft: Draft) -> Found:
    """No other level says the same."""
    own = letters(draft.text)
    others = {Granularity.HYBRID: draft.seed.hybrid, **draft.others}
    for level, text in others.items():
        if level is not draft.level and letters(text) == own:
            yield Reason.LEVELS_ALIKE, f"The level {level} says the same."
            return


Check: TypeAlias = Callable[[Draft], Found]
_NAMED: tuple[Check, ...] = (
    natural_wording,
    kept_statement,
    named_tags,
    on_path,
    no_finer_level,
    nothing_invented,
    real_request,
    differing_levels,
)
_CHECKS: dict[Granularity, tuple[Check, ...]] = {
    Granularity.HYBRID: (own_words,),
    Granularity.STATEMENT: (
        natural_wording,
        contained_statement,
        only_situation,
        differing_levels,
    ),
    **dict.fromkeys(NAMING, _NAMED),
}

CHECKS = RewriteChecks(statements=statements, spoken=spoken_tags, faults=faults)


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


def _without_tags(draft: Draft) -> str:
    """The request without the names that its level must say."""
    tags = dict.fromkeys(tags_of(draft.seed, draft.level))
    forms = [form for tag in tags for form in (spoken(tag, draft.level), tag)]
    return _blank(draft.request, [spot for form in forms for spot in places(draft.request, form)])


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
