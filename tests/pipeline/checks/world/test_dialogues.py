"""What came of a dialogue in a world: each planted fault is found, and no right path refused."""

from __future__ import annotations

import asyncio
import copy
import datetime as dt
import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeAlias

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support import lending

from toolloom.pipeline.checks import inspect
from toolloom.pipeline.checks.world.interpreter import Machine, state_of
from toolloom.pipeline.checks.world.outcome import observed, outcome
from toolloom.pipeline.worlds.library import load_world
from toolloom.schemas import Dialogue, Reason

LIBRARY = Path(__file__).parents[3] / "support" / "library.yaml"
Raw: TypeAlias = dict[str, Any]
SCRIPTS = ("fines", "renewal", "refused", "both at once", "fines first", "no longer wanted")
SETTLED = st.sampled_from(SCRIPTS)


class Played:
    """Finished dialogues by script, and the machine that they were played on."""

    def __init__(self, folder: Any) -> None:
        self.world = lending.world(*SCRIPTS)
        self.machine = Machine(self.world.spec)
        self.needs = lending.needs(lending.recipe(), [self.world])
        dialogues = asyncio.run(lending.played(self.needs, self.world, folder))
        self.by_script: dict[str, list[Dialogue]] = {}
        for dialogue in dialogues:
            assert dialogue.query.setting
            self.by_script.setdefault(dialogue.query.setting.script, []).append(dialogue)

    def raw(self, script: str, number: int = 0) -> Raw:
        raw: Raw = self.by_script[script][number].model_dump(mode="json")
        return raw

    def reasons(self, raw: Raw, machine: Machine | None = None) -> set[Reason]:
        dialogue = Dialogue.model_validate(raw)
        return {each.reason for each in inspect(dialogue, world=machine or self.machine)}


@pytest.fixture(scope="module")
def played(tmp_path_factory: pytest.TempPathFactory) -> Played:
    return Played(tmp_path_factory.mktemp("played"))


def calls(raw: Raw, name: str = "") -> list[Raw]:
    found = [call["function"] for m in raw["messages"] for call in m.get("tool_calls") or ()]
    return [call for call in found if name in ("", call["name"])]


def again(raw: Raw, machine: Machine) -> Raw:
    """Every result as the world gives it: what is wrong then is wrong with the calls alone."""
    query = raw["query"]
    start = query["setting"]["start"]
    state = state_of(start["tables"], start["me"], start["next"])
    now = query["now"][:16]
    made = {
        call["id"]: call["function"] for m in raw["messages"] for call in m.get("tool_calls") or ()
    }
    for message in raw["messages"]:
        if message["role"] == "tool":
            call = made[message["tool_call_id"]]
            state, response, error = machine.apply(state, call["name"], call["arguments"], now)
            message["content"] = observed(response, error).model_dump_json()
            message["execution"]["failure"] = "tool_error" if error else None
    return raw


def drop(raw: Raw, name: str) -> None:
    """The last call of this name, with its result."""
    place = max(
        n
        for n, m in enumerate(raw["messages"])
        for call in m.get("tool_calls") or ()
        if call["function"]["name"] == name
    )
    del raw["messages"][place : place + 2]


def add(raw: Raw, name: str, arguments: Raw, place: int = -1) -> None:
    """A call with an empty result, before a message."""
    call = {"id": "call_9", "type": "function", "function": {"name": name, "arguments": arguments}}
    result = copy.deepcopy(next(m for m in raw["messages"] if m["role"] == "tool"))
    result |= {"tool_call_id": "call_9", "name": name}
    act = {"role": "assistant", "content": None, "tool_calls": [call]}
    place = place % len(raw["messages"])
    raw["messages"][place:place] = [act, result]


def strangers(raw: Raw, table: str, key: str) -> str:
    """A key of a table that no result of the dialogue shows."""
    seen = json.dumps([m["content"] for m in raw["messages"]])
    rows = raw["query"]["setting"]["start"]["tables"][table]
    return next((name for name in rows if name not in seen and name != key), "NONE-1")


def put(raw: Raw, name: str, argument: str, change: Callable[[Any], Any]) -> None:
    for call in calls(raw, name):
        call["arguments"][argument] = change(call["arguments"][argument])


def other_key(raw: Raw, name: str, argument: str, table: str) -> None:
    put(raw, name, argument, lambda key: strangers(raw, table, key))


