"""Versions with rows of templates and instructions, and versions that a run added to."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import datasets
import pyarrow.parquet as pq
import pytest
from support import finished_runs, toys

from toolloom.pipeline.dataset.figures import (
    BEFORE_QUERIES,
    InstructionCounts,
    RowCounts,
    split_of_rejected,
)
from toolloom.pipeline.dataset.instructions import is_trained, planning_rows
from toolloom.pipeline.dataset.publish import Published, publish
from toolloom.pipeline.store.version import Version, change, latest
from toolloom.schemas import (
    Extension,
    Granularity,
    PublishError,
    Rating,
    Reason,
    Regeneration,
    Rejected,
    RewritePlan,
    Split,
    SplitPlan,
)

REWRITE = {"rewrite": {"coarse": 0.5}}
GROWN = {"expansions": [finished_runs.expansion()], "instructions": finished_runs.levels()}


def rows_of(published: Published, config: str, split: str = "train") -> list[Any]:
    return list(published.version.rows(config, split))


def whole(tmp_path: Path, **changes: Any) -> Published:
    """A version with two samples and nothing else."""
    samples = [toys.sample(), toys.sample(toys.query(1))]
    return publish(finished_runs.run(tmp_path, toys.recipe(**changes), samples), tmp_path)


def more(tmp_path: Path, before: Published, *made: Any, seed: int = 1, **kinds: Any) -> Published:
    """The version after `before`, with what a run adds."""
    wanted = Extension(version=before.label, content=before.manifest["content"])
    recipe = toys.recipe(seed=seed, extend=wanted.model_dump(), **REWRITE)
    return publish(finished_runs.run(tmp_path, recipe, [toys.sample()], **kinds), tmp_path)


def with_templates(tmp_path: Path) -> Published:
    """A version with a sample and three rows of a template."""
    grown = [finished_runs.expansion()]
    return publish(finished_runs.run(tmp_path, toys.recipe(), [toys.sample()], grown), tmp_path)


def test_rows_of_templates_are_samples_like_any_other(tmp_path: Path) -> None:
    """Each row is in `samples` and `sft` under an id of its own, with its own value in it."""
    made = with_templates(tmp_path)
    ids = ["q0", "q0-x000000", "q0-x000001", "q0-x000002"]
    assert [row["id"] for row in rows_of(made, "samples")] == ids
    assert [row["id"] for row in rows_of(made, "sft")] == ids
    said = [row["messages"][0]["content"] for row in rows_of(made, "sft")]
    cities = finished_runs.CITIES
    assert [next(c for c in cities if c in text) for text in said] == [*cities[:4]]


def counted(made: Published) -> Any:
    """The figures of its samples, counted one by one."""
    return RowCounts.of(s.model_dump(mode="json") for s in made.version.samples()).told()


def told(made: Published) -> Any:
    """Those of `train` in its manifest."""
    return {k: v for k, v in made.manifest["splits"]["train"].items() if k != "runs"}


def test_rows_of_templates_are_counted_as_rows(tmp_path: Path) -> None:
    """Figures of a template's first row, times its rows, are those of all rows one by one."""
    made = with_templates(tmp_path)
    assert told(made) == counted(made)
    [expansion] = made.manifest["expansion"].values()
    assert expansion["rows"] == {"train": 3}
    assert expansion["templates"] == {"mined": 1}


def test_an_expansion_of_another_split_is_an_error(tmp_path: Path) -> None:
    """Rows are not put into a split that their calls do not belong into."""
    wrong = finished_runs.expansion(split=Split.VALIDATION)
    with pytest.raises(PublishError, match="not of the split validation"):
        publish(finished_runs.run(tmp_path, toys.recipe(), [toys.sample()], [wrong]), tmp_path)


def test_instructions_come_with_their_training_rows(tmp_path: Path) -> None:
    """`instructions` has each one, `planning` the rows of those that the share keeps; both load."""
    recipe, made = toys.recipe(**REWRITE), finished_runs.levels()
    found = publish(finished_runs.run(tmp_path, recipe, [toys.sample()], (), made), tmp_path)
    records = [each.model_dump(mode="json") for each in made]
    wanted = [row for each in records if is_trained(each, 0.5) for row in planning_rows(each)]
    ids = [json.loads(row["record"])["id"] for row in rows_of(found, "instructions")]
    assert ids == [each.id for each in made]
    assert rows_of(found, "planning") == wanted
    for config, count in (("instructions", 5), ("planning", len(wanted))):
        cache = str(tmp_path / "hf")
        loaded = datasets.load_dataset(str(found.path), config, split="train", cache_dir=cache)
        assert len(loaded) == count


