from __future__ import annotations

from typing import Any

from support import toys

from toolloom.agents import query
from toolloom.schemas import Intention, Need, Reason, Reference, Scenario


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


async def test_what_no_user_would_say_rejects_the_need(working: Any) -> None:
    """Words that hold every value may loop all the same; each answer is kept."""
    async with working(lambda body: "Is it raining in Zürich? " * 2, "query") as (job, _):
        (rejected,) = (await query.run(need(), job)).rejected
    assert rejected.reason is Reason.UNNATURAL_QUERY
    assert len(rejected.raw) == 2


async def test_quotes_around_nothing_are_no_text(working: Any) -> None:
    """An answer of two quotation marks is an unusable one, where no value has to be said too."""
    nothing = need(intent=(Intention(api=toys.api().id, arguments={}),))
    async with working(lambda body: '""', "query") as (job, _):
        (rejected,) = (await query.run(nothing, job)).rejected
    assert rejected.reason is Reason.UNUSABLE_RESPONSE
