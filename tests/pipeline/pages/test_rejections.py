import json
from collections.abc import Sequence
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from support import finished_runs, toys

from toolloom.pipeline.dataset.publish import publish
from toolloom.pipeline.pages.rejections import (
    COLUMNS,
    Neighbourhood,
    RejectedSample,
    counts,
    frame,
    over_versions,
    rows_of,
    whole,
)
from toolloom.pipeline.run import make_dataset
from toolloom.pipeline.store.version import Version, find_version, open_version
from toolloom.schemas import Intention, Provenance, Query, Reason, Sample, StoreError


async def toy_version(outputs: Path, seed: int = 0) -> Version:
    """Two queries fall in `queries`, two in `tested`, one domain before them."""
    await make_dataset(toys.recipe(seed=seed), outputs=outputs, stages=toys.STAGES)
    return find_version(outputs, "toy")


async def test_a_row_tells_what_it_is_of(tmp_path: Path) -> None:
    """Ability, category, words, model and prompts are those of the record that fell; by its place
    all that was kept of that is read: dialogue, findings, raw responses."""
    version = await toy_version(tmp_path)
    rows = {row.id: row for row in rows_of(version)}
    query = rows["q5"]
    assert (query.ability, query.categories) == ("plan_retrieve_call", ("c1",))
    assert query.text == "What is the weather in Zürich? (5)"
    assert (query.model, query.prompts, query.check) == ("toy-1", ("abc123",), "toy")
    assert [row.ability for row in rows.values() if row.stage == "domains"] == [""]
    for row in rows.values():
        found = whole(version, "rejected", row.split, row.index)
        assert (found["id"], found["reason"]) == (row.id, row.reason)
        assert isinstance(found["record"], dict)
        assert found["raw"] == ['{"raw": "answer"}']


def test_the_model_is_that_of_the_work(tmp_path: Path) -> None:
    """Of a dialogue that a check or a vote rejects it is the simulator's, not the tester's."""
    voted = Provenance(stage="tested", agent="tester", model="judge-1", prompts=("f00",), seed=0)
    fallen = toys.rejected(toys.sample(), "tested", Reason.UNHELPFUL_ANSWER)
    fallen = fallen.model_copy(update={"provenance": (voted,)})
    run = finished_runs.run(
        tmp_path, toys.recipe(), [toys.sample(toys.query(1))], rejected=[fallen]
    )
    (row,) = rows_of(open_version(publish(run, tmp_path).path))
    assert (row.model, row.values("prompt")) == ("toy-1", ("earlier text abc123",))


async def test_a_key_outlives_its_version(tmp_path: Path) -> None:
    """A record that is kept has the same key in the next version; other content has another."""
    first = {row.key for row in rows_of(await toy_version(tmp_path))}
    second = {row.key for row in rows_of(await toy_version(tmp_path, seed=1))}
    assert len(first) == 5
    assert first == second  # the toys' records do not depend on the seed
    fallen = [toys.rejected(toys.sample(), "tested", r) for r in (Reason.NO_API_CALL,)]
    other = fallen[0].model_copy(update={"detail": "Another fault."})
    run = finished_runs.run(
        tmp_path / "b", toys.recipe(), [toys.sample()], rejected=[*fallen, other]
    )
    assert len({row.key for row in rows_of(open_version(publish(run, tmp_path / "b").path))}) == 2


def row(**changes: object) -> RejectedSample:
    fields = dict.fromkeys(("key", "version", "id", "stage", "agent", "model", "reason"), "x")
    return RejectedSample(**{**fields, "split": "train", "index": 0, "check": "c", **changes})


def test_several_values_count_each() -> None:
    """A record of two categories counts in both, one of none under a dash."""
    rows = [row(categories=("a", "b")), row(categories=("b",)), row()]
    assert counts(rows, "category") == {"b": 2, "a": 1, "–": 1}


def test_a_table_shows_what_cannot_be_seen() -> None:
    """Control characters stand in a table as their codes."""
    (line,) = frame([row(text="\x1b[31mred", agent="")]).to_dict("records")
    assert (line["text"], line["agent"]) == ("\\x1b[31mred", "–")
    assert row(prompts=("\ud800",)).values("prompt") == ("earlier text \\ud800",)
    assert set(COLUMNS) < set(line)


