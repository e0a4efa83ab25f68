"""The certain checks as a whole: what is right passes, what is spoilt is found."""

from __future__ import annotations

import pytest
from support.mutations import PLANTED, Mutation

from toolloom.pipeline.checks import inspect
from toolloom.schemas import Ability, Dialogue, Reason, Scenario


def test_a_good_dialogue_has_no_finding(all_good: list[Dialogue]) -> None:
    """What a careful person wrote is not rejected."""
    assert [(good.id, inspect(good)) for good in all_good if inspect(good)] == []


def test_the_good_dialogues_cover_the_vocabulary(all_good: list[Dialogue]) -> None:
    """At least 40 dialogues, with every ability and every scenario that needs no world."""
    assert len(all_good) >= 40
    assert {d.query.ability for d in all_good} == set(Ability)
    assert {d.query.scenario for d in all_good} == {s for s in Scenario if not s.of_worlds}


@pytest.mark.parametrize(("mutate", "expected"), PLANTED, ids=[m.__name__ for m, _ in PLANTED])
def test_a_planted_defect_is_found_wherever_it_applies(
    mutate: Mutation, expected: Reason, all_good: list[Dialogue]
) -> None:
    """Every planted defect is found under its reason, in at least three dialogues."""
    spoilt = [(good.id, bad) for good in all_good for bad in mutate(good)]
    judged = [(name, inspect(bad)) for name, bad in spoilt]
    assert [(n, faults) for n, faults in judged if expected not in {f.reason for f in faults}] == []
    assert len({name for name, _ in spoilt}) >= 3