def say(raw: Raw, text: str) -> None:
    raw["messages"][-1]["content"] = text


def pay_more(raw: Raw) -> None:
    """A payment that nobody asked for, of one who owes something."""
    start = raw["query"]["setting"]["start"]
    start["tables"]["members"][start["me"]]["fines"] = 3
    add(raw, "pay_fines", {"amount": 0.5})


def less(number: Any) -> Any:
    return number - 0.5


PLANTED: list[tuple[str, Reason, Callable[..., None], tuple[Any, ...]]] = [
    ("renewal", Reason.GOAL_NOT_REACHED, drop, ("renew",)),
    ("fines", Reason.GOAL_NOT_REACHED, drop, ("pay_fines",)),
    ("no longer wanted", Reason.COLLATERAL_CHANGE, pay_more, ()),
    ("renewal", Reason.UNGROUNDED_ARGUMENT, other_key, ("renew", "loan_id", "loans")),
    ("no longer wanted", Reason.GOAL_NOT_REACHED, other_key, ("cancel_hold", "hold_id", "holds")),
    ("refused", Reason.UNGROUNDED_ARGUMENT, put, ("renew", "loan_id", lambda _: "LOA-9999")),
    ("both at once", Reason.GOAL_NOT_REACHED, put, ("place_holds", "book_ids", lambda x: x[:1])),
    ("fines", Reason.GOAL_NOT_REACHED, put, ("pay_fines", "amount", less)),
    ("fines", Reason.COLLATERAL_CHANGE, put, ("pay_fines", "amount", less)),
    ("fines", Reason.UNGROUNDED_ARGUMENT, put, ("pay_fines", "amount", less)),
    ("renewal", Reason.FACT_NOT_TOLD, say, ("That worked.",)),
    ("refused", Reason.FACT_NOT_TOLD, say, ("That is not possible.",)),
]


@pytest.mark.parametrize(("script", "reason", "act", "more"), PLANTED)
def test_a_planted_fault_is_found(
    played: Played, script: str, reason: Reason, act: Callable[..., None], more: tuple[Any, ...]
) -> None:
    """Also where every result is the one that the world gives to the calls as they are now."""
    for number in range(len(played.by_script[script])):
        raw = played.raw(script, number)
        assert not played.reasons(raw)
        act(raw, *more)
        assert reason in played.reasons(again(raw, played.machine))


def test_a_key_that_an_error_tells_is_known(played: Played, tmp_path: Path) -> None:
    """`LOA-7 is blocked by LOA-3` shows both, and what it does not name stays unknown."""
    tells = "is there, like {first(loans as l where l.loan_id != $loan_id).loan_id}."
    text = re.sub(r'else: "(twice|fines|waited): .*"', rf'else: "\1: {tells}"', LIBRARY.read_text())
    (tmp_path / "library.yaml").write_text(text)
    machine = Machine(load_world(tmp_path / "library.yaml"))
    raw = played.raw("refused")
    add(raw, "renew", {"loan_id": "LOA-9999"})
    again(raw, machine)
    assert Reason.UNGROUNDED_ARGUMENT in played.reasons(raw, machine)
    (error,) = (m["content"] for m in raw["messages"] if "is there, like" in (m["content"] or ""))
    (key,) = re.findall(r"like ([A-Z]+-\d+)", error)
    put(raw, "renew", "loan_id", lambda known: key if known == "LOA-9999" else known)
    assert Reason.UNGROUNDED_ARGUMENT not in played.reasons(again(raw, machine), machine)


@given(script=SETTLED, data=st.data())
def test_a_result_that_was_changed_is_found(played: Played, script: str, data: Any) -> None:
    """Whichever value of whichever result; where the row is no longer well formed, that is told."""
    raw = played.raw(script)
    results = [m for m in raw["messages"] if m["role"] == "tool"]
    result = data.draw(st.sampled_from(results))
    content = json.loads(result["content"])
    places = [(content, "response"), *(inside(content["response"]))]
    holder, key = data.draw(st.sampled_from(places))
    old = holder[key]
    holder[key] = data.draw(st.sampled_from([v for v in (None, 1, "x", [], {}) if v != old]))
    result["content"] = json.dumps(content)
    assert played.reasons(raw)