async def test_versions_are_told_by_their_manifests_and_tables(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Reasons by version come from the manifests and are those of the rows.

    A dataset that grows each night has hundreds: the newest are compared.
    """
    monkeypatch.setattr("toolloom.pipeline.pages.rejections.MOST_VERSIONS", 2)
    for seed in (0, 1, 2):
        version = await toy_version(tmp_path, seed)
    reasons = over_versions(version.path.parent)
    assert len(reasons) == 2
    assert [*reasons][-1] == version.number
    assert reasons[version.number] == counts(rows_of(version), "reason")
    agents = over_versions(version.path.parent, "agent")
    assert [sum(one.values()) for one in agents.values()] == [5, 5]


async def test_rows_that_are_not_told_are_damage(tmp_path: Path) -> None:
    """A manifest that tells of another number of rejected records, or nothing of a split, is not
    believed."""
    version = await toy_version(tmp_path)
    version.manifest["splits"]["train"]["rejected"] += 1
    with pytest.raises(StoreError, match="tells of 5 rejected records of train, its files hold 4"):
        rows_of(version)
    del version.manifest["splits"]["train"]
    with pytest.raises(StoreError, match="tells of 0 rejected records of train, its files hold 4"):
        rows_of(version)


async def test_damage_is_told(tmp_path: Path) -> None:
    """A row that lacks a value and a manifest of another shape are named, without a traceback."""
    version = await toy_version(tmp_path)
    odd = {**version.manifest, "splits": {"train": {"rejected": "x", "reasons": [1]}}}
    for told in (odd, {**odd, "splits": 3}):
        damaged = Version(version.path, told)
        with pytest.raises(StoreError, match="manifest.json: is damaged .*toolloom verify"):
            rows_of(damaged)
    (version.path / "manifest.json").write_text(json.dumps({**odd, "splits": {"train": [1]}}))
    with pytest.raises(StoreError, match="manifest.json: is damaged"):
        over_versions(version.path.parent)
    [path] = version.files("rejected", "train")
    table = pq.read_table(path)
    lost = pa.nulls(len(table), pa.string())
    pq.write_table(table.set_column(table.schema.get_field_index("reason"), "reason", lost), path)
    with pytest.raises(StoreError, match="the row q.* is damaged"):
        rows_of(version)


def asked(number: int, text: str, name: str = "current", category: str = "weather") -> Query:
    one = toys.api(category, name)
    intent = (Intention(api=one.id, arguments={"city": "Zürich"}),)
    return toys.query(number, text=text, pool=(one,), intent=intent)


def near(outputs: Path, fallen: Query, queries: Sequence[Query], count: int = 2) -> list[str]:
    """Ids and what they share of the neighbours of a rejected record."""
    samples: list[Sample] = [toys.sample(query) for query in queries]
    rejected = [toys.rejected(toys.sample(fallen), "tested", Reason.UNHELPFUL_ANSWER)]
    run = finished_runs.run(outputs, toys.recipe(), samples, rejected=rejected)
    version = open_version(publish(run, outputs).path)
    (row,) = rows_of(version)
    found = Neighbourhood(version).near(row, count)
    return [f"{one.sample['dialogue']['query']['id']} {one.shares}".strip() for one in found]


def test_the_same_api_comes_before_the_nearest_words(tmp_path: Path) -> None:
    """First those of its API, then those of its category, then the nearest of the others."""
    fallen = asked(0, "Is it raining in Bern now?")
    others = [
        asked(1, "Is it raining in Bern now?", category="news"),
        asked(2, "Will it snow?", name="forecast"),
        asked(3, "Tell me something else entirely"),
    ]
    assert near(tmp_path, fallen, others, 3) == ["q3 API", "q2 category", "q1"]


def test_of_one_api_the_nearest_words_come_first(tmp_path: Path) -> None:
    """Words count in any order and any case."""
    fallen = asked(0, "Is it raining in Bern now?")
    others = [asked(1, "How warm was Geneva?"), asked(2, "NOW in Bern: is it raining")]
    assert near(tmp_path, fallen, others) == ["q2 API", "q1 API"]


def test_rows_of_one_template_are_shown_once(tmp_path: Path) -> None:
    """Of texts that differ in a value alone one is enough."""
    long = "I am planning a trip and would like to know how warm it is at present in the town of"
    others = [*(asked(n, f"{long} {c}") for n, c in enumerate(("Bern", "Chur"), 1)), asked(3, "Hm")]
    assert near(tmp_path, asked(0, f"{long} Olten"), others) == ["q1 API", "q3 API"]


def test_there_may_be_none(tmp_path: Path) -> None:
    """A request with no words has the neighbours of its API, and not more than there are."""
    assert near(tmp_path, asked(0, "…"), [asked(1, "Hello")], 5) == ["q1 API"]
