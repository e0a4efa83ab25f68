import hashlib
import json
from itertools import islice
from pathlib import Path
from typing import Any

import datasets
import pyarrow.parquet as pq
import pytest
import toys
import yaml

from toolloom.pipeline import tables
from toolloom.pipeline.card import card as made_card
from toolloom.pipeline.card import cell, table
from toolloom.pipeline.configs import SFT, chat_message, encoded, training_row
from toolloom.pipeline.jsonl import read_objects, record_line
from toolloom.pipeline.publish import Published, publish
from toolloom.pipeline.runner import make_dataset
from toolloom.pipeline.splits import split_of_need
from toolloom.pipeline.stages import STAGES
from toolloom.pipeline.store import PlannedStage, RunFolder, Use
from toolloom.pipeline.tables import reads_back
from toolloom.pipeline.versions import find_version
from toolloom.schemas import (
    Ability,
    Intention,
    Message,
    NothingFound,
    PublishError,
    Reason,
    Rejected,
    Sample,
    Split,
    SplitPlan,
    StoreError,
)
from toolloom.schemas.recipe import public_recipe


def finished_run(
    outputs: Path, samples: list[Sample], rejected: list[Rejected] | None = None, **changes: Any
) -> RunFolder:
    """A run of one stage with the records given."""
    recipe = toys.recipe(**changes)
    folder = RunFolder(outputs / "runs" / recipe.run_id)
    folder.open(recipe, [PlannedStage.of(toys.TESTED)])
    folder.stage("tested").write_shard(
        0, map(record_line, samples), map(record_line, rejected or []), Use()
    )
    folder.stage("tested").finish(1, Sample, None)
    return folder


def load(published: Published, config: str, tmp_path: Path) -> list[Any]:
    """The rows, loaded as users load them."""
    loaded = datasets.load_dataset(
        str(published.path), config, split="train", cache_dir=str(tmp_path / "hf")
    )
    return list(loaded)


def published(tmp_path: Path, *samples: Sample) -> Published:
    return publish(finished_run(tmp_path, list(samples)), tmp_path)


def contents(folder: Path) -> dict[str, bytes]:
    return {str(p.relative_to(folder)): p.read_bytes() for p in folder.rglob("*") if p.is_file()}


async def test_a_run_becomes_a_dataset(tmp_path: Path) -> None:
    """Every config loads offline, with the rows the run counted."""
    made = await make_dataset(toys.recipe(), outputs=tmp_path, stages=toys.STAGES)
    assert made.published
    rows = {c: len(load(made.published, c, tmp_path)) for c in ("sft", "samples", "rejected")}
    assert rows == {"sft": 17, "samples": 17, "rejected": 4}
    [fallen] = datasets.load_dataset(
        str(made.published.path), "rejected", split="apis", cache_dir=str(tmp_path / "hf")
    )
    assert fallen["stage"] == "domains"


async def test_the_line_to_load_it_works(tmp_path: Path) -> None:
    """The printed line is Python that gives the training rows."""
    made = await make_dataset(toys.recipe(), outputs=tmp_path, stages=toys.STAGES)
    assert made.published
    assert len(eval(made.published.load_line, {"datasets": datasets})) == 17


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
    """A message has only its own keys, as chat templates ask whether a key is there; and content."""
    rows = load(published(tmp_path, toys.sample()), "sft", tmp_path)
    keys = [set(message) for message in rows[0]["messages"]]
    assert keys == [
        {"role", "content"},
        {"role", "content", "tool_calls"},
        {"role", "content", "tool_call_id", "name"},
        {"role", "content"},
    ]


def test_empty_text_is_a_value() -> None:
    """Empty content is not no content."""
    assert chat_message(Message(role="user", content=""))["content"] == ""


def test_tools_are_what_the_assistant_was_given() -> None:
    """The whole pool in `call`, API Search alone where APIs must be found."""
    call = toys.query(ability=Ability.CALL)
    search = toys.query(ability=Ability.RETRIEVE_CALL)
    names = [
        [t["function"]["name"] for t in training_row(toys.sample(q))["tools"]]
        for q in (call, search)
    ]
    assert names == [["weather_current", "weather_forecast"], ["api_search"]]


@pytest.mark.parametrize("value", [2**70, 1 / 3, -(2**64)])
def test_numbers_that_datasets_cannot_hold_are_only_in_samples(
    tmp_path: Path, value: float
) -> None:
    """A row that would load changed, or break the loading, is left out of training and counted."""
    odd = toys.sample(toys.query(1), {"number": value})
    assert not reads_back(encoded(SFT, training_row(odd)))
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


