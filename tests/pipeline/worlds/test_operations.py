"""What somebody might want: own rows, rows that go together, values that a person would say."""

from __future__ import annotations

from datetime import date
from pathlib import Path

import pytest

from toolloom.pipeline.checks.world.interpreter import Machine, Row
from toolloom.pipeline.sampling.values import rng_for
from toolloom.pipeline.worlds.library import load_world
from toolloom.pipeline.worlds.operations import ArgumentDrawer
from toolloom.pipeline.worlds.states import draw_state

WORLDS = Path(__file__).parents[3] / "recipes" / "worlds"
NOW = "2026-03-12T10:00"


def drawn(world: str, name: str, count: int = 60) -> tuple[ArgumentDrawer, list[Row]]:
    machine = Machine(load_world(WORLDS / f"{world}.yaml"))
    goals = ArgumentDrawer(machine, draw_state(machine, rng_for(1), NOW), NOW, rng_for(2))
    return goals, [args for args in (goals.draw(name) for _ in range(count)) if args]


def test_rows_are_ones_own_and_go_together() -> None:
    """Nobody names a stranger's order; most products are those of the order that is named."""
    goals, found = drawn("shop", "return_item")
    me = goals.frame.me
    assert me
    tables = goals.frame.tables
    together = 0
    for args in found:
        assert tables["orders"][args["order_id"]]["customer_id"] == me["customer_id"]
        lines = tables["lines"].by("order_id")[args["order_id"]]
        together += any(line["product_id"] == args["product_id"] for line in lines)
        assert 1 <= args["quantity"] <= 6
    assert together > len(found) / 2


def test_meetings_are_on_workdays_ahead_with_everybody_named_once() -> None:
    """At full or half hours, for a usual length, under a title that no meeting has yet."""
    goals, found = drawn("calendar", "create_event")
    titles = {row["title"] for row in goals.frame.tables["events"].values()}
    for args in found:
        assert args["starts"] > NOW[:10]
        assert date.fromisoformat(args["starts"][:10]).weekday() < 5
        assert args["starts"][-2:] in ("00", "30")
        assert args["minutes"] % 15 == 0
        assert args["title"] not in titles
        guests = [guest["person_id"] for guest in args["guests"]]
        assert len(set(guests)) == len(guests)


@pytest.mark.parametrize(
    ("world", "name", "argument"),
    [("clinic", "send_note", "text"), ("calendar", "write_draft", "body")],
)
def test_texts_are_those_that_the_world_writes(world: str, name: str, argument: str) -> None:
    """Examples of the argument's type, or what stands in a row's data, with what belongs to it."""
    goals, found = drawn(world, name)
    kind = goals.machine.operations[name].args[argument]
    rows = [row for e in goals.machine.world["entities"].values() for row in e["data"]]
    written = {*kind.get("examples", ()), *(str(row.get(argument)) for row in rows)}
    texts = {args[argument] for args in found}
    assert texts <= written
    assert len(texts) > 2
    if "subject" in found[0]:
        pairs = {(row.get("subject"), row.get("body")) for row in rows}
        assert all((args["subject"], args["body"]) in pairs for args in found)
