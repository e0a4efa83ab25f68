"""Facts that are told in other words than a result has: a table by somebody who read no check."""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import yaml

from toolloom.pipeline.checks.replies import Evidence, unfounded
from toolloom.pipeline.checks.world.outcome import tells

TABLE = yaml.safe_load(Path(__file__).with_name("phrasings.yaml").read_text("utf-8"))
NOW = "2026-05-12T10:00"


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
    room, now = {"title": "room"}, dt.datetime.fromisoformat(NOW)
    assert not tells("You have the Garden Queen.", "Harbor Queen", room, now)
    assert tells("It is allowed.", True, {"title": "allowed"}, now)
    assert not tells("I can't change the amount.", 0, {"title": "amount"}, now)


def test_what_follows_from_two_results_is_founded() -> None:
    """Their sum, their difference, and how many of them."""
    for entry in (e for e in TABLE if "results" in e and e["told"]):
        numbers = entry["results"]
        rows = tuple({"amount": number} for number in numbers)
        values = (*numbers, len(numbers))
        evidence = Evidence((), values, (), dt.datetime.fromisoformat(NOW), rows=rows)
        found = [c for c in unfounded(entry["reply"], evidence, names=False) if c.kind == "number"]
        assert found == [], entry["reply"]
    evidence = Evidence(
        (), (55, 40), (), dt.datetime.fromisoformat(NOW), rows=({"a": 55}, {"a": 40})
    )
    assert [c.text for c in unfounded("That leaves £25.", evidence)] == ["25"]
    assert [c.text for c in unfounded("It costs £15.", evidence)] == ["15"]
