import hashlib
import json
from pathlib import Path
from typing import Any

import datasets
import pyarrow.parquet as pq
import pytest
from support import toys
from support.finished_runs import finished_run, published

from toolloom.pipeline.dataset.publish import Published, publish
from toolloom.pipeline.dataset.rows import SFT, sft_row
from toolloom.pipeline.run import make_dataset
from toolloom.pipeline.store import tables
from toolloom.schemas import Ability, JsonObject, PublishError, Sample
from toolloom.schemas.recipe import public_recipe


def load(published: Published, config: str, tmp_path: Path, split: str = "train") -> list[Any]:
    """The rows, loaded as users load them."""
    cache = str(tmp_path / "hf")
    return list(datasets.load_dataset(str(published.path), config, split=split, cache_dir=cache))


def contents(folder: Path) -> dict[str, bytes]:
    return {str(p.relative_to(folder)): p.read_bytes() for p in folder.rglob("*") if p.is_file()}


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
    return sft_row(sample.model_dump(mode="json"))


def test_tools_are_what_the_assistant_was_given() -> None:
    """The whole pool in `call`, API Search alone where APIs must be found."""
    for ability, names in (
        (Ability.CALL, ["weather_current", "weather_forecast"]),
        (Ability.RETRIEVE_CALL, ["api_search"]),
    ):
        tools = training_row(toys.sample(toys.query(ability=ability)))["tools"]
        assert [tool["function"]["name"] for tool in tools] == names


@pytest.mark.parametrize("value", [2**70, 1 / 3, -(2**64)])
def test_numbers_that_datasets_cannot_hold_are_only_in_samples(
    tmp_path: Path, value: float
) -> None:
    """A row that would load changed, or break the loading, is left out of training and counted."""
    odd = toys.sample(toys.query(1), {"number": value})
    assert not SFT.holds(SFT.encode(training_row(odd)))
    made = published(tmp_path, toys.sample(), odd)
    assert [row["id"] for row in load(made, "sft", tmp_path)] == ["q0"]
    assert made.manifest["configs"]["sft"]["train"]["left_out"] == 1
    kept = json.loads(load(made, "samples", tmp_path)[1]["dialogue"])
    assert kept["messages"][1]["tool_calls"][0]["function"]["arguments"] == {"number": value}


def test_a_version_whose_rows_are_all_left_out_of_sft_loads(tmp_path: Path) -> None:
    """One config without files in the header, and `datasets` would load none of them."""
    made = published(tmp_path, toys.sample(arguments={"city": "Zürich", "n": 2**80}))
    assert made.manifest["configs"]["sft"]["train"]["rows"] == 0
    assert len(load(made, "samples", tmp_path)) == 1
    assert '"samples", split="train"' in made.load_line
    card = (made.path / "README.md").read_text()
    assert '"samples", split="train")  # 1 rows' in card
    assert '"sft", split=' not in card


def test_a_sample_can_be_rebuilt(tmp_path: Path) -> None:
    """The samples config holds the whole record."""
    sample = toys.sample()
    row = load(published(tmp_path, sample), "samples", tmp_path)[0]
    parts = {key: json.loads(row[key]) for key in ("dialogue", "verdict", "flags", "provenance")}
    assert Sample.model_validate(parts) == sample


def test_a_dataset_without_rejects_has_no_such_config(tmp_path: Path) -> None:
    """`datasets` cannot load a split without rows, so there is none."""
    made = published(tmp_path, toys.sample())
    assert set(made.manifest["configs"]) == {"sft", "samples", "apis"}
    assert "Nothing." in (made.path / "README.md").read_text()


