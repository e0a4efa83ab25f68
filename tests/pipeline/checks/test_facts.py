"""Facts that are told in other words than a result has: a table by somebody who read no check."""

from __future__ import annotations

import dataclasses
import datetime as dt
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from toolloom.pipeline.checks.replies import Evidence, unfounded
from toolloom.pipeline.checks.world.outcome import tells

TABLE = yaml.safe_load(Path(__file__).with_name("phrasings.yaml").read_text("utf-8"))
NOW = "2026-05-12T10:00"
MORNING = dt.datetime.fromisoformat(NOW)


def judged() -> Iterator[tuple[Any, bool]]:
    for entry in TABLE:
        if "results" not in entry:
            schema = {"title": entry["field"], "description": entry["about"]}
            now = dt.datetime.fromisoformat(entry.get("now", NOW))
            yield entry, tells(entry["reply"], entry["value"], schema, now)


def test_a_fact_is_told_in_words_of_ones_own() -> None:
    """True, nothing, none and one; money, days and lengths as people say them."""
    wrong = [e["reply"] for e, told in judged() if told != e.get("judged", e["told"])]
    assert wrong == []
    assert sum(told and entry["told"] for entry, told in judged()) >= 40
    room, now = {"title": "room"}, MORNING
    assert not tells("You have the Garden Queen.", "Harbor Queen", room, now)
    assert tells("It is allowed.", True, {"title": "allowed"}, now)
    assert not tells("I can't change the amount.", 0, {"title": "amount"}, now)


def test_what_follows_from_two_results_is_founded() -> None:
    """Their sum, their difference, and how many of them."""
    for entry in (e for e in TABLE if "results" in e and e["told"]):
        numbers = entry["results"]
        rows = tuple({"amount": number} for number in numbers)
        values = (*numbers, len(numbers))
        evidence = Evidence((), values, (), MORNING, rows=rows)
        found = [c for c in unfounded(entry["reply"], evidence, names=False) if c.kind == "number"]
        assert found == [], entry["reply"]
    evidence = Evidence((), (55, 40), (), MORNING, rows=({"a": 55}, {"a": 40}))
    assert [c.text for c in unfounded("That leaves £25.", evidence)] == ["25"]
    assert [c.text for c in unfounded("It costs £15.", evidence)] == ["15"]


def test_what_documentation_adds_and_takes_off_is_founded() -> None:
    """So are so many hours at a price; what none of them comes to is not."""
    rule = "Costs the frame plus $90, or $220 with arms, less $100 on a plan, half price late, 12 lots a share."
    rows, told = (
        ({"price": 129}, {"hourly": 24}, {"from": "2026-05-29", "to": "2026-05-31"}),
        "It's $349, or $249 on a plan. Two hours are $48, two shares 24 lots, three days $72. Half price: $64.50.",
    )
    evidence = Evidence((rule, "for two hours"), (129, 24), (), MORNING, rows=rows, rules=(rule,))
    assert [c.text for c in unfounded(told, evidence, names=False)] == []
    wrong = "It's $350, or $248 on a plan. Two hours are $49, two shares 25 lots, four days $73."
    found = [c.text for c in unfounded(wrong, evidence, names=False)]
    assert found == ["350", "248", "49", "25", "four", "73"]
    evidence = dataclasses.replace(evidence, texts=("2026-06-03",), rows=({"workdays": 1},))
    assert not [*unfounded("Left on Wednesday 3 June, it is ready on Thursday.", evidence, False)]
    assert [*unfounded("Left on Wednesday 3 June, it is ready on Friday.", evidence, False)]
    for end in ("Ready on 0001-01-01.", "Left on 31 December 9999, it is ready on Friday."):
        assert [*unfounded(end, evidence, False)]  # beyond which there is no day


@pytest.mark.parametrize(
    ("reply", "wrong"),
    [
        ("from Tuesday 2 June to Wednesday 10 June", []),
        ("from Tuesday 2 to Wednesday 10 June", []),
        ("moved from June 2 to Wednesday, June 10", []),
        ("from Tuesday 2 June to Tuesday 10 June", ["Tuesday"]),
        ("from Monday 2 to Wednesday 10 June", ["Monday"]),
        ("from 2 to 11 June", ["11 June"]),
        ("from June 2 to 11", ["11"]),
        ("to 4 June, as a half share, again from 10 June 2027; open from 28 May", []),
        ("to 5 June, as a half acre, then from 1 May 2027", ["5 June", "1 May 2027", "a half"]),
    ],
)
def test_both_ends_of_a_range_are_days_of_their_own(reply: str, wrong: list[str]) -> None:
    """Each with the weekday beside it; so are the last of so many days, and what rules lead to."""
    said = "2026-06-02", "2026-06-10", "for three days, and the half share"
    rules = ("It moves on by 12 months, at most 7 days before it ends.",)
    evidence = Evidence(said, (), (), MORNING, rules=rules)
    assert [c.text.rstrip(".") for c in unfounded(f"It runs {reply}.", evidence)] == wrong
