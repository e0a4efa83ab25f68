"""Versions as they are made of runs: files, hashes, rows of templates, instructions, additions."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import datasets
import pyarrow.parquet as pq
import pytest
from support import finished_runs, toys
from support.finished_runs import REWRITE, finished_run, more, published

from toolloom.pipeline.dataset.configs import CONFIGS, SFT
from toolloom.pipeline.dataset.figures import (
    BEFORE_QUERIES,
    split_of_rejected,
)
from toolloom.pipeline.dataset.publish import Published, publish
from toolloom.pipeline.run import make_dataset
from toolloom.pipeline.store import version as tables
from toolloom.pipeline.store.version import Config, change
from toolloom.schemas import (
    Extension,
    JsonObject,
    PublishError,
    Reason,
    Regeneration,
    Rejected,
    Sample,
    Split,
    SplitPlan,
)


@pytest.mark.parametrize("config", CONFIGS, ids=lambda config: config.name)
def test_columns_are_known_without_datasets(config: Config) -> None:
    """`types` are those of `schema`, which only `datasets` can tell to the last letter."""
    assert config.columns.types.equals(config.schema)


def load(published: Published, config: str, tmp_path: Path, split: str = "train") -> list[Any]:
    """The rows, loaded as users load them."""
    cache = str(tmp_path / "hf")
    return list(datasets.load_dataset(str(published.path), config, split=split, cache_dir=cache))


async def test_a_run_becomes_a_dataset(tmp_path: Path) -> None:
    """Every config loads offline, with the rows the run counted; the printed line is Python."""
    made = await make_dataset(toys.recipe(), outputs=tmp_path, stages=toys.STAGES)
    assert made.published and len(eval(made.published.load_line, {"datasets": datasets})) == 17
    rows = {c: len(load(made.published, c, tmp_path)) for c in ("sft", "samples", "rejected")}
    assert rows == {"sft": 17, "samples": 17, "rejected": 4}
    [fallen] = load(made.published, "rejected", tmp_path, split="apis")
    assert fallen["stage"] == "domains"


def test_arguments_of_any_type_come_back(tmp_path: Path) -> None:
    """Objects whose types differ from row to row are equal after loading, with no key added."""
    arguments: list[dict[str, Any]] = [
        {"a": 1, "deep": {"b": [1, "x", None, True]}},
        {"a": "one", "c": 1.5, "empty": {}, "text": '{"json": 1}'},
        {"a": None, "ü": "\u2028 \U0001f600", "big": 2**63},
    ]
    samples = [toys.sample(toys.query(i), a) for i, a in enumerate(arguments)]
    rows = load(published(tmp_path, *samples), "sft", tmp_path)
    assert [r["messages"][1]["tool_calls"][0]["function"]["arguments"] for r in rows] == arguments


def test_keys_without_a_value_are_left_out(tmp_path: Path) -> None:
    """A message has only its own keys, as chat templates ask if one is there; and content, if
    an empty one."""
    rows = load(published(tmp_path, toys.sample()), "sft", tmp_path)
    plain, more = {"role", "content"}, ({"tool_calls"}, {"tool_call_id", "name"})
    keys = [set(message) for message in rows[0]["messages"]]
    assert keys == [plain, plain | more[0], plain | more[1], plain]
    assert training_row(toys.sample(answer=""))["messages"][-1]["content"] == ""


def training_row(sample: Sample) -> JsonObject:
    (row,) = SFT.row.of(sample.model_dump(mode="json"))
    return row


@pytest.mark.parametrize("value", [2**70, 1 / 3, -(2**64)])
def test_numbers_that_datasets_cannot_hold_are_only_in_samples(
    tmp_path: Path, value: float
) -> None:
    """A row that would load changed, or break the loading, is left out of training and counted."""
    odd = toys.sample(toys.query(1), {"number": value})
    assert not SFT.columns.hold(SFT.columns.encode(training_row(odd)))
    made = published(tmp_path, toys.sample(), odd)
    assert [row["id"] for row in load(made, "sft", tmp_path)] == ["q0"]
    assert "`sft` leaves out 1 dialogue with numbers that `datasets` cannot hold exactly" in (
        (made.path / "README.md").read_text()
    )
    kept = json.loads(load(made, "samples", tmp_path)[1]["dialogue"])
    assert kept["messages"][1]["tool_calls"][0]["function"]["arguments"] == {"number": value}


def test_a_version_whose_rows_are_all_left_out_of_sft_loads(tmp_path: Path) -> None:
    """One config without files in the header, and `datasets` would load none of them."""
    made = published(tmp_path, toys.sample(arguments={"city": "Zürich", "n": 2**80}))
    assert "sft" not in made.manifest["configs"]
    assert len(load(made, "samples", tmp_path)) == 1
    assert '"samples", split="train"' in made.load_line
    card = (made.path / "README.md").read_text()
    assert '"samples", split="train")  # 1 row' in card
    assert '"sft", split=' not in card


def test_many_rows_make_numbered_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Files are named as the Hub expects, and load in order."""
    monkeypatch.setattr(tables, "ROWS_IN_FILE", 4)
    monkeypatch.setattr(tables, "ROWS_IN_GROUP", 2)
    made = published(tmp_path, *(toys.sample(toys.query(i)) for i in range(7)))
    names = sorted(path.name for path in (made.path / "sft").iterdir())
    assert names == [f"train-0000{i}-of-00002.parquet" for i in range(2)]
    assert pq.read_metadata(made.path / "sft" / names[0]).num_row_groups == 2
    assert [r["id"] for r in load(made, "sft", tmp_path)] == [f"q{i}" for i in range(7)]


