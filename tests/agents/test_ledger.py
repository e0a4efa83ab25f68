"""The ledger: nothing that was answered is lost, and order of arrival does not show."""

from __future__ import annotations

import asyncio

import pytest

from toolloom.agents.ledger import Ledger
from toolloom.llm import Answer, Misfit, Unusable, Usage
from toolloom.schemas import EndpointDown, Reason


async def good(name: str, wait: float = 0) -> Answer[str]:
    await asyncio.sleep(wait)
    return Answer(name, Usage(requests=1), (name,))


async def bad(name: str, wait: float = 0) -> Answer[str]:
    await asyncio.sleep(wait)
    raise Unusable(Reason.UNUSABLE_RESPONSE, name, (name,), Usage(requests=1))


async def down() -> Answer[str]:
    raise EndpointDown("nobody answers")


async def test_values_come_in_the_order_they_were_asked_for() -> None:
    """The slow first answer stays first, and everything is booked."""
    ledger = Ledger()
    assert await ledger.take_all([good("a", 0.02), good("b")]) == ["a", "b"]
    assert ledger.answer(0) == Answer(0, Usage(requests=2), ("a", "b"))


async def test_the_first_asked_is_the_reason_not_the_first_to_fail() -> None:
    """A slow failure before a quick one is the reason; all responses are kept, in order."""
    ledger = Ledger()
    await ledger.take(good("before"))
    with pytest.raises(Unusable, match="slow") as error:
        await ledger.take_all([bad("slow", 0.02), good("fine"), bad("quick")])
    assert error.value.raw == ("before", "slow", "fine", "quick")
    assert error.value.usage.requests == 4


async def test_enough_answers_are_enough() -> None:
    """What cannot be had is left out where the rest will do, but not where nothing is left."""
    ledger = Ledger()
    assert await ledger.take_all([bad("a"), good("b")], enough=1) == ["b"]
    with pytest.raises(Unusable):
        await ledger.take_all([bad("a"), bad("b")], enough=1)


async def test_an_endpoint_that_is_down_stops_the_run() -> None:
    """It never passes for an unusable answer, whatever failed before it."""
    with pytest.raises(EndpointDown):
        await Ledger().take_all([bad("a"), down()], enough=1)


def test_a_misfit_of_the_whole_keeps_what_was_booked() -> None:
    """Sentences that do one by one but not together are rejected with their raw responses."""
    ledger = Ledger(Usage(requests=2), ["a", "b"])
    fault = ledger.fault(Misfit(Reason.UNNATURAL_QUERY, "over and over"))
    assert (fault.reason, fault.raw) == (Reason.UNNATURAL_QUERY, ("a", "b"))