@pytest.mark.parametrize("configs", [[], {"sft": []}, {"sft": {"train": {"rows": 1}}}])
def test_a_manifest_without_its_files_is_damaged(tmp_path: Path, configs: Any) -> None:
    """Whoever opens it is told so, and what to do."""
    made = published(tmp_path, toys.sample())
    manifest = {**made.manifest, "configs": configs}
    (made.path / "manifest.json").write_text(json.dumps(manifest))
    with pytest.raises(StoreError, match="is damaged .* Bring the file back"):
        find_version(tmp_path, "toy")


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


def test_hashes_in_the_manifest_hold(tmp_path: Path) -> None:
    """Each file's SHA-256 is in the manifest."""
    made = published(tmp_path, toys.sample())
    splits = [split for config in made.manifest["configs"].values() for split in config.values()]
    sums = {name: told["sha256"] for split in splits for name, told in split["files"].items()}
    sums |= made.manifest["files"]
    assert set(sums) == set(contents(made.path)) - {"manifest.json", "SHA256SUMS"}
    for name, sha256 in sums.items():
        assert hashlib.sha256((made.path / name).read_bytes()).hexdigest() == sha256


def test_the_sums_can_be_checked_without_toolloom(tmp_path: Path) -> None:
    """SHA256SUMS names every other file, in the form of sha256sum."""
    made = published(tmp_path, toys.sample())
    lines = (made.path / "SHA256SUMS").read_text().splitlines()
    found = {name: digest for digest, _, name in (line.partition("  ") for line in lines)}
    files = {k: v for k, v in contents(made.path).items() if k != "SHA256SUMS"}
    assert found == {name: hashlib.sha256(data).hexdigest() for name, data in files.items()}


def test_the_card_maps_configs_to_files(tmp_path: Path) -> None:
    """The header is what the Hub reads, the body says who made it with which prompts."""
    card = (published(tmp_path, toys.sample()).path / "README.md").read_text()
    header = yaml.safe_load(card.split("---")[1])
    assert [c["config_name"] for c in header["configs"]] == ["sft", "samples", "apis"]
    assert header["size_categories"] == ["n<1K"]
    assert "| tested | query | toy-1 | abc123 |" in card


def test_text_cannot_break_out_of_the_card() -> None:
    """Model and user text in a table stays in its cell."""
    evil = "a | b\n---\nconfigs: []\n<script> [x](http://evil)"
    assert "\n" not in cell(evil)
    assert table(("x",), [(evil,)]).count("\n") == 2
    assert "\\<script\\>" in cell(evil)
    assert "\x1b" not in cell("\x1b[2J") and "\u202e" not in cell("\u202etxt")


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


def card_of(tmp_path: Path, use: Use, **changes: Any) -> str:
    """The card of a run of one accepted and one rejected record, which took so much."""
    recipe = toys.recipe(**changes)
    folder = RunFolder(tmp_path / "runs" / recipe.run_id)
    folder.open(recipe, [PlannedStage.of(toys.TESTED)])
    lost = toys.rejected(toys.query(1), "tested", Reason.UNHELPFUL_ANSWER)
    folder.stage("tested").write_shard(
        0, map(record_line, [toys.sample()]), map(record_line, [lost]), use
    )
    folder.stage("tested").finish(1, Sample, None)
    return (publish(folder, tmp_path).path / "README.md").read_text()


def test_the_card_tells_what_an_accepted_row_cost(tmp_path: Path) -> None:
    """All that was asked, for the rows that came of it; and how much the endpoint had cached."""
    use = Use(
        requests=9, prompt_tokens=8000, cached_tokens=2000, completion_tokens=100, cost=0.0123
    )
    model = {"base_url": "http://127.0.0.1:1/v1", "model": "m"}
    card = card_of(tmp_path, use, model=model, prices={"m": {"prompt": 1}})
    assert "sent 8,000 tokens, 25 % of them cached by the endpoint, and wrote 100." in card
    assert "cost $0.0123: $0.0123 for each accepted dialogue (API-Bank's agents: $0.1)" in card
    assert "| tested | tester | 1 | 1 | 9 | 8000 | 25 % | 100 | $0.0123 |" in card


def test_a_card_without_prices_has_no_dollars(tmp_path: Path) -> None:
    """Tokens are counted, and nothing is guessed."""
    card = card_of(tmp_path, Use(requests=9, prompt_tokens=8000))
    assert "sent 8,000 tokens" in card
    assert "$" not in card


def test_a_model_without_a_price_is_named(tmp_path: Path) -> None:
    """A cost that lacks a model says so."""
    model = {"base_url": "http://127.0.0.1:1/v1", "model": "m"}
    prices = {"judge": {"prompt": 1}}
    changes = {"agents": {"query": {"model": "judge"}}, "prices": prices, "model": model}
    assert "cost $0.500, without m:" in card_of(tmp_path, Use(requests=1, cost=0.5), **changes)


