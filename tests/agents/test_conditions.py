"""Conditions that a model gives for a script."""

from __future__ import annotations

from typing import Any

import pytest
from support import lending

from toolloom.agents.ask import NoUsableAnswer
from toolloom.agents.conditions import conditions

SCRIPT = "- name: renewal\n"


async def test_it_is_shown_the_script_and_what_it_may_name(working: Any) -> None:
    """The tables with their fields, the names and the script; each answer once, in order."""
    given = {"conditions": ["size(r1) = 1", "  size(r1)  = 1 ", "", "loan_1.renewals > 0"]}
    async with working([given], "query") as (job, server):
        answer = await conditions(lending.world().spec, ["loan_1", "r1"], SCRIPT, job)
    assert answer.value == ("size(r1) = 1", "loan_1.renewals > 0")
    asked = server.bodies[0]["messages"][-1]["content"]
    assert "Names: loan_1, r1" in asked and SCRIPT.strip() in asked
    assert "loans: loan_id, member_id, book_id, since, due, renewals" in asked


async def test_what_is_no_list_of_texts_is_no_answer(working: Any) -> None:
    """After one chance to mend it."""
    async with working([{"conditions": [1]}, {"needs": []}], "query") as (job, server):
        with pytest.raises(NoUsableAnswer):
            await conditions(lending.world().spec, ["r1"], SCRIPT, job)
    assert server.answered == 2
