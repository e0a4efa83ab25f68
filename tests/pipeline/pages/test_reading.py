"""A version read once: what is counted and drawn, what damage is told, and its funnel."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st
from support import finished_runs, toys

from toolloom.pipeline.dataset.publish import publish
from toolloom.pipeline.dataset.report import Counts, StageCount
from toolloom.pipeline.pages.reading import (
    INSTRUCTED,
    TEMPLATES,
    WRITTEN,
    Funnel,
    Histogram,
    SampleDraw,
    distinct,
    diversity,
    funnel,
    nearest,
    read,
    rows_of,
)
from toolloom.pipeline.pages.report import page
from toolloom.pipeline.store.version import Version, open_version
from toolloom.schemas import Reason, StoreError, Usage


def version(folder: Path, **kinds: Any) -> Version:
    samples = [toys.sample(toys.query(number)) for number in range(4)]
    return publish(finished_runs.run(folder, toys.recipe(), samples, **kinds), folder).version


def whole(folder: Path) -> Version:
    fallen = [toys.rejected(toys.sample(), "rewritten", Reason.OFF_PATH)]
    kinds: Any = {"rows": finished_runs.expanded(), "instructions": finished_runs.levels()}
    return version(folder, rejected=fallen, **kinds)


def test_all_rows_are_counted(tmp_path: Path) -> None:
    """Those that agents wrote and those of templates, what fell, instructions, APIs."""
    made, ticks = whole(tmp_path), [0]
    seen = read(made, lambda: ticks.append(1))
    assert (seen.all.rows, seen.expanded) == (7, 3)
    assert dict(seen.fallen) == {("off_path", "rewritten"): 1}
    assert seen.levels.total() == 5
    assert {*seen.apis.values()} == {"weather"}
    assert {name: draw.seen for name, draw in seen.requests.items()} == {
        WRITTEN: 4,
        TEMPLATES: 3,
        INSTRUCTED: 5,
    }
    assert sum(ticks) == rows_of(made)


def test_lengths_are_measured(tmp_path: Path) -> None:
    """A toy sample has a turn, four messages, and a request of seven words."""
    lengths = read(version(tmp_path)).lengths
    assert dict(lengths["words of the request"]) == {7: 4}
    assert dict(lengths["turns of the user"]) == {1: 4}
    assert dict(lengths["messages"]) == {4: 4}
    # 35 bytes are asked, 61 called, 43 observed, 12 answered; a token is about four of them.
    assert dict(lengths["tokens of the dialogue"]) == {37: 4}


def test_figures_that_the_rows_do_not_have_are_an_error(tmp_path: Path) -> None:
    """A report that contradicts the card would be worse than none."""
    made = whole(tmp_path)
    manifest = json.loads((made.path / "manifest.json").read_text())
    manifest["splits"]["train"]["abilities"]["call"] += 1
    (made.path / "manifest.json").write_text(json.dumps(manifest))
    with pytest.raises(StoreError, match="`abilities` of train is not what the rows have"):
        read(open_version(made.path))


@pytest.mark.parametrize(
    ("config", "column", "text", "message"),
    [
        ("samples", "dialogue", "{}", "row q0 is damaged .*toolloom verify toy/1.0.0"),
        ("rejected", "reason", None, "is damaged .*`reason` is no text"),
    ],
)
def test_a_damaged_row_is_named(
    tmp_path: Path, config: str, column: str, text: str | None, message: str
) -> None:
    """And the command that tells more. What is counted by is never empty."""
    made = whole(tmp_path)
    [path] = made.files(config, "train")
    table = pq.read_table(path)
    texts = pa.array([text, *table.column(column).to_pylist()[1:]], pa.string())
    place = table.schema.get_field_index(column)
    pq.write_table(table.set_column(place, column, texts), path)
    with pytest.raises(StoreError, match=message):
        read(made)


@pytest.mark.parametrize(
    ("key", "odd"),
    [
        ("splits", 3),
        ("splits", {"train": [1]}),
        ("runs", {"x": {"recipe": [1]}}),
        ("runs", {"x": {"counts": {"stages": 3}}}),
        ("apis", 3.5),
    ],
)
def test_a_damaged_manifest_is_told(tmp_path: Path, key: str, odd: object) -> None:
    """Of whatever shape it is, there is a message with its name; also where rows are counted for
    the command's progress, before anything is read."""
    made = whole(tmp_path)
    rows = made.manifest["configs"]["samples"]["train"].pop("rows")
    with pytest.raises(StoreError, match=r"manifest.json: is damaged"):
        rows_of(made)
    made.manifest["configs"]["samples"]["train"]["rows"] = rows
    made.manifest[key] = odd
    with pytest.raises(StoreError, match="manifest.json: .*damaged"):
        page(made, read(made))