def test_a_run_with_nothing_accepted_is_not_published(tmp_path: Path) -> None:
    """It says where to look for the reasons."""
    folder = finished_run(tmp_path, [])
    with pytest.raises(PublishError, match="toolloom rejected toy-"):
        publish(folder, tmp_path)


def test_a_run_that_is_not_finished_is_not_published(tmp_path: Path) -> None:
    """Half a run is no dataset."""
    folder = finished_run(tmp_path, [toys.sample()])
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


NAMES = ["toy", "toy/1.0.0", "toy/latest", "toy/"]
PATHS = ["{outputs}/datasets/toy/1.0.0", "{outputs}/datasets/toy/latest"]


@pytest.mark.parametrize("name", NAMES + PATHS)
def test_a_dataset_is_found_by_what_people_type(tmp_path: Path, name: str) -> None:
    """By name, name and version, or path."""
    published(tmp_path, toys.sample())
    assert find_version(tmp_path, name.format(outputs=tmp_path)).label == "toy/1.0.0"


@pytest.mark.parametrize("name", ["tox", "toy/1.0.1", "", "../datasets/toy", "a\x00b", "a" * 5_000])
def test_a_dataset_that_is_not_there_is_named(tmp_path: Path, name: str) -> None:
    """The error lists what there is."""
    published(tmp_path, toys.sample())
    with pytest.raises(NothingFound, match="toy/1.0.0"):
        find_version(tmp_path, name)


def in_city(city: str) -> Sample:
    """A sample whose calls, and so whose split, depend on the city."""
    intent = (Intention(api=toys.api().id, arguments={"city": city}),)
    return toys.sample(toys.query(intent=intent, id=city, text=f"What is it like in {city}?"))


def in_split(split: Split, count: int) -> list[Sample]:
    """Samples that are in a split, of three quarters train and one quarter test."""
    plan = SplitPlan(train=0.75, test_instruction=0.25, validation=0, test_tool=0, test_category=0)
    cities = (in_city(f"City {number}") for number in range(1000))
    found = (s for s in cities if split_of_need(plan, s.dialogue.query) is split)
    return list(islice(found, count))


PLAN = {
    "train": 0.75,
    "test_instruction": 0.25,
    **dict.fromkeys(("validation", "test_tool", "test_category"), 0),
}


@pytest.mark.parametrize(
    ("train", "test", "plan", "number"),
    [
        (3, 2, PLAN, "1.0.1"),  # nothing but the description
        (4, 2, PLAN, "1.1.0"),
        (3, 1, PLAN, "2.0.0"),
        (3, 0, PLAN, "2.0.0"),
        (3, 2, {**PLAN, "train": 0.7500001}, "2.0.0"),
    ],
)
def test_a_number_tells_what_changed(
    tmp_path: Path, train: int, test: int, plan: dict[str, float], number: str
) -> None:
    """The last part: no rows; the second: what is trained on; the first: a test or the plan."""
    seen, new = in_split(Split.TRAIN, 4), in_split(Split.TEST_INSTRUCTION, 2)
    first = publish(finished_run(tmp_path, [*seen[:3], *new], splits=PLAN), tmp_path)
    rows = [*seen[:train], *new[:test]]
    changes = {"splits": plan, "description": "another"}
    made = publish(finished_run(tmp_path, rows, **changes), tmp_path)
    assert (first.version.number, made.version.number) == ("1.0.0", number)
    assert made.manifest["parent"]["version"] == "1.0.0"
    assert (tmp_path / "datasets" / "toy" / "latest").readlink() == Path(number)


def test_a_new_test_split_disturbs_nobody(tmp_path: Path) -> None:
    """Rows for a split that had none change no figure anyone has."""
    seen, new = in_split(Split.TRAIN, 1), in_split(Split.TEST_INSTRUCTION, 1)
    publish(finished_run(tmp_path, seen, splits=PLAN), tmp_path)
    made = publish(finished_run(tmp_path, [*seen, *new], splits=PLAN, seed=1), tmp_path)
    assert made.version.number == "1.1.0"


def test_rows_are_in_the_split_of_their_calls(tmp_path: Path) -> None:
    """Each config has the splits that have rows, with the same rows."""
    rows = [*in_split(Split.TRAIN, 3), *in_split(Split.TEST_INSTRUCTION, 2)]
    version = publish(finished_run(tmp_path, rows, splits=PLAN), tmp_path).version
    for config in ("sft", "samples"):
        assert version.splits(config) == ["train", "test_instruction"]
    assert [s.id for s in version.samples("test_instruction")] == [r.id for r in rows[3:]]
    assert [s.id for s in version.samples()] == [r.id for r in rows]


