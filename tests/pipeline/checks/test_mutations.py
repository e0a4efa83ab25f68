"""Each kind of defect, planted into every good dialogue that can have it, is found.

A mutation yields a spoilt dialogue where it applies and nothing elsewhere. `PLANTED` names the
reason under which each kind must be found.
"""

from __future__ import annotations

import pytest
from support.mutations import Mutation, answers, calls

from toolloom.pipeline.checks import inspect
from toolloom.schemas import Dialogue, Reason

PLANTED: list[tuple[Mutation, set[Reason]]] = [*calls.PLANTED, *answers.PLANTED]


@pytest.mark.parametrize(("mutate", "expected"), PLANTED, ids=[m.__name__ for m, _ in PLANTED])
def test_a_planted_defect_is_found_wherever_it_applies(
    mutate: Mutation, expected: set[Reason], all_good: list[Dialogue]
) -> None:
    """Every planted defect is found under its reason, in at least three dialogues."""
    spoilt = [(good.id, bad) for good in all_good for bad in mutate(good)]
    judged = [(name, inspect(bad)) for name, bad in spoilt]
    assert [(n, found) for n, found in judged if not expected & {f.reason for f in found}] == []
    assert len({name for name, _ in spoilt}) >= 3