def drawn(names: list[str], size: int) -> list[str]:
    draw = SampleDraw[str](size)
    for name in names:
        draw.offer(name, name)
    return draw.items()


@given(st.permutations([f"row {n}" for n in range(40)]))
def test_the_order_of_rows_decides_nothing(names: list[str]) -> None:
    """The same rows are drawn, in the same order, whoever came first."""
    assert drawn(names, 7) == drawn(sorted(names), 7)


def test_a_draw_keeps_no_more_than_it_was_told() -> None:
    """Of a thousand rows seven, each once; of four rows all."""
    many = drawn([f"row {n}" for n in range(1000)], 7)
    assert len({*many}) == 7
    assert sorted(drawn(["a", "b", "c", "d"], 7)) == ["a", "b", "c", "d"]


def test_rows_of_one_name_are_both_there() -> None:
    """Ids may repeat among rejected records; the first ones stay, and items are not compared."""
    draw = SampleDraw[dict[str, int]](2)
    for n in range(3):
        draw.offer("same", {"n": n})
    assert draw.items() == [{"n": 0}, {"n": 1}]


def test_a_kind_is_spread_over_its_sorts() -> None:
    """A rare sort is among the few that are shown, however frequent another one is."""
    spread = Histogram[str](4)
    for n in range(100):
        spread.offer("call", "single", f"single {n}", "single")
    spread.offer("call", "parallel", "p", "parallel")
    spread.offer("search", "single", "s", "other kind")
    assert sorted(spread.items("call")) == ["parallel", "single", "single", "single"]
    assert spread.seen() == {"call": 101, "search": 1}
    assert spread.items("unknown") == []


TEXTS = [["a", "b", "a"], ["a", "b"]]


@pytest.mark.parametrize(("n", "share"), [(1, 2 / 5), (2, 2 / 3), (3, 1.0), (4, 0.0)])
def test_distinct_n_is_the_share_of_different_n_grams(n: int, share: float) -> None:
    """Of 5 words 2 are different, of 3 pairs 2; n-grams do not reach from one text into another."""
    assert distinct(TEXTS, n) == pytest.approx(share)


def test_nearest_is_the_likeness_of_the_most_alike_other_text() -> None:
    """One letter of four differs: of eight letters two must go, so 75; never the text itself."""
    assert nearest(["abcd", "abce", "wxyz"]) == (75, 75, 0)
    assert nearest(["same", "same", "other"])[:2] == (100, 100)
    assert nearest(["alone"]) == nearest([]) == ()


def test_requests_are_compared_without_case_and_punctuation() -> None:
    """As near-duplicates are: what differs in nothing else is the same."""
    found = diversity(["Rain in Zürich?", "rain in zurich"], of=7)
    assert found.nearest == (100, 100)
    assert (found.mean, found.near) == (100, 1.0)
    assert (found.of, found.drawn) == (7, 2)
    assert found.distinct == {1: 0.5, 2: 0.5, 3: 0.5}


def test_scripts_without_spaces_have_a_word_for_each_letter() -> None:
    """Otherwise each sentence would be one word, and all of them distinct."""
    assert diversity(["天気天気", "北京 2 days"]).distinct[1] == pytest.approx(6 / 8)


def test_nothing_is_not_diverse() -> None:
    """No requests, no figures, and no division by zero."""
    found = diversity([])
    assert (found.mean, found.near, found.distinct[1]) == (None, 0.0, 0.0)


@given(st.lists(st.text(max_size=20), max_size=8))
def test_figures_do_not_depend_on_the_order(texts: list[str]) -> None:
    """Whatever the texts hold, the order in which they come decides nothing."""
    one, other = diversity(texts), diversity(texts[::-1])
    assert one.distinct == other.distinct
    assert sorted(one.nearest) == sorted(other.nearest)


def stage(name: str, accepted: int, rejected: int = 0, **changes: Any) -> StageCount:
    use = Usage(requests=2, prompt_tokens=10, cached_tokens=5, completion_tokens=3, cost=0.5)
    fields = {"finished": True, "reasons": {}, "use": use, **changes}
    return StageCount(name=name, accepted=accepted, rejected=rejected, **fields)


def counts(*stages: StageCount, **changes: Any) -> Any:
    none: dict[str, Any] = {name: {} for name in ("abilities", "scenarios", "categories")}
    none |= {"apis": 0, "several_turns": 0, "use": Usage()}
    made = Counts(stages=stages, **none, **changes)
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