def test_a_row_that_shows_a_held_out_api_is_not_published(tmp_path: Path) -> None:
    """Not even as a distractor; the error names the row and the API."""
    shown = toys.query(pool=(toys.api(), toys.api("music")))
    plan = {**PLAN, "test_tool": 0.1, "unseen": ["music/station"]}
    with pytest.raises(PublishError, match="q0: is of the split .* shows music/station/current"):
        publish(finished_run(tmp_path, [toys.sample(shown)], splits=plan), tmp_path)
    assert not list((tmp_path / "datasets" / "toy").glob("[0-9.]*.*"))


def test_held_out_apis_are_in_the_split_of_their_test(tmp_path: Path) -> None:
    """The config `apis` has them apart, with their licence and source."""
    unseen = toys.api("music")
    intent = (Intention(api=unseen.id, arguments={"city": "Rome"}),)
    tested = toys.query(1, pool=(toys.api(), unseen), intent=intent)
    plan = {**PLAN, "unseen": ["music/station"]}
    version = publish(
        finished_run(tmp_path, [toys.sample(), toys.sample(tested)], splits=plan), tmp_path
    ).version
    assert [row["id"] for row in version.rows("apis", "test_tool")] == [unseen.id]
    assert [s.id for s in version.samples("test_tool")] == ["q1"]


def test_a_dataset_of_a_newer_layout_is_refused(tmp_path: Path) -> None:
    """It says so, and nothing is made beside it."""
    made = published(tmp_path, toys.sample())
    manifest = {**made.manifest, "layout": 3}
    (made.path / "manifest.json").write_text(json.dumps(manifest))
    with pytest.raises(StoreError, match="newer toolloom \\(layout 3; this one reads 2\\)"):
        find_version(tmp_path, "toy")
    with pytest.raises(StoreError, match="newer toolloom"):
        publish(finished_run(tmp_path, [in_city("Bern")], seed=1), tmp_path)
    assert sorted(p.name for p in made.path.parent.iterdir()) == [".lock", "1.0.0", "latest"]


def test_a_damaged_table_is_named(tmp_path: Path) -> None:
    """Reading it raises an error that says which file."""
    version = published(tmp_path, toys.sample()).version
    [file] = version.files("samples", "train")
    file.write_bytes(file.read_bytes()[:-9])
    with pytest.raises(StoreError, match=r"samples/train-00000-of-00001\.parquet: is damaged"):
        list(version.samples())


def test_the_card_is_made_of_the_manifest(tmp_path: Path) -> None:
    """So that it can be made again from the file, and compared."""
    made = published(tmp_path, toys.sample())
    manifest = json.loads((made.path / "manifest.json").read_bytes())
    assert made_card(manifest) == (made.path / "README.md").read_text()


@pytest.mark.parametrize("name", ["../other/x.parquet", "/etc/passwd", "samples/train.parquet"])
def test_a_manifest_names_no_file_elsewhere(tmp_path: Path, name: str) -> None:
    """Versions are copied between machines: a path that leads out of one is never followed."""
    made = published(tmp_path, toys.sample())
    files = made.manifest["configs"]["samples"]["train"]["files"]
    files[name] = files.pop(next(iter(files)))
    (made.path / "manifest.json").write_text(json.dumps(made.manifest))
    with pytest.raises(StoreError, match="do not name files by split"):
        find_version(tmp_path, "toy")


@pytest.mark.parametrize("action", ["drop", "flag"])
async def test_overlaps_with_benchmarks_are_on_the_card(tmp_path: Path, action: str) -> None:
    """The matching pairs are in a file of their own, and the first of them on the card."""
    benchmark = tmp_path / "bench.jsonl"
    benchmark.write_text(json.dumps({"question": "what is the weather in ZÜRICH (4)"}) + "\n")
    plan = {"against": [str(benchmark)], "contaminated": action}
    decontaminated = next(stage for stage in STAGES if stage.name == "decontaminated")
    made = await make_dataset(
        toys.recipe(curation=plan), outputs=tmp_path, stages=(*toys.STAGES, decontaminated)
    )
    assert made.published
    version = made.published.version
    [pair] = read_objects(version.path / "contamination.jsonl")
    assert (pair["id"], pair["dropped"]) == ("q4", action == "drop")
    assert version.manifest["contamination"]["examples"] == [pair]
    assert "| q4 | " in (version.path / "README.md").read_text()
    assert len(list(version.samples())) == (16 if action == "drop" else 17)
