"""The worlds that ship: of a size to be learnt, and their scripts meet all that is in them."""

from __future__ import annotations

from pathlib import Path

import pytest

from toolloom.pipeline.checks.world.interpreter import Machine
from toolloom.pipeline.worlds.library import load_scripts, load_world, unmet

WORLDS = Path(__file__).parents[3] / "recipes" / "worlds"
SHIPPED = sorted(path for path in WORLDS.glob("*.yaml") if "scripts" not in path.name)


@pytest.mark.parametrize(
    "file",
    [pytest.param(f, marks=() if f.stem == "shop" else pytest.mark.slow) for f in SHIPPED],
    ids=lambda file: file.stem,
)
def test_scripts_meet_each_operation_and_each_error(file: Path) -> None:
    """In forty dialogues or more, in six voices or more."""
    machine = Machine(load_world(file))
    _, scripts = load_scripts(file, machine)
    assert unmet(machine, scripts) == []
    assert len(scripts) >= 40 and len({script.voice for script in scripts}) >= 6
    assert 3 <= len(machine.entities) <= 6 and 9 <= len(machine.operations) <= 15
    assert len(machine.world["policies"]) >= 2
    choices = [
        kind.get("choices", ()) for e in machine.entities.values() for kind in e.fields.values()
    ]
    assert all(len({*each}) == len(each) for each in choices)


def test_what_no_script_meets_is_named() -> None:
    """An operation by its name, an error with it; one that a script meets is not."""
    file = WORLDS / "shop.yaml"
    machine = Machine(load_world(file))
    scripts = [
        script
        for script in load_scripts(file, machine)[1]
        if all(turn.operation != "delete_alert" and not turn.fails for turn in script.turns)
    ]
    missed = unmet(machine, scripts)
    assert "delete_alert" in missed and "set_alert" not in missed
    assert {"set_alert.in_stock", "set_alert.set_before"} <= set(missed)