def test_a_version_of_instructions_alone(tmp_path: Path) -> None:
    """ToolBench's queries need no dialogues: the version is published, loads and has a card."""
    made = finished_runs.levels(source="toolbench", licence="Apache-2.0")
    recipe = toys.recipe(extend=Extension().model_dump(), **REWRITE)
    found = publish(finished_runs.run(tmp_path, recipe, instructions=made), tmp_path)
    assert set(found.manifest["configs"]) == {"instructions", "planning"}
    assert len(eval(found.load_line, {"datasets": datasets})) == 5
    card = (found.path / "README.md").read_text()
    assert "5 instructions at five granularities" in card
    assert "whose dialogues are not in `samples`" in card


def test_a_run_that_made_nothing_for_a_version_is_not_published(tmp_path: Path) -> None:
    """What a version had already is nothing new."""
    with pytest.raises(PublishError, match="accepted nothing"):
        more(tmp_path, whole(tmp_path))


def test_added_rows_stand_after_those_of_the_parent(tmp_path: Path) -> None:
    """Rows added to train make a minor version: the parent's rows first, letter by letter."""
    before = whole(tmp_path)
    after = more(tmp_path, before, **GROWN)
    assert after.label == "toy/1.1.0"
    for config in ("sft", "samples"):
        old, new = (raw(version.version, config) for version in (before, after))
        assert new[: len(old)] == old
        assert len(new) == len(old) + 3
    assert after.manifest["extended"]["rows"]["samples"] == {"train": 3}
    assert after.manifest["splits"]["train"]["runs"] == [*before.manifest["runs"], new_run(after)]
    assert told(after) == counted(after)


def raw(version: Version, config: str) -> list[Any]:
    [path] = version.files(config, "train")
    found: list[Any] = pq.read_table(path, arrow_extensions_enabled=False).to_pylist()
    return found


def new_run(after: Published) -> str:
    return str(after.manifest["extended"]["run"])


def test_what_gets_no_rows_keeps_its_bytes(tmp_path: Path) -> None:
    """Instructions leave dialogues as they were, and their figures."""
    before = whole(tmp_path)
    after = more(tmp_path, before, instructions=finished_runs.levels())
    for name in before.manifest["configs"]["samples"]["train"]["files"]:
        assert (after.path / name).read_bytes() == (before.path / name).read_bytes()
    old, new = (made.manifest["splits"]["train"] for made in (before, after))
    assert {**new, "runs": old["runs"]} == old


def test_instructions_of_two_runs_stand_together(tmp_path: Path) -> None:
    """A second run adds to the first one's, in rows as in figures."""
    first = more(tmp_path, whole(tmp_path), instructions=finished_runs.levels())
    second = more(tmp_path, first, seed=2, instructions=finished_runs.levels("q1"))
    assert second.label == "toy/1.2.0"
    assert len(rows_of(second, "instructions")) == 10
    figures = second.manifest["instructions"]["splits"]["train"]
    assert figures["levels"] == dict.fromkeys([level.value for level in Granularity], 2)


def test_the_same_id_twice_is_an_error(tmp_path: Path) -> None:
    """A version never has two rows of one id."""
    first = more(tmp_path, whole(tmp_path), expansions=[finished_runs.expansion()])
    with pytest.raises(PublishError, match="q0-x000000: is in `samples` of toy/1.1.0 already"):
        more(tmp_path, first, seed=2, expansions=[finished_runs.expansion()])


def test_the_same_run_is_published_once(tmp_path: Path) -> None:
    """Its version is found by its content."""
    before = whole(tmp_path)
    first, again = (more(tmp_path, before, instructions=finished_runs.levels()) for _ in "12")
    assert first.fresh
    assert not again.fresh
    assert first.path == again.path


def test_a_version_that_is_another_by_now_is_not_added_to(tmp_path: Path) -> None:
    """The content that a run began with must be there."""
    before = whole(tmp_path)
    wanted = Extension(version=before.label, content="0" * 64)
    recipe = toys.recipe(seed=1, extend=wanted.model_dump(), **REWRITE)
    run = finished_runs.run(tmp_path, recipe, instructions=finished_runs.levels())
    with pytest.raises(PublishError, match="Add to the version that is there"):
        publish(run, tmp_path)


def test_rejected_instructions_are_in_the_split_they_name(tmp_path: Path) -> None:
    """They have no calls, but say where they would have been; without that they are apart."""
    plan = SplitPlan()
    assert split_of_rejected(plan, {"split": "test_tool", "level": "api"}) == "test_tool"
    assert split_of_rejected(plan, {"split": "", "level": ""}) == BEFORE_QUERIES
    assert split_of_rejected(plan, {"split": ["odd"]}) == BEFORE_QUERIES
    fallen = Rejected(
        id="q7-api",
        stage="rewritten",
        agent="rewriter",
        reason=Reason.OFF_PATH,
        detail="It names what is not used.",
        record={"split": "validation", "seed": {}, "level": "api", "text": "…"},
    )
    after = more(tmp_path, whole(tmp_path), instructions=finished_runs.levels(), rejected=[fallen])
    assert [row["reason"] for row in rows_of(after, "rejected", "validation")] == ["off_path"]
    figures = after.manifest["instructions"]["splits"]["validation"]
    assert figures["rejected"] == {"api": {"off_path": 1}}


