"""A toy seed and its levels: what a model says of them, toy checks, what came of them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest

from toolloom.agents import rewriter
from toolloom.schemas import Finding, Granularity, Instruction, Outcome, Reason, Seed, Split, Step

STATEMENT = "We plan a party for the team."
SEED = Seed(
    id="train-7-000001",
    split=Split.TRAIN,
    hybrid=f"{STATEMENT} Get the forecast for Miami and the drink with the id 45.",
    steps=(
        Step(category="Data", tool="weather_v2", api="days_5", function="weather_days_5"),
        Step(category="Food", tool="bar", api="drink_by_id", function="bar_drink_by_id"),
    ),
    values=("Miami", "45"),
)
SPOKEN = {
    Granularity.CATEGORY: ("Data", "Food"),
    Granularity.TOOL: ("Weather", "Bar"),
    Granularity.API: ("Five Days", "Drink By Id"),
}
KINDS = {"Categories": "category", "Tools": "tool", "Operations": "api"}


def spoken(seed: Seed, level: Granularity) -> tuple[str, ...]:
    return SPOKEN.get(level, ())


def faults(
    seed: Seed, level: Granularity, text: str, others: Mapping[Granularity, str]
) -> tuple[Finding, ...]:
    """Toy checks: names are said, values are not, texts differ."""
    unsaid = [n for n in spoken(seed, level) if n not in text]
    leaked = [v for v in seed.values if v in text and level is not Granularity.HYBRID]
    alike = [o for o, said in others.items() if said == text]
    found = (
        (Reason.TAG_NOT_NAMED, unsaid),
        (Reason.INVENTED_VALUE, leaked),
        (Reason.LEVELS_ALIKE, alike),
    )
    return tuple(Finding(check="toy", reason=r, detail=f"Look at {w}.") for r, w in found if w)


def checked_by(
    monkeypatch: pytest.MonkeyPatch,
    statements: Any = lambda seed: (STATEMENT, "We plan a party."),
    spoken: Any = spoken,
    faults: Any = faults,
) -> None:
    """Have the rewriter's texts judged by toy checks: the real ones have tests of their own."""
    monkeypatch.setattr(rewriter, "statements", statements)
    monkeypatch.setattr(rewriter, "spoken_tags", spoken)
    monkeypatch.setattr(rewriter, "inspect_level", faults)


def level_of(body: Any) -> str:
    """What a prompt asks for: a level, `statement` or `rating`."""
    system = body["messages"][0]["content"]
    if system.startswith("You finish"):
        questions = [m["content"] for m in body["messages"] if "Exact tags:" in m["content"]]
        return KINDS[questions[-1].splitlines()[1].split()[0].strip(":")]
    return "rating" if system.startswith("You rate") else "statement"


GOOD: dict[str, Any] = {
    "statement": {"situation": 1},
    "category": "Please look into Data and Food for me.",
    "tool": "Can you use Weather and Bar to help me?",
    "api": "Please use Five Days and Drink By Id.",
    "rating": {
        "explanation": "Fine.",
        "plausibility": 3,
        "conciseness": 2,
        "relevance": 3,
        "realness": 3,
    },
}


def says(**changes: Any) -> Any:
    """A script of good answers but for those given: an answer, or a list of them in turn."""
    said = {**GOOD, **changes}

    def script(body: Any) -> Any:
        answer = said[level_of(body)]
        return answer.pop(0) if isinstance(answer, list) else answer

    return script


def made(outcome: Outcome) -> dict[str, Instruction]:
    """Accepted instructions by level."""
    found = [i for i in outcome.accepted if isinstance(i, Instruction)]
    return {i.level: i for i in found}


def lost(outcome: Outcome) -> dict[str, Reason]:
    """Reasons of the rejected levels."""
    return {r.record["level"]: r.reason for r in outcome.rejected}
