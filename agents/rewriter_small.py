"""The rewriter's way with a small model: choices, and a few words of its own.

A model of a hundred million parameters cannot name several things and keep silent about others.
It can choose what tells a situation, how a request begins, and say what it is for; the names
between are put there.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable, Iterator, Sequence

from toolloom.agents.likeness import stems
from toolloom.agents.shapes import one, shape
from toolloom.llm import Answer, Misfit, Model, ask
from toolloom.prompts import render
from toolloom.schemas import Granularity, JsonObject, Reason

OPENINGS = ("Can you use", "Could you use", "Please use", "I want to use", "I would like to use")
ASKING = ("Can", "Could")  # with a question mark
OFFERED = 2  # openings to choose from: of all of them a small model would take the same each time
AIM = range(3, 13)  # words of an aim
OTHERS = frozenset({"you", "your", "yours", "yourself"})  # no user speaks of the assistant's needs
VAGUE = frozenset(
    """about all and ani are best better can current find for from get give good great have help
    how inform into just know like look make more need new now our out out plan provid see show some
    tell that thing this tool use want was what when where which will with would you""".split()  # noqa: SIM905 - a table
)


def shaped(seed: int) -> JsonObject:
    """Shape of an answer, with some of the openings."""
    openings = random.Random(seed).sample(OPENINGS, OFFERED)
    aim = {"type": "string", "pattern": "^to( [a-z'-]+)+$"}
    return shape({"opening": {"enum": openings}, "aim": aim})


async def choose(
    model: Model, spans: Sequence[str], read: Callable[[str], str], seed: int
) -> Answer[str]:
    """The span that a model says tells the situation."""
    return await ask(
        model,
        render("rewriter_situation", {"spans": list(spans)}),
        lambda answer: read(answer["situation"]),
        schema=one("situation", {"enum": list(spans)}),
        seed=seed,
        max_tokens=120,
    )


def named(level: Granularity, spoken: Iterable[str]) -> str:
    """What is to be used, as a part of a sentence: «tools for Food and Travel»."""
    *before, last = dict.fromkeys(spoken)
    listed = f"{', '.join(before)} and {last}" if before else last
    return f"tools for {listed}" if level is Granularity.CATEGORY else listed


async def word(
    model: Model,
    level: Granularity,
    statement: str,
    spoken: Sequence[str],
    read: Callable[[str], str],
    seed: int,
) -> Answer[str]:
    """The statement, and a request in which a model chooses the beginning and words the aim."""
    names = named(level, spoken)

    def whole(answer: JsonObject) -> str:
        aim = read_aim(answer["aim"], f"{statement} {names}")
        mark = "?" if answer["opening"].startswith(ASKING) else "."
        return read(f"{statement} {answer['opening']} {names} {aim}{mark}")

    return await ask(
        model,
        render("rewriter_request", {"statement": statement, "names": names}),
        whole,
        schema=shaped(seed),
        seed=seed,
        max_tokens=48,
    )


def read_aim(aim: str, known: str) -> str:
    """What something is to be used for. Raises Misfit if it rambles, speaks of somebody else, or
    shares no word with what is known of the request."""
    words = aim.split()
    if len(words) not in AIM or len(set(words)) < 0.8 * len(words):
        raise Misfit(Reason.UNUSABLE_RESPONSE, f"«{aim[:80]}» is no short aim.")
    if not OTHERS.isdisjoint(words):
        raise Misfit(Reason.UNNATURAL_QUERY, f"«{aim}» is not about the person who speaks.")
    if not set(_telling(aim)) & set(_telling(known)):
        raise Misfit(Reason.OFF_PATH, f"«{aim}» has nothing to do with «{known}»")
    return " ".join(words)


def _telling(text: str) -> Iterator[str]:
    """The stems that tell what a text is about."""
    return (stem for stem in stems(text) if len(stem) > 2 and stem not in VAGUE)