def inside(value: Any) -> list[tuple[Any, Any]]:
    pairs = list(value.items() if isinstance(value, dict) else enumerate(value or ()))
    if isinstance(value, str):
        return []
    return [(value, key) for key, _ in pairs] + [
        deeper for _, inner in pairs if isinstance(inner, dict | list) for deeper in inside(inner)
    ]


def turn_of(raw: Raw, name: str) -> int:
    return next(
        n
        for n, m in enumerate(raw["messages"])
        if any(c["function"]["name"] == name for c in m.get("tool_calls") or ())
    )


def policy(machine: Machine, **changes: Any) -> Machine:
    world = copy.deepcopy(machine.world)
    world["policies"] = [{"says": "So it is.", **changes}]
    return Machine(world)


def test_consent_is_asked_for(played: Played) -> None:
    """Paying after a yes to what was put forward is right; right after the request it is not."""
    machine = policy(played.machine, calls=["pay_fines"], consent=True)
    raw = played.raw("fines")
    assert not played.reasons(raw, machine)
    place = turn_of(raw, "pay_fines")
    earlier = turn_of(raw, "list_loans")
    moved = raw["messages"][place : place + 2]
    del raw["messages"][place : place + 2]
    raw["messages"][earlier:earlier] = moved
    assert Reason.POLICY_BROKEN in played.reasons(again(raw, machine), machine)


def test_what_is_forbidden_breaks_a_policy(played: Played) -> None:
    """The one that the library has: who owes more than 5 renews at the desk."""
    raw = played.raw("renewal")
    start = raw["query"]["setting"]["start"]
    start["tables"]["members"][start["me"]]["fines"] = 6
    dialogue = Dialogue.model_validate(raw)
    (finding,) = inspect(dialogue, world=played.machine)
    assert finding.reason is Reason.POLICY_BROKEN
    assert finding.detail == "renew: Members with fines above 5 renew at the desk."
    assert finding.turn == turn_of(raw, "renew")


def swap_results(raw: Raw, place: int) -> None:
    """Two calls side by side, the other way round."""
    messages = raw["messages"]
    messages[place]["tool_calls"].reverse()
    messages[place + 1], messages[place + 2] = messages[place + 2], messages[place + 1]


def test_independent_calls_may_be_made_in_any_order(played: Played) -> None:
    """Side by side, one after the other, or the other way round; and so may items of a list."""
    raw = played.raw("fines")
    place = turn_of(raw, "list_loans")
    swap_results(raw, place)
    assert not played.reasons(raw)
    first, second = raw["messages"][place]["tool_calls"]
    raw["messages"][place]["tool_calls"] = [first]
    act = {"role": "assistant", "content": None, "tool_calls": [second]}
    raw["messages"].insert(place + 2, act)
    assert not played.reasons(raw)
    both = played.raw("both at once")
    searches = both["messages"][2:6]
    both["messages"][2:6] = [*searches[2:], *searches[:2]]
    put(both, "place_holds", "book_ids", lambda ids: ids[::-1])
    assert not played.reasons(again(both, played.machine))


def test_a_read_more_is_no_fault(played: Played) -> None:
    """It changes nothing, and may well be needed by one who does not know the solution."""
    for script in SCRIPTS:
        raw = played.raw(script)
        add(raw, "list_holds", {}, 2)
        assert not played.reasons(again(raw, played.machine)), script


async def test_a_shortened_result_is_known_by_its_hash(played: Played, tmp_path: Any) -> None:
    """It repeats as it was before it was cut."""
    needs = [n for n in played.needs if n.setting and n.setting.script == "fines"]
    dialogues = await lending.played(needs, played.world, tmp_path, limit=33)
    cut = [
        (dialogue, place)
        for dialogue in dialogues
        for place, message in enumerate(dialogue.messages)
        if message.execution and message.execution.whole_tokens
    ]
    assert cut
    for dialogue, place in cut:
        raw = dialogue.model_dump(mode="json")
        assert Reason.NOT_REPEATABLE not in played.reasons(raw)
        raw["messages"][place]["execution"]["digest"] = "0" * 64
        assert Reason.NOT_REPEATABLE in played.reasons(raw)


def more(text: str) -> Callable[[Raw], None]:
    return lambda raw: say(raw, f"{raw['messages'][-1]['content']} {text}")