async def test_a_run_is_published_once(tmp_path: Path) -> None:
    """Publishing a run again gives the version there is, also with another concurrency, key or
    budget; another run makes the next one."""
    for seed, version, fresh in ((0, "1.0.0", True), (1, "1.0.1", True), (0, "1.0.0", False)):
        model = {"concurrency": 9, "key_env": "KEY_9"} if not fresh else {}
        recipe = toys.recipe(seed=seed, model=model, budget={"max_requests": 100 + 9 * fresh})
        made = await make_dataset(recipe, outputs=tmp_path, stages=toys.STAGES)
        assert made.published
        assert (made.published.path.name, made.published.fresh) == (version, fresh)


def test_a_run_of_nothing_or_half_a_run_is_not_published(tmp_path: Path) -> None:
    """It says where to look for the reasons, or that it is not finished. What a version had already
    is nothing new."""
    with pytest.raises(PublishError, match="toolloom rejected toy-"):
        publish(finished_run(tmp_path / "empty", []), tmp_path)
    folder = finished_run(tmp_path / "half", [toys.sample()])
    (folder.path / "tested" / "done.json").unlink()
    with pytest.raises(PublishError, match="not finished"):
        publish(folder, tmp_path)
    with pytest.raises(PublishError, match="accepted nothing"):
        more(tmp_path, whole(tmp_path))


def test_two_datasets_are_two_to_the_loader(tmp_path: Path) -> None:
    """The loader caches by folder name: another dataset's `1.0.0` must not be loaded in its place."""
    for name, count in (("whole", 3), ("other", 1)):
        samples = [toys.sample(toys.query(number)) for number in range(count)]
        version = publish(finished_run(tmp_path, samples, name=name), tmp_path)
        assert len(load(version, "sft", tmp_path)) == count


def rows_of(published: Published, config: str, split: str = "train") -> list[Any]:
    return list(published.rows(config, split))


def whole(tmp_path: Path, **changes: Any) -> Published:
    """A version with two samples and nothing else."""
    samples = [toys.sample(), toys.sample(toys.query(1))]
    return publish(finished_runs.run(tmp_path, toys.recipe(**changes), samples), tmp_path)


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


def test_the_same_id_twice_is_an_error(tmp_path: Path) -> None:
    """A version never has two rows of one id."""
    first = more(tmp_path, whole(tmp_path), rows=finished_runs.expanded())
    with pytest.raises(PublishError, match="q0-x000000: is in `samples` of toy/1.1.0 already"):
        more(tmp_path, first, seed=2, rows=finished_runs.expanded())


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
    assert before.manifest["extended"]["run"] in after.manifest["runs"]
    figures = after.manifest["instructions"]["splits"]["train"]
    assert figures["sources"] == {"toolbench": 5}
    assert after.manifest["instructions"]["example"]["sample"] == "b1"


@pytest.mark.parametrize(
    ("config", "split", "before", "after", "kind"),
    [
        ("instructions", "test_tool", [], ["a"], "minor"),
        ("instructions", "test_tool", ["a"], ["b"], "major"),
        ("instructions", "train", ["a"], ["b"], "minor"),
        ("planning", "test_tool", [], ["a"], "minor"),
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