def made_anew(tmp_path: Path, before: Published) -> Published:
    """The version after, with another sample in place of those of `train`."""
    anew = Regeneration(version=before.label, content=before.manifest["content"], split=Split.TRAIN)
    recipe = toys.recipe(seed=5, regenerate=anew.model_dump())
    return publish(finished_runs.run(tmp_path, recipe, [toys.sample(toys.query(3))]), tmp_path)


def test_instructions_go_with_the_samples_of_a_split_that_is_made_anew(tmp_path: Path) -> None:
    """Those of ToolBench's queries stay, as no dialogue of theirs was there."""
    foreign = finished_runs.levels("b1", source="toolbench")
    before = more(tmp_path, whole(tmp_path), instructions=[*finished_runs.levels(), *foreign])
    after = made_anew(tmp_path, before)
    assert {row["sample"] for row in rows_of(after, "instructions")} == {"b1"}
    assert {row["id"].partition("-")[0] for row in rows_of(after, "planning")} == {"b1"}
    assert new_run(before) in after.manifest["runs"]
    figures = after.manifest["instructions"]["splits"]["train"]
    assert figures["sources"] == {"toolbench": 5}
    assert after.manifest["instructions"]["example"]["sample"] == "b1"


def test_rows_of_templates_that_go_are_not_told(tmp_path: Path) -> None:
    """A split made anew has none of the rows before it."""
    before = more(tmp_path, whole(tmp_path), expansions=[finished_runs.expansion()])
    expansions = made_anew(tmp_path, before).manifest["expansion"] or {}
    assert sum(sum(each["rows"].values()) for each in expansions.values()) == 0


@pytest.mark.parametrize(
    ("config", "split", "before", "after", "kind"),
    [
        ("instructions", "test_tool", [], ["a"], "minor"),
        ("instructions", "test_tool", ["a"], ["b"], "major"),
        ("instructions", "train", ["a"], ["b"], "minor"),
        ("planning", "test_tool", [], ["a"], "minor"),
        ("samples", "test_tool", ["a"], ["b"], "major"),
        ("rejected", "test_tool", ["a"], ["b"], "patch"),
    ],
)
def test_the_number_tells_what_was_added(
    config: str, split: str, before: list[str], after: list[str], kind: str
) -> None:
    """Tests that change make a major version, what comes new a minor one."""

    def manifest(hashes: list[str]) -> Any:
        files = {f"{n}.parquet": {"sha256": each} for n, each in enumerate(hashes)}
        configs = {config: {split: {"files": files}}} if files else {}
        return {"layout": 2, "plan": {}, "configs": configs}

    assert change(manifest(before), manifest(after)) == kind


def test_ratings_are_told_as_sums() -> None:
    """So that figures of two parts are the sum of the parts'."""
    vote = Rating(plausibility=3, conciseness=2, relevance=3, realness=1)
    rated = finished_runs.instruction(Granularity.TOOL, ratings=(vote, vote))
    one = InstructionCounts()
    one.add(rated.model_dump(mode="json"))
    both = InstructionCounts(one.told()) + one
    assert both.told()["ratings"]["tool"]["votes"] == 4
    assert both.mean("tool", "conciseness") == 2
    assert both.mean("api", "conciseness") is None


def test_the_card_says_that_rows_repeat_their_template(tmp_path: Path) -> None:
    """And shows the five levels of one sample side by side."""
    made = more(tmp_path, whole(tmp_path), **GROWN)
    card = (made.path / "README.md").read_text()
    assert "3 of 5 dialogues are rows of templates" in card
    assert "They repeat their template's words" in card
    assert "| statement | A request at the level statement. |" in card
    assert "It follows version 1.0.0, and has all of its rows" in card
    last = latest(tmp_path / "datasets" / "toy")
    assert last and last.number == "1.1.0"


def test_a_plan_of_instructions_is_in_the_recipe_of_its_run(tmp_path: Path) -> None:
    """Verification makes the training rows again by the share that stands there."""
    made = more(tmp_path, whole(tmp_path), instructions=finished_runs.levels())
    recipe = made.manifest["runs"][new_run(made)]["recipe"]
    assert RewritePlan.model_validate(recipe["rewrite"]).coarse == 0.5
