from pathlib import Path
from typing import Any

import pytest

from toolloom.pipeline.dataset.report import Counts, StageCount
from toolloom.pipeline.pages.reading import Funnel, funnel
from toolloom.pipeline.store.version import Version
from toolloom.schemas import StoreError, Usage


def stage(name: str, accepted: int, rejected: int = 0, **changes: Any) -> StageCount:
    use = Usage(requests=2, prompt_tokens=10, cached_tokens=5, completion_tokens=3, cost=0.5)
    fields = {"finished": True, "reasons": {}, "use": use, **changes}
    return StageCount(name=name, accepted=accepted, rejected=rejected, **fields)


def counts(*stages: StageCount, **changes: Any) -> Any:
    made = Counts(
        stages=stages,
        abilities={},
        scenarios={},
        categories={},
        apis=0,
        several_turns=0,
        use=Usage(),
        **changes,
    )
    return {"counts": made.model_dump(mode="json")}


def of(*runs: Any) -> Funnel:
    """The funnel of a version that these runs made, the first one first."""
    told = {f"run {number}": run for number, run in [*enumerate(runs)][::-1]}
    return funnel(Version(Path(), {"runs": told}))


def test_runs_are_added_stage_by_stage() -> None:
    """What a run was given, an earlier one did: it counts once."""
    found = of(
        counts(stage("apis", 4), stage("queries", 6, 2), stage("tested", 5, 1)),
        counts(stage("apis", 4, given=True), stage("queries", 3, 1), stage("tested", 2, 1)),
    )
    told = [(step.name, step.accepted, step.rejected) for step in found.steps]
    assert told == [("apis", 4, 0), ("queries", 9, 3), ("tested", 7, 2)]
    assert found.steps[1].share == 0.25
    assert (found.runs, found.most) == (2, 12)
    assert found.use == Usage(
        requests=10, prompt_tokens=50, cached_tokens=25, completion_tokens=15, cost=2.5
    )


def test_a_stage_of_a_later_run_stands_in_its_place() -> None:
    """Before those that follow it, at the end if none does."""
    found = of(
        counts(stage("queries", 1), stage("tested", 1), stage("templates", 1, beside=True)),
        counts(stage("tested", 1, given=True), stage("rewritten", 1, beside=True)),
        counts(stage("queries", 1), stage("dialogues", 1), stage("tested", 1)),
    )
    order = ["queries", "dialogues", "tested", "templates", "rewritten"]
    assert [step.name for step in found.steps] == order


def test_prices_may_be_known_in_part() -> None:
    """A run with prices makes the version priced; models without one are named."""
    found = of(counts(stage("tested", 1)), counts(priced=True, unpriced=("big-model",)))
    assert (found.priced, found.unpriced) == (True, ("big-model",))
    assert not of(counts(stage("tested", 1), unpriced=("free",))).priced


def test_counts_that_cannot_be_read_are_a_mistake_of_the_file() -> None:
    """The message names it."""
    with pytest.raises(StoreError, match=r"manifest\.json: is damaged"):
        of({"counts": {"stages": 3}})


def test_what_later_runs_replaced_is_told() -> None:
    """Stages count all that was ever made; a version whose split was made anew holds less."""
    found = of(
        counts(
            stage("tested", 5, 1),
            stage("expanded", 8, beside=True),
            stage("rewritten", 4, 2, beside=True),
        ),
        counts(stage("tested", 3, 1)),
    )
    assert found.beyond(dialogues=14, instructions=4, rejected=3) == {
        "dialogue": 2,
        "instruction": 0,
        "rejected record": 1,
    }


def test_what_a_growth_began_with_is_not_counted_again() -> None:
    """A run that makes a split anew, or more of it, has its APIs from the version."""
    whole = counts(stage("apis", 18), stage("queries", 30))
    grown = counts(stage("apis", 18), stage("queries", 20))
    found = of(whole, {**grown, "recipe": {"regenerate": {"keep": True}}})
    assert {step.name: step.accepted for step in found.steps} == {"apis": 18, "queries": 50}
