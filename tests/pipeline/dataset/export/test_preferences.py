"""Preference pairs of planted defects."""

from __future__ import annotations

from random import Random
from typing import Any

import pytest
from support.shop import changed

from toolloom.pipeline.checks import inspect
from toolloom.pipeline.formats.base import NotRepresentable
from toolloom.pipeline.formats.preferences import DEFECTS, Turn, _dialogue, trl_dpo
from toolloom.schemas import Sample

KINDS = ["single", "parallel", "clarification", "recovery", "search", "multi_turn"]


def test_a_pair_is_a_call_and_the_same_turn_spoilt(samples: dict[str, Sample]) -> None:
    """TRL's preference columns, with the tools and the defect that was planted."""
    system = "You call APIs. The present moment is Monday 2026-03-02 09:30."
    function = {"name": "current_weather", "arguments": {"city": "Zürich"}}
    call = {"id": "call_0", "type": "function", "function": function}
    assert trl_dpo(samples["single"], "object").rows[0][1] | {"tools": "…"} == {
        "prompt": [
            {"role": "system", "content": system},
            {"role": "user", "content": "What is the weather in Zürich?"},
        ],
        "chosen": [{"role": "assistant", "content": "", "tool_calls": [call]}],
        "rejected": [{"role": "assistant", "content": "It is 7 degrees in Zürich."}],
        "tools": "…",
        "defect": "no_call",
        "reason": "no_api_call",
    }


@pytest.mark.parametrize("kind", KINDS)
def test_every_calling_turn_has_a_pair_that_the_checks_tell_apart(
    kind: str, samples: dict[str, Sample]
) -> None:
    """The accepted dialogue has no finding; with the rejected turn it has the pair's own."""
    sample = samples[kind]
    assert inspect(sample.dialogue) == ()
    made = trl_dpo(sample, "object").rows
    assert len(made) == sum(bool(m.tool_calls) for m in sample.dialogue.messages)
    assert all(row["chosen"] != row["rejected"] for _, row in made)


@pytest.mark.parametrize("defect", DEFECTS, ids=lambda defect: defect.name)
def test_each_defect_is_found_under_its_own_reason(defect: Any, samples: dict[str, Sample]) -> None:
    """In at least one sample it applies, and the checks name it."""
    found = []
    for kind in KINDS:
        messages = samples[kind].dialogue.messages
        for place, message in enumerate(messages):
            turn = Turn(samples[kind], place)
            spoilt = defect.spoil(turn, Random(1)) if message.tool_calls else None
            if spoilt:
                found += [f.reason for f in inspect(_dialogue(turn, spoilt))]
    if defect.name == "outside_enum":
        assert not found  # no sample gives a value of an enum
    else:
        assert defect.reason in found


def test_nothing_called_makes_no_pair(samples: dict[str, Sample]) -> None:
    """A dialogue without calls is left out, with its reason."""
    with pytest.raises(NotRepresentable, match="nothing is called"):
        trl_dpo(samples["irrelevance"], "object")


def test_pairs_are_the_same_each_time(samples: dict[str, Sample]) -> None:
    """The draw depends on the sample's id alone."""
    again = [trl_dpo(samples[kind], "object") for kind in KINDS]
    assert again == [trl_dpo(samples[kind], "object") for kind in KINDS]
    assert len({row["defect"] for one in again for _, row in one.rows}) > 3


def test_a_parameter_may_have_a_schema_that_is_just_true(samples: dict[str, Sample]) -> None:
    """JSON Schema has `true` for a schema: every defect takes it for one that says nothing."""
    weather, *others = samples["single"].dialogue.query.pool
    loose = weather.model_copy(update={"parameters": {"properties": {"city": True}}})
    sample = changed(samples["single"], pool=(loose, *others))
    for defect in DEFECTS:
        defect.spoil(Turn(sample, 2), Random(1))