def by_another(raw: Raw) -> None:
    """Tell of a member whom nobody named."""
    start = raw["query"]["setting"]["start"]
    seen = json.dumps(raw["messages"])
    names = (row["name"] for row in start["tables"]["members"].values())
    more(f"So says {next(name for name in names if name not in seen)}.")(raw)


def at_three(raw: Raw) -> None:
    """Say again what the user says."""
    raw["messages"][1]["content"] += " I am there on Monday at 3 pm."
    more("See you on Monday at 3 pm.")(raw)


CLAIMS: list[tuple[Callable[[Raw], None], str]] = [
    (at_three, ""),
    (more("That was €2."), "€ is not the world's currency, which is $"),
    (more("A renewal is for 14 weeks."), '"14 weeks" was told in another unit'),
    (more("A renewal is for 14 days."), ""),
    (more("Come on Monday at 3 pm."), 'no result has "on Monday at 3 pm"'),
    (by_another, "and no result shows it"),
]


@pytest.mark.parametrize(("act", "says"), CLAIMS)
def test_a_claim_that_nothing_bears_out_is_found(
    played: Played, act: Callable[[Raw], None], says: str
) -> None:
    """Another currency, unit, moment or row than anybody or any result told."""
    raw = played.raw("fines")
    act(raw)
    found = outcome(Dialogue.model_validate(raw), played.machine)
    details = [fault.detail for fault in found]
    assert bool(details) == bool(says) and any(says in detail for detail in details or [says])


def test_a_time_that_the_user_says_may_be_of_a_day_that_a_result_has(played: Played) -> None:
    """And of no other day."""
    raw = played.raw("renewal")
    raw["messages"][1]["content"] += " I would bring it at 3 pm."
    due = json.loads(raw["messages"][3]["content"])["response"][0]["due"]
    at = dt.date.fromisoformat(due)
    for day, true in ((at, True), (at - dt.timedelta(days=1), False)):
        other = json.loads(json.dumps(raw))
        more(f"Bring it on {day:%B} {day.day} at 3 pm.")(other)
        assert (Reason.UNGROUNDED_ANSWER not in played.reasons(other)) is true


def test_a_lookup_by_a_name_that_nobody_said_is_found(played: Played) -> None:
    """All else that narrows a lookup is the assistant's reading."""
    text = json.dumps(played.raw("renewal"))
    (call,) = calls(json.loads(text), "list_loans")
    raw = json.loads(text.replace(call["arguments"]["title"], "Northanger Abbey"))
    assert not played.reasons(raw)
    raw["messages"][1]["content"] = raw["query"]["text"] = "Renew my novel."
    assert Reason.UNGROUNDED_ARGUMENT in played.reasons(raw)


STATE = {"value": "ready", "said": "ready", "field": "status"}


@pytest.mark.parametrize(
    ("reply", "fact", "told"),
    [
        *(
            (f"You owe {sum_} now.", {"value": 5, "said": "$5"}, sum_ == "$5")
            for sum_ in ("$5", "$50", "$5.50")
        ),
        ("It can be picked up.", STATE, True),
        ("It has been cancelled.", STATE, False),
    ],
)
def test_a_fact_is_told_whole_and_as_it_is(
    played: Played, reply: str, fact: dict[str, Any], told: bool
) -> None:
    """An amount not as the beginning of another, a state in words, but not as another state."""
    raw = played.raw("fines")
    raw["query"]["setting"]["goal"]["facts"] = [fact]
    for message in raw["messages"][5::2]:
        message["content"] = "Yes." if message["role"] == "assistant" else message["content"]
    say(raw, reply)
    found = {fault.reason for fault in outcome(Dialogue.model_validate(raw), played.machine)}
    assert (Reason.FACT_NOT_TOLD not in found) == told


@pytest.mark.parametrize(
    "shown", ["2026-02-30", "2026-02-30T10:00", {"day": "2026-02-30", "at": "10:00"}]
)
def test_a_day_that_no_calendar_has_is_no_moment(played: Played, shown: Any) -> None:
    """A foreign result may say anything; it is told as one that does not repeat."""
    raw = played.raw("renewal")
    raw["messages"][1]["content"] += " I would bring it at 10:00."
    raw["messages"][3]["content"] = json.dumps({"response": [shown], "error": None})
    more("See you on Monday at 10:00.")(raw)
    found = outcome(Dialogue.model_validate(raw), played.machine)
    assert Reason.NOT_REPEATABLE in {fault.reason for fault in found}
