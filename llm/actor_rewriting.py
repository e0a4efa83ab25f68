"""Plays the rewriter, and the tester who rates its texts, from the words of our own prompts."""

from __future__ import annotations

import random
import re

from toolloom.schemas import JsonObject

SLIPS = 0.07  # share of requests that name one thing too few
AIMS = ("to give me some ideas", "to find out what suits me", "to help me with it")
METRICS = ("plausibility", "conciseness", "relevance", "realness")
_NAMES = re.compile(r"^(?:Categories of services|Tools|Operations): (.*)$", re.MULTILINE)


def choose_situation(asked: str, schema: JsonObject, dice: random.Random) -> JsonObject:
    """The first part that is offered."""
    return {"situation": 1 if re.search(r"^1\. ", asked, re.MULTILINE) else 0}


def finish_request(asked: str, schema: JsonObject, dice: random.Random) -> str:
    """A request that names what it is given, now and then without the last of it."""
    found = _NAMES.findall(asked)
    names = found[-1].split("; ") if found else []
    if dice.random() < SLIPS:
        names = names[:-1]
    listed = ", ".join(names[:-1]) + " and " * (len(names) > 1) + "".join(names[-1:])
    return f"Please use {listed or 'anything'} {dice.choice(AIMS)}."


def continue_request(asked: str, schema: JsonObject, dice: random.Random) -> JsonObject:
    """A beginning of those that are offered, and an aim with a word of what was said before."""
    openings = schema.get("properties", {}).get("opening", {}).get("enum") or ["Please use"]
    subject = max(re.findall(r"[a-z]+", asked.partition("\nUse:")[0]), key=len, default="matter")
    return {"opening": dice.choice(openings), "aim": f"to help me with the {subject}"}


def rate(asked: str, schema: JsonObject, dice: random.Random) -> JsonObject:
    """Marks: mostly good, seldom poor."""
    marks = {metric: dice.choices((1, 2, 3), (1, 6, 13))[0] for metric in METRICS}
    return {"explanation": "It reads well, if a little stiff.", **marks}
