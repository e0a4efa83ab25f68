"""Dialogues that are right pass every certain check."""

from __future__ import annotations

from toolloom.pipeline.checks import inspect
from toolloom.schemas import Ability, Dialogue, Scenario


def test_a_good_dialogue_has_no_finding(good: Dialogue) -> None:
    """What a careful person wrote is not rejected."""
    assert inspect(good) == ()


def test_the_good_dialogues_cover_the_vocabulary(all_good: list[Dialogue]) -> None:
    """At least 40 dialogues, with every ability and every scenario among them."""
    assert len(all_good) >= 40
    assert {d.query.ability for d in all_good} == set(Ability)
    assert {d.query.scenario for d in all_good} == set(Scenario)