def test_many_rows_make_numbered_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Files are named as the Hub expects, and load in order."""
    monkeypatch.setattr(tables, "ROWS_IN_FILE", 4)
    monkeypatch.setattr(tables, "ROWS_IN_GROUP", 2)
    made = published(tmp_path, *(toys.sample(toys.query(i)) for i in range(7)))
    names = sorted(path.name for path in (made.path / "sft").iterdir())
    assert names == [f"train-0000{i}-of-00002.parquet" for i in range(2)]
    assert pq.read_metadata(made.path / "sft" / names[0]).num_row_groups == 2
    assert [r["id"] for r in load(made, "sft", tmp_path)] == [f"q{i}" for i in range(7)]


async def test_equal_runs_publish_equal_bytes(tmp_path: Path) -> None:
    """No time, no path and no order of arrival is in what is published."""
    for name in ("a", "b"):
        await make_dataset(toys.recipe(), outputs=tmp_path / name, stages=toys.STAGES)
    one, two = (contents(tmp_path / name / "datasets" / "toy" / "1.0.0") for name in ("a", "b"))
    assert one == two
    assert set(one) >= {"README.md", "manifest.json"}


async def test_a_run_is_published_once(tmp_path: Path) -> None:
    """Publishing a run again gives the version there is; another run makes the next one."""
    for seed, version, fresh in ((0, "1.0.0", True), (1, "1.0.1", True), (0, "1.0.0", False)):
        recipe = toys.recipe(seed=seed)
        made = await make_dataset(recipe, outputs=tmp_path, stages=toys.STAGES)
        assert made.published
        assert (made.published.path.name, made.published.fresh) == (version, fresh)


def test_hashes_hold_and_can_be_checked_without_toolloom(tmp_path: Path) -> None:
    """SHA256SUMS names every other file, in the form of sha256sum; the manifest all but itself."""
    made = published(tmp_path, toys.sample())
    hashes = {n: hashlib.sha256(data).hexdigest() for n, data in contents(made.path).items()}
    del hashes["SHA256SUMS"]
    lines = (made.path / "SHA256SUMS").read_text().splitlines()
    assert {name: sum_ for sum_, _, name in (line.partition("  ") for line in lines)} == hashes
    del hashes["manifest.json"]
    splits = [split for config in made.manifest["configs"].values() for split in config.values()]
    sums = {name: told["sha256"] for split in splits for name, told in split["files"].items()}
    assert {**sums, **made.manifest["files"]} == hashes


def test_passwords_in_addresses_are_not_published() -> None:
    """User name and password of a base URL stay at home, wherever a recipe has one."""
    place = {"base_url": "https://me:pass@host/v1", "model": "m"}
    replicated = {**place, "replicas": [{"base_url": place["base_url"]}]}
    recipe = toys.recipe(
        model=replicated, agents={"tester": replicated}, search={"embeddings": replicated}
    )
    text = json.dumps(public_recipe(recipe))
    assert "pass@" not in text
    assert text.count("https://host/v1") == 6


async def test_how_a_run_is_done_makes_no_other_version(tmp_path: Path) -> None:
    """Another concurrency, key or budget goes on with the run, and finds what it published."""
    for concurrency, fresh in ((2, True), (9, False)):
        model = {"concurrency": concurrency, "key_env": f"KEY_{concurrency}"}
        recipe = toys.recipe(model=model, budget={"max_requests": 100 * concurrency})
        made = await make_dataset(recipe, outputs=tmp_path, stages=toys.STAGES)
        assert made.published
        assert (made.published.path.name, made.published.fresh) == ("1.0.0", fresh)


def test_a_run_of_nothing_or_half_a_run_is_not_published(tmp_path: Path) -> None:
    """It says where to look for the reasons, or that it is not finished."""
    with pytest.raises(PublishError, match="toolloom rejected toy-"):
        publish(finished_run(tmp_path / "empty", []), tmp_path)
    folder = finished_run(tmp_path / "half", [toys.sample()])
    (folder.path / "tested" / "done.json").unlink()
    with pytest.raises(PublishError, match="not finished"):
        publish(folder, tmp_path)


def test_a_killed_publishing_leaves_no_version(tmp_path: Path) -> None:
    """What a killed process left is neither found nor in the way."""
    left = tmp_path / "datasets" / "toy" / ".building" / "sft"
    left.mkdir(parents=True)
    (left / "0.parquet").write_text("half")
    made = published(tmp_path, toys.sample())
    assert made.path.name == "1.0.0"
    assert sorted(p.name for p in made.path.parent.iterdir()) == [".lock", "1.0.0", "latest"]
