from __future__ import annotations

from typing import Any

import pytest
from support import toys

from toolloom.agents import query
from toolloom.schemas import Intention, JsonObject, Need, Reason, Reference, Scenario


def need(**changes: Any) -> Need:
    asked = toys.query(0, **changes)
    return Need(**{name: getattr(asked, name) for name in Need.model_fields})


async def test_a_missing_value_is_asked_for_once_more(working: Any) -> None:
    """The second ask names the value that the words lack; quotes around them are no part of them."""
    said = ["Is it raining?", '"Is it raining in Zürich?"']
    async with working(said, "query") as (job, server):
        outcome = await query.run(need(), job)
    assert outcome.accepted[0].text == "Is it raining in Zürich?"
    assert "does not say city = Zürich" in server.bodies[1]["messages"][-1]["content"]


async def test_a_withheld_value_must_not_be_given_away(working: Any) -> None:
    """What the user is to leave out stays out of the words, and out of the prompt."""
    said = ["Is it raining in Zürich?", "Is it raining?"]
    hiding = need(scenario=Scenario.CLARIFICATION, withheld=("city",))
    async with working(said, "query") as (job, server):
        (asked,) = (await query.run(hiding, job)).accepted
    assert asked.text == "Is it raining?"
    prompt = server.bodies[0]["messages"][-1]["content"]
    assert "They forget to say: city" in prompt
    assert "Zürich" not in prompt


def test_values_of_later_turns_and_calls_are_not_told_yet() -> None:
    """Only the first turn is asked for; an argument that a call finds out is named as unknown."""
    later = Intention(api=toys.api().id, turn=1, arguments={"city": "Basel"})
    second = Intention(
        api=toys.api(name="forecast").id,
        arguments={},
        references={"city": Reference(call=0, field="nearest_city")},
    )
    asked = query.question(need(intent=(*toys.query().intent, second, later)))
    text = asked.messages[-1]["content"]
    assert "Zürich" in text and "Basel" not in text
    assert "an earlier step finds it out: city" in text


@pytest.mark.parametrize(
    ("values", "said", "reason"),
    [
        ({"city": "Zürich"}, "Is it raining in Zürich? " * 2, Reason.UNNATURAL_QUERY),
        ({}, '""', Reason.UNUSABLE_RESPONSE),
    ],
    ids=["words that hold every value may loop all the same", "quotes around nothing"],
)
async def test_what_no_user_would_say_rejects_the_need(
    working: Any, values: JsonObject, said: str, reason: Reason
) -> None:
    """Each answer is kept."""
    asked = need(intent=(Intention(api=toys.api().id, arguments=values),))
    async with working(lambda body: said, "query") as (job, _):
        (rejected,) = (await query.run(asked, job)).rejected
    assert (rejected.reason, len(rejected.raw)) == (reason, 2)
